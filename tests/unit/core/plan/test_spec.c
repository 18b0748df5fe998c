/* SPDX-License-Identifier: MIT */
/* What goes together in a spec: each refusal by the option it names, beside what is just allowed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/model.h"
#include "core/plan/optimizer.h"
#include "core/plan/spec.h"
#include "core/ir/device.h"
#include "core/plan/parts.h"

static bp_status accept_spec(const bp_spec *spec, bp_error *error)
{
    (void)spec;
    (void)error;
    return BP_OK;
}

static bp_status accept_options(const bp_optimizer *optimizer, const bp_optimizer_options *options,
                                bp_error *error)
{
    (void)optimizer;
    (void)options;
    (void)error;
    return BP_OK;
}

/* Inputs of a model that learns from pairs of rows and from packed documents. */
static uint32_t pair_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    (void)spec;
    rows[0] = (bp_input){.name = "sides", .from = BP_INPUT_PREFERENCES, .dtype = BP_I32};
    rows[1] = (bp_input){.name = "starts", .from = BP_INPUT_STARTS, .dtype = BP_I32};
    return 2;
}

static uint32_t no_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    (void)spec;
    (void)rows;
    return 0;
}

static const bp_model pairs = {.name = "pairs", .check = accept_spec, .inputs = pair_inputs};
static const bp_model plain = {.name = "plain", .check = accept_spec, .inputs = no_inputs};
static const bp_model any_model = {.name = "any", .check = accept_spec, .pads = true};
static const bp_model lanes = {.name = "lanes",
                               .check = accept_spec,
                               .pads = true,
                               .token_lanes = true,
                               .inputs = pair_inputs};
static const bp_model no_pads = {.name = "none", .check = accept_spec};
static const bp_optimizer folds = {.name = "folds", .folds = true, .check = accept_options};
static const bp_optimizer whole = {.name = "whole", .whole_tensors = true, .check = accept_options};
static const bp_optimizer rows_sum = {
    .name = "rows", .whole_tensors = true, .unit_sums = true, .check = accept_options};
static uint32_t thirty_two(const bp_device_options *options)
{
    (void)options;
    return 32;
}

static double half(const bp_optimizer_options *options)
{
    (void)options;
    return 0.5;
}

static const bp_optimizer averages = {.name = "mean", .average = half, .check = accept_options};
static const bp_device one_level = {.name = "one level"},
                       two_levels = {.name = "two", .tier = true},
                       aligned = {.name = "aligned", .alignment = thirty_two};
static const bp_scaling moving = {.kind = BP_SCALING_DYNAMIC,
                                  .initial = 65536.0,
                                  .growth = 2.0,
                                  .backoff = 0.5,
                                  .interval = 2000,
                                  .hysteresis = 1};
static const float weights[2] = {1.0f, 0.0f}, negative[2] = {1.0f, -1.0f};

static bp_spec good_spec(void)
{
    return (bp_spec){.model = &any_model,
                     .optimizer = &folds,
                     .config = {.vocabulary = 50257, .positions = 1024},
                     .device_options = {.threads = 2},
                     .batch = 4,
                     .sequence = 64,
                     .accumulation = 4,
                     .working = BP_F32,
                     .master = BP_MASTER_WEIGHT,
                     .gradient = BP_F32};
}

/* What lives in storage. */
static void offload(bp_spec *s)
{
    s->device = &two_levels;
    s->offload = (bp_offload){.bases = BP_OFFLOAD_ALL, .states = BP_OFFLOAD_ALL, .ahead = 16};
}

/* Two parts of a sample's tokens, on two ranks. */
static void parts(bp_spec *s)
{
    s->model = &lanes;
    s->device = &two_levels;
    s->config.task = BP_TASK_CAUSAL_LM;
    s->batch = 1;
    s->token_lanes = 2;
    s->ranks = s->sequence_ranks = 2;
}

/* What a loss over pairs takes. */
static void prefer(bp_spec *s)
{
    s->model = &pairs;
    s->preference = (bp_preference){
        .kind = BP_PREFERENCE_SIGMOID, .beta = 0.1, .desirable = 1.0, .undesirable = 1.0};
}

/* Vectors of two texts a row, learned. */
static void embed(bp_spec *s)
{
    s->config.task = BP_TASK_EMBEDDING;
    s->config.classes = 1;
    s->texts = 2;
    s->similarity = 20.0;
    s->eval_batch = 4;
}

typedef void (*change)(bp_spec *s);

/* CHANGE(name, what is changed in the good spec) */
#define CHANGE(name, ...)                                                                          \
    static void name(bp_spec *s)                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

CHANGE(nothing, (void)s;)
CHANGE(no_type, s->working = BP_DTYPE_COUNT;)
CHANGE(fp8, s->working = BP_BF16; s->master = BP_MASTER_SPLIT8; s->gradient = BP_BF16;
       s->weights = BP_WEIGHT_FP8;)
