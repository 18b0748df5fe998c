/* SPDX-License-Identifier: MIT */
/* From objects of JSON to settings. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "tools/bedplate/adapters/adapters_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/storage.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/session/resolve.h"

#define FILE_BYTES   ((size_t)4 << 20)
#define TEXT_BYTES   8192 /* of a key or a value */
#define MEMBERS_MAX  1024 /* of an object, each item of a list counted */
#define KEYS_OPEN    256
#define KEYS_BYTES   (KEYS_OPEN * 64)
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
#define SEPARATOR    '\n' /* between the items of a list */

/* What may differ between adapters. */
static const char *const adapter_options[] = {
    "output-dir",
    /* data */
    "data", "data-weights", "eval-data", "validation-split", "data-format", "text-column",
    "label-column", "chat-template", "loss-on", "packing", "packing-strategy", "long-rows",
    "group-by-length", "class-weights", "seed", "data-seed", "max-seq-length", "length-buckets",
    /* adapters */
    "adapter", "lora-r", "lora-alpha", "lora-dropout", "use-rslora", "use-dora", "target-modules",
    "exclude-modules", "layers-to-transform", "layers-pattern", "rank-pattern", "alpha-pattern",
    "loraplus-lr-ratio",
    /* steps */
    "per-device-train-batch-size", "per-device-eval-batch-size", "gradient-accumulation-steps",
    "gradient-checkpointing", "loss-chunk-rows", "max-steps", "num-train-epochs", "learning-rate",
    "lr-scheduler-type", "lr-scheduler-kwargs", "warmup-steps", "warmup-ratio", "min-lr", "optim",
    "optim-args", "percentile-clipping", "weight-decay", "decay-all", "adam-beta1", "adam-beta2",
    "adam-epsilon", "max-grad-norm", "param-override", "label-smoothing-factor",
    "neftune-noise-alpha", "loss-type", "beta", "label-smoothing", "simpo-gamma", "cpo-alpha",
    /* evaluating and saving */
    "eval-strategy", "eval-steps", "logging-steps", "logging-first-step", "save-strategy",
    "save-steps", "save-total-limit", "load-best-model-at-end", "keep-best",
    "metric-for-best-model", "greater-is-better", "early-stopping-patience",
    "early-stopping-threshold", "stop-at-step", "on-spike", "spike-threshold", "spike-budget"};

/* What several runs cannot have, or have in one file for all. */
static const struct {
    const char *name;
    const char *why;
} refused[] = {
    {"offload", "a base that several adapters share is in the arena as a whole"},
    {"ref-model", "the reference of adapters is the base without them"},
    {"distill", "a teacher's file is of one adapter's data"},
    {"metrics", "a file of metrics is of one run: give the word of a run's own directory"},
    {"logging-dir", "a directory of curves is of one run, which has it in its output directory"},
    {"resume-from-checkpoint", "a checkpoint is of one run: --resume finds that of each"},
    {"continue-from", "a checkpoint is of one run"},
    {"trainable-token-indices", "the token embedding would not be shared"},
    {"calibrate", "rates are measured for one run"},
    {"emit-c", "a trainer is of one run"},
    {"unit", "a unit is of one run"},
    {"frontier", "a frontier is of one run"},
    {"max-batch", "micro-batches are not searched for several runs"},
    {"html", "a page is of one run's plan"},
    {"map", "a map is of one run's plan"},
    {"listing", "a listing is of one run's plan"},
    {"ranks", "several adapters train on one rank"},
    {"shard", "several adapters train on one rank"},
};

typedef struct file_reader {
    adapters_file *file;
    const settings *base;
    const char *text; /* the file's */
    size_t length;
    char *values; /* where the next value goes; those of a file are never longer than it */
    bp_json json;
    bp_json_span span;
    char room[TEXT_BYTES];
    uint64_t keys[KEYS_BYTES / 8];
    option_pair members[MEMBERS_MAX];
    uint32_t count;
    const char *name; /* of the adapter that is read */
    unsigned line;
    bp_error error;
} file_reader;

