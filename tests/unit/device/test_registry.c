/* SPDX-License-Identifier: MIT */
/* The devices to choose from: each answers what a program asks, and what it says of itself is kept
 * as far as there is room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/devices.h"
#include "device/registry.h"

/* verifies device-37.fbf4 */
static void each_device_answers(void **state)
{
    (void)state;
    static bp_device_facts facts; /* large */
    const bp_device_entry *entry;
    assert_ptr_equal(bp_device_at(0)->device, &bp_device_host);
    assert_true(bp_device_at(0)->supplied && !bp_device_at(0)->dry);
    for (uint32_t i = 0; (entry = bp_device_at(i)) != NULL; i++) {
        const char *name = entry->device->name;
        char line[1024];
        bp_text text;
        bp_text_init(&text, NULL, NULL, line, sizeof line);
        facts = (bp_device_facts){.line = &text};
        assert_ptr_equal(bp_device_named(name, strlen(name)), entry);
        assert_ptr_equal(bp_device_entry_of(entry->device), entry);
        assert_int_equal(strncmp(entry->choices, name, strlen(name)), 0);
        assert_true(entry->list(0, 0, &facts));
        assert_true(facts.count > 0);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_int_equal(strncmp(line, name, strlen(name)), 0);
        assert_false(entry->list(1000, 0, &facts));
        /* What it has of the machine begins with nothing. */
        bp_device_request request = {.which = "no/such"};
        bp_device_options options;
        bp_error error = {.code = BP_OK};
        assert_int_equal(entry->options(&request, &options, &error), BP_ERR_USAGE);
        assert_int_equal(error.code, BP_OK);
    }
    assert_null(bp_device_named("cud", 3));
    assert_null(bp_device_named("", 0));
    const bp_device other = {.name = "other"};
    assert_ptr_equal(bp_device_entry_of(&other), bp_device_at(0));
}

/* verifies device-37.fbf4 */
static void facts_are_kept_as_far_as_there_is_room(void **state)
{
    (void)state;
    static bp_device_facts facts;
    static char large[BP_DEVICE_FACT_BYTES];
    memset(large, 'x', sizeof large - 1);
    facts = (bp_device_facts){.count = 0};
    bp_fact_text(&facts, "none", NULL);
    bp_fact_text(&facts, "short", "a");
    bp_fact_text(&facts, "long", large);
    assert_int_equal(facts.count, 1);
    assert_string_equal(facts.fact[0].text, "a");
    bp_fact_flag(&facts, "flag", true);
    bp_fact_real(&facts, "real", 0.5);
    for (uint64_t i = 0; i < 2 * BP_DEVICE_FACTS; i++) {
        bp_fact_count(&facts, "count", i);
    }
    assert_int_equal(facts.count, BP_DEVICE_FACTS);
    assert_int_equal(facts.fact[1].count, 1);
    assert_true(facts.fact[2].real == 0.5);
    assert_int_equal(facts.fact[BP_DEVICE_FACTS - 1].count, BP_DEVICE_FACTS - 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_answers),
        cmocka_unit_test(facts_are_kept_as_far_as_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
