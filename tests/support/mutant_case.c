/* SPDX-License-Identifier: MIT */
/* The cases. */
#include "tests/support/mutant_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/bert.h"
#include "layers/cnn.h"
#include "layers/gpt2.h"
#include "layers/image.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/modernbert.h"
#include "layers/neox.h"
#include "layers/rnn.h"
#include "layers/vit.h"
#include "tests/support/config.h"

enum { TOKENS = 131, SAMPLES = 13, INPUTS = 5, IMAGE = 6 * 5 * 2, VOCABULARY = 37 };

static int32_t tokens[TOKENS];
static float numbers[SAMPLES * IMAGE];

static bp_spec gpt2_spec(void)
{
    bp_spec spec = rig_spec();
    SET_OWN(&spec.config, bp_transformer, width, 8);
    return spec;
}

static bp_spec llama_spec(void)
{
    bp_spec spec = gpt2_spec();
    spec.model = &bp_model_llama;
    SET_OWN(&spec.config, bp_transformer, inner, 12);
    SET_OWN(&spec.config, bp_transformer, heads, 4);
    SET_OWN(&spec.config, bp_llama_config, kv_heads, 2);
    SET_OWN(&spec.config, bp_llama_config, rope_theta, 100.0);
    SET_OWN(&spec.config, bp_llama_config, rope_scaling,
            (bp_rope_scaling){.factor = 4.0, .low = 1.0, .high = 4.0, .original = 8});
    return spec;
}

/* Computed as Llama is, with biases, here also with a head of its own. */
static bp_spec qwen2_spec(void)
{
    bp_spec spec = llama_spec();
    SET_OWN(&spec.config, bp_llama_config, rope_scaling,
            (bp_rope_scaling){.factor = 0.0, .low = 0.0, .high = 0.0, .original = 0});
    SET_OWN(&spec.config, bp_llama_config, qkv_bias, true);
    SET_OWN(&spec.config, bp_transformer, untied, true);
    return spec;
}

static bp_spec gemma_spec(void)
{
    bp_spec spec = llama_spec();
    SET_OWN(&spec.config, bp_llama_config, norm_offset, true);
    SET_OWN(&spec.config, bp_llama_config, gate, BP_GATE_GELU_TANH);
    SET_OWN(&spec.config, bp_llama_config, embedding_scale, 3.0);
    SET_OWN(&spec.config, bp_llama_config, head_width, 6);
    return spec;
}

static bp_spec unscaled_spec(void)
{
    bp_spec spec = llama_spec();
    SET_OWN(&spec.config, bp_llama_config, rope_scaling,
            (bp_rope_scaling){.factor = 0.0, .low = 0.0, .high = 0.0, .original = 0});
    return spec;
}

/* Every layer through a window. */
static bp_spec mistral_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, window, 4);
    SET_OWN(&spec.config, bp_transformer, untied, true);
    return spec;
}

/* Four norms, of heads too, caps, and two kinds of layers. */
static bp_spec gemma3_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, norm_offset, true);
    SET_OWN(&spec.config, bp_llama_config, gate, BP_GATE_GELU_TANH);
    SET_OWN(&spec.config, bp_llama_config, norms, BP_LLAMA_NORMS_BOTH);
    SET_OWN(&spec.config, bp_llama_config, head_norms, true);
    SET_OWN(&spec.config, bp_llama_config, window, 4);
    SET_OWN(&spec.config, bp_llama_config, near, (bp_layer_set){.bits = {1}, .listed = 2});
    SET_OWN(&spec.config, bp_llama_config, near_theta, 50.0);
    SET_OWN(&spec.config, bp_llama_config, attention_cap, 20.0);
    SET_OWN(&spec.config, bp_llama_config, logit_cap, 10.0);
    return spec;
}

/* One weight for three products, another for two; a part of each head turns. */
static bp_spec phi3_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, fused, true);
    SET_OWN(&spec.config, bp_llama_config, head_width, 4);
    SET_OWN(&spec.config, bp_llama_config, rotary_share, 0.5);
    return spec;
}

