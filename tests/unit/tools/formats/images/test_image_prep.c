/* SPDX-License-Identifier: MIT */
/* preprocessor_config.json: what each key says of an image's sizes and numbers, and what is
 * refused. Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/images/image_prep.h"

#define FILE_NAME "preprocessor_config.json"
#define MEANS     "'image_mean':[0.5,0.25,0.125],'image_std':[0.5,0.25,0.125]"

static uint64_t scratch[BP_IMAGE_PREP_SCRATCH / 8];

static void put_document(memory_store *memory, const char *text)
{
    char json[1024];
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    memory_store_put(memory, FILE_NAME, json, length);
}

static bp_status read_document(const char *text, bp_image_prep *prep, bp_error *error)
{
    memory_store memory;
    memory_store_init(&memory);
    put_document(&memory, text);
    *error = (bp_error){.code = BP_OK};
    const bp_status status = bp_image_prep_read(prep, &memory.store, FILE_NAME, scratch, error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

static const struct {
    const char *document;
    uint64_t to[2], cut[2];
} sizes[] = {
    {"{" MEANS "}", {600, 400}, {600, 400}},
    {"{'size':null,'crop_size':null," MEANS "}", {600, 400}, {600, 400}},
    {"{'size':224," MEANS "}", {224, 224}, {224, 224}},
    {"{'size':{'height':100,'width':50}," MEANS "}", {100, 50}, {100, 50}},
    {"{'size':{'shortest_edge':200}," MEANS "}", {300, 200}, {300, 200}},
    {"{'do_resize':false,'size':224," MEANS "}", {600, 400}, {600, 400}},
    {"{'do_resize':null,'size':224," MEANS "}", {224, 224}, {224, 224}},
    {"{'do_resize':true,'size':{'shortest_edge':256},'do_center_crop':true,'crop_size':224,"
     "" MEANS "}",
     {384, 256},
     {224, 224}},
    {"{'do_center_crop':true,'crop_size':{'height':20,'width':10}," MEANS "}",
     {600, 400},
     {20, 10}},
    {"{'do_center_crop':false,'crop_size':224,'size':30," MEANS "}", {30, 30}, {30, 30}},
    {"{'crop_size':{'shortest_edge':7},'size':30,'do_center_crop':true," MEANS "}",
     {30, 30},
     {7, 7}},
    /* ConvNext's: below 384 the shorter side is larger and its middle stays, from there on the
     * image is warped. */
    {"{'crop_pct':0.875,'size':{'shortest_edge':224}," MEANS "}", {384, 256}, {224, 224}},
    {"{'crop_pct':0.875,'size':224," MEANS "}", {384, 256}, {224, 224}},
    {"{'crop_pct':null,'size':224," MEANS "}", {224, 224}, {224, 224}},
    {"{'crop_pct':0.875,'size':{'shortest_edge':384}," MEANS "}", {384, 384}, {384, 384}},
    {"{'crop_pct':0.5,'do_resize':false,'size':{'shortest_edge':224}," MEANS "}",
     {600, 400},
     {600, 400}},
    {"{'image_processor_type':'ConvNextImageProcessor','size':{'shortest_edge':224}," MEANS "}",
     {384, 256},
     {224, 224}},
    {"{'crop_pct':1.0,'feature_extractor_type':'ConvNextFeatureExtractor','size':224,"
     "" MEANS "}",
     {336, 224},
     {224, 224}},
    {"{'feature_extractor_type':'ViTFeatureExtractor','size':224," MEANS "}",
     {224, 224},
     {224, 224}},
    {"{'image_processor_type':null,'other':{'a':[1,2]},'resample':3,'size':224," MEANS "}",
     {224, 224},
     {224, 224}},
};

/* An image of 600 x 400 under each document: what it is resized to, what is cut out. */
/* verifies formats-52.a562 */
static void sizes_are_those_of_the_file(void **state)
{
    (void)state;
    static const uint64_t from[2] = {600, 400}, lying[2] = {400, 600};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bp_image_prep prep;
        bp_error error;
        uint64_t to[2], cut[2];
        if (read_document(sizes[i].document, &prep, &error) != BP_OK) {
            fail_msg("%s: %s: %s", sizes[i].document, error.name, error.text);
        }
        bp_image_prep_sizes(&prep, from, to, cut);
        if (memcmp(to, sizes[i].to, sizeof to) != 0 || memcmp(cut, sizes[i].cut, sizeof cut) != 0) {
            fail_msg("%s: %d x %d, of it %d x %d", sizes[i].document, (int)to[0], (int)to[1],
                     (int)cut[0], (int)cut[1]);
        }
        /* Lying down, what follows the shorter side lies down too. */
        bp_image_prep_sizes(&prep, lying, to, cut);
        const bool follows = sizes[i].to[0] * 2 == sizes[i].to[1] * 3;
        assert_int_equal(to[0], sizes[i].to[follows ? 1 : 0]);
        assert_int_equal(to[1], sizes[i].to[follows ? 0 : 1]);
    }
}

