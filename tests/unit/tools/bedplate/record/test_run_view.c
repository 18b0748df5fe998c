/* SPDX-License-Identifier: MIT */
/* What a run's files say: torn lines, escapes, many steps, and values that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tools/bedplate/record/old_names.c"
#include "tools/bedplate/record/record_grammar.c"
#include "tools/bedplate/record/run_view.c"

#define HEX16 "0000000000000000"
#define HEX62 HEX16 HEX16 HEX16 "00000000000000"
#define HEX64 HEX62 "00"
#define REST(outcome)                                                                              \
    "\"scale\":1,\"scale_bits\":\"3ff0000000000000\",\"outcome\":\"" outcome                       \
    "\",\"chain\":\"" HEX64 "\"}\n"

static run_view view;

typedef struct fixture {
    char directory[64];
} fixture;

static void path_of(const fixture *d, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", d->directory, name);
}

static void put(const fixture *d, const char *name, const char *text)
{
    char path[128];
    path_of(d, name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    static fixture d;
    snprintf(d.directory, sizeof d.directory, "/tmp/bp_view_XXXXXX");
    *state = &d;
    return mkdtemp(d.directory) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    const fixture *d = *state;
    char path[128];
    path_of(d, "record.jsonl", path);
    unlink(path);
    path_of(d, "events.jsonl", path);
    unlink(path);
    return rmdir(d->directory);
}

/* verifies record-12.31c7 */
static void members_are_found(void **state)
{
    (void)state;
    static const char line[] =
        "{\"a\":\"x\\\"y,}\",\"b\":-2.5e3,\"c\":null,\"d\":{\"p\":\"1\",\"q\":\"{,\"}"
        ",\"e\":[1,2]}";
    char text[32], name[32];
    double number;
    assert_true(view_text(line, "a", text, sizeof text));
    assert_string_equal(text, "x\\\"y,}");
    assert_true(view_number(line, "b", &number) && number == -2500.0);
    assert_true(view_number(line, "c", &number) && isnan(number));
    assert_false(view_number(line, "z", &number));
    assert_false(view_text(line, "z", text, sizeof text));
    assert_true(view_text(line, "e", text, sizeof text));
    assert_string_equal(text, "[1,2]");
    assert_true(view_text(line, "a", text, 3));
    assert_string_equal(text, "x\\");
    assert_true(view_count(-2500) == 0 && view_count((double)NAN) == 0 && view_count(7.5) == 7);
    assert_true(view_count(1e300) == (uint64_t)1 << 53 &&
                view_count((double)INFINITY) == (uint64_t)1 << 53);
    const char *at = NULL;
    assert_true(view_pair(line, "d", &at, name, text, sizeof text));
    assert_string_equal(name, "p");
    assert_true(view_pair(line, "d", &at, name, text, sizeof text));
    assert_string_equal(name, "q");
    assert_string_equal(text, "{,");
    assert_false(view_pair(line, "d", &at, name, text, sizeof text));
    at = NULL;
    assert_false(view_pair(line, "a", &at, name, text, sizeof text));
}

/* verifies record-12.31c7 */
static void many_steps_become_means(void **state)
{
    (void)state;
    static view_curve curve;
    memset(&curve, 0, sizeof curve);
    const uint32_t steps = 5 * VIEW_POINTS;
    for (uint32_t i = 1; i <= steps; i++) {
        view_add(&curve, i, i);
        view_add(&curve, i, (double)NAN);
        view_add(&curve, i, 1e300);
    }
    assert_true(curve.count <= VIEW_POINTS && curve.count > VIEW_POINTS / 2);
    assert_int_equal(curve.stride, 8);
    for (uint32_t i = 0; i < curve.count; i++) {
        /* A mean of 8 values lies 3.5 below the last of them. */
        assert_true(curve.value[i] == curve.step[i] - 3.5);
    }
}

/* verifies policy-9.82a1 */
static void completions_of_steps_are_curves_and_samples(void **state)
{
    (void)state;
    static run_view v;
    char line[512];
    memset(&v, 0, sizeof v);
    for (int step = 1; step <= VIEW_SAMPLES + 2; step++) {
        snprintf(line, sizeof line,
                 "{\"event\":\"rollout\",\"seq\":%d,\"unix\":1.5,\"step\":%d,\"reward\":0.5,"
                 "\"kl\":null,\"rewards/a/mean\":%d,\"prompt\":\"p%d\",\"best\":\"7\","
                 "\"best_reward\":1,\"worst\":\"\\n\",\"worst_reward\":-1}",
                 step, step, step, step);
        view_event_line(&v, line);
        view_event_line(&v, line); /* of a step that a resumed run makes again */
    }
    assert_int_equal(v.event_count, 0);
    assert_int_equal(v.metric_count, 2);
    assert_string_equal(v.metrics[0].name, "reward");
    assert_string_equal(v.metrics[1].name, "rewards/a/mean");
    assert_true(v.metrics[0].of_steps && v.metrics[1].curve.count == VIEW_SAMPLES + 2);
    assert_int_equal(v.sample_count, VIEW_SAMPLES + 2);
    const view_sample *last = &v.samples[(v.sample_count - 1) % VIEW_SAMPLES];
    assert_true(last->step == VIEW_SAMPLES + 2 && last->best_reward == 1 &&
                last->worst_reward == -1);
    assert_string_equal(last->best, "7");
    assert_string_equal(last->worst, "\\n");
}

