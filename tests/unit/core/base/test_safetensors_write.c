/* SPDX-License-Identifier: MIT */
/* Writing safetensors: round trips, exact sizes, the canonical order, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "tests/fixtures/formats/safetensors_fixture.h"

/* A tensor's byte i is a function of its handle and i. */
static unsigned char byte_at(uint64_t handle, uint64_t i)
{
    return (unsigned char)(handle * 31 + i * 7);
}

static size_t payload_left;

static bp_status give(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                      size_t bytes)
{
    (void)user;
    if (payload_left-- == 0) {
        return BP_ERR_DEVICE;
    }
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = byte_at(entry->handle, offset + i);
    }
    return BP_OK;
}

static bp_status take(void *user, const bp_tensor_entry *entry, uint64_t offset, const void *from,
                      size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(((const unsigned char *)from)[i], byte_at(*(uint64_t *)user, offset + i));
    }
    return offset + bytes > entry->bytes ? BP_ERR_INTERNAL : BP_OK;
}

static const bp_tensor_entry examples[] = {
    {.name = "u8", .dtype = BP_U8, .rank = 1, .shape = {3}, .handle = 0},
    {.name = "scalar", .dtype = BP_F32, .rank = 0, .handle = 1},
    {.name = "w.b", .dtype = BP_F32, .rank = 2, .shape = {2, 5}, .handle = 2},
    {.name = "half", .dtype = BP_BF16, .rank = 3, .shape = {1, 2, 3}, .handle = 3},
    {.name = "big", .dtype = BP_U64, .rank = 1, .shape = {4}, .handle = 4},
    {.name = "empty", .dtype = BP_F64, .rank = 2, .shape = {0, 7}, .handle = 5},
    {.name = "quote\"\\\xc3\xa9", .dtype = BP_BOOL, .rank = 1, .shape = {5}, .handle = 6},
};
enum { EXAMPLES = sizeof examples / sizeof examples[0] };

typedef struct writing {
    bp_tensor_entry entries[EXAMPLES];
    bp_pair pairs[2];
    bp_metadata_group group;
    bp_safetensors_plan plan;
} writing;

static void prepare(writing *w)
{
    memcpy(w->entries, examples, sizeof examples);
    w->pairs[0] = (bp_pair){"one", "1"};
    w->pairs[1] = (bp_pair){"two", "zwei\n"};
    w->group = (bp_metadata_group){"my.", {w->pairs, 2}};
    w->plan = (bp_safetensors_plan){.entries = w->entries,
                                    .entry_count = EXAMPLES,
                                    .groups = &w->group,
                                    .group_count = 1,
                                    .digests = true};
    payload_left = 1000;
}

static bp_status write_all(safetensors_fixture *d, writing *w, size_t capacity)
{
    unsigned char memory[64];
    bp_staging staging = {memory, capacity};
    bp_safetensors_writer writer;
    d->error = (bp_error){.code = BP_OK};
    BP_TRY(bp_safetensors_layout(&w->plan, &d->error));
    BP_TRY(bp_safetensors_begin(&writer, &d->faulty.store, "f", &w->plan, &d->error));
    BP_TRY(bp_safetensors_write(&writer, staging, give, NULL));
    return bp_safetensors_end(&writer);
}

/* verifies file-6.cc81 */
static void what_is_written_is_read_back(void **state)
{
    safetensors_fixture *d = *state;
    for (size_t capacity = 1; capacity <= 64; capacity += 21) {
        writing w;
        prepare(&w);
        assert_int_equal(write_all(d, &w, capacity), BP_OK);
        size_t size;
        const unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
        assert_int_equal(size, w.plan.file_bytes);
        assert_int_equal(w.plan.header_bytes % 8, 0);
        assert_memory_equal(bytes + 8, "{\"__metadata__\":{\"format\":\"pt\",\"my.one\":\"1\"", 41);
        assert_int_equal(safetensors_open(d, SCRATCH), BP_OK);
        assert_int_equal(d->file.entry_count, EXAMPLES);
        assert_string_equal(bp_safetensors_metadata(&d->file, "format"), "pt");
        assert_string_equal(bp_safetensors_metadata(&d->file, "my.two"), "zwei\n");
        for (size_t i = 0; i < EXAMPLES; i++) {
            const bp_tensor_entry *entry = bp_safetensors_find(&d->file, examples[i].name);
            assert_non_null(entry);
            assert_int_equal(entry->dtype, examples[i].dtype);
            assert_int_equal(entry->rank, examples[i].rank);
            assert_memory_equal(entry->shape, examples[i].shape, sizeof entry->shape);
            unsigned char memory[7];
            bp_staging staging = {memory, sizeof memory};
            uint64_t handle = examples[i].handle;
            uint64_t digest;
            assert_int_equal(
                bp_safetensors_stream(&d->file, entry, staging, take, &handle, &digest), BP_OK);
            char key[64] = BP_SAFETENSORS_DIGEST;
            strcat(key, entry->name);
            uint64_t stored;
            assert_true(bp_digest_parse(bp_safetensors_metadata(&d->file, key), &stored));
            assert_true(stored == digest);
            assert_int_equal(bp_safetensors_stream(&d->file, entry, staging, NULL, NULL, NULL),
                             BP_OK);
        }
        assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    }
}

