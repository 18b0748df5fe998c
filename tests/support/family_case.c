/* SPDX-License-Identifier: MIT */
/* Cases of tools/golden/families.py. */
#include "tests/support/family_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/bert.h"
#include "layers/gpt2.h"
#include "layers/llama.h"
#include "tests/support/store_memory.h"
#include "tools/formats/family.h"
#include "tools/formats/hf_config.h"

enum { SHAPE = 21, REALS = 7 };

static void read_shape(family_case *ref)
{
    size_t bytes = 0;
    int32_t *n = golden_tensor(&ref->file, "shape", &bytes);
    assert_int_equal(bytes, SHAPE * sizeof *n);
    double *real = golden_tensor(&ref->file, "reals", &bytes);
    assert_int_equal(bytes, REALS * sizeof *real);
    const bp_transformer stack = {.width = (uint32_t)n[2],
                                  .layers = (uint32_t)n[3],
                                  .heads = (uint32_t)n[4],
                                  .inner = (uint32_t)n[5],
                                  .untied = n[14] != 0,
                                  .norm_epsilon = real[0],
                                  .initializer_range = 0.02};
    const bp_llama_config llama = {
        .stack = stack,
        .kv_heads = (uint32_t)n[9],
        .head_width = (uint32_t)n[10],
        .qkv_bias = n[11] != 0,
        .output_bias = n[12] != 0,
        .mlp_bias = n[13] != 0,
        .rope_theta = real[1],
        .rope_scaling = {
            .factor = real[2], .low = real[3], .high = real[4], .original = (uint32_t)real[5]}};
    const bp_bert_config bert = {.stack = stack, .types = (uint32_t)n[15]};
    const bool is_bert = ref->spec.model == &bp_model_bert;
    ref->spec.config = (bp_model_config){.vocabulary = (uint32_t)n[0],
                                         .positions = (uint32_t)n[1],
                                         .task = (bp_task)n[16],
                                         .classes = (uint32_t)n[17]};
    bp_config_set_own(&ref->spec.config, is_bert ? (const void *)&bert : &llama,
                      is_bert ? sizeof bert : sizeof llama);
    ref->spec.batch = (uint32_t)n[6];
    ref->spec.sequence = (uint32_t)n[7];
    ref->spec.accumulation = (uint32_t)n[8];
    static const char *const all[] = {"all-linear"};
    static const char *const some[] = {"q_proj", "v_proj", "down_proj"};
    if (n[18] != 0) {
        ref->spec.lora = (bp_lora){.rank = (uint32_t)n[18],
                                   .rank_stabilized = n[19] != 0,
                                   .alpha = real[6],
                                   .targets = n[20] != 0 ? all : some,
                                   .target_count = n[20] != 0 ? 1 : 3};
    }
    free(n);
    free(real);
}

/* A file that holds its config.json needs no words about its family here. */
static void read_config(family_case *ref, const char *text, size_t bytes)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    memory_store memory;
    bp_error error = {.code = BP_OK};
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", text, bytes);
    if (bp_hf_config_read(&memory.store, "config.json", scratch, &ref->spec.config, &error) !=
        BP_OK) {
        fail_msg("%s: %s (%s)", error.name, error.text, error.right);
    }
    memory_store_free(&memory);
    ref->spec.model = ref->spec.config.family->model;
}

/* Files of contrast.py say how many texts are compared, and how vectors are made of them. */
static void read_texts(family_case *ref)
{
    size_t bytes = 0;
    int32_t *texts = golden_tensor(&ref->file, "texts", &bytes);
    ref->spec.texts = (uint32_t)texts[0];
    ref->spec.config.pooling = (bp_pooling)texts[1];
    ref->spec.similarity = 20.0;
    free(texts);
}

/* Files of quantised.py say how the dense layers are kept. */
static void read_form(family_case *ref)
{
    size_t bytes = 0;
    int32_t *form = golden_tensor(&ref->file, "quantised", &bytes);
    ref->spec.quantised = (bp_quantised)form[0];
    free(form);
}

