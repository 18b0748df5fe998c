/* SPDX-License-Identifier: MIT */
/* A store with one file "f", and everything that opening it needs. */
#ifndef BP_TESTS_SUPPORT_SAFETENSORS_DESK_H
#define BP_TESTS_SUPPORT_SAFETENSORS_DESK_H

#include "core/file/safetensors.h"
#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"

enum { SCRATCH = 65536 };

typedef struct safetensors_desk {
    memory_store memory;
    faulty_store faulty;
    bp_safetensors file;
    bp_error error;
    unsigned char scratch[SCRATCH];
} safetensors_desk;

/* For cmocka: makes *state a desk; takes it down again, which fails when a file was left open. */
int safetensors_set_up(void **state);
int safetensors_tear_down(void **state);

/* Puts a file that claims `claimed` header bytes, has this header, and `data` zero bytes. */
void safetensors_put(safetensors_desk *d, uint64_t claimed, const char *header, size_t length,
                     size_t data);

/* Opens it with a fresh error and `scratch` bytes, not aligned. */
bp_status safetensors_open(safetensors_desk *d, size_t scratch);

/* Both, with a true claim and all of the scratch. */
bp_status safetensors_open_header(safetensors_desk *d, const char *header, size_t data);

#endif
