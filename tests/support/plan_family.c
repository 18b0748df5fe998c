/* SPDX-License-Identifier: MIT */
/* Families of models beyond those of spec_case.h. */
#include "tests/support/plan_family.h"

#include "layers/bert.h"
#include "layers/cnn.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/modernbert.h"
#include "layers/neox.h"
#include "layers/rnn.h"
#include "layers/vit.h"
#include "tests/support/config.h"

static void gpt2(bp_spec *spec)
{
    (void)spec; /* rig_spec's */
}

void plan_llama(bp_spec *spec)
{
    spec->model = &bp_model_llama;
    SET_OWN(&spec->config, bp_transformer, heads, 4);
    SET_OWN(&spec->config, bp_llama_config, kv_heads, 2);
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_transformer, untied, true);
}

/* Norms behind the sublayers, and of queries and keys over all heads (OLMo 2). */
static void norms_after(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, norms, BP_LLAMA_NORMS_AFTER);
    SET_OWN(&spec->config, bp_llama_config, whole_norms, true);
}

/* Two kinds of layers (Gemma 3). */
static void near_and_far(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, norms, BP_LLAMA_NORMS_BOTH);
    SET_OWN(&spec->config, bp_llama_config, head_norms, true);
    SET_OWN(&spec->config, bp_llama_config, window, 4);
    SET_OWN(&spec->config, bp_llama_config, near, (bp_layer_set){.bits = {1}, .listed = 2});
    SET_OWN(&spec->config, bp_llama_config, near_theta, 100.0);
    SET_OWN(&spec->config, bp_llama_config, attention_cap, 50.0);
    SET_OWN(&spec->config, bp_llama_config, logit_cap, 30.0);
}

/* All layers look through the window, with and without angles of their own. */
static void all_near(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, window, 4);
}

static void all_near_turned(bp_spec *spec)
{
    all_near(spec);
    SET_OWN(&spec->config, bp_llama_config, near_theta, 100.0);
}

/* What a sublayer adds is made smaller, larger, or left (Granite). */
static void smaller(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, residual_scale, 0.5);
    SET_OWN(&spec->config, bp_llama_config, embedding_scale, 0.5);
    SET_OWN(&spec->config, bp_llama_config, logit_divisor, 2.0);
}

static void larger(bp_spec *spec)
{
    smaller(spec);
    SET_OWN(&spec->config, bp_llama_config, residual_scale, 2.0);
    SET_OWN(&spec->config, bp_llama_config, logit_divisor, 0.5);
}

static void as_large(bp_spec *spec)
{
    smaller(spec);
    SET_OWN(&spec->config, bp_llama_config, residual_scale, 1.0);
    SET_OWN(&spec->config, bp_llama_config, logit_divisor, 1.0);
    SET_OWN(&spec->config, bp_llama_config, embedding_scale, 1.0);
}

/* One weight for three products (Phi-3), which has no biases. */
static void fused(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, fused, true);
}

static void fused_biased(bp_spec *spec)
{
    fused(spec);
    SET_OWN(&spec->config, bp_llama_config, qkv_bias, true);
    SET_OWN(&spec->config, bp_llama_config, output_bias, true);
    SET_OWN(&spec->config, bp_llama_config, mlp_bias, true);
}

static void still(bp_spec *spec)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, still, (bp_layer_set){.bits = {2}, .listed = 2});
}

static void scaled_by(bp_spec *spec, uint32_t kind)
{
    plan_llama(spec);
    SET_OWN(&spec->config, bp_llama_config, rope_scaling,
            (bp_rope_scaling){.factor = 4.0, .low = 1.0, .high = 4.0, .original = 8, .kind = kind});
}

static void by_wavelength(bp_spec *spec)
{
    scaled_by(spec, BP_ROPE_LLAMA3);
}

static void by_factor(bp_spec *spec)
{
    scaled_by(spec, BP_ROPE_LINEAR);
}

static void by_ramp(bp_spec *spec)
{
    scaled_by(spec, BP_ROPE_YARN);
}

static void unbiased_neox(bp_spec *spec)
{
    spec->model = &bp_model_neox;
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_transformer, untied, true);
}

static void bert(bp_spec *spec)
{
    spec->model = &bp_model_bert;
    SET_OWN(&spec->config, bp_bert_config, types, 2);
    spec->config.task = BP_TASK_MASKED_LM;
}

static void roberta(bp_spec *spec)
{
    bert(spec);
    SET_OWN(&spec->config, bp_bert_config, kind, BP_ROBERTA);
    SET_OWN(&spec->config, bp_bert_config, types, 1);
    SET_OWN(&spec->config, bp_bert_config, position_first, 2);
    SET_OWN(&spec->config, bp_bert_config, position_rows, spec->config.positions + 2);
}

