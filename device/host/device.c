/* SPDX-License-Identifier: MIT */
/* The host device's table: open, link, run, close. */
#include "device/host/host.h"

#include <string.h>

#include "arena/arena.h"
#include "core/base/fused.h"
#include "core/ir/tier.h"
#include "device/host/attention/attention.h"
#include "device/host/device_private.h"
#include "device/host/isa_table.h"
#include "device/host/fuse.h"
#include "device/host/matmul/matmul_experts.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/verify.h"

#define LINK_ALIGNMENT 16
#define RUN_MARKS      ((uint64_t)1 << 32) /* more than any program has requests */

static uint32_t threads_of(const bp_device_options *options)
{
    return options->threads == 0 ? 1 : options->threads;
}

uint64_t bp_host_device_workers(const bp_host_kernel *row, const bp_device_options *options,
                                const void *scalars, const uint8_t *dtypes)
{
    if (row->workspace == NULL) {
        return 0;
    }
    uint64_t per_worker = bp_size_align(row->workspace(scalars, dtypes), WORKER_ALIGNMENT);
    return bp_size_mul(threads_of(options), per_worker);
}

/* What the forms in vectors ask for where that is more than the portable one's. */
static const struct {
    bp_kernel kernel;
    uint64_t (*workspace)(const void *scalars, const uint8_t *dtypes);
} widest[] = {{BP_KERNEL_matmul, bp_matmul_workspace},
              {BP_KERNEL_matmul_quantised, bp_matmul_quantised_workspace},
              {BP_KERNEL_matmul_experts, bp_experts_workspace},
              {BP_KERNEL_matmul_experts_quantised, bp_experts_quantised_workspace},
              {BP_KERNEL_matmul_experts_sums, bp_experts_sums_workspace},
              {BP_KERNEL_attention_forward, bp_attention_forward_workspace},
              {BP_KERNEL_attention_backward, bp_attention_backward_workspace},
              {BP_KERNEL_attention_backward_over, bp_attention_backward_over_workspace},
              {BP_KERNEL_attention_strip_forward, bp_attention_strip_forward_workspace},
              {BP_KERNEL_attention_strip_backward, bp_attention_strip_backward_workspace},
              {BP_KERNEL_attention_packed_forward, bp_attention_forward_workspace},
              {BP_KERNEL_attention_packed_backward, bp_attention_backward_workspace},
              {BP_KERNEL_attention_cross_forward, bp_attention_cross_forward_workspace},
              {BP_KERNEL_attention_cross_backward, bp_attention_cross_backward_workspace},
              {BP_KERNEL_attention_biased_forward, bp_attention_forward_workspace},
              {BP_KERNEL_attention_biased_backward, bp_attention_backward_workspace}};

/* What any form of a kernel asks for, so that a plan does not depend on the processor found; a plan
 * for the portable form by name has what that one uses. A single task is the first worker's: of one
 * key-value head alone the sums of gradients by key, which have the bytes of all rows, are there
 * once (layers/blocks/block_streams.h). */
uint64_t bp_host_device_widest(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    const bp_host_kernel *row = bp_host_portable.kernels[0][kernel]; /* the same for all types */
    bp_host_kernel most = *row;
    const bool named =
        options->variant != NULL && strcmp(options->variant, bp_host_portable.name) == 0;
    for (size_t i = 0; !named && i < sizeof widest / sizeof widest[0]; i++) {
        most.workspace = widest[i].kernel == kernel ? widest[i].workspace : most.workspace;
    }
    const bool head = kernel == BP_KERNEL_attention_backward_over; /* whose forms have its tasks */
    if (head && most.tasks(scalars) == 1) {
        return bp_size_align(most.workspace(scalars, dtypes), WORKER_ALIGNMENT);
    }
    return bp_host_device_workers(&most, options, scalars, dtypes);
}

static uint64_t host_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    return bp_size_add(bp_host_device_widest(options, kernel, scalars, dtypes),
                       bp_host_verify_bytes(options, kernel, scalars));
}

