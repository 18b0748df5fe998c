/* SPDX-License-Identifier: MIT */
/* Documents to rows. */
#include "tools/formats/data/data_packed.h"

#include <string.h>

#include "core/base/sort.h"
#include "tools/formats/data/data_documents.h"

static const char where[] = "packing";

/* The scratch, cut up; of each document that waits: */
typedef struct packer {
    bp_pack *pack;
    bp_tokens_writer writer;
    bp_example *documents; /* (BP_PACKED_AT_ONCE), in the order of the data */
    uint32_t *order;       /* of them by length */
    uint32_t *next;        /* document of the same row behind it */
    uint32_t *head;        /* of each row: its first document, its last, and its room */
    uint32_t *last;
    uint64_t *room;
    int32_t *ids;
    uint32_t *marked;
    uint8_t *counts;
    uint32_t count;  /* documents that wait */
    uint64_t number; /* of a stream: where the next document begins; else the next example */
} packer;

#define NONE UINT32_MAX

static packer packer_of(bp_pack *pack)
{
    packer p = {.pack = pack, .documents = pack->scratch};
    p.room = (uint64_t *)(void *)(p.documents + BP_PACKED_AT_ONCE);
    p.order = (uint32_t *)(void *)(p.room + BP_PACKED_AT_ONCE);
    p.next = p.order + BP_PACKED_AT_ONCE;
    p.head = p.next + BP_PACKED_AT_ONCE;
    p.last = p.head + BP_PACKED_AT_ONCE;
    p.ids = (int32_t *)(p.last + BP_PACKED_AT_ONCE);
    p.marked = (uint32_t *)p.ids + BP_PACKED_PIECE;
    p.counts = (uint8_t *)(p.marked + BP_PACKED_PIECE);
    p.writer = (bp_tokens_writer){.store = pack->store,
                                  .path = pack->path,
                                  .buffer = p.counts + BP_PACKED_PIECE,
                                  .error = pack->error};
    return p;
}

static bp_status packed_failed(const packer *p, bp_status status)
{
    return bp_error_set(p->pack->error, status, where, "the data cannot be read",
                        p->pack->source->name);
}

static bp_status read_piece(packer *p, uint64_t first, uint32_t count)
{
    bp_source *source = p->pack->source;
    memset(p->counts, 1, count);
    bp_status status = source->read(source, first, count, p->ids);
    if (status == BP_OK && source->targets != NULL) {
        status = source->targets(source, first, count, p->counts);
    }
    return status == BP_OK ? BP_OK : packed_failed(p, status);
}

/* Writes a document's first `count` tokens with their marks. */
static bp_status put_document(packer *p, const bp_example *document, bool begins)
{
    for (uint64_t at = 0; at < document->count;) {
        const uint64_t left = document->count - at;
        const uint32_t n = left < BP_PACKED_PIECE ? (uint32_t)left : BP_PACKED_PIECE;
        BP_TRY(read_piece(p, document->first + at, n));
        for (uint32_t i = 0; i < n; i++) {
            const bool target = at + i >= document->prompt && p->counts[i] != 0;
            const bool start = begins && at + i == 0;
            p->marked[i] = 4 * (uint32_t)p->ids[i] + (target ? 1u : 0u) + (start ? 2u : 0u);
        }
        BP_TRY(bp_tokens_put(&p->writer, p->marked, n));
        at += n;
    }
    return BP_OK;
}

static bool packed_longer(const void *user, uint32_t a, uint32_t b)
{
    const bp_example *documents = user;
    return documents[a].count != documents[b].count ? documents[a].count > documents[b].count
                                                    : a < b;
}

/* The row with the least room that takes so many tokens; NONE. */
static uint32_t best_row(const packer *p, uint32_t rows, uint64_t count)
{
    uint32_t best = NONE;
    for (uint32_t r = 0; r < rows; r++) {
        if (p->room[r] >= count && (best == NONE || p->room[r] < p->room[best])) {
            best = r;
        }
    }
    return best;
}

static bp_status put_row(packer *p, uint32_t row)
{
    bp_example example = {.first = p->writer.head.tokens};
    for (uint32_t d = p->head[row]; d != NONE; d = p->next[d]) {
        BP_TRY(put_document(p, &p->documents[d], true));
    }
    example.count = p->writer.head.tokens - example.first;
    p->pack->rows++;
    return bp_tokens_put_example(&p->writer, &example);
}

/* The documents that wait become rows. */
static bp_status put_waiting(packer *p)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        p->order[i] = i;
    }
    bp_order(p->order, p->count, packed_longer, p->documents);
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t d = p->order[i];
        uint32_t row = best_row(p, rows, p->documents[d].count);
        if (row == NONE) {
            row = rows++;
            p->room[row] = p->pack->most;
            p->head[row] = d;
        } else {
            p->next[p->last[row]] = d;
        }
        p->last[row] = d;
        p->next[d] = NONE;
        p->room[row] -= p->documents[d].count;
    }
    for (uint32_t r = 0; r < rows; r++) {
        BP_TRY(put_row(p, r));
    }
    p->count = 0;
    return BP_OK;
}

