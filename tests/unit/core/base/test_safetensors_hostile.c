/* SPDX-License-Identifier: MIT */
/* safetensors files that mean harm: one test per class of bug that readers have had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/safetensors_fixture.h"

/* The file is refused as bad data, the error names the file, and says `text`. */
static void refuses(safetensors_fixture *d, const char *header, size_t data, const char *text)
{
    if (safetensors_open_header(d, header, data) != BP_ERR_DATA) {
        fail_msg("not refused as data: %s", header);
    }
    assert_int_equal(d->error.name[0], 'f');
    if (strstr(d->error.text, text) == NULL) {
        fail_msg("%s: %s, not: %s", header, d->error.text, text);
    }
}

static void accepts(safetensors_fixture *d, const char *header, size_t data)
{
    if (safetensors_open_header(d, header, data) != BP_OK) {
        fail_msg("%s: %s: %s", header, d->error.name, d->error.text);
    }
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

static const char good[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                           "\"__metadata__\":{\"k\":\"v\"}}";

/* Class 1: a count or length from the file drives memory or loops. */
/* verifies file-4.61ad */
static void hostile_header_length(void **state)
{
    safetensors_fixture *d = *state;
    static const uint64_t claims[] = {BP_SAFETENSORS_HEADER_MAX + 1u, (uint64_t)1 << 60};
    for (size_t i = 0; i < 2; i++) {
        safetensors_put(d, claims[i], good, sizeof good - 1, 4);
        assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
        assert_string_equal(d->error.text, "the header is longer than 100,000,000 bytes");
    }
}

/* An entry that lacks one of its three members is none, whatever the rest would make of it. */
/* verifies file-4.61ad */
static void entries_lack_a_member(void **state)
{
    safetensors_fixture *d = *state;
    static const char *const headers[] = {
        "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        assert_int_equal(safetensors_open_header(d, headers[i], i < 2 ? 4 : 0), BP_ERR_DATA);
    }
}

/* Class 1 as well: more tables than memory is an answer with a number, not an allocation. */
/* verifies file-4.61ad */
static void hostile_number_of_entries(void **state)
{
    safetensors_fixture *d = *state;
    enum { MANY = 2000 };
    char *header = malloc(MANY * 64);
    size_t used = (size_t)sprintf(header, "{");
    for (int i = 0; i < MANY; i++) {
        used += (size_t)sprintf(header + used,
                                "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                i > 0 ? "," : "", i);
    }
    strcpy(header + used, "}");
    assert_int_equal(safetensors_open_header(d, header, 0), BP_ERR_FIT);
    assert_string_equal(d->error.name, "f");
    assert_int_equal(d->error.found, SCRATCH - 1);
    size_t needed = (size_t)d->error.wanted;
    assert_int_equal(d->file.scratch_needed, needed);
    unsigned char *scratch = malloc(needed);
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_safetensors_open(&d->file, &d->faulty.store, "f", scratch, needed, &error),
                     BP_OK);
    assert_int_equal(d->file.entry_count, MANY);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        sprintf(name, "%d", i);
        assert_string_equal(bp_safetensors_find(&d->file, name)->name, name);
    }
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    free(scratch);
    free(header);
}

/* Class 2: products that wrap. */
/* verifies file-4.61ad */
static void hostile_products(void **state)
{
    safetensors_fixture *d = *state;
    static const char *const text = "overflows";
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
            0, text);
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}",
            4, text);
    refuses(d,
            "{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296,0],"
            "\"data_offsets\":[0,0]}}",
            0, text);
}

/* Classes 3 and 4: additions that wrap. */
/* verifies file-4.61ad */
static void hostile_sums(void **state)
{
    safetensors_fixture *d = *state;
    static const uint64_t claims[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8, 1u << 20};
    for (size_t i = 0; i < 4; i++) {
        safetensors_put(d, claims[i], good, sizeof good - 1, 4);
        assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
    }
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9223372036854775807,"
            "9223372036854775808]}}",
            1, "integers");
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
            "\"data_offsets\":[0,9223372036854775807]}}",
            1, "do not cover");
}

/* Class 5: a zero dimension in the overflow check. */
/* verifies file-4.61ad */
static void hostile_zero_dimensions(void **state)
{
    safetensors_fixture *d = *state;
    accepts(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,4],"
            "\"data_offsets\":[0,0]}}",
            0);
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,4]}}", 4, "span");
}

