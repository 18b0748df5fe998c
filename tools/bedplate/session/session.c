/* SPDX-License-Identifier: MIT */
/* From settings to an open runtime. */
#include "tools/bedplate/session/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/adapter.h"
#include "core/base/storage.h"
#include "core/plan/parts.h"
#include "tools/bedplate/models/model_files.h"
#include "optim/rate.h"
#include "layers/families/llama.h"
#include "layers/families/neox.h"
#include "layers/families/rnn.h"
#include "tools/bedplate/session/calibrate.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/device_memory.h"
#include "tools/bedplate/session/image_choice.h"
#include "tools/bedplate/session/memory_option.h"
#include "tools/bedplate/session/optimizer_choice.h"
#include "tools/bedplate/runs/metric.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/sources/packing.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/session/quantised_choice.h"
#include "tools/bedplate/runs/distill.h"
#include "tools/bedplate/session/embedder_choice.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/planning/shard_plan.h"
#include "tools/bedplate/models/tensor_faults.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/hf_weights.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"
#include "tools/bedplate/sources/data_answered.h"
#include "tools/bedplate/sources/data_tagged.h"
#include "tools/bedplate/ranks/ranks_memory.h"

/* Plans, and takes the arenas, where there is room on every rank: memory that all of them lack is
 * BP_ERR_FIT, and what is missing of --arena is printed once; memory that some lack BP_ERR_USAGE.
 */
static bp_status session_take(session *s);

/* Bytes of the process's own memory that the arenas are. */
static uint64_t session_arenas_here(const session *s);

#define PAGE_BYTES       4096u
#define SEQUENCE_DEFAULT 1024u
#define TIME_PIECES      64u /* of a recurrent model's sequences, unless --time-chunk says */
#define TIME_STEPS       16u /* in each at least */
/* What names on a hub are made of. */
#define HUB_NAME     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./"
#define HUB_NAME_MAX 256
/* More than there are, and how many of them an unknown name is answered with. */
#define PRESETS_MAX   128
#define PRESETS_SHOWN 3
#define PLAN_NODES    200000u /* of exact search, where greedy layouts waste */

static const char where[] = "bedplate";

static bool there(session *s, const char *directory, const char *name)
{
    char path[BP_STORE_PATH_MAX];
    bool exists = false;
    return bp_storage_join(path, directory, name, NULL) == BP_OK &&
           s->store->exists(s->store, path, &exists) == BP_OK && exists;
}

static bp_status read_directory(session *s)
{
    const char *directory = s->set->model;
    char path[BP_STORE_PATH_MAX];
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    BP_TRY(bp_storage_join(path, directory, "config.json", &s->error));
    BP_TRY(bp_hf_config_read(s->store, path, scratch, &s->spec.config, &s->error));
    BP_TRY(bp_hf_ranker_read(s->store, directory, scratch, &s->spec.config, &s->error));
    BP_TRY(image_size_resolve(s));
    BP_TRY(bp_class_names_read(s->store, path, scratch, &s->names, &s->error));
    BP_TRY(bp_hf_find(s->store, directory, s->weights_path, &s->weights, &s->error));
    model_files_say_other(s->store, directory, s->weights_path);
    if (s->gguf.open) {
        memcpy(s->weights_path, directory,
               strlen(directory) + 1); /* config.json's path was longer */
        s->weights = true;
    }
    if (!s->weights && there(s, directory, "pytorch_model.bin")) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the directory's weights are not in safetensors files, which is the "
                            "form that can be read",
                            directory);
    }
    return BP_OK;
}

/* A GGUF file is read as the directory that it stands for. */
static bp_status open_gguf(session *s)
{
    const char *why;
    bool is;
    BP_TRY(gguf_folder_open(&s->gguf, &s->posix.store, s->set->model, &is, &why, &s->error));
    if (is) {
        s->store = &s->gguf.store;
    }
    if (why != NULL && s->set->command != COMMAND_PLAN && s->set->tokenizer == NULL) {
        output_print(stderr, "bedplate: %s: its tokenizer is not used: %s\n", s->set->model, why);
    }
    return BP_OK;
}

/* Whether a name has the form ORG/NAME that model hubs use; `alone`: or NAME. */
static bool is_hub_name(const char *name, bool alone)
{
    const char *slash = strchr(name, '/');
    const bool one = slash == NULL && alone;
    return (one || (slash != NULL && slash[1] != '\0' && slash[1] != '.' &&
                    strchr(slash + 1, '/') == NULL)) &&
           name[0] != '\0' && name[0] != '/' && name[0] != '.' && name[0] != '~' &&
           strspn(name, HUB_NAME) == strlen(name);
}

/* Skips one of the words that `at` begins with. */
static bool hub_skip(const char **at, const char *const *words)
{
    for (; *words != NULL; words++) {
        const size_t length = strlen(*words);
        if (strncmp(*at, *words, length) == 0) {
            *at += length;
            return true;
        }
    }
    return false;
}

/* The name in an address of the hub, without the page of it: https://hf.co/ORG/NAME/tree/main. What
 * is no address is the name itself. Returns whether it is a name that a hub may have. */
