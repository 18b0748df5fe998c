/* SPDX-License-Identifier: MIT */
/* Linking: every op becomes records whose parameters are constants, list ops get their tables, and
 * the program is recorded as a graph. */
#include <string.h>

#include "device/cuda/context.h"

#define LINK_ALIGNMENT 16
#define POISON_WORD    UINT32_C(0x7fa00000) /* of kernels.def */

/* What a list op of the fewest operands per tuple needs of its table for each of them. */
#define TABLE_BYTES_PER_OPERAND (BP_CUDA_RECORD_WORDS * sizeof(uint64_t) / 2)

uint64_t cuda_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars)
{
    (void)scalars;
    uint64_t per_launch = sizeof(cuda_record) + LINK_ALIGNMENT;
    uint64_t per_op = BP_CUDA_LAUNCHES_MAX * per_launch + CUDA_PARAMETERS_BYTES + LINK_ALIGNMENT;
    uint64_t bytes = bp_size_mul(ops, per_op);
    bytes = bp_size_add(bytes, bp_size_mul(operands, TABLE_BYTES_PER_OPERAND));
    return bp_size_add(bytes, 2 * LINK_ALIGNMENT);
}

bp_status cuda_link_allocate(cuda_context *context, bp_arena *memory, size_t bytes, void **out)
{
    if (bp_arena_allocate(memory, bytes, LINK_ALIGNMENT, out) != BP_OK) {
        return cuda_fail(context, BP_ERR_FIT, "the memory for linking is too small", NULL);
    }
    return BP_OK;
}

static bp_status link_launch(cuda_context *context, const bp_linked_op *op,
                             const bp_cuda_launch *launch, bp_arena *memory, cuda_record *out)
{
    unsigned char parameters[CUDA_PARAMETERS_BYTES];
    uint32_t bytes;
    void *kept;
    const bp_status written = cuda_parameters_write(context, op, launch, parameters, &bytes);
    if (written == BP_ERR_FIT) {
        return cuda_fail(context, BP_ERR_FIT, "a kernel's parameters have too many bytes",
                         bp_kernel_describe(op->kernel)->name);
    }
    if (written != BP_OK) {
        bp_error_prefix(context->error, bp_kernel_describe(op->kernel)->name);
        return written;
    }
    BP_TRY(cuda_link_allocate(context, memory, bytes, &kept));
    memcpy(kept, parameters, bytes);
    *out = (cuda_record){
        .kind = CUDA_RECORD_KERNEL,
        .op = op,
        .as.kernel = {.parameters = kept,
                      .parameter_bytes = bytes,
                      .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                      .block = {launch->block[0], launch->block[1], launch->block[2]},
                      .cluster = {launch->cluster[0], launch->cluster[1], launch->cluster[2]},
                      .shared_bytes = launch->shared_bytes}};
    return cuda_function_find(context, launch, bytes, &out->as.kernel.function);
}

/* A table is a constant of the link: written here and copied to its place. */
static bp_status link_table(cuda_context *context, const bp_linked_op *op, bp_arena *memory)
{
    uint64_t bytes = bp_cuda_table_bytes(op->kernel, op->tuples);
    if (bytes == 0) {
        return BP_OK;
    }
    void *table;
    BP_TRY(cuda_link_allocate(context, memory, (size_t)bytes, &table));
    bp_cuda_write_table(op, table);
    return cuda_upload(context, op->table, table, (size_t)bytes);
}

/* Poison is words of one value. Under an instrument that knows of undefined bytes those of the GPU
 * become what poison is there for. */
static uint32_t link_poison(const cuda_context *context, const bp_linked_op *op, cuda_record *out)
{
    const bp_poison_scalars *scalars = op->scalars;
    bool undefines = context->driver.ptxvmUndefineAsync != NULL &&
                     bp_address_space(op->offsets[0]) == BP_SPACE_DEVICE;
    uint64_t words = (uint64_t)scalars->count / sizeof(uint32_t);
    *out = (cuda_record){.kind = undefines ? CUDA_RECORD_UNDEFINE : CUDA_RECORD_SET,
                         .op = op,
                         .as.set = {.to = cuda_address(context, op->offsets[0], 0),
                                    .count = undefines ? (uint64_t)scalars->count : words,
                                    .value = POISON_WORD}};
    return words > 0 ? 1 : 0;
}

/* The launches of an op, their modules loaded: planned anew for each module that the driver does
 * not take. */
static bp_status plan_op(cuda_context *context, const bp_linked_op *op, const bp_linked_op *next,
                         bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX], uint32_t *count, bool *both)
{
    bool again = true;
    while (again) {
        *count = bp_cuda_plan_pair(&context->target, op, next, launches, both);
        if (*count == BP_CUDA_UNSUPPORTED) {
            return cuda_fail(context, BP_ERR_USAGE,
                             "no CUDA kernel serves these element types and shapes",
                             bp_kernel_describe(op->kernel)->name);
        }
        BP_TRY(cuda_modules_load(context, launches, *count, &again));
    }
    return BP_OK;
}

/* The records of an op, and of the one behind it where `both`. */
static bp_status link_op(cuda_context *context, const bp_linked_op *op, const bp_linked_op *next,
                         bp_arena *memory, cuda_record *out, uint32_t *count, bool *both)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    *both = false;
    if (op->kernel == BP_KERNEL_poison) {
        *count = link_poison(context, op, out);
        return BP_OK;
    }
    if (bp_kernel_describe(op->kernel)->pending != BP_PENDING_NONE) {
        *count = 1;
        return cuda_pending_link(context, op, memory, out);
    }
    BP_TRY(plan_op(context, op, next, launches, count, both));
    BP_TRY(link_table(context, op, memory));
    for (uint32_t i = 0; i < *count; i++) {
        BP_TRY(link_launch(context, op, &launches[i], memory, &out[i]));
        out[i].as.kernel.index = (uint8_t)i;
    }
    return BP_OK;
}

static bp_status link_program(cuda_context *context, const bp_linked_program *linked,
                              bp_arena *memory, cuda_program *program)
{
    void *records_memory;
    size_t most = (size_t)linked->count * BP_CUDA_LAUNCHES_MAX;
    BP_TRY(cuda_link_allocate(context, memory, most * sizeof(cuda_record), &records_memory));
    cuda_record *records = records_memory;
    uint32_t used = 0;
    bool both = false;
    for (uint32_t i = 0; i < linked->count; i += both ? 2 : 1) {
        const bp_linked_op *op = &linked->ops[i], *next = i + 1 < linked->count ? op + 1 : NULL;
        uint32_t count;
        BP_TRY(link_op(context, op, next, memory, records + used, &count, &both));
        used += count;
    }
    program->records = records;
    program->count = used;
    program->ops = linked->ops;
    program->op_count = linked->count;
    return context->plain ? BP_OK : cuda_graph_record(context, program);
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