CHANGE(fp8_split, fp8(s); s->master = BP_MASTER_SPLIT;)
CHANGE(fp8_whole, fp8(s); s->master = BP_MASTER_FP32;)
CHANGE(fp8_single, s->weights = BP_WEIGHT_FP8;)
CHANGE(fp8_products, fp8(s); s->products = BP_PRODUCT_FP8;)
CHANGE(products_fp8, s->products = BP_PRODUCT_FP8;)
CHANGE(fp8_master, fp8(s); s->master = BP_MASTER_FP8;)
CHANGE(fp8_inference, s->weights = BP_WEIGHT_FP8; s->optimizer = NULL;)
CHANGE(fp8_lora, fp8(s); s->lora.rank = 8; s->lora.alpha = 8.0;)
CHANGE(fp8_shard, fp8(s); s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_GRADIENTS;)
CHANGE(fp8_ranks, fp8(s); s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_NONE;)
CHANGE(codes_of_fp8, s->quantised = BP_QUANTISED_FP8; s->lora.rank = 8; s->lora.alpha = 8.0;)
CHANGE(give_back, s->config.task = BP_TASK_RECONSTRUCTION; s->config.vocabulary = 0;
       s->config.classes = s->config.positions;)
CHANGE(give_back_words, give_back(s); s->config.vocabulary = 11;)
CHANGE(give_back_less, give_back(s); s->config.classes--;)
CHANGE(give_back_smooth, give_back(s); s->smoothing = 0.1;)
CHANGE(mean, s->optimizer = &averages;)
CHANGE(mean_fp8, fp8(s); mean(s);)
CHANGE(mean_ranks, mean(s); s->virtual_ranks = 4; s->ranks = 2;)
CHANGE(mean_shard, mean_ranks(s); s->sharing = BP_SHARING_OPTIMIZER;)
CHANGE(mean_offloaded, mean(s); offload(s); s->offload.bases = 0;)
CHANGE(align_64, s->device_options.alignment = 64;)
CHANGE(align_64_of_32, s->device = &aligned; s->device_options.alignment = 64;)
CHANGE(align_512, s->device = &aligned; s->device_options.alignment = 512;)
CHANGE(align_96, s->device = &aligned; s->device_options.alignment = 96;)
CHANGE(fp32_master, s->master = BP_MASTER_FP32;)
CHANGE(bf16, s->working = BP_BF16; s->master = BP_MASTER_SPLIT; s->gradient = BP_BF16;)
CHANGE(bf16_alone, s->working = BP_BF16;)
CHANGE(bf16_inference, s->working = BP_BF16; s->optimizer = NULL;)
CHANGE(fp16, s->working = BP_F16; s->master = BP_MASTER_FP32; s->scaling = moving;)
CHANGE(fp16_split, s->working = BP_F16; s->master = BP_MASTER_SPLIT; s->scaling = moving;)
CHANGE(fp16_unscaled, s->working = BP_F16; s->master = BP_MASTER_FP32;)
CHANGE(fp16_gradient, s->gradient = BP_F16;)
CHANGE(fp16_both, s->working = BP_F16; s->gradient = BP_F16; s->master = BP_MASTER_FP32;
       s->scaling = moving;)
CHANGE(scale, s->scaling = moving;)
CHANGE(scale_small, s->scaling = moving; s->scaling.initial = 5e-31;)
CHANGE(scale_zero, s->scaling = moving; s->scaling.initial = 0.0;)
CHANGE(scale_nan, s->scaling = moving; s->scaling.initial = (double)NAN;)
CHANGE(growth, s->scaling = moving; s->scaling.growth = 0.9;)
CHANGE(backoff, s->scaling = moving; s->scaling.backoff = 1.0;)
CHANGE(interval, s->scaling = moving; s->scaling.interval = 0;)
CHANGE(hysteresis, s->scaling = moving; s->scaling.hysteresis = 0;)
CHANGE(floor_negative, s->scaling = moving; s->scaling.floor = -1.0;)
CHANGE(lora, s->lora.rank = 4096; s->lora.alpha = 8.0;)
CHANGE(lora_rank, s->lora.rank = 4097; s->lora.alpha = 8.0;)
CHANGE(lora_alpha, s->lora.rank = 8;)
CHANGE(lora_dropout, s->lora.rank = 8; s->lora.alpha = 8.0; s->lora.dropout = 1.0;)
CHANGE(four_bits, s->quantised = BP_QUANTISED_NF4;)
CHANGE(eight_bits, s->quantised = BP_QUANTISED_INT8;)
CHANGE(qlora, s->quantised = BP_QUANTISED_NF4; s->lora.rank = 8; s->lora.alpha = 8.0;)
CHANGE(four_bits_inference, s->quantised = BP_QUANTISED_NF4; s->optimizer = NULL;)
static const bp_stored_weight in_order[] = {{"a", BP_QUANTISED_BLOCKS + 8},
                                            {"b", BP_QUANTISED_BLOCKS + 12}};
static const bp_stored_weight twice[] = {{"a", BP_QUANTISED_BLOCKS + 8},
                                         {"a", BP_QUANTISED_BLOCKS + 8}};
static const bp_stored_weight unknown[] = {{"c", BP_QUANTISED_BLOCKS + 9}};
static const bp_stored_weight bits[] = {{"d", BP_QUANTISED_NF4}};
CHANGE(packed, s->stored = in_order; s->stored_count = 2; s->lora.rank = 8; s->lora.alpha = 8.0;)
CHANGE(packed_inference, s->stored = in_order; s->stored_count = 2; s->optimizer = NULL;)
CHANGE(packed_alone, s->stored = in_order; s->stored_count = 2;)
CHANGE(packed_and_four, s->stored = in_order; s->stored_count = 2; s->optimizer = NULL;
       s->quantised = BP_QUANTISED_NF4;)
