/* SPDX-License-Identifier: MIT */
/* The codebooks of 8-bit state as tables of eight entries, for vectors that look them up by
 * register: AVX2's and NEON's. The nine decades, and the nine powers of two of a code, are told
 * apart by their number modulo 8, as the first and the last can share an entry. */
#ifndef BP_DEVICE_HOST_CODEC_DECADES_H
#define BP_DEVICE_HOST_CODEC_DECADES_H

/* Entry d - 1 (modulo 8) is decade d's, 1 to 8: `next`, the midpoint between it and the following
 * one; place = a * slope + start, at most last (bp_codec_index_signed, _unsigned). The last entry
 * is decade 8's, where place is its `last`, and decade 0's, where a adds less than 1 to start. */
typedef struct codec_table {
    float next[8], slope[8], start[8], last[8];
    float low[8], width[8]; /* at the exponent of y: codec_codebook */
} codec_table;

#define LOWS                                                                                       \
    0x1.0c6f7ap-20f, 0x1.4f8b58p-17f, 0x1.a36e2ep-14f, 0x1.0624dep-10f, 0x1.47ae14p-7f,            \
        0x1.99999ap-4f
static const codec_table codec_signed = {
    {0x1.fe0702p-20f, 0x1.e68a0ep-17f, 0x1.00e6b0p-13f, 0x1.23a29cp-10f, 0x1.5a1cacp-7f,
     0x1.a51eb8p-4f, 0x1.fe3334p-1f, 0x1.27476cp-22f},
    {0x1.0f4472p+20f, 0x1.b2071cp+17f, 0x1.5b38e4p+15f, 0x1.15c71cp+13f, 0x1.bc71c8p+10f,
     0x1.638e38p+8f, 0x1.1c71c8p+6f, 129.0f},
    {0x1.c71c72p-1f, 0x1.c71c72p+0f, 0x1.c71c72p+1f, 0x1.c71c72p+2f, 0x1.c71c72p+3f, 0x1.c71c72p+4f,
     0x1.c71c72p+5f, 0.0f},
    {1.0f, 3.0f, 7.0f, 15.0f, 31.0f, 63.0f, 127.0f, 128.0f},
    {LOWS, 0.0f, 0x1.ad7f2ap-24f},
    {0x1.2dfd6ap-18f, 0x1.797cc4p-16f, 0x1.d7dbf4p-14f, 0x1.26e978p-11f, 0x1.70a3d8p-9f,
     0x1.ccccccp-7f, 2.0f, 0x1.e32f0ep-21f}};
static const codec_table codec_unsigned = {
    {0x1.853b3ep-20f, 0x1.9b0ab2p-17f, 0x1.d29dc8p-14f, 0x1.14e3bcp-10f, 0x1.50e560p-7f,
     0x1.9f5c28p-4f, 0x1.ff199ap-1f, 0x1.5cf752p-23f},
    {0x1.0f4472p+21f, 0x1.b2071cp+18f, 0x1.5b38e4p+16f, 0x1.15c71cp+14f, 0x1.bc71c8p+11f,
     0x1.638e38p+9f, 0x1.1c71c8p+7f, 256.0f},
    {0x1.c71c72p+0f, 0x1.c71c72p+1f, 0x1.c71c72p+2f, 0x1.c71c72p+3f, 0x1.c71c72p+4f, 0x1.c71c72p+5f,
     0x1.c71c72p+6f, 1.0f},
    {3.0f, 7.0f, 15.0f, 31.0f, 63.0f, 127.0f, 255.0f, 256.0f},
    {0x1.ad7f2ap-24f, LOWS, 0.0f},
    {0x1.e32f0ep-22f, 0x1.2dfd6ap-19f, 0x1.797cc4p-17f, 0x1.d7dbf4p-15f, 0x1.26e978p-12f,
     0x1.70a3d8p-10f, 0x1.ccccccp-8f, 2.0f}};
#undef LOWS

#endif
