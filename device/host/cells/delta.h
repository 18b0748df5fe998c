/* SPDX-License-Identifier: MIT */
/* The gated delta rule, written once and compiled for every form (see plain_rows.h). Included once
 * per form, which defines BP_PLAIN(name). Rows of a state are filled up to blocks of 16 with zeros,
 * so loops have no ends of their own. Products are not fused: without such instructions they would
 * be calls. */
#include <math.h>

#include "core/base/math_inline.h"
#include "core/ir/step.h"
#include "device/host/cells/delta_gates.h"
#include "device/host/elements/plain.h"

#define DELTA_EPSILON 1e-6f /* of the lengths of queries and keys */

/* Sizes, and where a head's parts lie in a row. All three rows have these scalars. */
typedef struct delta_heads {
    uint64_t sequence;
    uint64_t key_heads;
    uint64_t value_heads;
    uint64_t key;   /* width, */
    uint64_t keys;  /* up to a block of 16 */
    uint64_t value; /* the same of values */
    uint64_t values;
    uint64_t row; /* elements of a row of qkv */
    float scale;  /* of queries */
    const int32_t *starts;
} delta_heads;

static inline uint64_t delta_blocks(int64_t width)
{
    return bp_cut(width, BP_LANES) * BP_LANES;
}

static delta_heads delta_heads_of(const bp_delta_forward_scalars *s, const void *starts)
{
    return (delta_heads){
        .sequence = (uint64_t)s->sequence,
        .key_heads = (uint64_t)s->key_heads,
        .value_heads = (uint64_t)s->value_heads,
        .key = (uint64_t)s->key_width,
        .keys = delta_blocks(s->key_width),
        .value = (uint64_t)s->value_width,
        .values = delta_blocks(s->value_width),
        .row = (uint64_t)(2 * s->key_heads * s->key_width + s->value_heads * s->value_width),
        .scale = 1.0f / sqrtf((float)s->key_width),
        .starts = starts};
}

/* What one place of one value head has, at the beginning of a worker's part. */
typedef struct delta_place {
    float *q;       /* (keys), normalised and scaled */
    float *k;       /* (keys), normalised */
    float *v;       /* (values) */
    float *u;       /* (values) */
    float *o;       /* (values) */
    float q_length; /* 1 / sqrt(q^2 + epsilon) */
    float k_length;
    float beta;
    float decay;
} delta_place;

static uint64_t delta_place_floats(const delta_heads *h)
{
    return 2 * h->keys + 3 * h->values;
}

static delta_place delta_place_at(const delta_heads *h, float *work)
{
    return (delta_place){.q = work,
                         .k = work + h->keys,
                         .v = work + 2 * h->keys,
                         .u = work + 2 * h->keys + h->values,
                         .o = work + 2 * h->keys + 2 * h->values};
}

/* The first `width` numbers at x, then zeros up to a block. */
static void delta_load(float *to, const bp_element *x, uint64_t width)
{
    for (uint64_t i = 0; i < width; i += BP_LANES) {
        const bp_plain_block b = bp_plain_load(x + i, bp_least(width - i, BP_LANES));
        memcpy(to + i, b.lane, sizeof b.lane);
    }
}

static void delta_store(bp_element *to, const float *x, uint64_t width)
{
    for (uint64_t i = 0; i < width; i += BP_LANES) {
        bp_plain_block b;
        memcpy(b.lane, x + i, sizeof b.lane);
        bp_plain_store(to + i, bp_least(width - i, BP_LANES), &b);
    }
}

/* <a, b> in 16 lanes; count is a whole number of blocks. */
static inline float delta_dot(const float *a, const float *b, uint64_t count)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        for (int l = 0; l < BP_LANES; l++) {
            lane[l] += a[i + (uint64_t)l] * b[i + (uint64_t)l];
        }
    }
    return bp_lanes_sum(lane);
}

static inline void delta_times(float *x, float factor, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        for (int l = 0; l < BP_LANES; l++) {
            x[i + (uint64_t)l] *= factor;
        }
    }
}

/* y += factor * x. */
static inline void delta_add(float *y, float factor, const float *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        for (int l = 0; l < BP_LANES; l++) {
            y[i + (uint64_t)l] += factor * x[i + (uint64_t)l];
        }
    }
}

