/* SPDX-License-Identifier: MIT */
/* One form after the other, each planned in memory that is given back at once. */
#include "tools/bedplate/planning/shard_choice.h"

#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/planning/shard_plan.h"

#define AHEAD_TRIED 2 /* most weights gathered ahead that --arena chooses */

/* Makes a plan whose memory the caller gives back. */
static bp_status choice_plan(const bp_spec *spec, bp_plan *made, memory_block *memory,
                             bp_error *error)
{
    bp_status status = dry_run_take(made, spec, 0, memory, error);
    if (status == BP_OK) {
        status = bp_plan_make_counted(made, memory->address, memory->bytes);
    }
    if (status != BP_OK && error->code == BP_OK) {
        *error = made->error;
    }
    return status;
}

bp_status shard_choice_largest(bp_spec *spec, bp_error *error)
{
    static bp_plan made; /* large */
    memory_block memory = {0};
    if (spec->ranks < 2 || spec->sharing == BP_SHARING_NONE) {
        return BP_OK;
    }
    const bp_status status = choice_plan(spec, &made, &memory, error);
    const bp_shards *shards = &made.builder.shards;
    for (uint32_t rank = 0; status == BP_OK && rank < shards->ranks; rank++) {
        const bool first = rank == 0;
        spec->rank = first || shards->load[rank] > shards->load[spec->rank] ? rank : spec->rank;
    }
    memory_give_back(&memory);
    return status;
}

/* What the chosen options of a form take. */
static bp_status shard_choice_try(session *s, shard_try *form)
{
    static bp_plan made; /* large */
    memory_block memory = {0};
    bp_wire wire = {.ranks = s->spec.ranks};
    bp_spec spec = s->spec;
    BP_TRY(shard_plan_links(s->set, &wire, &s->error));
    BP_TRY(shard_choice_largest(&spec, &s->error));
    const bp_status status = choice_plan(&spec, &made, &memory, &s->error);
    if (status == BP_OK) {
        shard_wire(&made, &wire);
        const uint64_t bytes = made.report.arena_bytes;
        *form = (shard_try){.known = true,
                            .fits = s->set->arena == 0 || bytes <= s->set->arena,
                            .arena_bytes = bytes,
                            .computing = wire.computing,
                            .exchange = wire.exchange};
    }
    memory_give_back(&memory);
    return status;
}

static bool choice_beats(const shard_try *a, const shard_try *b)
{
    if (!b->known || a->fits != b->fits) {
        return !b->known || a->fits;
    }
    return a->fits ? a->computing + a->exchange < b->computing + b->exchange
                   : a->arena_bytes < b->arena_bytes;
}

/* The choice with so many weights gathered ahead, in place of the one before. */
static bp_status choice_ahead(session *s, const bp_spec *given, uint32_t ahead,
                              bp_status (*choose)(session *s))
{
    bp_choice_end(&s->choice, &dry_run_lender);
    s->spec = *given;
    s->spec.gather_ahead = ahead;
    return choose(s);
}

bp_status shard_choice_ahead(session *s, bp_status (*choose)(session *s))
{
    const bp_spec given = s->spec;
    const bool free = given.sharing == BP_SHARING_PARAMETERS && given.ranks > 1 &&
                      s->set->arena > 0 && !option_given(s->set, "shard-ahead");
    if (!free) {
        return choose(s);
    }
    BP_TRY(choice_ahead(s, &given, 0, choose));
    const bool fits = s->choice.fits;
    const double seconds = s->choice.fit.best.seconds;
    for (uint32_t ahead = AHEAD_TRIED; fits && ahead > 0; ahead--) {
        BP_TRY(choice_ahead(s, &given, ahead, choose));
        if (s->choice.fits && s->choice.fit.best.seconds <= seconds) {
            return BP_OK;
        }
    }
    return fits ? choice_ahead(s, &given, 0, choose) : BP_OK;
}

bp_status shard_choice_run(session *s, bp_status (*choose)(session *s))
{
    shard_choice *all = &s->sharing;
    const bp_spec given = s->spec;
    bp_spec spec = given;
    bp_choice kept = {.made = false};
    *all = (shard_choice){.made = true};
    for (uint32_t form = 0; form < (given.ranks > 1 ? (uint32_t)BP_SHARINGS : 1); form++) {
        shard_try *one = &all->form[form];
        s->spec = given;
        s->spec.sharing = (bp_sharing)form;
        s->choice = (bp_choice){.made = false};
        bp_status status = choose(s);
        status = status == BP_OK ? shard_choice_try(s, one) : status;
        if (status == BP_ERR_USAGE && form > 0) {
            s->error = (bp_error){.code = BP_OK}; /* the rule or the model does not go with it */
            bp_choice_end(&s->choice, &dry_run_lender);
            continue;
        }
        BP_TRY(status);
        if (form > 0 && !choice_beats(one, &all->form[all->chosen])) {
            bp_choice_end(&s->choice, &dry_run_lender);
            continue;
        }
        bp_choice_end(&kept, &dry_run_lender);
        kept = s->choice;
        spec = s->spec;
        all->chosen = form;
    }
    s->choice = kept;
    s->spec = spec;
    return BP_OK;
}

void shard_choice_put(bp_text *text, const shard_choice *all)
{
    if (!all->made) {
        return;
    }
    bp_text_string(text, "\nsharing                  arena  seconds of computing + exchange\n");
    for (uint32_t form = 0; form < BP_SHARINGS; form++) {
        const shard_try *one = &all->form[form];
        char number[32];
        bp_text grouped;
        if (!one->known) {
            continue;
        }
        bp_text_init(&grouped, NULL, NULL, number, sizeof number);
        bp_text_grouped(&grouped, one->arena_bytes);
        const bp_status fits = bp_text_flush(&grouped);
        (void)fits; /* 26 characters at most */
        bp_text_padded(text, bp_sharing_name((bp_sharing)form), 10, BP_TEXT_LEFT);
        bp_text_padded(text, number, 18, BP_TEXT_RIGHT);
        bp_text_string(text, "  ");
        bp_text_general(text, one->computing, 4);
        bp_text_string(text, " + ");
        bp_text_general(text, one->exchange, 4);
        bp_text_string(text, form == all->chosen ? "  chosen" : "");
        bp_text_string(text, one->fits ? "\n" : "  does not fit\n");
    }
}

void shard_choice_json(output *out, const shard_choice *all)
{
    if (!all->made) {
        return;
    }
    json_list(out, "shard_candidates");
    for (uint32_t form = 0; form < BP_SHARINGS; form++) {
        const shard_try *one = &all->form[form];
        if (one->known) {
            json_item(out);
            json_text(out, "shard", bp_sharing_name((bp_sharing)form));
            json_flag(out, "fits", one->fits);
            json_count(out, "arena_bytes", one->arena_bytes);
            json_real(out, "computing_seconds", one->computing, 9);
            json_real(out, "exchange_seconds", one->exchange, 9);
            json_close(out);
        }
    }
    json_list_end(out);
}
