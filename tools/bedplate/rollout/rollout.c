/* SPDX-License-Identifier: MIT */
/* Rollouts over the decode programs of a runtime. */
#include "tools/bedplate/rollout/rollout.h"

#include <math.h>
#include <string.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"
#include "core/base/random.h"
#include "core/ops/convert.h"
#include "device/devices.h"
#include "device/host/vector/lanes.h"

static const char where[] = "rollout";

#define PROMPT_ROWS 256 /* tokens of a prompt read at once */

void rollout_spec(bp_spec *spec, uint32_t longest, const rollout_choice *choice, uint32_t slots)
{
    spec->generate_context = longest + choice->most;
    spec->prefill_rows = longest < PROMPT_ROWS ? longest : PROMPT_ROWS;
    spec->generate_sequences = slots;
}

static bp_status rollout_refuse(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_USAGE, where, text, name);
}

bp_status rollout_check(const bp_spec *spec, bp_error *error)
{
    const bp_model *model = spec->model;
    const uint32_t near = model->near_tokens != NULL ? model->near_tokens(&spec->config) : 0;
    const char *isa = spec->device_options.variant;
    if (spec->config.task != BP_TASK_CAUSAL_LM || spec->config.vocabulary == 0) {
        return rollout_refuse(error, "this model does not predict next tokens", "--model");
    }
    if (!model->pads) {
        return rollout_refuse(error,
                              "a recurrent model keeps a state instead of tokens, so its sequences "
                              "cannot go on from one prompt",
                              "--model");
    }
    if (spec->device != &bp_device_host) {
        return rollout_refuse(error,
                              "on this device generating is not shown to have the bits of the "
                              "training forward; expected host",
                              "--device");
    }
    if (isa != NULL && strcmp(isa, "amx") == 0) {
        return rollout_refuse(error,
                              "with AMX a product of several rows has other bits than one of a "
                              "single row, so what is sampled would not be what is trained; "
                              "expected another instruction set",
                              "--kernels");
    }
    if (spec->generate_context > spec->config.positions) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the longest prompt and --max-completion-length are longer than the "
                              "model's n_positions",
                              "--max-completion-length", spec->generate_context, BP_LIMIT_MOST,
                              spec->config.positions);
    }
    if (near > 0 && spec->generate_context > near) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the model reads longer texts otherwise from their first token on, "
                              "so a completion may not grow beyond",
                              "--max-completion-length", spec->generate_context, BP_LIMIT_MOST,
                              near);
    }
    return BP_OK;
}

/* The logits behind the prompt, and what exponentials are summed from. */
uint64_t rollout_bytes(const bp_spec *spec)
{
    return bp_size_align(bp_size_mul(2 * sizeof(float), spec->config.vocabulary), 64);
}

double rollout_uniform(const rollout_choice *choice, uint64_t row, uint32_t generation,
                       uint32_t position)
{
    const uint32_t counter[4] = {position, (uint32_t)(row * choice->generations + generation), 0,
                                 (uint32_t)choice->step};
    uint32_t words[4];
    bp_philox(counter, bp_rollout_key(choice->seed), words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

/* The first of the largest; NaN ranks below everything. */
static uint32_t rollout_likeliest(const float *z, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = z[i] > z[best] || z[best] != z[best] ? i : best;
    }
    return best;
}

uint32_t rollout_draw(const float *logits, uint32_t count, double temperature, double uniform,
                      float *room, float *logp)
{
    const float factor = temperature > 0.0 ? (float)(1.0 / temperature) : 1.0f;
    for (uint32_t i = 0; i < count; i++) {
        room[i] = logits[i] * factor;
    }
    uint32_t id = rollout_likeliest(room, count);
    const float most = bp_row_max(room, count);
    float lane[BP_LANES] = {0.0f};
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        room[i] = bp_expf_inline(room[i] - most);
        lane[i % BP_LANES] += room[i];
        total += (double)room[i];
    }
    double left = total * uniform;
    for (uint32_t i = 0; i < count && temperature > 0.0; i++) {
        left -= (double)room[i];
        if (left < 0.0) {
            id = i;
            break;
        }
    }
    *logp = -((most + bp_logf(bp_lanes_sum(lane))) - logits[id] * factor);
    return id;
}

typedef struct rollout {
    bp_runtime *runtime;
    const rollout_choice *choice;
    float *asked; /* the logits behind the prompt */
    float *room;
    bp_error *error;
} rollout;

