/* SPDX-License-Identifier: MIT */
/* The JSON reader on the parsing cases of JSONTestSuite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

#define CASES "tests/fixtures/json/parsing.cases"

enum { DOCUMENT = 1 << 18, TEXT = 256 };

/* A document that is given in pieces of a fixed size. */
typedef struct case_pieces {
    const unsigned char *bytes;
    size_t left, piece;
} case_pieces;

static bp_status case_fill(void *user, const unsigned char **bytes, size_t *count)
{
    case_pieces *p = user;
    *bytes = p->bytes;
    *count = p->left < p->piece ? p->left : p->piece;
    p->bytes += *count;
    p->left -= *count;
    return BP_OK;
}

/* The status at the end of a document; without a set of keys one may stand twice. */
static bp_status case_read(const unsigned char *bytes, size_t length, size_t piece, bool keyed)
{
    char text[TEXT];
    uint64_t keys[160]; /* of 64, which may be open at once */
    case_pieces pieces = {bytes, length, piece};
    const bp_json_source source = {case_fill, &pieces, DOCUMENT};
    const bp_json_memory memory = {text, sizeof text, keyed ? keys : NULL, keyed ? sizeof keys : 0,
                                   BP_JSON_DEPTH_MAX};
    bp_json json;
    bp_json_event event = {.kind = BP_JSON_NULL};
    bp_status status = bp_json_init(&json, &source, &memory, NULL);
    while (status == BP_OK && event.kind != BP_JSON_END) {
        status = bp_json_next(&json, &event);
    }
    return status;
}

/* A document's bytes as the file writes them: \xHH, \*N(TEXT), and all else for itself. */
static size_t case_bytes(const char *from, unsigned char *to)
{
    size_t used = 0;
    while (*from != '\n') {
        char *end;
        if (*from != '\\') {
            to[used++] = (unsigned char)*from++;
        } else if (from[1] == 'x') {
            const char digits[3] = {from[2], from[3], '\0'};
            to[used++] = (unsigned char)strtoul(digits, &end, 16);
            assert_true(end == digits + 2);
            from += 4;
        } else {
            assert_int_equal(from[1], '*');
            const unsigned long times = strtoul(from + 2, &end, 10);
            const size_t length = strcspn(end + 1, ")");
            for (unsigned long i = 0; i < times; i++, used += length) {
                assert_true(used + length <= DOCUMENT);
                memcpy(to + used, end + 1, length);
            }
            from = end + 1 + length + 1;
        }
    }
    return used;
}

/* Whether a reading by any pieces comes to the outcome. */
static void case_check(const char *name, const unsigned char *bytes, size_t length, bool taken)
{
    static const size_t pieces[] = {DOCUMENT, 1, 7};
    const bool twice = strncmp(name, "y_object_duplicated_key", 23) == 0;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (int keyed = 0; keyed < 2; keyed++) {
            const bool right = taken && !(twice && keyed == 1);
            const bp_status status = case_read(bytes, length, pieces[i], keyed == 1);
            if (status != (right ? BP_OK : BP_ERR_DATA)) {
                fail_msg("%s, pieces of %zu, keys %d: status %d", name, pieces[i], keyed,
                         (int)status);
            }
        }
    }
}

/* verifies file-1.7ade file-2.efdf */
static void decides_each_case_as_documented(void **state)
{
    (void)state;
    static unsigned char bytes[DOCUMENT];
    char line[1024], name[128], outcome[16];
    int counts[3] = {0}, chosen = 0, at;
    FILE *file = fopen(CASES, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') {
            continue;
        }
        assert_int_equal(sscanf(line, "%127s\t%15s%n", name, outcome, &at), 2);
        const bool taken = strcmp(outcome, "taken") == 0;
        assert_true(taken || strcmp(outcome, "refused") == 0);
        const char *kind = strchr("yni", name[0]);
        assert_true(kind != NULL && (name[0] == 'i' || taken == (name[0] == 'y')));
        counts[kind[0] == 'y' ? 0 : kind[0] == 'n' ? 1 : 2]++;
        chosen += name[0] == 'i' && taken ? 1 : 0;
        assert_int_equal(line[at], '\t');
        case_check(name, bytes, case_bytes(line + at + 1, bytes), taken);
    }
    fclose(file);
    assert_int_equal(counts[0], 95);
    assert_int_equal(counts[1], 188);
    assert_int_equal(counts[2], 35);
    assert_int_equal(chosen, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decides_each_case_as_documented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
