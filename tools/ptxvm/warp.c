/* SPDX-License-Identifier: MIT */
/* A warp as a set of fragments: which lanes stand where, who runs, who waits for whom. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/exec/matrix.h"
#include "tools/ptxvm/warp.h"

/* Instructions of a warp after which waiting lanes no longer wait, and another fragment runs. */
enum { PATIENCE = 1 << 16 };

static const vm_function *function_at(const vm_warp *warp, uint32_t index)
{
    return &warp->block->launch->module->functions[index];
}

/* Points the operand bases at a function's registers and constants. */
static void warp_enter(vm_warp *warp, const vm_fragment *fragment)
{
    const vm_function *function = function_at(warp, fragment->function);
    if (warp->function != function) {
        warp->function = function;
        warp->bases[VW_REGISTER] = warp->registers + function->register_base;
        warp->bases[VW_CONSTANT] = function->constants;
    }
}

void vm_warp_start(vm_warp *warp, uint32_t existing)
{
    const vm_launch *launch = warp->block->launch;
    warp->existing = existing;
    warp->live = existing;
    warp->function = NULL;
    warp->bases[VW_SPECIAL] = warp->specials;
    warp->bases[VW_SINK] = (uint8_t *)warp->sink;
    warp->fragment_count = 1;
    vm_fragment first = {
        existing, 0, 0, -1, (uint32_t)(launch->function - launch->module->functions), FS_READY};
    warp->fragments[0] = first;
    memset(warp->joins, 0, sizeof warp->joins);
    warp->barrier = -1;
    warp->executed = 0;
    warp->patient_until = PATIENCE;
    warp->spin_insn = NULL;
    warp->region.low = warp->region.high = 0;
    warp->cluster_arrived = warp->grid_waited = false;
    warp->again = warp->pauses = warp->matrix_open = false;
    vm_matrix_start(warp);
    vm_race_warp_start(warp);
}

/* ---- control flow ---- */

/* Divides a fragment: `taken` lanes go to target, the others to the next instruction. */
static bool divide(vm_warp *warp, vm_fragment *fragment, const vm_insn *in, uint32_t taken,
                   int32_t target, int32_t meeting)
{
    uint32_t rest = fragment->mask & ~taken;
    if (rest == 0) {
        fragment->pc = target;
        return true;
    }
    if (taken == 0) {
        fragment->pc++;
        return true;
    }
    int32_t join = fragment->join;
    bool same = join >= 0 && !warp->joins[join].is_return && warp->joins[join].pc == meeting &&
                warp->joins[join].function == fragment->function;
    if (meeting != VM_NO_PC && !same) {
        join = vm_join_new(warp, meeting, fragment->function, fragment->mask, fragment->join);
        if (join < 0) {
            return vm_fail(warp, in, VM_FULL, VM_LAUNCH_FAILED, "divergence nested too deep");
        }
    }
    fragment->mask = rest;
    fragment->pc++;
    fragment->join = join;
    vm_fragment_add(warp, taken, target, fragment->function, join);
    return true;
}

/* brx.idx: lanes grouped by where they go. */
static bool branch_indexed(vm_warp *warp, vm_fragment *fragment, const vm_insn *in, uint32_t mask)
{
    const vm_function *function = warp->function;
    const uint32_t *index = vm_source(warp, in, 0);
    const int32_t *table = &function->targets[in->target];
    uint32_t left = mask;
    if (mask != fragment->mask) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION, "guarded indexed branch");
    }
    while (left != 0) {
        unsigned lane = vm_first_lane(left);
        uint32_t wanted = index[lane];
        uint32_t group = 0;
        for (unsigned l = 0; l < VM_LANES; l++) {
            group |= (left >> l & 1) != 0 && index[l] == wanted ? 1u << l : 0;
        }
        if (wanted >= (uint32_t)table[0]) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "indexed branch beyond its table");
        }
        left &= ~group;
        /* divide() sends the rest to the next pc; the last group takes all that is left. */
        int32_t here = fragment->pc;
        if (!divide(warp, fragment, in, group, table[1 + wanted], in->join)) {
            return false;
        }
        if (left != 0) {
            fragment->pc = here;
        }
    }
    return true;
}

