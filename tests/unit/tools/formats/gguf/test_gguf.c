/* SPDX-License-Identifier: MIT */
/* Reading GGUF: what is accepted, and every way in which a header can lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/gguf/gguf_write.h"

/* Places in the file that cases change. */
typedef enum spot {
    MAGIC,
    VERSION,
    TENSORS,
    KEYS,
    KEY_LENGTH,
    KEY_NAME,
    KEY_TYPE,
    STRING_LENGTH,
    ALIGNMENT_TYPE,
    ALIGNMENT,
    FLAG,
    LIST_ITEM,
    LIST_COUNT,
    LIST_LENGTH,
    NUMBERS_ITEM,
    NUMBERS_COUNT,
    NAME_LENGTH,
    NAME,
    RANK,
    EXTENT,
    TYPE,
    OFFSET,
    SECOND_NAME,
    SECOND_OFFSET,
    SPOTS
} spot;

typedef struct maker {
    unsigned char bytes[2048];
    size_t used;
    size_t at[SPOTS];
} maker;

static void put(maker *m, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        m->bytes[m->used++] = (unsigned char)(i < 8 ? value >> (8 * i) : 0);
    }
}

static void put_text(maker *m, const char *text)
{
    put(m, strlen(text), 8);
    memcpy(m->bytes + m->used, text, strlen(text));
    m->used += strlen(text);
}

static void mark(maker *m, spot which)
{
    m->at[which] = m->used;
}

static void put_keys(maker *m)
{
    mark(m, KEY_LENGTH);
    m->at[KEY_NAME] = m->used + 8;
    put_text(m, "general.architecture");
    mark(m, KEY_TYPE);
    put(m, BP_GGUF_STRING, 4);
    mark(m, STRING_LENGTH);
    put_text(m, "gpt2");
    put_text(m, "general.alignment");
    mark(m, ALIGNMENT_TYPE);
    put(m, BP_GGUF_U32, 4);
    mark(m, ALIGNMENT);
    put(m, 32, 4);
    put_text(m, "a.flag");
    put(m, BP_GGUF_BOOL, 4);
    mark(m, FLAG);
    put(m, 1, 1);
    put_text(m, "a.list");
    put(m, BP_GGUF_ARRAY, 4);
    mark(m, LIST_ITEM);
    put(m, BP_GGUF_STRING, 4);
    mark(m, LIST_COUNT);
    put(m, 2, 8);
    mark(m, LIST_LENGTH);
    put_text(m, "x");
    put_text(m, "yz");
    put_text(m, "a.numbers");
    put(m, BP_GGUF_ARRAY, 4);
    mark(m, NUMBERS_ITEM);
    put(m, BP_GGUF_I32, 4);
    mark(m, NUMBERS_COUNT);
    put(m, 3, 8);
    put(m, 7, 4);
    put(m, 8, 4);
    put(m, 0xffffffffu, 4);
    put_text(m, "a.long");
    put(m, BP_GGUF_I64, 4);
    put(m, (uint64_t)-5, 8);
    put_text(m, "a.single");
    put(m, BP_GGUF_F32, 4);
    put(m, 0x3727c5acu, 4); /* 1e-5 */
    put_text(m, "a.double");
    put(m, BP_GGUF_F64, 4);
    put(m, 0x3fe0000000000000u, 8);
}

/* A good file: tensors t0 (3, 2) of F32 and t1 (5) of F16. */
static void make(maker *m)
{
    memset(m, 0, sizeof *m);
    put(m, BP_GGUF_MAGIC, 4);
    m->at[MAGIC] = 0;
    mark(m, VERSION);
    put(m, 3, 4);
    mark(m, TENSORS);
    put(m, 2, 8);
    mark(m, KEYS);
    put(m, 8, 8);
    put_keys(m);
    mark(m, NAME_LENGTH);
    m->at[NAME] = m->used + 8;
    put_text(m, "t0");
    mark(m, RANK);
    put(m, 2, 4);
    mark(m, EXTENT);
    put(m, 2, 8);
    put(m, 3, 8);
    mark(m, TYPE);
    put(m, BP_GGUF_TENSOR_F32, 4);
    mark(m, OFFSET);
    put(m, 0, 8);
    m->at[SECOND_NAME] = m->used + 8;
    put_text(m, "t1");
    put(m, 1, 4);
    put(m, 5, 8);
    put(m, BP_GGUF_TENSOR_F16, 4);
    mark(m, SECOND_OFFSET);
    put(m, 32, 8);
    put(m, 0, (size_t)(-m->used % 32));
    for (uint64_t i = 0; i < 64; i++) {
        put(m, i, 1);
    }
}

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    maker m;
    uint64_t scratch[2048];
    bp_staging room;
    bp_gguf_file file;
    bp_error error;
} fixture;

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    make(&d->m);
    return d;
}

