/* SPDX-License-Identifier: MIT */
/* What the attention kernels share: where a head's rows are, and dropout by the tile. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_CUH
#define BP_DEVICE_KERNELS_ATTENTION_CUH

#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/mask.cuh"
#include "device/cuda/kernels/reduce.cuh"

/* The shape of an attention and its dropout. qkv (batch, sequence, heads + 2 kv_heads, width). */
typedef struct bp_attention {
    const int32_t *lengths; /* (batch) or NULL; of packed documents where that of each place begins,
                               (batch, sequence), negative: padding */
    uint64_t sequence;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t width;
    float scale;
    uint32_t causal; /* and 2: documents are packed */
    uint32_t site;
    uint32_t threshold;
    float factor;
    uint32_t form;   /* of all operands that are elements */
    float cap;       /* of scores; 0: none */
    uint64_t window; /* 0: none */
} bp_attention;

#define BP_ATTENTION_PARAMETERS                                                                    \
    const bp_step_block *step, const int32_t *lengths, uint64_t sequence, uint64_t heads,          \
        uint64_t kv_heads, uint64_t width, float scale, uint32_t causal, uint32_t site,            \
        uint32_t threshold, float factor, uint32_t form, float cap, uint64_t window
#define BP_ATTENTION_GATHER                                                                        \
    {                                                                                              \
        lengths, sequence, heads, kv_heads, width, scale, causal, site, threshold, factor, form,   \
            cap, window                                                                            \
    }

/* One query head of one sample. */
typedef struct bp_head {
    uint64_t sample;
    uint64_t number;
    uint64_t keys;  /* the sample's length */
    uint64_t pitch; /* between rows of q, of k and of v */
    uint64_t first; /* row 0 of q */
    uint64_t k;     /* row 0 of its key-value head */
    uint64_t v;
    uint64_t out_pitch; /* of out and d_out */
    uint64_t first_out; /* row 0 of this head in out and d_out */
    uint64_t first_row; /* in lse and delta, (batch, heads, sequence) */
} bp_head;

BP_DEVICE bool bp_attention_packed(const bp_attention *at)
{
    return (at->causal & 2) != 0;
}

BP_DEVICE bp_head bp_head_make(const bp_attention *at, uint64_t index)
{
    bp_head head;
    head.sample = index / at->heads;
    head.number = index % at->heads;
    head.keys = at->sequence;
    if (at->lengths != NULL && !bp_attention_packed(at)) {
        int32_t length = at->lengths[head.sample];
        head.keys = length > 0 ? bp_least((uint64_t)length, at->sequence) : 0;
    }
    uint64_t kv = head.number / (at->heads / at->kv_heads), sample = head.sample * at->sequence;
    head.out_pitch = at->heads * at->width;
    head.pitch = head.out_pitch + 2 * at->kv_heads * at->width;
    head.first = sample * head.pitch + head.number * at->width;
    head.k = sample * head.pitch + head.out_pitch + kv * at->width;
    head.v = head.k + at->kv_heads * at->width;
    head.first_out = sample * head.out_pitch + head.number * at->width;
    head.first_row = index * at->sequence;
    return head;
}

/* Before which key a query ceases to look, and from which on it looks. */
BP_DEVICE uint64_t bp_head_keys(const bp_attention *at, const bp_head *head, uint64_t row)
{
    uint64_t end = at->window != 0 ? bp_least(row + at->window, head->keys) : head->keys;
    return at->causal != 0 ? bp_least(row + 1, head->keys) : end;
}

/* Where the packed document of a place begins; the end of all for what is in none. */
BP_DEVICE uint64_t bp_head_start(const bp_attention *at, const bp_head *head, uint64_t row)
{
    int32_t start = row < at->sequence ? at->lengths[head->sample * at->sequence + row] : -1;
    return start >= 0 && (uint64_t)start <= row ? (uint64_t)start : at->sequence;
}

BP_DEVICE uint64_t bp_head_first(const bp_attention *at, const bp_head *head, uint64_t row)
{
    uint64_t first = at->window != 0 && row + 1 > at->window ? row + 1 - at->window : 0;
    if (bp_attention_packed(at)) {
        uint64_t start = bp_head_start(at, head, row);
        first = start > first ? start : first;
    }
    return first;
}

