/* SPDX-License-Identifier: MIT */
/* Modules from PTX text, with JIT logs; functions and their attributes; global variables. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/driver/driver.h"

/* CUjit_option's numbers. */
enum {
    JIT_WALL_TIME = 2,
    JIT_INFO_LOG = 3,
    JIT_INFO_LOG_SIZE = 4,
    JIT_ERROR_LOG = 5,
    JIT_ERROR_LOG_SIZE = 6
};
/* CUfunction_attribute's numbers. */
enum {
    FA_MAX_THREADS = 0,
    FA_SHARED = 1,
    FA_CONST = 2,
    FA_LOCAL = 3,
    FA_REGISTERS = 4,
    FA_PTX_VERSION = 5,
    FA_BINARY_VERSION = 6,
    FA_CACHE_MODE = 7,
    FA_MAX_DYNAMIC = 8,
    FA_CARVEOUT = 9
};

/* Writes a log into the caller's buffer and the length into the size option's value. */
static void write_log(unsigned count, const int *options, void **values, int buffer_option,
                      const char *text)
{
    char *buffer = NULL;
    size_t size = 0;
    unsigned size_at = count;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == buffer_option) {
            buffer = values[i];
        } else if (options[i] == buffer_option + 1) {
            size = (size_t)(uintptr_t)values[i];
            size_at = i;
        }
    }
    if (buffer == NULL || size == 0) {
        return;
    }
    int length = snprintf(buffer, size, "%s", text);
    size_t written = (size_t)length < size ? (size_t)length : size - 1;
    values[size_at] = (void *)(uintptr_t)written;
}

/* Takes back the memory of the first `count` variables. */
static void remove_variables(const vm_module *program, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (program->variables[i].space == VS_GLOBAL) {
            vm_memory_remove(program->variables[i].address);
        }
    }
}

/* Gives the module's .global variables memory at the addresses that the code already holds. False:
 * the device has not that much; those placed so far are taken back. */
static bool place_variables(const vm_module *program)
{
    for (uint32_t i = 0; i < program->variable_count; i++) {
        const vm_variable *variable = &program->variables[i];
        if (variable->space != VS_GLOBAL || variable->bytes == 0) {
            continue;
        }
        vm_allocation *made = NULL;
        if (variable->bytes <= dr_state.memory_total &&
            vm_memory_used(dr_device()) <= dr_state.memory_total - variable->bytes) {
            made = vm_memory_add(variable->address, variable->bytes, NULL, dr_device());
        }
        if (made == NULL) {
            remove_variables(program, i);
            return false;
        }
        made->variable = true;
        if (variable->initial != NULL) {
            memcpy(made->data, variable->initial, (size_t)variable->bytes);
        }
        vm_defined_set(made, 0, variable->bytes, true);
    }
    return true;
}

static int driver_module_load(void **module, const void *image, unsigned count, const int *options,
                              void **values)
{
    int forbidden = dr_forbid_allocation();
    if (forbidden != VM_OK) {
        return forbidden;
    }
    if (image == NULL) {
        return VM_INVALID_VALUE;
    }
    vm_problem problem;
    vm_arith_force_portable(vm_config_number("PTXVM_PORTABLE", 0) != 0);
    vm_module *program = vm_module_parse(image, dr_state.capability, dr_state.version, &problem);
    if (program == NULL) {
        char text[500];
        snprintf(text, sizeof text, "ptxvm: line %u: %s", problem.line, problem.text);
        write_log(count, options, values, JIT_ERROR_LOG, text);
        dr_fail(VM_OK, text);
        return problem.result;
    }
    if (!place_variables(program)) {
        vm_module_free(program);
        return VM_OUT_OF_MEMORY;
    }
    dr_module *made = vm_allocate(sizeof *made);
    made->magic = MAGIC_MODULE;
    made->device = dr_device();
    made->program = program;
    made->functions = vm_allocate(program->function_count * sizeof(dr_function));
    for (uint32_t i = 0; i < program->function_count; i++) {
        made->functions[i].magic = MAGIC_FUNCTION;
        made->functions[i].module = made;
        made->functions[i].index = i;
    }
    made->next = dr_state.modules;
    dr_state.modules = made;
    dr_state.live[DK_MODULE]++;
    char text[100];
    snprintf(text, sizeof text, "ptxvm: %u functions decoded", program->function_count);
    write_log(count, options, values, JIT_INFO_LOG, text);
    *module = made;
    return VM_OK;
}

/* The whole text of a file, or NULL; the caller frees it. */
static char *driver_module_read_text(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        return NULL;
    }
    char *text = NULL;
    size_t size = 0;
    size_t got = 0;
    do {
        text = vm_resize(text, size + 65537);
        got = fread(text + size, 1, 65536, in);
        size += got;
        text[size] = '\0';
    } while (got > 0);
    fclose(in);
    return text;
}

int cuModuleLoad(void **module, const char *path)
{
    DR_ENTER(cuModuleLoad);
    char *text = path != NULL ? driver_module_read_text(path) : NULL;
    int result = text != NULL ? driver_module_load(module, text, 0, NULL, NULL) : CR_FILE_NOT_FOUND;
    free(text);
    return dr_leave(result);
}

int cuModuleLoadData(void **module, const void *image)
{
    DR_ENTER(cuModuleLoadData);
    return dr_leave(driver_module_load(module, image, 0, NULL, NULL));
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values)
{
    DR_ENTER(cuModuleLoadDataEx);
    return dr_leave(driver_module_load(module, image, count, options, values));
}

