/* SPDX-License-Identifier: MIT */
/* The arena of a rank whose fabric reaches into the GPU: one segment of memory mapped behind
 * addresses of its own, as only such can be registered; where the driver has none, an allocation as
 * ever. */
#include "device/cuda/context.h"

/* The properties that the libraries that import such memory ask for. */
static bp_cu_memory segment_wanted(const cuda_context *context)
{
    int direct = 0;
    const bp_cu_result asked =
        context->driver.cuDeviceGetAttribute(&direct, BP_CU_GPU_DIRECT_MAPPED, context->device);
    return (bp_cu_memory){.type = BP_CU_PINNED,
                          .handles = BP_CU_POSIX_FILE,
                          .location = BP_CU_LOCATION_DEVICE,
                          .device = context->device,
                          .gpu_direct = asked == BP_CU_SUCCESS && direct != 0};
}

static bool segment_can(const cuda_context *context)
{
    const bp_cu_driver *driver = &context->driver;
    int maps = 0;
    return driver->cuMemAddressReserve != NULL && driver->cuMemAddressFree != NULL &&
           driver->cuMemCreate != NULL && driver->cuMemRelease != NULL &&
           driver->cuMemMap != NULL && driver->cuMemUnmap != NULL &&
           driver->cuMemSetAccess != NULL && driver->cuMemGetAllocationGranularity != NULL &&
           driver->cuDeviceGetAttribute(&maps, BP_CU_MAPS_MEMORY, context->device) ==
               BP_CU_SUCCESS &&
           maps != 0;
}

static bp_cu_result segment_map(cuda_context *context, const bp_cu_memory *wanted)
{
    const bp_cu_driver *driver = &context->driver;
    const bp_cu_access access = {
        .location = wanted->location, .device = wanted->device, .flags = BP_CU_READ_WRITE};
    const size_t bytes = (size_t)context->segment_bytes;
    bp_cu_memory_handle memory = 0;
    bp_cu_result result = driver->cuMemAddressReserve(&context->segment, bytes, 0, 0, 0);
    if (result != BP_CU_SUCCESS) {
        context->segment = 0;
        return result;
    }
    result = driver->cuMemCreate(&memory, bytes, wanted, 0);
    if (result != BP_CU_SUCCESS) {
        return result;
    }
    result = driver->cuMemMap(context->segment, bytes, 0, memory, 0);
    context->mapped = result == BP_CU_SUCCESS;
    const bp_cu_result released = driver->cuMemRelease(memory); /* the mapping keeps it */
    result = result == BP_CU_SUCCESS ? released : result;
    return result != BP_CU_SUCCESS ? result
                                   : driver->cuMemSetAccess(context->segment, bytes, &access, 1);
}

bp_status cuda_segment_take(cuda_context *context)
{
    size_t granularity = 0;
    const uint64_t arena = context->arena_bytes > 0 ? context->arena_bytes : 1;
    if (!segment_can(context)) {
        return BP_OK;
    }
    const bp_cu_memory wanted = segment_wanted(context);
    bp_cu_result result = context->driver.cuMemGetAllocationGranularity(
        &granularity, &wanted, BP_CU_GRANULARITY_RECOMMENDED);
    if (result == BP_CU_SUCCESS && granularity > 0) {
        context->segment_bytes = bp_size_align(arena, granularity);
        result = segment_map(context, &wanted);
    }
    if (result == BP_CU_SUCCESS && context->mapped) {
        context->arena = context->segment;
        return BP_OK;
    }
    cuda_segment_give_back(context); /* memory that is short is short for an allocation, too */
    return context->dead ? cuda_check(context, result, "cuMemMap") : BP_OK;
}

void cuda_segment_give_back(cuda_context *context)
{
    const size_t bytes = (size_t)context->segment_bytes;
    if (context->segment == 0 || context->dead) {
        return;
    }
    if (context->mapped) {
        cuda_given_back(context, context->driver.cuMemUnmap(context->segment, bytes));
    }
    if (!context->dead) {
        cuda_given_back(context, context->driver.cuMemAddressFree(context->segment, bytes));
    }
    context->mapped = false;
    context->segment = 0;
}
