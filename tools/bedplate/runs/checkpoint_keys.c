/* SPDX-License-Identifier: MIT */
/* Keys and values that describe a run. */
#include "tools/bedplate/runs/checkpoint_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/plan/optimizer.h"
#include "core/base/version.h"
#include "core/plan/parts.h"
#include "optim/rate.h"
#include "tools/bedplate/runs/checkpoint_offload.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/record/train_record.h"
#include "tools/formats/family/family.h"
#include "tools/bedplate/app/output.h"

static const char result_prefix[] = "result.";

/* The longest value of an option with its terminator: a list of 192 layers, or a command. */
enum { CHECKPOINT_KEYS_VALUE = 4096 };

/* Appends strings to c->key_text; each call of end() makes one terminated string of them. */
typedef struct pool {
    checkpoint *c;
    size_t used;
    size_t start;
} pool;

static bp_text pool_text(pool *p)
{
    bp_text text;
    p->start = p->used;
    bp_text_init(&text, NULL, NULL, p->c->key_text + p->used, CHECKPOINT_KEY_BYTES - p->used);
    return text;
}

static bp_status pool_end(pool *p, bp_text *text, const char **string)
{
    *string = p->c->key_text + p->start;
    p->used = p->start + (size_t)text->written + 1;
    if (bp_text_flush(text) != BP_OK) {
        return bp_error_limit(&p->c->s->error, BP_ERR_USAGE, "checkpoint",
                              "the values of all options have more bytes than a checkpoint keeps",
                              *string, bp_size_signed(p->used), BP_LIMIT_MOST,
                              CHECKPOINT_KEY_BYTES);
    }
    return BP_OK;
}

/* What is not UTF-8 is another text when a checkpoint, or the record, is read again. */
static bp_status checkpoint_keys_utf8(const char *name, const char *value, bp_error *error)
{
    if (bp_text_is_utf8(value)) {
        return BP_OK;
    }
    char given[64];
    snprintf(given, sizeof given, "--%s", name);
    return bp_error_set(
        error, BP_ERR_USAGE, "checkpoint",
        "a byte of the value is not UTF-8, which checkpoints and the record of a run "
        "cannot keep; give it another name",
        given);
}

static bp_status checkpoint_keys_paths(const char *name, const path_list *list, bp_error *error)
{
    for (uint32_t i = 0; i < list->count; i++) {
        BP_TRY(checkpoint_keys_utf8(name, list->item[i], error));
    }
    return BP_OK;
}

static bp_status checkpoint_keys_text(const option *which, const settings *set,
                                      char value[CHECKPOINT_KEYS_VALUE], bp_error *error)
{
    char given[BP_ERROR_NAME_MAX];
    bp_text text;
    bp_text_init(&text, NULL, NULL, value, CHECKPOINT_KEYS_VALUE);
    option_put(&text, which, set);
    if (bp_text_flush(&text) == BP_OK) {
        return BP_OK;
    }
    snprintf(given, sizeof given, "--%s", which->name);
    return bp_error_limit(error, BP_ERR_USAGE, "checkpoint",
                          "the value has more bytes than a checkpoint keeps of an option", given,
                          bp_size_signed(text.written), BP_LIMIT_MOST, CHECKPOINT_KEYS_VALUE - 1);
}

/* Whether a checkpoint keeps an option as its value: one of training alone, and no list of files.
 */
static bool checkpoint_keys_keep(const option *which)
{
    const bool meta = (which->commands & COMMAND_ARENA) != 0; /* every command takes it */
    return (which->commands & COMMAND_TRAIN) != 0 && !meta && which->kind != OPTION_PATHS;
}

bp_status checkpoint_keys_check(const settings *set, bp_error *error)
{
    char value[CHECKPOINT_KEYS_VALUE];
    const option *which;
    BP_TRY(checkpoint_keys_paths("data", &set->data, error));
    BP_TRY(checkpoint_keys_paths("eval-data", &set->eval_data, error));
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (checkpoint_keys_keep(which)) {
            BP_TRY(checkpoint_keys_text(which, set, value, error));
            BP_TRY(checkpoint_keys_utf8(which->name, value, error));
        }
    }
    return BP_OK;
}