static bp_spec olmo2_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, norms, BP_LLAMA_NORMS_AFTER);
    SET_OWN(&spec.config, bp_llama_config, whole_norms, true);
    SET_OWN(&spec.config, bp_transformer, untied, true);
    return spec;
}

static bp_spec smollm3_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, still, (bp_layer_set){.bits = {2}, .listed = 2});
    return spec;
}

static bp_spec granite_spec(void)
{
    bp_spec spec = unscaled_spec();
    SET_OWN(&spec.config, bp_llama_config, residual_scale, 0.5);
    SET_OWN(&spec.config, bp_llama_config, embedding_scale, 2.0);
    SET_OWN(&spec.config, bp_llama_config, logit_divisor, 2.0);
    return spec;
}

static bp_spec neox_spec(void)
{
    bp_spec spec = gpt2_spec();
    spec.model = &bp_model_neox;
    SET_OWN(&spec.config, bp_transformer, inner, 12);
    SET_OWN(&spec.config, bp_transformer, heads, 2);
    SET_OWN(&spec.config, bp_llama_config, rope_theta, 100.0);
    SET_OWN(&spec.config, bp_llama_config, rotary_share, 0.5);
    SET_OWN(&spec.config, bp_llama_config, qkv_bias, true);
    SET_OWN(&spec.config, bp_neox_config, parallel, true);
    SET_OWN(&spec.config, bp_transformer, untied, true);
    return spec;
}

static bp_spec bert_spec(void)
{
    bp_spec spec = gpt2_spec();
    spec.model = &bp_model_bert;
    SET_OWN(&spec.config, bp_transformer, inner, 12);
    SET_OWN(&spec.config, bp_bert_config, types, 2);
    spec.config.task = BP_TASK_MASKED_LM;
    return spec;
}

static bp_spec bert_pairs_spec(void)
{
    bp_spec spec = bert_spec();
    SET_OWN(&spec.config, bp_bert_config, classifier_dropout, 0.3);
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 3;
    spec.pairs = true;
    return spec;
}

static bp_spec roberta_spec(void)
{
    bp_spec spec = bert_spec();
    SET_OWN(&spec.config, bp_bert_config, kind, BP_ROBERTA);
    SET_OWN(&spec.config, bp_bert_config, types, 1);
    SET_OWN(&spec.config, bp_bert_config, position_first, 2);
    SET_OWN(&spec.config, bp_bert_config, position_rows, spec.config.positions + 2);
    return spec;
}

static bp_spec distilbert_spec(void)
{
    bp_spec spec = bert_spec();
    SET_OWN(&spec.config, bp_bert_config, kind, BP_DISTILBERT);
    SET_OWN(&spec.config, bp_bert_config, types, 0);
    return spec;
}

static bp_spec electra_spec(void)
{
    bp_spec spec = bert_spec();
    SET_OWN(&spec.config, bp_bert_config, kind, BP_ELECTRA);
    SET_OWN(&spec.config, bp_bert_config, embedding, 6);
    return spec;
}

static bp_spec modernbert_spec(void)
{
    bp_spec spec = gpt2_spec();
    spec.model = &bp_model_modernbert;
    SET_OWN(&spec.config, bp_transformer, inner, 12);
    SET_OWN(&spec.config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec.config, bp_llama_config, near_theta, 100.0);
    SET_OWN(&spec.config, bp_llama_config, window, 4);
    SET_OWN(&spec.config, bp_llama_config, near, (bp_layer_set){.bits = {2}, .listed = 2});
    SET_OWN(&spec.config, bp_modernbert_config, mlp_dropout, 0.2);
    SET_OWN(&spec.config, bp_modernbert_config, classifier_dropout, 0.3);
    spec.config.task = BP_TASK_TOKENS;
    spec.config.classes = 3;
    return spec;
}