/* Class 6: signs. */
/* verifies file-4.61ad */
static void hostile_signs(void **state)
{
    safetensors_fixture *d = *state;
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "integers");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1,-1],\"data_offsets\":[0,1]}}", 1,
            "integers");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "integers");
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615],"
            "\"data_offsets\":[0,1]}}",
            1, "integers");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1,
            "ends before it begins");
}

/* Class 9: an element type out of the table. */
/* verifies file-4.61ad */
static void hostile_types(void **state)
{
    safetensors_fixture *d = *state;
    static const char *const text = "dtype is not one";
    refuses(d, "{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, text);
    refuses(d, "{\"a\":{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,0]}}", 0, text);
    refuses(d, "{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, text);
    refuses(d, "{\"a\":{\"dtype\":\"F32\\u0000\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, text);
    refuses(d, "{\"a\":{\"dtype\":-1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not a string");
}

/* Class 10: names. */
/* verifies file-4.61ad */
static void hostile_names(void **state)
{
    safetensors_fixture *d = *state;
    refuses(d, "{\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "empty");
    refuses(d, "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "NUL");
    refuses(d, "{\"a", 0, "closing quote");
    refuses(d, "{\"__metadata__\":{\"a\\u0000\":\"b\"}}", 0, "NUL");
    refuses(d, "{\"__metadata__\":{\"a\":\"b\\u0000\"}}", 0, "NUL");
    char header[2048] = "{\"";
    memset(header + 2, 'n', 255);
    strcpy(header + 257, "\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    accepts(d, header, 1);
    memset(header + 2, 'n', 256);
    strcpy(header + 258, "\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}");
    refuses(d, header, 1, "too long");
    size_t start = (size_t)sprintf(header, "{\"__metadata__\":{\"");
    memset(header + start, 'n', 262);
    strcpy(header + start + 262, "\":\"\"}}");
    accepts(d, header, 0);
    memset(header + start, 'n', 263);
    strcpy(header + start + 263, "\":\"\"}}");
    refuses(d, header, 0, "too long");
    memset(header + 2, 'n', 2000);
    strcpy(header + 2002, "\":1}");
    refuses(d, header, 0, "key is longer");
}

/* Class 11: duplicates, holes, trailing bytes. */
/* verifies file-4.61ad */
static void hostile_duplicates_and_holes(void **state)
{
    safetensors_fixture *d = *state;
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
            "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}",
            2, "the tensor is there twice");
    refuses(d, "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "key is there twice");
    refuses(d, "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "metadata is there twice");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
            "field is there twice");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}", 2, "hole");
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]}}",
            3, "hole");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 2, "do not cover");
    refuses(d, "{}", 1, "do not cover");
    refuses(d, "{}x", 0, "behind the end");
}

/* Class 12: ranges outside the data, and over one another. */
/* verifies file-4.61ad */
static void hostile_ranges(void **state)
{
    safetensors_fixture *d = *state;
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
            4, "overlap");
    refuses(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
            6, "overlap");
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1000,1004]}}", 4, "hole");
}

/* Class 13: a declared size beyond the data. */
/* verifies file-4.61ad */
static void hostile_declared_sizes(void **state)
{
    safetensors_fixture *d = *state;
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 4,
            "do not cover");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "span");
    memory_store_put(&d->memory, "f", "\2\0\0\0\0\0\0\0{", 9);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
    assert_string_equal(d->error.text, "the header reaches beyond the end of the file");
    memory_store_put(&d->memory, "f", "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
    assert_string_equal(d->error.text, "the file is too small for a header");
    memory_store_put(&d->memory, "f", "", 0);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
    safetensors_put(d, 0, "{}", 2, 0);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
}

/* Class 14: values of another type than expected. */
/* verifies file-4.61ad */
static void hostile_value_types(void **state)
{
    safetensors_fixture *d = *state;
    static const char *const wrong[] = {
        "[]",
        " {}",
        "{\"a\":1}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{\"a\":{\"dtype\":\"U8\"}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"more\":1}}",
        "{\"a\":{\"dtype\":[],\"shape\":[],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[null],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":{}}}",
        "{\"__metadata__\":1}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":{\"a\":{}}}",
        "{\"__metadata__\":{\"a\":null}}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        refuses(d, wrong[i], 1, "");
    }
}

/* Class 15: nesting. */
/* verifies file-4.61ad */
static void hostile_nesting(void **state)
{
    safetensors_fixture *d = *state;
    char header[4096];
    memset(header, '[', sizeof header);
    memcpy(header, "{\"a\":", 5);
    header[sizeof header - 1] = '\0';
    refuses(d, header, 0, "not an object");
    memcpy(header, "{\"a\":{\"x\":", 10);
    refuses(d, header, 0, "none of");
    memcpy(header, "{\"a\":{\"shape\":", 14);
    refuses(d, header, 0, "integers");
}

