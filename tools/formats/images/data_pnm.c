/* SPDX-License-Identifier: MIT */
/* netpbm's images, and who decodes others. The format: netpbm's ppm(5) and pgm(5). */
#include "tools/formats/images/data_pnm.h"

#include <string.h>

#include "core/base/storage.h"

#define SIDE_MOST 65536 /* of an image that is resized, before and after */

enum { BYTE_MOST = 255, NUMBER_MOST = 65535 };

static const char where[] = "image";
static const char no_size[] = "the image has no places, or is too large to be resized";

static bp_status pnm_refuse(const bp_pnm *pnm, const char *text)
{
    return bp_error_set(pnm->reader.error, BP_ERR_DATA, where, text, pnm->path);
}

static bp_status pnm_byte(bp_pnm *pnm, uint64_t at, uint8_t *byte)
{
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(&pnm->reader, at, &bytes, &count));
    if (count == 0) {
        return pnm_refuse(pnm, "the image ends too early");
    }
    *byte = *bytes;
    return BP_OK;
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* A number of the head, with the spaces and comments before it and the one space behind it. */
static bp_status head_number(bp_pnm *pnm, uint64_t *at, uint64_t *number)
{
    uint8_t byte = 0;
    uint32_t digits = 0;
    bool comment = false;
    *number = 0;
    for (;; ++*at) {
        BP_TRY(pnm_byte(pnm, *at, &byte));
        const bool digit = !comment && byte >= '0' && byte <= '9';
        if (*at >= BP_PNM_HEAD || digits > 6) {
            break;
        }
        if (digit) {
            *number = *number * 10 + (uint64_t)(byte - '0');
            digits++;
        } else if (digits > 0) {
            ++*at;
            return is_space(byte) ? BP_OK : pnm_refuse(pnm, "a size of the image is no number");
        } else if (comment || byte == '#') {
            comment = byte != '\n' && byte != '\r';
        } else if (!is_space(byte)) {
            break;
        }
    }
    return pnm_refuse(pnm, "a size of the image is no number");
}

static bp_status pnm_join(bp_pnm *pnm, const bp_data_reader *list, const char *name, size_t length)
{
    const char *slash = strrchr(list->path, '/');
    const bool whole = length > 0 && name[0] == '/';
    const size_t folder = whole || slash == NULL ? 0 : (size_t)(slash - list->path) + 1;
    if (length == 0 || memchr(name, '\0', length) != NULL || folder >= sizeof pnm->path ||
        length >= sizeof pnm->path - folder) {
        return bp_error_set(list->error, BP_ERR_DATA, where,
                            "the name of an image is empty or too long", list->path);
    }
    memcpy(pnm->path, list->path, folder);
    memcpy(pnm->path + folder, name, length);
    pnm->path[folder + length] = '\0';
    return BP_OK;
}

bp_status bp_pnm_open(bp_pnm *pnm, const bp_data_reader *list, const char *name, size_t length)
{
    bp_store *store = list->store;
    pnm->open = false;
    pnm->pixels = NULL;
    BP_TRY(pnm_join(pnm, list, name, length));
    pnm->reader = (bp_data_reader){.store = store,
                                   .path = pnm->path,
                                   .buffer = pnm->window,
                                   .capacity = sizeof pnm->window,
                                   .error = list->error};
    BP_TRY(bp_data_reader_open(&pnm->reader));
    pnm->open = true;
    return bp_data_reader_begin(&pnm->reader);
}

void bp_pnm_close(bp_pnm *pnm)
{
    if (pnm->open) {
        pnm->open = false;
        /* Nothing was written: a failing close loses nothing. */
        (void)pnm->reader.store->close(pnm->reader.store, pnm->reader.file);
    }
}

/* What its head says, and whether the file has the size for it. */
static bp_status pnm_head(bp_pnm *pnm, const uint8_t *magic)
{
    uint64_t at = 2;
    uint8_t byte = 0;
    if (magic[0] != 'P' || (magic[1] != '5' && magic[1] != '6')) {
        return pnm_refuse(pnm, "the file is no PPM or PGM image of bytes (P6, P5), PNG or JPEG, "
                               "which are what is read; other images: convert them, or make an "
                               "array (npy)");
    }
    pnm->size[2] = magic[1] == '6' ? 3 : 1;
    BP_TRY(head_number(pnm, &at, &pnm->size[1]));
    BP_TRY(head_number(pnm, &at, &pnm->size[0]));
    BP_TRY(head_number(pnm, &at, &pnm->most));
    if (pnm->most == 0 || pnm->most > NUMBER_MOST) {
        return bp_error_limit(pnm->reader.error, BP_ERR_DATA, where,
                              "the largest number of the image is from 1 to 65535", pnm->path,
                              bp_size_signed(pnm->most),
                              pnm->most == 0 ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
                              pnm->most == 0 ? 1 : NUMBER_MOST);
    }
    pnm->start = at;
    const uint64_t right =
        at + pnm->size[0] * pnm->size[1] * pnm->size[2] * (pnm->most > BYTE_MOST ? 2 : 1);
    bool more = pnm->reader.size > right + BP_PNM_HEAD;
    for (uint64_t i = right; !more && i < pnm->reader.size; i++) {
        BP_TRY(pnm_byte(pnm, i, &byte));
        more = !is_space(byte);
    }
    if (more || pnm->reader.size < right) {
        return bp_error_numbers(pnm->reader.error, BP_ERR_DATA, where,
                                "the file's size differs from its header; it is cut short "
                                "or damaged",
                                pnm->path, bp_size_signed(pnm->reader.size), bp_size_signed(right));
    }
    return BP_OK;
}

