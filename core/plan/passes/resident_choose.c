/* SPDX-License-Identifier: MIT */
/* Intervals of several sizes into a room that changes with time. */
#include "core/plan/passes/resident_choose.h"

#include <string.h>

#include "arena/arena.h"

#define CHOOSE_NONE UINT32_MAX

typedef enum choose_state { CHOOSE_FREE, CHOOSE_KEPT, CHOOSE_LEFT } choose_state;

/* A gap as the search sees it. */
typedef struct choose_row {
    uint64_t bytes;
    uint64_t part; /* of it that is kept where all is divisible */
    uint32_t from; /* first and past the last section in which there is too much */
    uint32_t to;
    uint32_t next; /* that begins in the same section */
    uint8_t state;
    bool best; /* kept in the best choice so far */
} choose_row;

typedef struct choose_search {
    choose_row *rows; /* [count] */
    uint32_t *alive;  /* [count]: of the sweep, what ends last at its end */
    uint32_t *path;   /* [count]: gaps that were decided on */
    uint64_t *room;   /* [sections]: given, then as the search has it */
    uint64_t *load;   /* [sections] */
    uint32_t *first;  /* [sections]: gap that begins there */
    uint32_t count;
    uint32_t sections;
} choose_search;

/* Gaps that compete with one another, in sections of their own. */
typedef struct choose_part {
    uint32_t from;
    uint32_t to;
    uint32_t gaps;
    uint64_t unit; /* that all their sizes are multiples of */
    uint64_t best;
} choose_part;

static void choose_take(choose_search *s, uint64_t gaps, uint64_t sections, bp_arena *memory)
{
    s->rows = bp_arena_take(memory, gaps, sizeof *s->rows);
    s->room = bp_arena_take(memory, sections, sizeof *s->room);
    s->load = bp_arena_take(memory, sections, sizeof *s->load);
    s->alive = bp_arena_take(memory, gaps, sizeof *s->alive);
    s->path = bp_arena_take(memory, gaps, sizeof *s->path);
    s->first = bp_arena_take(memory, sections, sizeof *s->first);
}

uint64_t bp_resident_choose_scratch(uint64_t gaps, uint64_t sections)
{
    bp_arena count;
    choose_search search;
    bp_arena_count(&count);
    choose_take(&search, gaps, sections, &count);
    return bp_arena_counted(&count);
}

static uint64_t choose_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Whether a gap has room in all of its sections beside what is there. */
static bool choose_fits(const choose_search *s, const choose_row *row)
{
    for (uint32_t i = row->from; i < row->to; i++) {
        if (s->load[i] + row->bytes > s->room[i]) {
            return false;
        }
    }
    return true;
}

static void choose_put(choose_search *s, const choose_row *row)
{
    for (uint32_t i = row->from; i < row->to; i++) {
        s->load[i] += row->bytes;
    }
}

/* What never fits is left, what never meets too much is kept, and of the others only the sections
 * count in which there is too much. */
static void choose_resolve(choose_search *s)
{
    memset(s->load, 0, s->sections * sizeof *s->load);
    for (uint32_t i = 0; i < s->count; i++) {
        choose_row *row = &s->rows[i];
        row->state = choose_fits(s, row) ? CHOOSE_FREE : CHOOSE_LEFT;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->rows[i].state == CHOOSE_FREE) {
            choose_put(s, &s->rows[i]);
        }
    }
    for (uint32_t i = 0; i < s->count; i++) {
        choose_row *row = &s->rows[i];
        while (row->from < row->to && s->load[row->from] <= s->room[row->from]) {
            row->from++;
        }
        while (row->to > row->from && s->load[row->to - 1] <= s->room[row->to - 1]) {
            row->to--;
        }
        row->best = row->state == CHOOSE_FREE && row->from == row->to;
        row->state = row->best ? CHOOSE_KEPT : row->state;
    }
    for (uint32_t i = 0; i < s->sections; i++) {
        s->first[i] = CHOOSE_NONE;
    }
    for (uint32_t i = s->count; i-- > 0;) {
        if (s->rows[i].state == CHOOSE_FREE) {
            s->rows[i].next = s->first[s->rows[i].from];
            s->first[s->rows[i].from] = i;
        }
    }
}

