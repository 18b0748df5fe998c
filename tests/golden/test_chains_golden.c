/* SPDX-License-Identifier: MIT */
/* Chains of dense layers and recurrent models against what PyTorch computed in float64
 * (tools/golden/chains.py): the loss, every gradient and logit within 1e-5, and the losses of 50
 * steps within 1e-4. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/mlp_model.h"
#include "layers/families/rnn.h"
#include "tests/fixtures/kernels/reference.h"

enum { SHAPE = 16 };

typedef struct chain {
    golden file;
    bp_spec spec;
    int32_t *tokens;
    int32_t *labels; /* of rows; NULL: a stream */
    uint32_t token_count;
} chain;

static void read_shape(chain *c, bool rnn)
{
    size_t bytes = 0;
    int32_t *n = golden_tensor(&c->file, "shape", &bytes);
    assert_int_equal(bytes, SHAPE * sizeof *n);
    const bp_mlp_config mlp = {.width = (uint32_t)n[2],
                               .layers = (uint32_t)n[3],
                               .activation = (bp_activation)n[10],
                               .hidden_sizes = {(uint32_t)n[13], (uint32_t)n[14], (uint32_t)n[15]}};
    const bp_rnn_config cells = {.width = (uint32_t)n[2],
                                 .layers = (uint32_t)n[3],
                                 .embedding = (uint32_t)n[4],
                                 .untied = n[7] != 0,
                                 .cell = (bp_cell)n[11],
                                 .chunks = (uint32_t)n[12]};
    c->spec.config = (bp_model_config){.vocabulary = (uint32_t)n[0],
                                       .positions = (uint32_t)n[1],
                                       .task = (bp_task)n[8],
                                       .classes = (uint32_t)n[9]};
    bp_family_config_set(&c->spec.config, rnn ? (const void *)&cells : &mlp,
                         rnn ? sizeof cells : sizeof mlp);
    c->spec.sequence = c->spec.config.positions;
    c->spec.batch = (uint32_t)n[5];
    c->spec.accumulation = (uint32_t)n[6];
    free(n);
}

static void chain_open(chain *c, const char *name)
{
    char path[128];
    size_t bytes = 0;
    snprintf(path, sizeof path, "tests/golden/%s.safetensors", name);
    memset(c, 0, sizeof *c);
    golden_open(&c->file, path);
    c->spec = model_fixture_spec();
    const bool rnn = strncmp(name, "rnn", 3) == 0;
    read_shape(c, rnn);
    c->spec.model = rnn ? &bp_model_rnn : &bp_model_mlp;
    c->tokens = golden_tensor(&c->file, "tokens", &bytes);
    c->token_count = (uint32_t)(bytes / sizeof *c->tokens);
    c->labels = rnn ? NULL : golden_tensor(&c->file, "labels", &bytes);
}

static void chain_close(chain *c)
{
    free(c->tokens);
    free(c->labels);
    golden_close(&c->file);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const chain *c = source->context;
    memcpy(to, c->tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const chain *c = source->context;
    *to = (bp_example){.first = index * c->spec.sequence,
                       .count = c->spec.sequence,
                       .label = (uint32_t)c->labels[index]};
    return BP_OK;
}

static void open_model_fixture(chain *c, model_fixture *r)
{
    model_fixture_open(r, &c->spec, c->tokens, 1000000);
    r->source.context = c;
    r->source.read = read_tokens;
    r->source.count = c->token_count;
    if (c->labels != NULL) {
        r->source.examples = c->token_count / c->spec.sequence;
        r->source.example = example;
        r->feed.classes = c->spec.config.classes;
        r->feed.kind = c->spec.config.task == BP_TASK_CLASSES ? BP_LABELS_CLASS : BP_LABELS_BITS;
    }
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
    reference_weights(&c->file, r);
}

static void check(const char *name, const char *variant, uint32_t threads, bp_policy policy)
{
    chain c;
    model_fixture r;
    size_t bytes = 0;
    chain_open(&c, name);
    c.spec.device_options.variant = variant;
    c.spec.device_options.threads = threads;
    c.spec.policy = policy;
    open_model_fixture(&c, &r);
    double *losses = golden_tensor(&c.file, "loss", &bytes);
    const double norm = reference_number(&c.file, "norm", 0);
    for (size_t step = 0; step < bytes / sizeof *losses; step++) {
        const bp_outcome outcome = model_fixture_step(&r);
        const double bound = step == 0 ? 1e-6 : 1e-4;
        if (fabs(outcome.loss - losses[step]) > bound * losses[step]) {
            fail_msg("%s: step %zu: loss %.9g for %.9g", name, step, outcome.loss, losses[step]);
        }
        if (step == 0) {
            assert_true(fabs(outcome.norm - norm) <= 1e-5 * norm);
            /* The update reads every gradient in its last op: all still lie in the arena. */
            print_message("%s: worst gradient %.1e of its scale\n", name,
                          reference_gradients(&c.file, &r, name));
        }
    }
    free(losses);
    model_fixture_close(&r);
    chain_close(&c);
}

static const char *const cases[] = {"mlp_classes",   "mlp_labels",    "mlp_regression",
                                    "mlp_no_hidden", "rnn_gru",       "rnn_gru_deep",
                                    "rnn_lstm",      "rnn_lstm_deep", "rnn_one_token"};
#define CASES (sizeof cases / sizeof cases[0])

/* verifies layers-3.84b9 */
static void test_training(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        check(cases[i], "portable", 1, (bp_policy){.kind = BP_POLICY_NONE});
    }
}

/* Whatever forms of the kernels this processor has, everything recomputed. */
/* verifies layers-3.84b9 */
static void test_training_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        check(cases[i], NULL, 2, (bp_policy){.kind = BP_POLICY_FULL});
    }
}

/* Generation reads the first window token by token, and in pieces. */
static void check_logits(const char *name, uint32_t at_once)
{
    chain c;
    model_fixture r;
    chain_open(&c, name);
    c.spec.generate_context = c.spec.sequence;
    c.spec.prefill_rows = at_once > 1 ? 4 : 1;
    c.spec.poison = true;
    open_model_fixture(&c, &r);
    for (int again = 0; again < 2; again++) {
        reference_logits(&c.file, &r, c.tokens, c.spec.sequence, at_once);
    }
    model_fixture_close(&r);
    chain_close(&c);
}

/* verifies layers-3.84b9 */
static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        if (strncmp(cases[i], "rnn", 3) == 0) {
            check_logits(cases[i], 1);
            check_logits(cases[i], 3);
            check_logits(cases[i], 100);
        }
    }
}

/* Rows of numbers: the logits that evaluation keeps, the last batch a short one. */
/* verifies run-25.3c8a */
static void test_kept_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        if (strncmp(cases[i], "mlp", 3) == 0) {
            chain c;
            model_fixture r;
            chain_open(&c, cases[i]);
            c.spec.evaluate = true;
            c.spec.keep_logits = true;
            open_model_fixture(&c, &r);
            r.feed.group = c.spec.batch;
            assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
            (void)reference_kept_logits(&c.file, &r, NULL);
            model_fixture_close(&r);
            chain_close(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_training_otherwise),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_kept_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
