/* SPDX-License-Identifier: MIT */
/* Losses over pairs of rows against what PyTorch computed in float64 by TRL's formulas
 * (tools/golden/preference.py): the loss, every gradient within 1e-5, what is told of the rows; and
 * the same bits for every policy, number of threads, length and form of gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/plans/family_case.h"

enum { ROWS = 8 };

static const char *const kinds[] = {"dpo", "hinge", "ipo", "orpo", "simpo", "kto"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A file, opened. */
typedef struct pairs_case {
    family_case ref;
    int32_t *lengths, *prompts, *sides;
    float *references;
    double *told;
} pairs_case;

static void *tensor(const pairs_case *c, const char *name, size_t bytes)
{
    size_t found = 0;
    void *at = golden_tensor(&c->ref.file, name, &found);
    assert_int_equal(found, bytes);
    return at;
}

static void pairs_open(pairs_case *c, const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "preferences/llama_%s", kind);
    family_open(&c->ref, name);
    c->lengths = tensor(c, "lengths", ROWS * 4);
    c->prompts = tensor(c, "prompts", ROWS * 4);
    c->sides = tensor(c, "sides", ROWS * 4);
    c->references = tensor(c, "references", ROWS * 4);
    c->told = tensor(c, "told", 6 * 8);
    double *n = tensor(c, "numbers", 7 * 8);
    c->ref.spec.preference =
        (bp_preference){(bp_preference_kind)n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
    c->ref.spec.evaluate = true;
    c->ref.spec.keep_logits = true;
    free(n);
}

static void pairs_close(pairs_case *c)
{
    free(c->lengths);
    free(c->prompts);
    free(c->sides);
    free(c->references);
    free(c->told);
    family_close(&c->ref);
}

static bp_status read_row(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const pairs_case *c = source->context;
    memcpy(to, c->ref.tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_example(bp_source *source, uint64_t index, bp_example *to)
{
    const pairs_case *c = source->context;
    uint32_t bits;
    memcpy(&bits, &c->references[index], sizeof bits);
    *to = (bp_example){.first = index * (c->ref.spec.sequence + 1),
                       .count = (uint64_t)c->lengths[index],
                       .prompt = (uint64_t)c->prompts[index],
                       .label = (uint64_t)c->sides[index] << 32 | bits};
    return BP_OK;
}

static void pairs_model_fixture(pairs_case *c, model_fixture *r)
{
    model_fixture_open(r, &c->ref.spec, c->ref.tokens, 1000000);
    r->source.context = c;
    r->source.read = read_row;
    r->source.example = read_example;
    r->source.count = c->ref.token_count;
    r->source.examples = ROWS;
    r->feed.pairs = true;
    r->feed.prompts = c->ref.spec.preference.nll > 0.0;
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
    reference_weights(&c->ref.file, r);
}

static void require_near(const char *kind, const char *what, double found, double wanted)
{
    if (fabs(found - wanted) > 2e-6 * fmax(fabs(wanted), 0.1)) {
        fail_msg("%s: %s is %.9g, PyTorch has %.9g", kind, what, found, wanted);
    }
}

/* Means of the sums; the accuracy of rows that are no pairs is -1. */
static void require_reported(const pairs_case *c, const char *kind, const double *sums)
{
    const double *count = sums + BP_METRIC_COUNT;
    const bool single = c->ref.spec.preference.kind == BP_PREFERENCE_KTO;
    for (uint32_t i = 0; i < 4; i++) {
        require_near(kind, "a mean", sums[i] / count[i % 2], c->told[i]);
    }
    if (!single) {
        require_near(kind, "the accuracy", sums[BP_METRIC_RIGHT] / count[0], c->told[4]);
    }
    if (single || c->ref.spec.preference.nll > 0.0) {
        require_near(kind, "the mean loss, or z",
                     sums[BP_METRIC_MORE] / (single ? count[0] + count[1] : count[0]), c->told[5]);
    }
}

/* chunk: rows of logits that are there at a time. */
static void agree(const char *kind, uint32_t chunk)
{
    pairs_case c;
    model_fixture r;
    double sums[BP_METRIC_NUMBERS];
    pairs_open(&c, kind);
    c.ref.spec.loss_rows = chunk;
    pairs_model_fixture(&c, &r);
    const bp_outcome outcome = model_fixture_step(&r);
    require_near(kind, "the loss", outcome.loss, reference_number(&c.ref.file, "loss", 0));
    require_near(kind, "the norm", outcome.norm, reference_number(&c.ref.file, "norm", 0));
    assert_true(outcome.weight == (double)ROWS / 2.0);
    for (uint32_t i = 0; i < BP_METRIC_NUMBERS; i++) {
        sums[i] = (double)outcome.metrics[i];
    }
    require_reported(&c, kind, sums);
    print_message("%s: worst gradient %.1e of its scale\n", kind,
                  reference_gradients(&c.ref.file, &r, kind));
    model_fixture_close(&r);
    pairs_close(&c);
}

/* verifies layers-10.33a6 */
static void losses_and_gradients_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KINDS; i++) {
        agree(kinds[i], 40);
        agree(kinds[i], 7);
    }
}

