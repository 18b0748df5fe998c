/* SPDX-License-Identifier: MIT */
/* What files are by their content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/files/content.h"

#define HEAD(bytes) (const unsigned char *)(bytes), sizeof(bytes) - 1

/* verifies formats-17.ac5c */
static void magic_numbers_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *word; /* of its text; "" for a packed file */
    } cases[] = {
        {"PAR1\x15\x04", 6, "read_parquet"},
        {"\xfd"
         "7zXZ\0",
         6, "xz"},
        {"BZh91AY&SY", 10, "bzip2"},
        {"PK\x03\x04", 4, "zip"},
        {"SQLite format 3\0", 16, "SQLite"},
        {"%PDF-1.7", 8, "PDF"},
        {"\x89PNG\r\n\x1a\n", 8, "PNG"},
        {"\xff\xd8\xff\xe0", 4, "JPEG"},
        {"\x93NUMPY\x01", 7, "NumPy"},
        {"GGUF\3\0\0\0", 8, "GGUF"},
        {"\x80\x04\x95", 3, "pickle"},
        {"\x7f"
         "ELF\2",
         5, "program"},
        {"ARROW1\0\0", 8, "Arrow"},
        {"\x10\0\0\0\0\0\0\0{\"a\"", 12, "safetensors"},
        {"\xff\xfeh\0", 4, "UTF-16"},
        {"\x1f\x8b\x08", 3, ""},
        {"\x28\xb5\x2f\xfd", 4, ""},
        {"\x5e\x2a\x4d\x18", 4, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_content content = bp_content_of((const unsigned char *)cases[i].bytes, cases[i].length);
        bool packed = cases[i].word[0] == '\0';
        assert_int_not_equal(content.kind, BP_CONTENT_OTHER);
        assert_int_equal(content.kind != BP_CONTENT_BINARY, packed);
        assert_non_null(strstr(content.text, cases[i].word));
        for (size_t cut = 0; cut < 3; cut++) { /* no magic number is as short */
            content = bp_content_of((const unsigned char *)cases[i].bytes, cut < 2 ? cut : 1);
            assert_int_equal(content.kind, BP_CONTENT_OTHER);
        }
    }
    unsigned char tar[512] = {"name"};
    memcpy(tar + 257, "ustar", 5);
    assert_non_null(strstr(bp_content_of(tar, sizeof tar).text, "tar"));
    static const char *const texts[] = {
        "Once upon a time", "{\"text\": 1}", "PA", "\xc3\xa9t\xc3\xa9", "\xef\xbb\xbfmarked", "",
        "RIFFing",          "Object"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bp_content content = bp_content_of((const unsigned char *)texts[i], strlen(texts[i]));
        assert_int_equal(content.kind, BP_CONTENT_OTHER);
    }
}

/* verifies formats-17.ac5c */
static void heads_of_safetensors_are_known(void **state)
{
    (void)state;
    /* A length that fits, a brace, and what may stand behind it. */
    static const struct {
        const char *bytes;
        bool is;
    } heads[] = {{"\2\0\0\0\0\0\0\0{}", true},
                 {"\x10\0\0\0\0\0\0\0{ \"", true},
                 {"\x10\0\0\0\0\0\0\0{x\"", false},
                 {"\x10\0\0\0\0\0\0\0[\"a", false},
                 {"\x10\0\0\0\1\0\0\0{\"a", false}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const bp_content content = bp_content_of((const unsigned char *)heads[i].bytes, 11);
        assert_int_equal(content.kind, heads[i].is ? BP_CONTENT_BINARY : BP_CONTENT_OTHER);
    }
}

/* verifies formats-17.ac5c */
static void formats_are_found_from_content(void **state)
{
    (void)state;
    assert_int_equal(bp_content_format(HEAD("{\"text\": \"a\"}\n")), BP_DATA_JSONL);
    assert_int_equal(bp_content_format(HEAD("\xef\xbb\xbf\n {  \"text\"")), BP_DATA_JSONL);
    assert_int_equal(bp_content_format(HEAD("[{\"text\"")), BP_DATA_JSONL);
    assert_int_equal(bp_content_format(HEAD(" [\n]")), BP_DATA_JSONL);
    assert_int_equal(bp_content_format(HEAD("[1] A. Author")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("{\\rtf1")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("label\ttext\n0\ta\n")), BP_DATA_TSV);
    assert_int_equal(bp_content_format(HEAD("text,\"labels\"\r\na,0\n")), BP_DATA_CSV);
    assert_int_equal(bp_content_format(HEAD("label\n")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("a label, a text\n")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("words\nlabel,text\n")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("words\na,label,b\n")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("{")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("{}")), BP_DATA_JSONL);
    assert_int_equal(bp_content_format(HEAD("\1{\"text\"")), BP_DATA_TEXT);
    assert_int_equal(bp_content_format(HEAD("\"label,text\n")), BP_DATA_TEXT);
}

/* What checking a file of this format says; "" for nothing. */
static const char *checked(const void *bytes, size_t size, bp_data_format format)
{
    memory_store memory;
    bp_data data;
    static bp_error error;
    bp_data_file file = {.path = "a.file"};
    memory_store_init(&memory);
    memory_store_put(&memory, "a.file", bytes, size);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_data_open(&data, &memory.store, &file, 1, format, &error), BP_OK);
    bp_status status = bp_content_check(&data);
    assert_int_equal(status, error.code);
    assert_true(status == BP_OK || status == BP_ERR_DATA);
    bp_data_close(&data);
    memory_store_free(&memory);
    return status == BP_OK ? "" : error.text;
}