static void fixture_free(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d);
}

static bp_status open_bytes(fixture *d, const void *bytes, size_t size)
{
    memory_store_put(&d->memory, "g", bytes, size);
    d->error = (bp_error){.code = BP_OK};
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
    return bp_gguf_open(&d->file, &d->faulty.store, "g", &d->room, &d->error);
}

static bp_status open_made(fixture *d)
{
    return open_bytes(d, d->m.bytes, d->m.used);
}

/* verifies formats-7.5b71 */
static void a_good_file_is_read(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    char text[16];
    size_t length;
    uint32_t count;
    int32_t number;
    double real;
    bp_gguf_items items;
    assert_int_equal(open_made(d), BP_OK);
    assert_int_equal(d->file.key_count, 8);
    assert_int_equal(bp_gguf_take_string(&d->file, "general.architecture", text, sizeof text),
                     BP_OK);
    assert_string_equal(text, "gpt2");
    assert_int_equal(bp_gguf_take_count(&d->file, "general.alignment", 8, 64, &count), BP_OK);
    assert_int_equal(count, 32);
    assert_int_equal(bp_gguf_take_real(&d->file, "a.single", &real), BP_OK);
    assert_true(real == 1e-5);
    assert_int_equal(bp_gguf_take_real(&d->file, "a.double", &real), BP_OK);
    assert_true(real == 0.5);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a.list", BP_GGUF_STRING), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, text, sizeof text, &length), BP_OK);
    assert_string_equal(text, "x");
    assert_int_equal(bp_gguf_items_string(&items, text, sizeof text, &length), BP_OK);
    assert_string_equal(text, "yz");
    assert_int_equal(bp_gguf_items_string(&items, text, sizeof text, &length), BP_ERR_USAGE);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a.numbers", BP_GGUF_I32), BP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bp_gguf_items_i32(&items, &number), BP_OK);
    }
    assert_int_equal(number, -1);
    assert_int_equal(bp_gguf_items_i32(&items, &number), BP_ERR_USAGE);
    const bp_tensor_part *part = &d->file.part;
    assert_int_equal(part->entry_count, 2);
    assert_string_equal(part->entries[0].name, "t0");
    assert_int_equal(part->entries[0].shape[0], 3);
    assert_int_equal(part->entries[0].shape[1], 2);
    assert_int_equal(part->entries[1].offset, 32);
    assert_int_equal(part->data_at % 32, 0);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    /* The padding of the last tensor may be missing. */
    assert_int_equal(open_bytes(d, d->m.bytes, d->m.used - 22), BP_OK);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    fixture_free(d);
}

/* Texts longer than what is read ahead of them, and one that grows after the file was opened. */
/* verifies formats-10.4a5c */
static void texts_of_any_length_are_read(void **state)
{
    (void)state;
    enum { LONG = 2 * BP_GGUF_AHEAD };
    static char text[LONG + 1], found[LONG + 1];
    fixture *d = fixture_new();
    bp_gguf_writer w;
    bp_gguf_items items;
    size_t length, size;
    memset(text, 'x', LONG);
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", NULL), BP_OK);
    bp_gguf_put_array(&w, "a", BP_GGUF_STRING, 3);
    bp_gguf_item_string(&w, "ab", 2);
    bp_gguf_item_string(&w, text, LONG);
    bp_gguf_item_string(&w, "cd", 2);
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
    unsigned char *bytes = memory_store_bytes(&d->memory, "g", &size);
    static unsigned char copy[2 * LONG];
    assert_true(size < sizeof copy);
    memcpy(copy, bytes, size);
    assert_int_equal(open_bytes(d, copy, size), BP_OK);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a", BP_GGUF_STRING), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_OK);
    assert_string_equal(found, "ab");
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_OK);
    assert_string_equal(found, text);
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_OK);
    assert_string_equal(found, "cd");
    /* Now the last says that it has more than the file. */
    bytes = memory_store_bytes(&d->memory, "g", &size);
    size_t at = size - 2;
    while (memcmp(bytes + at, "cd", 2) != 0) {
        at--;
    }
    bytes[at - 8] = 200;
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a", BP_GGUF_STRING), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, found, sizeof found, &length), BP_ERR_STORE);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    fixture_free(d);
}

