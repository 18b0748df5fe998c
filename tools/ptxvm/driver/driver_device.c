/* SPDX-License-Identifier: MIT */
/* Initialisation, the device and its attributes, the primary context, error texts. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/driver/driver.h"

dr_driver dr_state = {.lock = PTHREAD_MUTEX_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER};

__thread bool dr_calling;

static __thread dr_context *current_context;
static __thread unsigned pushed_contexts;

int dr_enter(const char *name, bool bare)
{
    if (dr_calling) {
        return CR_NOT_PERMITTED;
    }
    pthread_mutex_lock(&dr_state.lock);
    int fault = dr_fault_check(name);
    if (fault == VM_OK && !bare) {
        fault = !dr_state.initialised ? CR_NOT_INITIALIZED : dr_state.sticky;
    }
    if (fault != VM_OK) {
        pthread_mutex_unlock(&dr_state.lock);
    } else if (dr_state.managed > 0) {
        vm_memory_guard(true);
    }
    return fault;
}

/* An integrated GPU has no concurrent access: until it is idle, the host's is a fault. */
int dr_leave(int result)
{
    if (dr_state.managed > 0) {
        vm_memory_guard(dr_queues_empty());
    }
    pthread_mutex_unlock(&dr_state.lock);
    return result;
}

/* sm_86, or 86, with :sums behind it where the sums of its tensor cores are wanted; 0 when
 * PTXVM_DEVICE is neither that nor empty. */
static uint32_t read_capability(bool *sums)
{
    *sums = false;
    const char *text = vm_config_text("PTXVM_DEVICE");
    if (text == NULL || *text == '\0') {
        return 80;
    }
    char *end = NULL;
    unsigned long number = strtoul(strncmp(text, "sm_", 3) == 0 ? text + 3 : text, &end, 10);
    end += *end == 'a' ? 1 : 0;
    *sums = strcmp(end, ":sums") == 0;
    bool known = number >= 50 && number < 200 && (*end == '\0' || (*sums && number >= 80));
    return known ? (uint32_t)number : 0;
}

void dr_read_settings(void)
{
    bool sums;
    uint32_t capability = read_capability(&sums);
    dr_state.capability = capability != 0 ? capability : 80;
    vm_sums_choose(sums && capability != 0 ? capability : 0);
    dr_state.version = (uint32_t)vm_config_number("PTXVM_DRIVER", 13000);
    dr_state.memory_total = vm_config_number("PTXVM_MEMORY", 4ull << 30);
    const uint64_t count = vm_config_number("PTXVM_DEVICES", 1);
    dr_state.device_count = (int)(count < 1 ? 1 : count > DR_DEVICES ? DR_DEVICES : count);
}

int cuInit(unsigned flags)
{
    int fault = dr_enter("cuInit", true);
    if (fault != VM_OK) {
        return fault;
    }
    const char *device = vm_config_text("PTXVM_DEVICE");
    if (flags != 0) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (device != NULL && strcmp(device, "none") == 0) {
        return dr_leave(CR_NO_DEVICE);
    }
    bool sums;
    if (read_capability(&sums) == 0) {
        dr_fail(VM_OK,
                "ptxvm: PTXVM_DEVICE is sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_120 (each "
                "with :sums behind it or not) or none");
        return dr_leave(CR_INVALID_DEVICE);
    }
    dr_state.initialised = true;
    dr_read_settings();
    return dr_leave(VM_OK);
}

int cuDriverGetVersion(int *version)
{
    int fault = dr_enter("cuDriverGetVersion", true);
    if (fault != VM_OK) {
        return fault;
    }
    *version = (int)vm_config_number("PTXVM_DRIVER", 13000);
    return dr_leave(VM_OK);
}

static bool is_device(int device)
{
    return device >= 0 && device < dr_state.device_count;
}

uint32_t dr_device(void)
{
    return current_context != NULL ? (uint32_t)(current_context - dr_state.contexts) : 0;
}

int cuDeviceGetCount(int *count)
{
    DR_ENTER(cuDeviceGetCount);
    *count = dr_state.device_count;
    return dr_leave(VM_OK);
}

int cuDeviceGet(int *device, int ordinal)
{
    DR_ENTER(cuDeviceGet);
    *device = is_device(ordinal) ? ordinal : 0;
    return dr_leave(is_device(ordinal) ? VM_OK : CR_INVALID_DEVICE);
}

int cuDeviceGetName(char *name, int size, int device)
{
    DR_ENTER(cuDeviceGetName);
    if (!is_device(device) || size <= 0) {
        return dr_leave(VM_INVALID_VALUE);
    }
    snprintf(name, (size_t)size, "ptxvm sm_%u", dr_state.capability);
    return dr_leave(VM_OK);
}

