/* SPDX-License-Identifier: MIT */
/* Hopper's instructions: barriers in shared memory that count bytes, copies by tensor maps, and
 * products by warpgroups. */
#ifndef BP_DEVICE_KERNELS_HOPPER_CUH
#define BP_DEVICE_KERNELS_HOPPER_CUH

#include "device/cuda/kernels/base.cuh"

/* As the driver makes it: which tensor, which box of it, in which pattern. */
typedef struct __align__(128) bp_map
{
    unsigned char bytes[128];
}
bp_map;

BP_DEVICE void bp_barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes barriers known to copies. */
BP_DEVICE void bp_barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

BP_DEVICE void bp_barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and says how many bytes will come. */
BP_DEVICE void bp_barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* What the thread stored in shared memory is there for products by warpgroups. */
BP_DEVICE void bp_proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Waits until the phase of this parity is over; of a new barrier the one before its first is. */
BP_DEVICE void bp_barrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t over = 0;
    while (over == 0) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    }
}

/* The box of a map that begins at element x of line y, whole, zeros where the tensor ends. */
BP_DEVICE void bp_bring_box(uint32_t to, const bp_map *map, uint32_t x, uint32_t y,
                            uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

/* The same of a map of three directions. */
BP_DEVICE void bp_bring_box_of(uint32_t to, const bp_map *map, uint32_t x, uint32_t y, uint32_t z,
                               uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

/* True in one of the warp's lanes, which all come here. */
BP_DEVICE bool bp_elect(void)
{
    uint32_t chosen;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(chosen));
    return chosen != 0;
}

/* Registers of each thread of the warpgroup from now on. */
#define bp_registers_give(count) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define bp_registers_take(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))

BP_DEVICE void bp_group_sync(uint32_t barrier, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* What wgmma is told of an operand of 128-byte lines in the pattern of 128 bytes: eight lines are
 * 1024 bytes; `panel`: bytes from one panel to the next, where elements run along the tile. */
BP_DEVICE uint64_t bp_descriptor(uint32_t address, uint32_t panel)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(panel >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define BP_SUMS8(i)                                                                                \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]),          \
        "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define BP_SUMS_TEXT                                                                               \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "   \
    "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "   \
    "%56, %57, %58, %59, %60, %61, %62, %63}"
#define BP_STEP_TEXT(type, from, scale, turned_a, turned_b)                                        \
    "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " BP_SUMS_TEXT ", " from        \
    ", " scale ", 1, 1, " turned_a ", " turned_b ";\n"

/* sum (64 x 128, fragments) = or += a (64 x 64) b, in one statement with the fence before and
 * behind it the wait for the product before this one. This one goes on until bp_group_wait: nothing
 * touches the sums before that but the next product. */
#define BP_GROUP_MULTIPLY(type, turned_a, turned_b)                                                \
    asm volatile(                                                                                  \
        "{\n"                                                                                      \
        ".reg .pred adds;\n"                                                                       \
        "setp.eq.u32 adds, %72, 0;\n"                                                              \
        "wgmma.fence.sync.aligned;\n" BP_STEP_TEXT(type, "%64, %65", "adds", turned_a, turned_b)   \
            BP_STEP_TEXT(type, "%66, %67", "1", turned_a, turned_b)                                \
                BP_STEP_TEXT(type, "%68, %69", "1", turned_a, turned_b)                            \
                    BP_STEP_TEXT(type, "%70, %71", "1", turned_a,                                  \
                                 turned_b) "wgmma.commit_group.sync.aligned;\n"                    \
                                           "wgmma.wait_group.sync.aligned 1;\n"                    \
                                           "}"                                                     \
        : BP_SUMS8(0), BP_SUMS8(8), BP_SUMS8(16), BP_SUMS8(24), BP_SUMS8(32), BP_SUMS8(40),        \
          BP_SUMS8(48), BP_SUMS8(56)                                                               \
        : "l"(a), "l"(b), "l"(a + step_a), "l"(b + step_b), "l"(a + 2 * step_a),                   \
          "l"(b + 2 * step_b), "l"(a + 3 * step_a), "l"(b + 3 * step_b), "r"((uint32_t)starts)     \
        : "memory")

/* Waits until the sums are there. */
BP_DEVICE void bp_group_wait(float sum[64])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
                 : BP_SUMS8(0), BP_SUMS8(8), BP_SUMS8(16), BP_SUMS8(24), BP_SUMS8(32), BP_SUMS8(40),
                   BP_SUMS8(48), BP_SUMS8(56)::"memory");
}

#endif
