/* SPDX-License-Identifier: MIT */
/* The host device's table: open, link, run, close. */
#include "device/host/host.h"

#include <string.h>

#include "arena/arena.h"
#include "device/host/form_table.h"
#include "device/host/kernel.h"
#include "device/host/pool.h"

#define WORKER_ALIGNMENT 64 /* of a worker's part of a workspace: no shared cache lines */
#define LINK_ALIGNMENT   16

/* A tuple of a linked op: its call and where its tasks end in the op's own numbering. */
typedef struct host_tuple {
    bp_host_call call;
    uint64_t end;
} host_tuple;

typedef struct host_op {
    const bp_host_kernel *kernel;
    const host_tuple *tuples;
    uint32_t count;
} host_op;

typedef struct host_program {
    const host_op *ops; /* NULL: not linked */
    uint32_t count;
} host_program;

typedef struct host_context {
    unsigned char *arena;
    uint64_t arena_bytes;
    uint32_t form;
    bool sealed;
    bp_error *error; /* the caller's */
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    host_program programs[BP_PROGRAMS_MAX];
    bp_pool pool;
} host_context;

static uint32_t threads_of(const bp_device_options *options)
{
    return options->threads == 0 ? 1 : options->threads;
}

static uint64_t host_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    const bp_host_kernel *row = bp_host_portable.kernels[0][kernel]; /* the same for all types */
    if (row->workspace == NULL) {
        return 0;
    }
    uint64_t per_worker = bp_size_align(row->workspace(scalars, dtypes), WORKER_ALIGNMENT);
    return bp_size_mul(threads_of(options), per_worker);
}

/* A kernel has at least one operand, so there are no more tuples than operands. */
static uint64_t host_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars)
{
    (void)scalars;
    uint64_t per_operand = sizeof(void *) + sizeof(host_tuple) + LINK_ALIGNMENT;
    uint64_t bytes = bp_size_mul(ops, sizeof(host_op) + LINK_ALIGNMENT);
    return bp_size_add(bp_size_add(bytes, bp_size_mul(operands, per_operand)), LINK_ALIGNMENT);
}

static bp_status open_checks(const bp_device_options *options, const void *arena, uint32_t *form,
                             bp_error *error)
{
    const char *where = "host device";
    if (threads_of(options) > BP_THREADS_MAX) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "too many threads", "threads",
                                (int64_t)options->threads, BP_THREADS_MAX);
    }
    if (arena == NULL || (uintptr_t)arena % BP_ARENA_ALIGNMENT != 0) {
        return bp_error_set(error, BP_ERR_USAGE, where, "the arena is missing or not aligned", "");
    }
    bp_status found = bp_host_form_find(options->variant, form);
    if (found == BP_ERR_USAGE) {
        return bp_error_set(error, found, where,
                            "no such variant; there are portable, avx2, avx512", options->variant);
    }
    if (found == BP_ERR_DEVICE) {
        return bp_error_set(error, found, where, "this processor cannot run the variant",
                            options->variant);
    }
    return found;
}

static bp_status host_open(void *memory, const bp_device_options *options, void *arena,
                           uint64_t arena_bytes, bp_error *error)
{
    host_context *context = memory;
    uint32_t form;
    BP_TRY(open_checks(options, arena, &form, error));
    memset(context, 0, sizeof(*context));
    context->arena = arena;
    context->arena_bytes = arena_bytes;
    context->form = form;
    context->error = error;
    bp_host_form_kernels(form, context->kernels);
    if (bp_pool_open(&context->pool, threads_of(options)) != BP_OK) {
        return bp_error_numbers(error, BP_ERR_DEVICE, "host device",
                                "the system refuses to start another thread", "threads",
                                (int64_t)context->pool.threads, (int64_t)threads_of(options));
    }
    return BP_OK;
}

/* Turns the operands of one tuple into addresses. */
static void link_tuple(const host_context *context, const uint64_t *offsets, uint32_t operands,
                       void **pointers)
{
    for (uint32_t i = 0; i < operands; i++) {
        pointers[i] = offsets[i] == BP_OFFSET_ABSENT ? NULL : context->arena + offsets[i];
    }
}

