/* SPDX-License-Identifier: MIT */
/* Adapters: they start as nothing, learn what the merged weights say they learnt, and leave the
 * base alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/adapter.h"
#include "core/plan/rows.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 131

static int32_t tokens[TOKENS];
static const char *const all_linear[] = {"all-linear"};
static const char *const some[] = {"c_attn", "mlp.c_fc"};

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec lora_spec(const char *const *targets, uint32_t count)
{
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 3, .alpha = 6.0, .targets = targets, .target_count = count};
    spec.evaluate = true;
    return spec;
}

static double evaluated(model_fixture *r)
{
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bp_runtime_evaluate(&r->runtime, &r->feed, 0, &loss, &targets), BP_OK);
    return loss;
}

/* W += s B A for every adapted weight (in, out), and B = 0: the same function. */
static void merge(model_fixture *r)
{
    const bp_builder *builder = &r->plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        if (p->adapter == BP_NO_PARAMETER) {
            continue;
        }
        const bp_parameter *pa = &builder->parameters[p->adapter], *pb = pa + 1;
        const uint64_t rank = builder->spec->lora.rank, in = pa->count / rank,
                       out = pb->count / rank;
        float *w = model_fixture_read(r, p->weight), *a = model_fixture_read(r, pa->weight);
        float *b = model_fixture_read(r, pb->weight);
        for (uint64_t row = 0; row < in; row++) {
            for (uint64_t column = 0; column < out; column++) {
                double sum = 0.0;
                for (uint64_t k = 0; k < rank; k++) {
                    sum += (double)a[k * in + row] * (double)b[column * rank + k];
                }
                w[row * out + column] += (float)(sum * builder->spec->lora.alpha / (double)rank);
            }
        }
        model_fixture_write(r, p->weight, w);
        memset(b, 0, pb->count * sizeof(float));
        model_fixture_write(r, pb->weight, b);
        free(w);
        free(a);
        free(b);
    }
}

/* verifies layers-7.a5cd */
static void test_it_starts_as_nothing_and_merges(void **state)
{
    (void)state;
    bp_spec plain = model_fixture_spec();
    plain.evaluate = true;
    const bp_spec spec = lora_spec(all_linear, 1);
    model_fixture base, r;
    model_fixture_open(&base, &plain, tokens, TOKENS);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_int_equal(r.plan.builder.parameter_count, base.plan.builder.parameter_count + 2 * 8);
    assert_true(evaluated(&r) == evaluated(&base));
    double first = 0.0, last = 0.0;
    for (int i = 0; i < 60; i++) {
        last = model_fixture_step(&r).loss;
        first = i == 0 ? last : first;
    }
    assert_true(last < first - 0.05);
    for (uint32_t i = 0; i < base.plan.builder.parameter_count; i++) {
        float *x = model_fixture_read(&base, base.plan.builder.parameters[i].weight);
        float *y = model_fixture_read(&r, r.plan.builder.parameters[i].weight);
        assert_memory_equal(x, y, base.plan.builder.parameters[i].count * sizeof(float));
        free(x);
        free(y);
    }
    double before = evaluated(&r);
    merge(&r);
    assert_true(fabs(evaluated(&r) - before) <= 1e-6 * before);
    model_fixture_close(&r);
    model_fixture_close(&base);
}

