/* SPDX-License-Identifier: MIT */
/* Asking the driver about its GPUs without opening one for work. */
#include "device/cuda/query.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/driver.h"
#include "device/cuda/target.h"

static const char where[] = "cuda query";

#define QUERY(driver, error, entry, ...)                                                           \
    do {                                                                                           \
        bp_cu_result query_result = (driver)->entry(__VA_ARGS__);                                  \
        if (query_result != BP_CU_SUCCESS) {                                                       \
            return bp_cu_result_status((driver), query_result, #entry, (error));                   \
        }                                                                                          \
    } while (0)

static bp_status query_begin(bp_cu_driver *driver, int *version, int *count, bp_error *error)
{
    BP_TRY(bp_cu_driver_load(driver, error));
    BP_TRY(bp_cu_driver_begin(driver, version, error));
    QUERY(driver, error, cuDeviceGetCount, count);
    bp_cu_result found = *count > 0 ? BP_CU_SUCCESS : BP_CU_NO_DEVICE;
    return found == BP_CU_SUCCESS ? BP_OK
                                  : bp_cu_result_status(driver, found, "cuDeviceGetCount", error);
}

static bp_status query_find(bp_cu_driver *driver, uint32_t ordinal, int *version,
                            bp_cu_device *device, bp_error *error)
{
    int count = 0;
    BP_TRY(query_begin(driver, version, &count, error));
    if (ordinal >= (uint32_t)count) {
        return bp_error_limit(error, BP_ERR_DEVICE, where,
                              "there is no GPU of that number, counted from 0", "cuda",
                              (int64_t)ordinal, BP_LIMIT_MOST, count - 1);
    }
    QUERY(driver, error, cuDeviceGet, device, (int)ordinal);
    return BP_OK;
}

bp_status bp_cuda_query_count(uint32_t *count, int *version, bp_error *error)
{
    bp_cu_driver driver;
    int found = 0;
    BP_TRY(query_begin(&driver, version, &found, error));
    *count = (uint32_t)found;
    return BP_OK;
}

static const char *reason_of(const bp_cuda_gpu *gpu)
{
    const bp_cuda_target_row *least = bp_cuda_target_find(NULL);
    if (gpu->target != NULL) {
        return NULL;
    }
    if (gpu->driver < least->driver) {
        return "the NVIDIA driver is too old: it has to support CUDA 12.0";
    }
    return "the GPU is too old: its compute capability has to be 8.0 or more";
}

static bp_status query_describe(const bp_cu_driver *driver, bp_cu_device device, bp_cuda_gpu *gpu,
                                bp_error *error)
{
    int major = 0;
    int minor = 0;
    int shared = 0;
    int multiprocessors = 0;
    size_t bytes = 0;
    bp_cu_uuid uuid;
    QUERY(driver, error, cuDeviceGetUuid_v2, &uuid, device);
    memcpy(gpu->uuid, uuid.bytes, sizeof gpu->uuid);
    QUERY(driver, error, cuDeviceGetName, gpu->name, BP_CUDA_NAME_MAX - 1, device);
    QUERY(driver, error, cuDeviceTotalMem_v2, &bytes, device);
    QUERY(driver, error, cuDeviceGetAttribute, &major, BP_CU_CAPABILITY_MAJOR, device);
    QUERY(driver, error, cuDeviceGetAttribute, &minor, BP_CU_CAPABILITY_MINOR, device);
    QUERY(driver, error, cuDeviceGetAttribute, &shared, BP_CU_SHARED_BYTES_OPTED, device);
    QUERY(driver, error, cuDeviceGetAttribute, &multiprocessors, BP_CU_MULTIPROCESSORS, device);
    gpu->capability = (uint32_t)(10 * major + minor);
    gpu->shared_bytes = (uint32_t)shared;
    gpu->multiprocessors = (uint32_t)multiprocessors;
    gpu->memory_bytes = bytes;
    return BP_OK;
}

bp_status bp_cuda_query(uint32_t ordinal, bp_cuda_gpu *gpu, bp_error *error)
{
    bp_cu_driver driver;
    bp_cu_device device;
    *gpu = (bp_cuda_gpu){0};
    BP_TRY(query_find(&driver, ordinal, &gpu->driver, &device, error));
    BP_TRY(query_describe(&driver, device, gpu, error));
    const bp_cuda_target_row *row =
        bp_cuda_target_for(gpu->capability, gpu->shared_bytes, gpu->driver);
    gpu->target = row != NULL ? row->name : NULL;
    gpu->reason = reason_of(gpu);
    return BP_OK;
}

static double seconds(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *bp_cuda_query_texts(const char *target)
{
    const bp_cuda_target_row *row = bp_cuda_target_find(target);
    bool own = false;
    for (uint32_t i = 0; row != NULL && i < bp_cuda_module_count; i++) {
        own = own || strcmp(bp_cuda_modules[i].target, row->name) == 0;
    }
    if (row == NULL) {
        return NULL;
    }
    return own ? row->name : bp_cuda_target_find(NULL)->name;
}

const char *bp_cuda_query_misses(const char *target, const bp_linked_op *op)
{
    const bp_cuda_target_row *row = bp_cuda_target_find(target);
    const bp_cuda_target made = row != NULL ? bp_cuda_target_of(row, false) : (bp_cuda_target){0};
    return row != NULL ? bp_cuda_plan_misses(&made, op) : NULL;
}

static bp_status compile_all(const bp_cu_driver *driver, const bp_cuda_target_row *row,
                             bp_cuda_probe *probe, bp_error *error)
{
    bp_cu_jit_option options[] = {BP_CU_JIT_ERROR_LOG, BP_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {probe->log, (void *)(uintptr_t)(sizeof probe->log - 1)};
    const bp_cuda_target target = bp_cuda_target_of(row, false);
    double before = seconds();
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        bp_cu_module module = NULL;
        if (bp_cuda_target_rank(&target, bp_cuda_modules[i].target) < 0) {
            continue;
        }
        QUERY(driver, error, cuModuleLoadDataEx, &module, bp_cuda_modules[i].begin, 2, options,
              values);
        QUERY(driver, error, cuModuleUnload, module);
        probe->modules++;
    }
    probe->jit_seconds = seconds() - before;
    return BP_OK;
}

static bp_status probe_context(const bp_cu_driver *driver, bp_cu_context context,
                               const bp_cuda_target_row *row, bp_cuda_probe *probe, bp_error *error)
{
    size_t available = 0;
    size_t total = 0;
    QUERY(driver, error, cuCtxSetCurrent, context);
    QUERY(driver, error, cuMemGetInfo_v2, &available, &total);
    probe->free_bytes = available;
    return compile_all(driver, row, probe, error);
}

bp_status bp_cuda_query_probe(uint32_t ordinal, const char *target, bp_cuda_probe *probe,
                              bp_error *error)
{
    const bp_cuda_target_row *row = bp_cuda_target_find(target);
    bp_cu_driver driver;
    bp_cu_device device;
    bp_cu_context context = NULL;
    int version = 0;
    *probe = (bp_cuda_probe){0};
    if (row == NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "no such target; there are sm_80 and sm_90a", target);
    }
    (void)setenv("CUDA_CACHE_DISABLE", "1", 1); /* where that fails the time is a warm one */
    BP_TRY(query_find(&driver, ordinal, &version, &device, error));
    QUERY(&driver, error, cuDevicePrimaryCtxRetain, &context, device);
    bp_status status = probe_context(&driver, context, row, probe, error);
    (void)driver.cuCtxSetCurrent(NULL);
    (void)driver.cuDevicePrimaryCtxRelease_v2(device);
    return status;
}