static bool hub_name(const char *model, char name[HUB_NAME_MAX])
{
    static const char *const schemes[] = {"https://", "http://", NULL};
    static const char *const hosts[] = {
        "huggingface.co/", "www.huggingface.co/", "hf.co/", "hf://", "hf:", NULL};
    static const char *const pages[] = {"/tree/", "/blob/", "/resolve/", NULL};
    const char *at = model;
    (void)hub_skip(&at, schemes);
    const bool address = hub_skip(&at, hosts);
    size_t length = address ? strcspn(at, "?#") : strlen(at);
    for (size_t i = 0; address && pages[i] != NULL; i++) {
        const char *page = strstr(at, pages[i]);
        length = page != NULL && (size_t)(page - at) < length ? (size_t)(page - at) : length;
    }
    while (address && length > 0 && at[length - 1] == '/') {
        length--;
    }
    length = length < HUB_NAME_MAX ? length : 0;
    memcpy(name, at, length);
    name[length] = '\0';
    return is_hub_name(name, address) && (address || at == model);
}

static bp_status no_model(session *s)
{
    const char *model = s->set->model;
    char name[HUB_NAME_MAX];
    if (hub_name(model, name)) {
        const char *slash = strchr(name, '/');
        output_print(stderr,
                     "bedplate: --model: nothing of this name is on this machine: found %s, "
                     "expected a directory, a GGUF file or a preset\n"
                     "try: hf download %s --local-dir %s\n",
                     model, name, slash != NULL ? slash + 1 : name);
        return BP_ERR_USAGE;
    }
    const char *names[PRESETS_MAX], *near[PRESETS_SHOWN];
    uint32_t count = 0;
    const bp_preset *preset;
    while (count < PRESETS_MAX && (preset = bp_preset_at(count)) != NULL) {
        names[count++] = preset->name;
    }
    count = options_nearest(model, names, count, near, PRESETS_SHOWN);
    output_print(stderr,
                 "bedplate: --model: unknown model: found \"%s\", expected a directory with "
                 "config.json, a GGUF file or a preset",
                 model);
    for (uint32_t i = 0; i < count; i++) {
        output_print(stderr, "%s%s",
                     i > 0       ? ", "
                     : count > 1 ? "; the nearest presets are "
                                 : "; the nearest preset is ",
                     near[i]);
    }
    if (count > 1 && strchr(model, '-') != NULL && strspn(model, HUB_NAME) == strlen(model) &&
        strchr(model, '/') == NULL) { /* as the hub's oldest models are called */
        output_print(stderr, "\ntry: hf download %s --local-dir %s\n", model, model);
    } else {
        output_print(stderr, "\ntry: bedplate %s --help presets\n",
                     command_name((unsigned)s->set->command));
    }
    return BP_ERR_DATA;
}

/* Whether the weights have another head than the task's, and a new one may be trained. An adapter's
 * file holds the whole head of tokens and answers; that of samples not: BERT's has a pooler, which
 * is frozen. */
static bool lacks_head(const settings *set, const bp_model_config *config, bp_task own,
                       uint32_t classes)
{
    const bp_task task = config->task;
    const bool adapts = set->lora_r > 0 || set->adapter != NULL;
    const bool other = set->num_labels != 0 && classes != 0 && classes != set->num_labels;
    const bool trains = (set->command & (COMMAND_TRAIN | COMMAND_PLAN)) != 0;
    if (config->vocabulary == 0 && trains && set->num_labels != 0) {
        return true; /* classes of one's own */
    }
    if (task < BP_TASK_CLASSES || (own == task && !other) || task == BP_TASK_EMBEDDING) {
        return false;
    }
    return bp_task_scores_samples(task)
               ? trains && !adapts && (other || !bp_task_scores_samples(own))
               : trains || set->adapter != NULL;
}

/* Rotary positions are computed, so that a preset of such a family takes any length; a table of
 * learned positions has rows for its own, and the plan refuses more. */
static void preset_lengthen(session *s)
{
    const settings *set = s->set;
    bp_model_config *config = &s->spec.config;
    const bp_model *model = config->family->model;
    const bool rotary = model == &bp_model_llama || model == &bp_model_neox;
    if (!rotary || set->sequence <= config->positions) {
        return;
    }
    if (!set->quiet) {
        char line[128];
        bp_text text;
        bp_text_init(&text, NULL, NULL, line, sizeof line);
        bp_text_string(&text, ": the model was made for ");
        bp_text_grouped(&text, config->positions);
        bp_text_string(&text, " positions; this run has ");
        bp_text_grouped(&text, set->sequence);
        const bp_status fits = bp_text_flush(&text); /* 80 characters at most */
        (void)fits;
        output_print(stderr, "bedplate: %s%s\n", set->model, line);
    }
    config->positions = (uint32_t)set->sequence;
}