/* The operands that all three rows have. */
typedef struct delta_inputs {
    const bp_element *qkv;
    const bp_element *gates;
    const bp_element *a_log;
    const bp_element *dt_bias;
} delta_inputs;

/* A row of a value head. */
static void delta_read(const delta_heads *h, const delta_inputs *in, uint64_t row, uint64_t head,
                       delta_place *p)
{
    const uint64_t of = head / (h->value_heads / h->key_heads);
    const bp_element *x = in->qkv + row * h->row;
    delta_load(p->q, x + of * h->key, h->key);
    delta_load(p->k, x + (h->key_heads + of) * h->key, h->key);
    delta_load(p->v, x + 2 * h->key_heads * h->key + head * h->value, h->value);
    p->q_length = 1.0f / sqrtf(delta_dot(p->q, p->q, h->keys) + DELTA_EPSILON);
    p->k_length = 1.0f / sqrtf(delta_dot(p->k, p->k, h->keys) + DELTA_EPSILON);
    delta_times(p->q, p->q_length * h->scale, h->keys);
    delta_times(p->k, p->k_length, h->keys);
    const uint64_t gate = row * 2 * h->value_heads + head;
    p->beta = delta_beta(bp_get(in->gates, gate));
    p->decay = bp_expf_inline(delta_step(bp_get(in->gates, gate + h->value_heads),
                                         bp_get(in->a_log, head), bp_get(in->dt_bias, head)));
}

/* state (key, values) goes on by a place: v becomes v - S'^T k, u is there, and o = S^T q. */
static void delta_go_on(const delta_heads *h, delta_place *p, float *state)
{
    const uint64_t n = h->values;
    memset(p->u, 0, n * sizeof *p->u);
    memset(p->o, 0, n * sizeof *p->o);
    for (uint64_t i = 0; i < h->key; i++) {
        delta_times(state + i * n, p->decay, n);
        delta_add(p->u, p->k[i], state + i * n, n);
    }
    for (uint64_t j = 0; j < n; j++) {
        p->v[j] = p->v[j] - p->u[j];
        p->u[j] = p->beta * p->v[j];
    }
    for (uint64_t i = 0; i < h->key; i++) {
        delta_add(state + i * n, p->k[i], p->u, n);
        delta_add(p->o, p->q[i], state + i * n, n);
    }
}

/* Where the run that begins at place t of the sample whose first row is `base` ends. */
static uint64_t delta_run_end(const delta_heads *h, uint64_t base, uint64_t t)
{
    uint64_t end = t + 1;
    while (end < h->sequence &&
           (h->starts == NULL || h->starts[base + end] == h->starts[base + t])) {
        end++;
    }
    return end;
}

static float *delta_part(void *work, uint64_t (*each)(const void *, const uint8_t *),
                         const bp_host_call *call, uint32_t worker)
{
    const uint64_t bytes = (each(call->scalars, call->dtypes) + 63) / 64 * 64;
    return (float *)(void *)((unsigned char *)work + worker * bytes);
}

static uint64_t delta_forward_tasks(const void *scalars)
{
    const bp_delta_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->value_heads;
}

static uint64_t delta_forward_bytes(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const delta_heads h = delta_heads_of(scalars, NULL);
    return bp_size_mul(bp_size_add(delta_place_floats(&h), bp_size_mul(h.key, h.values)),
                       sizeof(float));
}

/* A task is a value head of a sample. */
static void delta_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    const bp_delta_forward_pointers *p = call->pointers;
    const delta_heads h = delta_heads_of(call->scalars, p->starts);
    const delta_inputs in = {p->qkv, p->gates, p->a_log, p->dt_bias};
    float *work = delta_part(p->work, delta_forward_bytes, call, worker);
    delta_place place = delta_place_at(&h, work);
    float *state = work + delta_place_floats(&h);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t base = task / h.value_heads * h.sequence, head = task % h.value_heads;
        uint64_t end = 0;
        for (uint64_t t = 0; t < h.sequence; t++) {
            if (t == end) {
                end = delta_run_end(&h, base, t);
                memset(state, 0, h.key * h.values * sizeof *state);
            }
            delta_read(&h, &in, base + t, head, &place);
            delta_go_on(&h, &place, state);
            delta_store((bp_element *)p->y + ((base + t) * h.value_heads + head) * h.value, place.o,
                        h.value);
        }
    }
}

