/* SPDX-License-Identifier: MIT */
/* How a call of the stand-in goes, in the order of its stream: a chunk of what is given comes out
 * of the GPU's memory, a host function meets the other ranks, what was gotten goes in. The copies
 * are the driver's, so an instrument sees whose memory they are about, and when. */
#include "tests/support/nccl/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One chunk of a call, as a host function gets it. It stays, as a graph may come back to it. */
typedef struct part {
    comm *comm;
    uint32_t number;
    call made;
} part;

void standin_words(const call_sign *sign, char *words, size_t bytes)
{
    static const char *const kinds[] = {"all_gather", "all_to_all", "broadcast", "message"};
    snprintf(words, bytes, "call %llu, %s of %llu bytes", (unsigned long long)sign->number,
             kinds[sign->kind % CALL_KINDS], (unsigned long long)sign->bytes);
}

static long long standin_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (long long)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

/* Who waits for whom, and where that one is. */
static void wait_deadlock(comm *c, const call_sign *sign, int peer)
{
    char mine[96], theirs[96];
    const place *other = &c->all->ranks[peer];
    standin_words(sign, mine, sizeof mine);
    standin_words(&other->sign, theirs, sizeof theirs);
    (void)standin_wrong(c, REMOTE_ERROR,
                        "deadlock: rank %d waits for rank %d in %s; that one %s %s", c->rank, peer,
                        mine, other->under_way != 0 ? "waits in" : "has ended its", theirs);
}

/* Waits until a box is full, or empty; false: nothing goes on. */
static bool wait_box(comm *c, const box *b, uint32_t full, const call_sign *sign, int peer)
{
    static const struct timespec pause = {0, 50000};
    const long long began = standin_now();
    const long limit = standin_number("BP_NCCL_LIMIT", 120000);
    while (__atomic_load_n(&b->full, __ATOMIC_ACQUIRE) != full) {
        if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE) != 0 ||
            __atomic_load_n(&c->failed, __ATOMIC_ACQUIRE) != 0) {
            return false;
        }
        if (standin_now() - began > limit) {
            wait_deadlock(c, sign, peer);
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

static size_t part_bytes(const message *m, uint32_t number)
{
    const size_t first = (size_t)number * CHUNK;
    return m->bytes <= first ? 0 : m->bytes - first < CHUNK ? m->bytes - first : CHUNK;
}

static bool part_give(const part *p, int peer)
{
    comm *c = p->comm;
    const message *m = &p->made.sends[peer];
    box *b = &c->all->boxes[c->rank][peer];
    if (!wait_box(c, b, 0, &m->sign, peer)) {
        return false;
    }
    b->sign = m->sign;
    b->sign.part = p->number;
    b->bytes = (uint32_t)part_bytes(m, p->number);
    memcpy(b->data, c->given + (size_t)peer * CHUNK, b->bytes);
    __atomic_store_n(&b->full, 1, __ATOMIC_RELEASE);
    return true;
}

/* Ranks make the same calls of the same sizes, and get at the same place of the window. */
static bool part_get(const part *p, int peer)
{
    comm *c = p->comm;
    const message *m = &p->made.gets[peer];
    call_sign wanted = m->sign;
    box *b = &c->all->boxes[peer][c->rank];
    wanted.part = p->number;
    if (!wait_box(c, b, 1, &m->sign, peer)) {
        return false;
    }
    const call_sign *found = &b->sign;
    if (found->number != wanted.number || found->bytes != wanted.bytes ||
        found->kind != wanted.kind || found->root != wanted.root || found->part != wanted.part ||
        found->place != wanted.place || b->bytes > CHUNK) {
        char mine[96], theirs[96];
        standin_words(&wanted, mine, sizeof mine);
        standin_words(found, theirs, sizeof theirs);
        (void)standin_wrong(c, BAD_USAGE, "rank %d makes %s where rank %d makes %s%s", c->rank,
                            mine, peer, theirs,
                            found->place != wanted.place ? ", elsewhere in the window" : "");
        return false;
    }
    memcpy(c->gotten + (size_t)peer * CHUNK, b->data, b->bytes);
    __atomic_store_n(&b->full, 0, __ATOMIC_RELEASE);
    return true;
}

/* BP_NCCL_FAILS=RANK:CALL:CODE, or BP_NCCL_STALLS=RANK:CALL */
static bool part_faults(const part *p)
{
    static const struct timespec pause = {0, 1000000};
    comm *c = p->comm;
    const char *fails = getenv("BP_NCCL_FAILS"), *stalls = getenv("BP_NCCL_STALLS");
    int rank = 0, code = 0;
    unsigned long long number = 0;
    if (fails != NULL && sscanf(fails, "%d:%llu:%d", &rank, &number, &code) == 3 &&
        rank == c->rank && number == p->made.sign.number) {
        __atomic_store_n(&c->failed, code, __ATOMIC_RELEASE);
    }
    if (stalls != NULL && sscanf(stalls, "%d:%llu", &rank, &number) == 2 && rank == c->rank &&
        number == p->made.sign.number) {
        while (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE) == 0) {
            nanosleep(&pause, NULL);
        }
    }
    return __atomic_load_n(&c->failed, __ATOMIC_ACQUIRE) != 0 ||
           __atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE) != 0;
}

