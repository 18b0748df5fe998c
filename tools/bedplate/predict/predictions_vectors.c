/* SPDX-License-Identifier: MIT */
/* Cosines, their correlation with scores, and recall. */
#include "tools/bedplate/predict/predictions_vectors.h"

#include <math.h>
#include <string.h>

#include "core/base/sort.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/session/session.h"

/* What is kept until the end: of each row the vectors of its first two texts, then numbers of rows
 * to rank them by. */
static uint64_t vectors_rows(const predictions *p)
{
    return p->source->examples / p->source->together;
}

bp_status predictions_vectors_begin(predictions *p, session *s)
{
    vector_sums *v = &p->vectors;
    const bool both = model_sees(&s->spec.config); /* a sample is a text and its image */
    v->both = both;
    v->width = s->spec.config.classes / (both ? 2 : 1);
    v->texts = both ? 2 : s->spec.texts;
    const uint64_t rows = vectors_rows(p);
    const uint64_t floats = bp_size_mul(bp_size_mul(rows, 2), v->width);
    const uint64_t bytes =
        bp_size_add(bp_size_mul(floats, sizeof(float)), bp_size_mul(rows, 4 * sizeof(double)));
    return memory_take(&p->room, bytes, false, "host memory", &s->error);
}

bp_status predictions_numbers_begin(predictions *p, session *s)
{
    const uint64_t rows = p->source->examples;
    BP_TRY(memory_take(&p->room, bp_size_mul(rows, 4 * sizeof(double)), false, "host memory",
                       &s->error));
    p->numbers.all = p->room.address;
    p->numbers.rows = rows;
    return BP_OK;
}

/* The vector of text 0 or 1 of a row. */
static float *vectors_of(const predictions *p, uint64_t row, uint32_t text)
{
    double *numbers = p->room.address;
    return (float *)(numbers + 4 * vectors_rows(p)) + (2 * row + text) * p->vectors.width;
}

bp_status predictions_vectors_take(predictions *p, const bp_runtime *runtime)
{
    vector_sums *v = &p->vectors;
    const uint64_t each = runtime->plan->spec.config.classes / v->width;
    for (uint64_t i = 0; i < runtime->group.samples * each; i++) {
        const float *x = runtime->logits_host + i * v->width;
        const uint64_t sample = v->samples++;
        const uint32_t text = (uint32_t)(sample % v->texts);
        double square = 0.0;
        if (text > 1) {
            continue; /* negatives are of training */
        }
        for (uint64_t k = 0; k < v->width; k++) {
            square += (double)x[k] * (double)x[k];
        }
        const double factor = 1.0 / fmax(sqrt(square), 1e-12);
        float *to = vectors_of(p, sample / v->texts, text);
        for (uint64_t k = 0; k < v->width; k++) {
            to[k] = (float)((double)x[k] * factor);
        }
    }
    return BP_OK;
}

static double vectors_cosine(const predictions *p, const float *a, const float *b)
{
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (uint64_t k = 0; k < p->vectors.width; k++) {
        sum[k % 4] += (double)a[k] * (double)b[k];
    }
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* A number and whose it is. */
typedef struct ranked {
    double value;
    double row;
} ranked;

static int ranked_compare(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return x < y ? -1 : x > y;
}

/* Ranks from 1 on, of equal numbers the mean of theirs. */
static void rank_all(ranked *sorted, uint64_t count, double *ranks)
{
    bp_heap_sort(sorted, (size_t)count, sizeof *sorted, ranked_compare);
    for (uint64_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && !(sorted[end].value > sorted[i].value)) {
            end++;
        }
        for (uint64_t k = i; k < end; k++) {
            ranks[(uint64_t)sorted[k].row] = (double)(i + end + 1) / 2.0;
        }
    }
}

static double correlation(const double *a, const double *b, uint64_t count)
{
    double mean_a = 0.0, mean_b = 0.0, aa = 0.0, bb = 0.0, ab = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        mean_a += (a[i] - mean_a) / (double)(i + 1);
        mean_b += (b[i] - mean_b) / (double)(i + 1);
    }
    for (uint64_t i = 0; i < count; i++) {
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
        ab += (a[i] - mean_a) * (b[i] - mean_b);
    }
    return ab / sqrt(aa * bb);
}

