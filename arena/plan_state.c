/* SPDX-License-Identifier: MIT */
/* The exact search's state: what one placement changes, what follows from it, and how it is undone.
 */
#include "arena/plan_search.h"

#include <string.h>

typedef enum log_kind { LOG_PLACED, LOG_LEVEL, LOG_LOWEST, LOG_RANK } log_kind;

uint32_t search_bit(uint64_t bits)
{
    /* A de Bruijn sequence: its 64 windows of six bits are all different, and multiplying by a
     * power of two shifts one of them to the top. */
    static const uint8_t place[64] = {
        0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
        22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
        23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
    return place[((bits & (0 - bits)) * 0x022fdd63cc95386du) >> 58];
}

/* The longest run of entries that one placement and the ranking of its parts can add. */
static uint32_t log_step(const plan_work *work)
{
    return 2 * work->items + work->sections + 1;
}

static void log_add(plan_search *search, log_kind kind, uint32_t index, uint64_t old)
{
    search->log_what[search->log_used] = index * 4 + (uint32_t)kind;
    search->log_old[search->log_used] = old;
    search->log_used++;
}

void search_undo(plan_search *search, uint32_t mark)
{
    while (search->log_used > mark) {
        search->log_used--;
        uint32_t index = search->log_what[search->log_used] / 4;
        uint64_t old = search->log_old[search->log_used];
        const plan_item *item = &search->work->item[index];
        switch ((log_kind)(search->log_what[search->log_used] % 4)) {
        case LOG_PLACED:
            search->live[index / 64] |= (uint64_t)1 << index % 64;
            search->total[item->first] += item->size;
            for (uint32_t s = item->first + 1; s < item->last; s++) {
                search->total[s] += item->size;
                search->cut[s]++;
            }
            break;
        case LOG_LEVEL:
            search->level[index] = old;
            break;
        case LOG_LOWEST:
            search->lowest[index] = old;
            break;
        case LOG_RANK:
            search->rank[index] = (uint32_t)old;
            break;
        }
    }
}

void search_rank(plan_search *search, uint32_t from, uint32_t to)
{
    plan_work *work = search->work;
    uint32_t count = to - from;
    memcpy(work->order, search->pool + from, count * sizeof *work->order);
    plan_peaks(work, search->total, work->order, count);
    plan_order(work, search->rule, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t item = work->order[i];
        log_add(search, LOG_RANK, item, search->rank[item]);
        search->rank[item] = i + 1;
    }
}

/* Takes the item out of its sections. */
static void put_remove(plan_search *search, uint32_t index)
{
    const plan_item *item = &search->work->item[index];
    log_add(search, LOG_PLACED, index, 0);
    search->live[index / 64] &= ~((uint64_t)1 << index % 64);
    search->total[item->first] -= item->size;
    for (uint32_t s = item->first + 1; s < item->last; s++) {
        search->total[s] -= item->size;
        search->cut[s]--;
    }
}

/* Lists a section whose least level may have changed; returns the new count. */
static uint32_t put_touch(const search_tables *tables, uint32_t section, uint32_t count)
{
    if (!tables->marked[section]) {
        tables->marked[section] = true;
        tables->touched[count++] = section;
    }
    return count;
}

/* Lifts whoever conflicts with the placed item above it and lists the sections to look at again:
 * those of the item, and those whose least level was one that rose. Returns their count. */
static uint32_t put_lift(plan_search *search, uint32_t index, bool *fits)
{
    const search_tables *tables = search->tables;
    const plan_item *items = search->work->item;
    const uint64_t *row = tables->conflict + (size_t)index * tables->words;
    uint64_t top = search->level[index] + items[index].size;
    uint32_t count = 0;
    *fits = true;
    for (uint32_t s = items[index].first; s < items[index].last; s++) {
        count = put_touch(tables, s, count);
    }
    for (uint32_t w = 0; w < tables->words; w++) {
        for (uint64_t bits = row[w] & search->live[w]; bits != 0; bits &= bits - 1) {
            uint32_t other = w * 64 + search_bit(bits);
            uint64_t old = search->level[other];
            if (old >= top) {
                continue;
            }
            log_add(search, LOG_LEVEL, other, old);
            search->level[other] = top;
            *fits =
                *fits && top + items[other].size + search->work->head[other] <= search->capacity;
            for (uint32_t s = items[other].first; s < items[other].last; s++) {
                count = search->lowest[s] == old ? put_touch(tables, s, count) : count;
            }
        }
    }
    return count;
}

/* The least of values[] over the unplaced items of a section; UINT64_MAX if there is none. */
static uint64_t section_least(const plan_search *search, uint32_t section, const uint64_t *values)
{
    const search_tables *tables = search->tables;
    const uint64_t *row = tables->member + (size_t)section * tables->words;
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < tables->words; w++) {
        for (uint64_t bits = row[w] & search->live[w]; bits != 0; bits &= bits - 1) {
            uint64_t value = values[w * 64 + search_bit(bits)];
            least = value < least ? value : least;
        }
    }
    return least;
}

