/* SPDX-License-Identifier: MIT */
/* What lanes do together: shuffles, votes, matches, reductions, barriers. Masked ones run twice for
 * each fragment: first every lane brings its value to the meeting, then takes its result. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

/* Registers of a processor and the most of a thread; how often a warp asks for some in vain. */
enum { FILE_REGISTERS = 65536, THREAD_REGISTERS = 255, PAUSES_MOST = 200000 };

/* shfl.sync.mode d|p, a, b, c, members */
static bool all_equal(const uint32_t *lanes)
{
    uint32_t other = 0;
    for (unsigned i = 1; i < VM_LANES; i++) {
        other |= lanes[i] ^ lanes[0];
    }
    return other == 0;
}

/* The lane that a lane reads, and whether it is inside the segment. */
static inline bool shuffle_source(vm_choice way, unsigned lane, uint32_t b, uint32_t c, int *from)
{
    unsigned by = b & 31;
    unsigned clamp = c & 31;
    unsigned segment = c >> 8 & 31;
    unsigned most = (lane & segment) | (clamp & ~segment);
    unsigned least = lane & segment;
    int wanted = way == VX_UP     ? (int)lane - (int)by
                 : way == VX_DOWN ? (int)(lane + by)
                 : way == VX_BFLY ? (int)(lane ^ by)
                                  : (int)(least | (by & ~segment));
    bool valid = way == VX_UP ? wanted >= (int)most : wanted <= (int)most;
    *from = valid ? wanted : (int)lane;
    return valid;
}

static bool exec_shuffle(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_meeting *meeting = &warp->meeting;
    if (meeting->gathering) {
        const uint32_t *a = vm_source(warp, in, 2);
        for (unsigned i = 0; i < VM_LANES && mask == VM_ALL_LANES; i++) {
            meeting->values[i] = a[i];
        }
        for (; mask != VM_ALL_LANES && mask != 0; mask &= mask - 1) {
            meeting->values[vm_first_lane(mask)] = a[vm_first_lane(mask)];
        }
        return true;
    }
    const uint32_t *b = vm_source(warp, in, 3);
    const uint32_t *c = vm_source(warp, in, 4);
    uint32_t lanes[VM_LANES];
    uint32_t inside = 0;
    if (mask == VM_ALL_LANES && meeting->lanes == VM_ALL_LANES && in->choice == VX_BFLY &&
        all_equal(b) && all_equal(c) &&
        (c[0] & 0x1f1fu) == 31) { /* what reductions over a warp do */
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            lanes[lane] = (uint32_t)meeting->values[lane ^ (b[0] & 31)];
        }
        vm_put(warp, in, 0, mask, lanes);
        vm_put_predicate(warp, in, 1, mask, mask);
        return true;
    }
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        if ((mask >> lane & 1) == 0) {
            continue;
        }
        int from = 0;
        bool valid = shuffle_source((vm_choice)in->choice, lane, b[lane], c[lane], &from);
        if ((meeting->lanes >> from & 1) == 0) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "shuffle reads lane %d, which takes no part", from);
        }
        inside |= valid ? 1u << lane : 0;
        lanes[lane] = (uint32_t)meeting->values[from];
    }
    vm_put(warp, in, 0, mask, lanes);
    vm_put_predicate(warp, in, 1, mask, inside);
    return true;
}

static void put_all(vm_warp *warp, const vm_insn *in, uint32_t mask, uint32_t value)
{
    uint32_t lanes[VM_LANES];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = value;
    }
    vm_put(warp, in, 0, mask, lanes);
}

/* vote.sync.mode d, {!}p, members */
static bool exec_vote(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_meeting *meeting = &warp->meeting;
    if (meeting->gathering) {
        meeting->votes |= vm_predicate(warp, in, 1) & mask;
        return true;
    }
    uint32_t yes = meeting->votes;
    bool all = yes == meeting->lanes;
    switch (in->choice) {
    case VX_BALLOT:
        put_all(warp, in, mask, yes);
        return true;
    case VX_ALL:
        vm_put_predicate(warp, in, 0, mask, all ? VM_ALL_LANES : 0);
        return true;
    case VX_ANY:
        vm_put_predicate(warp, in, 0, mask, yes != 0 ? VM_ALL_LANES : 0);
        return true;
    default:
        vm_put_predicate(warp, in, 0, mask, all || yes == 0 ? VM_ALL_LANES : 0);
        return true;
    }
}