CHANGE(packed_twice, s->stored = twice; s->stored_count = 2; s->optimizer = NULL;)
CHANGE(packed_unknown, s->stored = unknown; s->stored_count = 1; s->optimizer = NULL;)
CHANGE(packed_bits, s->stored = bits; s->stored_count = 1; s->optimizer = NULL;)
CHANGE(packed_all, s->quantised = (bp_quantised)(BP_QUANTISED_BLOCKS + 8); s->optimizer = NULL;)
CHANGE(every_0, s->policy.kind = BP_POLICY_EVERY;)
CHANGE(every_1, s->policy.kind = BP_POLICY_EVERY; s->policy.every = 1;)
CHANGE(release_int8, s->gradient_release = BP_RELEASE_EXACT; s->gradient_int8 = true;)
CHANGE(release_scale, s->gradient_release = BP_RELEASE_PREVIOUS_NORM; s->scaling = moving;)
CHANGE(release_exact, s->gradient_release = BP_RELEASE_EXACT; s->scaling = moving;)
CHANGE(release_percentile, s->gradient_release = BP_RELEASE_PREVIOUS_NORM;
       s->optimizer_options.percentile = 5;)
CHANGE(release_norm, s->gradient_release = BP_RELEASE_PREVIOUS_NORM;
       s->optimizer_options.max_grad_norm = 1.0;)
CHANGE(adama, s->gradient_release = BP_RELEASE_ADAMA;)
CHANGE(adama_other, s->gradient_release = BP_RELEASE_ADAMA; s->optimizer = &whole;)
CHANGE(adama_norm, s->gradient_release = BP_RELEASE_ADAMA;
       s->optimizer_options.max_grad_norm = 1.0;)
CHANGE(release_inference, s->gradient_release = BP_RELEASE_ADAMA; s->optimizer = NULL;)
CHANGE(parts_two, parts(s);)
CHANGE(parts_alone, parts(s); s->ranks = s->sequence_ranks = 0; s->token_lanes = 8;)
CHANGE(parts_groups, parts(s); s->ranks = 4; s->virtual_ranks = 2;)
CHANGE(parts_3, parts(s); s->token_lanes = 3;)
CHANGE(parts_many, parts(s); s->token_lanes = 1024; s->virtual_ranks = 2; s->ranks = 4;)
CHANGE(parts_fewer, parts(s); s->token_lanes = 1;)
CHANGE(parts_of_3, parts(s); s->token_lanes = 4; s->ranks = s->sequence_ranks = 3;)
CHANGE(parts_ranks, parts(s); s->ranks = 3;)
CHANGE(parts_virtual, parts(s); s->virtual_ranks = 2;)
CHANGE(parts_batch, parts(s); s->batch = 2;)
CHANGE(parts_eval, parts(s); s->evaluate = true; s->eval_batch = 2;)
CHANGE(parts_eval_one, parts(s); s->evaluate = true;)
CHANGE(parts_odd, parts(s); s->sequence = 63;)
CHANGE(parts_model, parts(s); s->model = &any_model;)
CHANGE(parts_task, parts(s); s->config.task = BP_TASK_TOKENS; s->config.classes = 3;)
CHANGE(parts_pairs, parts(s); prefer(s); s->model = &lanes; s->batch = 2;)
CHANGE(parts_logits, parts(s); s->keep_logits = true;)
CHANGE(parts_noise, parts(s); s->noise = 0.1;)
CHANGE(parts_lengths, parts(s); s->length_count = 1; s->lengths[0] = 32;)
CHANGE(parts_release, parts(s); s->gradient_release = BP_RELEASE_EXACT;)
CHANGE(parts_int8, parts(s); s->gradient_int8 = true;)
CHANGE(parts_device, parts(s); s->device = &one_level;)
CHANGE(parts_offload, parts(s); s->ranks = s->sequence_ranks = 1; offload(s);
       s->offload.gradients = BP_OFFLOAD_ALL;)
CHANGE(parts_states, parts(s); s->ranks = s->sequence_ranks = 1; offload(s);)
CHANGE(lanes_3, s->virtual_ranks = 3;)
CHANGE(lanes_2048, s->virtual_ranks = 2048; s->accumulation = 2048;)
CHANGE(lanes_8, s->virtual_ranks = 8;)
CHANGE(lanes_4, s->virtual_ranks = 4; s->ranks = 2;)
CHANGE(virtual_ranks_int8, s->virtual_ranks = 4; s->gradient_int8 = true;)
CHANGE(virtual_ranks_adama, s->virtual_ranks = 4; s->gradient_release = BP_RELEASE_ADAMA;)
CHANGE(ranks_3, s->virtual_ranks = 4; s->ranks = 3;)
CHANGE(ranks_8, s->virtual_ranks = 4; s->ranks = 8;)
CHANGE(ranks_many, s->virtual_ranks = 4; s->ranks = UINT32_MAX;)
CHANGE(rank_2, s->virtual_ranks = 4; s->ranks = 2; s->rank = 2; s->sharing = BP_SHARING_GRADIENTS;)
CHANGE(rank_1, s->virtual_ranks = 4; s->ranks = 2; s->rank = 1; s->sharing = BP_SHARING_GRADIENTS;)
CHANGE(shard_whole, s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_GRADIENTS;
       s->optimizer = &whole;)