/* verifies formats-10.4a5c */
static void values_of_another_kind_are_refused_by_name(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    char text[16];
    size_t length;
    uint32_t count;
    double real;
    bp_gguf_items items;
    static const char *const no_counts[] = {
        "a.flag", "a.list", "a.single", "a.long", "general.architecture", "none"};
    assert_int_equal(open_made(d), BP_OK);
    for (size_t i = 0; i < sizeof no_counts / sizeof no_counts[0]; i++) {
        d->error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_gguf_take_count(&d->file, no_counts[i], 0, 9, &count), BP_ERR_DATA);
        assert_non_null(strstr(d->error.name, no_counts[i]));
    }
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_take_count(&d->file, "general.alignment", 33, 64, &count),
                     BP_ERR_DATA);
    assert_int_equal(d->error.wanted, 33);
    assert_int_equal(bp_gguf_take_count(&d->file, "general.alignment", 1, 31, &count), BP_ERR_DATA);
    assert_int_equal(bp_gguf_take_real(&d->file, "general.alignment", &real), BP_ERR_DATA);
    assert_int_equal(bp_gguf_take_real(&d->file, "none", &real), BP_ERR_DATA);
    assert_int_equal(bp_gguf_take_string(&d->file, "a.list", text, 16), BP_ERR_DATA);
    assert_int_equal(bp_gguf_take_string(&d->file, "none", text, 16), BP_ERR_DATA);
    assert_int_equal(bp_gguf_take_string(&d->file, "general.architecture", text, 4), BP_ERR_DATA);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a.list", BP_GGUF_I32), BP_ERR_DATA);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a.flag", BP_GGUF_I32), BP_ERR_DATA);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "none", BP_GGUF_STRING), BP_ERR_DATA);
    assert_int_equal(bp_gguf_items_begin(&items, &d->file, "a.list", BP_GGUF_STRING), BP_OK);
    assert_int_equal(bp_gguf_items_string(&items, text, 1, &length), BP_ERR_DATA);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    fixture_free(d);
}

static const struct {
    spot at;
    size_t bytes;
    uint64_t value;
    const char *text;
} lies[] = {
    {MAGIC, 4, 0x46554746u, "GGUF"},
    {VERSION, 4, 2, "version"},
    {VERSION, 4, 0x03000000u, "version"}, /* big-endian */
    /* Counts that drive tables and loops. */
    {TENSORS, 8, UINT64_MAX, "counts more"},
    {TENSORS, 8, (uint64_t)1 << 60, "counts more"},
    {TENSORS, 8, 3, ""},
    {TENSORS, 8, 1, ""},
    {KEYS, 8, UINT64_MAX, "counts more"},
    {KEYS, 8, (uint64_t)1 << 60, "counts more"},
    {KEYS, 8, 9, ""},
    {KEYS, 8, 7, ""},
    /* Lengths of names and strings. */
    {KEY_LENGTH, 8, 0, "empty or too long"},
    {KEY_LENGTH, 8, 256, "empty or too long"},
    {KEY_LENGTH, 8, UINT64_MAX, "empty or too long"},
    {KEY_NAME, 1, 0, "NUL"},
    {KEY_TYPE, 4, BP_GGUF_TYPES, "type that is not known"},
    {KEY_TYPE, 4, UINT32_MAX, "type that is not known"},
    {STRING_LENGTH, 8, UINT64_MAX, "ends in the middle"},
    {STRING_LENGTH, 8, (uint64_t)1 << 63, "ends in the middle"},
    {STRING_LENGTH, 8, 100000, "ends in the middle"},
    {ALIGNMENT_TYPE, 4, BP_GGUF_I32, "alignment"},
    {ALIGNMENT_TYPE, 4, BP_GGUF_F32, "alignment"},
    {ALIGNMENT, 4, 0, "alignment"},
    {ALIGNMENT, 4, 3, "alignment"},
    {ALIGNMENT, 4, 4, "alignment"},
    {ALIGNMENT, 4, 0x80000000u, "alignment"},
    {ALIGNMENT, 4, 64, ""},
    {FLAG, 1, 2, "truth"},
    {LIST_ITEM, 4, BP_GGUF_ARRAY, "items have a type"},
    {LIST_ITEM, 4, BP_GGUF_TYPES, "items have a type"},
    {LIST_COUNT, 8, UINT64_MAX, "ends in the middle"},
    {LIST_COUNT, 8, (uint64_t)1 << 61, "ends in the middle"},
    {LIST_COUNT, 8, 3, ""},
    {LIST_LENGTH, 8, UINT64_MAX - 7, "ends in the middle"},
    {NUMBERS_ITEM, 4, BP_GGUF_STRING, ""},
    {NUMBERS_COUNT, 8, (uint64_t)1 << 62, "ends in the middle"}, /* times 4 wraps to 0 */
    {NUMBERS_COUNT, 8, UINT64_MAX, "ends in the middle"},
    /* Tensors. */
    {NAME_LENGTH, 8, 0, "empty or too long"},
    {NAME_LENGTH, 8, 64, "empty or too long"},
    {NAME, 1, 0, "NUL"},
    {SECOND_NAME, 2, 0x3074, "twice"},
    {RANK, 4, 0, "rank"},
    {RANK, 4, 5, "rank"},
    {RANK, 4, UINT32_MAX, "rank"},
    {EXTENT, 8, 0, "extent"},
    {EXTENT, 8, (uint64_t)1 << 63, "extent"},
    {EXTENT, 8, UINT64_MAX, "extent"},
    {EXTENT, 8, ((uint64_t)1 << 62), "larger than the file"}, /* times 3 and 4: wraps */
    {EXTENT, 8, 0x5555555555555556u, "larger than the file"}, /* times 3 is 2 */
    {EXTENT, 8, 1000, "larger than the file"},
    {EXTENT, 8, 100, ""},
    {TYPE, 4, 2, "not F32, F16 or BF16 are no whole blocks"},
    {TYPE, 4, UINT32_MAX, "not F32, F16 or BF16"},
    {OFFSET, 8, 32, "hole or an overlap"},
    {OFFSET, 8, UINT64_MAX - 31, "hole or an overlap"},
    {SECOND_OFFSET, 8, 0, "hole or an overlap"},
    {SECOND_OFFSET, 8, 24, "hole or an overlap"},
    {SECOND_OFFSET, 8, 64, "hole or an overlap"},
};

