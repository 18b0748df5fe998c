/* SPDX-License-Identifier: MIT */
/* The machine that runs decoded programs: launches, clusters, blocks, warps, fragments. */
#ifndef PTXVM_MACHINE_H
#define PTXVM_MACHINE_H

#include <pthread.h>
#include <string.h>

#include "tools/ptxvm/memory.h"
#include "tools/ptxvm/text/program.h"

/* Results, by CUresult's numbers. */
enum {
    VM_OK = 0,
    VM_INVALID_VALUE = 1,
    VM_OUT_OF_MEMORY = 2,
    VM_NO_BINARY = 209,
    VM_INVALID_PTX = 218,
    VM_UNSUPPORTED_PTX = 222,
    VM_ILLEGAL_ADDRESS = 700,
    VM_LAUNCH_TIMEOUT = 702,
    VM_ILLEGAL_INSTRUCTION = 715,
    VM_MISALIGNED_ADDRESS = 716,
    VM_LAUNCH_FAILED = 719
};

struct vm_parser;
bool vm_parse_module(struct vm_parser *parser);

/* Memory of the instrument itself; these never return NULL. */
void *vm_allocate(size_t bytes); /* zeroed */
void *vm_resize(void *block, size_t bytes);
void *vm_copy(const void *source, size_t bytes);

/* A splitmix64 stream. */
static inline uint64_t vm_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

typedef enum vm_state {
    FS_READY,
    FS_MASKED,  /* waits for the other lanes of a .sync mask */
    FS_ALIGNED, /* waits for every live lane of the warp at this pc */
    FS_BLOCK,   /* waits at a barrier of the block */
    FS_DONE
} vm_state;

/* Lanes that stand at one pc. */
typedef struct vm_fragment {
    uint32_t mask;
    uint32_t members; /* of the .sync it waits at */
    int32_t pc;
    int32_t join; /* index of the join its lanes will meet at, or -1 */
    uint32_t function;
    vm_state state;
} vm_fragment;

/* Where the parts of a divided fragment meet again: a post-dominator or a return address. */
typedef struct vm_join {
    bool used;
    bool is_return;
    int32_t pc;
    uint32_t function;
    uint32_t expected;
    uint32_t arrived;
    int32_t parent;
    const vm_call *call; /* of a return: the results to hand back */
} vm_join;

enum { VM_JOINS = 160 };

/* What lanes bring to a masked meeting. */
typedef struct vm_meeting {
    bool gathering;
    uint32_t lanes;
    uint32_t votes;
    uint32_t members;
    uint64_t values[VM_LANES];
} vm_meeting;

typedef struct vm_warp {
    struct vm_block *block;
    uint32_t index;
    uint32_t existing; /* lanes that were born */
    uint32_t live;
    const vm_function *function; /* of the running fragment */
    uint8_t *bases[4];           /* by vm_where, for that function */
    uint8_t *registers;
    uint8_t *specials;
    uint8_t *local; /* VM_LANES areas of local_stride bytes */
    uint8_t *frame; /* VM_LANES areas of frame_stride bytes */
    vm_fragment fragments[VM_LANES + 1];
    uint32_t fragment_count;
    vm_join joins[VM_JOINS];
    vm_meeting meeting;
    uint32_t carry; /* the condition code, one bit for each lane */
    int barrier;    /* the block barrier waited at, or -1 */
    bool pauses;    /* it waits in vain: the others' turn */
    uint32_t barrier_result;
    uint64_t executed;
    uint64_t patient_until;   /* of executed: until then lanes wait at joins for their siblings */
    const vm_insn *spin_insn; /* the strong global load made last, and how often in a row */
    uint64_t spin_address;
    uint32_t spins;
    struct vm_mark *marks; /* of registers, in a kernel that has wgmma; */
    size_t mark_count;     /* those there are, */
    uint32_t mark_start;   /* and how often the warp was started with them */
    uint32_t epoch;        /* fences of wgmma so far, counted from 1 */
    uint32_t matrix_done;  /* groups of wgmma waited for */
    bool matrix_fenced;
    bool matrix_open;        /* a wgmma that belongs to no group yet */
    bool again;              /* the instruction has not ended: it is executed once more */
    uint32_t register_limit; /* that setmaxnreg asked for; 0: the entry's */
    bool cluster_arrived;    /* at the cluster's barrier, in this phase of it: */
    uint32_t cluster_phase;
    bool grid_waited; /* griddepcontrol.wait was executed */
    vm_region region; /* the last one found */
    vm_clock clock;
    uint64_t sink[VM_LANES * 2];
} vm_warp;