/* A kernel has at least one operand, so there are no more tuples than operands. */
uint64_t bp_host_device_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars)
{
    (void)scalars;
    uint64_t per_operand = sizeof(void *) + sizeof(host_tuple) + LINK_ALIGNMENT;
    uint64_t bytes = bp_size_mul(ops, sizeof(host_op) + LINK_ALIGNMENT);
    return bp_size_add(bp_size_add(bytes, bp_size_mul(operands, per_operand)), LINK_ALIGNMENT);
}

static bool arena_fits(const bp_device_options *options, const bp_region *arena)
{
    return arena->address != NULL && (uintptr_t)arena->address % bp_device_alignment(options) == 0;
}

static uint32_t host_alignment(const bp_device_options *options)
{
    return bp_host_isa_alignment(options->variant);
}

bp_status bp_host_device_check(const bp_device_options *options, const bp_regions *regions,
                               bp_error *error)
{
    const char *where = "host device";
    const char *fault = bp_fused_fault();
    if (fault != NULL) {
        return bp_error_set(error, BP_ERR_DEVICE, where, fault, NULL);
    }
    if (threads_of(options) > BP_THREADS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "too many threads", "threads",
                              (int64_t)options->threads, BP_LIMIT_MOST, BP_THREADS_MAX);
    }
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        bool needed = i == BP_SPACE_DEVICE || regions->space[i].bytes > 0;
        if (needed && i == BP_SPACE_OFFLOAD) {
            if (regions->tier == NULL) {
                return bp_error_set(error, BP_ERR_USAGE, where,
                                    "the plan has offloaded bytes, and no tier is given",
                                    "offload");
            }
        } else if (needed && !arena_fits(options, &regions->space[i])) {
            return bp_error_set(error, BP_ERR_USAGE, where, "the arena is missing or not aligned",
                                bp_space_name((bp_space)i));
        }
    }
    return BP_OK;
}

static bp_status find_form(const bp_device_options *options, uint32_t *form, bp_error *error)
{
    const char *where = "host device";
    bp_status found = bp_host_isa_find(options->variant, form);
    if (found == BP_ERR_USAGE || found == BP_ERR_DEVICE) {
        const char *text =
            found == BP_ERR_DEVICE
                ? "this processor cannot run the variant"
                : "no such variant; there are portable, neon, sve, avx2, avx512, amx";
        found = bp_error_set(error, found, where, text, options->variant);
        bp_error_prefix(error, "kernels");
    }
    return found;
}

static bp_host_call device_call(const host_tuple *tuple, const bp_host_epilogue *epilogue)
{
    return (bp_host_call){tuple->pointers, tuple->scalars, tuple->dtypes, epilogue, NULL};
}

/* One begin, on the thread of its engine. The whole of a call of the fabric is one job. */
static bp_status do_begin(void *memory, const void *job, bp_error *error)
{
    const host_context *context = memory;
    const host_op *op = job;
    const bp_host_call call = device_call(&op->tuples[0], NULL);
    if (op->engine >= HOST_ENGINE_READ) {
        return bp_host_device_tier(context, op, error);
    }
    if (op->engine != BP_ENGINE_FABRIC || context->regions.fabric == NULL) {
        op->kernel->run(&call, 0, op->tuples[0].end, 0);
        return BP_OK;
    }
    const bp_fabric *fabric = context->regions.fabric;
    const bp_all_gather_begin_pointers *p = call.pointers; /* to and from, as in all its rows */
    const bp_fabric_transfer transfer =
        bp_fabric_transfer_of((bp_kernel)op->number, call.scalars, p->to, p->from);
    BP_TRY(fabric->begin(context->regions.rank, &transfer, error));
    return fabric->wait(context->regions.rank, transfer.request, error);
}

static bp_host_engine *engine_of(host_context *context, uint32_t engine)
{
    return &context->engines[engine - 1];
}

