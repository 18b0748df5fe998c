/* SPDX-License-Identifier: MIT */
/* List kernels over all tensors in one launch: partial sums of the gradient norm, update rules, and
 * the norms and ratios of trust.
 *
 * A record of the table (device/cuda/launch.h) says where a tensor's blocks end and, in bytes from
 * `base`, where its operands are; no pointer is ever read from memory. */
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/reduce.cuh"
#include "device/cuda/kernels/update.cuh"

#define RECORD_WORDS 28
#define OFFSETS      1  /* of the operands, in the order of the row */
#define TYPES        10 /* a bp_dtype per byte, of the first eight operands */
#define SCALARS      11 /* as the row has them */

/* The record that owns this block: the first whose blocks end beyond it. */
BP_DEVICE const uint64_t *my_record(const uint64_t *table, uint32_t tuples, uint64_t *first)
{
    uint32_t low = 0, high = tuples - 1;
#pragma unroll 1
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool beyond = table[(uint64_t)middle * RECORD_WORDS] > blockIdx.x;
        high = beyond ? middle : high;
        low = beyond ? low : middle + 1;
    }
    const uint64_t *record = table + (uint64_t)low * RECORD_WORDS;
    *first = low == 0 ? 0 : record[-RECORD_WORDS];
    return record;
}

/* The type of an operand, as a form of element.cuh. */
BP_DEVICE uint32_t type_of(const uint64_t *record, uint32_t operand)
{
    return (uint32_t)(record[TYPES] >> (8 * operand)) & 0xff;
}

BP_DEVICE unsigned char *operand_of(unsigned char *base, const uint64_t *record, uint32_t operand)
{
    uint64_t offset = record[OFFSETS + operand];
    return offset == ~0ull ? NULL : base + offset;
}

/* y = x + z, or x; behind count elements x is 0. An element for each thread. */
BP_KERNEL bp_tree_add(unsigned char *base, const uint64_t *table, uint32_t tuples)
{
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    const uint64_t count = record[SCALARS];
    const uint64_t i = (blockIdx.x - first) * BP_RUN_THREADS + threadIdx.x;
    const float *z = (const float *)operand_of(base, record, 2);
    if (i >= count + record[SCALARS + 1]) {
        return;
    }
    float sum = i < count ? bp_get(base + record[OFFSETS + 1], i, type_of(record, 1)) : 0.0f;
    if (z != NULL) {
        sum = __fadd_rn(sum, z[i]);
    }
    ((float *)(base + record[OFFSETS]))[i] = sum;
}

/* y = the tree over `pieces` rows of x: a stack of finished subtrees, as a binary counter has them.
 */
BP_KERNEL bp_tree_sum(float *y, const float *x, uint64_t count, uint32_t pieces)
{
    const uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    __shared__ float stack[11 * BP_RUN_THREADS];
    float sum = 0.0f;
#pragma unroll 1
    for (uint32_t piece = 0; piece < pieces; piece++, x += count) {
        sum = x[i];
        float *at = stack + threadIdx.x;
#pragma unroll 1
        for (uint32_t left = piece; (left & 1) != 0; left >>= 1, at += BP_RUN_THREADS) {
            sum = __fadd_rn(*at, sum);
        }
        *at = sum;
    }
    y[i] = sum;
}

/* A block is a chunk; squares in double are exact. */
BP_KERNEL bp_norm_partial(unsigned char *base, const uint64_t *table, uint32_t tuples)
{
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    uint64_t chunk = blockIdx.x - first, count = record[SCALARS], size = record[SCALARS + 1];
    double *partials = (double *)(base + record[OFFSETS]);
    const void *x = base + record[OFFSETS + 1];
    uint32_t form = type_of(record, 1);
    uint64_t end = bp_least(count, (chunk + 1) * size);
    double sum = 0.0;
    uint64_t i = chunk * size + threadIdx.x;
#pragma unroll 1
    for (; i + 3 * BP_RUN_THREADS < end; i += 4 * BP_RUN_THREADS) {
        float v[4];
        bp_load4_apart(x, i, BP_RUN_THREADS, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum += (double)v[e] * (double)v[e];
        }
    }
#pragma unroll 1
    for (; i < end; i += BP_RUN_THREADS) {
        double v = (double)bp_get(x, i, form);
        sum += v * v;
    }
    sum = bp_block_sum_double(sum);
    if (threadIdx.x == 0) {
        partials[chunk] = sum;
    }
}

