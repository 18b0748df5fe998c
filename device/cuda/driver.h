/* SPDX-License-Identifier: MIT */
/* The CUDA driver as a table of functions, found by name in libcuda.so.1 when a device is opened:
 * nothing of CUDA is needed to build or to link, and a machine without a driver says so in words.
 *
 * The types are this project's own; tests/gpu/entries.c compares them with cuda.h. */
#ifndef BP_DEVICE_CUDA_DRIVER_H
#define BP_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

typedef int bp_cu_result; /* CUresult */
typedef int bp_cu_device; /* CUdevice */
typedef int bp_cu_attribute;
typedef int bp_cu_function_attribute;
typedef int bp_cu_jit_option;
typedef int bp_cu_capture_mode;
typedef int bp_cu_granularity;
typedef int bp_cu_map_type; /* CUtensorMapDataType, and so on */
typedef int bp_cu_map_interleave;
typedef int bp_cu_map_swizzle;
typedef int bp_cu_map_promotion;
typedef int bp_cu_map_fill;
typedef unsigned long long bp_cu_memory_handle; /* CUmemGenericAllocationHandle */
typedef unsigned long long bp_cu_address;       /* CUdeviceptr */
typedef struct bp_cu_context_object *bp_cu_context;
typedef struct bp_cu_module_object *bp_cu_module;
typedef struct bp_cu_function_object *bp_cu_function;
typedef struct bp_cu_stream_object *bp_cu_stream;
typedef struct bp_cu_event_object *bp_cu_event;
typedef struct bp_cu_graph_object *bp_cu_graph;
typedef struct bp_cu_graph_exec_object *bp_cu_graph_exec;

typedef struct bp_cu_uuid {
    unsigned char bytes[16];
} bp_cu_uuid;

/* CUtensorMap: aligned to 128 bytes (before CUDA 13: 64) */
typedef struct bp_cu_map {
    uint64_t opaque[16];
} bp_cu_map;

/* CUlaunchAttribute: of its union of 64 bytes the three words that a cluster's size is. */
typedef struct bp_cu_launch_attribute {
    int id;
    unsigned reserved;
    unsigned value[16];
} bp_cu_launch_attribute;

/* CUlaunchConfig */
typedef struct bp_cu_launch_config {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    bp_cu_stream stream;
    bp_cu_launch_attribute *attributes;
    unsigned attribute_count;
} bp_cu_launch_config;

/* One side of CUDA_MEMCPY2D, and the whole. */
typedef struct bp_cu_rows {
    size_t x_bytes;
    size_t y;
    unsigned memory; /* BP_CU_UNIFIED: `device` says where, host memory or not */
    const void *host;
    bp_cu_address device;
    void *array;
    size_t pitch;
} bp_cu_rows;

typedef struct bp_cu_copy {
    bp_cu_rows from;
    bp_cu_rows to;
    size_t width_bytes;
    size_t height;
} bp_cu_copy;

/* CUmemAllocationProp: what memory to map is to be like. */
typedef struct bp_cu_memory {
    int type;
    int handles; /* by which other processes may get at it */
    int location;
    int device;
    void *reserved;
    unsigned char compression;
    unsigned char gpu_direct; /* a network card may read and write it */
    unsigned short usage;
    unsigned char more[4];
} bp_cu_memory;

/* CUmemAccessDesc: who may do what. */
typedef struct bp_cu_access {
    int location;
    int device;
    int flags;
} bp_cu_access;

typedef void bp_cu_host_function(void *data);

/* What one pointer parameter of a launch may touch: rows of row_bytes, pitch bytes apart
 * (ptxvm_operand). */
typedef struct bp_cu_operand {
    uint32_t parameter; /* index among the kernel's parameters */
    uint32_t access;    /* bit 0 read, bit 1 write */
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t pitch;
} bp_cu_operand;

/* CUresult */
#define BP_CU_SUCCESS                 0
#define BP_CU_OUT_OF_MEMORY           2
#define BP_CU_NO_DEVICE               100
#define BP_CU_UNSUPPORTED_PTX_VERSION 222
#define BP_CU_NOT_READY               600

