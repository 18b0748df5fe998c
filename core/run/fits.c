/* SPDX-License-Identifier: MIT */
/* Whether a feed fits the plan that is to run over it. */
#include "core/plan/input.h"
#include "core/run/run_private.h"

static const char where[] = "run";

/* A member of a feed that is not what the plan has. */
static bp_status fits_not(bp_runtime *runtime, const char *member, uint64_t found, bp_limit limit,
                          uint64_t right)
{
    return bp_error_limit(&runtime->error, BP_ERR_USAGE, where, "the feed does not fit the plan",
                          member, bp_size_signed(found), limit, bp_size_signed(right));
}

static const bp_input *fits_input(const bp_runtime *runtime, bp_input_from from)
{
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        if (runtime->plan->compile.input[i].from == from) {
            return &runtime->plan->compile.input[i];
        }
    }
    return NULL;
}

/* Ids that the feed can give: those of the data, padding, and what masking puts in their place. */
static bp_status fits_ids(bp_runtime *runtime, const bp_feed *feed)
{
    const bp_input *ids = fits_input(runtime, BP_INPUT_IDS);
    const uint64_t most = ids != NULL ? ids->below : 0;
    if (ids != NULL && ids->dtype == BP_U8) {
        return fits_not(runtime, "pixels", 4, BP_LIMIT_EXACT, 1);
    }
    if (most == 0) {
        return feed->vocabulary == 0
                   ? BP_OK
                   : fits_not(runtime, "vocabulary", feed->vocabulary, BP_LIMIT_EXACT, 0);
    }
    if (feed->vocabulary == 0 || feed->vocabulary > most) {
        return fits_not(runtime, "vocabulary", feed->vocabulary, BP_LIMIT_MOST, most);
    }
    if ((uint32_t)feed->padding >= most) {
        return fits_not(runtime, "padding", (uint64_t)feed->padding, BP_LIMIT_BELOW, most);
    }
    const bool masks = feed->kind == BP_LABELS_MASKED;
    return masks && (uint32_t)feed->masking.token >= most
               ? fits_not(runtime, "masking.token", (uint64_t)feed->masking.token, BP_LIMIT_BELOW,
                          most)
               : BP_OK;
}

/* Labels: their kind is the task's, or they are given token by token where the task takes such; and
 * all are below what the model's loss reads. */
static bp_status fits_labels(bp_runtime *runtime, const bp_feed *feed)
{
    const bp_task task = runtime->plan->spec.config.task;
    const bool words = task == BP_TASK_CAUSAL_LM || task == BP_TASK_MASKED_LM;
    const bool given = feed->kind == BP_LABELS_GIVEN, classes = feed->kind == BP_LABELS_CLASS;
    const bp_input *labels = fits_input(runtime, BP_INPUT_LABELS);
    if (feed->kind != bp_feed_labels(task) && !(words && given)) {
        return fits_not(runtime, "kind", feed->kind, BP_LIMIT_EXACT, bp_feed_labels(task));
    }
    if (labels == NULL || !(classes || given)) {
        return BP_OK;
    }
    const uint32_t below = classes || feed->classes > 0 ? feed->classes : feed->vocabulary;
    return below > 0 && below <= labels->below
               ? BP_OK
               : fits_not(runtime, "classes", below, BP_LIMIT_MOST, labels->below);
}

/* A text that another is made of is split off where the plan has columns for it, and is as long as
 * these: a shorter length would leave tokens of it out. */
static bp_status fits_texts(bp_runtime *runtime, const bp_feed *feed)
{
    const uint32_t source = runtime->plan->spec.source;
    if (feed->source_tokens != source) {
        return fits_not(runtime, "source_tokens", feed->source_tokens, BP_LIMIT_EXACT, source);
    }
    return (feed->texts != NULL) == (source > 0)
               ? BP_OK
               : fits_not(runtime, "texts", feed->texts != NULL, BP_LIMIT_EXACT, source > 0);
}

/* Weights of classes divide the loss, so they are those that the plan multiplies it with. */
static bp_status fits_weights(bp_runtime *runtime, const bp_feed *feed)
{
    const float *own = runtime->plan->spec.class_weights, *given = feed->class_weights;
    bool equal = (own != NULL) == (given != NULL);
    for (uint32_t i = 0; equal && own != NULL && i < runtime->plan->spec.config.classes; i++) {
        equal = !(own[i] < given[i]) && !(own[i] > given[i]);
    }
    return equal ? BP_OK
                 : fits_not(runtime, "class_weights", given != NULL, BP_LIMIT_EXACT, own != NULL);
}

bp_status run_check_feed(bp_runtime *runtime, const bp_feed *feed, uint32_t batch, uint32_t group)
{
    const bp_spec *spec = &runtime->plan->spec;
    const bool pairs = spec->preference.kind != BP_PREFERENCE_NONE;
    if (feed->sequence != spec->sequence) {
        return fits_not(runtime, "sequence", feed->sequence, BP_LIMIT_EXACT, spec->sequence);
    }
    if (feed->batch != batch) {
        return fits_not(runtime, "batch", feed->batch, BP_LIMIT_EXACT, batch);
    }
    if (feed->group != group) {
        return fits_not(runtime, "group", feed->group, BP_LIMIT_EXACT, group);
    }
    if (feed->pairs != pairs) {
        return fits_not(runtime, "pairs", feed->pairs, BP_LIMIT_EXACT, pairs);
    }
    BP_TRY(run_check_members(feed, &runtime->error));
    BP_TRY(fits_ids(runtime, feed));
    BP_TRY(fits_labels(runtime, feed));
    BP_TRY(fits_texts(runtime, feed));
    BP_TRY(fits_weights(runtime, feed));
    const bp_source *source = feed->source;
    if (source == NULL || feed->steps_per_epoch == 0 ||
        feed->windows != bp_feed_windows(source, feed->sequence) ||
        feed->steps_per_epoch != bp_size_ceil_div(feed->windows, feed->group)) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "the feed was not initialised, or was changed since", NULL);
    }
    return spec->texts < 2 || source->together == spec->texts
               ? BP_OK
               : fits_not(runtime, "source.together", source->together, BP_LIMIT_EXACT,
                          spec->texts);
}

/* What a caller's own functions put into a column (an augmentation, a teacher, an order). Columns
 * of a teacher that is not there are not read. */
bp_status run_check_group(bp_runtime *runtime, const bp_feed *feed)
{
    const bp_group *group = &runtime->group;
    for (uint32_t i = 0; i < group->columns; i++) {
        const bp_input *input = &runtime->plan->compile.input[i];
        const int32_t *at = group->column[i].data;
        const bool idle = input->from == BP_INPUT_TOPS && feed->teacher == NULL;
        const uint64_t count = (uint64_t)group->micros * feed->batch * group->column[i].elements;
        for (uint64_t k = 0; input->below > 0 && !idle && k < count; k++) {
            if (at[k] < 0 ? !input->negative : (uint64_t)at[k] >= input->below) {
                return bp_error_limit(&runtime->error, BP_ERR_DATA, where,
                                      "the feed gave a number that the plan has no place for",
                                      input->name, at[k], BP_LIMIT_BELOW, (int64_t)input->below);
            }
        }
    }
    return BP_OK;
}