static void gather(vm_warp *warp, const vm_insn *in, unsigned operand, uint32_t mask)
{
    const void *a = vm_source(warp, in, operand);
    unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    for (unsigned i = 0; i < VM_LANES; i++) {
        if ((mask >> i & 1) != 0) {
            warp->meeting.values[i] = vm_lane(a, bytes, i);
        }
    }
}

/* match.any.sync d, a, members; match.all.sync d|p, a, members */
static bool exec_match(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_meeting *meeting = &warp->meeting;
    if (meeting->gathering) {
        gather(warp, in, 2, mask);
        return true;
    }
    uint32_t lanes[VM_LANES];
    bool all = true;
    uint64_t first = meeting->values[vm_first_lane(meeting->lanes)];
    for (unsigned i = 0; i < VM_LANES; i++) {
        lanes[i] = 0;
        for (unsigned j = 0; j < VM_LANES; j++) {
            bool here = (meeting->lanes >> j & 1) != 0;
            lanes[i] |= here && meeting->values[j] == meeting->values[i] ? 1u << j : 0;
            all = all && (!here || meeting->values[j] == first);
        }
    }
    if (in->choice == VX_ALL) {
        put_all(warp, in, mask, all ? meeting->lanes : 0);
        vm_put_predicate(warp, in, 1, mask, all ? VM_ALL_LANES : 0);
    } else {
        vm_put(warp, in, 0, mask, lanes);
    }
    return true;
}

/* elect.sync d|p, members: the first of those that take part. */
static bool exec_elect(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (warp->meeting.gathering) {
        return true;
    }
    const unsigned leader = vm_first_lane(warp->meeting.lanes);
    put_all(warp, in, mask, leader);
    vm_put_predicate(warp, in, 1, mask, 1u << leader);
    return true;
}

/* Registers of a thread at a kernel's entry: what ptxas gives where a block fills a processor. */
static uint32_t entry_registers(const vm_block *block)
{
    const uint32_t share = FILE_REGISTERS / (block->warp_count * VM_LANES) / 8 * 8;
    return share < THREAD_REGISTERS ? share : THREAD_REGISTERS;
}

/* setmaxnreg: the instrument's registers are there anyway; those of the block are counted, and who
 * asks for more than are left waits until others have given some back. */
static bool exec_registers(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    vm_block *block = warp->block;
    const uint32_t wanted = *(const uint32_t *)vm_source(warp, in, 0);
    const uint32_t entry = entry_registers(block);
    const uint32_t now = warp->register_limit != 0 ? warp->register_limit : entry;
    const bool more = in->choice == VX_INC;
    if (more ? wanted < now : wanted > now) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "setmaxnreg from %u registers to %u", now, wanted);
    }
    uint32_t sum = 0;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        const uint32_t limit = block->warps[w].register_limit;
        sum += VM_LANES * (w == warp->index ? wanted : limit != 0 ? limit : entry);
    }
    if (more && sum > FILE_REGISTERS) {
        warp->pauses = warp->again = true;
        return ++block->pauses <= PAUSES_MOST ||
               vm_fail(warp, in, VM_FULL, VM_LAUNCH_TIMEOUT,
                       "setmaxnreg waits for registers that nobody gives back: %u of %d", sum,
                       FILE_REGISTERS);
    }
    warp->register_limit = wanted;
    block->pauses = 0;
    return true;
}

static bool hook_registers(vm_parser *parser, vm_insn *in)
{
    const vm_node *count = &parser->nodes[0];
    if (parser->module->target != 90 || !parser->module->target_specific) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "setmaxnreg needs .target sm_90a");
    }
    if (parser->node_count != 1 || count->kind != ND_INTEGER || count->bits % 8 != 0 ||
        count->bits < 24 || count->bits > 256) {
        return vm_parse_fail(parser, VM_INVALID_PTX,
                             "a number of registers is a multiple of 8 from 24 to 256");
    }
    return vm_add_source(parser, in, count, VT_U32, false);
}

