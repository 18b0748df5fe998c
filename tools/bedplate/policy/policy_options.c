/* SPDX-License-Identifier: MIT */
/* Options of reinforcement fine-tuning: defaults, what cannot be, and the shapes that follow. */
#include "tools/bedplate/policy/policy_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/reward/reward_model.h"
#include "tools/bedplate/session/dry_run.h"

static const char where[] = "grpo";

#define SLOTS_USUAL 16
#define RATE        1e-6 /* GRPOConfig's */

static const char *const scale_words[] = {
    [POLICY_SCALE_GROUP] = "group", [POLICY_SCALE_BATCH] = "batch", [POLICY_SCALE_NONE] = "none"};

bool policy_asked(const settings *set)
{
    return set->task != NULL && strcmp(set->task, "grpo") == 0;
}

void policy_resolve(settings *set)
{
    if (!policy_asked(set)) {
        return;
    }
    set->learning_rate = option_given(set, "learning-rate") ? set->learning_rate : RATE;
    set->loss_type = option_given(set, "loss-type") ? set->loss_type : "dapo";
    const policy_rule *rule = policy_rule_find(set->loss_type);
    if (rule != NULL && !option_given(set, "scale-rewards")) {
        set->scale_rewards = scale_words[rule->scale];
    }
    if (!option_given(set, "beta") && (rule == NULL || !policy_rule_pairs(rule))) {
        set->beta = 0.0; /* else that of pairs, which have one */
    }
}

/* Options that would do nothing with another task. */
bp_status policy_check_others(session *s)
{
    static const char *const own[] = {"reward",
                                      "reward-command",
                                      "reward-model",
                                      "num-generations",
                                      "max-completion-length",
                                      "scale-rewards",
                                      "temperature",
                                      "top-entropy-quantile",
                                      "num-iterations",
                                      "epsilon",
                                      "epsilon-high",
                                      "delta",
                                      "mask-truncated-completions",
                                      "slots",
                                      "reward-weights",
                                      "reward-log",
                                      "reward-check",
                                      "reward-timeout",
                                      "reward-on-failure",
                                      "reward-memory-limit",
                                      "reward-cpu-limit"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (option_said(s->set, own[i])) {
            char name[64] = "--";
            strcat(name, own[i]);
            return bp_error_set(&s->error, BP_ERR_USAGE, where,
                                strcmp(own[i], "temperature") == 0
                                    ? "the option is for --task grpo (a teacher has "
                                      "--distill-temperature)"
                                    : "the option is for --task grpo",
                                name);
        }
    }
    return BP_OK;
}

bp_status policy_numbers_read(const settings *set, policy_numbers *numbers, policy_scale *scale,
                              bp_error *error)
{
    const policy_rule *rule = policy_rule_find(set->loss_type);
    if (rule == NULL) {
        const bp_status status = bp_error_set(error, BP_ERR_USAGE, where,
                                              "this loss is over pairs of rows", "--loss-type");
        bp_error_found(error, set->loss_type, strlen(set->loss_type));
        bp_error_right(error, "one of " LOSS_TYPE_WORDS);
        return status;
    }
    const double low = set->policy_epsilon > 0.0 ? set->policy_epsilon : rule->epsilon;
    const double usual = rule->epsilon_high > 0.0 ? rule->epsilon_high : low;
    *numbers = (policy_numbers){
        .rule = rule,
        .epsilon = low,
        .epsilon_high = set->policy_epsilon_high > 0.0 ? set->policy_epsilon_high : usual,
        .delta = set->policy_delta,
        .beta = set->beta,
        .corrected = true,
        .longest = (uint32_t)set->max_completion_length,
        .each = (uint32_t)set->num_generations};
    *scale = POLICY_SCALE_GROUP;
    for (int i = POLICY_SCALE_GROUP; i <= POLICY_SCALE_NONE; i++) {
        *scale = strcmp(set->scale_rewards, scale_words[i]) == 0 ? (policy_scale)i : *scale;
    }
    return BP_OK;
}

/* What would make the policy that is trained another one than the one that samples, or what has no
 * meaning for completions. */
static const struct policy_refusal {
    const char *option;
    const char *why;
} refused[] = {
    {"packing", "completions are not packed: each is a row of its own"},
    {"group-by-length", "the completions of a step are learned together"},
    {"eval-data", "completions are evaluated by their rewards, which each step prints"},
    {"validation-split", "completions are evaluated by their rewards, which each step prints"},
    {"data-weights", "prompts of all files are one set"},
    {"label-smoothing-factor", "the loss is over the tokens that were sampled"},
    {"neftune-noise-alpha", "with noise the policy that is trained is not the one that samples"},
    {"lora-dropout", "with dropout the policy that is trained is not the one that samples"},
    {"dropout", "with dropout the policy that is trained is not the one that samples"},
    {"distill", "completions have rewards and no teacher"},
    {"token-accuracy", "completions have no right tokens"},
    {"load-best-model-at-end", "there are no evaluations: each step prints its rewards"},
    {"keep-best", "there are no evaluations: each step prints its rewards"},
    {"early-stopping-patience", "there are no evaluations: each step prints its rewards"},
    {"early-stopping-threshold", "there are no evaluations: each step prints its rewards"},
    {"metric-for-best-model", "there are no evaluations: each step prints its rewards"},
    {"greater-is-better", "there are no evaluations: each step prints its rewards"},
    {"eval-steps", "there are no evaluations: each step prints its rewards"},
};

