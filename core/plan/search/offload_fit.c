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
#include "core/plan/search/offload_fit.h"

#include <string.h>

#include "core/plan/search/offload_select.h"

#define LEAST_NODES  1000000
#define LEAST_TRIES  40
#define LEAST_LEVELS 8
#define KEEP_TRIES   5
/* A room in which nothing is kept, with which matrices come whole: 0 brings them in slices. */
#define ROOM_WHOLE 1

/* Bytes that a step moves for each buffer of a plan: moved[buffers], which is zero before. Returns
 * how many of them all are written. */
static uint64_t offload_moved(const bp_plan *plan, uint64_t *moved)
{
    const bp_graph *graph = &plan->graph;
    uint64_t written = 0;
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        const uint64_t runs = bp_compile_runs(&plan->spec, (bp_program_kind)program);
        for (uint32_t i = 0; runs > 0 && i < graph->program_count[program]; i++) {
            const bp_op *op = &graph->ops[graph->program_first[program] + i];
            const bp_kernel_info *info = bp_kernel_describe(op->kernel);
            if (info->pending != BP_PENDING_BEGIN || info->engine != BP_ENGINE_COPY) {
                continue;
            }
            const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
            for (uint32_t k = 0; k < 2; k++) {
                const uint32_t buffer = graph->refs[op->operand + k].buffer;
                const bool offload = graph->buffers[buffer].space != BP_SPACE_DEVICE;
                const uint64_t bytes = offload ? runs * (uint64_t)s->rows * (uint64_t)s->width : 0;
                moved[buffer] += bytes;
                written += k == 0 ? bytes : 0; /* the first operand is where it goes */
            }
        }
    }
    return written;
}

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
    const bool scaled = codes && bp_quantised_scaled(p->quantised);
    return !p->offloaded || p->trainable != (kind == BP_OFFLOAD_WEIGHTS) ? 0 : scaled ? 3 : 1;
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

/* What a search asks for again and again. */
typedef struct offload_work {
    const bp_lender *memory;
    void (*watch)(void);
    bp_error *error;
    uint64_t budget;
} offload_work;

/* A plan's programs, and what a step moves for each of its buffers. */
typedef struct offload_programs {
    bp_lent_plan lent;
    uint64_t *moved;
    uint64_t moved_bytes;
    uint64_t written; /* of all that is moved */
} offload_programs;

static void offload_programs_end(const offload_work *w, offload_programs *p)
{
    if (p->moved != NULL) {
        w->memory->give_back(w->memory->user, p->moved, p->moved_bytes);
    }
    bp_lent_plan_end(&p->lent, w->memory);
}

/* Writes the programs of a spec; with `arena` plans them as well. */
static bp_status offload_programs_make(const offload_work *w, const bp_spec *spec, uint64_t *arena,
                                       offload_programs *p)
{
    void *moved = NULL;
    *p = (offload_programs){.written = 0};
    if (w->watch != NULL) {
        w->watch();
    }
    BP_TRY(bp_lent_plan_count(&p->lent, spec, w->memory, w->error));
    bp_plan *plan = p->lent.plan;
    bp_status status = arena != NULL ? bp_plan_measure(plan, (bp_report_wish){.limit = 0},
                                                       p->lent.memory, p->lent.bytes)
                                     : bp_plan_write_counted(plan, p->lent.memory, p->lent.bytes);
    if (status != BP_OK && w->error->code == BP_OK) {
        *w->error = plan->error;
    }
    p->moved_bytes = ((uint64_t)plan->graph.used.buffers + 1) * sizeof *p->moved;
    status = status == BP_OK ? w->memory->take(w->memory->user, p->moved_bytes, &moved, w->error)
                             : status;
    if (status != BP_OK) {
        offload_programs_end(w, p);
        return status;
    }
    p->moved = memset(moved, 0, (size_t)p->moved_bytes);
    p->written = offload_moved(plan, p->moved);
    if (arena != NULL) {
        *arena = plan->report.arena_bytes;
    }
    return BP_OK;
}

/* Of a step. */
typedef struct offload_bytes {
    uint64_t moved; /* read and written */
    uint64_t written;
} offload_bytes;

