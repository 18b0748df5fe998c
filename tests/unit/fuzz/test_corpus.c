/* SPDX-License-Identifier: MIT */
/* The fuzz targets as plain tests: over their corpus, and over each file with bytes changed and
 * cut short (all of them in short files, a selection in longer ones). The targets abort when they
 * find something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_json
#include "tests/fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "tests/fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_documents
#include "tests/fuzz/fuzz_documents.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_gguf
#include "tests/fuzz/fuzz_gguf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_llmc
#include "tests/fuzz/fuzz_llmc.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_index
#include "tests/fuzz/fuzz_index.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_config
#include "tests/fuzz/fuzz_config.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_adapter
#include "tests/fuzz/fuzz_adapter.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_tokenizer
#include "tests/fuzz/fuzz_tokenizer.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_teacher
#include "tests/fuzz/fuzz_teacher.c"
#undef LLVMFuzzerTestOneInput

typedef int (*fuzz_target)(const uint8_t *bytes, size_t size);

enum { FILE_MAX = 4096 };

static void run_variants(fuzz_target target, uint8_t *bytes, size_t size)
{
    static const uint8_t changes[] = {0x01, 0x20, 0x80, 0xff};
    size_t stride = 1 + size / 128;
    for (size_t length = 0; length <= size; length += stride) {
        uint8_t *exact = malloc(length + 1); /* so that a sanitizer sees a read beyond the end */
        memcpy(exact, bytes, length);
        assert_int_equal(target(exact, length), 0);
        free(exact);
    }
    assert_int_equal(target(bytes, size), 0);
    for (size_t i = 0; i < 4 * size; i += stride) {
        bytes[i / 4] ^= changes[i % 4];
        assert_int_equal(target(bytes, size), 0);
        bytes[i / 4] ^= changes[i % 4];
    }
}

static void run_corpus(fuzz_target target, const char *folder)
{
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        fail_msg("%s is not there: the tests run from the root of the project", folder);
        return;
    }
    size_t count = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[512];
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        uint8_t bytes[FILE_MAX];
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        run_variants(target, bytes, size);
        count++;
    }
    closedir(directory);
    assert_true(count >= 10);
}

/* verifies formats-19.1559 */
static void json_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_json, "tests/fuzz/corpus/json");
}

/* verifies file-5.585f */
static void safetensors_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_safetensors, "tests/fuzz/corpus/safetensors");
}

/* verifies formats-19.1559 */
static void documents_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_documents, "tests/fuzz/corpus/documents");
}

/* verifies formats-19.1559 */
static void gguf_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_gguf, "tests/fuzz/corpus/gguf");
}

/* verifies formats-19.1559 */
static void llmc_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_llmc, "tests/fuzz/corpus/llmc");
}

/* verifies formats-19.1559 */
static void index_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_index, "tests/fuzz/corpus/index");
}

/* verifies formats-19.1559 */
static void config_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_config, "tests/fuzz/corpus/config");
}

/* verifies formats-19.1559 */
static void adapter_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_adapter, "tests/fuzz/corpus/adapter");
}

/* verifies formats-19.1559 */
static void tokenizer_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_tokenizer, "tests/fuzz/corpus/tokenizer");
}

/* verifies formats-19.1559 */
static void teacher_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_teacher, "tests/fuzz/corpus/teacher");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_corpus),      cmocka_unit_test(safetensors_corpus),
        cmocka_unit_test(documents_corpus), cmocka_unit_test(gguf_corpus),
        cmocka_unit_test(llmc_corpus),      cmocka_unit_test(index_corpus),
        cmocka_unit_test(config_corpus),    cmocka_unit_test(adapter_corpus),
        cmocka_unit_test(tokenizer_corpus), cmocka_unit_test(teacher_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
