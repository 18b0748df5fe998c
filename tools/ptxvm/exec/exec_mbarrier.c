/* SPDX-License-Identifier: MIT */
/* mbarrier instructions. What hardware leaves undefined is an error here. */
#include <stdlib.h>

#include "tools/ptxvm/block.h"
#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/text/parse.h"

enum {
    COUNT_MOST = VM_MBARRIER_MOST, /* of arrivals, and of transactions either way */
    PAUSES_MOST = 200000 /* waits in vain, one after the other in a block, before it is told */
};

/* A state: a mark, the phase of the arrival, arrivals that it found pending. */
#define STATE_MARK (UINT64_C(0xb) << 60)

static uint64_t state_of(const vm_mbarrier *m)
{
    return STATE_MARK | (m->phase & 0xffffffffu) << 20 | m->pending;
}

vm_mbarrier *vm_mbarrier_at(const vm_block *block, uint64_t address)
{
    for (uint32_t i = 0; i < block->mbarrier_count; i++) {
        if (block->mbarriers[i].address == address) {
            return &block->mbarriers[i];
        }
    }
    return NULL;
}

bool vm_mbarrier_touched(const vm_block *block, uint64_t address, unsigned bytes)
{
    for (uint32_t i = 0; i < block->mbarrier_count; i++) {
        const uint64_t first = block->mbarriers[i].address;
        if (address < first + 8 && first < address + bytes) {
            return true;
        }
    }
    return false;
}

void vm_mbarrier_fence(vm_warp *warp)
{
    for (uint32_t i = 0; i < warp->block->mbarrier_count; i++) {
        vm_mbarrier *m = &warp->block->mbarriers[i];
        m->fenced = m->fenced || m->maker == warp->index;
    }
}

void vm_mbarrier_start(vm_block *block)
{
    block->mbarrier_count = 0;
    block->bulk_count = block->reading_count = block->store_count = 0;
    if (block->copies != 0) {
        memset(block->tags, 0,
               (block->cluster->capacity_shared / VM_MAP_CHUNK + 2) * sizeof(vm_tag));
    }
    block->copies = 0;
    memset(block->store_groups, 0, block->threads * sizeof(uint32_t));
    block->pauses = 0;
}

void vm_mbarrier_free(vm_block *block)
{
    free(block->mbarriers);
    free(block->bulks);
    free(block->readings);
    free(block->stores);
    free(block->store_groups);
    free(block->tags);
}

/* Where a lane's operand points: the address in its block, and the block. */
static bool locate(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane,
                   uint64_t *address, vm_block **home)
{
    const vm_operand *at = vm_operand_at(warp, in, operand);
    vm_cluster *cluster = warp->block->cluster;
    *address = vm_lane(vm_source(warp, in, operand), at->bytes, lane) + (uint64_t)at->displacement;
    if ((*address & VM_GENERIC_MASK) == VM_SHARED_GENERIC) {
        *address &= ~VM_GENERIC_MASK;
    }
    uint64_t rank = *address >> VM_RANK_SHIFT;
    rank = rank == 0 ? warp->block->rank : rank - 1;
    *address &= (1u << VM_RANK_SHIFT) - 1;
    if (*address % 8 != 0) {
        return vm_fail(warp, in, (int)lane, VM_MISALIGNED_ADDRESS, "an mbarrier is 8-byte aligned");
    }
    if (rank >= cluster->block_count) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_ADDRESS, "no block %u in the cluster",
                       (unsigned)rank);
    }
    if (rank != warp->block->rank && home == NULL) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "this is for mbarriers of the own block");
    }
    if (home != NULL) {
        *home = &cluster->blocks[rank];
    }
    return rank == warp->block->rank || vm_cluster_reaches(warp, in, lane, (uint32_t)rank);
}

/* Whether the warp knows of an mbarrier's making. */
static bool is_known(const vm_warp *warp, const vm_block *home, const vm_mbarrier *m)
{
    if (home != warp->block) {
        return vm_race_acquired(warp->block, (uint32_t)home->linear, m->maker, m->made);
    }
    return m->maker == warp->index || m->made <= warp->clock.seen[m->maker];
}