/* Options that the loss type does not read. */
static bp_status policy_check_reads(session *s, const policy_rule *rule)
{
    static const struct {
        const char *option;
        unsigned reads;
    } of[] = {{"epsilon", POLICY_READS_EPSILON},
              {"epsilon-high", POLICY_READS_EPSILON_HIGH},
              {"delta", POLICY_READS_DELTA},
              {"scale-rewards", POLICY_READS_SCALE}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        if (option_said(s->set, of[i].option) && (policy_rule_reads(rule) & of[i].reads) == 0) {
            char name[64] = "--";
            strcat(name, of[i].option);
            const bp_status status = bp_error_set(&s->error, BP_ERR_USAGE, where,
                                                  "this loss type does not read the option", name);
            bp_error_found(&s->error, rule->name, strlen(rule->name));
            return status;
        }
    }
    return BP_OK;
}

/* What the reference cannot be. */
static bp_status policy_refuse_reference(session *s)
{
    const settings *set = s->set;
    const bp_lora *lora = &s->spec.lora;
    if (set->beta > 0.0 && lora->rank > 0 &&
        (lora->magnitudes || lora->bias != BP_LORA_BIAS_NONE || lora->token_count > 0 ||
         set->adapter != NULL)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the reference is the model without adapters, so it needs new ones "
                            "(--lora-r) that are all that is trained: no DoRA, biases, tokens or "
                            "--adapter",
                            "--beta");
    }
    if (set->ref_model != NULL && (lora->rank > 0 || !(set->beta > 0.0))) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            lora->rank > 0 ? "the reference of adapters is the model without them"
                                           : "a reference needs --beta above 0",
                            "--ref-model");
    }
    if (set->beta > 0.0 && lora->rank == 0 && strcmp(set->weight_dtype, "fp8") == 0) {
        return bp_error_set(
            &s->error, BP_ERR_USAGE, where,
            "the reference is read as bf16, where trained weights are fp8; expected "
            "auto with --beta above 0",
            "--weight-dtype");
    }
    return BP_OK;
}

static bp_status policy_refuse(session *s)
{
    const settings *set = s->set;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (option_said(set, refused[i].option)) {
            char name[64] = "--";
            strcat(name, refused[i].option);
            return bp_error_set(&s->error, BP_ERR_USAGE, where, refused[i].why, name);
        }
    }
    if (strcmp(set->save_strategy, "best") == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "there are no evaluations: each step prints its rewards",
                            "--save-strategy best");
    }
    if (strcmp(set->eval_strategy, "epoch") == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "there are no evaluations: each step prints its rewards",
                            "--eval-strategy epoch");
    }
    BP_TRY(policy_refuse_reference(s));
    const policy_rule *rule = policy_rule_find(set->loss_type);
    if (rule != NULL && policy_rule_pairs(rule) && !(set->beta > 0.0)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a loss of pairs compares them with the reference; expected above 0",
                            "--beta");
    }
    if (rule != NULL && policy_rule_pairs(rule) && set->policy_top_entropy < 1.0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a loss of pairs is over whole completions", "--top-entropy-quantile");
    }
    if (rule != NULL) {
        BP_TRY(policy_check_reads(s, rule));
    }
    const bool saves = option_said(set, "save-steps") && set->save_steps >= 1.0;
    const struct {
        const char *name;
        double steps;
    } saved[] = {{"--save-steps", saves ? set->save_steps : 0.0},
                 {"--stop-at-step", (double)set->stop_at_step}};
    for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
        if (fmod(saved[i].steps, (double)set->num_iterations) != 0.0) {
            return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                                  "a checkpoint lies where completions are new: a multiple of "
                                  "--num-iterations",
                                  saved[i].name, (int64_t)saved[i].steps, BP_LIMIT_NONE, 0);
        }
    }
    return BP_OK;
}

/* Completions of a step are whole groups. */
static bp_status policy_check_groups(session *s, const rollout_choice *choice)
{
    const uint64_t count = (uint64_t)s->spec.batch * s->spec.accumulation;
    if (choice->generations < 2) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "completions of a prompt are compared with each other",
                              "--num-generations", choice->generations, BP_LIMIT_LEAST, 2);
    }
    if (count % choice->generations != 0) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "the completions of a step (--per-device-train-batch-size times "
                              "--gradient-accumulation-steps) are no whole groups",
                              "--num-generations", choice->generations, BP_LIMIT_DIVISOR,
                              (int64_t)count);
    }
    return BP_OK;
}

