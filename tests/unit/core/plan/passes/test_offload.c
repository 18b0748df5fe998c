/* SPDX-License-Identifier: MIT */
/* What is offloaded: of tensors of every kind that are large enough exactly those that
 * docs/how-to/offload.md names, and copies on their way about the same bytes never pass each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/glob.h"
#include "core/plan/optimizer.h"
#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/families/cnn.h"
#include "layers/families/llama.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static bp_plan plan;
static void *memory;

static void plan_of(const bp_spec *spec)
{
    memory = plan_make(&plan, spec);
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* A matrix of a block, or of an adapter in one. */
static bool is_matrix(const char *name)
{
    return has(name, ".h.0.") && has(name, "weight") && !has(name, ".ln_");
}

/* Where the weight of a parameter lives, and that of its states. */
static void compare(bool (*weight_offloaded)(const char *name, const bp_parameter *p),
                    bool (*state_offloaded)(const char *name, const bp_parameter *p), uint32_t most)
{
    uint32_t offload = 0, above = 0;
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        const char *name = bp_build_name(&plan.builder, i);
        const bool weight = plan.graph.buffers[p->weight].space == BP_SPACE_OFFLOAD;
        const bool state = p->trainable && p->state[0] != BP_NO_BUFFER &&
                           plan.graph.buffers[p->state[0]].space == BP_SPACE_OFFLOAD;
        if (weight != weight_offloaded(name, p) || state != state_offloaded(name, p)) {
            fail_msg("%s of %llu: weight %d, state %d", name, (unsigned long long)p->count, weight,
                     state);
        }
        offload += weight || state;
        above += !weight && !state;
    }
    assert_true(offload > 0 && above > 0 && above <= most);
    free(memory);
}

static bool never(const char *name, const bp_parameter *p)
{
    (void)name;
    (void)p;
    return false;
}

static bool large_matrix(const char *name, const bp_parameter *p)
{
    return is_matrix(name) && p->count >= 4096;
}

static bool frozen_matrix(const char *name, const bp_parameter *p)
{
    return large_matrix(name, p) && !p->trainable;
}

static bool trained_matrix(const char *name, const bp_parameter *p)
{
    return large_matrix(name, p) && p->trainable;
}

static bool large_and_trained(const char *name, const bp_parameter *p)
{
    return p->trainable && p->count >= 4096 && !has(name, "magnitude");
}

static bool trained_and_scored(const char *name, const bp_parameter *p)
{
    return trained_matrix(name, p) || has(name, "score");
}

static bool not_in_fp8(const char *name, const bp_parameter *p)
{
    return trained_matrix(name, p) && p->master_form != BP_MASTER_FP8;
}

/* A GPT-2 of one layer, whose second product has a bias of 4,096 elements. */
static bp_spec wide_spec(void)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 1024);
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    return spec;
}

static void adapt(bp_spec *spec)
{
    static const char *const all[] = {"all-linear"};
    spec->lora = (bp_lora){.rank = 4, .alpha = 4.0, .targets = all, .target_count = 1};
}

/* Of a base its matrices, of what is trained matrices alone, of states all that is large but
 * magnitudes, which are computed from the weights. */
/* verifies compile-20.6c07 */
static void what_is_offloaded(void **state)
{
    (void)state;
    bp_spec spec = wide_spec();
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL};
    plan_of(&spec);
    compare(trained_matrix, large_and_trained, 12);

    adapt(&spec);
    spec.offload = (bp_offload){.bases = BP_OFFLOAD_ALL};
    plan_of(&spec);
    compare(frozen_matrix, never, 30);

    spec.lora.magnitudes = true;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL};
    plan_of(&spec);
    compare(never, large_and_trained, 40);
}

/* The head of a task is no table, and codes of fp8 stay. */
/* verifies compile-20.6c07 */
static void what_is_trained_beside_blocks(void **state)
{
    (void)state;
    bp_spec spec = wide_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 64;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL};
    plan_of(&spec);
    compare(trained_and_scored, large_and_trained, 20);

    spec = wide_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.config.vocabulary = 80;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL};
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT;
    plan_of(&spec);
    compare(trained_matrix, large_and_trained, 20);
    spec.weights = BP_WEIGHT_FP8;
    plan_of(&spec);
    compare(not_in_fp8, large_and_trained, 20);
}

/* Tables of a model that adds nothing to their rows: beside adapters they be offloaded, trained
 * they stay. */
