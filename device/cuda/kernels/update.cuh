/* SPDX-License-Identifier: MIT */
/* Update rules on the device: masters and states of four elements per thread. The arithmetic is
 * core/ops/update.h's and core/ops/codec_element.h's, so results equal the host's bit for
 * bit.
 *
 * 64 threads, two warps, hold the 256 elements of a block of states: thread j of them elements
 * 4 j .. 4 j + 3. A group of 32 elements is 8 threads, one of 128 a warp. */
#ifndef BP_DEVICE_KERNELS_UPDATE_CUH
#define BP_DEVICE_KERNELS_UPDATE_CUH

#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/master.cuh"
#include "device/cuda/kernels/philox.cuh"

#define inline __forceinline__ __device__
#include "core/ops/codec_element.h"
#include "core/ops/update.h"
#undef inline

/* bp_codec of core/ops/codec.h, whose own includes are no matter of kernels. */
#define BP_CODEC_F32        0u
#define BP_CODEC_BLOCK8     1u
#define BP_CODEC_COMPANDED8 2u
#define BP_CODEC_BLOCK4     3u

#define BP_BLOCK_THREADS 64 /* of a block of states */

typedef struct update_shared {
    float book[2][256];  /* signed, unsigned */
    float book4[16];     /* signed */
    int32_t most[3][8];  /* per state and warp: bits of the largest element */
    int32_t least[3][8]; /* and of the negative of the smallest */
} update_shared;

typedef struct update_tensor {
    bp_weight weight;
    unsigned char *state[3];
    const float *rows; /* scaled: factors, or NULL */
    const float *columns;
    const unsigned char *gradient;
    uint32_t gradient_form;
    uint32_t wide;
} update_tensor;

/* As device/host/update/update.c has it. */
BP_DEVICE double ademamix_beta3(const bp_update_scalars *s, const bp_control_block *control)
{
    double beta1 = bp_update_own(s, 0), beta3 = bp_update_own(s, 2), steps = bp_update_own(s, 6);
    double t = (double)control->applied;
    if (steps <= 0.0 || t >= steps || beta1 <= 0.0 || beta3 <= 0.0) {
        return beta3;
    }
    double log1 = bp_log(beta1), log3 = bp_log(beta3), part = t / steps;
    double now = bp_exp(log1 * log3 / ((1.0 - part) * log3 + part * log1));
    return now < beta3 ? now : beta3;
}

/* scaled: what element i's step is multiplied by, its row's factor times its column's. */
BP_DEVICE void load_factors(const update_tensor *t, uint64_t width, uint64_t i, uint64_t left,
                            float x[4])
{
#pragma unroll
    for (uint32_t e = 0; e < 4; e++) {
        x[e] = 1.0f;
        if (e < left) {
            uint64_t row = (i + e) / width, column = (i + e) - row * width;
            float factor = t->rows != NULL ? t->rows[row] : 1.0f;
            x[e] = t->columns != NULL ? factor * t->columns[column] : factor;
        }
    }
}

/* The first of four moves to their end: loops that take turns are written once, and their arrays
 * stay in registers. */
#define BP_TURN(type, a)                                                                           \
    do {                                                                                           \
        type first_ = a[0];                                                                        \
        a[0] = a[1];                                                                               \
        a[1] = a[2];                                                                               \
        a[2] = a[3];                                                                               \
        a[3] = first_;                                                                             \
    } while (0)

/* The books of a form of blocks; the caller synchronises. */
BP_DEVICE void make_books(update_shared *shared, uint32_t form)
{
    if (form == BP_CODEC_BLOCK8) {
        shared->book[0][threadIdx.x] = bp_codec_codebook_signed((int32_t)threadIdx.x);
        shared->book[1][threadIdx.x] = bp_codec_codebook_unsigned((int32_t)threadIdx.x);
    } else if (form == BP_CODEC_BLOCK4 && threadIdx.x < 16) {
        int32_t index = (int32_t)threadIdx.x - 7;
        float a = bp_codec_codebook4(index < 0 ? -index : index);
        shared->book4[threadIdx.x] = index < 0 ? -a : a;
    }
}

