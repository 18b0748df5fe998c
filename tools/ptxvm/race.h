/* SPDX-License-Identifier: MIT */
/* Happens-before: who touched which byte when, and what orders it before now.
 *
 * Time is counted per block and grows at every synchronisation. A warp knows up to which time it
 * has seen every other warp of its block (vm_clock); lanes of one warp are ordered by warp-wide and
 * by masked synchronisations. Between blocks only a release and an acquire through one location
 * order anything. */
#ifndef PTXVM_RACE_H
#define PTXVM_RACE_H

#include "tools/ptxvm/text/types.h"

/* One access: launch and block it belongs to, time, and thread with flags. */
typedef struct vm_touch {
    uint32_t launch;
    uint32_t block;
    uint32_t time;
    uint32_t who; /* thread | VT_TOUCH flags */
} vm_touch;

enum {
    VM_TOUCH_THREAD = 0xffff,
    VM_TOUCH_MANY = 1 << 16,   /* reads: more than one thread, warps in `readers` */
    VM_TOUCH_STRONG = 1 << 17, /* atomic or volatile and the like */
    VM_TOUCH_FLIGHT = 1 << 18, /* an asynchronous copy that has not completed */
    VM_TOUCH_BLOCKS = 1 << 19, /* reads: from more than one block */
    VM_TOUCH_SET = 1 << 20,
    VM_TOUCH_ASYNC = 1 << 21, /* a write through the asynchronous proxy, which is not its thread's
                               * own before the wait for it; */
    VM_TOUCH_PROXY = 1 << 22  /* and one of global memory */
};

/* Four bytes. split: index + 1 of four cells, one for each byte, once their histories differ. */
typedef struct vm_cell {
    vm_touch write;
    vm_touch read;
    uint32_t readers; /* warps */
    uint32_t split;
    uint8_t write_bytes;
    uint8_t read_bytes;
} vm_cell;

enum { VM_PAGE_CELLS = 256 };

typedef struct vm_page {
    vm_cell cells[VM_PAGE_CELLS];
    vm_cell *bytes; /* groups of four */
    uint32_t byte_groups;
    uint32_t byte_capacity;
    int lock;
} vm_page;

/* The history of one memory: an array of pages made when first touched. */
typedef struct vm_race {
    vm_page **pages;
    uint64_t page_count;
    bool shared_by_threads; /* host threads run blocks that touch it */
} vm_race;

/* Whether several host threads run the launch, and whether races are looked for in it
 * (PTXVM_RACES): there is one launch at a time. */
extern bool vm_race_concurrent;
extern bool vm_race_watched;