/* Programs of one rank in the device arena need no thread beside the pool. */
static bp_status open_engines(host_context *context)
{
    bool fabric = context->regions.fabric != NULL;
    if (fabric || context->regions.space[BP_SPACE_HOST].bytes > 0) {
        BP_TRY(bp_host_engine_open(engine_of(context, BP_ENGINE_COPY), do_begin, context));
    }
    if (fabric) {
        BP_TRY(bp_host_engine_open(engine_of(context, BP_ENGINE_FABRIC), do_begin, context));
    }
    if (context->regions.space[BP_SPACE_OFFLOAD].bytes > 0) {
        if (HOST_ENGINES < HOST_ENGINE_WRITE) {
            return BP_ERR_DEVICE; /* a build without threads */
        }
        BP_TRY(bp_host_engine_open(engine_of(context, HOST_ENGINE_READ), do_begin, context));
        BP_TRY(bp_host_engine_open(engine_of(context, HOST_ENGINE_WRITE), do_begin, context));
    }
    return BP_OK;
}

static void close_engines(host_context *context)
{
    for (uint32_t i = 0; i < HOST_ENGINES; i++) {
        bp_host_engine_close(&context->engines[i]);
    }
}

bp_status bp_host_device_start(host_context *context, const bp_device_options *options,
                               bp_error *error)
{
    if (bp_pool_open(&context->pool, threads_of(options)) != BP_OK) {
        return bp_error_limit(error, BP_ERR_DEVICE, "host device",
                              "the system refuses to start another thread", "threads",
                              (int64_t)context->pool.threads, BP_LIMIT_LEAST,
                              (int64_t)threads_of(options));
    }
    if (open_engines(context) != BP_OK) {
        close_engines(context);
        bp_pool_close(&context->pool);
        return bp_error_set(error, BP_ERR_DEVICE, "host device",
                            "the system refuses to start a thread for copies", NULL);
    }
    return BP_OK;
}

void bp_host_device_begin(host_context *context, const bp_regions *regions, bp_error *error)
{
    memset(context, 0, sizeof(*context));
    context->regions = *regions;
    context->error = error;
}

static host_joiner link_join;

static const host_additions joins = {link_join, NULL};
static const host_additions verifies = {NULL, bp_host_verify};

/* Checks are those of fast forms with the bits of all. */
static bp_status check_verify(const bp_device_options *options, uint32_t form, bp_error *error)
{
    if (options->verify == NULL || (form > 0 && form < BP_HOST_ISAS)) {
        return BP_OK;
    }
    return bp_error_set(error, BP_ERR_USAGE, "host device",
                        "products are checked in fast forms with the bits of all: expected other "
                        "kernels, or no --verify-products",
                        bp_host_isa_name(form));
}

static bp_status host_open(void *memory, const bp_device_options *options,
                           const bp_regions *regions, bp_error *error)
{
    host_context *context = memory;
    uint32_t form;
    BP_TRY(bp_host_device_check(options, regions, error));
    BP_TRY(find_form(options, &form, error));
    BP_TRY(check_verify(options, form, error));
    bp_host_device_begin(context, regions, error);
    context->form = (uint8_t)form;
    context->now = (uint8_t)form;
    context->kernel_of = bp_host_isa_kernel;
    context->verify = options->verify;
    context->additions = options->verify != NULL ? &verifies : form != 0 ? &joins : NULL;
    bp_host_isa_kernels(form, context->kernels);
    return bp_host_device_start(context, options, error);
}

/* Turns the operands of one tuple into addresses, or offsets in the offload tier; false when one
 * lies in a space that is not there. */
static bool link_tuple(const host_context *context, const uint64_t *offsets, uint32_t operands,
                       void **pointers)
{
    bool there = true;
    for (uint32_t i = 0; i < operands; i++) {
        pointers[i] = NULL;
        if (offsets[i] == BP_OFFSET_ABSENT) {
            continue;
        }
        uint32_t space = bp_address_space(offsets[i]);
        if (space == BP_SPACE_OFFLOAD) {
            there = there && context->regions.tier != NULL;
            pointers[i] = (void *)(uintptr_t)bp_address_offset(offsets[i]);
            continue;
        }
        unsigned char *arena =
            space < BP_SPACE_COUNT ? context->regions.space[space].address : NULL;
        there = there && arena != NULL;
        pointers[i] = arena != NULL ? arena + bp_address_offset(offsets[i]) : NULL;
    }
    return there;
}

