/* SPDX-License-Identifier: MIT */
/* Copies between places, and what the calls of a fabric are for a group of one rank. A begin does
 * all of it, so a wait has nothing to do; what runs them beside other ops is the device. */
#include <string.h>

#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"

#define RUN_BYTES ((uint64_t)1 << 18) /* of a task of flat bytes */

static uint64_t copy_tasks(const void *scalars)
{
    const bp_copy_begin_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void copy_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_copy_begin_scalars *s = call->scalars;
    const bp_copy_begin_pointers *p = call->pointers;
    for (uint64_t row = first; row < last; row++) {
        memcpy((char *)p->to + row * (uint64_t)s->to_pitch,
               (const char *)p->from + row * (uint64_t)s->from_pitch, (size_t)s->width);
    }
}

static uint64_t rows_tasks(const void *scalars)
{
    const bp_rows_begin_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void rows_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_rows_begin_scalars *s = call->scalars;
    const bp_rows_begin_pointers *p = call->pointers;
    const int32_t *ids = p->ids;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t row = first; row < last; row++) {
        memcpy((char *)p->to + row * width, (const char *)p->from + (uint64_t)ids[row] * width,
               (size_t)width);
    }
}

static uint64_t experts_pieces_tasks(const void *scalars)
{
    const bp_experts_begin_scalars *s = scalars;
    return (uint64_t)s->experts;
}

/* A task is an expert. */
static void experts_pieces_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_experts_begin_scalars *s = call->scalars;
    const bp_experts_begin_pointers *p = call->pointers;
    const int32_t *runs = p->runs;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t e = first; e < last; e++) {
        if (runs[e] < runs[e + 1]) {
            memcpy((char *)p->to + e * width, (const char *)p->from + e * width, (size_t)width);
        }
    }
}

/* Part of one piece, which may already be where it goes. */
static void copy_piece(void *to, const void *from, int64_t bytes, uint64_t first, uint64_t last)
{
    uint64_t begin = first * RUN_BYTES;
    uint64_t end = bp_least((uint64_t)bytes, last * RUN_BYTES);
    if (to != from) {
        memcpy((char *)to + begin, (const char *)from + begin, (size_t)(end - begin));
    }
}

static uint64_t gather_tasks(const void *scalars)
{
    const bp_all_gather_begin_scalars *s = scalars;
    return bp_cut(s->bytes, RUN_BYTES);
}

static void gather_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_all_gather_begin_scalars *s = call->scalars;
    const bp_all_gather_begin_pointers *p = call->pointers;
    copy_piece(p->to, p->from, s->bytes, first, last);
}

static uint64_t exchange_tasks(const void *scalars)
{
    const bp_exchange_begin_scalars *s = scalars;
    return bp_cut(s->bytes, RUN_BYTES);
}

static void exchange_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_exchange_begin_scalars *s = call->scalars;
    const bp_exchange_begin_pointers *p = call->pointers;
    copy_piece(p->to, p->from, s->bytes, first, last);
}

static uint64_t broadcast_tasks(const void *scalars)
{
    const bp_broadcast_begin_scalars *s = scalars;
    return bp_cut(s->bytes, RUN_BYTES);
}

static void broadcast_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_broadcast_begin_scalars *s = call->scalars;
    const bp_broadcast_begin_pointers *p = call->pointers;
    copy_piece(p->to, p->from, s->bytes, first, last);
}

static uint64_t no_tasks(const void *scalars)
{
    (void)scalars;
    return 0;
}

static void no_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)call;
    (void)first;
    (void)last;
    (void)worker;
}

const bp_host_kernel bp_host_copy_begin = {copy_tasks, copy_run, NULL};
const bp_host_kernel bp_host_copy_wait = {no_tasks, no_run, NULL};
const bp_host_kernel bp_host_rows_begin = {rows_tasks, rows_run, NULL};
const bp_host_kernel bp_host_rows_wait = {no_tasks, no_run, NULL};
const bp_host_kernel bp_host_experts_begin = {experts_pieces_tasks, experts_pieces_run, NULL};
const bp_host_kernel bp_host_experts_wait = {no_tasks, no_run, NULL};
const bp_host_kernel bp_host_all_gather_begin = {gather_tasks, gather_run, NULL};
const bp_host_kernel bp_host_exchange_begin = {exchange_tasks, exchange_run, NULL};
/* The scalars of these begin as theirs, and of one rank the piece is the whole. */
const bp_host_kernel bp_host_gather_pieces_begin = {gather_tasks, gather_run, NULL};
const bp_host_kernel bp_host_exchange_pieces_begin = {exchange_tasks, exchange_run, NULL};
const bp_host_kernel bp_host_broadcast_begin = {broadcast_tasks, broadcast_run, NULL};
const bp_host_kernel bp_host_fabric_wait = {no_tasks, no_run, NULL};
