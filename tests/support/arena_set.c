/* SPDX-License-Identifier: MIT */
/* Sets of buffers for the planner's tests: how they are made, solved and checked. */
#include "tests/support/arena_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/support/plan_checker.h"

bp_interval set_buffers[SET_MOST];
uint64_t set_seed;

uint32_t set_random_below(uint32_t limit)
{
    set_seed = set_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((set_seed >> 33) % limit);
}

static void *scratch_of(size_t bytes)
{
    static unsigned char *memory;
    static size_t size;
    if (bytes > size) {
        free(memory);
        memory = malloc(bytes + 1);
        assert_non_null(memory);
        size = bytes;
    }
    return memory + 1; /* odd on purpose: the planner aligns its scratch itself */
}

bp_plan_report set_solve(bp_interval *set, uint32_t count, const bp_plan_options *options)
{
    bp_plan_report report;
    size_t bytes = bp_plan_scratch(count);
    assert_int_equal(bp_plan_solve(set, count, options, scratch_of(bytes), bytes, &report), BP_OK);
    return report;
}

static bool exists(const bp_interval *buffer)
{
    return buffer->size != 0 && buffer->lower != buffer->upper;
}

/* Every property that a layout must have, checked the slow and plain way. */
void set_check(const bp_interval *set, uint32_t count, uint64_t alignment,
               const bp_plan_report *report)
{
    uint64_t height = 0;
    uint64_t bound = 0;
    uint32_t bound_time = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bp_interval *a = &set[i];
        uint64_t size = (a->size + alignment - 1) / alignment * alignment;
        assert_int_equal(a->offset % alignment, 0);
        if (!exists(a)) {
            assert_int_equal(a->offset, 0);
            continue;
        }
        height = a->offset + size > height ? a->offset + size : height;
        uint64_t live = 0;
        for (uint32_t j = 0; j < count; j++) {
            const bp_interval *b = &set[j];
            if (!exists(b)) {
                continue;
            }
            uint64_t other = (b->size + alignment - 1) / alignment * alignment;
            live += b->lower <= a->lower && a->lower < b->upper ? other : 0;
            bool together = a->lower < b->upper && b->lower < a->upper;
            bool apart = a->offset + size <= b->offset || b->offset + other <= a->offset;
            assert_true(i == j || !together || apart);
        }
        if (live > bound || (live == bound && a->lower < bound_time)) {
            bound = live;
            bound_time = a->lower;
        }
    }
    static plan_checked checked[SET_MOST];
    for (uint32_t i = 0; i < count; i++) {
        checked[i] = (plan_checked){set[i].lower, set[i].upper, set[i].offset,
                                    (set[i].size + alignment - 1) / alignment * alignment};
        checked[i].bytes = exists(&set[i]) ? checked[i].bytes : 0;
    }
    assert_true(plan_checker(checked, count, height));
    assert_false(plan_checker(checked, count, height + 1));
    assert_int_equal(report->bytes, height);
    assert_int_equal(report->lower_bound, bound);
    assert_int_equal(report->peak_time, bound_time);
    assert_int_equal(report->waste, height - bound);
    assert_true(report->optimal || height > bound);
    assert_non_null(report->method);
}

void set_fill_random(uint32_t count, uint32_t sizes, uint32_t times)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = set_random_below(times);
        uint32_t b = set_random_below(times);
        set_buffers[i] = (bp_interval){
            .size = set_random_below(sizes), .lower = a < b ? a : b, .upper = a < b ? b : a};
    }
}

/* The least height of any layout, by trying every order of placement: each buffer in turn goes into
 * the lowest gap, which reaches every pushed-down layout. */
uint64_t set_exhaustive(const bp_interval *set, uint32_t count)
{
    uint32_t order[8];
    uint64_t least = UINT64_MAX;
    uint64_t orders = 1;
    for (uint32_t i = 2; i <= count; i++) {
        orders *= i;
    }
    for (uint64_t number = 0; number < orders; number++) {
        uint64_t code = number;
        bp_interval placed[8];
        uint64_t height = 0;
        for (uint32_t i = 0; i < count; i++) {
            order[i] = i;
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t pick = i + (uint32_t)(code % (count - i));
            code /= count - i;
            uint32_t index = order[pick];
            order[pick] = order[i];
            order[i] = index;
            placed[i] = set[index];
            placed[i].offset = 0;
            if (!exists(&placed[i])) {
                continue;
            }
            for (uint32_t j = 0; j < i; j++) {
                const bp_interval *other = &placed[j];
                bool together = exists(other) && other->lower < placed[i].upper &&
                                placed[i].lower < other->upper;
                bool apart = placed[i].offset + placed[i].size <= other->offset ||
                             other->offset + other->size <= placed[i].offset;
                if (together && !apart) {
                    placed[i].offset = other->offset + other->size;
                    j = UINT32_MAX; /* moved: look at all of them again */
                }
            }
            uint64_t top = placed[i].offset + placed[i].size;
            height = top > height ? top : height;
        }
        least = height < least ? height : least;
    }
    return least;
}

static uint64_t area(const bp_interval *buffer)
{
    return buffer->size * (buffer->upper - buffer->lower);
}

/* Cuts a rectangle of `times` x `height` into `count` set_buffers that fill it without a gap;
 * `even` cuts the largest one each time, which makes them alike and the packing hard. */
void set_fill_tight(uint32_t count, uint32_t times, uint32_t height, bool even)
{
    set_buffers[0] = (bp_interval){.size = height, .lower = 0, .upper = times};
    for (uint32_t have = 1; have < count;) {
        uint32_t pick = set_random_below(have);
        for (uint32_t i = 0; even && i < have; i++) {
            pick = area(&set_buffers[i]) > area(&set_buffers[pick]) ? i : pick;
        }
        bp_interval *a = &set_buffers[pick];
        bp_interval *b = &set_buffers[have];
        *b = *a;
        uint32_t span = a->upper - a->lower;
        if (set_random_below(2) != 0 && span > 1) {
            a->upper = b->lower = a->lower + 1 + set_random_below(span - 1);
            have++;
        } else if (a->size > 1) {
            b->size = 1 + set_random_below((uint32_t)a->size - 1);
            a->size -= b->size;
            have++;
        }
    }
}
