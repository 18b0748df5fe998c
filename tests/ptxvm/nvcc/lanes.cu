/* SPDX-License-Identifier: MIT */
/* Tiles of sixteen lanes by cooperative groups, packed 16-bit integers, byte permutes. */
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(int *y, const int *x)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int v = x[block.thread_rank()];
    int sum = v;
    for (int o = tile.size() / 2; o > 0; o /= 2) {
        sum += tile.shfl_down(sum, o);
    }
    sum = tile.shfl(sum, 0);
    block.sync();
    unsigned both = __vadd2((unsigned)v, 0x00030005u);
    unsigned most = __vmaxs2((unsigned)v, 0x00100010u);
    y[block.thread_rank()] = sum * 1000 + (int)(both ^ most) + __ffs(v) +
                             (int)__byte_perm((unsigned)v, 0x01020304u, 0x4602) +
                             (int)__funnelshift_l((unsigned)v, 0x80000001u, 3);
}
