/* SPDX-License-Identifier: MIT */
/* One form after the other, each planned in memory that is given back at once. */
#include "core/plan/search/share.h"

#include <string.h>

#define AHEAD_TRIED 2 /* most weights gathered ahead that are chosen */
#define FIT_ROUNDS  4 /* ranks that are fitted until a choice has room on every other */

static bool share_shares(const bp_spec *spec)
{
    return spec->ranks > 1 && spec->sharing != BP_SHARING_NONE;
}

/* Makes a plan that the caller ends. */
static bp_status share_plan(bp_lent_plan *lent, const bp_spec *spec, const bp_lender *memory,
                            bp_error *error)
{
    BP_TRY(bp_lent_plan_count(lent, spec, memory, error));
    const bp_status status = bp_plan_make_counted(lent->plan, lent->memory, lent->bytes);
    if (status != BP_OK) {
        *error = error->code == BP_OK ? lent->plan->error : *error;
        bp_lent_plan_end(lent, memory);
    }
    return status;
}

bp_status bp_share_largest(bp_spec *spec, const bp_lender *memory, bp_error *error)
{
    bp_lent_plan lent;
    if (!share_shares(spec)) {
        return BP_OK;
    }
    BP_TRY(share_plan(&lent, spec, memory, error));
    const bp_shards *shards = &lent.plan->builder.shards;
    for (uint32_t rank = 0; rank < shards->ranks; rank++) {
        const bool first = rank == 0;
        spec->rank = first || shards->load[rank] > shards->load[spec->rank] ? rank : spec->rank;
    }
    bp_lent_plan_end(&lent, memory);
    return BP_OK;
}

/* The largest arena that a plan of any rank has, and that rank. */
static bp_status share_most(const bp_spec *given, void (*watch)(void), const bp_lender *memory,
                            uint32_t *rank, uint64_t *most, bp_error *error)
{
    bp_spec spec = *given;
    *rank = given->rank;
    *most = 0;
    for (spec.rank = 0; spec.rank < (share_shares(given) ? given->ranks : 1); spec.rank++) {
        bp_report report;
        if (watch != NULL) {
            watch();
        }
        BP_TRY(bp_choice_report(&spec, (bp_report_wish){.limit = 0}, memory, &report, error));
        if (report.arena_bytes > *most) {
            *rank = spec.rank;
            *most = report.arena_bytes;
        }
    }
    return BP_OK;
}

bp_status bp_share_fit(bp_choice *c, const bp_fit_request *request, const bp_offload *most,
                       const bp_rates *calibrated, const bp_lender *memory,
                       bp_offload_chosen *chosen, bp_error *error)
{
    bp_fit_request now = *request;
    *c = (bp_choice){.made = false};
    BP_TRY(bp_share_largest(&now.spec, memory, error));
    bool again = true;
    for (uint32_t round = 0; round < FIT_ROUNDS && again; round++) {
        const uint32_t rank = now.spec.rank;
        uint64_t bytes = 0;
        bp_choice_end(c, memory);
        BP_TRY(bp_choice_run(c, &now, calibrated, memory, error));
        if (!c->fits && most != NULL) {
            BP_TRY(bp_choice_offload(c, &now, most, calibrated, memory, chosen, error));
        }
        if (!share_shares(&now.spec)) {
            return BP_OK;
        }
        BP_TRY(share_most(&c->fit.spec, request->watch, memory, &now.spec.rank, &bytes, error));
        c->fits = bytes <= request->budget;
        c->fit.best.fits = c->fits;
        c->fit.best.arena_bytes = bytes;
        c->fit.spec.rank = now.spec.rank;
        again = !c->fits && now.spec.rank != rank;
    }
    return BP_OK;
}

/* What the chosen options of a form take. */
static bp_status share_try(const bp_share_search *s, bp_share_try *form)
{
    bp_lent_plan lent;
    bp_wire wire = s->wire;
    bp_spec spec = *s->spec;
    BP_TRY(bp_share_largest(&spec, s->memory, s->error));
    BP_TRY(share_plan(&lent, &spec, s->memory, s->error));
    bp_wire_count(lent.plan, &wire);
    bp_wire_time(lent.plan, &wire, s->clocks);
    bp_lent_plan_end(&lent, s->memory);
    *form = (bp_share_try){
        .known = true, .fits = true, .computing = wire.computing, .exchange = wire.exchange};
    if (s->choice->made) {
        form->fits = s->choice->fits;
        form->arena_bytes = s->choice->fit.best.arena_bytes;
        return BP_OK;
    }
    return share_most(&spec, NULL, s->memory, &spec.rank, &form->arena_bytes, s->error);
}