/* Who does an op: copies from and to the offload tier have engines of their own. */
static uint8_t link_engine(const bp_kernel_info *info, const uint64_t *offsets)
{
    if (info->engine != BP_ENGINE_COPY) {
        return (uint8_t)info->engine;
    }
    return bp_address_space(offsets[1]) == BP_SPACE_OFFLOAD   ? HOST_ENGINE_READ
           : bp_address_space(offsets[0]) == BP_SPACE_OFFLOAD ? HOST_ENGINE_WRITE
                                                              : BP_ENGINE_COPY;
}

static bp_status link_op(const host_context *context, const bp_linked_op *linked, bp_arena *memory,
                         host_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(linked->kernel);
    void *pointers_memory, *tuples_memory;
    size_t count = linked->tuples;
    BP_TRY(bp_arena_allocate(memory, count * info->operand_count * sizeof(void *), LINK_ALIGNMENT,
                             &pointers_memory));
    BP_TRY(bp_arena_allocate(memory, count * sizeof(host_tuple), LINK_ALIGNMENT, &tuples_memory));
    void **pointers = pointers_memory;
    host_tuple *tuples = tuples_memory;
    bp_dtype working = bp_kernel_working(info, linked->dtypes);
    if (working >= BP_HOST_ELEMENTS || context->kernels[working][linked->kernel] == NULL) {
        return bp_error_set(context->error, BP_ERR_DEVICE, "host device",
                            "the device's table of kernels has no form of it for this type",
                            info->name);
    }
    BP_TRY(bp_fabric_check(&context->regions, linked, context->error));
    *op = (host_op){context->kernels[working][linked->kernel],
                    tuples,
                    linked->tuples,
                    (uint8_t)info->pending,
                    link_engine(info, linked->offsets),
                    (uint8_t)linked->kernel,
                    0};
    uint64_t tasks = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = i * info->operand_count;
        const uint64_t *scalars = linked->scalars; /* 8 bytes each */
        if (!link_tuple(context, linked->offsets + first, info->operand_count, pointers + first)) {
            return bp_error_set(context->error, BP_ERR_USAGE, "host device",
                                "an operand lies in a memory space that was not given", info->name);
        }
        tuples[i] = (host_tuple){pointers + first, scalars + i * info->scalar_count,
                                 linked->dtypes + first, 0};
        tasks += op->kernel->tasks(tuples[i].scalars);
        tuples[i].end = tasks;
    }
    return BP_OK;
}

static uint64_t device_workspace(const void *memory, const bp_linked_op *op)
{
    const host_context *context = memory;
    const bp_device_options options = {.threads = context->pool.threads};
    return host_workspace(&options, op->kernel, op->scalars, op->dtypes);
}

/* The portable form is the specification and joins nothing. What an op that is joined needs no more
 * tells where the product's workspace is: its own workspace's address and its number of tasks. */
static void link_join(const host_context *context, const bp_linked_program *linked, uint32_t at,
                      host_op *ops, host_tuple *tuple)
{
    const uint32_t threads = context->pool.threads;
    const bp_fusion fusion = bp_host_fuse(linked, at, threads, device_workspace, context);
    if (fusion.before == 0 || ops[at - fusion.before].fused != 0) {
        return;
    }
    bp_matmul_pointers *p = (void *)(uintptr_t)tuple->pointers;
    p->work = bp_host_device_reach(context, fusion.work, fusion.work_bytes);
    tuple->end = fusion.work_bytes / threads / WORKER_ALIGNMENT * WORKER_ALIGNMENT;
    ops[at - fusion.before].fused = FUSED_LATER;
    /* AVX2's tiles of few columns are slower than its vectors of rows, which read x once more. */
    const bp_matmul_scalars *s = tuple->scalars;
    const bool pays = context->form > BP_HOST_ISA_FUSES || s->k > BP_MATMUL_NARROW;
    for (uint32_t i = 1; i <= fusion.low_rank && pays; i++) {
        ops[at - fusion.before + i].fused = FUSED_LOW_RANK;
    }
    ops[at].fused = (uint8_t)fusion.before;
}

