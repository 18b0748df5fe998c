/* SPDX-License-Identifier: MIT */
/* 4 bits, 8 bits, or as they are. */
#include "tools/bedplate/quantised_choice.h"

#include <stdio.h>
#include <string.h>

#include "tools/bedplate/options.h"

static bp_status quantised_choice_wrong(const char *name, const char *text, const char *found,
                                        const char *right)
{
    fprintf(stderr, "bedplate: --%s: %s (found \"%s\", right would be %s)\n", name, text, found,
            right);
    return BP_ERR_USAGE;
}

/* What a form is asked for by. */
static const char *options_of(bp_quantised form)
{
    static const char *const words[BP_QUANTISED_COUNT] = {
        "neither --load-in-4bit nor --load-in-8bit",
        "--load-in-4bit --bnb-4bit-use-double-quant false", "--load-in-4bit", "--load-in-8bit"};
    return words[form];
}

bp_status quantised_fill(const settings *set, bp_spec *spec)
{
    const bool nested = strcmp(set->double_quant, "true") == 0;
    const bp_quantised stored = spec->config.quantised;
    bp_quantised asked = BP_QUANTISED_NONE;
    if (set->load_in_4bit && set->load_in_8bit) {
        return quantised_choice_wrong("load-in-4bit", "a weight is kept in 4 bits or in 8",
                                      "--load-in-8bit", "one of them");
    }
    if (option_given(set, "bnb-4bit-use-double-quant") && !set->load_in_4bit) {
        return quantised_choice_wrong("bnb-4bit-use-double-quant", "nothing is kept in 4 bits",
                                      set->double_quant, "--load-in-4bit with it");
    }
    if (set->load_in_4bit) {
        asked = nested ? BP_QUANTISED_NF4_DOUBLE : BP_QUANTISED_NF4;
    } else if (set->load_in_8bit) {
        asked = BP_QUANTISED_INT8;
    }
    if (stored != BP_QUANTISED_NONE && asked != BP_QUANTISED_NONE && asked != stored) {
        return quantised_choice_wrong(set->load_in_8bit ? "load-in-8bit" : "load-in-4bit",
                                      "the model's weights are quantised already, in another form",
                                      options_of(asked), options_of(stored));
    }
    spec->quantised = stored != BP_QUANTISED_NONE ? stored : asked;
    return BP_OK;
}
