/* SPDX-License-Identifier: MIT */
/* Backward of attention in vectors: the second half of attention_vector.h. A strip of queries
 * passes in blocks of 32 over one block of keys after the other, which is converted and transposed
 * once for it. Sums over keys go on from block to block; those over queries lie whole. */

/* A head's gradients, laid out like its rows, and what they need. */
typedef struct head_gradient {
    float *d_q; /* from the strip's first query on, as d_out and out */
    float *d_k;
    float *d_v;
    int64_t pitch;      /* of d_q */
    int64_t key_pitch;  /* of d_k and d_v */
    bool first;         /* of the group: d_k and d_v begin at 0 */
    const float *d_out; /* row t at t * out_pitch, as of out */
    const float *out;
    int64_t out_pitch;
    const float *lse;
    float *gradient; /* of the scores (QUERIES, keys; score_pitch) */
    float *v_panels;
    float *transposed; /* (keys, QUERIES) */
    float *delta;      /* of the strip's queries */
    float *d_bias;     /* by distance; NULL: nobody wants them */
} head_gradient;

/* delta_r = d_out_r . out_r, fused, in order, for `rows` <= 8 rows side by side. */
static void row_deltas(const head *at, const head_gradient *to, int64_t row, int64_t rows)
{
    const float *x[8], *y[8];
    float delta[8];
    for (int64_t r = 0; r < 8; r++) {
        int64_t place = (r < rows ? row + r : row) * to->out_pitch;
        x[r] = to->d_out + place;
        y[r] = to->out + place;
        delta[r] = 0.0f;
    }
    for (int64_t d = 0; d < at->width; d++) {
        for (int r = 0; r < 8; r++) {
            delta[r] = fmaf(x[r][d], y[r][d], delta[r]);
        }
    }
    for (int64_t r = 0; r < rows && r < 8; r++) {
        to->delta[row + r] = delta[r];
    }
}

/* What one row's scores and their gradients are made with. */
typedef struct score_row {
    float *score;
    float *gradient;
    const float *factor; /* masks; NULL: nothing is dropped */
    const float *slope;  /* of scores under a cap, which are scaled already; NULL: there is none */
    const float *bias;   /* of their distances; NULL: there is none */
    float *d_bias;       /* of the same; NULL: nobody wants it */
    bp_v scale;
    bp_v by; /* what the scores' gradients are scaled by */
    bp_v lse;
    bp_v delta;
} score_row;

/* p = exp(score - lse); score becomes p * f, gradient ((p * (gradient * f - delta)) * scale), and
 * what is scaled is added to d_bias. */
static inline void gradient_step(const score_row *row, uint64_t i, bp_part part)
{
    bp_v scaled = bp_v_mul(bp_v_load(row->score + i, part), row->scale);
    if (row->bias != NULL) {
        scaled = bp_v_add(scaled, bp_v_load(row->bias + i, part));
    }
    bp_v p = bp_v_exp(bp_v_sub(scaled, row->lse));
    bp_v d_p = bp_v_load(row->gradient + i, part), kept = p;
    if (row->factor != NULL) {
        bp_v factor = bp_v_load(row->factor + i, part);
        kept = bp_v_mul(p, factor);
        d_p = bp_v_mul(d_p, factor);
    }
    d_p = bp_v_mul(p, bp_v_sub(d_p, row->delta));
    if (row->d_bias != NULL) {
        bp_v_store(row->d_bias + i, bp_v_add(bp_v_load(row->d_bias + i, part), d_p), part);
    }
    if (row->slope != NULL) {
        d_p = bp_v_mul(d_p, bp_v_load(row->slope + i, part));
    }
    d_p = bp_v_mul(d_p, row->by);
    bp_v_store(row->score + i, kept, part);
    bp_v_store(row->gradient + i, d_p, part);
}

/* The scores of a run under a cap. */
static void cap_run(const head *at, float *score, uint64_t run, float *slope)
{
    for (uint64_t j = 0; j < run; j++) {
        score[j] = bp_attention_capped(score[j] * at->s->scale, at->s->cap, &slope[j]);
    }
}

