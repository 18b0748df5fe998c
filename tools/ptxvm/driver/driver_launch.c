/* SPDX-License-Identifier: MIT */
/* Kernel launches: checked and copied at the call, run when their stream is. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"
#include "tools/ptxvm/driver/tensor_map.h"

enum {
    THREADS_MAX = 1024,
    OPERANDS_MAX = 64,
    ATTRIBUTE_CLUSTER = 4,     /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */
    ATTRIBUTE_PROGRAMMATIC = 6 /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
};

/* `extra` is a list of these and values, ended by zero. */
enum { EXTRA_END = 0, EXTRA_POINTER = 1, EXTRA_SIZE = 2 };

static __thread struct {
    ptxvm_operand operands[OPERANDS_MAX];
    uint32_t count;
    bool declared;
} next_launch;

int ptxvmNextOperands(const ptxvm_operand *operands, uint32_t count)
{
    if (count > OPERANDS_MAX) {
        return VM_INVALID_VALUE;
    }
    if (count > 0) {
        memcpy(next_launch.operands, operands, count * sizeof *operands);
    }
    next_launch.count = count;
    next_launch.declared = true;
    return VM_OK;
}

int ptxvmUndefineAsync(uint64_t address, size_t bytes, void *handle)
{
    DR_ENTER(ptxvmUndefineAsync);
    dr_stream *stream = dr_stream_of(handle);
    const vm_allocation *found = vm_memory_find(address);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (bytes != 0 && (found == NULL || bytes > found->bytes - (address - found->address))) {
        return dr_leave(VM_INVALID_VALUE);
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_UNDEFINE;
    work.target = address;
    work.bytes = bytes;
    return dr_leave(dr_submit(stream, &work));
}

static int copy_parameters(const vm_function *code, void **parameters, void **extra, dr_work *work)
{
    work->params = vm_allocate(code->param_bytes + 64u);
    if (extra != NULL) {
        const void *buffer = NULL;
        size_t size = 0;
        for (size_t i = 0; (uintptr_t)extra[i] != EXTRA_END; i += 2) {
            if ((uintptr_t)extra[i] == EXTRA_POINTER) {
                buffer = extra[i + 1];
            } else if ((uintptr_t)extra[i] == EXTRA_SIZE) {
                memcpy(&size, extra[i + 1], sizeof size);
            }
        }
        if (buffer == NULL || size < code->param_bytes) {
            return VM_INVALID_VALUE;
        }
        memcpy(work->params, buffer, code->param_bytes);
        return VM_OK;
    }
    if (code->param_count != 0 && parameters == NULL) {
        return VM_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < code->param_count; i++) {
        memcpy(work->params + code->params[i].offset, parameters[i], code->params[i].bytes);
    }
    return VM_OK;
}

static int check_shape(const dr_function *function, const vm_function *code, const dr_work *work)
{
    uint64_t threads = (uint64_t)work->block[0] * work->block[1] * work->block[2];
    unsigned limit = code->max_threads != 0 ? code->max_threads : THREADS_MAX;
    if (threads == 0 || work->block[0] > 1024 || work->block[1] > 1024 || work->block[2] > 64 ||
        threads > THREADS_MAX) {
        return VM_INVALID_VALUE;
    }
    if (threads > limit) {
        return CR_LAUNCH_OUT_OF_RESOURCES;
    }
    for (int i = 0; i < 3 && code->required_threads[0] != 0; i++) {
        if (work->block[i] != code->required_threads[i]) {
            return VM_INVALID_VALUE;
        }
    }
    if (code->cluster != 0 && code->cluster != work->cluster) {
        return CR_INVALID_CLUSTER;
    }
    if (work->grid[0] == 0 || work->grid[1] == 0 || work->grid[2] == 0 ||
        work->grid[0] > 2147483647u || work->grid[1] > 65535 || work->grid[2] > 65535 ||
        work->grid[0] % work->cluster != 0) {
        return VM_INVALID_VALUE;
    }
    size_t shared = (size_t)code->shared_bytes + work->shared;
    bool raised = work->shared <= (size_t)function->dynamic_limit;
    return shared > (raised ? dr_shared_optin() : 49152) ? VM_INVALID_VALUE : VM_OK;
}

static int launch(dr_work *work, void **parameters, void **extra, dr_stream *stream)
{
    dr_function *function = work->function;
    const vm_function *code = &function->module->program->functions[function->index];
    int result = check_shape(function, code, work);
    if (result != VM_OK) {
        return result;
    }
    result = copy_parameters(code, parameters, extra, work);
    if (result != VM_OK) {
        free(work->params);
        return result;
    }
    if (next_launch.declared) {
        work->operand_count = next_launch.count;
        work->operands = vm_copy(next_launch.operands, next_launch.count * sizeof(ptxvm_operand));
    }
    return dr_submit(stream, work);
}

static int launch_any(const abi_launch *config, void *handle, void **parameters, void **extra)
{
    dr_function *function = handle;
    dr_stream *stream = dr_stream_of(config->stream);
    if (function == NULL || function->magic != MAGIC_FUNCTION || stream == NULL) {
        return CR_INVALID_HANDLE;
    }
    if (stream->device != function->module->device && stream != &dr_state.legacy) {
        return CR_INVALID_HANDLE; /* a kernel of another device */
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_LAUNCH;
    work.function = function;
    work.shared = config->shared;
    const uint32_t wanted = function->module->program->functions[function->index].cluster;
    work.cluster = wanted != 0 ? wanted : 1;
    memcpy(work.grid, config->grid, sizeof work.grid);
    memcpy(work.block, config->block, sizeof work.block);
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const abi_attribute *attribute = &config->attributes[i];
        if (attribute->id == ATTRIBUTE_CLUSTER) {
            work.cluster = attribute->value[0];
            if (dr_state.capability < 90 || work.cluster == 0 || work.cluster > VM_CLUSTER_MAX ||
                attribute->value[1] != 1 || attribute->value[2] != 1) {
                return VM_INVALID_VALUE;
            }
        } else if (attribute->id == ATTRIBUTE_PROGRAMMATIC) {
            work.programmatic = attribute->value[0] != 0;
        }
    }
    return launch(&work, parameters, extra, stream);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    int entered = dr_enter("cuLaunchKernel", false);
    if (entered != VM_OK) {
        next_launch.declared = false;
        return entered;
    }
    abi_launch config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    int result = launch_any(&config, function, parameters, extra);
    next_launch.declared = false;
    return dr_leave(result);
}

int cuLaunchKernelEx(const abi_launch *config, void *function, void **parameters, void **extra)
{
    int entered = dr_enter("cuLaunchKernelEx", false);
    if (entered != VM_OK) {
        next_launch.declared = false;
        return entered;
    }
    int result = launch_any(config, function, parameters, extra);
    next_launch.declared = false;
    return dr_leave(result);
}

/* ---- execution ---- */

/* Replaces a pointer parameter, or the pointer in a tensor map, by its window's address. False: the
 * operand is no memory. */
static bool make_window(vm_launch *run, const vm_function *code, const ptxvm_operand *operand,
                        uint32_t slot, uint32_t device)
{
    vm_window *window = &run->windows[slot];
    vm_tensor_map map;
    const uint32_t bytes =
        operand->parameter < code->param_count ? code->params[operand->parameter].bytes : 0;
    if (bytes != sizeof(uint64_t) && bytes != sizeof map) {
        return false;
    }
    uint8_t *at = run->params + code->params[operand->parameter].offset;
    uint64_t address;
    memcpy(&address, at, sizeof address);
    if (bytes == sizeof map) {
        memcpy(&map, at, sizeof map);
        address = map.address;
        if (!vm_map_whole(&map)) {
            return false;
        }
    }
    uint64_t span = operand->rows == 0 || operand->row_bytes == 0
                        ? 0
                        : (operand->rows - 1) * operand->pitch + operand->row_bytes;
    window->allocation = vm_memory_find(address);
    if (span != 0 && (window->allocation == NULL ||
                      span > window->allocation->bytes - (address - window->allocation->address))) {
        return false;
    }
    if (window->allocation != NULL && window->allocation->device != device &&
        (!window->allocation->host || window->allocation->managed)) {
        return false;
    }
    window->parameter = code->params[operand->parameter].offset;
    window->offset = window->allocation == NULL ? 0 : address - window->allocation->address;
    window->rows = span == 0 ? 0 : operand->rows;
    window->row_bytes = operand->row_bytes;
    window->pitch = operand->rows <= 1 ? operand->row_bytes : operand->pitch;
    window->writable = (operand->access & PTXVM_WRITE) != 0;
    /* The middle of the slot, so that accesses before the operand are charged to it too. */
    window->base = VM_WINDOW_BASE + ((uint64_t)slot << VM_WINDOW_SHIFT) +
                   (1ull << (VM_WINDOW_SHIFT - 1)) + (address & 0xfff);
    if (bytes == sizeof map) {
        map.address = window->base;
        vm_map_seal(&map);
        memcpy(at, &map, sizeof map);
        return true;
    }
    memcpy(at, &window->base, sizeof window->base);
    return true;
}

void dr_fail(int result, const char *text)
{
    if (dr_state.report[0] == '\0') {
        snprintf(dr_state.report, sizeof dr_state.report, "%s", text);
    }
    if (result != VM_OK) {
        dr_state.sticky = result;
    }
    if (vm_config_number("PTXVM_QUIET", 0) == 0) {
        fprintf(stderr, "ptxvm: %s\n", text);
    }
}

/* Serials of the launches that ran last, by their stream's slot. */
static uint32_t last_launch[DR_CLOCKS];

int dr_execute_launch(const dr_work *work, const vm_owned *owned, uint32_t count)
{
    const vm_module *program = work->function->module->program;
    const vm_function *code = &program->functions[work->function->index];
    char report[VM_REPORT_MAX] = "";
    vm_launch run;
    memset(&run, 0, sizeof run);
    run.module = program;
    run.function = code;
    memcpy(run.grid, work->grid, sizeof run.grid);
    memcpy(run.block, work->block, sizeof run.block);
    run.cluster = work->cluster;
    run.dynamic_shared = work->shared;
    run.shared_bytes = (work->shared != 0 ? code->dynamic_base : code->shared_bytes) + work->shared;
    run.params = vm_copy(work->params, code->param_bytes + 64u);
    run.serial = ++dr_state.launches;
    run.prerequisite = work->programmatic ? last_launch[work->slot % DR_CLOCKS] : 0;
    last_launch[work->slot % DR_CLOCKS] = run.serial;
    run.seed = vm_config_number("PTXVM_SEED", 0);
    run.seed = run.seed == 0 ? 0 : run.seed * 1000003u + run.serial;
    run.budget = vm_config_number("PTXVM_BUDGET", 2000000000ull);
    run.report = report;
    run.windows = vm_allocate((work->operand_count + 1) * sizeof(vm_window));
    run.window_count = work->operand_count;
    run.strict = work->operands != NULL;
    run.owned = owned;
    run.owned_count = count;
    int result = VM_OK;
    for (uint32_t i = 0; i < work->operand_count && result == VM_OK; i++) {
        if (!make_window(&run, code, &work->operands[i], i, work->function->module->device)) {
            snprintf(report, sizeof report,
                     "kernel %s: declared operand %u is no memory of its device of that extent",
                     code->name, i);
            result = VM_ILLEGAL_ADDRESS;
        }
    }
    result = result == VM_OK ? vm_launch_run(&run) : result;
    if (result != VM_OK) {
        dr_fail(result, report);
    }
    free(run.params);
    free(run.windows);
    return result;
}
