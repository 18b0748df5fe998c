/* SPDX-License-Identifier: MIT */
/* Weights of classes, given or counted. */
#include "tools/bedplate/session/class_weights.h"

#include <string.h>

#include "core/base/number.h"
#include "tools/bedplate/predict/predictions.h"

static const char where[] = "class weights";
static const char option_name[] = "--class-weights";

/* "F,F,..": one number for each class. */
static bp_status read_weights(session *s, const char *text)
{
    const uint32_t classes = s->spec.config.classes;
    uint32_t count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        const size_t length = strcspn(at, ",");
        bp_number number;
        if (bp_number_parse(at, length, &number) != BP_OK || number.real < 0.0) {
            bp_status status =
                bp_error_set(&s->error, BP_ERR_USAGE, where,
                             "the weights are numbers of at least 0, or balanced", option_name);
            bp_error_found(&s->error, at, length);
            return status;
        }
        if (count < classes) {
            s->class_weights[count] = (float)number.real;
        }
        at += length;
        at += *at == ',' ? 1 : 0;
    }
    return count == classes ? BP_OK
                            : bp_error_numbers(&s->error, BP_ERR_USAGE, where,
                                               "there has to be a weight for each class",
                                               option_name, count, classes);
}

/* How many of each class there are. */
typedef struct label_counts {
    uint64_t of[PREDICTIONS_CLASSES];
    uint64_t all;
    uint32_t classes;
} label_counts;

static void count_label(label_counts *counts, uint64_t label)
{
    if (label < counts->classes) {
        counts->of[label]++;
        counts->all++;
    }
}

/* The labels of an example's tokens. */
static bp_status count_tokens(label_counts *counts, bp_source *train, const bp_example *example)
{
    int32_t labels[256];
    for (uint64_t at = 0; at < example->count; at += 256) {
        const uint64_t left = example->count - at;
        const uint32_t n = left < 256 ? (uint32_t)left : 256;
        BP_TRY(train->labels(train, example->first + example->shift + at, n, labels));
        for (uint32_t i = 0; i < n; i++) {
            count_label(counts, labels[i] >= 0 ? (uint64_t)labels[i] : BP_NO_LABEL);
        }
    }
    return BP_OK;
}

/* A class without rows, or without tokens, has no such weight. */
static bp_status balance(session *s, bp_source *train)
{
    static label_counts counts; /* large */
    const bool tokens = s->spec.config.task == BP_TASK_TOKENS;
    const uint32_t classes = s->spec.config.classes;
    counts = (label_counts){.classes = classes};
    for (uint64_t i = 0; i < train->examples; i++) {
        bp_example example;
        BP_TRY(train->example(train, i, &example));
        if (tokens) {
            BP_TRY(count_tokens(&counts, train, &example));
        } else {
            count_label(&counts, example.label);
        }
    }
    for (uint32_t c = 0; c < classes; c++) {
        if (counts.of[c] == 0) {
            return bp_error_limit(&s->error, BP_ERR_DATA, where,
                                  tokens ? "balanced needs tokens of every class; this one has none"
                                         : "balanced needs rows of every class; this one has none",
                                  option_name, c, BP_LIMIT_NONE, 0);
        }
        s->class_weights[c] =
            (float)((double)counts.all / ((double)classes * (double)counts.of[c]));
    }
    return BP_OK;
}

bp_status class_weights_fill(session *s, bp_source *train)
{
    const char *text = s->set->class_weights;
    if (text == NULL) {
        return BP_OK;
    }
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        s->class_weights[c] = 1.0f;
    }
    s->spec.class_weights = s->class_weights;
    if (s->spec.config.task != BP_TASK_CLASSES && s->spec.config.task != BP_TASK_TOKENS) {
        return bp_spec_check(&s->spec, &s->error); /* which says so */
    }
    if (strcmp(text, "balanced") != 0) {
        return read_weights(s, text);
    }
    return train != NULL ? balance(s, train) : BP_OK;
}
