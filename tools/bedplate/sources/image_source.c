/* SPDX-License-Identifier: MIT */
/* Images of files, as feeds ask for them. */
#include "tools/bedplate/sources/image_source.h"

#include <stdlib.h>
#include <string.h>

#include "layers/families/clip.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/sources/speech_source.h"
#include "tools/formats/images/data_pnm.h"

static const char where[] = "images";

/* Paths are as they are: no list's folder comes before them. */
static bp_status image_open(image_source *source, bp_pnm *image, const char *path)
{
    const bp_data_reader list = {.store = source->store, .path = "", .error = source->error};
    return bp_pnm_open(image, &list, path, strlen(path));
}

bp_status image_source_check(image_source *source, const char *path)
{
    bp_pnm image = {.pictures = &source->decoders.table, .channels = source->size[2]};
    const bp_status status = image_open(source, &image, path);
    bp_pnm_close(&image);
    return status;
}

/* Its numbers, by preprocessor_config.json. */
static bp_status image_numbers(image_source *source, bp_pnm *image, uint32_t elements, float *to)
{
    BP_TRY(bp_pnm_begin(image));
    if (source->prep.given != 0) {
        BP_TRY(bp_pnm_prepare(image, &source->prep));
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (image->size[i] != source->size[i]) {
            return bp_error_numbers(source->error, BP_ERR_DATA, where,
                                    "the image has another height, width or number of channels "
                                    "than the model's",
                                    image->path, (int64_t)image->size[i], source->size[i]);
        }
    }
    for (uint32_t k = 0; k < elements; k++) {
        uint8_t byte = 0;
        BP_TRY(bp_pnm_number(image, k, &byte));
        to[k] = bp_image_prep_number(&source->prep, byte, source->size[2] == 3 ? k % 3 : 0);
    }
    return BP_OK;
}

/* A row that a short group lacks is black. */
static bp_status image_fill(const bp_feed *feed, const bp_example *from, uint32_t elements,
                            int32_t *to)
{
    image_source *source = (image_source *)(uintptr_t)feed->texts;
    char path[BP_STORE_PATH_MAX];
    if (from->count == 0) {
        memset(to, 0, (size_t)elements * sizeof *to);
        return BP_OK;
    }
    if (elements != source->size[0] * source->size[1] * source->size[2]) {
        return bp_error_set(feed->error, BP_ERR_INTERNAL, where,
                            "an image has another size than its column", feed->source->name);
    }
    BP_TRY(speech_source_path(feed->source, from, path, feed->error));
    source->error = feed->error;
    bp_pnm image = {.pictures = &source->decoders.table, .channels = source->size[2]};
    bp_status status = image_open(source, &image, path);
    status =
        status == BP_OK ? image_numbers(source, &image, elements, (float *)(void *)to) : status;
    bp_pnm_close(&image);
    return status;
}

bp_status image_source_open(image_source **source, session *s)
{
    if (*source != NULL || !model_sees(&s->spec.config)) {
        return BP_OK;
    }
    const bp_vit_config own = bp_clip_config_of(&s->spec.config).vision;
    image_source *made = calloc(1, sizeof *made);
    *source = made;
    if (made == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for images", "--data");
    }
    made->texts = (bp_feed_texts){bp_feed_two_texts.split, image_fill};
    made->store = s->store;
    made->error = &s->error;
    made->size[0] = made->size[1] = own.image;
    made->size[2] = own.channels;
    pictures_begin(&made->decoders);
    return s->directory ? image_prep_beside(&made->prep, s) : BP_OK;
}

void image_source_close(image_source **source)
{
    if (*source != NULL) {
        pictures_end(&(*source)->decoders);
        free(*source);
        *source = NULL;
    }
}
