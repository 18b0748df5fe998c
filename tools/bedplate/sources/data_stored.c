/* SPDX-License-Identifier: MIT */
/* Packed files and pipes, stored for a while. */
#include "tools/bedplate/sources/data_stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "tools/bedplate/sources/data_folder.h"
#include "tools/formats/files/content.h"
#include "tools/formats/images/data_images.h"
#include "tools/formats/files/unpack.h"
#include "tools/bedplate/app/environment.h"
#include "tools/bedplate/app/temporary.h"

static const char where[] = "data";

/* Two files that a row may need: what came through a pipe, and what was unpacked from it. */
typedef struct stored {
    data_files *files;
    session *s;
    uint32_t row;
    bp_data_format format; /* as asked */
    char piped[BP_STORE_PATH_MAX];
    uint64_t room; /* bytes that may be stored */
    bool made;     /* --output-dir was made for it */
} stored;

/* A file of its own, and how much may be written there: a tenth of what is free is left to others.
 */
static bp_status stored_path(stored *t, char path[BP_STORE_PATH_MAX])
{
    session *s = t->s;
    const char *directory = s->set->output_dir;
    bool there = true;
    uint64_t bytes;
    if (directory == NULL) {
        directory = environment_temporary();
    } else if (s->store->exists(s->store, directory, &there) != BP_OK ||
               s->store->make_directory(s->store, directory) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", directory);
    }
    t->made = t->made || !there;
    if (s->store->free_bytes(s->store, directory, &bytes) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "free bytes", directory);
    }
    t->room = bytes - bytes / 10 < s->set->unpack_limit ? bytes - bytes / 10 : s->set->unpack_limit;
    return temporary_make(directory, path, &s->error);
}

static bp_status stored_pour(stored *t, int from, bp_file file)
{
    static char piece[65536];
    session *s = t->s;
    uint64_t written = 0;
    for (;;) {
        ssize_t n = read(from, piece, sizeof piece);
        if (n == 0) {
            return BP_OK;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return bp_error_set(&s->error, BP_ERR_STORE, where, "reading it failed",
                                t->files->rows[t->row].path);
        }
        if ((uint64_t)n > t->room - written) {
            return bp_error_limit(&s->error, BP_ERR_STORE, where,
                                  "what comes through the pipe is more than --unpack-limit, or "
                                  "than fits TMPDIR or --output-dir; bytes that it may have",
                                  t->files->rows[t->row].path, bp_size_signed(t->room),
                                  BP_LIMIT_NONE, 0);
        }
        if (s->store->write_at(s->store, file, written, piece, (size_t)n) != BP_OK) {
            return bp_storage_failed(&s->error, s->store, "write", t->piped);
        }
        written += (uint64_t)n;
    }
}

