/* SPDX-License-Identifier: MIT */
/* Token and position embedding: forward and both backward scatters, plain form. */
#include <string.h>

#include "device/host/vector/element.h"
#include "device/host/elements/mask.h"

/* What is added up to one row. */
typedef struct row_terms {
    const bp_element *token;
    const bp_element *place; /* or NULL */
    const bp_element *type;  /* or NULL */
    float unit;              /* of the noise; 0: there is none */
} row_terms;

static float row_value(const row_terms *x, uint64_t i, float noise)
{
    float value = bp_get(x->token, i);
    if (x->unit > 0.0f) {
        value += noise;
    }
    if (x->place != NULL) {
        value += bp_get(x->place, i);
    }
    if (x->type != NULL) {
        value += bp_get(x->type, i);
    }
    return value;
}

/* out = (sum of terms) * mask of elements first .. first + width - 1, rounded once. */
static void row_forward(const row_terms *x, uint64_t width, const bp_mask *mask, uint64_t first,
                        bp_element *out)
{
    float factor[BP_COLUMNS], noise[BP_COLUMNS] = {0.0f};
    for (uint64_t at = 0; at < width; at += BP_COLUMNS) {
        uint64_t end = bp_least(width, at + BP_COLUMNS);
        if (x->unit > 0.0f) {
            bp_noise_fill(mask, x->unit, first + at, end - at, noise);
        }
        if (mask->threshold == 0) {
            for (uint64_t i = at; i < end; i++) {
                bp_put(out, i, row_value(x, i, noise[i - at]));
            }
            continue;
        }
        bp_mask_fill(mask, first + at, end - at, factor);
        for (uint64_t i = at; i < end; i++) {
            bp_put(out, i, row_value(x, i, noise[i - at]) * factor[i - at]);
        }
    }
}

static uint64_t embedding_forward_tasks(const void *scalars)
{
    const bp_embedding_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void embedding_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)worker;
    const bp_embedding_forward_scalars *s = call->scalars;
    const bp_embedding_forward_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    uint64_t width = (uint64_t)s->width;
    const int32_t *ids = p->ids;
    for (uint64_t row = first; row < last; row++) {
        uint64_t t = row % (uint64_t)s->sequence;
        uint64_t position = t + (s->decode != 0 ? step->position : 0);
        /* rows past the last position of a cache have no meaning, but they must stay inside wpe */
        position = bp_least(position, (uint64_t)s->positions - 1);
        bp_mask mask = bp_mask_make(step, row / (uint64_t)s->sequence, s->site, s->dropout);
        row_terms terms = {.token = (const bp_element *)p->wte + (uint64_t)ids[row] * width,
                           .type = p->type_row,
                           .unit = (float)(s->noise * 0x1p-31)};
        if (p->wpe != NULL) {
            terms.place = (const bp_element *)p->wpe + position * width;
        }
        row_forward(&terms, width, &mask, t * width, (bp_element *)p->out + row * width);
    }
}

static uint64_t token_tasks(const void *scalars)
{
    const bp_embedding_token_backward_scalars *s = scalars;
    return bp_cut(s->width, BP_COLUMNS);
}

/* sum[i] += d_out[i] * mask of element first + i. */
static void add_masked(float *sum, const bp_element *d_out, uint64_t count, const bp_mask *mask,
                       uint64_t first)
{
    float factor[BP_COLUMNS];
    if (mask->threshold == 0) {
        for (uint64_t i = 0; i < count; i++) {
            sum[i] += bp_get(d_out, i);
        }
        return;
    }
    bp_mask_fill(mask, first, count, factor);
    for (uint64_t i = 0; i < count; i++) {
        sum[i] += bp_get(d_out, i) * factor[i];
    }
}

/* One slice of columns of the gradient of wte. */
typedef struct token_slice {
    const bp_embedding_token_backward_scalars *s;
    const bp_embedding_token_backward_pointers *p;
    uint64_t column;
    uint64_t count; /* of columns */
} token_slice;

/* sum += the slice of one row. */
static void add_row(const token_slice *at, uint64_t row, float *sum)
{
    uint64_t width = (uint64_t)at->s->width, sequence = (uint64_t)at->s->sequence;
    bp_mask mask = bp_mask_make(at->p->step, row / sequence, at->s->site, at->s->dropout);
    add_masked(sum, (const bp_element *)at->p->d_out + row * width + at->column, at->count, &mask,
               row % sequence * width + at->column);
}

/* The row of d_wte that belongs to a row's id; beyond its end for another part of the table. */
static uint64_t embedding_place_of(const token_slice *at, uint64_t row)
{
    return (uint64_t)((const int32_t *)at->p->ids)[row] - (uint64_t)at->s->first;
}

