/* SPDX-License-Identifier: MIT */
/* As little offloaded as fits. Kinds go there in order: frozen weights first, which wear nothing,
 * then states, then the weights that are trained, then gradients and checkpoints, where they are
 * named. Of the last kind, of which not all has to, as many of each size are chosen as move the
 * fewest bytes in a step in which nothing is kept (core/plan/search/offload_select.h); where more
 * of it and what is kept then move fewer, there may be more.
 *
 * What is below frees its bytes, and those in flight take some. So the choice for what is missing
 * without any of that kind bounds all choices from below; where it does not fit for what is in
 * flight, that is added to what is missing, and it is made again. */
#include <stdlib.h>
#include <string.h>

#include "core/plan/search/offload_select.h"
#include "tools/bedplate/planning/offload_choice.h"
#include "tools/bedplate/session/dry_run.h"

#define LEAST_NODES  1000000
#define LEAST_TRIES  40
#define LEAST_LEVELS 8

typedef struct least {
    bp_offload_kind kind;
    uint64_t moved; /* bytes a step, for all that is below of it */
    uint32_t count; /* of sizes */
    uint64_t elements[BP_OFFLOAD_PARTS];
    bp_offload_class classes[BP_OFFLOAD_PARTS];
} least;

static bool least_offloaded(const bp_buffer *buffer)
{
    return buffer->space != BP_SPACE_DEVICE;
}

/* The buffers that be offloaded with a parameter, of a kind. */
static uint32_t least_buffers(const bp_parameter *p, bp_offload_kind kind, uint32_t buffers[4])
{
    if (kind == BP_OFFLOAD_STATES) {
        const uint32_t all[4] = {p->master, p->state[0], p->state[1], p->state[2]};
        memcpy(buffers, all, sizeof all);
        return p->aside ? 4 : 0;
    }
    if (kind == BP_OFFLOAD_GRADIENTS) {
        buffers[0] = p->sum != BP_NO_BUFFER ? p->sum : p->gradient;
        return p->gradient_offloaded ? 1 : 0;
    }
    buffers[0] = p->weight;
    buffers[1] = p->scales;
    buffers[2] = p->nested;
    const bool codes = p->quantised != BP_QUANTISED_NONE;
    return !p->offloaded || p->trainable != (kind == BP_OFFLOAD_WEIGHTS) ? 0 : codes ? 3 : 1;
}

/* Another parameter of a size; the sizes beyond the room are left where they are. */
static void least_add(least *l, uint64_t elements, uint64_t bytes, uint64_t cost)
{
    uint32_t i = 0;
    l->moved += cost;
    while (i < l->count && l->elements[i] != elements) {
        i++;
    }
    if (bytes == 0 || i == BP_OFFLOAD_PARTS) {
        return;
    }
    bp_offload_class *c = &l->classes[i];
    if (i == l->count) {
        l->count++;
        l->elements[i] = elements;
        *c = (bp_offload_class){.bytes = bytes, .cost = cost};
    }
    c->bytes = bytes > c->bytes ? bytes : c->bytes; /* rules may give two of a size other forms, */
    /* and the first layer trained needs no gradient of its input: a bound takes the least */
    c->cost = cost < c->cost ? cost : c->cost;
    c->count++;
}

/* The sizes of what is offloaded of a kind when all of it does. */
static bp_status least_sizes(least *l, const bp_spec *spec, bp_error *error)
{
    static bp_plan plan; /* large */
    memory_block memory = {NULL, 0};
    BP_TRY(dry_run_take(&plan, spec, 0, &memory, error));
    bp_status status = bp_plan_write_counted(&plan, memory.address, memory.bytes);
    uint64_t *moved = calloc(plan.graph.used.buffers + 1, sizeof *moved);
    if (status == BP_OK && moved == NULL) {
        status =
            bp_error_set(error, BP_ERR_FIT, "offload", "no memory to choose what lives there", "");
    } else if (status != BP_OK && error->code == BP_OK) {
        *error = plan.error;
    }
    for (uint32_t i = 0; status == BP_OK && i < plan.builder.parameter_count; i++) {
        const bp_parameter *p = &plan.builder.parameters[i];
        uint32_t buffers[4];
        uint64_t bytes = 0, cost = 0;
        if (i == 0) {
            (void)offload_moved(&plan, moved);
        }
        const uint32_t count = least_buffers(p, l->kind, buffers);
        for (uint32_t k = 0; k < count; k++) {
            if (buffers[k] != BP_NO_BUFFER && least_offloaded(&plan.graph.buffers[buffers[k]])) {
                bytes += bp_report_rounded(&plan.graph, &plan.graph.buffers[buffers[k]]);
                cost += moved[buffers[k]];
            }
        }
        least_add(l, p->count, bytes, cost);
    }
    free(moved);
    memory_give_back(&memory);
    return status;
}

static void least_put(const least *l, bp_offload *offload)
{
    offload->part_kind = l->kind;
    offload->part_count = l->count;
    for (uint32_t i = 0; i < l->count; i++) {
        offload->part[i] = (bp_offload_part){
            .elements = l->elements[i], .of = l->classes[i].count, .chosen = l->classes[i].taken};
    }
}

