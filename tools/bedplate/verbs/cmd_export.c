/* SPDX-License-Identifier: MIT */
/* bedplate export: a model directory as another directory, a GGUF file or an llm.c file. Tensor by
 * tensor: no model is ever in memory as a whole. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/session/adapter_choice.h"
#include "tools/bedplate/record/card.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/models/gguf_folder.h"
#include "tools/bedplate/models/board_state.h"
#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/quantised_choice.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/chat/chat_template.h"
#include "tools/formats/gguf/gguf_adapter.h"
#include "tools/formats/gguf/gguf_export.h"
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/embedder.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/llmc/llmc_model.h"
#include "tools/formats/peft/merge.h"
#include "tools/formats/peft/peft_names.h"
#include "tools/formats/peft/peft_config.h"
#include "tools/formats/files/stream_file.h"

static const char where[] = "export";

typedef struct exporting {
    model_files m;
    gguf_folder gguf;
    bp_gguf_adapter alone; /* what is written without the model */
    const char *format;    /* hf, gguf or llmc */
    char weights[BP_STORE_PATH_MAX];
    bp_weight_source source;
    bp_tokenizer tokenizer;
    bp_peft_config adapter;
    bp_tensor_set adapters;
    bp_embedder embedder;
    char adapter_path[BP_STORE_PATH_MAX];
    struct bp_merge merge;
} exporting;

static bp_status cmd_export_need(model_files *m, const char *value, const char *option,
                                 const char *text)
{
    return value != NULL ? BP_OK : bp_error_set(&m->error, BP_ERR_USAGE, where, text, option);
}

/* How the directory makes a text's vector of its tokens'. */
static bp_status read_pooling(exporting *e)
{
    model_files *m = &e->m;
    BP_TRY(
        bp_embedder_read(m->store, m->set->model, NULL, m->work.memory, &e->embedder, &m->error));
    m->config.pooling = e->embedder.pooling;
    if (e->embedder.dense_count > 0 && strcmp(e->format, "hf") != 0) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "Dense modules are exported into directories alone", "--format");
    }
    if (e->embedder.normalize && strcmp(e->format, "gguf") == 0) {
        output_print(stderr,
                     "bedplate: %s: GGUF cannot record that vectors have length 1; the reader has "
                     "to normalise them\n",
                     m->set->model);
    }
    return BP_OK;
}

/* A model without a head makes vectors: that of sentence-transformers, or one whose class, in the
 * config.json at `path`, is the model alone. */
static bp_status take_bare(exporting *e, const char *path)
{
    model_files *m = &e->m;
    char modules[BP_STORE_PATH_MAX];
    bool found = false, bare = false;
    BP_TRY(bp_storage_join(modules, m->set->model, bp_embedder_files[0], &m->error));
    const bool listed = m->store->exists(m->store, modules, &found) == BP_OK && found;
    BP_TRY(bp_hf_config_bare(m->store, path, m->work.memory, &bare, &m->error));
    if (listed || bare) {
        m->config.task = BP_TASK_EMBEDDING;
        m->config.classes = bp_family_count(&m->config, BP_ROLE_WIDTH);
    }
    return listed ? read_pooling(e) : BP_OK;
}

