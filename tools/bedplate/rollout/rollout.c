/* SPDX-License-Identifier: MIT */
/* Rollouts over the decode programs of a runtime. */
#include "tools/bedplate/rollout/rollout.h"

#include <math.h>
#include <string.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"
#include "core/base/random.h"
#include "core/ops/convert.h"
#include "device/host/vector/lanes.h"

static const char where[] = "rollout";

#define PROMPT_ROWS 256 /* tokens of a prompt read at once */

void rollout_spec(bp_spec *spec, uint32_t longest, const rollout_choice *choice, uint32_t slots)
{
    const uint32_t prompts = (slots + choice->generations - 1) / choice->generations + 1;
    const bool few = choice->prompts > 0 && choice->prompts < prompts;
    spec->generate_prompt = longest;
    spec->generate_context = longest + (choice->most > 1 ? choice->most - 1 : 1);
    spec->generate_regions = few ? choice->prompts : prompts;
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
    if (strcmp(spec->device->name, "host") != 0) {
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

/* A slot: which completion goes on there. */
typedef struct rollout_slot {
    bool used;
    uint32_t region;
    uint32_t generation;
} rollout_slot;

/* A prompt that is held. */
typedef struct rollout_region {
    uint32_t prompt;
    uint32_t next; /* the generation that gets a slot next; all: none is left */
    uint32_t used; /* slots that go on from it */
} rollout_region;

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

rollout_drawn rollout_draw(const float *logits, uint32_t count, double temperature, double uniform,
                           float *room)
{
    const float factor = temperature > 0.0 ? (float)(1.0 / temperature) : 1.0f;
    for (uint32_t i = 0; i < count; i++) {
        room[i] = logits[i] * factor;
    }
    uint32_t id = rollout_likeliest(room, count);
    const float most = bp_row_max(room, count);
    float lane[BP_LANES] = {0.0f};
    double total = 0.0, weighted = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const float below = room[i] - most;
        room[i] = bp_expf_inline(below);
        lane[i % BP_LANES] += room[i];
        total += (double)room[i];
        weighted += (double)room[i] * (double)below;
    }
    double left = total * uniform;
    for (uint32_t i = 0; i < count && temperature > 0.0; i++) {
        left -= (double)room[i];
        if (left < 0.0) {
            id = i;
            break;
        }
    }
    return (rollout_drawn){.id = id,
                           .logp = -((most + bp_logf(bp_lanes_sum(lane))) - logits[id] * factor),
                           .entropy = (float)(bp_log(total) - weighted / total)};
}

typedef struct rollout {
    bp_runtime *runtime;
    const rollout_choice *choice;
    const rollout_prompt *prompts;
    uint32_t count; /* of them */
    uint32_t next;  /* the prompt that is read next */
    rollout_completion *made;
    uint32_t slot_count;
    uint32_t region_count;
    float *room;
    rollout_slot *slots;
    rollout_region *regions;
    bp_slot *places;
    int32_t *ids;
    bp_error *error;
} rollout;

static bool rollout_ended(const rollout *r, const rollout_completion *c)
{
    return c->count > 0 && (c->finish == ROLLOUT_STOP || c->count == r->choice->most);
}

static rollout_completion *rollout_of(const rollout *r, const rollout_region *region,
                                      uint32_t generation)
{
    return &r->made[(size_t)region->prompt * r->choice->generations + generation];
}

/* The next token of a completion, by the logits that are there. */
static bp_status rollout_next(rollout *r, const rollout_prompt *prompt, uint32_t generation,
                              const float *logits, rollout_completion *c)
{
    const uint32_t vocabulary = r->runtime->plan->spec.config.vocabulary;
    if (!bp_elements_finite(BP_F32, logits, vocabulary)) {
        return bp_error_set(r->error, BP_ERR_NONFINITE, where,
                            "the logits are not finite: with these weights values grow beyond "
                            "what they are held in",
                            "--model");
    }
    const double uniform = rollout_uniform(r->choice, prompt->row, generation, c->count);
    const rollout_drawn drawn =
        rollout_draw(logits, vocabulary, r->choice->temperature, uniform, r->room);
    c->ids[c->count] = (int32_t)drawn.id;
    if (c->logps != NULL) {
        c->logps[c->count] = drawn.logp;
    }
    if (c->entropies != NULL) {
        c->entropies[c->count] = drawn.entropy;
    }
    c->count++;
    c->finish = r->choice->ends(r->choice->user, drawn.id) ? ROLLOUT_STOP : ROLLOUT_LENGTH;
    return BP_OK;
}

/* The generation of a region that gets a slot next: the first behind those that had one whose first
 * token did not end it. */
static void rollout_skip(const rollout *r, rollout_region *region)
{
    while (region->next < r->choice->generations &&
           rollout_ended(r, rollout_of(r, region, region->next))) {
        region->next++;
    }
}

static bool rollout_free(const rollout *r, const rollout_region *region)
{
    return region->used == 0 && region->next == r->choice->generations;
}

/* Reads the next prompt into a region, and draws the first token of all its completions: the logits
 * behind a prompt are the same for all. */
static bp_status rollout_read(rollout *r, uint32_t number)
{
    rollout_region *region = &r->regions[number];
    const rollout_prompt *prompt = &r->prompts[r->next];
    *region = (rollout_region){.prompt = r->next++};
    BP_TRY(bp_runtime_read_prompt(r->runtime, number, prompt->ids, prompt->count));
    for (uint32_t g = 0; g < r->choice->generations; g++) {
        BP_TRY(rollout_next(r, prompt, g, r->runtime->logits_host, rollout_of(r, region, g)));
    }
    rollout_skip(r, region);
    return BP_OK;
}

/* The region of the earliest prompt of which a completion waits, else one into which the next
 * prompt was read; region_count: there is none. */
static bp_status rollout_waiting(rollout *r, uint32_t *found)
{
    for (;;) {
        uint32_t room = r->region_count;
        *found = r->region_count;
        for (uint32_t i = 0; i < r->region_count; i++) {
            const rollout_region *at = &r->regions[i];
            const bool waits = at->next < r->choice->generations;
            if (waits && (*found == r->region_count || at->prompt < r->regions[*found].prompt)) {
                *found = i;
            }
            room = room == r->region_count && rollout_free(r, at) ? i : room;
        }
        if (*found < r->region_count || room == r->region_count || r->next == r->count) {
            return BP_OK;
        }
        BP_TRY(rollout_read(r, room));
    }
}

/* Slots without a completion get the next ones, in the order of prompts and generations. */
static bp_status rollout_fill(rollout *r, bool *any)
{
    *any = false;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        rollout_slot *slot = &r->slots[i];
        uint32_t found = r->region_count;
        if (!slot->used) {
            BP_TRY(rollout_waiting(r, &found));
        }
        if (found < r->region_count) {
            rollout_region *region = &r->regions[found];
            *slot = (rollout_slot){true, found, region->next++};
            region->used++;
            rollout_skip(r, region);
        }
        *any = *any || slot->used;
    }
    return BP_OK;
}