/* Backward has a state every so many places, and those of so many places in turn: the least power
 * of 2 whose square covers the sequence, which holds about the fewest. */
static uint64_t delta_every(const delta_heads *h)
{
    uint64_t every = 1;
    while (every * every < h->sequence) {
        every *= 2;
    }
    return every;
}

/* A worker's part of backward. */
typedef struct delta_work {
    delta_place place;
    float *d;       /* (key, values), the gradient of the state */
    float *kept;    /* (sequence / every, key, values): the state before every so many places */
    float *states;  /* (every + 1, key, values): before each of them, and behind the last */
    float *rests;   /* (every, values): v - S'^T k */
    float *d_y;     /* (values) */
    float *d_u;     /* (values) */
    float *d_query; /* (sequence, keys), of the normalised ones, over the key head's value heads */
    float *d_key;
} delta_work;

static uint64_t delta_backward_bytes(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const delta_heads h = delta_heads_of(scalars, NULL);
    const uint64_t every = delta_every(&h), kept = bp_cut((int64_t)h.sequence, every);
    const uint64_t states = bp_size_mul(kept + every + 2, bp_size_mul(h.key, h.values));
    const uint64_t rows = bp_size_add(bp_size_mul(every + 2, h.values),
                                      bp_size_mul(2, bp_size_mul(h.sequence, h.keys)));
    return bp_size_mul(bp_size_add(delta_place_floats(&h), bp_size_add(states, rows)),
                       sizeof(float));
}

static delta_work delta_work_at(const delta_heads *h, float *at)
{
    const uint64_t every = delta_every(h), kept = bp_cut((int64_t)h->sequence, every);
    const uint64_t state = h->key * h->values;
    delta_work w = {.place = delta_place_at(h, at)};
    w.d = at + delta_place_floats(h);
    w.kept = w.d + state;
    w.states = w.kept + kept * state;
    w.rests = w.states + (every + 1) * state;
    w.d_y = w.rests + every * h->values;
    w.d_u = w.d_y + h->values;
    w.d_query = w.d_u + h->values;
    w.d_key = w.d_query + h->sequence * h->keys;
    return w;
}

/* The gradient goes back over a place, whose state before it and behind it are there. Adds to the
 * gradients of the normalised query and key; d_u becomes that of v. Gives those of beta and of the
 * decay's logarithm. */
static void delta_go_back(const delta_heads *h, const delta_work *w, const float *before,
                          const float *rest, float *d_query, float *d_key, float d_step[2])
{
    const delta_place *p = &w->place;
    const uint64_t n = h->values;
    memset(w->d_u, 0, n * sizeof *w->d_u);
    const float *behind = before + h->key * n;
    for (uint64_t i = 0; i < h->key; i++) {
        float *d = w->d + i * n;
        delta_add(d, p->q[i], w->d_y, n);
        delta_add(w->d_u, p->k[i], d, n);
        d_query[i] += delta_dot(behind + i * n, w->d_y, n);
        d_key[i] += delta_dot(d, p->u, n);
    }
    d_step[0] = delta_dot(w->d_u, rest, n);
    delta_times(w->d_u, p->beta, n);
    float sum = 0.0f;
    for (uint64_t i = 0; i < h->key; i++) {
        float *d = w->d + i * n, *decayed = p->o;
        memcpy(decayed, before + i * n, n * sizeof *decayed);
        delta_times(decayed, p->decay, n);
        d_key[i] -= delta_dot(decayed, w->d_u, n);
        delta_add(d, -p->k[i], w->d_u, n);
        sum += delta_dot(d, decayed, n);
        delta_times(d, p->decay, n);
    }
    d_step[1] = sum;
}

/* Of one piece of a run, whose first state is the one in `states`. */
static void delta_piece(const delta_heads *h, const delta_inputs *in, delta_work *w, uint64_t base,
                        uint64_t first, uint64_t end, uint64_t head)
{
    const uint64_t state = h->key * h->values;
    for (uint64_t t = first; t < end; t++) {
        float *next = w->states + (t - first + 1) * state;
        memcpy(next, next - state, state * sizeof *next);
        delta_read(h, in, base + t, head, &w->place);
        delta_go_on(h, &w->place, next);
        memcpy(w->rests + (t - first) * h->values, w->place.v, h->values * sizeof *w->rests);
    }
}