static uint64_t least_freed(const least *l, bool all)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        bytes += (all ? l->classes[i].count : l->classes[i].taken) * l->classes[i].bytes;
    }
    return bytes;
}

/* Some of the kind that `spec` has all of, which fits: `missing` bytes with none of it. */
static bp_status least_choose(least *l, bp_spec *spec, uint64_t budget, uint64_t missing,
                              uint64_t *arena, offload_chosen *chosen, bp_error *error)
{
    const bp_offload all = spec->offload;
    uint64_t need = missing;
    BP_TRY(least_sizes(l, spec, error));
    *chosen = (offload_chosen){.made = l->count > 0, .kind = l->kind};
    for (uint32_t tries = 0; l->count > 0 && tries < LEAST_TRIES; tries++) {
        bp_offload_selected found;
        if (!bp_offload_choose(l->classes, l->count, need, LEAST_NODES, &found)) {
            break;
        }
        chosen->least = tries == 0 ? found.bound : chosen->least;
        least_put(l, &spec->offload);
        BP_TRY(dry_run_arena(spec, budget, arena, error));
        if (*arena <= budget) {
            return BP_OK;
        }
        need = least_freed(l, false) + (*arena - budget);
    }
    spec->offload = all;
    return dry_run_arena(spec, budget, arena, error);
}

/* What is kept from use to use in the room that more of it makes may save more than it costs: of
 * some steps towards all of it, counted in the room that was found for the least, the one that
 * moves least is planned. None that writes more: that wears a drive, and reading does not. */
static bp_status least_more(least *l, bp_spec *spec, uint64_t budget, offload_bytes moved,
                            uint64_t *arena, bp_error *error)
{
    const uint64_t freed = least_freed(l, false), all = least_freed(l, true);
    bp_spec trial = *spec, best = *spec;
    offload_bytes least_moved = moved;
    uint64_t bytes = 0;
    bp_offload_selected found;
    for (uint32_t k = 1; k <= LEAST_LEVELS && all > freed && spec->offload.room > 0; k++) {
        const uint64_t need = freed + (all - freed) / LEAST_LEVELS * k;
        offload_bytes now;
        (void)bp_offload_choose(l->classes, l->count, need, LEAST_NODES, &found);
        least_put(l, &trial.offload);
        BP_TRY(offload_moves(&trial, &now, error));
        if (now.moved < least_moved.moved && now.written <= moved.written) {
            least_moved = now;
            best = trial;
        }
    }
    if (least_moved.moved == moved.moved) {
        return BP_OK;
    }
    BP_TRY(offload_resident(&best, budget, &bytes, &least_moved, error));
    if (bytes <= budget && least_moved.moved < moved.moved) {
        *spec = best;
        *arena = bytes;
    }
    return BP_OK;
}

/* As much of a kind as has to; *arena is that with all of it, and becomes that of the choice. */
static bp_status least_kind(least *l, bp_spec *spec, uint64_t budget, uint64_t missing,
                            uint64_t *arena, offload_chosen *chosen, bp_error *error)
{
    const bool parts = l->kind < BP_OFFLOAD_KINDS;
    offload_bytes moved;
    if (parts) {
        BP_TRY(least_choose(l, spec, budget, missing, arena, chosen, error));
    }
    BP_TRY(offload_resident(spec, budget, arena, &moved, error));
    if (parts) {
        least now = {.kind = l->kind};
        BP_TRY(least_more(l, spec, budget, moved, arena, error));
        BP_TRY(least_sizes(&now, spec, error));
        chosen->moved = now.moved;
    }
    return BP_OK;
}

bp_status offload_select(bp_choice *c, offload_chosen *chosen, bp_error *error)
{
    const bp_offload all = c->fit.spec.offload;
    const uint64_t budget = c->request.budget;
    bp_spec spec = c->fit.spec;
    const struct {
        uint32_t *share;
        uint32_t most;
    } kinds[] = {{&spec.offload.bases, all.bases},
                 {&spec.offload.states, all.states},
                 {&spec.offload.weights, all.weights},
                 {&spec.offload.gradients, all.gradients},
                 {&spec.offload.checkpoints, all.checkpoints}};
    uint64_t before = 0, bytes = 0;
    spec.offload.bases = spec.offload.states = spec.offload.weights = 0;
    spec.offload.gradients = spec.offload.checkpoints = 0;
    BP_TRY(dry_run_arena(&spec, budget, &before, error));
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *kinds[i].share = kinds[i].most;
        BP_TRY(dry_run_arena(&spec, budget, &bytes, error));
        if (kinds[i].most > 0 && bytes <= budget && before > budget) {
            least l = {.kind = (bp_offload_kind)i};
            BP_TRY(least_kind(&l, &spec, budget, before - budget, &bytes, chosen, error));
            c->fit.best.arena_bytes = bytes;
            break;
        }
        before = bytes;
    }
    c->fit.spec.offload = spec.offload;
    return BP_OK;
}