static void distilbert(bp_spec *spec)
{
    bert(spec);
    SET_OWN(&spec->config, bp_bert_config, kind, BP_DISTILBERT);
    SET_OWN(&spec->config, bp_bert_config, types, 0);
}

static void electra(bp_spec *spec)
{
    bert(spec);
    SET_OWN(&spec->config, bp_bert_config, kind, BP_ELECTRA);
    SET_OWN(&spec->config, bp_bert_config, embedding, 8);
}

static void modernbert(bp_spec *spec)
{
    spec->model = &bp_model_modernbert;
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_llama_config, near_theta, 100.0);
    SET_OWN(&spec->config, bp_llama_config, window, 4);
    spec->config.task = BP_TASK_MASKED_LM;
}

/* Rows of numbers, with deviations that follow from the layers' sizes. */
void plan_dense(bp_spec *spec)
{
    spec->model = &bp_model_mlp;
    spec->config = config_with(
        (bp_model_config){.positions = spec->sequence, .task = BP_TASK_CLASSES, .classes = 3},
        OWN(bp_mlp_config, .width = 16, .layers = 2, .activation = BP_ACTIVATION_RELU));
}

static void dense_tanh(bp_spec *spec)
{
    plan_dense(spec);
    SET_OWN(&spec->config, bp_mlp_config, activation, BP_ACTIVATION_TANH);
}

static void images(bp_spec *spec)
{
    spec->model = &bp_model_cnn;
    spec->config =
        config_with((bp_model_config){.positions = 60, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_cnn_config, .height = 6, .width = 5, .channels = 2, .layers = 6,
                        .epsilon = 1e-5, .momentum = 0.1,
                        .layer = {{BP_CNN_CONV, {1, 1}, {1, 1}, 0, 1, 0, 3},
                                  {BP_CNN_SEPARABLE, {3, 3}, {1, 1}, 255, 0, 0, 4},
                                  {BP_CNN_BOTTLENECK, {0, 0}, {1, 2}, 1, 0, 0, 4},
                                  {BP_CNN_MAX_POOL, {2, 2}, {1, 1}, 1, 0, 0, 0},
                                  {BP_CNN_CONV, {1, 1}, {1, 1}, 0, 0, 1, 2},
                                  {BP_CNN_CONV, {1, 2}, {1, 1}, 0, 0, 0, 2}}));
    spec->sequence = spec->config.positions;
    spec->batch = 3;
}

static void resnet(bp_spec *spec)
{
    images(spec);
    spec->config = config_with(
        spec->config,
        OWN(bp_cnn_config, .height = 6, .width = 5, .channels = 2,
            .resnet = {
                .embedding_size = 3, .hidden_sizes = {4, 8}, .depths = {1, 1}, .bottleneck = 1}));
}

static void mobilenet(bp_spec *spec)
{
    images(spec);
    spec->config = config_with(spec->config, OWN(bp_cnn_config, .height = 6, .width = 5,
                                                 .channels = 2, .epsilon = 1e-3, .momentum = 0.1,
                                                 .mobilenet = {.multiplier = 0.05,
                                                               .expansion = 1.5,
                                                               .divisor = 2,
                                                               .least = 2,
                                                               .stride = 32,
                                                               .expands = true,
                                                               .scaled = true}));
}

static void patches(bp_spec *spec)
{
    images(spec);
    spec->model = &bp_model_vit;
    spec->config =
        config_with((bp_model_config){.positions = 50, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_vit_config,
                        .stack = {.width = 16,
                                  .layers = 2,
                                  .heads = 2,
                                  .inner = 24,
                                  .norm_epsilon = 1e-12,
                                  .initializer_range = 0.3},
                        .image = 5, .channels = 2, .patch = 2));
    spec->sequence = spec->config.positions;
}

static void recurrent(bp_spec *spec)
{
    spec->model = &bp_model_rnn;
    spec->config = config_with(spec->config, OWN(bp_rnn_config, .width = 16, .layers = 2,
                                                 .chunks = 3, .initializer_range = 0.1));
}

static void (*const families[])(bp_spec *spec) = {
    gpt2,       plan_llama, norms_after,   near_and_far, all_near,  all_near_turned,
    smaller,    larger,     as_large,      fused,        still,     by_wavelength,
    by_factor,  by_ramp,    unbiased_neox, bert,         roberta,   distilbert,
    modernbert, plan_dense, dense_tanh,    images,       recurrent, fused_biased,
    electra,    resnet,     mobilenet,     patches,
};
#define FAMILIES (sizeof families / sizeof families[0])

uint32_t plan_family_count(void)
{
    return FAMILIES;
}

void plan_family(uint32_t index, bp_spec *spec)
{
    families[index](spec);
}
