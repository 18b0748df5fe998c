/* SPDX-License-Identifier: MIT */
/* Saying what the fit chose. */
#include "tools/bedplate/planning/choice.h"

#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/planning/release_text.h"

uint32_t choice_examples(const bp_spec *spec, uint32_t batch)
{
    return batch / bp_fit_example(spec);
}

/* "--gradient-checkpointing full --per-device-train-batch-size 4 ..": the options that give the
 * candidate. */
static void choice_put_options(bp_text *text, const bp_spec *spec, const bp_fit_try *candidate)
{
    bp_text_string(text, "--gradient-checkpointing ");
    policy_put(text, &candidate->policy);
    bp_text_string(text, " --per-device-train-batch-size ");
    bp_text_u64(text, choice_examples(spec, candidate->batch));
    bp_text_string(text, " --gradient-accumulation-steps ");
    bp_text_u64(text, candidate->accumulation);
    bp_text_string(text, " --loss-chunk-rows ");
    bp_text_u64(text, candidate->loss_rows);
    if (candidate->sequence_chunk > 0) {
        bp_text_string(text, " --sequence-chunk ");
        bp_text_u64(text, candidate->sequence_chunk);
    }
}

static void put_dropped(bp_text *text, const bp_choice *c)
{
    if (c->release_dropped) {
        bp_text_string(text,
                       "--gradient-release is left out: it would enlarge the arena (the state "
                       "is the same to the bit)\n");
    }
}

void choice_put_line(bp_text *text, const bp_choice *c)
{
    bp_text_string(text, c->fits ? "fit: " : "nothing fits; the least is ");
    choice_put_options(text, &c->request.spec, &c->fit.best);
    bp_text_string(text, ": ");
    bp_text_grouped(text, c->fit.best.arena_bytes);
    bp_text_string(text, " bytes, ");
    bp_text_general(text, c->fit.best.seconds, 4);
    bp_text_string(text, " s a step estimated\n");
    put_dropped(text, c);
}

static void choice_put_row(bp_text *text, const char *rank, const bp_spec *spec,
                           const bp_fit_try *candidate)
{
    char name[64];
    bp_text policy;
    bp_text_init(&policy, NULL, NULL, name, sizeof name);
    policy_put(&policy, &candidate->policy);
    bp_status cut = bp_text_flush(&policy); /* a long list is shown in part */
    (void)cut;
    bp_text_padded(text, rank, 11, BP_TEXT_LEFT);
    bp_text_padded(text, name, 32, BP_TEXT_LEFT);
    bp_text_u64_padded(text, choice_examples(spec, candidate->batch), 7);
    bp_text_string(text, " x ");
    bp_text_u64_padded(text, candidate->accumulation, 4);
    bp_text_u64_padded(text, candidate->loss_rows, 11);
    bp_text grouped;
    bp_text_init(&grouped, NULL, NULL, name, sizeof name);
    bp_text_grouped(&grouped, candidate->arena_bytes);
    cut = bp_text_flush(&grouped);
    bp_text_padded(text, name, 20, BP_TEXT_RIGHT);
    bp_text_fixed_padded(text, candidate->seconds, 4, 12);
    if (candidate->sequence_chunk > 0) {
        bp_text_string(text, "  chunks of ");
        bp_text_u64(text, candidate->sequence_chunk);
    }
    bp_text_char(text, '\n');
}

static bool same(const bp_fit_try *a, const bp_fit_try *b)
{
    return a->policy.kind == b->policy.kind && a->batch == b->batch &&
           a->loss_rows == b->loss_rows && a->sequence_chunk == b->sequence_chunk &&
           a->arena_bytes == b->arena_bytes;
}

/* Whether a candidate is shown besides the best and the runner-up. */
static bool is_other(const bp_choice *c, const bp_fit_try *candidate)
{
    return !same(candidate, &c->fit.best) && !same(candidate, &c->fit.runner_up);
}

/* What the choice takes more than its bound, as a part of it. */
static double choice_gap(const bp_choice *c)
{
    return c->fit.best.seconds / c->fit.bound_seconds - 1.0;
}

static void put_bound(bp_text *text, const bp_choice *c)
{
    if (c->fits && c->fit.bound_seconds > 0.0) {
        bp_text_string(text, "estimated lower bound of a step in this budget: ");
        bp_text_fixed(text, c->fit.bound_seconds, 4);
        bp_text_string(text, " s; gap of the choice: ");
        bp_text_fixed(text, 100.0 * choice_gap(c), 2);
        bp_text_string(text, " %\n");
    }
}

void choice_put_table(bp_text *text, const bp_choice *c)
{
    const bp_spec *spec = &c->request.spec;
    bp_text_string(text, "arena of ");
    bp_text_grouped(text, c->request.budget);
    bp_text_string(text, " bytes");
    bp_text_padded(text, "micro-batches  loss rows", 46, BP_TEXT_RIGHT);
    bp_text_string(text, "         arena bytes    s a step\n");
    choice_put_row(text, c->fits ? "chosen" : "least", spec, &c->fit.best);
    if (c->fit.runner_up.batch != 0 && c->fits) {
        choice_put_row(text, "runner-up", spec, &c->fit.runner_up);
    }
    for (uint32_t i = 0; i < c->fit.tried_count && c->fits; i++) {
        const bp_fit_try *candidate = &c->fit.tried[i];
        if (is_other(c, candidate)) {
            choice_put_row(text, candidate->fits ? "slower" : "too large", spec, candidate);
        }
    }
    put_bound(text, c);
    put_dropped(text, c);
}

static void json_candidate(output *out, const bp_spec *spec, const bp_fit_try *candidate)
{
    char name[256];
    bp_text policy;
    bp_text_init(&policy, NULL, NULL, name, sizeof name);
    policy_put(&policy, &candidate->policy);
    bp_status cut = bp_text_flush(&policy);
    (void)cut;
    json_text(out, "gradient_checkpointing", name);
    json_count(out, "per_device_train_batch_size", choice_examples(spec, candidate->batch));
    json_count(out, "gradient_accumulation_steps", candidate->accumulation);
    json_count(out, "loss_chunk_rows", candidate->loss_rows);
    json_count(out, "sequence_chunk", candidate->sequence_chunk);
    json_count(out, "arena_bytes", candidate->arena_bytes);
    json_real(out, "estimated_seconds", candidate->seconds, 6);
    json_flag(out, "fits", candidate->fits);
}

void choice_json(output *out, const bp_choice *c, bool all)
{
    const bp_spec *spec = &c->request.spec;
    json_open(out, "choice");
    json_candidate(out, spec, &c->fit.best);
    json_text(out, "gradient_release", release_name(c->fit.spec.gradient_release));
    if (c->fits && c->fit.bound_seconds > 0.0) {
        json_real(out, "lower_bound_seconds", c->fit.bound_seconds, 6);
        json_real(out, "gap", choice_gap(c), 6);
    }
    json_close(out);
    if (!all) {
        return;
    }
    if (c->fit.runner_up.batch != 0) {
        json_open(out, "runner_up");
        json_candidate(out, spec, &c->fit.runner_up);
        json_close(out);
    }
    json_list(out, "rejected");
    for (uint32_t i = 0; i < c->fit.tried_count; i++) {
        if (is_other(c, &c->fit.tried[i])) {
            json_item(out);
            json_candidate(out, spec, &c->fit.tried[i]);
            json_close(out);
        }
    }
    json_list_end(out);
}