static uint32_t reduce(const vm_meeting *meeting, vm_choice what, bool is_signed)
{
    uint32_t left = meeting->lanes;
    uint32_t result = (uint32_t)meeting->values[vm_first_lane(left)];
    for (left &= left - 1; left != 0; left &= left - 1) {
        uint32_t value = (uint32_t)meeting->values[vm_first_lane(left)];
        bool less = is_signed ? (int32_t)value < (int32_t)result : value < result;
        switch (what) {
        case VX_ADD:
            result += value;
            break;
        case VX_MIN:
            result = less ? value : result;
            break;
        case VX_MAX:
            result = less ? result : value;
            break;
        case VX_AND:
            result &= value;
            break;
        case VX_OR:
            result |= value;
            break;
        default:
            result ^= value;
            break;
        }
    }
    return result;
}

/* redux.sync.op d, a, members */
static bool exec_reduce(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (warp->meeting.gathering) {
        gather(warp, in, 1, mask);
        return true;
    }
    bool is_signed = vm_type_signed((vm_type)in->types[0]);
    put_all(warp, in, mask, reduce(&warp->meeting, (vm_choice)in->choice, is_signed));
    return true;
}

/* bar.warp.sync members: orders memory among the lanes. */
static bool exec_warp_barrier(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)in;
    (void)mask;
    if (warp->meeting.gathering) {
        return true;
    }
    vm_race_lanes_meet(warp, warp->meeting.lanes);
    return true;
}

/* ---- barriers of the block. space2 tells the forms apart; operands: [target,] barrier,
 * [threads,] [predicate]. vector: index of the barrier operand. ---- */

enum { FORM_SYNC, FORM_ARRIVE, FORM_RED_PREDICATE, FORM_RED_COUNT };

/* The value of an operand that all lanes must agree on. */
static bool uniform(vm_warp *warp, const vm_insn *in, unsigned operand, uint32_t mask,
                    uint32_t *value)
{
    const uint32_t *lanes = vm_source(warp, in, operand);
    *value = lanes[vm_first_lane(mask)];
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        if (lanes[vm_first_lane(left)] != *value) {
            return vm_fail(warp, in, (int)vm_first_lane(left), VM_ILLEGAL_INSTRUCTION,
                           "lanes disagree about a barrier");
        }
    }
    return true;
}

static void deliver(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (in->space2 == FORM_RED_COUNT) {
        put_all(warp, in, mask, warp->barrier_result);
    } else if (in->space2 == FORM_RED_PREDICATE) {
        vm_put_predicate(warp, in, 0, mask, warp->barrier_result != 0 ? VM_ALL_LANES : 0);
    }
}

static void collect(vm_warp *warp, const vm_insn *in, uint32_t mask, vm_barrier *barrier)
{
    if (in->space2 != FORM_RED_COUNT && in->space2 != FORM_RED_PREDICATE) {
        return;
    }
    uint32_t yes = vm_predicate(warp, in, in->operands - 1u) & mask;
    uint32_t value = in->choice == VX_POPC  ? (uint32_t)__builtin_popcount(yes)
                     : in->choice == VX_AND ? (yes == mask ? 1u : 0u)
                                            : (yes != 0 ? 1u : 0u);
    if (in->choice == VX_AND) {
        barrier->votes = (barrier->arrived == 0 ? 1u : barrier->votes) & value;
    } else {
        barrier->votes = in->choice == VX_POPC ? barrier->votes + value : barrier->votes | value;
    }
}

