/* SPDX-License-Identifier: MIT */
/* Files and folders on a flash. */
#include "device/host/storage/store_flash.h"

#include <string.h>

#include "device/host/storage/store_flash_private.h"

static bool is_root(const char *path)
{
    return path[0] == '\0' || strcmp(path, ".") == 0;
}

/* The entry of that path; f->files: there is none. */
static uint32_t find(const bp_store_flash *f, const char *path)
{
    uint32_t i = 0;
    while (i < f->files &&
           (f->entries[i].kind == FLASH_NONE || strcmp(f->entries[i].path, path) != 0)) {
        i++;
    }
    return i;
}

static bool is_kind(const bp_store_flash *f, uint32_t entry, uint8_t kind)
{
    return entry < f->files && f->entries[entry].kind == kind;
}

static bool folder_is_there(const bp_store_flash *f, const char *path)
{
    return is_root(path) || is_kind(f, find(f, path), FLASH_FOLDER);
}

/* What stands in a folder behind its name; NULL: this path is not in it. */
static const char *name_in(const char *folder, const char *path)
{
    const size_t length = is_root(folder) ? 0 : strlen(folder);
    if (length == 0) {
        return path;
    }
    return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static bool folder_is_empty(const bp_store_flash *f, const char *path)
{
    for (uint32_t i = 0; i < f->files; i++) {
        if (f->entries[i].kind != FLASH_NONE && name_in(path, f->entries[i].path) != NULL) {
            return false;
        }
    }
    return true;
}

/* Its blocks are free once a table without them is on the medium. */
static void forget_bytes(bp_store_flash *f, uint32_t entry)
{
    for (uint32_t i = 0; i < f->flash->block_count; i++) {
        if (f->blocks[i].owner == entry) {
            f->blocks[i].owner = FLASH_FREE;
        }
    }
    f->entries[entry].bytes = 0;
}

/* A new entry, in a folder that is there. */
static bp_status add(bp_store_flash *f, const char *path, uint8_t kind, uint32_t *entry)
{
    char folder[BP_FLASH_PATH_MAX];
    const size_t length = strlen(path);
    if (length >= BP_FLASH_PATH_MAX) {
        return bp_flash_failed(f, "the path is too long for a flash");
    }
    memcpy(folder, path, length + 1);
    char *slash = strrchr(folder, '/');
    (slash != NULL ? slash : folder)[0] = '\0';
    if (!folder_is_there(f, folder)) {
        return bp_flash_failed(f, "there is no such folder");
    }
    uint32_t i = 0;
    while (i < f->files && f->entries[i].kind != FLASH_NONE) {
        i++;
    }
    if (i == f->files) {
        return bp_flash_failed(f, "the flash has all the files that there is memory for");
    }
    f->entries[i].kind = kind;
    f->entries[i].bytes = 0;
    memcpy(f->entries[i].path, path, length + 1);
    *entry = i;
    return BP_OK;
}

static bp_status flash_open_read(bp_store *store, const char *path, bp_file *file)
{
    bp_store_flash *f = store->context;
    const uint32_t entry = find(f, path);
    if (!is_kind(f, entry, FLASH_FILE) || entry == f->writing) {
        return bp_flash_failed(f, "there is no such file");
    }
    file->handle = (uint64_t)entry + 1;
    return BP_OK;
}

static bp_status flash_open_write(bp_store *store, const char *path, bp_file *file)
{
    bp_store_flash *f = store->context;
    uint32_t entry = find(f, path);
    if (f->writing < f->files) {
        return bp_flash_failed(f, "one file of a flash is written at a time");
    }
    if (entry == f->files) {
        BP_TRY(add(f, path, FLASH_FILE, &entry));
    }
    if (f->entries[entry].kind != FLASH_FILE) {
        return bp_flash_failed(f, "it is a folder");
    }
    forget_bytes(f, entry);
    memset(f->piece, 0, sizeof f->piece);
    memset(f->run, 0, sizeof f->run);
    f->writing = entry;
    file->handle = (uint64_t)entry + 1;
    return BP_OK;
}

static bp_status flash_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    const bp_store_flash *f = store->context;
    *bytes = f->entries[file.handle - 1].bytes;
    return BP_OK;
}

