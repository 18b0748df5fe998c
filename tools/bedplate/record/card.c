/* SPDX-License-Identifier: MIT */
/* A record's first line, last line and last evaluation, in CycloneDX's words. */
#include "tools/bedplate/record/card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/record/json_line.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/record/record_read.h"
#include "tools/bedplate/record/record_verify.h"
#include "tools/formats/files/stream_file.h"
#include "tools/bedplate/app/output.h"

/* Scratch of 64 MiB is address space: pages come as they are used. */
enum { CARD_BYTES = 1 << 20, STAGING_BYTES = 1 << 20, SCRATCH_BYTES = 64 << 20, VALUE = 256 };

static const char where[] = "card";

/* Lists of files of the run's line: the kind of component they are, and how they are called. */
static const struct {
    const char *list;
    const char *type;
    bool data; /* what the model learned from, or was judged by */
} inputs[] = {{"model", "file", false},
              {"tokenizer", "file", false},
              {"adapter", "file", false},
              {"data", "data", true},
              {"eval_data", "data", true}};

/* A line that is kept, and numbers of the last evaluation and step as the record has them. */
typedef struct card {
    json_line line;
    char *run, *end;
    size_t run_length, end_length;
    uint64_t steps, evaluated;
    char loss[32], eval_loss[32], metric[64], value[32];
    char chain[BP_SHA256_TEXT];
    const char *list; /* of the files that are put */
    const char *type;
    uint32_t number;
    bool references; /* to them, not they themselves */
} card;

static char *card_keep(const record_walk *walk, size_t *length)
{
    char *copy = malloc(walk->length + 1);
    if (copy != NULL) {
        memcpy(copy, walk->line, walk->length);
        copy[walk->length] = '\0';
        *length = walk->length;
    }
    return copy;
}

static void card_take(card *c, const record_walk *walk)
{
    const char *line = walk->line;
    switch (walk->kind) {
    case RECORD_RUN:
        c->run = card_keep(walk, &c->run_length);
        break;
    case RECORD_STEP:
        c->steps = walk->step;
        (void)record_value(line, walk->length, "loss", c->loss, sizeof c->loss);
        break;
    case RECORD_EVAL:
        c->evaluated = walk->step;
        (void)record_value(line, walk->length, "loss", c->eval_loss, sizeof c->eval_loss);
        (void)record_value(line, walk->length, "metric", c->metric, sizeof c->metric);
        (void)record_value(line, walk->length, "value", c->value, sizeof c->value);
        break;
    case RECORD_ENDED:
        c->end = card_keep(walk, &c->end_length);
        break;
    default:
        break;
    }
}

static bp_status card_read(card *c, const char *directory, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    record_walk walk;
    bool more = true;
    BP_TRY(bp_storage_join(path, directory, "record.jsonl", error));
    BP_TRY(record_walk_begin(&walk, path, error));
    bp_status status = BP_OK;
    while (status == BP_OK && more) {
        status = record_walk_next(&walk, &more, error);
        if (status == BP_OK && more) {
            card_take(c, &walk);
        }
    }
    bp_sha256_text(walk.chain, c->chain);
    record_walk_end(&walk);
    if (status == BP_OK && (c->run == NULL || c->end == NULL)) {
        status = bp_error_set(error, BP_ERR_FIT, where, "the heap is used up", path);
    }
    return status;
}

static void card_hash(json_line *line, const char *sha256)
{
    line_list(line, "hashes");
    line_open(line, NULL);
    line_text(line, "alg", "SHA-256");
    line_text(line, "content", sha256);
    line_close(line);
    line_list_close(line);
}

/* What a file of the record is called in the card: LIST-N. */
static bp_status card_file(void *user, const record_file *file)
{
    card *c = user;
    char ref[64];
    snprintf(ref, sizeof ref, "%s-%u", c->list, (unsigned)++c->number);
    if (c->references) {
        line_open(&c->line, NULL);
        line_text(&c->line, "ref", ref);
        line_close(&c->line);
        return BP_OK;
    }
    line_open(&c->line, NULL);
    line_text(&c->line, "type", c->type);
    line_text(&c->line, "bom-ref", ref);
    line_text(&c->line, "name", file->name);
    if (file->sha256[0] != '\0') {
        card_hash(&c->line, file->sha256);
    }
    line_close(&c->line);
    return BP_OK;
}

static bp_status card_files(card *c, const char *line, size_t length, const char *list,
                            const char *type, bool references)
{
    c->list = list;
    c->type = type;
    c->number = 0;
    c->references = references;
    return record_files_each(line, length, list, card_file, c);
}

