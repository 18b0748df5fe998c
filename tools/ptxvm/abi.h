/* SPDX-License-Identifier: MIT */
/* The driver entry points offered, in this project's own declarations. Handles are opaque pointers,
 * results are CUresult's numbers, device pointers are 64-bit numbers. */
#ifndef PTXVM_ABI_H
#define PTXVM_ABI_H

#include "tools/ptxvm/ptxvm.h"

typedef struct abi_attribute {
    int id;
    char pad[4];
    uint32_t value[16];
} abi_attribute;

typedef struct abi_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared;
    void *stream;
    abi_attribute *attributes;
    unsigned attribute_count;
} abi_launch;

/* CUDA_MEMCPY2D */
enum { ABI_UNIFIED = 4 };
typedef struct abi_copy {
    size_t source_x;
    size_t source_y;
    unsigned source_type;
    const void *source_host;
    uint64_t source_device;
    void *source_array;
    size_t source_pitch;
    size_t target_x;
    size_t target_y;
    unsigned target_type;
    void *target_host;
    uint64_t target_device;
    void *target_array;
    size_t target_pitch;
    size_t width;
    size_t height;
} abi_copy;

/* CUmemAllocationProp, CUmemAccessDesc */
typedef struct abi_memory {
    int type;
    int handles;
    int location;
    int device;
    void *reserved;
    unsigned char flags[8];
} abi_memory;

typedef struct abi_access {
    int location;
    int device;
    int flags;
} abi_access;

typedef struct abi_uuid {
    char bytes[16];
} abi_uuid;

PTXVM_API int cuInit(unsigned flags);
PTXVM_API int cuDriverGetVersion(int *version);
PTXVM_API int cuDeviceGetCount(int *count);
PTXVM_API int cuDeviceGet(int *device, int ordinal);
PTXVM_API int cuDeviceGetName(char *name, int size, int device);
PTXVM_API int cuDeviceGetUuid_v2(abi_uuid *uuid, int device);
PTXVM_API int cuDeviceTotalMem_v2(size_t *bytes, int device);
PTXVM_API int cuDeviceGetAttribute(int *value, int attribute, int device);
PTXVM_API int cuDevicePrimaryCtxRetain(void **context, int device);
PTXVM_API int cuDevicePrimaryCtxRelease_v2(int device);
PTXVM_API int cuDevicePrimaryCtxReset_v2(int device);
PTXVM_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
PTXVM_API int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags);
PTXVM_API int cuCtxSetCurrent(void *context);
PTXVM_API int cuCtxGetCurrent(void **context);
PTXVM_API int cuCtxGetDevice(int *device);
PTXVM_API int cuCtxCreate_v2(void **context, unsigned flags, int device);
PTXVM_API int cuCtxDestroy_v2(void *context);
PTXVM_API int cuCtxPushCurrent_v2(void *context);
PTXVM_API int cuCtxPopCurrent_v2(void **context);
PTXVM_API int cuCtxSynchronize(void);
PTXVM_API int cuCtxSetLimit(int limit, size_t value);
PTXVM_API int cuCtxGetLimit(size_t *value, int limit);
PTXVM_API int cuCtxGetStreamPriorityRange(int *least, int *greatest);
PTXVM_API int cuGetErrorName(int error, const char **text);
PTXVM_API int cuGetErrorString(int error, const char **text);

PTXVM_API int cuMemGetAllocationGranularity(size_t *bytes, const abi_memory *wanted, int option);
PTXVM_API int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment,
                                  uint64_t wanted, unsigned long long flags);
PTXVM_API int cuMemAddressFree(uint64_t address, size_t bytes);
PTXVM_API int cuMemCreate(uint64_t *handle, size_t bytes, const abi_memory *wanted,
                          unsigned long long flags);
PTXVM_API int cuMemRelease(uint64_t handle);
PTXVM_API int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                       unsigned long long flags);
PTXVM_API int cuMemUnmap(uint64_t address, size_t bytes);
PTXVM_API int cuMemSetAccess(uint64_t address, size_t bytes, const abi_access *wanted,
                             size_t count);