CHANGE(shard_alone, s->virtual_ranks = 4; s->ranks = 1; s->sharing = BP_SHARING_GRADIENTS;
       s->optimizer = &whole;)
CHANGE(shard_pair, s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_NONE;
       s->optimizer = &whole;)
CHANGE(smooth, s->smoothing = 0.1;)
CHANGE(noise, s->noise = 0.1;)
CHANGE(noise_negative, s->noise = -0.1;)
CHANGE(noise_numbers, s->noise = 0.1; s->config.vocabulary = 0;)
CHANGE(smooth_1, s->smoothing = 1.0;)
CHANGE(smooth_nan, s->smoothing = (double)NAN;)
CHANGE(smooth_regression, s->smoothing = 0.1; s->config.task = BP_TASK_REGRESSION;
       s->config.classes = 1;)
CHANGE(smooth_labels, s->smoothing = 0.1; s->config.task = BP_TASK_LABELS; s->config.classes = 3;)
CHANGE(smooth_vectors, embed(s); s->smoothing = 0.1;)
CHANGE(slots, s->generate_context = 8; s->generate_regions = 2; s->generate_prompt = 7;)
CHANGE(slots_many, s->generate_context = 8; s->generate_regions = 4097; s->generate_prompt = 7;)
CHANGE(slots_full, s->generate_context = 8; s->generate_regions = 2; s->generate_prompt = 8;)
CHANGE(slots_empty, s->generate_context = 8; s->generate_regions = 2;)
CHANGE(slots_none, s->generate_context = 8; s->generate_prompt = 7;)
CHANGE(between, s->between_bytes = (uint64_t)1 << 62;)
CHANGE(between_much, s->between_bytes = ((uint64_t)1 << 62) + 1;)
CHANGE(policy, s->policy_temperature = 1000.0; s->generate_context = 8;)
CHANGE(policy_negative, s->policy_temperature = -0.1;)
CHANGE(policy_hot, s->policy_temperature = 1000.1;)
CHANGE(policy_nan, s->policy_temperature = (double)NAN;)
CHANGE(policy_smooth, s->policy_temperature = 1.0; s->smoothing = 0.1;)
CHANGE(policy_prefers, prefer(s); s->policy_temperature = 1.0;)
CHANGE(policy_classes, s->policy_temperature = 1.0; s->config.task = BP_TASK_CLASSES;
       s->config.classes = 2;)
CHANGE(prefers, prefer(s);)
CHANGE(prefer_plain, prefer(s); s->model = &plain;)
CHANGE(prefer_writes, prefer(s); s->generate_context = 8;)
CHANGE(prefer_odd, prefer(s); s->batch = 3; s->eval_batch = 4;)
CHANGE(prefer_odd_eval, prefer(s); s->eval_batch = 3;)
CHANGE(prefer_smooth, prefer(s); s->smoothing = 0.1;)
CHANGE(prefer_weighs, prefer(s); s->class_weights = weights; s->config.task = BP_TASK_CLASSES;
       s->config.classes = 2;)
CHANGE(prefer_beta, prefer(s); s->preference.beta = 0.0;)
CHANGE(prefer_noise, prefer(s); s->preference.smoothing = 0.5;)
CHANGE(prefer_gamma, prefer(s); s->preference.gamma = -1.0;)
CHANGE(prefer_nll, prefer(s); s->preference.nll = -1.0;)
CHANGE(prefer_good, prefer(s); s->preference.desirable = -1.0;)
CHANGE(prefer_bad, prefer(s); s->preference.undesirable = (double)NAN;)
CHANGE(distill_many, s->distill.top_k = s->config.vocabulary + 1;)
CHANGE(packs, s->model = &pairs; s->packed = true;)
CHANGE(pack_plain, s->model = &plain; s->packed = true;)
CHANGE(pack_writes, s->model = &pairs; s->packed = true; s->generate_context = 8;)
CHANGE(embeds, embed(s);)
CHANGE(embed_one, embed(s); s->texts = 1;)
CHANGE(embed_reads, embed(s); s->texts = 1; s->optimizer = NULL;)
CHANGE(embed_compares, embed(s); s->optimizer = NULL;)
CHANGE(embed_ranks, embed(s); s->ranks = 2;)
CHANGE(embed_odd, embed(s); s->batch = 5;)
CHANGE(embed_odd_eval, embed(s); s->eval_batch = 5;)
CHANGE(embed_scale, embed(s); s->similarity = 0.0;)
CHANGE(embed_virtual_ranks, embed(s); s->virtual_ranks = 4;)
CHANGE(embed_two_virtual_ranks, embed(s); s->virtual_ranks = 2;)
CHANGE(embed_release, embed(s); s->gradient_release = BP_RELEASE_EXACT;)
CHANGE(embed_release_one, embed(s); s->gradient_release = BP_RELEASE_EXACT; s->accumulation = 1;)
CHANGE(weigh, s->class_weights = weights; s->config.task = BP_TASK_CLASSES; s->config.classes = 2;)
CHANGE(weigh_tokens, s->class_weights = weights; s->config.task = BP_TASK_TOKENS;
       s->config.classes = 2;)
