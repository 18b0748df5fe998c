/* SPDX-License-Identifier: MIT */
/* Device and pinned memory, copies and fills. */
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

/* Granularity in which free memory shrinks; a driver's is coarse too. */
enum { GRANULE = 4096 };

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    DR_ENTER(cuMemAlloc_v2);
    int forbidden = dr_forbid_allocation();
    if (forbidden != VM_OK) {
        return dr_leave(forbidden);
    }
    if (bytes == 0) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (bytes > dr_state.memory_total ||
        vm_memory_used(dr_device()) > dr_state.memory_total - bytes) {
        return dr_leave(VM_OUT_OF_MEMORY);
    }
    vm_allocation *made = vm_memory_add(0, bytes, NULL, dr_device());
    if (made == NULL) {
        return dr_leave(VM_OUT_OF_MEMORY);
    }
    dr_state.live[DK_DEVICE_MEMORY]++;
    *address = made->address;
    return dr_leave(VM_OK);
}

/* Memory that both sides reach by one address: pages of their own, as the host may not touch them
 * while the device has work (dr_leave). */
static int allocate_managed(uint64_t *address, size_t bytes)
{
    int forbidden = dr_forbid_allocation();
    if (forbidden != VM_OK) {
        return forbidden;
    }
    if (bytes == 0 || !dr_integrated()) {
        return bytes == 0 ? VM_INVALID_VALUE : CR_NOT_SUPPORTED;
    }
    if (bytes > dr_state.memory_total ||
        vm_memory_used(dr_device()) > dr_state.memory_total - bytes) {
        return VM_OUT_OF_MEMORY;
    }
    void *made = NULL;
    if (posix_memalign(&made, GRANULE, (bytes + GRANULE - 1) / GRANULE * GRANULE) != 0) {
        return VM_OUT_OF_MEMORY;
    }
    memset(made, 0, bytes);
    vm_memory_add((uint64_t)(uintptr_t)made, bytes, made, dr_device())->managed = true;
    dr_state.live[DK_DEVICE_MEMORY]++;
    dr_state.managed++;
    *address = (uint64_t)(uintptr_t)made;
    return VM_OK;
}

int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags)
{
    DR_ENTER(cuMemAllocManaged);
    return dr_leave(flags == 1 ? allocate_managed(address, bytes) : VM_INVALID_VALUE);
}

int cuMemFree_v2(uint64_t address)
{
    DR_ENTER(cuMemFree_v2);
    int forbidden = dr_forbid_allocation();
    if (forbidden != VM_OK) {
        return dr_leave(forbidden);
    }
    if (address == 0) {
        return dr_leave(VM_OK);
    }
    int result = dr_drain_device();
    vm_allocation *found = vm_memory_find(address);
    if (found == NULL || found->address != address || (found->host && !found->managed) ||
        found->variable) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (found->managed) {
        vm_memory_guard(true);
        free(found->data);
        dr_state.managed--;
    }
    vm_memory_remove(address);
    dr_state.live[DK_DEVICE_MEMORY]--;
    return dr_leave(result);
}

static int allocate_host(void **memory, size_t bytes)
{
    int forbidden = dr_forbid_allocation();
    if (forbidden != VM_OK) {
        return forbidden;
    }
    void *made = NULL;
    if (bytes == 0 || posix_memalign(&made, 4096, bytes) != 0) {
        return bytes == 0 ? VM_INVALID_VALUE : VM_OUT_OF_MEMORY;
    }
    memset(made, 0, bytes);
    vm_memory_add((uint64_t)(uintptr_t)made, bytes, made, 0);
    dr_state.live[DK_HOST_MEMORY]++;
    *memory = made;
    return VM_OK;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    DR_ENTER(cuMemHostAlloc);
    (void)flags;
    return dr_leave(allocate_host(memory, bytes));
}

int cuMemAllocHost_v2(void **memory, size_t bytes)
{
    DR_ENTER(cuMemAllocHost_v2);
    return dr_leave(allocate_host(memory, bytes));
}

