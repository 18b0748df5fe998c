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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(many_steps_become_means),
        cmocka_unit_test_setup_teardown(a_run_is_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
