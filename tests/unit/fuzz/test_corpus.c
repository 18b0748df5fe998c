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
#include <stdbool.h>
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
#define LLVMFuzzerTestOneInput fuzz_image_prep
#include "tests/fuzz/fuzz_image_prep.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_jinja
#include "tests/fuzz/fuzz_jinja.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_npy
#include "tests/fuzz/fuzz_npy.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pnm
#include "tests/fuzz/fuzz_pnm.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_unpack
#include "tests/fuzz/fuzz_unpack.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_words
#include "tests/fuzz/fuzz_words.c"
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

static void run_corpus(fuzz_target target, const char *folder, size_t least)
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
    assert_true(count >= least);
}

/* verifies formats-19.1559 */
static void json_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_json, "tests/fuzz/corpus/json", 10);
}

/* verifies file-5.585f */
static void safetensors_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_safetensors, "tests/fuzz/corpus/safetensors", 10);
}

/* verifies formats-19.1559 */
static void documents_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_documents, "tests/fuzz/corpus/documents", 10);
}

/* verifies formats-19.1559 */
static void gguf_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_gguf, "tests/fuzz/corpus/gguf", 10);
}

/* verifies formats-19.1559 */
static void llmc_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_llmc, "tests/fuzz/corpus/llmc", 10);
}

/* verifies formats-19.1559 */
static void index_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_index, "tests/fuzz/corpus/index", 10);
}

/* verifies formats-19.1559 */
static void config_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_config, "tests/fuzz/corpus/config", 10);
}

/* verifies formats-19.1559 */
static void adapter_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_adapter, "tests/fuzz/corpus/adapter", 10);
}

/* verifies formats-19.1559 */
static void tokenizer_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_tokenizer, "tests/fuzz/corpus/tokenizer", 10);
}

/* verifies formats-19.1559 */
static void teacher_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_teacher, "tests/fuzz/corpus/teacher", 10);
}

static void image_prep_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_image_prep, "tests/fuzz/corpus/image_prep", 9);
}

static void jinja_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_jinja, "tests/fuzz/corpus/jinja", 10);
}

static void npy_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_npy, "tests/fuzz/corpus/npy", 8);
}

static void pnm_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_pnm, "tests/fuzz/corpus/pnm", 5);
}

static void unpack_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_unpack, "tests/fuzz/corpus/unpack", 4);
}

static void words_corpus(void **state)
{
    (void)state;
    run_corpus(fuzz_words, "tests/fuzz/corpus/words", 6);
}

static void every_corpus_is_run(void **state);

static const struct CMUnitTest corpora[] = {
    cmocka_unit_test(json_corpus),         cmocka_unit_test(safetensors_corpus),
    cmocka_unit_test(documents_corpus),    cmocka_unit_test(gguf_corpus),
    cmocka_unit_test(llmc_corpus),         cmocka_unit_test(index_corpus),
    cmocka_unit_test(config_corpus),       cmocka_unit_test(adapter_corpus),
    cmocka_unit_test(tokenizer_corpus),    cmocka_unit_test(teacher_corpus),
    cmocka_unit_test(image_prep_corpus),   cmocka_unit_test(jinja_corpus),
    cmocka_unit_test(npy_corpus),          cmocka_unit_test(pnm_corpus),
    cmocka_unit_test(unpack_corpus),       cmocka_unit_test(words_corpus),
    cmocka_unit_test(every_corpus_is_run),
};

/* A corpus that no case above replays would be looked at by the fuzz targets alone. */
static void every_corpus_is_run(void **state)
{
    (void)state;
    DIR *directory = opendir("tests/fuzz/corpus");
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        bool found = entry->d_name[0] == '.';
        for (size_t i = 0; !found && i < sizeof corpora / sizeof corpora[0]; i++) {
            const size_t length = strlen(entry->d_name);
            found = strncmp(corpora[i].name, entry->d_name, length) == 0 &&
                    strcmp(corpora[i].name + length, "_corpus") == 0;
        }
        if (!found) {
            fail_msg("no case replays tests/fuzz/corpus/%s", entry->d_name);
        }
    }
    closedir(directory);
}

int main(void)
{
    return cmocka_run_group_tests(corpora, NULL, NULL);
}
