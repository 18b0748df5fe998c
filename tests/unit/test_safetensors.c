/* SPDX-License-Identifier: MIT */
/* safetensors: round trips, exact sizes, and one test per class of hostile file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/digest.h"
#include "core/safetensors.h"
#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"

enum { SCRATCH = 65536 };

typedef struct desk {
    memory_store memory;
    faulty_store faulty;
    bp_safetensors file;
    bp_error error;
    unsigned char scratch[SCRATCH];
} desk;

static int set_up(void **state)
{
    desk *d = calloc(1, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    desk *d = *state;
    size_t open_files = d->memory.open_files;
    memory_store_free(&d->memory);
    free(d);
    return open_files == 0 ? 0 : 1;
}

/* Puts a file that claims `claimed` header bytes, has this header, and `data` zero bytes. */
static void put_file(desk *d, uint64_t claimed, const char *header, size_t length, size_t data)
{
    unsigned char *bytes = calloc(1, 8 + length + data);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(claimed >> (8 * i));
    }
    memcpy(bytes + 8, header, length);
    memory_store_put(&d->memory, "f", bytes, 8 + length + data);
    free(bytes);
}

static bp_status open_file(desk *d, size_t scratch)
{
    d->error = (bp_error){.code = BP_OK};
    return bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + 1, scratch - 1,
                               &d->error);
}

static bp_status open_header(desk *d, const char *header, size_t data)
{
    put_file(d, strlen(header), header, strlen(header), data);
    return open_file(d, SCRATCH);
}

/* The file is refused as bad data, the error names the file, and says `text`. */
static void refuses(desk *d, const char *header, size_t data, const char *text)
{
    if (open_header(d, header, data) != BP_ERR_DATA) {
        fail_msg("not refused as data: %s", header);
    }
    assert_int_equal(d->error.name[0], 'f');
    if (strstr(d->error.text, text) == NULL) {
        fail_msg("%s: %s, not: %s", header, d->error.text, text);
    }
}

static void accepts(desk *d, const char *header, size_t data)
{
    if (open_header(d, header, data) != BP_OK) {
        fail_msg("%s: %s: %s", header, d->error.name, d->error.text);
    }
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

static void reads_every_part_of_an_entry(void **state)
{
    desk *d = *state;
    const char *header = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                         "\"__metadata__\":{\"format\":\"pt\",\"a\":\"x\\u00e9\"},"
                         "\"a\":{\"data_offsets\":[24,26],\"shape\":[],\"dtype\":\"BF16\"}}  ";
    assert_int_equal(open_header(d, header, 26), BP_OK);
    assert_int_equal(d->file.entry_count, 2);
    assert_int_equal(d->file.metadata_count, 2);
    assert_int_equal(d->file.data_bytes, 26);
    const bp_tensor_entry *b = bp_safetensors_find(&d->file, "b");
    assert_non_null(b);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, BP_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->offset, 0);
    assert_int_equal(b->bytes, 24);
    const bp_tensor_entry *a = bp_safetensors_find(&d->file, "a");
    assert_int_equal(a->rank, 0);
    assert_int_equal(a->offset, 24);
    assert_ptr_equal(a + 1, b); /* sorted by name */
    assert_null(bp_safetensors_find(&d->file, "ab"));
    assert_null(bp_safetensors_find(&d->file, "c"));
    assert_string_equal(bp_safetensors_metadata(&d->file, "a"), "x\xc3\xa9");
    assert_string_equal(bp_safetensors_metadata(&d->file, "format"), "pt");
    assert_null(bp_safetensors_metadata(&d->file, "b"));
    assert_null(bp_safetensors_metadata(&d->file, "z"));
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

static void takes_unusual_but_valid_files(void **state)
{
    desk *d = *state;
    accepts(d, "{}", 0);
    accepts(d, "{ }   ", 0);
    accepts(d, "{\"__metadata__\":{}}", 0);
    /* Data at odd addresses: the format aligns nothing. */
    accepts(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}",
            9);
    /* Tensors without elements, at a place where another one begins. */
    accepts(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
            "\"c\":{\"dtype\":\"F64\",\"shape\":[5,0],\"data_offsets\":[1,1]}}",
            1);
    accepts(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1);
}

static void reads_metadata_values_of_any_length(void **state)
{
    desk *d = *state;
    enum { LONG = 5000 };
    char *header = malloc(LONG + 100);
    int used = sprintf(header, "{\"__metadata__\":{\"long\":\"");
    memset(header + used, 'v', LONG);
    strcpy(header + used + LONG, "\",\"z\":\"\"}}");
    assert_int_equal(open_header(d, header, 0), BP_OK);
    const char *value = bp_safetensors_metadata(&d->file, "long");
    assert_int_equal(strlen(value), LONG);
    assert_int_equal(strspn(value, "v"), LONG);
    assert_string_equal(bp_safetensors_metadata(&d->file, "z"), "");
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    free(header);
}

