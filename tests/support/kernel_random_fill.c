/* SPDX-License-Identifier: MIT */
/* The operands' contents of random kernel calls: a part of kernel_random.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/number/quantised.h"
#include "core/number/random.h"
#include "core/program/step.h"
#include "tests/support/kernel_random_update.h"

/* Codes of normal numbers. */
static void fill_fp8(dice *d, unsigned char *at, uint64_t count)
{
    float values[BP_FP8_BLOCK];
    uint16_t rest[BP_FP8_BLOCK];
    for (uint64_t first = 0; first < count; first += BP_FP8_BLOCK) {
        const uint64_t left = count - first, some = left < BP_FP8_BLOCK ? left : BP_FP8_BLOCK;
        fill_normal(values, some, d->seed + first, 1.0);
        bp_fp8_store(values, some, at + bp_fp8_bytes(first), rest);
    }
}

/* Any codes; scales that are floats are positive. */
static void fill_quantised(dice *d, int64_t form, const char *name, unsigned char *at,
                           uint64_t bytes, uint64_t elements)
{
    if (strcmp(name, "codes") == 0 && form == BP_QUANTISED_FP8) {
        fill_fp8(d, at, elements);
        return;
    }
    bool floats = strcmp(name, "scales") == 0 && form != BP_QUANTISED_NF4_DOUBLE;
    for (uint64_t i = 0; floats && i < bytes / 4; i++) {
        ((float *)(void *)at)[i] = 0.01f * (float)roll(d, 1, 300);
    }
    for (uint64_t i = 0; !floats && i < bytes; i++) {
        at[i] = (unsigned char)roll(d, 0, 255);
    }
}

static void fill_block(dice *d, const char *name, void *at)
{
    if (strcmp(name, "step") == 0) {
        *(bp_step_block *)at = (bp_step_block){.seed = d->seed,
                                               .step = (uint64_t)roll(d, 0, 1000),
                                               .sample = (uint32_t)roll(d, 0, 9),
                                               .position = (uint32_t)roll(d, 0, 3),
                                               .last_row = (uint32_t)roll(d, 0, 45),
                                               .learning_rate = 1e-3f,
                                               .samples = (uint32_t)(d->seed % 17),
                                               .inverse_valid = 1.0f / 37.0f};
    } else if (strcmp(name, "control") == 0) {
        *(bp_control_block *)at = (bp_control_block){.applied = (uint64_t)roll(d, 0, 1000),
                                                     .clip = 0.37f,
                                                     .skip = roll(d, 0, 5) == 0,
                                                     .correction1 = 0.271,
                                                     .correction2 = 0.002,
                                                     .scale = 1024.0f,
                                                     .good_steps = (uint32_t)roll(d, 0, 1),
                                                     .bad_steps = (uint32_t)roll(d, 0, 1)};
    } else {
        *(bp_result_block *)at = (bp_result_block){.loss_sum = (double)roll(d, 0, 10)};
    }
}

/* Where each place's document begins; some runs of places are in none. */
static void fill_starts(dice *d, int64_t sequence, int32_t *at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const int64_t t = (int64_t)(i % (uint64_t)sequence);
        const bool begins = t == 0 || roll(d, 0, 20) == 0;
        at[i] = !begins ? at[i - 1] : roll(d, 0, 5) == 0 ? -1 : (int32_t)t;
    }
}

/* Ids below the vocabulary; labels also -1; lengths up to the sequence. */
static void fill_integers(dice *d, const any_scalars *s, bp_kernel kernel, const char *name,
                          int32_t *at, uint64_t count)
{
    int64_t low = 0, high;
    if (strcmp(name, "lengths") == 0) {
        high = s->sample_row.sequence; /* the same place in all rows with lengths */
    } else if (kernel == BP_KERNEL_time_slice) {
        high = 1000;
    } else if (kernel == BP_KERNEL_batchnorm_running) {
        low = INT32_MAX - 1; /* batches: the greatest stays */
        high = INT32_MAX;
    } else if (strcmp(name, "starts") == 0) {
        fill_starts(d, s->attention_forward.sequence, at, count);
        return;
    } else if (kernel == BP_KERNEL_preference_loss) {
        low = strcmp(name, "sides") == 0 ? 0 : -1; /* a side, a reference of almost 0, a place */
        high = 3;
    } else if (kernel == BP_KERNEL_sample_loss) {
        low = -1;
        high = s->sample_loss.classes - 1;
    } else if (kernel == BP_KERNEL_embedding_forward) {
        high = s->embedding_forward.vocabulary - 1;
    } else if (kernel == BP_KERNEL_rows_begin || kernel == BP_KERNEL_rows_wait) {
        high = s->rows_begin.vocabulary - 1;
    } else if (kernel == BP_KERNEL_embedding_token_backward) {
        high = s->embedding_token_backward.first + s->embedding_token_backward.vocabulary - 1;
    } else {
        low = strcmp(name, "tops") == 0 ? 0 : -1;
        high = s->cross_entropy.vocabulary - 1; /* the same place in all rows */
    }
    const bool sides = strcmp(name, "sides") == 0;
    for (uint64_t i = 0; i < count; i++) {
        at[i] = (int32_t)roll(d, low, high);
        if (sides && i % BP_SIDE_WORDS == 0 && roll(d, 0, 3) > 0) { /* mostly pairs */
            at[i] = i / BP_SIDE_WORDS % 2 == 0 ? BP_SIDE_CHOSEN : BP_SIDE_REJECTED;
        }
    }
}