CHANGE(weigh_words, s->class_weights = weights;)
CHANGE(weigh_negative, s->class_weights = negative; s->config.task = BP_TASK_CLASSES;
       s->config.classes = 2;)
CHANGE(classes_none, s->config.task = BP_TASK_CLASSES;)
CHANGE(classes_many, s->config.task = BP_TASK_CLASSES; s->config.classes = 1025;)
CHANGE(labels_many, s->config.task = BP_TASK_LABELS; s->config.classes = 33;)
CHANGE(answers_3, s->config.task = BP_TASK_ANSWERS; s->config.classes = 3;)
CHANGE(answers_2, s->config.task = BP_TASK_ANSWERS; s->config.classes = 2;)
CHANGE(lengths, s->length_count = 2; s->lengths[0] = 16; s->lengths[1] = 32;)
CHANGE(lengths_fall, s->length_count = 2; s->lengths[0] = 32; s->lengths[1] = 32;)
CHANGE(lengths_whole, s->length_count = 1; s->lengths[0] = 64;)
CHANGE(lengths_many, s->length_count = BP_LENGTH_BUCKETS_MAX + 1;)
CHANGE(rows_many, s->batch = 1u << 20; s->sequence = 1024; s->accumulation = 4;)
CHANGE(eval_many, s->eval_batch = UINT32_MAX;)
CHANGE(loss_rows, s->loss_rows = 257;)
CHANGE(prefill_many, s->prefill_rows = 1u << 30;)
CHANGE(sequences, s->generate_sequences = 4096;)
CHANGE(offloads, offload(s);)
CHANGE(offload_bases, offload(s); s->offload.states = 0; s->optimizer = &whole;)
CHANGE(offload_states, offload(s); s->offload.bases = 0;)
CHANGE(offload_bases_65, offload(s); s->offload.bases = 65;)
CHANGE(offload_states_65, offload(s); s->offload.states = 65;)
CHANGE(offload_checkpoints, offload(s); s->offload.checkpoints = 1;)
CHANGE(offload_checkpoints_lengths, offload(s); s->offload.checkpoints = 1; s->length_count = 1;
       s->lengths[0] = 16;)
CHANGE(offload_checkpoints_host, offload(s); s->offload.checkpoints = 1; s->offload.host = true;)
CHANGE(offload_parts_17, offload(s); s->offload.part_count = BP_OFFLOAD_PARTS + 1;)
CHANGE(offload_weights_65, offload(s); s->offload.weights = 65;)
CHANGE(offload_gradients, offload(s); s->offload.gradients = BP_OFFLOAD_ALL;)
CHANGE(offload_gradients_65, offload(s); s->offload.gradients = 65;)
CHANGE(offload_gradients_alone, offload(s); s->offload.states = 0; s->offload.gradients = 1;)
CHANGE(offload_weights_no_tier, offload(s); s->offload.bases = s->offload.states = 0;
       s->offload.weights = 1; s->device = &one_level;)
CHANGE(offload_ahead_17, offload(s); s->offload.ahead = 17;)
CHANGE(offload_whole, offload(s); s->optimizer = &whole;)
CHANGE(offload_inference, offload(s); s->optimizer = NULL;)
CHANGE(offload_no_tier, offload(s); s->device = &one_level;)
CHANGE(offload_host, offload(s); s->offload.host = true; s->device = &one_level;)
CHANGE(offload_none, s->device = &one_level;)
CHANGE(offload_fixed, s->device = &two_levels; s->offload.fixed = true; s->ranks = 1;)
CHANGE(offload_fixed_ranks, s->device = &two_levels; s->offload.fixed = true; s->virtual_ranks = 4;
       s->ranks = 2;)
CHANGE(offload_fixed_rows, static const uint32_t token = 1; s->device = &two_levels;
       s->offload.fixed = true; s->lora.tokens = &token; s->lora.token_count = 1;)
CHANGE(offload_ranks, offload(s); s->virtual_ranks = 4; s->ranks = 2;)
CHANGE(shard_rows, s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_GRADIENTS;
       s->optimizer = &rows_sum;)
CHANGE(shard_ahead_4, s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_GRADIENTS;
       s->gather_ahead = 4;)
CHANGE(shard_ahead_5, s->virtual_ranks = 4; s->ranks = 2; s->sharing = BP_SHARING_GRADIENTS;
       s->gather_ahead = 5;)