bp_status bp_pnm_begin(bp_pnm *pnm)
{
    uint8_t magic[4] = {0};
    for (uint32_t i = 0; i < 4 && i < pnm->reader.size; i++) {
        BP_TRY(pnm_byte(pnm, i, &magic[i]));
    }
    const bp_picture_kind kind = bp_picture_of(magic);
    if (kind == BP_PICTURE_OTHER || pnm->pictures == NULL) {
        return pnm_head(pnm, magic);
    }
    return pnm->pictures->read(pnm->pictures, kind, &pnm->reader, pnm->channels, &pnm->pixels,
                               pnm->size);
}

/* The middle (height, width) of the resized image, moved to its beginning. */
static void pnm_cut(unsigned char *pixels, const uint64_t from[2], const uint64_t cut[2],
                    uint64_t channels)
{
    const uint64_t top = (from[0] - cut[0]) / 2, left = (from[1] - cut[1]) / 2;
    for (uint64_t y = 0; y < cut[0]; y++) {
        memmove(pixels + y * cut[1] * channels, pixels + ((top + y) * from[1] + left) * channels,
                (size_t)(cut[1] * channels));
    }
}

bp_status bp_pnm_prepare(bp_pnm *pnm, const bp_image_prep *prep)
{
    uint64_t to[2], cut[2];
    const uint64_t channels = pnm->size[2], *from = pnm->size;
    const uint64_t numbers = bp_size_mul(bp_size_mul(from[0], from[1]), channels);
    /* Before sizes are asked for: they divide by the shorter one. */
    if (from[0] == 0 || from[1] == 0 || from[0] > SIDE_MOST || from[1] > SIDE_MOST) {
        return pnm_refuse(pnm, no_size);
    }
    bp_image_prep_sizes(prep, from, to, cut);
    if (cut[0] > to[0] || cut[1] > to[1]) {
        return pnm_refuse(pnm, "the image is smaller than what the model's "
                               "preprocessor_config.json cuts out");
    }
    if (to[0] > SIDE_MOST || to[1] > SIDE_MOST) {
        return pnm_refuse(pnm, no_size);
    }
    const uint64_t work = bp_image_resize_bytes(from, to, channels);
    unsigned char *memory = pnm->pictures->room(pnm->pictures, bp_size_add(work, numbers));
    if (memory == NULL) {
        return bp_error_set(pnm->reader.error, BP_ERR_FIT, where,
                            "there is no memory to resize the image", pnm->path);
    }
    for (uint64_t k = 0; k < numbers; k++) { /* behind what resizing works in */
        BP_TRY(bp_pnm_number(pnm, k, &memory[work + k]));
    }
    if (to[0] == from[0] && to[1] == from[1]) {
        memmove(memory, memory + work, (size_t)numbers);
    } else {
        bp_image_resize(memory + work, from, to, channels, (bp_resample)prep->resample, memory);
    }
    pnm_cut(memory, to, cut, channels);
    pnm->pixels = memory;
    pnm->size[0] = cut[0];
    pnm->size[1] = cut[1];
    return BP_OK;
}

/* The nearest of 0 .. 255; what is above the largest is that. */
static bp_status pnm_scaled(bp_pnm *pnm, uint64_t k, uint8_t *number)
{
    const bool two = pnm->most > BYTE_MOST;
    uint8_t high = 0, low = 0;
    if (two) {
        BP_TRY(pnm_byte(pnm, pnm->start + 2 * k, &high));
    }
    BP_TRY(pnm_byte(pnm, pnm->start + (two ? 2 * k + 1 : k), &low));
    const uint64_t found = (uint64_t)high << 8 | low;
    const uint64_t product = (found < pnm->most ? found : pnm->most) * BYTE_MOST;
    const uint64_t below = product / pnm->most, twice = 2 * (product % pnm->most);
    const bool up = twice > pnm->most || (twice == pnm->most && below % 2 == 1);
    *number = (uint8_t)(below + (up ? 1 : 0));
    return BP_OK;
}

bp_status bp_pnm_number(bp_pnm *pnm, uint64_t k, uint8_t *number)
{
    if (pnm->pixels != NULL) {
        *number = pnm->pixels[k];
        return BP_OK;
    }
    if (pnm->most == BYTE_MOST) {
        return pnm_byte(pnm, pnm->start + k, number);
    }
    return pnm_scaled(pnm, k, number);
}
