/* SPDX-License-Identifier: MIT */
/* The update rows of kernels.def, block by block: a block's weights, gradient and states come as
 * f32 into the first cache, the rule moves them, and they go back. What is f32 in memory is worked
 * on in place. Included once per form, after BP_UPDATE_ROW(name) says what a row's kernel is
 * called. */
#include "core/base/random.h"
#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"
#include "device/host/update/update_rules.h"
#include "device/host/update/update_store.h"

#define RUN_BLOCKS (BP_RUN_ELEMENTS / BP_CODEC_BLOCK)

#ifdef BP_UPDATE_CODEC
/* A state of a whole block; false: not a form that the file has vectors for. */
static bool decode_block(int64_t form, bool has_sign, const uint8_t *state, float *x)
{
    if (form == BP_CODEC_BLOCK8) {
        decode_block8(has_sign, state, x);
    } else if (form == BP_CODEC_COMPANDED8) {
        decode_companded(has_sign, state, x);
    } else {
        return false;
    }
    return true;
}

static bool encode_block(int64_t form, bool has_sign, const float *x, uint8_t *state)
{
    if (form == BP_CODEC_BLOCK8) {
        encode_block8(has_sign, x, state);
    } else if (form == BP_CODEC_COMPANDED8) {
        encode_companded(has_sign, x, state);
    } else {
        return false;
    }
    return true;
}
#else
/* A form without code of its own for states of whole blocks. */
static bool decode_block(int64_t form, bool has_sign, const uint8_t *state, float *x)
{
    (void)form, (void)has_sign, (void)state, (void)x;
    return false;
}

static bool encode_block(int64_t form, bool has_sign, const float *x, uint8_t *state)
{
    (void)form, (void)has_sign, (void)state, (void)x;
    return false;
}
#endif

#ifndef BP_UPDATE_VECTOR
/* A form without code of its own for updates of whole blocks. */
static bool updates_whole(uint32_t rule, const bp_update_factors *f, int64_t form)
{
    (void)rule, (void)f, (void)form;
    return false;
}

static void update_block_whole(const bp_update_factors *f, int64_t form, const float *g, float *w,
                               uint8_t *const state[2])
{
    (void)f, (void)form, (void)g, (void)w, (void)state;
}
#endif

/* One block in f32: pointers into memory where it is f32 there, else into the scratch. */
typedef struct update_block {
    float *w;
    float *state[BP_UPDATE_STATES];
    float weight_scratch[BP_CODEC_BLOCK];
    float gradient[BP_CODEC_BLOCK];
    float state_scratch[BP_UPDATE_STATES][BP_CODEC_BLOCK];
    uint16_t random[BP_CODEC_BLOCK];
} update_block;

static bp_update_view view_of(const bp_host_call *call)
{
    const bp_adamw_pointers *p = call->pointers; /* all update rows have the same */
    return (bp_update_view){.weight = p->weight,
                            .master = p->master,
                            .state = {p->state1, p->state2, p->state3},
                            .gradient = p->gradient,
                            .trust = p->trust,
                            .control = p->control,
                            .step = p->step,
                            .weight_type = (bp_dtype)call->dtypes[0],
                            .gradient_type = (bp_dtype)call->dtypes[5]};
}

/* A view that begins `element` (a multiple of 256) further on. */
static unsigned char *state_at(unsigned char *state, int64_t form, uint64_t element)
{
    return state == NULL ? NULL : state + bp_codec_bytes(element, form);
}

static void load_master(const bp_update_scalars *s, const bp_update_view *v, uint64_t at,
                        uint32_t count, update_block *b)
{
    unsigned char *weight = v->weight + bp_master_weight_bytes(v->weight_type, s->master_form, at);
    b->w = b->weight_scratch;
    switch (s->master_form) {
    case BP_MASTER_FP32:
        b->w = (float *)(void *)v->master + at;
        break;
    case BP_MASTER_SPLIT:
        load_split((uint16_t *)(void *)weight, (uint16_t *)(void *)v->master + at, count, b->w);
        break;
    case BP_MASTER_SPLIT8:
        load_split8((uint16_t *)(void *)weight, v->master + at, count, b->w);
        break;
    case BP_MASTER_FP8:
        load_fp8(weight, (uint16_t *)(void *)v->master + at, count, b->w);
        break;
    default:
        if (v->weight_type == BP_F32) {
            b->w = (float *)(void *)weight;
        } else {
            load_floats(v->weight_type, weight, count, b->w);
        }
        break;
    }
}