/* The operands of a row of updates, or of norms (which have them one place further on). */
BP_DEVICE void read_record(update_tensor *t, unsigned char *base, const uint64_t *record,
                           uint32_t shift)
{
    uint64_t all = 0;
    t->weight.weight = operand_of(base, record, shift);
    t->weight.master = operand_of(base, record, shift + 1);
    for (uint32_t i = 0; i < 3; i++) {
        t->state[i] = i < 3 - shift ? operand_of(base, record, shift + 2 + i) : NULL;
    }
    t->gradient = base + record[OFFSETS + 5];
    for (uint32_t i = shift; i < 6; i++) {
        uint64_t offset = record[OFFSETS + i];
        all |= offset == ~0ull ? 0 : offset;
    }
    uint32_t wide = (all & 15) == 0 ? BP_WIDE : 0;
    t->weight.form = type_of(record, shift) | wide;
    t->weight.kind = (uint32_t)((const bp_update_scalars *)(record + SCALARS))->master_form;
    t->gradient_form = type_of(record, 5) | wide;
    t->wide = wide;
}

/* A row of scaled has factors where others have states, from number `from` on. */
BP_DEVICE void take_factors(update_tensor *t, uint32_t from)
{
    t->rows = (const float *)t->state[from];
    t->columns = (const float *)t->state[from + 1];
    t->state[from] = t->state[from + 1] = NULL;
}

/* A block is 1024 elements of one tensor: four blocks of 256 for the states, each of 64 threads. */
BP_KERNEL bp_update(unsigned char *base, const uint64_t *table, uint32_t tuples, uint32_t rule)
{
    __shared__ bp_update_factors factors;
    __shared__ update_shared shared;
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    const bp_control_block *control = (const bp_control_block *)(base + record[OFFSETS + 7]);
    if (control->skip != 0) {
        return;
    }
    const bp_update_scalars *s = (const bp_update_scalars *)(record + SCALARS);
    const bp_step_block *step = (const bp_step_block *)(base + record[OFFSETS + 8]);
    const float *trust = (const float *)operand_of(base, record, 6);
    if (threadIdx.x == 0) {
        bp_update_prepare(&factors, rule, s, control, step, trust != NULL ? *trust : 1.0f,
                          rule == BP_UPDATE_ademamix                  ? ademamix_beta3(s, control)
                          : rule == BP_UPDATE_scaled && trust != NULL ? (double)trust[1]
                                                                      : 1.0);
    }
    make_books(&shared, (uint32_t)s->form);
    __syncthreads();
    update_tensor t;
    read_record(&t, base, record, 0);
    if (rule == BP_UPDATE_scaled) {
        take_factors(&t, 1);
    }
    uint64_t i = (blockIdx.x - first) * (BP_RUN_THREADS * 4) + threadIdx.x * 4;
    uint64_t left = i < (uint64_t)s->count ? (uint64_t)s->count - i : 0;
    float w[4], g[4], x[3][4] = {{0.0f}};
    load_gradient(&t, i, left, factors.clip, g);
    bp_load_weight4(&t.weight, i, left, w);
    uint32_t signs = bp_update_signs(rule);
    /* states take turns, so that the code is there once */
#pragma unroll 1
    for (uint32_t k = 0; k < 3; k++) {
        load_state(&shared, (uint32_t)s->form, (signs >> k & 1) != 0, t.state[0], i, left, t.wide,
                   x[0]);
        turn_states(&t, x);
    }
    if (rule == BP_UPDATE_scaled) {
        load_factors(&t, record[SCALARS + 9], i, left, x[1]);
    }
    apply_rule(&factors, rule, &t, g, w, x);
    __syncthreads(); /* scales have been read by all before one thread writes them */
#pragma unroll 1
    for (uint32_t k = 0; k < 3; k++) {
        store_state(&shared, &t, (uint32_t)s->form, (signs >> k & 1) != 0, i, (uint64_t)s->count, k,
                    x[0]);
        turn_states(&t, x);
    }
    if (bp_update_moves(&factors)) {
        store_weights(&t, s, step, i, left, w);
    }
}