/* Stores what comes through a pipe: everything else reads files from any place. */
static bp_status stored_take_pipe(stored *t, const char *path)
{
    session *s = t->s;
    bp_file file;
    bool standard = strcmp(path, "-") == 0;
    BP_TRY(stored_path(t, t->piped));
    int from = standard ? STDIN_FILENO : open(path, O_RDONLY);
    if (from < 0) {
        return bp_error_set(&s->error, BP_ERR_STORE, where, "it cannot be opened", path);
    }
    if (s->store->open_write(s->store, t->piped, &file) != BP_OK) {
        (void)close(from);
        return bp_storage_failed(&s->error, s->store, "create", t->piped);
    }
    bp_status status = stored_pour(t, from, file);
    if (!standard) {
        (void)close(from);
    }
    if (s->store->close(s->store, file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(&s->error, s->store, "close", t->piped);
    }
    return status;
}

/* Whether a file is packed, and may be: numbers could begin with any bytes, so of their formats the
 * name must say it as well. */
static bp_status stored_kind(stored *t, bp_file file, bp_content_kind *kind)
{
    const bp_data_file *row = &t->files->rows[t->row];
    unsigned char head[BP_CONTENT_HEAD];
    size_t count;
    *kind = BP_CONTENT_OTHER;
    BP_TRY(bp_content_head(t->s->store, file, row->path, head, &count, &t->s->error));
    const bp_content content = bp_content_of(head, count);
    bool packed = content.kind == BP_CONTENT_GZIP || content.kind == BP_CONTENT_ZSTD;
    bool named = !row->nameless && bp_data_packed_ending(row->path) > 0;
    bp_data_format format =
        t->format == BP_DATA_AUTO && !row->nameless ? bp_data_format_of_name(row->path) : t->format;
    bool numbers = format == BP_DATA_LLMC || format == BP_DATA_NANOGPT || format == BP_DATA_F32 ||
                   format == BP_DATA_NPY || bp_images_format(format);
    if (t->format == BP_DATA_BYTES) {
        return BP_OK;
    }
    if (named && !packed) {
        return bp_error_set(&t->s->error, BP_ERR_DATA, where,
                            "the name stands for a packed file, and it is neither gzip's nor "
                            "zstd's",
                            row->path);
    }
    *kind = packed && (named || !numbers) ? content.kind : BP_CONTENT_OTHER;
    return BP_OK;
}

static bp_status stored_unpack(stored *t, bp_file file, bp_content_kind kind,
                               char path[BP_STORE_PATH_MAX])
{
    session *s = t->s;
    memory_block memory;
    bp_unpack work = {.store = s->store,
                      .from = file,
                      .name = t->files->rows[t->row].path,
                      .kind = kind,
                      .to = path,
                      .error = &s->error};
    BP_TRY(bp_unpack_measure(&work));
    BP_TRY(stored_path(t, path));
    BP_TRY(memory_take(&memory, work.bytes, false, "memory for unpacking", &s->error));
    work.memory = memory.address;
    work.most = t->room;
    bp_status status = bp_unpack_run(&work);
    memory_give_back(&memory);
    s->unpack_bytes = work.bytes > s->unpack_bytes ? work.bytes : s->unpack_bytes;
    return status;
}

/* What came through pipes when the data were looked at, until they are read. */
static struct {
    const char *from;
    char *path;
} pipes[SETTINGS_PATHS_MAX];
static uint32_t pipe_count;

void data_stored_end(void)
{
    while (pipe_count > 0) {
        temporary_end(pipes[--pipe_count].path);
        free(pipes[pipe_count].path);
    }
}

/* Leaves in t->piped what came through a pipe, now or before. */
static bp_status stored_find_pipe(stored *t, const char *path)
{
    for (uint32_t i = 0; i < pipe_count; i++) {
        if (strcmp(pipes[i].from, path) == 0) {
            snprintf(t->piped, sizeof t->piped, "%s", pipes[i].path);
            if (!t->files->look) {
                free(pipes[i].path);
                pipes[i] = pipes[--pipe_count];
            }
            return BP_OK;
        }
    }
    const bp_status status = stored_take_pipe(t, path);
    if (!t->files->look) {
        return status;
    }
    char *copy = status == BP_OK && pipe_count < SETTINGS_PATHS_MAX ? strdup(t->piped) : NULL;
    t->files->lost = copy == NULL;
    if (copy != NULL) {
        pipes[pipe_count].from = path;
        pipes[pipe_count++].path = copy;
    }
    return status == BP_OK && copy == NULL ? bp_error_set(&t->s->error, BP_ERR_FIT, where,
                                                          "there is no memory for its name", path)
                                           : status;
}

static bool stored_is_pipe(const char *path)
{
    uint32_t i = 0;
    while (i < pipe_count && strcmp(pipes[i].path, path) != 0) {
        i++;
    }
    return i < pipe_count;
}

/* Leaves in row->stored where the row's bytes are, if not in the file itself. */
static bp_status stored_row(stored *t, char path[BP_STORE_PATH_MAX])
{
    bp_data_file *row = &t->files->rows[t->row];
    session *s = t->s;
    bp_content_kind kind;
    bp_file file;
    struct stat about;
    t->piped[0] = '\0';
    path[0] = '\0';
    if (!row->nameless && stat(row->path, &about) == 0 && S_ISDIR(about.st_mode)) {
        BP_TRY(stored_path(t, path));
        return data_folder_table(s, row->path, path);
    }
    if (row->nameless && stat(row->path, &about) == 0 && S_ISCHR(about.st_mode)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "it is a device, which has no end; `-` takes what comes from one",
                            row->path);
    }
    if (row->nameless) {
        BP_TRY(stored_find_pipe(t, row->path));
        row->path = strcmp(row->path, "-") == 0 ? "standard input" : row->path;
    }
    const char *at = row->nameless ? t->piped : row->path;
    if (s->store->open_read(s->store, at, &file) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "open", row->path);
    }
    bp_status status = stored_kind(t, file, &kind);
    if (status == BP_OK && kind != BP_CONTENT_OTHER) {
        status = stored_unpack(t, file, kind, path);
    }
    (void)s->store->close(s->store, file); /* it was read only */
    if (status == BP_OK && kind == BP_CONTENT_OTHER && row->nameless) {
        memcpy(path, t->piped, sizeof t->piped);
        t->piped[0] = '\0';
    }
    return status;
}

/* Opens what the rows name by now; what was stored for it needs no name after that. */
static bp_status stored_open_all(data_files *files, session *s, uint32_t count,
                                 bp_data_format format)
{
    BP_TRY(bp_data_open(&files->data, s->store, files->rows, count, format, &s->error));
    bp_status status = format == BP_DATA_BYTES ? BP_OK : bp_content_check(&files->data);
    if (status != BP_OK) {
        bp_data_close(&files->data);
    }
    return status;
}

bp_status data_stored_open(data_files *files, session *s, uint32_t count, bp_data_format format)
{
    stored t = {.files = files, .s = s, .format = format};
    char *paths[SETTINGS_PATHS_MAX] = {NULL};
    bp_status status = BP_OK;
    for (t.row = 0; t.row < count && status == BP_OK; t.row++) {
        char path[BP_STORE_PATH_MAX];
        status = stored_row(&t, path);
        if (t.piped[0] != '\0' && !stored_is_pipe(t.piped)) {
            temporary_end(t.piped); /* it is unpacked, or of no use */
        }
        if (path[0] != '\0') {
            paths[t.row] = strdup(path);
            files->rows[t.row].stored = paths[t.row];
        }
    }
    if (status == BP_OK) {
        status = stored_open_all(files, s, count, format);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (paths[i] != NULL) {
            if (!stored_is_pipe(paths[i])) {
                temporary_end(paths[i]); /* open files stay readable */
            }
            files->rows[i].stored = NULL;
            free(paths[i]);
        }
    }
    if (t.made) {
        (void)s->store->remove_directory(s->store, s->set->output_dir); /* it is empty again */
    }
    return status;
}