/* Reads config.json and matches the weights. */
static bp_status open_model(exporting *e)
{
    model_files *m = &e->m;
    const settings *set = m->set;
    char path[BP_STORE_PATH_MAX];
    const char *why;
    bool found = false, gguf;
    BP_TRY(cmd_export_need(m, set->model, "--model", "the option is needed: a model directory"));
    BP_TRY(cmd_export_need(m, set->to, "--to", "the option is needed: where to write"));
    BP_TRY(gguf_folder_open(&e->gguf, m->store, set->model, &gguf, &why, &m->error));
    m->store = gguf ? &e->gguf.store : m->store;
    m->target.store = m->store;
    BP_TRY(bp_storage_join(path, set->model, "config.json", &m->error));
    if (m->store->exists(m->store, path, &found) != BP_OK || !found) {
        return bp_error_set(&m->error, BP_ERR_DATA, where,
                            "there is no directory with a config.json here, and no GGUF file",
                            set->model);
    }
    BP_TRY(bp_hf_config_read(m->store, path, m->work.memory, &m->config, &m->error));
    BP_TRY(take_bare(e, path));
    BP_TRY(bp_hf_find(m->store, set->model, e->weights, &found, &m->error));
    if (!found && !gguf) {
        return bp_error_set(&m->error, BP_ERR_DATA, where,
                            "the directory has no model.safetensors and no index of shards",
                            set->model);
    }
    model_files_say_other(m->store, set->model, e->weights);
    m->model = m->config.family->model;
    if (gguf) {
        BP_TRY(bp_gguf_open_set(&m->source, m->store, set->model, &m->room, &m->error));
        return model_files_match(m, m->config.family->gguf->naming, &e->source);
    }
    BP_TRY(bp_hf_open(&m->source, m->store, e->weights, &m->room, &m->error));
    return model_files_match(m, &m->config.family->naming, &e->source);
}

/* The template that adapters were trained with, and where its turns end, go before the base's. */
static bp_status copy_adapter_files(exporting *e)
{
    static const char *const names[] = {"chat_template.jinja", "generation_config.json"};
    model_files *m = &e->m;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[BP_STORE_PATH_MAX];
        char to[BP_STORE_PATH_MAX];
        bool copied;
        BP_TRY(bp_storage_join(from, m->set->adapter, names[i], &m->error));
        BP_TRY(bp_storage_join(to, m->set->to, names[i], &m->error));
        BP_TRY(
            bp_copy_file(m->store, from, to, m->work.memory, m->work.capacity, &copied, &m->error));
    }
    return BP_OK;
}

static bp_status copy_files(exporting *e)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "vocab.txt",
                                        "spiece.model",
                                        "sentencepiece.bpe.model",
                                        "tekken.json",
                                        "generation_config.json",
                                        "preprocessor_config.json",
                                        "chat_template.jinja"};
    model_files *m = &e->m;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[BP_STORE_PATH_MAX];
        char to[BP_STORE_PATH_MAX];
        bool copied;
        BP_TRY(bp_storage_join(from, m->set->model, names[i], &m->error));
        BP_TRY(bp_storage_join(to, m->set->to, names[i], &m->error));
        BP_TRY(
            bp_copy_file(m->store, from, to, m->work.memory, m->work.capacity, &copied, &m->error));
    }
    return m->set->adapter != NULL ? copy_adapter_files(e) : BP_OK;
}

static bp_status copy_below(exporting *e, const char *name)
{
    model_files *m = &e->m;
    char from[BP_STORE_PATH_MAX], to[BP_STORE_PATH_MAX];
    bool copied;
    BP_TRY(bp_storage_join(from, m->set->model, name, &m->error));
    BP_TRY(bp_storage_join(to, m->set->to, name, &m->error));
    return bp_copy_file(m->store, from, to, m->work.memory, m->work.capacity, &copied, &m->error);
}

/* A module's directory, with its weights if it has some. */
static bp_status copy_module(exporting *e, const char *directory)
{
    static const char *const names[] = {"config.json", BP_HF_WEIGHTS};
    model_files *m = &e->m;
    char path[BP_STORE_PATH_MAX];
    BP_TRY(bp_storage_join(path, m->set->to, directory, &m->error));
    if (m->store->make_directory(m->store, path) != BP_OK) {
        return bp_storage_failed(&m->error, m->store, "make directory", path);
    }
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(bp_storage_join(path, directory, names[i], &m->error));
        BP_TRY(copy_below(e, path));
    }
    return BP_OK;
}

