/* SPDX-License-Identifier: MIT */
/* Inputs are declared: what each family is fed, and a model of the test's own with a parameter of
 * four dimensions and a boundary of three, which plans, trains, saves and resumes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/state.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/heads/loss.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/spec_case.h"
#include "tests/fixtures/store_memory.h"

#define TOKENS 200

static int32_t tokens[TOKENS];

typedef struct declared {
    const char *name; /* of the case */
    uint32_t count;
    bp_input_from from[5];
    bool numbers;
} declared;

/* Token windows, masked positions, text with pairs, rows of numbers; and others. */
static const declared families[] = {
    {"gpt2 plain", 2, {BP_INPUT_IDS, BP_INPUT_LABELS}, false},
    {"gpt2 classes", 3, {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS}, false},
    {"llama plain", 2, {BP_INPUT_IDS, BP_INPUT_LABELS}, false},
    {"qwen2 plain", 2, {BP_INPUT_IDS, BP_INPUT_LABELS}, false},
    {"rnn plain", 2, {BP_INPUT_IDS, BP_INPUT_LABELS}, false},
    {"bert plain", 3, {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS}, false},
    {"bert classes-pairs",
     4,
     {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS, BP_INPUT_TYPES},
     false},
    {"bert tokens", 3, {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS}, false},
    {"bert answers",
     5,
     {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS, BP_INPUT_ENDS, BP_INPUT_TYPES},
     false},
    {"mlp plain", 3, {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_LENGTHS}, true}};

static void check_family(const bp_spec *spec, const declared *wanted)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    uint64_t bytes = bp_compile_step_room(spec);
    assert_int_equal(count, wanted->count);
    for (uint32_t i = 0; i < count; i++) {
        const bool one = rows[i].from == BP_INPUT_LENGTHS ||
                         (rows[i].from == BP_INPUT_LABELS && wanted->numbers);
        assert_int_equal(rows[i].from, wanted->from[i]);
        assert_int_equal(rows[i].dtype, i == 0 && wanted->numbers ? BP_F32 : BP_I32);
        assert_true(bp_input_elements(&rows[i]) == (one ? 1 : spec->sequence));
        assert_true(bp_input_declared(spec, rows[i].from));
        assert_true(strlen(rows[i].name) > 0);
        const bool target = rows[i].from == BP_INPUT_LABELS || rows[i].from == BP_INPUT_ENDS;
        assert_int_equal(rows[i].negative, target);
        assert_int_equal(rows[i].fill, target ? -1 : 0);
        bytes += bp_input_bytes(spec, &rows[i]);
    }
    assert_true(bytes == bp_compile_micro_bytes(spec));
    assert_true(bp_input_labels(spec) == (wanted->numbers ? 1 : spec->sequence));
    assert_true(bp_input_declared(spec, BP_INPUT_TYPES) == (count >= 4));
}

/* verifies compile-18.7373 */
static void test_declarations(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (!spec_case(i, &spec, name)) {
            continue;
        }
        for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
            if (strcmp(name, families[f].name) == 0) {
                check_family(&spec, &families[f]);
                found++;
            }
        }
    }
    assert_int_equal(found, sizeof families / sizeof families[0]);
}

/* Prompts need room as well, but only where the model reads them. */
/* verifies compile-22.b6af */
static void test_room_for_prompts(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    bp_input rows[BP_INPUTS_MAX];
    (void)bp_inputs_windows(&spec, rows);
    spec.batch = 1;
    spec.sequence = 2;
    spec.generate_context = 512;
    spec.prefill_rows = 300;
    assert_true(bp_input_bytes(&spec, &rows[0]) == bp_size_align(300 * 4, BP_ARENA_ALIGNMENT));
    assert_true(bp_input_bytes(&spec, &rows[1]) == BP_ARENA_ALIGNMENT);
}

/* A table of four dimensions gives each token a row, which the head compares with its own. */
enum { TABLE = 0, HEAD = 1, PARAMETERS = 2, WIDTH = 24 };

static bp_status toy_check(const bp_spec *spec, bp_error *error)
{
    (void)spec;
    (void)error;
    return BP_OK;
}

static uint32_t toy_stages(const bp_model_config *config)
{
    (void)config;
    return 2;
}

static void toy_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    (void)config;
    memcpy(text, stage == 0 ? "embed" : "judge", 6);
}

static uint32_t toy_variants(const bp_model_config *config, uint32_t stage)
{
    (void)config;
    (void)stage;
    return 1;
}

static void toy_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_parameter_info table = {.name = "table",
                                     .rank = 4,
                                     .shape = {config->vocabulary, 2, 3, WIDTH / 6},
                                     .init = BP_INIT_NORMAL,
                                     .deviation = 0.3,
                                     .decay = true};
    bp_parameter_info head = table;
    head.name = "head";
    head.rank = 2;
    head.shape[1] = WIDTH;
    head.shape[2] = head.shape[3] = 0;
    bp_build_parameter(builder, &table);
    bp_build_parameter(builder, &head);
}

