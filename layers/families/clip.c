/* SPDX-License-Identifier: MIT */
/* CLIP and SigLIP. */
#include "layers/families/clip.h"

BP_FAMILY_CONFIG_FITS(bp_clip_config);

bp_clip_config bp_clip_config_of(const bp_model_config *config)
{
    bp_clip_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}