/* What makes the directory one of sentence-transformers. */
static bp_status copy_embedder(exporting *e)
{
    for (uint32_t i = 0; i < e->embedder.module_count; i++) {
        BP_TRY(copy_module(e, e->embedder.path[i]));
    }
    for (uint32_t i = 0; e->embedder.present && bp_embedder_files[i] != NULL; i++) {
        BP_TRY(copy_below(e, bp_embedder_files[i]));
    }
    return BP_OK;
}

/* config.json: copied as it is, or with another element type. */
static bp_status copy_config(exporting *e)
{
    model_files *m = &e->m;
    char from[BP_STORE_PATH_MAX];
    char to[BP_STORE_PATH_MAX];
    bool copied;
    BP_TRY(bp_storage_join(from, m->set->model, "config.json", &m->error));
    BP_TRY(bp_storage_join(to, m->set->to, "config.json", &m->error));
    if (!e->gguf.open && m->target.keep && m->target.form == m->config.quantised &&
        m->config.experts == BP_QUANTISED_NONE) { /* whose blocks go out as floats */
        return bp_copy_file(m->store, from, to, m->work.memory, m->work.capacity, &copied,
                            &m->error);
    }
    size_t length;
    size_t room = BP_HF_CONFIG_BYTES_MAX;
    char *text = (char *)m->work.memory + m->work.capacity - room;
    BP_TRY(bp_storage_read_small(m->store, from, text, room, &length, &m->error));
    bp_json_span span = {text, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    return model_files_config(m, &source, m->set->to);
}

static bp_status export_directory(exporting *e)
{
    model_files *m = &e->m;
    const char *to = m->set->to;
    char path[BP_STORE_PATH_MAX];
    if (m->store->make_directory(m->store, to) != BP_OK) {
        return bp_storage_failed(&m->error, m->store, "make directory", to);
    }
    BP_TRY(bp_storage_join(path, to, BP_HF_WEIGHTS, &m->error));
    m->target.path = path;
    BP_TRY(bp_hf_export(&e->source, &m->config.family->naming, &m->target));
    BP_TRY(copy_config(e));
    BP_TRY(copy_files(e));
    BP_TRY(copy_embedder(e));
    if (m->store->sync_directory(m->store, to) != BP_OK) {
        return bp_storage_failed(&m->error, m->store, "sync", to);
    }
    return BP_OK;
}

/* The last part of the directory's path, which is what people call the model. */
static void cmd_export_name_of(const char *directory, char name[128])
{
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/') {
        start--;
    }
    size_t length = end - start < 127 ? end - start : 127;
    memcpy(name, directory + start, length);
    name[length] = '\0';
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "/") == 0) {
        name[0] = '\0';
    }
}

/* Opens the directory's tokenizer; `in` stays without one, with a note, where there is none or none
 * that GGUF has keys for. */
static bp_status open_tokenizer(exporting *e, bp_gguf_tokenizer *in)
{
    model_files *m = &e->m;
    const char *directory = m->set->model;
    bp_tokenizer_need cmd_export_need;
    void *scratch = m->work.memory;
    BP_TRY(bp_tokenizer_measure(m->store, directory, scratch, &cmd_export_need, &m->error));
    if (cmd_export_need.files == BP_TOKENIZER_NONE) {
        output_print(stderr, "bedplate: %s: no tokenizer files; the GGUF file has none either\n",
                     directory);
        return BP_OK;
    }
    void *memory = bp_room_take(&m->room, cmd_export_need.bytes + 8);
    uintptr_t skew = memory == NULL ? 0 : (uintptr_t)memory % 16;
    if (memory == NULL) {
        return bp_error_limit(&m->error, BP_ERR_FIT, where,
                              "the tokenizer needs more memory, bytes", directory,
                              bp_size_signed(m->room.capacity), BP_LIMIT_LEAST,
                              bp_size_signed(cmd_export_need.bytes));
    }
    BP_TRY(bp_tokenizer_open(&e->tokenizer, m->store, directory, &cmd_export_need,
                             (char *)memory + skew, scratch, &m->error));
    const char *refusal = bp_gguf_tokenizer_refusal(&e->tokenizer, &m->config);
    size_t room = bp_gguf_tokenizer_room(&e->tokenizer) * sizeof *in->order;
    if (refusal != NULL) {
        output_print(stderr, "bedplate: %s: the GGUF file has no tokenizer: %s\n", directory,
                     refusal);
        return BP_OK;
    }
    uint32_t *order = bp_room_take(&m->room, room);
    char *text = bp_room_take(&m->room, BP_GGUF_TOKENIZER_TEXT);
    *in = (bp_gguf_tokenizer){&e->tokenizer, &m->config, order, text, &m->error};
    return order != NULL && text != NULL ? BP_OK
                                         : bp_error_set(&m->error, BP_ERR_FIT, where,
                                                        "the tokenizer is too large", directory);
}

