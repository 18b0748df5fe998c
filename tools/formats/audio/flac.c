/* SPDX-License-Identifier: MIT */
/* FLAC files. The format: RFC 9639. */
#include "tools/formats/audio/flac.h"

#include <string.h>

#include "core/base/storage.h"

static const char where[] = "speech";

enum { FLAC_MAGIC = 4, FLAC_HEAD = FLAC_MAGIC + 4 + 34, FLAC_CHANNELS_MOST = 8 };

static bp_status flac_refuse(const bp_flac *flac, const char *text, bp_error *error)
{
    return bp_error_set(error, BP_ERR_DATA, where, text, flac->path);
}

static bp_status flac_bytes_at(const bp_flac *flac, uint64_t at, void *to, size_t bytes,
                               bp_error *error)
{
    return flac->store->read_at(flac->store, flac->file, at, to, bytes) == BP_OK
               ? BP_OK
               : bp_storage_failed(error, flac->store, "read", flac->path);
}

/* ---- The head ---- */

/* STREAMINFO, which is the first block of each file: 16 + 16 + 24 + 24 bits of sizes, 20 of the
 * rate, 3 of channels - 1, 5 of bits - 1, 36 of samples, an MD5. */
static bp_status flac_stream(bp_flac *flac, const unsigned char head[FLAC_HEAD], bp_error *error)
{
    const unsigned char *info = head + FLAC_MAGIC + 4;
    if ((head[FLAC_MAGIC] & 0x7f) != 0 || head[5] != 0 || head[6] != 0 || head[7] != 34) {
        return flac_refuse(flac, "the FLAC file does not begin with what its samples are", error);
    }
    flac->rate = (uint32_t)info[10] << 12 | (uint32_t)info[11] << 4 | (uint32_t)info[12] >> 4;
    flac->channels = (info[12] >> 1 & 7u) + 1;
    flac->bits = ((info[12] & 1u) << 4 | (uint32_t)info[13] >> 4) + 1;
    flac->frames = (uint64_t)(info[13] & 15u) << 32 | (uint64_t)info[14] << 24 |
                   (uint64_t)info[15] << 16 | (uint64_t)info[16] << 8 | info[17];
    if (flac->rate == 0) {
        return bp_error_limit(error, BP_ERR_DATA, where, "the sound has no rate that can be",
                              flac->path, 0, BP_LIMIT_LEAST, 1);
    }
    return flac->bits >= 4 ? BP_OK
                           : bp_error_limit(error, BP_ERR_DATA, where,
                                            "the FLAC file's samples have too few bits", flac->path,
                                            flac->bits, BP_LIMIT_LEAST, 4);
}

/* Passes over the blocks before the samples: a bit that says it is the last, 7 of its kind, 24 of
 * its bytes. */
static bp_status flac_find_samples(bp_flac *flac, bp_error *error)
{
    uint64_t at = FLAC_MAGIC;
    for (bool last = false; !last;) {
        unsigned char block[4];
        if (flac->size - at < sizeof block) {
            return flac_refuse(flac, "the FLAC file ends before its samples", error);
        }
        BP_TRY(flac_bytes_at(flac, at, block, sizeof block, error));
        const uint64_t bytes = (uint64_t)block[1] << 16 | (uint64_t)block[2] << 8 | block[3];
        at += sizeof block;
        last = (block[0] & 0x80) != 0;
        if (bytes > flac->size - at) {
            return bp_error_limit(error, BP_ERR_DATA, where,
                                  "the FLAC file ends inside a block before its samples, which "
                                  "begins at byte",
                                  flac->path, bp_size_signed(at - sizeof block), BP_LIMIT_NONE, 0);
        }
        at += bytes;
    }
    flac->begin = at;
    return BP_OK;
}

static bp_status flac_head(bp_flac *flac, bool *is, bp_error *error)
{
    unsigned char head[FLAC_HEAD] = {0};
    if (flac->store->file_size(flac->store, flac->file, &flac->size) != BP_OK) {
        return bp_storage_failed(error, flac->store, "size", flac->path);
    }
    if (flac->size < FLAC_MAGIC) {
        return BP_OK;
    }
    BP_TRY(flac_bytes_at(flac, 0, head,
                         flac->size < FLAC_HEAD ? (size_t)flac->size : (size_t)FLAC_HEAD, error));
    if (memcmp(head, "fLaC", FLAC_MAGIC) != 0) {
        return BP_OK;
    }
    if (flac->size < FLAC_HEAD) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "the FLAC file ends inside its head: bytes", flac->path,
                              bp_size_signed(flac->size), BP_LIMIT_LEAST, FLAC_HEAD);
    }
    *is = true;
    BP_TRY(flac_stream(flac, head, error));
    return flac_find_samples(flac, error);
}

