/* SPDX-License-Identifier: MIT */
/* Codes of 4 and 8 bits from values. */
#include "core/ops/quantised.h"

#include <math.h>
#include <string.h>

/* Quantiles of the normal distribution (arXiv 2305.14314, appendix E), as bitsandbytes rounds them.
 */
const float bp_nf4[16] = {-1.0f,
                          -0.6961928009986877f,
                          -0.5250730514526367f,
                          -0.39491748809814453f,
                          -0.28444138169288635f,
                          -0.18477343022823334f,
                          -0.09105003625154495f,
                          0.0f,
                          0.07958029955625534f,
                          0.16093020141124725f,
                          0.24611230194568634f,
                          0.33791524171829224f,
                          0.44070982933044434f,
                          0.5626170039176941f,
                          0.7229568362236023f,
                          1.0f};

/* 0, 1/16, 8, 12, 4, 6, 2, 3, then the same with a sign, over 12. */
const float bp_fp4[16] = {0.0f,
                          0.0052083334885537624f,
                          0.6666666865348816f,
                          1.0f,
                          0.3333333432674408f,
                          0.5f,
                          0.1666666716337204f,
                          0.25f,
                          0.0f,
                          -0.0052083334885537624f,
                          -0.6666666865348816f,
                          -1.0f,
                          -0.3333333432674408f,
                          -0.5f,
                          -0.1666666716337204f,
                          -0.25f};

void bp_four_sorted(int64_t form, float values[16], uint8_t codes[16])
{
    /* Of the two zeros 0 comes first: so it is what 0 becomes. */
    static const uint8_t order[16] = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};
    const float *codebook = bp_quantised_codebook(form);
    for (uint32_t i = 0; i < 16; i++) {
        codes[i] = codebook == bp_nf4 ? (uint8_t)i : order[i];
        values[i] = codebook[codes[i]];
    }
}

bp_quantised bp_quantised_with_block(bp_quantised kind, uint64_t block)
{
    for (uint32_t size = 0; size < 8; size++) {
        const bp_quantised form = (bp_quantised)((uint32_t)kind | size << 3);
        if (bp_quantised_four(kind) && bp_quantised_block(form) == block) {
            return form;
        }
    }
    return BP_QUANTISED_NONE;
}

const char *bp_quantised_name(bp_quantised form)
{
    static const char *const names[BP_QUANTISED_KINDS] = {
        "", "nf4", "nf4 with double quantisation", "int8",
        "", "fp4", "fp4 with double quantisation"};
    if (bp_quantised_packed(form)) {
        return bp_packed_of_form(form)->name;
    }
    return names[bp_quantised_kind(form)];
}

uint32_t bp_quantised_passes(bp_quantised form)
{
    const bool once = bp_quantised_packed(form) || bp_quantised_four(form);
    return once && !bp_quantised_nests(form) ? 1 : 2;
}

/* The same where there are NaN among them. */
static int32_t largest_number(const float *values, uint64_t count, int32_t most)
{
    for (uint64_t i = 0; i < count; i++) {
        int32_t size;
        memcpy(&size, &values[i], sizeof size);
        size &= 0x7fffffff;
        size = size > 0x7f800000 ? 0 : size;
        most = size > most ? size : most;
    }
    return most;
}

/* Magnitudes compare as their bits do; a NaN, whose are the largest, is larger than none. */
float bp_quantised_largest(const float *values, uint64_t count, float so_far)
{
    int32_t first, most;
    memcpy(&first, &so_far, sizeof first);
    most = first;
    for (uint64_t i = 0; i < count; i++) {
        int32_t size;
        memcpy(&size, &values[i], sizeof size);
        size &= 0x7fffffff;
        most = size > most ? size : most;
    }
    most = most > 0x7f800000 ? largest_number(values, count, first) : most;
    memcpy(&so_far, &most, sizeof so_far);
    return so_far;
}