static uint8_t *frame_of(const vm_warp *warp, const vm_function *function, unsigned lane)
{
    return warp->frame + (size_t)lane * warp->block->launch->frame_stride + function->frame_base;
}

/* Copies one argument or result between the caller and the callee for every lane of the mask. */
static void pass(vm_warp *warp, const vm_function *caller, const vm_argument *argument,
                 const vm_function *callee, const vm_parameter *parameter, uint32_t mask, bool back)
{
    uint8_t *caller_registers = warp->registers + caller->register_base;
    uint8_t *callee_registers = warp->registers + callee->register_base;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint8_t *outer;
        if (argument->in_frame) {
            outer = frame_of(warp, caller, lane) + argument->frame;
        } else {
            uint8_t *base =
                argument->operand.where == VW_REGISTER ? caller_registers : caller->constants;
            outer = base + argument->operand.offset + (size_t)lane * argument->operand.bytes;
        }
        uint8_t *inner = parameter->is_register ? callee_registers + parameter->offset +
                                                      (size_t)lane * parameter->bytes
                                                : frame_of(warp, callee, lane) + parameter->offset;
        memcpy(back ? outer : inner, back ? inner : outer, parameter->bytes);
    }
}

static bool call(vm_warp *warp, vm_fragment *fragment, const vm_insn *in, uint32_t mask)
{
    const vm_function *caller = warp->function;
    const vm_call *site = &caller->calls[in->target];
    const vm_function *callee = function_at(warp, site->function);
    for (uint32_t i = 0; i < site->inputs; i++) {
        pass(warp, caller, &caller->arguments[site->first_argument + i], callee,
             &callee->params[callee->result_count + i], mask, false);
    }
    int32_t next = fragment->pc + 1;
    uint32_t outer = fragment->function;
    int32_t parent = fragment->join;
    if (mask != fragment->mask) { /* a guarded call: the others wait behind it */
        parent = vm_join_new(warp, next, outer, fragment->mask, parent);
    }
    int32_t back = parent == VM_NO_JOIN && mask != fragment->mask
                       ? VM_NO_JOIN
                       : vm_join_new(warp, next, outer, mask, parent);
    if (back < 0) {
        return vm_fail(warp, in, VM_FULL, VM_LAUNCH_FAILED, "divergence nested too deep");
    }
    warp->joins[back].is_return = true;
    warp->joins[back].call = site;
    if (mask != fragment->mask) {
        vm_fragment_add(warp, fragment->mask & ~mask, next, outer, parent);
        fragment->mask = mask;
    }
    fragment->pc = 0;
    fragment->function = site->function;
    fragment->join = back;
    return true;
}

/* Lanes leave every join inside the function and meet at the call's return. */
static void return_lanes(vm_warp *warp, vm_fragment *fragment, uint32_t mask)
{
    const vm_function *callee = warp->function;
    int32_t at = fragment->join;
    fragment->mask &= ~mask;
    if (fragment->mask == 0) {
        fragment->state = FS_DONE;
    } else {
        fragment->pc++;
    }
    vm_warp_drop_done(warp);
    while (at >= 0 && !warp->joins[at].is_return) {
        int32_t parent = warp->joins[at].parent;
        warp->joins[at].expected &= ~mask;
        vm_join_resolve(warp, at, false);
        at = parent;
    }
    vm_join *back = &warp->joins[at];
    const vm_function *caller = function_at(warp, back->function);
    const vm_call *site = back->call;
    for (uint32_t i = 0; i < site->results; i++) {
        pass(warp, caller, &caller->arguments[site->first_argument + site->inputs + i], callee,
             &callee->params[i], mask, true);
    }
    back->arrived |= mask;
    vm_join_resolve(warp, at, false);
}