static void gradient_row(const head *at, int64_t query, score_row row)
{
    const int64_t begin = first_of(at, query);
    uint64_t count = (uint64_t)(end_of(at, query) - begin);
    uint64_t element = mask_element(at, query) + (uint64_t)begin;
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN], slope[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        if (at->s->cap > 0.0f) {
            cap_run(at, row.score, run, slope);
            row.slope = slope;
        }
        if (at->s->dropout > 0.0) {
            bp_mask_row(&at->mask, element + j, run, factor);
            row.factor = factor;
        }
#define STEP(part) gradient_step(&row, i, part);
        BP_FOR_VECTORS(i, run, STEP)
#undef STEP
        row.score += BP_MASK_RUN;
        row.gradient += BP_MASK_RUN;
        row.bias = row.bias != NULL ? row.bias + BP_MASK_RUN : NULL;
        row.d_bias = row.d_bias != NULL ? row.d_bias + BP_MASK_RUN : NULL;
    }
}

/* The probabilities and score gradients of a block, 0 outside of what a query looks at. */
static void gradient_rows(const head *at, const head_gradient *to, const int64_t range[2],
                          const float *delta)
{
    int64_t keys = keys_of(at, range);
    for (int64_t i = range[0]; i < range[1]; i++) {
        int64_t r = i - range[0];
        float *score = at->score + r * at->score_pitch;
        float *gradient = to->gradient + r * at->score_pitch;
        const uint64_t own = at->s->bias != NULL ? distance_of(at, i) : 0;
        const uint64_t place = own - 2 * at->number * at->s->sequence; /* of the head's */
        gradient_row(at, i,
                     (score_row){.score = row_keys(at, i, keys, score),
                                 .gradient = row_keys(at, i, keys, gradient),
                                 .bias = at->s->bias != NULL ? at->s->bias + own : NULL,
                                 .d_bias = to->d_bias != NULL ? to->d_bias + place : NULL,
                                 .scale = bp_v_set(at->s->cap > 0.0f ? 1.0f : at->s->scale),
                                 .by = bp_v_set(at->s->scale),
                                 .lse = bp_v_set(to->lse[i]),
                                 .delta = bp_v_set(delta[r])});
    }
}

/* Adds the block's queries, in order, to the rows of a gradient by key:
 * to_j = fma(factor (r, j), x_r, to_j). Rows begin, at 0 in the group's first head, at their own
 * query on the diagonal or else with the first block; windows to both sides find them cleared. */
static void add_by_key(const head *at, const head_gradient *g, const int64_t range[2],
                       const float *x, int64_t x_pitch, float *to)
{
    int64_t begin = range[0], queries = range[1] - begin, keys = keys_of(at, range);
    const bool cleared = at->s->window != 0 && !at->s->causal;
    for (int64_t j = at->base; j < keys;) {
        bool diagonal = at->s->causal && j >= begin;
        int64_t skipped = diagonal ? j - begin : 0;
        int64_t rows = rows_left(j, at->s->causal && !diagonal ? lower(begin, keys) : keys);
        for (int64_t d = 0, columns; d < at->width; d += columns) {
            bp_matmul_tile tile = tile_make(x + skipped * x_pitch + d, x_pitch, queries - skipped);
            columns = columns_next(at->width - d);
            tile.rows = rows;
            tile.columns = columns;
            tile.a = g->transposed + (j - at->base) * QUERIES + skipped;
            tile.a_pitch = QUERIES;
            tile.to = to + j * g->key_pitch + d;
            tile.to_pitch = g->key_pitch;
            tile.from = g->first && !cleared && (diagonal || begin == 0) ? NULL : tile.to;
            tile.from_pitch = g->key_pitch;
            FORM->tile(&tile);
        }
        j += rows;
    }
}

