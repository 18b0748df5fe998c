/* SPDX-License-Identifier: MIT */
/* Blocks of a flash, and the table of who has them.
 *
 * A table is: its mark, number, length, the form of the flash, how many entries, and the digest of
 * these; entries; blocks; and the digest of all that. Numbers have their low bytes first. */
#include <string.h>

#include "core/base/digest.h"
#include "device/host/storage/store_flash_private.h"

#define HEAD_BYTES  44
#define ENTRY_BYTES 7 /* and the path */
#define BLOCK_BYTES 6
#define ERASED_MOST 0xffffffu
#define SESSION     0xffffu /* between the numbers of two times of power */

static const char table_mark[] = {'b', 'p', 'f', 'l', 'a', 's', 'h', '1'};

bp_status bp_flash_failed(bp_store_flash *f, const char *reason)
{
    f->store.reason = reason;
    return BP_ERR_STORE;
}

unsigned char *bp_flash_unit(const bp_store_flash *f, uint32_t i)
{
    return f->units + (size_t)i * f->flash->unit_bytes;
}

uint64_t bp_flash_table_most(const bp_flash *flash, uint32_t files)
{
    const uint64_t bytes = HEAD_BYTES + (uint64_t)files * (ENTRY_BYTES + BP_FLASH_PATH_MAX - 1) +
                           (uint64_t)flash->block_count * BLOCK_BYTES + sizeof(uint64_t);
    return bp_size_align(bytes, flash->unit_bytes);
}

bp_status bp_flash_take(bp_store_flash *f, uint8_t owner, uint16_t index, uint32_t *block)
{
    const uint32_t count = f->flash->block_count;
    uint32_t best = count;
    uint32_t free = 0;
    for (uint32_t i = 1; i <= count; i++) {
        const uint32_t at = (f->turn + i) % count;
        if (f->blocks[at].owner != FLASH_FREE || f->blocks[at].kept) {
            continue;
        }
        free++;
        if (best == count || f->blocks[at].erasures < f->blocks[best].erasures) {
            best = at;
        }
    }
    if (free <= (owner == FLASH_TABLE ? 0 : 1)) {
        return bp_flash_failed(f, "the flash is full");
    }
    bp_flash_block *taken = &f->blocks[best];
    taken->erasures += taken->erasures < ERASED_MOST;
    if (f->flash->erase(f->flash->context, best) != BP_OK) {
        taken->owner = FLASH_BAD;
        return bp_flash_failed(f, "a block of the flash was not erased");
    }
    taken->owner = owner;
    taken->index = index;
    f->turn = best;
    *block = best;
    return BP_OK;
}

bp_status bp_flash_program(bp_store_flash *f, uint32_t block, uint32_t offset, const void *from,
                           size_t bytes)
{
    if (f->flash->program(f->flash->context, block, offset, from, bytes) == BP_OK) {
        return BP_OK;
    }
    /* The block of the newest table is needed until there is a newer one. */
    if (block != f->table) {
        f->blocks[block].owner = FLASH_BAD;
    }
    return bp_flash_failed(f, "a unit of the flash was not programmed");
}

/* A table on its way into a block. */
typedef struct table_writer {
    bp_store_flash *f;
    uint32_t block;
    uint32_t at;
    uint32_t filled; /* bytes of the unit in hand */
    bp_digest digest;
} table_writer;

static bp_status table_program(table_writer *w)
{
    const uint32_t unit = w->f->flash->unit_bytes;
    unsigned char *buffer = bp_flash_unit(w->f, BP_FLASH_OPEN);
    memset(buffer + w->filled, 0xff, unit - w->filled);
    BP_TRY(bp_flash_program(w->f, w->block, w->at, buffer, unit));
    w->at += unit;
    w->filled = 0;
    return BP_OK;
}

static bp_status table_put(table_writer *w, const void *bytes, size_t count)
{
    bp_digest_add(&w->digest, bytes, count);
    for (size_t i = 0; i < count; i++) {
        bp_flash_unit(w->f, BP_FLASH_OPEN)[w->filled++] = ((const unsigned char *)bytes)[i];
        if (w->filled == w->f->flash->unit_bytes) {
            BP_TRY(table_program(w));
        }
    }
    return BP_OK;
}

static unsigned char *put_number(unsigned char *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        *to++ = (unsigned char)(value >> (8 * i));
    }
    return to;
}

static uint64_t get_number(const unsigned char *from, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

static uint32_t entry_count(const bp_store_flash *f, uint64_t *bytes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->files; i++) {
        if (f->entries[i].kind != FLASH_NONE) {
            count++;
            *bytes += ENTRY_BYTES + strlen(f->entries[i].path);
        }
    }
    return count;
}

