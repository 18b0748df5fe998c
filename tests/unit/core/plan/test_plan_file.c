/* SPDX-License-Identifier: MIT */
/* Plans written and read again, for several kinds of programs; files of which every byte is changed
 * and every end is cut off; files of other specs and versions; differences of two plans; the text
 * of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/digest.h"
#include "core/base/version.h"
#include "core/plan/plan_file.h"
#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/plans/plan_made.h"

enum { KINDS = 6, RESEALED = 11 };

static bp_plan written, again;

/* As planning wants it. */
static void *plan_memory(uint64_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, (size_t)bytes), 0);
    return memory;
}

static bp_spec file_spec(uint32_t kind)
{
    bp_spec spec = model_fixture_spec();
    if (kind == 1) {
        spec.accumulation = 4;
        spec.policy.kind = BP_POLICY_FULL;
        spec.evaluate = true;
        spec.generate_context = 12;
    } else if (kind == 2) {
        spec.length_count = 2;
        spec.lengths[0] = 3;
        spec.lengths[1] = 7;
    } else if (kind == 3) {
        SET_FAMILY(&spec.config, bp_transformer, width, 256);
        spec.offload.states = BP_OFFLOAD_ALL;
        spec.offload.room = 1 << 16;
    } else if (kind == 4) {
        spec.gradient_release = BP_RELEASE_EXACT;
    } else if (kind == 5) {
        spec.virtual_ranks = spec.ranks = spec.accumulation = 2;
        spec.sharing = BP_SHARING_PARAMETERS;
        spec.rank = 1;
    }
    return spec;
}

static void *file_of(const bp_plan *plan, uint64_t *bytes)
{
    *bytes = bp_plan_file_bytes(plan);
    void *file = malloc((size_t)*bytes);
    assert_non_null(file);
    bp_plan copy = *plan;
    assert_int_equal(bp_plan_write(&copy, file, *bytes), BP_OK);
    assert_int_equal(bp_plan_write(&copy, file, *bytes - 1), BP_ERR_FIT);
    return file;
}

/* Sums the file up again, as who changes it on purpose would. */
static void file_seal(unsigned char *file, uint64_t bytes)
{
    const uint64_t digest = bp_digest_of(file, (size_t)bytes - 8, 0);
    for (uint32_t i = 0; i < 8; i++) {
        file[bytes - 8 + i] = (unsigned char)(digest >> (8 * i));
    }
}

/* verifies compile-41.6454 */
static void what_is_read_is_what_was_written(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        const bp_spec spec = file_spec(kind);
        const uint64_t memory_bytes = plan_bytes(&spec);
        void *first = plan_make(&written, &spec);
        void *second = plan_memory(memory_bytes);
        bp_error error = {.code = BP_OK};
        uint64_t bytes = 0;
        void *file = file_of(&written, &bytes);
        again = (bp_plan){.made = false};
        assert_int_equal(bp_plan_read(&again, &spec, file, bytes, second, memory_bytes), BP_OK);
        assert_int_equal(bp_plan_compare(&written, &again, &error), BP_OK);
        assert_int_equal(error.code, BP_OK);
        assert_memory_equal(&written.report, &again.report, sizeof written.report);
        assert_true(bp_graph_digest(&written.graph) == bp_graph_digest(&again.graph));
        assert_true(kind != 2 || again.bucket_count == 2);
        assert_true(kind != 3 || again.report.offload.arena_bytes > 0);
        free(file);
        free(second);
        free(first);
    }
}

/* verifies compile-41.6454 */
static void every_changed_byte_and_every_end_is_refused(void **state)
{
    (void)state;
    const bp_spec spec = file_spec(0);
    const uint64_t memory_bytes = plan_bytes(&spec);
    void *first = plan_make(&written, &spec);
    void *second = plan_memory(memory_bytes);
    uint64_t bytes = 0;
    unsigned char *file = file_of(&written, &bytes);
    for (uint64_t i = 0; i < bytes; i++) {
        file[i] ^= (unsigned char)(1u << (i % 8));
        assert_int_equal(bp_plan_read(&again, &spec, file, bytes, second, memory_bytes),
                         BP_ERR_DATA);
        assert_false(again.made || again.counted);
        assert_int_equal(bp_plan_error(&again)->code, BP_ERR_DATA);
        file[i] ^= (unsigned char)(1u << (i % 8));
        void *cut = malloc((size_t)i + 1); /* so that reads beyond it are found */
        memcpy(cut, file, (size_t)i);
        assert_int_equal(bp_plan_read(&again, &spec, cut, i, second, memory_bytes), BP_ERR_DATA);
        free(cut);
    }
    assert_int_equal(bp_plan_read(&again, &spec, file, bytes, second, memory_bytes), BP_OK);
    free(file);
    free(second);
    free(first);
}

/* verifies compile-41.6454 */
static void places_that_are_sealed_again_are_verified(void **state)
{
    (void)state;
    const bp_spec spec = file_spec(0);
    const uint64_t memory_bytes = plan_bytes(&spec);
    void *first = plan_make(&written, &spec);
    void *second = plan_memory(memory_bytes);
    uint64_t bytes = 0;
    uint32_t misplaced = 0;
    unsigned char *file = file_of(&written, &bytes);
    for (uint64_t i = 0; i + 8 < bytes; i += RESEALED) {
        file[i] ^= (unsigned char)(1u << (i % 8));
        file_seal(file, bytes);
        const bp_status status = bp_plan_read(&again, &spec, file, bytes, second, memory_bytes);
        misplaced += status == BP_ERR_VERIFY ? 1 : 0;
        assert_true(status == BP_OK || status == BP_ERR_DATA || status == BP_ERR_VERIFY);
        file[i] ^= (unsigned char)(1u << (i % 8));
    }
    assert_true(misplaced > 10);
    free(file);
    free(second);
    free(first);
}