/* bedplate: WHERE: KEY: TEXT: found F, expected W */
static bp_status file_wrong(const file_reader *r, const char *key, const char *text,
                            const char *found, const char *right)
{
    output_print(stderr, "bedplate: %s:%u: %s: %s: found \"%s\", expected %s\n", r->base->adapters,
                 r->line, key, text, found, right);
    return BP_ERR_USAGE;
}

/* What is no JSON is refused as the file's other faults are. */
static bp_status file_next(file_reader *r, bp_json_event *event)
{
    char where[600];
    if (bp_json_next(&r->json, event) == BP_OK) {
        return BP_OK;
    }
    snprintf(where, sizeof where, "%s:%u", r->base->adapters, r->line);
    bp_error_prefix(&r->error, where);
    (void)report_error(&r->error);
    return BP_ERR_USAGE;
}

static void file_keep(file_reader *r, const char *text, size_t length)
{
    memcpy(r->values, text, length);
    r->values += length;
}

/* What a scalar is as the command line has it; false for what is none. */
static bool file_keep_scalar(file_reader *r, const bp_json_event *event)
{
    const bool text = event->kind == BP_JSON_TEXT || event->kind == BP_JSON_NUMBER;
    const char *word = text                           ? event->text
                       : event->kind == BP_JSON_TRUE  ? "true"
                       : event->kind == BP_JSON_FALSE ? "false"
                                                      : NULL;
    if (word == NULL || strlen(word) != (text ? event->length : strlen(word)) ||
        strchr(word, SEPARATOR) != NULL) {
        return false;
    }
    file_keep(r, word, strlen(word));
    return true;
}

/* The items of a list, or the members of an object as KEY=VALUE, with a separator between them. */
static bp_status file_keep_items(file_reader *r, const char *key, bool object)
{
    bp_json_event event;
    bool first = true, keyed = false;
    for (;;) {
        BP_TRY(file_next(r, &event));
        if (event.kind == BP_JSON_ARRAY_END || event.kind == BP_JSON_OBJECT_END) {
            return object || !first ? BP_OK
                                    : file_wrong(r, key, "the list is empty", "[]",
                                                 "one value at least, or null");
        }
        const char before = keyed ? '=' : SEPARATOR;
        if (!first) {
            file_keep(r, &before, 1);
        }
        first = false;
        const bool is_key = object && event.kind == BP_JSON_KEY;
        keyed = is_key;
        if (is_key) {
            file_keep(r, event.text, event.length);
        } else if (!file_keep_scalar(r, &event)) {
            return file_wrong(r, key, "the value cannot be an option's", "a value in it",
                              "texts, numbers, true or false");
        }
    }
}

/* The value of a member; *value is NULL for null. */
static bp_status file_value(file_reader *r, const char *key, char **value)
{
    bp_json_event event;
    BP_TRY(file_next(r, &event));
    *value = event.kind == BP_JSON_NULL ? NULL : r->values;
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind == BP_JSON_ARRAY_BEGIN || event.kind == BP_JSON_OBJECT_BEGIN) {
        BP_TRY(file_keep_items(r, key, event.kind == BP_JSON_OBJECT_BEGIN));
    } else if (!file_keep_scalar(r, &event)) {
        return file_wrong(r, key, "the value cannot be an option's", "a text that is too long",
                          "a text of one line and at most 8,191 bytes");
    }
    file_keep(r, "", 1);
    return BP_OK;
}

static bp_status file_add(file_reader *r, const char *key, const char *value)
{
    if (r->count == MEMBERS_MAX) {
        return file_wrong(r, key, "the object has too many members", value, "1,024 at most");
    }
    r->members[r->count++] = (option_pair){key, value};
    return BP_OK;
}