/* verifies formats-10.4a5c */
static void every_lie_of_a_header_is_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        make(&d->m);
        for (size_t b = 0; b < lies[i].bytes; b++) {
            d->m.bytes[d->m.at[lies[i].at] + b] = (unsigned char)(lies[i].value >> (8 * b));
        }
        assert_int_equal(open_made(d), BP_ERR_DATA);
        assert_non_null(strstr(d->error.text, lies[i].text));
        assert_int_equal(strncmp(d->error.name, "g", 1), 0);
        assert_int_equal(d->memory.open_files, 0);
    }
    fixture_free(d);
}

/* verifies formats-10.4a5c */
static void every_cut_and_every_addition_is_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    for (size_t size = 0; size < d->m.used - 22; size++) {
        assert_int_equal(open_bytes(d, d->m.bytes, size), BP_ERR_DATA);
    }
    put(&d->m, 0, 1);
    assert_int_equal(open_made(d), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "length differs"));
    fixture_free(d);
}

/* verifies formats-10.4a5c */
static void keys_twice_are_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    /* "a.list" becomes a second "a.flag". */
    for (size_t i = 0; i + 6 < d->m.used; i++) {
        if (memcmp(d->m.bytes + i, "a.list", 6) == 0) {
            memcpy(d->m.bytes + i, "a.flag", 6);
        }
    }
    assert_int_equal(open_made(d), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "twice"));
    assert_non_null(strstr(d->error.name, "a.flag"));
    fixture_free(d);
}

/* verifies formats-24.7573 */
static void storage_and_memory_that_fail_are_said_so(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    fixture *d = fixture_new();
    for (size_t k = 0; k < 3; k++) {
        faulty_store_arm(&d->faulty, kinds[k], 1, false);
        assert_int_equal(open_made(d), BP_ERR_STORE);
    }
    faulty_store_arm(&d->faulty, FAULT_CLOSE, 1, false);
    assert_int_equal(open_made(d), BP_OK);
    assert_int_equal(bp_gguf_close(&d->file), BP_ERR_STORE);
    bool opened = false;
    for (size_t bytes = 0; !opened; bytes += 24) {
        d->room = (bp_staging){d->scratch, bytes};
        d->error = (bp_error){.code = BP_OK};
        bp_status status = bp_gguf_open(&d->file, &d->memory.store, "g", &d->room, &d->error);
        opened = status == BP_OK;
        assert_true(opened || status == BP_ERR_FIT);
    }
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    fixture_free(d);
}

