/* SPDX-License-Identifier: MIT */
/* Keys and values that describe a run. */
#include "tools/bedplate/checkpoint_keys.h"

#include <stdio.h>
#include <string.h>

#include "core/number/digest.h"
#include "core/compile/optimizer.h"
#include "layers/bert.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/rnn.h"
#include "optim/rate.h"
#include "tools/bedplate/options.h"
#include "tools/formats/hf_fields.h"

static const char result_prefix[] = "result.";

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
    return bp_text_flush(text);
}

static bp_status add(pool *p, const char *prefix, const char *name, const char *value)
{
    bp_pair *pair = &p->c->keys[p->c->snapshot.keys.count];
    if (p->c->snapshot.keys.count == CHECKPOINT_KEYS_MAX) {
        return BP_ERR_FIT;
    }
    bp_text text = pool_text(p);
    bp_text_string(&text, prefix);
    bp_text_string(&text, name);
    BP_TRY(pool_end(p, &text, &pair->key));
    text = pool_text(p);
    bp_text_string(&text, value);
    BP_TRY(pool_end(p, &text, &pair->value));
    p->c->snapshot.keys.count++;
    return BP_OK;
}

static bp_status add_option(pool *p, const option *which, const settings *set)
{
    char value[BP_STORE_PATH_MAX];
    bp_text text;
    bp_text_init(&text, NULL, NULL, value, sizeof value);
    option_put(&text, which, set);
    BP_TRY(bp_text_flush(&text));
    return add(p, which->result ? result_prefix : "run.", which->name, value);
}

/* What options leave open, as the plan decided it, and one spelling for what has several. */
static settings resolve(const session *s)
{
    settings set = *s->set;
    const bp_spec *spec = &s->runtime.spec;
    set.sequence = spec->sequence;
    set.loss_rows = spec->loss_rows;
    const uint32_t pieces = bp_family_pieces(&spec->config);
    if (pieces != 0) {
        set.time_chunk = bp_size_ceil_div(spec->sequence, pieces);
    }
    set.batch = spec->batch;
    set.accumulation = spec->accumulation;
    set.optimizer = spec->optimizer->name;
    const char *name;
    for (uint32_t i = 0; (name = bp_rate_name(i)) != NULL; i++) {
        if (bp_rate_find(name) == spec->rate) {
            set.scheduler = name;
            break;
        }
    }
    return set;
}

static void put_real(bp_text *text, const char *name, double value)
{
    bp_text_string(text, name);
    bp_text_general(text, value, 15);
}

static void put_count(bp_text *text, const char *name, uint64_t value)
{
    bp_text_string(text, name);
    bp_text_u64(text, value);
}

/* What only Llama, BERT, chains of dense layers and recurrent models have, as snapshots know it. */
static void put_more(bp_text *text, const bp_model_config *config)
{
    const char *type = config->family->model_type;
    const bool bert = strcmp(type, "bert") == 0;
    const bool rotates = strcmp(type, "llama") == 0 || strcmp(type, "qwen2") == 0;
    const bp_llama_config none = {.kv_heads = 0};
    const bp_llama_config own = rotates ? bp_llama_config_of(config) : none;
    put_count(text, " kv_heads ", own.kv_heads);
    put_count(text, " head_width ", own.head_width);
    put_real(text, " theta ", own.rope_theta);
    put_real(text, " scaling ", own.rope_scaling.factor);
    put_real(text, " ", own.rope_scaling.low);
    put_real(text, " ", own.rope_scaling.high);
    put_count(text, " ", own.rope_scaling.original);
    put_count(text, " biases ", own.qkv_bias ? 1 : 0);
    put_count(text, " ", own.output_bias ? 1 : 0);
    put_count(text, " ", own.mlp_bias ? 1 : 0);
    put_count(text, " untied ", bp_family_untied(config) ? 1 : 0);
    put_count(text, " types ", bert ? bp_bert_config_of(config).types : 0);
    put_count(text, " task ", config->task);
    put_count(text, " classes ", config->classes);
    put_real(text, " classifier ", bert ? bp_bert_config_of(config).classifier_dropout : 0.0);
    if (strcmp(type, "rnn") == 0) {
        put_count(text, " cell ", bp_rnn_config_of(config).cell);
    }
    if (strcmp(type, "mlp") == 0) {
        const bp_mlp_config chain = bp_mlp_config_of(config);
        put_count(text, " activation ", chain.activation);
        for (uint32_t i = 0; i < chain.layers && i < BP_HIDDEN_SIZES_MAX; i++) {
            const uint32_t size = chain.hidden_sizes[i];
            put_count(text, " ", size != 0 ? size : chain.width);
        }
    }
}