vm_mbarrier *vm_mbarrier_use(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane,
                             vm_block **home)
{
    uint64_t address = 0;
    if (!locate(warp, in, operand, lane, &address, home)) {
        return NULL;
    }
    const vm_block *block = home == NULL ? warp->block : *home;
    vm_mbarrier *m = vm_mbarrier_at(block, address);
    if (m == NULL) {
        vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION, "no mbarrier at 0x%x",
                (unsigned)address);
        return NULL;
    }
    if (!is_known(warp, block, m)) {
        vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                "nothing orders this use of an mbarrier after its init");
        return NULL;
    }
    return m;
}

/* mbarrier.init [m], count */
static bool exec_init(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_block *block = warp->block;
    const uint32_t *counts = vm_source(warp, in, 1);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        uint64_t address = 0;
        if (!locate(warp, in, 0, lane, &address, NULL)) {
            return false;
        }
        if (vm_mbarrier_touched(block, address, 8)) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "init of an mbarrier that is one already");
        }
        if (counts[lane] == 0 || counts[lane] > COUNT_MOST) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "an mbarrier expects 1 to %d arrivals, not %u", COUNT_MOST,
                           counts[lane]);
        }
        if (vm_access(warp, in, lane, VS_SHARED, address, 8, VA_WRITE) == NULL) {
            return false;
        }
        vm_bits_set(block->shared_defined, address, 8, false);
        if (block->mbarrier_count == block->mbarrier_capacity) {
            block->mbarrier_capacity = 2 * block->mbarrier_capacity + 8;
            block->mbarriers =
                vm_resize(block->mbarriers, block->mbarrier_capacity * sizeof(vm_mbarrier));
        }
        vm_mbarrier *m = &block->mbarriers[block->mbarrier_count++];
        memset(m, 0, sizeof *m);
        m->address = (uint32_t)address;
        m->expected = m->pending = counts[lane];
        m->maker = warp->index;
        m->made = block->time;
        m->observed = true;
    }
    return true;
}

/* mbarrier.inval [m]: the bytes are ordinary again. */
static bool exec_inval(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_block *block = warp->block;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const vm_mbarrier *m = vm_mbarrier_use(warp, in, 0, vm_first_lane(left), NULL);
        if (m == NULL) {
            return false;
        }
        for (uint32_t i = 0; i < block->bulk_count; i++) {
            if (block->bulks[i].mbarrier == m->address) {
                return vm_fail(warp, in, (int)vm_first_lane(left), VM_LAUNCH_FAILED,
                               "inval of an mbarrier that copies in flight complete on");
            }
        }
        block->mbarriers[m - block->mbarriers] = block->mbarriers[--block->mbarrier_count];
    }
    return true;
}

/* What the warp has done and seen goes with the phase: kept for a warp, as fences are. */
void vm_mbarrier_bring(vm_warp *warp, vm_mbarrier *m)
{
    vm_race_join(m->gathering.seen, warp->clock.seen);
    vm_race_join_proxied(&m->gathering.proxied, &warp->clock.proxied);
    m->gathering.seen[warp->index] = warp->block->time++;
}

/* What a phase has brought is before all that the warp does after waiting for it. */
static void take(vm_warp *warp, const vm_insn *in, const vm_mbarrier *m)
{
    for (uint32_t left = m->away_complete_ranks; left != 0 && (in->flags & VF_CLUSTER) != 0;
         left &= left - 1) {
        vm_race_merge(&warp->block->acquired, &m->away_complete[vm_first_lane(left)]);
    }
    const uint32_t own = m->complete.seen[warp->index];
    vm_race_take(warp, &m->complete);
    warp->clock.warp_time = own > warp->clock.warp_time ? own : warp->clock.warp_time;
}

