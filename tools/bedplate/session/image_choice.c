/* SPDX-License-Identifier: MIT */
/* Sizes of images, what preprocessor_config.json says of them, crops and flips of training. */
#include "tools/bedplate/session/image_choice.h"

#include "core/base/storage.h"
#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "tools/formats/family/family.h"

static const char where[] = "images";

bool image_size(const bp_spec *spec, uint32_t size[3])
{
    const bool images = spec->model == &bp_model_cnn;
    const bp_cnn_config net =
        images ? bp_cnn_config_of(&spec->config) : (bp_cnn_config){.layers = 0};
    size[0] = net.height;
    size[1] = net.width;
    size[2] = net.channels;
    if (spec->model == &bp_model_vit) {
        const bp_vit_config own = bp_vit_config_of(&spec->config);
        size[0] = size[1] = own.image;
        size[2] = own.channels;
    }
    return size[2] != 0;
}

bp_status image_prep_beside(bp_image_prep *prep, session *s)
{
    static uint64_t scratch[BP_IMAGE_PREP_SCRATCH / 8];
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    *prep = (bp_image_prep){.given = 0};
    BP_TRY(bp_storage_join(path, s->set->model, "preprocessor_config.json", &s->error));
    if (s->store->exists(s->store, path, &there) != BP_OK || !there) {
        return BP_OK;
    }
    return bp_image_prep_read(prep, s->store, path, scratch, &s->error);
}

bp_status image_prep_find(bp_image_prep *prep, session *s)
{
    uint32_t size[3];
    *prep = (bp_image_prep){.given = 0};
    return image_size(&s->spec, size) && s->directory ? image_prep_beside(prep, s) : BP_OK;
}

bp_status image_size_resolve(session *s)
{
    /* Images of these sizes come out alike where all do. */
    static const uint64_t wide[2] = {100, 301}, high[2] = {302, 103};
    enum { USUAL = 224 };
    bp_model_config *config = &s->spec.config;
    if (config->family != &bp_family_resnet) {
        return BP_OK;
    }
    bp_cnn_config own = bp_cnn_config_of(config);
    bp_image_prep prep;
    uint64_t resized[2], one[2], other[2];
    BP_TRY(image_prep_beside(&prep, s));
    bp_image_prep_sizes(&prep, wide, resized, one);
    bp_image_prep_sizes(&prep, high, resized, other);
    if (prep.given == 0 || own.height != USUAL || own.width != USUAL || one[0] != other[0] ||
        one[1] != other[1] || one[0] > BP_IMAGE_PREP_SIZE || one[1] > BP_IMAGE_PREP_SIZE) {
        return BP_OK;
    }
    own.height = (uint32_t)one[0];
    own.width = (uint32_t)one[1];
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config); /* a row has that many numbers */
    return BP_OK;
}

/* The first option that changes images; NULL: none. */
static const char *augment_option(const settings *set)
{
    return set->random_crop > 0           ? "--random-crop"
           : set->random_resized_crop > 0 ? "--random-resized-crop"
           : set->random_flip > 0         ? "--random-horizontal-flip"
                                          : NULL;
}

bp_status image_augment_check(session *s)
{
    const settings *set = s->set;
    const char *option = augment_option(set);
    uint32_t size[3];
    if (option == NULL) {
        return BP_OK;
    }
    if (!image_size(&s->spec, size)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "images are cropped and flipped, and the model reads none", option);
    }
    if (set->random_crop > 0 && set->random_resized_crop > 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "an image is cut out of its surroundings or a part of it is made "
                            "large; give either --random-crop or --random-resized-crop",
                            "--random-resized-crop");
    }
    const uint32_t side = size[0] < size[1] ? size[0] : size[1];
    if (set->random_crop >= side) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "there are as many black places around an image as it has itself",
                              "--random-crop", (int64_t)set->random_crop, BP_LIMIT_BELOW, side);
    }
    return BP_OK;
}

bp_status image_augment_choose(session *s, bp_image_augment *augment, bool *asked)
{
    const settings *set = s->set;
    bp_image_prep prep;
    *asked = augment_option(set) != NULL;
    if (!*asked) {
        return BP_OK;
    }
    *augment = (bp_image_augment){.padding = (uint32_t)set->random_crop,
                                  .scale = set->random_resized_crop,
                                  .flip = set->random_flip};
    (void)image_size(&s->spec, augment->size); /* it is one of images: checked */
    BP_TRY(image_prep_find(&prep, s));
    for (uint32_t c = 0; c < 4; c++) {
        const bool colours = augment->size[2] == 3 && c < 3;
        augment->black[c] = bp_image_prep_number(&prep, 0, colours ? c : 0);
    }
    bp_image_augment_begin(augment);
    return BP_OK;
}
