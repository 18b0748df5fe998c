/* SPDX-License-Identifier: MIT */
/* The host device's table: open, link, run, close. */
#include "device/host/host.h"

#include <string.h>

#include "arena/arena.h"
#include "device/host/engine.h"
#include "device/host/form_table.h"
#include "device/host/join.h"
#include "device/host/kernel.h"
#include "device/host/pool.h"

#define WORKER_ALIGNMENT 64 /* of a worker's part of a workspace: no shared cache lines */
#define LINK_ALIGNMENT   16
#define RUN_MARKS        ((uint64_t)1 << 32) /* more than any program has tickets */

/* A tuple of a linked op: its call and where its tasks end in the op's own numbering. */
typedef struct host_tuple {
    const void *pointers;
    const void *scalars;
    const uint8_t *dtypes;
    uint64_t end;
} host_tuple;

#define JOINED_LATER UINT8_MAX /* host_op.joined: an op after this one does this one's work too */

typedef struct host_op {
    const bp_host_kernel *kernel;
    const host_tuple *tuples;
    uint32_t count;
    uint8_t flight; /* bp_flight */
    uint8_t engine; /* bp_engine */
    uint8_t number; /* bp_kernel */
    uint8_t joined; /* how many ops before this one the product stands that it is done with; or 0 */
} host_op;

typedef struct host_program {
    const host_op *ops; /* NULL: not linked */
    uint32_t count;
} host_program;

#define HOST_ENGINES (BP_ENGINE_COUNT - 1) /* beside the pool, which is BP_ENGINE_COMPUTE */

typedef struct host_context {
    bp_places places;
    uint32_t form;
    bool sealed;
    bp_error *error; /* the caller's */
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    host_program programs[BP_PROGRAMS_MAX];
    bp_pool pool;
    uint64_t runs;                        /* so far: marks of the engines' jobs are of one run */
    bp_host_engine engines[HOST_ENGINES]; /* see engine_of */
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

static bool arena_fits(const bp_region *arena)
{
    return arena->address != NULL && (uintptr_t)arena->address % BP_ARENA_ALIGNMENT == 0;
}

static bp_status open_checks(const bp_device_options *options, const bp_places *places,
                             uint32_t *form, bp_error *error)
{
    const char *where = "host device";
    if (threads_of(options) > BP_THREADS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "too many threads", "threads",
                              (int64_t)options->threads, BP_LIMIT_MOST, BP_THREADS_MAX);
    }
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        bool needed = i == BP_SPACE_DEVICE || places->space[i].bytes > 0;
        if (needed && !arena_fits(&places->space[i])) {
            return bp_error_set(error, BP_ERR_USAGE, where, "the arena is missing or not aligned",
                                bp_space_name((bp_space)i));
        }
    }
    bp_status found = bp_host_form_find(options->variant, form);
    if (found == BP_ERR_USAGE) {
        return bp_error_set(error, found, where,
                            "no such variant; there are portable, avx2, avx512, amx",
                            options->variant);
    }
    if (found == BP_ERR_DEVICE) {
        return bp_error_set(error, found, where, "this processor cannot run the variant",
                            options->variant);
    }
    return found;
}

static bp_host_call device_call(const host_tuple *tuple, const bp_host_then *then)
{
    return (bp_host_call){tuple->pointers, tuple->scalars, tuple->dtypes, then};
}

/* One begin, on the thread of its engine. The whole of a call of the fabric is one job. */
static bp_status do_begin(void *memory, const void *job, bp_error *error)
{
    const host_context *context = memory;
    const host_op *op = job;
    const bp_host_call call = device_call(&op->tuples[0], NULL);
    if (op->engine != BP_ENGINE_FABRIC || context->places.fabric == NULL) {
        op->kernel->run(&call, 0, op->tuples[0].end, 0);
        return BP_OK;
    }
    const bp_fabric *fabric = context->places.fabric;
    const bp_all_gather_begin_pointers *p = call.pointers; /* to and from, as in all its rows */
    const bp_fabric_transfer transfer =
        bp_fabric_transfer_of((bp_kernel)op->number, call.scalars, p->to, p->from);
    BP_TRY(fabric->begin(context->places.rank, &transfer, error));
    return fabric->wait(context->places.rank, transfer.ticket, error);
}

