/* SPDX-License-Identifier: MIT */
/* Linking: every op becomes launches whose parameters are constants, list ops get their tables, and
 * the program is recorded. */
#include "device/cuda/context.h"

#include "arena/arena.h"

#define LINK_ALIGNMENT 16

/* What a list op of the fewest operands per tuple needs of its table for each of them. */
#define TABLE_BYTES_PER_OPERAND (BP_CUDA_RECORD_WORDS * sizeof(uint64_t) / 2)

uint64_t cuda_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars)
{
    (void)scalars;
    uint64_t per_launch = sizeof(cuda_launch) + CUDA_BLOB_MOST + LINK_ALIGNMENT;
    uint64_t per_op = BP_CUDA_LAUNCHES_MAX * per_launch + LINK_ALIGNMENT;
    uint64_t bytes = bp_size_mul(ops, per_op);
    bytes = bp_size_add(bytes, bp_size_mul(operands, TABLE_BYTES_PER_OPERAND));
    return bp_size_add(bytes, 2 * LINK_ALIGNMENT);
}

static bp_status carve(cuda_context *context, bp_arena *memory, size_t bytes, void **out)
{
    if (bp_arena_carve(memory, bytes, LINK_ALIGNMENT, out) != BP_OK) {
        return cuda_fail(context, BP_ERR_FIT, "the memory for linking is too small", NULL);
    }
    return BP_OK;
}

static bp_status link_launch(cuda_context *context, const bp_linked_op *op,
                             const bp_cuda_launch *launch, bp_arena *memory, cuda_launch *out)
{
    void *blob;
    BP_TRY(carve(context, memory, CUDA_BLOB_MOST, &blob));
    uint32_t bytes = cuda_blob_write(context, op, launch, blob);
    *out = (cuda_launch){.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                         .block = {launch->block[0], launch->block[1], launch->block[2]},
                         .shared_bytes = launch->shared_bytes,
                         .blob = blob,
                         .blob_bytes = bytes,
                         .op = op};
    return cuda_function_find(context, launch, bytes, &out->function);
}

/* A table is a constant of the link: written here and copied to its place. */
static bp_status link_table(cuda_context *context, const bp_linked_op *op, bp_arena *memory)
{
    uint64_t bytes = bp_cuda_table_bytes(op->kernel, op->tuples);
    if (bytes == 0) {
        return BP_OK;
    }
    void *table;
    BP_TRY(carve(context, memory, (size_t)bytes, &table));
    bp_cuda_write_table(op, table);
    return cuda_upload(context, op->table, table, (size_t)bytes);
}

/* Under an instrument that knows of undefined bytes, poison is what it is there for. */
static bool undefines(const cuda_context *context, const bp_linked_op *op)
{
    return op->kernel == BP_KERNEL_poison && context->driver.ptxvmUndefineAsync != NULL;
}

static bp_status link_op(cuda_context *context, const bp_linked_op *op, bp_arena *memory,
                         cuda_launch *out, uint32_t *count)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    *count = 1;
    if (undefines(context, op)) {
        const bp_poison_scalars *scalars = op->scalars;
        *out = (cuda_launch){.undefined = context->arena + op->offsets[0],
                             .undefined_bytes = (uint64_t)scalars->count};
        return BP_OK;
    }
    *count = bp_cuda_plan_launches(&context->target, op, launches);
    if (*count == BP_CUDA_UNSUPPORTED) {
        return cuda_fail(context, BP_ERR_USAGE,
                         "no CUDA kernel serves these element types and shapes",
                         bp_kernel_describe(op->kernel)->name);
    }
    BP_TRY(link_table(context, op, memory));
    for (uint32_t i = 0; i < *count; i++) {
        BP_TRY(link_launch(context, op, &launches[i], memory, &out[i]));
        out[i].index = i;
    }
    return BP_OK;
}

static bp_status link_program(cuda_context *context, const bp_linked_program *linked,
                              bp_arena *memory, cuda_program *program)
{
    void *launches_memory;
    size_t most = (size_t)linked->count * BP_CUDA_LAUNCHES_MAX;
    BP_TRY(carve(context, memory, most * sizeof(cuda_launch), &launches_memory));
    cuda_launch *launches = launches_memory;
    uint32_t used = 0;
    for (uint32_t i = 0; i < linked->count; i++) {
        uint32_t count;
        BP_TRY(link_op(context, &linked->ops[i], memory, launches + used, &count));
        used += count;
    }
    program->launches = launches;
    program->count = used;
    return context->plain ? BP_OK : cuda_record(context, program);
}

bp_status cuda_link(void *memory, uint32_t program, const bp_linked_program *linked,
                    void *link_memory, size_t bytes)
{
    cuda_context *context = memory;
    if (context->sealed) {
        return BP_ERR_SEALED;
    }
    if (program >= BP_PROGRAMS_MAX) {
        return BP_ERR_USAGE;
    }
    BP_TRY(cuda_enter(context));
    bp_arena arena;
    bp_arena_init(&arena, link_memory, bytes);
    cuda_forget(context, &context->programs[program]);
    return link_program(context, linked, &arena, &context->programs[program]);
}
