/* SPDX-License-Identifier: MIT */
/* cp.async: copies from global to shared memory that run beside the threads. */
#ifndef BP_DEVICE_KERNELS_ASYNC_CUH
#define BP_DEVICE_KERNELS_ASYNC_CUH

#include "device/cuda/kernels/base.cuh"

/* Shared memory addresses are 32 bits. */
BP_DEVICE uint32_t bp_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* 4 bytes; of them `bytes` are read (0 or 4), the rest becomes 0. `from` must be a good address. */
BP_DEVICE void bp_copy_async4(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* 16 bytes, both sides aligned to 16; of them `bytes` are read, the rest becomes 0. */
BP_DEVICE void bp_copy_async16(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* Ends a group of this thread's copies. */
BP_DEVICE void bp_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `groups` (a constant) of this thread's groups are under way. */
#define bp_copy_wait(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")

#endif
