/* SPDX-License-Identifier: MIT */
/* Two versions of what lives in a tier. Below are, one behind the other: the tier's bytes, the
 * second copies of what is in the ranges, and two records. */
#include "core/ir/tier_versions.h"

#include <string.h>

#include "arena/arena.h"
#include "core/base/digest.h"

#define PAGE BP_VERSIONS_PAGE

static const char where[] = "offload";

/* The head of a record; bits of the copies follow. */
typedef struct versions_head {
    uint64_t magic;
    uint64_t plan;
    uint64_t sequence;
    uint64_t step;
    uint64_t pages;
    uint64_t digest; /* of the head with 0 here, going on over the bits */
} versions_head;

#define VERSIONS_MAGIC 0x3172655665746c42u /* "BlteVer1" */

static uint64_t ranges_pages(const bp_tier_range *ranges, uint32_t count)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < count; i++) {
        pages += ranges[i].bytes / PAGE;
    }
    return pages;
}

static uint64_t bits_bytes(uint64_t pages)
{
    return bp_size_align(bp_size_ceil_div(pages, 8), 8);
}

static uint64_t record_bytes(uint64_t pages)
{
    return bp_size_align(sizeof(versions_head) + bits_bytes(pages), PAGE);
}

uint64_t bp_tier_versions_bytes(uint64_t bytes, const bp_tier_range *ranges, uint32_t count)
{
    const uint64_t pages = ranges_pages(ranges, count);
    const uint64_t copies = bp_size_add(bp_size_align(bytes, PAGE), bp_size_mul(pages, PAGE));
    return bp_size_add(copies, 2 * record_bytes(pages));
}

static void versions_take(bp_tier_versions *versions, uint64_t pages, bp_arena *memory)
{
    versions->page = bp_arena_take(memory, 2, PAGE);
    versions->current = bp_arena_take(memory, bits_bytes(pages), 1);
    versions->fresh = bp_arena_take(memory, bits_bytes(pages), 1);
}

uint64_t bp_tier_versions_memory(const bp_tier_range *ranges, uint32_t count)
{
    bp_tier_versions versions;
    bp_arena memory;
    bp_arena_count(&memory);
    versions_take(&versions, ranges_pages(ranges, count), &memory);
    return memory.used;
}

void bp_tier_versions_open(bp_tier_versions *versions, const bp_tier *lower, void *context,
                           uint64_t bytes, uint64_t plan, bp_tier_range *ranges, uint32_t count,
                           void *memory)
{
    const uint64_t pages = ranges_pages(ranges, count);
    bp_arena arena;
    *versions = (bp_tier_versions){.lower = lower,
                                   .lower_context = context,
                                   .bytes = bytes,
                                   .plan = plan,
                                   .ranges = ranges,
                                   .count = count,
                                   .pages = pages};
    bp_arena_init(&arena, memory, (size_t)bp_tier_versions_memory(ranges, count));
    versions_take(versions, pages, &arena);
    memset(memory, 0, arena.used);
    uint64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
        ranges[i].pages = before;
        before += ranges[i].bytes / PAGE;
    }
}

static bool bit_of(const uint8_t *bits, uint64_t at)
{
    return (bits[at / 8] >> (at % 8) & 1) != 0;
}

static void bit_set(uint8_t *bits, uint64_t at)
{
    bits[at / 8] = (uint8_t)(bits[at / 8] | 1u << (at % 8));
}

/* A run of bytes that lie one behind the other below. */
typedef struct versions_run {
    uint64_t bytes;
    uint64_t lower; /* where it is read */
    uint64_t other; /* where it is written, if it is kept */
    uint64_t page;  /* number of its first one */
    bool kept;
    bool fresh;
} versions_run;

/* The first range that ends behind an offset; count: none does. */
static uint32_t range_at(const bp_tier_versions *v, uint64_t offset)
{
    uint32_t low = 0, high = v->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->ranges[middle].first + v->ranges[middle].bytes > offset) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Where the copy of a page is. */
static uint64_t copy_at(const bp_tier_versions *v, const bp_tier_range *range, uint64_t page,
                        bool second)
{
    return second ? bp_size_align(v->bytes, PAGE) + page * PAGE
                  : range->first + (page - range->pages) * PAGE;
}

/* The longest run from `offset` on, of `bytes` at most: of bytes that are not kept, or of pages
 * whose copies are the same one. */
