/* SPDX-License-Identifier: MIT */
/* Llama, Qwen2, BERT, GPT-2's classifier and adapters against what PyTorch and PEFT computed in
 * float64 (tools/golden/families.py): the loss, every gradient within 1e-5, the losses of 50 steps
 * within 1e-4, and all logits: those that evaluation keeps, and those of a language model position
 * by position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/bert.h"
#include "layers/gpt2.h"
#include "layers/llama.h"
#include "tests/support/reference.h"

enum { SHAPE = 21, REALS = 7, STEPS = 50 };

typedef struct reference {
    golden file;
    bp_spec spec;
    int32_t *tokens;
    int32_t *labels;  /* NULL: a stream */
    int32_t *lengths; /* NULL: a stream */
    uint32_t token_count;
    uint32_t samples;
} reference;

static void read_shape(reference *ref)
{
    size_t bytes = 0;
    int32_t *n = golden_tensor(&ref->file, "shape", &bytes);
    assert_int_equal(bytes, SHAPE * sizeof *n);
    double *real = golden_tensor(&ref->file, "reals", &bytes);
    assert_int_equal(bytes, REALS * sizeof *real);
    ref->spec.config =
        (bp_model_config){.vocabulary = (uint32_t)n[0],
                          .positions = (uint32_t)n[1],
                          .width = (uint32_t)n[2],
                          .layers = (uint32_t)n[3],
                          .heads = (uint32_t)n[4],
                          .inner = (uint32_t)n[5],
                          .kv_heads = (uint32_t)n[9],
                          .head_width = (uint32_t)n[10],
                          .qkv_bias = n[11] != 0,
                          .output_bias = n[12] != 0,
                          .mlp_bias = n[13] != 0,
                          .untied = n[14] != 0,
                          .types = (uint32_t)n[15],
                          .task = (bp_task)n[16],
                          .classes = (uint32_t)n[17],
                          .norm_epsilon = real[0],
                          .rope_theta = real[1],
                          .rope_scaling = {real[2], real[3], real[4], (uint32_t)real[5]},
                          .initializer_range = 0.02};
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

/* Files of quantised.py say how the dense layers are kept. */
static void read_form(reference *ref)
{
    size_t bytes = 0;
    int32_t *form = golden_tensor(&ref->file, "quantised", &bytes);
    ref->spec.quantised = (bp_quantised)form[0];
    free(form);
}

static void reference_open(reference *ref, const char *name)
{
    char path[128];
    size_t bytes = 0;
    snprintf(path, sizeof path, "tests/golden/%s.safetensors", name);
    memset(ref, 0, sizeof *ref);
    golden_open(&ref->file, path);
    ref->spec = rig_spec();
    ref->spec.model = strncmp(name, "bert", 4) == 0  ? &bp_model_bert
                      : strstr(name, "gpt2") != NULL ? &bp_model_gpt2
                                                     : &bp_model_llama;
    read_shape(ref);
    if (strncmp(name, "qlora", 5) == 0) {
        read_form(ref);
    }
    ref->tokens = golden_tensor(&ref->file, "tokens", &bytes);
    ref->token_count = (uint32_t)(bytes / sizeof *ref->tokens);
    if (ref->spec.config.task != BP_TASK_CAUSAL_LM) {
        ref->samples = ref->token_count / ref->spec.sequence;
        ref->labels = golden_tensor(&ref->file, "labels", &bytes);
        ref->lengths = golden_tensor(&ref->file, "lengths", &bytes);
        assert_int_equal(bytes, ref->samples * sizeof *ref->lengths);
    }
}

static void reference_close(reference *ref)
{
    free(ref->tokens);
    free(ref->labels);
    free(ref->lengths);
    golden_close(&ref->file);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const reference *ref = source->context;
    memcpy(to, ref->tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const reference *ref = source->context;
    memcpy(to, ref->labels + first, n * sizeof *to);
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const reference *ref = source->context;
    *to = (bp_example){.first = index * ref->spec.sequence,
                       .count = (uint64_t)ref->lengths[index],
                       .label = (uint32_t)ref->labels[index]};
    return BP_OK;
}

static void open_rig(reference *ref, rig *r)
{
    rig_open(r, &ref->spec, ref->tokens, 1000000);
    r->source.context = ref;
    r->source.read = read_tokens;
    r->source.count = ref->token_count;
    if (ref->labels != NULL) {
        r->source.examples = ref->samples;
        r->source.example = example;
        r->source.labels = read_labels;
        r->feed.classes = ref->spec.config.classes;
        r->feed.kind = ref->spec.config.task == BP_TASK_MASKED_LM ? BP_LABELS_GIVEN
                       : ref->spec.config.task == BP_TASK_CLASSES ? BP_LABELS_CLASS
                                                                  : BP_LABELS_BITS;
    }
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

static void check(const char *name, const char *variant, uint32_t loss_rows, bp_policy policy)
{
    reference ref;
    rig r;
    reference_open(&ref, name);
    ref.spec.device_options.variant = variant;
    ref.spec.device_options.threads = 2;
    ref.spec.loss_rows = loss_rows;
    ref.spec.policy = policy;
    open_rig(&ref, &r);
    reference_weights(&ref.file, &r);
    /* The update reads every gradient in its last op, so all of them still lie in the arena. */
    const bp_outcome outcome = rig_step(&r);
    const double loss = reference_number(&ref.file, "loss", 0),
                 norm = reference_number(&ref.file, "norm", 0);
    if (fabs(outcome.loss - loss) > 1e-6 * loss || fabs(outcome.norm - norm) > 1e-5 * norm) {
        fail_msg("%s: loss %.9g for %.9g, norm %.9g for %.9g", name, outcome.loss, loss,
                 outcome.norm, norm);
    }
    print_message("%s: worst gradient %.1e of its scale\n", name,
                  reference_gradients(&ref.file, &r, name));
    rig_close(&r);
    reference_close(&ref);
}

static const char *const cases[] = {"llama_one_head",
                                    "llama_grouped",
                                    "llama_biases",
                                    "llama_one_token",
                                    "qwen2_grouped",
                                    "lora_llama",
                                    "lora_some",
                                    "lora_gpt2",
                                    "qlora_llama_nf4",
                                    "qlora_llama_double",
                                    "qlora_llama_int8",
                                    "qlora_gpt2",
                                    "llama_short",
                                    "qwen2_short",
                                    "qwen2_one_token",
                                    "gpt2_lm_one_head",
                                    "gpt2_lm_short",
                                    "gpt2_lm_one_token",
                                    "llama_classes",
                                    "llama_regression",
                                    "llama_one_sample",
                                    "qwen2_classes",
                                    "gpt2_classes",
                                    "gpt2_labels",
                                    "gpt2_one_sample",
                                    "bert_classes",
                                    "bert_labels",
                                    "bert_regression",
                                    "bert_one_token",
                                    "bert_masked",
                                    "bert_masked_one_head",
                                    "bert_masked_one_token"};
#define CASES (sizeof cases / sizeof cases[0])
enum { CAUSAL = 18 }; /* the first cases are language models over a stream */

static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        check(cases[i], "portable", 0, (bp_policy){.kind = BP_POLICY_NONE});
    }
}

/* Whatever forms of the kernels this processor has, everything recomputed, chunks of five tokens.
 */
static void test_gradients_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        const bool short_case =
            strstr(cases[i], "one_token") != NULL || strstr(cases[i], "one_sample") != NULL;
        check(cases[i], NULL, short_case ? 1 : 5, (bp_policy){.kind = BP_POLICY_FULL});
    }
}

