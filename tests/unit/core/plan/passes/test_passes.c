/* SPDX-License-Identifier: MIT */
/* Each pass by itself: a program written by hand, with its markers, and what the pass makes of it,
 * printed. What is no program for passes is refused, with the op that is wrong. And of whole models
 * what each of the last passes makes is verified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/verify/verify.h"
#include "core/plan/compile_private.h"
#include "core/plan/optimizer.h"
#include "core/plan/passes/virtual_ranks.h"
#include "optim/rules.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/option_pairs.h"
#include "tests/fixtures/plans/plan_bytes.h"

enum { PARAMETERS = 3, SIDE = 300 }; /* more elements than BP_SHARD_UNIT */

/* Parameters, a program to be written, and its print. */
typedef struct passes_fixture {
    uint64_t memory[1 << 14];
    bp_spec spec;
    bp_parameter parameters[PARAMETERS];
    bp_arena arena;
    bp_graph graph;
    bp_error error;
    bp_builder builder;
    bp_ref y;
    char print[2048];
} passes_fixture;

static passes_fixture f;

static void passes_begin(const bp_spec *spec)
{
    static const bp_graph_limits rows = {32, 32, 128, 256, 1024};
    memset(&f, 0, sizeof f);
    f.spec = *spec;
    bp_arena_init(&f.arena, f.memory, sizeof f.memory);
    assert_int_equal(bp_graph_init(&f.graph, &rows, &f.arena, &f.error), BP_OK);
    bp_build_init(&f.builder, &f.graph, &f.spec, f.parameters, PARAMETERS);
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        const bp_parameter_info info = {
            .name = (const char *[]){"a", "b", "c"}[i], .rank = 2, .shape = {SIDE, SIDE}};
        bp_build_parameter(&f.builder, &info);
    }
    assert_int_equal(compile_share_out(&f.builder, &f.arena), BP_OK);
    if (spec->optimizer != NULL) {
        spec->optimizer->declare(&f.builder);
    }
    bp_graph_begin(&f.graph, BP_PROGRAM_EVAL);
    f.builder.mode = BP_MODE_EVAL;
    f.builder.label = "h.0";
    f.y = bp_build_buffer(&f.builder, BP_CLASS_WORKSPACE, BP_F32, 8, 1, "y");
    assert_int_equal(f.builder.status, BP_OK);
}

/* One op of the program that goes in: "acquire", "release" or, of a parameter, "copy". */
typedef struct passes_op {
    bp_kernel kernel;
    uint32_t index;
    bp_purpose purpose;
} passes_op;

static const bp_pass *passes_find(const char *name)
{
    uint32_t i = 0;
    while (i < BP_PASSES && strcmp(bp_passes_order[i].name, name) != 0) {
        i++;
    }
    assert_true(i < BP_PASSES);
    return &bp_passes_order[i];
}

/* The pass of a name alone, shown the program op by op. */
static void passes_show(const char *name, const passes_op *ops, uint32_t count)
{
    const bp_pass *pass = passes_find(name);
    for (uint32_t i = 0; i < count && f.builder.status == BP_OK; i++) {
        const bp_ref weight = bp_build_weight(&f.builder, ops[i].index);
        if (ops[i].kernel == BP_OP_ACQUIRE) {
            f.parameters[ops[i].index].acquired.held++;
            f.builder.passes.held++;
            pass->acquire(&f.builder, ops[i].index);
        } else if (ops[i].kernel == BP_OP_RELEASE) {
            bp_passes_marker(&f.builder, BP_OP_RELEASE, ops[i].index, ops[i].purpose);
        } else {
            bp_build_copy(&f.builder, &(bp_copy_operands){.y = f.y, .x = weight},
                          &(bp_copy_scalars){.count = 8});
        }
    }
}

static void print(const char *text)
{
    const size_t used = strlen(f.print);
    assert_true(used + strlen(text) < sizeof f.print);
    strcpy(f.print + used, text);
}