/* verifies compile-41.6454 */
static void another_version_and_other_specs_are_named(void **state)
{
    (void)state;
    const bp_spec spec = file_spec(0);
    const uint64_t memory_bytes = 4 << 20;
    void *first = plan_make(&written, &spec);
    void *second = plan_memory(memory_bytes);
    uint64_t bytes = 0;
    unsigned char *file = file_of(&written, &bytes);
    const bp_error *error = bp_plan_error(&again);
    bp_spec other = spec;
    file[16] = '9';
    file_seal(file, bytes);
    assert_int_equal(bp_plan_read(&again, &spec, file, bytes, second, memory_bytes), BP_ERR_DATA);
    assert_string_equal(error->name, "version");
    assert_string_equal(error->right, BP_VERSION);
    assert_int_equal(error->word[0], '9');
    file[16] = (unsigned char)BP_VERSION[0];
    file_seal(file, bytes);
    other.batch = 3;
    assert_int_equal(bp_plan_read(&again, &other, file, bytes, second, memory_bytes), BP_ERR_DATA);
    assert_string_equal(error->name, "batch");
    assert_int_equal(error->found, spec.batch);
    assert_int_equal(error->wanted, 3);
    other = spec;
    other.optimizer = &bp_optimizer_sgd;
    assert_int_equal(bp_plan_read(&again, &other, file, bytes, second, memory_bytes), BP_ERR_DATA);
    assert_string_equal(error->text, "the plan is of other programs than the spec gives");
    other = spec;
    other.config.vocabulary++; /* as many buffers */
    assert_int_equal(bp_plan_read(&again, &other, file, bytes, second, memory_bytes), BP_ERR_DATA);
    assert_string_equal(error->text, "the plan is of other programs than the spec gives");
    other = spec;
    other.optimizer_options.learning_rate = 0.5; /* the programs are the same */
    assert_int_equal(bp_plan_read(&again, &other, file, bytes, second, memory_bytes), BP_OK);
    other.batch = 0;
    assert_int_equal(bp_plan_read(&again, &other, file, bytes, second, memory_bytes), BP_ERR_USAGE);
    free(file);
    free(second);
    free(first);
}

static void file_differ(const char *name)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_plan_compare(&written, &again, &error), BP_ERR_DATA);
    assert_string_equal(error.name, name);
}

/* verifies compile-41.6454 */
static void the_first_difference_is_named(void **state)
{
    (void)state;
    bp_spec spec = file_spec(2);
    bp_error error = {.code = BP_OK};
    void *first = plan_make(&written, &spec), *second = plan_make(&again, &spec);
    assert_int_equal(bp_plan_compare(&written, &again, &error), BP_OK);
    again.graph.buffers[5].offset += 64;
    file_differ(bp_graph_name(&again.graph, 5));
    again.graph.buffers[5].offset -= 64;
    again.report.host.arena_bytes++;
    file_differ("host");
    again.report.host.arena_bytes--;
    again.bucket_count--;
    file_differ("count");
    again.bucket_count++;
    again.buckets[0].sequence++;
    file_differ("");
    again.buckets[0].sequence--;
    again.graph.buffers[5].bytes++;
    file_differ("");
    free(second);
    spec.batch = 3;
    second = plan_make(&again, &spec);
    file_differ("batch");
    again.made = false;
    assert_int_equal(bp_plan_compare(&written, &again, &error), BP_ERR_USAGE);
    free(second);
    free(first);
}

typedef struct printed {
    char text[1 << 20];
    size_t used;
    size_t most;
} printed;

static bp_status print(void *user, const char *text, size_t length)
{
    printed *to = user;
    if (to->used + length > to->most) {
        return BP_ERR_STORE;
    }
    memcpy(to->text + to->used, text, length);
    to->used += length;
    to->text[to->used] = '\0';
    return BP_OK;
}

/* verifies compile-41.6454 */
static void a_plan_is_printed(void **state)
{
    (void)state;
    static printed one, two;
    const bp_spec spec = file_spec(2);
    void *first = plan_make(&written, &spec), *second = plan_make(&again, &spec);
    one.most = two.most = sizeof one.text - 1;
    assert_int_equal(bp_plan_print(&written, print, &one), BP_OK);
    assert_int_equal(bp_plan_print(&again, print, &two), BP_OK);
    assert_string_equal(one.text, two.text);
    assert_non_null(strstr(one.text, "plan " BP_VERSION ", programs "));
    assert_non_null(strstr(one.text, "\nbatch 2\n"));
    assert_non_null(strstr(one.text, "\nlength_bucket 3\n"));
    assert_non_null(strstr(one.text, "persistent: "));
    assert_non_null(strstr(one.text, "\nprogram step: "));
    again.graph.buffers[5].offset += 64;
    two.used = 0;
    assert_int_equal(bp_plan_print(&again, print, &two), BP_OK);
    assert_string_not_equal(one.text, two.text);
    two.used = 0;
    two.most = 1000;
    assert_int_equal(bp_plan_print(&again, print, &two), BP_ERR_STORE);
    again.made = false;
    assert_int_equal(bp_plan_print(&again, print, &two), BP_ERR_USAGE);
    free(second);
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(every_changed_byte_and_every_end_is_refused),
        cmocka_unit_test(places_that_are_sealed_again_are_verified),
        cmocka_unit_test(another_version_and_other_specs_are_named),
        cmocka_unit_test(the_first_difference_is_named),
        cmocka_unit_test(a_plan_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
