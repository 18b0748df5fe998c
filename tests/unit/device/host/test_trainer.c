/* SPDX-License-Identifier: MIT */
/* The state of a trainer as bytes one behind the other and as tensors, over tables made by hand: a
 * row of the arena, a frozen one behind its end, and another of the arena. Whole trainers are
 * tests/cli/plan/test_emit_c.sh's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/kernel.h"
#include "device/host/trainer.h"

enum { ARENA = 64, FIRST = 5, FROZEN = 4, LAST = 7, ALL = FIRST + FROZEN + LAST };

static const unsigned char frozen[FROZEN] = {91, 92, 93, 94};
static const bp_trainer_range rows[] = {{8, FIRST}, {ARENA, FROZEN}, {32, LAST}};
static const bp_trainer_plan plan = {
    .arena_bytes = ARENA, .frozen = frozen, .state = rows, .state_count = 3};

static uint64_t arena[ARENA / sizeof(uint64_t)];

/* What byte `at` of the state is. */
static unsigned char value(size_t at)
{
    return at >= FIRST && at < FIRST + FROZEN ? frozen[at - FIRST] : (unsigned char)(at + 1);
}

static void fill(bp_trainer *trainer)
{
    unsigned char all[ALL];
    for (size_t i = 0; i < ALL; i++) {
        all[i] = value(i);
    }
    assert_int_equal(bp_trainer_open(trainer, &plan, arena, sizeof arena), BP_OK);
    assert_int_equal(bp_trainer_write_state(trainer, 0, all, ALL), BP_OK);
}

/* verifies device-25.d3df */
static void every_part_of_the_state(void **state)
{
    (void)state;
    bp_trainer trainer;
    unsigned char some[ALL + 1];
    fill(&trainer);
    assert_int_equal(bp_trainer_state_bytes(&trainer), ALL);
    for (size_t from = 0; from <= ALL; from++) {
        for (size_t bytes = 0; from + bytes <= ALL + 1; bytes++) {
            const bool inside = from + bytes <= ALL;
            memset(some, 0, sizeof some);
            assert_int_equal(bp_trainer_read_state(&trainer, from, some, bytes),
                             inside ? BP_OK : BP_ERR_USAGE);
            for (size_t i = 0; i < sizeof some; i++) {
                const bool there = i < bytes && from + i < ALL;
                assert_int_equal(some[i], there ? value(from + i) : 0);
            }
            assert_int_equal(bp_trainer_write_state(&trainer, from, some, bytes),
                             inside ? BP_OK : BP_ERR_USAGE);
        }
    }
    some[0] = frozen[1];
    assert_int_equal(bp_trainer_write_state(&trainer, FIRST, some, 1), BP_ERR_DATA);
}

/* verifies device-25.d3df */
static void tensors_of_the_state(void **state)
{
    (void)state;
    bp_trainer trainer;
    unsigned char some[LAST] = {0};
    fill(&trainer);
    const bp_state_io io = bp_trainer_state_io(&trainer);
    assert_int_equal(io.read(io.user, 2, 3, some, LAST - 3), BP_OK);
    assert_int_equal(some[0], value(FIRST + FROZEN + 3));
    assert_int_equal(io.read(io.user, 2, 3, some, LAST - 2), BP_ERR_USAGE);
    assert_int_equal(io.read(io.user, 3, 0, some, 1), BP_ERR_USAGE);
    assert_int_equal(io.read(io.user, 0, UINT64_MAX, some, 1), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, 3, 0, some, 0), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, 1, 1, frozen + 1, 2), BP_OK);
    assert_int_equal(io.write(io.user, 1, 0, frozen + 1, 2), BP_ERR_DATA);
}

/* Programs of one op each, which counts its runs and leaves its number as the loss. */
enum { SAMPLES = 2, IDS = 3, VOCABULARY = 10, CLASSES = 5, MICROS = 2 };

static uint32_t ran;
static uint64_t walked[128];

static uint64_t one_task(const void *scalars)
{
    (void)scalars;
    return 1;
}