/* An option of the run, as a property of the model. */
static void card_property(json_line *line, const char *key, const char *value)
{
    char name[VALUE];
    snprintf(name, sizeof name, "bedplate:%s", key);
    line_open(line, NULL);
    line_text(line, "name", name);
    line_text(line, "value", value);
    line_close(line);
}

static bp_status card_option(void *user, const char *key, const char *value)
{
    card_property(user, key, value);
    return BP_OK;
}

/* Members of the configuration and of the options that say what was learned. */
typedef struct card_kind {
    char type[VALUE];
    char task[VALUE];
    char own[VALUE]; /* the configuration's task, a number */
} card_kind;

static bp_status card_member(void *user, const char *key, const char *value)
{
    card_kind *kind = user;
    char *to = strcmp(key, "model_type") == 0 ? kind->type : kind->own;
    if (strcmp(key, "model_type") == 0 || strcmp(key, "task") == 0) {
        snprintf(to, VALUE, "%s", value);
    }
    return BP_OK;
}

static bp_status card_task(void *user, const char *key, const char *value)
{
    card_kind *kind = user;
    if (strcmp(key, "task") == 0) {
        snprintf(kind->task, VALUE, "%s", value);
    }
    return BP_OK;
}

static void card_metric(json_line *line, const char *type, const char *value, const char *slice,
                        uint64_t step)
{
    char text[VALUE];
    snprintf(text, sizeof text, "%s %llu", slice, (unsigned long long)step);
    line_open(line, NULL);
    line_text(line, "type", type);
    line_text(line, "value", value);
    line_text(line, "slice", text);
    line_close(line);
}

static bp_status card_model_card(card *c)
{
    json_line *line = &c->line;
    card_kind kind = {.task = "auto"};
    BP_TRY(record_members_each(c->run, c->run_length, "config", card_member, &kind));
    BP_TRY(record_members_each(c->run, c->run_length, "options", card_task, &kind));
    const char *task =
        strcmp(kind.task, "auto") != 0 ? kind.task : model_task_word((uint32_t)atoi(kind.own));
    const bool itself = strcmp(task, "causal-lm") == 0 || strcmp(task, "masked-lm") == 0;
    const bool chain = strcmp(kind.type, "mlp") == 0;
    line_open(line, "modelCard");
    line_open(line, "modelParameters");
    line_open(line, "approach");
    line_text(line, "type", itself ? "self-supervised" : "supervised");
    line_close(line);
    line_text(line, "task", task);
    line_text(line, "architectureFamily",
              chain                           ? "multilayer perceptron"
              : strcmp(kind.type, "cnn") == 0 ? "convolutional neural network"
              : strcmp(kind.type, "rnn") == 0 ? "recurrent neural network"
                                              : "transformer");
    line_text(line, "modelArchitecture", kind.type);
    line_list(line, "datasets");
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (inputs[i].data) {
            BP_TRY(card_files(c, c->run, c->run_length, inputs[i].list, NULL, true));
        }
    }
    line_list_close(line);
    line_close(line);
    line_open(line, "quantitativeAnalysis");
    line_list(line, "performanceMetrics");
    if (c->evaluated > 0) {
        card_metric(line, "loss", c->eval_loss, "evaluation after step", c->evaluated);
        if (strcmp(c->metric, "loss") != 0) {
            card_metric(line, c->metric, c->value, "evaluation after step", c->evaluated);
        }
    }
    if (c->steps > 0) {
        card_metric(line, "loss", c->loss, "training batch of step", c->steps);
    }
    line_list_close(line);
    line_close(line);
    line_close(line);
    return BP_OK;
}

/* The weights among what was exported. */
static bp_status card_weights(void *user, const record_file *file)
{
    static const char ending[] = ".safetensors";
    const size_t n = strlen(file->name), e = sizeof ending - 1;
    if (n > e && strcmp(file->name + n - e, ending) == 0) {
        memcpy(user, file->sha256, BP_SHA256_TEXT);
    }
    return BP_OK;
}