/* Class 16: every cut of a good file, and every flipped bit of its header, ends in a status. */
/* verifies file-5.585f */
static void hostile_truncation_and_flips(void **state)
{
    safetensors_fixture *d = *state;
    size_t header = sizeof good - 1;
    safetensors_put(d, header, good, header, 4);
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
    unsigned char *copy = malloc(size);
    memcpy(copy, bytes, size);
    for (size_t cut = 0; cut < size; cut++) {
        memory_store_put(&d->memory, "f", copy, cut);
        assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
    }
    for (size_t bit = 0; bit < 8 * (8 + header); bit++) {
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        memory_store_put(&d->memory, "f", copy, size);
        bp_status status = safetensors_open(d, SCRATCH);
        if (status == BP_OK) {
            assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
        } else {
            assert_int_equal(status, BP_ERR_DATA);
        }
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(copy);
}

/* Class 18: the file changes between the two readings of its header. */
static bp_status change_after(bp_store *store, bp_file file, uint64_t offset, void *to,
                              size_t bytes);
static int changing_reads;
static const char *changed_header;

static bp_status change_after(bp_store *store, bp_file file, uint64_t offset, void *to,
                              size_t bytes)
{
    faulty_store *faulty = store->context;
    memory_store *memory = faulty->inner->context;
    if (changing_reads++ == 2) {
        size_t size;
        unsigned char *content = memory_store_bytes(memory, "f", &size);
        memcpy(content + 8, changed_header, strlen(changed_header));
    }
    return faulty->inner->read_at(faulty->inner, file, offset, to, bytes);
}

enum { PADDED = 128 };

/* A header filled up with spaces to PADDED - 1 characters. */
static void pad(char padded[PADDED], const char *header)
{
    snprintf(padded, PADDED, "%-127s", header);
}

/* Opens a file with the first header, which becomes the second one behind the reader's back. */
static void open_changing(safetensors_fixture *d, const char *first, const char *second)
{
    char before[PADDED];
    char after[PADDED];
    pad(before, first);
    pad(after, second);
    safetensors_put(d, PADDED - 1, before, PADDED - 1, 4);
    d->faulty.store.read_at = change_after;
    changing_reads = 0;
    changed_header = after;
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_DATA);
}

/* verifies file-5.585f */
static void hostile_change_while_reading(void **state)
{
    safetensors_fixture *d = *state;
    static const char first[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char one_more[] = "{\"\":1}";
    static const char metadata[] = "{\"__metadata__\":{\"k\":\"v\"}}";
    static const char short_metadata[] = "{\"__metadata__\":{\"\":\"\"}}";
    static const char longer[] =
        "{\"abcdefgh\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char two[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}";
    static const char wide[] = "{\"abcd\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char *const text = "the file changed while it was read";
    open_changing(d, first, metadata);
    assert_string_equal(d->error.text, text);
    open_changing(d, first, short_metadata);
    assert_string_equal(d->error.text, text);
    open_changing(d, first, longer);
    assert_string_equal(d->error.text, text);
    /* As much text, but in more rows than there were. */
    open_changing(d, wide, two);
    assert_string_equal(d->error.text, text);
    /* Fewer than before are no danger to the tables; the data is then not covered. */
    open_changing(d, first, "{}");
    assert_string_equal(d->error.text, "the tensors do not cover the data");
    open_changing(d, first, one_more);
}

/* Class 20: payload is bytes; NaN and infinity pass as they are. */
/* verifies file-8.3d19 */
static void hostile_payload_is_only_bytes(void **state)
{
    safetensors_fixture *d = *state;
    static const char *const header =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    safetensors_put(d, strlen(header), header, strlen(header), 4);
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
    memcpy(bytes + size - 4, "\1\0\xa0\x7f", 4);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_OK);
    unsigned char back[4];
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 0, back, 4), BP_OK);
    assert_memory_equal(back, "\1\0\xa0\x7f", 4);
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hostile_header_length, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(entries_lack_a_member, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_number_of_entries, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_products, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_sums, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_zero_dimensions, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_signs, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_types, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_names, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_duplicates_and_holes, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_ranges, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_declared_sizes, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_value_types, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_nesting, safetensors_set_up, safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_truncation_and_flips, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_change_while_reading, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(hostile_payload_is_only_bytes, safetensors_set_up,
                                        safetensors_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
