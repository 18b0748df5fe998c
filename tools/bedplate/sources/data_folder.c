/* SPDX-License-Identifier: MIT */
/* Folders of classes, listed. */
#include "tools/bedplate/sources/data_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/base/sort.h"
#include "core/base/storage.h"

static const char where[] = "imagefolder";

/* Names of a folder's entries; allocated. */
typedef struct name_list {
    char **item;
    size_t count;
    size_t room;
    bool failed; /* no memory */
} name_list;

static bp_status name_list_add(void *user, const char *name)
{
    name_list *list = user;
    if (list->count == list->room) {
        const size_t room = 2 * list->room + 64;
        char **more = realloc(list->item, room * sizeof *more);
        list->failed = more == NULL;
        if (list->failed) {
            return BP_ERR_FIT;
        }
        list->item = more;
        list->room = room;
    }
    char *copy = name[0] == '.' ? NULL : strdup(name);
    if (copy != NULL) {
        list->item[list->count++] = copy;
    }
    list->failed = copy == NULL && name[0] != '.';
    return list->failed ? BP_ERR_FIT : BP_OK;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void name_list_end(name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->item[i]);
    }
    free(list->item);
    *list = (name_list){.count = 0};
}

static bp_status name_list_read(session *s, const char *folder, name_list *list)
{
    *list = (name_list){.count = 0};
    if (s->store->list(s->store, folder, name_list_add, list) != BP_OK) {
        return list->failed ? bp_error_set(&s->error, BP_ERR_FIT, where,
                                           "there is no memory for the names", folder)
                            : bp_storage_failed(&s->error, s->store, "list", folder);
    }
    if (list->count > 0) {
        bp_heap_sort(list->item, list->count, sizeof *list->item, name_order);
    }
    return BP_OK;
}

static bool is_image(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".ppm", ".pgm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcasecmp(dot, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A field of the table, quoted. */
static void put_quoted(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
}

/* The images of one class; `label` is what the table calls it, `before` what stands before its name
 * as seen from the table. */
static bp_status folder_class(session *s, FILE *out, const char *path, const char *before,
                              const char *class, const char *label, uint64_t *images)
{
    name_list list;
    bp_status status = name_list_read(s, path, &list);
    for (size_t i = 0; i < list.count && status == BP_OK; i++) {
        if (is_image(list.item[i])) {
            fputc('"', out);
            put_quoted(out, before);
            put_quoted(out, class);
            fputc('/', out);
            put_quoted(out, list.item[i]);
            fputs("\",\"", out);
            put_quoted(out, label);
            fputs("\"\n", out);
            ++*images;
        }
    }
    name_list_end(&list);
    return status;
}

/* The folders name the classes of a model whose own have no names: as many as it has, or as there
 * are, where their number is open. */
static bp_status folder_classes(session *s, const char *folder, const name_list *list)
{
    bp_class_names *names = &s->names;
    const uint64_t asked = s->classes_open ? s->set->num_labels : s->spec.config.classes;
    size_t used = 0;
    if (asked != 0 ? asked != list->count : list->count < 2) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "the folder has another number of classes, a folder each, than the "
                                "model (--num-labels)",
                                folder, (int64_t)list->count, asked != 0 ? (int64_t)asked : 2);
    }
    for (size_t i = 0; i < list->count; i++) {
        used += strlen(list->item[i]) + 1;
    }
    if (list->count > BP_CLASS_NAMES_MAX || used > sizeof names->text) {
        return BP_OK; /* too long to keep: numbers */
    }
    names->used = 0;
    for (size_t i = 0; i < list->count; i++) {
        const size_t bytes = strlen(list->item[i]) + 1;
        memcpy(names->text + names->used, list->item[i], bytes);
        names->start[i] = names->used;
        names->used += (uint32_t)bytes;
    }
    names->count = (uint32_t)list->count;
    s->spec.config.classes = names->count;
    s->classes_open = false;
    return BP_OK;
}

static bp_status folder_lines(session *s, const char *folder, const name_list *list, FILE *out)
{
    char before[BP_STORE_PATH_MAX + 2];
    uint64_t images = 0;
    const char *slash = strrchr(folder, '/');
    const char *last = slash != NULL ? slash + 1 : folder;
    snprintf(before, sizeof before, "%s%s", last, *last != '\0' ? "/" : "");
    fputs("file_name,label\n", out);
    for (size_t i = 0; i < list->count; i++) {
        char number[32], path[BP_STORE_PATH_MAX];
        snprintf(number, sizeof number, "%zu", i);
        BP_TRY(bp_storage_join(path, folder, list->item[i], &s->error));
        BP_TRY(folder_class(s, out, path, before, list->item[i],
                            s->names.count > 0 ? list->item[i] : number, &images));
    }
    return images > 0 ? BP_OK
                      : bp_error_set(&s->error, BP_ERR_DATA, where,
                                     "there is no image in it: FOLDER/CLASS/IMAGE, .png, .jpg, "
                                     ".jpeg, .ppm or .pgm",
                                     folder);
}

/* Of a folder's entries those that are folders. */
static void keep_folders(const char *folder, name_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        char path[BP_STORE_PATH_MAX];
        struct stat about;
        if (bp_storage_join(path, folder, list->item[i], NULL) == BP_OK &&
            stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
            list->item[kept++] = list->item[i];
        } else {
            free(list->item[i]);
        }
    }
    list->count = kept;
}

bp_status data_folder_table(session *s, const char *folder, const char *to)
{
    name_list list;
    char *text = NULL;
    size_t bytes = 0;
    bp_status status = name_list_read(s, folder, &list);
    if (status == BP_OK) {
        keep_folders(folder, &list);
        const bool judged = s->spec.config.task == BP_TASK_CLASSES && s->names.count == 0;
        status = judged ? folder_classes(s, folder, &list) : BP_OK;
    }
    FILE *out = status == BP_OK ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        status = folder_lines(s, folder, &list, out);
        const bool failed = ferror(out) != 0;
        if ((fclose(out) != 0 || failed) && status == BP_OK) {
            out = NULL;
        }
    }
    if (out == NULL && status == BP_OK) {
        status = bp_error_set(&s->error, BP_ERR_FIT, where,
                              "there is no memory for the table of images", folder);
    }
    if (status == BP_OK) {
        status = bp_storage_write_file(s->store, to, text, bytes, &s->error);
    }
    free(text);
    name_list_end(&list);
    return status;
}