/* CUdevice_attribute */
#define BP_CU_MULTIPROCESSORS    16
#define BP_CU_INTEGRATED         18
#define BP_CU_CAPABILITY_MAJOR   75
#define BP_CU_CAPABILITY_MINOR   76
#define BP_CU_MANAGED_MEMORY     83
#define BP_CU_SHARED_BYTES_OPTED 97
#define BP_CU_MAPS_MEMORY        102
#define BP_CU_GPU_DIRECT_MAPPED  110
/* CUmemAllocationType, CUmemAllocationHandleType, CUmemLocationType, CUmemAccess_flags,
 * CUmemAllocationGranularity_flags */
#define BP_CU_PINNED                  1
#define BP_CU_POSIX_FILE              1
#define BP_CU_LOCATION_DEVICE         1
#define BP_CU_READ_WRITE              3
#define BP_CU_GRANULARITY_RECOMMENDED 1
/* CUmemAttach_flags */
#define BP_CU_ATTACH_GLOBAL 1u
/* CUfunction_attribute */
#define BP_CU_FUNCTION_LOCAL_BYTES  3
#define BP_CU_FUNCTION_REGISTERS    4
#define BP_CU_FUNCTION_SHARED_MOST  8
#define BP_CU_FUNCTION_SHARED_SHARE 9 /* of the first cache, in hundredths: a hint */
/* CUmemorytype */
#define BP_CU_UNIFIED 4
/* CUlaunchAttributeID */
#define BP_CU_LAUNCH_CLUSTER 4
/* CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion */
#define BP_CU_MAP_U8          0
#define BP_CU_MAP_F16         6
#define BP_CU_MAP_BF16        9
#define BP_CU_MAP_SWIZZLE_128 3
#define BP_CU_MAP_L2_128      2
/* CUjit_option */
#define BP_CU_JIT_ERROR_LOG       5
#define BP_CU_JIT_ERROR_LOG_BYTES 6
/* flags and modes */
#define BP_CU_STREAM_NON_BLOCKING  1u
#define BP_CU_EVENT_NO_TIMING      2u
#define BP_CU_CAPTURE_THREAD_LOCAL 1
/* the `extra` argument of a launch */
#define BP_CU_PARAMETERS_END   ((void *)(uintptr_t)0)
#define BP_CU_PARAMETERS       ((void *)(uintptr_t)1)
#define BP_CU_PARAMETERS_BYTES ((void *)(uintptr_t)2)

/* The entry points: driver->cuMemAlloc_v2(...). An optional one is NULL where the driver has it
 * not. */
typedef struct bp_cu_driver {
#define ENTRY(name, parameters)    bp_cu_result(*name) parameters;
#define OPTIONAL(name, parameters) bp_cu_result(*name) parameters;
#include "device/cuda/entries.def"
} bp_cu_driver;

/* Loads libcuda.so.1 with the system's loader (LD_LIBRARY_PATH counts) and fills the table. The
 * library stays loaded until the process ends, since the driver's own threads may outlive any use
 * of it. BP_ERR_DEVICE with the loader's own words when there is no driver, or with the name of the
 * entry point that an old one lacks. */
bp_status bp_cu_driver_load(bp_cu_driver *driver, bp_error *error) BP_MUST_CHECK;

/* Initialises the driver for this process, with eager module loading (the environment variable
 * CUDA_MODULE_LOADING is set, before the driver reads it), and tells its version: 12020 is 12.2.
 * Says in words when there is no GPU. */
bp_status bp_cu_driver_begin(const bp_cu_driver *driver, int *version,
                             bp_error *error) BP_MUST_CHECK;

/* Records a result other than BP_CU_SUCCESS of the entry point `entry`: BP_ERR_DEVICE, with what
 * it means in words, and as the error's name the driver's own name for it, the entry point and the
 * driver's own text. */
bp_status bp_cu_result_status(const bp_cu_driver *driver, bp_cu_result result, const char *entry,
                              bp_error *error) BP_MUST_CHECK;

/* Whether after this result the process's context on the GPU is lost, so that every further call
 * would fail too. */
bool bp_cu_result_fatal(bp_cu_result result);

#endif
