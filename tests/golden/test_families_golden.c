/* SPDX-License-Identifier: MIT */
/* Llama, Qwen2, BERT, GPT-2's classifier and adapters against what PyTorch and PEFT computed in
 * float64 (tools/golden/families.py): the loss, every gradient within 1e-5, the losses of 50 steps
 * within 1e-4, and all logits: those that evaluation keeps, and those of a language model position
 * by position. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/plans/family_case.h"
#include "tests/fixtures/share.h"

enum { STEPS = 50 };

static void check(const char *name, const char *variant, uint32_t loss_rows, bp_policy policy)
{
    family_case ref;
    model_fixture r;
    family_open(&ref, name);
    ref.spec.device_options.variant = variant;
    ref.spec.device_options.threads = 2;
    ref.spec.loss_rows = loss_rows;
    ref.spec.policy = policy;
    family_model_fixture(&ref, &r);
    reference_weights(&ref.file, &r);
    /* The update reads every gradient in its last op, so all of them still lie in the arena. */
    const bp_outcome outcome = model_fixture_step(&r);
    const double loss = reference_number(&ref.file, "loss", 0),
                 norm = reference_number(&ref.file, "norm", 0);
    if (!(fabs(outcome.loss - loss) <= 1e-6 * loss) || /* what is no number is wrong too */
        !(fabs(outcome.norm - norm) <= 1e-5 * norm)) {
        fail_msg("%s: loss %.9g for %.9g, norm %.9g for %.9g", name, outcome.loss, loss,
                 outcome.norm, norm);
    }
    print_message("%s: worst gradient %.1e of its scale\n", name,
                  reference_gradients(&ref.file, &r, name));
    model_fixture_close(&r);
    family_close(&ref);
}

static const char *const named[] = {"llama_one_head",
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
                                    "dora_llama",
                                    "dora_some",
                                    "dora_gpt2",
                                    "qdora_llama_nf4",
                                    "qdora_llama_double",
                                    "qdora_llama_int8",
                                    "qdora_gpt2",
                                    "rows_llama",
                                    "rows_llama_untied",
                                    "rows_gpt2",
                                    "rows_bert_masked",
                                    "llama_short",
                                    "qwen2_short",
                                    "qwen2_one_token",
                                    "gpt2_lm_one_head",
                                    "gpt2_lm_short",
                                    "gpt2_lm_one_token",
                                    "gpt2_lm_untied",
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
                                    "bert_masked_one_token",
                                    "bert_pairs",
                                    "bert_pairs_regression",
                                    "lora_bert"};
enum { NAMED = sizeof named / sizeof named[0], CASES_MAX = 320, NAME_BYTES = 96 };

/* These, and every file of tests/golden/families, which says itself what its model is. */
static char cases[CASES_MAX][NAME_BYTES];
static size_t case_count;

static int find_cases(void **state)
{
    static const char end[] = ".safetensors";
    (void)state;
    for (; case_count < NAMED; case_count++) {
        snprintf(cases[case_count], NAME_BYTES, "%s", named[case_count]);
    }
    DIR *folder = opendir("tests/golden/families");
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const size_t length = strlen(entry->d_name), tail = sizeof end - 1;
        if (length > tail && strcmp(entry->d_name + length - tail, end) == 0) {
            assert_true(case_count < CASES_MAX);
            snprintf(cases[case_count++], NAME_BYTES, "families/%.*s", (int)(length - tail),
                     entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return 0;
}

/* verifies layers-2.7756 layers-14.d048 layers-30.753f layers-54.1822
 * layers-58.44d1 */
static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        /* In the short form every fourth on the portable kernels: the fastest have their bits. */
        const char *form = long_form() || i % 4 == 0 ? "portable" : NULL;
        check(cases[i], form, 0, (bp_policy){.kind = BP_POLICY_NONE});
    }
}

/* Whatever forms of the kernels this processor has, everything recomputed, chunks of five tokens.
 */
/* verifies layers-8.c1a9 */
static void test_gradients_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        const bool short_case =
            strstr(cases[i], "one_token") != NULL || strstr(cases[i], "one_sample") != NULL;
        check(cases[i], NULL, short_case ? 1 : 5, (bp_policy){.kind = BP_POLICY_FULL});
    }
}