static bool share_beats(const bp_share_try *a, const bp_share_try *b)
{
    if (!b->known || a->fits != b->fits) {
        return !b->known || a->fits;
    }
    return a->fits ? a->computing + a->exchange < b->computing + b->exchange
                   : a->arena_bytes < b->arena_bytes;
}

/* The choice with so many weights gathered ahead, in place of the one before. */
static bp_status share_again(const bp_share_search *s, const bp_spec *given, uint32_t ahead)
{
    bp_choice_end(s->choice, s->memory);
    *s->spec = *given;
    s->spec->gather_ahead = ahead;
    return s->choose(s->user);
}

bp_status bp_share_ahead(const bp_share_search *s)
{
    const bp_spec given = *s->spec;
    const bool free =
        given.sharing == BP_SHARING_PARAMETERS && given.ranks > 1 && s->arena > 0 && s->free_ahead;
    if (!free) {
        return s->choose(s->user);
    }
    BP_TRY(share_again(s, &given, 0));
    const bool fits = s->choice->fits;
    const double seconds = s->choice->fit.best.seconds;
    for (uint32_t ahead = AHEAD_TRIED; fits && ahead > 0; ahead--) {
        BP_TRY(share_again(s, &given, ahead));
        if (s->choice->fits && s->choice->fit.best.seconds <= seconds) {
            return BP_OK;
        }
    }
    return fits ? share_again(s, &given, 0) : BP_OK;
}

bp_status bp_share_find(const bp_share_search *s, bp_share_choice *all)
{
    const bp_spec given = *s->spec;
    bp_spec spec = given;
    bp_choice kept = {.made = false};
    *all = (bp_share_choice){.made = true};
    for (uint32_t form = 0; form < (given.ranks > 1 ? (uint32_t)BP_SHARINGS : 1); form++) {
        bp_share_try *one = &all->form[form];
        *s->spec = given;
        s->spec->sharing = (bp_sharing)form;
        *s->choice = (bp_choice){.made = false};
        bp_status status = bp_share_ahead(s);
        status = status == BP_OK ? share_try(s, one) : status;
        if (status == BP_ERR_USAGE && form > 0) {
            *s->error = (bp_error){.code = BP_OK}; /* the rule or the model does not go with it */
            bp_choice_end(s->choice, s->memory);
            continue;
        }
        if (status != BP_OK) {
            bp_choice_end(&kept, s->memory);
            return status;
        }
        if (form > 0 && !share_beats(one, &all->form[all->chosen])) {
            bp_choice_end(s->choice, s->memory);
            continue;
        }
        bp_choice_end(&kept, s->memory);
        kept = *s->choice;
        spec = *s->spec;
        all->chosen = form;
    }
    *s->choice = kept;
    *s->spec = spec;
    return BP_OK;
}

/* Bytes of the parts of tensors that this rank has. */
static uint64_t share_owned_bytes(const bp_graph *graph)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        bytes += graph->buffers[i].part.whole > 0 ? graph->buffers[i].bytes : 0;
    }
    return bytes;
}

static void share_note_rank(const bp_plan *made, bp_share_rank *to)
{
    bp_wire wire = {.ranks = made->spec.ranks};
    bp_wire_count(made, &wire);
    to->arena_bytes = made->report.arena_bytes;
    to->owned_bytes = share_owned_bytes(&made->graph);
    to->sent_bytes = wire.sent;
    memcpy(to->class_most, made->report.class_most, sizeof to->class_most);
}

bp_status bp_share_ranks(const bp_plan *made, const bp_lender *memory, bp_share_rank *rank,
                         bp_error *error)
{
    bp_share_rank own;
    share_note_rank(made, &own);
    for (uint32_t i = 0; i < made->spec.ranks; i++) {
        rank[i] = own;
        if (i != made->spec.rank && made->builder.shards.ranks > 0) {
            bp_lent_plan lent;
            bp_spec spec = made->spec;
            spec.rank = i;
            BP_TRY(share_plan(&lent, &spec, memory, error));
            share_note_rank(lent.plan, &rank[i]);
            bp_lent_plan_end(&lent, memory);
        }
    }
    return BP_OK;
}
