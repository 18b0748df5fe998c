/* SPDX-License-Identifier: MIT */
/* Running the fit, and saying what it chose. */
#include "tools/bedplate/planning/choice.h"

#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/planning/release_text.h"

static const char where[] = "fit";

/* The fit's memory is large and is given back; only the schedule stays. */
static bp_status keep_actions(choice *c, bp_error *error)
{
    size_t bytes = c->fit.action_count * sizeof *c->actions;
    if (c->fit.spec.policy.kind != BP_POLICY_ACTIONS) {
        return BP_OK;
    }
    c->actions = malloc(bytes);
    if (c->actions == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the schedule", "");
    }
    memcpy(c->actions, c->fit.actions, bytes);
    c->fit.actions = c->actions;
    c->fit.spec.policy.actions = c->actions;
    return BP_OK;
}

static bp_status run_once(choice *c, bp_error *error)
{
    memory_block memory = {NULL, 0};
    BP_TRY(dry_run_take_fit(&c->request, &memory, error));
    bp_status status = bp_fit_run(&c->request, memory.address, memory.bytes, &c->fit, error);
    bool none_fits = status == BP_ERR_FIT && c->fit.best.batch != 0;
    c->fits = status == BP_OK;
    if (c->fits || none_fits) {
        status = keep_actions(c, error);
    }
    memory_give_back(&memory);
    return status;
}

/* Chooses the policy again by measured rates, at the shapes that counted costs have chosen. */
static bp_status choose_policy_again(choice *c, const bp_rates *rates, bp_error *error)
{
    choice again = {.request = c->request};
    again.request.spec = c->fit.spec;
    again.release_dropped = c->release_dropped;
    again.request.free_batch = false;
    again.request.free_chunk = false;
    again.request.rates = *rates;
    BP_TRY(run_once(&again, error));
    if (again.fits) {
        choice_end(c);
        again.made = true;
        *c = again;
    } else {
        choice_end(&again);
    }
    return BP_OK;
}

/* Runs the fit again without exact gradient release where what it chose is smaller so, or where
 * nothing fits with it: the bits are the same (but docs/explanation/numerics.md, "Gradient
 * release"), and backward never slower. */
static bp_status drop_release(choice *c, bp_error *error)
{
    bp_spec spec = c->fit.spec;
    uint64_t without = 0;
    choice again = {.request = c->request};
    /* whether the one candidate fits was all that was asked */
    const bool resolved = c->request.first && !c->request.free_policy && !c->request.free_batch &&
                          !c->request.free_chunk;
    if (spec.gradient_release != BP_RELEASE_EXACT || (c->request.first && !c->fits) || resolved) {
        return BP_OK;
    }
    spec.gradient_release = BP_RELEASE_NONE;
    if (c->fits) {
        BP_TRY(dry_run_arena(&spec, c->fit.best.arena_bytes, &without, error));
        if (without >= c->fit.best.arena_bytes) {
            return BP_OK;
        }
    }
    again.request.spec.gradient_release = BP_RELEASE_NONE;
    BP_TRY(run_once(&again, error));
    if (again.fits || (!c->fits && again.fit.best.arena_bytes < c->fit.best.arena_bytes)) {
        choice_end(c);
        again.made = true;
        again.release_dropped = true;
        *c = again;
    } else {
        choice_end(&again);
    }
    return BP_OK;
}

bp_status choice_run(choice *c, const bp_fit_request *request, const bp_rates *calibrated,
                     bp_error *error)
{
    *c = (choice){.made = true, .request = *request};
    BP_TRY(run_once(c, error));
    BP_TRY(drop_release(c, error));
    if (c->fits && calibrated != NULL && request->free_policy) {
        return choose_policy_again(c, calibrated, error);
    }
    return BP_OK;
}

void choice_end(choice *c)
{
    free(c->actions);
    c->actions = NULL;
}

/* "--gradient-checkpointing full --per-device-train-batch-size 4 ..": the options that give the
 * candidate. */
static void choice_put_options(bp_text *text, const bp_fit_try *candidate)
{
    bp_text_string(text, "--gradient-checkpointing ");
    policy_put(text, &candidate->policy);
    bp_text_string(text, " --per-device-train-batch-size ");
    bp_text_u64(text, candidate->batch);
    bp_text_string(text, " --gradient-accumulation-steps ");
    bp_text_u64(text, candidate->accumulation);
    bp_text_string(text, " --loss-chunk-rows ");
    bp_text_u64(text, candidate->loss_rows);
}

static void put_dropped(bp_text *text, const choice *c)
{
    if (c->release_dropped) {
        bp_text_string(text,
                       "--gradient-release is left out: it would enlarge the arena (the state "
                       "is the same to the bit)\n");
    }
}