/* The chat template of the adapters, else of the model. */
static bp_status find_template(exporting *e, bp_gguf_model *model)
{
    model_files *m = &e->m;
    const char *const folders[] = {m->set->adapter, m->set->model};
    char *to = bp_room_take(&m->room, BP_JINJA_SOURCE_MAX);
    char *scratch = bp_room_take(&m->room, BP_CHAT_TEMPLATE_SCRATCH);
    if (to == NULL || scratch == NULL) {
        return bp_error_set(&m->error, BP_ERR_FIT, where, "no memory for the chat template",
                            m->set->model);
    }
    for (size_t i = 0; i < 2 && model->chat_template_bytes == 0; i++) {
        if (folders[i] != NULL) {
            BP_TRY(bp_chat_template_find(m->store, folders[i], to, &model->chat_template_bytes,
                                         scratch, &m->error));
        }
    }
    model->chat_template = to;
    return BP_OK;
}

/* Where generation stops, by generation_config.json of the adapters, else of the model, goes before
 * what config.json says. */
static bp_status export_take_ends(exporting *e)
{
    model_files *m = &e->m;
    const run_tokenizer none = {.bytes = 0};
    end_tokens ends;
    BP_TRY(end_tokens_find(&ends, m->store, m->set->adapter, &none, m->set->model, &m->error));
    if (ends.given) {
        m->config.eos_token = ends.count > 0 ? ends.id[0] : -1;
        m->config.more_eos_count = 0;
    }
    for (uint32_t i = 1; i < ends.count && m->config.more_eos_count < BP_MORE_EOS_MAX; i++) {
        m->config.more_eos[m->config.more_eos_count++] = ends.id[i];
    }
    return BP_OK;
}

/* A language model's bos and pad are the tokenizer's, as llama.cpp's converter has it, and the
 * configuration's where no file of the tokenizer says them. An encoder's are the configuration's,
 * by which it computes. */
static void export_take_roles(exporting *e)
{
    bp_model_config *config = &e->m.config;
    const bp_tokenizer_special *special = bp_tokenizer_special_of(&e->tokenizer);
    const bool computes = config->task == BP_TASK_EMBEDDING;
    const bool bos = special->bos >= 0 && !special->bos_guessed && !computes;
    const bool pad = special->pad >= 0 && !special->pad_guessed && !computes;
    config->bos_token =
        bos || (config->bos_token < 0 && !computes) ? special->bos : config->bos_token;
    config->pad_token = pad || config->pad_token < 0 ? special->pad : config->pad_token;
}

/* Of the list of ends the tokenizer's own comes first, as llama.cpp's converter has it. */
static void export_put_first(bp_model_config *config, const bp_tokenizer_special *special)
{
    for (uint32_t i = 0; !special->eos_guessed && i < config->more_eos_count; i++) {
        if (config->more_eos[i] == special->eos) {
            config->more_eos[i] = config->eos_token;
            config->eos_token = special->eos;
        }
    }
    config->eos_token = config->eos_token < 0 ? special->eos : config->eos_token;
}