static bp_status find_model(session *s)
{
    const settings *set = s->set;
    if (set->model == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the option is needed: a model directory or a preset", "--model");
    }
    BP_TRY(open_gguf(s));
    const bp_preset *preset = bp_preset_find(set->model);
    char path[BP_STORE_PATH_MAX];
    bool files = false;
    BP_TRY(bp_storage_join(path, set->model, "config.json", &s->error));
    BP_TRY(bp_storage_exists(s->store, path, &files, &s->error));
    if (files) {
        s->directory = true;
        BP_TRY(read_directory(s));
    } else if (preset != NULL) {
        s->spec.config = bp_preset_config(preset);
        preset_lengthen(s);
        if (set->command == COMMAND_TRAIN && !set->quiet) {
            output_print(stderr, "bedplate: %s: a preset: the weights are random\n", set->model);
        }
    } else {
        return no_model(s);
    }
    const bp_task own = s->spec.config.task;
    const uint32_t classes = s->spec.config.classes;
    const bool silent = classes == 0 || set->num_labels != 0;
    BP_TRY(model_task(set, &s->spec.config, &s->error));
    s->new_head = lacks_head(set, &s->spec.config, own, classes);
    if (s->names.count != s->spec.config.classes) {
        s->names.count = 0; /* those of other classes */
    }
    const bp_task task = s->spec.config.task;
    s->own_task = own;
    s->classes_named = !silent || s->names.count > 0;
    s->classes_open = (set->command & (COMMAND_TRAIN | COMMAND_PLAN)) != 0 && !s->classes_named &&
                      (task == BP_TASK_CLASSES || task == BP_TASK_LABELS);
    if (task == BP_TASK_EMBEDDING) {
        BP_TRY(embedder_choose(s));
    }
    if (set->dropout < 0.0 && set->dropout > -1.0) {
        return bp_error_set(
            &s->error, BP_ERR_USAGE, where,
            "the value is out of range: expected 0 to 0.99, or -1: as in the configuration",
            "--dropout");
    }
    if (set->dropout >= 0.0 || model_preference(set->task) != BP_PREFERENCE_NONE ||
        policy_asked(set)) {
        bp_family_set_dropouts(&s->spec.config, set->dropout >= 0.0 ? set->dropout : 0.0);
    }
    return BP_OK;
}

/* The policy as it was given; a list must name stages that the model has. */
static bp_status read_policy(session *s)
{
    uint32_t stages = s->spec.model->stages(&s->spec.config);
    const char *right = policy_read(s->set->checkpointing, &s->policy);
    if (right != NULL) {
        return BP_ERR_USAGE; /* options_parse lets none through */
    }
    for (uint32_t i = 0; i < s->policy.policy.list_count; i++) {
        if (s->policy.list[i] >= stages) {
            output_print(
                stderr,
                "bedplate: --gradient-checkpointing: the list names a stage that is not there: "
                "the model has %u stages: found %u, expected 0 to %u\n",
                stages, s->policy.list[i], stages - 1);
            return BP_ERR_USAGE;
        }
    }
    s->spec.policy = s->policy.policy;
    return BP_OK;
}

static uint32_t sequence_of(const session *s)
{
    uint64_t asked = s->set->sequence;
    uint32_t most = s->spec.config.positions;
    if (asked == 0 && s->embedder.max_length > 0) {
        return s->embedder.max_length < most ? s->embedder.max_length : most;
    }
    if (asked == 0) {
        if (s->spec.config.vocabulary == 0) {
            return most; /* a row of numbers is as long as the model says */
        }
        return most < SEQUENCE_DEFAULT ? most : SEQUENCE_DEFAULT;
    }
    return (uint32_t)asked;
}

/* Into how many pieces of time the sequences are cut, where the model's are. */
static void cut_time(session *s)
{
    bp_spec *spec = &s->spec;
    uint64_t usual = bp_size_ceil_div(spec->sequence, TIME_PIECES);
    usual = usual > TIME_STEPS ? usual : TIME_STEPS;
    uint64_t steps = s->set->time_chunk != 0 ? s->set->time_chunk : usual;
    bp_family_set_pieces(&spec->config, (uint32_t)bp_size_ceil_div(spec->sequence, steps));
}

/* The smallest power of two that is no less. */
static uint32_t smallest_power(uint32_t size)
{
    uint32_t power = 1;
    while (power < size) {
        power *= 2;
    }
    return power;
}

/* --virtual-ranks, else the fewest that so many ranks can share. */
static uint32_t lanes_of(const settings *set, uint32_t size)
{
    const uint32_t lanes = smallest_power(size);
    return option_given(set, "virtual-ranks") ? (uint32_t)set->virtual_ranks : lanes;
}

/* Ranks of which each would compute everything. */
static bp_status check_virtual_ranks(session *s)
{
    const bool parts = bp_spec_leaves(&s->spec) > 1 || bp_spec_sequence_ranks(&s->spec) > 1;
    if (parts || s->spec.ranks == 1) {
        return BP_OK;
    }
    return bp_error_limit(&s->error, BP_ERR_USAGE, where, "there are more ranks than virtual ranks",
                          "--virtual-ranks", 1, BP_LIMIT_LEAST, s->spec.ranks);
}