/* verifies compile-20.6c07 */
static void tables(void **state)
{
    (void)state;
    bp_spec spec = wide_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    SET_FAMILY(&spec.config, bp_transformer, untied, true);
    SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 2);
    SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
    spec.config.vocabulary = 80;
    spec.model = &bp_model_llama;
    for (uint32_t trained = 0; trained < 2; trained++) {
        bool table = false, head = false;
        if (trained == 0) {
            adapt(&spec);
            spec.offload = (bp_offload){.bases = BP_OFFLOAD_ALL};
        } else {
            spec.lora.rank = 0;
            spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL};
        }
        plan_of(&spec);
        for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
            const char *name = bp_build_name(&plan.builder, i);
            const bool offload =
                plan.graph.buffers[plan.builder.parameters[i].weight].space == BP_SPACE_OFFLOAD;
            table = table || (offload && has(name, "embed_tokens.weight"));
            head = head || (offload && has(name, "lm_head.weight"));
        }
        free(memory);
        assert_true(table == (trained == 0) && head == (trained == 0));
    }
}

/* Of sizes chosen one by one, as many of each as are wanted, and nothing else of that kind. */
/* verifies compile-20.6c07 */
static void sizes_one_by_one(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    uint32_t of[3] = {0, 0, 0}, states = 0;
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL,
                                .weights = BP_OFFLOAD_ALL,
                                .part_kind = BP_OFFLOAD_WEIGHTS,
                                .part_count = 3,
                                .part = {{12288, 2, 1}, {16384, 4, 3}, {7, 0, 0}}};
    plan_of(&spec);
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        const bool offload = plan.graph.buffers[p->weight].space == BP_SPACE_OFFLOAD;
        of[0] += offload && p->count == 12288;
        of[1] += offload && p->count == 16384;
        of[2] += offload && p->count != 12288 && p->count != 16384;
        states += plan.graph.buffers[p->state[0]].space == BP_SPACE_OFFLOAD;
    }
    free(memory);
    assert_true(of[0] == 1 && of[1] == 3 && of[2] == 0 && states == 8);
    spec.offload.part[0].of = 0; /* as of a size that a model has none of */
    plan_of(&spec);
    of[0] = 0;
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        of[0] += plan.graph.buffers[p->weight].space == BP_SPACE_OFFLOAD && p->count == 12288;
    }
    free(memory);
    assert_int_equal(of[0], 0);
}

/* Rows of a table that are trained have a value before the first step: their states stay. */
/* verifies compile-20.6c07 */
static void states_of_rows(void **state)
{
    (void)state;
    static const uint32_t chosen[] = {1, 5, 6, 30};
    bp_spec spec = wide_spec();
    adapt(&spec);
    spec.lora.tokens = chosen;
    spec.lora.token_count = 4;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL};
    plan_of(&spec);
    uint32_t rows = 0, others = 0;
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        if (p->trainable && p->count >= 4096) {
            const bool offload = plan.graph.buffers[p->state[0]].space == BP_SPACE_OFFLOAD;
            assert_true(offload == (p->init != BP_INIT_ROWS));
            rows += p->init == BP_INIT_ROWS;
            others += p->init != BP_INIT_ROWS;
        }
    }
    free(memory);
    assert_true(rows == 1 && others > 0);
}

/* A net over images whose batch norm has statistics, which no rule freezes. */
static bp_spec net_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_cnn;
    spec.config = config_with(
        (bp_model_config){.positions = 60, .task = BP_TASK_CLASSES, .classes = 3},
        OWN(bp_cnn_config, .height = 6, .width = 5, .channels = 2, .layers = 1, .epsilon = 1e-5,
            .momentum = 0.1, .layer = {{BP_CNN_CONV, {3, 3}, {1, 1}, 0, 0, 0, 4}}));
    spec.sequence = spec.config.positions;
    spec.batch = 3;
    return spec;
}

/* What is only frozen belongs to the model that is saved: of it nothing is a base. */
/* verifies compile-20.6c07 */
static void frozen_is_no_base(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen = {.glob = "*.h.*", .kind = BP_RULE_FREEZE};
    bp_spec spec = wide_spec();
    spec.rules = &frozen;
    spec.rule_count = 1;
    spec.offload = (bp_offload){.bases = BP_OFFLOAD_ALL};
    plan_of(&spec);
    assert_int_equal(plan.report.offload.arena_bytes, 0);
    free(memory);
}