BP_DEVICE void apply_factors(const update_tensor *t, uint64_t width, uint64_t i, uint64_t left,
                             float g[4])
{
    float x[4];
    load_factors(t, width, i, left, x);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        g[e] *= x[e];
    }
}

/* Of the rules with norms lamb's are of its update, the others' of the clipped gradient. */
BP_DEVICE void norms_factors(bp_update_factors *f, uint32_t rule, const bp_update_scalars *s,
                             const bp_control_block *control, const bp_step_block *step)
{
    f->clip = control->clip;
    if (rule == BP_UPDATE_lamb) {
        bp_update_prepare(f, BP_UPDATE_lamb, s, control, step, 1.0f, 0.0);
    } else if (rule == BP_UPDATE_scaled && bp_update_own_integer(s, 3) != 0) {
        f->clip = 1.0f;
    }
}

/* A block is a chunk of one tensor. */
BP_KERNEL bp_update_norms(unsigned char *base, const uint64_t *table, uint32_t tuples,
                          uint32_t rule)
{
    __shared__ bp_update_factors factors;
    __shared__ update_shared shared;
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    const bp_update_scalars *s = (const bp_update_scalars *)(record + SCALARS);
    if (threadIdx.x == 0) {
        norms_factors(&factors, rule, s, (const bp_control_block *)(base + record[OFFSETS + 6]),
                      (const bp_step_block *)(base + record[OFFSETS + 7]));
    }
    make_books(&shared, (uint32_t)s->form);
    __syncthreads();
    update_tensor t;
    read_record(&t, base, record, 1);
    if (rule == BP_UPDATE_scaled) {
        take_factors(&t, 0);
    }
    uint64_t size = record[SCALARS + 7 +
                           (rule == BP_UPDATE_lamb     ? 3
                            : rule == BP_UPDATE_scaled ? 4
                                                       : 0)];
    uint64_t chunk = blockIdx.x - first, end = bp_least((uint64_t)s->count, (chunk + 1) * size);
    double weights = 0.0, updates = 0.0;
#pragma unroll 1
    for (uint64_t i = chunk * size + threadIdx.x * 4; i < end; i += BP_RUN_THREADS * 4) {
        float w[4], g[4], x[2][4];
        load_gradient(&t, i, end - i, factors.clip, g);
        bp_load_weight4(&t.weight, i, end - i, w);
        if (rule == BP_UPDATE_lamb) {
            load_state(&shared, (uint32_t)s->form, true, t.state[0], i, end - i, t.wide, x[0]);
            load_state(&shared, (uint32_t)s->form, false, t.state[1], i, end - i, t.wide, x[1]);
#pragma unroll 1
            for (int e = 0; e < 4; e++) {
                g[0] = bp_update_lamb_direction(&factors, g[0], w[0], &x[0][0], &x[1][0]);
                BP_TURN(float, g);
                BP_TURN(float, w);
                BP_TURN(float, x[0]);
                BP_TURN(float, x[1]);
            }
        }
        if (rule == BP_UPDATE_scaled) {
            apply_factors(&t, record[SCALARS + 9], i, end - i, g);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool there = i + e < end;
            weights += there ? (double)w[e] * (double)w[e] : 0.0;
            updates += there ? (double)g[e] * (double)g[e] : 0.0;
        }
    }
    weights = bp_block_sum_double(weights);
    __syncthreads();
    updates = bp_block_sum_double(updates);
    if (threadIdx.x == 0) {
        double *partials = (double *)(base + record[OFFSETS]);
        partials[2 * chunk] = weights;
        partials[2 * chunk + 1] = updates;
    }
}

/* Bits of the largest magnitude in a group of 32 elements, which 8 threads hold. */
BP_DEVICE uint32_t largest_bits(const float x[4])
{
    uint32_t most = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        most = max(most, bp_float_bits(x[e]) & 0x7fffffffu);
    }
#pragma unroll 1
    for (int distance = 4; distance > 0; distance /= 2) {
        most = max(most, __shfl_xor_sync(BP_ALL_LANES, most, distance));
    }
    return most;
}