static bp_spec mlp_spec(void)
{
    bp_spec spec = rig_spec();
    spec.model = &bp_model_mlp;
    spec.config =
        config_with((bp_model_config){.positions = INPUTS, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_mlp_config, .width = 6, .layers = 3, .activation = BP_ACTIVATION_TANH,
                        .dropout = 0.2));
    SET_OWN(&spec.config, bp_mlp_config, hidden_sizes[1], 9);
    spec.sequence = INPUTS;
    spec.batch = 4;
    return spec;
}

static bp_spec cnn_spec(void)
{
    bp_spec spec = rig_spec();
    spec.model = &bp_model_cnn;
    spec.config =
        config_with((bp_model_config){.positions = IMAGE, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_cnn_config, .height = 6, .width = 5, .channels = 2, .layers = 4,
                        .epsilon = 1e-5, .momentum = 0.1,
                        .layer = {{BP_CNN_CONV, {3, 2}, {1, 1}, BP_PADDING_HALF, 0, 0, 3},
                                  {BP_CNN_SEPARABLE, {3, 3}, {2, 1}, BP_PADDING_SAME, 0, 0, 4},
                                  {BP_CNN_BASIC, {0, 0}, {2, 2}, BP_PADDING_HALF, 0, 0, 5},
                                  {BP_CNN_MAX_POOL, {2, 2}, {1, 1}, 1, 0, 0, 0}}));
    spec.sequence = spec.config.positions;
    spec.batch = 3;
    return spec;
}

static bp_spec resnet_spec(void)
{
    bp_spec spec = cnn_spec();
    spec.config = config_with(
        (bp_model_config){.positions = 72, .task = BP_TASK_CLASSES, .classes = 3},
        OWN(bp_cnn_config, .height = 6, .width = 6, .channels = 2,
            .resnet = {
                .embedding_size = 3, .hidden_sizes = {4, 8}, .depths = {1, 1}, .bottleneck = 1}));
    spec.sequence = spec.config.positions;
    return spec;
}

static bp_spec vit_spec(void)
{
    bp_spec spec = rig_spec();
    spec.model = &bp_model_vit;
    spec.config =
        config_with((bp_model_config){.positions = 72, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_vit_config,
                        .stack = {.width = 8,
                                  .layers = 2,
                                  .heads = 2,
                                  .inner = 12,
                                  .norm_epsilon = 1e-12,
                                  .initializer_range = 0.3,
                                  .embedding_dropout = 0.1,
                                  .residual_dropout = 0.2,
                                  .attention_dropout = 0.1},
                        .image = 6, .channels = 2, .patch = 3));
    spec.sequence = spec.config.positions;
    spec.batch = 3;
    return spec;
}

static bp_spec rnn_spec(bp_cell cell)
{
    bp_spec spec = rig_spec();
    spec.model = &bp_model_rnn;
    spec.config =
        config_with((bp_model_config){.vocabulary = VOCABULARY, .positions = 64},
                    OWN(bp_rnn_config, .width = 5, .embedding = 6, .layers = 2, .untied = true,
                        .initializer_range = 0.5, .cell = cell, .chunks = 3));
    spec.batch = 3;
    spec.sequence = 8;
    return spec;
}

static bp_spec gru_spec(void)
{
    return rnn_spec(BP_CELL_GRU);
}

static bp_spec lstm_spec(void)
{
    return rnn_spec(BP_CELL_LSTM);
}

/* MobileNetV2's nets have 19 layers, of ops that cnn and resnet have: mutants of them would be most
 * of all. */
