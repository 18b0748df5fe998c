/* SPDX-License-Identifier: MIT */
/* Whatever a block keeps, what it computes is the same: for each family, kept sets against
 * keep-all, with every buffer poisoned at birth and death, under options that change the stages.
 * And the sets that the engine finds worth keeping, against brute force on random lists of nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "layers/mlp_model.h"
#include "layers/node_kinds.h"
#include "layers/transformer.h"
#include "tests/support/rig.h"
#include "tests/support/spec_case.h"

#define TOKENS   300
#define EXAMPLES 20
#define STAGES   16
#define SAMPLED  24 /* kept sets of a case */

static int32_t tokens[TOKENS];

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void make_tokens(void)
{
    uint32_t state = 5;
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(next_random(&state) % 37);
    }
}

static bp_status read_numbers(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        const float number = (float)tokens[first + i] / 16.0f - 1.0f;
        memcpy(&to[i], &number, sizeof number);
    }
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const uint64_t length = source->count / EXAMPLES;
    *to = (bp_example){.first = index * length, .count = length, .label = index % 3};
    return BP_OK;
}

/* With the data that the model is for: tokens, hidden tokens, rows of numbers, classes. */
static void open_case(rig *r, const bp_spec *spec)
{
    rig_open(r, spec, tokens, TOKENS);
    if (spec->config.task == BP_TASK_CAUSAL_LM) {
        return;
    }
    r->source.count = spec->sequence * EXAMPLES;
    r->source.examples = EXAMPLES;
    r->source.example = example;
    r->source.read = spec->model == &bp_model_mlp ? read_numbers : r->source.read;
    r->feed.classes = spec->config.classes;
    r->feed.kind = spec->config.task == BP_TASK_MASKED_LM ? BP_LABELS_MASKED : BP_LABELS_CLASS;
    r->feed.masking = (bp_masking){0.4, 36, {-1, -1, -1, -1}};
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

/* The digest of the state after two steps; *first: the lowest stage that is trained. */
static uint64_t digest_of(const bp_spec *spec, uint32_t *first)
{
    static rig r;
    open_case(&r, spec);
    for (int i = 0; i < 2; i++) {
        const bp_outcome outcome = rig_step(&r);
        assert_true(outcome.loss > 0.0 && !outcome.nonfinite);
    }
    const uint64_t digest = rig_digest(&r);
    *first = r.runtime.compile.first;
    rig_close(&r);
    return digest;
}

/* The same where every stage with a tape keeps what `kept` says of it. */
static uint64_t digest_keeping(const bp_spec *spec, uint32_t first, const uint32_t *kept)
{
    bp_action actions[2 * STAGES];
    bp_spec other = *spec;
    const uint32_t count = spec->model->stages(&spec->config) - first;
    uint32_t used = 0;
    for (uint32_t a = 0; a + 1 < 2 * count; a++) {
        const bool forward = a + 1 < count;
        const uint32_t s = forward ? a : 2 * count - 2 - a;
        const uint32_t variants = spec->model->variants(&spec->config, first + s);
        actions[used++] = (bp_action){.kind = forward ? BP_ACTION_FORWARD : BP_ACTION_BACKWARD,
                                      .stage = s,
                                      .variant = variants > 1 ? BP_TAPE_SET | kept[first + s] : 0};
    }
    other.policy = (bp_policy){.kind = BP_POLICY_ACTIONS, .actions = actions, .action_count = used};
    return digest_of(&other, &first);
}

static bp_spec case_named(const char *wanted)
{
    bp_spec spec;
    char name[SPEC_CASE_NAME];
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        if (spec_case(i, &spec, name) && strcmp(name, wanted) == 0) {
            spec.poison = true;
            return spec;
        }
    }
    fail_msg("there is no case %s", wanted);
    return spec;
}

static void sample_sets(const char *name, uint32_t seed)
{
    const bp_spec spec = case_named(name);
    uint32_t kept[STAGES], first = 0;
    const uint64_t expected = digest_of(&spec, &first);
    for (uint32_t k = 0; k < SAMPLED; k++) {
        for (uint32_t s = 0; s < STAGES; s++) {
            kept[s] = next_random(&seed) & (value_bit(BP_BLOCK_VALUES) - 1);
        }
        if (digest_keeping(&spec, first, kept) != expected) {
            fail_msg("%s: keeping 0x%x, 0x%x gives another state", name, kept[1], kept[2]);
        }
    }
}

static void test_families_under_options(void **state)
{
    (void)state;
    static const char *const names[] = {
        "gpt2 plain",    "gpt2 dropout",        "gpt2 grouped",    "gpt2 released-clipped",
        "gpt2 bf16",     "gpt2 lora",           "gpt2 lora-nf4",   "gpt2 frozen",
        "gpt2 classes",  "llama plain",         "llama dropout",   "llama biased",
        "llama grouped", "llama lora",          "llama lora-int8", "llama released-clipped",
        "llama frozen",  "llama bf16",          "qwen2 plain",     "qwen2 lora-released",
        "bert plain",    "bert dropout",        "bert lora",       "bert released-clipped",
        "bert frozen",   "bert grouped",        "mlp plain",       "mlp dropout",
        "mlp grouped",   "mlp released-clipped"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sample_sets(names[i], 100 + i);
    }
}

/* Every subset of what a block of GPT-2 can keep. */
static void test_all_subsets(void **state)
{
    (void)state;
    bp_spec spec = case_named("gpt2 plain");
    uint32_t kept[STAGES], first = 0, tried = 0;
    SET_OWN(&spec.config, bp_transformer, layers, 1);
    const uint64_t expected = digest_of(&spec, &first);
    for (uint32_t mask = 0; mask < 1u << 11; mask += 2) {
        for (uint32_t s = 0; s < STAGES; s++) {
            kept[s] = mask;
        }
        if (digest_keeping(&spec, first, kept) != expected) {
            fail_msg("keeping 0x%x gives another state", mask);
        }
        tried++;
    }
    assert_int_equal(tried, 1024);
}

int main(void)
{
    make_tokens();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_under_options),
        cmocka_unit_test(test_all_subsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
