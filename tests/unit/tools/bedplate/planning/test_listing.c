/* SPDX-License-Identifier: MIT */
/* What a plan shows of places: the engine of an op, the space of an operand, a map and an account
 * of the host arena; and nothing of them where all is in the device arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/plan_file.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/hand_program.h"

#include "tools/bedplate/app/clock.c"
#include "tools/bedplate/planning/host_arena.c"
#include "tools/bedplate/pages/class_colour.c"
#include "tools/bedplate/planning/listing.c"
#include "tools/bedplate/app/output.c"
#include "tools/bedplate/runs/progress.c"

/* No evaluation is shown here. */
void metric_list_text(const metric_list *list, bp_text *to)
{
    (void)list;
    (void)to;
}

#define BYTES 1024

static hand_program h;
static bp_plan plan;
static char text[1 << 16];
static output out;
static char *written;
static size_t written_bytes;

/* A plan of w and t on the device, and with `far` of a buffer on the host. */
static void plan_of(bool with_far)
{
    hand_begin(&h);
    bp_ref w = hand_buffer(&h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, BYTES);
    bp_ref t = hand_buffer(&h, "t", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, BYTES);
    hand_compute(&h, t, w, BYTES / 4);
    if (with_far) {
        bp_ref first = hand_buffer(&h, "first", BP_SPACE_HOST, BP_SCOPE_PERSISTENT, 256);
        bp_ref far = hand_buffer(&h, "far", BP_SPACE_HOST, BP_SCOPE_PROGRAM, BYTES);
        int64_t request = hand_copy_begin(&h, far, w, BYTES);
        hand_copy_wait(&h, request, far, w, BYTES);
        int64_t gather = hand_all_gather(&h, 0, 4, far, first, 256);
        hand_fabric_wait(&h, gather, far, BYTES, first, 256);
    }
    assert_int_equal(hand_plan(&h, &bp_device_host), BP_OK);
    plan.graph = h.graph;
    plan.report = h.report;
    plan.report.parameters = 100;
}

static void begin_output(void)
{
    FILE *stream = open_memstream(&written, &written_bytes);
    assert_non_null(stream);
    output_begin(&out, stream);
}

static const char *end_output(void)
{
    FILE *stream = out.stream;
    output_end(&out);
    assert_int_equal(fclose(stream), 0);
    assert_true(written_bytes < sizeof text);
    memcpy(text, written, written_bytes + 1);
    free(written);
    return text;
}

static void has(const char *piece, bool wanted)
{
    if ((strstr(text, piece) != NULL) != wanted) {
        print_error("%s\n%s: %s\n", text, piece, wanted ? "missing" : "there");
    }
    assert_true((strstr(text, piece) != NULL) == wanted);
}

static void listings_show_engines_and_spaces(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        plan_of(far != 0);
        begin_output();
        bp_plan_put_programs(&out.text, &plan.graph);
        (void)end_output();
        has(far != 0 ? "program step: 5 ops, 2,048 bytes of operands, 1,024 bytes copied, "
                       "768 bytes from other ranks\n"
                     : "program step: 1 ops, 2,048 bytes of operands\n",
            true);
        has("    0  copy count=256\n", true);
        has("to = far @host:0x00000100 1024 bytes", far != 0);
        has("from = w @0x00000000 1024 bytes", far != 0);
        has("    1  copy_begin [copy] request=0 rows=1 width=1024", far != 0);
        has("    4  fabric_wait [fabric] request=1 to_bytes=1024", far != 0);
        hand_close(&h);
    }
}

/* verifies program-12.d19d */
static void plans_account_for_the_host_arena(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        plan_of(far != 0);
        begin_output();
        host_arena_put(&out.text, &plan.report, false);
        (void)end_output();
        assert_string_equal(text, far == 0 ? ""
                                           : "host arena  1,280 bytes (1.25 KiB)\n"
                                             "  lower     1,280 bytes (1.25 KiB)\n"
                                             "  waste     0 bytes (0 B)\n"
                                             "  tape      1,280 bytes at most\n");
        begin_output();
        json_begin(&out);
        host_arena_json(&out, &plan.report, false);
        json_end(&out);
        (void)end_output();
        has("{\"host_arena\": {\"arena_bytes\": 1280, \"lower_bound_bytes\": 1280, "
            "\"waste_bytes\": 0, ",
            far != 0);
        has("\"classes_at_peak\": {\"weights\": 0, ", far != 0);
        has("\"tape\": 1280, ", far != 0);
        has("\"peak_op_index\": 1}}\n", far != 0);
        has("{}\n", far == 0);
        hand_close(&h);
    }
}

static void put_words(bp_text *to, const void *words)
{
    bp_text_string(to, words);
}

/* A map for each space, with its own buffers. */
/* verifies program-12.d19d */
static void maps_are_of_one_space_each(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        plan_of(far != 0);
        begin_output();
        assert_int_equal(listing_map(&out.text, &plan, "hand", true), BP_OK);
        (void)end_output();
        has("{\"title\":\"hand\",\"arena_bytes\":2048,", true);
        has("{\"title\":\"host arena\",\"arena_bytes\":1280,", far != 0);
        const char *second = strchr(text, '\n') + 1;
        assert_int_equal(*second == '\0', far == 0);
        has("\"name\":\"far\"", far != 0);
        assert_true(far == 0 || strstr(text, "\"name\":\"far\"") > second);
        assert_true(strstr(text, "\"name\":\"w\"") < second);
        begin_output();
        assert_int_equal(listing_map(&out.text, &plan, "hand", false), BP_OK);
        (void)end_output();
        has("host arena", far != 0);
        begin_output();
        const char *section = far != 0 ? "<p>beside</p>" : "<p>alone</p>";
        assert_int_equal(listing_page(&out.text, &plan, "hand", "how", put_words, section), BP_OK);
        (void)end_output();
        has("<p>beside</p>", far != 0);
        has("<p>alone</p>", far == 0);
        has("<h2>host arena</h2>", far != 0);
        has("<p class=\"sub\">how</p>", true);
        /* The program with its one op is all of the time. */
        has("<title>program step\nops 0 to ", true);
        hand_close(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings_show_engines_and_spaces),
        cmocka_unit_test(plans_account_for_the_host_arena),
        cmocka_unit_test(maps_are_of_one_space_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