static bool rollout_ended(const rollout *r, const rollout_completion *c)
{
    return c->count > 0 && (c->finish == ROLLOUT_STOP || c->count == r->choice->most);
}

/* The next token of a completion, by the logits that are there. */
static bp_status rollout_next(rollout *r, const rollout_prompt *prompt, uint32_t generation,
                              const float *logits, rollout_completion *c)
{
    const uint32_t vocabulary = r->runtime->plan->spec.config.vocabulary;
    float logp = 0.0f;
    if (!bp_elements_finite(BP_F32, logits, vocabulary)) {
        return bp_error_set(r->error, BP_ERR_NONFINITE, where,
                            "the logits are not finite: with these weights values grow beyond "
                            "what they are held in",
                            "--model");
    }
    const double uniform = rollout_uniform(r->choice, prompt->row, generation, c->count);
    const uint32_t id =
        rollout_draw(logits, vocabulary, r->choice->temperature, uniform, r->room, &logp);
    c->ids[c->count] = (int32_t)id;
    if (c->logps != NULL) {
        c->logps[c->count] = logp;
    }
    c->count++;
    c->finish = r->choice->ends(r->choice->user, id) ? ROLLOUT_STOP : ROLLOUT_LENGTH;
    return BP_OK;
}

/* The last token of each goes in; of one that has ended again, and what follows is not read. */
static bp_status rollout_accept(rollout *r, const rollout_completion *c, uint32_t count)
{
    const uint32_t width = bp_spec_decode_rows(&r->runtime->plan->spec);
    int32_t ids[ROLLOUT_SLOTS_MOST];
    for (uint32_t i = 0; i < width; i++) {
        const rollout_completion *from = &c[i < count ? i : 0];
        ids[i] = from->ids[from->count - 1];
    }
    return width > 1 ? bp_runtime_accept_each(r->runtime, ids)
                     : bp_runtime_accept(r->runtime, ids, 1);
}

/* Generations first .. first + count - 1, from the prompt that was read. */
static bp_status rollout_some(rollout *r, const rollout_prompt *prompt, uint32_t first,
                              uint32_t count, rollout_completion *c)
{
    const float *logits = r->asked;
    size_t apart = 0;
    for (;;) {
        bool goes_on = false;
        for (uint32_t i = 0; i < count; i++) {
            if (!rollout_ended(r, &c[i])) {
                BP_TRY(rollout_next(r, prompt, first + i, logits + i * apart, &c[i]));
                goes_on = goes_on || !rollout_ended(r, &c[i]);
            }
        }
        if (!goes_on) {
            return BP_OK;
        }
        BP_TRY(rollout_accept(r, c, count));
        logits = r->runtime->logits_host;
        apart = r->runtime->plan->spec.config.vocabulary;
    }
}

static bp_status rollout_prompt_run(rollout *r, const rollout_prompt *prompt, rollout_completion *c)
{
    const uint32_t width = bp_spec_decode_rows(&r->runtime->plan->spec);
    const uint32_t all = r->choice->generations;
    BP_TRY(bp_runtime_restart(r->runtime));
    BP_TRY(bp_runtime_accept(r->runtime, prompt->ids, prompt->count));
    memcpy(r->asked, r->runtime->logits_host,
           r->runtime->plan->spec.config.vocabulary * sizeof *r->asked);
    for (uint32_t first = 0; first < all; first += width) {
        bool kept = true;
        if (first > 0) {
            BP_TRY(bp_runtime_rewind(r->runtime, prompt->count, &kept));
        }
        BP_TRY(
            rollout_some(r, prompt, first, all - first < width ? all - first : width, c + first));
    }
    return BP_OK;
}

bp_status rollout_run(bp_runtime *runtime, const rollout_choice *choice,
                      const rollout_prompt *prompts, uint32_t count,
                      rollout_completion *completions, void *work, bp_error *error)
{
    const uint32_t vocabulary = runtime->plan->spec.config.vocabulary;
    rollout r = {.runtime = runtime,
                 .choice = choice,
                 .asked = work,
                 .room = (float *)work + vocabulary,
                 .error = error};
    for (uint64_t i = 0; i < (uint64_t)count * choice->generations; i++) {
        completions[i].count = 0;
        completions[i].finish = ROLLOUT_LENGTH;
    }
    for (uint32_t p = 0; p < count; p++) {
        BP_TRY(rollout_prompt_run(&r, &prompts[p], completions + (size_t)p * choice->generations));
    }
    return BP_OK;
}