/* Fine-tuning: the same losses step for step. */
/* verifies layers-2.7756 layers-14.d048 layers-30.753f layers-54.1822
 * layers-58.44d1 */
static void test_curves(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        family_case ref;
        model_fixture r;
        double worst = 0.0;
        family_open(&ref, cases[i]);
        ref.spec.optimizer_options.weight_decay = 0.0;
        ref.spec.optimizer_options.learning_rate = 2e-3;
        ref.spec.device_options.variant = NULL;
        family_model_fixture(&ref, &r);
        reference_weights(&ref.file, &r);
        for (uint32_t step = 0; step < STEPS; step++) {
            const double wanted = reference_number(&ref.file, "curve", step),
                         found = model_fixture_step(&r).loss;
            const double error = fabs(found - wanted) / wanted;
            worst = fmax(worst, error);
            if (!(error <= 1e-4)) {
                fail_msg("%s: loss %.9g for %.9g in step %u", cases[i], found, wanted, step);
            }
        }
        print_message("%s: worst of 50 losses %.1e\n", cases[i], worst);
        model_fixture_close(&r);
        family_close(&ref);
    }
}

/* A language model over a stream. */
static bool reads_a_stream(const char *name)
{
    family_case ref;
    family_open(&ref, name);
    const bool stream = ref.labels == NULL && ref.prompts == NULL;
    family_close(&ref);
    return stream;
}

/* Generation reads the first window token by token, and in one prefill. */
static void check_logits(const char *name, uint32_t at_once)
{
    family_case ref;
    model_fixture r;
    family_open(&ref, name);
    ref.spec.generate_context = ref.spec.sequence;
    ref.spec.device_options.variant = NULL;
    family_model_fixture(&ref, &r);
    reference_weights(&ref.file, &r);
    reference_logits(&ref.file, &r, ref.tokens, ref.spec.sequence, at_once);
    model_fixture_close(&r);
    family_close(&ref);
}

/* verifies layers-2.7756 layers-14.d048 layers-30.753f layers-54.1822
 * layers-58.44d1 */
static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        if (!reads_a_stream(cases[i])) {
            continue;
        }
        check_logits(cases[i], 1);
        check_logits(cases[i], 5);
        check_logits(cases[i], 100);
    }
}

/* The first sample's source is read, then its other text token by token, or at once. */
static void check_written(const char *name, uint32_t at_once)
{
    static int32_t room[256];
    family_case ref;
    model_fixture r;
    uint32_t read;
    family_open(&ref, name);
    ref.spec.generate_context = ref.spec.sequence;
    ref.spec.device_options.variant = NULL;
    assert_true(ref.spec.source <= 256);
    family_model_fixture(&ref, &r);
    reference_weights(&ref.file, &r);
    const uint32_t length = (uint32_t)ref.prompts[0];
    const int32_t *source = family_source(&ref, room, &read);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens + length, 1), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_read_source(&r.runtime, source, ref.spec.source + 1), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_read_source(&r.runtime, source, read), BP_OK);
    reference_first_logits(&ref.file, &r, ref.tokens + length, (uint32_t)ref.lengths[0], at_once);
    model_fixture_close(&r);
    family_close(&ref);
}

/* The likeliest tokens, each read before the next, are those of transformers' generate. */
static void check_greedy(const char *name)
{
    static int32_t room[256];
    family_case ref;
    model_fixture r;
    uint32_t read;
    size_t bytes = 0;
    family_open(&ref, name);
    ref.spec.generate_context = ref.spec.sequence;
    ref.spec.device_options.variant = NULL;
    family_model_fixture(&ref, &r);
    reference_weights(&ref.file, &r);
    int32_t *greedy = golden_tensor(&ref.file, "greedy", &bytes);
    const uint32_t length = (uint32_t)ref.prompts[0];
    const int32_t *source = family_source(&ref, room, &read);
    assert_int_equal(bp_runtime_read_source(&r.runtime, source, read), BP_OK);
    int32_t last = ref.tokens[length];
    for (size_t i = 0; i < bytes / sizeof *greedy; i++) {
        const uint32_t vocabulary = ref.spec.config.vocabulary;
        uint32_t best = 0;
        assert_int_equal(bp_runtime_accept(&r.runtime, &last, 1), BP_OK);
        for (uint32_t v = 1; v < vocabulary; v++) {
            best = r.runtime.logits_host[v] > r.runtime.logits_host[best] ? v : best;
        }
        assert_int_equal(best, greedy[i]);
        last = greedy[i];
    }
    free(greedy);
    model_fixture_close(&r);
    family_close(&ref);
}

