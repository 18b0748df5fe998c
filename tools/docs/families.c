/* SPDX-License-Identifier: MIT */
/* What a family can do is asked of its model (bp_model.check) and of its descriptor, a family at a
 * time. */
#include "tools/docs/families.h"

#include <stdio.h>
#include <string.h>

#include "layers/families/whisper.h"
#include "layers/heads/vector.h"
#include "tools/formats/family/family.h"

static const struct {
    const char *word; /* of --task */
    bp_task task;
    uint32_t classes;
} tasks[] = {{"causal-lm", BP_TASK_CAUSAL_LM, 0},
             {"masked-lm", BP_TASK_MASKED_LM, 0},
             {"classification", BP_TASK_CLASSES, 3},
             {"regression", BP_TASK_REGRESSION, 1},
             {"reranking", BP_TASK_RANKING, 1},
             {"token-classification", BP_TASK_TOKENS, 3},
             {"question-answering", BP_TASK_ANSWERS, 2},
             {"embedding", BP_TASK_EMBEDDING, 0},
             {"reconstruction", BP_TASK_RECONSTRUCTION, 0}};

/* A small model of the family. */
static bp_spec spec_of(const bp_family *family)
{
    const bp_preset *preset = &family->presets[0];
    bp_spec spec = {.model = family->model, .batch = 1, .sequence = 8, .accumulation = 1};
    spec.config = family->preset_count > 0 ? bp_preset_config(preset) : bp_family_defaults(family);
    if (family->preset_count == 0 && family->resolve != NULL) {
        family->resolve(&spec.config);
    }
    /* Rows of numbers are of one length. */
    spec.sequence = spec.config.vocabulary == 0 ? spec.config.positions : spec.sequence;
    return spec;
}

static bool is_taken(const bp_spec *spec)
{
    bp_error error = {.code = BP_OK};
    bp_spec own = *spec;
    const bp_family *family = spec->config.family;
    const bool writes = family != NULL && family->whole_class != NULL;
    const bool makes = writes && spec->config.task == BP_TASK_CAUSAL_LM;
    own.source = !makes ? 0
                 : spec->model == &bp_model_whisper
                     ? bp_whisper_config_of(&spec->config).source_positions
                     : spec->sequence;
    return spec->model->check(&own, &error) == BP_OK;
}

static bool takes(const bp_family *family, size_t task)
{
    bp_spec spec = spec_of(family);
    if (tasks[task].task == BP_TASK_EMBEDDING && family->vectors != NULL) {
        spec = spec_of(family->vectors);
        spec.sequence = spec.config.positions; /* of SigLIP each text has all of them */
        spec.texts = 1;
        return is_taken(&spec);
    }
    if (bp_task_scores_samples(tasks[task].task) && family->language_class != NULL &&
        family->judge_class == NULL) {
        return false; /* it could not be saved */
    }
    spec.config.task = tasks[task].task;
    spec.config.classes = tasks[task].classes;
    if (tasks[task].task == BP_TASK_RECONSTRUCTION) {
        spec.config.classes = spec.config.positions;
        if (spec.config.vocabulary != 0) {
            return false; /* bp_spec_check: of rows of numbers alone */
        }
    }
    if (tasks[task].task == BP_TASK_RANKING && spec.config.vocabulary == 0) {
        return false; /* likewise: of texts alone */
    }
    if (tasks[task].task == BP_TASK_EMBEDDING) {
        spec.config.pooling = BP_POOLING_MEAN;
        spec.config.classes = bp_family_count(&spec.config, BP_ROLE_WIDTH);
        spec.texts = 1;
    }
    return is_taken(&spec);
}

static void put_tasks(const bp_family *family)
{
    bool first = true;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (takes(family, i)) {
            printf(first ? "%s" : ", %s", tasks[i].word);
            first = false;
        }
    }
    printf(family->pairs != NULL ? ", image-text" : "");
}

static bool packs(const bp_family *family)
{
    bp_spec spec = spec_of(family);
    spec.config.task = BP_TASK_CAUSAL_LM;
    spec.packed = true;
    return is_taken(&spec);
}

static bool generates(const bp_family *family)
{
    bp_spec spec = spec_of(family);
    spec.config.task = BP_TASK_CAUSAL_LM;
    spec.config.classes = 0;
    spec.generate_context = spec.sequence;
    return family->model->decode != NULL && is_taken(&spec);
}

/* Targets of adapters in code, a comma between them. */
static void put_targets(const bp_family *family)
{
    const char *at = family->adapter_targets;
    if (at == NULL) {
        printf("no adapters");
        return;
    }
    for (; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        const char *end = strchr(at, ',');
        printf("`%.*s`%s", (int)(end != NULL ? (size_t)(end - at) : strlen(at)), at,
               end != NULL ? ", " : "");
    }
}

static void put_classes(const bp_family *family)
{
    const char *const classes[] = {family->whole_class, family->language_class, family->judge_class,
                                   family->token_class, family->answer_class};
    bool first = true;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i] != NULL) {
            printf(first ? "%s" : ", %s", classes[i]);
            first = false;
        }
    }
    if (family->pairs != NULL) {
        printf(", %s", family->pairs->language_class);
    }
    printf(first ? "Bedplate's own" : "");
}

static void put_family(const bp_family *family)
{
    printf("| `%s`", family->model_type);
    if (family->wrapper != NULL) {
        printf(", the text of `%s`", family->wrapper);
    }
    printf(" | ");
    put_classes(family);
    printf(" | ");
    put_tasks(family);
    printf(" | %s | %s | ", generates(family) ? "yes" : "-", packs(family) ? "yes" : "-");
    printf(family->gguf != NULL ? "`%s`" : "-",
           family->gguf != NULL ? family->gguf->architecture : "");
    printf(" | ");
    put_targets(family);
    printf(" | ");
    for (size_t i = 0; i < family->preset_count; i++) {
        printf(i == 0 ? "`%s`" : ", `%s`", family->presets[i].name);
    }
    printf(" |\n");
}

void families_page(void)
{
    const bp_family *family;
    printf("\n| model\\_type | classes of transformers | tasks | generates | packs rows | GGUF | "
           "adapters' usual targets | presets |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; (family = bp_family_at(i)) != NULL; i++) {
        if (family->pairs != family) { /* which is of another's files */
            put_family(family);
        }
    }
    printf("\n");
}