bp_status bp_host_device_link(void *memory, uint32_t program, const bp_linked_program *linked,
                              void *link_memory, size_t bytes)
{
    host_context *context = memory;
    if (context->sealed) {
        return BP_ERR_SEALED;
    }
    if (program >= BP_PROGRAMS_MAX) {
        return BP_ERR_USAGE;
    }
    bp_arena arena;
    bp_arena_init(&arena, link_memory, bytes);
    void *ops_memory;
    BP_TRY(bp_arena_allocate(&arena, linked->count * sizeof(host_op), LINK_ALIGNMENT, &ops_memory));
    host_op *ops = ops_memory;
    for (uint32_t i = 0; i < linked->count; i++) {
        BP_TRY(link_op(context, &linked->ops[i], &arena, &ops[i]));
        if (context->additions != NULL && context->additions->join != NULL) {
            context->additions->join(context, linked, i, ops,
                                     (host_tuple *)(uintptr_t)ops[i].tuples);
        }
    }
    context->programs[program] = (host_program){ops, linked->count};
    return BP_OK;
}

bp_status bp_host_device_seal(void *memory)
{
    host_context *context = memory;
    context->sealed = true;
    return BP_OK;
}

static void host_four_blocks(const void *memory, int64_t form, const float *values, uint64_t blocks,
                             float *scales, uint8_t *codes)
{
    const host_context *context = memory;
    bp_host_isa_codes(context->form)(form, values, blocks, scales, codes);
}

static void host_normals(const void *memory, uint64_t seed, uint32_t stream, uint64_t first,
                         uint64_t count, double deviation, float *to)
{
    const host_context *context = memory;
    bp_host_isa_normals(context->form)(seed, stream, first, count, deviation, to);
}

