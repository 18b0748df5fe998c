/* SPDX-License-Identifier: MIT */
/* Techniques as changes of a spec. */
#include "tools/bedplate/session/memory_option.h"

#include <stdio.h>
#include <string.h>

#include "core/plan/optimizer.h"
#include "layers/families/cnn.h"
#include "layers/families/llama.h"
#include "tools/bedplate/session/optimizer_choice.h"
#include "tools/bedplate/session/quantised_choice.h"

/* Equal to the last bit; backward runs twice when there is clipping. */
static bool release(bp_spec *spec, bp_text *options)
{
    bool off = !spec->gradient_release;
    spec->gradient_release = true;
    bp_text_string(options, spec->gradient_int8 ? " --gradient-dtype auto" : "");
    bp_text_string(options, off ? " --gradient-release" : "");
    spec->gradient_int8 = false;
    return off;
}

/* The optimizer's sibling with states of 8 bits. */
static bool narrow_states(bp_spec *spec, bp_text *options)
{
    char name[64];
    int length = snprintf(name, sizeof name, "%s_8bit", spec->optimizer->name);
    bool whole = length > 0 && (size_t)length < sizeof name;
    const bp_optimizer *narrow = whole ? optimizer_find(name) : NULL;
    if (narrow == NULL) {
        return false;
    }
    spec->optimizer = narrow;
    bp_text_string(options, " --optim ");
    bp_text_string(options, narrow->name);
    return true;
}

/* Weights, activations and gradients of 16 bits; the master stays exact. */
static bool narrow_weights(bp_spec *spec, bp_text *options)
{
    if (spec->working != BP_F32) {
        return false;
    }
    spec->working = BP_BF16;
    spec->master = BP_MASTER_SPLIT;
    spec->gradient = BP_BF16;
    bp_text_string(options, " --bf16");
    return true;
}

/* Masters of 24 bits. */
static bool narrow_master(bp_spec *spec, bp_text *options)
{
    bool wider = spec->master == BP_MASTER_SPLIT ||
                 (spec->master == BP_MASTER_FP32 && spec->working == BP_BF16);
    if (!wider) {
        return false;
    }
    spec->master = BP_MASTER_SPLIT8;
    spec->gradient = BP_BF16;
    bp_text_string(options, " --master split8");
    return true;
}

/* Adapters beside a frozen base: another model is learnt. No "all-linear" means a convolution, so
 * convolutional nets get those that they have when nobody names any. */
static bool adapters(bp_spec *spec, bp_text *options)
{
    static const char *const all[] = {"all-linear"}, *const convolutions[] = {"convolution"};
    static const char *const attention[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    const bool images = spec->model == &bp_model_cnn, experts = quantised_mixes(spec);
    if (spec->lora.rank > 0) {
        return false;
    }
    spec->lora = (bp_lora){.rank = 8,
                           .alpha = 8.0,
                           .targets = images    ? convolutions
                                      : experts ? attention
                                                : all,
                           .target_count = experts ? 4 : 1,
                           .usual = images};
    bp_text_string(options, " --lora-r 8");
    bp_text_string(options, images    ? ""
                            : experts ? " --target-modules q_proj,k_proj,v_proj,o_proj"
                                      : " --target-modules all-linear");
    return true;
}

/* Adapters whose frozen base is kept in fewer bits. */
static bool quantised(bp_spec *spec, bp_text *options, bp_quantised form, const char *option)
{
    if (spec->lora.rank == 0 || spec->quantised != BP_QUANTISED_NONE || spec->stored_count > 0) {
        return false;
    }
    spec->quantised = form;
    spec->experts = spec->experts == BP_QUANTISED_NONE ? form : spec->experts;
    bp_text_string(options, option);
    return true;
}

static bool eight_bits(bp_spec *spec, bp_text *options)
{
    return quantised(spec, options, BP_QUANTISED_INT8, " --load-in-8bit");
}

static bool four_bits(bp_spec *spec, bp_text *options)
{
    return quantised(spec, options, BP_QUANTISED_NF4_DOUBLE, " --load-in-4bit");
}

bool memory_option_apply(uint32_t i, bp_spec *spec, bp_text *options)
{
    static bool (*const memory_options[MEMORY_OPTIONS])(bp_spec *, bp_text *) = {
        release, narrow_states, narrow_weights, narrow_master, adapters, eight_bits, four_bits};
    return spec->optimizer != NULL && memory_options[i](spec, options);
}