/* The block of a file that has its byte `offset`; block_count: none yet. */
static uint32_t block_of(const bp_store_flash *f, uint32_t entry, uint64_t offset)
{
    const uint64_t index = offset / f->flash->block_bytes;
    uint32_t i = 0;
    while (i < f->flash->block_count &&
           (f->blocks[i].owner != entry || f->blocks[i].index != index)) {
        i++;
    }
    return i;
}

/* Of `bytes` from `offset` on, those that lie in one block. */
static size_t in_block(const bp_store_flash *f, uint64_t offset, size_t bytes)
{
    const uint64_t left = f->flash->block_bytes - offset % f->flash->block_bytes;
    return bytes < left ? bytes : (size_t)left;
}

static bp_status flash_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                               size_t bytes)
{
    bp_store_flash *f = store->context;
    const uint32_t entry = (uint32_t)(file.handle - 1);
    unsigned char *at = to;
    if (entry == f->writing || bp_size_add(offset, bytes) > f->entries[entry].bytes) {
        return bp_flash_failed(f, "the file ends too early");
    }
    while (bytes > 0) {
        const size_t piece = in_block(f, offset, bytes);
        const uint32_t block = block_of(f, entry, offset);
        const uint32_t from = (uint32_t)(offset % f->flash->block_bytes);
        if (block == f->flash->block_count ||
            f->flash->read(f->flash->context, block, from, at, piece) != BP_OK) {
            return bp_flash_failed(f, "the flash was not read");
        }
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    return BP_OK;
}

/* Notes that units [from, to) are on the medium. */
static bp_status add_run(bp_store_flash *f, uint32_t from, uint32_t to)
{
    bp_flash_run *free = NULL;
    for (uint32_t i = 0; i < BP_FLASH_RUNS; i++) {
        bp_flash_run *run = &f->run[i];
        if (run->from == run->to) {
            free = free != NULL ? free : run;
        } else if (run->to == from) {
            run->to = to;
            return BP_OK;
        } else if (run->from == to) {
            run->from = from;
            return BP_OK;
        }
    }
    if (free == NULL) {
        return bp_flash_failed(f, "a file of a flash is written in few pieces");
    }
    *free = (bp_flash_run){from, to};
    return BP_OK;
}

static bool is_there(const bp_store_flash *f, uint32_t from, uint32_t to)
{
    bool there = false;
    for (uint32_t i = 0; i < BP_FLASH_RUNS; i++) {
        there = there || (from < f->run[i].to && f->run[i].from < to);
    }
    return there;
}

/* Programs units of the file, which lie in one block. */
static bp_status put_units(bp_store_flash *f, uint32_t unit, const unsigned char *from,
                           size_t bytes)
{
    const bp_flash *flash = f->flash;
    const uint64_t offset = (uint64_t)unit * flash->unit_bytes;
    uint32_t block = block_of(f, f->writing, offset);
    if (block == flash->block_count) {
        const uint16_t index = (uint16_t)(offset / flash->block_bytes);
        BP_TRY(bp_flash_take(f, (uint8_t)f->writing, index, &block));
    }
    BP_TRY(add_run(f, unit, unit + (uint32_t)(bytes / flash->unit_bytes)));
    return bp_flash_program(f, block, (uint32_t)(offset % flash->block_bytes), from, bytes);
}

/* The piece that this unit waits in, or a free one. */
static bp_flash_piece *piece_of(bp_store_flash *f, uint32_t unit, uint32_t from)
{
    bp_flash_piece *free = NULL;
    for (uint32_t i = 0; i < BP_FLASH_OPEN; i++) {
        bp_flash_piece *piece = &f->piece[i];
        if (piece->from == piece->to) {
            free = piece;
        } else if (piece->unit == unit) {
            return piece;
        }
    }
    if (free != NULL) {
        *free = (bp_flash_piece){unit, from, from};
        memset(bp_flash_unit(f, (uint32_t)(free - f->piece)), 0xff, f->flash->unit_bytes);
    }
    return free;
}

/* Bytes within one unit: they wait until it is whole. */
static bp_status put_bytes(bp_store_flash *f, uint32_t unit, uint32_t from,
                           const unsigned char *bytes, uint32_t count)
{
    bp_flash_piece *piece = is_there(f, unit, unit + 1) ? NULL : piece_of(f, unit, from);
    if (piece == NULL || (piece->to != from && piece->from != from + count)) {
        return bp_flash_failed(f, "a file of a flash is written once, in few pieces");
    }
    unsigned char *buffer = bp_flash_unit(f, (uint32_t)(piece - f->piece));
    memcpy(buffer + from, bytes, count);
    piece->from = from < piece->from ? from : piece->from;
    piece->to = from + count > piece->to ? from + count : piece->to;
    if (piece->to - piece->from < f->flash->unit_bytes) {
        return BP_OK;
    }
    *piece = (bp_flash_piece){0, 0, 0};
    return put_units(f, unit, buffer, f->flash->unit_bytes);
}

static bp_status flash_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                size_t bytes)
{
    bp_store_flash *f = store->context;
    const uint32_t unit_bytes = f->flash->unit_bytes;
    const unsigned char *at = from;
    const uint64_t most = (uint64_t)f->flash->block_bytes * f->flash->block_count;
    const uint64_t end = bp_size_add(offset, bytes);
    if (file.handle != (uint64_t)f->writing + 1 || end > most || end > UINT32_MAX) {
        return bp_flash_failed(f, "a file of a flash is not written there");
    }
    while (bytes > 0) {
        const uint32_t unit = (uint32_t)(offset / unit_bytes);
        const uint32_t skip = (uint32_t)(offset % unit_bytes);
        const uint32_t left = unit_bytes - skip;
        size_t piece = in_block(f, offset, bytes) / unit_bytes * unit_bytes;
        if (skip == 0 && piece > 0) {
            if (is_there(f, unit, unit + (uint32_t)(piece / unit_bytes))) {
                return bp_flash_failed(f, "a file of a flash is written once");
            }
            BP_TRY(put_units(f, unit, at, piece));
        } else {
            piece = bytes < left ? bytes : left;
            BP_TRY(put_bytes(f, unit, skip, at, (uint32_t)piece));
        }
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    f->entries[f->writing].bytes =
        end > f->entries[f->writing].bytes ? (uint32_t)end : f->entries[f->writing].bytes;
    return BP_OK;
}

/* Units that are not whole are filled up: nothing more can be written into them. */
static bp_status put_pieces(bp_store_flash *f)
{
    bp_status status = BP_OK;
    for (uint32_t i = 0; i < BP_FLASH_OPEN; i++) {
        const bp_flash_piece piece = f->piece[i];
        f->piece[i] = (bp_flash_piece){0, 0, 0};
        if (piece.from < piece.to && status == BP_OK) {
            status = put_units(f, piece.unit, bp_flash_unit(f, i), f->flash->unit_bytes);
        }
    }
    return status;
}

static bp_status flash_sync(bp_store *store, bp_file file)
{
    bp_store_flash *f = store->context;
    if (file.handle == (uint64_t)f->writing + 1) {
        BP_TRY(put_pieces(f));
    }
    return bp_flash_commit(f);
}

static bp_status flash_close(bp_store *store, bp_file file)
{
    bp_store_flash *f = store->context;
    bp_status status = BP_OK;
    if (file.handle == (uint64_t)f->writing + 1) {
        status = put_pieces(f);
        f->writing = f->files;
    }
    return status;
}

/* Makes room under the name `to`, if it may be taken. */
static bp_status replace(bp_store_flash *f, uint32_t entry, const char *to)
{
    const uint32_t there = find(f, to);
    if (there == f->files || there == entry) {
        return BP_OK;
    }
    if (f->entries[there].kind != f->entries[entry].kind || !folder_is_empty(f, to)) {
        return bp_flash_failed(f, "the folder is not empty, or one is a file");
    }
    forget_bytes(f, there);
    f->entries[there].kind = FLASH_NONE;
    return BP_OK;
}

static bp_status flash_rename(bp_store *store, const char *from, const char *to)
{
    bp_store_flash *f = store->context;
    const uint32_t entry = find(f, from);
    const size_t length = strlen(to);
    if (entry == f->files || entry == f->writing) {
        return bp_flash_failed(f, "there is no such file or folder");
    }
    size_t longest = length;
    for (uint32_t i = 0; i < f->files; i++) {
        const char *name =
            f->entries[i].kind != FLASH_NONE ? name_in(from, f->entries[i].path) : NULL;
        const size_t all = name != NULL ? length + 1 + strlen(name) : 0;
        longest = all > longest ? all : longest;
    }
    if (longest >= BP_FLASH_PATH_MAX || name_in(from, to) != NULL) {
        return bp_flash_failed(f, "the path is too long for a flash, or within itself");
    }
    BP_TRY(replace(f, entry, to));
    for (uint32_t i = 0; i < f->files; i++) {
        bp_flash_entry *e = &f->entries[i];
        const char *name = e->kind != FLASH_NONE ? name_in(from, e->path) : NULL;
        if (name != NULL) {
            memmove(e->path + length + 1, name, strlen(name) + 1);
            memcpy(e->path, to, length);
            e->path[length] = '/';
        }
    }
    memcpy(f->entries[entry].path, to, length + 1);
    return BP_OK;
}

static bp_status take_away(bp_store *store, const char *path, uint8_t kind)
{
    bp_store_flash *f = store->context;
    const uint32_t entry = find(f, path);
    if (!is_kind(f, entry, kind) || entry == f->writing || !folder_is_empty(f, path)) {
        return bp_flash_failed(f, "there is no such file or empty folder");
    }
    forget_bytes(f, entry);
    f->entries[entry].kind = FLASH_NONE;
    return BP_OK;
}

static bp_status flash_remove(bp_store *store, const char *path)
{
    return take_away(store, path, FLASH_FILE);
}

static bp_status flash_remove_directory(bp_store *store, const char *path)
{
    return take_away(store, path, FLASH_FOLDER);
}

static bp_status flash_make_directory(bp_store *store, const char *path)
{
    bp_store_flash *f = store->context;
    const uint32_t entry = find(f, path);
    uint32_t made;
    if (folder_is_there(f, path)) {
        return BP_OK;
    }
    return entry < f->files ? bp_flash_failed(f, "it is a file")
                            : add(f, path, FLASH_FOLDER, &made);
}

static bp_status flash_sync_directory(bp_store *store, const char *path)
{
    bp_store_flash *f = store->context;
    return folder_is_there(f, path) ? bp_flash_commit(f)
                                    : bp_flash_failed(f, "there is no such folder");
}

static bp_status flash_list(bp_store *store, const char *path,
                            bp_status (*each)(void *user, const char *name), void *user)
{
    bp_store_flash *f = store->context;
    if (!folder_is_there(f, path)) {
        return bp_flash_failed(f, "there is no such folder");
    }
    for (uint32_t i = 0; i < f->files; i++) {
        const char *name =
            f->entries[i].kind != FLASH_NONE ? name_in(path, f->entries[i].path) : NULL;
        if (name != NULL && strchr(name, '/') == NULL) {
            BP_TRY(each(user, name));
        }
    }
    return BP_OK;
}

static bp_status flash_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    const bp_store_flash *f = store->context;
    uint64_t free = 0;
    (void)path;
    for (uint32_t i = 0; i < f->flash->block_count; i++) {
        free += f->blocks[i].owner == FLASH_FREE;
    }
    *bytes = (free > 0 ? free - 1 : 0) * f->flash->block_bytes;
    return BP_OK;
}

