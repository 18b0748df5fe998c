/* SPDX-License-Identifier: MIT */
/* The best evaluation so far. */
#include "tools/bedplate/runs/best.h"

#include <string.h>

#include "core/base/digest.h"

enum { FIELDS = 4 };

bool best_judge(best_state *state, const best_rule *rule, uint64_t step, double value)
{
    if (step <= state->judged) {
        return false;
    }
    state->judged = step;
    const double gain = rule->greater ? value - state->value : state->value - value;
    const bool first = state->step == 0;
    const bool better = first ? value - value == 0.0 : gain > 0.0;
    state->patience = better && (first || gain > rule->threshold) ? 0 : state->patience + 1;
    if (better) {
        state->step = step;
        state->value = value;
    }
    return better;
}

/* Four words of 16 hexadecimal digits; the metric by its bits, so that nothing is rounded. */
void best_put(const best_state *state, char text[BEST_TEXT])
{
    uint64_t bits;
    memcpy(&bits, &state->value, sizeof bits);
    const uint64_t words[FIELDS] = {state->judged, state->step, bits, state->patience};
    for (size_t i = 0; i < FIELDS; i++) {
        bp_digest_text(words[i], text + i * BP_DIGEST_TEXT);
        text[(i + 1) * BP_DIGEST_TEXT - 1] = i + 1 < FIELDS ? ' ' : '\0';
    }
}

bool best_parse(const char *text, best_state *state)
{
    uint64_t words[FIELDS];
    if (text == NULL || strlen(text) != FIELDS * BP_DIGEST_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < FIELDS; i++) {
        char word[BP_DIGEST_TEXT];
        memcpy(word, text + i * BP_DIGEST_TEXT, BP_DIGEST_TEXT);
        if (word[BP_DIGEST_TEXT - 1] != (i + 1 < FIELDS ? ' ' : '\0')) {
            return false;
        }
        word[BP_DIGEST_TEXT - 1] = '\0';
        if (!bp_digest_parse(word, &words[i])) {
            return false;
        }
    }
    *state = (best_state){.judged = words[0], .step = words[1], .patience = words[3]};
    memcpy(&state->value, &words[2], sizeof state->value);
    return true;
}
