/* SPDX-License-Identifier: MIT */
/* A reference of whole weights. */
#include "tools/bedplate/policy/policy_reference.h"

#include <string.h>
#include <sys/stat.h>

#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/record/record_files.h"
#include "tools/bedplate/reward/reward_model.h"

static const char where[] = "reference";

/* Its first error is the policy's. */
static bp_status reference_failed(const policy_reference *r, bp_status status)
{
    const bp_error *first = r->s.error.code != BP_OK        ? &r->s.error
                            : r->s.plan.error.code != BP_OK ? &r->s.plan.error
                                                            : &r->s.runtime.error;
    if (status != BP_OK && r->owner->error.code == BP_OK) {
        r->owner->error = *first;
    }
    return status;
}

static bp_status reference_plan(policy_reference *r)
{
    session *s = &r->s;
    const bp_spec *of = &r->owner->spec;
    const char *option = r->owner->set->ref_model != NULL ? "--ref-model" : "--beta";
    struct stat is;
    if (r->owner->set->ref_model != NULL && stat(r->set.model, &is) != 0) {
        const bp_status status = bp_error_set(&s->error, BP_ERR_DATA, where,
                                              "there is no such directory or GGUF file", option);
        bp_error_found(&s->error, r->set.model, strlen(r->set.model));
        return status;
    }
    BP_TRY(session_begin(s, &r->set));
    if (!s->directory || !s->weights) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the reference is the model as it begins, so it needs a directory with "
                            "weights, or new adapters (--lora-r)",
                            option);
    }
    if (s->spec.config.task != BP_TASK_CAUSAL_LM ||
        s->spec.config.vocabulary != of->config.vocabulary) {
        return bp_error_numbers(&s->error, BP_ERR_USAGE, where,
                                "the reference does not match the policy: tokens of its vocabulary",
                                option, (int64_t)s->spec.config.vocabulary,
                                (int64_t)of->config.vocabulary);
    }
    s->spec.sequence = of->sequence;
    s->spec.batch = of->batch;
    s->spec.accumulation = 1;
    s->spec.eval_batch = 0;
    s->spec.optimizer = NULL;
    s->spec.evaluate = s->spec.keep_logits = s->spec.row_weights = true;
    s->spec.policy_temperature = of->policy_temperature;
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    return session_plan(s);
}

/* Log-probabilities of the same weights have the same bits where they are read in the same types:
 * weights that are trained are not packed. */
static void reference_settings(policy_reference *r, const settings *of)
{
    reward_model_settings(&r->set, of, of->ref_model != NULL ? of->ref_model : of->model);
    r->set.product_dtype = of->product_dtype;
    r->set.product_from = of->product_from;
    r->set.dequantize = true;
}

bp_status policy_reference_open(policy_reference *r, session *owner)
{
    const settings *of = owner->set;
    r->owner = owner;
    reference_settings(r, of);
    BP_TRY(reference_failed(r, reference_plan(r)));
    const uint64_t bytes = r->s.plan.report.arena_bytes;
    owner->spec.between_bytes =
        bytes > owner->spec.between_bytes ? bytes : owner->spec.between_bytes;
    return BP_OK;
}

static bp_status reference_identify(policy_reference *r, uint64_t *digest)
{
    BP_TRY(record_model_unchanged(&r->s, &r->stamp));
    return record_model_digest(&r->s, digest);
}

bp_status policy_reference_identify(policy_reference *r, uint64_t *digest)
{
    return reference_failed(r, reference_identify(r, digest));
}

uint64_t policy_reference_bytes(const policy_reference *r)
{
    return r->owner == NULL
               ? 0
               : sizeof *r + r->s.host.bytes + process_bytes(r->s.spec.device_options.threads) -
                     process_bytes(1);
}

static bp_status reference_begin(policy_reference *r)
{
    session *s = &r->s;
    void *place = bp_runtime_between(&r->owner->runtime);
    const bp_regions places = bp_regions_device(place, s->plan.report.arena_bytes);
    if (place == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the policy's plan leaves no bytes for the reference", "--beta");
    }
    BP_TRY(bp_runtime_open_regions(&s->runtime, &s->plan, &places));
    BP_TRY(record_model_unchanged(s, &r->stamp));
    BP_TRY(session_give_weights(s, false));
    return record_model_unchanged(s, &r->stamp);
}

bp_status policy_reference_begin(policy_reference *r)
{
    return reference_failed(r, reference_begin(r));
}

void policy_reference_end(policy_reference *r)
{
    bp_runtime_close(&r->s.runtime);
}

void policy_reference_close(policy_reference *r)
{
    if (r->owner != NULL) {
        session_end(&r->s);
    }
}
