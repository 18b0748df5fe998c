/* SPDX-License-Identifier: MIT */
/* Normal variates of 16 pairs at a time, in loops over lanes that a compiler makes vectors of: the
 * bits of bp_random_normals (core/base/random.h). Included once per form, which defines
 * BP_PLAIN(name). */
#include "core/base/math_double.h"
#include "core/base/random.h"
#include "core/ops/master.h"
#include "device/host/elements/normal.h"
#include "device/host/vector/half.h"

#define PAIRS  16
#define VALUES (2 * PAIRS)
#define LOW    UINT64_C(0xffffffff)

/* The four words of Philox4x32-10 for 16 counters {pair + lane, stream, 0}, as bp_philox has them.
 */
static void normal_words(uint64_t key, uint32_t stream, uint64_t pair, uint64_t c[4][PAIRS])
{
    uint64_t k0 = key & LOW, k1 = key >> 32;
    for (uint64_t l = 0; l < PAIRS; l++) {
        c[0][l] = (pair + l) & LOW;
        c[1][l] = (pair + l) >> 32;
        c[2][l] = stream;
        c[3][l] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (uint64_t l = 0; l < PAIRS; l++) {
            const uint64_t p0 = UINT64_C(0xD2511F53) * c[0][l];
            const uint64_t p1 = UINT64_C(0xCD9E8D57) * c[2][l];
            c[0][l] = (p1 >> 32) ^ c[1][l] ^ k0;
            c[1][l] = p1 & LOW;
            c[2][l] = (p0 >> 32) ^ c[3][l] ^ k1;
            c[3][l] = p0 & LOW;
        }
        k0 = (k0 + 0x9E3779B9u) & LOW;
        k1 = (k1 + 0xBB67AE85u) & LOW;
    }
}

/* A whole number below 2^32 as a double, by its bits. */
static inline double whole(uint64_t x)
{
    return bp_double_from_bits(UINT64_C(0x4330000000000000) | x) - 0x1p52;
}

/* 53 bits of two words as a number in [0, 1): both parts and their sum are exact. */
static inline double unit(uint64_t high, uint64_t low)
{
    return (whole(high) * 0x1p21 + whole(low >> 11)) * 0x1p-53;
}

/* Variates 2 * pair .. 2 * pair + 31: those with even numbers, and the others. */
static void normal_block(uint64_t key, uint32_t stream, uint64_t pair, double even[PAIRS],
                         double odd[PAIRS])
{
    uint64_t c[4][PAIRS];
    double radius[PAIRS];
    normal_words(key, stream, pair, c);
    for (uint64_t l = 0; l < PAIRS; l++) {
        double low;
        radius[l] = -2.0 * bp_log_parts(1.0 - unit(c[0][l], c[1][l]), &low);
    }
    for (uint64_t l = 0; l < PAIRS; l++) {
        radius[l] = sqrt(radius[l]);
    }
    for (uint64_t l = 0; l < PAIRS; l++) {
        uint64_t quadrant;
        const double angle = 0x1.921fb54442d18p+2 * unit(c[2][l], c[3][l]);
        const double r = bp_reduce_half_pi(angle, &quadrant);
        const double s = bp_sin_reduced(r), k = bp_cos_reduced(r);
        const double sine = (quadrant & 1) != 0 ? k : s, cosine = (quadrant & 1) != 0 ? s : k;
        even[l] = radius[l] * (((quadrant + 1) & 2) != 0 ? -cosine : cosine);
        odd[l] = radius[l] * ((quadrant & 2) != 0 ? -sine : sine);
    }
}

static void normal_values(uint64_t key, uint32_t stream, uint64_t pair, double deviation, float *to)
{
    double even[PAIRS], odd[PAIRS];
    normal_block(key, stream, pair, even, odd);
    for (uint64_t l = 0; l < PAIRS; l++) {
        to[2 * l] = (float)(deviation * even[l]);
        to[2 * l + 1] = (float)(deviation * odd[l]);
    }
}

void BP_PLAIN(normals)(uint64_t seed, uint32_t stream, uint64_t first, uint64_t count,
                       double deviation, float *to)
{
    float values[VALUES];
    for (uint64_t done = 0; done < count;) {
        const uint64_t skip = (first + done) % 2, left = count - done;
        const uint64_t piece = left < VALUES - skip ? left : VALUES - skip;
        normal_values(seed ^ BP_NORMAL_KEY, stream, (first + done) / 2, deviation, values);
        memcpy(to + done, values + skip, piece * sizeof *to);
        done += piece;
    }
}

static void normal_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_random_normal_scalars *s = call->scalars;
    const bp_random_normal_pointers *p = call->pointers;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    const uint64_t seed = bp_normal_seed(call);
    float values[VALUES];
    (void)worker;
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += VALUES) {
        const uint64_t count = end - i < VALUES ? end - i : VALUES;
        normal_values(seed ^ BP_NORMAL_KEY, (uint32_t)s->stream, i / 2, s->deviation, values);
        for (uint64_t k = 0; k < count; k++) {
            bp_master_store((bp_dtype)call->dtypes[0], (bp_master)s->form, p->y, p->master, i + k,
                            values[k]);
        }
    }
}

const bp_host_kernel BP_PLAIN(random_normal) = {bp_normal_tasks, normal_run, NULL};
