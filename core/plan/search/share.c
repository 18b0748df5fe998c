/* SPDX-License-Identifier: MIT */
/* One form after the other, each planned in memory that is given back at once. */
#include "core/plan/search/share.h"

#define AHEAD_TRIED 2 /* most weights gathered ahead that are chosen */

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
    if (spec->ranks < 2 || spec->sharing == BP_SHARING_NONE) {
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
    const uint64_t bytes = lent.plan->report.arena_bytes;
    *form = (bp_share_try){.known = true,
                           .fits = s->arena == 0 || bytes <= s->arena,
                           .arena_bytes = bytes,
                           .computing = wire.computing,
                           .exchange = wire.exchange};
    bp_lent_plan_end(&lent, s->memory);
    return BP_OK;
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
        BP_TRY(status);
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