static bp_status export_gguf(exporting *e)
{
    model_files *m = &e->m;
    char name[128];
    cmd_export_name_of(m->set->model, name);
    bp_gguf_tokenizer tokenizer = {.tokenizer = NULL};
    const char *type = m->config.family->model_type;
    bp_gguf_model model = {.family = bp_gguf_family_find(type),
                           .config = &m->config,
                           .name = name,
                           .unknown_token = -1};
    if (model.family == NULL) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "GGUF files of this model type are not implemented", type);
    }
    BP_TRY(export_take_ends(e));
    BP_TRY(open_tokenizer(e, &tokenizer));
    if (tokenizer.tokenizer != NULL) {
        model.put_tokenizer = bp_gguf_put_tokenizer;
        model.user = &tokenizer;
        const bp_tokenizer_special *special = bp_tokenizer_special_of(&e->tokenizer);
        bool spells = bp_tokenizer_kind_of(&e->tokenizer) == BP_TOKENIZER_CHAR_BPE;
        model.unknown_token = spells ? special->unk : -1; /* nothing is unknown to bytes */
        export_take_roles(e);
        export_put_first(&m->config, special);
        BP_TRY(find_template(e, &model));
    }
    m->target.path = m->set->to;
    return bp_gguf_export(&e->source, &model, &m->target);
}

/* --adapter without --merge: the adapter alone. */
static bp_status export_adapter(exporting *e)
{
    model_files *m = &e->m;
    char name[128];
    const char *type = m->config.family->model_type;
    cmd_export_name_of(m->set->adapter, name);
    e->alone = (bp_gguf_adapter){.family = bp_gguf_family_find(type), .name = name};
    if (e->alone.family == NULL) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "GGUF files of this model type are not implemented", type);
    }
    if (m->target.packed != NULL || !m->target.keep) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "an adapter is written alone in fp32: --merge writes another type",
                            m->target.packed != NULL ? "--save-quant" : "--dtype");
    }
    m->target.path = m->set->to;
    return bp_gguf_adapter_export(&e->source, &e->alone, &m->target);
}

static void print_adapter(const exporting *e, const settings *set)
{
    if (!set->json) {
        output_print(stdout,
                     "%s: %" PRIu64 " tensors, %" PRIu64 " parameters, %" PRIu64
                     " bytes (gguf, an adapter)\n",
                     set->to, e->alone.tensors, e->alone.parameters, e->m.target.bytes);
        return;
    }
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    json_text(&out, "path", set->to);
    json_text(&out, "format", "gguf");
    json_text(&out, "type", "adapter");
    json_count(&out, "tensors", e->alone.tensors);
    json_count(&out, "parameters", e->alone.parameters);
    json_count(&out, "bytes", e->m.target.bytes);
    json_end(&out);
    output_end(&out);
}

static bp_status export_llmc(exporting *e)
{
    model_files *m = &e->m;
    if (strcmp(m->model->name, "gpt2") != 0) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where, "llm.c files hold GPT-2 models only",
                            m->model->name);
    }
    if (m->config.task != BP_TASK_CAUSAL_LM) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "llm.c files hold language models only: they have no place for a "
                            "classifier",
                            m->set->model);
    }
    m->target.path = m->set->to;
    return bp_llmc_export(&e->source, &m->config, &m->target);
}