static bp_status take_logps(void *user, const bp_runtime *runtime)
{
    double **to = user;
    for (uint32_t i = 0; i < bp_runtime_group(runtime)->samples; i++) {
        *(*to)++ = (double)bp_runtime_logits(runtime)[i];
    }
    return BP_OK;
}

/* An evaluation tells the loss and the numbers of the step before it, and each row's own. */
/* verifies layers-10.33a6 */
static void evaluations_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KINDS; i++) {
        pairs_case c;
        model_fixture r;
        double logps[ROWS], *at = logps, loss, sum = 0.0;
        uint64_t targets;
        pairs_open(&c, kinds[i]);
        pairs_model_fixture(&c, &r);
        r.feed.group = r.feed.batch;
        assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
        assert_int_equal(
            bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, take_logps, &at, &loss, &targets),
            BP_OK);
        require_near(kinds[i], "the loss", loss, reference_number(&c.ref.file, "loss", 0));
        require_reported(&c, kinds[i], r.runtime.metrics);
        assert_ptr_equal(at, logps + ROWS);
        for (uint32_t k = 0; k < ROWS; k += 2) {
            const double length = (double)(c.lengths[k] < 12 ? c.lengths[k] - c.prompts[k] : 0);
            const bool averages = i == 3 || i == 4;
            sum += averages ? logps[k] / length : logps[k];
        }
        if (i < 5) {
            require_near(kinds[i], "rows' log-probabilities", sum / 4.0, c.told[2]);
        }
        model_fixture_close(&r);
        pairs_close(&c);
    }
}

static uint64_t digest_after(pairs_case *c, uint32_t steps)
{
    model_fixture r;
    pairs_model_fixture(c, &r);
    for (uint32_t i = 0; i < steps; i++) {
        (void)model_fixture_step(&r);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies run-1.e4fa */
static void every_way_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KINDS; i++) {
        pairs_case c;
        pairs_open(&c, kinds[i]);
        c.ref.spec.loss_rows = 7;
        const uint64_t right = digest_after(&c, 3);
        const bp_spec plain = c.ref.spec;
        c.ref.spec.policy.kind = BP_POLICY_MEMORY_POOR;
        assert_true(digest_after(&c, 3) == right);
        c.ref.spec = plain;
        c.ref.spec.device_options.threads = 3;
        assert_true(digest_after(&c, 3) == right);
        c.ref.spec = plain;
        c.ref.spec.lengths[0] = 8;
        c.ref.spec.length_count = 1;
        assert_true(digest_after(&c, 3) == right);
        c.ref.spec = plain;
        c.ref.spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(digest_after(&c, 3) == right);
        c.ref.spec.optimizer_options.max_grad_norm = 0.01; /* two backward passes */
        const uint64_t clipped = digest_after(&c, 3);
        c.ref.spec = plain;
        c.ref.spec.optimizer_options.max_grad_norm = 0.01;
        assert_true(digest_after(&c, 3) == clipped);
        assert_true(clipped != right);
        pairs_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_agree),
        cmocka_unit_test(evaluations_agree),
        cmocka_unit_test(every_way_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