/* The model: what the card is about. */
static bp_status card_component(card *c, const char *name)
{
    static const char *const said[] = {"program", "version", "source", "plan",
                                       "tokens",  "preset",  "seed",   "state_digest"};
    json_line *line = &c->line;
    char sha256[BP_SHA256_TEXT] = "", text[VALUE];
    BP_TRY(record_files_each(c->end, c->end_length, "files", card_weights, sha256));
    line_open(line, "component");
    line_text(line, "type", "machine-learning-model");
    line_text(line, "bom-ref", "model");
    line_text(line, "name", name);
    snprintf(text, sizeof text, "step %llu", (unsigned long long)c->steps);
    line_text(line, "version", text);
    if (sha256[0] != '\0') {
        card_hash(line, sha256);
    }
    BP_TRY(card_model_card(c));
    line_list(line, "properties");
    card_property(line, "record_chain", c->chain);
    if (record_value(c->end, c->end_length, "state_digest", text, sizeof text)) {
        card_property(line, "final_state_digest", text);
    }
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (record_value(c->run, c->run_length, said[i], text, sizeof text)) {
            card_property(line, said[i], text);
        }
    }
    BP_TRY(record_members_each(c->run, c->run_length, "options", card_option, line));
    line_list_close(line);
    line_close(line);
    return BP_OK;
}

/* A UUID (RFC 9562, version 8) of the record's last chain: another record, another number. */
static void card_serial(const char *chain, char text[64])
{
    snprintf(text, 64, "urn:uuid:%.8s-%.4s-8%.3s-a%.3s-%.12s", chain, chain + 8, chain + 13,
             chain + 17, chain + 20);
}

static bp_status card_put(card *c, const char *name)
{
    json_line *line = &c->line;
    char text[64];
    line_text(line, "bomFormat", "CycloneDX");
    line_text(line, "specVersion", "1.6");
    card_serial(c->chain, text);
    line_text(line, "serialNumber", text);
    line_count(line, "version", 1);
    line_open(line, "metadata");
    BP_TRY(card_component(c, name));
    line_close(line);
    line_list(line, "components");
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        BP_TRY(card_files(c, c->run, c->run_length, inputs[i].list, inputs[i].type, false));
    }
    BP_TRY(card_files(c, c->end, c->end_length, "files", "file", false));
    line_list_close(line);
    return BP_OK;
}

/* A damaged checkpoint says nothing against the model that was exported. */
static void card_damaged(void *user, const char *path, const bp_error *reason)
{
    (void)user;
    (void)reason;
    output_print(stderr, "bedplate: %s is damaged and is passed over\n", path);
}

static bp_status card_check(bp_store *store, const char *directory, char *work, bp_error *error)
{
    record_verdict found;
    const bp_checkpoint_location place = {.store = store,
                                          .directory = directory,
                                          .scratch = work,
                                          .scratch_bytes = SCRATCH_BYTES,
                                          .staging = {work + SCRATCH_BYTES, STAGING_BYTES},
                                          .error = error};
    BP_TRY(record_verify(&place, card_damaged, NULL, &found));
    if (!found.there) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "the directory holds no record of a run (record.jsonl)", directory);
    }
    return found.ended
               ? BP_OK
               : bp_error_set(error, BP_ERR_DATA, where,
                              "the run has not ended: its record names no model", directory);
}

/* The last part of a directory's path. */
static const char *card_name(const char *directory, char name[VALUE])
{
    size_t end = strlen(directory), start;
    while (end > 1 && directory[end - 1] == '/') {
        end--;
    }
    for (start = end; start > 0 && directory[start - 1] != '/'; start--) {
    }
    snprintf(name, VALUE, "%.*s", (int)(end - start < VALUE ? end - start : VALUE - 1),
             directory + start);
    return name[0] != '\0' && strcmp(name, ".") != 0 ? name : "model";
}

bp_status card_write(const char *directory, const char *path, bp_error *error)
{
    bp_store_posix posix;
    card c = {.steps = 0};
    char name[VALUE];
    size_t length = 0;
    char *work = malloc((size_t)SCRATCH_BYTES + STAGING_BYTES);
    char *text = malloc(CARD_BYTES);
    bp_status status = bp_store_posix_init(&posix, "");
    if (work == NULL || text == NULL) {
        status = bp_error_set(error, BP_ERR_FIT, where, "the heap is used up", directory);
    }
    if (status == BP_OK) {
        status = card_check(&posix.store, directory, work, error);
    }
    if (status == BP_OK) {
        status = card_read(&c, directory, error);
    }
    if (status == BP_OK) {
        line_begin(&c.line, text, CARD_BYTES);
        status = card_put(&c, card_name(directory, name));
    }
    if (status == BP_OK) {
        status = line_end(&c.line, &length);
    }
    if (status == BP_OK) {
        status = bp_replace_file(&posix.store, path, text, length, error);
    }
    free(c.run);
    free(c.end);
    free(text);
    free(work);
    return status;
}
