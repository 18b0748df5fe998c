/* SPDX-License-Identifier: MIT */
/* Plans of specs that say more than they mean, or what no preset says: settings of adapters without
 * adapters, a batch of evaluations that there are none of, sequences that are gone on with at once,
 * memory of every size below what is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/builder.h"
#include "core/plan/optimizer.h"
#include "core/ops/quantised.h"
#include "core/run/runtime.h"
#include "layers/families/gpt2.h"
#include "layers/families/transformer.h"
#include "layers/families/llama.h"
#include "optim/rules.h"
#include "optim/matrix.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/short_tables.h"

static bp_plan plan;

static bp_status status_of(const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    assert_true(bytes != BP_SIZE_INVALID);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    const bp_status status = bp_plan_make(&plan, spec, memory, bytes);
    free(memory);
    return status;
}

/* Bytes of the arena and trained parameters of a plan that has to be. */
static void planned(const bp_spec *spec, uint64_t found[2])
{
    if (status_of(spec) != BP_OK) {
        fail_msg("%s %s", plan.error.text, plan.error.name);
    }
    found[0] = plan.report.arena_bytes;
    found[1] = plan.report.parameters;
}

static bp_lora_part choose_all(const bp_lora *lora, const char *module, size_t length)
{
    (void)lora;
    (void)module;
    (void)length;
    return (bp_lora_part){2, 4.0};
}

/* Targets, choices and biases of adapters of rank 0 change nothing. */
/* verifies compile-22.b6af */
static void settings_of_no_adapter(void **state)
{
    (void)state;
    static const char *const targets[] = {"no.such.layer", "all-linear"};
    bp_spec spec = model_fixture_spec();
    uint64_t plain[2], found[2];
    planned(&spec, plain);
    for (uint32_t i = 0; i < 4; i++) {
        spec = model_fixture_spec();
        spec.lora.targets = targets;
        spec.lora.target_count = 1 + i % 2;
        spec.lora.choose = i == 2 ? choose_all : NULL;
        spec.lora.bias = i == 3 ? BP_LORA_BIAS_ALL : BP_LORA_BIAS_NONE;
        planned(&spec, found);
        assert_true(found[0] == plain[0] && found[1] == plain[1]);
    }
    spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    assert_int_equal(status_of(&spec), BP_ERR_USAGE);
}

/* The first magnitudes of DoRA are of the weights themselves, whatever rule averages them later. */
/* verifies compile-22.b6af */
static void magnitudes_and_averages(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    uint64_t found[2], without[2];
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.optimizer = &bp_optimizer_schedule_free_adamw;
    spec.optimizer_options = *spec.optimizer->defaults;
    spec.evaluate = true;
    planned(&spec, without);
    spec.lora.magnitudes = true;
    planned(&spec, found);
    assert_true(found[0] > without[0]);
}

/* verifies compile-22.b6af */
static void batches_of_no_evaluation(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    uint64_t plain[2], found[2];
    planned(&spec, plain);
    spec.eval_batch = 7;
    planned(&spec, found);
    assert_int_equal(found[0], plain[0]);
    spec.evaluate = true;
    planned(&spec, found);
    assert_true(found[0] > plain[0]);
}

/* Forms of frozen weights are those that products read. */
/* verifies compile-1.aa19 */
static void forms_of_frozen_weights(void **state)
{
    (void)state;
    for (int64_t form = -70; form < 140; form++) {
        const int64_t kind = form < 0 ? 0 : form % 8;
        const bool four = kind == 1 || kind == 2 || kind == 5 || kind == 6;
        const bool codes = form >= 0 && kind < BP_QUANTISED_KINDS && (four ? form < 64 : form < 8);
        const bool good = form < BP_QUANTISED_BLOCKS ? codes : bp_packed_of_form(form) != NULL;
        assert_true(bp_quantised_valid(form) == good);
    }
    assert_false(bp_quantised_valid(INT64_MIN));
    assert_false(bp_quantised_valid(INT64_MAX));
    bp_spec spec = model_fixture_spec();
    bp_error error = {.code = BP_OK};
    spec.quantised = (bp_quantised)63;
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "load-in-4bit");
}

/* Sums in 8 bits of tensors that are longer than a slice, for rules that take whole tensors and for
 * those that do not, with such a one at the beginning or at the end. */
/* verifies compile-11.8eee */
static void sums_of_long_tensors(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_adamw, &bp_optimizer_adafactor};
    for (uint32_t i = 0; i < 8; i++) {
        bp_spec spec = model_fixture_spec();
        uint64_t whole[2], summed[2];
        spec.config.vocabulary = i < 4 ? 300000 : 37;
        if (i % 4 >= 2) {
            spec.model = &bp_model_llama;
            SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 1);
            SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
            SET_FAMILY(&spec.config, bp_transformer, untied, true);
        }
        spec.optimizer = rules[i % 2];
        spec.optimizer_options = *spec.optimizer->defaults;
        spec.accumulation = 4;
        planned(&spec, whole);
        spec.gradient_int8 = true;
        planned(&spec, summed);
        assert_true(i >= 4 || summed[0] < whole[0]);
    }
}