/* A block of queries, the first of them number r of its strip, over a block of keys. */
static void backward_block(head *at, const head_gradient *to, const int64_t range[2], int64_t r)
{
    at->base = base_of(at, range);
    int64_t queries = range[1] - range[0], keys = keys_of(at, range) - at->base;
    const float *q = at->q + r * at->q_pitch, *d_out = to->d_out + r * to->out_pitch;
    if (keys <= 0) {
        return;
    }
    products(at, q, at->q_pitch, at->k_panels, range, at->score);
    products(at, d_out, to->out_pitch, to->v_panels, range, to->gradient);
    gradient_rows(at, to, range, to->delta + r);
    weighted_sums(at, to->gradient, at->k, range, true, to->d_q + r * to->pitch, to->pitch);
    FORM->transpose(to->transposed, QUERIES, at->score, at->score_pitch, queries, keys);
    add_by_key(at, to, range, d_out, to->out_pitch, to->d_v);
    FORM->transpose(to->transposed, QUERIES, to->gradient, at->score_pitch, queries, keys);
    add_by_key(at, to, range, q, at->q_pitch, to->d_k);
}

/* A call of backward as its worker sees it. */
typedef struct backward_work {
    const bp_attention_backward_pointers *p;
    bp_attention_shape s;
    float *score;
    float *rows; /* 16-bit elements as floats: d_k, d_v; q, d_out, out, d_q of a strip; v, then k */
    uint64_t matrix;
    uint64_t strip; /* floats of a matrix of a strip */
} backward_work;

/* The strip's rows of q, d_out and out, and its numbers delta. */
static void strip_rows(const backward_work *w, head *at, head_gradient *to, uint64_t sample,
                       const int64_t range[2])
{
    const bp_attention_shape *s = &w->s;
    const int64_t count = range[1] - range[0], out_pitch = (int64_t)(s->heads * s->width);
    const float *delta = bp_attention_deltas_of(s, sample, at->number);
    const uint64_t row = (uint64_t)range[0] * s->q_row;
    const uint64_t place = bp_attention_q(s, sample, at->number) + row;
    const uint64_t out = bp_attention_out(s, sample, at->number) + (uint64_t)(range[0] * out_pitch);
    float *rows = w->rows + 2 * w->matrix;
    at->q_pitch = (int64_t)s->q_row;
    at->q = rows_of(s, s->q, place, count, &at->q_pitch, rows);
    to->out_pitch = out_pitch;
    to->d_out = rows_of(s, w->p->d_out, out, count, &to->out_pitch, rows + w->strip);
    if (delta == NULL) {
        to->out_pitch = out_pitch;
        to->out = rows_of(s, w->p->out, out, count, &to->out_pitch, rows + 2 * w->strip);
    }
    for (int64_t i = 0; i < count; i++) {
        if (delta != NULL) {
            to->delta[i] = delta[(uint64_t)(range[0] + i) * s->heads];
        } else if (i % 8 == 0) {
            row_deltas(at, to, i, count - i);
        }
    }
}

/* The values of the block that begins with key at->low as panels, its keys as rows as well. */
static void block_rows(const backward_work *w, head *at, head_gradient *to, uint64_t sample)
{
    const bp_attention_shape *s = &w->s;
    const int64_t count = at->high - at->low, panels = panels_of(count);
    const uint64_t kv = at->number / s->group, row = (uint64_t)at->low * s->row;
    float *rows = w->rows + 2 * w->matrix + 4 * w->strip;
    at->pitch = (int64_t)s->row;
    const float *v =
        rows_of(s, w->p->qkv, bp_attention_v(s, sample, kv) + row, count, &at->pitch, rows);
    transpose_rows(at, v, count, to->v_panels, 0, panels);
    at->pitch = (int64_t)s->row;
    at->k = rows_of(s, w->p->qkv, bp_attention_k(s, sample, kv) + row, count, &at->pitch, rows);
    transpose_rows(at, at->k, count, at->k_panels, 0, panels);
}

