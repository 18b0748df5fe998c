/* SPDX-License-Identifier: MIT */
/* PTX modules: loaded when the first program that names them is linked, never later. */
#include <string.h>

#include "device/cuda/context.h"

/* Number of a function in the context's table: those of the modules before come first. */
static uint32_t number_of(const bp_cuda_launch *launch)
{
    uint32_t number = launch->function;
    for (uint32_t i = 0; i < launch->module; i++) {
        number += bp_cuda_modules[i].function_count;
    }
    return number;
}

/* What the driver's compiler said is worth more than the number of its failure: as much of it as an
 * error holds. */
static bp_status refuse(cuda_context *context, const bp_cuda_module *module, bp_cu_result result)
{
    bp_status status = BP_ERR_DEVICE;
    if (context->log[0] != '\0') {
        status =
            cuda_fail(context, status, "the driver could not compile a kernel's PTX", context->log);
        context->dead = context->dead || bp_cu_result_fatal(result);
    } else {
        status = cuda_check(context, result, "cuModuleLoadDataEx");
    }
    bp_error_prefix(context->error, module->name);
    return status;
}

/* The driver compiles the text. */
static bp_status load(cuda_context *context, uint32_t index)
{
    const bp_cuda_module *module = &bp_cuda_modules[index];
    bp_cu_jit_option options[] = {BP_CU_JIT_ERROR_LOG, BP_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {context->log, (void *)(uintptr_t)(sizeof context->log - 1)};
    memset(context->log, 0, sizeof context->log);
    bp_cu_result result = context->driver.cuModuleLoadDataEx(&context->modules[index],
                                                             module->begin, 2, options, values);
    if (result != BP_CU_SUCCESS) {
        context->modules[index] = NULL;
        return refuse(context, module, result);
    }
    return BP_OK;
}

/* More than the plain amount of shared memory has to be asked for. */
static bp_status resolve(cuda_context *context, const bp_cuda_launch *launch,
                         cuda_function *function)
{
    const bp_cuda_module *module = &bp_cuda_modules[launch->module];
    const bp_cuda_function *known = &module->functions[launch->function];
    if (context->modules[launch->module] == NULL) {
        BP_TRY(load(context, launch->module));
    }
    CUDA_TRY(context, cuModuleGetFunction, &function->handle, context->modules[launch->module],
             known->name);
    if (known->shared_most > BP_CUDA_SHARED_PLAIN) {
        CUDA_TRY(context, cuFuncSetAttribute, function->handle, BP_CU_FUNCTION_SHARED_MOST,
                 (int)known->shared_most);
    }
    return BP_OK;
}

bp_status cuda_function_find(cuda_context *context, const bp_cuda_launch *launch,
                             uint32_t parameter_bytes, bp_cu_function *function)
{
    cuda_function *entry = &context->functions[number_of(launch)];
    if (entry->handle == NULL) {
        BP_TRY(resolve(context, launch, entry));
        entry->parameter_bytes = parameter_bytes;
        memcpy(entry->cluster, launch->cluster, sizeof entry->cluster);
    }
    *function = entry->handle;
    return BP_OK;
}

bp_status cuda_functions_touch(cuda_context *context)
{
    static const uint64_t zeros[CUDA_PARAMETERS_BYTES / sizeof(uint64_t)];
    for (uint32_t i = 0; i < CUDA_FUNCTIONS_MAX; i++) {
        const cuda_function *function = &context->functions[i];
        const uint8_t *cluster = function->cluster;
        if (function->handle == NULL) {
            continue;
        }
        const cuda_record record = {.kind = CUDA_RECORD_KERNEL,
                                    .as.kernel = {.function = function->handle,
                                                  .grid = {cluster[0], cluster[1], cluster[2]},
                                                  .block = {32, 1, 1},
                                                  .cluster = {cluster[0], cluster[1], cluster[2]},
                                                  .parameters = zeros,
                                                  .parameter_bytes = function->parameter_bytes}};
        BP_TRY(cuda_record_make(context, &record));
    }
    return BP_OK;
}

void cuda_modules_unload(cuda_context *context)
{
    for (uint32_t i = 0; i < CUDA_MODULES_MAX; i++) {
        CUDA_GIVE_BACK(context, cuModuleUnload, context->modules[i]);
    }
}