BP_DEVICE void load_gradient(const update_tensor *t, uint64_t i, uint64_t left, float clip,
                             float g[4])
{
    bp_load4(t->gradient, i, left, t->gradient_form, g);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        g[e] *= clip;
    }
}

/* The random bits of four elements of a parameter from e on, core/base/random.h's
 * bp_rounding_bits. */
BP_DEVICE void rounding_bits(uint64_t key, uint64_t step, uint64_t stream, uint64_t e,
                             uint32_t random[4])
{
    uint64_t generator = e / 256 * 32 + e % 128 / 4;
    uint32_t half = (uint32_t)(e % 256 / 128) * 16;
    bp_philox((uint32_t)generator, (uint32_t)(generator >> 32), (uint32_t)stream, (uint32_t)step,
              key, random);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        random[k] = random[k] >> half & 0xffff;
    }
}

BP_DEVICE void store_weights(const update_tensor *t, const bp_update_scalars *s,
                             const bp_step_block *step, uint64_t i, uint64_t left, const float w[4])
{
    uint32_t random[4] = {0, 0, 0, 0};
    if (t->weight.kind == BP_MASTER_FP8) {
        bp_store_fp8(&t->weight, i, left, w);
        return;
    }
    if (left == 0) {
        return;
    }
    if (t->weight.kind == BP_MASTER_STOCHASTIC) {
        rounding_bits(step->seed ^ 0x726f756e64696e67ull, step->step, (uint64_t)s->stream,
                      (uint64_t)s->first + i, random);
    }
    bp_store_weight4(&t->weight, i, left, random, w);
}

/* Where the block of states that holds element i begins. */
BP_DEVICE unsigned char *block_of(unsigned char *state, uint32_t form, uint64_t i)
{
    uint32_t bytes = form == BP_CODEC_BLOCK8 ? 260 : form == BP_CODEC_COMPANDED8 ? 272 : 136;
    return state + i / 256 * bytes;
}

BP_DEVICE float half_at(const unsigned char *at)
{
    return bp_float_from_bits((uint32_t) * (const uint16_t *)at << 16);
}

/* Four elements of a state; 0 where there is none. */
BP_DEVICE void load_state(const update_shared *shared, uint32_t form, bool has_sign,
                          unsigned char *state, uint64_t i, uint64_t left, uint32_t wide,
                          float x[4])
{
    x[0] = x[1] = x[2] = x[3] = 0.0f;
    if (state == NULL || left == 0) {
        return;
    }
    if (form == BP_CODEC_F32) {
        bp_load4_as(state, i, left, BP_SINGLE | wide, x);
        return;
    }
    const unsigned char *block = block_of(state, form, i);
    uint32_t at = (uint32_t)i % 256, code[4];
    if (form == BP_CODEC_BLOCK4) {
        uint32_t pair[4];
        bp_load_bits4(block + 8, at / 2, left < 3 ? 1 : 2, 1, false, pair);
        float scale = *(const float *)(block + at / 128 * 4);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            code[e] = pair[e / 2] >> 4 * (e % 2) & 15;
            float value =
                has_sign ? shared->book4[code[e]] : bp_codec_value4_unsigned((uint8_t)code[e]);
            x[e] = e < left ? value * scale : 0.0f;
        }
        return;
    }
    bool book = form == BP_CODEC_BLOCK8;
    bp_load_bits4(block + (book ? 4 : 16), at, left, 1, true, code);
    float scale = book ? *(const float *)block : half_at(block + at / 32 * 2);
    float unit = scale * (1.0f / 255.0f);
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        float value;
        if (book) {
            value = shared->book[has_sign ? 0 : 1][code[0]] * scale;
        } else if (has_sign) {
            value = bp_codec_expand_signed((uint8_t)code[0], scale);
        } else {
            value = bp_codec_expand_unsigned((uint8_t)code[0], unit);
        }
        x[0] = e < left ? value : 0.0f;
        BP_TURN(float, x);
        BP_TURN(uint32_t, code);
    }
}

/* The element of largest magnitude of this thread's group, with its sign; every thread takes part.
 */