static versions_run run_at(const bp_tier_versions *v, uint64_t offset, uint64_t bytes)
{
    const uint32_t i = range_at(v, offset);
    const bp_tier_range *range = &v->ranges[i];
    if (i == v->count || range->first > offset) {
        const uint64_t left = i == v->count ? bytes : range->first - offset;
        return (versions_run){.bytes = left < bytes ? left : bytes, .lower = offset};
    }
    const uint64_t skew = offset % PAGE, page = range->pages + (offset - range->first) / PAGE;
    const uint64_t end = range->pages + range->bytes / PAGE;
    const bool second = bit_of(v->current, page), fresh = bit_of(v->fresh, page);
    uint64_t last = page + 1;
    while (last < end && (last - page) * PAGE < skew + bytes &&
           bit_of(v->current, last) == second && bit_of(v->fresh, last) == fresh) {
        last++;
    }
    const uint64_t most = (last - page) * PAGE - skew;
    return (versions_run){.bytes = most < bytes ? most : bytes,
                          .lower = copy_at(v, range, page, second != fresh) + skew,
                          .other = copy_at(v, range, page, !second) + skew,
                          .page = page,
                          .kept = true,
                          .fresh = fresh};
}

static bp_status versions_read(void *context, bp_tier_way way, uint64_t offset, void *to,
                               uint64_t bytes, bp_error *error)
{
    const bp_tier_versions *v = context;
    unsigned char *at = to;
    while (bytes > 0) {
        const versions_run run = run_at(v, offset, bytes);
        BP_TRY(v->lower->read(v->lower_context, way, run.lower, at, run.bytes, error));
        at += run.bytes;
        offset += run.bytes;
        bytes -= run.bytes;
    }
    return BP_OK;
}

/* A part of one page that was not written yet: the rest of it comes along. */
static bp_status versions_join(bp_tier_versions *v, bp_tier_way way, const versions_run *run,
                               const unsigned char *from, uint64_t bytes, bp_error *error)
{
    const uint64_t skew = run->lower % PAGE;
    uint8_t *page = v->page + (way == BP_TIER_HAND ? 0 : PAGE);
    const bp_tier *lower = v->lower;
    BP_TRY(lower->read(v->lower_context, way, run->lower - skew, page, PAGE, error));
    memcpy(page + skew, from, (size_t)bytes);
    return lower->write(v->lower_context, way, run->other - skew, page, PAGE, error);
}

/* What a run takes at once: whole pages, or what there is of one. */
static uint64_t run_piece(const versions_run *run)
{
    const uint64_t skew = run->lower % PAGE, rest = PAGE - skew;
    if (skew != 0 || run->bytes < PAGE) {
        return run->bytes < rest ? run->bytes : rest;
    }
    return run->bytes / PAGE * PAGE;
}

static bp_status versions_write(void *context, bp_tier_way way, uint64_t offset, const void *from,
                                uint64_t bytes, bp_error *error)
{
    bp_tier_versions *v = context;
    const unsigned char *at = from;
    while (bytes > 0) {
        const versions_run run = run_at(v, offset, bytes);
        const bool whole = !run.kept || run.fresh;
        const uint64_t piece = whole ? run.bytes : run_piece(&run);
        const uint64_t target = run.kept ? run.other : run.lower;
        if (!whole && piece % PAGE != 0) {
            BP_TRY(versions_join(v, way, &run, at, piece, error));
        } else {
            BP_TRY(v->lower->write(v->lower_context, way, target, at, piece, error));
        }
        for (uint64_t k = 0; run.kept && k < bp_size_ceil_div(piece, PAGE); k++) {
            bit_set(v->fresh, run.page + k);
        }
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    return BP_OK;
}

static bp_status versions_resolve(void *context, bp_error *error)
{
    const bp_tier_versions *v = context;
    return v->lower->resolve(v->lower_context, error);
}

static bp_status versions_sync(void *context, bp_error *error)
{
    const bp_tier_versions *v = context;
    BP_TRY(v->lower->resolve(v->lower_context, error));
    return v->lower->sync(v->lower_context, error);
}

const bp_tier bp_tier_versions_table = {.name = "two versions",
                                        .read = versions_read,
                                        .write = versions_write,
                                        .resolve = versions_resolve,
                                        .sync = versions_sync};

static uint64_t record_at(const bp_tier_versions *v, uint32_t which)
{
    return bp_size_align(v->bytes, PAGE) + v->pages * PAGE + which * record_bytes(v->pages);
}

static uint64_t record_digest(versions_head head, const uint8_t *bits, uint64_t pages)
{
    bp_digest digest;
    head.digest = 0;
    bp_digest_begin(&digest, VERSIONS_MAGIC);
    bp_digest_add(&digest, &head, sizeof head);
    bp_digest_add(&digest, bits, (size_t)bits_bytes(pages));
    return bp_digest_end(&digest);
}

bp_status bp_tier_versions_begin(bp_tier_versions *v, bp_error *error)
{
    const versions_head none = {0};
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(v->lower->write(v->lower_context, BP_TIER_HAND, record_at(v, i), &none, sizeof none,
                               error));
    }
    return versions_sync(v, error);
}