/* Of a language model that is asked how many tokens it guesses right. */
static bp_status count_tokens(session *s)
{
    bp_spec *spec = &s->spec;
    const bool words =
        spec->config.task < BP_TASK_CLASSES && spec->preference.kind == BP_PREFERENCE_NONE;
    const char *fault =
        !words ? "tokens are guessed by language models, and this task is judged by something "
                 "else: the option goes with causal-lm and masked-lm"
        : spec->model == &bp_model_rnn
            ? "a recurrent net's logits are made piece of time by piece of time and are not kept"
            : NULL;
    if (fault != NULL && s->set->token_accuracy) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, fault, "token-accuracy");
    }
    spec->keep_logits = spec->keep_logits || (words && metric_counts_tokens(s->set));
    return BP_OK;
}

/* The weights of a GGUF file, and experts' blocks, stay in their types where they are frozen. */
static void stored_fill(session *s)
{
    bp_spec *spec = &s->spec;
    const uint32_t trains = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_BENCH;
    const bool frozen = (s->set->command & trains) == 0 || spec->lora.rank > 0;
    if (frozen && !s->set->dequantize && spec->quantised == BP_QUANTISED_NONE) {
        spec->stored = s->gguf.stored;
        spec->stored_count = s->gguf.stored_count;
    }
    if (frozen && !s->set->dequantize && spec->config.experts != BP_QUANTISED_NONE) {
        spec->experts = spec->config.experts;
    }
}

static bp_status fill_spec(session *s)
{
    const settings *set = s->set;
    bp_spec *spec = &s->spec;
    spec->model = spec->config.family->model;
    BP_TRY(optimizer_fill(set, spec));
    BP_TRY(preference_fill(set, spec, &s->error));
    spec->batch = (uint32_t)set->batch * preference_rows(spec);
    spec->accumulation = (uint32_t)set->accumulation;
    spec->ranks = ranks_size(set);
    spec->rank = ranks_rank(set);
    shard_resolve(set, spec);
    spec->sequence_ranks = (uint32_t)set->sequence_ranks;
    spec->token_lanes = option_given(set, "virtual-sequence-ranks")
                            ? (uint32_t)set->virtual_sequence_ranks
                            : smallest_power(spec->sequence_ranks);
    spec->virtual_ranks = lanes_of(set, spec->ranks / spec->sequence_ranks);
    spec->sequence = sequence_of(s);
    const bool makes = model_makes_texts(&spec->config) && set->source == 0;
    spec->source = makes && model_hears(&spec->config) ? model_hears_positions(&spec->config)
                   : model_sees(&spec->config)         ? model_sees_tokens(&spec->config)
                   : makes                             ? spec->sequence
                                                       : (uint32_t)set->source;
    cut_time(s);
    spec->loss_rows = (uint32_t)set->loss_rows;
    spec->sequence_chunk = set->sequence_chunk != OPTION_AUTO ? (uint32_t)set->sequence_chunk : 0;
    spec->smoothing = set->label_smoothing;
    spec->noise = set->neftune / sqrt((double)spec->sequence);
    spec->eval_batch = set->command == COMMAND_EVAL || set->command == COMMAND_EMBED ||
                               set->command == COMMAND_DISTILL
                           ? 0
                           : (uint32_t)set->eval_batch * preference_rows(spec);
    embedder_fill(set, spec);
    spec->seed = set->seed;
    spec->plan_nodes = PLAN_NODES;
    spec->poison = set->poison;
    const bool seen = set->command == COMMAND_PLAN && set->row_pairs;
    spec->pairs = set->text_pairs || seen || spec->config.task == BP_TASK_ANSWERS;
    /* Evaluation counts what is right. */
    spec->keep_logits = spec->config.task >= BP_TASK_CLASSES || preference_refers(spec);
    BP_TRY(count_tokens(s));
    spec->evaluate = preference_refers(spec);
    spec->packed = packing_apart(set);
    BP_TRY(distill_fill(s));
    if (s->offload.flash) {
        spec->offload = (bp_offload){.fixed = true};
    } else if (s->offload.asked && set->arena == 0) {
        offload_all(spec, s->offload.what);
    }
    BP_TRY(adapter_fill(set, s->store, &s->adapters, spec, &s->error));
    BP_TRY(quantised_fill(set, spec));
    stored_fill(s);
    return precision_fill(set, &s->rules, spec);
}

bp_status session_begin(session *s, const settings *set)
{
    memset(s, 0, sizeof *s);
    s->set = set;
    dry_run_watch(set->quiet);
    BP_TRY(bp_store_posix_init(&s->posix, ""));
    s->store = &s->posix.store;
    BP_TRY(offload_read(&s->offload, set, &s->error));
    BP_TRY(find_model(s));
    BP_TRY(device_choose(set, &s->spec, &s->error));
    s->spec.device_options.verify = set->verify_products ? &s->checked : NULL;
    BP_TRY(offload_check(&s->offload, set, &s->spec, &s->error));
    BP_TRY(fill_spec(s));
    BP_TRY(image_augment_check(s));
    return read_policy(s);
}