static uint32_t toy_count(const bp_model_config *config)
{
    (void)config;
    return PARAMETERS;
}

static uint32_t toy_stage(const bp_model_config *config, uint32_t parameter)
{
    (void)config;
    return parameter;
}

static bp_ref boundary(bp_builder *builder, bp_class class_of, const char *name)
{
    const uint64_t shape[3] = {builder->spec->batch, builder->spec->sequence, WIDTH};
    return bp_build_tensor(builder, class_of, bp_build_working(builder), 3, shape, name);
}

static bp_embedding toy_embedding(const bp_builder *builder)
{
    return (bp_embedding){.token = TABLE,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = builder->spec->config.vocabulary,
                          .width = WIDTH};
}

static bp_head toy_head(const bp_builder *builder)
{
    return (bp_head){HEAD, BP_NO_PARAMETER, builder->spec->config.vocabulary, WIDTH, 0.0};
}

static void toy_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_embedding embedding = toy_embedding(builder);
    const bp_head head = toy_head(builder);
    if (call->stage == 0) {
        call->output = boundary(builder, builder->output_class, "out");
        bp_embedding_forward(builder, &embedding, call->output);
    } else {
        bp_loss_forward(builder, &head, call->input);
    }
}

static void toy_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_embedding embedding = toy_embedding(builder);
    const bp_head head = toy_head(builder);
    if (call->stage == 0) {
        bp_embedding_backward(builder, &embedding, call->d_output);
    } else {
        call->d_input = boundary(builder, BP_CLASS_WORKSPACE, "d_in");
        bp_loss_backward(builder, &head, call->input, call->d_input, BP_ABSENT);
    }
}

static const bp_model toy = {.name = "toy",
                             .check = toy_check,
                             .inputs = bp_inputs_windows,
                             .stages = toy_stages,
                             .stage_name = toy_name,
                             .variants = toy_variants,
                             .parameters = toy_parameters,
                             .parameter_count = toy_count,
                             .parameter_stage = toy_stage,
                             .forward = toy_forward,
                             .backward = toy_backward};

static bp_spec toy_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &toy;
    spec.accumulation = 2;
    spec.evaluate = true;
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)((i * i + 3 * i) % spec.config.vocabulary);
    }
    return spec;
}

/* What a checkpoint of a model_fixture is made of. */
typedef struct saved {
    memory_store memory;
    bp_error error;
    bp_state_tensor tensors[16];
    unsigned char staging[256];
    bp_checkpoint checkpoint;
    bp_checkpoint_location place;
} saved;

static void describe_checkpoint(saved *s, model_fixture *r)
{
    const uint32_t count = bp_runtime_state_count(&r->runtime);
    assert_true(count <= 16);
    for (uint32_t i = 0; i < count; i++) {
        s->tensors[i] = bp_runtime_state_tensor(&r->runtime, i);
    }
    s->checkpoint = (bp_checkpoint){.step = r->runtime.steps,
                                    .tensors = s->tensors,
                                    .tensor_count = count,
                                    .io = bp_runtime_state_io(&r->runtime)};
    const size_t scratch = (size_t)bp_checkpoint_scratch(&s->checkpoint);
    free(s->place.scratch);
    s->place = (bp_checkpoint_location){.store = &s->memory.store,
                                        .directory = "run",
                                        .scratch = malloc(scratch),
                                        .scratch_bytes = scratch,
                                        .staging = {s->staging, sizeof s->staging},
                                        .error = &s->error};
    assert_non_null(s->place.scratch);
}

/* verifies compile-18.7373 */
static void test_four_dimensions_train_save_and_resume(void **state)
{
    (void)state;
    const bp_spec spec = toy_spec();
    static saved s;
    model_fixture r;
    memset(&s, 0, sizeof s);
    memory_store_init(&s.memory);
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const bp_buffer *table = &r.plan.graph.buffers[model_fixture_find(&r, "table")];
    const bp_buffer *out = &r.plan.graph.buffers[model_fixture_find(&r, "embed.out")];
    assert_int_equal(table->rank, 4);
    assert_true(table->shape[2] == 3 && table->shape[3] == WIDTH / 6);
    assert_int_equal(out->rank, 3);
    assert_true(out->shape[0] == spec.batch && out->shape[2] == WIDTH);
    const double before = model_fixture_step(&r).loss;
    model_fixture_step(&r);
    describe_checkpoint(&s, &r);
    assert_int_equal(bp_checkpoint_save(&s.place, &s.checkpoint, NULL), BP_OK);
    model_fixture_step(&r);
    assert_true(model_fixture_step(&r).loss < before);
    const uint64_t wanted = model_fixture_digest(&r);
    model_fixture_close(&r);

    model_fixture_open(&r, &spec, tokens, TOKENS);
    describe_checkpoint(&s, &r);
    assert_int_equal(bp_checkpoint_load(&s.place, "run/checkpoint-2", &s.checkpoint, NULL), BP_OK);
    bp_runtime_continue(&r.runtime, 2);
    model_fixture_step(&r);
    model_fixture_step(&r);
    assert_true(model_fixture_digest(&r) == wanted);
    model_fixture_close(&r);
    free(s.place.scratch);
    memory_store_free(&s.memory);
}

