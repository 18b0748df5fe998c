/* SPDX-License-Identifier: MIT */
/* What a model that judges texts or rows made of each of them: a file of JSON lines, and how often
 * it was right. */
#ifndef BP_BEDPLATE_PREDICTIONS_H
#define BP_BEDPLATE_PREDICTIONS_H

#include <stdio.h>

#include "core/run/runtime.h"
#include "tools/bedplate/predict/entities.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/preference_metrics.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/family/class_names.h"

#define PREDICTIONS_PAIRS   BP_TASK_COUNT /* the task of a loss over pairs, for what judges it */
#define PREDICTIONS_CLASSES 1024          /* as many as a task may have */
#define PREDICTIONS_TOP     5             /* of so many likeliest classes one may be the label */

/* Of one class: how often it was the label, the prediction, and both. */
typedef struct class_counts {
    uint64_t labelled;
    uint64_t predicted;
    uint64_t right;
} class_counts;

/* Means, and sums of squares around them, of predicted and given numbers (Welford, 1962). */
typedef struct number_sums {
    double mean_found, mean_given;
    double square_found, square_given, product;
    double
        *all; /* found, given and room to sort, for `rows` rows each: of a regression, else NULL */
    uint64_t rows;
    double spearman;
} number_sums;

/* Of questions: sums of how good their answers are, 0 to 1 each. */
typedef struct answer_sums {
    uint64_t questions;
    double exact, f1;
} answer_sums;

/* One row of a ranking. */
typedef struct rank_row {
    uint64_t query; /* digest of the first text's tokens */
    uint64_t row;
    double score; /* its logit */
    double label;
} rank_row;

/* Of texts ranked for queries. */
typedef struct rank_sums {
    rank_row *all; /* in the room; NULL: not counted */
    uint64_t rows, queries;
    double average_precision; /* of all rows; then sums over queries */
    double map, mrr, ndcg;
} rank_sums;

#define VECTOR_RECALLS 4 /* at 1, 3, 5 and 10 */

/* Of vectors of texts. */
typedef struct vector_sums {
    uint64_t width, samples;
    uint32_t texts; /* of a row */
    bool both;      /* which are a text and its image */
    bool scored;
    double pearson, spearman;
    uint64_t found[2][VECTOR_RECALLS]; /* of first texts that search; of the others, of images */
    double reciprocal;
} vector_sums;

typedef struct predictions {
    const bp_class_names *names; /* of the classes; count 0: they have numbers only */
    FILE *file;                  /* NULL: none is written */
    bool raw_scores;             /* of a ranking: as the model's configuration says */
    bool unlabelled;             /* the data has no labels: nothing is right or wrong */
    uint64_t rows;
    uint64_t labelled;
    uint64_t right; /* rows, or tokens, whose prediction is the label, whole */
    uint64_t near;  /* rows whose label is one of the PREDICTIONS_TOP likeliest classes */
    uint32_t classes;
    class_counts counts[PREDICTIONS_CLASSES];
    number_sums numbers;
    entities entities; /* of tagged words, whose tokens are what is counted as labelled and right */
    answer_sums answers[2]; /* of questions that have an answer, and of those that have none */
    vector_sums vectors;
    rank_sums ranks;
    uint32_t best;               /* of questions: likely places that are kept of every window */
    bp_source *source;           /* of tagged words, and of questions */
    preference_metrics told;     /* of pairs of rows */
    uint64_t words, word_errors; /* of speech that was written down */
    bp_tokens *tokens;           /* what knows which rows of the data were left out, or NULL */
    uint64_t next;               /* the row of the data that comes next, */
    uint64_t left;               /* and how many were left out before it */
    memory_block room;           /* what is kept of every token, or window, until the end */
    output out;
} predictions;

/* The spec's task, or PREDICTIONS_PAIRS. */
bp_task predictions_task(const bp_spec *spec);

/* What watches evaluations: NULL where nothing is counted, as of a language model whose logits are
 * not kept. */
bp_evaluated predictions_watch(const bp_spec *spec);

/* Whether the task has predictions: its eval program keeps the logits of samples. */
bool predictions_are_made(const bp_spec *spec);

/* BP_ERR_USAGE when there is a path and the task has no predictions. */
bp_status predictions_check(const bp_spec *spec, const char *path, bp_error *error) BP_MUST_CHECK;

/* Counts from nothing. With a path (NULL: none) the file is made at once. BP_ERR_STORE. */
bp_status predictions_begin(predictions *p, const bp_class_names *names, const char *path,
                            bp_error *error) BP_MUST_CHECK;

/* Writes a class by its name, as JSON, or by its number. */
void predictions_put_class(predictions *p, const char *key, uint32_t class_number);

/* The number of the row of the data that is next, which is then the one behind it. */
bp_status predictions_row(predictions *p, uint64_t *number) BP_MUST_CHECK;

/* Closes the file. BP_ERR_STORE when some of it could not be written. */
bp_status predictions_end(predictions *p, const char *path, bp_error *error) BP_MUST_CHECK;

/* Members that are no metric of the whole: PREFIX"entities" of each type (entities.h), and how many
 * questions have an answer. */
void predictions_json_more(const predictions *p, bp_task task, const char *prefix, output *out);

#endif
