/* SPDX-License-Identifier: MIT */
/* What is sampled is what is trained: the log-probabilities of completions are, bit by bit, the
 * losses that the training forward finds for them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "device/host/cpu.h"
#include "layers/families/llama.h"
#include "tests/fixtures/model_fixture.h"
#include "tools/bedplate/rollout/rollout.c"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"

enum { GENERATIONS = 3, MADE = 11, PROMPT = 1 };

static bool never(const void *user, uint32_t id)
{
    (void)user;
    (void)id;
    return false;
}

static bool below_sixteen(const void *user, uint32_t id)
{
    (void)user;
    return id < 16;
}

typedef struct policy_case {
    const char *preset;
    bp_dtype working;
    bp_quantised quantised;
    uint32_t rank;
    double temperature;
    const char *variant;
    uint32_t threads;
    uint32_t window; /* 0: the preset's */
} policy_case;

static bp_spec policy_spec(const policy_case *c, const rollout_choice *choice, uint32_t slots)
{
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    const bp_preset *preset = bp_preset_find(c->preset);
    assert_non_null(preset);
    spec.config = bp_preset_config(preset);
    spec.model = spec.config.family->model;
    if (c->window > 0) {
        bp_llama_config own = bp_llama_config_of(&spec.config);
        own.window = c->window;
        bp_family_config_set(&spec.config, &own, sizeof own);
    }
    spec.device_options = (bp_device_options){.threads = c->threads, .variant = c->variant};
    spec.working = c->working;
    spec.master = c->working == BP_F32 ? BP_MASTER_WEIGHT : BP_MASTER_FP32;
    spec.gradient = c->working;
    if (c->working == BP_F16) {
        spec.scaling = (bp_scaling){.kind = BP_SCALING_STATIC, .initial = 1.0};
    }
    spec.quantised = c->quantised;
    spec.lora = (bp_lora){.rank = c->rank, .alpha = 8.0, .targets = all, .target_count = 1};
    spec.batch = 1;
    spec.sequence = PROMPT + MADE - 1;
    spec.policy_temperature = c->temperature;
    rollout_spec(&spec, PROMPT, choice, slots);
    return spec;
}

/* Sums of so few floats of like size are exact in double, in whatever order. */
static void check_policy(const policy_case *c)
{
    static int32_t ids[GENERATIONS][MADE];
    static float logps[GENERATIONS][MADE];
    const rollout_choice choice = {.generations = GENERATIONS,
                                   .most = MADE,
                                   .temperature = c->temperature,
                                   .seed = 5,
                                   .ends = never};
    const int32_t first = 101;
    const rollout_prompt prompt = {&first, PROMPT, 4};
    rollout_completion made[GENERATIONS];
    int32_t tokens[PROMPT + MADE] = {0};
    model_fixture r;
    bp_error error = {.code = BP_OK};
    const bp_spec spec = policy_spec(c, &choice, 2);
    if (bp_spec_check(&spec, &error) != BP_OK) {
        fail_msg("%s: %s: %s", c->preset, error.name, error.text);
    }
    model_fixture_open(&r, &spec, tokens, PROMPT + MADE);
    void *work = NULL;
    assert_int_equal(posix_memalign(&work, 64, (size_t)rollout_bytes(&spec)), 0);
    for (int g = 0; g < GENERATIONS; g++) {
        /* Each a step later, with other weights. */
        for (int i = 0; i < GENERATIONS; i++) {
            made[i] = (rollout_completion){.ids = ids[i], .logps = logps[i]};
        }
        assert_int_equal(rollout_run(&r.runtime, &choice, &prompt, 1, made, work, &error), BP_OK);
        assert_int_equal(made[g].count, MADE);
        double sum = 0.0;
        tokens[0] = first;
        for (int i = 0; i < MADE; i++) {
            tokens[PROMPT + i] = ids[g][i];
            sum += (double)logps[g][i];
        }
        const bp_outcome outcome = model_fixture_step(&r);
        const double mean = -sum / MADE;
        if (memcmp(&outcome.loss, &mean, sizeof mean) != 0) {
            fail_msg("%s, %d bits, T %g: trained at %a, sampled at %a", c->preset,
                     8 * (int)bp_dtype_bytes(c->working), c->temperature, outcome.loss, mean);
        }
    }
    free(work);
    model_fixture_close(&r);
}