/* The states before every so many places of a run. */
static void delta_keep(const delta_heads *h, const delta_inputs *in, const delta_work *w,
                       uint64_t base, const uint64_t run[2], uint64_t head)
{
    const uint64_t state = h->key * h->values, every = delta_every(h);
    delta_place place = w->place;
    memset(w->kept, 0, state * sizeof *w->kept);
    float *now = w->states; /* any place that is free */
    memset(now, 0, state * sizeof *now);
    for (uint64_t t = run[0]; t + 1 < run[1]; t++) {
        delta_read(h, in, base + t, head, &place);
        delta_go_on(h, &place, now);
        if ((t + 1 - run[0]) % every == 0) {
            memcpy(w->kept + (t + 1 - run[0]) / every * state, now, state * sizeof *now);
        }
    }
}

/* A run of a value head, last place first. */
static void delta_back_run(const delta_heads *h, const delta_inputs *in, delta_work *w,
                           const bp_delta_backward_pointers *p, uint64_t base,
                           const uint64_t run[2], uint64_t head)
{
    const uint64_t state = h->key * h->values, every = delta_every(h), n = h->values;
    delta_keep(h, in, w, base, run, head);
    memset(w->d, 0, state * sizeof *w->d);
    for (uint64_t piece = (run[1] - run[0] - 1) / every + 1; piece-- > 0;) {
        const uint64_t first = run[0] + piece * every, end = bp_least(run[1], first + every);
        memcpy(w->states, w->kept + piece * state, state * sizeof *w->states);
        delta_piece(h, in, w, base, first, end, head);
        for (uint64_t t = end; t-- > first;) {
            const uint64_t row = base + t, out = row * h->value_heads + head;
            const float *rest = w->rests + (t - first) * n;
            float d_step[2];
            delta_read(h, in, row, head, &w->place);
            memcpy(w->place.u, rest, n * sizeof *rest);
            delta_times(w->place.u, w->place.beta, n);
            delta_load(w->d_y, (const bp_element *)p->d_y + out * h->value, h->value);
            delta_go_back(h, w, w->states + (t - first) * state, rest, w->d_query + t * h->keys,
                          w->d_key + t * h->keys, d_step);
            delta_store((bp_element *)p->d_qkv + row * h->row + 2 * h->key_heads * h->key +
                            head * h->value,
                        w->d_u, h->value);
            ((float *)p->d_steps)[row * 2 * h->value_heads + head] = d_step[0];
            ((float *)p->d_steps)[(row * 2 + 1) * h->value_heads + head] = d_step[1];
        }
    }
}

/* From the gradient of x / sqrt(x^2 + epsilon), y, that of x, in its place. */
static void delta_length_back(float *d, const float *y, float length, uint64_t count)
{
    const float along = delta_dot(d, y, count);
    for (uint64_t i = 0; i < count; i++) {
        d[i] = length * (d[i] - y[i] * along);
    }
}

/* The gradients of a key head's queries and keys. */
static void delta_finish(const delta_heads *h, const delta_inputs *in, delta_work *w,
                         const bp_delta_backward_pointers *p, uint64_t base, uint64_t of)
{
    const uint64_t head = of * (h->value_heads / h->key_heads);
    for (uint64_t t = 0; t < h->sequence; t++) {
        float *d_query = w->d_query + t * h->keys, *d_key = w->d_key + t * h->keys;
        bp_element *to = (bp_element *)p->d_qkv + (base + t) * h->row;
        delta_read(h, in, base + t, head, &w->place);
        delta_times(d_query, h->scale, h->keys);
        delta_times(w->place.q, 1.0f / h->scale, h->keys);
        delta_length_back(d_query, w->place.q, w->place.q_length, h->keys);
        delta_length_back(d_key, w->place.k, w->place.k_length, h->keys);
        delta_store(to + of * h->key, d_query, h->key);
        delta_store(to + (h->key_heads + of) * h->key, d_key, h->key);
    }
}

static uint64_t delta_backward_tasks(const void *scalars)
{
    const bp_delta_backward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->key_heads;
}