/* verifies formats-52.a562 */
static void other_values_are_refused_by_key(void **state)
{
    (void)state;
    static const struct {
        const char *members, *key, *text;
    } rows[] = {
        {"'size':0", "size", "whole number from 1 to 16384"},
        {"'size':16385", "size", "whole number from 1 to 16384"},
        {"'size':1.5", "size", "whole number from 1 to 16384"},
        {"'size':'224'", "size", "whole number from 1 to 16384"},
        {"'size':{'height':[1]}", "size", "whole number from 1 to 16384"},
        {"'size':{}", "size", "height and width, or shortest_edge"},
        {"'size':{'height':5}", "size", "height and width, or shortest_edge"},
        {"'size':{'longest_edge':5}", "size", "height and width, or shortest_edge"},
        {"'size':{'height':5,'width':5,'shortest_edge':5}", "size", "height and width, or"},
        {"'crop_size':{'width':5,'shortest_edge':5}", "crop_size", "height and width, or"},
        {"'image_mean':0.5", "image_mean", "list of three numbers, or of one"},
        {"'image_mean':[]", "image_mean", "list of three numbers, or of one"},
        {"'image_mean':[0,0]", "image_mean", "list of three numbers, or of one"},
        {"'image_mean':[0,0,0,0]", "image_mean", "list of three numbers, or of one"},
        {"'image_mean':[0,'0',0]", "image_mean", "list of three numbers, or of one"},
        {"'image_mean':[0,0,1e6]", "image_mean", "list of three numbers, or of one"},
        {"'image_std':[-1e6,0,0]", "image_std", "list of three numbers, or of one"},
        {"'image_std':[1,1,0]", "image_std", "normalising needs"},
        {"'image_mean':[0.5]", "image_std", "normalising needs"},
        {"'do_resize':1", "do_resize", "true or false"},
        {"'do_normalize':'no'", "do_normalize", "true or false"},
        {"'rescale_factor':0", "rescale_factor", "a number above 0"},
        {"'rescale_factor':255.5", "rescale_factor", "a number above 0"},
        {"'rescale_factor':'1'", "rescale_factor", "a number above 0"},
        {"'resample':0", "resample", "2 (bilinear) or 3 (bicubic)"},
        {"'resample':2.5", "resample", "2 (bilinear) or 3 (bicubic)"},
        {"'resample':null", "resample", "2 (bilinear) or 3 (bicubic)"},
        {"'crop_pct':0.005,'size':224," MEANS, "crop_pct", "from 0.01 to 1"},
        {"'crop_pct':1.5,'size':224," MEANS, "crop_pct", "from 0.01 to 1"},
        {"'crop_pct':0.9,'size':{'height':9,'width':9}," MEANS, "size", "with crop_pct"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char document[256] = "{";
        bp_image_prep prep;
        bp_error error;
        strcat(strcat(document, rows[i].members), "}");
        assert_int_equal(read_document(document, &prep, &error), BP_ERR_DATA);
        if (strstr(error.name, FILE_NAME) == NULL || strstr(error.name, rows[i].key) == NULL ||
            strstr(error.text, rows[i].text) == NULL) {
            fail_msg("%s: %s: %s", document, error.name, error.text);
        }
    }
}

/* Nothing of a cut document is taken for a whole one. */
/* verifies formats-52.a562 */
static void cut_documents_are_refused(void **state)
{
    (void)state;
    static const char whole[] =
        "{'size':{'height':3,'width':4},'image_mean':[0,0,0],'image_std':[1,1,1],'do_resize':true,"
        "'resample':2,'rescale_factor':0.5,'crop_pct':null,'image_processor_type':'ConvNext'}";
    char document[sizeof whole];
    bp_image_prep prep;
    bp_error error;
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        memcpy(document, whole, length);
        document[length] = '\0';
        assert_int_equal(read_document(document, &prep, &error), BP_ERR_DATA);
    }
    assert_int_equal(read_document("[]", &prep, &error), BP_ERR_DATA);
    assert_non_null(strstr(error.text, "one JSON object"));
}

/* verifies formats-24.7573 */
static void a_failing_store_is_reported(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        memory_store memory;
        faulty_store faulty;
        bp_image_prep prep;
        bp_error error = {.code = BP_OK};
        memory_store_init(&memory);
        put_document(&memory, "{" MEANS "}");
        faulty_store_init(&faulty, &memory.store);
        faulty_store_arm(&faulty, kinds[i], 1, false);
        assert_int_equal(bp_image_prep_read(&prep, &faulty.store, FILE_NAME, scratch, &error),
                         BP_ERR_STORE);
        assert_int_equal(memory.open_files, 0);
        memory_store_free(&memory);
    }
}

/* verifies formats-52.a562 */
static void bytes_become_numbers(void **state)
{
    (void)state;
    bp_image_prep prep;
    bp_error error;
    assert_true(bp_image_prep_number(NULL, 51, 0) == 51.0f / 255.0f);
    memset(&prep, 0, sizeof prep);
    assert_true(bp_image_prep_number(&prep, 51, 0) == 51.0f / 255.0f);
    assert_int_equal(read_document("{'rescale_factor':0.5," MEANS "}", &prep, &error), BP_OK);
    assert_true(bp_image_prep_number(&prep, 9, 1) == (4.5f - 0.25f) / 0.25f);
    assert_int_equal(
        read_document("{'do_rescale':false,'image_mean':[2],'image_std':[4]}", &prep, &error),
        BP_OK);
    assert_true(bp_image_prep_number(&prep, 10, 2) == 2.0f);
    assert_int_equal(read_document("{'do_normalize':false,'rescale_factor':null}", &prep, &error),
                     BP_OK);
    assert_true(bp_image_prep_number(&prep, 51, 2) == (float)(51.0 * (1.0 / 255.0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_those_of_the_file),
                                       cmocka_unit_test(other_values_are_refused_by_key),
                                       cmocka_unit_test(cut_documents_are_refused),
                                       cmocka_unit_test(a_failing_store_is_reported),
                                       cmocka_unit_test(bytes_become_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