/* verifies face-64.96fc */
static void sampled_is_trained(void **state)
{
    (void)state;
    static const policy_case cases[] = {
        {"tiny", BP_F32, BP_QUANTISED_NONE, 0, 1.0, "portable", 1, 0},
        {"tiny", BP_BF16, BP_QUANTISED_NONE, 0, 1.0, "portable", 2, 0},
        {"tiny", BP_BF16, BP_QUANTISED_NONE, 0, 0.7, NULL, 3, 0},
        {"tiny-llama", BP_F32, BP_QUANTISED_NONE, 4, 0.7, NULL, 1, 0},
        {"tiny-llama", BP_BF16, BP_QUANTISED_NONE, 4, 1.3, NULL, 2, 0},
        {"tiny-llama", BP_F16, BP_QUANTISED_NONE, 0, 1.0, "portable", 1, 0},
        {"tiny-llama", BP_BF16, BP_QUANTISED_NF4, 4, 0.7, NULL, 2, 0},
        {"tiny-llama", BP_F32, BP_QUANTISED_INT8, 4, 1.0, "portable", 1, 0},
        {"tiny-gemma2", BP_F32, BP_QUANTISED_NONE, 0, 0.7, "portable", 1, 0},
        {"tiny-gemma2", BP_BF16, BP_QUANTISED_NONE, 0, 0.7, NULL, 2, 0},
        {"tiny-gemma2", BP_BF16, BP_QUANTISED_NF4, 2, 1.0, NULL, 1, 0},
        {"tiny-gemma", BP_BF16, BP_QUANTISED_NONE, 0, 1.0, NULL, 1, 0},
        {"tiny-qwen3", BP_BF16, BP_QUANTISED_NF4, 2, 1.0, NULL, 2, 0},
        {"tiny-phi3", BP_BF16, BP_QUANTISED_NONE, 2, 1.0, NULL, 2, 0},
        {"tiny-neox", BP_BF16, BP_QUANTISED_NONE, 2, 0.9, NULL, 1, 0},
        {"tiny-gemma2", BP_F32, BP_QUANTISED_NONE, 2, 1.0, NULL, 2, 4},
        {"tiny-gemma2", BP_BF16, BP_QUANTISED_NF4, 2, 0.7, NULL, 1, 5},
        {"tiny-llama", BP_BF16, BP_QUANTISED_NONE, 0, 1.0, NULL, 2, 3},
    };
    static const char *const forms[] = {"portable", "avx2", "avx512"};
    const bool there[] = {true, bp_cpu_has_avx2(), bp_cpu_has_avx512()};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int f = 0; f < 3; f++) {
            policy_case one = cases[i];
            one.variant = forms[f];
            if (there[f]) {
                check_policy(&one);
            }
        }
    }
}

/* Gradients at a temperature, with a cap and without, are what the loss changes by. */
/* verifies face-64.96fc */
static void gradients_are_cooled(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny", "tiny-gemma2"};
    static const rollout_choice choice = {.generations = 1, .most = MADE, .ends = never};
    for (int i = 0; i < 2; i++) {
        const policy_case c = {presets[i], BP_F32, BP_QUANTISED_NONE, 0, 0.4, NULL, 1, 0};
        const int32_t tokens[PROMPT + MADE] = {101, 7, 200, 45, 101, 33, 9, 9, 77, 150, 2, 64};
        model_fixture r;
        bp_spec spec = policy_spec(&c, &choice, 1);
        spec.generate_context = spec.generate_regions = spec.generate_prompt = 0;
        spec.optimizer_options.learning_rate = 0.0;
        spec.optimizer_options.weight_decay = 0.0;
        model_fixture_open(&r, &spec, tokens, PROMPT + MADE);
        for (uint32_t p = 0; p < r.plan.builder.parameter_count; p += 3) {
            double difference, norm;
            model_fixture_differ(&r, &r.plan.builder.parameters[p], 4e-3, &difference, &norm);
            assert_true(fabs(difference - norm) <= 2e-2 * norm + 1e-4);
        }
        model_fixture_close(&r);
    }
}