static void store_master(const bp_update_scalars *s, const bp_update_view *v, uint64_t at,
                         uint32_t count, update_block *b)
{
    unsigned char *weight = v->weight + bp_master_weight_bytes(v->weight_type, s->master_form, at);
    uint64_t block = ((uint64_t)s->first + at) / BP_CODEC_BLOCK;
    bool rounds = s->master_form == BP_MASTER_STOCHASTIC && v->weight_type == BP_BF16;
    if (s->master_form == BP_MASTER_SPLIT) {
        store_split(b->w, count, (uint16_t *)(void *)weight, (uint16_t *)(void *)v->master + at);
    } else if (s->master_form == BP_MASTER_SPLIT8) {
        store_split8(b->w, count, (uint16_t *)(void *)weight, v->master + at);
    } else if (s->master_form == BP_MASTER_FP8) {
        store_fp8(b->w, count, weight, (uint16_t *)(void *)v->master + at);
    } else if (rounds) {
        rounding_block(bp_rounding_key(v->step->seed), (uint32_t)v->step->step, (uint32_t)s->stream,
                       block, b->random);
        store_stochastic(b->w, b->random, count, (uint16_t *)(void *)weight);
    } else if (b->w != (float *)(void *)weight) {
        store_floats(v->weight_type, b->w, count, weight);
    }
}

static float *load_state(int64_t form, bool has_sign, unsigned char *state, uint32_t count,
                         float *scratch)
{
    if (form == BP_CODEC_F32 || state == NULL) {
        return (float *)(void *)state;
    }
    if (count == BP_CODEC_BLOCK && decode_block(form, has_sign, state, scratch)) {
        return scratch;
    }
    if (form == BP_CODEC_BLOCK8) {
        bp_codec_decode8(has_sign, state, count, scratch);
    } else if (form == BP_CODEC_COMPANDED8) {
        bp_codec_decode_companded(has_sign, state, count, scratch);
    } else {
        bp_codec_decode4(has_sign, state, count, scratch);
    }
    return scratch;
}

static void store_state(int64_t form, bool has_sign, const float *values, uint32_t count,
                        unsigned char *state)
{
    if (form == BP_CODEC_F32 || state == NULL) {
        return;
    }
    if (count == BP_CODEC_BLOCK && encode_block(form, has_sign, values, state)) {
        return;
    }
    if (form == BP_CODEC_BLOCK8) {
        bp_codec_encode8(has_sign, values, count, state);
    } else if (form == BP_CODEC_COMPANDED8) {
        bp_codec_encode_companded(has_sign, values, count, state);
    } else {
        bp_codec_encode4(has_sign, values, count, state);
    }
}

static void load_gradient(const bp_update_view *v, uint64_t at, uint32_t count, float clip,
                          float *to)
{
    size_t width = v->gradient_type == BP_F32 ? 4 : 2;
    load_floats(v->gradient_type, v->gradient + at * width, count, to);
    scale_floats(to, count, clip);
}

/* The clipped gradient: where it lies, if it is f32 and clipping changes nothing. */
static const float *gradient_of(const bp_update_view *v, uint64_t at, uint32_t count, float clip,
                                float *scratch)
{
    if (v->gradient_type == BP_F32 && clip == 1.0f) {
        return (const float *)(const void *)v->gradient + at;
    }
    load_gradient(v, at, count, clip, scratch);
    return scratch;
}

/* A block in one piece. */
static void update_whole(const bp_update_scalars *s, const bp_update_view *v,
                         const bp_update_factors *f, uint64_t at, update_block *b)
{
    unsigned char *const state[2] = {state_at(v->state[0], s->form, at),
                                     state_at(v->state[1], s->form, at)};
    const float *g = gradient_of(v, at, BP_CODEC_BLOCK, f->clip, b->gradient);
    load_master(s, v, at, BP_CODEC_BLOCK, b);
    update_block_whole(f, s->form, g, b->w, state);
    store_master(s, v, at, BP_CODEC_BLOCK, b);
}

static uint64_t scaled_width(const bp_update_scalars *s)
{
    return (uint64_t)((const bp_scaled_scalars *)(const void *)s)->width; /* and its norms' */
}

static void update_one(uint32_t rule, const bp_update_scalars *s, const bp_update_view *v,
                       const bp_update_factors *f, uint64_t at)
{
    update_block b;
    b.w = b.weight_scratch;
    uint32_t count = (uint32_t)bp_least((uint64_t)s->count - at, BP_CODEC_BLOCK);
    uint32_t signs = bp_update_signs(rule);
    if (count == BP_CODEC_BLOCK && updates_whole(rule, f, s->form)) {
        update_whole(s, v, f, at, &b);
        return;
    }
    const float *g = gradient_of(v, at, count, f->clip, b.gradient);
    bool moves = bp_update_moves(f);
    if (moves) {
        load_master(s, v, at, count, &b);
    }
    for (int i = 0; i < BP_UPDATE_STATES; i++) {
        b.state[i] = load_state(s->form, (signs >> i & 1) != 0, state_at(v->state[i], s->form, at),
                                count, b.state_scratch[i]);
    }
    if (rule == BP_UPDATE_scaled) {
        bp_update_fill_factors(v, scaled_width(s), at, count, b.state_scratch[1]);
        b.state[1] = b.state_scratch[1];
    }
    update_rules[rule](f, count, b.w, g, b.state);
    for (int i = 0; i < BP_UPDATE_STATES; i++) {
        store_state(s->form, (signs >> i & 1) != 0, b.state[i], count,
                    state_at(v->state[i], s->form, at));
    }
    if (moves) {
        store_master(s, v, at, count, &b);
    }
}