/* The sections that gaps from `at` on share with one another; false: none is left. */
static bool choose_next(const choose_search *s, uint32_t at, choose_part *part)
{
    while (at < s->sections && s->first[at] == CHOOSE_NONE) {
        at++;
    }
    *part = (choose_part){.from = at, .to = at + 1};
    for (; at < s->sections && at < part->to; at++) {
        for (uint32_t g = s->first[at]; g != CHOOSE_NONE; g = s->rows[g].next) {
            part->to = s->rows[g].to > part->to ? s->rows[g].to : part->to;
            part->unit = choose_divisor(s->rows[g].bytes, part->unit);
            part->gaps++;
        }
    }
    return part->gaps > 0;
}

/* A gap begins to be there: before all that end later. */
static uint32_t choose_enter(const choose_search *s, uint32_t alive, uint32_t gap)
{
    uint32_t at = alive;
    for (; at > 0 && s->rows[s->alive[at - 1]].to > s->rows[gap].to; at--) {
        s->alive[at] = s->alive[at - 1];
    }
    s->alive[at] = gap;
    return alive + 1;
}

/* What has ended is gone; its bytes. */
static uint64_t choose_leave(const choose_search *s, uint32_t section, uint32_t *alive)
{
    uint32_t gone = 0;
    uint64_t bytes = 0;
    while (gone < *alive && s->rows[s->alive[gone]].to <= section) {
        bytes += s->rows[s->alive[gone++]].part;
    }
    if (gone > 0) {
        *alive -= gone;
        memmove(s->alive, s->alive + gone, *alive * sizeof *s->alive);
    }
    return bytes;
}

/* Takes what is above the room off the gaps that are there, of those that end last first. Returns
 * the bytes that are left of them; those of which nothing is left need not be seen again. */
static uint64_t choose_cut(const choose_search *s, uint64_t load, uint64_t room, uint32_t *alive)
{
    for (uint32_t k = *alive; k-- > 0 && load > room;) {
        choose_row *row = &s->rows[s->alive[k]];
        if (row->state == CHOOSE_KEPT) {
            continue;
        }
        const uint64_t off = load - room < row->part ? load - room : row->part;
        row->part -= off;
        load -= off;
    }
    while (*alive > 0 && s->rows[s->alive[*alive - 1]].part == 0) {
        --*alive;
    }
    return load;
}

/* The most that a part keeps where gaps that are free are divisible; false: what has to be kept has
 * no room. *cut becomes a gap of which a piece is kept, or CHOOSE_NONE. */
static bool choose_bound(const choose_search *s, const choose_part *part, uint64_t *most,
                         uint32_t *cut)
{
    uint32_t alive = 0;
    uint64_t load = 0;
    *most = 0;
    *cut = CHOOSE_NONE;
    for (uint32_t i = part->from; i < part->to; i++) {
        const uint64_t room = s->room[i] / part->unit * part->unit;
        load -= choose_leave(s, i, &alive);
        for (uint32_t g = s->first[i]; g != CHOOSE_NONE; g = s->rows[g].next) {
            choose_row *row = &s->rows[g];
            row->part = row->state == CHOOSE_LEFT ? 0 : row->bytes;
            alive = row->part > 0 ? choose_enter(s, alive, g) : alive;
            load += row->part;
        }
        load = choose_cut(s, load, room, &alive);
        if (load > room) {
            return false;
        }
    }
    for (uint32_t i = part->from; i < part->to; i++) {
        for (uint32_t g = s->first[i]; g != CHOOSE_NONE; g = s->rows[g].next) {
            const choose_row *row = &s->rows[g];
            *most += row->part;
            *cut = row->part > 0 && row->part < row->bytes && *cut == CHOOSE_NONE ? g : *cut;
        }
    }
    return true;
}