static const struct {
    const char *name;
    bp_spec (*spec)(void);
    bool attends; /* a transformer; it can have adapters of dense layers and products in fp8 */
    bool generates;
    const char *target; /* its convolutions that have adapters; or none */
} families[] = {
    {"gpt2", gpt2_spec, true, true, NULL},
    {"llama", llama_spec, true, true, NULL},
    {"qwen2", qwen2_spec, true, true, NULL},
    {"mistral", mistral_spec, true, true, NULL},
    {"gemma", gemma_spec, true, true, NULL},
    {"gemma3", gemma3_spec, true, true, NULL},
    {"phi3", phi3_spec, true, true, NULL},
    {"olmo2", olmo2_spec, true, true, NULL},
    {"smollm3", smollm3_spec, true, true, NULL},
    {"granite", granite_spec, true, true, NULL},
    {"neox", neox_spec, true, true, NULL},
    {"bert", bert_spec, true, false, NULL},
    {"roberta", roberta_spec, true, false, NULL},
    {"distilbert", distilbert_spec, true, false, NULL},
    {"electra", electra_spec, true, false, NULL},
    {"modernbert", modernbert_spec, true, false, NULL},
    {"bert pairs", bert_pairs_spec, true, false, NULL},
    {"mlp", mlp_spec, false, false, NULL},
    {"cnn", cnn_spec, false, false, "layer.1.convolution"},
    {"resnet", resnet_spec, false, false, "convolution"},
    {"vit", vit_spec, false, false, "projection"},
    {"rnn gru", gru_spec, false, true, NULL},
    {"rnn lstm", lstm_spec, false, true, NULL},
};

static const uint32_t listed[] = {1};
static const char *adapted[] = {"all-linear"};

static void add_adapters(bp_spec *spec)
{
    spec->lora =
        (bp_lora){.rank = 2, .alpha = 4.0, .dropout = 0.1, .targets = adapted, .target_count = 1};
}

enum option {
    OPTION_PLAIN,
    OPTION_WHOLE, /* with evaluation and generation */
    OPTION_ACCUMULATION,
    OPTION_RELEASE,
    OPTION_RELEASE_ACCUMULATION,
    OPTION_ADAPTERS,
    OPTION_QUANTISED,
    OPTION_PRODUCTS, /* in fp8 */
    OPTION_FULL,
    OPTION_MEMORY_POOR,
    OPTION_EVERY,
    OPTION_SQRT,
    OPTION_LIST,
    OPTION_NORM,
    OPTION_ACTIVATION,
    OPTION_ATTENTION,
    OPTION_ALL,
    OPTIONS
};

static const char *const option_names[OPTIONS] = {"plain",
                                                  "eval and decode",
                                                  "accumulation",
                                                  "release",
                                                  "release of a group",
                                                  "adapters",
                                                  "quantised",
                                                  "products in fp8",
                                                  "full",
                                                  "memory-poor",
                                                  "every:2",
                                                  "sqrt",
                                                  "list:1",
                                                  "selective:norm",
                                                  "selective:activation",
                                                  "selective:attention",
                                                  "selective:all"};