/* What a step of a spec moves; with `arena` of a plan, else were it to have no waste. */
static bp_status offload_moves(const offload_work *w, const bp_spec *spec, uint64_t *arena,
                               offload_bytes *sum)
{
    offload_programs p;
    *sum = (offload_bytes){0};
    BP_TRY(offload_programs_make(w, spec, arena, &p));
    sum->written = p.written;
    for (uint32_t i = 0; i < p.lent.plan->graph.used.buffers; i++) {
        sum->moved += p.moved[i];
    }
    offload_programs_end(w, &p);
    return BP_OK;
}

/* Whether a spec fits is all that is asked of what fits. */
static bp_status offload_arena(const offload_work *w, const bp_spec *spec, uint64_t *arena)
{
    const bp_report_wish wish = {.limit = w->budget, .enough = w->budget};
    bp_report report;
    if (w->watch != NULL) {
        w->watch();
    }
    BP_TRY(bp_choice_report(spec, wish, w->memory, &report, w->error));
    *arena = report.arena_bytes;
    return BP_OK;
}

/* Sets spec->offload.room so that the plan has at most the budget's bytes, as that of the spec
 * has: it stays where no room is found that leads there. The room is that of the budget;
 * where buffers cannot be laid out in it without waste, it is less by what is wasted. */
static bp_status offload_resident(const offload_work *w, bp_spec *spec, uint64_t *arena,
                                  offload_bytes *moved)
{
    bp_spec trial = *spec;
    trial.offload.room = w->budget;
    trial.plan_nodes = 0; /* a search for a better layout finds none that is worse */
    for (uint32_t tries = 1; tries <= KEEP_TRIES; tries++) {
        BP_TRY(offload_moves(w, &trial, arena, moved));
        if (*arena <= w->budget) {
            spec->offload.room = trial.offload.room;
            return BP_OK;
        }
        const uint64_t less = tries * (*arena - w->budget);
        trial.offload.room -= less < trial.offload.room ? less : trial.offload.room - 1;
    }
    return offload_moves(w, spec, arena, moved);
}