/* verifies layers-4.97f8 */
static void test_its_gradients_are_right(void **state)
{
    (void)state;
    bp_spec spec = toy_spec();
    spec.accumulation = 1;
    spec.optimizer_options.learning_rate = 0.0;
    spec.optimizer_options.weight_decay = 0.0;
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        double difference = 0.0, norm = 0.0;
        model_fixture_differ(&r, &r.plan.builder.parameters[i], 1e-2, &difference, &norm);
        assert_true(norm > 1e-3 && fabs(difference - norm) <= 2e-3 * norm);
    }
    model_fixture_close(&r);
}

/* Beside its windows: the first four tokens as a square of bits, and the first target. */
static uint32_t square_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const uint32_t count = bp_inputs_windows(spec, rows);
    rows[count] = (bp_input){.name = "square",
                             .from = BP_INPUT_IDS,
                             .dtype = BP_F32,
                             .rank = 2,
                             .shape = {2, 2},
                             .fill = 6};
    rows[count + 1] = (bp_input){.name = "first",
                                 .from = BP_INPUT_LABELS,
                                 .dtype = BP_I32,
                                 .below = spec->config.vocabulary,
                                 .negative = true,
                                 .fill = -1};
    return count + 2;
}

/* Declared input `row` of micro-batch `micro`, as it lies on the device. */
static const int32_t *placed(const model_fixture *r, const uint8_t *inputs, uint32_t micro,
                             uint32_t row)
{
    const uint64_t at = micro * bp_compile_micro_bytes(&r->plan.spec);
    return (const int32_t *)(const void *)(inputs + at + r->plan.builder.declared[row].offset);
}

/* Windows lie one after the other in `tokens`; from `samples` on there is nothing. */
static void check_placed(const model_fixture *r, const uint8_t *inputs, uint32_t micro,
                         uint32_t samples)
{
    enum { IDS, LABELS, SQUARE, FIRST };
    const bp_spec *spec = &r->plan.spec;
    const uint32_t width = spec->sequence;
    for (uint32_t b = 0; b < spec->batch; b++) {
        const uint32_t sample = micro * spec->batch + b;
        const bool there = sample < samples;
        const int32_t *window = tokens + (size_t)sample * width;
        for (uint32_t t = 0; t < width; t++) {
            assert_int_equal(placed(r, inputs, micro, IDS)[b * width + t], there ? window[t] : 0);
            assert_int_equal(placed(r, inputs, micro, LABELS)[b * width + t],
                             there ? window[t + 1] : -1);
        }
        for (uint32_t e = 0; e < 4; e++) {
            assert_int_equal(placed(r, inputs, micro, SQUARE)[b * 4 + e], there ? window[e] : 6);
        }
        assert_int_equal(placed(r, inputs, micro, FIRST)[b], there ? window[1] : -1);
    }
}

/* Two inputs of a kind, of another dtype and shape each, lie where they are declared; what a short
 * group lacks is filled as they say. */
/* verifies compile-18.7373 */
static void test_inputs_of_one_kind(void **state)
{
    (void)state;
    bp_model square = toy;
    bp_spec spec = toy_spec();
    model_fixture r;
    square.inputs = square_inputs;
    spec.model = &square;
    spec.gradient_release = BP_RELEASE_ADAMA; /* the device holds a group's micro-batches */
    for (uint32_t lacking = 0; lacking < 2; lacking++) {
        const uint32_t samples = spec.batch * (2 - lacking);
        model_fixture_open(&r, &spec, tokens, samples * spec.sequence + 1);
        assert_int_equal(r.plan.compile.input_count, 4);
        assert_true(r.plan.builder.input[BP_INPUT_IDS].offset == r.plan.builder.declared[0].offset);
        assert_true(model_fixture_step(&r).samples == samples);
        uint8_t *inputs = model_fixture_read(&r, r.plan.compile.inputs);
        check_placed(&r, inputs, 0, samples);
        check_placed(&r, inputs, 1, samples);
        free(inputs);
        model_fixture_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declarations),
        cmocka_unit_test(test_room_for_prompts),
        cmocka_unit_test(test_four_dimensions_train_save_and_resume),
        cmocka_unit_test(test_its_gradients_are_right),
        cmocka_unit_test(test_inputs_of_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