/* Sums of squares; in some cases, of a gradient that is not finite. */
static void fill_doubles(dice *d, double *at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        at[i] = i == 0 && count % 7 == 1 ? (double)INFINITY : bp_random_uniform(d->seed, 78, i);
    }
}

/* Floats: normal numbers, made positive or moderate where the kernel needs that. */
static void fill_floats(dice *d, const char *name, void *to, bp_dtype dtype, uint64_t count)
{
    float *at = malloc(count * sizeof(float) + 1);
    fill_normal(at, count, d->seed * 31 + (uint64_t)roll(d, 0, 1 << 20),
                strcmp(name, "logits") == 0 ? 5.0 : 1.0);
    bool statistics = strcmp(name, "statistics") == 0;
    for (uint64_t i = 0; statistics && i < count; i++) {
        at[i] = 12.0f + at[i]; /* above the logits, so that exp stays small */
    }
    bool positive = strcmp(name, "norm") == 0 || strcmp(name, "norms") == 0 ||
                    strcmp(name, "means") == 0 || strcmp(name, "rstd") == 0 ||
                    strcmp(name, "variance") == 0 || strcmp(name, "lse") == 0;
    for (uint64_t i = 0; strcmp(name, "place") == 0 && i < count; i++) {
        at[i] = (float)roll(d, -1, 8); /* of a window */
    }
    for (uint64_t i = 0; positive && i < count; i++) {
        at[i] = strcmp(name, "lse") == 0 ? 3.0f + 0.1f * fabsf(at[i]) : fabsf(at[i]);
    }
    store_elements(to, dtype, at, count);
    free(at);
}

void fill_operands(dice *d, kernel_case *c)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t slot = 0; slot < c->tuples * info->operand_count; slot++) {
        uint32_t tuple = slot / info->operand_count, i = slot % info->operand_count;
        const bp_operand_info *operand = &info->operand[i];
        any_scalars s;
        memset(&s, 0, sizeof(s));
        memcpy(&s, c->scalars + tuple * info->scalar_count, info->scalar_count * sizeof(uint64_t));
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(&s, extents);
        void *at = kernel_case_at(c, tuple, i);
        /* what is only written keeps the pattern, except blocks, whose unused words are kept */
        bool skipped = at == NULL || (extents[i].access & BP_ACCESS_READ) == 0;
        if (skipped) {
            continue;
        }
        bool block = strcmp(operand->name, "step") == 0 || strcmp(operand->name, "control") == 0 ||
                     strcmp(operand->name, "result") == 0 || strcmp(operand->name, "blocks") == 0;
        const bool lengths = c->kernel == BP_KERNEL_weight_norms;
        const int64_t form = lengths ? s.weight_norms.form : s.matmul_quantised.form;
        const uint64_t elements =
            lengths ? (uint64_t)(s.weight_norms.rows * s.weight_norms.columns)
                    : (uint64_t)s.matmul_quantised.n * (uint64_t)s.matmul_quantised.k;
        bool codes = lengths || c->kernel == BP_KERNEL_matmul_quantised || is_transfer(c->kernel);
        if (codes && operand->type == BP_TYPE_BYTE) {
            fill_quantised(d, form, operand->name, at, c->bytes[slot], elements);
        } else if ((operand->type >= BP_TYPE_BYTE && !block) ||
                   (operand->type == BP_TYPE_WEIGHT && c->dtypes[slot] == BP_U8)) {
            fill_update_bytes(d, c->kernel, &s, operand->name, at);
        } else if (operand->type >= BP_TYPE_BYTE) {
            const int64_t blocks = c->kernel == BP_KERNEL_loss_tree ? s.loss_tree.lanes : 1;
            for (int64_t k = 0; k < blocks; k++) {
                fill_block(d, operand->name, (bp_result_block *)at + k);
            }
        } else if (operand->type == BP_TYPE_I32) {
            fill_integers(d, &s, c->kernel, operand->name, at, c->bytes[slot] / 4);
        } else if (operand->type == BP_TYPE_F64) {
            fill_doubles(d, at, c->bytes[slot] / 8);
        } else {
            bp_dtype dtype = operand->type == BP_TYPE_F32 ? BP_F32 : (bp_dtype)c->dtypes[slot];
            fill_floats(d, operand->name, at, dtype, c->bytes[slot] / bp_dtype_bytes(dtype));
        }
    }
}