/* A task is a key head of a sample. */
static void delta_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    const bp_delta_backward_pointers *p = call->pointers;
    const delta_heads h = delta_heads_of(call->scalars, p->starts);
    const delta_inputs in = {p->qkv, p->gates, p->a_log, p->dt_bias};
    const uint64_t each = h.value_heads / h.key_heads;
    delta_work w = delta_work_at(&h, delta_part(p->work, delta_backward_bytes, call, worker));
    for (uint64_t task = first; task < last; task++) {
        const uint64_t base = task / h.key_heads * h.sequence, of = task % h.key_heads;
        memset(w.d_query, 0, 2 * h.sequence * h.keys * sizeof *w.d_query);
        for (uint64_t head = of * each; head < (of + 1) * each; head++) {
            uint64_t run[2] = {0, 0};
            for (; run[1] < h.sequence; run[0] = run[1]) {
                run[1] = delta_run_end(&h, base, run[0]);
                delta_back_run(&h, &in, &w, p, base, run, head);
            }
        }
        delta_finish(&h, &in, &w, p, base, of);
    }
}

/* Generation. */

static uint64_t delta_decode_tasks(const void *scalars)
{
    const bp_delta_decode_scalars *s = scalars;
    return (uint64_t)s->value_heads;
}

static delta_heads delta_decode_heads(const bp_delta_decode_scalars *s)
{
    const bp_delta_forward_scalars of = {
        1, s->rows, s->key_heads, s->value_heads, s->key_width, s->value_width};
    return delta_heads_of(&of, NULL);
}

static uint64_t delta_decode_bytes(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const delta_heads h = delta_decode_heads(scalars);
    return bp_size_mul(bp_size_add(delta_place_floats(&h), bp_size_mul(h.key, h.values)),
                       sizeof(float));
}

/* A sequence's state of a head between its buffer, without ends of rows, and the work. */
static void delta_state_load(const delta_heads *h, float *state, const float *from, bool begins)
{
    memset(state, 0, h->key * h->values * sizeof *state);
    for (uint64_t i = 0; !begins && i < h->key; i++) {
        memcpy(state + i * h->values, from + i * h->value, h->value * sizeof *state);
    }
}

static void delta_state_store(const delta_heads *h, const float *state, float *to)
{
    for (uint64_t i = 0; i < h->key; i++) {
        memcpy(to + i * h->value, state + i * h->values, h->value * sizeof *state);
    }
}

/* A head's rows. */
static void delta_decode_head(const bp_host_call *call, const delta_heads *h, float *work,
                              uint64_t head)
{
    const bp_delta_decode_scalars *s = call->scalars;
    const bp_delta_decode_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    const delta_inputs in = {p->qkv, p->gates, p->a_log, p->dt_bias};
    const bool apart = s->apart != 0;
    const uint64_t rows = (uint64_t)s->rows, size = h->key * h->value;
    const uint64_t there = apart ? rows : bp_least(rows, (uint64_t)step->last_row + 1);
    delta_place place = delta_place_at(h, work);
    float *state = work + delta_place_floats(h), *first = (float *)p->state + head * size;
    for (uint64_t row = 0; row < rows; row++) {
        float *own = first + (apart ? row : 0) * h->value_heads * size;
        if (row == 0 || apart) {
            delta_state_load(h, state, own, step->position == 0);
        }
        memset(place.o, 0, h->values * sizeof *place.o);
        if (row < there) {
            delta_read(h, &in, row, head, &place);
            delta_go_on(h, &place, state);
        }
        delta_store((bp_element *)p->y + (row * h->value_heads + head) * h->value, place.o,
                    h->value);
        if (apart) {
            delta_state_store(h, state, own);
        }
    }
    for (uint64_t i = 0; !apart && i <= (uint64_t)s->others; i++) {
        delta_state_store(h, state, first + i * h->value_heads * size);
    }
}

/* A task is a value head. */
static void delta_decode_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    const bp_delta_decode_pointers *p = call->pointers;
    const delta_heads h = delta_decode_heads(call->scalars);
    float *work = delta_part(p->work, delta_decode_bytes, call, worker);
    for (uint64_t head = first; head < last; head++) {
        delta_decode_head(call, &h, work, head);
    }
}

const bp_host_kernel BP_PLAIN(delta_forward) = {delta_forward_tasks, delta_forward_run,
                                                delta_forward_bytes};
const bp_host_kernel BP_PLAIN(delta_backward) = {delta_backward_tasks, delta_backward_run,
                                                 delta_backward_bytes};
const bp_host_kernel BP_PLAIN(delta_decode) = {delta_decode_tasks, delta_decode_run,
                                               delta_decode_bytes};