CHANGE(fp16_inference, s->working = BP_F16; s->optimizer = NULL;)
CHANGE(scale_infinite, s->scaling = moving; s->scaling.initial = (double)INFINITY;)
CHANGE(scale_fixed, s->scaling.kind = BP_SCALING_STATIC; s->scaling.initial = 8.0;)
CHANGE(growth_infinite, s->scaling = moving; s->scaling.growth = (double)INFINITY;)
CHANGE(growth_1, s->scaling = moving; s->scaling.growth = 1.0;)
CHANGE(backoff_zero, s->scaling = moving; s->scaling.backoff = 0.0;)
CHANGE(interval_1, s->scaling = moving; s->scaling.interval = 1;)
CHANGE(floor_nan, s->scaling = moving; s->scaling.floor = (double)NAN;)
CHANGE(lora_alpha_most, s->lora.rank = 8; s->lora.alpha = 1e9;)
CHANGE(lora_dropout_negative, s->lora.rank = 8; s->lora.alpha = 8.0; s->lora.dropout = -0.1;)
CHANGE(noise_nan, s->noise = (double)NAN;)
CHANGE(prefer_beta_most, prefer(s); s->preference.beta = 1e9;)
CHANGE(prefer_noise_negative, prefer(s); s->preference.smoothing = -0.1;)
CHANGE(embed_scale_most, embed(s); s->similarity = 1e6;)
CHANGE(embed_virtual_rank_ranks, embed(s); s->virtual_ranks = 4; s->ranks = 2;)
CHANGE(classes_1024, s->config.task = BP_TASK_CLASSES; s->config.classes = 1024;)
CHANGE(labels_32, s->config.task = BP_TASK_LABELS; s->config.classes = 32;)
CHANGE(answers_1, s->config.task = BP_TASK_ANSWERS; s->config.classes = 1;)
CHANGE(embed_most, embed(s); s->config.classes = 1u << 20;)
CHANGE(embed_beyond, embed(s); s->config.classes = (1u << 20) + 1;)
CHANGE(words_many, s->config.vocabulary = (uint32_t)INT32_MAX + 1;)
CHANGE(loss_rows_all, s->loss_rows = 256;)
CHANGE(sequences_beyond, s->generate_sequences = 4097;)
CHANGE(threads_none, s->device_options.threads = 0;)
CHANGE(threads_many, s->device_options.threads = BP_THREADS_MAX + 1;)
CHANGE(context_most, s->generate_context = 1024;)
CHANGE(context_beyond, s->generate_context = 1025;)
CHANGE(longer, s->sequence = 1025;)
CHANGE(lengths_next, s->length_count = 1; s->lengths[0] = 63;)
CHANGE(lengths_zero, s->length_count = 1;)
CHANGE(lanes_1024, s->virtual_ranks = 1024; s->accumulation = 1024;)
CHANGE(sequences_padless, s->generate_sequences = 2; s->model = &no_pads;)

