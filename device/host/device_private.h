/* SPDX-License-Identifier: MIT */
/* What the host device and the bare one share: the context, and all calls but those that choose
 * kernels. The contracts are those of bp_device's members (core/ir/device.h). */
#ifndef BP_DEVICE_HOST_DEVICE_PRIVATE_H
#define BP_DEVICE_HOST_DEVICE_PRIVATE_H

#include "device/host/engine.h"
#include "device/host/kernel.h"
#include "device/host/pool.h"

#define WORKER_ALIGNMENT 64 /* of a worker's part of a workspace: no shared cache lines */

/* A tuple of a linked op: its call and where its tasks end in the op's own numbering. */
typedef struct host_tuple {
    const void *pointers;
    const void *scalars;
    const uint8_t *dtypes;
    uint64_t end;
} host_tuple;

/* host_op.joined: an op after this one does this one's work too, the second for what it adds. */
#define FUSED_LATER    UINT8_MAX
#define FUSED_LOW_RANK (UINT8_MAX - 1)

typedef struct host_op {
    const bp_host_kernel *kernel;
    const host_tuple *tuples;
    uint32_t count;
    uint8_t pending; /* bp_pending */
    uint8_t engine;  /* bp_engine, or one of the two below */
    uint8_t number;  /* bp_kernel */
    uint8_t fused; /* how many ops before this one the product stands that it is done with; or 0 */
} host_op;

typedef struct host_program {
    const host_op *ops; /* NULL: not linked */
    uint32_t count;
} host_program;

/* Engines beside the pool, which is BP_ENGINE_COMPUTE: those of kernels.def, and two for copies
 * from and to the offload tier, so that both directions are under way at once. */
#define HOST_ENGINE_READ  BP_ENGINE_COUNT
#define HOST_ENGINE_WRITE (BP_ENGINE_COUNT + 1)
#define HOST_ENGINES      (BP_ENGINE_COUNT - 1 + (BP_THREADS_MAX > 1 ? 2 : 0)) /* a record each */

struct host_context;

/* Joins op number `at` to one before it, where that pays. */
typedef void host_joiner(const struct host_context *context, const bp_linked_program *linked,
                         uint32_t at, host_op *ops, host_tuple *tuple);

/* Does an op, and checks what it did; BP_ERR_DEVICE where that can't be put right. */
typedef bp_status host_verifier(struct host_context *context, const host_op *op);

/* What a device of several forms has beside its kernels; NULL: it doesn't. */
typedef struct host_additions {
    host_joiner *join; /* NULL in the portable form too, and where ops are checked */
    host_verifier *verify;
} host_additions;

/* A kernel of another form, for a working type. */
typedef const bp_host_kernel *host_isa_kernel(uint32_t form, uint32_t element, uint32_t kernel);

typedef struct host_context {
    bp_regions regions;
    uint8_t form;
    uint8_t now; /* the form that runs: another one while a step is computed again */
    bool sealed;
    host_isa_kernel *kernel_of;      /* NULL: there is one form */
    const host_additions *additions; /* NULL: none */
    bp_checked *verify;              /* the caller's; NULL: nothing is checked */
    bp_error *error;                 /* the caller's */
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    host_program programs[BP_PROGRAMS_MAX];
    bp_pool pool;
    uint64_t runs;                        /* so far: marks of the engines' jobs are of one run */
    bp_host_engine engines[HOST_ENGINES]; /* see engine_of */
} host_context;

/* Bytes of a kernel's workspace for all workers, as its form states it. */
uint64_t bp_host_device_workers(const bp_host_kernel *row, const bp_device_options *options,
                                const void *scalars, const uint8_t *dtypes);

/* The same of what any form of a kernel asks for, without what checks need. */
uint64_t bp_host_device_widest(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes);

/* How an op is done: by which form, checked or not, and its tasks cut as ever or the other way. */
typedef struct host_how {
    const bp_host_check *check; /* NULL: not */
    uint32_t form;
    bool turn;
} host_how;

void bp_host_device_compute(host_context *context, const host_op *op, const host_how *how);

/* The parts of open: what is given is sound, and so is the processor's arithmetic; the context, of
 * form 0 and without kernels; its threads. */
bp_status bp_host_device_check(const bp_device_options *options, const bp_regions *regions,
                               bp_error *error) BP_MUST_CHECK;
void bp_host_device_begin(host_context *context, const bp_regions *regions, bp_error *error);
bp_status bp_host_device_start(host_context *context, const bp_device_options *options,
                               bp_error *error) BP_MUST_CHECK;

uint64_t bp_host_device_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars);
bp_status bp_host_device_link(void *memory, uint32_t program, const bp_linked_program *linked,
                              void *link_memory, size_t bytes);
/* A copy from or to the offload tier, on the thread of its engine. */
bp_status bp_host_device_tier(const host_context *context, const host_op *op,
                              bp_error *error) BP_MUST_CHECK;
bp_status bp_host_device_seal(void *memory);
void *bp_host_device_reach(const void *memory, uint64_t place, size_t bytes);
bp_status bp_host_device_upload(void *memory, uint64_t place, const void *from, size_t bytes);
bp_status bp_host_device_download(void *memory, uint64_t place, void *to, size_t bytes);
bp_status bp_host_device_run(void *memory, uint32_t program);
bp_status bp_host_device_run_ops(void *memory, uint32_t program, uint32_t first, uint32_t count);
bp_status bp_host_device_wait(void *memory);
void bp_host_device_move(void *memory, const bp_device_move *to);
uint32_t bp_host_device_processors(const void *memory, uint16_t *list, uint32_t most);
bp_status bp_host_device_word_sum(void *memory, uint64_t place, uint64_t bytes, uint64_t from,
                                  uint64_t *sum);
const char *bp_host_device_variant(const void *memory);
uint64_t bp_host_device_bytes_in_use(const void *memory);
void bp_host_device_close(void *memory);

#endif