/* The counts of many draws against the softmax in double, and the log-probability. */
/* verifies face-64.96fc */
static void draws_are_as_likely_as_said(void **state)
{
    (void)state;
    enum { COUNT = 7, DRAWS = 40000 };
    const float logits[COUNT] = {0.5f, -1.0f, 2.0f, 1.5f, -90.0f, 1.0f, -30.0f};
    const rollout_choice choice = {.generations = 4, .seed = 9};
    float room[COUNT];
    for (double temperature = 0.5; temperature < 3.0; temperature *= 2.0) {
        double p[COUNT] = {0.0};
        uint32_t seen[COUNT] = {0};
        double total = 0.0, entropy = 0.0;
        for (int i = 0; i < COUNT; i++) {
            p[i] = exp((double)logits[i] / temperature);
            total += p[i];
        }
        for (int i = 0; i < COUNT; i++) {
            entropy -= p[i] / total * log(p[i] / total);
        }
        for (uint32_t n = 0; n < DRAWS; n++) {
            const double u = rollout_uniform(&choice, n / 40, n / 10 % 4, n % 10);
            assert_true(u >= 0.0 && u < 1.0);
            const rollout_drawn drawn = rollout_draw(logits, COUNT, temperature, u, room);
            seen[drawn.id]++;
            assert_true(fabs((double)drawn.logp - log(p[drawn.id] / total)) < 1e-5);
            assert_true(fabs((double)drawn.entropy - entropy) < 1e-6);
        }
        for (int i = 0; i < COUNT; i++) {
            const double share = p[i] / total;
            assert_true(fabs(seen[i] - DRAWS * share) <= 5.0 * sqrt(DRAWS * share) + 0.0);
        }
    }
    assert_int_equal(rollout_draw(logits, COUNT, 0.0, 0.99, room).id, 2);
}

/* verifies face-64.96fc */
static void numbers_have_names(void **state)
{
    (void)state;
    const rollout_choice a = {.generations = 4, .seed = 9, .step = 3};
    rollout_choice b = a;
    const double u = rollout_uniform(&a, 5, 2, 7);
    assert_true(u == rollout_uniform(&b, 5, 2, 7));
    assert_true(u != rollout_uniform(&b, 5, 3, 7));
    assert_true(u != rollout_uniform(&b, 6, 2, 7));
    assert_true(u != rollout_uniform(&b, 5, 2, 8));
    b.step = 4;
    assert_true(u != rollout_uniform(&b, 5, 2, 7));
    b = a;
    b.seed = 10;
    assert_true(u != rollout_uniform(&b, 5, 2, 7));
}