/* A line for each op of the program: its kernel, its request if it has one, its operands. */
static const char *passes_print(void)
{
    const uint32_t first = f.graph.program_first[f.graph.program];
    f.print[0] = '\0';
    for (uint32_t i = first; i < f.graph.used.ops; i++) {
        const bp_op *op = &f.graph.ops[i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        print(info->name);
        if (info->pending != BP_PENDING_NONE) {
            char request[16];
            (void)snprintf(request, sizeof request, " #%d",
                           (int)f.graph.scalars[op->scalar].integer);
            print(request);
        }
        for (uint32_t k = 0; k < info->operand_count; k++) {
            print(" ");
            print(bp_graph_name(&f.graph, f.graph.refs[op->operand + k].buffer));
        }
        print("\n");
    }
    return f.print;
}

static const passes_op read_twice[] = {
    {BP_OP_ACQUIRE, 0, BP_FOR_FORWARD},  {BP_KERNEL_copy, 0, BP_PURPOSES},
    {BP_OP_ACQUIRE, 0, BP_FOR_FORWARD},  {BP_KERNEL_copy, 0, BP_PURPOSES},
    {BP_OP_RELEASE, 0, BP_PURPOSES},     {BP_OP_RELEASE, 0, BP_PURPOSES},
    {BP_OP_ACQUIRE, 1, BP_FOR_BACKWARD}, {BP_KERNEL_copy, 1, BP_PURPOSES},
    {BP_OP_RELEASE, 1, BP_PURPOSES}};
enum { READ_TWICE = sizeof read_twice / sizeof read_twice[0] };

/* What a pass makes of this program with this spec; it is resolved, and no marker is in it. */
static void passes_expect(const char *name, const bp_spec *spec, const char *wanted)
{
    passes_begin(spec);
    passes_show(name, read_twice, READ_TWICE);
    bp_build_resolved(&f.builder);
    assert_int_equal(f.builder.status, BP_OK);
    assert_string_equal(passes_print(), wanted);
}

static const char as_it_was[] = "copy h.0.y a\ncopy h.0.y a\ncopy h.0.y b\n";

/* No pass does anything to a program that has nothing for it: the markers go. */
static void passes_leave_what_is_not_theirs(void **state)
{
    (void)state;
    static const char *const names[] = {"buckets", "gather", "offload", "average"};
    const bp_spec spec = model_fixture_spec();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        passes_expect(names[i], &spec, as_it_was);
    }
}

static void average_is_formed_once_and_read(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.optimizer = &bp_optimizer_schedule_free_adamw;
    passes_expect("average", &spec,
                  "averaged_weight h.0.averaged a - a.z_less_y\n"
                  "copy h.0.y h.0.averaged\n"
                  "copy h.0.y h.0.averaged\n"
                  "averaged_weight h.0.averaged b - b.z_less_y\n"
                  "copy h.0.y h.0.averaged\n");
    f.builder.mode = BP_MODE_TRAIN; /* which goes on with the weights as they are */
    f.graph.program_first[f.graph.program] = f.graph.used.ops;
    passes_show("average", read_twice, READ_TWICE);
    assert_string_equal(passes_print(), as_it_was);
}

/* Shares are equal or not, which are other calls. */
static void shares_are_gathered(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.ranks = spec.virtual_ranks = 2;
    spec.sharing = BP_SHARING_PARAMETERS;
    passes_expect("gather", &spec,
                  "gather_pieces_begin #0 h.0.whole_weight a\n"
                  "fabric_wait #0 h.0.whole_weight a\n"
                  "copy h.0.y h.0.whole_weight\n"
                  "copy h.0.y h.0.whole_weight\n"
                  "gather_pieces_begin #1 h.0.whole_weight b\n"
                  "fabric_wait #1 h.0.whole_weight b\n"
                  "copy h.0.y h.0.whole_weight\n");
    assert_int_equal(f.graph.ops[0].brings, f.parameters[0].weight);
}

static void what_is_offloaded_is_brought(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.offload.bases =
        BP_OFFLOAD_ALL; /* the first is the table that two stages share, and stays */
    spec.optimizer = NULL;
    passes_expect("offload", &spec,
                  "copy h.0.y a\n"
                  "copy h.0.y a\n"
                  "copy_begin #0 h.0.brought_weight b\n"
                  "copy_wait #0 h.0.brought_weight b\n"
                  "copy h.0.y h.0.brought_weight\n");
}

/* Of a window of two buckets one leaves at each acquisition; the pieces of the first are added up
 * once the second is on its way. */
