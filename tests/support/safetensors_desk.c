/* SPDX-License-Identifier: MIT */
/* The safetensors desk. */
#include "tests/support/safetensors_desk.h"

#include <stdlib.h>
#include <string.h>

int safetensors_set_up(void **state)
{
    safetensors_desk *d = calloc(1, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    *state = d;
    return 0;
}

int safetensors_tear_down(void **state)
{
    safetensors_desk *d = *state;
    size_t open_files = d->memory.open_files;
    memory_store_free(&d->memory);
    free(d);
    return open_files == 0 ? 0 : 1;
}

/* Puts a file that claims `claimed` header bytes, has this header, and `data` zero bytes. */
void safetensors_put(safetensors_desk *d, uint64_t claimed, const char *header, size_t length,
                     size_t data)
{
    unsigned char *bytes = calloc(1, 8 + length + data);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(claimed >> (8 * i));
    }
    memcpy(bytes + 8, header, length);
    memory_store_put(&d->memory, "f", bytes, 8 + length + data);
    free(bytes);
}

bp_status safetensors_open(safetensors_desk *d, size_t scratch)
{
    d->error = (bp_error){.code = BP_OK};
    return bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + 1, scratch - 1,
                               &d->error);
}

bp_status safetensors_open_header(safetensors_desk *d, const char *header, size_t data)
{
    safetensors_put(d, strlen(header), header, strlen(header), data);
    return safetensors_open(d, SCRATCH);
}