/* --adapter DIR: its tensors are read now, and added to what is written or written alone. */
static bp_status open_adapter(exporting *e)
{
    model_files *m = &e->m;
    const settings *set = m->set;
    char path[BP_STORE_PATH_MAX];
    if (set->merge ? set->adapter == NULL
                   : set->adapter != NULL && strcmp(e->format, "gguf") != 0) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "an adapter is exported merged, by --adapter DIR and --merge together, "
                            "or alone to a GGUF file",
                            set->merge ? "--merge" : "--adapter");
    }
    if (set->adapter == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_storage_join(path, set->adapter, "adapter_config.json", &m->error));
    BP_TRY(bp_peft_config_read(m->store, path, m->work.memory, &e->adapter, &m->error));
    bp_peft_choice_rename(&e->adapter.choice, &m->config, &e->adapter.lora);
    BP_TRY(adapter_check(path, &e->adapter, &m->config, &m->error));
    BP_TRY(bp_storage_join(e->adapter_path, set->adapter, "adapter_model.safetensors", &m->error));
    BP_TRY(bp_hf_open(&e->adapters, m->store, e->adapter_path, &m->room, &m->error));
    const char *layer = NULL;
    for (size_t i = 0; layer == NULL && i < e->source.count; i++) {
        layer = bp_peft_in_layer(e->source.list[i].name) ? e->source.list[i].name : NULL;
    }
    bp_status status = bp_peft_complete(&e->adapters, &m->config.family->naming, layer, &m->room);
    if (status == BP_OK) {
        status = bp_merge_load(&e->merge, &e->adapters, &e->adapter.lora, m->model->input_major,
                               &e->source, &m->room, &m->error);
    }
    bp_status closed = bp_tensor_set_close(&e->adapters);
    e->source.merge = &e->merge;
    const bp_spec beside = {
        .model = m->model, .config = m->config, .quantised = m->config.quantised};
    adapter_say_base(set, &beside);
    return status != BP_OK ? status : closed;
}

/* bitsandbytes has no codes of experts. Those in blocks have the same numbers as floats. */
static void say_experts(const model_files *m, const bp_spec *spec)
{
    char words[128];
    if (spec->config.experts != BP_QUANTISED_NONE) {
        output_print(stderr, "bedplate: %s: experts are written as floats\n", m->set->to);
        return;
    }
    output_print(stderr,
                 "bedplate: %s: experts are written as floats (eval --model %s %s quantises them, "
                 "as it does those of %s)\n",
                 m->set->to, m->set->to, quantised_options(spec->quantised, words), m->set->model);
}

/* In which form weights go out: merged ones as floats, and so what is given another type; else as
 * they are, or as the options say. */
static bp_status choose_form(exporting *e)
{
    model_files *m = &e->m;
    const settings *set = m->set;
    bp_spec spec = {.model = m->model, .config = m->config};
    bool asked = set->load_in_4bit || set->load_in_8bit;
    bool floats = set->merge || !m->target.keep || strcmp(e->format, "hf") != 0;
    if (asked && floats) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "quantised weights go out as --format hf with --dtype source, and not "
                            "merged",
                            set->load_in_4bit ? "--load-in-4bit" : "--load-in-8bit");
    }
    BP_TRY(quantised_fill(set, &spec));
    m->target.form = floats ? BP_QUANTISED_NONE : spec.quantised;
    if (asked && quantised_mixes(&spec)) {
        say_experts(m, &spec);
    }
    return BP_OK;
}

/* The blocks of --save-quant, which GGUF files have. */
static bp_status choose_packed(exporting *e)
{
    static const struct {
        const char *word;
        uint32_t type; /* ggml's number */
    } words[] = {{"q4_0", 2}, {"q4_1", 3},  {"q5_0", 6},  {"q5_1", 7},
                 {"q8_0", 8}, {"q4_k", 12}, {"q5_k", 13}, {"q6_k", 14}};
    model_files *m = &e->m;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(m->set->save_quant, words[i].word) == 0) {
            m->target.packed = bp_packed_of(words[i].type);
        }
    }
    if (m->target.packed != NULL && (strcmp(e->format, "gguf") != 0 || !m->target.keep)) {
        return bp_error_set(&m->error, BP_ERR_USAGE, where,
                            "blocks are written to a GGUF file, and --dtype gives no other type",
                            "--save-quant");
    }
    return BP_OK;
}

