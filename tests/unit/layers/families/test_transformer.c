/* SPDX-License-Identifier: MIT */
/* Every member of every family's own struct is held to its range by that family's model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/model.h"
#include "layers/families/bert.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "layers/families/mlp_model.h"
#include "layers/families/modernbert.h"
#include "layers/families/neox.h"
#include "layers/families/rnn.h"
#include "tests/fixtures/config.h"

#define STACK                                                                                      \
    {                                                                                              \
        .width = 8, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02       \
    }

static bp_spec spec_of(const bp_model *model)
{
    const bool numbers = model == &bp_model_mlp, bert = model == &bp_model_bert,
               modern = model == &bp_model_modernbert;
    bp_spec spec = {.model = model,
                    .config = {.vocabulary = numbers ? 0 : 11,
                               .positions = 6,
                               .task = numbers          ? BP_TASK_CLASSES
                                       : bert || modern ? BP_TASK_MASKED_LM
                                                        : BP_TASK_CAUSAL_LM,
                               .classes = numbers ? 2 : 0},
                    .device_options = {.threads = 1},
                    .batch = 2,
                    .sequence = 6,
                    .accumulation = 1};
    if (numbers) {
        spec.config = config_with(spec.config, OWN(bp_mlp_config, .width = 4, .layers = 1));
    } else if (bert) {
        spec.config = config_with(spec.config, OWN(bp_bert_config, .stack = STACK, .types = 2));
    } else if (modern) {
        spec.config =
            config_with(spec.config, OWN(bp_modernbert_config, .llama = {.stack = STACK,
                                                                         .rope_theta = 10000.0,
                                                                         .near_theta = 100.0,
                                                                         .window = 4}));
    } else if (model == &bp_model_rnn) {
        spec.config =
            config_with(spec.config, OWN(bp_rnn_config, .width = 4, .layers = 1, .untied = true));
    } else {
        spec.config =
            config_with(spec.config, OWN(bp_llama_config, .stack = STACK, .rope_theta = 10000.0));
    }
    return spec;
}

#define AT(type, member) BP_FAMILY_MEMBER(type, member), sizeof(((type *)0)->member)

/* A member, and a value that it may not have: a whole number of four bytes, or a real one. */
typedef struct fault {
    const bp_model *model;
    const char *name;
    size_t offset;
    size_t bytes;
    uint32_t count;
    double real;
} fault;

static void require_refused(const fault *f, double real)
{
    bp_spec spec = spec_of(f->model);
    bp_error error = {0};
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    if (f->bytes == sizeof(double)) {
        memcpy((char *)&spec.config + f->offset, &real, sizeof real);
    } else {
        memcpy((char *)&spec.config + f->offset, &f->count, sizeof f->count);
    }
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, f->name);
    assert_string_equal(error.where, f->model->name);
}

static void require_all_refused(const fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        require_refused(&faults[i], faults[i].real);
        if (faults[i].bytes == sizeof(double)) {
            require_refused(&faults[i], -1e-9);
            require_refused(&faults[i], (double)NAN);
        }
    }
}

/* verifies layers-15.2c18 */
static void transformers(void **state)
{
    (void)state;
    static const bp_model *const models[] = {&bp_model_gpt2, &bp_model_llama, &bp_model_neox,
                                             &bp_model_bert, &bp_model_modernbert};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const bp_model *m = models[i];
        const fault faults[] = {
            {m, "vocab_size", offsetof(bp_model_config, vocabulary), 4, 0, 0.0},
            {m, "n_embd", AT(bp_transformer, width), 0, 0.0},
            {m, "n_embd", AT(bp_transformer, width), (1 << 20) + 2, 0.0},
            {m, "n_layer", AT(bp_transformer, layers), 0, 0.0},
            {m, "n_layer", AT(bp_transformer, layers), (1 << 12) + 1, 0.0},
            {m, "n_head", AT(bp_transformer, heads), 0, 0.0},
            {m, "n_head", AT(bp_transformer, heads), (1 << 16) + 1, 0.0},
            {m, "n_inner", AT(bp_transformer, inner), (1 << 22) + 1, 0.0},
            {m, "embd_pdrop", AT(bp_transformer, embedding_dropout), 0, 1.0},
            {m, "resid_pdrop", AT(bp_transformer, residual_dropout), 0, 1.0},
            {m, "attn_pdrop", AT(bp_transformer, attention_dropout), 0, 1.0},
            {m, "layer_norm_epsilon", AT(bp_transformer, norm_epsilon), 0, 1.0},
            {m, "initializer_range", AT(bp_transformer, initializer_range), 0, 1e6},
        };
        require_all_refused(faults, sizeof faults / sizeof faults[0]);
    }
}

