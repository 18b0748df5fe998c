/* SPDX-License-Identifier: MIT */
/* Counting calls, failing the n-th one, and the ledger of live handles. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

/* Every entry point that can fail, in the order of abi.h. */
static const char *const entries[] = {"cuInit",
                                      "cuDriverGetVersion",
                                      "cuDeviceGetCount",
                                      "cuDeviceGet",
                                      "cuDeviceGetName",
                                      "cuDeviceGetUuid_v2",
                                      "cuDeviceTotalMem_v2",
                                      "cuDeviceGetAttribute",
                                      "cuDevicePrimaryCtxRetain",
                                      "cuDevicePrimaryCtxRelease_v2",
                                      "cuDevicePrimaryCtxReset_v2",
                                      "cuDevicePrimaryCtxGetState",
                                      "cuDevicePrimaryCtxSetFlags_v2",
                                      "cuCtxSetCurrent",
                                      "cuCtxGetCurrent",
                                      "cuCtxGetDevice",
                                      "cuCtxCreate_v2",
                                      "cuCtxDestroy_v2",
                                      "cuCtxPushCurrent_v2",
                                      "cuCtxPopCurrent_v2",
                                      "cuCtxSynchronize",
                                      "cuCtxSetLimit",
                                      "cuCtxGetLimit",
                                      "cuCtxGetStreamPriorityRange",
                                      "cuMemGetAllocationGranularity",
                                      "cuMemAddressReserve",
                                      "cuMemAddressFree",
                                      "cuMemCreate",
                                      "cuMemRelease",
                                      "cuMemMap",
                                      "cuMemUnmap",
                                      "cuMemSetAccess",
                                      "cuMemRetainAllocationHandle",
                                      "cuMemAlloc_v2",
                                      "cuMemFree_v2",
                                      "cuMemAllocManaged",
                                      "cuMemHostAlloc",
                                      "cuMemAllocHost_v2",
                                      "cuMemFreeHost",
                                      "cuMemHostGetDevicePointer_v2",
                                      "cuMemGetInfo_v2",
                                      "cuMemcpyHtoD_v2",
                                      "cuMemcpyDtoH_v2",
                                      "cuMemcpyDtoD_v2",
                                      "cuMemcpyHtoDAsync_v2",
                                      "cuMemcpyDtoHAsync_v2",
                                      "cuMemcpyDtoDAsync_v2",
                                      "cuMemcpyAsync",
                                      "cuMemcpy2DAsync_v2",
                                      "cuMemsetD8_v2",
                                      "cuMemsetD32_v2",
                                      "cuMemsetD8Async",
                                      "cuMemsetD16Async",
                                      "cuMemsetD32Async",
                                      "cuModuleLoad",
                                      "cuModuleLoadData",
                                      "cuModuleLoadDataEx",
                                      "cuModuleUnload",
                                      "cuModuleGetFunction",
                                      "cuModuleGetGlobal_v2",
                                      "cuModuleGetLoadingMode",
                                      "cuFuncGetAttribute",
                                      "cuFuncSetAttribute",
                                      "cuFuncSetCacheConfig",
                                      "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                      "cuLaunchKernel",
                                      "cuLaunchKernelEx",
                                      "cuTensorMapEncodeTiled",
                                      "cuStreamCreate",
                                      "cuStreamCreateWithPriority",
                                      "cuStreamDestroy_v2",
                                      "cuStreamSynchronize",
                                      "cuStreamQuery",
                                      "cuStreamWaitEvent",
                                      "cuStreamBeginCapture_v2",
                                      "cuStreamEndCapture",
                                      "cuStreamIsCapturing",
                                      "cuLaunchHostFunc",
                                      "cuEventCreate",
                                      "cuEventDestroy_v2",
                                      "cuEventRecord",
                                      "cuEventSynchronize",
                                      "cuEventQuery",
                                      "cuEventElapsedTime",
                                      "cuEventElapsedTime_v2",
                                      "cuGraphInstantiateWithFlags",
                                      "cuGraphUpload",
                                      "cuGraphLaunch",
                                      "cuGraphDestroy",
                                      "cuGraphExecDestroy",
                                      "cuGraphGetNodes",
                                      "ptxvmUndefineAsync"};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

