/* SPDX-License-Identifier: MIT */
/* Token and position embedding: forward and both backward scatters, plain form. */
#include <string.h>

#include "device/host/kernel.h"
#include "device/host/lanes.h"
#include "device/host/mask.h"

#define MASKED_COLUMNS BP_COLUMNS /* elements whose mask is made at a time */

/* out[i] = x[i] * mask of elements first .. first + count - 1; x may be out. */
static void apply_mask(const bp_mask *mask, uint64_t first, uint64_t count, float *out)
{
    float factor[MASKED_COLUMNS];
    for (uint64_t at = 0; at < count; at += MASKED_COLUMNS) {
        uint64_t run = bp_least(count - at, MASKED_COLUMNS);
        bp_mask_fill(mask, first + at, run, factor);
        for (uint64_t i = 0; i < run; i++) {
            out[at + i] *= factor[i];
        }
    }
}

static void add_row(const float *x, uint64_t width, float *out)
{
    for (uint64_t i = 0; i < width; i++) {
        out[i] += x[i];
    }
}

static uint64_t forward_tasks(const void *scalars)
{
    const bp_embedding_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
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
        float *out = (float *)p->out + row * width;
        const float *token = (const float *)p->wte + (uint64_t)ids[row] * width;
        /* rows past the last position of a cache have no meaning, but they must stay inside wpe */
        position = bp_least(position, (uint64_t)s->positions - 1);
        memcpy(out, token, width * sizeof(float));
        if (p->wpe != NULL) {
            add_row((const float *)p->wpe + position * width, width, out);
        }
        if (p->type_row != NULL) {
            add_row(p->type_row, width, out);
        }
        if (s->dropout > 0.0) {
            bp_mask mask = bp_mask_make(step, row / (uint64_t)s->sequence, s->site, s->dropout);
            apply_mask(&mask, t * width, width, out);
        }
    }
}

static uint64_t token_tasks(const void *scalars)
{
    const bp_embedding_token_backward_scalars *s = scalars;
    return bp_cut(s->width, BP_COLUMNS);
}

/* sum[i] += d_out[i] * mask of element first + i. */
static void add_masked(float *sum, const float *d_out, uint64_t count, const bp_mask *mask,
                       uint64_t first)
{
    float factor[BP_COLUMNS];
    if (mask->threshold == 0) {
        for (uint64_t i = 0; i < count; i++) {
            sum[i] += d_out[i];
        }
        return;
    }
    bp_mask_fill(mask, first, count, factor);
    for (uint64_t i = 0; i < count; i++) {
        sum[i] += d_out[i] * factor[i];
    }
}

/* A task is a slice of 64 columns: all rows are added into it in order. */
static void token_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_embedding_token_backward_scalars *s = call->scalars;
    const bp_embedding_token_backward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width, sequence = (uint64_t)s->sequence;
    const int32_t *ids = p->ids;
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_COLUMNS;
        uint64_t count = bp_least(width - column, BP_COLUMNS);
        float *d_wte = (float *)p->d_wte + column;
        const float *d_out = (const float *)p->d_out + column;
        for (uint64_t v = 0; s->accumulate == 0 && v < (uint64_t)s->vocabulary; v++) {
            memset(d_wte + v * width, 0, count * sizeof(float));
        }
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            uint64_t place = (uint64_t)ids[row] - (uint64_t)s->first;
            if (place >= (uint64_t)s->vocabulary) {
                continue; /* of another part of the table */
            }
            bp_mask mask = bp_mask_make(p->step, row / sequence, s->site, s->dropout);
            add_masked(d_wte + place * width, d_out + row * width, count, &mask,
                       row % sequence * width + column);
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
    for (uint64_t t = first; t < last; t++) {
        float *d_wpe = (float *)p->d_wpe + t * width;
        if (s->accumulate == 0) {
            memset(d_wpe, 0, width * sizeof(float));
        }
        for (uint64_t row = t; t < sequence && row < (uint64_t)s->rows; row += sequence) {
            bp_mask mask = bp_mask_make(p->step, row / sequence, s->site, s->dropout);
            const float *d_out = (const float *)p->d_out + row * width;
            for (uint64_t at = 0; at < width; at += BP_COLUMNS) {
                add_masked(d_wpe + at, d_out + at, bp_least(width - at, BP_COLUMNS), &mask,
                           t * width + at);
            }
        }
    }
}

const bp_host_kernel bp_host_embedding_forward = {forward_tasks, forward_run, NULL};
const bp_host_kernel bp_host_embedding_token_backward = {token_tasks, token_run, NULL};
const bp_host_kernel bp_host_embedding_position_backward = {position_tasks, position_run, NULL};