bp_fit_request session_request(const session *s)
{
    const settings *set = s->set;
    bool batch = option_given(set, "per-device-train-batch-size") ||
                 option_given(set, "gradient-accumulation-steps");
    bool policy = option_given(set, "gradient-checkpointing") && !s->policy.automatic;
    batch = batch || s->spec.texts > 1; /* which is part of the loss */
    batch = batch || bp_fit_batch_matters(&s->spec) != NULL;
    return (bp_fit_request){
        .spec = s->spec,
        .budget = set->arena,
        .free_policy = !policy,
        .free_batch = !batch && !s->batch_resolved && preference_rows(&s->spec) == 1,
        .free_chunk = !option_given(set, "loss-chunk-rows") && !s->chunk_resolved,
        .free_sequence_chunk = set->sequence_chunk == OPTION_AUTO,
        .planned = true,
        .rates = BP_RATES_DEFAULT,
        .watch = dry_run_advance,
    };
}

/* Rates measured by an earlier run in the same place, or now. */
static bp_status find_rates(session *s, bool needed)
{
    const char *directory = s->set->output_dir;
    if (!needed || !s->set->calibrate) {
        return BP_OK;
    }
    s->calibrated = true;
    if (directory != NULL && calibrate_read(s->store, directory, &s->spec, &s->rates)) {
        return BP_OK;
    }
    return calibrate_measure(&s->spec, &s->rates, &s->error);
}

bp_status session_save_rates(session *s)
{
    if (!s->calibrated) {
        return BP_OK;
    }
    return calibrate_write(s->store, s->set->output_dir, &s->rated, &s->rates, &s->error);
}

/* All ranks make the same choice. */
static bp_status choose_options(void *user)
{
    session *s = user;
    if (s->set->arena == 0 || s->spec.optimizer == NULL) {
        return BP_OK;
    }
    const uint32_t rank = s->spec.rank;
    bp_fit_request request = session_request(s);
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(find_rates(s, request.free_policy));
    s->rated = s->spec;
    bp_spec all = request.spec;
    offload_all(&all, s->offload.what);
    const bp_status status = bp_share_fit(
        &s->choice, &request, s->offload.asked && !s->offload.flash ? &all.offload : NULL,
        s->calibrated ? &s->rates : NULL, &dry_run_lender, &s->offload.chosen, &s->error);
    BP_TRY(adapter_blame(s->set, status, &s->error));
    s->spec = s->choice.fit.spec;
    s->spec.rank = rank;
    return BP_OK;
}

bp_status session_choose(session *s)
{
    static bp_wire_clocks clocks; /* large */
    bp_share_search search = {.spec = &s->spec,
                              .choice = &s->choice,
                              .error = &s->error,
                              .choose = choose_options,
                              .user = s,
                              .arena = s->set->arena,
                              .free_ahead = !option_given(s->set, "shard-ahead"),
                              .wire = {.ranks = s->spec.ranks},
                              .memory = &dry_run_lender,
                              .clocks = &clocks};
    bp_status status;
    if (shard_automatic(s->set) && s->spec.optimizer != NULL) {
        BP_TRY(shard_plan_links(s->set, &search.wire, &s->error));
        status = bp_share_find(&search, &s->sharing);
    } else {
        status = bp_share_ahead(&search);
    }
    dry_run_wipe();
    return status;
}

static run_tokenizer_ask ask_of(session *s)
{
    return (run_tokenizer_ask){.store = s->store,
                               .set = s->set,
                               .config = &s->spec.config,
                               .directory = s->directory,
                               .weights = s->weights,
                               .error = &s->error};
}

bp_status session_find_run_tokenizer(session *s)
{
    const run_tokenizer_ask ask = ask_of(s);
    return run_tokenizer_find(&s->run_tokenizer, &ask);
}

/* Where no arena has room enough, reading text takes most: then all of the rest is there too. */
bp_status session_open_run_tokenizer(session *s)
{
    const run_tokenizer_ask ask = ask_of(s);
    BP_TRY(run_tokenizer_find(&s->run_tokenizer, &ask));
    if (device_takes_memory(&s->spec)) {
        process_resolve();
    }
    BP_TRY(run_tokenizer_open(&s->run_tokenizer, &ask));
    s->tokenizer_digest = s->run_tokenizer.kind == TOKENIZER_TOKENIZER
                              ? bp_tokenizer_digest(&s->run_tokenizer.tokenizer)
                              : 0;
    return BP_OK;
}

/* What planning took beyond its tables serves to read and write files, and the rest goes back. A
 * plan so small that making it took more keeps as much as that was. */
static void keep_needed(session *s, uint64_t planned)
{
    const uint64_t tables = bp_size_align(s->plan.memory.used, PAGE_BYTES);
    const uint64_t work = session_work_bytes(s), arenas = session_arenas_here(s);
    const uint64_t least = arenas > 0 && planned > arenas ? planned - arenas : 0;
    s->work = (bp_staging){(char *)s->host.address + tables, (size_t)work};
    s->plan.memory.size = s->plan.memory.used; /* what would be allocated now is refused */
    memory_trim(&s->host, tables + work > least ? tables + work : least);
}

/* Where nothing fits, the choice has a bound of what needs the fewest bytes: now it is planned. Of
 * several ranks it has the most of them. */