/* verifies record-12.31c7 */
static void a_run_is_read(void **state)
{
    const fixture *d = *state;
    bp_error error = {.code = BP_OK};
    assert_int_equal(run_view_read(&view, d->directory, &error), BP_ERR_DATA);
    static const char *const lines[] = {
        "{\"run\":1,\"from\":0,\"options\":{\"seed\":\"42\"},\"config\":{},\"model\":[],"
        "\"tokenizer\":[],"
        "\"adapter\":[],\"data\":[],\"eval_data\":[],\"tokens\":\"\",\"windows\":1,\"steps_per_"
        "epoch\":1,"
        "\"total_steps\":9,\"seed\":0,\"data_seed\":0,\"state_digest\":\"" HEX16
        "\",\"program\":\"\","
        "\"version\":\"\",\"source\":\"" HEX64 "\",\"chain\":\"" HEX64 "\"}\n"
        "{\"step\":1,\"first\":0,\"samples\":1,\"batch\":\"" HEX64 "\",\"valid\":1,\"loss\":5,"
        "\"loss_bits\":\"4014000000000000\",\"norm\":2,\"norm_bits\":\"4000000000000000\",\"rate\":"
        "0.5,"
        "\"rate_bits\":\"3fe0000000000000\"," REST("applied"),
        "{\"step\":2,\"first\":0,\"samples\":1,\"batch\":\"" HEX64 "\",\"valid\":1,\"loss\":null,"
        "\"loss_bits\":\"7ff8000000000000\",\"grad_norm\":2,\"grad_norm_bits\":"
        "\"4000000000000000\",\"lr\":0.5,"
        "\"lr_bits\":\"3fe0000000000000\"," REST(
            "nonfinite") "{\"eval\":2,\"loss\":4.5,\"loss_bits\":"
                         "\"4012000000000000\",\"targets\":1,\"metric\":\"\","
                         "\"value\":0,"
                         "\"value_bits\":\"" HEX16 "\",\"chain\":\"03" HEX62 "\"}\n"
                         "{\"eval\":2,\"loss\":9,\"chain\":\"" HEX64 "\"}\n"
                         "garbage\n{\"step\":3,\"loss\":"};
    char text[8192];
    snprintf(text, sizeof text, "%s%s", lines[0], lines[1]);
    put(d, "record.jsonl", text);
    put(d, "events.jsonl",
        "{\"event\":\"start\",\"seq\":0,\"unix\":10.5,\"step\":0,\"host\":\"h\"}\n"
        "{\"event\":\"plan\",\"seq\":1,\"unix\":11,\"step\":0,\"arena_bytes\":100,\"host_bytes\":7,"
        "\"classes\":{\"weights\":60,\"tape\":40}}\n"
        "{\"event\":\"save\",\"seq\":2,\"unix\":12,\"step\":2,\"seconds\":0.25}\n"
        "{\"event\":\"progress\",\"seq\":3,\"unix\":13,\"step\":2,\"tokens_per_second\":50,"
        "\"eta_seconds\":70,\"resident_bytes\":90}\n"
        "{\"event\":\"resume\",\"seq\":4,\"unix\":5,\"step\":2}\n"
        "{\"event\":\"exit\",\"seq\":5,\"unix\":6,\"step\":2,\"code\":143}\n"
        "{\"event\":\"torn");
    error.code = BP_OK;
    assert_int_equal(run_view_read(&view, d->directory, &error), BP_OK);
    assert_true(view.recorded && view.logged && !view.ended);
    assert_int_equal(view.steps, 2);
    assert_int_equal(view.total, 9);
    assert_int_equal(view.applied, 1);
    assert_int_equal(view.left_out, 1);
    assert_int_equal(view.curves[VIEW_LOSS].count, 1);
    assert_int_equal(view.curves[VIEW_NORM].count, 2);
    assert_true(view_last(&view.curves[VIEW_EVAL]) == 4.5);
    assert_string_equal(view.chain, "03" HEX62);
    assert_int_equal(view.class_count, 2);
    assert_true(view.class_bytes[1] == 40 && view.arena == 100 && view.host == 7);
    assert_int_equal(view.saves, 1);
    assert_int_equal(view.resumes, 1);
    assert_int_equal(view.code, 143);
    assert_true(view.left == 70 && view.resident == 90);
    assert_int_equal(view.event_count, 5); /* progress is a curve */
    assert_string_equal(view.events[2].kind, "save");
}