/* In read-only memory lies what is frozen: not what is trained, and not what forward moves. */
/* verifies device-25.d3df */
static void what_is_fixed(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen = {.glob = "*0*", .kind = BP_RULE_FREEZE};
    for (uint32_t which = 0; which < 3; which++) {
        bp_spec spec = which == 2 ? net_spec() : model_fixture_spec();
        uint32_t fixed = 0, moves = 0;
        if (which == 0) {
            adapt(&spec);
        } else {
            spec.rules = &frozen;
            spec.rule_count = 1;
        }
        spec.offload.fixed = true;
        plan_of(&spec);
        for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
            const bp_parameter *p = &plan.builder.parameters[i];
            const bool host = plan.graph.buffers[p->weight].space == BP_SPACE_HOST;
            /* statistics of a frozen norm are fixed, of which the rule freezes the first layer's */
            const bool still =
                p->statistic && bp_glob_match("*0*", bp_graph_name(&plan.graph, p->weight));
            assert_true(host == (!p->trainable && (!p->statistic || still)));
            fixed += host;
            moves += p->statistic;
        }
        free(memory);
        assert_true(fixed > 0 && (moves > 0) == (which == 2));
    }
}

/* Copies to the arena that have begun and are not waited for, of the program's step, at most. */
static uint32_t copies_under_way(void)
{
    const bp_graph *graph = &plan.graph;
    const uint32_t first = graph->program_first[BP_PROGRAM_STEP];
    uint32_t now = 0, most = 0;
    for (uint32_t i = first; i < first + graph->program_count[BP_PROGRAM_STEP]; i++) {
        now += graph->ops[i].kernel == BP_KERNEL_copy_begin;
        now -= graph->ops[i].kernel == BP_KERNEL_copy_wait;
        most = now > most ? now : most;
    }
    return most;
}

/* Elements of the largest buffer of a name, 0 where there is none. */
static uint64_t largest_called(const char *name)
{
    uint64_t most = 0;
    for (uint32_t i = 1; i < plan.graph.used.buffers; i++) {
        const bp_buffer *b = &plan.graph.buffers[i];
        const bool it = has(bp_graph_name(&plan.graph, i), name);
        const uint64_t count = b->bytes / bp_dtype_bytes(b->dtype);
        most = it && count > most ? count : most;
    }
    return most;
}

/* What is brought comes whole, gradients have the room of their weights, and copies begin as far
 * ahead of their use as was asked for. */
/* verifies compile-20.6c07 */
static void what_is_brought(void **state)
{
    (void)state;
    bp_spec spec = wide_spec();
    adapt(&spec);
    spec.quantised = BP_QUANTISED_NF4_DOUBLE;
    spec.offload = (bp_offload){.bases = BP_OFFLOAD_ALL};
    plan_of(&spec);
    assert_int_equal(copies_under_way(), 1);
    assert_true(largest_called("nested_absmax") > 256);
    assert_int_equal(largest_called("brought_nested"), largest_called("nested_absmax"));
    free(memory);
    spec.offload.ahead = 2;
    plan_of(&spec);
    assert_true(copies_under_way() > 2);
    free(memory);

    spec = wide_spec();
    spec.accumulation = 2;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL};
    plan_of(&spec);
    assert_int_equal(largest_called("gradient_here"), 4 * 1024 * 1024);
    free(memory);
    /* of checkpoints below one is brought at a time */
    bp_spec deep = model_fixture_spec();
    SET_FAMILY(&deep.config, bp_transformer, layers, 16);
    deep.policy = (bp_policy){.kind = BP_POLICY_SQRT};
    plan_of(&deep);
    const uint64_t all = plan.report.class_most[BP_CLASS_CHECKPOINT];
    free(memory);
    deep.offload = (bp_offload){.checkpoints = 1};
    plan_of(&deep);
    assert_true(2 * plan.report.class_most[BP_CLASS_CHECKPOINT] < all);
    free(memory);
    /* of one that is no whole number of parts the last one is shorter */
    SET_FAMILY(&spec.config, bp_transformer, width, 600);
    spec.optimizer_options.max_grad_norm = 1.0;
    plan_of(&spec);
    assert_int_equal(largest_called("gradient_here"), 4 * 600 * 600);
    free(memory);
}

/* Of the offloaded pages of a copy: where they begin and end. */
static bool copied_below(const bp_op *op, uint32_t operand, bp_ref *from, uint64_t *end)
{
    const bp_graph *graph = &plan.graph;
    const bool copy = op->kernel == BP_KERNEL_copy_begin || op->kernel == BP_KERNEL_copy_wait;
    const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
    if (!copy) {
        return false;
    }
    *from = graph->refs[op->operand + operand];
    *end = bp_size_align(from->offset + (uint64_t)s->width, BP_OFFLOAD_ALIGNMENT);
    from->offset -= from->offset % BP_OFFLOAD_ALIGNMENT;
    return graph->buffers[from->buffer].space == BP_SPACE_OFFLOAD;
}

/* For each begin of a fetch, by its first operand's place in the table: how many writes of some of
 * its pages have been waited for by then. Returns the sum of them. */