int cuMemFreeHost(void *memory)
{
    DR_ENTER(cuMemFreeHost);
    uint64_t address = (uint64_t)(uintptr_t)memory;
    vm_allocation *found = vm_memory_find(address);
    if (found == NULL || !found->host || found->managed || found->address != address) {
        return dr_leave(VM_INVALID_VALUE);
    }
    int result = dr_drain_device();
    vm_memory_remove(address);
    free(memory);
    dr_state.live[DK_HOST_MEMORY]--;
    return dr_leave(result);
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    DR_ENTER(cuMemHostGetDevicePointer_v2);
    vm_allocation *found = vm_memory_find((uint64_t)(uintptr_t)memory);
    if (found == NULL || !found->host || flags != 0) {
        return dr_leave(VM_INVALID_VALUE);
    }
    *address = (uint64_t)(uintptr_t)memory;
    return dr_leave(VM_OK);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    DR_ENTER(cuMemGetInfo_v2);
    uint64_t used = (vm_memory_used(dr_device()) + GRANULE - 1) / GRANULE * GRANULE;
    *total = (size_t)dr_state.memory_total;
    *free_bytes = used > dr_state.memory_total ? 0 : (size_t)(dr_state.memory_total - used);
    return dr_leave(VM_OK);
}

/* ---- copies ---- */

static bool is_pinned(const void *memory, size_t bytes)
{
    const vm_allocation *found = vm_memory_find((uint64_t)(uintptr_t)memory);
    uint64_t offset = found == NULL ? 0 : (uint64_t)(uintptr_t)memory - found->address;
    return found != NULL && found->host && bytes <= found->bytes - offset;
}

/* Whether [address, address + bytes) lies in one allocation. */
static bool is_device_range(uint64_t address, uint64_t bytes)
{
    const vm_allocation *found = vm_memory_find(address);
    return bytes == 0 || (found != NULL && bytes <= found->bytes - (address - found->address));
}

static int write_device(uint64_t target, const void *source, size_t bytes, dr_stream *stream)
{
    if (stream == NULL) {
        return CR_INVALID_HANDLE;
    }
    if (!is_device_range(target, bytes)) {
        return VM_INVALID_VALUE;
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_WRITE;
    work.target = target;
    work.bytes = bytes;
    if (is_pinned(source, bytes)) {
        memcpy(&work.host, &source, sizeof work.host);
    } else {
        work.staged = vm_copy(source, bytes);
    }
    return dr_submit(stream, &work);
}

static int read_device(void *target, uint64_t source, size_t bytes, dr_stream *stream)
{
    if (stream == NULL) {
        return CR_INVALID_HANDLE;
    }
    if (!is_device_range(source, bytes)) {
        return VM_INVALID_VALUE;
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_READ;
    work.host = target;
    work.source = source;
    work.bytes = bytes;
    bool wait = !is_pinned(target, bytes) && stream->capture == NULL;
    int result = dr_submit(stream, &work);
    return result == VM_OK && wait ? dr_drain_stream(stream) : result;
}

static int copy_device(uint64_t target, uint64_t source, size_t bytes, dr_stream *stream)
{
    if (stream == NULL) {
        return CR_INVALID_HANDLE;
    }
    if (!is_device_range(target, bytes) || !is_device_range(source, bytes)) {
        return VM_INVALID_VALUE;
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_COPY;
    work.target = target;
    work.source = source;
    work.bytes = bytes;
    work.rows = 1;
    return dr_submit(stream, &work);
}

static int fill_device(uint64_t target, uint64_t pattern, unsigned element, size_t count,
                       dr_stream *stream)
{
    if (stream == NULL) {
        return CR_INVALID_HANDLE;
    }
    if (count > SIZE_MAX / element || !is_device_range(target, count * element) ||
        target % element != 0) {
        return VM_INVALID_VALUE;
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_FILL;
    work.target = target;
    work.pattern = pattern;
    work.element = element;
    work.bytes = count;
    return dr_submit(stream, &work);
}

/* A synchronous form: through the legacy stream, then wait. */
static int driver_memory_finish(int result)
{
    return result != VM_OK ? result : dr_drain_stream(&dr_state.legacy);
}

int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes)
{
    DR_ENTER(cuMemcpyHtoD_v2);
    int forbidden = dr_forbid_in_capture(NULL);
    return dr_leave(forbidden != VM_OK ? forbidden
                                       : driver_memory_finish(write_device(target, source, bytes,
                                                                           &dr_state.legacy)));
}

int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes)
{
    DR_ENTER(cuMemcpyDtoH_v2);
    int forbidden = dr_forbid_in_capture(NULL);
    return dr_leave(forbidden != VM_OK ? forbidden
                                       : driver_memory_finish(
                                             read_device(target, source, bytes, &dr_state.legacy)));
}

int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t bytes)
{
    DR_ENTER(cuMemcpyDtoD_v2);
    int forbidden = dr_forbid_in_capture(NULL);
    return dr_leave(forbidden != VM_OK ? forbidden
                                       : driver_memory_finish(
                                             copy_device(target, source, bytes, &dr_state.legacy)));
}

int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream)
{
    DR_ENTER(cuMemcpyHtoDAsync_v2);
    return dr_leave(write_device(target, source, bytes, dr_stream_of(stream)));
}