/* With less memory than is needed there is no plan, wherever it ends. */
/* verifies compile-7.7394 */
static void memory_of_every_size(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        bp_spec spec = model_fixture_spec();
        SET_FAMILY(&spec.config, bp_transformer, layers, 1);
        if (which == 0) {
            spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
            spec.sharing = BP_SHARING_GRADIENTS;
        } else {
            spec.lengths[0] = 4;
            spec.length_count = 1;
        }
        const uint64_t bytes = plan_bytes(&spec);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_plan_count(&plan, &spec, memory, bytes), BP_OK);
        const bp_plan counted = plan;
        uint32_t refused = 0;
        const uint64_t step = getenv("BP_TEST_SHORT") != NULL ? 192 : 64;
        for (uint64_t size = 0; size < counted.host_bytes; size += step) {
            plan = counted;
            const bp_status status = bp_plan_make_counted(&plan, memory, size);
            /* what alignment may take is counted, and may be spared; and shorter programs that
             * find no memory are left out */
            const bool spared = size + 8192 > counted.host_bytes || plan.left_out != NULL;
            if (status != BP_ERR_FIT && !(status == BP_OK && spared)) {
                fail_msg("%u: %d with %llu of %llu bytes: %s", which, (int)status,
                         (unsigned long long)size, (unsigned long long)counted.host_bytes,
                         plan.error.text);
            }
            refused += status != BP_OK;
        }
        assert_true(refused > 100);
        plan = counted;
        assert_int_equal(bp_plan_make_counted(&plan, memory, counted.host_bytes), BP_OK);
        free(memory);
    }
}

/* Sequences that decode programs go on with at once: every row of their tables is needed. */
/* verifies compile-6.ea09 */
static void several_sequences_at_once(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    bp_error error = {.code = BP_OK};
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    spec.optimizer = NULL;
    spec.generate_context = 8;
    spec.generate_sequences = 3;
    if (bp_spec_check(&spec, &error) != BP_OK) {
        fail_msg("%s %s", error.text, error.name);
    }
    assert_true(short_tables_refused(&spec, "sequences", 0, UINT32_MAX / 8));
}

static uint32_t asked; /* by the second block, for a gradient of the first */

static void greedy_backward(bp_builder *builder, bp_stage_call *call)
{
    int64_t accumulate = 0;
    bp_model_gpt2.backward(builder, call);
    if (call->stage == 2) {
        for (uint32_t i = 0; i < builder->parameter_count; i++) {
            if (strcmp(bp_build_name(builder, i), "transformer.h.0.ln_1.weight") == 0) {
                (void)bp_build_gradient(builder, i, &accumulate);
                asked++;
            }
        }
    }
}

/* A parameter that two stages share is refused where gradients would be added in another order. */
/* verifies compile-1.aa19 */
static void parameters_of_two_stages(void **state)
{
    (void)state;
    bp_model greedy = bp_model_gpt2;
    greedy.backward = greedy_backward;
    bp_spec spec = model_fixture_spec();
    spec.model = &greedy;
    spec.ranks = spec.virtual_ranks = 2;
    spec.accumulation = 4;
    spec.sharing = BP_SHARING_GRADIENTS;
    asked = 0;
    const uint64_t scratch = bp_plan_scratch(&spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    assert_int_equal(bp_plan_count(&plan, &spec, memory, scratch), BP_ERR_USAGE);
    free(memory);
    assert_true(asked > 0);
    assert_non_null(strstr(plan.error.text, "two stages share this parameter"));
    /* What is released is not added up by stage: here nothing is wrong with the order. */
    spec.gradient_release = BP_RELEASE_EXACT;
    spec.optimizer_options.max_grad_norm = 1.0;
    asked = 0;
    if (status_of(&spec) != BP_OK) {
        assert_null(strstr(plan.error.text, "two stages share this parameter"));
    }
    assert_true(asked > 0);
}

/* Without the mark of a token embedding. */
static void unmarked(bp_builder *builder, const bp_model_config *config)
{
    bp_model_gpt2.parameters(builder, config);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        builder->parameters[i].embedding = false;
    }
}

