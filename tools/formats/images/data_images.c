/* SPDX-License-Identifier: MIT */
/* CIFAR-10's and MNIST's files. */
#include "tools/formats/images/data_images.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/data/data_tokenise.h"

enum { CIFAR_SIDE = 32, CIFAR_PLANE = 1024, CIFAR_PIXELS = 3072, CIFAR_ROW = 3073 };
enum { IDX_BYTES = 8, IDX_SIZES_MOST = 4 };

static const char where[] = "images";

static bp_status image_byte(bp_data_reader *reader, uint64_t at, uint8_t *byte)
{
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(reader, at, &bytes, &count));
    if (count == 0) {
        return bp_data_refuse(reader, "the file changed while it was read");
    }
    *byte = *bytes;
    return BP_OK;
}

static bp_status image_refuse(const bp_images *images, const char *path, const char *text,
                              uint64_t found, uint64_t right)
{
    return bp_error_numbers(images->reader->error, BP_ERR_DATA, where, text, path,
                            bp_size_signed(found), bp_size_signed(right));
}

static bp_status cifar_begin(bp_images *images)
{
    const uint64_t size = images->reader->size, whole = size / CIFAR_ROW;
    if (images->inputs != CIFAR_PIXELS) {
        return image_refuse(images, images->reader->path,
                            "the file's images are 32 x 32 x 3, and the model's have another size",
                            CIFAR_PIXELS, images->inputs);
    }
    if (size == 0 || size % CIFAR_ROW != 0) {
        return image_refuse(images, images->reader->path,
                            "the file's size is no whole number of images of 3073 bytes; it is cut "
                            "short, or no CIFAR-10 binary",
                            size, whole > 0 ? whole * CIFAR_ROW : CIFAR_ROW);
    }
    images->count = whole;
    return BP_OK;
}

/* The head of an IDX file: *count items of *each bytes from *start on, in `sizes` sizes. */
static bp_status idx_head(bp_images *images, bp_data_reader *reader, uint64_t *count,
                          uint64_t *each, uint64_t *start, uint32_t *sizes)
{
    uint8_t head[4 + 4 * IDX_SIZES_MOST] = {0};
    for (uint32_t i = 0; i < 4 && i < reader->size; i++) {
        BP_TRY(image_byte(reader, i, &head[i]));
    }
    *sizes = head[3];
    *start = 4 + 4 * (uint64_t)*sizes;
    if (head[0] != 0 || head[1] != 0 || head[2] != IDX_BYTES || *sizes == 0 ||
        *sizes > IDX_SIZES_MOST || reader->size < *start) {
        return image_refuse(
            images, reader->path, "the file is no IDX file of bytes (its first word differs)",
            (uint64_t)head[0] << 24 | (uint64_t)head[1] << 16 | (uint64_t)head[2] << 8 | head[3],
            0x803);
    }
    *each = 1;
    for (uint32_t i = 0; i < *sizes; i++) {
        uint64_t size = 0;
        for (uint32_t k = 0; k < 4; k++) {
            BP_TRY(image_byte(reader, 4 + 4 * (uint64_t)i + k, &head[0]));
            size = size << 8 | head[0];
        }
        *count = i == 0 ? size : *count;
        *each = i == 0 ? 1 : bp_size_mul(*each, size);
    }
    const uint64_t right = bp_size_add(*start, bp_size_mul(*count, *each));
    if (reader->size != right) {
        return image_refuse(images, reader->path,
                            "the file's size differs from its header; it is cut short or "
                            "damaged",
                            reader->size, right);
    }
    return BP_OK;
}

/* Replaces the last `from` of a path by `to`, of the same length; whether there was one. */
static bool replace_last(char *path, const char *from, const char *to)
{
    char *found = NULL;
    for (char *at = path; (at = strstr(at, from)) != NULL; at++) {
        found = at;
    }
    if (found != NULL) {
        memcpy(found, to, strlen(to));
    }
    return found != NULL;
}

static bp_status labels_open(bp_images *images)
{
    bp_store *store = images->reader->store;
    if (strlen(images->path) >= sizeof images->labels_path) {
        return bp_error_set(images->reader->error, BP_ERR_DATA, where, "the path is too long",
                            images->path);
    }
    memcpy(images->labels_path, images->path, strlen(images->path) + 1);
    const bool named = replace_last(images->labels_path, "images", "labels") &&
                       (replace_last(images->labels_path, "idx3", "idx1") ||
                        replace_last(images->labels_path, "idx4", "idx1"));
    if (!named) {
        return bp_error_set(images->reader->error, BP_ERR_DATA, where,
                            "labels are looked for beside images-idx3 in labels-idx1, and the "
                            "file's name has no such part",
                            images->path);
    }
    images->labels = (bp_data_reader){.store = store,
                                      .path = images->labels_path,
                                      .buffer = images->window,
                                      .capacity = sizeof images->window,
                                      .error = images->reader->error};
    BP_TRY(bp_data_reader_open(&images->labels));
    images->open = true;
    return bp_data_reader_begin(&images->labels);
}

static bp_status idx_begin(bp_images *images)
{
    uint64_t each = 0, count = 0, one = 0, start = 0;
    uint32_t sizes = 0;
    BP_TRY(idx_head(images, images->reader, &images->count, &each, &images->start, &sizes));
    if (each != images->inputs || sizes < 2) {
        return image_refuse(images, images->reader->path,
                            "the file's images have another number of pixels than the model's",
                            each, images->inputs);
    }
    BP_TRY(labels_open(images));
    BP_TRY(idx_head(images, &images->labels, &count, &one, &start, &sizes));
    if (sizes != 1 || count != images->count) {
        return image_refuse(images, images->labels_path,
                            "there are labels for another number of images", count, images->count);
    }
    return BP_OK;
}

bp_status bp_images_begin(bp_images *images)
{
    return images->format == BP_DATA_CIFAR10 ? cifar_begin(images) : idx_begin(images);
}

void bp_images_end(bp_images *images)
{
    if (images->open) {
        images->open = false;
        /* Nothing was written: a failing close loses nothing. */
        (void)images->labels.store->close(images->labels.store, images->labels.file);
    }
}

bp_status bp_images_pixel(bp_images *images, uint64_t i, uint32_t k, uint8_t *pixel)
{
    uint64_t at = images->start + i * images->inputs + k;
    if (images->format == BP_DATA_CIFAR10) {
        at = i * CIFAR_ROW + 1 + k % 3 * CIFAR_PLANE + k / 3;
    }
    return image_byte(images->reader, at, pixel);
}

bp_status bp_images_label(bp_images *images, uint64_t i, uint8_t *label)
{
    return images->format == BP_DATA_CIFAR10 ? image_byte(images->reader, i * CIFAR_ROW, label)
                                             : image_byte(&images->labels, 8 + i, label);
}

bp_status bp_images_key(bp_images *images, bp_digest *key)
{
    uint64_t lines = 0;
    if (images->format == BP_DATA_CIFAR10) {
        return BP_OK;
    }
    bp_status status = labels_open(images);
    status = status == BP_OK ? bp_data_key_file(&images->labels, key, &lines) : status;
    bp_images_end(images);
    return status;
}