/* The members of a transformer, or what stands for them in a model of another kind. */
static bp_transformer stack_of(const bp_model_config *config)
{
    if (strcmp(config->family->model_type, "mlp") == 0) {
        const bp_mlp_config own = bp_mlp_config_of(config);
        return (bp_transformer){
            .width = own.width, .layers = own.layers, .heads = 1, .residual_dropout = own.dropout};
    }
    if (strcmp(config->family->model_type, "rnn") == 0) {
        const bp_rnn_config own = bp_rnn_config_of(config);
        return (bp_transformer){.width = own.width,
                                .layers = own.layers,
                                .heads = 1,
                                .inner = own.embedding,
                                .residual_dropout = own.dropout};
    }
    return bp_transformer_of(config);
}

static bp_status add_model(pool *p, const bp_model_config *config)
{
    char value[512];
    bp_text text;
    const bp_transformer own = stack_of(config);
    bp_text_init(&text, NULL, NULL, value, sizeof value);
    bp_text_string(&text, config->family->model_type);
    put_count(&text, " vocabulary ", config->vocabulary);
    put_count(&text, " positions ", config->positions);
    put_count(&text, " width ", own.width);
    put_count(&text, " layers ", own.layers);
    put_count(&text, " heads ", own.heads);
    put_count(&text, " inner ", own.inner);
    put_real(&text, " epsilon ", own.norm_epsilon);
    put_real(&text, " dropout ", own.embedding_dropout);
    put_real(&text, " ", own.residual_dropout);
    put_real(&text, " ", own.attention_dropout);
    if (strcmp(config->family->model_type, "gpt2") != 0 || config->task != BP_TASK_CAUSAL_LM) {
        put_more(&text, config);
    }
    BP_TRY(bp_text_flush(&text));
    return add(p, result_prefix, "model", value);
}

/* The length of a run shapes every schedule but the constant ones. */
static bp_status add_length(pool *p, const session *s, uint64_t total)
{
    char value[24];
    snprintf(value, sizeof value, "%llu", (unsigned long long)total);
    bool shapes =
        s->runtime.spec.rate != bp_rate_constant || s->runtime.spec.rate_options.warmup_steps != 0;
    return add(p, shapes ? result_prefix : "run.", "total-steps", value);
}

/* A base is not in the snapshots of its adapters: its digest tells another one. */
static bp_status add_base(pool *p, session *s)
{
    char value[BP_DIGEST_TEXT];
    bool there;
    uint64_t digest;
    BP_TRY(bp_runtime_base_digest(&s->runtime, &there, &digest));
    if (!there) {
        return BP_OK;
    }
    bp_digest_text(digest, value);
    return add(p, result_prefix, "base-digest", value);
}

bp_status checkpoint_keys_fill(checkpoint *c, const checkpoint_facts *facts)
{
    static settings set;
    pool p = {.c = c};
    session *s = c->s;
    set = resolve(s);
    c->snapshot.keys = (bp_pairs){c->keys, 0};
    BP_TRY(add_model(&p, &s->spec.config));
    BP_TRY(add_base(&p, s));
    BP_TRY(add(&p, result_prefix, "data", facts->data));
    BP_TRY(add_length(&p, s, facts->total_steps));
    BP_TRY(add(&p, "run.", "variant", s->spec.device->variant(s->runtime.device)));
    BP_TRY(add(&p, "run.", "model", s->set->model));
    BP_TRY(add(&p, "run.", "data", s->set->data.item[0]));
    best_put(&c->best, c->best_text);
    BP_TRY(add(&p, CHECKPOINT_BEST_KEY, "", ""));
    c->keys[c->snapshot.keys.count - 1].value = c->best_text;
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        bool trains = (which->verbs & VERB_TRAIN) != 0 && which->kind != OPTION_PATHS;
        bool meta = (which->verbs & VERB_ARENA) != 0; /* every verb takes it */
        if (trains && !meta && strcmp(which->name, "model") != 0) {
            BP_TRY(add_option(&p, which, &set));
        }
    }
    return BP_OK;
}

static bool is_result(const char *key)
{
    return strncmp(key, result_prefix, sizeof result_prefix - 1) == 0;
}

static void print_difference(void *user, const char *key, const char *a, const char *b)
{
    size_t *differences = user;
    if (!is_result(key)) {
        return;
    }
    ++*differences;
    fprintf(stderr,
            "bedplate: --resume: %s differs from the snapshot's (found \"%s\", right would be "
            "\"%s\")\n",
            key + sizeof result_prefix - 1, a != NULL ? a : "nothing", b != NULL ? b : "nothing");
}

size_t checkpoint_keys_compare(const checkpoint *c, bp_pairs saved)
{
    size_t differences = 0;
    (void)bp_pairs_compare(c->snapshot.keys, saved, print_difference, &differences);
    return differences;
}

void checkpoint_keys_remark(const checkpoint *c, bp_pairs saved)
{
    const char *now = bp_pairs_find(c->snapshot.keys, "run.variant");
    const char *then = bp_pairs_find(saved, "run.variant");
    if (then != NULL && now != NULL && strcmp(now, then) != 0) {
        fprintf(stderr,
                "bedplate: the snapshot was made by kernels \"%s\", these are \"%s\": bits may "
                "differ from here on\n",
                then, now);
    }
}
