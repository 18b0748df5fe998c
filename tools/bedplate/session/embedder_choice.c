/* SPDX-License-Identifier: MIT */
/* Pooling, normalisation and prompts of a session. */
#include "tools/bedplate/session/embedder_choice.h"

#include <string.h>

#include "tools/bedplate/session/session.h"

static const struct {
    const char *word;
    bp_pooling pooling;
} poolings[] = {{"mean", BP_POOLING_MEAN},
                {"cls", BP_POOLING_CLS},
                {"lasttoken", BP_POOLING_LAST},
                {"mean_sqrt_len_tokens", BP_POOLING_SQRT},
                {"weightedmean", BP_POOLING_WEIGHTED}};

bp_status embedder_choose(session *s)
{
    static uint64_t scratch[BP_EMBEDDER_SCRATCH / 8];
    const settings *set = s->set;
    if (s->directory) {
        BP_TRY(bp_embedder_read(s->store, set->model, set->prompt_name, scratch, &s->embedder,
                                &s->error));
    } else if (set->prompt_name != NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "bedplate",
                            "only a model directory has prompts", "--prompt-name");
    }
    for (size_t i = 0; i < sizeof poolings / sizeof poolings[0]; i++) {
        if (strcmp(set->pooling, poolings[i].word) == 0) {
            s->embedder.pooling = poolings[i].pooling;
        }
    }
    if (strcmp(set->normalize, "auto") != 0) {
        s->embedder.normalize = strcmp(set->normalize, "true") == 0;
    }
    s->spec.config.pooling = s->embedder.pooling;
    return BP_OK;
}

void embedder_fill(const settings *set, bp_spec *spec)
{
    if (spec->config.task == BP_TASK_EMBEDDING && set->command != COMMAND_EMBED) {
        spec->texts = 2 + (uint32_t)set->negatives;
        spec->similarity = set->similarity;
        spec->batch *= spec->texts;
        spec->eval_batch *= spec->texts;
    }
}