static const struct {
    change change;
    const char *option; /* NULL: it goes */
} rows[] = {
    {nothing, NULL},
    {no_type, "bf16"},
    {fp32_master, "master"},
    {bf16, NULL},
    {bf16_alone, "master"},
    {bf16_inference, NULL},
    {fp16, NULL},
    {fp16_split, "master"},
    {fp8, NULL},
    {fp8_split, NULL},
    {fp8_whole, "weight-dtype"},
    {fp8_single, "weight-dtype"},
    {fp8_master, "master"},
    {fp8_products, "product-dtype"},
    {products_fp8, NULL},
    {give_back, NULL},
    {give_back_words, "task"},
    {give_back_less, "task"},
    {give_back_smooth, "label-smoothing-factor"},
    {mean, NULL},
    {mean_fp8, "weight-dtype"},
    {mean_ranks, NULL},
    {mean_shard, "shard"},
    {mean_offloaded, "offload"},
    {align_64, "alignment"},
    {align_64_of_32, NULL},
    {align_512, "alignment"},
    {align_96, "alignment"},
    {fp8_inference, NULL},
    {fp8_lora, "weight-dtype"},
    {fp8_shard, "weight-dtype"},
    {fp8_ranks, NULL},
    {codes_of_fp8, "load-in-4bit"},
    {fp16_unscaled, "loss-scale"},
    {fp16_gradient, "gradient-dtype"},
    {fp16_both, NULL},
    {scale, NULL},
    {scale_small, "loss-scale"},
    {scale_zero, "loss-scale"},
    {scale_nan, "loss-scale"},
    {growth, "loss-scale"},
    {backoff, "loss-scale"},
    {interval, "loss-scale"},
    {hysteresis, "loss-scale"},
    {floor_negative, "loss-scale"},
    {lora, NULL},
    {lora_rank, "lora-r"},
    {lora_alpha, "lora-alpha"},
    {lora_dropout, "lora-alpha"},
    {four_bits, "load-in-4bit"},
    {eight_bits, "load-in-8bit"},
    {qlora, NULL},
    {four_bits_inference, NULL},
    {packed, NULL},
    {packed_inference, NULL},
    {packed_alone, "stored"},
    {packed_and_four, "stored"},
    {packed_twice, "a"},
    {packed_unknown, "c"},
    {packed_bits, "d"},
    {packed_all, "load-in-4bit"},
    {every_0, "gradient-checkpointing"},
    {every_1, NULL},
    {release_int8, "gradient-dtype"},
    {release_scale, "gradient-release"},
    {release_exact, NULL},
    {release_percentile, "gradient-release"},
    {release_norm, NULL},
    {adama, NULL},
    {adama_other, "gradient-release"},
    {adama_norm, "gradient-release"},
    {release_inference, NULL},
    {parts_two, NULL},
    {parts_alone, NULL},
    {parts_groups, NULL},
    {parts_3, "virtual-sequence-ranks"},
    {parts_many, "virtual-sequence-ranks"},
    {parts_fewer, "sequence-ranks"},
    {parts_of_3, "sequence-ranks"},
    {parts_ranks, "sequence-ranks"},
    {parts_virtual, "virtual-ranks"},
    {parts_batch, "per-device-train-batch-size"},
    {parts_eval, "per-device-eval-batch-size"},
    {parts_eval_one, NULL},
    {parts_odd, "max-seq-length"},
    {parts_model, "model"},
    {parts_task, "task"},
    {parts_pairs, "task"},
    {parts_logits, "token-accuracy"},
    {parts_noise, "neftune-noise-alpha"},
    {parts_lengths, "length-buckets"},
    {parts_release, "gradient-release"},
    {parts_int8, "virtual-ranks"},
    {parts_device, "device"},
    {parts_offload, "offload-what"},
    {parts_states, NULL},
    {lanes_3, "virtual-ranks"},
    {lanes_2048, "virtual-ranks"},
    {lanes_8, "gradient-accumulation-steps"},
    {lanes_4, NULL},
    {virtual_ranks_int8, "virtual-ranks"},
    {virtual_ranks_adama, "virtual-ranks"},
    {ranks_3, "ranks"},
    {ranks_8, "virtual-ranks"},
    {ranks_many, "virtual-ranks"},
    {rank_2, "rank"},
    {rank_1, NULL},
    {shard_whole, "shard"},
    {shard_alone, NULL},
    {shard_pair, NULL},
    {smooth, NULL},
    {noise, NULL},
    {noise_negative, "neftune-noise-alpha"},
    {noise_numbers, "neftune-noise-alpha"},
    {slots, NULL},
    {slots_many, "generate-regions"},
    {slots_full, "generate-prompt"},
    {slots_empty, "generate-prompt"},
    {slots_none, "generate-prompt"},
    {between, NULL},
    {between_much, "between-bytes"},
    {policy, NULL},
    {policy_negative, "temperature"},
    {policy_hot, "temperature"},
    {policy_nan, "temperature"},
    {policy_smooth, "temperature"},
    {policy_prefers, "temperature"},
    {policy_classes, "temperature"},
    {smooth_1, "label-smoothing-factor"},
    {smooth_nan, "label-smoothing-factor"},
    {smooth_regression, "label-smoothing-factor"},
    {smooth_labels, "label-smoothing-factor"},
    {smooth_vectors, "label-smoothing-factor"},
    {prefers, NULL},
    {prefer_plain, "task"},
    {prefer_writes, "task"},
    {prefer_odd, "per-device-train-batch-size"},
    {prefer_odd_eval, "per-device-train-batch-size"},
    {prefer_smooth, "label-smoothing-factor"},
    {prefer_weighs, "label-smoothing-factor"},
    {prefer_beta, "beta"},
    {prefer_noise, "beta"},
    {prefer_gamma, "simpo-gamma"},
    {prefer_nll, "simpo-gamma"},
    {prefer_good, "simpo-gamma"},
    {prefer_bad, "simpo-gamma"},
    {packs, NULL},
    {pack_plain, "packing"},
    {pack_writes, "packing"},
    {embeds, NULL},
    {embed_one, "task"},
    {embed_reads, NULL},
    {embed_compares, NULL},
    {embed_ranks, "virtual-ranks"},
    {embed_odd, "per-device-train-batch-size"},
    {embed_odd_eval, "per-device-train-batch-size"},
    {embed_scale, "scale"},
    {embed_virtual_ranks, "virtual-ranks"},
    {embed_two_virtual_ranks, "virtual-ranks"},
    {embed_release, "gradient-release"},
    {embed_release_one, NULL},
    {weigh, NULL},
    {weigh_tokens, NULL},
    {weigh_words, "class-weights"},
    {weigh_negative, "class-weights"},
    {classes_none, "num-labels"},
    {classes_many, "num-labels"},
    {labels_many, "num-labels"},
    {answers_3, "num-labels"},
    {answers_2, NULL},
    {lengths, NULL},
    {lengths_fall, "length-buckets"},
    {lengths_whole, "length-buckets"},
    {lengths_many, "length-buckets"},
    {rows_many, "gradient-accumulation-steps"},
    {eval_many, "per-device-eval-batch-size"},
    {loss_rows, "loss-chunk-rows"},
    {prefill_many, "prefill-rows"},
    {sequences, NULL},
    {sequences_padless, "num-return-sequences"},
    {offloads, NULL},
    {offload_bases, NULL},
    {offload_states, NULL},
    {offload_bases_65, "offload"},
    {offload_states_65, "offload"},
    {offload_fixed, NULL},
    {offload_fixed_ranks, "offload"},
    {offload_fixed_rows, "offload"},
    {offload_checkpoints, NULL},
    {offload_checkpoints_lengths, "offload"},
    {offload_checkpoints_host, "offload"},
    {offload_parts_17, "offload"},
    {offload_weights_65, "offload"},
    {offload_gradients, NULL},
    {offload_gradients_65, "offload"},
    {offload_gradients_alone, "offload"},
    {offload_weights_no_tier, "offload"},
    {offload_ahead_17, "offload"},
    {offload_whole, "offload"},
    {offload_inference, NULL},
    {offload_no_tier, "offload"},
    {offload_host, NULL},
    {offload_none, NULL},
    {offload_ranks, "offload"},
    {shard_rows, NULL},
    {shard_ahead_4, NULL},
    {shard_ahead_5, "shard-ahead"},
    {fp16_inference, NULL},
    {scale_infinite, "loss-scale"},
    {scale_fixed, NULL},
    {growth_infinite, "loss-scale"},
    {growth_1, NULL},
    {backoff_zero, "loss-scale"},
    {interval_1, NULL},
    {floor_nan, "loss-scale"},
    {lora_alpha_most, "lora-alpha"},
    {lora_dropout_negative, "lora-alpha"},
    {noise_nan, "neftune-noise-alpha"},
    {prefer_beta_most, "beta"},
    {prefer_noise_negative, "beta"},
    {embed_scale_most, "scale"},
    {embed_virtual_rank_ranks, "virtual-ranks"},
    {classes_1024, NULL},
    {labels_32, NULL},
    {answers_1, "num-labels"},
    {embed_most, NULL},
    {embed_beyond, "num-labels"},
    {words_many, "vocab_size"},
    {loss_rows_all, NULL},
    {sequences_beyond, "num-return-sequences"},
    {threads_none, "threads"},
    {threads_many, "threads"},
    {context_most, NULL},
    {context_beyond, "generate-context"},
    {longer, "max-seq-length"},
    {lengths_next, NULL},
    {lengths_zero, "length-buckets"},
    {lanes_1024, NULL},
    {distill_many, "distill-top-k"},
};

