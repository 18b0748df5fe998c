/* SPDX-License-Identifier: MIT */
/* Damaged programs: bytes, lines and numbers of the programs beside this file are changed, removed,
 * doubled and exchanged by a fixed generator; each text must be refused or loaded, and what loads
 * must run or be reported. Nothing may crash or hang: `make sanitize` watches. BP_TEST_LONG=1 makes
 * fifty times as many. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { BUFFERS = 8, PARAMETERS = 64, BUFFER_BYTES = 65536, ROUNDS = 20, LONG = 50 };

static const char *const words[] = {
    "0",
    "-1",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "0f7f800000",
    "%r1",
    "%p1",
    "{",
    "}",
    "[0]",
    ";",
    ".align 3",
    ".pred",
    ".b128",
    ".shared .b8 q[2000000000];",
    ".const .b8 q[70000];",
    ".global .b8 q[99999999999] = {1};",
    ".reg .b64 %z<1048576>;",
    ".local .b32 l[4] = {1};",
    "exit;",
    "bar.sync 99;",
    "call",
    "\"",
    "/*",
    "{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{"};

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static size_t line_start(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n') {
        at--;
    }
    return at;
}

/* Puts `length` bytes of `from` where `removed` bytes were. The text has room. */
static void splice(char *text, size_t at, size_t removed, const char *from, size_t length)
{
    memmove(text + at + length, text + at + removed, strlen(text + at + removed) + 1);
    memcpy(text + at, from, length);
}

static void damage(char *text, uint64_t *state)
{
    size_t size = strlen(text);
    size_t at = (size_t)(next(state) % (size + 1));
    size_t start = line_start(text, at);
    size_t line = strcspn(text + start, "\n") + 1;
    const char *word = words[next(state) % (sizeof words / sizeof words[0])];
    char copy[512];
    switch (next(state) % 6) {
    case 0:
        text[at] = (char)(next(state) % 256);
        break;
    case 1:
        splice(text, at, size - at < 9 ? size - at : 9, "", 0);
        break;
    case 2:
        splice(text, start, start + line > size ? size - start : line, "", 0);
        break;
    case 3:
        if (line < sizeof copy && start + line <= size) {
            memcpy(copy, text + start, line);
            splice(text, line_start(text, (size_t)(next(state) % size)), 0, copy, line);
        }
        break;
    case 4:
        splice(text, at, 0, word, strlen(word));
        break;
    default:
        at += strcspn(text + at, "0123456789");
        splice(text, at, strspn(text + at, "0123456789"), word, strlen(word));
        break;
    }
}

/* Loads the text and starts the kernel of that name, whatever comes of it. */
static void load(const char *text, const char *name, uint64_t *buffers, uint64_t *state)
{
    static unsigned char zeros[4352];
    void *module = NULL;
    void *function = NULL;
    void *parameters[PARAMETERS];
    if (cuModuleLoadData(&module, text) != 0) {
        return;
    }
    for (unsigned i = 0; i < PARAMETERS; i++) {
        parameters[i] = i < BUFFERS ? (void *)&buffers[i] : (void *)zeros;
    }
    if (cuModuleGetFunction(&function, module, name) == 0) {
        unsigned threads = 1 + (unsigned)(next(state) % 70);
        int result = cuLaunchKernel(function, 2, 1, 1, threads, 1, 1, 1024, NULL, parameters, NULL);
        result = result != 0 ? result : cuCtxSynchronize();
        if (result != 0) {
            ptxvmRevive();
        }
    }
    assert_int_equal(cuModuleUnload(module), 0);
}

static void damage_file(const char *path, uint64_t *buffers, uint64_t *state)
{
    char *text = run_read(path);
    assert_non_null(text);
    size_t size = strlen(text);
    char *copy = malloc(size + 8192);
    assert_non_null(copy);
    char name[100] = "k";
    const char *entry = strstr(text, ".entry ");
    if (entry != NULL) {
        assert_int_equal(sscanf(entry, ".entry %99[^( \n]", name), 1);
    }
    int rounds = getenv("BP_TEST_LONG") != NULL ? ROUNDS * LONG : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        memcpy(copy, text, size + 1);
        for (uint64_t times = 1 + next(state) % 4; times > 0 && copy[0] != '\0'; times--) {
            damage(copy, state);
        }
        load(copy, name, buffers, state);
    }
    free(copy);
    free(text);
}

static void test_damaged(void **state)
{
    uint64_t buffers[BUFFERS];
    uint64_t random = 2026;
    static unsigned char zeros[BUFFER_BYTES];
    (void)state;
    for (unsigned i = 0; i < BUFFERS; i++) {
        buffers[i] = run_upload(zeros, sizeof zeros);
    }
    static const char *const folders[] = {"tests/ptxvm/programs", "tests/ptxvm/compilers",
                                          "tests/ptxvm/nvcc"};
    for (unsigned f = 0; f < 3; f++) {
        DIR *open = opendir(folders[f]);
        assert_non_null(open);
        for (struct dirent *at = readdir(open); at != NULL; at = readdir(open)) {
            char path[400];
            size_t length = strlen(at->d_name);
            if (length > 4 && length < 200 && strcmp(at->d_name + length - 4, ".ptx") == 0) {
                snprintf(path, sizeof path, "%s/%s", folders[f], at->d_name);
                damage_file(path, buffers, &random);
            }
        }
        closedir(open);
    }
    for (unsigned i = 0; i < BUFFERS; i++) {
        assert_int_equal(cuMemFree_v2(buffers[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged)};
    ptxvmSet("PTXVM_DEVICE", "sm_120");
    ptxvmSet("PTXVM_DRIVER", "14000");
    ptxvmSet("PTXVM_BUDGET", "20000");
    ptxvmSet("PTXVM_PERMIT", "activemask");
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
