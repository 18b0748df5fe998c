/* SPDX-License-Identifier: MIT */
/* libFuzzer target: packed files of any bytes; what is written lies behind what was written, and
 * never beyond the limit. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/files/unpack.h"

enum { MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static uint64_t written; /* to the only file there is */

static bp_status unpack_open(bp_store *store, const char *path, bp_file *file)
{
    (void)path;
    written = 0;
    file->handle = 2;
    ((one_file *)store->context)->open++;
    return BP_OK;
}

static bp_status unpack_write(bp_store *store, bp_file file, uint64_t offset, const void *from,
                              size_t count)
{
    (void)store;
    (void)from;
    if (file.handle != 2 || offset != written || count > MOST - written) {
        abort();
    }
    written += count;
    return BP_OK;
}

static bp_status unpack_remove(bp_store *store, const char *path)
{
    (void)store;
    (void)path;
    return BP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    bp_error error = {.code = BP_OK};
    store.open_write = unpack_open;
    store.write_at = unpack_write;
    store.remove = unpack_remove;
    bp_unpack work = {.store = &store,
                      .from = {1},
                      .name = "packed",
                      .to = "plain",
                      .most = MOST,
                      .error = &error};
    work.kind = bp_content_of(bytes, size).kind;
    if (work.kind != BP_CONTENT_GZIP && work.kind != BP_CONTENT_ZSTD) {
        return 0;
    }
    bp_status status = bp_unpack_measure(&work);
    if (status == BP_OK && work.bytes < (16u << 20)) {
        work.memory = malloc((size_t)work.bytes);
        status = bp_unpack_run(&work);
        free(work.memory);
    }
    if (status != error.code || one.open != 0 ||
        (status == BP_OK && work.bytes < (16u << 20) && work.written != written)) {
        abort();
    }
    return 0;
}