static void count_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_result_block result = {.loss_sum = 8.0};
    void *const *pointers = call->pointers;
    (void)first;
    (void)last;
    (void)worker;
    memcpy(pointers[0], &result, sizeof result);
    ran++;
}

static const bp_host_kernel counting = {one_task, count_run, NULL};
static const uint32_t result_at[] = {256};
static const uint64_t no_scalars[] = {0};
static const uint8_t bytes_type[] = {BP_U8};
static const bp_trainer_op ops[] = {{&counting, result_at, no_scalars, bytes_type, 1, 1, 0}};

/* Of a step: a whole one, or micro-batches; with an evaluation or without one. */
static bp_trainer_plan walked_plan(bool whole, bool evaluates)
{
    return (bp_trainer_plan){
        .ops = ops,
        .count = {[BP_TRAINER_STEP] = whole,
                  [BP_TRAINER_FIRST] = !whole,
                  [BP_TRAINER_NEXT] = !whole,
                  [BP_TRAINER_UPDATE] = !whole,
                  [BP_TRAINER_EVALUATE] = evaluates},
        .arena_bytes = sizeof walked,
        .step = 0,
        .result = 256,
        .control = 512,
        .micros = whole ? 1 : MICROS,
        .batch = SAMPLES,
        .evaluated = SAMPLES,
        .inputs = 3,
        .input = {{.offset = 64, .elements = IDS, .below = VOCABULARY},
                  {.offset = 128, .elements = IDS, .below = CLASSES, .negative = true},
                  {.offset = 192, .elements = 1}}};
}

/* verifies device-36.d469 */
static void integers_beyond_what_kernels_read(void **state)
{
    (void)state;
    static const struct {
        uint32_t input;
        int32_t number;
        bool right;
    } cases[] = {{0, 0, true},         {0, VOCABULARY - 1, true}, {0, VOCABULARY, false},
                 {0, -1, false},       {0, INT32_MIN, false},     {0, INT32_MAX, false},
                 {1, -1, true},        {1, CLASSES - 1, true},    {1, CLASSES, false},
                 {2, INT32_MAX, true}, {2, INT32_MIN, true}};
    for (uint32_t whole = 0; whole < 2; whole++) {
        const bp_trainer_plan made = walked_plan(whole != 0, true);
        const uint32_t micros = whole != 0 ? 1 : MICROS;
        for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const uint32_t count = micros * SAMPLES * made.input[cases[i].input].elements;
            for (uint32_t at = 0; at < count; at++) {
                int32_t column[3][MICROS * SAMPLES * IDS] = {{0}};
                bp_trainer_batch batch = {{column[0], column[1], column[2]}, micros, 2.0};
                bp_trainer_outcome outcome;
                bp_trainer trainer;
                double loss = -1.0;
                column[cases[i].input][at] = cases[i].number;
                assert_int_equal(bp_trainer_open(&trainer, &made, walked, sizeof walked), BP_OK);
                ran = 0;
                const bp_status wanted = cases[i].right ? BP_OK : BP_ERR_DATA;
                assert_int_equal(bp_trainer_step(&trainer, &batch, &outcome), wanted);
                assert_int_equal(ran, cases[i].right ? 2 * micros - 1 : 0);
                assert_int_equal(trainer.steps, cases[i].right);
                const bool seen = at < SAMPLES * made.input[cases[i].input].elements;
                assert_int_equal(bp_trainer_evaluate(&trainer, &batch, &loss),
                                 seen ? wanted : BP_OK);
                assert_true(!(loss < 0.0) == (!seen || cases[i].right));
            }
        }
    }
}