/* verifies face-63.36a6 */
static void slots_change_nothing(void **state)
{
    (void)state;
    enum { PROMPTS = 3, ALL = PROMPTS * 5, MOST = 12 };
    static int32_t ids[4][ALL][MOST];
    static float logps[4][ALL][MOST];
    static const int32_t texts[PROMPTS][4] = {{99, 120, 7, 3}, {45, 46}, {200, 1, 2}};
    static const uint32_t counts[PROMPTS] = {4, 2, 3}, slots[4] = {1, 2, 5, 16};
    const rollout_choice choice = {
        .generations = 5, .most = MOST, .temperature = 1.0, .seed = 3, .ends = below_sixteen};
    const policy_case c = {"tiny-llama", BP_BF16, BP_QUANTISED_NONE, 0, 1.0, NULL, 2, 0};
    for (int w = 0; w < 4; w++) {
        rollout_prompt prompts[PROMPTS];
        rollout_completion made[ALL];
        int32_t tokens[PROMPT + MADE] = {0};
        model_fixture r;
        bp_error error = {.code = BP_OK};
        void *work = NULL;
        bp_spec spec = policy_spec(&c, &choice, slots[w]);
        rollout_spec(&spec, 4, &choice, slots[w]);
        model_fixture_open(&r, &spec, tokens, PROMPT + MADE);
        assert_int_equal(posix_memalign(&work, 64, (size_t)rollout_bytes(&spec)), 0);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            prompts[i] = (rollout_prompt){texts[i], counts[i], i};
        }
        memset(ids[w], 0, sizeof ids[w]);
        memset(logps[w], 0, sizeof logps[w]);
        for (int i = 0; i < ALL; i++) {
            made[i] = (rollout_completion){.ids = ids[w][i], .logps = logps[w][i]};
        }
        assert_int_equal(rollout_run(&r.runtime, &choice, prompts, PROMPTS, made, work, &error),
                         BP_OK);
        assert_memory_equal(ids[w], ids[0], sizeof ids[0]);
        assert_memory_equal(logps[w], logps[0], sizeof logps[0]);
        uint32_t stopped = 0;
        for (int i = 0; i < ALL; i++) {
            const bool stops = made[i].ids[made[i].count - 1] < 16;
            assert_int_equal(made[i].finish, stops ? ROLLOUT_STOP : ROLLOUT_LENGTH);
            assert_true(stops || made[i].count == MOST);
            stopped += stops ? 1 : 0;
        }
        assert_true(stopped > 0 && stopped < ALL);
        free(work);
        model_fixture_close(&r);
    }
}

static uint64_t arena_of(const bp_spec *spec)
{
    const int32_t tokens[65] = {0};
    model_fixture r;
    model_fixture_open(&r, spec, tokens, spec->sequence + 1);
    const uint64_t bytes = r.plan.report.arena_bytes;
    model_fixture_close(&r);
    return bytes;
}

/* The caches of slots and what training keeps for backward are never needed at one time: one arena
 * holds both phases in the bytes of the larger one, but for what the host fills in. */
/* verifies face-66.d7ea */
static void phases_take_the_same_bytes(void **state)
{
    (void)state;
    enum { ALMOST = 16384 };
    const rollout_choice choice = {.generations = 8, .most = 40, .temperature = 1.0, .ends = never};
    for (uint32_t slots = 1; slots <= 16; slots += 15) {
        const policy_case c = {"tiny-llama", BP_F32, BP_QUANTISED_NONE, 0, 1.0, NULL, 2, 0};
        bp_spec both = policy_spec(&c, &choice, slots);
        rollout_spec(&both, 20, &choice, slots);
        both.sequence = 60;
        bp_spec trains = both, decodes = both;
        trains.generate_context = trains.generate_regions = trains.generate_prompt = 0;
        decodes.optimizer = NULL;
        const uint64_t whole = arena_of(&both), training = arena_of(&trains);
        const uint64_t decoding = arena_of(&decodes);
        /* master and states are there while it decodes as well: two more of the weights' bytes */
        const uint64_t states = 2 * 435456;
        const uint64_t larger = decoding + states > training ? decoding + states : training;
        assert_true(whole >= training && whole >= decoding);
        assert_true(whole <= larger + ALMOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_is_trained),          cmocka_unit_test(gradients_are_cooled),
        cmocka_unit_test(draws_are_as_likely_as_said), cmocka_unit_test(numbers_have_names),
        cmocka_unit_test(slots_change_nothing),        cmocka_unit_test(phases_take_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