static void buckets_leave_before_weights_are_read(void **state)
{
    (void)state;
    static bp_compile compile;
    bp_spec spec = model_fixture_spec();
    spec.ranks = spec.virtual_ranks = 2;
    spec.bucket_bytes = SIDE * SIDE * sizeof(float) / 2 + 1024;
    passes_begin(&spec);
    compile = (bp_compile){.virtual_ranks = 1, .windows_opened = 1, .pace = 2};
    compile.windows[0] = (bp_window){.table = 0, .count = SIDE * SIDE, .any = true};
    assert_true(compile_mark(&compile, &f.builder, &compile.windows[0]));
    bp_virtual_ranks_open(&compile, &f.builder, 0, &compile.windows[0]);
    assert_int_equal(compile.windows[0].buckets, 2);
    f.parameters[0].acquired.leaf =
        bp_build_buffer(&f.builder, BP_CLASS_GRADIENTS, BP_F32, SIDE, SIDE, "leaf").buffer;
    f.builder.passes.flying = &compile;
    passes_show("buckets", read_twice, READ_TWICE);
    assert_string_equal(passes_print(), "tree_add h.0.lane_sum h.0.leaf -\n"
                                        "exchange_begin #0 h.0.pieces h.0.lane_sum\n"
                                        "copy h.0.y a\n"
                                        "tree_add h.0.lane_sum h.0.leaf -\n"
                                        "exchange_begin #1 h.0.pieces h.0.lane_sum\n"
                                        "fabric_wait #0 h.0.pieces h.0.lane_sum\n"
                                        "tree_sum h.0.piece h.0.pieces\n"
                                        "all_gather_begin #2 h.0.sum h.0.piece\n"
                                        "copy h.0.y a\n"
                                        "copy h.0.y b\n");
}

static const passes_op read_both[] = {
    {BP_OP_ACQUIRE, 1, BP_FOR_FORWARD}, {BP_KERNEL_copy, 1, BP_PURPOSES},
    {BP_OP_RELEASE, 1, BP_PURPOSES},    {BP_OP_ACQUIRE, 2, BP_FOR_FORWARD},
    {BP_KERNEL_copy, 2, BP_PURPOSES},   {BP_OP_RELEASE, 2, BP_PURPOSES}};
enum { READ_BOTH = sizeof read_both / sizeof read_both[0] };

/* The second gather begins behind the wait of the first, and requests count begins again. */
static void gathers_begin_earlier(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.ranks = spec.virtual_ranks = 2;
    spec.sharing = BP_SHARING_PARAMETERS;
    passes_begin(&spec);
    passes_show("gather", read_both, READ_BOTH);
    const bp_pass *ahead = passes_find("gather ahead");
    static const char as_written[] = "gather_pieces_begin #0 h.0.whole_weight b\n"
                                     "fabric_wait #0 h.0.whole_weight b\n"
                                     "copy h.0.y h.0.whole_weight\n"
                                     "gather_pieces_begin #1 h.0.whole_weight c\n"
                                     "fabric_wait #1 h.0.whole_weight c\n"
                                     "copy h.0.y h.0.whole_weight\n";
    ahead->program(&f.graph, &f.spec);
    assert_string_equal(passes_print(), as_written); /* none is asked for */
    f.spec.gather_ahead = 1;
    ahead->program(&f.graph, &f.spec);
    assert_string_equal(passes_print(), "gather_pieces_begin #0 h.0.whole_weight b\n"
                                        "fabric_wait #0 h.0.whole_weight b\n"
                                        "gather_pieces_begin #1 h.0.whole_weight c\n"
                                        "copy h.0.y h.0.whole_weight\n"
                                        "fabric_wait #1 h.0.whole_weight c\n"
                                        "copy h.0.y h.0.whole_weight\n");
}

static void fetches_begin_earlier(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    spec.offload.bases = BP_OFFLOAD_ALL;
    spec.optimizer = NULL;
    passes_begin(&spec);
    passes_show("offload", read_both, READ_BOTH);
    f.spec.offload.ahead = 1;
    passes_find("fetch ahead")->program(&f.graph, &f.spec);
    assert_string_equal(passes_print(), "copy_begin #0 h.0.brought_weight b\n"
                                        "copy_begin #1 h.0.brought_weight c\n"
                                        "copy_wait #0 h.0.brought_weight b\n"
                                        "copy h.0.y h.0.brought_weight\n"
                                        "copy_wait #1 h.0.brought_weight c\n"
                                        "copy h.0.y h.0.brought_weight\n");
}