/* No later placement of this part lies below the one just made (the order is canonical) nor, in a
 * section, below the least level there; on that floor everything unplaced in it must still fit. */
static bool put_fits(const plan_search *search, const search_frame *frame, uint64_t offset)
{
    for (uint32_t s = frame->first; s < frame->last; s++) {
        uint64_t floor = search->lowest[s] > offset ? search->lowest[s] : offset;
        uint64_t least = floor + search->total[s] + search->work->over[s];
        if (search->total[s] != 0 && least > search->capacity) {
            return false;
        }
    }
    return true;
}

/* The lowest top that an unplaced neighbour of the item can still get, hence the lowest place of an
 * item that must be lifted once more; UINT64_MAX if nobody is left to lift it. */
static uint64_t stranded_level(const plan_search *search, uint32_t index, uint64_t offset)
{
    const search_tables *tables = search->tables;
    const uint64_t *row = tables->conflict + (size_t)index * tables->words;
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < tables->words; w++) {
        for (uint64_t bits = row[w] & search->live[w]; bits != 0; bits &= bits - 1) {
            uint32_t other = w * 64 + search_bit(bits);
            uint64_t level = search->level[other] > offset ? search->level[other] : offset;
            uint64_t top = level + search->work->item[other].size;
            least = top < least ? top : least;
        }
    }
    return least;
}

/* Items that the canonical order has passed over (their level and rank lie before the placement)
 * can only be placed after somebody lifted them. That raises their real floor, which put_fits does
 * not see: the check is made again with it, in the sections where it makes a difference. */
static bool put_strands_nobody(const plan_search *search, const search_frame *frame, uint32_t index)
{
    uint64_t *reach = search->tables->reach;
    uint64_t offset = search->level[index];
    for (uint32_t i = frame->from; i < frame->to; i++) {
        uint32_t other = search->pool[i];
        reach[other] = search->level[other];
        bool passed = search->level[other] < offset ||
                      (search->level[other] == offset && search->rank[other] < search->rank[index]);
        if (!passed || other == index) {
            continue;
        }
        reach[other] = stranded_level(search, other, offset);
        uint64_t size = search->work->item[other].size + search->work->head[other];
        if (reach[other] > search->capacity || reach[other] + size > search->capacity) {
            return false;
        }
    }
    for (uint32_t s = frame->first; s < frame->last; s++) {
        if (search->total[s] == 0 || search->lowest[s] > offset) {
            continue;
        }
        uint64_t least = section_least(search, s, reach) + search->work->over[s];
        if (least + search->total[s] > search->capacity) {
            return false;
        }
    }
    return true;
}

bool search_put(plan_search *search, const search_frame *frame, uint32_t index)
{
    if (search->log_size - search->log_used < log_step(search->work)) {
        search->state = SEARCH_GAVE_UP;
        return false;
    }
    const search_tables *tables = search->tables;
    bool fits;
    put_remove(search, index);
    uint32_t count = put_lift(search, index, &fits);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t section = tables->touched[i];
        tables->marked[section] = false;
        if (fits) {
            log_add(search, LOG_LOWEST, section, search->lowest[section]);
            search->lowest[section] = section_least(search, section, search->level);
        }
    }
    return fits && put_fits(search, frame, search->level[index]) &&
           put_strands_nobody(search, frame, index);
}
