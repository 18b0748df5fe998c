/* SPDX-License-Identifier: MIT */
/* Ten rounds of Philox 4x32. */
extern "C" __global__ void k(uint4 *y, unsigned seed, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned a = (unsigned)i, b = 0, c = 1, d = 2, p = seed, q = ~seed;
        for (int r = 0; r < 10; r++) {
            unsigned h0 = __umulhi(0xD2511F53u, a), l0 = 0xD2511F53u * a;
            unsigned h1 = __umulhi(0xCD9E8D57u, c), l1 = 0xCD9E8D57u * c;
            a = h1 ^ b ^ p;
            b = l1;
            c = h0 ^ d ^ q;
            d = l0;
            p += 0x9E3779B9u;
            q += 0xBB67AE85u;
        }
        y[i] = make_uint4(a, b, c, d);
    }
}