void family_open(family_case *ref, const char *name)
{
    char path[128];
    size_t bytes = 0;
    snprintf(path, sizeof path, "tests/golden/%s.safetensors", name);
    memset(ref, 0, sizeof *ref);
    golden_open(&ref->file, path);
    ref->spec = rig_spec();
    ref->spec.model = strstr(name, "bert") != NULL   ? &bp_model_bert
                      : strstr(name, "gpt2") != NULL ? &bp_model_gpt2
                                                     : &bp_model_llama;
    read_shape(ref);
    if (golden_has(&ref->file, "config")) {
        char *text = golden_tensor(&ref->file, "config", &bytes);
        read_config(ref, text, bytes);
        free(text);
    }
    if (golden_has(&ref->file, "texts")) {
        read_texts(ref);
    }
    if (golden_has(&ref->file, "quantised")) {
        read_form(ref);
    }
    ref->spec.lora.magnitudes = golden_has(&ref->file, "magnitudes"); /* of dora.py */
    if (golden_has(&ref->file, "trained_tokens")) {                   /* of rows.py */
        ref->trained = golden_tensor(&ref->file, "trained_tokens", &bytes);
        ref->spec.lora.tokens = ref->trained;
        ref->spec.lora.token_count = (uint32_t)(bytes / sizeof *ref->trained);
    }
    ref->tokens = golden_tensor(&ref->file, "tokens", &bytes);
    ref->token_count = (uint32_t)(bytes / sizeof *ref->tokens);
    if (ref->spec.config.task != BP_TASK_CAUSAL_LM) {
        ref->samples = ref->token_count / ref->spec.sequence;
        ref->labels = golden_tensor(&ref->file, "labels", &bytes);
        ref->lengths = golden_tensor(&ref->file, "lengths", &bytes);
        assert_int_equal(bytes, ref->samples * sizeof *ref->lengths);
        ref->spec.pairs = strstr(name, "pairs") != NULL;
        ref->seconds = ref->spec.pairs ? golden_tensor(&ref->file, "seconds", &bytes) : NULL;
    }
}

void family_close(family_case *ref)
{
    free(ref->trained);
    free(ref->tokens);
    free(ref->labels);
    free(ref->lengths);
    free(ref->seconds);
    golden_close(&ref->file);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const family_case *ref = source->context;
    memcpy(to, ref->tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const family_case *ref = source->context;
    memcpy(to, ref->labels + first, n * sizeof *to);
    return BP_OK;
}

/* Of answers both places. */
static uint32_t label_of(const family_case *ref, uint64_t index)
{
    const bool ends = ref->spec.config.task == BP_TASK_ANSWERS;
    return ends ? (uint32_t)ref->labels[2 * index] | (uint32_t)ref->labels[2 * index + 1] << 16
                : (uint32_t)ref->labels[index];
}

static bp_labels kind_of(bp_task task)
{
    return task == BP_TASK_MASKED_LM || task == BP_TASK_TOKENS ? BP_LABELS_GIVEN
           : task == BP_TASK_CLASSES                           ? BP_LABELS_CLASS
           : task == BP_TASK_ANSWERS                           ? BP_LABELS_SPAN
           : task == BP_TASK_EMBEDDING                         ? BP_LABELS_TEXTS
                                                               : BP_LABELS_BITS;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const family_case *ref = source->context;
    *to = (bp_example){.first = index * ref->spec.sequence,
                       .count = (uint64_t)ref->lengths[index],
                       .label = label_of(ref, index),
                       .second = ref->seconds != NULL ? (uint64_t)ref->seconds[index] : 0};
    return BP_OK;
}

void family_rig(family_case *ref, rig *r)
{
    rig_open(r, &ref->spec, ref->tokens, 1000000);
    r->source.context = ref;
    r->source.read = read_tokens;
    r->source.count = ref->token_count;
    if (ref->labels != NULL) {
        r->source.examples = ref->samples;
        r->source.example = example;
        r->source.together = ref->spec.texts;
        r->source.labels = read_labels;
        r->feed.classes = ref->spec.config.classes;
        r->feed.kind = kind_of(ref->spec.config.task);
    }
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}