int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream)
{
    DR_ENTER(cuMemcpyDtoHAsync_v2);
    return dr_leave(read_device(target, source, bytes, dr_stream_of(stream)));
}

int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream)
{
    DR_ENTER(cuMemcpyDtoDAsync_v2);
    return dr_leave(copy_device(target, source, bytes, dr_stream_of(stream)));
}

int cuMemsetD8_v2(uint64_t target, unsigned char value, size_t count)
{
    DR_ENTER(cuMemsetD8_v2);
    return dr_leave(fill_device(target, value, 1, count, &dr_state.legacy));
}

int cuMemsetD32_v2(uint64_t target, unsigned value, size_t count)
{
    DR_ENTER(cuMemsetD32_v2);
    return dr_leave(fill_device(target, value, 4, count, &dr_state.legacy));
}

int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream)
{
    DR_ENTER(cuMemsetD8Async);
    return dr_leave(fill_device(target, value, 1, count, dr_stream_of(stream)));
}

int cuMemsetD16Async(uint64_t target, unsigned short value, size_t count, void *stream)
{
    DR_ENTER(cuMemsetD16Async);
    return dr_leave(fill_device(target, value, 2, count, dr_stream_of(stream)));
}

int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream)
{
    DR_ENTER(cuMemsetD32Async);
    return dr_leave(fill_device(target, value, 4, count, dr_stream_of(stream)));
}

/* Between any two of device and pinned memory. */
int cuMemcpyAsync(uint64_t target, uint64_t source, size_t bytes, void *stream)
{
    DR_ENTER(cuMemcpyAsync);
    return dr_leave(copy_device(target, source, bytes, dr_stream_of(stream)));
}

/* Where rows begin, and how far they reach; false for memory of another kind than "unified". */
static bool rows_of(size_t x, size_t y, unsigned type, uint64_t base, size_t pitch,
                    const abi_copy *copy, uint64_t *first)
{
    *first = base + y * pitch + x;
    uint64_t span = copy->height == 0 ? 0 : (copy->height - 1) * pitch + copy->width;
    return type == ABI_UNIFIED && (copy->height <= 1 || pitch >= copy->width) &&
           is_device_range(*first, span);
}

int cuMemcpy2DAsync_v2(const abi_copy *copy, void *handle)
{
    DR_ENTER(cuMemcpy2DAsync_v2);
    dr_stream *stream = dr_stream_of(handle);
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_COPY;
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (!rows_of(copy->source_x, copy->source_y, copy->source_type, copy->source_device,
                 copy->source_pitch, copy, &work.source) ||
        !rows_of(copy->target_x, copy->target_y, copy->target_type, copy->target_device,
                 copy->target_pitch, copy, &work.target)) {
        return dr_leave(VM_INVALID_VALUE);
    }
    work.bytes = copy->width;
    work.rows = copy->height;
    work.source_pitch = copy->source_pitch;
    work.target_pitch = copy->target_pitch;
    return dr_leave(dr_submit(stream, &work));
}
