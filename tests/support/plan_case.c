/* SPDX-License-Identifier: MIT */
/* Options beyond those of spec_case.h, with each family. */
#include "tests/support/plan_case.h"

#include <stdio.h>

#include "layers/bert.h"
#include "layers/rnn.h"
#include "layers/vit.h"
#include "tests/support/plan_family.h"
#include "tests/support/rig.h"

typedef void change(bp_spec *spec);

static void plain(bp_spec *spec)
{
    (void)spec;
}

static void all_programs(bp_spec *spec)
{
    const bool writes = spec->config.task == BP_TASK_CAUSAL_LM;
    spec->evaluate = true;
    spec->keep_logits = spec->model != &bp_model_rnn;
    spec->generate_context = writes ? spec->config.positions : 0;
    spec->prefill_rows = 4;
}

void plan_classes(bp_spec *spec)
{
    spec->config.task = BP_TASK_CLASSES;
    spec->config.classes = 3;
}

static void weighted_classes(bp_spec *spec)
{
    static const float weights[] = {1.0f, 2.0f, 0.5f};
    plan_classes(spec);
    spec->class_weights = weights;
    spec->smoothing = 0.1;
}

static void weighted_tokens(bp_spec *spec)
{
    weighted_classes(spec);
    spec->config.task = BP_TASK_TOKENS;
    spec->smoothing = 0.0;
}

static void dropped_classes(bp_spec *spec)
{
    plan_classes(spec);
    if (spec->model == &bp_model_bert) {
        SET_OWN(&spec->config, bp_bert_config, classifier_dropout, 0.1);
    }
}

static void answers_with_padding(bp_spec *spec)
{
    spec->config.task = BP_TASK_ANSWERS;
    spec->config.classes = 2;
    spec->config.pad_token = 3;
}

static void answers_padded_beyond(bp_spec *spec)
{
    answers_with_padding(spec);
    spec->config.pad_token = spec->config.vocabulary;
}

static void answers_without_padding(bp_spec *spec)
{
    answers_with_padding(spec);
    spec->config.pad_token = -1;
}

static void classes_released(bp_spec *spec)
{
    plan_classes(spec);
    spec->gradient_release = BP_RELEASE_EXACT;
    spec->accumulation = 2;
}

static void given_back(bp_spec *spec)
{
    spec->config.task = BP_TASK_RECONSTRUCTION;
    spec->config.classes = spec->config.positions;
}

static void vectors(bp_spec *spec)
{
    spec->config.task = BP_TASK_EMBEDDING;
    spec->config.classes = 16;
    spec->config.pooling = BP_POOLING_MEAN;
    all_programs(spec);
}

static void compared(bp_spec *spec)
{
    vectors(spec);
    spec->texts = 2;
    spec->similarity = 20.0;
}

static void compared_in_groups(bp_spec *spec)
{
    compared(spec);
    spec->accumulation = 3;
}

static void vectors_alone(bp_spec *spec)
{
    vectors(spec);
    spec->accumulation = 2;
    spec->optimizer = NULL;
}

static void preferred(bp_spec *spec)
{
    spec->preference = (bp_preference){
        .kind = BP_PREFERENCE_SIGMOID, .beta = 0.1, .desirable = 1.0, .undesirable = 1.0};
    spec->evaluate = true;
}

static void preferred_in_chunks(bp_spec *spec)
{
    preferred(spec);
    spec->loss_rows = 7;
    spec->accumulation = 2;
    spec->keep_logits = true;
}

static void preferred_twice(bp_spec *spec)
{
    preferred(spec);
    spec->gradient_release = BP_RELEASE_EXACT;
    spec->optimizer_options.max_grad_norm = 1.0;
    spec->accumulation = 2;
}

static void kept(bp_spec *spec)
{
    spec->preference = (bp_preference){
        .kind = BP_PREFERENCE_KTO, .beta = 0.1, .desirable = 1.0, .undesirable = 1.5};
}

static void noisy(bp_spec *spec)
{
    spec->noise = 5.0;
}

void plan_adapters(bp_spec *spec)
{
    static const char *const all[] = {"all-linear"};
    spec->lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
}

/* Of convolutions. */
static void adapters_of_windows(bp_spec *spec)
{
    static const char *const patches_of[] = {"projection"}, *const all[] = {"convolution"};
    plan_adapters(spec);
    spec->lora.targets = spec->model == &bp_model_vit ? patches_of : all;
    spec->lora.dropout = 0.1;
}