/* Between neighbours of a codebook of `size` values: one fewer. */
static void midpoints(const float *codebook, uint32_t size, float *middle)
{
    for (uint32_t i = 0; i + 1 < size; i++) {
        middle[i] = (codebook[i] + codebook[i + 1]) / 2.0f;
    }
}

/* The number of a codebook's midpoints that lie below x; size is a power of two. No branches: which
 * way they go is anyone's guess. */
static uint8_t code_of(const float *middle, uint32_t size, float x)
{
    uint32_t low = 0;
    for (uint32_t step = size / 2; step > 0; step /= 2) {
        low += (uint32_t)(middle[low + step - 1] < x) * step;
    }
    return (uint8_t)low;
}

static float clamped(float x)
{
    return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
}

/* Only that of a short block is kept above zero. */
float bp_four_scale(int64_t form, const float *values, uint64_t count)
{
    float scale = bp_quantised_largest(values, count, 0.0f);
    return count < bp_quantised_block(form) && scale < BP_NF4_LEAST ? BP_NF4_LEAST : scale;
}

/* What codes of 4 bits are found by. */
typedef struct four_codebook {
    float middle[16];
    uint8_t codes[16];
} four_codebook;

static void four_open(four_codebook *b, int64_t form)
{
    float sorted[16];
    bp_four_sorted(form, sorted, b->codes);
    midpoints(sorted, 16, b->middle);
}

/* Of each of 32 values: counted, not searched for, as vectors are. */
static void four_codes(const four_codebook *b, const float x[BP_BLOCK_LEAST], uint8_t *packed)
{
    int32_t below[BP_BLOCK_LEAST];
    for (uint32_t i = 0; i < BP_BLOCK_LEAST; i++) {
        int32_t sum = 0;
        for (uint32_t k = 0; k < 15; k++) {
            sum += b->middle[k] < x[i] ? 1 : 0;
        }
        below[i] = sum;
    }
    for (uint32_t i = 0; i < BP_BLOCK_LEAST; i += 2) {
        packed[i / 2] = (uint8_t)(b->codes[below[i]] << 4 | b->codes[below[i + 1]]);
    }
}

static float four_block(const four_codebook *b, int64_t form, const float *values, uint64_t count,
                        uint8_t *codes)
{
    float x[BP_BLOCK_LEAST];
    const float scale = bp_four_scale(form, values, count);
    const float divisor = scale > BP_NF4_LEAST ? scale : BP_NF4_LEAST;
    const float inverse = 1.0f / divisor;
    if (count == bp_quantised_block(form)) {
        for (uint64_t i = 0; i < count; i += BP_BLOCK_LEAST) {
            for (uint32_t k = 0; k < BP_BLOCK_LEAST; k++) {
                x[k] = clamped(values[i + k] * inverse);
            }
            four_codes(b, x, codes + i / 2);
        }
        return scale;
    }
    for (uint64_t i = 0; i < count; i += 2) {
        const float second = i + 1 < count ? values[i + 1] : 0.0f;
        const uint8_t high = b->codes[code_of(b->middle, 16, clamped(values[i] / divisor))];
        const uint8_t low = b->codes[code_of(b->middle, 16, clamped(second / divisor))];
        codes[i / 2] = (uint8_t)(high << 4 | low);
    }
    return scale;
}

float bp_four_block(int64_t form, const float *values, uint64_t count, uint8_t *codes)
{
    four_codebook codebook;
    four_open(&codebook, form);
    return four_block(&codebook, form, values, count, codes);
}

void bp_four_blocks(int64_t form, const float *values, uint64_t blocks, float *scales,
                    uint8_t *codes)
{
    const uint64_t block = bp_quantised_block(form);
    four_codebook codebook;
    four_open(&codebook, form);
    for (uint64_t b = 0; b < blocks; b++, values += block) {
        scales[b] = codes == NULL
                        ? bp_four_scale(form, values, block)
                        : four_block(&codebook, form, values, block, codes + b * (block / 2));
    }
}

/* bitsandbytes looks x up in a table of 65,536 steps from -1 to 1: what is found is the nearest of
 * the map for the step that x is rounded to. Zero times the inverse of next to nothing is no
 * number: there it finds the first. */
