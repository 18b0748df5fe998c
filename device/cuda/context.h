/* SPDX-License-Identifier: MIT */
/* The context of an open CUDA device, inside the caller's memory, and how its calls fail. */
#ifndef BP_DEVICE_CUDA_CONTEXT_H
#define BP_DEVICE_CUDA_CONTEXT_H

#include "arena/arena.h"
#include "device/cuda/cuda.h"
#include "device/cuda/record.h"
#include "device/cuda/target.h"

#define CUDA_MODULES_MAX   32
#define CUDA_FUNCTIONS_MAX 256 /* of all modules together */
#define CUDA_LOG_BYTES     4096
#define CUDA_SLOTS         2                     /* uploads in flight */
#define CUDA_SLOT_BYTES    ((size_t)1024 * 1024) /* of a staging slot; one more serves downloads */
#define CUDA_FLIGHTS       8 /* events of an engine: of more in flight a later one is waited for */

typedef struct cuda_program {
    const cuda_record *records; /* NULL: not linked */
    uint32_t count;
    const bp_linked_op *ops; /* the linker's, to which records point */
    uint32_t op_count;
    bp_cu_graph graph;     /* what was recorded */
    bp_cu_graph_exec exec; /* NULL: made one by one */
} cuda_program;

/* A function that a linked program launches. */
typedef struct cuda_function {
    bp_cu_function handle; /* NULL: not used */
    uint32_t parameter_bytes;
    uint8_t cluster[3];
} cuda_function;

typedef struct cuda_context {
    bp_cu_driver driver;
    bp_error *error; /* of the caller; may be NULL */
    const bp_cuda_target_row *row;
    bp_cuda_target target;
    bool plain; /* no graphs */
    bool tf32;
    bool sealed;
    bool failed; /* something went wrong: nothing more is run */
    bool dead;   /* the driver's context is lost: nothing more is asked of it */
    bp_cu_device device;
    bp_cu_context handle;
    bp_cu_address arena;
    uint64_t arena_bytes;
    bp_cu_address segment; /* that the arena is; 0: it is an allocation */
    uint64_t segment_bytes;
    bool mapped;               /* there is memory behind the segment */
    bool shared;               /* the arena is reached by the host at its address, without copies */
    unsigned char *host_arena; /* pinned; NULL: that space has no bytes */
    uint64_t host_bytes;
    const bp_fabric *fabric; /* NULL: one rank, no fabric */
    void *rank;
    unsigned char *staging;
    uint32_t slot; /* of the next upload */
    bp_cu_stream work;
    bp_cu_stream copies;
    bp_cu_stream calls;            /* of the fabric; NULL without one */
    bool attached;                 /* to a fabric that queues calls itself */
    unsigned char *calls_staging;  /* a slot of what is given to it and one of what comes */
    bp_fabric_piece *calls_pieces; /* behind them, by rank: of the round at hand */
    bp_cu_event begun;             /* the work before what was begun last */
    bp_cu_event landed[BP_ENGINE_COUNT][CUDA_FLIGHTS]; /* by request; NULL: no such engine */
    int call_status; /* bp_status: the first failure of a call; no more of them are made then */
    bp_error call_error;
    bp_cu_event ran;                /* the newest run on `work` */
    bp_cu_event copied[CUDA_SLOTS]; /* the newest upload from each slot, on `copies` */
    bp_cu_module modules[CUDA_MODULES_MAX];
    cuda_function functions[CUDA_FUNCTIONS_MAX];
    bp_cu_function word_sum; /* NULL: its module is not there */
    cuda_program programs[BP_PROGRAMS_MAX];
    bp_device_memory memory;
    bp_cu_uuid uuid;
    uint32_t log_used; /* bytes of notes at its start; behind them, what a compiler says now */
    char log[CUDA_LOG_BYTES];
} cuda_context;

/* Records the result of an entry point that was just called. */
bp_status cuda_check(cuda_context *context, bp_cu_result result, const char *entry) BP_MUST_CHECK;

/* Records a failure in words of this project; the context is of no more use. */
bp_status cuda_fail(cuda_context *context, bp_status status, const char *text,
                    const char *name) BP_MUST_CHECK;