bp_status bp_flac_open(bp_flac *flac, bp_store *store, const char *path, bool *is, bp_error *error)
{
    bool there = false;
    *is = false;
    *flac = (bp_flac){.store = store, .path = path};
    BP_TRY(bp_storage_exists(store, path, &there, error));
    if (!there) {
        return BP_OK;
    }
    if (store->open_read(store, path, &flac->file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    const bp_status status = flac_head(flac, is, error);
    if (status != BP_OK || !*is) {
        bp_flac_close(flac);
    }
    return status;
}

void bp_flac_close(bp_flac *flac)
{
    if (flac->file.handle != 0) {
        const bp_status closed = flac->store->close(flac->store, flac->file);
        (void)closed; /* it was only read */
        flac->file.handle = 0;
    }
}

/* ---- Samples ---- */

bp_status bp_flac_bytes(bp_flac_pass *pass, void *to, size_t *count)
{
    const uint64_t left = pass->flac->size - pass->next;
    *count = *count < left ? *count : (size_t)left;
    if (*count > 0) {
        pass->status = flac_bytes_at(pass->flac, pass->next, to, *count, pass->error);
        BP_TRY(pass->status);
        pass->next += *count;
    }
    return BP_OK;
}

bp_status bp_flac_damaged(bp_flac_pass *pass, const char *text)
{
    pass->status = bp_error_limit(pass->error, BP_ERR_DATA, where, text, pass->flac->path,
                                  bp_size_signed(pass->behind), BP_LIMIT_NONE, 0);
    return pass->status;
}

bp_status bp_flac_take(bp_flac_pass *pass, const bp_flac_block *block,
                       const int32_t *const *channel)
{
    const bp_flac *flac = pass->flac;
    const double scale = (double)((uint64_t)1 << (flac->bits - 1));
    if (block->channels != flac->channels || block->bits != flac->bits ||
        block->rate != flac->rate || block->channels > FLAC_CHANNELS_MOST) {
        return bp_flac_damaged(pass, "a block of the FLAC file has another rate, or other channels "
                                     "or bits, than its head; it begins at byte");
    }
    if (block->count > pass->most - pass->done) {
        if (pass->to == NULL) { /* enough was counted */
            pass->done = pass->most + 1;
            return BP_OK;
        }
        return bp_flac_damaged(pass, "the FLAC file has more samples than its head announces; what "
                                     "is beyond begins in the block at byte");
    }
    for (uint64_t i = 0; pass->to != NULL && i < block->count; i++) {
        double sum = 0.0;
        for (uint32_t c = 0; c < block->channels; c++) {
            sum += (double)channel[c][i] / scale;
        }
        pass->to[pass->done + i] = (float)(block->channels > 1 ? sum / block->channels : sum);
    }
    pass->done += block->count;
    pass->behind = block->behind > 0 ? block->behind : pass->behind;
    return BP_OK;
}

bp_status bp_flac_count(bp_flac *flac, bp_flac_library *library, uint64_t most, bp_error *error)
{
    bp_flac_pass pass = {.flac = flac, .behind = flac->begin, .most = most, .error = error};
    BP_TRY(library->run(library, &pass));
    flac->frames = pass.done;
    return pass.done > 0 ? BP_OK : flac_refuse(flac, "the sound has no sample", error);
}

bp_status bp_flac_read(const bp_flac *flac, bp_flac_library *library, float *to, bp_error *error)
{
    bp_flac_pass pass = {
        .flac = flac, .behind = flac->begin, .to = to, .most = flac->frames, .error = error};
    BP_TRY(library->run(library, &pass));
    return pass.done == flac->frames
               ? BP_OK
               : bp_error_limit(error, BP_ERR_DATA, where,
                                "the FLAC file ends before the samples that its head announces: "
                                "samples",
                                flac->path, bp_size_signed(pass.done), BP_LIMIT_LEAST,
                                bp_size_signed(flac->frames));
}
