/* SPDX-License-Identifier: MIT */
/* PTX modules: loaded when the first program that names them is linked, never later. */
#include <string.h>

#include "arena/text.h"
#include "device/cuda/context.h"

/* Number of a function in the context's table: those of the modules before come first. */
static uint32_t function_number(const bp_cuda_launch *launch)
{
    uint32_t number = launch->function;
    for (uint32_t i = 0; i < launch->module; i++) {
        number += bp_cuda_modules[i].function_count;
    }
    return number;
}

/* What the driver's compiler said is worth more than the number of its failure: as much of it as an
 * error holds. */
static bp_status module_refuse(cuda_context *context, const bp_cuda_module *module,
                               bp_cu_result result)
{
    bp_status status = BP_ERR_DEVICE;
    const char *said = context->log + context->log_used;
    if (said[0] != '\0') {
        status = cuda_fail(context, status, "the driver could not compile a kernel's PTX", said);
        context->dead = context->dead || bp_cu_result_fatal(result);
    } else {
        status = cuda_check(context, result, "cuModuleLoadDataEx");
    }
    bp_error_prefix(context->error, module->name);
    return status;
}

/* Keeps in the log that a text is not used, and why: `what`, and the driver's words about it; later
 * words go behind them. What does not fit is left out. */
static void module_note(cuda_context *context, const bp_cuda_module *module, const char *what)
{
    char said[CUDA_LOG_BYTES / 4];
    bp_text text;
    const char *words = context->log + context->log_used;
    size_t length = strlen(words) < sizeof said ? strlen(words) : sizeof said - 1;
    memcpy(said, words, length);
    said[length] = '\0';
    bp_text_init(&text, NULL, NULL, context->log + context->log_used,
                 sizeof context->log - context->log_used);
    bp_text_string(&text, module->name);
    bp_text_string(&text, what);
    bp_text_string(&text, module->target);
    bp_text_string(&text, "; a text for every GPU is used instead\n");
    bp_text_string(&text, said);
    bp_text_string(&text, "\n");
    bp_status cut = bp_text_flush(&text);
    (void)cut;
    context->log_used += (uint32_t)strlen(context->log + context->log_used);
}

/* Whether another text can take a module's place. */
static bool module_replaceable(const cuda_context *context, uint32_t index)
{
    const bp_cuda_module *module = &bp_cuda_modules[index];
    bp_cuda_target without = context->target;
    bp_dtype dtype = module->types == BP_CUDA_TYPES_SIXTEEN ? BP_BF16 : BP_F32;
    without.refused |= UINT64_C(1) << index;
    const uint32_t family = bp_cuda_family_instead(module->family);
    return bp_cuda_module_choose(&without, family, dtype) != BP_CUDA_NO_MODULE;
}

static void module_leave(cuda_context *context, uint32_t index, const char *what, bool *again)
{
    module_note(context, &bp_cuda_modules[index], what);
    context->target.refused |= UINT64_C(1) << index;
    *again = true;
}

/* Whether the driver's compiler found no registers for what a function of the module keeps. */
static bp_status module_spills(cuda_context *context, uint32_t index, bool *spills)
{
    const bp_cuda_module *module = &bp_cuda_modules[index];
    *spills = false;
    for (uint32_t i = 0; i < module->function_count && !*spills; i++) {
        bp_cu_function function = NULL;
        int bytes = 0;
        if (module->functions[i].name == NULL) {
            continue;
        }
        CUDA_TRY(context, cuModuleGetFunction, &function, context->modules[index],
                 module->functions[i].name);
        CUDA_TRY(context, cuFuncGetAttribute, &bytes, BP_CU_FUNCTION_LOCAL_BYTES, function);
        *spills = bytes > 0;
    }
    return BP_OK;
}

/* A text that has a substitute, and is there to be fast, is left where it was compiled badly. */
static bp_status module_judge(cuda_context *context, uint32_t index, bool *again)
{
    bool spills;
    if (!module_replaceable(context, index)) {
        return BP_OK;
    }
    BP_TRY(module_spills(context, index, &spills));
    if (spills) {
        CUDA_GIVE_BACK(context, cuModuleUnload, context->modules[index]);
        module_leave(context, index, ": the driver's compiler spills registers of the text for ",
                     again);
    }
    return BP_OK;
}

/* The driver compiles the text. One that it does not take is noted as refused where another serves:
 * *again, the launches have to be planned anew. */
static bp_status module_load(cuda_context *context, uint32_t index, bool *again)
{
    const bp_cuda_module *module = &bp_cuda_modules[index];
    char *log = context->log + context->log_used;
    size_t room = sizeof context->log - context->log_used;
    bp_cu_jit_option options[] = {BP_CU_JIT_ERROR_LOG, BP_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(room - 1)};
    memset(log, 0, room);
    bp_cu_result result = context->driver.cuModuleLoadDataEx(&context->modules[index],
                                                             module->begin, 2, options, values);
    if (result == BP_CU_SUCCESS) {
        return module_judge(context, index, again);
    }
    context->modules[index] = NULL;
    if (bp_cu_result_fatal(result) || !module_replaceable(context, index)) {
        return module_refuse(context, module, result);
    }
    module_leave(context, index, ": the driver does not take the text for ", again);
    return BP_OK;
}

bp_status cuda_modules_load(cuda_context *context, const bp_cuda_launch *launches, uint32_t count,
                            bool *again)
{
    *again = false;
    for (uint32_t i = 0; i < count && !*again; i++) {
        if (context->modules[launches[i].module] == NULL) {
            BP_TRY(module_load(context, launches[i].module, again));
        }
    }
    return BP_OK;
}

/* More than the plain amount of shared memory has to be asked for. */
static bp_status function_resolve(cuda_context *context, const bp_cuda_launch *launch,
                                  cuda_function *function)
{
    const bp_cuda_module *module = &bp_cuda_modules[launch->module];
    const bp_cuda_function *known = &module->functions[launch->function];
    CUDA_TRY(context, cuModuleGetFunction, &function->handle, context->modules[launch->module],
             known->name);
    if (known->shared_most > 0 && strcmp(module->target, bp_cuda_target_find(NULL)->name) != 0) {
        /* texts for one GPU count on its shared memory for several blocks at once */
        CUDA_TRY(context, cuFuncSetAttribute, function->handle, BP_CU_FUNCTION_SHARED_SHARE, 100);
    }
    if (known->shared_most > BP_CUDA_SHARED_PLAIN) {
        CUDA_TRY(context, cuFuncSetAttribute, function->handle, BP_CU_FUNCTION_SHARED_MOST,
                 (int)known->shared_most);
    }
    return BP_OK;
}

bp_status cuda_function_find(cuda_context *context, const bp_cuda_launch *launch,
                             uint32_t parameter_bytes, bp_cu_function *function)
{
    cuda_function *entry = &context->functions[function_number(launch)];
    if (entry->handle == NULL) {
        BP_TRY(function_resolve(context, launch, entry));
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
