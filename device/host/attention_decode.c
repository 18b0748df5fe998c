/* SPDX-License-Identifier: MIT */
/* Attention of new rows against a cache of keys and values, plain form. */
#include <string.h>

#include "core/math_inline.h"
#include "core/step.h"
#include "device/host/attention.h"
#include "device/host/lanes.h"

uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_attention_decode_scalars *s = scalars;
    return bp_size_mul(sizeof(float), bp_size_align((uint64_t)s->positions, BP_LANES));
}

static uint64_t decode_tasks(const void *scalars)
{
    const bp_attention_decode_scalars *s = scalars;
    return (uint64_t)s->heads;
}

/* out = softmax(q k^T / sqrt(width)) v over `count` cached rows at `pitch`: the same operations in
 * the same order as attention_forward. */
static void decode_row(const float *q, const float *k, const float *v, uint64_t count,
                       uint64_t pitch, uint64_t width, float *score, float *out)
{
    float scale = 1.0f / sqrtf((float)width);
    for (uint64_t j = 0; j < count; j++) {
        float dot = 0.0f;
        for (uint64_t d = 0; d < width; d++) {
            dot = fmaf(q[d], k[j * pitch + d], dot);
        }
        score[j] = dot * scale;
    }
    float most = bp_row_max(score, count);
    float lane[BP_LANES] = {0.0f};
    for (uint64_t j = 0; j < count; j++) {
        score[j] = bp_expf_inline(score[j] - most);
        lane[j % BP_LANES] += score[j];
    }
    float inverse = 1.0f / bp_lanes_sum(lane);
    for (uint64_t d = 0; d < width; d++) {
        out[d] = 0.0f;
    }
    for (uint64_t j = 0; j < count; j++) {
        float p = score[j] * inverse;
        for (uint64_t d = 0; d < width; d++) {
            out[d] = fmaf(p, v[j * pitch + d], out[d]);
        }
    }
}

/* A task is a head: its keys and values enter the caches before its rows look at them. */
static void decode_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const bp_attention_decode_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->head_width, pitch = (uint64_t)s->heads * width;
    uint64_t position = ((const bp_step_block *)p->step)->position;
    uint64_t positions = (uint64_t)s->positions;
    uint64_t rows = position < positions ? bp_least((uint64_t)s->rows, positions - position) : 0;
    float *score = bp_worker_part(p->work, bp_attention_decode_workspace(s, call->dtypes), worker);
    for (uint64_t number = first; number < last; number++) {
        const float *q = (const float *)p->qkv + number * width;
        float *k_cache = (float *)p->k_cache + number * width;
        float *v_cache = (float *)p->v_cache + number * width;
        float *out = (float *)p->out + number * width;
        for (uint64_t r = 0; r < rows; r++) {
            const float *row = q + r * 3 * pitch;
            memcpy(k_cache + (position + r) * pitch, row + pitch, width * sizeof(float));
            memcpy(v_cache + (position + r) * pitch, row + 2 * pitch, width * sizeof(float));
        }
        for (uint64_t r = 0; r < rows; r++) {
            decode_row(q + r * 3 * pitch, k_cache, v_cache, position + r + 1, pitch, width, score,
                       out + r * pitch);
        }
    }
}

const bp_host_kernel bp_host_attention_decode = {decode_tasks, decode_run,
                                                 bp_attention_decode_workspace};