/* The plan if generating were all of it: training as small as it can be. */
static bp_spec phase_generating(const bp_spec *spec)
{
    bp_spec one = *spec;
    one.batch = one.accumulation = one.sequence = 1;
    one.loss_rows = one.length_count = one.sequence_chunk = 0;
    one.between_bytes = 0;
    return one;
}

/* As many sequences at once as fit beside what lives through all phases. */
static bp_status policy_choose_slots(session *s, uint32_t longest, const rollout_choice *choice)
{
    const bool chosen = strcmp(s->set->slots, "auto") != 0;
    char *end = NULL;
    uint64_t slots = chosen ? strtoull(s->set->slots, &end, 10) : SLOTS_USUAL;
    if (chosen && (*end != '\0' || slots < 1 || slots > ROLLOUT_SLOTS_MOST)) {
        const bp_status status = bp_error_set(&s->error, BP_ERR_USAGE, where,
                                              "the value is no number of sequences", "--slots");
        bp_error_found(&s->error, s->set->slots, strlen(s->set->slots));
        bp_error_right(&s->error, "auto or 1 to 4096");
        return status;
    }
    const uint64_t all = (uint64_t)choice->generations * choice->prompts;
    slots = slots < all ? slots : all;
    for (;; slots = (slots + 1) / 2) {
        uint64_t bytes = 0;
        rollout_spec(&s->spec, longest, choice, (uint32_t)slots);
        BP_TRY(rollout_check(&s->spec, &s->error));
        if (chosen || s->set->arena == 0 || slots == 1) {
            return BP_OK;
        }
        bp_spec least = phase_generating(&s->spec); /* how to train beside them is chosen later */
        if (s->offload.asked && !s->offload.flash) {
            offload_all(&least, s->offload.what); /* what may be offloaded leaves room */
        }
        BP_TRY(dry_run_arena(&least, 0, &bytes, &s->error));
        if (bytes <= s->set->arena) {
            return BP_OK;
        }
    }
}

bp_status policy_fill(session *s, uint32_t longest, rollout_choice *choice)
{
    const settings *set = s->set;
    choice->generations = (uint32_t)set->num_generations;
    choice->most = (uint32_t)set->max_completion_length;
    choice->temperature = set->temperature;
    choice->seed = set->seed;
    s->batch_resolved = true; /* it says how many completions are compared */
    BP_TRY(policy_refuse(s));
    BP_TRY(policy_check_groups(s, choice));
    choice->prompts = s->spec.batch * s->spec.accumulation / choice->generations;
    if (set->temperature <= 0.0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "at temperature 0 all completions of a prompt are the same; expected "
                            "above 0",
                            "--temperature");
    }
    const uint64_t tokens = (uint64_t)longest + choice->most;
    if (set->sequence > 0 && tokens > set->sequence) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "the longest prompt and --max-completion-length are longer than a "
                              "row",
                              "--max-seq-length", (int64_t)tokens, BP_LIMIT_MOST,
                              (int64_t)set->sequence);
    }
    rollout_spec(&s->spec, longest > 0 ? longest : 1, choice, 1);
    BP_TRY(rollout_check(&s->spec, &s->error));
    s->spec.sequence = (uint32_t)tokens;
    s->spec.row_weights = true;
    if (set->beta > 0.0 || set->num_iterations > 1) { /* log-probabilities are asked for */
        s->spec.evaluate = s->spec.keep_logits = true;
        s->spec.eval_batch = s->spec.batch;
    }
    s->spec.policy_temperature = set->temperature;
    return longest > 0 ? policy_choose_slots(s, longest, choice) : BP_OK;
}

/* The state lives through both phases, so each is measured with it: the other one made as small as
 * it can be. */
bp_status policy_phases_find(const bp_spec *spec, policy_phases *phases, bp_error *error)
{
    *phases = (policy_phases){.slots = 0};
    if (!spec->row_weights || spec->generate_context == 0) {
        return BP_OK;
    }
    bp_spec one[POLICY_PHASES] = {phase_generating(spec),
                                  reward_model_phase(spec, spec->between_bytes), *spec};
    bp_spec *training = &one[POLICY_TRAINING];
    training->between_bytes = 0;
    training->generate_context = training->generate_sequences = training->prefill_rows = 0;
    training->generate_regions = training->generate_prompt = 0;
    phases->slots = bp_spec_decode_rows(spec);
    phases->tokens = spec->sequence;
    for (uint32_t i = 0; i < POLICY_PHASES; i++) {
        bp_report report;
        if (i == POLICY_SCORING && spec->between_bytes == 0) {
            continue;
        }
        BP_TRY(dry_run_report(&one[i], 0, &report, error));
        phases->bytes[i] = report.arena_bytes;
        memcpy(phases->classes[i], report.class_peak, sizeof phases->classes[i]);
    }
    return BP_OK;
}
