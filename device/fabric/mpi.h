/* SPDX-License-Identifier: MIT */
/* Ranks as processes that a launcher started, joined by MPI.
 *
 * One thread makes all of MPI's calls: it moves the pieces of calls that have begun, tells every
 * other rank twice a second that this one is there, and watches that they are. It never waits
 * inside MPI. What is lost or refused anywhere becomes known everywhere, and one rank alone says
 * it. */
#ifndef BP_DEVICE_FABRIC_MPI_H
#define BP_DEVICE_FABRIC_MPI_H

#include <pthread.h>

#include "core/ir/fabric.h"
#include "device/fabric/launcher.h"
#include "device/fabric/mpi_library.h"

#define BP_MPI_RANKS_MAX   256
#define BP_MPI_GROUPS_MAX  8 /* of one rank, the group of all included */
#define BP_MPI_FLIGHTS_MAX 8 /* calls of one rank between begin and wait */
#define BP_MPI_HOST_MAX    64
#define BP_MPI_TEXT_MAX    160

/* What ranks tell each other beside the calls. Its size and first three fields never change, so
 * that different versions understand that they are. */
typedef struct bp_mpi_control {
    uint32_t magic;
    uint32_t kind;
    char version[32];
    int32_t status; /* of a failure, with the rank that found it and its words */
    uint32_t origin;
    uint64_t step;               /* that the sender is in */
    uint64_t process, processes; /* the sender's number, and the number of its space of numbers */
    char boot[40];               /* the kernel that gave them */
    char host[BP_MPI_HOST_MAX];
    char text[BP_MPI_TEXT_MAX];
    char name[BP_ERROR_NAME_MAX];
} bp_mpi_control;

typedef struct bp_mpi_request {
    bool pending;
    bp_mpi_handle handle;
} bp_mpi_request;

typedef struct bp_mpi_peer {
    bool met;  /* has said hello */
    bool left; /* has closed */
    bool gone; /* and knows that all have: nothing more comes */
    bool lost;
    bool told;         /* has heard and echoed a failure */
    uint32_t saying;   /* kinds of control still to be sent, as bits */
    uint64_t heard_ms; /* when it last said something */
    uint64_t left_ms;  /* when it left */
    bp_mpi_request in, out;
    bp_mpi_control from, to;
    bp_mpi_control hello; /* what it said first */
} bp_mpi_peer;

/* What a call of a group looks like to its members: they have to be the same. */
typedef struct bp_mpi_header {
    uint64_t sequence, bytes;
    uint32_t group, call, root;
    uint32_t reserved;
} bp_mpi_header;

typedef struct bp_mpi_part {
    bp_mpi_request head_in, head_out, in, out;
    bp_mpi_header header;
    bool checked;
} bp_mpi_part;

typedef enum bp_mpi_collective_state {
    BP_MPI_FREE,
    BP_MPI_POSTED, /* by begin */
    BP_MPI_MOVING, /* the communication thread is at it */
    BP_MPI_DONE    /* wait may have it */
} bp_mpi_collective_state;

typedef struct bp_mpi_collective {
    bp_mpi_collective_state state;
    uint64_t order;   /* among all calls of this rank: they start in it */
    uint64_t moved;   /* bytes of each piece that are through */
    uint32_t self;    /* this rank's number among the members */
    uint32_t missing; /* a member that is waited for; under the lock */
    bp_fabric_group group;
    bp_fabric_transfer transfer;
    bp_mpi_header header;
    bp_mpi_part parts[BP_MPI_RANKS_MAX + 1]; /* by member */
} bp_mpi_collective;

/* Says why everything ends: called once in the whole group, in one rank, by any thread. */
typedef void (*bp_mpi_speak)(void *user, const bp_error *error);

typedef struct bp_mpi_options {
    const char *library; /* a file; NULL: the one that goes with the launcher */
    bp_tcp *tcp;         /* zero, the caller's: messages go by TCP instead; NULL: by MPI */
    const char *version; /* of the program: the same in all ranks */
    bp_launcher launcher;
    uint64_t start_ms;   /* longest wait for the others to come */
    uint64_t silence_ms; /* a rank that says nothing for so long is lost */
    /* After a failure: with `speak` the process ends with the failure's exit code, whatever its
     * other threads do; without, calls fail and the caller goes on to close. */
    bp_mpi_speak speak;
    void *user;
} bp_mpi_options;

typedef enum bp_mpi_phase {
    BP_MPI_STARTING,
    BP_MPI_RUNNING,
    BP_MPI_CLOSING, /* waits until all others have left, too */
    BP_MPI_ENDING,  /* MPI does */
    BP_MPI_ENDED
} bp_mpi_phase;

/* MPI as one process has it. A plain record owned by the caller, zero before it is opened, which
 * must not move while it is open; large: about 2 MB. There can be one. */
typedef struct bp_mpi_world {
    bp_mpi_options options;
    bp_mpi_library library; /* the communication thread's, as all without a word */
    bool running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t rank, size;
    bool leaving; /* has told the others that it has closed */
    bool mute;    /* was stopped for so long that the others have given it up */
    uint64_t polled_ms, said_ms, bye_ms;
    uint64_t failed_ms; /* when this rank learnt of the failure */
    uint64_t known_ms;  /* and when that all others had */
    bp_mpi_control self;
    bp_mpi_peer peers[BP_MPI_RANKS_MAX];
    /* under the lock: */
    bp_mpi_phase phase;
    bp_status failed; /* why nothing goes on; BP_OK while all is well */
    bp_error cause;
    char cause_text[BP_MPI_TEXT_MAX]; /* of a cause that another rank told */
    uint32_t origin;                  /* the least rank known to have found it by itself */
    uint64_t step;
    uint64_t began; /* calls so far */
    bp_mpi_collective collectives[BP_MPI_FLIGHTS_MAX];
} bp_mpi_world;

/* Loads MPI, starts it in a thread of its own, and meets all other ranks. With `speak` it returns
 * failures of a rank that is alone only (world->size is 0 then: nobody else can be told).
 * BP_ERR_DEVICE: no MPI, or one without threads; BP_ERR_USAGE: fewer ranks than the launcher
 * started, more than BP_MPI_RANKS_MAX, or other versions of the program; BP_ERR_FABRIC: somebody
 * did not come. The
 * caller has to leave by _exit after the last. */
bp_status bp_mpi_world_open(bp_mpi_world *world, const bp_mpi_options *options,
                            bp_error *error) BP_MUST_CHECK;

/* After every fabric over it has closed: waits until the other ranks close, too, and ends MPI. A
 * world that has failed ends the process with the failure's exit code, unless it was not opened.
 * False: MPI does not end. The caller has to leave by _exit then: MPI_Finalize of MPICH over UCX's
 * TCP waits for ever now and then, for a rank that is in it, too, and moves no messages any more.
 */
bool bp_mpi_world_close(bp_mpi_world *world);

/* This rank cannot go on: all others learn it. With `speak` this does not return, and the least of
 * the ranks that had an error of their own says it. */
void bp_mpi_world_fail(bp_mpi_world *world, const bp_error *error);

/* The step that this rank is in, for messages. */
void bp_mpi_world_note(bp_mpi_world *world, uint64_t step);

/* The name of a rank's host, "" before it has been met. */
const char *bp_mpi_world_host(const bp_mpi_world *world, uint32_t rank);

/* bp_fabric_options.world is an open bp_mpi_world. A rank that closes with calls under way ends
 * those of its peers. */
extern const bp_fabric bp_fabric_mpi;

#endif