static bp_status link_op(const host_context *context, const bp_linked_op *linked, bp_arena *memory,
                         host_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(linked->kernel);
    void *pointers_memory, *tuples_memory;
    size_t count = linked->tuples;
    BP_TRY(bp_arena_carve(memory, count * info->operand_count * sizeof(void *), LINK_ALIGNMENT,
                          &pointers_memory));
    BP_TRY(bp_arena_carve(memory, count * sizeof(host_tuple), LINK_ALIGNMENT, &tuples_memory));
    void **pointers = pointers_memory;
    host_tuple *tuples = tuples_memory;
    bp_dtype working = bp_kernel_working(info, linked->dtypes);
    if (working >= BP_HOST_ELEMENTS || context->kernels[working][linked->kernel] == NULL) {
        return bp_error_set(context->error, BP_ERR_DEVICE, "host device",
                            "a kernel has no form for this element type", info->name);
    }
    *op = (host_op){context->kernels[working][linked->kernel], tuples, linked->tuples};
    uint64_t tasks = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = i * info->operand_count;
        const uint64_t *scalars = linked->scalars; /* 8 bytes each */
        link_tuple(context, linked->offsets + first, info->operand_count, pointers + first);
        tuples[i].call = (bp_host_call){pointers + first, scalars + i * info->scalar_count,
                                        linked->dtypes + first};
        tasks += op->kernel->tasks(tuples[i].call.scalars);
        tuples[i].end = tasks;
    }
    return BP_OK;
}

static bp_status host_link(void *memory, uint32_t program, const bp_linked_program *linked,
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
    BP_TRY(bp_arena_carve(&arena, linked->count * sizeof(host_op), LINK_ALIGNMENT, &ops_memory));
    host_op *ops = ops_memory;
    for (uint32_t i = 0; i < linked->count; i++) {
        BP_TRY(link_op(context, &linked->ops[i], &arena, &ops[i]));
    }
    context->programs[program] = (host_program){ops, linked->count};
    return BP_OK;
}

static bp_status host_seal(void *memory)
{
    host_context *context = memory;
    context->sealed = true;
    return BP_OK;
}

static bool inside(const host_context *context, uint64_t offset, size_t bytes)
{
    return bp_size_add(offset, bytes) <= context->arena_bytes;
}

static bp_status host_upload(void *memory, uint64_t offset, const void *from, size_t bytes)
{
    host_context *context = memory;
    if (!inside(context, offset, bytes)) {
        return BP_ERR_USAGE;
    }
    memcpy(context->arena + offset, from, bytes);
    return BP_OK;
}

static bp_status host_download(void *memory, uint64_t offset, void *to, size_t bytes)
{
    host_context *context = memory;
    if (!inside(context, offset, bytes)) {
        return BP_ERR_USAGE;
    }
    memcpy(to, context->arena + offset, bytes);
    return BP_OK;
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

/* A range of an op's tasks, tuple by tuple. */
static void run_tasks(void *argument, uint64_t first, uint64_t last, uint32_t worker)
{
    const host_op *op = argument;
    for (uint32_t i = tuple_of(op, first); first < last; i++) {
        const host_tuple *tuple = &op->tuples[i];
        uint64_t begin = i == 0 ? 0 : op->tuples[i - 1].end;
        uint64_t end = last < tuple->end ? last : tuple->end;
        if (first < end) {
            op->kernel->run(&tuple->call, first - begin, end - begin, worker);
            first = end;
        }
    }
}

static bp_status host_run(void *memory, uint32_t program)
{
    host_context *context = memory;
    if (program >= BP_PROGRAMS_MAX || context->programs[program].ops == NULL) {
        return BP_ERR_USAGE;
    }
    const host_program *linked = &context->programs[program];
    for (uint32_t i = 0; i < linked->count; i++) {
        const host_op *op = &linked->ops[i];
        uint64_t tasks = op->count == 0 ? 0 : op->tuples[op->count - 1].end;
        bp_pool_run(&context->pool, run_tasks, (void *)(uintptr_t)op, tasks);
    }
    return BP_OK;
}

static bp_status host_wait(void *memory)
{
    (void)memory;
    return BP_OK;
}

static const char *host_variant(const void *memory)
{
    static const char *const names[BP_HOST_FORMS] = {"host portable", "host avx2", "host avx512"};
    const host_context *context = memory;
    return names[context->form];
}

static uint64_t host_bytes_in_use(const void *memory)
{
    const host_context *context = memory;
    return context->arena_bytes;
}

static void host_close(void *memory)
{
    host_context *context = memory;
    bp_pool_close(&context->pool);
}

const bp_device bp_device_host = {
    .name = "host",
    .context_bytes = sizeof(host_context),
    .workspace = host_workspace,
    .link_bytes = host_link_bytes,
    .open = host_open,
    .link = host_link,
    .seal = host_seal,
    .upload = host_upload,
    .download = host_download,
    .run = host_run,
    .wait = host_wait,
    .variant = host_variant,
    .bytes_in_use = host_bytes_in_use,
    .close = host_close,
};
