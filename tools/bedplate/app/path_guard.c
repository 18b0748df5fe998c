/* SPDX-License-Identifier: MIT */
/* Files are compared by what they are, device and inode, and where there is none yet, by directory
 * and name. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "tools/bedplate/app/path_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/store.h"
#include "tools/bedplate/app/output.h"

#define ANY        0xffffffu
#define AT(member) offsetof(settings, member)

typedef enum path_role {
    PATH_NONE,
    PATH_READ,        /* a file, a directory of files, or a pattern of them */
    PATH_WRITTEN,     /* a file that is replaced */
    PATH_WRITTEN_DIR, /* a directory in which files of known names are replaced */
} path_role;

/* Options whose value is a path that is written; every other one that help shows to take a path
 * names what is read. tests/cli/app/test_paths.sh finds an option that is in neither list. */
static const struct {
    size_t offset;
    path_role role;
    unsigned commands;
} rows[] = {
    {AT(to), PATH_WRITTEN, COMMAND_IMPORT | COMMAND_EXPORT},
    {AT(output), PATH_WRITTEN, ANY},
    {AT(predictions), PATH_WRITTEN, ANY},
    {AT(offload), PATH_WRITTEN, COMMAND_TRAIN | COMMAND_PLAN},
    {AT(metrics), PATH_WRITTEN, COMMAND_TRAIN},
    {AT(reward_log), PATH_WRITTEN, COMMAND_TRAIN | COMMAND_ROLLOUT},
    {AT(html), PATH_WRITTEN, ANY},
    {AT(card), PATH_WRITTEN, ANY},
    {AT(output_dir), PATH_WRITTEN_DIR, COMMAND_TRAIN},
    {AT(logging_dir), PATH_NONE, ANY}, /* each file there has a name of its own, and is made anew */
    {AT(emit_c), PATH_NONE, ANY},
};

/* What a run replaces in its directory, or begins anew. */
static const char *const run_files[] = {
    "record.jsonl",
    "events.jsonl",
    "model.safetensors",
    "config.json",
    "calibration.json",
    "adapter_model.safetensors",
    "adapter_config.json",
    "report.html",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "reference.logps",
    "data.tokens",
    "eval.tokens",
};

/* Of a directory, what models, adapters, tokenizers, runs and folders of images consist of. */
static const char *const endings[] = {
    ".safetensors", ".json", ".jinja", ".model", ".txt", ".gguf", ".bin",  "record.jsonl",
    "events.jsonl", ".png",  ".jpg",   ".jpeg",  ".ppm", ".pgm",  ".webp", ".bmp",
};

/* A file, there or not. */
typedef struct identity {
    bool there, known;
    dev_t device;
    ino_t inode; /* of the directory that it would be in, where it is not there */
    const char *name;
} identity;

typedef struct guard {
    const settings *set;
    const char *option;             /* what is written */
    bool folder;                    /* a name of ours in a directory that is written */
    char path[BP_STORE_PATH_MAX];   /* where */
    char beside[BP_STORE_PATH_MAX]; /* what becomes it */
    char real[PATH_MAX];            /* the path without links; "": not there */
    const char *removed;            /* a directory whose checkpoints the run removes, or NULL */
    const char *by;                 /* the option that has it as well; NULL: none */
} guard;

/* What the command that runs does with the value of that option. */
static path_role guard_role(const option *which, unsigned command)
{
    static const char *const words[] = {"FILE", "DIR", "PATH"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].offset == which->offset) {
            return (rows[i].commands & command) != 0 ? rows[i].role : PATH_NONE;
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (which->choices != NULL && strstr(which->choices, words[i]) != NULL) {
            return PATH_READ;
        }
    }
    return PATH_NONE;
}

int path_guard_create(const char *path, unsigned mode)
{
    (void)unlink(path); /* what cannot be removed makes open fail */
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
}

static identity identity_of(const char *path)
{
    char folder[PATH_MAX];
    struct stat at;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const size_t length = (size_t)(name - path);
    if (stat(path, &at) == 0) {
        return (identity){true, true, at.st_dev, at.st_ino, ""};
    }
    if (length >= sizeof folder - 1) {
        return (identity){.known = false};
    }
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    return stat(folder, &at) == 0 ? (identity){false, true, at.st_dev, at.st_ino, name}
                                  : (identity){.known = false};
}