/* Ends the phase when nothing is awaited any more. */
void vm_mbarrier_resolve(vm_block *block, vm_mbarrier *m)
{
    block->pauses = 0;
    if (m->pending != 0 || m->transactions != 0) {
        return;
    }
    m->phase++;
    m->pending = m->expected;
    m->observed = false;
    m->complete = m->gathering;
    memset(&m->gathering, 0, sizeof m->gathering);
    memcpy(m->away_complete, m->away, sizeof m->away);
    m->away_complete_ranks = m->away_ranks;
    m->away_ranks = 0;
}

bool vm_mbarrier_transact(vm_warp *warp, const vm_insn *in, unsigned lane, vm_mbarrier *m,
                          int64_t by)
{
    const int64_t sum = m->transactions + by;
    if (sum > COUNT_MOST || sum < -COUNT_MOST) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "the transactions of an mbarrier overflow: %lld", (long long)sum);
    }
    m->transactions = (int32_t)sum;
    return true;
}

/* mbarrier.expect_tx [m], bytes; mbarrier.complete_tx (vector != 0) */
static bool exec_transactions(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *counts = vm_source(warp, in, 1);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        const int64_t by = counts[lane];
        vm_block *home = NULL;
        vm_mbarrier *m = vm_mbarrier_use(warp, in, 0, lane, &home);
        if (m == NULL || !vm_mbarrier_transact(warp, in, lane, m, in->vector != 0 ? -by : by)) {
            return false;
        }
        vm_mbarrier_resolve(home, m);
    }
    return true;
}

enum { ARRIVE_PLAIN, ARRIVE_EXPECTS, ARRIVE_DROPS, ARRIVE_INCOMPLETE };

static bool arrive(vm_warp *warp, const vm_insn *in, unsigned lane, vm_mbarrier *m, uint32_t count)
{
    if (count == 0 || count > m->pending) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "%u arrivals at an mbarrier that waits for %u", count, m->pending);
    }
    if (!m->observed) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "an arrival in phase %llu of an mbarrier though nobody has waited for the "
                       "phase before it",
                       (unsigned long long)m->phase);
    }
    m->pending -= count;
    if (in->vector == ARRIVE_DROPS) {
        m->expected -= count;
    }
    if (in->vector == ARRIVE_INCOMPLETE && m->pending == 0) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "an arrival with noComplete completes the phase");
    }
    return true;
}

/* An arrival at another block's mbarrier gives no state. */
static bool has_sink(vm_warp *warp, const vm_insn *in, unsigned lane, const vm_block *home)
{
    return home == warp->block || vm_operand_at(warp, in, 0)->where == VW_SINK ||
           vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                   "an arrival at another block's mbarrier has no state to give");
}

/* What the warp has done and seen goes to another block, where the arrival releases so far. */
static void bring_away(vm_warp *warp, const vm_insn *in, vm_mbarrier *m)
{
    const bool relaxed = (in->flags & VF_STRONG) != 0 && (in->flags & VF_RELEASE) == 0;
    if (relaxed || (in->flags & VF_CLUSTER) == 0) {
        return; /* so that what the other block then reads is found to be a race */
    }
    vm_release *release = &m->away[warp->block->rank];
    if ((m->away_ranks >> warp->block->rank & 1) == 0) {
        memset(release, 0, sizeof *release);
        release->block = (uint32_t)warp->block->linear;
        m->away_ranks |= 1u << warp->block->rank;
    }
    vm_race_join(release->seen, warp->clock.seen);
    vm_race_join_proxied(&release->proxied, &warp->clock.proxied);
    release->seen[warp->index] = warp->block->time++;
}

/* mbarrier.arrive state|_, [m]{, count}; .expect_tx: the last operand is bytes, one arrival. */
static bool exec_arrive(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint64_t states[VM_LANES] = {0};
    const uint32_t *numbers = in->operands > 2 ? vm_source(warp, in, 2) : NULL;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        const bool expects = in->vector == ARRIVE_EXPECTS;
        vm_block *home = NULL;
        vm_mbarrier *m = vm_mbarrier_use(warp, in, 1, lane, &home);
        if (m == NULL || !has_sink(warp, in, lane, home) ||
            (expects && !vm_mbarrier_transact(warp, in, lane, m, numbers[lane]))) {
            return false;
        }
        states[lane] = state_of(m);
        if (!arrive(warp, in, lane, m, expects || numbers == NULL ? 1 : numbers[lane])) {
            return false;
        }
        if (home == warp->block) {
            vm_mbarrier_bring(warp, m);
        } else {
            bring_away(warp, in, m);
        }
        vm_mbarrier_resolve(home, m);
    }
    vm_put(warp, in, 0, mask, states);
    return true;
}

