/* SPDX-License-Identifier: MIT */
/* MPI loaded at run time: neither mpi.h nor mpicc is needed, and a program that never asks for it
 * never loads it. Three binary interfaces are in use: Open MPI's (handles are addresses of its own
 * objects), MPICH's and its relatives' (handles are int) and the standard one of MPI 5 (handles are
 * small constants of the size of a pointer). */
#ifndef BP_DEVICE_FABRIC_MPI_LIBRARY_H
#define BP_DEVICE_FABRIC_MPI_LIBRARY_H

#include "core/base/error.h"
#include "device/fabric/launcher.h"
#include "device/fabric/tcp.h"

typedef union bp_mpi_handle {
    int number;
    void *pointer;
} bp_mpi_handle;

typedef void (*bp_mpi_entry)(void);

typedef enum bp_mpi_name {
    BP_MPI_INIT_THREAD,
    BP_MPI_FINALIZE,
    BP_MPI_ABORT,
    BP_MPI_COMM_RANK,
    BP_MPI_COMM_SIZE,
    BP_MPI_COMM_SET_ERRHANDLER,
    BP_MPI_GET_LIBRARY_VERSION,
    BP_MPI_ERROR_STRING,
    BP_MPI_ISEND,
    BP_MPI_IRECV,
    BP_MPI_TEST,
    BP_MPI_NAMES
} bp_mpi_name;

typedef struct bp_mpi_library {
    const char *file;
    bp_tcp *tcp;  /* what moves messages without MPI, connected; NULL: MPI does */
    bool numbers; /* handles are int */
    int funneled; /* MPI_THREAD_FUNNELED */
    void *ignore; /* MPI_STATUS_IGNORE */
    bp_mpi_handle world, byte, errors_return;
    bp_mpi_entry entries[BP_MPI_NAMES];
} bp_mpi_library;

/* Loads `file`, or (NULL) the first that is there of those that go with the launcher. Calls nothing
 * of MPI but MPI_Abi_get_version. BP_ERR_DEVICE: there is none, or it is no MPI. `file` stays. */
bp_status bp_mpi_library_load(bp_mpi_library *library, const char *file, bp_launcher_kind launcher,
                              bp_error *error) BP_MUST_CHECK;

/* MPI's calls by their names, over bytes and MPI_COMM_WORLD; each returns MPI's result, 0 for
 * success. All of them by one thread, the one that called init. */
int bp_mpi_init(const bp_mpi_library *library, int *provided);
int bp_mpi_finalize(const bp_mpi_library *library);
int bp_mpi_abort(const bp_mpi_library *library, int code);
int bp_mpi_rank(const bp_mpi_library *library, int *rank);
int bp_mpi_size(const bp_mpi_library *library, int *size);
int bp_mpi_errors_return(const bp_mpi_library *library);
int bp_mpi_isend(const bp_mpi_library *library, const void *from, int bytes, int peer, int tag,
                 bp_mpi_handle *request);
int bp_mpi_irecv(const bp_mpi_library *library, void *to, int bytes, int peer, int tag,
                 bp_mpi_handle *request);
int bp_mpi_test(const bp_mpi_library *library, bp_mpi_handle *request, int *done);

/* What a result means, in MPI's words, cut to fit. */
void bp_mpi_words(const bp_mpi_library *library, int result, char *words, size_t bytes);
/* The library's name and version, one line, cut to fit. */
void bp_mpi_version(const bp_mpi_library *library, char *words, size_t bytes);

#endif