static inline void vm_page_lock(const vm_race *race, vm_page *page)
{
    if (race->shared_by_threads && vm_race_concurrent) {
        while (__atomic_exchange_n(&page->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        }
    }
}

static inline void vm_page_unlock(const vm_race *race, vm_page *page)
{
    if (race->shared_by_threads && vm_race_concurrent) {
        __atomic_store_n(&page->lock, 0, __ATOMIC_RELEASE);
    }
}

/* Memories whose stores a fence makes known to the asynchronous proxy. */
enum { VM_OF_SHARED, VM_OF_GLOBAL, VM_MEMORIES };
typedef struct vm_proxied {
    uint32_t until[VM_MEMORIES][VM_WARPS_MAX];
} vm_proxied;

/* What a warp has seen of the others of its block, and its own lanes of each other. */
typedef struct vm_clock {
    uint32_t seen[VM_WARPS_MAX];
    uint32_t warp_time;          /* last synchronisation of the whole warp */
    uint32_t (*lanes)[VM_LANES]; /* [l][m]: time up to which lane l has seen lane m, or NULL */
    uint32_t fence_time;         /* of the last fence, 0 none */
    /* Up to which time each warp's stores are known to the asynchronous proxy, as far as this warp
     * has heard; and the own lanes that have stored since their fence, since when. */
    vm_proxied proxied;
    uint32_t unfenced[VM_MEMORIES];
    uint32_t unfenced_from[VM_MEMORIES][VM_LANES];
} vm_clock;

/* Joined clocks of the warps that came to a barrier. */
typedef struct vm_clock_set {
    uint32_t seen[VM_WARPS_MAX];
    vm_proxied proxied;
} vm_clock_set;

/* What this block has acquired from others. */
typedef struct vm_release {
    uint32_t block;
    uint32_t seen[VM_WARPS_MAX];
    vm_proxied proxied;
} vm_release;
typedef struct vm_acquired {
    vm_release *items;
    uint32_t count;
    uint32_t capacity;
} vm_acquired;

struct vm_warp;
struct vm_insn;
struct vm_block;
struct vm_launch;

void vm_race_init(vm_race *race, uint64_t bytes, bool shared_by_threads);
/* The page of that index, made where there is none. */
vm_page *vm_race_page(vm_race *race, uint64_t index);
void vm_race_free(vm_race *race);

/* Records an access and reports a conflict (returning false). how: VA_*. */
bool vm_race_touch(struct vm_warp *warp, const struct vm_insn *in, unsigned lane, vm_race *race,
                   uint64_t offset, unsigned bytes, unsigned how);
/* The weak accesses of one instruction by lanes of a warp, of two bytes or of words: begin, once
 * for each lane, end. False where only vm_race_touch() can tell; asked again there, nothing has
 * been lost. */
typedef struct vm_race_turn {
    vm_race *race;
    vm_page *page; /* the one whose lock is held, or NULL */
    uint64_t page_index;
    vm_touch now; /* who is to be filled in */
    const vm_clock *clock;
    uint32_t warp;
    bool own;        /* memory of one block: records of other clusters' blocks are stale */
    uint32_t blocks; /* of a cluster */
} vm_race_turn;

void vm_race_turn_begin(vm_race_turn *turn, const struct vm_warp *warp, vm_race *race);
/* All lanes of the warp, each in `bytes` bytes right behind those of the lane before it. */
bool vm_race_turn_row(vm_race_turn *turn, uint64_t offset, unsigned bytes, bool write);
/* many: several lanes read these bytes at once. */
bool vm_race_turn_read(vm_race_turn *turn, unsigned lane, bool many, uint64_t offset,
                       unsigned bytes);
bool vm_race_turn_write(vm_race_turn *turn, unsigned lane, uint64_t offset, unsigned bytes);
void vm_race_turn_end(vm_race_turn *turn);

/* Marks or unmarks bytes that an asynchronous copy is writing; thread is the issuer's. A bulk copy
 * writes through the asynchronous proxy, OUT to global memory. */
typedef enum vm_flight { FL_COPY, FL_BULK, FL_OUT, FL_ENDS } vm_flight;
bool vm_race_flight(struct vm_warp *warp, const struct vm_insn *in, unsigned lane, vm_race *race,
                    uint64_t offset, unsigned bytes, vm_flight what);
/* The same in the shared memory of another block, whose threads cannot have ordered themselves
 * before it in ways that are followed here. */
enum { VM_AWAY_WARP = VM_WARPS_MAX - 1 /* who is said to have written it */ };
void vm_race_flight_away(struct vm_block *home, uint64_t offset, unsigned bytes, bool begins);

void vm_race_warp_start(struct vm_warp *warp);
/* Lanes of `mask` (of one warp) have synchronised. */
void vm_race_lanes_meet(struct vm_warp *warp, uint32_t mask);
/* Barrier of the block: each warp brings its clock, each waiting one takes the joined clock. */
void vm_race_bring(struct vm_warp *warp, vm_clock_set *set);
/* The barrier is complete: warps that waited did nothing since they came, so all of them are seen
 * up to now, which keeps the one time of a byte read by many warps from looking too late. */
void vm_race_complete(struct vm_block *block, vm_clock_set *set, uint32_t waiting);
void vm_race_take(struct vm_warp *warp, const vm_clock_set *set);

/* Lanes have stored to a memory (VM_OF_*), and: lanes have made the fence that tells the
 * asynchronous proxy of what they stored. */
void vm_race_stored(struct vm_warp *warp, unsigned memory, uint32_t mask);
void vm_race_proxy_fence(struct vm_warp *warp, unsigned memory, uint32_t mask);
/* A lane starts what reads shared bytes (aligned to 4) through the asynchronous proxy: false, and
 * reported, where their writes are not ordered before it or no fence made them known there. */
bool vm_race_async_read(struct vm_warp *warp, const struct vm_insn *in, unsigned lane,
                        struct vm_block *block, uint64_t offset, unsigned bytes);
/* What a block has released joins what another has acquired. */
void vm_race_merge(vm_acquired *into, const vm_release *from);
/* Whether what a warp of another block did up to a time is known to this block. */
bool vm_race_acquired(const struct vm_block *block, uint32_t other, uint32_t warp, uint32_t time);
/* Later times join earlier ones: of warps, and of what the asynchronous proxy knows. */
void vm_race_join(uint32_t *into, const uint32_t *from);
void vm_race_join_proxied(vm_proxied *into, const vm_proxied *from);

/* A fence: what the warp has done and seen so far is what its next strong write releases. */
void vm_race_fence(struct vm_warp *warp);
/* Release and acquire through a location of a memory (after a fence, or by qualifier). */
void vm_race_release(struct vm_warp *warp, const vm_race *race, uint64_t offset);
void vm_race_acquire(struct vm_warp *warp, unsigned lane, const vm_race *race, uint64_t offset);
/* Forgets the locations of a launch. */
void vm_race_launch_end(struct vm_launch *launch);

#endif
