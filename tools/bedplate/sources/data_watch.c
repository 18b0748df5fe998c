/* SPDX-License-Identifier: MIT */
/* Sizes and times of the files of data. */
#include "tools/bedplate/sources/data_watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/bedplate/app/output.h"

struct data_watched {
    const char *path; /* of the set */
    struct stat was;
    bool there;
};

/* A set's files, or with `to` NULL how many there are. */
static uint32_t data_watch_files(const data_files *files, data_watched *to)
{
    uint32_t count = 0;
    const bool tokens = files->path[0] != '\0' && files->source == &files->tokens.source;
    for (uint32_t i = 0; i <= files->data.file_count; i++) {
        const bool own = i == files->data.file_count;
        const char *path = own ? files->path : files->rows[i].path;
        if (own ? !tokens : files->rows[i].nameless) {
            continue;
        }
        if (to != NULL) {
            to[count] = (data_watched){.path = path};
            to[count].there = stat(path, &to[count].was) == 0 && S_ISREG(to[count].was.st_mode);
        }
        count++;
    }
    return count;
}

static uint32_t data_watch_sets(const data_set *set, data_watched *to)
{
    uint32_t count = data_watch_files(&set->main, to);
    count += data_watch_files(&set->held, to != NULL ? to + count : NULL);
    for (uint32_t i = 1; set->more != NULL && i < set->mixture.count; i++) {
        count += data_watch_files(&set->more[i - 1], to != NULL ? to + count : NULL);
    }
    return count;
}

bp_status data_watch_begin(data_watch *watch, const data_set *set, bp_error *error)
{
    watch->count = data_watch_sets(set, NULL);
    watch->files = calloc(watch->count + (size_t)1, sizeof *watch->files);
    if (watch->files == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "data", "there is no memory for the list of files",
                            "--data");
    }
    (void)data_watch_sets(set, watch->files);
    return BP_OK;
}

static bool data_watch_same(const struct stat *was, const struct stat *is)
{
    return was->st_size == is->st_size && was->st_mtim.tv_sec == is->st_mtim.tv_sec &&
           was->st_mtim.tv_nsec == is->st_mtim.tv_nsec;
}

bp_status data_watch_check(data_watch *watch, session *s, events *log)
{
    static const char words[] = "the file was written to while the run reads it";
    const char *how = s->set->on_data_change;
    for (uint32_t i = 0; i < watch->count && strcmp(how, "ignore") != 0; i++) {
        data_watched *file = &watch->files[i];
        struct stat is;
        if (!file->there || stat(file->path, &is) != 0 || is.st_ino != file->was.st_ino ||
            is.st_dev != file->was.st_dev || data_watch_same(&file->was, &is)) {
            continue;
        }
        if (strcmp(how, "error") == 0) {
            return bp_error_set(&s->error, BP_ERR_STORE, "data", words, file->path);
        }
        output_print(stderr,
                     "bedplate: %s%s%s: %s; what it computes from here on may be of other data "
                     "(--on-data-change)\n",
                     watch->adapter != NULL ? watch->adapter : "",
                     watch->adapter != NULL ? ": " : "", file->path, words);
        json_line *line = events_begin(log, "data-changed", s->runtime.steps);
        line_text(line, "file", file->path);
        line_count(line, "bytes_before", (uint64_t)file->was.st_size);
        line_count(line, "bytes", (uint64_t)is.st_size);
        events_end(log);
        file->was = is;
    }
    return BP_OK;
}

void data_watch_end(data_watch *watch)
{
    free(watch->files);
    *watch = (data_watch){.count = 0};
}