static bp_status checkpoint_keys_add(pool *p, const char *prefix, const char *name,
                                     const char *value)
{
    BP_TRY(checkpoint_keys_utf8(name, value, &p->c->s->error));
    bp_pair *pair = &p->c->keys[p->c->checkpoint.keys.count];
    if (p->c->checkpoint.keys.count == CHECKPOINT_KEYS_MAX) {
        return bp_error_set(&p->c->s->error, BP_ERR_FIT, "checkpoint",
                            "a checkpoint has no room for more keys", name);
    }
    bp_text text = pool_text(p);
    bp_text_string(&text, prefix);
    bp_text_string(&text, name);
    BP_TRY(pool_end(p, &text, &pair->key));
    text = pool_text(p);
    bp_text_string(&text, value);
    BP_TRY(pool_end(p, &text, &pair->value));
    p->c->checkpoint.keys.count++;
    return BP_OK;
}

static bp_status add_option(pool *p, const option *which, const settings *set)
{
    char value[CHECKPOINT_KEYS_VALUE];
    BP_TRY(checkpoint_keys_text(which, set, value, &p->c->s->error));
    return checkpoint_keys_add(p, which->result ? result_prefix : "run.", which->name, value);
}

/* What options leave open, as the plan decided it, and one spelling for what has several. */
static settings checkpoint_keys_resolve(const session *s)
{
    settings set = *s->set;
    const bp_spec *spec = &s->plan.spec;
    set.sequence = spec->sequence;
    set.loss_rows = spec->loss_rows;
    const uint32_t pieces = bp_family_pieces(&spec->config);
    if (pieces != 0) {
        set.time_chunk = bp_size_ceil_div(spec->sequence, pieces);
    }
    set.batch = spec->batch / preference_rows(spec);
    set.accumulation = spec->accumulation;
    set.virtual_ranks = spec->virtual_ranks;
    set.virtual_sequence_ranks = bp_spec_token_lanes(spec);
    set.optimizer = spec->optimizer->name;
    if (set.data_seed == (int64_t)set.seed) {
        set.data_seed = -1;
    }
    const char *name;
    for (uint32_t i = 0; (name = bp_rate_name(i)) != NULL; i++) {
        if (bp_rate_find(name) == spec->rate) {
            set.scheduler = name;
            break;
        }
    }
    return set;
}

/* Every row of the model's configuration, under its key in config.json, and the task. */
static bp_status add_model(pool *p, const bp_model_config *config)
{
    char value[BP_ROW_VALUE_BYTES];
    snprintf(value, sizeof value, "%d", (int)config->task);
    BP_TRY(
        checkpoint_keys_add(p, CHECKPOINT_MODEL_PREFIX, "model_type", config->family->model_type));
    BP_TRY(checkpoint_keys_add(p, CHECKPOINT_MODEL_PREFIX, "task", value));
    for (size_t i = 0; i < config->family->row_count; i++) {
        if (bp_row_value(config, i, value)) {
            BP_TRY(checkpoint_keys_add(p, CHECKPOINT_MODEL_PREFIX, config->family->rows[i].key,
                                       value));
        }
    }
    return BP_OK;
}

/* The length of a run shapes every schedule but the constant ones. */
static bp_status add_length(pool *p, const session *s, uint64_t total)
{
    char value[24];
    snprintf(value, sizeof value, "%llu", (unsigned long long)total);
    bool shapes =
        s->plan.spec.rate != bp_rate_constant || s->plan.spec.rate_options.warmup_steps != 0;
    return checkpoint_keys_add(p, shapes ? result_prefix : "run.", "total-steps", value);
}

/* A base is not in the checkpoints of its adapters: its digest tells another one. */
typedef struct base_digest {
    bool there;
    uint64_t digest;
} base_digest;

/* Ranks that share a base out read it at once. */
static bp_status find_base(session *s, base_digest *base)
{
    ranks_leave_turn(s->set);
    const bp_status status = bp_runtime_base_digest(&s->runtime, &base->there, &base->digest);
    ranks_take_turn(s->set);
    return status;
}

static bp_status add_base(pool *p, const base_digest *base)
{
    char value[BP_DIGEST_TEXT];
    if (!base->there) {
        return BP_OK;
    }
    bp_digest_text(base->digest, value);
    return checkpoint_keys_add(p, result_prefix, "base-digest", value);
}

/* Kernels with bits of their own are another arithmetic, which a resumed run must go on with. */
static bp_status add_arithmetic(pool *p, const session *s)
{
    const char *variant = s->spec.device->variant(s->runtime.device);
    if (strcmp(variant, "host amx") != 0 || !s->set->bf16) {
        return BP_OK;
    }
    return checkpoint_keys_add(p, result_prefix, "arithmetic", "amx");
}