static uint8_t nested_code(const float *middle, float x)
{
    const float steps = 65535.0f;
    if (isnan(x)) {
        return 0;
    }
    int32_t step = (int32_t)fmaf((clamped(x) + 1.0f) * 0.5f, steps, 0.5f);
    return code_of(middle, BP_NESTED_BLOCK, (float)(2 * step) / steps - 1.0f);
}

float bp_nested_block(const float *scales, uint32_t count, float offset, uint8_t *codes)
{
    float largest = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        float size = fabsf(scales[i] - offset);
        largest = size > largest ? size : largest;
    }
    float middle[BP_NESTED_BLOCK];
    float inverse = largest > 0.0f ? 1.0f / largest : 0.0f;
    midpoints(bp_nested_map, BP_NESTED_BLOCK, middle);
    for (uint32_t i = 0; i < count; i++) {
        codes[i] =
            largest > 0.0f ? nested_code(middle, (scales[i] - offset) * inverse) : (uint8_t)0;
    }
    return largest;
}

int8_t bp_int8_code(float value, float scale)
{
    return scale > 0.0f ? (int8_t)nearbyintf(value * (1.0f / scale * 127.0f)) : (int8_t)0;
}

/* Adding 1.5 x 2^23 to a value below 2^22 leaves it rounded to even in the sum's last bits. */
void bp_int8_codes(const float *values, uint64_t count, float scale, uint8_t *codes)
{
    const float factor = scale > 0.0f ? 1.0f / scale * 127.0f : 0.0f;
    for (uint64_t i = 0; i < count; i++) {
        const float sum = values[i] * factor + 0x1.8p23f;
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        codes[i] = (uint8_t)(bits & 0xff);
    }
}

/* The map of nested scales: the signed 8-bit one of core/ops/codec.h with the
 * roundings that torch.linspace in f32 gives bitsandbytes, so that files come out the same;
 * tests/golden/test_quantised_golden.c holds it to that. */

