/* SPDX-License-Identifier: MIT */
/* Feeds that do not fit the plan, member by member, and numbers that a caller's own functions put
 * into a group: refused by steps and evaluations of every task, with nothing run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/families/bert.h"
#include "layers/families/t5.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 200, ROWS = 10 };

static int32_t tokens[TOKENS];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((first + i) % 3);
    }
    return source != NULL ? BP_OK : BP_ERR_DATA;
}

static bp_status read_row(bp_source *source, uint64_t index, bp_example *to)
{
    *to = (bp_example){.first = index * 10, .count = 10, .prompt = 4, .label = index % 3};
    return source != NULL ? BP_OK : BP_ERR_DATA;
}

static bp_spec spec_of(bp_task task)
{
    bp_spec spec = model_fixture_spec();
    if (task != BP_TASK_CAUSAL_LM) {
        spec.model = &bp_model_bert;
        spec.config =
            config_with((bp_model_config){.vocabulary = 37, .positions = 12},
                        OWN(bp_bert_config, .stack.width = 16, .stack.inner = 64, .stack.layers = 1,
                            .stack.heads = 2, .stack.norm_epsilon = 1e-5, .types = 2));
    }
    spec.config.task = task;
    spec.config.classes = task == BP_TASK_CLASSES || task == BP_TASK_TOKENS ? 3
                          : task == BP_TASK_LABELS                          ? 3
                          : task == BP_TASK_REGRESSION                      ? 1
                          : task == BP_TASK_ANSWERS                         ? 2
                          : task == BP_TASK_EMBEDDING                       ? 16
                                                                            : 0;
    spec.texts = task == BP_TASK_EMBEDDING ? 2 : 0;
    spec.similarity = 20.0;
    spec.evaluate = true;
    spec.accumulation = 2;
    return spec;
}

/* A run of one task, and a feed for its steps or evaluations. */
typedef struct fitting {
    model_fixture r;
    bp_source source;
    bp_feed feed;
    bp_error error;
    bool evaluates;
} fitting;

static void fitting_open_spec(fitting *f, const bp_spec *spec, bool evaluates)
{
    const bp_task task = spec->config.task;
    const uint32_t micros = evaluates ? 1 : spec->accumulation;
    memset(f, 0, sizeof *f);
    f->evaluates = evaluates;
    model_fixture_open(&f->r, spec, tokens, TOKENS);
    f->source = (bp_source){.name = "rows",
                            .count = TOKENS,
                            .read = read_tokens,
                            .labels = read_labels,
                            .example = read_row,
                            .examples = task == BP_TASK_CAUSAL_LM && spec->source == 0 ? 0 : ROWS,
                            .together = spec->texts};
    f->feed = (bp_feed){.source = &f->source,
                        .sequence = spec->sequence,
                        .batch = spec->batch,
                        .group = spec->batch * micros,
                        .vocabulary = 37,
                        .classes = spec->config.classes,
                        .masking = {0.5, 3, {-1, -1, -1, -1}},
                        .kind = bp_feed_labels(task),
                        .texts = spec->source > 0 ? &bp_feed_two_texts : NULL,
                        .source_tokens = spec->source};
    assert_int_equal(bp_feed_init(&f->feed, &f->error), BP_OK);
}

static void fitting_open(fitting *f, bp_task task, bool evaluates)
{
    const bp_spec spec = spec_of(task);
    fitting_open_spec(f, &spec, evaluates);
}

static bp_status fitting_run(fitting *f)
{
    bp_outcome outcome;
    double loss;
    uint64_t targets;
    f->r.runtime.error = (bp_error){.code = BP_OK};
    return f->evaluates ? bp_runtime_evaluate(&f->r.runtime, &f->feed, 0, &loss, &targets)
                        : bp_runtime_step(&f->r.runtime, &f->feed, &outcome);
}

/* Runs a feed that was changed by `change`, initialised anew where that can be. */
static void refused(fitting *f, const char *member, void (*change)(fitting *f, uint64_t to),
                    uint64_t to)
{
    const bp_feed before = f->feed;
    const bp_source source = f->source;
    const uint64_t digest = model_fixture_digest(&f->r), steps = f->r.runtime.steps;
    change(f, to);
    const bp_status made = bp_feed_init(&f->feed, &f->error);
    const bp_status status = fitting_run(f);
    if (status != BP_ERR_USAGE || (made == BP_OK && strcmp(f->r.runtime.error.name, member) != 0)) {
        fail_msg("task %d, %s = %llu: %s, %s %s", (int)f->r.plan.spec.config.task, member,
                 (unsigned long long)to, bp_status_text(status), f->r.runtime.error.text,
                 f->r.runtime.error.name);
    }
    assert_true(model_fixture_digest(&f->r) == digest && f->r.runtime.steps == steps);
    f->feed = before;
    f->source = source;
    assert_int_equal(fitting_run(f), BP_OK);
}