/* The bytes of the whole gaps of the last bound, which fit together, into the loads of a part. */
static uint64_t choose_load(choose_search *s, const choose_part *part)
{
    uint64_t bytes = 0, load = 0;
    memset(s->load + part->from, 0, (part->to - part->from) * sizeof *s->load);
    for (uint32_t i = part->from; i < part->to; i++) {
        for (uint32_t g = s->first[i]; g != CHOOSE_NONE; g = s->rows[g].next) {
            const choose_row *row = &s->rows[g];
            const uint64_t whole = row->part == row->bytes ? row->bytes : 0;
            bytes += whole;
            load += whole;
            if (row->to < part->to) {
                s->load[row->to] -= whole; /* of what is there before; wraps, and back */
            }
        }
        load += s->load[i];
        s->load[i] = load;
    }
    return bytes;
}

/* The whole gaps of the last bound, and what has room beside them: noted where they are more than
 * the best so far. */
static void choose_round(choose_search *s, choose_part *part)
{
    uint64_t bytes = choose_load(s, part);
    for (uint32_t i = part->from; i < part->to; i++) {
        for (uint32_t g = s->first[i]; g != CHOOSE_NONE; g = s->rows[g].next) {
            choose_row *row = &s->rows[g];
            if (row->part != row->bytes && choose_fits(s, row)) {
                choose_put(s, row);
                row->part = row->bytes;
                bytes += row->bytes;
            }
        }
    }
    for (uint32_t i = part->from; i < part->to && bytes > part->best; i++) {
        for (uint32_t g = s->first[i]; g != CHOOSE_NONE; g = s->rows[g].next) {
            s->rows[g].best = s->rows[g].part == s->rows[g].bytes;
        }
    }
    part->best = bytes > part->best ? bytes : part->best;
}

/* Depth first: a gap that would be cut is kept, then left. False: the work was up before the end.
 */
static bool choose_run(choose_search *s, choose_part *part, uint64_t work, uint64_t *root)
{
    uint32_t depth = 0;
    for (uint64_t done = 0;; done += part->gaps) {
        uint64_t most = 0;
        uint32_t cut = CHOOSE_NONE;
        const bool may = choose_bound(s, part, &most, &cut);
        *root = done == 0 ? most : *root;
        if (may && most > part->best) {
            choose_round(s, part);
            if (most > part->best && done >= work) {
                return false;
            }
        }
        if (may && most > part->best) { /* so that something is cut */
            s->rows[cut].state = CHOOSE_KEPT;
            s->path[depth++] = cut;
            continue;
        }
        while (depth > 0 && s->rows[s->path[depth - 1]].state == CHOOSE_LEFT) {
            s->rows[s->path[--depth]].state = CHOOSE_FREE;
        }
        if (depth == 0) {
            return true;
        }
        if (done >= work) {
            return false;
        }
        s->rows[s->path[depth - 1]].state = CHOOSE_LEFT;
    }
}

void bp_resident_choose(bp_resident_gap *gaps, uint32_t count, const uint64_t *room,
                        uint32_t sections, uint64_t work, void *scratch, bp_resident_chosen *out)
{
    choose_search s = {.count = count, .sections = sections};
    choose_part part = {0};
    bp_arena memory;
    bp_arena_init(&memory, scratch, (size_t)bp_resident_choose_scratch(count, sections));
    choose_take(&s, count, sections, &memory);
    *out = (bp_resident_chosen){.exact = true};
    memcpy(s.room, room, sections * sizeof *room);
    for (uint32_t i = 0; i < count; i++) {
        s.rows[i] = (choose_row){.bytes = gaps[i].bytes, .from = gaps[i].from, .to = gaps[i].to};
    }
    choose_resolve(&s);
    for (uint32_t i = 0; i < count; i++) {
        out->bytes += s.rows[i].best ? s.rows[i].bytes : 0;
    }
    out->most = out->bytes;
    for (uint32_t at = 0; choose_next(&s, at, &part); at = part.to) {
        uint64_t root = 0;
        const bool end = choose_run(&s, &part, work / count * part.gaps, &root);
        out->bytes += part.best;
        out->most += end ? part.best : root;
        out->exact = out->exact && end;
    }
    for (uint32_t i = 0; i < count; i++) {
        gaps[i].kept = s.rows[i].best;
    }
}