static bp_status flash_exists(bp_store *store, const char *path, bool *there)
{
    const bp_store_flash *f = store->context;
    *there = is_root(path) || find(f, path) < f->files;
    return BP_OK;
}

uint64_t bp_store_flash_bytes(const bp_flash *flash, uint32_t files)
{
    return BP_FLASH_MEMORY((uint64_t)files, (uint64_t)flash->block_count,
                           (uint64_t)flash->unit_bytes);
}

static bool form_is_right(const bp_flash *flash, uint32_t files, const void *memory)
{
    return flash->unit_bytes >= 8 && flash->block_bytes % flash->unit_bytes == 0 &&
           flash->block_count >= 2 && flash->block_count <= BP_FLASH_BLOCKS && files >= 1 &&
           files <= BP_FLASH_FILES && (uintptr_t)memory % 8 == 0 &&
           bp_flash_table_most(flash, files) <= flash->block_bytes;
}

bp_status bp_store_flash_init(bp_store_flash *made, const bp_flash *flash, uint32_t files,
                              void *memory, size_t bytes)
{
    *made = (bp_store_flash){.flash = flash,
                             .files = files,
                             .table = flash->block_count,
                             .table_at = flash->block_bytes,
                             .writing = files};
    made->store = (bp_store){.context = made,
                             .open_read = flash_open_read,
                             .open_write = flash_open_write,
                             .file_size = flash_file_size,
                             .read_at = flash_read_at,
                             .write_at = flash_write_at,
                             .sync = flash_sync,
                             .close = flash_close,
                             .rename = flash_rename,
                             .remove = flash_remove,
                             .make_directory = flash_make_directory,
                             .remove_directory = flash_remove_directory,
                             .sync_directory = flash_sync_directory,
                             .list = flash_list,
                             .free_bytes = flash_free_bytes,
                             .exists = flash_exists};
    if (!form_is_right(flash, files, memory)) {
        made->store.reason = "blocks hold no table of so many files, or units are no part of them";
        return BP_ERR_USAGE;
    }
    if (bytes < bp_store_flash_bytes(flash, files)) {
        made->store.reason = "the flash needs more memory for its table";
        return BP_ERR_FIT;
    }
    unsigned char *at = memory;
    memset(at, 0, (size_t)bp_store_flash_bytes(flash, files));
    made->entries = memory;
    at += bp_size_align((uint64_t)files * sizeof(bp_flash_entry), 8);
    made->blocks = (void *)at;
    at += bp_size_align((uint64_t)flash->block_count * sizeof(bp_flash_block), 8);
    made->units = at;
    for (uint32_t i = 0; i < flash->block_count; i++) {
        made->blocks[i].owner = FLASH_FREE;
    }
    return bp_flash_mount(made);
}

bp_flash_wear bp_store_flash_wear(const bp_store_flash *flash)
{
    if (flash->blocks == NULL) {
        return (bp_flash_wear){0};
    }
    bp_flash_wear wear = {.least = UINT32_MAX};
    for (uint32_t i = 0; i < flash->flash->block_count; i++) {
        const bp_flash_block *b = &flash->blocks[i];
        wear.least = b->erasures < wear.least ? b->erasures : wear.least;
        wear.most = b->erasures > wear.most ? b->erasures : wear.most;
        wear.total += b->erasures;
        wear.failed += b->owner == FLASH_BAD;
    }
    return wear;
}