static void note_least(session *s)
{
    if (s->choice.made && !s->choice.fits && s->spec.ranks <= 1 && s->plan.made) {
        s->choice.fit.best.arena_bytes = s->plan.report.arena_bytes;
    }
}

bp_status session_plan(session *s)
{
    BP_TRY(check_virtual_ranks(s));
    uint64_t work = session_work_bytes(s);
    bp_status status = dry_run_take(&s->plan, &s->spec, work, &s->host, &s->error);
    if (status == BP_OK) {
        const uint64_t plan = dry_run_bytes(&s->plan);
        status = bp_plan_make_counted(&s->plan, s->host.address, plan);
        note_least(s);
        status = status == BP_OK ? bp_runtime_take(&s->runtime, &s->plan) : status;
        keep_needed(s, plan);
    }
    dry_run_wipe();
    return adapter_blame(s->set, status, &s->plan.error);
}

uint64_t session_plan_digest(const session *s)
{
    return s->shared != NULL ? s->alone_plan : bp_graph_digest(&s->plan.graph);
}

static bp_status load_weights(session *s)
{
    const settings *set = s->set;
    tensor_faults faults = {.path = s->weights_path};
    const bp_hf_location place = {.store = s->store,
                                  .path = s->weights_path,
                                  .scratch = s->work,
                                  .allow = (set->allow_missing ? BP_ALLOW_MISSING : 0u) |
                                           (set->allow_unexpected ? BP_ALLOW_UNEXPECTED : 0u) |
                                           (set->ignore_mismatched ? BP_ALLOW_SHAPE : 0u) |
                                           (s->new_head ? BP_ALLOW_NEW_HEAD : 0u),
                                  .state_follows = s->state_follows,
                                  .base_there = s->shared != NULL && s->shared->loaded,
                                  .modules = s->modules,
                                  .module_count = s->spec.config.dense_count,
                                  .watch = tensor_faults_print,
                                  .user = &faults,
                                  .error = &s->error};
    bp_status status = bp_hf_weights_load(&s->runtime, &place);
    tensor_faults_end(&faults, &s->error);
    if (status == BP_ERR_FIT && s->error.code == BP_ERR_FIT) {
        /* The room is made for this model's tensors: a file that needs more holds others. */
        s->error.code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    return status;
}

/* Whatever differs from this base is told by name. */
static bp_status load_adapters(session *s)
{
    char path[BP_STORE_PATH_MAX];
    if (!there(s, s->set->adapter, "adapter_model.safetensors")) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            there(s, s->set->adapter, "adapter_model.bin")
                                ? "the adapter's weights are not in adapter_model.safetensors, "
                                  "which is the form that can be read"
                                : "the adapter has no adapter_model.safetensors",
                            s->set->adapter);
    }
    BP_TRY(bp_storage_join(path, s->set->adapter, "adapter_model.safetensors", &s->error));
    tensor_faults faults = {.path = path};
    const bp_hf_location place = {.store = s->store,
                                  .path = path,
                                  .scratch = s->work,
                                  .state_follows = s->state_follows,
                                  .watch = tensor_faults_print,
                                  .user = &faults,
                                  .error = &s->error};
    bp_status status = bp_hf_adapters_load(&s->runtime, &place);
    tensor_faults_end(&faults, &s->error);
    return status;
}

/* What a checkpoint or a file holds is not drawn. */
bp_status session_give_weights(session *s, bool adapters)
{
    BP_TRY(bp_runtime_clear(&s->runtime));
    if (s->state_follows) {
        bp_runtime_state_given(&s->runtime);
    }
    if (s->shared != NULL && s->shared->loaded) {
        bp_runtime_base_given(&s->runtime);
    }
    if (s->weights) {
        BP_TRY(load_weights(s));
    }
    if (s->set->adapter != NULL && adapters) {
        adapter_say_base(s->set, &s->spec);
        BP_TRY(load_adapters(s));
    }
    if (s->shared != NULL && !s->shared->loaded) {
        s->shared->drawn = bp_runtime_draws_base(&s->runtime);
        s->shared->loaded = true;
    }
    return bp_runtime_draw(&s->runtime);
}

static bp_status session_open(session *s)
{
    const uint64_t bytes = s->plan.report.arena_bytes;
    const uint64_t host_bytes = s->plan.report.host.arena_bytes;
    void *arena = s->shared != NULL ? s->shared->memory.address : s->arena.address;
    bp_regions places = bp_regions_device(arena, bytes);
    places.space[BP_SPACE_HOST] = (bp_region){s->host_arena.address, host_bytes};
    places.zeroed = s->shared == NULL; /* as the system gives it */
    BP_TRY(offload_open(&s->offload, s->set, &s->plan, &places, &s->error));
    if (s->set->ranks != NULL) {
        BP_TRY(ranks_compare_plans(s->set, bp_graph_digest(&s->plan.graph), &s->error));
    }
    BP_TRY(ranks_gpus_join(&s->gpus, s->set, &s->spec, &places, &s->error));
    ranks_leave_turn(s->set);
    const bp_status status = bp_runtime_open_regions(&s->runtime, &s->plan, &places);
    ranks_take_turn(s->set);
    BP_TRY(status);
    device_log_show(&s->runtime, s->set->json);
    return session_give_weights(s, true);
}

