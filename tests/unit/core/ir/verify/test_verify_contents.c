/* SPDX-License-Identifier: MIT */
/* The program verifier on what bytes mean: what the host fills in and takes out, integers that
 * things are looked up by, blocks, alignment, and scalars that a row has a meaning for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/ops/codec.h"
#include "core/ops/master.h"
#include "core/ir/step.h"
#include "tests/fixtures/plans/graph_made.h"

enum { VOCABULARY = 8, WIDTH = 4, IDS = 4 };

/* A table, and inputs of two pieces of 128 bytes: a step block, ids, labels, unused bytes. */
typedef struct inputs {
    made_graph *f;
    bp_ref table;
    bp_ref step;
    bp_ref ids;
    bp_ref labels;
} inputs;

static inputs make_inputs(void)
{
    made_graph *f = made_begin();
    inputs in = {.f = f, .table = made_buffer(f, "table", BP_SCOPE_PERSISTENT, BP_F32)};
    in.step = made_buffer(f, "inputs", BP_SCOPE_RESIDENT, BP_F32);
    f->graph.buffers[in.step.buffer].filled = true;
    f->graph.field_pitch = 128;
    in.step.dtype = BP_U8;
    in.ids = (bp_ref){in.step.buffer, BP_I32, 64};
    in.labels = (bp_ref){in.step.buffer, BP_I32, 80};
    const uint32_t steps = 1u << BP_PROGRAM_STEP;
    const bp_field fields[] = {
        {UINT32_MAX, BP_TYPE_STEP, in.step.buffer, 0, sizeof(bp_step_block), 0, false},
        {steps, BP_TYPE_I32, in.step.buffer, 64, 16, VOCABULARY, false},
        {steps, BP_TYPE_I32, in.step.buffer, 80, 16, VOCABULARY, true}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bp_graph_field(&f->graph, &fields[i]), BP_OK);
    }
    return in;
}

static void look_up(const inputs *in, bp_ref ids, bp_ref step, int64_t rows, int64_t vocabulary)
{
    const bp_embedding_forward_operands operands = {
        .out = made_buffer(in->f, "out", BP_SCOPE_PROGRAM, BP_F32),
        .ids = ids,
        .wte = in->table,
        .step = step};
    const bp_embedding_forward_scalars scalars = {
        .rows = rows, .sequence = rows, .width = WIDTH, .vocabulary = vocabulary};
    made_op(in->f, BP_KERNEL_embedding_forward, 1, &operands, &scalars);
}

