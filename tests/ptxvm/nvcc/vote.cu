/* SPDX-License-Identifier: MIT */
/* Ballots, matches and reductions of a warp, divergent too. */
extern "C" __global__ void k(unsigned *y, const int *x, int n)
{
    int i = threadIdx.x;
    unsigned odd = __ballot_sync(0xffffffffu, x[i] & 1);
    unsigned same = __match_any_sync(0xffffffffu, x[i] % 4);
    unsigned sum = __reduce_add_sync(0xffffffffu, (unsigned)x[i]);
    unsigned r = odd ^ same ^ sum;
    if (x[i] & 1) {
        r += (unsigned)__reduce_max_sync(odd, x[i]);
    } else {
        r += (unsigned)__any_sync(~odd, x[i] > 40) + 2u * (unsigned)__all_sync(~odd, x[i] >= 0);
    }
    y[i] = r;
}