static uint64_t table_bytes(const bp_store_flash *f, uint32_t *entries)
{
    uint64_t bytes = HEAD_BYTES + (uint64_t)f->flash->block_count * BLOCK_BYTES + sizeof(uint64_t);
    *entries = entry_count(f, &bytes);
    return bytes;
}

static bp_status put_head(table_writer *w, uint64_t bytes, uint32_t entries)
{
    const bp_flash *flash = w->f->flash;
    unsigned char head[HEAD_BYTES];
    unsigned char *to = head + sizeof table_mark;
    memcpy(head, table_mark, sizeof table_mark);
    to = put_number(to, w->f->number, 8);
    to = put_number(to, bytes, 4);
    to = put_number(to, flash->block_bytes, 4);
    to = put_number(to, flash->block_count, 4);
    to = put_number(to, flash->unit_bytes, 4);
    to = put_number(to, entries, 4);
    put_number(to, bp_digest_of(head, HEAD_BYTES - 8, 0), 8);
    return table_put(w, head, sizeof head);
}

static bp_status put_table(table_writer *w, uint64_t bytes, uint32_t entries)
{
    const bp_store_flash *f = w->f;
    unsigned char row[ENTRY_BYTES + BP_FLASH_PATH_MAX];
    bp_digest_begin(&w->digest, 0);
    BP_TRY(put_head(w, bytes, entries));
    for (uint32_t i = 0; i < f->files; i++) {
        const bp_flash_entry *e = &f->entries[i];
        if (e->kind != FLASH_NONE) {
            const size_t length = strlen(e->path);
            row[0] = (unsigned char)i;
            row[1] = e->kind;
            row[2] = (unsigned char)length;
            memcpy(put_number(row + 3, e->bytes, 4), e->path, length);
            BP_TRY(table_put(w, row, ENTRY_BYTES + length));
        }
    }
    for (uint32_t i = 0; i < f->flash->block_count; i++) {
        const bp_flash_block *b = &f->blocks[i];
        put_number(put_number(put_number(row, b->erasures, 3), b->owner, 1), b->index, 2);
        BP_TRY(table_put(w, row, BLOCK_BYTES));
    }
    put_number(row, bp_digest_end(&w->digest), 8);
    BP_TRY(table_put(w, row, 8));
    return w->filled > 0 ? table_program(w) : BP_OK;
}

bp_status bp_flash_commit(bp_store_flash *f)
{
    const bp_flash *flash = f->flash;
    uint32_t entries;
    const uint64_t bytes = table_bytes(f, &entries);
    table_writer w = {.f = f, .block = f->table, .at = f->table_at};
    const uint32_t before = f->table;
    /* Should it fail, nobody knows which of the two tables is there. */
    for (uint32_t i = 0; i < flash->block_count; i++) {
        f->blocks[i].kept |= f->blocks[i].owner < f->files;
    }
    if (before == flash->block_count ||
        f->table_at + bp_size_align(bytes, flash->unit_bytes) > flash->block_bytes) {
        BP_TRY(bp_flash_take(f, FLASH_TABLE, 0, &w.block));
        w.at = 0;
    }
    f->number++;
    f->table_at = flash->block_bytes;
    BP_TRY(put_table(&w, bytes, entries));
    if (before != w.block && before != flash->block_count) {
        f->blocks[before].owner = FLASH_FREE;
    }
    f->table = w.block;
    f->table_at = w.at;
    for (uint32_t i = 0; i < flash->block_count; i++) {
        f->blocks[i].kept = f->blocks[i].owner < f->files;
    }
    return BP_OK;
}

static bp_status flash_read(bp_store_flash *f, uint32_t block, uint64_t at, void *to, size_t bytes)
{
    if (at > f->flash->block_bytes || bytes > f->flash->block_bytes - at) {
        return BP_ERR_DATA;
    }
    return f->flash->read(f->flash->context, block, (uint32_t)at, to, bytes) == BP_OK
               ? BP_OK
               : bp_flash_failed(f, "the flash was not read");
}

/* Where a table is. */
typedef struct table_place {
    uint64_t number; /* 0: there is none */
    uint64_t bytes;
    uint32_t block;
    uint32_t at;
    uint32_t entries;
} table_place;