int cuDeviceGetUuid_v2(abi_uuid *uuid, int device)
{
    DR_ENTER(cuDeviceGetUuid_v2);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "ptxvm", 5);
    uuid->bytes[15] = (char)device;
    return dr_leave(is_device(device) ? VM_OK : CR_INVALID_DEVICE);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    DR_ENTER(cuDeviceTotalMem_v2);
    *bytes = (size_t)dr_state.memory_total;
    return dr_leave(is_device(device) ? VM_OK : CR_INVALID_DEVICE);
}

bool dr_integrated(void)
{
    return dr_state.capability == 87;
}

size_t dr_shared_optin(void)
{
    switch (dr_state.capability / 10) {
    case 9:
    case 10:
        return 227 * 1024;
    case 8:
        return dr_state.capability == 80 || dr_state.capability == 87 ? 163 * 1024 : 99 * 1024;
    default:
        return 99 * 1024;
    }
}

/* CUdevice_attribute's numbers; negative values are worked out below. */
static const struct {
    int attribute;
    int value;
} attributes[] = {{1, 1024},        {2, 1024},     {3, 1024},     {4, 64},     {5, 2147483647},
                  {6, 65535},       {7, 65535},    {8, 49152},    {9, 65536},  {10, 32},
                  {11, 2147483647}, {12, 65536},   {13, 1000000}, {14, 512},   {15, 1},
                  {16, 4},          {17, 0},       {19, 1},       {20, 0},     {31, 1},
                  {32, 0},          {33, 0},       {34, 0},       {35, 0},     {36, 1000000},
                  {37, 256},        {38, 4194304}, {40, 1},       {41, 1},     {50, 0},
                  {78, 1},          {79, 1},       {80, 1},       {82, 65536}, {88, 0},
                  {89, 0},          {90, 1},       {91, 1},       {95, 0},     {108, 0},
                  {110, 1},         {111, 1024},   {115, 0}};

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    DR_ENTER(cuDeviceGetAttribute);
    if (!is_device(device)) {
        return dr_leave(CR_INVALID_DEVICE);
    }
    uint32_t capability = dr_state.capability;
    bool large = capability == 80 || capability / 10 == 9 || capability / 10 == 10;
    switch (attribute) {
    case 18: /* integrated */
    case 83: /* managed memory */
        *value = dr_integrated() ? 1 : 0;
        return dr_leave(VM_OK);
    case 39: /* threads per multiprocessor */
        *value = large ? 2048 : 1536;
        return dr_leave(VM_OK);
    case 75:
        *value = (int)(capability / 10);
        return dr_leave(VM_OK);
    case 76:
        *value = (int)(capability % 10);
        return dr_leave(VM_OK);
    case 81: /* shared memory per multiprocessor */
        *value = (int)dr_shared_optin() + 1024;
        return dr_leave(VM_OK);
    case 97: /* shared memory per block, opted in */
        *value = (int)dr_shared_optin();
        return dr_leave(VM_OK);
    case 102: /* mapped memory */
        *value = vm_config_number("PTXVM_MAPS", 1) != 0;
        return dr_leave(VM_OK);
    case 106: /* blocks per multiprocessor */
        *value = large ? 32 : (capability == 86 || capability == 87 ? 16 : 24);
        return dr_leave(VM_OK);
    case 120: /* clusters */
        *value = capability >= 90 ? 1 : 0;
        return dr_leave(VM_OK);
    default:
        break;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (attributes[i].attribute == attribute) {
            *value = attributes[i].value;
            return dr_leave(VM_OK);
        }
    }
    return dr_leave(VM_INVALID_VALUE);
}

/* ---- context: a device's primary one is its only one ---- */

static bool is_context(const void *context)
{
    for (int i = 0; i < dr_state.device_count; i++) {
        if (context == &dr_state.contexts[i]) {
            return true;
        }
    }
    return false;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    DR_ENTER(cuDevicePrimaryCtxRetain);
    if (!is_device(device)) {
        return dr_leave(CR_INVALID_DEVICE);
    }
    dr_state.live[DK_CONTEXT]++;
    dr_state.contexts[device].users++;
    *context = &dr_state.contexts[device];
    return dr_leave(VM_OK);
}

