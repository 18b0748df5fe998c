/* SPDX-License-Identifier: MIT */
/* Reference data from safetensors files. */
#include "tests/support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

void golden_open(golden *g, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
        return;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    rewind(file);
    g->bytes = malloc(size);
    assert_non_null(g->bytes);
    assert_int_equal(fread(g->bytes, 1, size, file), size);
    fclose(file);
    uint64_t header = 0;
    memcpy(&header, g->bytes, sizeof header);
    g->data = sizeof header + (size_t)header;
    g->header = json_loadb((const char *)g->bytes + sizeof header, (size_t)header, 0, NULL);
    assert_non_null(g->header);
}

void golden_close(golden *g)
{
    json_decref(g->header);
    free(g->bytes);
}

bool golden_has(const golden *g, const char *name)
{
    return json_object_get(g->header, name) != NULL;
}

void *golden_tensor(const golden *g, const char *name, size_t *bytes)
{
    const json_t *entry = json_object_get(g->header, name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (offsets == NULL) {
        fail_msg("no tensor %s", name);
    }
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    *bytes = (size_t)json_integer_value(json_array_get(offsets, 1)) - begin;
    void *copy = malloc(*bytes);
    assert_non_null(copy);
    memcpy(copy, g->bytes + g->data + begin, *bytes);
    return copy;
}