/* verifies layers-2.7756 */
static void test_written(void **state)
{
    uint32_t found = 0;
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        family_case ref;
        family_open(&ref, cases[i]);
        const bool writes = ref.prompts != NULL && ref.spec.lora.rank == 0;
        family_close(&ref);
        if (writes) {
            found++;
            check_written(cases[i], 1);
            check_written(cases[i], 3);
            check_written(cases[i], 100);
            check_greedy(cases[i]);
        }
    }
    assert_true(found > 0);
}

/* A text that grows past the length at which its model reads it otherwise is accepted again. */
/* verifies layers-2.7756 */
static void test_long_text(void **state)
{
    family_case ref;
    model_fixture r;
    bool again = true;
    (void)state;
    family_open(&ref, "families/phi3_long");
    ref.spec.generate_context = ref.spec.sequence;
    family_model_fixture(&ref, &r);
    const uint32_t near = r.plan.spec.model->near_tokens(&r.plan.spec.config);
    assert_true(near > 1 && near < ref.spec.sequence);
    assert_int_equal(bp_runtime_reread(&r.runtime, near, &again), BP_OK);
    assert_false(again);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens, near), BP_OK);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens + near, 1), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_reread(&r.runtime, near + 1, &again), BP_OK);
    assert_true(again);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens, 1), BP_OK);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens + 1, near), BP_OK);
    assert_int_equal(bp_runtime_rewind(&r.runtime, 1, &again), BP_OK);
    assert_int_equal(bp_runtime_accept(&r.runtime, ref.tokens + 1, 1), BP_ERR_USAGE);
    model_fixture_close(&r);
    family_close(&ref);
}

/* Evaluation keeps the logits of all that it reads. */
static void check_kept(const char *name, uint32_t batch, bool poison)
{
    family_case ref;
    model_fixture r;
    family_open(&ref, name);
    ref.spec.batch = batch != 0 ? batch : ref.spec.batch;
    ref.spec.evaluate = true;
    ref.spec.keep_logits = true;
    ref.spec.poison = poison;
    ref.spec.loss_rows = batch != 0 ? 4 : 0;
    family_model_fixture(&ref, &r);
    reference_weights(&ref.file, &r);
    r.feed.group = ref.spec.batch;
    assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
    const double loss = reference_kept_logits(&ref.file, &r, ref.lengths);
    /* An evaluation compares the texts of a micro-batch with each other, training those of a group.
     */
    if (ref.labels != NULL && !bp_spec_keeps_vectors(&ref.spec)) {
        const double wanted = reference_number(&ref.file, "loss", 0);
        assert_true(fabs(loss - wanted) <= 1e-6 * wanted);
    }
    model_fixture_close(&r);
    family_close(&ref);
}

/* verifies run-25.3c8a */
static void test_kept_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++) {
        const bool whole = strstr(cases[i], "vectors") != NULL; /* of three samples: no pairs */
        const bool both = strstr(cases[i], "_both") != NULL; /* whose batch is part of the loss */
        const bool alone = strstr(cases[i], "one_") != NULL || whole || both;
        check_kept(cases[i], 0, false);
        if (!alone && !reads_a_stream(cases[i])) {
            check_kept(cases[i], 3, true); /* of four samples: the last batch is short */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_gradients_otherwise),
        cmocka_unit_test(test_curves),    cmocka_unit_test(test_logits),
        cmocka_unit_test(test_long_text), cmocka_unit_test(test_kept_logits),
        cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests(tests, find_cases, NULL);
}
