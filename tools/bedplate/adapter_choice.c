/* SPDX-License-Identifier: MIT */
/* Which adapters a run has. */
#include "tools/bedplate/adapter_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/file/storage.h"
#include "tools/bedplate/options.h"
#include "tools/formats/family.h"

static bp_status adapter_choice_wrong(const char *name, const char *text, const char *found,
                                      const char *right)
{
    fprintf(stderr, "bedplate: --%s: %s (found \"%s\", right would be %s)\n", name, text, found,
            right);
    return BP_ERR_USAGE;
}

static bp_status cut_targets(adapter_choice *choice, const char *text)
{
    bp_lora *lora = &choice->config.lora;
    if (strlen(text) >= sizeof choice->words) {
        return adapter_choice_wrong("target-modules", "the list is too long", text,
                                    "fewer than 1024 characters");
    }
    strcpy(choice->words, text);
    lora->targets = choice->config.target;
    lora->target_count = 0;
    for (char *at = choice->words; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        at += strspn(at, " ");
        if (*at == '\0' || lora->target_count == BP_PEFT_TARGETS_MAX) {
            return adapter_choice_wrong("target-modules",
                                        "the value is not a list of at most 64 names", text,
                                        "such as q_proj,v_proj or all-linear");
        }
        choice->config.target[lora->target_count++] = at;
        at = comma;
    }
    return BP_OK;
}

bp_status adapter_check(const char *path, const bp_peft_config *config,
                        const bp_model_config *model, bp_error *error)
{
    bool head = model->task == BP_TASK_CAUSAL_LM || model->task == BP_TASK_MASKED_LM;
    if (!head || bp_family_untied(model) || !config->saves_table) {
        return BP_OK;
    }
    bp_status status = bp_error_set(error, BP_ERR_DATA, "adapter",
                                    "a copy of the table that this model's head is tied to is not "
                                    "implemented",
                                    "modules_to_save");
    bp_error_prefix(error, path);
    return status;
}

bp_status adapter_blame(const settings *set, bp_status status, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    bool target = status == BP_ERR_USAGE && error->code == status && error->where != NULL &&
                  strcmp(error->where, "lora") == 0;
    if (set->adapter == NULL || !target) {
        return status;
    }
    BP_TRY(bp_storage_join(path, set->adapter, "adapter_config.json", NULL));
    bp_error_prefix(error, path);
    error->code = BP_ERR_DATA;
    return BP_ERR_DATA;
}

static bp_status read_directory(const settings *set, bp_store *store, adapter_choice *choice,
                                const bp_model_config *config, bp_error *error)
{
    static uint64_t scratch[BP_PEFT_CONFIG_SCRATCH / 8];
    static const char *const fixed[] = {"lora-r", "lora-alpha", "target-modules", "use-rslora"};
    char path[BP_STORE_PATH_MAX];
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (option_given(set, fixed[i])) {
            return adapter_choice_wrong(fixed[i], "the adapter's own file says it", set->adapter,
                                        "--adapter without it");
        }
    }
    BP_TRY(bp_storage_join(path, set->adapter, "adapter_config.json", error));
    BP_TRY(bp_peft_config_read(store, path, scratch, &choice->config, error));
    BP_TRY(adapter_check(path, &choice->config, config, error));
    if (option_given(set, "lora-dropout")) {
        choice->config.lora.dropout = set->lora_dropout;
    }
    return BP_OK;
}

bp_status adapter_fill(const settings *set, bp_store *store, adapter_choice *choice, bp_spec *spec,
                       bp_error *error)
{
    if (set->adapter != NULL) {
        BP_TRY(read_directory(set, store, choice, &spec->config, error));
        spec->lora = choice->config.lora;
        return BP_OK;
    }
    if (set->lora_r == 0) {
        static const char *const needs[] = {"lora-alpha", "lora-dropout", "target-modules",
                                            "use-rslora"};
        for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
            if (option_given(set, needs[i])) {
                return adapter_choice_wrong(needs[i], "there is no adapter", "no --lora-r",
                                            "--lora-r 8 with it");
            }
        }
        return BP_OK;
    }
    const char *usual = spec->config.family->adapter_targets;
    const char *targets = set->target_modules != NULL ? set->target_modules : usual;
    BP_TRY(cut_targets(choice, targets != NULL ? targets : "all-linear"));
    choice->config.lora.rank = (uint32_t)set->lora_r;
    choice->config.lora.alpha = set->lora_alpha;
    choice->config.lora.dropout = set->lora_dropout;
    choice->config.lora.rank_stabilized = set->use_rslora;
    spec->lora = choice->config.lora;
    return BP_OK;
}