BP_DEVICE float largest(update_shared *shared, uint32_t form, uint32_t number, const float x[4])
{
    int32_t most = 0, least = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int32_t up = (int32_t)bp_float_bits(x[e]);
        int32_t down = (int32_t)(bp_float_bits(x[e]) ^ 0x80000000u);
        most = up > most ? up : most;
        least = down > least ? down : least;
    }
#pragma unroll 1
    for (int distance = form == BP_CODEC_COMPANDED8 ? 4 : 16; distance > 0; distance /= 2) {
        int32_t up = __shfl_xor_sync(BP_ALL_LANES, most, distance);
        int32_t down = __shfl_xor_sync(BP_ALL_LANES, least, distance);
        most = up > most ? up : most;
        least = down > least ? down : least;
    }
    if (form == BP_CODEC_BLOCK8) {
        uint32_t warp = threadIdx.x / BP_WARP;
        if (threadIdx.x % BP_WARP == 0) {
            shared->most[number][warp] = most;
            shared->least[number][warp] = least;
        }
        __syncthreads();
        int32_t up = shared->most[number][warp ^ 1], down = shared->least[number][warp ^ 1];
        most = up > most ? up : most;
        least = down > least ? down : least;
    }
    return most >= least ? bp_float_from_bits((uint32_t)most)
                         : -bp_float_from_bits((uint32_t)least);
}

/* Four codes of one form. */
BP_DEVICE void encode4(uint32_t form, bool has_sign, float x[4], float inverse, uint32_t code[4])
{
    code[0] = code[1] = code[2] = code[3] = 0;
    if (inverse == 0.0f) {
        return;
    }
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        if (form == BP_CODEC_BLOCK8) {
            code[0] = has_sign ? bp_codec_code8_signed(x[0], inverse)
                               : bp_codec_code8_unsigned(x[0], inverse);
        } else if (form == BP_CODEC_COMPANDED8) {
            code[0] = has_sign ? bp_codec_compand_signed(x[0], inverse)
                               : bp_codec_compand_unsigned(x[0], inverse);
        } else {
            code[0] = has_sign ? bp_codec_code4_signed(x[0], inverse)
                               : bp_codec_code4_unsigned(x[0], inverse);
        }
        BP_TURN(float, x);
        BP_TURN(uint32_t, code);
    }
}

/* The tensor's first state back; `number` is the state's own, for its place in shared memory. */
BP_DEVICE void store_state(update_shared *shared, const update_tensor *t, uint32_t form,
                           bool has_sign, uint64_t i, uint64_t count, uint32_t number, float x[4])
{
    unsigned char *state = t->state[0];
    uint64_t left = i < count ? count - i : 0;
    if (state == NULL) {
        return;
    }
    if (form == BP_CODEC_F32) {
        bp_store4_as(state, i, left, BP_SINGLE | t->wide, x);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        x[e] = e < left ? x[e] : 0.0f;
    }
    float scale = largest(shared, form, number, x);
    uint32_t half = 0;
    if (form == BP_CODEC_COMPANDED8) {
        half = bp_codec_round_up(has_sign ? fabsf(scale) : sqrtf(scale));
        scale = bp_float_from_bits(half << 16);
    }
    float inverse = bp_codec_inverse(scale);
    scale = inverse != 0.0f ? scale : 0.0f;
    uint32_t at = (uint32_t)i % 256, code[4];
    if (i - at >= count) {
        return; /* there is no such block */
    }
    unsigned char *block = block_of(state, form, i);
    encode4(form, has_sign, x, inverse, code);
    if (form == BP_CODEC_BLOCK8) {
        if (at == 0) {
            *(float *)block = scale;
        }
        bp_store_bits4(block + 4, at, left, 1, true, code);
    } else if (form == BP_CODEC_COMPANDED8) {
        if (at % 32 == 0) {
            *(uint16_t *)(block + at / 32 * 2) = (uint16_t)(inverse != 0.0f ? half : 0);
        }
        bp_store_bits4(block + 16, at, left, 1, true, code);
    } else {
        if (at % 128 == 0) {
            *(float *)(block + at / 128 * 4) = scale;
        }
        uint32_t pair[4] = {code[0] | (left > 1 ? code[1] << 4 : 0),
                            code[2] | (left > 3 ? code[3] << 4 : 0), 0, 0};
        bp_store_bits4(block + 8, at / 2, left == 0 ? 0 : (left < 3 ? 1 : 2), 1, false, pair);
    }
}

