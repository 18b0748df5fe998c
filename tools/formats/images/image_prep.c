/* SPDX-License-Identifier: MIT */
/* transformers' image_processing_backends.py and image_processing_pil_convnext.py. */
#include "tools/formats/images/image_prep.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/storage.h"

enum { READ_BYTES = 8192, TEXT_BYTES = 8192, KEYS_BYTES = 8192 };

/* Less of an image is no image; a resize would be of sizes beyond all bounds. */
#define CROP_LEAST 0.01

static const char where[] = "preprocessor_config.json";

/* What the file holds, before one value means by another. */
typedef struct prep_file {
    bp_json json;
    bp_image_prep *prep;
    bp_error *error;
    const char *path;
    bool resize, crop, rescale, normalise, square;
    uint32_t crop_size[3]; /* height, width, shortest */
    uint32_t size[3];
} prep_file;

static bp_status prep_refuse(const prep_file *f, const char *key, const char *text)
{
    const bp_status status = bp_error_set(f->error, BP_ERR_DATA, where, text, key);
    bp_error_prefix(f->error, f->path);
    return status;
}

static bp_status prep_whole(prep_file *f, const bp_json_event *event, const char *key, uint32_t *to)
{
    if (event->kind != BP_JSON_NUMBER || !event->integer || event->i64 < 1 ||
        event->i64 > BP_IMAGE_PREP_SIZE) {
        return prep_refuse(f, key, "a size is a whole number from 1 to 16384");
    }
    *to = (uint32_t)event->i64;
    return BP_OK;
}

/* {height, width}, {shortest_edge}, or a number: that of the shortest edge. */
static bp_status prep_size(prep_file *f, const char *key, uint32_t size[3])
{
    static const char *const names[3] = {"height", "width", "shortest_edge"};
    bp_json_event event;
    memset(size, 0, 3 * sizeof *size);
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return prep_whole(f, &event, key, &size[2]);
    }
    for (;;) {
        uint32_t which = 0;
        BP_TRY(bp_json_next(&f->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            f->square = false;
            return (size[0] != 0) == (size[1] != 0) && (size[0] != 0) != (size[2] != 0)
                       ? BP_OK
                       : prep_refuse(f, key, "a size is height and width, or shortest_edge");
        }
        while (which < 3 && strcmp(event.text, names[which]) != 0) {
            which++;
        }
        if (which == 3) {
            return prep_refuse(f, key, "a size is height and width, or shortest_edge");
        }
        BP_TRY(bp_json_next(&f->json, &event));
        BP_TRY(prep_whole(f, &event, key, &size[which]));
    }
}

static bp_status prep_reals(prep_file *f, const char *key, double *to)
{
    bp_json_event event;
    uint32_t count = 0;
    BP_TRY(bp_json_next(&f->json, &event));
    bool good = event.kind == BP_JSON_ARRAY_BEGIN;
    while (good) {
        BP_TRY(bp_json_next(&f->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            break;
        }
        good = event.kind == BP_JSON_NUMBER && count < 3 && event.real > -1e6 && event.real < 1e6;
        to[count < 3 ? count++ : 0] = event.real;
    }
    for (uint32_t i = 1; count == 1 && i < 3; i++) {
        to[i] = to[0];
    }
    return good && (count == 1 || count == 3)
               ? BP_OK
               : prep_refuse(f, key, "a list of three numbers, or of one, is wanted");
}

static bp_status prep_flag(prep_file *f, const char *key, bool *to)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind != BP_JSON_TRUE && event.kind != BP_JSON_FALSE && event.kind != BP_JSON_NULL) {
        return prep_refuse(f, key, "true or false is wanted");
    }
    *to = event.kind == BP_JSON_NULL ? *to : event.kind == BP_JSON_TRUE;
    return BP_OK;
}

static bp_status prep_real(prep_file *f, const char *key, double *to)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    const bool within = event.real > 0.0 && event.real <= 255.0;
    if (event.kind != BP_JSON_NUMBER || !within) {
        return prep_refuse(f, key, "a number above 0 is wanted");
    }
    *to = event.real;
    return BP_OK;
}

/* ConvNext's processor has a crop_pct also where the file has none. */
static bp_status prep_type(prep_file *f)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind == BP_JSON_TEXT && strncmp(event.text, "ConvNext", 8) == 0 &&
        f->prep->crop_pct == 0.0) {
        f->prep->crop_pct = 224.0 / 256.0;
    }
    return BP_OK;
}

static bp_status prep_resample(prep_file *f)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind != BP_JSON_NUMBER || !event.integer ||
        (event.i64 != BP_RESAMPLE_BILINEAR && event.i64 != BP_RESAMPLE_BICUBIC)) {
        return prep_refuse(f, "resample", "images are resized by 2 (bilinear) or 3 (bicubic)");
    }
    f->prep->resample = (uint32_t)event.i64;
    return BP_OK;
}

static bp_status prep_member(prep_file *f, const char *key)
{
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"do_resize", &f->resize},
                 {"do_center_crop", &f->crop},
                 {"do_rescale", &f->rescale},
                 {"do_normalize", &f->normalise}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(key, flags[i].key) == 0) {
            return prep_flag(f, flags[i].key, flags[i].flag);
        }
    }
    if (strcmp(key, "size") == 0) {
        return prep_size(f, "size", f->size);
    }
    if (strcmp(key, "crop_size") == 0) {
        const bool square = f->square;
        BP_TRY(prep_size(f, "crop_size", f->crop_size));
        f->square = square;
        return BP_OK;
    }
    return strcmp(key, "image_mean") == 0       ? prep_reals(f, "image_mean", f->prep->mean)
           : strcmp(key, "image_std") == 0      ? prep_reals(f, "image_std", f->prep->std)
           : strcmp(key, "rescale_factor") == 0 ? prep_real(f, "rescale_factor", &f->prep->factor)
           : strcmp(key, "crop_pct") == 0       ? prep_real(f, "crop_pct", &f->prep->crop_pct)
           : strcmp(key, "resample") == 0       ? prep_resample(f)
           : strcmp(key, "image_processor_type") == 0 || strcmp(key, "feature_extractor_type") == 0
               ? prep_type(f)
               : bp_json_skip(&f->json);
}