typedef struct vm_barrier {
    uint32_t expected; /* warps; 0: all live ones */
    uint32_t arrived;
    uint32_t waiting;  /* mask of warps */
    uint32_t arrivals; /* mask of warps that came, waiting or not */
    bool counted;      /* expected was given */
    uint32_t threads;
    uint32_t votes;
    vm_clock_set clocks;
} vm_barrier;

/* One asynchronous copy in flight. */
typedef struct vm_actor {
    uint64_t source;
    uint32_t target; /* shared address */
    uint32_t thread;
    uint32_t bytes;
    uint32_t read; /* the rest is zero filled */
    uint32_t group;
    const vm_insn *insn;
    const vm_function *function;
} vm_actor;

typedef struct vm_block {
    struct vm_cluster *cluster;
    struct vm_launch *launch;
    uint32_t rank; /* in the cluster */
    uint32_t index[3];
    uint64_t linear;
    uint32_t threads;
    vm_warp *warps;
    uint32_t warp_count;
    uint32_t warps_done;
    uint8_t *shared;
    uint64_t *shared_defined;
    vm_race shared_race;
    vm_barrier barriers[VM_BARRIERS];
    uint32_t *groups; /* per thread: groups committed so far */
    vm_actor *actors;
    size_t actor_count;
    size_t actor_capacity;
    struct vm_mbarrier *mbarriers; /* live ones */
    uint32_t mbarrier_count;
    uint32_t mbarrier_capacity;
    struct vm_bulk *bulks; /* copies in flight that complete on them */
    uint32_t bulk_count;
    uint32_t bulk_capacity;
    struct vm_reading *readings; /* of shared memory, by asynchronous operations */
    uint32_t reading_count;
    uint32_t reading_capacity;
    uint32_t *store_groups; /* per thread: bulk groups committed so far */
    struct vm_bulk *stores; /* bulk copies towards global memory, until they are waited for */
    uint32_t store_count;
    uint32_t store_capacity;
    struct vm_tag *tags; /* what tensor copies wrote, for each 16 bytes of shared memory */
    uint32_t copies;     /* tensor copies so far */
    struct vm_warpgroup *warpgroups;
    uint32_t pauses; /* waits in vain since something last happened to an mbarrier */
    uint32_t time;   /* of the happens-before order; grows at every synchronisation */
    vm_acquired acquired;
} vm_block;

/* The unit of work: one block unless the launch asks for clusters. Run by one host thread. */
typedef struct vm_cluster {
    vm_block *blocks;
    uint32_t block_count;
    uint32_t phase; /* of the cluster's barrier */
    vm_clock_set gathering[VM_CLUSTER_MAX], complete[VM_CLUSTER_MAX];
    uint64_t random;
    /* Capacities of what the blocks own, so that they are reused from launch to launch. */
    uint32_t capacity_blocks;
    size_t capacity_warps;
    size_t capacity_registers;
    size_t capacity_shared;
    size_t capacity_local;
    size_t capacity_frame;
} vm_cluster;