/* verifies formats-17.ac5c */
static void what_is_no_text_is_refused(void **state)
{
    (void)state;
    static unsigned char text[30000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (unsigned char)"Sch\xc3\xb6ne \xe2\x82\xac, \xf0\x9f\x98\x80\n"[i % 18];
    }
    assert_string_equal(checked(text, sizeof text, BP_DATA_TEXT), "");
    text[29999] = 0;
    assert_non_null(strstr(checked(text, sizeof text, BP_DATA_TEXT), "NUL"));
    assert_string_equal(checked(text, sizeof text - 1, BP_DATA_TEXT), "");
    /* Some wrong bytes are no matter, most are: of 30,000 more than 3,000. */
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < 3000; i++) {
        text[10 * i] = 0xe4;
    }
    assert_string_equal(checked(text, sizeof text, BP_DATA_TEXT), "");
    text[5] = 0xe4;
    assert_non_null(strstr(checked(text, sizeof text, BP_DATA_TEXT), "UTF-8"));
    assert_string_equal(checked("", 0, BP_DATA_TEXT), "");
    /* Bytes that begin nothing, and characters that are broken off. */
    static const char *const wrong[] = {"\x80...",          "\xbf...",         "\xc1\x80..",
                                        "\xf5\x80\x80\x80", "\xe4\xc3..",      "\xe4\x7f..",
                                        "\xe0\x9f..",       "\xf4\x90..",      "\x80\x80..",
                                        "\xed\xa0\x80.",    "\xf0\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (size_t k = 0; k < 400; k++) {
            text[k] = (unsigned char)wrong[i][k % 4];
        }
        if (strstr(checked(text, 400, BP_DATA_TEXT), "UTF-8") == NULL) {
            fail_msg("%zu is taken", i);
        }
    }
    /* The first and last characters of each length, and those beside the surrogates. */
    static const char *const right[] = {"\xc2\x80..",       "\xdf\xbf..",      "\xe0\xa0\x80.",
                                        "\xed\x9f\xbf.",    "\xee\x80\x80.",   "\xef\xbf\xbf.",
                                        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        for (size_t k = 0; k < 400; k++) {
            text[k] = (unsigned char)right[i][k % 4];
        }
        assert_string_equal(checked(text, 400, BP_DATA_TEXT), "");
    }
    assert_non_null(strstr(checked("PAR1", 4, BP_DATA_TEXT), "Parquet"));
    assert_non_null(strstr(checked("PAR1", 4, BP_DATA_JSONL), "Parquet"));
    assert_non_null(strstr(checked("PAR1", 4, BP_DATA_CSV), "Parquet"));
    assert_non_null(strstr(checked("PAR1", 4, BP_DATA_TSV), "Parquet"));
    assert_string_equal(checked("", 0, BP_DATA_JSONL), "");
    assert_string_equal(checked("PAR1", 4, BP_DATA_NANOGPT), "");
    assert_string_equal(checked("PAR1", 4, BP_DATA_F32), "");
    assert_non_null(strstr(checked("\x1f\x8b\x08zz", 5, BP_DATA_TEXT), "packed twice"));
}

/* verifies formats-24.7573 */
static void a_failing_store_is_reported(void **state)
{
    (void)state;
    static const struct {
        fault_kind kind;
        size_t at;
    } faults[] = {{FAULT_FILE_SIZE, 1}, {FAULT_READ_AT, 1}, {FAULT_READ_AT, 2}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        memory_store memory;
        faulty_store faulty;
        bp_data data;
        bp_error error = {.code = BP_OK};
        bp_data_file file = {.path = "a.file"};
        memory_store_init(&memory);
        memory_store_put(&memory, "a.file", "a text", 6);
        faulty_store_init(&faulty, &memory.store);
        assert_int_equal(bp_data_open(&data, &faulty.store, &file, 1, BP_DATA_TEXT, &error), BP_OK);
        faulty_store_arm(&faulty, faults[i].kind, faults[i].at, false);
        assert_int_equal(bp_content_check(&data), BP_ERR_STORE);
        bp_data_close(&data);
        memory_store_free(&memory);
    }
}

/* verifies formats-17.ac5c */
static void names_promise_formats(void **state)
{
    (void)state;
    assert_int_equal(bp_data_format_of_name("a.jsonl"), BP_DATA_JSONL);
    assert_int_equal(bp_data_format_of_name("a.jsonl.gz"), BP_DATA_JSONL);
    assert_int_equal(bp_data_format_of_name("a.csv.zst"), BP_DATA_CSV);
    assert_int_equal(bp_data_format_of_name("a.tsv.gzip"), BP_DATA_TSV);
    assert_int_equal(bp_data_format_of_name("a.bin.zstd"), BP_DATA_NANOGPT);
    assert_int_equal(bp_data_format_of_name("jsonl.gz"), BP_DATA_TEXT);
    assert_int_equal(bp_data_format_of_name(".gz"), BP_DATA_TEXT);
    assert_int_equal(bp_data_packed_ending("a.jsonl.gz"), 3);
    assert_int_equal(bp_data_packed_ending("a.jsonl"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magic_numbers_are_known),
        cmocka_unit_test(heads_of_safetensors_are_known),
        cmocka_unit_test(formats_are_found_from_content),
        cmocka_unit_test(what_is_no_text_is_refused),
        cmocka_unit_test(a_failing_store_is_reported),
        cmocka_unit_test(names_promise_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
