/* SPDX-License-Identifier: MIT */
/* The CUDA device's table, and what happens between link and close. */
#include "device/cuda/cuda.h"

#include "device/cuda/context.h"
#include "device/cuda/share.h"

static uint64_t cuda_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_cuda_target_row *row = bp_cuda_target_find(options->target);
    if (row == NULL) {
        return BP_SIZE_INVALID;
    }
    bp_cuda_target target = bp_cuda_target_of(row, options->tf32);
    target.dequantizes = options->dequantizes;
    return bp_cuda_workspace(&target, kernel, scalars);
}

/* Products in fp8 are Hopper's, and some rows the host's. */
static bool cuda_supports(const bp_device_options *options, bp_kernel kernel, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_cuda_target_row *row = bp_cuda_target_find(options->target);
    if (bp_cuda_lacks(kernel)) {
        return false;
    }
    return kernel != BP_KERNEL_matmul_fp8 || row == NULL || bp_cuda_target_of(row, false).hopper;
}

static bp_status note_free(cuda_context *context, uint64_t *free_bytes)
{
    size_t available = 0;
    size_t total = 0;
    CUDA_TRY(context, cuMemGetInfo_v2, &available, &total);
    *free_bytes = available;
    return BP_OK;
}

/* Launches every kernel and uploads every graph, so that a step meets nothing for the first time.
 */
static bp_status cuda_seal(void *memory)
{
    cuda_context *context = memory;
    BP_TRY(cuda_enter(context));
    BP_TRY(note_free(context, &context->memory.free_linked));
    BP_TRY(cuda_words_begin(context));
    BP_TRY(cuda_functions_touch(context));
    for (uint32_t i = 0; i < BP_PROGRAMS_MAX; i++) {
        if (context->programs[i].exec != NULL) {
            CUDA_TRY(context, cuGraphUpload, context->programs[i].exec, context->work);
        }
    }
    CUDA_TRY(context, cuEventRecord, context->ran, context->work);
    BP_TRY(cuda_stream_ended(context, context->work));
    context->sealed = true;
    return note_free(context, &context->memory.free_sealed);
}

static bp_status cuda_run(void *memory, uint32_t program)
{
    cuda_context *context = memory;
    if (program >= BP_PROGRAMS_MAX || context->programs[program].records == NULL) {
        return BP_ERR_USAGE;
    }
    const cuda_program *linked = &context->programs[program];
    BP_TRY(cuda_enter(context));
    if (linked->exec != NULL) {
        CUDA_TRY(context, cuGraphLaunch, linked->exec, context->work);
    } else {
        BP_TRY(cuda_records_make(context, linked));
    }
    return CUDA_CALL(context, cuEventRecord, context->ran, context->work);
}

/* Record by record: a graph is of the whole program. */
static bp_status cuda_run_ops(void *memory, uint32_t program, uint32_t first, uint32_t count)
{
    cuda_context *context = memory;
    const bool there = program < BP_PROGRAMS_MAX && context->programs[program].records != NULL;
    const cuda_program *linked = there ? &context->programs[program] : NULL;
    if (!there || first > linked->op_count || count > linked->op_count - first) {
        return BP_ERR_USAGE;
    }
    BP_TRY(cuda_enter(context));
    for (uint32_t i = 0; i < linked->count; i++) {
        const cuda_record *record = &linked->records[i];
        const bool within =
            record->op >= linked->ops + first && record->op < linked->ops + first + count;
        if (within) {
            BP_TRY(cuda_record_make(context, record));
        }
    }
    return CUDA_CALL(context, cuEventRecord, context->ran, context->work);
}

static bp_status cuda_wait(void *memory)
{
    cuda_context *context = memory;
    BP_TRY(cuda_enter(context));
    BP_TRY(cuda_stream_ended(context, context->copies));
    BP_TRY(cuda_stream_ended(context, context->work));
    return cuda_calls_ended(context);
}

static const char *cuda_variant(const void *memory)
{
    const cuda_context *context = memory;
    return context->tf32 ? context->row->variant_tf32 : context->row->variant;
}

/* The table's contract gives a context that is only read, but the driver has to be asked. */
static uint64_t cuda_bytes_in_use(const void *memory)
{
    const cuda_context *context = memory;
    size_t available = 0;
    size_t total = 0;
    bool asked = !context->failed &&
                 context->driver.cuCtxSetCurrent(context->handle) == BP_CU_SUCCESS &&
                 context->driver.cuMemGetInfo_v2(&available, &total) == BP_CU_SUCCESS;
    return asked ? total - available : 0;
}

const char *bp_cuda_log(const void *context)
{
    return ((const cuda_context *)context)->log;
}

bp_status bp_cuda_memory_read(void *context, bool with_share, bp_device_memory *memory)
{
    cuda_context *cuda = context;
    BP_TRY(cuda_enter(cuda));
    BP_TRY(note_free(cuda, &cuda->memory.free_now));
    if (with_share) {
        cuda->memory.share = bp_cuda_share(&cuda->uuid);
    }
    *memory = cuda->memory;
    return BP_OK;
}

const bp_device bp_device_cuda = {
    .name = "cuda",
    .launches = true,
    .context_bytes = sizeof(cuda_context),
    .workspace = cuda_workspace,
    .supports = cuda_supports,
    .link_bytes = cuda_link_bytes,
    .table_bytes = bp_cuda_table_bytes,
    .open = cuda_open,
    .link = cuda_link,
    .seal = cuda_seal,
    .upload = cuda_upload,
    .download = cuda_download,
    .run = cuda_run,
    .run_ops = cuda_run_ops,
    .wait = cuda_wait,
    .word_sum = cuda_word_sum,
    .variant = cuda_variant,
    .bytes_in_use = cuda_bytes_in_use,
    .close = cuda_close,
};