static void adapters_and_their_biases(bp_spec *spec)
{
    plan_adapters(spec);
    spec->lora.bias = BP_LORA_BIAS_ADAPTED;
}

static void adapters_and_all_biases(bp_spec *spec)
{
    plan_adapters(spec);
    spec->lora.bias = BP_LORA_BIAS_ALL;
}

static void magnitudes(bp_spec *spec)
{
    plan_adapters(spec);
    spec->lora.magnitudes = true;
    all_programs(spec);
}

static void magnitudes_of_codes(bp_spec *spec)
{
    magnitudes(spec);
    spec->quantised = BP_QUANTISED_NF4;
}

static void without(bp_spec *spec, const char *glob)
{
    static bp_parameter_rule rule;
    rule = (bp_parameter_rule){.glob = glob, .kind = BP_RULE_FREEZE};
    spec->rules = &rule;
    spec->rule_count = 1;
}

/* Nothing else is trained, so that backward has to ask each node whether it is. */
static void only(bp_spec *spec, const char *glob)
{
    static bp_parameter_rule rules[3]; /* which wins wherever it stands */
    rules[0] = (bp_parameter_rule){.glob = "*", .kind = BP_RULE_FREEZE};
    rules[1] = (bp_parameter_rule){.glob = glob, .kind = BP_RULE_TRAIN};
    rules[2] = rules[0];
    spec->rules = rules;
    spec->rule_count = 3;
}

static void adapters_of_windows_without_b(bp_spec *spec)
{
    adapters_of_windows(spec);
    without(spec, "*lora_B*");
}

static void adapters_of_windows_without_a(bp_spec *spec)
{
    adapters_of_windows(spec);
    without(spec, "*lora_A*");
}

static void adapters_of_windows_left(bp_spec *spec)
{
    adapters_of_windows(spec);
    without(spec, "*lora_?.weight");
}

static void adapters_of_mlps(bp_spec *spec)
{
    plan_adapters(spec);
    without(spec, "*attn*");
}

static void magnitudes_of_mlps(bp_spec *spec)
{
    magnitudes(spec);
    without(spec, "*attn*");
}

static void adapters_without_a(bp_spec *spec)
{
    plan_adapters(spec);
    without(spec, "*lora_A*");
}

static void adapters_without_b(bp_spec *spec)
{
    magnitudes(spec);
    without(spec, "*lora_B*");
}

static void only_magnitudes(bp_spec *spec)
{
    magnitudes(spec);
    without(spec, "*lora_[AB]*");
}

static void adapters_of_the_upper(bp_spec *spec)
{
    plan_adapters(spec);
    without(spec, "*.0.*");
}

static void magnitudes_of_the_upper(bp_spec *spec)
{
    magnitudes(spec);
    without(spec, "*.0.*");
}

/* Tensors that are worth a call of storage. */
void plan_large(bp_spec *spec)
{
    spec->config.vocabulary = 80;
    SET_OWN(&spec->config, bp_transformer, width, 64);
}

static void bases_below(bp_spec *spec)
{
    plan_large(spec);
    plan_adapters(spec);
    spec->evaluate = true;
    spec->below = (bp_below){.bases = BP_BELOW_ALL, .ahead = 5};
}

static void bases_below_and_noise(bp_spec *spec)
{
    bases_below(spec);
    noisy(spec);
}

static void bases_below_and_tables_kept(bp_spec *spec)
{
    bases_below(spec);
    spec->below.host = true;
}

static void codes_below(bp_spec *spec)
{
    bases_below(spec);
    spec->quantised = BP_QUANTISED_NF4_DOUBLE;
    spec->lora.magnitudes = true;
}

static void states_below(bp_spec *spec)
{
    plan_large(spec);
    spec->accumulation = 2;
    spec->gradient_release = BP_RELEASE_EXACT;
    spec->below = (bp_below){.bases = BP_BELOW_ALL, .states = BP_BELOW_ALL, .ahead = 16};
}

static void states_of_adapters_below(bp_spec *spec)
{
    bases_below(spec);
    spec->lora.rank = 64;
    spec->lora.magnitudes = true;
    spec->below.states = BP_BELOW_ALL;
    spec->working = spec->gradient = BP_BF16;
    spec->master = BP_MASTER_SPLIT;
}

