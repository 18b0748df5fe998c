/* SPDX-License-Identifier: MIT */
/* Groups of up to four parts, which lie apart or together. */
#include <string.h>

#include "device/host/vector/element.h"

enum { PARTS = 4 };

static uint64_t parts_tasks(const void *scalars)
{
    const bp_parts_split_scalars *s = scalars; /* both rows have the same */
    return (uint64_t)s->rows;
}

/* Rows of x and of the parts, one way or the other. A task is a row. */
static void parts_move(const bp_parts_split_scalars *s, bp_element *x,
                       bp_element *const part[PARTS], bool joins, uint64_t first, uint64_t last)
{
    const uint64_t width[PARTS] = {(uint64_t)s->width0, (uint64_t)s->width1, (uint64_t)s->width2,
                                   (uint64_t)s->width3};
    const uint64_t pitch[PARTS] = {(uint64_t)s->pitch0, (uint64_t)s->pitch1, (uint64_t)s->pitch2,
                                   (uint64_t)s->pitch3};
    for (uint64_t row = first; row < last; row++) {
        bp_element *from = x + row * (uint64_t)s->pitch;
        for (uint64_t g = 0; g < (uint64_t)s->groups; g++) {
            for (uint64_t i = 0; i < PARTS; i++) {
                bp_element *to = part[i] != NULL ? part[i] + row * pitch[i] + g * width[i] : NULL;
                if (to != NULL) {
                    memcpy(joins ? from : to, joins ? to : from, width[i] * sizeof *to);
                }
                from += width[i];
            }
        }
    }
}

static void parts_split_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_parts_split_pointers *p = call->pointers;
    bp_element *const part[PARTS] = {p->y0, p->y1, p->y2, p->y3};
    /* x is only read. */
    parts_move(call->scalars, (bp_element *)(uintptr_t)p->x, part, false, first, last);
}

static void parts_join_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_parts_join_pointers *p = call->pointers;
    /* The parts are only read. */
    bp_element *const part[PARTS] = {(bp_element *)(uintptr_t)p->y0, (bp_element *)(uintptr_t)p->y1,
                                     (bp_element *)(uintptr_t)p->y2,
                                     (bp_element *)(uintptr_t)p->y3};
    parts_move(call->scalars, p->x, part, true, first, last);
}

const bp_host_kernel BP_BUILT(bp_host_parts_split) = {parts_tasks, parts_split_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_parts_join) = {parts_tasks, parts_join_run, NULL};