/* verifies device-36.d469 */
static void batches_that_the_plan_does_not_have(void **state)
{
    (void)state;
    int32_t column[MICROS * SAMPLES * IDS] = {0};
    for (uint32_t whole = 0; whole < 2; whole++) {
        const bp_trainer_plan made = walked_plan(whole != 0, false);
        bp_trainer_batch batch = {{column, column, column}, 1, 2.0};
        bp_trainer_outcome outcome;
        bp_trainer trainer;
        double loss = -1.0;
        assert_int_equal(bp_trainer_open(&trainer, &made, walked, sizeof walked), BP_OK);
        for (uint32_t micros = 0; micros < MICROS + 2; micros++) {
            batch.micros = micros;
            const bool right = micros > 0 && micros <= made.micros;
            assert_int_equal(bp_trainer_step(&trainer, &batch, &outcome),
                             right ? BP_OK : BP_ERR_USAGE);
        }
        batch.micros = 1;
        /* the last training's result is no evaluation's */
        assert_int_equal(bp_trainer_evaluate(&trainer, &batch, &loss), BP_ERR_USAGE);
        assert_true(loss < 0.0);
        batch.column[2] = NULL;
        assert_int_equal(bp_trainer_step(&trainer, &batch, &outcome), BP_ERR_USAGE);
        assert_null(bp_trainer_column(&trainer, 3));
        assert_true((unsigned char *)bp_trainer_column(&trainer, 2) ==
                    (unsigned char *)walked + 192);
    }
}

/* verifies device-36.d469 */
static void weights_that_are_no_numbers(void **state)
{
    (void)state;
    static const double wrong[] = {-1.0, (double)INFINITY, -(double)INFINITY, (double)NAN,
                                   1e30, 4294967296.0};
    int32_t column[MICROS * SAMPLES * IDS] = {0};
    const bp_trainer_plan made = walked_plan(true, false);
    bp_trainer_plan compared = made;
    bp_trainer trainer;
    bp_trainer_outcome outcome;
    compared.texts = 2;
    compared.count[BP_TRAINER_EVALUATE] = 1;
    assert_int_equal(bp_trainer_open(&trainer, &made, walked, sizeof walked), BP_OK);
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const bp_trainer_batch batch = {{column, column, column}, 1, wrong[i]};
        assert_int_equal(bp_trainer_step(&trainer, &batch, &outcome), BP_ERR_USAGE);
        assert_int_equal(trainer.steps, 0);
        /* An evaluation reads it where samples are compared: as many as it says are there. */
        double loss = 0.0;
        trainer.plan = &compared;
        assert_int_equal(bp_trainer_evaluate(&trainer, &batch, &loss), BP_ERR_USAGE);
        trainer.plan = &made;
    }
}

/* A state of one tensor for each type that has floats, two elements each, and one of codes. */
enum { PUT_TENSORS = 4 };

static const bp_trainer_range put_rows[PUT_TENSORS] = {{0, 8}, {8, 4}, {16, 4}, {24, 2}};
static const bp_state_tensor put_tensors[PUT_TENSORS] = {
    {.name = "f32", .dtype = BP_F32, .bytes = 8, .handle = 0},
    {.name = "bf16", .dtype = BP_BF16, .bytes = 4, .handle = 1},
    {.name = "f16", .dtype = BP_F16, .bytes = 4, .handle = 2},
    {.name = "u8", .dtype = BP_U8, .bytes = 2, .handle = 3}};
static const bp_trainer_plan put_plan = {
    .arena_bytes = ARENA, .state = put_rows, .state_count = PUT_TENSORS};

