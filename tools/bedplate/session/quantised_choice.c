/* SPDX-License-Identifier: MIT */
/* 4 bits, 8 bits, or as they are. */
#include "tools/bedplate/session/quantised_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/ops/quantised.h"
#include "layers/families/llama.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

static bp_status quantised_choice_wrong(const char *name, const char *text, const char *found,
                                        const char *right)
{
    output_print(stderr, "bedplate: --%s: %s: found \"%s\", expected %s\n", name, text, found,
                 right);
    return BP_ERR_USAGE;
}

bool quantised_mixes(const bp_spec *spec)
{
    return spec->model == &bp_model_llama && bp_llama_config_of(&spec->config).experts > 0;
}

const char *quantised_options(bp_quantised form, char words[128])
{
    if (form == BP_QUANTISED_NONE) {
        return "neither --load-in-4bit nor --load-in-8bit";
    }
    if (form == BP_QUANTISED_INT8) {
        return "--load-in-8bit";
    }
    const uint64_t block = bp_quantised_block(form);
    const bool fp4 = bp_quantised_kind(form) >= BP_QUANTISED_FP4;
    int length = snprintf(words, 128, "--load-in-4bit%s%s", fp4 ? " --bnb-4bit-quant-type fp4" : "",
                          bp_quantised_nests(form) ? "" : " --bnb-4bit-use-double-quant false");
    if (block != BP_NF4_BLOCK && length > 0) {
        snprintf(words + length, 128 - (size_t)length, " --bnb-4bit-blocksize %u", (unsigned)block);
    }
    return words;
}

bp_quantised quantised_four(bool fp4, bool nested, uint64_t block)
{
    return bp_quantised_with_block(fp4 ? (nested ? BP_QUANTISED_FP4_DOUBLE : BP_QUANTISED_FP4)
                                       : (nested ? BP_QUANTISED_NF4_DOUBLE : BP_QUANTISED_NF4),
                                   block);
}

/* What the options of 4 bits say; NONE after an error. */
static bp_quantised four_asked(const settings *set)
{
    const bp_quantised form =
        quantised_four(strcmp(set->quant_type, "fp4") == 0, strcmp(set->double_quant, "true") == 0,
                       set->quant_block);
    if (form == BP_QUANTISED_NONE) {
        char found[24];
        snprintf(found, sizeof found, "%llu", (unsigned long long)set->quant_block);
        (void)quantised_choice_wrong("bnb-4bit-blocksize", "there are no such blocks", found,
                                     "32, 64, 128, 256, 512, 1024, 2048 or 4096");
    }
    return form;
}

bp_status quantised_fill(const settings *set, bp_spec *spec)
{
    static const char *const fours[] = {"bnb-4bit-use-double-quant", "bnb-4bit-quant-type",
                                        "bnb-4bit-blocksize"};
    const bp_quantised stored = spec->config.quantised;
    char words[2][128];
    bp_quantised asked = BP_QUANTISED_NONE;
    if (set->load_in_4bit && set->load_in_8bit) {
        return quantised_choice_wrong("load-in-4bit", "a weight is kept in 4 bits or in 8",
                                      "--load-in-8bit", "one of them");
    }
    for (size_t i = 0; i < sizeof fours / sizeof fours[0]; i++) {
        if (option_said(set, fours[i]) && !set->load_in_4bit) {
            return quantised_choice_wrong(fours[i], "nothing is kept in 4 bits",
                                          i == 0 ? set->double_quant : "it",
                                          "--load-in-4bit with it");
        }
    }
    if (set->load_in_4bit) {
        asked = four_asked(set);
        if (asked == BP_QUANTISED_NONE) {
            return BP_ERR_USAGE;
        }
    } else if (set->load_in_8bit) {
        asked = BP_QUANTISED_INT8;
    }
    if (stored != BP_QUANTISED_NONE && asked != BP_QUANTISED_NONE && asked != stored) {
        return quantised_choice_wrong(set->load_in_8bit ? "load-in-8bit" : "load-in-4bit",
                                      "the model's weights are quantised already, in another form",
                                      quantised_options(asked, words[0]),
                                      quantised_options(stored, words[1]));
    }
    spec->quantised = stored != BP_QUANTISED_NONE ? stored : asked;
    spec->experts = asked;
    return BP_OK;
}