static bool exec_barrier(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (!warp->meeting.gathering) {
        deliver(warp, in, mask);
        return true;
    }
    vm_block *block = warp->block;
    uint32_t number = 0;
    uint32_t threads = 0;
    unsigned at = in->vector;
    bool predicate = in->space2 == FORM_RED_COUNT || in->space2 == FORM_RED_PREDICATE;
    bool counted = in->operands > at + 1u + (predicate ? 1u : 0u);
    if (!uniform(warp, in, at, mask, &number)) {
        return false;
    }
    if (counted && !uniform(warp, in, at + 1, mask, &threads)) {
        return false;
    }
    if (number >= VM_BARRIERS) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION, "no barrier %u", number);
    }
    if (counted && (threads == 0 || threads % VM_LANES != 0 || threads > 1024)) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "a barrier counts whole warps, not %u threads", threads);
    }
    vm_barrier *barrier = &block->barriers[number];
    if (barrier->arrived != 0 && (barrier->counted != counted || barrier->threads != threads)) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "barrier %u with %u threads where others said %u", number, threads,
                       barrier->threads);
    }
    if ((barrier->arrivals >> warp->index & 1) != 0) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "a warp arrives twice at barrier %u", number);
    }
    collect(warp, in, mask, barrier);
    barrier->counted = counted;
    barrier->threads = threads;
    barrier->expected = threads / VM_LANES;
    barrier->arrivals |= 1u << warp->index;
    barrier->arrived++;
    vm_race_bring(warp, &barrier->clocks);
    if (in->space2 != FORM_ARRIVE) {
        barrier->waiting |= 1u << warp->index;
        warp->barrier = (int)number;
    } else {
        vm_block_check_barriers(block);
    }
    return true;
}

static bool add_numbers(vm_parser *parser, vm_insn *in, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (!vm_add_source(parser, in, &parser->nodes[i], VT_U32, false)) {
            return false;
        }
    }
    return true;
}

static bool hook_barrier(vm_parser *parser, vm_insn *in)
{
    size_t count = parser->node_count;
    in->vector = 0;
    in->space2 = FORM_SYNC;
    return (count >= 1 && count <= 2) ? add_numbers(parser, in, 0, count)
                                      : vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands");
}
static bool hook_arrive(vm_parser *parser, vm_insn *in)
{
    in->vector = 0;
    in->space2 = FORM_ARRIVE;
    return parser->node_count == 2 ? add_numbers(parser, in, 0, 2)
                                   : vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands");
}
static bool hook_red(vm_parser *parser, vm_insn *in)
{
    size_t count = parser->node_count;
    bool popc = in->choice == VX_POPC;
    in->vector = 1;
    in->space2 = popc ? FORM_RED_COUNT : FORM_RED_PREDICATE;
    if (count < 3 || count > 4) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands");
    }
    bool fine = popc ? vm_add_target(parser, in, &parser->nodes[0], VT_U32, false)
                     : vm_add_predicate(parser, in, &parser->nodes[0], true);
    return fine && add_numbers(parser, in, 1, count - 1) &&
           vm_add_predicate(parser, in, &parser->nodes[count - 1], false);
}

#define MEET(pattern, shape, exec)                                                                 \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_MASKED, NULL                                             \
    }
#define BAR(pattern, hook)                                                                         \
    {                                                                                              \
        pattern, NULL, exec_barrier, NULL, 0, SY_BARRIER, hook                                     \
    }

const vm_row vm_rows_sync[] = {
    MEET("shfl.sync.up|down|bfly|idx.b32", "d0 R s0 u u u", exec_shuffle),
    MEET("vote.sync.all|any|uni.pred", "P p u", exec_vote),
    MEET("vote.sync.ballot.b32", "d0 p u", exec_vote),
    MEET("match.any.sync.b32|b64", "U R s0 u", exec_match),
    MEET("match.all.sync.b32|b64", "U R s0 u", exec_match),
    MEET("elect.sync", "U R u", exec_elect),
    {"setmaxnreg.inc|dec.sync.aligned.u32", NULL, exec_registers, NULL, 0, SY_ALIGNED,
     hook_registers},
    MEET("redux.sync.add|min|max.u32|s32", "d0 s0 u", exec_reduce),
    MEET("redux.sync.and|or|xor.b32", "d0 s0 u", exec_reduce),
    MEET("bar.warp.sync", "u", exec_warp_barrier),
    BAR("bar|barrier.cta?.sync.aligned?", hook_barrier),
    BAR("bar|barrier.cta?.arrive.aligned?", hook_arrive),
    BAR("bar|barrier.cta?.red.popc|and|or.aligned?.u32|pred", hook_red),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