static bool file_may_differ(const option *which)
{
    bool may = false;
    for (size_t i = 0; i < sizeof adapter_options / sizeof adapter_options[0]; i++) {
        may = may || strcmp(adapter_options[i], which->name) == 0;
    }
    return may;
}

/* A list becomes an option's several values, or one with commas. */
static bp_status file_add_option(file_reader *r, const char *key, char *value)
{
    const option *which = options_meaning(key, (unsigned)r->base->command);
    if (which != NULL && !file_may_differ(which)) {
        return file_wrong(r, key, "the option is one for all adapters", value,
                          "it on the command line");
    }
    const bool many = which != NULL && (which->kind == OPTION_PATHS || which->kind == OPTION_LIST);
    for (char *end = strchr(value, SEPARATOR); end != NULL; end = strchr(end, SEPARATOR)) {
        if (many) {
            *end = '\0';
            BP_TRY(file_add(r, key, value));
            value = end + 1;
            end = value;
        } else {
            *end = ',';
        }
    }
    return file_add(r, key, value);
}

static bp_status file_take_name(file_reader *r, const char *value)
{
    const size_t length = strlen(value);
    r->name = value;
    if (length == 0 || length > ADAPTERS_NAME_MAX || strspn(value, NAME_LETTERS) != length ||
        value[0] == '.' || value[0] == '-') {
        return file_wrong(r, "name", "the name cannot be a directory's", value,
                          "1 to 63 letters, digits, - _ and . behind the first");
    }
    return BP_OK;
}