static bool flow(vm_warp *warp, vm_fragment *fragment, const vm_insn *in, uint32_t mask)
{
    switch (in->sync) {
    case SY_BRANCH:
        if (in->operands != 0) {
            return branch_indexed(warp, fragment, in, mask);
        }
        return divide(warp, fragment, in, mask, in->target, in->join);
    case SY_CALL:
        if (mask == 0) {
            fragment->pc++;
            return true;
        }
        return call(warp, fragment, in, mask);
    default:
        if (mask == 0) {
            fragment->pc++;
        } else if (in->sync == SY_RETURN && !warp->function->kernel) {
            return_lanes(warp, fragment, mask);
        } else {
            /* The lanes that go on do so before the others leave their joins. */
            if (fragment->mask != mask) {
                fragment->pc++;
            }
            vm_warp_exit(warp, fragment, mask);
        }
        return true;
    }
}

/* ---- meetings ---- */

/* Lets the waiting fragment go on behind the instruction. */
static void advance(vm_fragment *fragment)
{
    fragment->state = FS_READY;
    fragment->pc++;
}

static const vm_insn *insn_of(const vm_warp *warp, const vm_fragment *fragment)
{
    return &function_at(warp, fragment->function)->insns[fragment->pc];
}

static bool same_meeting(const vm_insn *a, const vm_insn *b)
{
    return a->row == b->row && a->flags == b->flags && a->choice == b->choice &&
           a->types[0] == b->types[0];
}

/* Executes one .sync instruction for every fragment that came to it. */
static bool hold_meeting(vm_warp *warp, uint32_t first)
{
    vm_fragment *leader = &warp->fragments[first];
    const vm_insn *key = insn_of(warp, leader);
    uint32_t members = leader->members;
    bool joined[VM_LANES + 1] = {false};
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        const vm_fragment *other = &warp->fragments[i];
        if (other->state == FS_MASKED && other->members == members &&
            same_meeting(insn_of(warp, other), key)) {
            joined[i] = true;
            lanes |= other->mask;
        }
    }
    if ((members & warp->live & ~lanes) != 0) {
        return true;
    }
    warp->meeting.lanes = 0;
    warp->meeting.votes = 0;
    warp->meeting.members = members;
    for (int phase = 0; phase < 2; phase++) {
        warp->meeting.gathering = phase == 0;
        for (uint32_t i = 0; i < warp->fragment_count; i++) {
            vm_fragment *fragment = &warp->fragments[i];
            if (!joined[i]) {
                continue;
            }
            const vm_insn *in = insn_of(warp, fragment);
            warp_enter(warp, fragment);
            if (phase == 0) {
                warp->meeting.lanes |= fragment->mask;
            }
            if (!in->exec(warp, in, fragment->mask)) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        if (joined[i]) {
            advance(&warp->fragments[i]);
        }
    }
    return true;
}

/* Executes an .aligned instruction once every live lane stands at it. */
static bool hold_aligned(vm_warp *warp, uint32_t first)
{
    vm_fragment *leader = &warp->fragments[first];
    const vm_insn *in = insn_of(warp, leader);
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        const vm_fragment *other = &warp->fragments[i];
        if (other->state == FS_ALIGNED && other->pc == leader->pc &&
            other->function == leader->function) {
            lanes |= other->mask;
        }
    }
    if (lanes != warp->live) {
        return true;
    }
    warp_enter(warp, leader);
    warp->meeting.gathering = true;
    warp->barrier = -1;
    if (!in->exec(warp, in, lanes)) {
        return false;
    }
    bool waits = in->sync == SY_BARRIER && warp->barrier >= 0;
    bool again = warp->again;
    warp->again = false;
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        if (again) {
            warp->fragments[i].state = FS_READY;
        } else if (waits) {
            warp->fragments[i].state = FS_BLOCK;
        } else {
            advance(&warp->fragments[i]);
        }
    }
    return true;
}