/* The first key that any of the 64 rows from `row` on looks at. */
BP_DEVICE uint64_t bp_head_tile(const bp_attention *at, const bp_head *head, uint64_t row)
{
    uint64_t first = bp_head_first(at, head, row);
#pragma unroll 1
    for (uint64_t i = 1; bp_attention_packed(at) && i < 64; i++) {
        first = bp_least(first, bp_head_first(at, head, row + i));
    }
    return first;
}

/* The first place from `row` on that is not in its document, which begins at `start`; a document's
 * places lie together. */
BP_DEVICE uint64_t bp_head_end(const bp_attention *at, const bp_head *head, uint64_t row,
                               uint64_t start)
{
    uint64_t end = at->sequence;
#pragma unroll 1
    while (row < end) {
        uint64_t middle = row + (end - row) / 2;
        bool within = bp_head_start(at, head, middle) == start;
        row = within ? middle + 1 : row;
        end = within ? end : middle;
    }
    return end;
}

/* The first row after those that look at a key, as far as the window and the sequence go. */
BP_DEVICE uint64_t bp_head_reach(const bp_attention *at, uint64_t key)
{
    return at->window != 0 ? bp_least(key + at->window, at->sequence) : at->sequence;
}

/* The first row after those that look at a key. */
BP_DEVICE uint64_t bp_head_rows(const bp_attention *at, const bp_head *head, uint64_t key)
{
    uint64_t end = bp_head_reach(at, key);
    if (bp_attention_packed(at)) {
        uint64_t start = bp_head_start(at, head, key);
        end = bp_least(end, start < at->sequence ? bp_head_end(at, head, key, start) : key);
    }
    return end;
}

/* A row's place in lse: (batch, heads, sequence); of packed documents (heads, length) of each. */
BP_DEVICE uint64_t bp_head_lse(const bp_attention *at, const bp_head *head, uint64_t row)
{
    if (!bp_attention_packed(at)) {
        return head->first_row + row;
    }
    uint64_t start = bp_head_start(at, head, row), sample = head->sample * at->sequence;
    if (start == at->sequence) {
        return (sample + row) * at->heads + head->number;
    }
    uint64_t length = bp_head_end(at, head, row, start) - start;
    return (sample + start) * at->heads + head->number * length + row - start;
}

/* This head's rows of delta, and of lse; of packed documents both lie in turns behind delta. */
BP_DEVICE const float *bp_head_delta(const bp_attention *at, const bp_head *head,
                                     const float *delta)
{
    return delta + (bp_attention_packed(at) ? 2 * head->first_row : head->first_row);
}

BP_DEVICE const float *bp_head_sums(const bp_attention *at, const bp_head *head, const float *lse,
                                    const float *delta)
{
    return bp_attention_packed(at) ? bp_head_delta(at, head, delta) + at->sequence
                                   : lse + head->first_row;
}

/* A scaled score under the cap; `slope` is what its derivative is multiplied by. */
BP_DEVICE float bp_head_score(const bp_attention *at, float dot, float *slope)
{
    float score = dot * at->scale;
    *slope = 1.0f;
    if (at->cap > 0.0f) {
        float t = bp_tanhf_inline(score / at->cap);
        score = at->cap * t;
        *slope = 1.0f - t * t;
    }
    return score;
}

/* How many of the 64 keys from `column` on are before that end, and before that first one. */
BP_DEVICE uint32_t bp_head_left(const bp_attention *at, const bp_head *head, uint64_t row,
                                uint64_t column)
{
    uint64_t keys = bp_head_keys(at, head, row);
    return keys > column ? (uint32_t)bp_least(keys - column, 64) : 0;
}

BP_DEVICE uint32_t bp_head_skipped(const bp_attention *at, const bp_head *head, uint64_t row,
                                   uint64_t column)
{
    uint64_t first = bp_head_first(at, head, row);
    return first > column ? (uint32_t)bp_least(first - column, 64) : 0;
}

/* Bits of the kept ones among elements (number * T + row) * T + column .. + 15. */
BP_DEVICE uint32_t bp_head_mask16(const bp_mask *mask, const bp_attention *at, const bp_head *head,
                                  uint64_t row, uint64_t column)
{
    uint64_t element = (head->number * at->sequence + row) * at->sequence + column;
    uint32_t bits = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 16; i += 4) {
        float f[4];
        bp_mask4(mask, (uint32_t)head->sample, element + i, f);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            bits |= f[e] != 0.0f ? 1u << (i + e) : 0;
        }
    }
    return bits;
}

#endif