static int calls[ENTRIES];
static int all_calls;

static int find_entry(const char *name)
{
    for (int i = 0; i < ENTRIES; i++) {
        if (strcmp(entries[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* PTXVM_FAULT is NAME:N:RESULT or NAME:N:RESULT:on; NAME is an entry point or *. The N-th call from
 * the start (or from ptxvmSet of it) fails, and with `on` every later one too. */
int dr_fault_check(const char *name)
{
    int index = find_entry(name);
    if (index >= 0) {
        calls[index]++;
        all_calls++;
    }
    const char *rule = vm_config_text("PTXVM_FAULT");
    const char *colon = rule != NULL ? strchr(rule, ':') : NULL;
    if (colon == NULL) {
        return VM_OK;
    }
    size_t length = (size_t)(colon - rule);
    bool any = length == 1 && rule[0] == '*';
    if (!any && (strlen(name) != length || strncmp(rule, name, length) != 0)) {
        return VM_OK;
    }
    char *end = NULL;
    long wanted = strtol(colon + 1, &end, 10);
    long result = *end == ':' ? strtol(end + 1, &end, 10) : 999;
    bool stays = strcmp(end, ":on") == 0;
    long count = any ? all_calls : (index >= 0 ? calls[index] : 0);
    return count == wanted || (stays && count > wanted) ? (int)result : VM_OK;
}

int ptxvmSet(const char *name, const char *value)
{
    pthread_mutex_lock(&dr_state.lock);
    vm_config_set(name, value);
    dr_read_settings();
    if (strcmp(name, "PTXVM_FAULT") == 0) {
        memset(calls, 0, sizeof calls);
        all_calls = 0;
    }
    if (strcmp(name, "PTXVM_SEED") == 0) {
        dr_state.random = 0;
    }
    pthread_mutex_unlock(&dr_state.lock);
    return VM_OK;
}

int ptxvmCalls(const char *name)
{
    int index = name == NULL ? -1 : find_entry(name);
    return name == NULL ? all_calls : (index < 0 ? 0 : calls[index]);
}

const char *ptxvmEntryName(int index)
{
    return index >= 0 && index < ENTRIES ? entries[index] : NULL;
}

int ptxvmReport(char *text, size_t size)
{
    pthread_mutex_lock(&dr_state.lock);
    int length = (int)strlen(dr_state.report);
    if (size > 0) {
        snprintf(text, size, "%s", dr_state.report);
    }
    dr_state.report[0] = '\0';
    pthread_mutex_unlock(&dr_state.lock);
    return length;
}

int ptxvmRevive(void)
{
    pthread_mutex_lock(&dr_state.lock);
    dr_drop_queues();
    dr_state.sticky = VM_OK;
    dr_state.report[0] = '\0';
    pthread_mutex_unlock(&dr_state.lock);
    return VM_OK;
}

int ptxvmLedger(char *text, size_t size)
{
    static const char *const kinds[DK_COUNT] = {"context", "device memory", "host memory",
                                                "module",  "stream",        "event",
                                                "graph",   "graph exec"};
    int total = 0;
    size_t used = 0;
    pthread_mutex_lock(&dr_state.lock);
    for (int i = 0; i < DK_COUNT; i++) {
        total += dr_state.live[i];
        if (dr_state.live[i] != 0 && used < size) {
            used +=
                (size_t)snprintf(text + used, size - used, "%s: %d\n", kinds[i], dr_state.live[i]);
        }
    }
    pthread_mutex_unlock(&dr_state.lock);
    return total;
}