/* The members of an object that has begun. */
static bp_status file_members(file_reader *r)
{
    bp_json_event event;
    r->count = 0;
    r->name = NULL;
    for (;;) {
        char *value;
        BP_TRY(file_next(r, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return r->name != NULL ? BP_OK
                                   : file_wrong(r, "name", "the adapter has no name", "nothing",
                                                "one, such as \"french\"");
        }
        const char *key = r->values;
        file_keep(r, event.text, event.length + 1);
        BP_TRY(file_value(r, key, &value));
        if (value == NULL) {
            continue;
        }
        BP_TRY(strcmp(key, "name") == 0 ? file_take_name(r, value)
                                        : file_add_option(r, key, value));
    }
}

static bp_status file_directory(const file_reader *r, adapter_entry *e)
{
    settings *set = &e->set;
    const option *which = option_find("output-dir", strlen("output-dir"));
    for (uint32_t i = 0; i < r->count; i++) {
        if (options_meaning(r->members[i].name, (unsigned)r->base->command) == which) {
            return BP_OK;
        }
    }
    if (r->base->output_dir == NULL) {
        return BP_OK; /* which train refuses, and plan has no use for */
    }
    if (bp_storage_join(e->directory, r->base->output_dir, e->name, NULL) != BP_OK) {
        return file_wrong(r, "name", "the output directory's name is too long", e->name,
                          "a shorter one");
    }
    set->output_dir = e->directory;
    return BP_OK;
}

/* Every run has adapters and no other weights. */
static bp_status file_check(const file_reader *r, const adapter_entry *e)
{
    const settings *set = &e->set;
    if (set->lora_r == 0 && set->adapter == NULL) {
        return file_wrong(r, "lora_r", "an adapter has a rank", "0", "1 to 4096");
    }
    if (set->data.count == 0 && set->command == COMMAND_TRAIN) {
        return file_wrong(r, "data", "the adapter has no data", "nothing",
                          "a file or a list of files");
    }
    return BP_OK;
}

#define REAL_BYTES (PATH_MAX + BP_STORE_PATH_MAX)

/* Appends the parts of a path, but for those that say nothing. */
static void file_append(const char *rest, char real[REAL_BYTES])
{
    size_t used = strlen(real);
    while (*rest != '\0') {
        const size_t length = strcspn(rest, "/");
        if (length > 1 || (length == 1 && rest[0] != '.')) {
            real[used++] = '/';
            memcpy(real + used, rest, length);
            used += length;
        }
        rest += length + (rest[length] == '/' ? 1 : 0);
    }
    real[used] = '\0';
}

/* Where a directory is, which need not be there, nor those above it: one has one name. */
static void file_real(const char *directory, char real[REAL_BYTES])
{
    char above[BP_STORE_PATH_MAX];
    size_t length = strlen(directory);
    if (length >= sizeof above) {
        return; /* which no run can have */
    }
    memcpy(above, directory, length + 1);
    while (length > 0 && realpath(above, real) == NULL) {
        while (length > 0 && above[--length] != '/') {
        }
        above[length] = '\0';
    }
    if (length == 0 && realpath(directory[0] == '/' ? "/" : ".", real) == NULL) {
        real[0] = '\0';
    }
    file_append(directory + length, real);
}

/* Names and directories are there once. */
static bp_status file_once(const file_reader *r, const adapter_entry *e)
{
    char here[REAL_BYTES] = "", there[REAL_BYTES] = "";
    for (uint32_t i = 0; i < r->file->count; i++) {
        const adapter_entry *other = r->file->entries[i];
        const char *a = e->set.output_dir, *b = other->set.output_dir;
        if (strcmp(e->name, other->name) == 0) {
            return file_wrong(r, "name", "an adapter before it has this name", e->name,
                              "another name");
        }
        if (a == NULL || b == NULL) {
            continue;
        }
        file_real(a, here);
        file_real(b, there);
        if (strcmp(here, there) == 0) {
            return file_wrong(r, "output_dir", "an adapter before it has this directory", a,
                              "another directory");
        }
    }
    return BP_OK;
}

/* An adapter from its object. */
static bp_status file_entry(file_reader *r)
{
    const option *own = option_find("adapters", strlen("adapters"));
    BP_TRY(file_members(r));
    if (r->file->count == ADAPTERS_MAX) {
        return file_wrong(r, "name", "there are too many adapters", r->name, "256 at most");
    }
    adapter_entry *e = calloc(1, sizeof *e);
    if (e == NULL) {
        output_print(stderr, "bedplate: --adapters: no memory for another adapter\n");
        return BP_ERR_FIT;
    }
    e->set = *r->base;
    e->set.adapters = NULL;
    e->set.given[option_index(own)] = false;
    snprintf(e->name, sizeof e->name, "%s", r->name);
    snprintf(e->where, sizeof e->where, "%s:%u", r->base->adapters, r->line);
    bp_status status = options_pairs(&e->set, r->members, r->count, e->where);
    status = status == BP_OK ? file_directory(r, e) : status;
    status = status == BP_OK ? file_check(r, e) : status;
    status = status == BP_OK ? file_once(r, e) : status;
    if (status != BP_OK) {
        free(e);
        return status;
    }
    r->file->entries[r->file->count++] = e;
    return BP_OK;
}

static bp_status file_open(file_reader *r, const char *text, size_t length)
{
    r->span = (bp_json_span){text, length};
    const bp_json_source source = {bp_json_span_fill, &r->span, length};
    const bp_json_memory memory = {.text = r->room,
                                   .text_bytes = sizeof r->room,
                                   .keys = r->keys,
                                   .keys_bytes = sizeof r->keys,
                                   .max_depth = 8};
    return bp_json_init(&r->json, &source, &memory, &r->error);
}

/* The line of the file that the reader of all of it is in. */
static unsigned file_line(const file_reader *r)
{
    unsigned line = 1;
    const size_t at = (size_t)(r->json.at - (const unsigned char *)r->text);
    for (size_t i = 0; i < at && i < r->length; i++) {
        line += r->text[i] == '\n' ? 1 : 0;
    }
    return line;
}

static bp_status file_no_object(const file_reader *r)
{
    return file_wrong(r, "adapter", "an adapter is an object", "another value",
                      "{\"name\": .., \"data\": .., ..}");
}

static bp_status file_list(file_reader *r)
{
    bp_json_event event;
    r->line = 1;
    BP_TRY(file_open(r, r->text, r->length));
    BP_TRY(file_next(r, &event));
    for (;;) {
        BP_TRY(file_next(r, &event));
        r->line = file_line(r);
        if (event.kind == BP_JSON_ARRAY_END) {
            return file_next(r, &event);
        }
        BP_TRY(event.kind == BP_JSON_OBJECT_BEGIN ? file_entry(r) : file_no_object(r));
    }
}

static bp_status file_lines(file_reader *r)
{
    bp_json_event event;
    const char *end = r->text + r->length;
    r->line = 1;
    for (const char *at = r->text; at < end; r->line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        if (strspn(at, " \t\r") < (size_t)(stop - at)) {
            BP_TRY(file_open(r, at, (size_t)(stop - at)));
            BP_TRY(file_next(r, &event));
            BP_TRY(event.kind == BP_JSON_OBJECT_BEGIN ? file_entry(r) : file_no_object(r));
            BP_TRY(file_next(r, &event));
        }
        at = stop + 1;
    }
    return BP_OK;
}

static bp_status file_read(file_reader *r, char *text)
{
    const char *path = r->base->adapters;
    FILE *stream = fopen(path, "r");
    bool whole = false;
    if (stream != NULL) {
        r->length = fread(text, 1, FILE_BYTES, stream);
        whole = ferror(stream) == 0;
        (void)fclose(stream); /* it was only read */
    }
    if (!whole || r->length == FILE_BYTES) {
        output_print(stderr, "bedplate: --adapters: the file %s: found \"%s\"\n",
                     whole ? "has more than 4 MiB" : "cannot be read", path);
        return BP_ERR_USAGE;
    }
    text[r->length] = '\0';
    r->text = text;
    const size_t blank = strspn(text, " \t\r\n");
    BP_TRY(text[blank] == '[' ? file_list(r) : file_lines(r));
    if (r->file->count == 0) {
        output_print(stderr, "bedplate: --adapters: the file has no adapter: found \"%s\"\n", path);
        return BP_ERR_USAGE;
    }
    return BP_OK;
}

static bp_status file_check_base(const settings *base)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const option *which = option_find(refused[i].name, strlen(refused[i].name));
        if ((which->commands & base->command) != 0 && option_said(base, refused[i].name)) {
            output_print(stderr, "bedplate: --%s: %s: expected no --adapters with it\n",
                         refused[i].name, refused[i].why);
            return BP_ERR_USAGE;
        }
    }
    if (strcmp(base->task, "grpo") == 0) {
        output_print(stderr, "bedplate: --task: completions are generated by one adapter: found "
                             "\"grpo\", expected no --adapters with it\n");
        return BP_ERR_USAGE;
    }
    return BP_OK;
}

bp_status adapters_file_read(adapters_file *file, const settings *base)
{
    BP_TRY(file_check_base(base));
    BP_TRY(path_guard_check(base));
    file_reader *r = calloc(1, sizeof *r);
    char *text = malloc(FILE_BYTES + 1);
    file->values = malloc(2 * FILE_BYTES);
    bp_status status = r != NULL && text != NULL && file->values != NULL ? BP_OK : BP_ERR_FIT;
    if (status == BP_OK) {
        r->file = file;
        r->base = base;
        r->values = file->values;
        status = file_read(r, text);
    } else {
        output_print(stderr, "bedplate: --adapters: no memory for the file\n");
    }
    free(text);
    free(r);
    for (uint32_t i = 0; i < file->count && status == BP_OK; i++) {
        status = resolve_options(&file->entries[i]->set);
        status = status == BP_OK ? resolve_data(&file->entries[i]->set) : status;
    }
    return status;
}

void adapters_file_close(adapters_file *file)
{
    for (uint32_t i = 0; i < file->count; i++) {
        free(file->entries[i]);
    }
    free(file->values);
    *file = (adapters_file){.count = 0};
}
