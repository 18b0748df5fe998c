/* SPDX-License-Identifier: MIT */
/* Not a program: compiling it proves that device/cuda declares the driver's entry points, types and
 * numbers as the toolkit's cuda.h does. tests/unit/device/cuda/test_driver.c compiles it where
 * there is a cuda.h, as it is, and once with MISTAKE defined, which has to fail. */
#include <cuda.h>

#include "device/cuda/driver.h"

enum own_sizes {
    OWN_RESULT = sizeof(bp_cu_result),
    OWN_DEVICE = sizeof(bp_cu_device),
    OWN_ATTRIBUTE = sizeof(bp_cu_attribute),
    OWN_FUNCTION_ATTRIBUTE = sizeof(bp_cu_function_attribute),
    OWN_JIT_OPTION = sizeof(bp_cu_jit_option),
    OWN_CAPTURE_MODE = sizeof(bp_cu_capture_mode),
    OWN_ADDRESS = sizeof(bp_cu_address),
    OWN_UUID = sizeof(bp_cu_uuid),
    OWN_CONFIG = sizeof(bp_cu_launch_config),
    OWN_CONFIG_GRID = offsetof(bp_cu_launch_config, grid),
    OWN_CONFIG_BLOCK = offsetof(bp_cu_launch_config, block),
    OWN_CONFIG_SHARED = offsetof(bp_cu_launch_config, shared_bytes),
    OWN_CONFIG_STREAM = offsetof(bp_cu_launch_config, stream),
    OWN_CONFIG_ATTRIBUTES = offsetof(bp_cu_launch_config, attributes),
    OWN_CONFIG_COUNT = offsetof(bp_cu_launch_config, attribute_count),
    OWN_COPY = sizeof(bp_cu_copy),
    OWN_COPY_FROM = offsetof(bp_cu_copy, from.device),
    OWN_COPY_FROM_MEMORY = offsetof(bp_cu_copy, from.memory),
    OWN_COPY_FROM_PITCH = offsetof(bp_cu_copy, from.pitch),
    OWN_COPY_TO = offsetof(bp_cu_copy, to.device),
    OWN_COPY_TO_MEMORY = offsetof(bp_cu_copy, to.memory),
    OWN_COPY_TO_PITCH = offsetof(bp_cu_copy, to.pitch),
    OWN_COPY_WIDTH = offsetof(bp_cu_copy, width_bytes),
    OWN_COPY_HEIGHT = offsetof(bp_cu_copy, height),
    OWN_MEMORY = sizeof(bp_cu_memory),
    OWN_MEMORY_HANDLES = offsetof(bp_cu_memory, handles),
    OWN_MEMORY_DEVICE = offsetof(bp_cu_memory, device),
    OWN_MEMORY_DIRECT = offsetof(bp_cu_memory, gpu_direct),
    OWN_ACCESS = sizeof(bp_cu_access),
    OWN_ACCESS_FLAGS = offsetof(bp_cu_access, flags),
    OWN_HANDLE = sizeof(bp_cu_memory_handle),
    OWN_MAP = sizeof(bp_cu_map),
    OWN_LAUNCH_ATTRIBUTE = sizeof(bp_cu_launch_attribute),
    OWN_LAUNCH_ATTRIBUTE_ID = offsetof(bp_cu_launch_attribute, id),
    OWN_LAUNCH_ATTRIBUTE_VALUE = offsetof(bp_cu_launch_attribute, value)
};

#define SAME(own, theirs) _Static_assert((own) == (theirs), #theirs)