/* The tuple that owns a task: the first whose end lies beyond it. */
static uint32_t tuple_of(const host_op *op, uint64_t task)
{
    uint32_t low = 0, high = op->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (op->tuples[middle].end > task) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Whether u of a joined op is made along (join.h). */
static bool op_low_rank(const host_op *op)
{
    return op->fused > 1 && op[1 - op->fused].fused == FUSED_LOW_RANK;
}

/* An op's work for the pool: with the kernel that does it now, whose tasks are not always as many.
 */
typedef struct host_job {
    const host_op *op;
    const bp_host_kernel *kernel; /* of a joined op: the product's */
    const bp_host_check *check;   /* NULL: not checked */
    uint64_t first;               /* task that the pool's first one is */
} host_job;

/* A range of the tasks of two ops that are done as one. */
static void run_joined(const host_op *op, const bp_host_kernel *kernel, uint64_t first,
                       uint64_t last, uint32_t worker)
{
    const bp_matmul_pointers *p = op->tuples[0].pointers;
    const host_op *makes = op - op->fused;
    bp_host_call low_rank;
    bp_host_epilogue epilogue = {device_call(&op->tuples[0], NULL), p->work, op->tuples[0].end,
                                 NULL, 1.0f};
    if (op_low_rank(op)) {
        low_rank = device_call(&makes[1].tuples[0], NULL);
        epilogue.low_rank = &low_rank;
    }
    if (op_low_rank(op) && op->fused > 2) {
        epilogue.factor = (float)((const bp_scale_scalars *)makes[2].tuples[0].scalars)->factor;
    }
    const bp_host_call call = device_call(&makes->tuples[0], &epilogue);
    kernel->run(&call, first, last, worker);
}

/* A range of an op's tasks, tuple by tuple. */
static void device_run_tasks(void *argument, uint64_t first, uint64_t last, uint32_t worker)
{
    const host_job *job = argument;
    const host_op *op = job->op;
    first += job->first;
    last += job->first;
    if (op->fused != 0) {
        run_joined(op, job->kernel, first, last, worker);
        return;
    }
    if (op->count == 1) {
        bp_host_call call = device_call(&op->tuples[0], NULL);
        call.check = job->check;
        job->kernel->run(&call, first, last, worker);
        return;
    }
    for (uint32_t i = tuple_of(op, first); first < last; i++) {
        const host_tuple *tuple = &op->tuples[i];
        uint64_t begin = i == 0 ? 0 : op->tuples[i - 1].end;
        uint64_t end = last < tuple->end ? last : tuple->end;
        if (first < end) {
            const bp_host_call call = device_call(tuple, NULL);
            job->kernel->run(&call, first - begin, end - begin, worker);
            first = end;
        }
    }
}

/* Workers with equal shares of a matrix product pack the fewest panels, and of a product of one row
 * they read the longest runs of memory, which is what limits it. */
static bool op_shares_equally(const host_op *op)
{
    return op->count == 1 &&
           (op->number == BP_KERNEL_matmul || op->number == BP_KERNEL_matmul_quantised);
}

/* The kernel of an op in the form that runs it. The portable one joins nothing, so the slowest
 * that does stands in for it; ops of several tuples have their tasks counted when they are linked.
 */
static const bp_host_kernel *kernel_in(const host_context *context, uint32_t form,
                                       const host_op *op, bool fused)
{
    if (form == context->form || op->count != 1) {
        return op->kernel;
    }
    const bp_dtype working =
        bp_kernel_working(bp_kernel_describe((bp_kernel)op->number), op->tuples[0].dtypes);
    return context->kernel_of(form == 0 && fused ? BP_HOST_ISA_FUSES : form, working, op->number);
}

/* How many of an op's tasks are independent: those that follow go on from what these leave. */
static uint64_t tasks_together(const host_op *op, uint64_t tasks)
{
    return op->number == BP_KERNEL_attention_strip_backward
               ? bp_attention_strip_blocks(op->tuples[0].scalars)
               : tasks;
}

void bp_host_device_compute(host_context *context, const host_op *op, const host_how *how)
{
    if (op->fused >= FUSED_LOW_RANK) {
        return;
    }
    const host_op *cut = op - op->fused; /* whose tasks they are */
    host_job job = {op, kernel_in(context, how->form, cut, op->fused != 0), how->check, 0};
    uint64_t tasks = cut->count == 0 ? 0 : cut->tuples[cut->count - 1].end;
    if (job.kernel != cut->kernel) {
        tasks = job.kernel->tasks(cut->tuples[0].scalars);
    }
    if (op_low_rank(op)) {
        tasks = bp_matmul_fused_tasks(op->tuples[0].scalars);
    }
    const uint64_t most = tasks_together(op, tasks);
    for (; job.first < tasks; job.first += most) {
        const uint64_t left = tasks - job.first;
        bp_pool_run(&context->pool, device_run_tasks, &job, bp_least(left, most),
                    op_shares_equally(op) != how->turn);
    }
}

static bp_status run_compute(host_context *context, const host_op *op)
{
    if (context->verify != NULL) {
        return context->additions->verify(context, op);
    }
    bp_host_device_compute(context, op, &(host_how){.form = context->now});
    return BP_OK;
}

/* Copies what an engine says went wrong to the caller's error. */
static bp_status engine_failed(const host_context *context, const bp_host_engine *engine,
                               bp_status status)
{
    if (context->error != NULL && context->error->code == BP_OK && engine->error.code != BP_OK) {
        *context->error = engine->error;
    }
    return status;
}

/* Returns when the job of that mark, and those before it, have ended. */
static bp_status wait_engine(const host_context *context, bp_host_engine *engine, uint64_t mark)
{
    bp_status status = engine->running ? bp_host_engine_wait(engine, mark) : BP_OK;
    return status == BP_OK ? BP_OK : engine_failed(context, engine, status);
}

/* Half of an asynchronous pair. Without a thread for its engine a begin is done here and now, and
 * a wait has no tasks. */
static bp_status run_pending(host_context *context, const host_op *op)
{
    bp_host_engine *engine = engine_of(context, op->engine);
    const int64_t *request = op->tuples[0].scalars;
    uint64_t mark = context->runs * RUN_MARKS + (uint64_t)*request;
    if (!engine->running) {
        return run_compute(context, op);
    }
    if (op->pending == BP_PENDING_BEGIN) {
        bp_host_engine_post(engine, op, mark);
        return BP_OK;
    }
    return wait_engine(context, engine, mark);
}

/* Nothing is in flight when a run has returned, whatever happened. */
static bp_status land_all(host_context *context, bp_status status)
{
    for (uint32_t i = 0; i < HOST_ENGINES; i++) {
        bp_status landed = wait_engine(context, &context->engines[i], UINT64_MAX);
        status = status == BP_OK ? landed : status;
    }
    return status;
}

bp_status bp_host_device_run_ops(void *memory, uint32_t program, uint32_t first, uint32_t count)
{
    host_context *context = memory;
    if (program >= BP_PROGRAMS_MAX || context->programs[program].ops == NULL ||
        first > context->programs[program].count ||
        count > context->programs[program].count - first) {
        return BP_ERR_USAGE;
    }
    const host_op *ops = context->programs[program].ops + first;
    bp_status status = BP_OK;
    context->runs++;
    if (context->regions.tier != NULL) {
        BP_TRY(context->regions.tier->resolve(context->regions.tier_context, context->error));
    }
    for (uint32_t i = 0; i < count && status == BP_OK; i++) {
        const host_op *op = &ops[i];
        status =
            op->pending == BP_PENDING_NONE ? run_compute(context, op) : run_pending(context, op);
    }
    return land_all(context, status);
}

bp_status bp_host_device_run(void *memory, uint32_t program)
{
    const host_context *context = memory;
    const bool there = program < BP_PROGRAMS_MAX;
    return bp_host_device_run_ops(memory, program, 0, there ? context->programs[program].count : 0);
}

bp_status bp_host_device_wait(void *memory)
{
    (void)memory;
    return BP_OK;
}

const char *bp_host_device_variant(const void *memory)
{
    static const char *const names[BP_HOST_ISAS_ALL] = {"host portable", "host neon",   "host sve",
                                                        "host avx2",     "host avx512", "host amx"};
    const host_context *context = memory;
    return names[context->now];
}

uint64_t bp_host_device_bytes_in_use(const void *memory)
{
    const host_context *context = memory;
    return context->regions.space[BP_SPACE_DEVICE].bytes;
}

void bp_host_device_close(void *memory)
{
    host_context *context = memory;
    close_engines(context);
    bp_pool_close(&context->pool);
}

const bp_device bp_device_host = {
    .name = "host",
    .sums_by_row = true,
    .attention_over = true,
    .blocks = true,
    .tier = true,
    .alignment = host_alignment,
    .context_bytes = sizeof(host_context),
    .workspace = host_workspace,
    .link_bytes = bp_host_device_link_bytes,
    .open = host_open,
    .link = bp_host_device_link,
    .seal = bp_host_device_seal,
    .upload = bp_host_device_upload,
    .download = bp_host_device_download,
    .address = bp_host_device_reach,
    .four_blocks = host_four_blocks,
    .normals = host_normals,
    .run = bp_host_device_run,
    .run_ops = bp_host_device_run_ops,
    .wait = bp_host_device_wait,
    .move = bp_host_device_move,
    .processors = bp_host_device_processors,
    .word_sum = bp_host_device_word_sum,
    .variant = bp_host_device_variant,
    .bytes_in_use = bp_host_device_bytes_in_use,
    .close = bp_host_device_close,
};
