/* SPDX-License-Identifier: MIT */
/* Finding MPI, telling which binary interface it has, and calling it. */
#include "device/fabric/mpi_library.h"

#include <dlfcn.h>
#include <string.h>

static const char where[] = "mpi";

/* Longest texts that MPI gives: MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH. */
enum { WORDS_MOST = 8192 };

static const char *const names[BP_MPI_NAMES] = {"MPI_Init_thread",
                                                "MPI_Finalize",
                                                "MPI_Abort",
                                                "MPI_Comm_rank",
                                                "MPI_Comm_size",
                                                "MPI_Comm_set_errhandler",
                                                "MPI_Get_library_version",
                                                "MPI_Error_string",
                                                "MPI_Isend",
                                                "MPI_Irecv",
                                                "MPI_Test"};

/* Which libraries go with what a launcher speaks, the usual one first; a process that is loaded
 * with the other family's would be alone. */
static const struct library_row {
    bool pmi;
    const char *file;
} files[] = {
    {false, "libmpi.so.40"},    /* Open MPI 2 to 5 */
    {true, "libmpich.so.12"},   /* MPICH on Debian */
    {true, "libmpi.so.12"},     /* MPICH elsewhere, Intel's, Cray's */
    {false, "libmpi_abi.so.1"}, /* the standard interface, of either */
    {true, "libmpi_abi.so.1"},
};