static bp_host_engine *engine_of(host_context *context, uint32_t engine)
{
    return &context->engines[engine - 1];
}

/* Programs of one rank in the device arena need no thread beside the pool. */
static bp_status open_engines(host_context *context)
{
    bool fabric = context->places.fabric != NULL;
    if (fabric || context->places.space[BP_SPACE_HOST].bytes > 0) {
        BP_TRY(bp_host_engine_open(engine_of(context, BP_ENGINE_COPY), do_begin, context));
    }
    if (fabric) {
        BP_TRY(bp_host_engine_open(engine_of(context, BP_ENGINE_FABRIC), do_begin, context));
    }
    return BP_OK;
}

static void close_engines(host_context *context)
{
    for (uint32_t i = 0; i < HOST_ENGINES; i++) {
        bp_host_engine_close(&context->engines[i]);
    }
}

static bp_status host_open(void *memory, const bp_device_options *options, const bp_places *places,
                           bp_error *error)
{
    host_context *context = memory;
    uint32_t form;
    BP_TRY(open_checks(options, places, &form, error));
    memset(context, 0, sizeof(*context));
    context->places = *places;
    context->form = form;
    context->error = error;
    bp_host_form_kernels(form, context->kernels);
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

/* Turns the operands of one tuple into addresses; false when one lies in a space that is not there.
 */
static bool link_tuple(const host_context *context, const uint64_t *offsets, uint32_t operands,
                       void **pointers)
{
    bool there = true;
    for (uint32_t i = 0; i < operands; i++) {
        pointers[i] = NULL;
        if (offsets[i] == BP_OFFSET_ABSENT) {
            continue;
        }
        uint32_t space = bp_place_space(offsets[i]);
        unsigned char *arena = space < BP_SPACE_COUNT ? context->places.space[space].address : NULL;
        there = there && arena != NULL;
        pointers[i] = arena != NULL ? arena + bp_place_offset(offsets[i]) : NULL;
    }
    return there;
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
    BP_TRY(bp_fabric_check(&context->places, linked, context->error));
    *op = (host_op){context->kernels[working][linked->kernel],
                    tuples,
                    linked->tuples,
                    (uint8_t)info->flight,
                    (uint8_t)info->engine,
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

/* Where `bytes` bytes at a place are; NULL when they are not all in its space. */
static unsigned char *host_address(const host_context *context, uint64_t place, size_t bytes)
{
    uint32_t space = bp_place_space(place);
    uint64_t offset = bp_place_offset(place);
    if (space >= BP_SPACE_COUNT ||
        bp_size_add(offset, bytes) > context->places.space[space].bytes) {
        return NULL;
    }
    return (unsigned char *)context->places.space[space].address + offset;
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
    const bp_join join = bp_host_join(linked, at, threads, device_workspace, context);
    if (context->form == 0 || join.before == 0 || ops[at - join.before].joined != 0) {
        return;
    }
    bp_matmul_pointers *p = (void *)(uintptr_t)tuple->pointers;
    p->work = host_address(context, join.work, join.work_bytes);
    tuple->end = join.work_bytes / threads / WORKER_ALIGNMENT * WORKER_ALIGNMENT;
    ops[at - join.before].joined = JOINED_LATER;
    ops[at].joined = (uint8_t)join.before;
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
        link_join(context, linked, i, ops, (host_tuple *)(uintptr_t)ops[i].tuples);
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

static void *host_reach(const void *memory, uint64_t place, size_t bytes)
{
    return host_address(memory, place, bytes);
}

static bp_status host_upload(void *memory, uint64_t place, const void *from, size_t bytes)
{
    unsigned char *to = host_address(memory, place, bytes);
    if (to == NULL) {
        return BP_ERR_USAGE;
    }
    memcpy(to, from, bytes);
    return BP_OK;
}

static bp_status host_download(void *memory, uint64_t place, void *to, size_t bytes)
{
    const unsigned char *from = host_address(memory, place, bytes);
    if (from == NULL) {
        return BP_ERR_USAGE;
    }
    memcpy(to, from, bytes);
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
static void device_run_tasks(void *argument, uint64_t first, uint64_t last, uint32_t worker)
{
    const host_op *op = argument;
    if (op->joined != 0) {
        const bp_matmul_pointers *p = op->tuples[0].pointers;
        const bp_host_then then = {device_call(&op->tuples[0], NULL), p->work, op->tuples[0].end};
        const bp_host_call call = device_call(&op[-op->joined].tuples[0], &then);
        op[-op->joined].kernel->run(&call, first, last, worker);
        return;
    }
    for (uint32_t i = tuple_of(op, first); first < last; i++) {
        const host_tuple *tuple = &op->tuples[i];
        uint64_t begin = i == 0 ? 0 : op->tuples[i - 1].end;
        uint64_t end = last < tuple->end ? last : tuple->end;
        if (first < end) {
            const bp_host_call call = device_call(tuple, NULL);
            op->kernel->run(&call, first - begin, end - begin, worker);
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

static void run_compute(host_context *context, const host_op *op)
{
    if (op->joined == JOINED_LATER) {
        return;
    }
    const host_op *cut = op - op->joined; /* whose tasks they are */
    uint64_t tasks = cut->count == 0 ? 0 : cut->tuples[cut->count - 1].end;
    bool equal = op_shares_equally(op);
    bp_pool_run(&context->pool, device_run_tasks, (void *)(uintptr_t)op, tasks, equal);
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
static bp_status run_flight(host_context *context, const host_op *op)
{
    bp_host_engine *engine = engine_of(context, op->engine);
    const int64_t *ticket = op->tuples[0].scalars;
    uint64_t mark = context->runs * RUN_MARKS + (uint64_t)*ticket;
    if (!engine->running) {
        run_compute(context, op);
        return BP_OK;
    }
    if (op->flight == BP_FLIGHT_BEGIN) {
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

static bp_status host_run_ops(void *memory, uint32_t program, uint32_t first, uint32_t count)
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
    for (uint32_t i = 0; i < count && status == BP_OK; i++) {
        const host_op *op = &ops[i];
        if (op->flight == BP_FLIGHT_NONE) {
            run_compute(context, op);
        } else {
            status = run_flight(context, op);
        }
    }
    return land_all(context, status);
}

static bp_status host_run(void *memory, uint32_t program)
{
    const host_context *context = memory;
    const bool there = program < BP_PROGRAMS_MAX;
    return host_run_ops(memory, program, 0, there ? context->programs[program].count : 0);
}

static bp_status host_wait(void *memory)
{
    (void)memory;
    return BP_OK;
}

static const char *host_variant(const void *memory)
{
    static const char *const names[BP_HOST_FORMS_ALL] = {"host portable", "host avx2",
                                                         "host avx512", "host amx"};
    const host_context *context = memory;
    return names[context->form];
}

static uint64_t host_bytes_in_use(const void *memory)
{
    const host_context *context = memory;
    return context->places.space[BP_SPACE_DEVICE].bytes;
}

static void host_close(void *memory)
{
    host_context *context = memory;
    close_engines(context);
    bp_pool_close(&context->pool);
}

const bp_device bp_device_host = {
    .name = "host",
    .sums_by_row = true,
    .context_bytes = sizeof(host_context),
    .workspace = host_workspace,
    .link_bytes = host_link_bytes,
    .open = host_open,
    .link = host_link,
    .seal = host_seal,
    .upload = host_upload,
    .download = host_download,
    .address = host_reach,
    .run = host_run,
    .run_ops = host_run_ops,
    .wait = host_wait,
    .variant = host_variant,
    .bytes_in_use = host_bytes_in_use,
    .close = host_close,
};