/* Gradients of A and B against differences of the loss. */
static void gradients_at(bp_spec spec)
{
    spec.optimizer_options.weight_decay = 0.0;
    spec.optimizer_options.beta1 = 0.0; /* the first moment is the gradient */
    spec.optimizer_options.learning_rate = 1e-2;
    spec.accumulation = 1;
    model_fixture r;
    model_fixture_open(&r, &spec, tokens,
                       21); /* one group of two windows: the evaluation sees what it saw */
    for (int i = 0; i < 5; i++) {
        (void)model_fixture_step(&r);
    }
    const bp_builder *builder = &r.plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        if (p->base == BP_NO_PARAMETER) {
            continue;
        }
        float *w = model_fixture_read(&r, p->weight);
        const bool transposed = bp_adapter_transposed(builder, i); /* there a token's that occurs */
        uint64_t at = transposed ? (uint64_t)tokens[5] * p->shape[1] + 1 : p->count / 3;
        float kept = w[at];
        const float h = transposed ? 5e-4f : 1e-2f; /* B begins large: what A moves, moves far */
        w[at] = kept + h;
        model_fixture_write(&r, p->weight, w);
        double above = evaluated(&r);
        w[at] = kept - h;
        model_fixture_write(&r, p->weight, w);
        double below = evaluated(&r);
        w[at] = kept;
        model_fixture_write(&r, p->weight, w);
        model_fixture copy;
        model_fixture_open(&copy, &spec, tokens, 21);
        for (uint32_t k = 0; k < builder->parameter_count; k++) {
            void *bytes = model_fixture_read(&r, builder->parameters[k].weight);
            model_fixture_write(&copy, builder->parameters[k].weight, bytes);
            free(bytes);
        }
        (void)model_fixture_step(&copy);
        float *m = model_fixture_read(&copy, p->state[0]);
        double numeric = (above - below) / (2.0 * (double)h);
        assert_true(fabs(numeric - (double)m[at]) <= 5e-3 * fabs(numeric) + 1e-5);
        assert_true(!transposed || fabs(numeric) > 1e-3);
        free(m);
        free(w);
        model_fixture_close(&copy);
    }
    model_fixture_close(&r);
}

static void gradients_of(const char *const *targets, uint32_t count)
{
    gradients_at(lora_spec(targets, count));
}

/* verifies layers-7.a5cd */
static void test_gradients(void **state)
{
    (void)state;
    gradients_of(some, 2);
}

/* Of the token embedding too, whose head is tied to it. */
/* verifies layers-19.9e8b */
static void test_gradients_of_a_table(void **state)
{
    (void)state;
    static const char *const table[] = {"wte", "c_fc"};
    gradients_of(table, 2);
}

static const uint32_t chosen[] = {20, 7, 8, 9, 0, 36};
enum { CHOSEN = sizeof chosen / sizeof chosen[0] };

static bp_spec rows_spec(void)
{
    bp_spec spec = lora_spec(some, 2);
    spec.lora.tokens = chosen;
    spec.lora.token_count = CHOSEN;
    return spec;
}

/* The rows begin as the table's, are all that is trained of it, and are in it afterwards. */
/* verifies layers-30.753f */
static void test_rows_of_the_table(void **state)
{
    (void)state;
    const bp_spec spec = rows_spec();
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const bp_builder *builder = &r.plan.builder;
    const bp_parameter *table = &builder->parameters[0], *rows = &builder->parameters[table->rows];
    const uint64_t width = table->shape[1];
    assert_true(!table->trainable && table->gradient == BP_NO_BUFFER);
    assert_true(rows->count == CHOSEN * width && rows->base == 0 && rows->trainable);
    assert_false(bp_runtime_in_state(&r.runtime, 0));
    float *before = model_fixture_read(&r, table->weight),
          *begin = model_fixture_read(&r, rows->weight);
    for (uint32_t i = 0; i < CHOSEN; i++) {
        assert_memory_equal(begin + i * width, before + chosen[i] * width, width * sizeof(float));
    }
    for (int i = 0; i < 4; i++) {
        (void)model_fixture_step(&r);
    }
    (void)evaluated(&r);
    float *after = model_fixture_read(&r, table->weight),
          *now = model_fixture_read(&r, rows->weight);
    for (uint64_t token = 0; token < table->shape[0]; token++) {
        const float *wanted = before + token * width;
        for (uint32_t i = 0; i < CHOSEN; i++) {
            wanted = chosen[i] == token ? now + i * width : wanted;
        }
        assert_memory_equal(after + token * width, wanted, width * sizeof(float));
    }
    assert_true(memcmp(now, begin, rows->count * sizeof(float)) != 0);
    free(before);
    free(begin);
    free(after);
    free(now);
    model_fixture_close(&r);
}