/* One module has an adapter, or none. */
static bp_lora_part choose_some(const bp_lora *lora, const char *module, size_t length)
{
    const bool none = lora->context == NULL || module[length - 1] == 'n';
    return (bp_lora_part){none ? 0u : 2u, 4.0};
}

static void chosen(bp_spec *spec)
{
    plan_adapters(spec);
    spec->lora.choose = choose_some;
    spec->lora.context = spec->model;
    spec->lora.target_count = 0;
}

static void none_chosen(bp_spec *spec)
{
    chosen(spec);
    spec->lora.context = NULL;
}

static void many_targets(bp_spec *spec)
{
    static const char *const some[] = {"c_fc", "up_proj", "c_attn", "nowhere"};
    plan_adapters(spec);
    spec->lora.targets = some;
    spec->lora.target_count = 4;
}

static void trained_rows(bp_spec *spec)
{
    static const uint32_t tokens[] = {7, 3, 4, 5, 0};
    plan_adapters(spec);
    all_programs(spec);
    spec->lora.tokens = tokens;
    spec->lora.token_count = 5;
}

static void trained_rows_released(bp_spec *spec)
{
    trained_rows(spec);
    spec->gradient_release = BP_RELEASE_EXACT;
    spec->optimizer_options.max_grad_norm = 1.0;
    spec->accumulation = 2;
}

static void trained_rows_and_bases_below(bp_spec *spec)
{
    static const uint32_t tokens[] = {1, 2, 9};
    bases_below(spec);
    spec->lora.tokens = tokens;
    spec->lora.token_count = 3;
}

static change *const options[] = {plain,
                                  all_programs,
                                  plan_classes,
                                  weighted_classes,
                                  weighted_tokens,
                                  dropped_classes,
                                  answers_with_padding,
                                  answers_padded_beyond,
                                  answers_without_padding,
                                  classes_released,
                                  given_back,
                                  vectors,
                                  compared,
                                  compared_in_groups,
                                  vectors_alone,
                                  preferred,
                                  preferred_in_chunks,
                                  preferred_twice,
                                  kept,
                                  noisy,
                                  plan_adapters,
                                  adapters_of_windows,
                                  adapters_of_windows_without_b,
                                  adapters_of_windows_without_a,
                                  adapters_of_windows_left,
                                  adapters_and_their_biases,
                                  adapters_and_all_biases,
                                  magnitudes,
                                  magnitudes_of_codes,
                                  adapters_without_a,
                                  adapters_without_b,
                                  only_magnitudes,
                                  adapters_of_mlps,
                                  magnitudes_of_mlps,
                                  adapters_of_the_upper,
                                  magnitudes_of_the_upper,
                                  bases_below,
                                  bases_below_and_noise,
                                  bases_below_and_tables_kept,
                                  codes_below,
                                  states_below,
                                  states_of_adapters_below,
                                  chosen,
                                  none_chosen,
                                  many_targets,
                                  trained_rows,
                                  trained_rows_released,
                                  trained_rows_and_bases_below};

/* What is frozen, or left to train, beside everything that a family has. */
static const struct {
    void (*rule)(bp_spec *spec, const char *glob);
    const char *glob;
} parts[] = {{only, "*q_norm*"},    {only, "*k_norm*"},    {only, "*_ih_*"},    {only, "*_hh_*"},
             {only, "*.1.mlp*"},    {only, "*_l0"},        {only, "*wte*"},     {without, "*norm*"},
             {without, "*q_norm*"}, {without, "*k_norm*"}, {without, "*_ih_*"}, {without, "*_hh_*"},
             {without, "*_l0"},     {without, "[!o]*"}};
#define WHOLE   (sizeof options / sizeof options[0])
#define OPTIONS (WHOLE + sizeof parts / sizeof parts[0])

uint32_t plan_case_count(void)
{
    return plan_family_count() * OPTIONS;
}

bool plan_case(uint32_t index, bp_spec *spec, char name[PLAN_CASE_NAME])
{
    const uint32_t family = index / OPTIONS, option = index % OPTIONS;
    *spec = rig_spec();
    plan_family(family, spec);
    if (option < WHOLE) {
        options[option](spec);
    } else {
        parts[option - WHOLE].rule(spec, parts[option - WHOLE].glob);
    }
    (void)snprintf(name, PLAN_CASE_NAME, "family %u, option %u", family, option);
    return bp_spec_check(spec, NULL) == BP_OK;
}