bp_status session_start(session *s)
{
    BP_TRY(session_take(s));
    return session_open(s);
}

static const bp_error *session_error(const session *s)
{
    return s->error.code != BP_OK        ? &s->error
           : s->plan.error.code != BP_OK ? &s->plan.error
                                         : &s->runtime.error;
}

/* The command with the options that mend an error, where some do. */
static void session_try(const session *s, const bp_error *error)
{
    static const char *const mends[BP_MEND_COUNT] = {
        [BP_MEND_ADAPTERS] = "--lora-r 8",
        [BP_MEND_WRAPPED] = "--packing --packing-strategy wrapped",
        [BP_MEND_BUFFERED] = "--offload-buffered",
        [BP_MEND_STEPS] = "--max-steps 1000",
        [BP_MEND_PROMPT] = "--prompt 'Once upon a time'"};
    static output out; /* large */
    if (error->mend < BP_MEND_COUNT && mends[error->mend] != NULL) {
        output_begin(&out, stderr);
        bp_text_string(&out.text, "try: ");
        options_command_put(&out.text, s->set, mends[error->mend]);
        bp_text_char(&out.text, '\n');
        output_end(&out);
    }
}

/* What stands in the way of the adapters that would mend an error, if anything does, in its place:
 * some models have none, others have nothing to quantise. */
static void session_hindrance(const session *s, bp_error *error)
{
    char words[128];
    bp_text text;
    bp_error inner = {.code = BP_OK};
    bp_spec spec = s->spec;
    uint64_t bytes;
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    if (error->mend != BP_MEND_ADAPTERS ||
        !memory_option_apply(MEMORY_OPTION_ADAPTERS, &spec, &text) ||
        dry_run_arena(&spec, 1, &bytes, &inner) != BP_ERR_USAGE) {
        return;
    }
    if (strcmp(inner.name, error->name) != 0) {
        bp_error_prefix(&inner, error->name);
    }
    *error = inner;
}

int session_report(const session *s, bp_status status)
{
    const bp_error *error = session_error(s);
    dry_run_wipe();
    if (status == BP_OK) {
        return 0;
    }
    if (error->code != BP_OK) {
        ranks_fail(s->set, error);
    } else if (!ranks_leads(s->set)) {
        return bp_status_exit_code(status); /* rank 0 has the record of it */
    }
    if (!ranks_may_tell(s->set, status) || error->code == BP_OK) {
        /* What has no record was printed where it was found. */
        return bp_status_exit_code(status);
    }
    bp_error shown = *error;
    session_hindrance(s, &shown);
    const size_t length = strcspn(shown.name, ":");
    const bool file = error->code == BP_ERR_DATA || error->code == BP_ERR_STORE;
    const bool ours = !file || error == &s->plan.error || memchr(shown.name, '-', length) != NULL;
    if (ours && shown.name[0] != '-' && option_find(shown.name, length) != NULL) {
        const bp_error typed = shown; /* the library's "virtual-ranks" as it is typed */
        snprintf(shown.name, sizeof shown.name, "--%.*s", (int)sizeof shown.name - 3, typed.name);
    }
    const int code = report_error(&shown);
    session_try(s, &shown);
    if (error == &s->runtime.error) {
        device_log_show(&s->runtime, s->set->json);
    }
    return code;
}

void session_end(session *s)
{
    bp_runtime_close(&s->runtime);
    ranks_gpus_end(&s->gpus);
    bp_choice_end(&s->choice, &dry_run_lender);
    run_tokenizer_close(&s->run_tokenizer);
    gguf_folder_close(&s->gguf);
    offload_close(&s->offload);
    memory_give_back(&s->arena);
    memory_give_back(&s->host_arena);
    memory_give_back(&s->host);
}

/* What a session takes beside its plan. */

#define WORK_BYTES  ((uint64_t)1 << 20) /* to carry data */
#define WORK_TENSOR 2048u               /* tables, per tensor of a file */
#define WORK_RANKS  256u                /* ranks that save a state together without more, */
#define WORK_RANK   1024u               /* and what each rank beyond takes */

static uint64_t session_arenas_here(const session *s)
{
    const bp_report *report = &s->plan.report;
    return device_takes_memory(&s->spec) ? report->arena_bytes + report->host.arena_bytes : 0;
}

/* While text is read the process's own tables and stacks are smaller than in a step: measured, by
 * 170 to 235 KB. */
#define READING_LESS ((uint64_t)64 << 10)

/* What reading text takes; 0: it is not read. */
static uint64_t reading_bytes(const session *s)
{
    const bp_task task = s->spec.config.task;
    const uint64_t more = task == BP_TASK_ANSWERS  ? data_answered_bytes()
                          : task == BP_TASK_TOKENS ? data_tagged_bytes()
                                                   : 0;
    return s->run_tokenizer.bytes > 0 ? s->run_tokenizer.bytes + more - READING_LESS : 0;
}