/* What is written: as --format says, else by the ending of --to. */
static const char *choose_format(const settings *set)
{
    if (strcmp(set->format, "auto") != 0 || set->to == NULL) {
        return set->format;
    }
    return model_files_ends(set->to, ".gguf")  ? "gguf"
           : model_files_ends(set->to, ".bin") ? "llmc"
                                               : "hf";
}

/* Who names a file of weights wants no directory of that name. */
static bp_status check_name(exporting *e, const settings *set)
{
    if (strcmp(e->format, "hf") == 0 && set->to != NULL &&
        model_files_ends(set->to, ".safetensors")) {
        return bp_error_set(&e->m.error, BP_ERR_USAGE, where,
                            "a Hugging Face model is a directory, in which model.safetensors lies: "
                            "give a name for the directory",
                            "--to");
    }
    return BP_OK;
}

static bp_status export_model(exporting *e, const settings *set)
{
    e->format = choose_format(set);
    BP_TRY(model_files_begin(&e->m, set));
    BP_TRY(check_name(e, set));
    BP_TRY(open_model(e));
    BP_TRY(open_adapter(e));
    BP_TRY(choose_form(e));
    BP_TRY(choose_packed(e));
    if (strcmp(e->format, "hf") == 0) {
        return export_directory(e);
    }
    if (set->adapter != NULL && !set->merge) {
        return export_adapter(e);
    }
    return strcmp(e->format, "gguf") == 0 ? export_gguf(e) : export_llmc(e);
}

/* --card: of the adapter's run, where one is given, else of the model's. */
static int cmd_export_card(const settings *set)
{
    bp_error error = {.code = BP_OK};
    const char *run = set->adapter != NULL ? set->adapter : set->model;
    bp_status status = run != NULL
                           ? card_write(run, set->card, &error)
                           : bp_error_set(&error, BP_ERR_USAGE, where,
                                          "the option is needed: a model directory", "--model");
    if (status == BP_OK && set->to == NULL) {
        output out;
        output_begin(&out, stdout);
        if (set->json) {
            json_begin(&out);
            json_text(&out, "card", set->card);
            json_end(&out);
        } else {
            bp_text_string(&out.text, set->card);
            bp_text_char(&out.text, '\n');
        }
        output_end(&out);
    }
    return report_status(status, &error);
}

/* --format state: a checkpoint as a board keeps it. */
static int cmd_export_state(exporting *e, const settings *set)
{
    model_files *m = &e->m;
    board_state_found found = {0};
    bp_status status = model_files_begin(m, set);
    if (status == BP_OK && (set->model == NULL || set->adapter != NULL)) {
        status = bp_error_set(&m->error, BP_ERR_USAGE, where,
                              "a state is made of one directory of a checkpoint",
                              set->model == NULL ? "--model" : "--adapter");
    }
    if (status == BP_OK) {
        status = board_state_export(m->store, set->model, set->to, &found, &m->error);
    }
    if (status == BP_OK) {
        board_state_print(set->json, set->to, &found);
    }
    return model_files_end(m, status, NULL, set->to);
}

int cmd_export(const settings *set)
{
    static exporting e; /* it must not move */
    if (set->card != NULL) {
        const int carded = cmd_export_card(set);
        if (carded != 0 || set->to == NULL) {
            return carded;
        }
    }
    if (strcmp(set->format, "state") == 0 && set->to != NULL) {
        return cmd_export_state(&e, set);
    }
    bp_status status = export_model(&e, set);
    const bool alone = set->adapter != NULL && !set->merge;
    if (status == BP_OK && alone) {
        print_adapter(&e, set);
    }
    int code = model_files_end(&e.m, status, alone ? NULL : e.format, set->to);
    gguf_folder_close(&e.gguf);
    return code;
}