/* verifies layers-15.2c18 */
static void what_some_families_have(void **state)
{
    (void)state;
    const bp_model *llama = &bp_model_llama, *bert = &bp_model_bert, *mlp = &bp_model_mlp,
                   *rnn = &bp_model_rnn, *neox = &bp_model_neox, *modern = &bp_model_modernbert;
    const fault faults[] = {
        {llama, "num_key_value_heads", AT(bp_llama_config, kv_heads), 3, 0.0},
        {llama, "num_key_value_heads", AT(bp_llama_config, kv_heads), 4, 0.0},
        {llama, "num_attention_heads", AT(bp_transformer, heads), 3, 0.0},
        {llama, "head_dim", AT(bp_llama_config, head_width), (1 << 14) + 2, 0.0},
        {llama, "head_dim", AT(bp_llama_config, head_width), 5, 0.0},
        {llama, "rope_theta", AT(bp_llama_config, rope_theta), 0, 1e12},
        {llama, "partial_rotary_factor", AT(bp_llama_config, rotary_share), 0, 1.5},
        {llama, "partial_rotary_factor", AT(bp_llama_config, rotary_share), 0, 1.25},
        {llama, "partial_rotary_factor", AT(bp_llama_config, rotary_share), 0, 0.1},
        {modern, "num_attention_heads", AT(bp_transformer, heads), 3, 0.0},
        {modern, "classifier_pooling", AT(bp_modernbert_config, pooling), 2, 0.0},
        {modern, "local_attention", AT(bp_llama_config, window), 1, 0.0},
        {modern, "mlp_dropout", AT(bp_modernbert_config, mlp_dropout), 0, 1.0},
        {modern, "classifier_dropout", AT(bp_modernbert_config, classifier_dropout), 0, 1.0},
        {modern, "local_rope_theta", AT(bp_llama_config, near_theta), 0, 1e12},
        {neox, "num_attention_heads", AT(bp_transformer, heads), 3, 0.0},
        {neox, "rope_theta", AT(bp_llama_config, rope_theta), 0, 1e12},
        {bert, "type_vocab_size", AT(bp_bert_config, types), 0, 0.0},
        {bert, "type_vocab_size", AT(bp_bert_config, types), (1 << 16) + 1, 0.0},
        {bert, "classifier_dropout", AT(bp_bert_config, classifier_dropout), 0, 1.0},
        {mlp, "vocab_size", offsetof(bp_model_config, vocabulary), 4, 1, 0.0},
        {mlp, "hidden_size", AT(bp_mlp_config, width), 0, 0.0},
        {mlp, "num_hidden_layers", AT(bp_mlp_config, layers), (1 << 12) + 1, 0.0},
        {mlp, "hidden_dropout_prob", AT(bp_mlp_config, dropout), 0, 1.0},
        {mlp, "initializer_range", AT(bp_mlp_config, initializer_range), 0, 1e6},
        {rnn, "vocab_size", offsetof(bp_model_config, vocabulary), 4, 0, 0.0},
        {rnn, "hidden_size", AT(bp_rnn_config, width), 0, 0.0},
        {rnn, "num_hidden_layers", AT(bp_rnn_config, layers), 0, 0.0},
        {rnn, "embedding_size", AT(bp_rnn_config, embedding), (1 << 20) + 1, 0.0},
        {rnn, "dropout", AT(bp_rnn_config, dropout), 0, 1.0},
        {rnn, "initializer_range", AT(bp_rnn_config, initializer_range), 0, 1e6},
    };
    require_all_refused(faults, sizeof faults / sizeof faults[0]);
}

/* Nor does ModernBERT stretch its positions, which it would have to say for both kinds of layers,
 * write or find answers. */
/* verifies layers-15.2c18 */
static void what_modernbert_does_not_do(void **state)
{
    (void)state;
    bp_spec spec = spec_of(&bp_model_modernbert);
    bp_error error = {0};
    spec.generate_context = 6;
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    spec.generate_context = 0;
    spec.config.task = BP_TASK_CAUSAL_LM;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
    spec.config.task = BP_TASK_ANSWERS;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 2;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    SET_FAMILY(&spec.config, bp_llama_config, rope_scaling,
               (bp_rope_scaling){.factor = 2.0, .kind = BP_ROPE_LINEAR});
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
}

static void refused(const bp_spec *spec, const char *option)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, option);
}

/* verifies layers-15.2c18 */
static void what_readers_from_the_left_do_not_do(void **state)
{
    (void)state;
    static const bp_model *const models[] = {&bp_model_gpt2, &bp_model_llama, &bp_model_neox};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bp_spec spec = spec_of(models[i]);
        spec.generate_context = 6;
        assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
        spec.config.task = BP_TASK_CLASSES;
        spec.config.classes = 8;
        refused(&spec, "task");
        spec.generate_context = 0;
        assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
        spec.config.task = BP_TASK_MASKED_LM;
        refused(&spec, "task");
        spec.config.classes = 2;
        spec.config.task = BP_TASK_ANSWERS;
        refused(&spec, "task");
        spec.config.task = BP_TASK_EMBEDDING;
        refused(&spec, "num-labels");
        spec.config.classes = 8;
        spec.evaluate = true;
        assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    }
    bp_spec spec = spec_of(&bp_model_bert);
    spec.generate_context = 6;
    refused(&spec, "task");
    spec = spec_of(&bp_model_llama); /* heads whose width is said need not divide the model's */
    SET_FAMILY(&spec.config, bp_transformer, heads, 3);
    SET_FAMILY(&spec.config, bp_llama_config, head_width, 4);
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    spec =
        spec_of(&bp_model_rnn); /* nothing is learned, so nothing has a form beside its weights */
    spec.evaluate = true;
    spec.weights = BP_WEIGHT_FP8;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
}