uint64_t session_length_bytes(const session *s)
{
    const uint64_t group = bp_size_mul(s->spec.batch, s->spec.accumulation);
    return s->set->group_by_length
               ? bp_size_mul(group, BP_MEGABATCH_GROUPS * sizeof(bp_megabatch_row))
               : 0;
}

/* Text is tokenised before there are arenas. */
uint64_t session_host_bytes(const session *s)
{
    const uint64_t reading = reading_bytes(s);
    const uint64_t text = reading > s->unpack_bytes ? reading : s->unpack_bytes;
    const uint64_t arenas = session_arenas_here(s);
    const uint64_t tensors = (uint64_t)s->runtime.state_count * sizeof(bp_state_tensor);
    const uint64_t alone = text > arenas ? text - arenas : 0;
    uint64_t run = s->host.bytes + offload_room(&s->offload, &s->plan) + tensors +
                   gguf_folder_bytes(&s->gguf) + s->reference_bytes + session_length_bytes(s);
    /* Evaluations in a training read questions once more, beside the plan. */
    const bool asks = s->spec.config.task == BP_TASK_ANSWERS && s->spec.evaluate;
    /* What an evaluation in a training finds out is there from the first one on. */
    if (s->spec.evaluate && s->spec.optimizer != NULL) {
        run += bp_size_align(sizeof(predictions), PAGE_BYTES);
    }
    if (s->run_tokenizer.block.address != NULL) {
        run += s->run_tokenizer.bytes;
    } else if (asks && s->spec.optimizer != NULL) {
        run += s->run_tokenizer.bytes + data_answered_bytes();
    }
    run = run > alone ? run : alone;
    const uint64_t own = process_bytes(s->spec.device_options.threads);
    const uint64_t files = s->directory ? PROCESS_DIRECTORY_BYTES : 0;
    return device_takes_memory(&s->spec) ? run + own + files : run;
}

uint64_t session_work_bytes(const session *s)
{
    const bp_spec *spec = &s->spec;
    const uint64_t size = ranks_size(s->set), more = size > WORK_RANKS ? size - WORK_RANKS : 0;
    uint64_t tensors = 3 * (uint64_t)bp_adapter_parameters(spec) + 64;
    return WORK_BYTES + tensors * WORK_TENSOR + more * WORK_RANK;
}

/* A session's arenas: whether there is room for them, on every rank. */

static bool session_fits(const session *s)
{
    return s->set->arena == 0 || s->plan.report.arena_bytes <= s->set->arena;
}

static void session_tell_shortage(const void *user)
{
    const session *s = user;
    static shortage ways; /* large */
    if (s->lack.found) {
        ways = s->lack;
    } else {
        shortage_find(&ways, &s->choice, &s->plan, s->set);
    }
    shortage_print(&ways, s->choice.made, s->set, &s->plan);
}

bp_status session_check_fit(session *s)
{
    if (session_fits(s)) {
        return BP_OK;
    }
    session_tell_shortage(s);
    return BP_ERR_FIT;
}

/* Everything that the plan counts is resident from here on. */
static void session_resolve(session *s)
{
    if (device_takes_memory(&s->spec)) {
        process_resolve();
        memory_resolve(&s->host);
    }
}

/* An arena that is shared was taken for all. */
static bp_status session_take_memory(session *s)
{
    const uint64_t bytes = s->plan.report.arena_bytes;
    const uint64_t host_bytes = s->plan.report.host.arena_bytes;
    session_resolve(s);
    if (device_takes_memory(&s->spec) && s->shared == NULL) {
        BP_TRY(memory_take(&s->arena, bytes, true, "arena", &s->error));
    }
    if (device_takes_memory(&s->spec) && host_bytes > 0) {
        BP_TRY(memory_take(&s->host_arena, host_bytes, true, "host arena", &s->error));
    }
    return ranks_memory_gpu(s->set, &s->spec, bytes, &s->error);
}

/* Plans, and takes the arenas where there is room for them. `why`: what there is too little of. */
static bp_status take_arenas(session *s, bp_error *why)
{
    BP_TRY(s->shared == NULL ? session_plan(s) : BP_OK);
    const uint64_t bytes = s->plan.report.arena_bytes;
    if (!session_fits(s)) {
        return bp_error_limit(why, BP_ERR_FIT, where, "the plan does not fit", "--arena",
                              bp_size_signed(s->set->arena), BP_LIMIT_LEAST, bp_size_signed(bytes));
    }
    BP_TRY(s->planned != NULL ? s->planned(s) : BP_OK);
    return session_take_memory(s);
}

static bp_status session_take(session *s)
{
    bp_error why = {.code = BP_OK};
    bp_status status = take_arenas(s, &why);
    const bool over = why.code != BP_OK;
    if (!over) {
        why = *session_error(s);
    }
    status = ranks_memory_alike(s->set, status, &why, &s->error);
    if (over && status == BP_ERR_FIT && s->error.code == BP_OK) {
        ranks_memory_say(s->set, session_tell_shortage, s);
    }
    return status;
}