/* numbers[0 .. rows - 1] become their ranks, and so do those from `apart` on; behind both there is
 * room to sort. */
static double rank_correlation(double *numbers, uint64_t rows, uint64_t apart)
{
    ranked *sorted = (ranked *)(numbers + 2 * apart);
    for (uint32_t which = 0; which < 2; which++) {
        double *of = numbers + which * apart;
        for (uint64_t i = 0; i < rows; i++) {
            sorted[i] = (ranked){of[i], (double)i};
        }
        rank_all(sorted, rows, of);
    }
    return correlation(numbers, numbers + apart, rows);
}

void predictions_numbers_end(predictions *p)
{
    number_sums *n = &p->numbers;
    n->spearman =
        p->labelled <= n->rows ? rank_correlation(n->all, p->labelled, n->rows) : (double)NAN;
}

/* How many texts of the other side are nearer to a row's text of `side` than its own, up to 10. */
static uint64_t vectors_place(const predictions *p, uint64_t row, uint64_t rows, uint32_t side)
{
    const float *anchor = vectors_of(p, row, side);
    const double own = vectors_cosine(p, anchor, vectors_of(p, row, 1 - side));
    uint64_t nearer = 0;
    for (uint64_t i = 0; i < rows && nearer < 10; i++) {
        nearer += i != row && vectors_cosine(p, anchor, vectors_of(p, i, 1 - side)) > own ? 1 : 0;
    }
    return nearer;
}

static void vectors_recall(predictions *p, uint64_t rows, uint32_t side)
{
    static const uint64_t least[VECTOR_RECALLS] = {1, 3, 5, 10};
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t place = vectors_place(p, i, rows, side);
        for (uint32_t k = 0; k < VECTOR_RECALLS; k++) {
            p->vectors.found[side][k] += place < least[k] ? 1 : 0;
        }
        p->vectors.reciprocal += side == 0 && place < 10 ? 1.0 / (double)(place + 1) : 0.0;
    }
}

bp_status predictions_vectors_end(predictions *p)
{
    const uint64_t rows = vectors_rows(p);
    double *numbers = p->room.address;
    p->rows = rows;
    p->labelled = rows;
    p->vectors.scored = !p->vectors.both;
    for (uint64_t i = 0; i < rows; i++) {
        bp_example row;
        BP_TRY(p->source->example(p->source, i * p->source->together, &row));
        float score;
        const uint32_t bits = (uint32_t)row.label;
        memcpy(&score, &bits, sizeof score);
        p->vectors.scored = p->vectors.scored && row.label != BP_NO_LABEL;
        numbers[i] = vectors_cosine(p, vectors_of(p, i, 0), vectors_of(p, i, 1));
        numbers[rows + i] = (double)score;
    }
    if (p->vectors.scored) {
        p->vectors.pearson = correlation(numbers, numbers + rows, rows);
        p->vectors.spearman = rank_correlation(numbers, rows, rows);
    } else {
        vectors_recall(p, rows, 0);
    }
    if (p->vectors.both) {
        vectors_recall(p, rows, 1);
    }
    return BP_OK;
}

double predictions_pearson_cosine(const predictions *p)
{
    return p->vectors.scored ? p->vectors.pearson : (double)NAN;
}

double predictions_spearman_cosine(const predictions *p)
{
    return p->vectors.scored ? p->vectors.spearman : (double)NAN;
}

static double recall_of(const predictions *p, uint32_t which)
{
    return p->vectors.scored ? (double)NAN
                             : (double)p->vectors.found[0][which] / (double)p->labelled;
}

double predictions_recall_1(const predictions *p)
{
    return recall_of(p, 0);
}

double predictions_recall_3(const predictions *p)
{
    return recall_of(p, 1);
}

double predictions_recall_5(const predictions *p)
{
    return recall_of(p, 2);
}

double predictions_recall_10(const predictions *p)
{
    return recall_of(p, 3);
}

double predictions_recall_back(const predictions *p, uint32_t which)
{
    return p->vectors.both ? (double)p->vectors.found[1][which] / (double)p->labelled : (double)NAN;
}

double predictions_mrr_10(const predictions *p)
{
    return p->vectors.scored ? (double)NAN : p->vectors.reciprocal / (double)p->labelled;
}
