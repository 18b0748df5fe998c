/* SPDX-License-Identifier: MIT */
/* Declarations of inputs. */
#include "layers/nodes/inputs.h"

static bp_input tokens(const bp_spec *spec)
{
    return (bp_input){.name = "ids",
                      .from = BP_INPUT_IDS,
                      .dtype = BP_I32,
                      .rank = 1,
                      .shape = {spec->sequence},
                      .below = spec->config.vocabulary,
                      .decodes = true};
}

/* A token, a class, a place, or, of a task that takes bits, anything; -1 is no target. */
static bp_input labels(const bp_spec *spec)
{
    const bp_task task = spec->config.task;
    const bool words = task < BP_TASK_CLASSES, places = task == BP_TASK_ANSWERS;
    const bool classes = task == BP_TASK_CLASSES || task == BP_TASK_TOKENS;
    return (bp_input){.name = "labels",
                      .from = BP_INPUT_LABELS,
                      .dtype = BP_I32,
                      .rank = 1,
                      .shape = {spec->sequence},
                      .below = words     ? spec->config.vocabulary
                               : classes ? spec->config.classes
                               : places  ? spec->sequence
                                         : 0,
                      .negative = true,
                      .fill = -1};
}

bp_input bp_inputs_lengths(const bp_spec *spec)
{
    return (bp_input){.name = "lengths",
                      .from = BP_INPUT_LENGTHS,
                      .dtype = BP_I32,
                      .below = (uint64_t)spec->sequence + 1};
}

uint32_t bp_inputs_windows(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    rows[0] = tokens(spec);
    rows[1] = labels(spec);
    return 2;
}

static bp_input sides(void)
{
    return (bp_input){.name = "sides",
                      .from = BP_INPUT_PREFERENCES,
                      .dtype = BP_I32,
                      .rank = 1,
                      .shape = {BP_SIDE_WORDS},
                      .negative = true};
}

static bp_input starts(const bp_spec *spec)
{
    return (bp_input){.name = "starts",
                      .from = BP_INPUT_STARTS,
                      .dtype = BP_I32,
                      .rank = 1,
                      .shape = {spec->sequence},
                      .below = spec->sequence,
                      .negative = true,
                      .fill = -1};
}

/* Of each token `top_k` tokens of the teacher's, or their log-probabilities. */
static bp_input distilled(const bp_spec *spec, bp_input_from from)
{
    const bool tops = from == BP_INPUT_TOPS;
    return (bp_input){.name = tops ? "tops" : "logps",
                      .from = from,
                      .dtype = tops ? BP_I32 : BP_F32,
                      .rank = 2,
                      .shape = {spec->sequence, spec->distill.top_k},
                      .below = tops ? spec->config.vocabulary : 0};
}

uint32_t bp_inputs_texts(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    if (spec->config.task == BP_TASK_EMBEDDING) {
        rows[0] = tokens(spec);
        rows[1] = bp_inputs_lengths(spec);
        return 2;
    }
    uint32_t count = bp_inputs_windows(spec, rows);
    if (spec->config.task == BP_TASK_CAUSAL_LM) {
        if (spec->preference.kind != BP_PREFERENCE_NONE) {
            rows[count++] = sides();
        }
        if (spec->packed) {
            rows[count++] = starts(spec);
        }
        if (spec->distill.top_k > 0 && !spec->distill.is_teacher) {
            rows[count++] = distilled(spec, BP_INPUT_TOPS);
            rows[count++] = distilled(spec, BP_INPUT_LOGPS);
        }
        if (spec->row_weights) {
            rows[count++] = (bp_input){.name = "weights",
                                       .from = BP_INPUT_WEIGHTS,
                                       .dtype = BP_F32,
                                       .rank = 1,
                                       .shape = {spec->sequence}};
        }
        return count;
    }
    rows[count] = bp_inputs_lengths(spec);
    if (spec->config.task == BP_TASK_ANSWERS) {
        rows[++count] = labels(spec);
        rows[count].name = "ends";
        rows[count].from = BP_INPUT_ENDS;
    }
    return count + 1;
}

uint32_t bp_inputs_document_positions(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const uint32_t count = bp_inputs_texts(spec, rows);
    if (!spec->packed || spec->config.task != BP_TASK_CAUSAL_LM) {
        return count;
    }
    rows[count] = (bp_input){.name = "places",
                             .from = BP_INPUT_DOCUMENT_POSITIONS,
                             .dtype = BP_I32,
                             .rank = 1,
                             .shape = {spec->sequence},
                             .below = spec->sequence};
    return count + 1;
}

uint32_t bp_inputs_pairs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const uint32_t count = bp_inputs_texts(spec, rows);
    if (!spec->pairs) {
        return count;
    }
    rows[count] = (bp_input){.name = "types",
                             .from = BP_INPUT_TYPES,
                             .dtype = BP_I32,
                             .rank = 1,
                             .shape = {spec->sequence},
                             .below = 2};
    return count + 1;
}

uint32_t bp_inputs_sources(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const uint32_t count = bp_inputs_windows(spec, rows);
    rows[count] = (bp_input){.name = "source",
                             .from = BP_INPUT_SOURCE,
                             .dtype = BP_I32,
                             .rank = 1,
                             .shape = {spec->source},
                             .below = spec->config.vocabulary,
                             .whole = true};
    rows[count + 1] = (bp_input){.name = "source_lengths",
                                 .from = BP_INPUT_SOURCE_LENGTHS,
                                 .dtype = BP_I32,
                                 .below = (uint64_t)spec->source + 1,
                                 .whole = true};
    return count + 2;
}

uint32_t bp_inputs_numbers(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    rows[0] = (bp_input){.name = "numbers",
                         .from = BP_INPUT_IDS,
                         .dtype = BP_F32,
                         .rank = 1,
                         .shape = {spec->sequence}};
    rows[1] = labels(spec); /* of the sample as a whole */
    rows[1].rank = 0;
    rows[2] = bp_inputs_lengths(spec);
    return 3;
}