/* verifies file-6.cc81 */
static void the_order_is_canonical(void **state)
{
    (void)state;
    static const char *const wanted[] = {"big",  "empty", "scalar",           "w.b",
                                         "half", "u8",    "quote\"\\\xc3\xa9"};
    writing w;
    prepare(&w);
    assert_int_equal(bp_safetensors_layout(&w.plan, NULL), BP_OK);
    uint64_t offset = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        assert_string_equal(w.entries[i].name, wanted[i]);
        assert_int_equal(w.entries[i].offset, offset);
        offset += w.entries[i].bytes;
    }
    assert_int_equal(w.plan.data_bytes, offset);
    assert_int_equal(w.plan.file_bytes, 8 + w.plan.header_bytes + offset);
}

/* verifies file-6.cc81 */
static void the_same_input_gives_the_same_file(void **state)
{
    safetensors_fixture *d = *state;
    writing w;
    prepare(&w);
    assert_int_equal(write_all(d, &w, 64), BP_OK);
    size_t size;
    const unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
    uint64_t digest = bp_digest_of(bytes, size, 0);
    prepare(&w);
    bp_tensor_entry first = w.entries[0];
    w.entries[0] = w.entries[5];
    w.entries[5] = first;
    assert_int_equal(write_all(d, &w, 5), BP_OK);
    bytes = memory_store_bytes(&d->memory, "f", &size);
    assert_true(bp_digest_of(bytes, size, 0) == digest);
}

/* verifies file-9.1833 */
static void refuses_to_write_what_it_could_not_read(void **state)
{
    safetensors_fixture *d = *state;
    char name[BP_TENSOR_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    writing w;
    prepare(&w);
    w.entries[2].name = name;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    prepare(&w);
    name[BP_TENSOR_NAME_MAX - 1] = '\0';
    w.entries[2].name = name;
    assert_int_equal(write_all(d, &w, 8), BP_OK);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_OK);
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    prepare(&w);
    w.entries[2].name = "";
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    prepare(&w);
    w.entries[2].name = "u8";
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    assert_string_equal(d->error.name, "u8");
    prepare(&w);
    w.entries[2].rank = BP_TENSOR_RANK_MAX + 1;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    prepare(&w);
    w.entries[2].dtype = BP_DTYPE_COUNT;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    prepare(&w);
    w.entries[2].shape[0] = (uint64_t)1 << 62;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_OVERFLOW);
    prepare(&w);
    w.entries[2].shape[0] = (uint64_t)1 << 59;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_OVERFLOW); /* fits u64, not a file */
    char key[300];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    prepare(&w);
    w.pairs[1].key = key;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_USAGE);
    char *value = malloc(BP_SAFETENSORS_HEADER_MAX);
    memset(value, 'v', BP_SAFETENSORS_HEADER_MAX);
    value[BP_SAFETENSORS_HEADER_MAX - 1] = '\0';
    prepare(&w);
    w.pairs[1].value = value;
    assert_int_equal(write_all(d, &w, 8), BP_ERR_FIT);
    free(value);
}

/* verifies file-9.1833 */
static void metadata_must_keep_its_length(void **state)
{
    safetensors_fixture *d = *state;
    unsigned char memory[16];
    bp_staging staging = {memory, sizeof memory};
    char value[] = "0000";
    writing w;
    prepare(&w);
    w.pairs[0].value = value;
    assert_int_equal(bp_safetensors_layout(&w.plan, NULL), BP_OK);
    bp_safetensors_writer writer;
    assert_int_equal(bp_safetensors_begin(&writer, &d->faulty.store, "f", &w.plan, NULL), BP_OK);
    assert_int_equal(bp_safetensors_write(&writer, staging, give, NULL), BP_OK);
    memcpy(value, "1234", 4);
    assert_int_equal(bp_safetensors_end(&writer), BP_OK);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_OK);
    assert_string_equal(bp_safetensors_metadata(&d->file, "my.one"), "1234");
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    assert_int_equal(bp_safetensors_begin(&writer, &d->faulty.store, "f", &w.plan, NULL), BP_OK);
    assert_int_equal(bp_safetensors_write(&writer, staging, give, NULL), BP_OK);
    w.pairs[0].value = "123456789012";
    assert_int_equal(bp_safetensors_end(&writer), BP_ERR_INTERNAL);
}

/* verifies file-7.181b */
static void failures_while_writing_are_reported(void **state)
{
    safetensors_fixture *d = *state;
    static const struct {
        fault_kind kind;
        const char *name;
    } rows[] = {{FAULT_OPEN_WRITE, "f (create)"},
                {FAULT_WRITE_AT, "f (write)"},
                {FAULT_SYNC, "f (sync)"},
                {FAULT_CLOSE, "f (close)"}};
    for (size_t i = 0; i < 4; i++) {
        for (size_t n = 1;; n++) {
            writing w;
            prepare(&w);
            faulty_store_arm(&d->faulty, rows[i].kind, n, false);
            bp_status status = write_all(d, &w, 16);
            if (d->faulty.failures == 0) {
                assert_true(n > 1); /* the writer makes such calls */
                assert_int_equal(status, BP_OK);
                break;
            }
            assert_int_equal(status, BP_ERR_STORE);
            assert_string_equal(d->error.name, rows[i].name);
        }
    }
    writing w;
    prepare(&w);
    payload_left = 2;
    assert_int_equal(write_all(d, &w, 16), BP_ERR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(the_order_is_canonical, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(the_same_input_gives_the_same_file, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(refuses_to_write_what_it_could_not_read, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(metadata_must_keep_its_length, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(failures_while_writing_are_reported, safetensors_set_up,
                                        safetensors_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