static bp_status wait_for(packer *p, const bp_example *document)
{
    p->documents[p->count++] = *document;
    return p->count == BP_PACKED_AT_ONCE ? put_waiting(p) : BP_OK;
}

/* One document: into the stream, or to wait, cut to rows. A token alone is_teacher nothing. */
static bp_status take_document(packer *p, bp_example document)
{
    bp_pack *pack = p->pack;
    const uint64_t whole = document.count;
    pack->documents++;
    if (pack->packing == BP_PACKING_WRAPPED) {
        return put_document(p, &document, false);
    }
    if (whole > pack->most && pack->long_number == 0) {
        pack->long_number = pack->documents;
        pack->long_tokens = whole;
    }
    for (uint64_t at = 0; at < whole; at += pack->most) {
        bp_example piece = document;
        const uint64_t left = whole - at;
        piece.first += at;
        piece.count = left < pack->most ? left : pack->most;
        piece.prompt = document.prompt > at ? document.prompt - at : 0;
        if (piece.count < 2 || (at > 0 && pack->packing == BP_PACKING_BFD)) {
            pack->cut += left;
            return BP_OK;
        }
        BP_TRY(wait_for(p, &piece));
    }
    return BP_OK;
}

/* The document of a stream that begins at p->number: to behind its end token. */
static bp_status find_end(packer *p, bp_example *document)
{
    bp_source *source = p->pack->source;
    uint64_t at = p->number;
    bool ended = false;
    while (!ended && at < source->count) {
        const uint64_t left = source->count - at;
        const uint32_t n = left < BP_PACKED_PIECE ? (uint32_t)left : BP_PACKED_PIECE;
        BP_TRY(read_piece(p, at, n));
        for (uint32_t i = 0; i < n && !ended; i++, at++) {
            ended = (int64_t)p->ids[i] == p->pack->end_token;
        }
    }
    *document = (bp_example){.first = p->number, .count = at - p->number};
    p->number = at;
    return BP_OK;
}

static bp_status packed_documents(packer *p)
{
    bp_source *source = p->pack->source;
    const bool stream = source->examples == 0;
    while (p->number < (stream ? source->count : source->examples)) {
        bp_example document;
        if (stream) {
            BP_TRY(find_end(p, &document));
        } else {
            const bp_status status = source->example(source, p->number++, &document);
            if (status != BP_OK) {
                return packed_failed(p, status);
            }
        }
        BP_TRY(take_document(p, document));
    }
    return put_waiting(p);
}

static bp_status make_packed(packer *p)
{
    bp_pack *pack = p->pack;
    const bool wrapped = pack->packing == BP_PACKING_WRAPPED;
    /* Of the documents that wait together no two rows would fit one, but for the last. */
    const uint64_t tokens = pack->source->count;
    const uint64_t rows =
        wrapped ? 0 : 2 * (tokens / pack->most) + tokens / (2 * BP_PACKED_AT_ONCE) + 4;
    p->writer.head.width = bp_tokens_width(4 * pack->vocabulary);
    p->writer.head.form = BP_FORM_PACKED;
    BP_TRY(bp_tokens_begin(&p->writer, rows));
    BP_TRY(packed_documents(p));
    if (wrapped ? p->writer.head.tokens < 2 : p->writer.head.examples == 0) {
        return bp_error_set(pack->error, BP_ERR_DATA, where,
                            "the data holds no document of two tokens", pack->source->name);
    }
    p->writer.head.documents = pack->documents;
    return bp_tokens_end(&p->writer);
}

bp_status bp_pack_check(const bp_pack *pack)
{
    const bool ends = pack->source->examples > 0 || pack->end_token >= 0;
    return ends || pack->packing == BP_PACKING_WRAPPED
               ? BP_OK
               : bp_error_mend(pack->error, BP_ERR_DATA, where,
                               "the data is a stream without a token that ends documents: they "
                               "cannot be separated; --packing-strategy wrapped does not need to",
                               pack->source->name, BP_MEND_WRAPPED);
}

bp_status bp_pack_open(bp_pack *pack, bp_tokens *tokens)
{
    packer p = packer_of(pack);
    pack->documents = pack->rows = pack->cut = pack->long_number = 0;
    *tokens = (bp_tokens){.open = false};
    BP_TRY(bp_pack_check(pack));
    const bp_status status = make_packed(&p);
    if (status != BP_OK) {
        bp_tokens_abandon(&p.writer);
        return status;
    }
    return bp_tokens_open(tokens, pack->store, pack->path, NULL, pack->error);
}
