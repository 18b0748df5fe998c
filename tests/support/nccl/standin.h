/* SPDX-License-Identifier: MIT */
/* What the parts of the stand-in for NCCL share: what ranks have in common, a communicator, and one
 * call of it. */
#ifndef BP_TESTS_SUPPORT_NCCL_STANDIN_H
#define BP_TESTS_SUPPORT_NCCL_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKS = 8, CHUNK = 32768, NAME = 64 };

enum {
    SUCCESS = 0,
    CUDA_ERROR = 1,
    SYSTEM_ERROR = 2,
    BAD_ARGUMENT = 4,
    BAD_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7
};

typedef enum call_kind { ALL_GATHER, ALL_TO_ALL, BROADCAST, MESSAGES, CALL_KINDS } call_kind;

/* What a rank does: of a collective call the same on all ranks, of messages of each pair. */
typedef struct call_sign {
    uint64_t number; /* of the collective calls of the communicator, or of a pair's messages */
    uint64_t bytes;  /* of a piece */
    uint64_t place;  /* of what is gotten in the registered window; UINT64_MAX: in none that is
                        symmetric */
    uint32_t kind;
    uint32_t root;
    uint32_t part; /* which chunk of it */
} call_sign;

/* What one rank has for another; written when empty, read when full. */
typedef struct box {
    uint32_t full;
    uint32_t bytes;
    call_sign sign;
    unsigned char data[CHUNK];
} box;

typedef struct place {
    uint32_t joined, finalized, registered, under_way;
    uint64_t window; /* bytes */
    call_sign sign;  /* of its newest call */
} place;

typedef struct shared {
    uint32_t told; /* one message for all */
    place ranks[RANKS];
    box boxes[RANKS][RANKS]; /* [from][to] */
} shared;

typedef enum comm_state { STARTING, READY, REGISTERING, ENDING, GONE } comm_state;

typedef struct ncclComm {
    shared *all;
    int rank, size;
    comm_state state;
    int asked;   /* times that it still says that a call is in progress */
    int failed;  /* what goes on in no call any more; atomic */
    int aborted; /* atomic */
    uint64_t calls;
    uint64_t to[RANKS], from[RANKS]; /* messages so far */
    uint64_t window, window_bytes;
    bool symmetric;                /* all ranks call at the same places of it */
    uint64_t taken;                /* of the GPU's memory, which a communicator takes some of */
    unsigned char *given, *gotten; /* pinned: a chunk for and of every rank */
    char name[NAME];
    struct ncclComm *next;
} comm;

typedef struct message {
    bool there;
    uint64_t address;
    size_t bytes;
    call_sign sign;
} message;

typedef struct call {
    comm *comm;
    call_sign sign;
    message sends[RANKS], gets[RANKS]; /* by peer */
} call;

/* The driver's entries, found in the libcuda.so.1 that is there. */
typedef struct driver {
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*launch)(void *stream, void (*function)(void *), void *data);
    int (*allocate)(void **memory, size_t bytes);
    int (*free)(void *memory);
    int (*take)(uint64_t *address, size_t bytes);
    int (*give_back)(uint64_t address);
    int (*retain)(uint64_t *handle, void *address); /* NULL: it maps no memory */
    int (*release)(uint64_t handle);
} driver;

const driver *standin_driver(void);

/* Says what is wrong, once for all ranks; the communicator is of no more use. Returns `code`. */
int standin_wrong(comm *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Queues a call on a stream, chunk by chunk. */
int standin_queue(const call *made, void *stream);

/* "call 5, all_gather of 1024 bytes" */
void standin_words(const call_sign *sign, char *words, size_t bytes);

/* A number of the environment, `else_` without one. */
long standin_number(const char *name, long else_);

#endif