static const float some_weights[] = {1.0f, 2.0f, 0.5f};

static void set_vocabulary(fitting *f, uint64_t to)
{
    f->feed.vocabulary = (uint32_t)to;
}
static void set_sequence(fitting *f, uint64_t to)
{
    f->feed.sequence = (uint32_t)to;
}
static void set_group(fitting *f, uint64_t to)
{
    f->feed.group = (uint32_t)to;
}
static void set_classes(fitting *f, uint64_t to)
{
    f->feed.classes = (uint32_t)to;
}
static void set_kind(fitting *f, uint64_t to)
{
    f->feed.kind = (bp_labels)to;
}
static void set_padding(fitting *f, uint64_t to)
{
    f->feed.padding = (int32_t)(uint32_t)to;
}
static void set_pairs(fitting *f, uint64_t to)
{
    f->feed.pairs = to != 0;
}
static void set_together(fitting *f, uint64_t to)
{
    f->source.together = (uint32_t)to;
}

static void set_batch(fitting *f, uint64_t to)
{
    f->feed.batch = (uint32_t)to;
    f->feed.group = 2 * (uint32_t)to;
}

static void set_mask(fitting *f, uint64_t to)
{
    f->feed.masking.token = (int32_t)(uint32_t)to;
}

static void set_weights(fitting *f, uint64_t to)
{
    f->feed.class_weights = to != 0 ? some_weights : NULL;
}

static void set_texts(fitting *f, uint64_t to)
{
    f->feed.texts = to != 0 ? &bp_feed_two_texts : NULL;
}

static void set_source_tokens(fitting *f, uint64_t to)
{
    f->feed.source_tokens = (uint32_t)to;
}

/* In tenths; UINT64_MAX: no number. */
static void set_probability(fitting *f, uint64_t to)
{
    f->feed.masking.probability = to == UINT64_MAX ? (double)NAN : (double)(int64_t)to / 10.0;
}

/* verifies run-39.281a */
static void members_that_differ(void **state)
{
    (void)state;
    for (int task = 0; task < BP_TASK_RECONSTRUCTION; task++) {
        for (int evaluates = 0; evaluates < 2; evaluates++) {
            fitting f;
            fitting_open(&f, (bp_task)task, evaluates != 0);
            assert_int_equal(fitting_run(&f), BP_OK);
            refused(&f, "vocabulary", set_vocabulary, 0);
            refused(&f, "vocabulary", set_vocabulary, 38);
            refused(&f, "vocabulary", set_vocabulary, UINT32_MAX);
            refused(&f, "sequence", set_sequence, 9);
            refused(&f, "sequence", set_sequence, 11);
            refused(&f, "sequence", set_sequence, 0);
            refused(&f, "texts", set_texts, 1);
            refused(&f, "source_tokens", set_source_tokens, 9);
            refused(&f, "batch", set_batch, 1);
            refused(&f, "batch", set_batch, 4);
            refused(&f, "batch", set_batch, 0);
            refused(&f, "group", set_group, evaluates ? 4 : 2);
            refused(&f, "group", set_group, 64);
            refused(&f, "padding", set_padding, 37);
            refused(&f, "padding", set_padding, UINT32_MAX);
            refused(&f, "pairs", set_pairs, 1);
            refused(&f, "class_weights", set_weights, 1);
            if (f.feed.kind == BP_LABELS_MASKED) {
                refused(&f, "masking.token", set_mask, 37);
                refused(&f, "masking.probability", set_probability, 11);
                refused(&f, "masking.probability", set_probability, (uint64_t)-1 - 1);
                refused(&f, "masking.probability", set_probability, UINT64_MAX);
            }
            if (f.feed.kind == BP_LABELS_CLASS || task == BP_TASK_TOKENS) {
                refused(&f, "classes", set_classes, 4);
                refused(&f, "classes", set_classes, 0);
            }
            if (task == BP_TASK_EMBEDDING) {
                refused(&f, "source.together", set_together, 3);
                refused(&f, "source.together", set_together, 0);
            }
            for (int kind = 0; kind <= BP_LABELS_TEXTS; kind++) {
                const bool given = kind == BP_LABELS_GIVEN && task < BP_TASK_CLASSES;
                if (kind != (int)f.feed.kind && !given) {
                    refused(&f, "kind", set_kind, (uint64_t)kind);
                }
            }
            model_fixture_close(&f.r);
        }
    }
}