/* Rows of gradients that were formed apart, to the element `place` of a tensor. */
static void store_rows(const bp_attention_shape *s, void *to, uint64_t place, uint64_t to_pitch,
                       const float *from, int64_t rows)
{
    const int64_t width = (int64_t)s->width;
    if (s->type != BP_F32) {
        FORM->store((uint16_t *)to + place, (int64_t)to_pitch, from, width, rows, width, s->type);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        memcpy((float *)to + place + (uint64_t)i * to_pitch, from + i * width,
               s->width * sizeof(float));
    }
}

/* Rows of d_q begin at 0. */
static void strip_clear_rows(const head *at, const head_gradient *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        memset(to->d_q + i * to->pitch, 0, at->s->width * sizeof(float));
    }
}

/* Queries range[0] .. range[1] - 1 over keys keys[0] .. keys[1] - 1, the first of a block. Blocks
 * of queries end where those of the whole head do. */
static void strip_keys_range(const backward_work *w, head *at, head_gradient *to, uint64_t sample,
                             const int64_t range[2], const int64_t keys[2])
{
    for (int64_t low = keys[0]; low < keys[1]; low += BP_ATTENTION_KEYS) {
        at->low = low;
        at->high = lower(low + BP_ATTENTION_KEYS, keys[1]);
        block_rows(w, at, to, sample);
        for (int64_t i = range[0], next; i < range[1]; i = next) {
            next = lower(i - i % QUERIES + QUERIES, range[1]);
            backward_block(at, to, (int64_t[]){i, next}, i - range[0]);
        }
    }
}

/* Queries range[0] .. range[1] - 1 of a head. */
static void backward_strip(const backward_work *w, head *at, head_gradient *to, uint64_t sample,
                           const int64_t range[2])
{
    const bp_attention_shape *s = &w->s;
    const uint64_t place = bp_attention_q(s, sample, at->number) + (uint64_t)range[0] * s->q_row;
    at->low = 0;
    at->high = (int64_t)s->sequence;
    const int64_t end = keys_of(at, range);
    const int64_t low = first_of(at, range[0]) / BP_ATTENTION_KEYS * BP_ATTENTION_KEYS;
    strip_rows(w, at, to, sample, range);
    to->d_q =
        bp_attention_apart(s) ? w->rows + 2 * w->matrix + 3 * w->strip : (float *)s->d_q + place;
    strip_clear_rows(at, to, range[1] - range[0]);
    strip_keys_range(w, at, to, sample, range, (int64_t[]){low, end});
    if (bp_attention_apart(s)) {
        store_rows(s, s->d_q, place, s->q_row, to->d_q, range[1] - range[0]);
    }
}

/* Where in the workspace a block's numbers are. */
static void backward_places(const backward_work *w, head *at, head_gradient *to)
{
    const int64_t scores = QUERIES * at->score_pitch, sequence = (int64_t)w->s.sequence;
    const int64_t keys = panels_of(lower(sequence, BP_ATTENTION_KEYS)) * FORM->columns;
    to->gradient = w->score + scores;
    to->transposed = w->score + 2 * scores;
    at->k_panels = w->score + 3 * scores;
    to->v_panels = at->k_panels + keys * at->width;
    to->delta = to->v_panels + keys * at->width;
}

static void backward_head(const backward_work *w, head *at, head_gradient *to, uint64_t sample)
{
    const bp_attention_shape *s = &w->s;
    to->lse = (const float *)w->p->lse + (sample * s->heads + at->number) * s->queries;
    to->d_bias = bp_attention_d_bias(s, sample, at->number);
    if (to->d_bias != NULL) {
        memset(to->d_bias, 0, 2 * s->sequence * sizeof(float));
    }
    backward_places(w, at, to);
    const int64_t queries = (int64_t)s->queries;
    for (int64_t i = 0; i < queries; i += BP_ATTENTION_ROWS) {
        backward_strip(w, at, to, sample, (int64_t[]){i, lower(i + BP_ATTENTION_ROWS, queries)});
    }
}

/* x += 0 over the rows of keys. */
static void add_zero(const head *at, float *x, int64_t pitch)
{
    for (int64_t j = 0; j < at->keys; j++) {
        for (int64_t d = 0; d < at->width; d++) {
            x[j * pitch + d] += 0.0f;
        }
    }
}