/* Of the calls that a graph makes again each is a new one, so it is counted here, at its first
 * chunk. */
static void part_number(part *p)
{
    comm *c = p->comm;
    const uint64_t first = p->number == 0 ? 1 : 0;
    const bool messages = p->made.sign.kind == MESSAGES;
    c->calls += first;
    p->made.sign.number = c->calls - 1;
    for (int i = 0; i < c->size; i++) {
        message *sent = &p->made.sends[i], *got = &p->made.gets[i];
        sent->sign = got->sign = p->made.sign;
        if (messages) {
            c->to[i] += sent->there ? first : 0;
            c->from[i] += got->there ? first : 0;
            sent->sign.number = c->to[i];
            got->sign.number = c->from[i];
            sent->sign.bytes = sent->bytes;
            got->sign.bytes = got->bytes;
        }
    }
}

static void part_run(void *data)
{
    part *p = data;
    comm *c = p->comm;
    place *here = &c->all->ranks[c->rank];
    part_number(p);
    here->sign = p->made.sign;
    here->under_way = 1;
    bool well = !part_faults(p);
    for (int i = 0; i < c->size && well; i++) {
        well = !p->made.sends[i].there || part_give(p, i);
    }
    for (int i = 0; i < c->size && well; i++) {
        well = !p->made.gets[i].there || part_get(p, i);
    }
    here->under_way = well ? 0 : 1;
}

/* The chunk of every peer, between the GPU and what is pinned. */
static int queue_copies(const call *made, uint32_t number, bool out, void *stream)
{
    const comm *c = made->comm;
    for (int i = 0; i < c->size; i++) {
        const message *m = out ? &made->sends[i] : &made->gets[i];
        const size_t bytes = m->there ? part_bytes(m, number) : 0;
        unsigned char *at = (out ? c->given : c->gotten) + (size_t)i * CHUNK;
        const uint64_t pinned = (uint64_t)(uintptr_t)at;
        const uint64_t on_gpu = m->address + (uint64_t)number * CHUNK;
        if (bytes > 0 && standin_driver()->copy(out ? pinned : on_gpu, out ? on_gpu : pinned, bytes,
                                                stream) != 0) {
            return CUDA_ERROR;
        }
    }
    return SUCCESS;
}

int standin_queue(const call *made, void *stream)
{
    part *first = NULL;
    for (uint32_t k = 0; (size_t)k * CHUNK < made->sign.bytes; k++) {
        part *p = calloc(1, sizeof *p);
        p->comm = made->comm;
        p->number = k;
        p->made = *made;
        first = k == 0 ? p : first;
        if (queue_copies(made, k, true, stream) != SUCCESS ||
            standin_driver()->launch(stream, part_run, p) != 0 ||
            queue_copies(made, k, false, stream) != SUCCESS) {
            return CUDA_ERROR;
        }
    }
    return SUCCESS;
}
