/* SPDX-License-Identifier: MIT */
/* Parts of sources, and token files in llm.c's format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/llmc/llmc_tokens.h"
#include "tools/formats/files/split.h"

#define COUNT 20000

static int32_t ids[COUNT];
static uint64_t scratch[BP_LLMC_SCRATCH / 8];

static bp_status read_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, ids + first, n * sizeof *to);
    return BP_OK;
}

static bp_status targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = (uint8_t)((first + i) % 2);
    }
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = 10 * index, .count = 10};
    return BP_OK;
}

static int make_ids(void **state)
{
    (void)state;
    for (int32_t i = 0; i < COUNT; i++) {
        ids[i] = i * 7 % 70000;
    }
    return 0;
}

static bp_source source_of(uint64_t count)
{
    return (bp_source){.name = "ids", .count = count, .read = read_ids, .targets = targets};
}

/* verifies formats-55.dd1c */
static void test_parts(void **state)
{
    (void)state;
    bp_source inner = source_of(1000);
    bp_part kept, held;
    int32_t to[4];
    uint8_t counts[4];
    assert_int_equal(bp_part_tail(&kept, &held, &inner, 0.25), BP_OK);
    assert_true(kept.source.count == 750 && held.source.count == 250);
    assert_int_equal(held.source.read(&held.source, 3, 4, to), BP_OK);
    assert_memory_equal(to, ids + 753, sizeof to);
    assert_int_equal(held.source.targets(&held.source, 1, 4, counts), BP_OK);
    assert_true(counts[0] == 1 && counts[1] == 0);
    assert_int_equal(bp_part_init(&kept, &inner, 900, 101), BP_ERR_USAGE);
    assert_int_equal(bp_part_init(&kept, &inner, 1001, 0), BP_ERR_USAGE);
    assert_int_equal(bp_part_tail(&kept, &held, &inner, 0.0), BP_ERR_USAGE);
    assert_int_equal(bp_part_tail(&kept, &held, &inner, 1.0), BP_ERR_USAGE);
}

/* verifies formats-55.dd1c */
static void test_parts_of_examples(void **state)
{
    (void)state;
    bp_source inner = source_of(1000);
    bp_part kept, held;
    bp_example one;
    inner.examples = 100;
    inner.example = example;
    assert_int_equal(bp_part_tail(&kept, &held, &inner, 0.3), BP_OK);
    assert_true(kept.source.examples == 70 && held.source.examples == 30);
    assert_int_equal(held.source.example(&held.source, 2, &one), BP_OK);
    assert_true(one.first == 720);
    int32_t to[3];
    assert_int_equal(held.source.read(&held.source, 720, 3, to), BP_OK);
    assert_memory_equal(to, ids + 720, sizeof to);
    assert_int_equal(bp_part_tail(&kept, &held, &inner, 0.001), BP_ERR_USAGE);
}

static void test_token_files(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        bp_source source = source_of(wide == 1 ? COUNT : 9000);
        uint32_t vocabulary = wide == 1 ? 70000 : 65536, width = bp_llmc_width(vocabulary);
        memory_store memory;
        bp_error error = {0};
        size_t size = 0;
        memory_store_init(&memory);
        assert_int_equal(
            bp_llmc_write_tokens(&memory.store, "t.bin", &source, vocabulary, scratch, &error),
            BP_OK);
        const unsigned char *bytes = memory_store_bytes(&memory, "t.bin", &size);
        uint32_t head[3], last = 0;
        memcpy(head, bytes, sizeof head);
        assert_int_equal(size, 1024 + source.count * width);
        assert_true(head[0] == (wide == 1 ? 20240801u : 20240520u) && head[2] == source.count);
        memcpy(&last, bytes + size - width, width);
        assert_int_equal(last, ids[source.count - 1]);
        assert_int_equal(
            bp_llmc_write_tokens(&memory.store, "t.bin", &source, 100, scratch, &error),
            BP_ERR_DATA);
        source.count = 0;
        assert_int_equal(bp_llmc_write_tokens(&memory.store, "t.bin", &source, 100, scratch, NULL),
                         BP_ERR_DATA);
        assert_int_equal(memory.open_files, 0);
        memory_store_free(&memory);
    }
}

/* Whatever fails, an earlier file is as it was. */
/* verifies formats-24.7573 */
static void test_failing_writes(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_CLOSE,
                                       FAULT_RENAME};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (size_t nth = 1; nth <= (kinds[i] == FAULT_WRITE_AT ? 2u : 1u); nth++) {
            bp_source source = source_of(500);
            memory_store memory;
            faulty_store faulty;
            bp_error error = {0};
            size_t size = 0;
            memory_store_init(&memory);
            memory_store_put(&memory, "t.bin", "old", 3);
            faulty_store_init(&faulty, &memory.store);
            faulty_store_arm(&faulty, kinds[i], nth, false);
            assert_int_equal(
                bp_llmc_write_tokens(&faulty.store, "t.bin", &source, 65536, scratch, &error),
                BP_ERR_STORE);
            assert_memory_equal(memory_store_bytes(&memory, "t.bin", &size), "old", 3);
            assert_int_equal(size, 3);
            assert_int_equal(memory.open_files, 0);
            memory_store_free(&memory);
        }
    }
}

/* More tokens than llm.c counts; and a write that fails is said, whatever closing says. */
/* verifies formats-24.7573 */
static void what_fails_first_is_said(void **state)
{
    (void)state;
    bp_source source = source_of(500);
    memory_store memory;
    faulty_store inner, outer;
    bp_error error = {0};
    size_t size = 0;
    memory_store_init(&memory);
    memory_store_put(&memory, "t.bin", "old", 3);
    faulty_store_init(&inner, &memory.store);
    faulty_store_init(&outer, &inner.store);
    faulty_store_arm(&inner, FAULT_WRITE_AT, 1, false);
    faulty_store_arm(&outer, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_llmc_write_tokens(&outer.store, "t.bin", &source, 65536, scratch, &error),
                     BP_ERR_STORE);
    assert_non_null(strstr(error.name, "write"));
    source.count = UINT64_C(1) << 31;
    error = (bp_error){0};
    assert_int_equal(bp_llmc_write_tokens(&outer.store, "t.bin", &source, 65536, scratch, &error),
                     BP_ERR_DATA);
    assert_non_null(strstr(error.text, "1 to 2,147,483,647"));
    assert_memory_equal(memory_store_bytes(&memory, "t.bin", &size), "old", 3);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_of_examples),
        cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_failing_writes),
        cmocka_unit_test(what_fails_first_is_said),
    };
    return cmocka_run_group_tests(tests, make_ids, NULL);
}