SAME(OWN_RESULT, sizeof(CUresult));
SAME(OWN_DEVICE, sizeof(CUdevice));
SAME(OWN_ATTRIBUTE, sizeof(CUdevice_attribute));
SAME(OWN_FUNCTION_ATTRIBUTE, sizeof(CUfunction_attribute));
SAME(OWN_JIT_OPTION, sizeof(CUjit_option));
SAME(OWN_CAPTURE_MODE, sizeof(CUstreamCaptureMode));
SAME(OWN_ADDRESS, sizeof(CUdeviceptr));
SAME(OWN_UUID, sizeof(CUuuid));
SAME(OWN_CONFIG, sizeof(CUlaunchConfig));
SAME(OWN_CONFIG_GRID, offsetof(CUlaunchConfig, gridDimX));
SAME(OWN_CONFIG_GRID + 8, offsetof(CUlaunchConfig, gridDimZ));
SAME(OWN_CONFIG_BLOCK, offsetof(CUlaunchConfig, blockDimX));
SAME(OWN_CONFIG_BLOCK + 8, offsetof(CUlaunchConfig, blockDimZ));
SAME(OWN_CONFIG_SHARED, offsetof(CUlaunchConfig, sharedMemBytes));
SAME(OWN_CONFIG_STREAM, offsetof(CUlaunchConfig, hStream));
SAME(OWN_CONFIG_ATTRIBUTES, offsetof(CUlaunchConfig, attrs));
SAME(OWN_CONFIG_COUNT, offsetof(CUlaunchConfig, numAttrs));
SAME(OWN_COPY, sizeof(CUDA_MEMCPY2D));
SAME(OWN_COPY_FROM, offsetof(CUDA_MEMCPY2D, srcDevice));
SAME(OWN_COPY_FROM_MEMORY, offsetof(CUDA_MEMCPY2D, srcMemoryType));
SAME(OWN_COPY_FROM_PITCH, offsetof(CUDA_MEMCPY2D, srcPitch));
SAME(OWN_COPY_TO, offsetof(CUDA_MEMCPY2D, dstDevice));
SAME(OWN_COPY_TO_MEMORY, offsetof(CUDA_MEMCPY2D, dstMemoryType));
SAME(OWN_COPY_TO_PITCH, offsetof(CUDA_MEMCPY2D, dstPitch));
SAME(OWN_COPY_WIDTH, offsetof(CUDA_MEMCPY2D, WidthInBytes));
SAME(OWN_COPY_HEIGHT, offsetof(CUDA_MEMCPY2D, Height));
SAME(BP_CU_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SAME(OWN_LAUNCH_ATTRIBUTE, sizeof(CUlaunchAttribute));
SAME(OWN_LAUNCH_ATTRIBUTE_ID, offsetof(CUlaunchAttribute, id));
SAME(OWN_LAUNCH_ATTRIBUTE_VALUE, offsetof(CUlaunchAttribute, value.clusterDim.x));
SAME(OWN_LAUNCH_ATTRIBUTE_VALUE + 8, offsetof(CUlaunchAttribute, value.clusterDim.z));
SAME(BP_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);

SAME(OWN_MEMORY, sizeof(CUmemAllocationProp));
SAME(OWN_MEMORY_HANDLES, offsetof(CUmemAllocationProp, requestedHandleTypes));
SAME(OWN_MEMORY_DEVICE, offsetof(CUmemAllocationProp, location.id));
SAME(OWN_MEMORY_DIRECT, offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
SAME(OWN_ACCESS, sizeof(CUmemAccessDesc));
SAME(OWN_ACCESS_FLAGS, offsetof(CUmemAccessDesc, flags));
SAME(OWN_HANDLE, sizeof(CUmemGenericAllocationHandle));
SAME(OWN_MAP, sizeof(CUtensorMap));
SAME(BP_CU_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(BP_CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(BP_CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(BP_CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(BP_CU_MAP_L2_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(BP_CU_MAPS_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(BP_CU_GPU_DIRECT_MAPPED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(BP_CU_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(BP_CU_POSIX_FILE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(BP_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(BP_CU_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(BP_CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(BP_CU_NOT_READY, CUDA_ERROR_NOT_READY);

SAME(BP_CU_SUCCESS, CUDA_SUCCESS);
SAME(BP_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(BP_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(BP_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(BP_CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(BP_CU_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(BP_CU_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(BP_CU_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(BP_CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(BP_CU_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(BP_CU_SHARED_BYTES_OPTED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(BP_CU_FUNCTION_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(BP_CU_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(BP_CU_FUNCTION_SHARED_SHARE, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(BP_CU_FUNCTION_SHARED_MOST, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(BP_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(BP_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(BP_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(BP_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(BP_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME((uintptr_t)BP_CU_PARAMETERS_END, (uintptr_t)CU_LAUNCH_PARAM_END);
SAME((uintptr_t)BP_CU_PARAMETERS, (uintptr_t)CU_LAUNCH_PARAM_BUFFER_POINTER);
SAME((uintptr_t)BP_CU_PARAMETERS_BYTES, (uintptr_t)CU_LAUNCH_PARAM_BUFFER_SIZE);

/* From here on the names of device/cuda mean cuda.h's types, so that each entry's declaration can
 * be held against the real one. */
#define bp_cu_result             CUresult
#define bp_cu_device             CUdevice
#define bp_cu_attribute          CUdevice_attribute
#define bp_cu_function_attribute CUfunction_attribute
#define bp_cu_jit_option         CUjit_option
#define bp_cu_capture_mode       CUstreamCaptureMode
#define bp_cu_uuid               CUuuid
#define bp_cu_context            CUcontext
#define bp_cu_module             CUmodule
#define bp_cu_function           CUfunction
#define bp_cu_stream             CUstream
#define bp_cu_event              CUevent
#define bp_cu_graph              CUgraph
#define bp_cu_graph_exec         CUgraphExec
#define bp_cu_launch_config      CUlaunchConfig
#define bp_cu_copy               CUDA_MEMCPY2D
#define bp_cu_memory             CUmemAllocationProp
#define bp_cu_map                CUtensorMap
#define bp_cu_map_type           CUtensorMapDataType
#define bp_cu_map_interleave     CUtensorMapInterleave
#define bp_cu_map_swizzle        CUtensorMapSwizzle
#define bp_cu_map_promotion      CUtensorMapL2promotion
#define bp_cu_map_fill           CUtensorMapFloatOOBfill
#define bp_cu_access             CUmemAccessDesc
#define bp_cu_memory_handle      CUmemGenericAllocationHandle
#define bp_cu_granularity        CUmemAllocationGranularity_flags
#ifdef MISTAKE
#define bp_cu_address int
#else
#define bp_cu_address CUdeviceptr
#endif

#define ENTRY(name, parameters) CUresult(CUDAAPI *const check_##name) parameters = name;
#include "device/cuda/entries.def"
