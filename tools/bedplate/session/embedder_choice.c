/* SPDX-License-Identifier: MIT */
/* Pooling, normalisation and prompts of a session. */
#include "tools/bedplate/session/embedder_choice.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/session/session.h"
#include "tools/formats/hf/hf_files.h"

static const struct {
    const char *word;
    bp_pooling pooling;
} poolings[] = {{"mean", BP_POOLING_MEAN},
                {"cls", BP_POOLING_CLS},
                {"lasttoken", BP_POOLING_LAST},
                {"mean_sqrt_len_tokens", BP_POOLING_SQRT},
                {"weightedmean", BP_POOLING_WEIGHTED}};

/* Dense modules of the directory: their sizes, and where their weights are. */
static bp_status embedder_choose_dense(session *s)
{
    const bp_embedder *e = &s->embedder;
    bp_model_config *config = &s->spec.config;
    if (e->dense_count > 0 && e->dense_in != config->classes) {
        return bp_error_limit(&s->error, BP_ERR_DATA, "sentence-transformers",
                              "the first Dense reads another width than the model's", "in_features",
                              e->dense_in, BP_LIMIT_EXACT, config->classes);
    }
    config->dense_count = e->dense_count;
    for (uint32_t i = 0; i < e->dense_count; i++) {
        bp_hf_module *module = &s->modules[i];
        char directory[BP_STORE_PATH_MAX];
        BP_TRY(bp_storage_join(directory, s->set->model, e->path[1 + i], &s->error));
        BP_TRY(bp_storage_join(module->path, directory, BP_HF_WEIGHTS, &s->error));
        bp_embedder_dense_prefix(i, module->prefix);
        config->dense[i] = e->dense[i];
        config->classes = e->dense[i].width;
    }
    return BP_OK;
}

/* Of a model that has its own way from tokens to a vector. */
static bp_status embedder_own(session *s)
{
    const settings *set = s->set;
    const char *option = strcmp(set->pooling, "auto") != 0 ? "--pooling"
                         : set->prompt_name != NULL        ? "--prompt-name"
                                                           : NULL;
    return option == NULL ? BP_OK
                          : bp_error_set(&s->error, BP_ERR_USAGE, "bedplate",
                                         "this model makes vectors in its own way", option);
}

bp_status embedder_choose(session *s)
{
    static uint64_t scratch[BP_EMBEDDER_SCRATCH / 8];
    const settings *set = s->set;
    if (s->spec.config.family->vectors != NULL) {
        s->embedder.normalize = strcmp(set->normalize, "true") == 0;
        return embedder_own(s);
    }
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
    return embedder_choose_dense(s);
}

void embedder_fill(const settings *set, bp_spec *spec)
{
    if (model_sees(&spec->config)) {
        spec->texts = 1;
        return;
    }
    if (spec->config.task == BP_TASK_EMBEDDING && set->command != COMMAND_EMBED) {
        spec->texts = 2 + (uint32_t)set->negatives;
        spec->similarity = set->similarity;
        spec->batch *= spec->texts;
        spec->eval_batch *= spec->texts;
    }
}
