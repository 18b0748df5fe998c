/* SPDX-License-Identifier: MIT */
/* The phases of a step of --task grpo in words, numbers and a picture. */
#include "tools/bedplate/pages/bars.h"
#include "tools/bedplate/policy/policy_run.h"

static const char *const phase_name[POLICY_PHASES] = {[POLICY_GENERATING] = "generating",
                                                      [POLICY_SCORING] = "scoring",
                                                      [POLICY_TRAINING] = "training"};

static bool phases_asked(const policy_phases *phases)
{
    return phases->bytes[POLICY_TRAINING] > 0;
}

/* "16 sequences of 64 tokens at once" */
static void phases_put_slots(bp_text *text, const policy_phases *phases)
{
    bp_text_u64(text, phases->slots);
    bp_text_string(text, phases->slots == 1 ? " sequence of " : " sequences of ");
    bp_text_u64(text, phases->tokens);
    bp_text_string(text, " tokens at once");
}

void policy_phases_put(bp_text *text, const policy_phases *phases)
{
    for (uint32_t i = 0; i < POLICY_PHASES && phases_asked(phases); i++) {
        if (phases->bytes[i] == 0) {
            continue;
        }
        bp_text_padded(text, phase_name[i], 12, BP_TEXT_LEFT);
        bp_text_grouped(text, phases->bytes[i]);
        bp_text_string(text, " bytes with the state");
        if (i == POLICY_GENERATING) {
            bp_text_string(text, ", ");
            phases_put_slots(text, phases);
        } else if (i == POLICY_SCORING) {
            bp_text_string(text, ", by models beside the policy");
        }
        bp_text_char(text, '\n');
    }
}

void policy_phases_json(output *out, const policy_phases *phases)
{
    static const char *const key[POLICY_PHASES] = {"generating_bytes", "scoring_bytes",
                                                   "training_bytes"};
    for (uint32_t i = 0; i < POLICY_PHASES && phases_asked(phases); i++) {
        if (phases->bytes[i] > 0) {
            json_count(out, key[i], phases->bytes[i]);
        }
    }
    if (phases_asked(phases)) {
        json_count(out, "slots", phases->slots);
    }
}

/* What makes the largest phase smaller. */
static const char *const phase_mend[POLICY_PHASES] = {
    [POLICY_GENERATING] = "Generating is the largest phase: fewer --slots or a smaller "
                          "--max-completion-length make the arena smaller.",
    [POLICY_SCORING] = "Scoring is the largest phase: a smaller reward model makes the arena "
                       "smaller.",
    [POLICY_TRAINING] = "Training is the largest phase: a smaller --per-device-train-batch-size "
                        "or --gradient-checkpointing full makes the arena smaller."};

void policy_phases_page(bp_text *text, const policy_phases *phases)
{
    uint32_t most = 0;
    if (!phases_asked(phases)) {
        return;
    }
    for (uint32_t i = 1; i < POLICY_PHASES; i++) {
        most = phases->bytes[i] > phases->bytes[most] ? i : most;
    }
    bp_text_string(text, "<h2>Phases of a step</h2>\n<p class=\"sub\">The phases use the same "
                         "arena one after the other; weights and optimizer states stay in it. The "
                         "programs prefill and decode generate ");
    phases_put_slots(text, phases);
    bp_text_string(text, ". ");
    bp_text_string(text, phase_mend[most]);
    bp_text_string(text, "</p>\n");
    bars_begin(text);
    for (uint32_t i = 0; i < POLICY_PHASES; i++) {
        if (phases->bytes[i] > 0) {
            const bar one = {phase_name[i], phases->bytes[i], phases->classes[i],
                             i == most ? "largest" : NULL};
            bars_put(text, &one, phases->bytes[most]);
        }
    }
    bars_end(text);
}