/* A sequence is no longer than the model's positions, which the spec is asked first. */
/* verifies layers-15.2c18 */
static void frequencies_that_grow_with_the_sequence(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind, sequence;
        double factor;
        bp_status status;
    } rows[] = {{BP_ROPE_DYNAMIC, 6, 2.0, BP_OK},
                {BP_ROPE_DYNAMIC, 7, 2.0, BP_ERR_USAGE},
                {BP_ROPE_DYNAMIC, 7, 0.0, BP_OK},
                {BP_ROPE_LINEAR, 7, 2.0, BP_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_spec spec = spec_of(&bp_model_llama);
        bp_error error = {.code = BP_OK};
        spec.sequence = rows[i].sequence;
        SET_FAMILY(&spec.config, bp_llama_config, rope_scaling,
                   (bp_rope_scaling){.factor = rows[i].factor, .kind = rows[i].kind});
        assert_int_equal(bp_model_llama.check(&spec, &error), rows[i].status);
        assert_true(error.code == BP_OK || strcmp(error.name, "max-seq-length") == 0);
    }
}

static void layers_that_a_set_cannot_list(void **state)
{
    (void)state;
    bp_layer_set set = {.listed = 1};
    bp_layer_put(&set, BP_LAYERS_LISTED - 1);
    bp_layer_put(&set, BP_LAYERS_LISTED);
    assert_true(bp_layer_in(&set, BP_LAYERS_LISTED - 1));
    assert_false(bp_layer_in(&set, BP_LAYERS_LISTED - 2));
    assert_false(bp_layer_in(&set, BP_LAYERS_LISTED));
    assert_false(bp_layer_in(&set, 2 * BP_LAYERS_LISTED - 1));
}

/* 1 where frequencies are not stretched, or not beyond what they were. */
static void magnitudes_of_stretched_positions(void **state)
{
    (void)state;
    static const struct {
        bp_rope_scaling scaling;
        double magnitude;
    } rows[] = {{{.factor = 4.0, .kind = BP_ROPE_YARN, .magnitude = 1.5}, 1.5},
                {{.factor = 1.0, .kind = BP_ROPE_YARN, .magnitude = 1.25}, 1.25},
                {{.factor = 1.0, .kind = BP_ROPE_YARN}, 1.0},
                {{.factor = 0.5, .kind = BP_ROPE_YARN}, 1.0},
                {{.factor = 4.0, .kind = BP_ROPE_LINEAR}, 1.0},
                {{.factor = 4.0, .kind = BP_ROPE_YARN}, 1.1386294361119891},
                {{.factor = 4.0, .kind = BP_ROPE_LONG, .original = 16}, 1.224744871391589}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(fabs(bp_rope_magnitude(&rows[i].scaling) - rows[i].magnitude) < 1e-12);
    }
}

/* verifies compile-18.7373 */
static void only_bert_has_token_types(void **state)
{
    (void)state;
    bp_spec spec = spec_of(&bp_model_bert);
    spec.pairs = true;
    assert_true(bp_input_declared(&spec, BP_INPUT_TYPES));
    SET_FAMILY(&spec.config, bp_bert_config, types, 1);
    assert_false(bp_input_declared(&spec, BP_INPUT_TYPES));
    /* Positions are an input where they begin behind that of a padding token. */
    for (int64_t padding = -1; padding < 3; padding++) {
        SET_FAMILY(&spec.config, bp_bert_config, position_first, 2);
        spec.config.pad_token = padding;
        assert_true(bp_input_declared(&spec, BP_INPUT_POSITIONS) == (padding == 1));
        SET_FAMILY(&spec.config, bp_bert_config, position_first, 0);
        assert_false(bp_input_declared(&spec, BP_INPUT_POSITIONS));
    }
    spec.model = &bp_model_gpt2;
    assert_false(bp_input_declared(&spec, BP_INPUT_TYPES));
    spec.model = &bp_model_llama;
    assert_false(bp_input_declared(&spec, BP_INPUT_TYPES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformers),
        cmocka_unit_test(what_some_families_have),
        cmocka_unit_test(what_modernbert_does_not_do),
        cmocka_unit_test(what_readers_from_the_left_do_not_do),
        cmocka_unit_test(frequencies_that_grow_with_the_sequence),
        cmocka_unit_test(layers_that_a_set_cannot_list),
        cmocka_unit_test(magnitudes_of_stretched_positions),
        cmocka_unit_test(only_bert_has_token_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