static uint64_t update_tasks(const void *scalars)
{
    const bp_update_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of blocks. */
static void update_run(uint32_t rule, const bp_host_call *call, uint64_t first, uint64_t last)
{
    const bp_update_scalars *s = call->scalars;
    bp_update_view v = view_of(call);
    if (v.control->skip != 0) {
        return;
    }
    if (rule == BP_UPDATE_scaled) {
        bp_update_take_factors(&v);
    }
    bp_update_factors f = bp_update_factors_of(rule, s, &v);
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t at = first * BP_RUN_ELEMENTS; at < end; at += BP_CODEC_BLOCK) {
        update_one(rule, s, &v, &f, at);
    }
}

/* Sums of squares in lanes, as in norm.c; what lies past `count` is made 0. */
static void add_squares(float x[BP_CODEC_BLOCK], uint32_t count, double lane[BP_LANES])
{
    for (uint32_t i = count; i < BP_CODEC_BLOCK; i++) {
        x[i] = 0.0f;
    }
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += BP_LANES) {
        for (uint32_t j = 0; j < BP_LANES; j++) {
            lane[j] += (double)x[i + j] * (double)x[i + j];
        }
    }
}

/* The update that lamb is going to make of this block, from copies. */
static void lamb_block(const bp_update_scalars *s, const bp_update_view *v,
                       const bp_update_factors *f, uint64_t at, uint32_t count, update_block *b,
                       float *u)
{
    static const bool has_sign[2] = {true, false};
    for (int i = 0; i < 2; i++) {
        float *state = load_state(s->form, has_sign[i], state_at(v->state[i], s->form, at), count,
                                  b->state_scratch[i]);
        if (state != b->state_scratch[i]) {
            memcpy(b->state_scratch[i], state, count * sizeof *state);
        }
    }
    lamb_directions(f, count, b->weight_scratch, b->gradient, b->state_scratch[0],
                    b->state_scratch[1], u);
}

static void norms_chunk(uint32_t rule, const bp_update_scalars *s, const bp_update_view *v,
                        const bp_update_factors *f, uint64_t from, uint64_t to, double *partials)
{
    double lane[2][BP_LANES] = {{0.0}};
    float u[BP_CODEC_BLOCK];
    update_block b;
    for (uint64_t at = from; at < to; at += BP_CODEC_BLOCK) {
        uint32_t count = (uint32_t)bp_least(to - at, BP_CODEC_BLOCK);
        load_gradient(v, at, count, f->clip, b.gradient);
        load_master(s, v, at, count, &b);
        if (b.w != b.weight_scratch) {
            memcpy(b.weight_scratch, b.w, count * sizeof *b.w);
        }
        if (rule == BP_UPDATE_lamb) {
            lamb_block(s, v, f, at, count, &b, u);
        } else if (rule == BP_UPDATE_scaled) {
            bp_update_fill_factors(v, scaled_width(s), at, count, b.state_scratch[1]);
            for (uint32_t i = 0; i < count; i++) {
                u[i] = b.gradient[i] * b.state_scratch[1][i];
            }
        } else {
            memcpy(u, b.gradient, count * sizeof *u);
        }
        add_squares(b.weight_scratch, count, lane[0]);
        add_squares(u, count, lane[1]);
    }
    partials[0] = bp_lanes_sum_double(lane[0]);
    partials[1] = bp_lanes_sum_double(lane[1]);
}

/* A task is a chunk. Both rows have the same operands. */
static void norms_run(uint32_t rule, const bp_host_call *call, uint64_t chunk, uint64_t first,
                      uint64_t last)
{
    const bp_update_scalars *s = call->scalars;
    const bp_lamb_norms_pointers *p = call->pointers;
    bp_update_view v = {.weight = (unsigned char *)(uintptr_t)p->weight,
                        .master = (unsigned char *)(uintptr_t)p->master,
                        .state = {(unsigned char *)(uintptr_t)p->state1,
                                  (unsigned char *)(uintptr_t)p->state2, NULL},
                        .gradient = p->gradient,
                        .control = p->control,
                        .step = p->step,
                        .weight_type = (bp_dtype)call->dtypes[1],
                        .gradient_type = (bp_dtype)call->dtypes[5]};
    if (rule == BP_UPDATE_scaled) { /* where lamb has its states */
        v.rows = p->state1;
        v.columns = p->state2;
        v.state[0] = v.state[1] = NULL;
    }
    bp_update_factors f = bp_update_factors_of(rule, s, &v);
    for (uint64_t task = first; task < last; task++) {
        uint64_t end = bp_least((uint64_t)s->count, (task + 1) * chunk);
        norms_chunk(rule, s, &v, &f, task * chunk, end, (double *)p->partials + 2 * task);
    }
}