/* Compiled with nothing ahead; then each of the last passes, and the verifier behind each. */
static void verify_passes(bp_spec spec, const char *name)
{
    static bp_plan plan;
    const uint64_t bytes = plan_bytes(&spec);
    const bp_spec asked = spec;
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    spec.gather_ahead = spec.offload.ahead = 0;
    if (bp_plan_count(&plan, &spec, memory, bytes) == BP_OK &&
        bp_plan_write_counted(&plan, memory, bytes) == BP_OK) {
        bp_graph *graph = &plan.graph;
        const uint64_t room = bp_verify_scratch(graph);
        void *scratch = malloc((size_t)room);
        assert_non_null(scratch);
        for (uint32_t i = 0; i < BP_PASSES; i++) {
            if (bp_passes_order[i].program != NULL) {
                bp_passes_order[i].program(graph, &asked);
            }
            if (bp_verify(graph, spec.device, &spec.device_options, scratch, room) != BP_OK) {
                fail_msg("%s, %s: %s %s", name, bp_passes_order[i].name, plan.error.text,
                         plan.error.name);
            }
        }
        free(scratch);
    }
    free(memory);
}

static void programs_are_verified_behind_each_pass(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < option_pairs_count(); i++) {
        char row[OPTION_PAIRS_NAME], name[OPTION_PAIRS_NAME];
        bp_spec spec;
        if (option_pairs(i, &spec, row, name) &&
            (spec.offload.ahead > 0 || spec.gather_ahead > 0)) {
            verify_passes(spec, row);
        }
    }
}

/* What a pass cannot handle: the op, its stage and the parameter are named. */
static void wrong_programs_name_the_op(void **state)
{
    (void)state;
    static const struct {
        passes_op ops[4];
        uint32_t count;
        const char *text, *name;
    } wrong[] = {{{{BP_OP_ACQUIRE, 0, BP_FOR_FORWARD},
                   {BP_KERNEL_copy, 0, BP_PURPOSES},
                   {BP_KERNEL_copy, 1, BP_PURPOSES}},
                  3,
                  "an op touches a parameter that is not acquired",
                  "h.0: op 1, copy: b"},
                 {{{BP_OP_ACQUIRE, 1, BP_FOR_UPDATE},
                   {BP_OP_RELEASE, 1, BP_PURPOSES},
                   {BP_OP_RELEASE, 1, BP_PURPOSES}},
                  3,
                  "a parameter is released that was not acquired",
                  "h.0: op 0, release: b"},
                 {{{BP_OP_ACQUIRE, 0, BP_FOR_FORWARD}, {BP_KERNEL_copy, 0, BP_PURPOSES}},
                  2,
                  "a parameter was acquired and not released",
                  "h.0: op 1, acquire: a"}};
    const bp_spec spec = model_fixture_spec();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        passes_begin(&spec);
        passes_show("gather", wrong[i].ops, wrong[i].count);
        bp_build_resolved(&f.builder);
        assert_int_equal(f.builder.status, BP_ERR_INTERNAL);
        assert_string_equal(f.error.text, wrong[i].text);
        assert_string_equal(f.error.name, wrong[i].name);
    }
}

/* A finished program has no marker. */
static void the_verifier_refuses_a_marker(void **state)
{
    (void)state;
    static uint64_t scratch[1 << 16];
    const bp_spec spec = model_fixture_spec();
    const int64_t scalars[BP_MARKER_SCALARS] = {0, BP_FOR_FORWARD};
    for (bp_kernel marker = BP_OP_ACQUIRE; marker < BP_OP_COUNT; marker++) {
        passes_begin(&spec);
        const bp_op op = {.kernel = marker, .tuples = 1};
        assert_int_equal(bp_graph_op(&f.graph, &op, NULL, scalars), BP_OK);
        assert_int_equal(
            bp_verify(&f.graph, spec.device, &spec.device_options, scratch, sizeof scratch),
            BP_ERR_VERIFY);
        assert_non_null(strstr(f.error.text, "a marker is left"));
        assert_string_equal(f.error.name, marker == BP_OP_ACQUIRE ? "acquire" : "release");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_leave_what_is_not_theirs),
        cmocka_unit_test(average_is_formed_once_and_read),
        cmocka_unit_test(shares_are_gathered),
        cmocka_unit_test(what_is_offloaded_is_brought),
        cmocka_unit_test(buckets_leave_before_weights_are_read),
        cmocka_unit_test(gathers_begin_earlier),
        cmocka_unit_test(fetches_begin_earlier),
        cmocka_unit_test(programs_are_verified_behind_each_pass),
        cmocka_unit_test(wrong_programs_name_the_op),
        cmocka_unit_test(the_verifier_refuses_a_marker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