/* The last token of each slot's completion goes in, and the next one comes out. */
static bp_status rollout_decode(rollout *r)
{
    const uint32_t vocabulary = r->runtime->plan->spec.config.vocabulary;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        const rollout_slot *slot = &r->slots[i];
        const rollout_region *region = &r->regions[slot->region];
        const uint32_t shared = slot->used ? r->prompts[region->prompt].count : 0;
        const rollout_completion *c = slot->used ? rollout_of(r, region, slot->generation) : NULL;
        r->ids[i] = c != NULL ? c->ids[c->count - 1] : 0;
        r->places[i] = (bp_slot){.position = c != NULL ? (int32_t)(shared + c->count - 1) : 0,
                                 .region = (int32_t)slot->region,
                                 .shared = c != NULL ? (int32_t)shared : -1};
    }
    BP_TRY(bp_runtime_decode_slots(r->runtime, r->ids, r->places));
    for (uint32_t i = 0; i < r->slot_count; i++) {
        rollout_slot *slot = &r->slots[i];
        rollout_region *region = &r->regions[slot->region];
        if (!slot->used) {
            continue;
        }
        rollout_completion *c = rollout_of(r, region, slot->generation);
        BP_TRY(rollout_next(r, &r->prompts[region->prompt], slot->generation,
                            r->runtime->logits_host + (size_t)i * vocabulary, c));
        slot->used = !rollout_ended(r, c);
        region->used -= slot->used ? 0 : 1;
    }
    return BP_OK;
}

/* What `work` holds: room for exponentials, tables of slots and of regions. */
static void rollout_take(rollout *r, const bp_spec *spec, bp_arena *memory)
{
    const uint64_t slots = bp_spec_decode_rows(spec);
    r->room = bp_arena_take(memory, spec->config.vocabulary, sizeof *r->room);
    r->slots = bp_arena_take(memory, slots, sizeof *r->slots);
    r->places = bp_arena_take(memory, slots, sizeof *r->places);
    r->ids = bp_arena_take(memory, slots, sizeof *r->ids);
    r->regions = bp_arena_take(memory, spec->generate_regions, sizeof *r->regions);
}

uint64_t rollout_bytes(const bp_spec *spec)
{
    rollout r;
    bp_arena count;
    bp_arena_count(&count);
    rollout_take(&r, spec, &count);
    return bp_arena_counted(&count);
}

static rollout rollout_begin(bp_runtime *runtime, const rollout_choice *choice, void *work)
{
    const bp_spec *spec = &runtime->plan->spec;
    bp_arena memory;
    rollout r = {.runtime = runtime,
                 .choice = choice,
                 .slot_count = bp_spec_decode_rows(spec),
                 .region_count = spec->generate_regions};
    bp_arena_init(&memory, work, (size_t)rollout_bytes(spec));
    rollout_take(&r, spec, &memory);
    for (uint32_t i = 0; i < r.slot_count; i++) {
        r.slots[i] = (rollout_slot){.used = false};
    }
    for (uint32_t i = 0; i < r.region_count; i++) {
        r.regions[i] = (rollout_region){.next = choice->generations};
    }
    return r;
}

bp_status rollout_run(bp_runtime *runtime, const rollout_choice *choice,
                      const rollout_prompt *prompts, uint32_t count,
                      rollout_completion *completions, void *work, bp_error *error)
{
    rollout r = rollout_begin(runtime, choice, work);
    bool any = true;
    r.prompts = prompts;
    r.count = count;
    r.made = completions;
    r.error = error;
    for (uint64_t i = 0; i < (uint64_t)count * choice->generations; i++) {
        completions[i].count = 0;
        completions[i].finish = ROLLOUT_LENGTH;
    }
    for (;;) {
        BP_TRY(rollout_fill(&r, &any));
        if (!any) {
            return BP_OK;
        }
        BP_TRY(rollout_decode(&r));
    }
}