/* mbarrier.pending_count count, state */
static bool exec_pending(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint64_t *states = vm_source(warp, in, 1);
    uint32_t counts[VM_LANES];
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        counts[lane] = (uint32_t)states[lane] & COUNT_MOST;
    }
    vm_put(warp, in, 0, mask, counts);
    return true;
}

/* ---- waits ---- */

/* Whether the phase that the lane asks for is over. */
static bool is_over(vm_warp *warp, const vm_insn *in, unsigned lane, const vm_mbarrier *m,
                    bool *over)
{
    if (in->vector != 0) {
        const uint32_t parity = ((const uint32_t *)vm_source(warp, in, 2))[lane];
        *over = (m->phase & 1) != parity;
        return parity <= 1 || vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                                      "a phase's parity is 0 or 1, not %u", parity);
    }
    const uint64_t state = ((const uint64_t *)vm_source(warp, in, 2))[lane];
    const uint64_t phase = state >> 20 & 0xffffffffu;
    *over = phase != m->phase;
    if ((state & UINT64_C(0xf) << 60) != STATE_MARK ||
        (phase != m->phase && phase + 1 != m->phase)) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                       "a state that is of neither this phase of the mbarrier nor the one before");
    }
    return true;
}

static bool wait_for(vm_warp *warp, const vm_insn *in, unsigned lane, bool *over)
{
    vm_mbarrier *m = vm_mbarrier_use(warp, in, 1, lane, NULL);
    if (m == NULL || !is_over(warp, in, lane, m, over)) {
        return false;
    }
    if (!*over) {
        if (!vm_bulk_deliver(warp, m) || !is_over(warp, in, lane, m, over)) {
            return false;
        }
    }
    if (*over && m->phase > 0) {
        m->observed = true;
        take(warp, in, m);
    }
    if (!*over && ++warp->block->pauses > PAUSES_MOST) {
        return vm_fail(warp, in, (int)lane, VM_LAUNCH_TIMEOUT,
                       "phase %llu of an mbarrier does not end: it waits for %u arrivals and %d "
                       "bytes",
                       (unsigned long long)m->phase, m->pending, m->transactions);
    }
    return true;
}

/* mbarrier.test_wait|try_wait p, [m], state{, time}; .parity (vector != 0): p, [m], parity */
static bool exec_wait(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    uint32_t yes = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned lane = vm_first_lane(left);
        bool over = false;
        if (!wait_for(warp, in, lane, &over)) {
            return false;
        }
        yes |= over ? 1u << lane : 0;
    }
    warp->pauses = yes != mask; /* others may go on first */
    vm_put_predicate(warp, in, 0, mask, yes);
    return true;
}

/* ---- operands ---- */

static bool wrong(vm_parser *parser)
{
    return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of an mbarrier instruction");
}

static bool needs(vm_parser *parser, uint32_t target)
{
    return parser->module->target >= target ||
           vm_parse_fail(parser, VM_INVALID_PTX, "this needs .target sm_%u", target);
}

static bool hook_init(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    return parser->node_count == 2 ? vm_add_memory(parser, in, &nodes[0]) &&
                                         vm_add_source(parser, in, &nodes[1], VT_U32, false)
                                   : wrong(parser);
}

static bool hook_expect(vm_parser *parser, vm_insn *in)
{
    in->vector = 0;
    return needs(parser, 90) && hook_init(parser, in);
}

static bool hook_complete(vm_parser *parser, vm_insn *in)
{
    in->vector = 1;
    return needs(parser, 90) && hook_init(parser, in);
}