/* By the embedding and the head that is tied to it. */
/* verifies layers-30.753f */
static void test_gradients_of_rows(void **state)
{
    (void)state;
    gradients_at(rows_spec());
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        assert_false(model_fixture_step(&r).nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies run-1.e4fa */
static void test_policies_and_release_agree(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (int set = 0; set < 4; set++) {
        bp_spec spec = set == 0 ? lora_spec(all_linear, 1) : lora_spec(some, 2);
        if (set >= 2) {
            spec.lora.tokens = chosen;
            spec.lora.token_count = CHOSEN;
        }
        spec.lora.dropout = 0.25;
        spec.lora.rank_stabilized = set == 1;
        spec.accumulation = 1 + 2 * (uint32_t)(set % 2);
        spec.optimizer_options.max_grad_norm = 0.5;
        const uint64_t expected = digest_after(&spec, 4);
        for (size_t p = 0; p < 4; p++) {
            spec.policy = policies[p];
            spec.poison = p == 2;
            assert_true(digest_after(&spec, 4) == expected);
        }
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(digest_after(&spec, 4) == expected);
    }
}

/* Steps leave the base's digest alone; another bit of the base makes another digest. */
/* verifies run-33.2aa2 */
static void test_the_base_has_a_digest(void **state)
{
    (void)state;
    const bp_spec plain = model_fixture_spec(), spec = lora_spec(some, 2);
    model_fixture r;
    bool there;
    uint64_t first, later;
    model_fixture_open(&r, &plain, tokens, TOKENS);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &first), BP_OK);
    assert_false(there);
    model_fixture_close(&r);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &first), BP_OK);
    assert_true(there);
    (void)model_fixture_step(&r);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &later), BP_OK);
    assert_true(first == later);
    float *w = model_fixture_read(&r, r.plan.builder.parameters[0].weight);
    w[0] += 1.0f;
    model_fixture_write(&r, r.plan.builder.parameters[0].weight, w);
    free(w);
    assert_int_equal(bp_runtime_base_digest(&r.runtime, &there, &later), BP_OK);
    assert_true(first != later);
    model_fixture_close(&r);
}

static void refused(const bp_spec *spec, const char *name, const char *text)
{
    const bp_spec plain = model_fixture_spec();
    const uint64_t bytes = 2 * plan_bytes(&plain) + (4u << 20);
    static bp_plan plan;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&plan, spec, memory, bytes), BP_ERR_USAGE);
    assert_non_null(strstr(plan.error.name, name));
    assert_non_null(strstr(plan.error.text, text));
    free(memory);
}

/* verifies compile-1.aa19 */
static void test_targets_that_are_not_there(void **state)
{
    (void)state;
    static const char *const wrong[] = {"c_attn", "q_proj"};
    const bp_spec spec = lora_spec(wrong, 2);
    refused(&spec, "q_proj", "");
}

/* verifies layers-30.753f */
static void test_rows_that_are_not_there(void **state)
{
    (void)state;
    static const uint32_t beyond[] = {3, 37}, twice[] = {5, 6, 5};
    static uint32_t many[BP_TRAINED_ROWS_MAX + 1];
    static const char *const table[] = {"wte"};
    static const bp_parameter_rule all = {.glob = "*wte*", .kind = BP_RULE_TRAIN};
    bp_spec spec = rows_spec();
    spec.lora.tokens = beyond;
    spec.lora.token_count = 2;
    refused(&spec, "trainable-token-indices", "no token of this number");
    spec.lora.tokens = twice;
    spec.lora.token_count = 3;
    refused(&spec, "trainable-token-indices", "there twice");
    spec.lora.tokens = many;
    spec.lora.token_count = BP_TRAINED_ROWS_MAX + 1;
    refused(&spec, "trainable-token-indices", "too many rows");
    spec = rows_spec();
    spec.lora.targets = table;
    spec.lora.target_count = 1;
    refused(&spec, "wte", "has an adapter");
    spec = rows_spec();
    spec.rules = &all;
    spec.rule_count = 1;
    refused(&spec, "wte", "whole table is trained");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_starts_as_nothing_and_merges),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradients_of_a_table),
        cmocka_unit_test(test_policies_and_release_agree),
        cmocka_unit_test(test_the_base_has_a_digest),
        cmocka_unit_test(test_targets_that_are_not_there),
        cmocka_unit_test(test_rows_of_the_table),
        cmocka_unit_test(test_gradients_of_rows),
        cmocka_unit_test(test_rows_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