/* Of a text that is made of another one, the other one's column has the plan's length. */
/* verifies run-39.281a */
static void texts_of_another_length(void **state)
{
    (void)state;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        fitting f;
        bp_spec spec = spec_of(BP_TASK_CAUSAL_LM);
        spec.model = &bp_model_t5;
        spec.config =
            config_with((bp_model_config){.vocabulary = 37, .positions = 512},
                        OWN(bp_t5_config, .stack.width = 16, .stack.inner = 32, .stack.layers = 1,
                            .stack.heads = 2, .stack.norm_epsilon = 1e-6, .head_width = 8,
                            .buckets = 8, .distance = 16));
        spec.source = 9;
        fitting_open_spec(&f, &spec, evaluates != 0);
        assert_int_equal(fitting_run(&f), BP_OK);
        refused(&f, "source_tokens", set_source_tokens, 0);
        refused(&f, "source_tokens", set_source_tokens, 2);
        refused(&f, "source_tokens", set_source_tokens, 10);
        refused(&f, "source_tokens", set_source_tokens, UINT32_MAX);
        refused(&f, "texts", set_texts, 0);
        model_fixture_close(&f.r);
    }
}

/* A feed that nobody initialised, or that was changed since. */
/* verifies run-39.281a */
static void feeds_that_were_not_made(void **state)
{
    (void)state;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        fitting f;
        fitting_open(&f, BP_TASK_CAUSAL_LM, evaluates != 0);
        const bp_feed made = f.feed;
        f.feed.windows = 0;
        f.feed.steps_per_epoch = 0;
        assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
        f.feed = made;
        f.feed.windows = 1000000;
        assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
        f.feed = made;
        f.source.count = 50;
        assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
        f.source.count = TOKENS;
        f.feed.source = NULL;
        assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
        f.feed = made;
        assert_int_equal(fitting_run(&f), BP_OK);
        model_fixture_close(&f.r);
    }
}

/* What the feed calls is not there, before it is initialised or after; texts that lie together are
 * more than there are; an example lies outside of its source. */
/* verifies run-39.281a */
static void functions_that_are_missing(void **state)
{
    (void)state;
    static const bp_augment nothing = {NULL};
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        for (int later = 0; later < 2; later++) {
            for (int what = 0; what < 5; what++) {
                fitting f;
                fitting_open(&f, BP_TASK_TOKENS, evaluates != 0);
                f.source.read = what == 0 ? NULL : f.source.read;
                f.source.example = what == 1 ? NULL : f.source.example;
                f.source.labels = what == 2 ? NULL : f.source.labels;
                f.feed.augment = what == 3 ? &nothing : NULL;
                f.source.together = what == 4 ? ROWS + 1 : 0;
                if (later == 0) {
                    assert_int_equal(bp_feed_init(&f.feed, &f.error), BP_ERR_USAGE);
                }
                assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
                model_fixture_close(&f.r);
            }
        }
        fitting f;
        fitting_open(&f, BP_TASK_TOKENS, evaluates != 0);
        f.source.count = 9; /* the first row ends at 10 */
        assert_int_equal(fitting_run(&f), BP_ERR_DATA);
        f.source.count = TOKENS;
        assert_int_equal(fitting_run(&f), BP_OK);
        model_fixture_close(&f.r);
    }
}

/* A caller's augmentation, which may write what it likes. */
typedef struct writes {
    bp_augment augment;
    uint32_t at;
    int32_t number;
} writes;

static void write_row(const bp_augment *augment, uint64_t seed, uint64_t step, uint32_t sample,
                      const int32_t *row, int32_t *to)
{
    const writes *w = (const void *)augment;
    (void)seed;
    (void)step;
    memcpy(to, row, 10 * sizeof *to);
    if (sample == 1) {
        to[w->at] = w->number;
    }
}

static bp_status far_order(const bp_feed *feed, uint64_t epoch, uint64_t position, uint64_t *window)
{
    (void)epoch;
    *window = feed->windows + position;
    return BP_OK;
}

/* verifies run-39.281a */
static void numbers_of_own_functions(void **state)
{
    (void)state;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        fitting f;
        writes w = {.augment = {write_row}};
        fitting_open(&f, BP_TASK_CAUSAL_LM, evaluates != 0);
        f.feed.augment = &w.augment;
        for (w.at = 0; w.at < 10; w.at++) {
            w.number = 36;
            assert_int_equal(fitting_run(&f), BP_OK);
            const uint64_t digest = model_fixture_digest(&f.r);
            w.number = 37;
            assert_int_equal(fitting_run(&f), BP_ERR_DATA);
            assert_string_equal(f.r.runtime.error.name, "ids");
            w.number = -1;
            assert_int_equal(fitting_run(&f), BP_ERR_DATA);
            assert_true(model_fixture_digest(&f.r) == digest);
        }
        f.feed.augment = NULL;
        f.feed.order = far_order;
        assert_int_equal(fitting_run(&f), BP_ERR_USAGE);
        model_fixture_close(&f.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_that_differ),      cmocka_unit_test(texts_of_another_length),
        cmocka_unit_test(feeds_that_were_not_made), cmocka_unit_test(functions_that_are_missing),
        cmocka_unit_test(numbers_of_own_functions),
    };
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