static int release_context(int device)
{
    if (!is_device(device) || dr_state.contexts[device].users == 0) {
        return CR_INVALID_CONTEXT;
    }
    dr_state.live[DK_CONTEXT]--;
    dr_state.contexts[device].users--;
    if (dr_state.live[DK_CONTEXT] == 0) { /* the last of all devices: their queues are one table */
        dr_drop_queues();
        dr_state.sticky = VM_OK; /* a new context may follow */
    }
    return VM_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    int fault = dr_enter("cuDevicePrimaryCtxRelease_v2", true);
    return fault != VM_OK ? fault : dr_leave(release_context(device));
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    int fault = dr_enter("cuDevicePrimaryCtxReset_v2", true);
    if (fault != VM_OK) {
        return fault;
    }
    dr_drop_queues();
    dr_state.sticky = VM_OK;
    return dr_leave(is_device(device) ? VM_OK : CR_INVALID_DEVICE);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    DR_ENTER(cuDevicePrimaryCtxGetState);
    *flags = 0;
    *active = is_device(device) && dr_state.contexts[device].users > 0;
    return dr_leave(is_device(device) ? VM_OK : CR_INVALID_DEVICE);
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    DR_ENTER(cuDevicePrimaryCtxSetFlags_v2);
    (void)flags;
    return dr_leave(is_device(device) ? VM_OK : CR_INVALID_DEVICE);
}

int cuCtxSetCurrent(void *context)
{
    DR_ENTER(cuCtxSetCurrent);
    if (context != NULL && !is_context(context)) {
        return dr_leave(CR_INVALID_CONTEXT);
    }
    current_context = context;
    return dr_leave(VM_OK);
}

int cuCtxGetCurrent(void **context)
{
    DR_ENTER(cuCtxGetCurrent);
    *context = current_context;
    return dr_leave(VM_OK);
}

/* A context that a program creates is the primary one by another name. */
int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    DR_ENTER(cuCtxCreate_v2);
    (void)flags;
    if (!is_device(device)) {
        return dr_leave(CR_INVALID_DEVICE);
    }
    dr_state.live[DK_CONTEXT]++;
    dr_state.contexts[device].users++;
    current_context = &dr_state.contexts[device];
    *context = current_context;
    return dr_leave(VM_OK);
}

int cuCtxDestroy_v2(void *context)
{
    int fault = dr_enter("cuCtxDestroy_v2", true);
    if (fault != VM_OK) {
        return fault;
    }
    if (!is_context(context)) {
        return dr_leave(CR_INVALID_CONTEXT);
    }
    current_context = NULL;
    return dr_leave(release_context((int)((dr_context *)context - dr_state.contexts)));
}

/* One context needs no stack: what is pushed is current, and what is popped was. Of several
 * devices none is remembered below another. */
int cuCtxPushCurrent_v2(void *context)
{
    DR_ENTER(cuCtxPushCurrent_v2);
    if (!is_context(context)) {
        return dr_leave(CR_INVALID_CONTEXT);
    }
    pushed_contexts += current_context != NULL ? 1u : 0u;
    current_context = context;
    return dr_leave(VM_OK);
}

int cuCtxPopCurrent_v2(void **context)
{
    DR_ENTER(cuCtxPopCurrent_v2);
    if (current_context == NULL) {
        return dr_leave(CR_INVALID_CONTEXT);
    }
    if (context != NULL) {
        *context = current_context;
    }
    if (pushed_contexts == 0) {
        current_context = NULL;
    } else {
        pushed_contexts--;
    }
    return dr_leave(VM_OK);
}

int cuCtxGetDevice(int *device)
{
    DR_ENTER(cuCtxGetDevice);
    *device = (int)dr_device();
    return dr_leave(current_context != NULL ? VM_OK : CR_INVALID_CONTEXT);
}

int cuCtxSynchronize(void)
{
    DR_ENTER(cuCtxSynchronize);
    int forbidden = dr_forbid_in_capture(NULL);
    return dr_leave(forbidden != VM_OK ? forbidden : dr_drain_device());
}

int cuCtxSetLimit(int limit, size_t value)
{
    DR_ENTER(cuCtxSetLimit);
    (void)limit;
    (void)value;
    return dr_leave(VM_OK);
}

int cuCtxGetLimit(size_t *value, int limit)
{
    DR_ENTER(cuCtxGetLimit);
    *value = limit == 0 ? 1024 : 0;
    return dr_leave(VM_OK);
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    DR_ENTER(cuCtxGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return dr_leave(VM_OK);
}

/* ---- errors ---- */

static const struct {
    int result;
    const char *name;
    const char *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver "
     "combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a "
     "capturing stream"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static int find_error(int error, const char **text, bool name)
{
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].result == error) {
            *text = name ? errors[i].name : errors[i].text;
            return VM_OK;
        }
    }
    return VM_INVALID_VALUE;
}

int cuGetErrorName(int error, const char **text)
{
    return find_error(error, text, true);
}

int cuGetErrorString(int error, const char **text)
{
    return find_error(error, text, false);
}