static const char good[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                           "\"__metadata__\":{\"k\":\"v\"}}";

/* Class 1: a count or length from the file drives memory or loops. */
static void hostile_header_length(void **state)
{
    desk *d = *state;
    static const uint64_t claims[] = {BP_SAFETENSORS_HEADER_MAX + 1u, (uint64_t)1 << 60};
    for (size_t i = 0; i < 2; i++) {
        put_file(d, claims[i], good, sizeof good - 1, 4);
        assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
        assert_string_equal(d->error.text, "the header is longer than 100,000,000 bytes");
    }
}

/* Class 1 as well: more tables than memory is an answer with a number, not an allocation. */
static void hostile_number_of_entries(void **state)
{
    desk *d = *state;
    enum { MANY = 2000 };
    char *header = malloc(MANY * 64);
    size_t used = (size_t)sprintf(header, "{");
    for (int i = 0; i < MANY; i++) {
        used += (size_t)sprintf(header + used,
                                "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                i > 0 ? "," : "", i);
    }
    strcpy(header + used, "}");
    assert_int_equal(open_header(d, header, 0), BP_ERR_FIT);
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
static void hostile_products(void **state)
{
    desk *d = *state;
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
static void hostile_sums(void **state)
{
    desk *d = *state;
    static const uint64_t claims[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8, 1u << 20};
    for (size_t i = 0; i < 4; i++) {
        put_file(d, claims[i], good, sizeof good - 1, 4);
        assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
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
static void hostile_zero_dimensions(void **state)
{
    desk *d = *state;
    accepts(d,
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,4],"
            "\"data_offsets\":[0,0]}}",
            0);
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,4]}}", 4, "span");
}

/* Class 6: signs. */
static void hostile_signs(void **state)
{
    desk *d = *state;
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
static void hostile_types(void **state)
{
    desk *d = *state;
    static const char *const text = "dtype is not one";
    refuses(d, "{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, text);
    refuses(d, "{\"a\":{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,0]}}", 0, text);
    refuses(d, "{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, text);
    refuses(d, "{\"a\":{\"dtype\":\"F32\\u0000\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, text);
    refuses(d, "{\"a\":{\"dtype\":-1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not a string");
}

/* Class 10: names. */
static void hostile_names(void **state)
{
    desk *d = *state;
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
static void hostile_duplicates_and_holes(void **state)
{
    desk *d = *state;
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
static void hostile_ranges(void **state)
{
    desk *d = *state;
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
static void hostile_declared_sizes(void **state)
{
    desk *d = *state;
    refuses(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 4,
            "do not cover");
    refuses(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "span");
    memory_store_put(&d->memory, "f", "\2\0\0\0\0\0\0\0{", 9);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
    assert_string_equal(d->error.text, "the header reaches beyond the end of the file");
    memory_store_put(&d->memory, "f", "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
    assert_string_equal(d->error.text, "the file is too small for a header");
    memory_store_put(&d->memory, "f", "", 0);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
    put_file(d, 0, "{}", 2, 0);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
}

/* Class 14: values of another type than expected. */
static void hostile_value_types(void **state)
{
    desk *d = *state;
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
static void hostile_nesting(void **state)
{
    desk *d = *state;
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
static void hostile_truncation_and_flips(void **state)
{
    desk *d = *state;
    size_t header = sizeof good - 1;
    put_file(d, header, good, header, 4);
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
    unsigned char *copy = malloc(size);
    memcpy(copy, bytes, size);
    for (size_t cut = 0; cut < size; cut++) {
        memory_store_put(&d->memory, "f", copy, cut);
        assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
    }
    for (size_t bit = 0; bit < 8 * (8 + header); bit++) {
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        memory_store_put(&d->memory, "f", copy, size);
        bp_status status = open_file(d, SCRATCH);
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
static void open_changing(desk *d, const char *first, const char *second)
{
    char before[PADDED];
    char after[PADDED];
    pad(before, first);
    pad(after, second);
    put_file(d, PADDED - 1, before, PADDED - 1, 4);
    d->faulty.store.read_at = change_after;
    changing_reads = 0;
    changed_header = after;
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_DATA);
}

static void hostile_change_while_reading(void **state)
{
    desk *d = *state;
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
static void hostile_payload_is_only_bytes(void **state)
{
    desk *d = *state;
    static const char *const header =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    put_file(d, strlen(header), header, strlen(header), 4);
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
    memcpy(bytes + size - 4, "\1\0\xa0\x7f", 4);
    assert_int_equal(open_file(d, SCRATCH), BP_OK);
    unsigned char back[4];
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 0, back, 4), BP_OK);
    assert_memory_equal(back, "\1\0\xa0\x7f", 4);
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

static void needs_no_more_scratch_than_it_says(void **state)
{
    desk *d = *state;
    put_file(d, sizeof good - 1, good, sizeof good - 1, 4);
    assert_int_equal(open_file(d, 100), BP_ERR_FIT);
    assert_int_equal(open_file(d, 2 + (size_t)d->error.wanted), BP_ERR_FIT);
    size_t needed = (size_t)d->error.wanted;
    for (size_t skew = 0; skew < 16; skew++) {
        bp_error error = {.code = BP_OK};
        assert_int_equal(
            bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + skew, needed, &error),
            BP_OK);
        assert_true(d->file.scratch_needed <= needed);
        assert_string_equal(bp_safetensors_metadata(&d->file, "k"), "v");
        assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    }
}

static void keeps_an_earlier_error(void **state)
{
    desk *d = *state;
    put_file(d, 2, "[]", 2, 0);
    bp_error error = {.code = BP_OK};
    bp_status first = bp_error_set(&error, BP_ERR_USAGE, "here", "first", NULL);
    assert_int_equal(first, BP_ERR_USAGE);
    assert_int_equal(
        bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch, SCRATCH, &error),
        BP_ERR_DATA);
    assert_string_equal(error.text, "first");
    assert_int_equal(
        bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch, SCRATCH, NULL),
        BP_ERR_DATA);
}

static void store_failures_while_reading_are_reported(void **state)
{
    desk *d = *state;
    put_file(d, sizeof good - 1, good, sizeof good - 1, 4);
    faulty_store_arm(&d->faulty, FAULT_OPEN_READ, 1, false);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_STORE);
    assert_string_equal(d->error.name, "f (open)");
    faulty_store_arm(&d->faulty, FAULT_FILE_SIZE, 1, false);
    assert_int_equal(open_file(d, SCRATCH), BP_ERR_STORE);
    assert_string_equal(d->error.name, "f (size)");
    for (size_t n = 1; n <= 3; n++) {
        faulty_store_arm(&d->faulty, FAULT_READ_AT, n, false);
        assert_int_equal(open_file(d, SCRATCH), BP_ERR_STORE);
        assert_string_equal(d->error.name, "f (read)");
        assert_string_equal(d->error.text, "made to fail");
    }
    faulty_store_arm(&d->faulty, FAULT_READ_AT, 4, false);
    assert_int_equal(open_file(d, SCRATCH), BP_OK);
    unsigned char back[4];
    uint64_t digest;
    bp_staging staging = {back, 3};
    assert_int_equal(bp_safetensors_stream(&d->file, d->file.entries, staging, NULL, NULL, &digest),
                     BP_ERR_STORE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 0, back, 5), BP_ERR_USAGE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 5, back, 0), BP_ERR_USAGE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 4, back, 0), BP_OK);
    faulty_store_arm(&d->faulty, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_safetensors_close(&d->file), BP_ERR_STORE);
}

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

static bp_status write_all(desk *d, writing *w, size_t capacity)
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

static void what_is_written_is_read_back(void **state)
{
    desk *d = *state;
    for (size_t capacity = 1; capacity <= 64; capacity += 21) {
        writing w;
        prepare(&w);
        assert_int_equal(write_all(d, &w, capacity), BP_OK);
        size_t size;
        const unsigned char *bytes = memory_store_bytes(&d->memory, "f", &size);
        assert_int_equal(size, w.plan.file_bytes);
        assert_int_equal(w.plan.header_bytes % 8, 0);
        assert_memory_equal(bytes + 8, "{\"__metadata__\":{\"format\":\"pt\",\"my.one\":\"1\"", 41);
        assert_int_equal(open_file(d, SCRATCH), BP_OK);
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

static void the_same_input_gives_the_same_file(void **state)
{
    desk *d = *state;
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

static void refuses_to_write_what_it_could_not_read(void **state)
{
    desk *d = *state;
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
    assert_int_equal(open_file(d, SCRATCH), BP_OK);
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

static void metadata_must_keep_its_length(void **state)
{
    desk *d = *state;
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
    assert_int_equal(open_file(d, SCRATCH), BP_OK);
    assert_string_equal(bp_safetensors_metadata(&d->file, "my.one"), "1234");
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    assert_int_equal(bp_safetensors_begin(&writer, &d->faulty.store, "f", &w.plan, NULL), BP_OK);
    assert_int_equal(bp_safetensors_write(&writer, staging, give, NULL), BP_OK);
    w.pairs[0].value = "123456789012";
    assert_int_equal(bp_safetensors_end(&writer), BP_ERR_INTERNAL);
}

static void failures_while_writing_are_reported(void **state)
{
    desk *d = *state;
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
        cmocka_unit_test_setup_teardown(reads_every_part_of_an_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(takes_unusual_but_valid_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_metadata_values_of_any_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_header_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_number_of_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_sums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_zero_dimensions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_signs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_duplicates_and_holes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_declared_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_value_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_nesting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_truncation_and_flips, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_change_while_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_payload_is_only_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(needs_no_more_scratch_than_it_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_an_earlier_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(store_failures_while_reading_are_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_order_is_canonical, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_input_gives_the_same_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_to_write_what_it_could_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(metadata_must_keep_its_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_while_writing_are_reported, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
