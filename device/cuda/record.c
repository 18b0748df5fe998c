/* SPDX-License-Identifier: MIT */
/* Making launches, one by one or recorded as a graph. */
#include <string.h>

#include "device/cuda/context.h"

static uint64_t value_of(const cuda_context *context, const bp_linked_op *op,
                         const bp_cuda_parameter *parameter)
{
    uint64_t offset = op->offsets[parameter->operand];
    switch ((bp_cuda_parameter_kind)parameter->kind) {
    case BP_CUDA_OPERAND:
        return offset == BP_OFFSET_ABSENT ? 0 : context->arena + offset + parameter->value;
    case BP_CUDA_BASE:
        return context->arena;
    case BP_CUDA_TABLE:
        return context->arena + op->table;
    case BP_CUDA_WORD64:
    case BP_CUDA_WORD32:
        break;
    }
    return parameter->value;
}

/* Every parameter lies at the next multiple of its own size. */
uint32_t cuda_blob_write(const cuda_context *context, const bp_linked_op *op,
                         const bp_cuda_launch *launch, unsigned char blob[CUDA_BLOB_MOST])
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < launch->parameter_count; i++) {
        const bp_cuda_parameter *parameter = &launch->parameter[i];
        uint64_t value = value_of(context, op, parameter);
        uint32_t low = (uint32_t)value;
        if (parameter->kind == BP_CUDA_WORD32) {
            memcpy(blob + bytes, &low, sizeof low);
            bytes += (uint32_t)sizeof low;
            continue;
        }
        bytes = (bytes + 7) / 8 * 8;
        memcpy(blob + bytes, &value, sizeof value);
        bytes += (uint32_t)sizeof value;
    }
    return bytes;
}

/* The extent of an operand from where the parameter points. Part of an operand is given as one
 * run. */
static bp_cu_operand operand_extent(const cuda_context *context, const bp_linked_op *op,
                                    const bp_cuda_parameter *parameter, const bp_extent *extent)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_operand_info *operand = &info->operand[parameter->operand];
    bp_cu_operand out = {.rows = 1};
    if (operand->workspace) {
        out.row_bytes = bp_cuda_workspace(&context->target, op->kernel, op->scalars);
    } else {
        size_t element =
            bp_operand_element_bytes(operand->type, (bp_dtype)op->dtypes[parameter->operand]);
        out.rows = extent->rows;
        out.row_bytes = extent->width * element;
        out.pitch = extent->pitch * element;
    }
    if (parameter->value != 0) {
        uint64_t all = out.rows > 0 ? (out.rows - 1) * out.pitch + out.row_bytes : 0;
        out = (bp_cu_operand){.rows = 1, .row_bytes = bp_size_sub(all, parameter->value)};
    }
    return out;
}

/* Tells an instrument what the next launch may touch. bp_access has its scratch beside read and
 * write, which here is both. */
static bp_status declare(cuda_context *context, const cuda_launch *launch)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_cu_operand operands[BP_CUDA_PARAMETERS_MAX];
    bp_extent extents[BP_OPERANDS_MAX];
    const bp_linked_op *op = launch->op;
    uint32_t count = 0;
    uint32_t planned = bp_cuda_plan_launches(&context->target, op, launches);
    const bp_cuda_launch *made = &launches[launch->index < planned ? launch->index : 0];
    bp_kernel_describe(op->kernel)->extents(op->scalars, extents);
    for (uint32_t i = 0; i < made->parameter_count; i++) {
        const bp_cuda_parameter *parameter = &made->parameter[i];
        bp_cu_operand operand = {.rows = 1};
        if (parameter->kind == BP_CUDA_OPERAND) {
            operand = operand_extent(context, op, parameter, &extents[parameter->operand]);
            operand.access =
                parameter->access == BP_ACCESS_SCRATCH ? BP_ACCESS_READ_WRITE : parameter->access;
        } else if (parameter->kind == BP_CUDA_BASE) {
            operand.row_bytes = context->arena_bytes;
            operand.access = BP_ACCESS_READ_WRITE;
        } else if (parameter->kind == BP_CUDA_TABLE) {
            operand.row_bytes = bp_cuda_table_bytes(op->kernel, op->tuples);
            operand.access = BP_ACCESS_READ;
        } else {
            continue;
        }
        operand.parameter = i;
        operands[count++] = operand;
    }
    return CUDA_CALL(context, ptxvmNextOperands, operands, count);
}

bp_status cuda_launch_make(cuda_context *context, const cuda_launch *launch)
{
    if (launch->function == NULL) {
        return CUDA_CALL(context, ptxvmUndefineAsync, launch->undefined,
                         (size_t)launch->undefined_bytes, context->work);
    }
    if (launch->op != NULL && context->driver.ptxvmNextOperands != NULL) {
        BP_TRY(declare(context, launch));
    }
    const bp_cu_launch_config config = {
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .shared_bytes = launch->shared_bytes,
        .stream = context->work};
    size_t bytes = launch->blob_bytes;
    void *extra[] = {BP_CU_PARAMETERS, (void *)(uintptr_t)launch->blob, BP_CU_PARAMETERS_BYTES,
                     &bytes, BP_CU_PARAMETERS_END};
    return CUDA_CALL(context, cuLaunchKernelEx, &config, launch->function, NULL, extra);
}

bp_status cuda_launch_all(cuda_context *context, const cuda_program *program)
{
    for (uint32_t i = 0; i < program->count; i++) {
        BP_TRY(cuda_launch_make(context, &program->launches[i]));
    }
    return BP_OK;
}

/* A capture is ended whatever happened, since a stream that captures can do nothing else. */
static bp_status capture(cuda_context *context, const cuda_program *program, bp_cu_graph *graph)
{
    CUDA_TRY(context, cuStreamBeginCapture_v2, context->work, BP_CU_CAPTURE_THREAD_LOCAL);
    bp_status launched = cuda_launch_all(context, program);
    if (context->dead) {
        return launched;
    }
    bp_cu_result result = context->driver.cuStreamEndCapture(context->work, graph);
    BP_TRY(launched);
    return cuda_check(context, result, "cuStreamEndCapture");
}

bp_status cuda_record(cuda_context *context, cuda_program *program)
{
    BP_TRY(capture(context, program, &program->graph));
    return CUDA_CALL(context, cuGraphInstantiateWithFlags, &program->exec, program->graph, 0);
}

void cuda_forget(cuda_context *context, cuda_program *program)
{
    CUDA_GIVE_BACK(context, cuGraphExecDestroy, program->exec);
    CUDA_GIVE_BACK(context, cuGraphDestroy, program->graph);
    *program = (cuda_program){0};
}