/* The sizes of what is offloaded of a kind when all of it does. */
static bp_status least_sizes(const offload_work *w, least *l, const bp_spec *spec)
{
    offload_programs p;
    BP_TRY(offload_programs_make(w, spec, NULL, &p));
    const bp_plan *plan = p.lent.plan;
    for (uint32_t i = 0; i < plan->builder.parameter_count; i++) {
        const bp_parameter *parameter = &plan->builder.parameters[i];
        uint32_t buffers[4];
        uint64_t bytes = 0, cost = 0;
        const uint32_t count = least_buffers(parameter, l->kind, buffers);
        for (uint32_t k = 0; k < count; k++) {
            if (buffers[k] != BP_NO_BUFFER && least_offloaded(&plan->graph.buffers[buffers[k]])) {
                bytes += bp_report_rounded(&plan->graph, &plan->graph.buffers[buffers[k]]);
                cost += p.moved[buffers[k]];
            }
        }
        least_add(l, parameter->count, bytes, cost);
    }
    offload_programs_end(w, &p);
    return BP_OK;
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
static bp_status least_choose(const offload_work *w, least *l, bp_spec *spec, uint64_t missing,
                              uint64_t *arena, bp_offload_chosen *chosen)
{
    const bp_offload all = spec->offload;
    uint64_t need = missing;
    BP_TRY(least_sizes(w, l, spec));
    *chosen = (bp_offload_chosen){.made = l->count > 0, .kind = l->kind};
    for (uint32_t tries = 0; l->count > 0 && tries < LEAST_TRIES; tries++) {
        bp_offload_selected found;
        if (!bp_offload_choose(l->classes, l->count, need, LEAST_NODES, &found)) {
            break;
        }
        chosen->least = tries == 0 ? found.bound : chosen->least;
        least_put(l, &spec->offload);
        BP_TRY(offload_arena(w, spec, arena));
        if (*arena <= w->budget) {
            return BP_OK;
        }
        need = least_freed(l, false) + (*arena - w->budget);
    }
    spec->offload = all;
    return offload_arena(w, spec, arena);
}

/* What is kept from use to use in the room that more of it makes may save more than it costs: of
 * some steps towards all of it, counted in the room that was found for the least, the one that
 * moves least is planned. None that writes more: that wears a drive, and reading does not. */
static bp_status least_more(const offload_work *w, least *l, bp_spec *spec, offload_bytes moved,
                            uint64_t *arena)
{
    const uint64_t freed = least_freed(l, false), all = least_freed(l, true);
    bp_spec trial = *spec, best = *spec;
    offload_bytes least_moved = moved;
    uint64_t bytes = 0;
    bp_offload_selected found;
    for (uint32_t k = 1; k <= LEAST_LEVELS && all > freed && spec->offload.room > ROOM_WHOLE; k++) {
        const uint64_t need = freed + (all - freed) / LEAST_LEVELS * k;
        offload_bytes now;
        (void)bp_offload_choose(l->classes, l->count, need, LEAST_NODES, &found);
        least_put(l, &trial.offload);
        BP_TRY(offload_moves(w, &trial, NULL, &now));
        if (now.moved < least_moved.moved && now.written <= moved.written) {
            least_moved = now;
            best = trial;
        }
    }
    if (least_moved.moved == moved.moved) {
        return BP_OK;
    }
    BP_TRY(offload_resident(w, &best, &bytes, &least_moved));
    if (bytes <= w->budget && least_moved.moved < moved.moved) {
        *spec = best;
        *arena = bytes;
    }
    return BP_OK;
}

/* As much of a kind as has to; *arena is that with all of it, and becomes that of the choice. */
static bp_status least_kind(const offload_work *w, least *l, bp_spec *spec, uint64_t missing,
                            uint64_t *arena, bp_offload_chosen *chosen)
{
    const bool parts = l->kind < BP_OFFLOAD_KINDS;
    offload_bytes moved;
    if (parts) {
        BP_TRY(least_choose(w, l, spec, missing, arena, chosen));
    }
    BP_TRY(offload_resident(w, spec, arena, &moved));
    if (parts) {
        least now = {.kind = l->kind};
        BP_TRY(least_more(w, l, spec, moved, arena));
        BP_TRY(least_sizes(w, &now, spec));
        chosen->moved = now.moved;
    }
    return BP_OK;
}

/* Matrices come whole where that fits with all of it: only then are copies kept. */
static bp_status offload_whole(const offload_work *w, bp_spec *spec)
{
    uint64_t bytes = 0;
    spec->offload.room = ROOM_WHOLE;
    BP_TRY(offload_arena(w, spec, &bytes));
    spec->offload.room = bytes <= w->budget ? ROOM_WHOLE : 0;
    return BP_OK;
}

/* As little of it as fits, of a choice that fits with all of it; its record follows. */
static bp_status offload_select(const offload_work *w, bp_choice *c, bp_offload_chosen *chosen)
{
    const bp_offload all = c->fit.spec.offload;
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
    BP_TRY(offload_whole(w, &spec));
    spec.offload.bases = spec.offload.states = spec.offload.weights = 0;
    spec.offload.gradients = spec.offload.checkpoints = 0;
    BP_TRY(offload_arena(w, &spec, &before));
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        *kinds[i].share = kinds[i].most;
        BP_TRY(offload_arena(w, &spec, &bytes));
        if (kinds[i].most > 0 && bytes <= w->budget && before > w->budget) {
            least l = {.kind = (bp_offload_kind)i};
            BP_TRY(least_kind(w, &l, &spec, before - w->budget, &bytes, chosen));
            c->fit.best.arena_bytes = bytes;
            break;
        }
        before = bytes;
    }
    c->fit.spec.offload = spec.offload;
    return BP_OK;
}

bp_status bp_choice_offload(bp_choice *c, const bp_fit_request *request, const bp_offload *most,
                            const bp_rates *calibrated, const bp_lender *memory,
                            bp_offload_chosen *chosen, bp_error *error)
{
    const offload_work w = {memory, request->watch, error, request->budget};
    bp_fit_request all = *request;
    all.spec.offload = *most;
    bp_choice_end(c, memory);
    *chosen = (bp_offload_chosen){.made = false};
    BP_TRY(bp_choice_run(c, &all, calibrated, memory, error));
    return c->fits ? offload_select(&w, c, chosen) : BP_OK;
}