/* In float the sums live in d_wte itself. */
static void token_direct(const token_slice *at)
{
    float *d_wte = (float *)at->p->d_wte + at->column;
    for (uint64_t row = 0; row < (uint64_t)at->s->rows; row++) {
        uint64_t place = embedding_place_of(at, row);
        if (place < (uint64_t)at->s->vocabulary) {
            add_row(at, row, d_wte + place * (uint64_t)at->s->width);
        }
    }
}

static uint64_t embedding_find(const int32_t *ids, uint64_t first, uint64_t last, int32_t id)
{
    while (first < last && ids[first] != id) {
        first++;
    }
    return first;
}

/* In 16 bits a sum is rounded once: at its id's first row, all rows of that id are looked up. Their
 * number squared is small beside what a product does with a row. */
static void token_gathered(const token_slice *at, bp_dtype type)
{
    const int32_t *ids = at->p->ids;
    uint64_t rows = (uint64_t)at->s->rows;
    for (uint64_t row = 0; row < rows; row++) {
        int32_t id = ids[row];
        uint64_t place = embedding_place_of(at, row);
        if (place >= (uint64_t)at->s->vocabulary || embedding_find(ids, 0, row, id) < row) {
            continue;
        }
        bp_columns sum = {.at = at->p->d_wte, .type = type, .count = at->count};
        sum.first = place * (uint64_t)at->s->width + at->column;
        bp_columns_begin(&sum, at->s->accumulate);
        for (uint64_t r = row; r < rows; r = embedding_find(ids, r + 1, rows, id)) {
            add_row(at, r, sum.value);
        }
        bp_columns_end(&sum);
    }
}

/* Zeros in the columns of some slices: runs of memory as long as they come, for the table is large.
 */
static void token_clear(const bp_embedding_token_backward_scalars *s, void *d_wte, size_t size,
                        uint64_t first, uint64_t last)
{
    const uint64_t width = (uint64_t)s->width, rows = (uint64_t)s->vocabulary;
    const uint64_t column = first * BP_COLUMNS, end = bp_least(width, last * BP_COLUMNS);
    char *to = (char *)d_wte + column * size;
    if (end - column == width) {
        memset(to, 0, rows * width * size);
        return;
    }
    for (uint64_t v = 0; v < rows; v++) {
        memset(to + v * width * size, 0, (end - column) * size);
    }
}

/* A task is a slice of 64 columns: all rows are added into it in order. */
static void token_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_embedding_token_backward_scalars *s = call->scalars;
    const bp_embedding_token_backward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    bp_dtype type = bp_call_type(call, BP_OPERAND(embedding_token_backward, d_wte));
    if (s->accumulate == 0 && first < last) {
        token_clear(s, p->d_wte, bp_dtype_bytes(type), first, last);
    }
    for (uint64_t task = first; task < last; task++) {
        token_slice at = {s, p, task * BP_COLUMNS, 0};
        at.count = bp_least(width - at.column, BP_COLUMNS);
        if (type == BP_F32) {
            token_direct(&at);
        } else {
            token_gathered(&at, type);
        }
    }
}

static uint64_t position_tasks(const void *scalars)
{
    const bp_embedding_position_backward_scalars *s = scalars;
    return (uint64_t)s->positions;
}

/* A task is one position: the samples' rows are added in order. */
static void position_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_embedding_position_backward_scalars *s = call->scalars;
    const bp_embedding_position_backward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width, sequence = (uint64_t)s->sequence;
    bp_columns sum = {.at = p->d_wpe};
    sum.type = bp_call_type(call, BP_OPERAND(embedding_position_backward, d_wpe));
    for (uint64_t t = first; t < last; t++) {
        for (uint64_t column = 0; column < width; column += BP_COLUMNS) {
            sum.first = t * width + column;
            sum.count = bp_least(width - column, BP_COLUMNS);
            bp_columns_begin(&sum, s->accumulate);
            for (uint64_t row = t; t < sequence && row < (uint64_t)s->rows; row += sequence) {
                bp_mask mask = bp_mask_make(p->step, row / sequence, s->site, s->dropout);
                add_masked(sum.value, (const bp_element *)p->d_out + row * width + column,
                           sum.count, &mask, t * width + column);
            }
            bp_columns_end(&sum);
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_embedding_forward) = {embedding_forward_tasks,
                                                            embedding_forward_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_embedding_token_backward) = {token_tasks, token_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_embedding_position_backward) = {position_tasks, position_run,
                                                                      NULL};
