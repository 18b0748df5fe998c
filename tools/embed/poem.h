/* SPDX-License-Identifier: MIT */
/* What the examples train: a small GPT that learns the beginning of a poem byte by byte. */
#ifndef POEM_H
#define POEM_H

#include <bedplate.h>

/* What it learns, as bytes: the beginning of a poem by William Blake (1794). */
static const char text[] =
    "Tyger Tyger, burning bright,\nIn the forests of the night;\nWhat immortal hand or eye,\n"
    "Could frame thy fearful symmetry?\n\nIn what distant deeps or skies,\nBurnt the fire of "
    "thine eyes?\nOn what wings dare he aspire?\nWhat the hand, dare seize the fire?\n";

static bp_status read_text(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (unsigned char)text[first + i];
    }
    return BP_OK;
}

static const bp_transformer sizes = {
    .width = 32, .layers = 2, .heads = 4, .norm_epsilon = 1e-5, .initializer_range = 0.02};

static bp_spec spec = {
    .model = &bp_model_gpt2,
    .config = {.vocabulary = 128, .positions = 32},
    .optimizer = &bp_optimizer_adamw,
    .optimizer_options =
        {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .max_grad_norm = 1.0},
    .batch = 4,
    .sequence = 32,
    .accumulation = 1,
    .seed = 1,
};

/* The whole text, shuffled, one micro-batch a step. */
static inline bp_feed poem_feed(bp_source *source)
{
    *source = (bp_source){.name = "text", .count = sizeof text - 1, .read = read_text};
    return (bp_feed){.source = source,
                     .seed = spec.seed,
                     .sequence = spec.sequence,
                     .batch = spec.batch,
                     .group = spec.batch,
                     .vocabulary = spec.config.vocabulary,
                     .shuffle = true};
}

#endif