static uint64_t lamb_norms_tasks(const void *scalars)
{
    const bp_lamb_norms_scalars *s = scalars;
    return bp_cut(s->count, (uint64_t)s->chunk);
}

static void lamb_norms_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_lamb_norms_scalars *s = call->scalars;
    norms_run(BP_UPDATE_lamb, call, (uint64_t)s->chunk, first, last);
}

static uint64_t scaled_norms_tasks(const void *scalars)
{
    const bp_scaled_norms_scalars *s = scalars;
    return bp_cut(s->count, (uint64_t)s->chunk);
}

static void scaled_norms_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_scaled_norms_scalars *s = call->scalars;
    norms_run(BP_UPDATE_scaled, call, (uint64_t)s->chunk, first, last);
}

static uint64_t direction_tasks(const void *scalars)
{
    const bp_direction_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void direction_block(const bp_direction_scalars *s, const bp_update_view *v, uint64_t at)
{
    update_block b;
    float x[BP_CODEC_BLOCK];
    const uint32_t count = (uint32_t)bp_least((uint64_t)s->count - at, BP_CODEC_BLOCK);
    unsigned char *to = v->weight + at * bp_dtype_bytes(v->weight_type);
    unsigned char *state = state_at(v->state[0], s->form, at);
    unsigned char *second = state_at(v->state[1], s->form, at);
    if (v->control->skip != 0) {
        memset(to, 0, count * bp_dtype_bytes(v->weight_type));
        return;
    }
    const float *g = gradient_of(v, at, count, v->control->clip, b.gradient);
    float *m = load_state(s->form, true, state, count, b.state_scratch[0]);
    float *w = load_state(s->form, false, second, count, b.state_scratch[1]);
    if (second != NULL) {
        const float numbers[4] = {(float)(1.0 - s->beta), (float)s->beta2, (float)(1.0 - s->beta2),
                                  (float)s->epsilon};
        loop_ratios(g, m, w, count, numbers, x);
    } else {
        loop_directions(g, m, count, (float)(1.0 - s->beta),
                        s->nesterov != 0 ? (float)s->beta : 0.0f, x);
    }
    store_state(s->form, false, w, count, second);
    store_state(s->form, true, m, count, state);
    store_floats(v->weight_type, x, count, to);
}

static void direction_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_direction_scalars *s = call->scalars;
    const bp_direction_pointers *p = call->pointers;
    const bp_update_view v = {.weight = p->x,
                              .state = {p->state1, p->state2},
                              .gradient = p->gradient,
                              .control = p->control,
                              .weight_type = (bp_dtype)call->dtypes[0],
                              .gradient_type = (bp_dtype)call->dtypes[3]};
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t at = first * BP_RUN_ELEMENTS; at < end; at += BP_CODEC_BLOCK) {
        direction_block(s, &v, at);
    }
}

static uint64_t lars_norms_tasks(const void *scalars)
{
    const bp_lars_norms_scalars *s = scalars;
    return bp_cut(s->count, (uint64_t)s->chunk);
}

static void lars_norms_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_lars_norms_scalars *s = call->scalars;
    norms_run(BP_UPDATE_lars, call, (uint64_t)s->chunk, first, last);
}

#define UPDATE_ROW(name, rule)                                                                     \
    static void name##_run(const bp_host_call *call, uint64_t first, uint64_t last,                \
                           uint32_t worker)                                                        \
    {                                                                                              \
        (void)worker;                                                                              \
        update_run(rule, call, first, last);                                                       \
    }                                                                                              \
    const bp_host_kernel BP_UPDATE_ROW(name) = {update_tasks, name##_run, NULL};

#define RULE(name, body) UPDATE_ROW(name, BP_UPDATE_##name)
#include "core/ops/rules.def"
UPDATE_ROW(scaled, BP_UPDATE_scaled)

const bp_host_kernel BP_UPDATE_ROW(lamb_norms) = {lamb_norms_tasks, lamb_norms_run, NULL};
const bp_host_kernel BP_UPDATE_ROW(direction) = {direction_tasks, direction_run, NULL};
const bp_host_kernel BP_UPDATE_ROW(scaled_norms) = {scaled_norms_tasks, scaled_norms_run, NULL};
const bp_host_kernel BP_UPDATE_ROW(lars_norms) = {lars_norms_tasks, lars_norms_run, NULL};