/* Whether a whole table stands at this place, by its digests; it is then in *found. */
static bp_status look(bp_store_flash *f, uint32_t block, uint32_t at, table_place *found)
{
    unsigned char head[HEAD_BYTES];
    bp_digest digest;
    *found = (table_place){.block = block, .at = at};
    BP_TRY(flash_read(f, block, at, head, sizeof head));
    if (memcmp(head, table_mark, sizeof table_mark) != 0 ||
        get_number(head + HEAD_BYTES - 8, 8) != bp_digest_of(head, HEAD_BYTES - 8, 0)) {
        return BP_ERR_DATA;
    }
    if (get_number(head + 20, 4) != f->flash->block_bytes ||
        get_number(head + 24, 4) != f->flash->block_count ||
        get_number(head + 28, 4) != f->flash->unit_bytes) {
        f->store.reason = "the flash was written with other blocks or units";
        return BP_ERR_USAGE;
    }
    found->bytes = get_number(head + 16, 4);
    found->entries = (uint32_t)get_number(head + 32, 4);
    const uint64_t number = get_number(head + 8, 8);
    bp_digest_begin(&digest, 0);
    const uint64_t end = found->bytes < 8 ? 0 : found->bytes - 8;
    for (uint64_t done = 0; done < end;) {
        const uint64_t left = end - done;
        const size_t piece = left < f->flash->unit_bytes ? (size_t)left : f->flash->unit_bytes;
        unsigned char *buffer = bp_flash_unit(f, BP_FLASH_OPEN);
        BP_TRY(flash_read(f, block, at + done, buffer, piece));
        bp_digest_add(&digest, buffer, piece);
        done += piece;
    }
    BP_TRY(flash_read(f, block, at + end, head, 8));
    if (get_number(head, 8) != bp_digest_end(&digest)) {
        return BP_ERR_DATA;
    }
    found->number = number;
    return BP_OK;
}

/* Tables stand one behind the other from a block's start; what is no table ends them. */
static bp_status look_at_block(bp_store_flash *f, uint32_t block, table_place *newest)
{
    bp_status status = BP_OK;
    for (uint64_t at = 0; status == BP_OK && at < f->flash->block_bytes;) {
        table_place found;
        status = look(f, block, (uint32_t)at, &found);
        if (status == BP_OK && found.number > newest->number) {
            *newest = found;
        }
        at += bp_size_align(found.bytes, f->flash->unit_bytes);
    }
    return status == BP_ERR_DATA ? BP_OK : status;
}

static bp_status take_entry(bp_store_flash *f, const table_place *place, uint64_t *at)
{
    unsigned char row[ENTRY_BYTES];
    BP_TRY(flash_read(f, place->block, *at, row, sizeof row));
    bp_flash_entry *e = row[0] < f->files ? &f->entries[row[0]] : NULL;
    if (e == NULL || row[1] > FLASH_FOLDER || row[2] >= BP_FLASH_PATH_MAX) {
        f->store.reason = "the flash names more files than there is memory for";
        return BP_ERR_DATA;
    }
    e->kind = row[1];
    e->bytes = (uint32_t)get_number(row + 3, 4);
    BP_TRY(flash_read(f, place->block, *at + ENTRY_BYTES, e->path, row[2]));
    *at += ENTRY_BYTES + (uint64_t)row[2];
    return BP_OK;
}

static bp_status take_table(bp_store_flash *f, const table_place *place)
{
    uint64_t at = place->at + (uint64_t)HEAD_BYTES;
    for (uint32_t i = 0; i < place->entries; i++) {
        BP_TRY(take_entry(f, place, &at));
    }
    for (uint32_t i = 0; i < f->flash->block_count; i++) {
        unsigned char row[BLOCK_BYTES];
        bp_flash_block *b = &f->blocks[i];
        BP_TRY(flash_read(f, place->block, at, row, sizeof row));
        at += BLOCK_BYTES;
        b->erasures = (uint32_t)get_number(row, 3);
        b->owner = row[3] < f->files || row[3] == FLASH_BAD ? row[3] : FLASH_FREE;
        b->index = (uint16_t)get_number(row + 4, 2);
        b->kept = b->owner < f->files;
    }
    f->blocks[place->block].owner = FLASH_TABLE;
    f->table = place->block;
    f->turn = place->block;
    f->number = (place->number | SESSION) + 1; /* above one that was cut short, whatever it is */
    return BP_OK;
}

bp_status bp_flash_mount(bp_store_flash *f)
{
    table_place newest = {.number = 0};
    for (uint32_t block = 0; block < f->flash->block_count; block++) {
        BP_TRY(look_at_block(f, block, &newest));
    }
    return newest.number > 0 ? take_table(f, &newest) : BP_OK;
}
