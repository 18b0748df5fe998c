/* SPDX-License-Identifier: MIT */
/* Making records, one by one or captured as a graph. */
#include "device/cuda/context.h"

/* Clusters are an attribute that no launch without them has. */
static bp_status kernel_make(cuda_context *context, const cuda_record_kernel *kernel)
{
    bp_cu_launch_attribute attribute = {
        .id = BP_CU_LAUNCH_CLUSTER,
        .value = {kernel->cluster[0], kernel->cluster[1], kernel->cluster[2]}};
    bool clusters = kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] > 1;
    const bp_cu_launch_config config = {
        .grid = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
        .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
        .shared_bytes = kernel->shared_bytes,
        .stream = context->work,
        .attributes = clusters ? &attribute : NULL,
        .attribute_count = clusters ? 1 : 0};
    size_t bytes = kernel->parameter_bytes;
    void *extra[] = {BP_CU_PARAMETERS, (void *)(uintptr_t)kernel->parameters,
                     BP_CU_PARAMETERS_BYTES, &bytes, BP_CU_PARAMETERS_END};
    return CUDA_CALL(context, cuLaunchKernelEx, &config, kernel->function, NULL, extra);
}

bp_status cuda_record_make(cuda_context *context, const cuda_record *record)
{
    const cuda_record_set *set = &record->as.set;
    switch ((cuda_record_kind)record->kind) {
    case CUDA_RECORD_SET:
        return CUDA_CALL(context, cuMemsetD32Async, set->to, set->value, (size_t)set->count,
                         context->work);
    case CUDA_RECORD_UNDEFINE:
        return CUDA_CALL(context, ptxvmUndefineAsync, set->to, (size_t)set->count, context->work);
    case CUDA_RECORD_COPY:
    case CUDA_RECORD_CALL:
    case CUDA_RECORD_WAIT:
        return cuda_pending_make(context, record);
    case CUDA_RECORD_KERNEL:
        break;
    }
    if (record->op != NULL && context->driver.ptxvmNextOperands != NULL) {
        BP_TRY(cuda_operands_declare(context, record));
    }
    return kernel_make(context, &record->as.kernel);
}

bp_status cuda_records_make(cuda_context *context, const cuda_program *program)
{
    for (uint32_t i = 0; i < program->count; i++) {
        BP_TRY(cuda_record_make(context, &program->records[i]));
    }
    return BP_OK;
}

/* A capture is ended whatever happened, since a stream that captures can do nothing else. */
static bp_status graph_capture(cuda_context *context, const cuda_program *program,
                               bp_cu_graph *graph)
{
    CUDA_TRY(context, cuStreamBeginCapture_v2, context->work, BP_CU_CAPTURE_THREAD_LOCAL);
    bp_status made = cuda_records_make(context, program);
    if (context->dead) {
        return made;
    }
    bp_cu_result result = context->driver.cuStreamEndCapture(context->work, graph);
    BP_TRY(made);
    return cuda_check(context, result, "cuStreamEndCapture");
}

bp_status cuda_graph_record(cuda_context *context, cuda_program *program)
{
    BP_TRY(graph_capture(context, program, &program->graph));
    return CUDA_CALL(context, cuGraphInstantiateWithFlags, &program->exec, program->graph, 0);
}

void cuda_forget(cuda_context *context, cuda_program *program)
{
    CUDA_GIVE_BACK(context, cuGraphExecDestroy, program->exec);
    CUDA_GIVE_BACK(context, cuGraphDestroy, program->graph);
    *program = (cuda_program){0};
}