const float bp_nested_map[BP_NESTED_BLOCK] = {
    -0.992968738f,    -0.978906274f,    -0.96484375f,     -0.950781226f,
    -0.936718762f,    -0.922656238f,    -0.908593774f,    -0.89453125f,
    -0.880468726f,    -0.866406262f,    -0.852343738f,    -0.838281274f,
    -0.82421875f,     -0.810156226f,    -0.796093762f,    -0.782031238f,
    -0.767968774f,    -0.75390625f,     -0.739843726f,    -0.725781262f,
    -0.711718798f,    -0.697656274f,    -0.68359375f,     -0.669531226f,
    -0.655468762f,    -0.641406298f,    -0.627343774f,    -0.61328125f,
    -0.599218726f,    -0.585156262f,    -0.571093798f,    -0.557031274f,
    -0.54296875f,     -0.528906226f,    -0.514843702f,    -0.500781238f,
    -0.486718714f,    -0.47265625f,     -0.458593726f,    -0.444531262f,
    -0.430468738f,    -0.416406244f,    -0.40234375f,     -0.388281226f,
    -0.374218762f,    -0.360156238f,    -0.346093744f,    -0.33203125f,
    -0.317968726f,    -0.303906262f,    -0.289843738f,    -0.275781274f,
    -0.26171875f,     -0.247656241f,    -0.233593747f,    -0.219531253f,
    -0.205468744f,    -0.19140625f,     -0.177343756f,    -0.163281247f,
    -0.149218753f,    -0.135156244f,    -0.12109375f,     -0.107031256f,
    -0.0985937491f,   -0.0957812592f,   -0.0929687545f,   -0.0901562497f,
    -0.0873437524f,   -0.0845312476f,   -0.0817187577f,   -0.078906253f,
    -0.0760937482f,   -0.0732812509f,   -0.0704687461f,   -0.0676562563f,
    -0.0648437515f,   -0.0620312504f,   -0.0592187531f,   -0.0564062484f,
    -0.053593751f,    -0.05078125f,     -0.047968749f,    -0.0451562516f,
    -0.0423437469f,   -0.0395312496f,   -0.0367187522f,   -0.0339062512f,
    -0.0310937501f,   -0.028281251f,    -0.0254687499f,   -0.0226562507f,
    -0.0198437516f,   -0.0170312505f,   -0.0142187504f,   -0.0114062503f,
    -0.00971874967f,  -0.00915624946f,  -0.00859375019f,  -0.00803124998f,
    -0.00746874977f,  -0.00690625003f,  -0.00634374982f,  -0.00578125007f,
    -0.00521875033f,  -0.00465624966f,  -0.00409374991f,  -0.00353124971f,
    -0.00296874996f,  -0.00240624999f,  -0.00184375001f,  -0.00128124992f,
    -0.000943750085f, -0.000831249985f, -0.00071875006f,  -0.000606250076f,
    -0.000493750034f, -0.000381250022f, -0.000268750038f, -0.000156250011f,
    -8.87499991e-05f, -6.62500024e-05f, -4.37499984e-05f, -2.12499981e-05f,
    -7.7499999e-06f,  -3.25000019e-06f, -5.50000038e-07f, 0.0f,
    5.50000038e-07f,  3.25000019e-06f,  7.7499999e-06f,   2.12499981e-05f,
    4.37499984e-05f,  6.62500024e-05f,  8.87499991e-05f,  0.000156250011f,
    0.000268750038f,  0.000381250022f,  0.000493750034f,  0.000606250076f,
    0.00071875006f,   0.000831249985f,  0.000943750085f,  0.00128124992f,
    0.00184375001f,   0.00240624999f,   0.00296874996f,   0.00353124971f,
    0.00409374991f,   0.00465624966f,   0.00521875033f,   0.00578125007f,
    0.00634374982f,   0.00690625003f,   0.00746874977f,   0.00803124998f,
    0.00859375019f,   0.00915624946f,   0.00971874967f,   0.0114062503f,
    0.0142187504f,    0.0170312505f,    0.0198437516f,    0.0226562507f,
    0.0254687499f,    0.028281251f,     0.0310937501f,    0.0339062512f,
    0.0367187522f,    0.0395312496f,    0.0423437469f,    0.0451562516f,
    0.047968749f,     0.05078125f,      0.053593751f,     0.0564062484f,
    0.0592187531f,    0.0620312504f,    0.0648437515f,    0.0676562563f,
    0.0704687461f,    0.0732812509f,    0.0760937482f,    0.078906253f,
    0.0817187577f,    0.0845312476f,    0.0873437524f,    0.0901562497f,
    0.0929687545f,    0.0957812592f,    0.0985937491f,    0.107031256f,
    0.12109375f,      0.135156244f,     0.149218753f,     0.163281247f,
    0.177343756f,     0.19140625f,      0.205468744f,     0.219531253f,
    0.233593747f,     0.247656241f,     0.26171875f,      0.275781274f,
    0.289843738f,     0.303906262f,     0.317968726f,     0.33203125f,
    0.346093744f,     0.360156238f,     0.374218762f,     0.388281226f,
    0.40234375f,      0.416406244f,     0.430468738f,     0.444531262f,
    0.458593726f,     0.47265625f,      0.486718714f,     0.500781238f,
    0.514843702f,     0.528906226f,     0.54296875f,      0.557031274f,
    0.571093798f,     0.585156262f,     0.599218726f,     0.61328125f,
    0.627343774f,     0.641406298f,     0.655468762f,     0.669531226f,
    0.68359375f,      0.697656274f,     0.711718798f,     0.725781262f,
    0.739843726f,     0.75390625f,      0.767968774f,     0.782031238f,
    0.796093762f,     0.810156226f,     0.82421875f,      0.838281274f,
    0.852343738f,     0.866406262f,     0.880468726f,     0.89453125f,
    0.908593774f,     0.922656238f,     0.936718762f,     0.950781226f,
    0.96484375f,      0.978906274f,     0.992968738f,     1.0f,
};
