/* SPDX-License-Identifier: MIT */
/* From a record to settings. */
#include "tools/bedplate/record/replay_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/bedplate/record/events.h"
#include "tools/bedplate/session/optimizer_choice.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/record/record_files.h"
#include "tools/bedplate/record/record_read.h"

#define POOL_BYTES        ((size_t)1 << 18)
#define SETTINGS_IDENTITY 256 /* room for what names a run's data */

static const char where[] = "replay";

static struct {
    size_t used;
    char text[POOL_BYTES];
} pool;

static const char *pool_keep(const char *text, size_t length)
{
    char *to = pool.text + pool.used;
    if (length >= POOL_BYTES - pool.used) {
        return NULL;
    }
    memcpy(to, text, length);
    to[length] = '\0';
    pool.used += length + 1;
    return to;
}

static bp_status settings_put(settings *to, const option *which, const char *value, size_t length)
{
    const char *kept = pool_keep(value, length);
    if (kept == NULL) {
        return BP_ERR_FIT;
    }
    to->given[option_index(which)] = true;
    return option_set(which, to, kept, which->name);
}

/* A list stands in the record as "A; B". */
static bp_status settings_put_list(settings *to, const option *which, const char *value)
{
    for (const char *end; (end = strstr(value, "; ")) != NULL; value = end + 2) {
        BP_TRY(settings_put(to, which, value, (size_t)(end - value)));
    }
    return settings_put(to, which, value, strlen(value));
}

/* What a run has by default was, for all that is known, not given; but its shapes are resolved. */
static bp_status settings_option(void *user, const char *key, const char *value)
{
    static const char *const resolved[] = {"per-device-train-batch-size",
                                           "gradient-accumulation-steps", "loss-chunk-rows"};
    settings *to = user;
    const option *which = option_find(key, strlen(key));
    if (which == NULL || value[0] == '\0') {
        return BP_OK;
    }
    bool given = which->fallback == NULL || strcmp(which->fallback, value) != 0;
    for (size_t i = 0; i < sizeof resolved / sizeof resolved[0]; i++) {
        given = given || strcmp(resolved[i], key) == 0;
    }
    if (!given) {
        return BP_OK;
    }
    return which->kind == OPTION_LIST ? settings_put_list(to, which, value)
                                      : settings_put(to, which, value, strlen(value));
}

/* The last line of the events that tells a start, in *line, which the caller frees. */
static size_t settings_find_start(const char *directory, char **line)
{
    char path[BP_STORE_PATH_MAX + 32];
    char *next = NULL, *found = NULL;
    size_t room = 0, length = 0;
    ssize_t n;
    snprintf(path, sizeof path, "%s/%s", directory, EVENTS_NAME);
    FILE *file = fopen(path, "r");
    while (file != NULL && (n = getline(&next, &room, file)) > 0) {
        const bool start = strncmp(next, "{\"event\":\"start\"", 16) == 0 ||
                           strncmp(next, "{\"event\":\"resume\"", 17) == 0;
        if (start && next[n - 1] == '\n') {
            free(found);
            found = strdup(next);
            length = (size_t)n - 1;
        }
    }
    free(next);
    if (file != NULL) {
        (void)fclose(file); /* it was read only */
    }
    *line = found;
    return found != NULL ? length : 0;
}

static void settings_path(const char *line, size_t length, const char *key, const char **to)
{
    char value[BP_STORE_PATH_MAX];
    if (*to == NULL && length > 0 && record_value(line, length, key, value, sizeof value) &&
        value[0] != '\0') {
        *to = pool_keep(value, strlen(value));
    }
}

static bp_status settings_add_path(void *user, const char *key, const char *value)
{
    path_list *list = user;
    (void)key;
    const char *kept = pool_keep(value, strlen(value));
    if (kept == NULL || list->count == SETTINGS_PATHS_MAX) {
        return BP_ERR_FIT;
    }
    list->item[list->count++] = kept;
    return BP_OK;
}

typedef struct settings_search {
    const path_list *paths;
    const char *option;
    bp_error *error;
} settings_search;