void choice_put_line(bp_text *text, const choice *c)
{
    bp_text_string(text, c->fits ? "fit: " : "nothing fits; the least is ");
    choice_put_options(text, &c->fit.best);
    bp_text_string(text, ": ");
    bp_text_grouped(text, c->fit.best.arena_bytes);
    bp_text_string(text, " bytes, ");
    bp_text_general(text, c->fit.best.seconds, 4);
    bp_text_string(text, " s a step estimated\n");
    put_dropped(text, c);
}

static void choice_put_row(bp_text *text, const char *rank, const bp_fit_try *candidate)
{
    char name[64];
    bp_text policy;
    bp_text_init(&policy, NULL, NULL, name, sizeof name);
    policy_put(&policy, &candidate->policy);
    bp_status cut = bp_text_flush(&policy); /* a long list is shown in part */
    (void)cut;
    bp_text_padded(text, rank, 11, BP_TEXT_LEFT);
    bp_text_padded(text, name, 32, BP_TEXT_LEFT);
    bp_text_u64_padded(text, candidate->batch, 7);
    bp_text_string(text, " x ");
    bp_text_u64_padded(text, candidate->accumulation, 4);
    bp_text_u64_padded(text, candidate->loss_rows, 11);
    bp_text grouped;
    bp_text_init(&grouped, NULL, NULL, name, sizeof name);
    bp_text_grouped(&grouped, candidate->arena_bytes);
    cut = bp_text_flush(&grouped);
    bp_text_padded(text, name, 20, BP_TEXT_RIGHT);
    bp_text_fixed_padded(text, candidate->seconds, 4, 12);
    bp_text_char(text, '\n');
}

static bool same(const bp_fit_try *a, const bp_fit_try *b)
{
    return a->policy.kind == b->policy.kind && a->batch == b->batch &&
           a->loss_rows == b->loss_rows && a->arena_bytes == b->arena_bytes;
}

/* Whether a candidate is shown besides the best and the runner-up. */
static bool is_other(const choice *c, const bp_fit_try *candidate)
{
    return !same(candidate, &c->fit.best) && !same(candidate, &c->fit.runner_up);
}

void choice_put_table(bp_text *text, const choice *c)
{
    bp_text_string(text, "arena of ");
    bp_text_grouped(text, c->request.budget);
    bp_text_string(text, " bytes");
    bp_text_padded(text, "micro-batches  loss rows", 46, BP_TEXT_RIGHT);
    bp_text_string(text, "         arena bytes    s a step\n");
    choice_put_row(text, c->fits ? "chosen" : "least", &c->fit.best);
    if (c->fit.runner_up.batch != 0 && c->fits) {
        choice_put_row(text, "runner-up", &c->fit.runner_up);
    }
    for (uint32_t i = 0; i < c->fit.tried_count && c->fits; i++) {
        const bp_fit_try *candidate = &c->fit.tried[i];
        if (is_other(c, candidate)) {
            choice_put_row(text, candidate->fits ? "slower" : "too large", candidate);
        }
    }
    put_dropped(text, c);
}

static void json_candidate(output *out, const bp_fit_try *candidate)
{
    char name[256];
    bp_text policy;
    bp_text_init(&policy, NULL, NULL, name, sizeof name);
    policy_put(&policy, &candidate->policy);
    bp_status cut = bp_text_flush(&policy);
    (void)cut;
    json_text(out, "gradient_checkpointing", name);
    json_count(out, "per_device_train_batch_size", candidate->batch);
    json_count(out, "gradient_accumulation_steps", candidate->accumulation);
    json_count(out, "loss_chunk_rows", candidate->loss_rows);
    json_count(out, "arena_bytes", candidate->arena_bytes);
    json_real(out, "estimated_seconds", candidate->seconds, 6);
    json_flag(out, "fits", candidate->fits);
}

void choice_json(output *out, const choice *c, bool all)
{
    json_open(out, "choice");
    json_candidate(out, &c->fit.best);
    json_text(out, "gradient_release", release_name(c->fit.spec.gradient_release));
    json_close(out);
    if (!all) {
        return;
    }
    if (c->fit.runner_up.batch != 0) {
        json_open(out, "runner_up");
        json_candidate(out, &c->fit.runner_up);
        json_close(out);
    }
    json_list(out, "rejected");
    for (uint32_t i = 0; i < c->fit.tried_count; i++) {
        if (is_other(c, &c->fit.tried[i])) {
            json_item(out);
            json_candidate(out, &c->fit.tried[i]);
            json_close(out);
        }
    }
    json_list_end(out);
}