static bool add_arrival(vm_parser *parser, vm_insn *in, unsigned kind, size_t least)
{
    const vm_node *nodes = parser->nodes;
    const size_t count = parser->node_count;
    in->vector = (uint8_t)kind;
    if (count < least || count > 3) {
        return wrong(parser);
    }
    return vm_add_target(parser, in, &nodes[0], VT_B64, false) &&
           vm_add_memory(parser, in, &nodes[1]) &&
           (count < 3 || vm_add_source(parser, in, &nodes[2], VT_U32, false));
}

static bool hook_arrival(vm_parser *parser, vm_insn *in)
{
    return add_arrival(parser, in, ARRIVE_PLAIN, 2);
}

static bool hook_arrive_expect(vm_parser *parser, vm_insn *in)
{
    return needs(parser, 90) && add_arrival(parser, in, ARRIVE_EXPECTS, 3);
}

static bool hook_drop(vm_parser *parser, vm_insn *in)
{
    return add_arrival(parser, in, ARRIVE_DROPS, 2);
}

static bool hook_incomplete(vm_parser *parser, vm_insn *in)
{
    return add_arrival(parser, in, ARRIVE_INCOMPLETE, 3);
}

static bool add_wait(vm_parser *parser, vm_insn *in, bool parity)
{
    const vm_node *nodes = parser->nodes;
    in->vector = parity ? 1 : 0;
    if (parser->node_count < 3 || parser->node_count > 4) {
        return wrong(parser);
    }
    return vm_add_predicate(parser, in, &nodes[0], true) && vm_add_memory(parser, in, &nodes[1]) &&
           vm_add_source(parser, in, &nodes[2], parity ? VT_U32 : VT_B64, false);
}

static bool hook_state(vm_parser *parser, vm_insn *in)
{
    return add_wait(parser, in, false);
}

static bool hook_parity(vm_parser *parser, vm_insn *in)
{
    return add_wait(parser, in, true);
}

static bool hook_try_state(vm_parser *parser, vm_insn *in)
{
    return needs(parser, 90) && add_wait(parser, in, false);
}

static bool hook_try_parity(vm_parser *parser, vm_insn *in)
{
    return needs(parser, 90) && add_wait(parser, in, true);
}

#define SHARED "shared|shared::cta?.b64"
#define ANY    "shared|shared::cta|shared::cluster?.b64"
#define SEM    ".release|relaxed?.cta|cluster?."
#define ACQ    ".acquire|relaxed?.cta|cluster?."
#define ROW(pattern, shape, exec, hook)                                                            \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_NONE, hook                                               \
    }

const vm_row vm_rows_mbarrier[] = {
    ROW("mbarrier.init." SHARED, NULL, exec_init, hook_init),
    ROW("mbarrier.inval." SHARED, "m", exec_inval, NULL),
    ROW("mbarrier.expect_tx.relaxed?.cta|cluster?." ANY, NULL, exec_transactions, hook_expect),
    ROW("mbarrier.complete_tx.relaxed?.cta|cluster?." ANY, NULL, exec_transactions, hook_complete),
    ROW("mbarrier.arrive.expect_tx" SEM ANY, NULL, exec_arrive, hook_arrive_expect),
    ROW("mbarrier.arrive.noComplete" SEM SHARED, NULL, exec_arrive, hook_incomplete),
    ROW("mbarrier.arrive" SEM ANY, NULL, exec_arrive, hook_arrival),
    ROW("mbarrier.arrive_drop" SEM ANY, NULL, exec_arrive, hook_drop),
    ROW("mbarrier.test_wait.parity" ACQ SHARED, NULL, exec_wait, hook_parity),
    ROW("mbarrier.test_wait" ACQ SHARED, NULL, exec_wait, hook_state),
    ROW("mbarrier.try_wait.parity" ACQ SHARED, NULL, exec_wait, hook_try_parity),
    ROW("mbarrier.try_wait" ACQ SHARED, NULL, exec_wait, hook_try_state),
    ROW("mbarrier.pending_count.b64", "U s0", exec_pending, NULL),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