/* Whether one of the paths, or what a pattern stands for, is the recorded file. */
static bp_status settings_present(void *user, const record_file *file)
{
    const settings_search *search = user;
    struct stat about;
    char base[BP_STORE_PATH_MAX];
    for (uint32_t i = 0; i < search->paths->count; i++) {
        const char *path = search->paths->item[i];
        const bool named = strcmp(record_base_name(path, base), file->name) == 0;
        if (strpbrk(path, "*?[") != NULL || (named && stat(path, &about) == 0)) {
            return BP_OK;
        }
        if (search->paths->count == 1 && !named && stat(path, &about) == 0 &&
            strcmp(path, "-") != 0) {
            return BP_OK; /* under another name: its digest will be asked */
        }
    }
    char name[BP_ERROR_NAME_MAX];
    snprintf(name, sizeof name, "%.100s, SHA-256 %.64s", file->name, file->sha256);
    const bp_status status =
        bp_error_set(search->error, BP_ERR_DATA, where,
                     "the file that the run read is not here; give its path", name);
    bp_error_found(search->error, "nothing", 7);
    bp_error_right(search->error, search->option);
    return status;
}

static bp_status settings_check_files(const settings *to, const char *run, size_t length,
                                      bp_error *error)
{
    settings_search data = {&to->data, "--data", error};
    settings_search held = {&to->eval_data, "--eval-data", error};
    if (to->model == NULL) {
        return bp_error_set(
            error, BP_ERR_DATA, where,
            "neither the events of the run nor the command line name its model; give it",
            "--model");
    }
    BP_TRY(record_files_each(run, length, "data", settings_present, &data));
    return record_files_each(run, length, "eval_data", settings_present, &held);
}

/* A run with a teacher says so where it names its data: the file has to be there. */
static bp_status settings_check_teacher(const settings *to, const char *run, size_t length,
                                        bp_error *error)
{
    char data[SETTINGS_IDENTITY];
    struct stat about;
    const bool taught =
        record_value(run, length, "tokens", data, sizeof data) && strstr(data, " teacher ") != NULL;
    if (!taught && to->distill != NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where, "the run has no teacher", "--distill");
    }
    if (!taught || stat(to->distill != NULL ? to->distill : "", &about) == 0) {
        return BP_OK;
    }
    const bp_status status =
        bp_error_set(error, BP_ERR_DATA, where,
                     "the distillation file that the run read is not here; give its path",
                     to->distill != NULL ? to->distill : "--distill");
    bp_error_found(error, "nothing", 7);
    bp_error_right(error, "--distill");
    return status;
}

/* How it is computed is the replay's own choice. */
static void settings_execution(settings *to, const settings *asked)
{
    static const char *const own[] = {
        "device",          "threads",   "kernels",        "gradient-checkpointing",
        "arena",           "alignment", "reward-timeout", "reward-memory-limit",
        "reward-cpu-limit"};
    to->device = asked->device;
    to->threads = asked->threads;
    to->kernels = asked->kernels;
    to->alignment = asked->alignment;
    to->checkpointing = asked->checkpointing;
    to->arena = asked->arena;
    to->reward_timeout = asked->reward_timeout;
    to->reward_memory = asked->reward_memory;
    to->reward_cpu = asked->reward_cpu;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const uint32_t index = option_index(option_find(own[i], strlen(own[i])));
        to->given[index] = asked->given[index];
    }
}

bp_status replay_settings_fill(settings *to, const settings *asked, const char *directory,
                               const char *run, bp_error *error)
{
    const size_t length = strlen(run);
    char preset[64];
    char *line;
    options_defaults(to);
    to->command = COMMAND_TRAIN;
    to->began = asked->began;
    to->quiet = true;
    BP_TRY(record_members_each(run, length, "options", settings_option, to));
    settings_execution(to, asked);
    to->model = asked->model;
    to->tokenizer = asked->tokenizer;
    to->adapter = asked->adapter;
    to->distill = asked->distill;
    to->continue_from = asked->continue_from;
    to->data = asked->data;
    to->eval_data = asked->eval_data;
    if (record_value(run, length, "preset", preset, sizeof preset)) {
        to->model = pool_keep(preset, strlen(preset));
    }
    const size_t started = settings_find_start(directory, &line);
    settings_path(line, started, "model", &to->model);
    settings_path(line, started, "tokenizer", &to->tokenizer);
    settings_path(line, started, "adapter", &to->adapter);
    settings_path(line, started, "distill", &to->distill);
    settings_path(line, started, "continue_from", &to->continue_from);
    bp_status status = BP_OK;
    if (started > 0 && to->data.count == 0) {
        status = record_members_each(line, started, "data", settings_add_path, &to->data);
    }
    if (started > 0 && to->eval_data.count == 0 && status == BP_OK) {
        status = record_members_each(line, started, "eval_data", settings_add_path, &to->eval_data);
    }
    free(line);
    BP_TRY(status);
    BP_TRY(settings_check_files(to, run, length, error));
    BP_TRY(settings_check_teacher(to, run, length, error));
    return optimizer_resolve(to);
}