/* Calls an entry point of the driver: a status. */
#define CUDA_CALL(context, entry, ...)                                                             \
    cuda_check((context), (context)->driver.entry(__VA_ARGS__), #entry)
#define CUDA_TRY(context, entry, ...) BP_TRY(CUDA_CALL((context), entry, __VA_ARGS__))

/* Notices when giving something back shows that the context is lost; what else goes wrong then
 * changes nothing, and there is nobody to tell. */
void cuda_given_back(cuda_context *context, bp_cu_result result);

/* Gives a handle back, if there is one, to a driver that can still take it. */
#define CUDA_GIVE_BACK(context, entry, handle)                                                     \
    do {                                                                                           \
        if ((handle) != 0 && !(context)->dead) {                                                   \
            cuda_given_back((context), (context)->driver.entry(handle));                           \
        }                                                                                          \
        (handle) = 0;                                                                              \
    } while (0)

/* Where bytes at a place are for the driver; 0 when they are not all in a space that there is. */
bp_cu_address cuda_address(const cuda_context *context, uint64_t place, uint64_t bytes);

/* Whether calls of the fabric are still made, and what ended them. */
bp_status cuda_calls_status(const cuda_context *context);
void cuda_calls_end(cuda_context *context, bp_status status);
/* What went wrong in a call of the fabric, once what was begun has been waited for. */
bp_status cuda_calls_ended(cuda_context *context) BP_MUST_CHECK;
/* Waits for a stream, for the newest record of an event. Calls of a fabric that are queued behind a
 * rank that is gone would never end, so it is asked meanwhile. */
bp_status cuda_stream_ended(cuda_context *context, bp_cu_stream stream) BP_MUST_CHECK;
bp_status cuda_event_ended(cuda_context *context, bp_cu_event event) BP_MUST_CHECK;

/* Makes the driver's context current on this thread. BP_ERR_DEVICE when something failed before. */
bp_status cuda_enter(cuda_context *context) BP_MUST_CHECK;

/* modules.c: loads the modules of an op's launches that are not there yet. *again: the driver took
 * one of them not, context->target says so, and the launches have to be planned anew. */
bp_status cuda_modules_load(cuda_context *context, const bp_cuda_launch *launches, uint32_t count,
                            bool *again) BP_MUST_CHECK;
/* The function of a launch whose module is loaded. */
bp_status cuda_function_find(cuda_context *context, const bp_cuda_launch *launch,
                             uint32_t parameter_bytes, bp_cu_function *function) BP_MUST_CHECK;
/* Launches every function in use once, doing nothing. */
bp_status cuda_functions_touch(cuda_context *context) BP_MUST_CHECK;
/* words.c: finds the kernel before the seal, and bp_device's word_sum by it. */
bp_status cuda_words_begin(cuda_context *context) BP_MUST_CHECK;
bp_status cuda_word_sum(void *memory, uint64_t place, uint64_t bytes, uint64_t from,
                        uint64_t *sum) BP_MUST_CHECK;
void cuda_modules_unload(cuda_context *context);

/* parameters.c: the bytes of a launch's parameters as its kernel takes them, and their number;
 * BP_ERR_FIT when they are more than a launch may have, BP_ERR_DEVICE when the driver makes no
 * tensor map of one. */
bp_status cuda_parameters_write(cuda_context *context, const bp_linked_op *op,
                                const bp_cuda_launch *launch,
                                unsigned char to[CUDA_PARAMETERS_BYTES],
                                uint32_t *bytes) BP_MUST_CHECK;
/* Tells an instrument what the next launch may touch. */
bp_status cuda_operands_declare(cuda_context *context, const cuda_record *record) BP_MUST_CHECK;

/* record.c */
bp_status cuda_record_make(cuda_context *context, const cuda_record *record) BP_MUST_CHECK;
bp_status cuda_records_make(cuda_context *context, const cuda_program *program) BP_MUST_CHECK;
bp_status cuda_graph_record(cuda_context *context, cuda_program *program) BP_MUST_CHECK;
void cuda_forget(cuda_context *context, cuda_program *program);

/* flight.c: what an op begins beside the work, or waits for, as a record; and making it. */
bp_status cuda_pending_link(cuda_context *context, const bp_linked_op *op, bp_arena *memory,
                            cuda_record *out) BP_MUST_CHECK;
bp_status cuda_pending_make(cuda_context *context, const cuda_record *record) BP_MUST_CHECK;

/* link.c */
bp_status cuda_link_allocate(cuda_context *context, bp_arena *memory, size_t bytes,
                             void **out) BP_MUST_CHECK;
uint64_t cuda_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars);
bp_status cuda_link(void *memory, uint32_t program, const bp_linked_program *linked,
                    void *link_memory, size_t bytes) BP_MUST_CHECK;

/* copy.c */
bp_status cuda_upload(void *memory, uint64_t place, const void *from, size_t bytes) BP_MUST_CHECK;
bp_status cuda_download(void *memory, uint64_t place, void *to, size_t bytes) BP_MUST_CHECK;

/* segment.c: makes the arena one mapped segment; where the driver cannot, there is none. */
bp_status cuda_segment_take(cuda_context *context) BP_MUST_CHECK;
void cuda_segment_give_back(cuda_context *context);

/* open.c */
bp_status cuda_open(void *memory, const bp_device_options *options, const bp_regions *regions,
                    bp_error *error) BP_MUST_CHECK;
void cuda_close(void *memory);

#endif