/* One of the records, its bits into v->current; step UINT64_MAX where it is torn, or another's. */
static bp_status record_read(bp_tier_versions *v, uint32_t which, versions_head *head,
                             bp_error *error)
{
    const uint64_t at = record_at(v, which);
    const bp_tier *lower = v->lower;
    BP_TRY(lower->read(v->lower_context, BP_TIER_HAND, at, head, sizeof *head, error));
    BP_TRY(lower->read(v->lower_context, BP_TIER_HAND, at + sizeof *head, v->current,
                       bits_bytes(v->pages), error));
    const bool ours = head->magic == VERSIONS_MAGIC && head->plan == v->plan &&
                      head->pages == v->pages &&
                      head->digest == record_digest(*head, v->current, v->pages);
    if (!ours) {
        *head = (versions_head){.step = UINT64_MAX};
    }
    return BP_OK;
}

bp_status bp_tier_versions_take(bp_tier_versions *v, uint64_t step, bp_error *error)
{
    versions_head head[2];
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(record_read(v, i, &head[i], error));
    }
    /* Of one that was committed twice the later one is it. */
    const bool later = head[1].sequence > head[0].sequence;
    const uint32_t taken = (head[later].step == step) == later ? 1 : 0;
    if (head[taken].step != step) {
        const bool any = head[later].step != UINT64_MAX;
        return bp_error_limit(error, BP_ERR_STORE, where,
                              "the offload file has no version of the checkpoint's step", "step",
                              any ? (int64_t)head[later].step : -1, BP_LIMIT_EXACT, (int64_t)step);
    }
    v->sequence = head[later].sequence;
    v->next = 1 - taken;
    v->unconfirmed = false;
    BP_TRY(record_read(v, taken, &head[taken], error));
    return bp_tier_versions_back(v, error);
}

bp_status bp_tier_versions_back(bp_tier_versions *v, bp_error *error)
{
    BP_TRY(v->lower->resolve(v->lower_context, error));
    memset(v->fresh, 0, (size_t)bits_bytes(v->pages));
    return BP_OK;
}

/* From one commit to the next, and back. */
static void versions_turn(bp_tier_versions *v)
{
    for (uint64_t i = 0; i < bits_bytes(v->pages); i++) {
        v->current[i] ^= v->fresh[i];
    }
}

static bp_status record_write(bp_tier_versions *v, uint64_t step, bp_error *error)
{
    const uint64_t at = record_at(v, v->next);
    const bp_tier *lower = v->lower;
    versions_head head = {.magic = VERSIONS_MAGIC,
                          .plan = v->plan,
                          .sequence = v->sequence + 1,
                          .step = step,
                          .pages = v->pages};
    head.digest = record_digest(head, v->current, v->pages);
    BP_TRY(lower->write(v->lower_context, BP_TIER_HAND, at, &head, sizeof head, error));
    BP_TRY(lower->write(v->lower_context, BP_TIER_HAND, at + sizeof head, v->current,
                        bits_bytes(v->pages), error));
    return versions_sync(v, error);
}

bp_status bp_tier_versions_commit(bp_tier_versions *v, uint64_t step, bp_error *error)
{
    v->unconfirmed = false;
    BP_TRY(versions_sync(v, error));
    versions_turn(v);
    const bp_status status = record_write(v, step, error);
    versions_turn(v);
    v->unconfirmed = status == BP_OK;
    return status;
}

void bp_tier_versions_confirm(bp_tier_versions *v)
{
    if (!v->unconfirmed) {
        return;
    }
    versions_turn(v);
    memset(v->fresh, 0, (size_t)bits_bytes(v->pages));
    v->unconfirmed = false;
    v->sequence++;
    v->next = 1 - v->next;
}
