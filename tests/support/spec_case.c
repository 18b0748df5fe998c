/* SPDX-License-Identifier: MIT */
/* Families times options. */
#include "tests/support/spec_case.h"

#include <stdio.h>

#include "layers/bert.h"
#include "layers/gpt2.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/modernbert.h"
#include "layers/neox.h"
#include "layers/rnn.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "tests/support/rig.h"

static void gpt2(bp_spec *spec)
{
    (void)spec; /* rig_spec's */
}

static void llama(bp_spec *spec)
{
    spec->model = &bp_model_llama;
    SET_OWN(&spec->config, bp_transformer, heads, 4);
    SET_OWN(&spec->config, bp_llama_config, kv_heads, 2);
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_transformer, untied, true);
}

static void qwen2(bp_spec *spec)
{
    llama(spec);
    SET_OWN(&spec->config, bp_llama_config, qkv_bias, true);
    SET_OWN(&spec->config, bp_transformer, untied, false);
}

/* Norms of heads, whose width is not their share of the model's. */
static void qwen3(bp_spec *spec)
{
    llama(spec);
    SET_OWN(&spec->config, bp_llama_config, head_norms, true);
    SET_OWN(&spec->config, bp_llama_config, head_width, 6);
    SET_OWN(&spec->config, bp_transformer, untied, false);
}

/* Norms about 1, scaled embeddings, another gate (Gemma). */
static void gemma(bp_spec *spec)
{
    llama(spec);
    SET_OWN(&spec->config, bp_llama_config, norm_offset, true);
    SET_OWN(&spec->config, bp_llama_config, gate, BP_GATE_GELU_TANH);
    SET_OWN(&spec->config, bp_llama_config, embedding_scale, 4.0);
    SET_OWN(&spec->config, bp_llama_config, head_width, 6);
    SET_OWN(&spec->config, bp_transformer, untied, false);
}

/* Heads that turn in part, both sublayers beside each other. */
static void neox(bp_spec *spec)
{
    spec->model = &bp_model_neox;
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_llama_config, rotary_share, 0.5);
    SET_OWN(&spec->config, bp_llama_config, qkv_bias, true);
    SET_OWN(&spec->config, bp_neox_config, parallel, true);
    SET_OWN(&spec->config, bp_transformer, untied, true);
}

static void bert(bp_spec *spec)
{
    spec->model = &bp_model_bert;
    SET_OWN(&spec->config, bp_bert_config, types, 2);
    spec->config.task = BP_TASK_MASKED_LM;
}

/* Embeddings of another width than the blocks'. */
static void electra(bp_spec *spec)
{
    bert(spec);
    SET_OWN(&spec->config, bp_bert_config, kind, BP_ELECTRA);
    SET_OWN(&spec->config, bp_bert_config, embedding, 6);
}

/* Norms without bias, every other layer looks at its neighbours. */
static void modernbert(bp_spec *spec)
{
    spec->model = &bp_model_modernbert;
    SET_OWN(&spec->config, bp_llama_config, rope_theta, 1e4);
    SET_OWN(&spec->config, bp_llama_config, near_theta, 100.0);
    SET_OWN(&spec->config, bp_llama_config, window, 4);
    SET_OWN(&spec->config, bp_llama_config, near, (bp_layer_set){.bits = {2}, .listed = 2});
    spec->config.task = BP_TASK_MASKED_LM;
}

static void mlp(bp_spec *spec)
{
    spec->model = &bp_model_mlp;
    spec->config = config_with(
        (bp_model_config){.positions = spec->sequence, .task = BP_TASK_CLASSES, .classes = 3},
        OWN(bp_mlp_config, .width = 16, .layers = 2, .hidden_sizes = {7},
            .initializer_range = 0.1));
}

static void rnn(bp_spec *spec)
{
    spec->model = &bp_model_rnn;
    spec->config =
        config_with(spec->config, OWN(bp_rnn_config, .width = 16, .layers = 2, .embedding = 6,
                                      .untied = true, .chunks = 3, .initializer_range = 0.1));
}

static const struct {
    const char *name;
    void (*make)(bp_spec *spec);
} families[] = {{"gpt2", gpt2},   {"llama", llama},     {"qwen2", qwen2},
                {"qwen3", qwen3}, {"gemma", gemma},     {"neox", neox},
                {"bert", bert},   {"electra", electra}, {"modernbert", modernbert},
                {"mlp", mlp},     {"rnn", rnn}};

static void plain(bp_spec *spec)
{
    (void)spec;
}

static void pairs(bp_spec *spec)
{
    spec->pairs = true;
}

static void task(bp_spec *spec, bp_task task, uint32_t classes)
{
    spec->config.task = task;
    spec->config.classes = classes;
}

static void classes(bp_spec *spec)
{
    task(spec, BP_TASK_CLASSES, 3);
}

static void class_pairs(bp_spec *spec)
{
    classes(spec);
    pairs(spec);
}

