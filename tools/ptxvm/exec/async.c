/* SPDX-License-Identifier: MIT */
/* cp.async: each copy is an actor. From its issue until the issuer's wait its bytes belong to
 * nobody; the bytes themselves move at the wait, or, under a seed, sometimes at the issue. */
#include "tools/ptxvm/exec/async.h"

#include "tools/ptxvm/text/parse.h"

static uint32_t thread_of(const vm_warp *warp, unsigned lane)
{
    return warp->index * VM_LANES + lane;
}

/* Moves the bytes of one copy. Fewer may be read than an access of one size could: the source is
 * aligned to the whole, so the parts are too, the largest first. */
static bool move_bytes(vm_warp *warp, const vm_actor *actor, unsigned lane)
{
    uint8_t bytes[16] = {0};
    uint32_t done = 0;
    for (uint32_t size = 16; size > 0; size /= 2) {
        if ((actor->read & size) == 0) {
            continue;
        }
        const uint8_t *source =
            vm_access(warp, actor->insn, lane, VS_GLOBAL, actor->source + done, size, VA_READ);
        if (source == NULL) {
            return false;
        }
        memcpy(bytes + done, source, size);
        done += size;
    }
    memcpy(warp->block->shared + actor->target, bytes, actor->bytes);
    return true;
}

static vm_actor *add_actor(vm_block *block)
{
    if (block->actor_count == block->actor_capacity) {
        block->actor_capacity = block->actor_capacity == 0 ? 256 : block->actor_capacity * 2;
        block->actors = vm_resize(block->actors, block->actor_capacity * sizeof(vm_actor));
    }
    return &block->actors[block->actor_count++];
}

static bool issue(vm_warp *warp, const vm_insn *in, unsigned lane, vm_actor *actor)
{
    vm_block *block = warp->block;
    /* The write check without a trace of its own; the flight mark leaves the trace. */
    if (vm_access(warp, in, lane, VS_SHARED, actor->target, actor->bytes,
                  VA_WRITE | VA_UNCHECKED) == NULL) {
        return false;
    }
    if (actor->source % actor->bytes != 0) {
        return vm_fail(warp, in, (int)lane, VM_MISALIGNED_ADDRESS,
                       "misaligned source of an asynchronous copy");
    }
    if (!vm_race_flight(warp, in, lane, &block->shared_race, actor->target, actor->bytes,
                        FL_COPY)) {
        return false;
    }
    vm_bits_set(block->shared_defined, actor->target, actor->bytes, false);
    bool early = block->launch->seed != 0 && (vm_random(&block->cluster->random) & 1) != 0;
    if (early && !move_bytes(warp, actor, lane)) {
        return false;
    }
    actor->read = early ? UINT32_MAX : actor->read;
    *add_actor(block) = *actor;
    return true;
}

/* cp.async [shared], [global], bytes {, bytes read} */
static bool exec_copy(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const vm_operand *to = vm_operand_at(warp, in, 0);
    const vm_operand *from = vm_operand_at(warp, in, 1);
    const void *targets = vm_source(warp, in, 0);
    const void *sources = vm_source(warp, in, 1);
    const uint32_t *sizes = vm_source(warp, in, 2);
    const uint32_t *reads = vm_source(warp, in, in->operands > 3 && in->vector == 0 ? 3 : 2);
    uint32_t ignored = in->vector != 0 ? vm_predicate(warp, in, 3) : 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        vm_actor actor;
        memset(&actor, 0, sizeof actor);
        actor.target = (uint32_t)(vm_lane(targets, to->bytes, lane) + (uint64_t)to->displacement);
        actor.source = vm_lane(sources, from->bytes, lane) + (uint64_t)from->displacement;
        actor.bytes = sizes[lane];
        actor.read = (ignored >> lane & 1) != 0 ? 0 : reads[lane];
        actor.thread = thread_of(warp, lane);
        actor.group = warp->block->groups[actor.thread];
        actor.insn = in;
        actor.function = warp->function;
        if (actor.read > actor.bytes) {
            return vm_fail(warp, in, (int)lane, VM_ILLEGAL_INSTRUCTION,
                           "an asynchronous copy reads more than it writes");
        }
        if (!issue(warp, in, lane, &actor)) {
            return false;
        }
    }
    return true;
}