static dr_module *module_of(void *handle)
{
    for (dr_module *at = dr_state.modules; at != NULL; at = at->next) {
        if (at == handle) {
            return at;
        }
    }
    return NULL;
}

int cuModuleUnload(void *handle)
{
    DR_ENTER(cuModuleUnload);
    dr_module *module = module_of(handle);
    if (module == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int result = dr_drain_device();
    for (dr_module **at = &dr_state.modules; *at != NULL; at = &(*at)->next) {
        if (*at == module) {
            *at = module->next;
            break;
        }
    }
    vm_module *program = module->program;
    remove_variables(program, program->variable_count);
    dr_coverage_take(program);
    vm_module_free(program);
    free(module->functions);
    free(module);
    dr_state.live[DK_MODULE]--;
    return dr_leave(result);
}

int cuModuleGetFunction(void **function, void *handle, const char *name)
{
    DR_ENTER(cuModuleGetFunction);
    dr_module *module = module_of(handle);
    if (module == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    for (uint32_t i = 0; i < module->program->function_count; i++) {
        const vm_function *at = &module->program->functions[i];
        if (at->kernel && at->defined && strcmp(at->name, name) == 0) {
            *function = &module->functions[i];
            return dr_leave(VM_OK);
        }
    }
    return dr_leave(CR_NOT_FOUND);
}

int cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, void *handle, const char *name)
{
    DR_ENTER(cuModuleGetGlobal_v2);
    dr_module *module = module_of(handle);
    if (module == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    for (uint32_t i = 0; i < module->program->variable_count; i++) {
        const vm_variable *at = &module->program->variables[i];
        if (at->space == VS_GLOBAL && strcmp(at->name, name) == 0) {
            if (address != NULL) {
                *address = at->address;
            }
            if (bytes != NULL) {
                *bytes = (size_t)at->bytes;
            }
            return dr_leave(VM_OK);
        }
    }
    return dr_leave(CR_NOT_FOUND);
}

int cuModuleGetLoadingMode(int *mode)
{
    DR_ENTER(cuModuleGetLoadingMode);
    *mode = 1; /* eager */
    return dr_leave(VM_OK);
}

static dr_function *function_of(void *handle)
{
    dr_function *function = handle;
    return function != NULL && function->magic == MAGIC_FUNCTION ? function : NULL;
}

int cuFuncGetAttribute(int *value, int attribute, void *handle)
{
    DR_ENTER(cuFuncGetAttribute);
    dr_function *function = function_of(handle);
    if (function == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    const vm_module *program = function->module->program;
    const vm_function *code = &program->functions[function->index];
    switch (attribute) {
    case FA_MAX_THREADS:
        *value = code->max_threads != 0 ? (int)code->max_threads : 1024;
        break;
    case FA_SHARED:
        *value = (int)code->shared_bytes;
        break;
    case FA_CONST:
        *value = (int)program->constant_bytes;
        break;
    case FA_LOCAL:
        *value = (int)(code->local_bytes + program->local_bytes);
        break;
    case FA_REGISTERS:
        *value = 32; /* ptxvm has as many as the text declares; a plausible number */
        break;
    case FA_PTX_VERSION:
        *value = (int)program->target;
        break;
    case FA_BINARY_VERSION:
        *value = (int)dr_state.capability;
        break;
    case FA_CACHE_MODE:
        *value = 0;
        break;
    case FA_MAX_DYNAMIC:
        *value = function->dynamic_limit != 0 ? function->dynamic_limit
                                              : 49152 - (int)code->shared_bytes;
        break;
    case FA_CARVEOUT:
        *value = -1;
        break;
    default:
        return dr_leave(VM_INVALID_VALUE);
    }
    return dr_leave(VM_OK);
}

int cuFuncSetAttribute(void *handle, int attribute, int value)
{
    DR_ENTER(cuFuncSetAttribute);
    dr_function *function = function_of(handle);
    if (function == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    const vm_function *code = &function->module->program->functions[function->index];
    if (attribute == FA_CARVEOUT) {
        return dr_leave(value >= -1 && value <= 100 ? VM_OK : VM_INVALID_VALUE);
    }
    if (attribute != FA_MAX_DYNAMIC || value < 0 ||
        (size_t)value + code->shared_bytes > dr_shared_optin()) {
        return dr_leave(VM_INVALID_VALUE);
    }
    function->dynamic_limit = value;
    return dr_leave(VM_OK);
}

int cuFuncSetCacheConfig(void *handle, int config)
{
    DR_ENTER(cuFuncSetCacheConfig);
    (void)config;
    return dr_leave(function_of(handle) != NULL ? VM_OK : CR_INVALID_HANDLE);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int threads,
                                                size_t shared)
{
    DR_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    dr_function *function = function_of(handle);
    if (function == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (threads <= 0 || threads > 1024) {
        return dr_leave(VM_INVALID_VALUE);
    }
    const vm_function *code = &function->module->program->functions[function->index];
    size_t each = code->shared_bytes + shared + 1024;
    size_t by_shared = (dr_shared_optin() + 1024) / each;
    int by_threads = 1536 / threads;
    int fewest = by_shared < (size_t)by_threads ? (int)by_shared : by_threads;
    *blocks = fewest < 16 ? fewest : 16;
    return dr_leave(VM_OK);
}