static bool identity_same(const char *left, const char *right)
{
    const identity a = identity_of(left), b = identity_of(right);
    if (!a.known || !b.known || a.there != b.there) {
        return false;
    }
    return a.device == b.device && a.inode == b.inode && strcmp(a.name, b.name) == 0;
}

/* Whether a path is one of the checkpoints of the run in a directory, or in one: the run writes
 * them, and removes them when it begins anew or keeps no more. */
static bool guard_in_checkpoint(const char *path, const char *folder)
{
    static const char name[] = "/checkpoint-";
    char real[PATH_MAX], inner[PATH_MAX], above[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (realpath(folder, real) == NULL) {
        return false;
    }
    snprintf(above, sizeof above, "%.*s/.", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
    if (realpath(path, inner) == NULL && realpath(above, inner) == NULL) {
        return false;
    }
    const size_t length = strlen(real);
    return strncmp(inner, real, length) == 0 && strncmp(inner + length, name, sizeof name - 1) == 0;
}

static void guard_meets(guard *g, const char *path, const char *by)
{
    if (g->by == NULL && g->removed != NULL && guard_in_checkpoint(path, g->removed)) {
        snprintf(g->path, sizeof g->path, "%s", path);
        g->by = by;
    }
    if (g->by == NULL && (identity_same(path, g->path) || identity_same(path, g->beside))) {
        g->by = by;
    }
}

static bool guard_belongs(const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t length = strlen(name), end = strlen(endings[i]);
        if (length >= end && strcmp(name + length - end, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A directory that is read: what is written lies in it, or is linked with a file of it. */
static void guard_directory(guard *g, const char *path, const char *by)
{
    char real[PATH_MAX], inner[PATH_MAX];
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return; /* a file, or a name */
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        const int length = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (length > 0 && (size_t)length < sizeof inner && guard_belongs(entry->d_name)) {
            guard_meets(g, inner, by);
        }
    }
    (void)closedir(directory); /* only read */
    const size_t length = realpath(path, real) != NULL ? strlen(real) : 0;
    if (g->by == NULL && length > 0 && strncmp(g->real, real, length) == 0 &&
        g->real[length] == '/' && guard_belongs(g->real)) {
        g->by = by;
    }
}

/* inside: files of a directory count as well. */
static void guard_read(guard *g, const char *path, const char *by, bool inside)
{
    glob_t found;
    guard_meets(g, path, by);
    if (inside) {
        guard_directory(g, path, by);
    }
    if (strpbrk(path, "*?[") == NULL || glob(path, 0, NULL, &found) != 0) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        guard_meets(g, found.gl_pathv[i], by);
        if (inside) {
            guard_directory(g, found.gl_pathv[i], by);
        }
    }
    globfree(&found);
}

/* The path in an option's value, of a tier in a file what stands between its colons. false: none.
 */
static bool guard_path(const settings *set, const option *which, char path[BP_STORE_PATH_MAX])
{
    static const char file[] = "file:";
    const char *value = *(const char *const *)(const void *)((const char *)set + which->offset);
    size_t length = value != NULL ? strlen(value) : 0;
    if (length > 0 && which->offset == AT(offload)) {
        const char *end = strrchr(value, ':');
        const bool is = strncmp(value, file, sizeof file - 1) == 0 && end > value + sizeof file - 1;
        value += is ? sizeof file - 1 : 0;
        length = is ? (size_t)(end - value) : 0;
    }
    if (which->offset == AT(predictions) && length == 1 && value[0] == '-') {
        return false; /* standard output */
    }
    if (length == 0 || length >= BP_STORE_PATH_MAX) {
        return false; /* too long a path is refused by who opens it */
    }
    memcpy(path, value, length);
    path[length] = '\0';
    return true;
}

/* What the run reads by one option, or writes by another. */
static void guard_option(guard *g, const option *which, path_role role)
{
    char path[BP_STORE_PATH_MAX], inner[BP_STORE_PATH_MAX + 32];
    /* That a model is trained on in its own directory is no mistake; one beside it stays. */
    const bool beside = which->offset == AT(ref_model) || which->offset == AT(reward_model);
    if (which->kind == OPTION_PATHS) {
        const path_list *list = (const void *)((const char *)g->set + which->offset);
        for (uint32_t i = 0; i < list->count; i++) {
            guard_read(g, list->item[i], which->name, !g->folder);
        }
        return;
    }
    if (!guard_path(g->set, which, path)) {
        return;
    }
    if (g->folder && which->offset == AT(chat_template)) {
        return; /* a run's own template is written there again as it is */
    }
    if (role == PATH_READ) {
        guard_read(g, path, which->name, !g->folder || beside);
    } else {
        guard_meets(g, path, which->name);
    }
    if (role == PATH_WRITTEN_DIR && guard_in_checkpoint(g->path, path) && g->by == NULL) {
        g->by = which->name;
    }
    for (size_t i = 0; role == PATH_WRITTEN_DIR && i < sizeof run_files / sizeof run_files[0];
         i++) {
        snprintf(inner, sizeof inner, "%s/%s", path, run_files[i]);
        guard_meets(g, inner, which->name);
    }
}

static bp_status guard_report(const guard *g, bp_error *error, bp_status status)
{
    char name[BP_ERROR_WORD_MAX];
    snprintf(name, sizeof name, "--%s", g->option);
    bp_error_prefix(error, name);
    (void)report_error(error);
    return status;
}

static bp_status guard_refuse(const guard *g)
{
    bp_error error = {.code = BP_OK};
    char found[BP_ERROR_WORD_MAX];
    const bp_status status = bp_error_set(
        &error, BP_ERR_USAGE, "paths",
        "the file is read, or written as something else, by this very command", g->path);
    const int length =
        snprintf(found, sizeof found, "%s%s", strchr(g->by, ' ') != NULL ? "" : "--", g->by);
    bp_error_found(&error, found, length > 0 ? strnlen(found, sizeof found) : 0);
    bp_error_right(&error, "another path");
    return guard_report(g, &error, status);
}

/* Written from its beginning to its end where it lies, so that a device or a pipe takes it. What
 * others write becomes the path by a rename, which would put a file in place of a device. */
static bool guard_in_place(const option *which, unsigned command)
{
    return which->offset == AT(predictions) || which->offset == AT(html) ||
           which->offset == AT(reward_log) ||
           (which->offset == AT(output) && command == COMMAND_ROLLOUT);
}

/* What is there and may not be replaced by a file; NULL: nothing is, a file or a directory. */
static const char *guard_special(const char *path)
{
    struct stat at, stream;
    if (stat(path, &at) != 0 || S_ISDIR(at.st_mode)) {
        return NULL;
    }
    /* /dev/stdout is a link, which a rename would replace. */
    for (int i = 0; i <= STDERR_FILENO; i++) {
        if (fstat(i, &stream) == 0 && stream.st_dev == at.st_dev && stream.st_ino == at.st_ino) {
            return "a stream of this command";
        }
    }
    return S_ISREG(at.st_mode)    ? NULL
           : S_ISFIFO(at.st_mode) ? "a pipe"
           : S_ISSOCK(at.st_mode) ? "a socket"
                                  : "a device";
}

static bp_status guard_replaced(const guard *g)
{
    bp_error error = {.code = BP_OK};
    const char *found = guard_special(g->path);
    if (found == NULL) {
        return BP_OK;
    }
    const bp_status status = bp_error_set(&error, BP_ERR_USAGE, "paths",
                                          "a file would be put in place of what is there", g->path);
    bp_error_found(&error, found, strlen(found));
    bp_error_right(&error, "a file, or a path where nothing is");
    return guard_report(g, &error, status);
}

/* One path that is written against all that others name. */
static bp_status guard_file(guard *g, const option *written)
{
    const option *which;
    snprintf(g->beside, sizeof g->beside, "%.*s.tmp", (int)sizeof g->beside - 5, g->path);
    if (realpath(g->path, g->real) == NULL) {
        g->real[0] = '\0';
    }
    g->by = NULL;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const path_role role = guard_role(which, g->set->command);
        if (which != written && (role == PATH_READ || (role != PATH_NONE && !g->folder))) {
            guard_option(g, which, role);
        }
    }
    for (uint32_t i = 0; g->set->command == COMMAND_REPORT && i < g->set->words.count; i++) {
        guard_read(g, g->set->words.item[i], "the run", true);
    }
    return g->by == NULL ? BP_OK : guard_refuse(g);
}

/* Whether a run writes a file of that name: one of the list, or tokens of one of several sources.
 */
static bool guard_ours(const char *name)
{
    unsigned number;
    int end = 0;
    for (size_t i = 0; i < sizeof run_files / sizeof run_files[0]; i++) {
        if (strcmp(run_files[i], name) == 0) {
            return true;
        }
    }
    return sscanf(name, "data.%u.tokens%n", &number, &end) == 1 && end > 0 && name[end] == '\0';
}

/* What is read may not lie in a checkpoint that a run which begins anew removes. */
static bp_status guard_removed(guard *g, const option *written)
{
    char folder[BP_STORE_PATH_MAX];
    memcpy(folder, g->path, sizeof folder);
    snprintf(g->path, sizeof g->path, "%.*s/checkpoint-", (int)sizeof g->path - 13, folder);
    g->removed = folder;
    const bp_status status = guard_file(g, written);
    g->removed = NULL;
    memcpy(g->path, folder, sizeof folder);
    return status;
}

/* A directory that is a checkpoint, of which no file is replaced: it would be damaged. */
static bp_status guard_checkpoint(const guard *g)
{
    char path[BP_STORE_PATH_MAX + 32];
    bp_error error = {.code = BP_OK};
    snprintf(path, sizeof path, "%s/state.safetensors", g->path);
    if (access(path, F_OK) != 0) {
        return BP_OK;
    }
    const bp_status status =
        bp_error_set(&error, BP_ERR_USAGE, "paths",
                     "the directory is a checkpoint of a run, which would be damaged", g->path);
    bp_error_right(&error, "another directory");
    return guard_report(g, &error, status);
}

static bp_status guard_folder(guard *g, const option *written)
{
    char folder[BP_STORE_PATH_MAX];
    const struct dirent *entry;
    bp_status status = BP_OK;
    memcpy(folder, g->path, sizeof folder);
    DIR *directory = opendir(folder);
    while (directory != NULL && status == BP_OK && (entry = readdir(directory)) != NULL) {
        const int length = snprintf(g->path, sizeof g->path, "%s/%s", folder, entry->d_name);
        if (length > 0 && (size_t)length < sizeof g->path && guard_ours(entry->d_name)) {
            status = guard_file(g, written);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory); /* only read */
    }
    return status;
}

bp_status path_guard_check(const settings *set)
{
    static const char beside[] = PATH_BESIDE_REWARD;
    static guard g; /* large: paths */
    const option *which;
    g.set = set;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const path_role role = guard_role(which, set->command);
        if ((role == PATH_WRITTEN || role == PATH_WRITTEN_DIR) && guard_path(set, which, g.path)) {
            g.option = which->name;
            g.folder = role == PATH_WRITTEN_DIR;
            if (!g.folder && !guard_in_place(which, set->command)) {
                BP_TRY(guard_replaced(&g));
            }
            if (g.folder || which->offset == AT(to)) {
                BP_TRY(guard_checkpoint(&g));
            }
            if (g.folder && set->overwrite) {
                BP_TRY(guard_removed(&g, which));
            }
            BP_TRY(g.folder ? guard_folder(&g, which) : guard_file(&g, which));
            const size_t length = strlen(g.path);
            if (which->offset == AT(offload) && set->reward_model != NULL &&
                length + sizeof beside <= sizeof g.path) {
                memcpy(g.path + length, beside, sizeof beside);
                BP_TRY(guard_file(&g, which));
            }
        }
    }
    return BP_OK;
}