typedef struct vm_launch {
    const vm_module *module;
    const vm_function *function;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster; /* blocks per cluster */
    uint32_t dynamic_shared;
    uint32_t shared_bytes;
    uint32_t local_stride;
    uint32_t frame_stride;
    uint32_t register_bytes;
    uint8_t *params; /* 64-byte aligned */
    vm_window *windows;
    uint32_t window_count;
    const vm_owned *owned; /* by copies in flight */
    uint32_t owned_count;
    bool strict; /* operands were declared: no other allocation may be touched */
    uint32_t serial;
    uint32_t prerequisite; /* serial of the launch that may still be running; 0 none */
    uint64_t seed;
    uint64_t budget; /* instructions per warp before it is called endless */
    uint64_t next_cluster;
    uint64_t cluster_total;
    uint64_t *order; /* seeded order of clusters, or NULL */
    int result;      /* of the first failure */
    char *report;
    struct vm_location *locations; /* releases seen in this launch */
    pthread_mutex_t lock;
} vm_launch;

enum { VM_REPORT_MAX = 1024 };

/* Runs a whole grid. The result is a CUresult; report receives the words. */
int vm_launch_run(vm_launch *launch);

/* Runs one warp until it waits or ends. False: the launch failed. */
bool vm_warp_run(vm_warp *warp, uint64_t quantum);
void vm_warp_start(vm_warp *warp, uint32_t existing);
void vm_warp_release(vm_warp *warp);
/* Takes lanes out for good. */
void vm_warp_exit(vm_warp *warp, vm_fragment *fragment, uint32_t mask);

/* A failure found while a lane (or VM_FULL: the warp) executes. Always returns false. */
bool vm_fail(const vm_warp *warp, const vm_insn *in, int lane, int result, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* "PTX line 12 (kernel.cu:34 inlined at kernel.cu:80)" */
bool vm_block_check_barriers(vm_block *block);

/* ---- operands, for exec functions ---- */

static inline const vm_operand *vm_operand_at(const vm_warp *warp, const vm_insn *in, unsigned i)
{
    return &warp->function->operands[in->first + i];
}

static inline const void *vm_source(const vm_warp *warp, const vm_insn *in, unsigned i)
{
    const vm_operand *operand = vm_operand_at(warp, in, i);
    return warp->bases[operand->where] + operand->offset;
}

/* One lane of an operand, zero-extended. */
static inline uint64_t vm_lane(const void *lanes, unsigned bytes, unsigned lane)
{
    switch (bytes) {
    case 2:
        return ((const uint16_t *)lanes)[lane];
    case 4:
        return ((const uint32_t *)lanes)[lane];
    default:
        return ((const uint64_t *)lanes)[lane];
    }
}

static inline void vm_set_lane(void *lanes, unsigned bytes, unsigned lane, uint64_t value)
{
    switch (bytes) {
    case 2:
        ((uint16_t *)lanes)[lane] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)lanes)[lane] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)lanes)[lane] = value;
        break;
    }
}

static inline uint32_t vm_predicate(const vm_warp *warp, const vm_insn *in, unsigned i)
{
    uint32_t mask;
    memcpy(&mask, vm_source(warp, in, i), sizeof mask);
    return vm_operand_at(warp, in, i)->negate ? ~mask : mask;
}

static inline void vm_put_predicate(vm_warp *warp, const vm_insn *in, unsigned i, uint32_t mask,
                                    uint32_t value)
{
    const vm_operand *operand = vm_operand_at(warp, in, i);
    uint8_t *at = warp->bases[operand->where] + operand->offset;
    uint32_t old;
    memcpy(&old, at, sizeof old);
    old = (old & ~mask) | (value & mask);
    memcpy(at, &old, sizeof old);
}

/* Lanes of a target that hold `bytes` each, where the mask says so. lanes has the target's width.
 */
void vm_put(vm_warp *warp, const vm_insn *in, unsigned i, uint32_t mask, const void *lanes);

/* Runs in->kernel on operands 1, 2, 3 into operand 0. */
bool vm_exec_kernel(vm_warp *warp, const vm_insn *in, uint32_t mask);
/* The same for two elements packed in each lane: the kernel runs over 64 half-width lanes. */
bool vm_exec_pair(vm_warp *warp, const vm_insn *in, uint32_t mask);

static inline unsigned vm_first_lane(uint32_t mask)
{
    return (unsigned)__builtin_ctz(mask);
}

#endif