/* The formats' own bits (IEEE 754, bfloat16): infinities, NaNs, and the largest numbers. */
/* verifies device-36.d469 */
static void numbers_that_are_put_by_name(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits[3]; /* of f32, bf16, f16 */
        bool finite;
    } cases[] = {{{0x7f800000, 0x7f80, 0x7c00}, false}, {{0xff800000, 0xff80, 0xfc00}, false},
                 {{0x7fc00000, 0x7fc0, 0x7e00}, false}, {{0xff800001, 0xff81, 0xfc01}, false},
                 {{0x7f7fffff, 0x7f7f, 0x7bff}, true},  {{0xff7fffff, 0xff7f, 0xfbff}, true},
                 {{0x00000001, 0x0001, 0x0001}, true},  {{0x80000000, 0x8000, 0x8000}, true}};
    bp_trainer trainer;
    assert_int_equal(bp_trainer_open(&trainer, &put_plan, arena, sizeof arena), BP_OK);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t t = 0; t < 3; t++) {
            const size_t size = t == 0 ? 4 : 2;
            for (size_t at = 0; at < 2; at++) {
                unsigned char some[8] = {0}, before[8], after[8];
                for (size_t k = 0; k < size; k++) {
                    some[at * size + k] = (unsigned char)(cases[i].bits[t] >> 8 * k);
                }
                const char *name = put_tensors[t].name;
                assert_int_equal(bp_trainer_get(&trainer, put_tensors, name, before, 2 * size),
                                 BP_OK);
                assert_int_equal(bp_trainer_put(&trainer, put_tensors, name, some, 2 * size),
                                 cases[i].finite ? BP_OK : BP_ERR_DATA);
                assert_int_equal(bp_trainer_get(&trainer, put_tensors, name, after, 2 * size),
                                 BP_OK);
                assert_memory_equal(after, cases[i].finite ? some : before, 2 * size);
            }
        }
    }
    const unsigned char codes[2] = {0xff, 0xff};
    assert_int_equal(bp_trainer_put(&trainer, put_tensors, "u8", codes, 2), BP_OK);
}

/* verifies device-36.d469 */
static void pointers_to_nothing(void **state)
{
    (void)state;
    bp_trainer trainer;
    bp_trainer_outcome outcome;
    bp_trainer_batch batch = {.micros = 1, .weight = 1.0};
    unsigned char some[8] = {0};
    double loss = 0.0;
    float outputs[2] = {0};
    uint32_t best = 0;
    const bp_trainer_plan made = walked_plan(true, true);
    assert_int_equal(bp_trainer_open(&trainer, NULL, walked, sizeof walked), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_open(&trainer, &made, NULL, sizeof walked), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_open(&trainer, &made, walked, sizeof walked), BP_OK);
    assert_int_equal(bp_trainer_step(&trainer, NULL, &outcome), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_step(&trainer, &batch, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_evaluate(&trainer, NULL, &loss), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_evaluate(&trainer, &batch, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_place(&trainer, 0, NULL, 1, 0), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_learn(&trainer, 1, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_class(NULL, 2, &best), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_class(outputs, 2, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_open(&trainer, &put_plan, arena, sizeof arena), BP_OK);
    assert_int_equal(bp_trainer_get(&trainer, NULL, "f32", some, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_get(&trainer, put_tensors, NULL, some, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_get(&trainer, put_tensors, "f32", NULL, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_put(&trainer, NULL, "f32", some, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_put(&trainer, put_tensors, NULL, some, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_put(&trainer, put_tensors, "f32", NULL, 8), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_read_state(&trainer, 0, NULL, 1), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_write_state(&trainer, 0, NULL, 1), BP_ERR_USAGE);
}

/* verifies device-36.d469 */
static void texts_that_lie_nowhere(void **state)
{
    (void)state;
    static const bp_trainer_plan speaks = {.arena_bytes = ARENA,
                                           .decoding = {.context = 8, .vocabulary = VOCABULARY}};
    const int32_t ids[1] = {0};
    const float *logits = NULL;
    int32_t to[1];
    bp_trainer trainer;
    assert_int_equal(bp_trainer_open(&trainer, &speaks, arena, sizeof arena), BP_OK);
    assert_int_equal(bp_trainer_accept(&trainer, NULL, 1, &logits), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_accept(&trainer, ids, 1, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_generate(&trainer, NULL, 1, to, 1, NULL, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_trainer_generate(&trainer, ids, 1, NULL, 1, NULL, NULL), BP_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers_beyond_what_kernels_read),
                                       cmocka_unit_test(batches_that_the_plan_does_not_have),
                                       cmocka_unit_test(every_part_of_the_state),
                                       cmocka_unit_test(weights_that_are_no_numbers),
                                       cmocka_unit_test(numbers_that_are_put_by_name),
                                       cmocka_unit_test(pointers_to_nothing),
                                       cmocka_unit_test(texts_that_lie_nowhere),
                                       cmocka_unit_test(tensors_of_the_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