static void choose(enum option option, bool generates, bp_spec *spec)
{
    static const bp_policy policies[OPTIONS] = {
        [OPTION_FULL] = {.kind = BP_POLICY_FULL},
        [OPTION_MEMORY_POOR] = {.kind = BP_POLICY_MEMORY_POOR},
        [OPTION_EVERY] = {.kind = BP_POLICY_EVERY, .every = 2},
        [OPTION_SQRT] = {.kind = BP_POLICY_SQRT},
        [OPTION_LIST] = {.kind = BP_POLICY_LIST, .list = listed, .list_count = 1},
        [OPTION_NORM] = {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM},
        [OPTION_ACTIVATION] = {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ACTIVATION},
        [OPTION_ATTENTION] = {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ATTENTION},
        [OPTION_ALL] = {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    spec->policy = policies[option];
    if (option == OPTION_WHOLE) {
        spec->evaluate = true;
        spec->keep_logits = spec->model != &bp_model_rnn;
        spec->generate_context = generates ? 9 : 0;
        spec->prefill_rows = 4;
        spec->optimizer_options.max_grad_norm = 0.5;
    }
    if (option == OPTION_ACCUMULATION || option == OPTION_RELEASE_ACCUMULATION) {
        spec->accumulation = 3;
        spec->batch = 1;
    }
    if (option == OPTION_RELEASE || option == OPTION_RELEASE_ACCUMULATION) {
        spec->gradient_release = BP_RELEASE_EXACT;
        spec->optimizer_options.max_grad_norm = option == OPTION_RELEASE ? 0.5 : 0.0;
    }
    if (option == OPTION_ADAPTERS || option == OPTION_QUANTISED) {
        add_adapters(spec);
    }
    if (option == OPTION_QUANTISED) {
        spec->quantised = BP_QUANTISED_NF4;
    }
    if (option == OPTION_PRODUCTS) {
        spec->products = BP_PRODUCT_FP8;
        spec->products_from = 1;
    }
}

uint32_t mutant_family_count(void)
{
    return (uint32_t)(sizeof families / sizeof families[0]);
}

uint32_t mutant_option_count(void)
{
    return OPTIONS;
}

bool mutant_case_get(uint32_t family, uint32_t option, const bp_device *device, mutant_case *out)
{
    *out = (mutant_case){families[family].name, option_names[option], families[family].spec()};
    const bool blocks =
        option == OPTION_ADAPTERS || option == OPTION_QUANTISED || option == OPTION_PRODUCTS;
    const bool convolves = option == OPTION_ADAPTERS && families[family].target != NULL;
    if (blocks && !families[family].attends && !convolves) {
        return false;
    }
    adapted[0] = convolves ? families[family].target : "all-linear";
    out->spec.device = device;
    if (families[family].attends) {
        SET_OWN(&out->spec.config, bp_transformer, embedding_dropout, 0.1);
        SET_OWN(&out->spec.config, bp_transformer, residual_dropout, 0.2);
        SET_OWN(&out->spec.config, bp_transformer, attention_dropout, 0.15);
    }
    choose((enum option)option, families[family].generates, &out->spec);
    out->spec.loss_rows = out->spec.config.task < BP_TASK_CLASSES ? 7 : 0;
    return true;
}

static bp_status read_numbers(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, numbers + first, n * sizeof *to);
    return BP_OK;
}

/* Samples of 1 to 10 tokens, or one row of numbers, of three classes. */
static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const mutant_case *c = source->context;
    const bool rows = c->spec.config.vocabulary == 0;
    const uint32_t each = c->spec.config.positions;
    *to = rows ? (bp_example){.first = index * each, .count = each, .label = index % 3}
               : (bp_example){.first = index * 10, .count = 2 + index * 7 % 9, .label = index % 3};
    to->second = c->spec.pairs ? 1 + index % 2 : 0;
    return BP_OK;
}

/* Of tokens the first of a sample has the sample's class, the others none. */
static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (first + i) % 10 == 0 ? (int32_t)((first + i) / 10 % 3) : -1;
    }
    return BP_OK;
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static void make_data(void)
{
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % VOCABULARY;
    }
    for (int32_t i = 0; i < SAMPLES * IMAGE; i++) {
        numbers[i] = (float)(i * i % 17) / 8.0f - 1.0f;
    }
}

void mutant_case_open(const mutant_case *c, rig *r)
{
    const bool rows = c->spec.config.vocabulary == 0;
    bp_error error = {.code = BP_OK};
    make_data();
    if (bp_spec_check(&c->spec, &error) != BP_OK) {
        fail_msg("%s, %s: %s: %s", c->family, c->option, error.text, error.name);
    }
    rig_open(r, &c->spec, rows ? NULL : tokens, rows ? 1000 : TOKENS);
    r->source.context = (void *)(uintptr_t)c;
    r->source.read = rows ? read_numbers : read_tokens;
    r->source.count = rows ? (uint64_t)SAMPLES * c->spec.config.positions : TOKENS;
    if (c->spec.config.task != BP_TASK_CAUSAL_LM) {
        r->source.examples = SAMPLES;
        r->source.example = example;
        r->source.labels = read_labels;
        r->feed.classes = c->spec.config.classes;
        r->feed.kind = bp_feed_labels(c->spec.config.task);
        r->feed.masking = (bp_masking){0.4, VOCABULARY - 1, {-1, -1, -1, -1}};
    }
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}