PTXVM_API int cuMemRetainAllocationHandle(uint64_t *handle, void *address);
PTXVM_API int cuMemAlloc_v2(uint64_t *address, size_t bytes);
PTXVM_API int cuMemFree_v2(uint64_t address);
PTXVM_API int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags);
PTXVM_API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
PTXVM_API int cuMemAllocHost_v2(void **memory, size_t bytes);
PTXVM_API int cuMemFreeHost(void *memory);
PTXVM_API int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags);
PTXVM_API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
PTXVM_API int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes);
PTXVM_API int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes);
PTXVM_API int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t bytes);
PTXVM_API int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream);
PTXVM_API int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream);
PTXVM_API int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream);
PTXVM_API int cuMemcpyAsync(uint64_t target, uint64_t source, size_t bytes, void *stream);
PTXVM_API int cuMemcpy2DAsync_v2(const abi_copy *copy, void *stream);
PTXVM_API int cuMemsetD8_v2(uint64_t target, unsigned char value, size_t count);
PTXVM_API int cuMemsetD32_v2(uint64_t target, unsigned value, size_t count);
PTXVM_API int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream);
PTXVM_API int cuMemsetD16Async(uint64_t target, unsigned short value, size_t count, void *stream);
PTXVM_API int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream);

PTXVM_API int cuModuleLoad(void **module, const char *path);
PTXVM_API int cuModuleLoadData(void **module, const void *image);
PTXVM_API int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                                 void **values);
PTXVM_API int cuModuleUnload(void *module);
PTXVM_API int cuModuleGetFunction(void **function, void *module, const char *name);
PTXVM_API int cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, void *module,
                                   const char *name);
PTXVM_API int cuModuleGetLoadingMode(int *mode);
PTXVM_API int cuFuncGetAttribute(int *value, int attribute, void *function);
PTXVM_API int cuFuncSetAttribute(void *function, int attribute, int value);
PTXVM_API int cuFuncSetCacheConfig(void *function, int config);
PTXVM_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                          size_t shared);
PTXVM_API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                             unsigned by, unsigned bz, unsigned shared, void *stream,
                             void **parameters, void **extra);
PTXVM_API int cuLaunchKernelEx(const abi_launch *config, void *function, void **parameters,
                               void **extra);

PTXVM_API int cuTensorMapEncodeTiled(void *made, int type, uint32_t rank, void *address,
                                     const uint64_t *extents, const uint64_t *strides,
                                     const uint32_t *box, const uint32_t *steps, int interleave,
                                     int swizzle, int promotion, int fill);

PTXVM_API int cuStreamCreate(void **stream, unsigned flags);
PTXVM_API int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
PTXVM_API int cuStreamDestroy_v2(void *stream);
PTXVM_API int cuStreamSynchronize(void *stream);
PTXVM_API int cuStreamQuery(void *stream);
PTXVM_API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
PTXVM_API int cuStreamBeginCapture_v2(void *stream, int mode);
PTXVM_API int cuStreamEndCapture(void *stream, void **graph);
PTXVM_API int cuStreamIsCapturing(void *stream, int *status);
PTXVM_API int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
PTXVM_API int cuEventCreate(void **event, unsigned flags);
PTXVM_API int cuEventDestroy_v2(void *event);
PTXVM_API int cuEventRecord(void *event, void *stream);
PTXVM_API int cuEventSynchronize(void *event);
PTXVM_API int cuEventQuery(void *event);
PTXVM_API int cuEventElapsedTime(float *milliseconds, void *from, void *to);
PTXVM_API int cuEventElapsedTime_v2(float *milliseconds, void *from, void *to);

PTXVM_API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
PTXVM_API int cuGraphUpload(void *exec, void *stream);
PTXVM_API int cuGraphLaunch(void *exec, void *stream);
PTXVM_API int cuGraphDestroy(void *graph);
PTXVM_API int cuGraphExecDestroy(void *exec);
PTXVM_API int cuGraphGetNodes(void *graph, void **nodes, size_t *count);

#endif