void checkpoint_keys_put_parent(checkpoint *c, uint64_t step, uint64_t digest)
{
    snprintf(c->parent, sizeof c->parent, "%020llu %016llx", (unsigned long long)step,
             (unsigned long long)digest);
}

void checkpoint_keys_put_record(checkpoint *c, bool whole, bool owed)
{
    char chain[BP_SHA256_TEXT];
    bp_sha256_text(c->book.chain, chain);
    snprintf(c->record_text, sizeof c->record_text, "%020llu %s %u",
             (unsigned long long)c->book.length, chain, owed ? 1u : 0u);
    if (!whole) {
        memset(c->record_text, '-', strlen(c->record_text));
    }
}

void checkpoint_keys_parse_record(const char *text, checkpoint_record *to)
{
    unsigned char chain[BP_SHA256_BYTES];
    *to = (checkpoint_record){.length = 0};
    if (text == NULL || strlen(text) != 87 || !bp_sha256_parse(text + 21, chain)) {
        return;
    }
    bp_sha256_text(chain, to->chain);
    to->length = strtoull(text, NULL, 10);
    to->owed = text[86] == '1';
}

void checkpoint_keys_put_verified(checkpoint *c)
{
    snprintf(c->verified, sizeof c->verified, "%020llu", (unsigned long long)c->watch.verified);
    snprintf(c->target_text, sizeof c->target_text, "%020llu", (unsigned long long)c->target);
}

void checkpoint_keys_read_watch(checkpoint *c, bp_pairs saved)
{
    const char *text = bp_pairs_find(saved, CHECKPOINT_CHECKED_KEY);
    const char *target = bp_pairs_find(saved, CHECKPOINT_TARGET_KEY);
    c->watch.verified = text != NULL ? strtoull(text, NULL, 10) : 0;
    c->target = target != NULL ? strtoull(target, NULL, 10) : 0;
    (void)anomaly_parse(&c->watch, bp_pairs_find(saved, CHECKPOINT_WATCH_KEY)); /* else anew */
}

/* Which program on which processor saved it, after which other state, and how far the record went.
 */
static bp_status add_origin(pool *p)
{
    checkpoint *c = p->c;
    char text[160];
    snprintf(text, sizeof text, "%s %s", bp_version(), train_record_source);
    BP_TRY(checkpoint_keys_add(p, "run.", "build", text));
    train_record_processor(text, sizeof text);
    BP_TRY(checkpoint_keys_add(p, "run.", "processor", text));
    checkpoint_keys_put_parent(c, 0, 0);
    checkpoint_keys_put_record(c, false, false);
    BP_TRY(checkpoint_keys_add(p, CHECKPOINT_PARENT_KEY, "", ""));
    c->keys[c->checkpoint.keys.count - 1].value = c->parent;
    BP_TRY(checkpoint_keys_add(p, CHECKPOINT_RECORD_KEY, "", ""));
    c->keys[c->checkpoint.keys.count - 1].value = c->record_text;
    checkpoint_keys_put_verified(c);
    BP_TRY(checkpoint_keys_add(p, CHECKPOINT_CHECKED_KEY, "", ""));
    c->keys[c->checkpoint.keys.count - 1].value = c->verified;
    if (c->above != NULL) {
        BP_TRY(checkpoint_keys_add(p, CHECKPOINT_OFFLOAD_KEY, "", ""));
        c->keys[c->checkpoint.keys.count - 1].value = c->offload_text;
    }
    if (c->watch.policy != ANOMALY_NONE) {
        BP_TRY(checkpoint_keys_add(p, CHECKPOINT_WATCH_KEY, "", ""));
        c->keys[c->checkpoint.keys.count - 1].value = c->watch.text;
    }
    if (c->watch.policy == ANOMALY_ROLLBACK) {
        BP_TRY(checkpoint_keys_add(p, CHECKPOINT_TARGET_KEY, "", ""));
        c->keys[c->checkpoint.keys.count - 1].value = c->target_text;
    }
    return BP_OK;
}