static uint32_t count_written_before(uint32_t *written)
{
    const bp_graph *graph = &plan.graph;
    uint32_t sum = 0;
    memset(written, 0, graph->used.refs * sizeof *written);
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint32_t first = graph->program_first[p], end = first + graph->program_count[p];
        for (uint32_t i = first; i < end; i++) {
            bp_ref a = {0}, b = {0};
            uint64_t a_end = 0, b_end = 0;
            const bp_op *fetch = &graph->ops[i];
            if (fetch->kernel != BP_KERNEL_copy_begin || !copied_below(fetch, 1, &a, &a_end)) {
                continue;
            }
            for (uint32_t k = first; k < i; k++) {
                const bool down = graph->ops[k].kernel == BP_KERNEL_copy_wait &&
                                  copied_below(&graph->ops[k], 0, &b, &b_end);
                written[fetch->operand] +=
                    down && a.buffer == b.buffer && a.offset < b_end && b.offset < a_end;
            }
            sum += written[fetch->operand];
        }
    }
    return sum;
}

/* A fetch that moves ahead passes no write of its pages, nor does a wait for one that moves back,
 * whatever the room: with gradients and checkpoints offloaded, with few and with many buffers, and
 * where slices of states in 8 bits end within a page. */
/* verifies program-6.0f88 */
static void same_pages_keep_their_order(void **state)
{
    (void)state;
    static const bp_parameter_rule in_8_bits = {
        .glob = "*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8};
    uint32_t met = 0;
    for (uint32_t which = 0; which < 7; which++) {
        bp_spec spec = which % 2 == 0 ? wide_spec() : model_fixture_spec();
        SET_FAMILY(&spec.config, bp_transformer, layers, which < 2 ? 2 : 12);
        spec.accumulation = 2;
        spec.gradient_release = which < 4 ? BP_RELEASE_NONE : BP_RELEASE_EXACT;
        spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
        spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL,
                                    .weights = which < 2 ? 0 : BP_OFFLOAD_ALL,
                                    .checkpoints = which >= 2 ? 1 : 0,
                                    .gradients = which < 4 ? BP_OFFLOAD_ALL : 0};
        if (which == 6) { /* slices of 131,072 elements, 133,120 bytes */
            SET_FAMILY(&spec.config, bp_transformer, layers, 1);
            SET_FAMILY(&spec.config, bp_transformer, width, 600);
            spec.gradient_release = BP_RELEASE_NONE;
            spec.gradient_int8 = true;
            spec.rules = &in_8_bits;
            spec.rule_count = 1;
            spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL};
        }
        plan_of(&spec);
        const size_t bytes = plan.graph.used.refs * sizeof(uint32_t);
        uint32_t *before = malloc(bytes), *after = malloc(bytes);
        assert_true(before != NULL && after != NULL);
        met += count_written_before(before);
        free(memory);
        for (uint32_t ahead = 1; ahead <= BP_OFFLOAD_AHEAD_MOST; ahead *= 4) {
            spec.offload.ahead = ahead;
            plan_of(&spec);
            (void)count_written_before(after);
            assert_memory_equal(before, after, bytes);
            free(memory);
        }
        free(before);
        free(after);
    }
    assert_true(met > 0);
}

static void refused(const bp_spec *spec, const char *text)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "offload");
    assert_non_null(strstr(error.text, text));
}

/* verifies compile-1.aa19 */
static void what_goes_with_fixed(void **state)
{
    (void)state;
    bp_device bare = bp_device_host;
    bp_spec spec = model_fixture_spec();
    bare.tier = false;
    spec.offload.fixed = true;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    for (uint32_t i = 0; i < 6; i++) {
        bp_spec other = spec;
        other.offload.bases = i == 0 ? 1 : 0;
        other.offload.states = i == 1 ? 1 : 0;
        other.offload.weights = i == 2 ? 1 : 0;
        other.offload.checkpoints = i == 3 ? 1 : 0;
        other.offload.host = i == 4;
        other.device = i == 5 ? &bare : other.device;
        refused(&other, "nothing else is offloaded");
        other.offload.fixed = false;
        if (i != 4) {
            assert_int_equal(bp_spec_check(&other, NULL), BP_OK);
        }
    }
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    refused(&spec, "is for one rank");
    spec.offload.fixed = false;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_offloaded),
        cmocka_unit_test(what_is_trained_beside_blocks),
        cmocka_unit_test(tables),
        cmocka_unit_test(sizes_one_by_one),
        cmocka_unit_test(states_of_rows),
        cmocka_unit_test(frozen_is_no_base),
        cmocka_unit_test(what_is_brought),
        cmocka_unit_test(same_pages_keep_their_order),
        cmocka_unit_test(what_is_fixed),
        cmocka_unit_test(what_goes_with_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