/* Rows may be all that a table has, may be frozen like everything else, and need a table. */
/* verifies compile-22.b6af */
static void rows_of_tables(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    static const bp_parameter_rule frozen = {.glob = "*token_adapter*", .kind = BP_RULE_FREEZE};
    uint32_t tokens[37];
    bp_model model = bp_model_gpt2;
    bp_spec spec = model_fixture_spec();
    uint64_t none[2], every[2], still[2];
    for (uint32_t i = 0; i < 37; i++) {
        tokens[i] = i;
    }
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    planned(&spec, none);
    spec.lora.tokens = tokens;
    spec.lora.token_count = 37;
    planned(&spec, every);
    assert_true(every[1] == none[1] + 37 * 16 && every[0] > none[0]);
    spec.rules = &frozen;
    spec.rule_count = 1;
    planned(&spec, still);
    assert_true(still[0] < every[0]);
    spec.rule_count = 0;
    model.parameters = unmarked;
    spec.model = &model;
    assert_int_equal(status_of(&spec), BP_ERR_USAGE);
    assert_non_null(strstr(plan.error.text, "no token embedding"));
}

/* Rows and columns are kept of what is trained. */
/* verifies compile-22.b6af */
static void factors_of_what_is_trained(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen = {.glob = "*.h.0.*", .kind = BP_RULE_FREEZE};
    bp_spec spec = model_fixture_spec();
    uint64_t all[2], some[2];
    spec.optimizer = &bp_optimizer_adafactor;
    spec.optimizer_options = *spec.optimizer->defaults;
    planned(&spec, all);
    spec.rules = &frozen;
    spec.rule_count = 1;
    planned(&spec, some);
    assert_true(some[0] < all[0]);
}

/* Lanes have results and sums of their own in a step: where there is none, they have nothing. */
/* verifies compile-22.b6af */
static void virtual_ranks_without_steps(void **state)
{
    (void)state;
    for (uint32_t trains = 0; trains < 2; trains++) {
        bp_spec spec = model_fixture_spec();
        uint32_t lanes = 0;
        spec.optimizer = trains != 0 ? spec.optimizer : NULL;
        spec.evaluate = true;
        spec.virtual_ranks = spec.accumulation = 4;
        const uint64_t bytes = plan_bytes(&spec);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
        for (uint32_t i = 0; i < plan.graph.used.buffers; i++) {
            lanes += strstr(bp_graph_name(&plan.graph, i), "lane") != NULL;
        }
        free(memory);
        assert_true((lanes > 0) == (trains != 0));
    }
}

/* The result, which the host reads after three programs, and a master of 8 bits beside matrices
 * alone. */
/* verifies compile-22.b6af */
static void what_a_plan_of_16_bits_has(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT8;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    const bp_buffer *result = &plan.graph.buffers[plan.builder.result.buffer];
    assert_int_equal(result->taken,
                     1u << BP_PROGRAM_STEP | 1u << BP_PROGRAM_UPDATE | 1u << BP_PROGRAM_EVAL);
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        assert_int_equal(p->master_form, p->rank < 2 ? BP_MASTER_SPLIT : BP_MASTER_SPLIT8);
    }
    free(memory);
}

/* What a rule over matrices takes: hidden ones, and no head of a task, however its name begins. */
/* verifies optim-6.74aa */
static void heads_are_no_hidden_matrices(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    uint32_t heads = 0, hidden = 0;
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 5;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bool head = strstr(bp_build_name(&plan.builder, i), "score.") != NULL;
        heads += head && plan.builder.parameters[i].rank == 2;
        hidden += bp_matrix_hidden(&plan.builder, i);
        assert_false(head && bp_matrix_hidden(&plan.builder, i));
    }
    assert_true(heads == 1 && hidden > 0);
    free(memory);
}

/* Codes are not trained: the error names the weight and the option that asked for it. */
/* verifies compile-1.aa19 */
static void codes_are_not_trained(void **state)
{
    (void)state;
    static const char *const some[] = {"c_fc"};
    static const bp_parameter_rule trained = {.glob = "*c_attn.weight", .kind = BP_RULE_TRAIN};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = some, .target_count = 1};
    spec.quantised = BP_QUANTISED_NF4;
    spec.rules = &trained;
    spec.rule_count = 1;
    const uint64_t scratch = bp_plan_scratch(&spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    assert_int_equal(bp_plan_count(&plan, &spec, memory, scratch), BP_ERR_USAGE);
    assert_non_null(strstr(plan.error.text, "cannot be trained"));
    assert_ptr_equal(strstr(plan.error.name, "trainable"), plan.error.name);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_no_adapter),
        cmocka_unit_test(magnitudes_and_averages),
        cmocka_unit_test(batches_of_no_evaluation),
        cmocka_unit_test(forms_of_frozen_weights),
        cmocka_unit_test(sums_of_long_tensors),
        cmocka_unit_test(memory_of_every_size),
        cmocka_unit_test(several_sequences_at_once),
        cmocka_unit_test(parameters_of_two_stages),
        cmocka_unit_test(virtual_ranks_without_steps),
        cmocka_unit_test(rows_of_tables),
        cmocka_unit_test(factors_of_what_is_trained),
        cmocka_unit_test(what_a_plan_of_16_bits_has),
        cmocka_unit_test(codes_are_not_trained),
        cmocka_unit_test(heads_are_no_hidden_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