/* Adam and AdamW, and their parts for AdamA, with core/ops/update.h's operations in their order.
 */
BP_DEVICE void adam_one(const bp_update_factors *f, bool coupled, float g, float *w, float *m,
                        float *v)
{
    bool moves = bp_update_moves(f);
    g = coupled && moves ? fmaf(f->decay, *w, g) : g;
    if (f->fold <= BP_UPDATE_ACCUMULATE_FIRST) {
        (void)bp_update_moments(f, g, m, v);
    } else {
        bp_update_accumulate(f, g, m, v);
    }
    if (moves) {
        float u = *m / fmaf(sqrtf(*v), f->v_scale, f->epsilon);
        *w = fmaf(-f->rate, u, coupled ? *w : *w * f->keep);
    }
}

/* The rules that are CHOICES of several in rules.def. */
BP_DEVICE void apply_sgd(const bp_update_factors *f, const update_tensor *t, float g, float *w,
                         float *a, float *b)
{
    if (t->state[0] == NULL) {
        bp_update_plain(f, g, w);
    } else if (f->nesterov != 0) {
        bp_update_nesterov(f, g, w, a);
    } else {
        bp_update_momentum(f, g, w, a);
    }
}

BP_DEVICE void apply_adam(const bp_update_factors *f, const update_tensor *t, float g, float *w,
                          float *a, float *b)
{
    adam_one(f, true, g, w, a, b);
}

BP_DEVICE void apply_adamw(const bp_update_factors *f, const update_tensor *t, float g, float *w,
                           float *a, float *b)
{
    adam_one(f, false, g, w, a, b);
}

BP_DEVICE void apply_rmsprop(const bp_update_factors *f, const update_tensor *t, float g, float *w,
                             float *a, float *b)
{
    if (t->state[1] == NULL) {
        bp_update_rmsprop(f, g, w, a);
    } else {
        bp_update_rmsprop_momentum(f, g, w, a, b);
    }
}

/* One step of one element; the choice is the same in all threads. */
#define APPLY_CHOICES(name) apply_##name(f, t, g, w, a, b)
#define APPLY_STATES1(name) bp_update_##name(f, g, w, a)
#define APPLY_STATES2(name) bp_update_##name(f, g, w, a, b)
#define APPLY_STATES3(name) bp_update_##name(f, g, w, a, b, c)
BP_DEVICE void apply_one(const bp_update_factors *f, uint32_t rule, const update_tensor *t, float g,
                         float *w, float *a, float *b, float *c)
{
    switch (rule) {
#define RULE(name, body)                                                                           \
    case BP_UPDATE_##name:                                                                         \
        APPLY_##body(name);                                                                        \
        break;
#include "core/ops/rules.def"
    default:
        if (t->state[0] == NULL) {
            bp_update_scaled(f, g, w, *b);
        } else {
            bp_update_scaled_mean(f, g, w, a, *b);
        }
        break;
    }
}

BP_DEVICE void apply_rule(const bp_update_factors *f, uint32_t rule, const update_tensor *t,
                          float g[4], float w[4], float x[3][4])
{
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        apply_one(f, rule, t, g[0], &w[0], &x[0][0], &x[1][0], &x[2][0]);
        BP_TURN(float, g);
        BP_TURN(float, w);
        BP_TURN(float, x[0]);
        BP_TURN(float, x[1]);
        BP_TURN(float, x[2]);
    }
}

/* The first state, its elements too, moves behind the others. */
BP_DEVICE void turn_states(update_tensor *t, float x[3][4])
{
    unsigned char *state = t->state[0];
    t->state[0] = t->state[1];
    t->state[1] = t->state[2];
    t->state[2] = state;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float first = x[0][e];
        x[0][e] = x[1][e];
        x[1][e] = x[2][e];
        x[2][e] = first;
    }
}

#endif