/* verifies compile-1.aa19 */
static void what_does_not_go_together_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        bp_spec spec = good_spec();
        rows[i].change(&spec);
        const bp_status status = bp_spec_check(&spec, &error);
        if (status != (rows[i].option == NULL ? BP_OK : BP_ERR_USAGE) ||
            (rows[i].option != NULL && strcmp(error.name, rows[i].option) != 0)) {
            fail_msg("row %zu, wanted %s: %s: %s", i, rows[i].option, error.name, error.text);
        }
    }
}

/* What follows from a spec without a word of it. */
static void what_is_not_said_follows(void **state)
{
    (void)state;
    bp_spec spec = good_spec();
    assert_false(bp_spec_needs_norm(&spec));
    spec.optimizer_options.percentile = 5;
    assert_true(bp_spec_needs_norm(&spec));
    spec.optimizer_options.percentile = 0;
    spec.optimizer_options.max_grad_norm = 1.0;
    assert_true(bp_spec_needs_norm(&spec));
    spec.optimizer_options.max_grad_norm = 0.0;
    spec.scaling = moving;
    assert_true(bp_spec_needs_norm(&spec));
    spec.gradient_release = BP_RELEASE_PREVIOUS_NORM;
    assert_false(bp_spec_needs_norm(&spec));
    assert_true(bp_spec_whole_group(&spec));
    assert_int_equal(bp_spec_eval_batch(&spec), 4);
    spec.eval_batch = 9;
    assert_int_equal(bp_spec_eval_batch(&spec), 9);
    assert_int_equal(bp_spec_decode_rows(&spec), 1);
    spec.generate_sequences = 3;
    assert_int_equal(bp_spec_decode_rows(&spec), 3);
    spec.ranks = 4; /* of one lane */
    assert_int_equal(bp_spec_ranks(&spec), 1);
    spec.token_lanes = 8;
    spec.sequence_ranks = 2;
    spec.virtual_ranks = 2;
    spec.rank = 3;
    assert_int_equal(bp_spec_leaves(&spec), 16);
    assert_int_equal(bp_spec_ranks(&spec), 4);
    assert_int_equal(bp_spec_data_ranks(&spec), 2);
    assert_int_equal(bp_spec_data_rank(&spec), 1);
    assert_int_equal(bp_spec_sequence_rank(&spec), 1);
    assert_int_equal(bp_spec_rank_tokens(&spec), 32);
    assert_int_equal(bp_spec_lane_tokens(&spec), 8);
    spec.token_lanes = spec.sequence_ranks = spec.virtual_ranks = spec.rank = 0;
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
    spec.config.vocabulary = 0; /* no outputs, no chunks */
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
    spec.config.vocabulary = INT32_MAX; /* the least chunk */
    assert_int_equal(bp_spec_loss_rows(&spec), 64);
    spec.config.task = BP_TASK_TOKENS;
    spec.config.classes = 5;
    assert_int_equal(bp_spec_loss_rows(&spec), 256);
}

/* As the head of bp_spec has it. */
static void zeros_are_sound(void **state)
{
    (void)state;
    const bp_spec good = good_spec();
    const bp_spec spec = {.model = good.model,
                          .config = good.config,
                          .device = good.device,
                          .device_options = {.threads = 1},
                          .batch = 1,
                          .sequence = 1,
                          .accumulation = 1};
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_together_is_named),
        cmocka_unit_test(what_is_not_said_follows),
        cmocka_unit_test(zeros_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