static void labels(bp_spec *spec)
{
    task(spec, BP_TASK_LABELS, 5);
    if (spec->model == &bp_model_modernbert) { /* of the mean of all tokens */
        SET_OWN(&spec->config, bp_modernbert_config, pooling, 1);
    }
}

static void regression(bp_spec *spec)
{
    task(spec, BP_TASK_REGRESSION, 1);
}

static void tokens(bp_spec *spec)
{
    task(spec, BP_TASK_TOKENS, 5);
    if (spec->model == &bp_model_bert) {
        SET_OWN(&spec->config, bp_bert_config, classifier_dropout, 0.1);
    }
    if (spec->model == &bp_model_modernbert) {
        SET_OWN(&spec->config, bp_modernbert_config, classifier_dropout, 0.1);
    }
}

static void answers(bp_spec *spec)
{
    task(spec, BP_TASK_ANSWERS, 2);
    pairs(spec);
}

static void gru_or_lstm(bp_spec *spec)
{
    if (spec->model == &bp_model_rnn) {
        SET_OWN(&spec->config, bp_rnn_config, cell, BP_CELL_LSTM);
    }
}

static void deeper(bp_spec *spec)
{
    if (spec->model == &bp_model_rnn) {
        SET_OWN(&spec->config, bp_rnn_config, layers, 4);
    } else if (spec->model == &bp_model_mlp) {
        SET_OWN(&spec->config, bp_mlp_config, layers, 4);
    } else {
        SET_OWN(&spec->config, bp_transformer, layers, 4);
    }
}

static void dropout(bp_spec *spec)
{
    if (spec->model == &bp_model_rnn) {
        SET_OWN(&spec->config, bp_rnn_config, dropout, 0.1);
        return;
    }
    if (spec->model == &bp_model_mlp) {
        SET_OWN(&spec->config, bp_mlp_config, dropout, 0.1);
        return;
    }
    SET_OWN(&spec->config, bp_transformer, embedding_dropout, 0.1);
    SET_OWN(&spec->config, bp_transformer, residual_dropout, 0.1);
    SET_OWN(&spec->config, bp_transformer, attention_dropout, 0.1);
    if (spec->model == &bp_model_bert) {
        SET_OWN(&spec->config, bp_bert_config, classifier_dropout, 0.1);
    }
    if (spec->model == &bp_model_modernbert) {
        SET_OWN(&spec->config, bp_modernbert_config, classifier_dropout, 0.1);
        SET_OWN(&spec->config, bp_modernbert_config, mlp_dropout, 0.1);
    }
}

static void other_tying(bp_spec *spec)
{
    if (spec->model == &bp_model_rnn) {
        SET_OWN(&spec->config, bp_rnn_config, untied, !bp_rnn_config_of(&spec->config).untied);
        SET_OWN(&spec->config, bp_rnn_config, embedding, 0);
    } else if (spec->model != &bp_model_mlp) {
        SET_OWN(&spec->config, bp_transformer, untied, !bp_transformer_of(&spec->config).untied);
    }
}

static void biased(bp_spec *spec)
{
    if (spec->model == &bp_model_llama) {
        SET_OWN(&spec->config, bp_llama_config, qkv_bias, true);
        SET_OWN(&spec->config, bp_llama_config, output_bias, true);
        SET_OWN(&spec->config, bp_llama_config, mlp_bias, true);
    }
}

static void chunks(bp_spec *spec)
{
    spec->loss_rows = 7;
}

static void grouped(bp_spec *spec)
{
    spec->accumulation = 3;
}

static void released(bp_spec *spec)
{
    spec->gradient_release = BP_RELEASE_EXACT;
}

static void released_clipped(bp_spec *spec)
{
    released(spec);
    spec->accumulation = 2;
    spec->optimizer_options.max_grad_norm = 1.0;
}

static void released_previous(bp_spec *spec)
{
    spec->gradient_release = BP_RELEASE_PREVIOUS_NORM;
    spec->accumulation = 2;
    spec->optimizer_options.max_grad_norm = 1.0;
}

static void released_adama(bp_spec *spec)
{
    spec->gradient_release = BP_RELEASE_ADAMA;
    spec->accumulation = 3;
}

static void released_whole(bp_spec *spec)
{
    released(spec);
    spec->optimizer = &bp_optimizer_lamb;
}

static void half(bp_spec *spec)
{
    spec->working = BP_BF16;
    spec->gradient = BP_BF16;
    spec->master = BP_MASTER_SPLIT8;
}

static void scaled(bp_spec *spec)
{
    spec->working = BP_F16;
    spec->gradient = BP_F32;
    spec->master = BP_MASTER_FP32;
    spec->scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                 .initial = 1024.0,
                                 .growth = 2.0,
                                 .backoff = 0.5,
                                 .interval = 10,
                                 .hysteresis = 1};
}

static void eight_bits(bp_spec *spec)
{
    spec->optimizer = &bp_optimizer_adamw_8bit;
}

static void summed(bp_spec *spec)
{
    spec->gradient_int8 = true;
    spec->accumulation = 2;
}