/* A block is 1024 elements of sums in 8 bits, and of what is added to them or (expand = 1) is made
 * of them. */
BP_KERNEL bp_sums(unsigned char *base, const uint64_t *table, uint32_t tuples, uint32_t expand)
{
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    uint64_t count = record[SCALARS], i = (blockIdx.x - first) * 1024 + threadIdx.x * 4;
    uint64_t left = i < count ? count - i : 0;
    uint32_t at = (uint32_t)i % 256, code[4];
    if (i - at >= count) {
        return; /* no warp has threads on both sides */
    }
    unsigned char *x = base + record[OFFSETS + 1 - expand];
    unsigned char *block = base + record[OFFSETS + expand] + i / 256 * 272;
    bool wide = ((record[OFFSETS] | record[OFFSETS + 1]) & 15) == 0;
    uint32_t form = type_of(record, 1 - expand) | (wide ? BP_WIDE : 0);
    float v[4] = {0.0f, 0.0f, 0.0f, 0.0f}, g[4];
    if (expand != 0 || record[SCALARS + 3] != 0) {
        float scale = half_at(block + at / 32 * 2);
        bp_load_bits4(block + 16, at, left, 1, wide, code);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] = e < left ? bp_codec_expand_signed((uint8_t)code[e], scale) : 0.0f;
        }
    }
    if (expand != 0) {
        bp_store4(x, i, left, form, v);
        return;
    }
    bp_load4(x, i, left, form, g);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] += g[e];
    }
    uint32_t most = largest_bits(v), random[4];
    uint32_t half = bp_codec_round_up(bp_float_from_bits(most));
    float inverse = bp_codec_inverse(bp_float_from_bits(half << 16));
    half = inverse != 0.0f ? half : 0;
    if (most >= 0x7f800000u) { /* not finite */
        half = 0x7fc0;
        inverse = 0.0f;
    }
    const bp_step_block *step = (const bp_step_block *)(base + record[OFFSETS + 2]);
    rounding_bits(step->seed ^ 0x677261646965ull ^ (uint64_t)step->sample << 32, step->step,
                  record[SCALARS + 2], record[SCALARS + 1] + i, random);
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
        code[0] = inverse != 0.0f ? bp_codec_compand_random(v[0], inverse, random[0]) : 0;
        BP_TURN(float, v);
        BP_TURN(uint32_t, random);
        BP_TURN(uint32_t, code);
    }
    __syncwarp(); /* a scale has been read by all before one thread writes it */
    if (at % 32 == 0) {
        *(uint16_t *)(block + at / 32 * 2) = (uint16_t)half;
    }
    bp_store_bits4(block + 16, at, left, 1, wide, code);
}

/* A block is one tensor: the partial sums come to shared memory together and are added in order. */
BP_KERNEL bp_trust_ratio(unsigned char *base, const uint64_t *table, uint32_t tuples)
{
    __shared__ double part[BP_RUN_THREADS];
    if (tuples == 0) {
        return;
    }
    const uint64_t *record = table + (uint64_t)blockIdx.x * RECORD_WORDS;
    const double *partials = (const double *)(base + record[OFFSETS + 1]);
    uint64_t count = 2 * record[SCALARS];
    double sum = 0.0; /* of thread 0 the weights', of thread 1 the updates' */
    for (uint64_t from = 0; from < count; from += BP_RUN_THREADS) {
        uint64_t size = bp_least(BP_RUN_THREADS, count - from);
        __syncthreads();
        if (threadIdx.x < size) {
            part[threadIdx.x] = partials[from + threadIdx.x];
        }
        __syncthreads();
        for (uint64_t i = threadIdx.x; threadIdx.x < 2 && i < size; i += 2) {
            sum += part[i];
        }
    }
    __syncthreads();
    part[threadIdx.x] = sqrt(sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        double weight = part[0], update = part[1];
        double coefficient = __longlong_as_double((long long)record[SCALARS + 1]);
        double decay = __longlong_as_double((long long)record[SCALARS + 2]);
        bool both = weight > 0.0 && update > 0.0;
        *(float *)(base + record[OFFSETS]) =
            both ? (float)(coefficient * weight / (update + decay * weight)) : 1.0f;
    }
}

#include "device/cuda/kernels/matrix.cuh"