void vm_warp_release(vm_warp *warp)
{
    warp->barrier = -1;
    warp->meeting.gathering = false;
    const vm_insn *in = insn_of(warp, &warp->fragments[0]);
    warp_enter(warp, &warp->fragments[0]);
    in->exec(warp, in, warp->live);
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        advance(&warp->fragments[i]);
    }
}

/* A fragment reached a meeting: it waits, unless it is all that is expected. */
static bool meet(vm_warp *warp, uint32_t index, const vm_insn *in, uint32_t mask)
{
    vm_fragment *fragment = &warp->fragments[index];
    if (mask == 0) {
        fragment->pc++;
        return true;
    }
    if (mask != fragment->mask) { /* guarded: the lanes without the guard step over it */
        int32_t join =
            vm_join_new(warp, fragment->pc + 1, fragment->function, fragment->mask, fragment->join);
        if (join < 0) {
            return vm_fail(warp, in, VM_FULL, VM_LAUNCH_FAILED, "divergence nested too deep");
        }
        vm_fragment_add(warp, fragment->mask & ~mask, fragment->pc + 1, fragment->function, join);
        fragment->mask = mask;
        fragment->join = join;
    }
    if (in->sync != SY_MASKED) {
        fragment->state = FS_ALIGNED;
        return hold_aligned(warp, index);
    }
    /* The member mask is the last operand; lanes of one fragment may name different ones. */
    const uint32_t *members = vm_source(warp, in, in->operands - 1u);
    uint32_t wanted = members[vm_first_lane(mask)];
    uint32_t other = 0;
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        other |= members[lane] ^ wanted;
    }
    uint32_t group = other == 0 ? mask : 0;
    bool checked = other == 0 && (mask & ~wanted) == 0;
    for (unsigned lane = 0; lane < VM_LANES && !checked; lane++) {
        bool here = (mask >> lane & 1) != 0;
        group |= here && members[lane] == wanted ? 1u << lane : 0;
        if (here && (members[lane] >> lane & 1) == 0) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "a lane outside its own member mask 0x%08x", members[lane]);
        }
    }
    if (group != mask) {
        int32_t join =
            vm_join_new(warp, fragment->pc + 1, fragment->function, fragment->mask, fragment->join);
        if (join < 0) {
            return vm_fail(warp, in, VM_FULL, VM_LAUNCH_FAILED, "divergence nested too deep");
        }
        fragment->join = join;
        fragment->mask = group;
        vm_fragment_add(warp, mask & ~group, fragment->pc, fragment->function, join);
    }
    fragment->members = wanted;
    fragment->state = FS_MASKED;
    return hold_meeting(warp, index);
}

/* ---- the loop ---- */

static uint32_t guard_mask(const vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    if (in->guard < 0) {
        return mask;
    }
    uint32_t value;
    memcpy(&value, warp->bases[VW_REGISTER] + in->guard, sizeof value);
    return mask & (in->guard_not ? ~value : value);
}

/* Runs a ready fragment until it blocks, ends, divides, or the quantum is spent. */
static bool run_fragment(vm_warp *warp, uint32_t index, uint64_t *quantum)
{
    warp_enter(warp, &warp->fragments[index]);
    for (;;) {
        vm_fragment *fragment = &warp->fragments[index];
        const vm_insn *in = &warp->function->insns[fragment->pc];
        uint32_t mask = guard_mask(warp, in, fragment->mask);
        uint8_t *hit = &warp->function->hits[fragment->pc];
        if (__atomic_load_n(hit, __ATOMIC_RELAXED) == 0) {
            __atomic_store_n(hit, 1, __ATOMIC_RELAXED);
        }
        warp->executed++;
        if (warp->function->matrix && mask != 0 && in->touches && !vm_matrix_touch(warp, in)) {
            return false;
        }
        if (in->sync == SY_NONE) {
            if (mask != 0 && !in->exec(warp, in, mask)) {
                return false;
            }
            *quantum = warp->pauses ? 1 : *quantum;
            warp->pauses = false;
            fragment->pc++;
            if (fragment->join >= 0 && warp->joins[fragment->join].pc == fragment->pc &&
                vm_warp_arrive(warp, fragment)) {
                vm_warp_arrive_all(warp);
                return true;
            }
        } else {
            if (in->sync >= SY_MASKED ? !meet(warp, index, in, mask)
                                      : !flow(warp, fragment, in, mask)) {
                return false;
            }
            *quantum = warp->pauses ? 0 : *quantum;
            warp->pauses = false;
            vm_warp_arrive_all(warp);
            return true;
        }
        if (--*quantum == 0) {
            return true;
        }
    }
}