/* Fine-tuning: the same losses step for step. */
static void test_curves(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        reference ref;
        rig r;
        double worst = 0.0;
        reference_open(&ref, cases[i]);
        ref.spec.optimizer_options.weight_decay = 0.0;
        ref.spec.optimizer_options.learning_rate = 2e-3;
        ref.spec.device_options.variant = NULL;
        open_rig(&ref, &r);
        reference_weights(&ref.file, &r);
        for (uint32_t step = 0; step < STEPS; step++) {
            const double wanted = reference_number(&ref.file, "curve", step),
                         found = rig_step(&r).loss;
            const double error = fabs(found - wanted) / wanted;
            worst = fmax(worst, error);
            if (error > 1e-4) {
                fail_msg("%s: loss %.9g for %.9g in step %u", cases[i], found, wanted, step);
            }
        }
        print_message("%s: worst of 50 losses %.1e\n", cases[i], worst);
        rig_close(&r);
        reference_close(&ref);
    }
}

/* Generation reads the first window token by token, and in one prefill. */
static void check_logits(const char *name, uint32_t at_once)
{
    reference ref;
    rig r;
    reference_open(&ref, name);
    ref.spec.generate_context = ref.spec.sequence;
    ref.spec.device_options.variant = NULL;
    open_rig(&ref, &r);
    reference_weights(&ref.file, &r);
    reference_logits(&ref.file, &r, ref.tokens, ref.spec.sequence, at_once);
    rig_close(&r);
    reference_close(&ref);
}

static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CAUSAL; i++) {
        check_logits(cases[i], 1);
        check_logits(cases[i], 5);
        check_logits(cases[i], 100);
    }
}

/* Evaluation keeps the logits of all that it reads. */
static void check_kept(const char *name, uint32_t batch, bool poison)
{
    reference ref;
    rig r;
    reference_open(&ref, name);
    ref.spec.batch = batch != 0 ? batch : ref.spec.batch;
    ref.spec.evaluate = true;
    ref.spec.keep_logits = true;
    ref.spec.poison = poison;
    ref.spec.loss_rows = batch != 0 ? 4 : 0;
    open_rig(&ref, &r);
    reference_weights(&ref.file, &r);
    r.feed.group = ref.spec.batch;
    assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
    const double loss = reference_kept_logits(&ref.file, &r, ref.lengths);
    if (ref.labels != NULL) {
        const double wanted = reference_number(&ref.file, "loss", 0);
        assert_true(fabs(loss - wanted) <= 1e-6 * wanted);
    }
    rig_close(&r);
    reference_close(&ref);
}

static void test_kept_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        const bool alone = strstr(cases[i], "one_") != NULL;
        check_kept(cases[i], 0, false);
        if (i >= CAUSAL && !alone) {
            check_kept(cases[i], 3, true); /* of four samples: the last batch is short */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),   cmocka_unit_test(test_gradients_otherwise),
        cmocka_unit_test(test_curves),      cmocka_unit_test(test_logits),
        cmocka_unit_test(test_kept_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