/* POSIX lets an object pointer hold what dlsym found; C wants it copied. */
static bp_mpi_entry library_entry(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    bp_mpi_entry entry;
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static bp_mpi_handle handle_constant(uintptr_t value)
{
    bp_mpi_handle handle = {.pointer = NULL};
    memcpy(&handle.pointer, &value, sizeof value);
    return handle;
}

static void library_interface(bp_mpi_library *library, void *handle)
{
    int (*abi)(int *, int *);
    bp_mpi_entry entry = library_entry(handle, "MPI_Abi_get_version");
    int major = -1;
    int minor = -1;
    memcpy(&abi, &entry, sizeof abi);
    void *objects = dlsym(handle, "ompi_mpi_comm_world");
    library->funneled = 1;
    library->ignore = NULL;
    if (abi != NULL && abi(&major, &minor) == 0 && major >= 1) {
        library->funneled = 1024;
        library->world = handle_constant(0x101);
        library->byte = handle_constant(0x247);
        library->errors_return = handle_constant(0x143);
    } else if (objects != NULL) {
        library->world.pointer = objects;
        library->byte.pointer = dlsym(handle, "ompi_mpi_byte");
        library->errors_return.pointer = dlsym(handle, "ompi_mpi_errors_return");
    } else {
        library->numbers = true;
        library->ignore = handle_constant(1).pointer;
        library->world.number = 0x44000000;
        library->byte.number = 0x4c00010d;
        library->errors_return.number = 0x54000001;
    }
}

static void *library_find(bp_mpi_library *library, const char *file, bp_launcher_kind launcher)
{
    void *handle = NULL;
    if (file != NULL) {
        library->file = file;
        return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    const bool pmi = launcher == BP_LAUNCHER_PMI;
    const bool any = !pmi && launcher != BP_LAUNCHER_OPENMPI && launcher != BP_LAUNCHER_PMIX;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && handle == NULL; i++) {
        if (any || files[i].pmi == pmi) {
            library->file = files[i].file;
            handle = dlopen(files[i].file, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return handle;
}

bp_status bp_mpi_library_load(bp_mpi_library *library, const char *file, bp_launcher_kind launcher,
                              bp_error *error)
{
    *library = (bp_mpi_library){.file = NULL};
    void *handle = library_find(library, file, launcher);
    if (handle == NULL) {
        bp_status status = bp_error_set(error, BP_ERR_DEVICE, where,
                                        "the MPI library cannot be loaded", dlerror());
        bp_error_found(error, library->file, strlen(library->file));
        bp_error_right(error, launcher == BP_LAUNCHER_PMI
                                  ? "libmpich.so.12 for this launcher, or --mpi FILE"
                                  : "libmpi.so.40 for this launcher, or --mpi FILE");
        return status;
    }
    for (int i = 0; i < BP_MPI_NAMES; i++) {
        library->entries[i] = library_entry(handle, names[i]);
        if (library->entries[i] == NULL) {
            return bp_error_set(error, BP_ERR_DEVICE, where,
                                "a library is no MPI: it has no such function", names[i]);
        }
    }
    library_interface(library, handle);
    return BP_OK;
}

int bp_mpi_init(const bp_mpi_library *library, int *provided)
{
    typedef int (*call)(int *, char ***, int, int *);
    return ((call)library->entries[BP_MPI_INIT_THREAD])(NULL, NULL, library->funneled, provided);
}

int bp_mpi_finalize(const bp_mpi_library *library)
{
    if (library->tcp != NULL) {
        bp_tcp_close(library->tcp);
        return 0;
    }
    typedef int (*call)(void);
    return ((call)library->entries[BP_MPI_FINALIZE])();
}

int bp_mpi_abort(const bp_mpi_library *library, int code)
{
    if (library->tcp != NULL) {
        return 0; /* every rank that heard of the failure ends by itself */
    }
    typedef int (*number)(int, int);
    typedef int (*pointer)(void *, int);
    bp_mpi_entry entry = library->entries[BP_MPI_ABORT];
    return library->numbers ? ((number)entry)(library->world.number, code)
                            : ((pointer)entry)(library->world.pointer, code);
}

static int library_ask(const bp_mpi_library *library, bp_mpi_name name, int *answer)
{
    typedef int (*number)(int, int *);
    typedef int (*pointer)(void *, int *);
    bp_mpi_entry entry = library->entries[name];
    return library->numbers ? ((number)entry)(library->world.number, answer)
                            : ((pointer)entry)(library->world.pointer, answer);
}

int bp_mpi_rank(const bp_mpi_library *library, int *rank)
{
    return library_ask(library, BP_MPI_COMM_RANK, rank);
}

int bp_mpi_size(const bp_mpi_library *library, int *size)
{
    return library_ask(library, BP_MPI_COMM_SIZE, size);
}

int bp_mpi_errors_return(const bp_mpi_library *library)
{
    typedef int (*number)(int, int);
    typedef int (*pointer)(void *, void *);
    bp_mpi_entry entry = library->entries[BP_MPI_COMM_SET_ERRHANDLER];
    return library->numbers
               ? ((number)entry)(library->world.number, library->errors_return.number)
               : ((pointer)entry)(library->world.pointer, library->errors_return.pointer);
}

int bp_mpi_isend(const bp_mpi_library *library, const void *from, int bytes, int peer, int tag,
                 bp_mpi_handle *request)
{
    if (library->tcp != NULL) {
        return bp_tcp_begin(library->tcp, from, NULL, (uint64_t)bytes, (uint32_t)peer, tag,
                            &request->pointer);
    }
    typedef int (*number)(const void *, int, int, int, int, int, int *);
    typedef int (*pointer)(const void *, int, void *, int, int, void *, void **);
    bp_mpi_entry entry = library->entries[BP_MPI_ISEND];
    return library->numbers ? ((number)entry)(from, bytes, library->byte.number, peer, tag,
                                              library->world.number, &request->number)
                            : ((pointer)entry)(from, bytes, library->byte.pointer, peer, tag,
                                               library->world.pointer, &request->pointer);
}

int bp_mpi_irecv(const bp_mpi_library *library, void *to, int bytes, int peer, int tag,
                 bp_mpi_handle *request)
{
    if (library->tcp != NULL) {
        return bp_tcp_begin(library->tcp, NULL, to, (uint64_t)bytes, (uint32_t)peer, tag,
                            &request->pointer);
    }
    typedef int (*number)(void *, int, int, int, int, int, int *);
    typedef int (*pointer)(void *, int, void *, int, int, void *, void **);
    bp_mpi_entry entry = library->entries[BP_MPI_IRECV];
    return library->numbers ? ((number)entry)(to, bytes, library->byte.number, peer, tag,
                                              library->world.number, &request->number)
                            : ((pointer)entry)(to, bytes, library->byte.pointer, peer, tag,
                                               library->world.pointer, &request->pointer);
}

int bp_mpi_test(const bp_mpi_library *library, bp_mpi_handle *request, int *done)
{
    if (library->tcp != NULL) {
        return bp_tcp_test(&request->pointer, done);
    }
    typedef int (*number)(int *, int *, void *);
    typedef int (*pointer)(void **, int *, void *);
    bp_mpi_entry entry = library->entries[BP_MPI_TEST];
    return library->numbers ? ((number)entry)(&request->number, done, library->ignore)
                            : ((pointer)entry)(&request->pointer, done, library->ignore);
}

/* The first line of what MPI wrote, without what would not print. */
static void words_cut(char *words, size_t bytes, const char *found)
{
    size_t i = 0;
    for (; i + 1 < bytes && found[i] >= ' ' && found[i] <= '~'; i++) {
        words[i] = found[i];
    }
    words[i] = '\0';
}

void bp_mpi_words(const bp_mpi_library *library, int result, char *words, size_t bytes)
{
    if (library->tcp != NULL) {
        words_cut(words, bytes, "the connection is closed");
        return;
    }
    typedef int (*call)(int, char *, int *);
    char found[WORDS_MOST] = "";
    int length = 0;
    (void)((call)library->entries[BP_MPI_ERROR_STRING])(result, found, &length);
    words_cut(words, bytes, found);
}

void bp_mpi_version(const bp_mpi_library *library, char *words, size_t bytes)
{
    typedef int (*call)(char *, int *);
    char found[WORDS_MOST] = "";
    int length = 0;
    (void)((call)library->entries[BP_MPI_GET_LIBRARY_VERSION])(found, &length);
    words_cut(words, bytes, found);
}