/* A file with nothing but gpt2's keys; `wrong` of them has the value of the case. */
static void make_gpt2(maker *m, size_t wrong, bp_gguf_type type, uint64_t value)
{
    static const struct {
        const char *name;
        bp_gguf_type type;
        uint64_t value;
    } keys[] = {
        {"gpt2.block_count", BP_GGUF_U32, 2},
        {"gpt2.context_length", BP_GGUF_U64, 16},
        {"gpt2.embedding_length", BP_GGUF_U16, 8},
        {"gpt2.feed_forward_length", BP_GGUF_I32, 32},
        {"gpt2.attention.head_count", BP_GGUF_U8, 2},
        {"gpt2.attention.layer_norm_epsilon", BP_GGUF_F32, 0x3727c5acu},
    };
    static const uint8_t sizes[BP_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
    memset(m, 0, sizeof *m);
    put(m, BP_GGUF_MAGIC, 4);
    put(m, 3, 4);
    put(m, 0, 8);
    put(m, 6, 8);
    for (size_t i = 0; i < 6; i++) {
        bp_gguf_type t = i == wrong ? type : keys[i].type;
        put_text(m, keys[i].name);
        put(m, (uint64_t)t, 4);
        put(m, i == wrong ? value : keys[i].value, sizes[t]);
    }
}

/* verifies formats-10.4a5c */
static void gpt2_keys_are_held_to_their_bounds(void **state)
{
    (void)state;
    static const struct {
        size_t key;
        bp_gguf_type type;
        uint64_t value;
    } cases[] = {
        {0, BP_GGUF_U32, 0},
        {0, BP_GGUF_U32, 5000},
        {0, BP_GGUF_U64, 1ull << 60},
        {0, BP_GGUF_I32, 0xffffffffu},
        {0, BP_GGUF_F32, 0x40000000},
        {0, BP_GGUF_BOOL, 1},
        {0, BP_GGUF_STRING, 0},
        {1, BP_GGUF_U32, 0},
        {2, BP_GGUF_U32, 0},
        {2, BP_GGUF_U32, 9},
        {3, BP_GGUF_U32, 0},
        {4, BP_GGUF_U32, 0},
        {4, BP_GGUF_U32, 3},
        {4, BP_GGUF_I8, 0xff},
        {5, BP_GGUF_U32, 0},
        {5, BP_GGUF_F32, 0x7fc00000u},
        {5, BP_GGUF_F32, 0xbf800000u},
        {5, BP_GGUF_F32, 0x3f800000u},
        {5, BP_GGUF_F64, 0x7ff0000000000000u},
    };
    fixture *d = fixture_new();
    const bp_gguf_family *family = bp_gguf_family_of("gpt2");
    assert_non_null(family);
    assert_ptr_equal(bp_gguf_family_find("gpt2"), family);
    assert_null(bp_gguf_family_of("mamba"));
    assert_null(bp_gguf_family_find("mamba"));
    bp_model_config config = {.vocabulary = 5};
    make_gpt2(&d->m, 6, BP_GGUF_U8, 0);
    assert_int_equal(open_made(d), BP_OK);
    assert_int_equal(family->take(&d->file, family->architecture, &config), BP_OK);
    assert_int_equal(bp_transformer_of(&config).layers, 2);
    assert_int_equal(config.positions, 16);
    assert_int_equal(bp_transformer_of(&config).width, 8);
    assert_int_equal(bp_transformer_of(&config).inner, 0); /* four times the width is the default */
    assert_int_equal(bp_transformer_of(&config).heads, 2);
    assert_true(bp_transformer_of(&config).norm_epsilon == 1e-5);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_gpt2(&d->m, cases[i].key, cases[i].type, cases[i].value);
        assert_int_equal(open_made(d), BP_OK);
        assert_int_equal(family->take(&d->file, family->architecture, &config), BP_ERR_DATA);
        assert_non_null(strstr(d->error.name, "gpt2."));
        assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    }
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(texts_of_any_length_are_read),
        cmocka_unit_test(values_of_another_kind_are_refused_by_name),
        cmocka_unit_test(every_lie_of_a_header_is_refused),
        cmocka_unit_test(every_cut_and_every_addition_is_refused),
        cmocka_unit_test(keys_twice_are_refused),
        cmocka_unit_test(storage_and_memory_that_fail_are_said_so),
        cmocka_unit_test(gpt2_keys_are_held_to_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