/* A checkpoint does not say how many ranks made it: all of them make the same one. */
static bool is_of_ranks(const char *name)
{
    static const char *const starts[] = {"fabric",         "shard",     "ddp",    "ranks",
                                         "sequence-ranks", "bandwidth", "latency"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}

bp_status checkpoint_keys_fill(checkpoint *c, const checkpoint_facts *facts)
{
    static settings set;
    pool p = {.c = c};
    session *s = c->s;
    base_digest base;
    BP_TRY(find_base(s, &base)); /* first, as ranks that are threads share `set` */
    set = checkpoint_keys_resolve(s);
    c->checkpoint.keys = (bp_pairs){c->keys, 0};
    BP_TRY(add_model(&p, &s->spec.config));
    BP_TRY(add_base(&p, &base));
    BP_TRY(checkpoint_keys_add(&p, result_prefix, "data", facts->data));
    BP_TRY(add_length(&p, s, facts->total_steps));
    BP_TRY(add_arithmetic(&p, s));
    BP_TRY(checkpoint_keys_add(&p, "run.", "variant", s->spec.device->variant(s->runtime.device)));
    BP_TRY(checkpoint_keys_add(&p, "run.", "model", s->set->model));
    BP_TRY(checkpoint_keys_add(&p, "run.", "data", s->set->data.item[0]));
    best_put(&c->best, c->best_text);
    BP_TRY(checkpoint_keys_add(&p, CHECKPOINT_BEST_KEY, "", ""));
    c->keys[c->checkpoint.keys.count - 1].value = c->best_text;
    BP_TRY(add_origin(&p));
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (checkpoint_keys_keep(which) && strcmp(which->name, "model") != 0 &&
            !is_of_ranks(which->name)) {
            BP_TRY(add_option(&p, which, &set));
        }
    }
    return BP_OK;
}

static bool is_result(const char *key)
{
    return strncmp(key, result_prefix, sizeof result_prefix - 1) == 0;
}

/* `asked` is the option that asked for the checkpoint. */
static void print_key(const char *asked, const char *key, const char *found, const char *right)
{
    output_print(stderr,
                 "bedplate: %s: %s differs from the checkpoint's: found \"%s\", expected \"%s\"\n",
                 asked, key, found != NULL ? found : "nothing", right != NULL ? right : "nothing");
}

/* Checkpoints of earlier versions lack the keys of later options: such a run had the default. */
static bool is_default(const char *key, const char *value)
{
    const char *name = strchr(key, '.') + 1;
    const option *which = option_find(name, strlen(name));
    return which != NULL && strcmp(value, which->fallback != NULL ? which->fallback : "") == 0;
}

typedef struct comparison {
    size_t differences;
    bool earlier; /* the checkpoint's model is in its config.json only */
} comparison;

static void print_difference(void *user, const char *key, const char *a, const char *b)
{
    comparison *compared = user;
    const size_t model = sizeof CHECKPOINT_MODEL_PREFIX - 1;
    const bool of_model = strncmp(key, CHECKPOINT_MODEL_PREFIX, model) == 0;
    const bool of_file = of_model || strcmp(key, CHECKPOINT_OLD_MODEL_KEY) == 0;
    if (!is_result(key) || (compared->earlier && of_file)) {
        return;
    }
    if (b == NULL && a != NULL && is_default(key, a)) {
        return;
    }
    /* Earlier versions kept 0 where classes were counted; id2label is compared as well. */
    if (strcmp(key, "result.num-labels") == 0 && b != NULL && strcmp(b, "0") == 0) {
        return;
    }
    compared->differences++;
    print_key("--resume", key + (of_model ? model : sizeof result_prefix - 1), a, b);
}

size_t checkpoint_keys_compare(const checkpoint *c, bp_pairs saved)
{
    comparison compared = {.earlier = bp_pairs_find(saved, CHECKPOINT_OLD_MODEL_KEY) != NULL};
    (void)bp_pairs_compare(c->checkpoint.keys, saved, print_difference, &compared);
    if (compared.differences > 0) {
        output_print(stderr,
                     "bedplate: --continue-from begins a new run with a checkpoint's state: with "
                     "another schedule, rate, batch or data\n");
    }
    return compared.differences;
}

/* Whether a row of the configuration, by its key, is a probability of dropout. */
static bool is_dropout(const bp_model_config *config, const char *key)
{
    for (size_t i = 0; i < config->family->row_count; i++) {
        if (strcmp(config->family->rows[i].key, key) == 0) {
            return config->family->rows[i].role == BP_ROLE_DROPOUT;
        }
    }
    return false;
}

bool checkpoint_keys_same(const checkpoint *c, bp_pairs saved, const char *key)
{
    const char *now = bp_pairs_find(c->checkpoint.keys, key);
    const char *then = bp_pairs_find(saved, key);
    if (now == NULL || then == NULL) {
        return now == then || (then == NULL && is_default(key, now));
    }
    return strcmp(now, then) == 0;
}