static void bring(const inputs *in, bp_ref ids, int64_t vocabulary)
{
    const bp_rows_begin_scalars s = {bp_graph_request(&in->f->graph), IDS, WIDTH * 4, vocabulary};
    bp_ref to = made_buffer(in->f, "to", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref from = in->table;
    to.dtype = from.dtype = BP_U8;
    const bp_rows_begin_operands operands = {to, from, ids};
    made_op(in->f, BP_KERNEL_rows_begin, 1, &operands, &s);
    made_op(in->f, BP_KERNEL_rows_wait, 1, &operands, &s);
}

/* Rows are brought by ids of the host, in range: others might change while they come. */
/* verifies program-7.2176 */
static void test_rows_are_brought_by_the_hosts_ids(void **state)
{
    (void)state;
    inputs in = make_inputs();
    bring(&in, in.ids, VOCABULARY);
    assert_int_equal(made_verify(in.f), BP_OK);
    bring(&in, in.ids, VOCABULARY - 1);
    made_refused(in.f, "out of range");
    in = make_inputs();
    const bp_ref turned = made_buffer(in.f, "turned", BP_SCOPE_PROGRAM, BP_I32);
    const bp_time_slice_scalars all = {.batch = 1, .sequence = IDS, .length = IDS};
    const bp_time_slice_operands slice = {.y = turned, .x = in.ids};
    made_op(in.f, BP_KERNEL_time_slice, 1, &slice, &all);
    bring(&in, turned, VOCABULARY);
    made_refused(in.f, "work in flight reads what an op may write");
}

/* verifies program-7.2176 */
static void test_ids_are_in_range(void **state)
{
    (void)state;
    inputs in = make_inputs();
    look_up(&in, in.ids, in.step, IDS, VOCABULARY);
    bp_ref second = in.ids;
    second.offset += 128;
    look_up(&in, second, in.step, IDS, VOCABULARY + 1);
    assert_int_equal(made_verify(in.f), BP_OK);
    look_up(&in, in.ids, in.step, IDS, VOCABULARY - 1);
    made_refused(in.f, "out of range");

    in = make_inputs();
    look_up(&in, in.labels, in.step, IDS, VOCABULARY); /* some are negative */
    made_refused(in.f, "out of range");

    in = make_inputs();
    bp_ref later = in.ids;
    later.offset += sizeof(int32_t);
    look_up(&in, later, in.step, IDS - 1, VOCABULARY);
    assert_int_equal(made_verify(in.f), BP_OK);
    look_up(&in, later, in.step, IDS, VOCABULARY); /* half of it labels */
    made_refused(in.f, "host does not fill");

    in = make_inputs();
    bp_ref other = made_buffer(in.f, "integers", BP_SCOPE_PERSISTENT, BP_I32);
    look_up(&in, other, in.step, IDS, VOCABULARY);
    made_refused(in.f, "out of range");

    in = make_inputs();
    bp_graph_begin(&in.f->graph, BP_PROGRAM_DECODE);
    look_up(&in, in.ids, in.step, IDS, VOCABULARY); /* sent to steps only */
    made_refused(in.f, "host does not fill");
}

/* What a field says holds for its own buffer; without rows nothing is looked up. */
/* verifies program-7.2176 */
static void test_fields_are_of_their_buffer(void **state)
{
    (void)state;
    for (uint32_t below = VOCABULARY; below <= VOCABULARY + 1; below++) {
        inputs in = make_inputs();
        bp_ref more = made_buffer(in.f, "more", BP_SCOPE_RESIDENT, BP_I32);
        in.f->graph.buffers[more.buffer].filled = true;
        const bp_field field = {UINT32_MAX, BP_TYPE_I32,     more.buffer, 64,
                                16,         (uint32_t)below, false};
        assert_int_equal(bp_graph_field(&in.f->graph, &field), BP_OK);
        more.offset = 64;
        look_up(&in, in.ids, in.step, IDS, VOCABULARY);
        look_up(&in, more, in.step, IDS, VOCABULARY);
        if (below == VOCABULARY) {
            assert_int_equal(made_verify(in.f), BP_OK);
        } else {
            made_refused(in.f, "out of range");
        }
    }
    inputs in = make_inputs();
    bp_ref other = made_buffer(in.f, "integers", BP_SCOPE_PERSISTENT, BP_I32);
    const bp_embedding_forward_operands none = {
        .out = made_buffer(in.f, "out", BP_SCOPE_PROGRAM, BP_F32),
        .ids = other,
        .wte = in.table,
        .step = in.step};
    const bp_embedding_forward_scalars scalars = {
        .rows = 0, .sequence = 1, .width = WIDTH, .vocabulary = VOCABULARY};
    made_op(in.f, BP_KERNEL_embedding_forward, 1, &none, &scalars);
    assert_int_equal(made_verify(in.f), BP_OK);
}

/* Integers that an op hands on stay in the range of those that it read. */
/* verifies program-7.2176 */
static void test_ids_that_are_copied(void **state)
{
    (void)state;
    for (int spoilt = 0; spoilt < 3; spoilt++) {
        inputs in = make_inputs();
        bp_ref turned = made_buffer(in.f, "turned", BP_SCOPE_PROGRAM, BP_I32);
        const bp_time_slice_scalars all = {.batch = 1, .sequence = IDS, .length = IDS};
        bp_time_slice_operands slice = {.y = turned, .x = in.ids};
        made_op(in.f, BP_KERNEL_time_slice, 1, &slice, &all);
        look_up(&in, turned, in.step, IDS, VOCABULARY);
        assert_int_equal(made_verify(in.f), BP_OK);
        if (spoilt == 0) {
            look_up(&in, turned, in.step, IDS, VOCABULARY - 1);
            made_refused(in.f, "out of range");
        } else if (spoilt == 1) {
            slice.x = in.labels;
            slice.y.offset = IDS * sizeof(int32_t);
            made_op(in.f, BP_KERNEL_time_slice, 1, &slice, &all);
            look_up(&in, turned, in.step, IDS, VOCABULARY);
            made_refused(in.f, "out of range");
        } else {
            turned.dtype = BP_F32; /* floats over some of them */
            made_copy(in.f, turned, in.table, 1);
            turned.dtype = BP_I32;
            look_up(&in, turned, in.step, IDS, VOCABULARY);
            made_refused(in.f, "out of range");
        }
    }
}

/* verifies program-7.2176 */
static void test_the_step_block(void **state)
{
    (void)state;
    inputs in = make_inputs();
    bp_ref other = in.step;
    other.offset = 128;
    look_up(&in, in.ids, other, IDS, VOCABULARY);
    assert_int_equal(made_verify(in.f), BP_OK);
    other.offset = 4;
    look_up(&in, in.ids, other, IDS, VOCABULARY);
    made_refused(in.f, "aligned");

    in = make_inputs();
    other = in.table;
    other.dtype = BP_U8;
    look_up(&in, in.ids, other, IDS, VOCABULARY);
    made_refused(in.f, "not the step block");

    in = make_inputs();
    const bp_field wide = {UINT32_MAX, BP_TYPE_I32,         in.step.buffer, 64,
                           64,         (uint32_t)INT32_MAX, false};
    in.f->graph.fields[1] = wide; /* integers where a step block would fit */
    in.f->graph.field_count = 2;
    other = in.step;
    other.offset = 64;
    look_up(&in, in.ids, other, IDS, VOCABULARY);
    made_refused(in.f, "out of range"); /* of the ids, which are looked at first */
    in.f->graph.fields[1].below = VOCABULARY;
    in.f->error = (bp_error){0};
    made_refused(in.f, "not the step block");

    in = make_inputs();
    other = in.step;
    other.dtype = BP_I32;
    look_up(&in, other, in.step, IDS, VOCABULARY); /* a step block is no list of ids */
    made_refused(in.f, "out of range");

    in = make_inputs();
    other = in.step;
    other.offset = 8;
    look_up(&in, in.ids, other, IDS, VOCABULARY);
    made_refused(in.f, "host does not fill");
}

/* verifies program-16.70f6 */
static void test_the_host_fills_and_takes(void **state)
{
    (void)state;
    inputs in = make_inputs();
    bp_ref all = in.ids;
    all.dtype = BP_F32;
    made_copy(in.f, in.table, all, 4);
    assert_int_equal(made_verify(in.f), BP_OK);
    made_copy(in.f, all, in.table, 4);
    made_refused(in.f, "host fills");

    for (int32_t written = -1; written <= 0; written++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref out = made_buffer(f, "out", BP_SCOPE_CARRIED, BP_F32);
        bp_graph_take(&f->graph, out.buffer, 1u << BP_PROGRAM_EVAL);
        made_copy(f, w, out, MADE_COUNT); /* another program may read it as it is */
        bp_graph_begin(&f->graph, BP_PROGRAM_EVAL);
        made_copy(f, out, w, MADE_COUNT + written);
        if (written == 0) {
            assert_int_equal(made_verify(f), BP_OK);
        } else {
            made_refused(f, "what the host reads");
        }
    }

    /* What the host took from it before is not there for the program that writes it. */
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref out = made_buffer(f, "out", BP_SCOPE_CARRIED, BP_F32);
    bp_graph_take(&f->graph, out.buffer, 1u << BP_PROGRAM_EVAL);
    bp_graph_begin(&f->graph, BP_PROGRAM_EVAL);
    made_copy(f, w, out, MADE_COUNT);
    made_copy(f, out, w, MADE_COUNT);
    made_refused(f, "read before it is written");
}

static void update(made_graph *f, bp_ref w, bp_ref state, bp_ref block, bp_adamw_scalars scalars)
{
    const bp_adamw_operands operands = {.weight = w,
                                        .state1 = state,
                                        .state2 = state,
                                        .gradient = w,
                                        .control = block,
                                        .step = block};
    scalars.count = 0;
    made_op(f, BP_KERNEL_adamw, 1, &operands, &scalars);
}

/* verifies program-7.2176 */
static void test_scalars_that_mean_nothing(void **state)
{
    (void)state;
    const bp_adamw_scalars bad[] = {{.form = BP_CODEC_COUNT},
                                    {.form = -1},
                                    {.master_form = BP_MASTER_COUNT},
                                    {.first = 255},
                                    {.fold = 4}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        update(f, w, w, w, bad[i]);
        made_refused(f, "what its row requires");
        assert_string_equal(f->error.name, "adamw");
    }
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    const bp_bias_backward_operands operands = {.d_bias = c, .d_y = w};
    made_op(f, BP_KERNEL_bias_backward, 1, &operands,
            &(const bp_bias_backward_scalars){.rows = 1, .n = 1, .pitch = 1});
    assert_int_equal(made_verify(f), BP_OK);
    made_op(f, BP_KERNEL_bias_backward, 1, &operands,
            &(const bp_bias_backward_scalars){.rows = 1, .n = 1, .pitch = 1, .accumulate = 2});
    made_refused(f, "what its row requires");
}

/* A master that the form asks for has to be there; an operand that is there has bytes. */
/* verifies program-16.70f6 */
static void test_operands_that_have_to_be_there(void **state)
{
    (void)state;
    inputs in = make_inputs();
    bp_ref y = made_buffer(in.f, "y", BP_SCOPE_PROGRAM, BP_F32);
    bp_random_normal_operands drawn = {.y = y, .step = in.step};
    bp_random_normal_scalars scalars = {.count = 8};
    made_op(in.f, BP_KERNEL_random_normal, 1, &drawn, &scalars);
    assert_int_equal(made_verify(in.f), BP_OK);
    scalars.form = BP_MASTER_FP32;
    made_op(in.f, BP_KERNEL_random_normal, 1, &drawn, &scalars);
    made_refused(in.f, "absent");

    in = make_inputs();
    drawn.y = made_buffer(in.f, "y", BP_SCOPE_PROGRAM, BP_F32);
    drawn.master = made_buffer(in.f, "master", BP_SCOPE_PROGRAM, BP_F32);
    made_op(in.f, BP_KERNEL_random_normal, 1, &drawn, &scalars);
    assert_int_equal(made_verify(in.f), BP_OK);
    drawn.master.offset = 2;
    made_op(in.f, BP_KERNEL_random_normal, 1, &drawn, &scalars);
    made_refused(in.f, "aligned");

    in = make_inputs();
    const bp_dropout_operands empty = {
        .y = in.table, .x = in.table, .residual = in.table, .step = in.step};
    made_op(in.f, BP_KERNEL_dropout, 1, &empty, &(const bp_dropout_scalars){.per_sample = 1});
    made_refused(in.f, "without bytes");
}

/* verifies program-7.2176 */
static void test_fields_that_do_not_fit(void **state)
{
    (void)state;
    inputs in = make_inputs();
    const bp_field field = in.f->graph.fields[0];
    while (in.f->graph.field_count < BP_FIELDS_MAX) {
        assert_int_equal(bp_graph_field(&in.f->graph, &field), BP_OK);
    }
    assert_int_equal(bp_graph_field(&in.f->graph, &field), BP_ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_in_range),
        cmocka_unit_test(test_rows_are_brought_by_the_hosts_ids),
        cmocka_unit_test(test_fields_are_of_their_buffer),
        cmocka_unit_test(test_ids_that_are_copied),
        cmocka_unit_test(test_the_step_block),
        cmocka_unit_test(test_the_host_fills_and_takes),
        cmocka_unit_test(test_scalars_that_mean_nothing),
        cmocka_unit_test(test_operands_that_have_to_be_there),
        cmocka_unit_test(test_fields_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