/* verifies record-12.31c7 */
static void every_metric_of_an_evaluation_is_a_curve(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"eval\":2,\"loss\":4.5,\"loss_bits\":\"" HEX16 "\",\"targets\":1,\"metric\":\"f1\","
        "\"value\":0.25,\"value_bits\":\"" HEX16 "\",\"eval_accuracy\":0.5,\"chain\":\"" HEX64
        "\"}",
        "{\"eval\":4,\"loss\":4,\"metric\":\"\",\"value\":9,\"metrics\":{\"f1\":0.75,\"up\":null}}",
        "{\"eval\":4,\"loss\":4,\"f1\":0.1,\"huge\":1e300,\"words\":\"many\"}"};
    memset(&view, 0, sizeof view);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        view_record_line(&view, lines[i]);
    }
    assert_int_equal(view.metric_count, 2);
    assert_string_equal(view.metrics[0].name, "f1");
    assert_int_equal(view.metrics[0].curve.count, 2); /* the same step once */
    assert_true(view_last(&view.metrics[0].curve) == 0.75);
    assert_string_equal(view.metrics[1].name, "accuracy");
    assert_true(view_last(&view.metrics[1].curve) == 0.5);
    /* more than there is room for are left out */
    for (uint32_t i = 0; i < 2 * VIEW_METRICS; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"eval\":5,\"loss\":1,\"m%u\":%u}", i, i);
        view_record_line(&view, line);
    }
    assert_int_equal(view.metric_count, VIEW_METRICS);
}

/* verifies record-12.31c7 */
static void the_clock_counts_what_processes_ran(void **state)
{
    static const char *const lines[] = {
        "{\"event\":\"start\",\"seq\":0,\"unix\":100,\"step\":0}",
        "{\"event\":\"progress\",\"seq\":1,\"unix\":110,\"step\":5}",
        "{\"event\":\"progress\",\"seq\":2,\"unix\":90,\"step\":6}",   /* the clock was set back */
        "{\"event\":\"progress\",\"seq\":3,\"unix\":100,\"step\":10}", /* and it was killed */
        "{\"event\":\"resume\",\"seq\":4,\"unix\":9000,\"step\":6}",
        "{\"event\":\"exit\",\"seq\":5,\"unix\":9001,\"step\":8,\"code\":0}",
        "{\"event\":\"replay\",\"seq\":6,\"unix\":9900,\"step\":8}"};
    static const double steps[] = {0, 5, 6, 8}, seconds[] = {0, 10, 20, 21};
    (void)state;
    memset(&view, 0, sizeof view);
    view.ran_at = -1;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        view_event_line(&view, lines[i]);
    }
    assert_int_equal(view.clock_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(view.clock_step[i] == steps[i] && view.clock_seconds[i] == seconds[i]);
    }
    assert_true(view.ran == 21);
    /* many events stay within the table, with rising steps */
    char line[96];
    view_event_line(&view, lines[4]);
    for (uint32_t i = 7; i < 7 + 5 * VIEW_CLOCK; i++) {
        snprintf(line, sizeof line, "{\"event\":\"progress\",\"unix\":%u,\"step\":%u}", 9000 + i,
                 i);
        view_event_line(&view, line);
    }
    assert_true(view.clock_count <= VIEW_CLOCK && view.clock_count > VIEW_CLOCK / 4);
    for (uint32_t i = 1; i < view.clock_count; i++) {
        assert_true(view.clock_step[i] > view.clock_step[i - 1]);
    }
}

/* verifies record-12.31c7 */
static void the_plan_over_a_step_is_read(void **state)
{
    (void)state;
    memset(&view, 0, sizeof view);
    view_plan(&view,
              "{\"event\":\"plan\",\"arena_bytes\":9,\"classes\":{\"weights\":6,\"tape\":3},"
              "\"over_step\":{\"op\":[0,4,9],\"tape\":[0,3,-1],\"weights\":[6,6,6],\"x\":[1]}}");
    assert_int_equal(view.columns, 3);
    assert_true(view.column_op[1] == 4 && view.column_op[2] == 9);
    assert_true(view.column_bytes[0][2] == 6 && view.column_bytes[1][1] == 3);
    assert_true(view.column_bytes[1][2] == 0); /* below 0 is no count of bytes */
    view_plan(&view, "{\"event\":\"plan\",\"classes\":{\"weights\":6}}");
    assert_int_equal(view.columns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(many_steps_become_means),
        cmocka_unit_test(every_metric_of_an_evaluation_is_a_curve),
        cmocka_unit_test(the_clock_counts_what_processes_ran),
        cmocka_unit_test(completions_of_steps_are_curves_and_samples),
        cmocka_unit_test(the_plan_over_a_step_is_read),
        cmocka_unit_test_setup_teardown(a_run_is_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