/* Options that decide which tensors a state has and what they mean. */
static const char *const state_options[] = {
    "result.optim",
    "result.fp32",
    "result.bf16",
    "result.fp16",
    "result.lora-r",
    "result.lora-alpha",
    "result.use-rslora",
    "result.use-dora",
    "result.lora-bias",
    "result.target-modules",
    "result.trainable-token-indices",
    "result.load-in-4bit",
    "result.load-in-8bit",
    "result.dequantize",
    "result.bnb-4bit-use-double-quant",
    "result.bnb-4bit-quant-type",
    "result.bnb-4bit-blocksize",
    "result.freeze",
    "result.trainable",
    "result.param-override",
    "result.percentile-clipping",
    "result.weight-dtype",
    "result.base-digest",
};

/* --master with its auto resolved. */
static const char *master_of(bp_pairs keys)
{
    const char *master = bp_pairs_find(keys, "result.master");
    const char *bf16 = bp_pairs_find(keys, "result.bf16");
    const char *weights = bp_pairs_find(keys, "result.weight-dtype");
    const bool split = bf16 != NULL && strcmp(bf16, "true") == 0;
    const bool fp8 = weights != NULL && strcmp(weights, "fp8") == 0;
    const bool chosen = master == NULL || strcmp(master, "auto") == 0;
    return !chosen ? master : fp8 ? "split8" : split ? "split" : "fp32";
}

typedef struct state_comparison {
    const checkpoint *c;
    size_t differences;
} state_comparison;

static void print_state_difference(void *user, const char *key, const char *a, const char *b)
{
    state_comparison *compared = user;
    const size_t model = sizeof CHECKPOINT_MODEL_PREFIX - 1;
    if (strncmp(key, CHECKPOINT_MODEL_PREFIX, model) == 0) {
        key += model;
        if (is_dropout(&compared->c->s->spec.config, key)) {
            return;
        }
        print_key("--continue-from", key, a, b);
        compared->differences++;
    }
}

size_t checkpoint_keys_compare_state(const checkpoint *c, bp_pairs saved)
{
    state_comparison compared = {.c = c};
    const bp_pairs keys = c->checkpoint.keys;
    if (bp_pairs_find(saved, CHECKPOINT_OLD_MODEL_KEY) == NULL) {
        (void)bp_pairs_compare(keys, saved, print_state_difference, &compared);
    }
    for (size_t i = 0; i < sizeof state_options / sizeof state_options[0]; i++) {
        const char *key = state_options[i];
        if (!checkpoint_keys_same(c, saved, key)) {
            print_key("--continue-from", key + sizeof result_prefix - 1, bp_pairs_find(keys, key),
                      bp_pairs_find(saved, key));
            compared.differences++;
        }
    }
    if (strcmp(master_of(keys), master_of(saved)) != 0) {
        print_key("--continue-from", "master", master_of(keys), master_of(saved));
        compared.differences++;
    }
    return compared.differences;
}

size_t checkpoint_keys_compare_model(const bp_model_config *config, const bp_model_config *saved,
                                     const char *asked)
{
    static const char *const tasks[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    size_t differences = 0;
    if (config->family != saved->family) {
        print_key(asked, "model_type", config->family->model_type, saved->family->model_type);
        return 1;
    }
    if (config->task != saved->task) {
        print_key(asked, "task", tasks[config->task], tasks[saved->task]);
        differences++;
    }
    for (size_t i = 0; i < config->family->row_count; i++) {
        char now[BP_ROW_VALUE_BYTES], then[BP_ROW_VALUE_BYTES];
        if (bp_row_value(config, i, now) && bp_row_value(saved, i, then) &&
            strcmp(now, then) != 0) {
            print_key(asked, config->family->rows[i].key, now, then);
            differences++;
        }
    }
    return differences;
}

void checkpoint_keys_remark(const checkpoint *c, bp_pairs saved)
{
    const char *now = bp_pairs_find(c->checkpoint.keys, "run.variant");
    const char *then = bp_pairs_find(saved, "run.variant");
    if (then != NULL && now != NULL && strcmp(now, then) != 0) {
        output_print(
            stderr,
            "bedplate: the checkpoint was made by kernels \"%s\", these are \"%s\": bits may "
            "differ from here on\n",
            then, now);
    }
}
