/* SPDX-License-Identifier: MIT */
/* Files of the repository by stdio. */
#include "tests/support/disk_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

unsigned char *disk_file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s is not there: the tests run from the root of the project", path);
        return NULL;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    *size = (size_t)length;
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void disk_file_put(memory_store *memory, const char *path, const char *name)
{
    size_t size;
    unsigned char *bytes = disk_file_read(path, &size);
    memory_store_put(memory, name, bytes, size);
    free(bytes);
}

void disk_file_compare(memory_store *memory, const char *name, const char *path)
{
    size_t wanted;
    size_t found;
    unsigned char *bytes = disk_file_read(path, &wanted);
    unsigned char *made = memory_store_bytes(memory, name, &found);
    assert_non_null(made);
    assert_int_equal(found, wanted);
    assert_memory_equal(made, bytes, wanted);
    free(bytes);
}