static bool exec_commit(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)in;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        warp->block->groups[thread_of(warp, vm_first_lane(left))]++;
    }
    return true;
}

static bool complete(vm_warp *warp, const vm_actor *actor, unsigned lane)
{
    vm_block *block = warp->block;
    if (actor->read != UINT32_MAX && !move_bytes(warp, actor, lane)) {
        return false;
    }
    vm_bits_set(block->shared_defined, actor->target, actor->bytes, true);
    vm_race_stored(warp, VM_OF_SHARED, 1u << lane); /* through the ordinary proxy */
    return vm_race_flight(warp, actor->insn, lane, &block->shared_race, actor->target, actor->bytes,
                          FL_ENDS);
}

/* cp.async.wait_group n: all but the newest n groups; vector != 0: wait_all, open ones too. */
static bool exec_wait(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    vm_block *block = warp->block;
    const uint32_t *keep = in->operands != 0 ? vm_source(warp, in, 0) : NULL;
    size_t kept = 0;
    for (size_t i = 0; i < block->actor_count; i++) {
        const vm_actor actor = block->actors[i];
        unsigned lane = actor.thread % VM_LANES;
        bool mine = actor.thread / VM_LANES == warp->index && (mask >> lane & 1) != 0;
        uint64_t pending = keep != NULL ? keep[lane] : 0;
        bool due = keep == NULL || actor.group + pending < block->groups[actor.thread];
        if (!mine || !due) {
            block->actors[kept++] = actor;
        } else if (!complete(warp, &actor, lane)) {
            return false;
        }
    }
    block->actor_count = kept;
    return true;
}

bool vm_async_finish(vm_block *block)
{
    if (block->actor_count == 0) {
        return true;
    }
    const vm_actor *actor = &block->actors[0];
    return vm_fail(&block->warps[actor->thread / VM_LANES], actor->insn,
                   (int)(actor->thread % VM_LANES), VM_LAUNCH_FAILED,
                   "%zu asynchronous copies still in flight at the block's end",
                   block->actor_count);
}

/* A literal size of 4, 8 or 16; .cg only 16. How many bytes to read, or a predicate that says to
 * read none, may follow, and a cache policy. */
static bool hook_copy(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    size_t count = parser->node_count;
    if (count < 3 || count > 5 || nodes[2].kind != ND_INTEGER) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of cp.async");
    }
    uint64_t bytes = nodes[2].bits;
    if (bytes != 16 && bytes != 8 && bytes != 4) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "cp.async copies 4, 8 or 16 bytes");
    }
    if (!vm_add_memory(parser, in, &nodes[0]) || !vm_add_memory(parser, in, &nodes[1]) ||
        !vm_add_source(parser, in, &nodes[2], VT_U32, false)) {
        return false;
    }
    if (count > 3 && nodes[3].kind == ND_REGISTER && nodes[3].bytes == 0) {
        in->vector = 1;
        return vm_add_predicate(parser, in, &nodes[3], false);
    }
    bool sized = count > 3 && !(nodes[3].kind == ND_REGISTER && nodes[3].bytes == 8);
    return !sized || vm_add_source(parser, in, &nodes[3], VT_U32, false);
}

static bool hook_none(vm_parser *parser, vm_insn *in)
{
    (void)in;
    return parser->node_count == 0 || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
}

#define ROW(pattern, shape, exec, hook)                                                            \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_NONE, hook                                               \
    }

const vm_row vm_rows_async[] = {
    ROW("cp.async.ca|cg.shared|shared::cta.global.L2::cache_hint?.L2::64B|L2::128B|L2::256B?", NULL,
        exec_copy, hook_copy),
    ROW("cp.async.commit_group", NULL, exec_commit, hook_none),
    ROW("cp.async.wait_group", "u", exec_wait, NULL),
    ROW("cp.async.wait_all", NULL, exec_wait, hook_none),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
