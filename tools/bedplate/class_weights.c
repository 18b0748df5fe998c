/* SPDX-License-Identifier: MIT */
/* Weights of classes, given or counted. */
#include "tools/bedplate/class_weights.h"

#include <string.h>

#include "core/file/number.h"
#include "tools/bedplate/predictions.h"

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

/* A class without rows has no such weight. */
static bp_status balance(session *s, bp_source *train)
{
    static uint64_t rows[PREDICTIONS_CLASSES];
    const uint32_t classes = s->spec.config.classes;
    uint64_t all = 0;
    for (uint64_t i = 0; i < train->examples; i++) {
        bp_example example;
        BP_TRY(train->example(train, i, &example));
        if (example.label < classes) {
            rows[example.label]++;
            all++;
        }
    }
    for (uint32_t c = 0; c < classes; c++) {
        if (rows[c] == 0) {
            return bp_error_limit(&s->error, BP_ERR_DATA, where,
                                  "balanced needs rows of every class; this one has none",
                                  option_name, c, BP_LIMIT_NONE, 0);
        }
        s->class_weights[c] = (float)((double)all / ((double)classes * (double)rows[c]));
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
    if (s->spec.config.task != BP_TASK_CLASSES) {
        return bp_spec_check(&s->spec, &s->error); /* which says so */
    }
    if (strcmp(text, "balanced") != 0) {
        return read_weights(s, text);
    }
    return train != NULL ? balance(s, train) : BP_OK;
}