static int pick_ready(vm_warp *warp)
{
    uint32_t ready[VM_LANES + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        if (warp->fragments[i].state == FS_READY) {
            ready[count++] = i;
        }
    }
    if (count == 0) {
        return -1;
    }
    vm_cluster *cluster = warp->block->cluster;
    bool seeded = warp->block->launch->seed != 0 && count > 1;
    /* In natural order the first, but no fragment for ever: another may hold what it waits for. */
    uint64_t turn = warp->executed / PATIENCE;
    return (int)ready[(seeded ? vm_random(&cluster->random) : turn) % count];
}

static bool report_stuck(vm_warp *warp)
{
    char text[600];
    size_t used = 0;
    text[0] = '\0';
    bool aligned = false;
    for (uint32_t i = 0; i < warp->fragment_count && used + 60 < sizeof text; i++) {
        const vm_fragment *fragment = &warp->fragments[i];
        aligned = aligned || fragment->state == FS_ALIGNED;
        used += (size_t)snprintf(text + used, sizeof text - used, "%slanes %08x at line %u",
                                 i == 0 ? "" : ", ", fragment->mask, insn_of(warp, fragment)->line);
    }
    const vm_insn *in = insn_of(warp, &warp->fragments[0]);
    return vm_fail(warp, in, VM_FULL, VM_LAUNCH_TIMEOUT, "%s: %s",
                   aligned ? "an aligned instruction with live lanes elsewhere" : "deadlock", text);
}

/* Every waiting group looks again: lanes may have exited or come since. */
static bool retry_meetings(vm_warp *warp, bool *progress)
{
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        vm_state state = warp->fragments[i].state;
        bool fine = state == FS_MASKED    ? hold_meeting(warp, i)
                    : state == FS_ALIGNED ? hold_aligned(warp, i)
                                          : true;
        if (!fine) {
            return false;
        }
        if (i < warp->fragment_count && warp->fragments[i].state != state) {
            *progress = true;
            return true;
        }
    }
    return true;
}

/* Lanes that have waited long for their siblings go on: what these wait for in a loop may be theirs
 * to give, as where one lane of a warp holds a lock. */
static void lose_patience(vm_warp *warp)
{
    if (warp->executed > warp->patient_until) {
        warp->patient_until = warp->executed + PATIENCE;
        (void)vm_warp_break_join(warp);
    }
}

bool vm_warp_run(vm_warp *warp, uint64_t quantum)
{
    vm_launch *launch = warp->block->launch;
    while (warp->live != 0 && warp->barrier < 0 && quantum > 0) {
        int index = pick_ready(warp);
        if (index >= 0) {
            if (!run_fragment(warp, (uint32_t)index, &quantum)) {
                return false;
            }
            if (warp->executed > launch->budget) {
                return vm_fail(warp, insn_of(warp, &warp->fragments[0]), VM_FULL, VM_LAUNCH_TIMEOUT,
                               "more than %llu instructions in one warp",
                               (unsigned long long)launch->budget);
            }
            if (__atomic_load_n(&launch->result, __ATOMIC_RELAXED) != VM_OK) {
                return false;
            }
            lose_patience(warp);
            continue;
        }
        bool progress = false;
        if (!retry_meetings(warp, &progress)) {
            return false;
        }
        if (progress) {
            vm_warp_arrive_all(warp);
        } else if (warp->barrier < 0 && !vm_warp_break_join(warp)) {
            return report_stuck(warp);
        }
    }
    return true;
}