/* Rows of keys from `first` on. */
static void clear_rows(const head *at, int64_t first, float *x, int64_t pitch)
{
    for (int64_t j = first; j < (int64_t)at->s->sequence; j++) {
        memset(x + j * pitch, 0, at->s->width * sizeof(float));
    }
}

/* Where the gradients of a head go: in place, or to be rounded. */
static head_gradient gradient_make(const backward_work *w, uint64_t sample, uint64_t kv)
{
    const bp_attention_shape *s = &w->s;
    int64_t width = (int64_t)s->width, row = (int64_t)s->row;
    if (bp_attention_apart(s)) {
        return (head_gradient){
            .d_k = w->rows, .d_v = w->rows + w->matrix, .pitch = width, .key_pitch = width};
    }
    float *d_qkv = w->p->d_qkv;
    return (head_gradient){.d_k = d_qkv + bp_attention_k(s, sample, kv),
                           .d_v = d_qkv + bp_attention_v(s, sample, kv),
                           .pitch = (int64_t)s->q_row,
                           .key_pitch = row};
}

static void backward_group(const backward_work *w, uint64_t sample, uint64_t kv)
{
    const bp_attention_shape *s = &w->s;
    head_gradient to = gradient_make(w, sample, kv);
    head at = {0};
    for (uint64_t i = 0; i < s->group; i++) {
        at = head_make(s, sample, kv * s->group + i, w->score);
        to.first = i == 0;
        if (i == 0 && s->window != 0 && !s->causal) {
            clear_rows(&at, 0, to.d_k, to.key_pitch);
            clear_rows(&at, 0, to.d_v, to.key_pitch);
        }
        if (i > 0) {
            add_zero(&at, to.d_k, to.key_pitch);
            add_zero(&at, to.d_v, to.key_pitch);
        }
        backward_head(w, &at, &to, sample);
    }
    clear_rows(&at, at.keys, to.d_k, to.key_pitch);
    clear_rows(&at, at.keys, to.d_v, to.key_pitch);
    if (bp_attention_apart(s)) {
        const int64_t rows = (int64_t)s->sequence;
        store_rows(s, w->p->d_qkv, bp_attention_k(s, sample, kv), s->row, to.d_k, rows);
        store_rows(s, w->p->d_qkv, bp_attention_v(s, sample, kv), s->row, to.d_v, rows);
    }
}

static void backward_over(const bp_host_call *call, const bp_attention_shape *of, uint64_t first,
                          uint64_t last, uint32_t worker)
{
    const bp_attention_backward_pointers *p = call->pointers;
    backward_work w = {.p = p, .s = *of};
    w.s.pitch = bp_least(w.s.pitch, BP_ATTENTION_KEYS);
    w.score = bp_worker_part(p->work, bp_attention_backward_workspace, call, worker);
    const uint64_t rows = bp_attention_rows(&w.s);
    w.matrix = bp_attention_matrix(rows, w.s.width);
    w.strip = bp_attention_matrix(bp_least(rows, BP_ATTENTION_ROWS), w.s.width);
    w.rows = w.score + bp_attention_backward_floats(call->scalars);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t next = (task + 1) * w.s.group; /* query head of all samples */
        if (task + 1 < last) {
            const uint64_t sample = next / w.s.heads, number = next % w.s.heads;
            const uint64_t out = bp_attention_out(&w.s, sample, number);
            head_ask_rows(&w.s, p->qkv, sample, number);
            head_ask(&w.s, p->d_out, out, w.s.heads * w.s.width, w.s.queries);
            if (p->out != NULL) {
                head_ask(&w.s, p->out, out, w.s.heads * w.s.width, w.s.queries);
            }
        }
        backward_group(&w, task / w.s.kv_heads, task % w.s.kv_heads);
    }
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_shape s = bp_attention_backward_shape(call);
    backward_over(call, &s, first, last, worker);
}

const bp_host_kernel BP_ISA(bp_attention_backward) = {bp_attention_backward_tasks, backward_run,
                                                      bp_attention_backward_workspace};