static void summed_whole(bp_spec *spec)
{
    spec->gradient_int8 = true;
    spec->optimizer = &bp_optimizer_lamb;
}

static void eighths(bp_spec *spec)
{
    half(spec);
    spec->weights = BP_WEIGHT_FP8;
}

static void eighths_released(bp_spec *spec)
{
    released_clipped(spec);
    eighths(spec);
}

static void taped(bp_spec *spec)
{
    half(spec);
    spec->tape = BP_TAPE_FP8;
}

static void taped_released(bp_spec *spec)
{
    released_clipped(spec);
    spec->tape = BP_TAPE_FP8;
}

static void narrowed(bp_spec *spec)
{
    spec->products = BP_PRODUCT_FP8;
    spec->products_from = 1;
}

static void narrowed_released(bp_spec *spec)
{
    released_clipped(spec);
    half(spec);
    narrowed(spec);
}

static void adapters(bp_spec *spec)
{
    static const char *const all[] = {"all-linear"};
    spec->lora =
        (bp_lora){.rank = 2, .alpha = 4.0, .dropout = 0.1, .targets = all, .target_count = 1};
}

static void adapters_grouped(bp_spec *spec)
{
    adapters(spec);
    grouped(spec);
    spec->lora.dropout = 0.0;
}

static void adapters_released(bp_spec *spec)
{
    adapters(spec);
    released_clipped(spec);
}

static void adapters_of_codes(bp_spec *spec)
{
    adapters(spec);
    spec->quantised = BP_QUANTISED_NF4;
}

static void adapters_of_bytes(bp_spec *spec)
{
    adapters(spec);
    spec->quantised = BP_QUANTISED_INT8;
}

/* The lowest tables or layers stay as they are. */
static void frozen(bp_spec *spec)
{
    static const bp_parameter_rule rules[] = {{.glob = "*w?e*", .kind = BP_RULE_FREEZE},
                                              {.glob = "*embed*", .kind = BP_RULE_FREEZE},
                                              {.glob = "*.0.*", .kind = BP_RULE_FREEZE},
                                              {.glob = "*_l0", .kind = BP_RULE_FREEZE}};
    const uint32_t rule = spec->model == &bp_model_gpt2  ? 0
                          : spec->model == &bp_model_mlp ? 2
                          : spec->model == &bp_model_rnn ? 3
                                                         : 1;
    spec->rules = &rules[rule];
    spec->rule_count = 1;
}

static void all_programs(bp_spec *spec)
{
    spec->evaluate = true;
    spec->keep_logits = spec->model != &bp_model_rnn;
    const bool writes = spec->config.task == BP_TASK_CAUSAL_LM;
    spec->generate_context = writes ? spec->config.positions : 0;
    spec->prefill_rows = 4;
}

static void forward_only(bp_spec *spec)
{
    all_programs(spec);
    spec->optimizer = NULL;
}

static const struct {
    const char *name;
    void (*change)(bp_spec *spec);
} options[] = {{"plain", plain},
               {"pairs", pairs},
               {"classes", classes},
               {"classes-pairs", class_pairs},
               {"labels", labels},
               {"regression", regression},
               {"tokens", tokens},
               {"answers", answers},
               {"other-cell", gru_or_lstm},
               {"deeper", deeper},
               {"dropout", dropout},
               {"other-tying", other_tying},
               {"biased", biased},
               {"chunks", chunks},
               {"grouped", grouped},
               {"released", released},
               {"released-clipped", released_clipped},
               {"released-previous", released_previous},
               {"released-adama", released_adama},
               {"released-whole", released_whole},
               {"bf16", half},
               {"fp16", scaled},
               {"adamw8bit", eight_bits},
               {"summed", summed},
               {"summed-whole", summed_whole},
               {"weights-fp8", eighths},
               {"weights-fp8-released", eighths_released},
               {"tape-fp8", taped},
               {"tape-fp8-released", taped_released},
               {"products-fp8", narrowed},
               {"products-fp8-released", narrowed_released},
               {"lora", adapters},
               {"lora-grouped", adapters_grouped},
               {"lora-released", adapters_released},
               {"lora-nf4", adapters_of_codes},
               {"lora-int8", adapters_of_bytes},
               {"frozen", frozen},
               {"all-programs", all_programs},
               {"forward-only", forward_only}};

#define FAMILIES (sizeof families / sizeof families[0])
#define OPTIONS  (sizeof options / sizeof options[0])

uint32_t spec_case_count(void)
{
    return FAMILIES * OPTIONS;
}

bool spec_case(uint32_t index, bp_spec *spec, char name[SPEC_CASE_NAME])
{
    const uint32_t family = index / OPTIONS, option = index % OPTIONS;
    *spec = rig_spec();
    families[family].make(spec);
    options[option].change(spec);
    snprintf(name, SPEC_CASE_NAME, "%s %s", families[family].name, options[option].name);
    return bp_spec_check(spec, NULL) == BP_OK;
}
