/* SPDX-License-Identifier: MIT */
/* The compact form of a trainer's state, two of which lie in a memory that keeps them. A slot:
 *     head         64 bytes in a unit of its own, written last
 *     table        a row for each tensor and part: 8 bytes, rank extents of 32 bits, the name
 *     bytes        of each in turn, but for frozen tensors, of which the table has the CRC
 * All numbers have their low bytes first. tools/bedplate/models/board_state.c reads it too. */
#include "device/host/trainer_state.h"

#include <stddef.h>
#include <string.h>

#define CRC_START UINT32_MAX

/* IEEE 802.3, four bits at a time: a table of 64 bytes. */
static uint32_t crc_add(uint32_t crc, const void *from, size_t bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *at = from;
    for (; bytes > 0; bytes--, at++) {
        crc ^= *at;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

static uint32_t crc_of(const void *from, size_t bytes)
{
    return ~crc_add(CRC_START, from, bytes);
}

/* What goes through: into a slot, a unit at a time, and into the sum; or, with no slot, only there.
 */
typedef struct slot_writer {
    const bp_trainer_slots *slots; /* NULL: only counted */
    uint32_t slot;
    uint32_t crc;
    uint64_t bytes; /* that went through */
    bp_status status;
    unsigned char unit[BP_TRAINER_UNIT];
} slot_writer;

static void slot_flush(slot_writer *w, uint64_t begin, size_t bytes)
{
    if (w->status == BP_OK && w->slots != NULL && bytes > 0) {
        memset(w->unit + bytes, 0, sizeof w->unit - bytes);
        w->status = w->slots->write(w->slots->user, w->slot, BP_TRAINER_UNIT + begin, w->unit,
                                    sizeof w->unit);
    }
}

static void slot_put(slot_writer *w, const void *from, size_t bytes)
{
    const unsigned char *at = from;
    w->crc = crc_add(w->crc, from, bytes);
    while (bytes > 0) {
        const size_t used = (size_t)(w->bytes % BP_TRAINER_UNIT), room = BP_TRAINER_UNIT - used;
        const size_t piece = bytes < room ? bytes : room;
        memcpy(w->unit + used, at, piece);
        at += piece;
        bytes -= piece;
        w->bytes += piece;
        if (piece == room) {
            slot_flush(w, w->bytes - BP_TRAINER_UNIT, BP_TRAINER_UNIT);
        }
    }
}

static bool kept_frozen(const bp_trainer *trainer, const bp_state_tensor *tensor)
{
    return trainer->plan->state[tensor->handle].offset >= trainer->plan->arena_bytes;
}

/* Bytes of a tensor, one piece after the other, into the writer. */
static void kept_tensor(slot_writer *w, bp_trainer *trainer, const bp_state_tensor *tensor)
{
    const bp_state_io io = bp_trainer_state_io(trainer);
    unsigned char piece[64];
    for (uint64_t at = 0; at < tensor->bytes && w->status == BP_OK; at += sizeof piece) {
        const uint64_t left = tensor->bytes - at;
        const size_t some = left < sizeof piece ? (size_t)left : sizeof piece;
        w->status = io.read(io.user, tensor->handle, at, piece, some);
        slot_put(w, piece, some);
    }
}

static void kept_row(slot_writer *w, const char *name, const bp_trainer_state_row *row,
                     const uint64_t *shape)
{
    slot_put(w, row, sizeof *row);
    for (uint32_t i = 0; i < row->rank; i++) {
        const uint32_t extent = (uint32_t)shape[i];
        slot_put(w, &extent, sizeof extent);
    }
    slot_put(w, name, row->name_bytes);
}

static void kept_table(slot_writer *w, bp_trainer *trainer, const bp_trainer_kept *kept)
{
    for (uint32_t i = 0; i < trainer->plan->state_count; i++) {
        const bp_state_tensor *t = &kept->tensors[i];
        slot_writer sum = {.crc = CRC_START};
        bp_trainer_state_row row = {.name_bytes = (uint8_t)strlen(t->name),
                                    .dtype = (uint8_t)t->dtype,
                                    .rank = (uint8_t)t->rank,
                                    .kind = t->weight ? BP_TRAINER_ROW_WEIGHT : 0};
        if (kept_frozen(trainer, t)) {
            kept_tensor(&sum, trainer, t);
            row.kind |= BP_TRAINER_ROW_FROZEN;
            row.number = ~sum.crc;
        }
        kept_row(w, t->name, &row, t->shape);
    }
    for (uint32_t i = 0; i < kept->part_count; i++) {
        const bp_trainer_part *part = &kept->parts[i];
        const bp_trainer_state_row row = {.name_bytes = (uint8_t)strlen(part->name),
                                          .dtype = BP_U8,
                                          .rank = 1,
                                          .kind = BP_TRAINER_ROW_PART};
        const uint64_t bytes = part->bytes;
        kept_row(w, part->name, &row, &bytes);
    }
}

/* What identifies the model, and the bytes of everything behind the head. */
static bp_trainer_state_head state_head(bp_trainer *trainer, const bp_trainer_kept *kept)
{
    slot_writer table = {.crc = CRC_START};
    kept_table(&table, trainer, kept);
    bp_trainer_state_head head = {.magic = BP_TRAINER_STATE_MAGIC,
                                  .version = BP_TRAINER_STATE_VERSION,
                                  .rows = trainer->plan->state_count + kept->part_count,
                                  .table_bytes = (uint32_t)table.bytes,
                                  .identity = ~table.crc,
                                  .bytes = table.bytes};
    for (uint32_t i = 0; i < trainer->plan->state_count; i++) {
        head.bytes += kept_frozen(trainer, &kept->tensors[i]) ? 0 : kept->tensors[i].bytes;
    }
    for (uint32_t i = 0; i < kept->part_count; i++) {
        head.bytes += kept->parts[i].bytes;
    }
    return head;
}

static bool slot_head_whole(const bp_trainer_state_head *head)
{
    return head->magic == BP_TRAINER_STATE_MAGIC &&
           head->crc == crc_of(head, offsetof(bp_trainer_state_head, crc));
}

/* Whether a slot has a state that is whole. */
static bp_status slot_look(const bp_trainer_slots *slots, uint32_t slot,
                           bp_trainer_state_head *head, bool *whole)
{
    unsigned char piece[64];
    uint32_t crc = CRC_START;
    *whole = false;
    BP_TRY(slots->read(slots->user, slot, 0, head, sizeof *head));
    if (!slot_head_whole(head) || head->bytes > slots->bytes - BP_TRAINER_UNIT) {
        return BP_OK;
    }
    for (uint64_t at = 0; at < head->bytes; at += sizeof piece) {
        const uint64_t left = head->bytes - at;
        const size_t some = left < sizeof piece ? (size_t)left : sizeof piece;
        BP_TRY(slots->read(slots->user, slot, BP_TRAINER_UNIT + at, piece, some));
        crc = crc_add(crc, piece, some);
    }
    *whole = ~crc == head->payload;
    return BP_OK;
}

/* The slot with the newest whole state; 2: neither has one. */
static bp_status slot_newest(const bp_trainer_slots *slots, uint32_t *slot,
                             bp_trainer_state_head *head)
{
    *slot = 2;
    for (uint32_t i = 0; i < 2; i++) {
        bp_trainer_state_head found;
        bool whole;
        BP_TRY(slot_look(slots, i, &found, &whole));
        if (whole && (*slot == 2 || found.sequence > head->sequence)) {
            *slot = i;
            *head = found;
        }
    }
    return BP_OK;
}

uint64_t bp_trainer_kept_bytes(bp_trainer *trainer, const bp_trainer_kept *kept)
{
    return trainer->plan == NULL || kept == NULL
               ? 0
               : bp_size_align(state_head(trainer, kept).bytes, BP_TRAINER_UNIT) + BP_TRAINER_UNIT;
}

bp_status bp_trainer_keep(bp_trainer *trainer, const bp_trainer_kept *kept,
                          const bp_trainer_slots *slots)
{
    bp_trainer_state_head before, head;
    slot_writer w = {.slots = slots, .crc = CRC_START};
    if (trainer->plan == NULL || kept == NULL || slots == NULL) {
        return BP_ERR_USAGE;
    }
    if (bp_trainer_kept_bytes(trainer, kept) > slots->bytes) {
        return BP_ERR_FIT;
    }
    BP_TRY(slot_newest(slots, &w.slot, &before));
    head = state_head(trainer, kept);
    head.step = trainer->steps;
    head.sequence = w.slot < 2 ? before.sequence + 1 : 1;
    w.slot = w.slot == 0; /* the other one */
    BP_TRY(slots->erase(slots->user, w.slot));
    kept_table(&w, trainer, kept);
    for (uint32_t i = 0; i < trainer->plan->state_count; i++) {
        if (!kept_frozen(trainer, &kept->tensors[i])) {
            kept_tensor(&w, trainer, &kept->tensors[i]);
        }
    }
    for (uint32_t i = 0; i < kept->part_count; i++) {
        slot_put(&w, kept->parts[i].memory, kept->parts[i].bytes);
    }
    slot_flush(&w, w.bytes - w.bytes % BP_TRAINER_UNIT, (size_t)(w.bytes % BP_TRAINER_UNIT));
    BP_TRY(w.status);
    head.payload = ~w.crc;
    head.crc = crc_of(&head, offsetof(bp_trainer_state_head, crc));
    memset(w.unit, 0, sizeof w.unit);
    memcpy(w.unit, &head, sizeof head);
    return slots->write(slots->user, w.slot, 0, w.unit, sizeof w.unit);
}

/* A tensor's bytes out of a slot into its place. */
static bp_status recall_tensor(bp_trainer *trainer, const bp_state_tensor *tensor,
                               const bp_trainer_slots *slots, uint32_t slot, uint64_t offset)
{
    const bp_state_io io = bp_trainer_state_io(trainer);
    unsigned char piece[64];
    for (uint64_t at = 0; at < tensor->bytes; at += sizeof piece) {
        const uint64_t left = tensor->bytes - at;
        const size_t some = left < sizeof piece ? (size_t)left : sizeof piece;
        BP_TRY(slots->read(slots->user, slot, offset + at, piece, some));
        BP_TRY(io.write(io.user, tensor->handle, at, piece, some));
    }
    return BP_OK;
}

bp_status bp_trainer_recall(bp_trainer *trainer, const bp_trainer_kept *kept,
                            const bp_trainer_slots *slots, bool *any)
{
    bp_trainer_state_head head;
    uint32_t slot;
    if (any == NULL) {
        return BP_ERR_USAGE;
    }
    *any = false;
    if (trainer->plan == NULL || kept == NULL || slots == NULL) {
        return BP_ERR_USAGE;
    }
    BP_TRY(slot_newest(slots, &slot, &head));
    if (slot == 2) {
        return BP_OK;
    }
    const bp_trainer_state_head mine = state_head(trainer, kept);
    if (head.version != mine.version || head.identity != mine.identity ||
        head.bytes != mine.bytes) {
        return BP_ERR_DATA;
    }
    uint64_t at = BP_TRAINER_UNIT + head.table_bytes;
    for (uint32_t i = 0; i < trainer->plan->state_count; i++) {
        if (!kept_frozen(trainer, &kept->tensors[i])) {
            BP_TRY(recall_tensor(trainer, &kept->tensors[i], slots, slot, at));
            at += kept->tensors[i].bytes;
        }
    }
    for (uint32_t i = 0; i < kept->part_count; i++) {
        BP_TRY(slots->read(slots->user, slot, at, kept->parts[i].memory, kept->parts[i].bytes));
        at += kept->parts[i].bytes;
    }
    trainer->steps = head.step;
    trainer->position = 0;
    *any = true;
    return BP_OK;
}