static bp_status prep_resolve(prep_file *f)
{
    bp_image_prep *prep = f->prep;
    const bool pct = prep->crop_pct > 0.0;
    if (f->square && !pct && f->size[2] != 0) { /* a bare number */
        f->size[0] = f->size[1] = f->size[2];
        f->size[2] = 0;
    }
    if (f->resize) {
        prep->height = f->size[0];
        prep->width = f->size[1];
        prep->shortest = f->size[2];
    }
    const bool within = prep->crop_pct >= CROP_LEAST && prep->crop_pct <= 1.0;
    if (pct && !within) {
        return prep_refuse(f, "crop_pct", "the part that stays is from 0.01 to 1");
    }
    if (pct && f->resize && prep->shortest == 0) {
        return prep_refuse(f, "size", "with crop_pct a size is shortest_edge");
    }
    if (f->crop) {
        prep->crop[0] = f->crop_size[2] != 0 ? f->crop_size[2] : f->crop_size[0];
        prep->crop[1] = f->crop_size[2] != 0 ? f->crop_size[2] : f->crop_size[1];
    }
    prep->normalise = f->normalise;
    prep->factor = f->rescale ? prep->factor : 1.0;
    for (uint32_t i = 0; i < 3; i++) {
        if (f->normalise && !(prep->std[i] > 0.0)) {
            return prep_refuse(f, "image_std",
                               "normalising needs image_mean and image_std, which "
                               "is above 0");
        }
    }
    prep->given = 1;
    return BP_OK;
}

static bp_status prep_document(prep_file *f)
{
    char key[32];
    bp_json_event event;
    BP_TRY(bp_json_next(&f->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&f->json, "the file must hold one JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&f->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return prep_resolve(f);
        }
        const size_t length = event.length < sizeof key ? event.length : 0;
        memcpy(key, event.text, length);
        key[length] = '\0';
        BP_TRY(prep_member(f, key));
    }
}

bp_status bp_image_prep_read(bp_image_prep *prep, bp_store *store, const char *path, void *scratch,
                             bp_error *error)
{
    char *memory = scratch;
    bp_storage_reader reader = {.store = store, .path = path, .error = error};
    prep_file f = {.prep = prep,
                   .error = error,
                   .path = path,
                   .resize = true,
                   .rescale = true,
                   .normalise = true,
                   .square = true};
    memset(prep, 0, sizeof *prep);
    prep->factor = 1.0 / 255.0;
    prep->resample = BP_RESAMPLE_BILINEAR;
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = store->file_size(store, reader.file, &reader.end);
    status = status == BP_OK ? BP_OK : bp_storage_failed(error, store, "size", path);
    reader.buffer = (unsigned char *)memory;
    reader.capacity = READ_BYTES;
    const bp_json_source source = {bp_storage_fill, &reader, 65536};
    const bp_json_memory room = {.text = memory + READ_BYTES,
                                 .text_bytes = TEXT_BYTES,
                                 .keys = memory + READ_BYTES + TEXT_BYTES,
                                 .keys_bytes = KEYS_BYTES,
                                 .max_depth = 8};
    status = status == BP_OK ? bp_json_init(&f.json, &source, &room, error) : status;
    status = status == BP_OK ? prep_document(&f) : status;
    (void)store->close(store, reader.file); /* it was read only */
    return status;
}

void bp_image_prep_sizes(const bp_image_prep *prep, const uint64_t from[2], uint64_t to[2],
                         uint64_t cut[2])
{
    const bool high = from[0] > from[1];
    const uint64_t shorter = high ? from[1] : from[0], longer = high ? from[0] : from[1];
    const bool warps = prep->crop_pct > 0.0 && prep->shortest >= 384;
    to[0] = prep->height != 0 ? prep->height : warps ? prep->shortest : from[0];
    to[1] = prep->width != 0 ? prep->width : warps ? prep->shortest : from[1];
    if (prep->shortest != 0 && !warps) {
        const double part = prep->crop_pct > 0.0 ? prep->crop_pct : 1.0;
        const uint64_t edge = (uint64_t)((double)prep->shortest / part);
        to[high ? 1 : 0] = edge;
        to[high ? 0 : 1] = (uint64_t)((double)(edge * longer) / (double)shorter);
    }
    const bool pct = prep->shortest != 0 && !warps && prep->crop_pct > 0.0;
    for (uint32_t i = 0; i < 2; i++) {
        cut[i] = prep->crop[i] != 0 ? prep->crop[i] : pct ? prep->shortest : to[i];
    }
}

float bp_image_prep_number(const bp_image_prep *prep, uint8_t byte, uint32_t c)
{
    if (prep == NULL || prep->given == 0) {
        return (float)byte / 255.0f;
    }
    const float scaled = (float)((double)byte * prep->factor);
    return prep->normalise != 0 ? (scaled - (float)prep->mean[c]) / (float)prep->std[c] : scaled;
}
