/* SPDX-License-Identifier: MIT */
/* Average precision, reciprocal ranks and discounted gains. */
#include "tools/bedplate/predict/predictions_ranks.h"

#include <math.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/sort.h"

enum { RANKS_TOP = 10, RANKS_TOKENS = 256 };

bp_status predictions_ranks_begin(predictions *p, session *s)
{
    const uint64_t rows = p->source->examples;
    BP_TRY(memory_take(&p->room, bp_size_mul(rows, sizeof(rank_row)), false, "host memory",
                       &s->error));
    p->ranks = (rank_sums){.all = p->room.address, .rows = rows};
    return BP_OK;
}

void predictions_ranks_take(predictions *p, double logit, double label)
{
    p->right += (logit > 0.0) == (label >= 0.5) ? 1 : 0;
    if (p->labelled <= p->ranks.rows) {
        p->ranks.all[p->labelled - 1] =
            (rank_row){.row = p->labelled - 1, .score = logit, .label = label};
    }
}

static int ranks_by_score(const void *a, const void *b)
{
    const rank_row *x = a, *y = b;
    return x->score > y->score   ? -1
           : x->score < y->score ? 1
           : x->row < y->row     ? -1
                                 : x->row > y->row;
}

static int ranks_by_query(const void *a, const void *b)
{
    const rank_row *x = a, *y = b;
    return x->query != y->query ? (x->query < y->query ? -1 : 1) : ranks_by_score(a, b);
}

static int ranks_by_label(const void *a, const void *b)
{
    const double x = ((const rank_row *)a)->label, y = ((const rank_row *)b)->label;
    return x > y ? -1 : x < y;
}

/* Behind the rows from `i` on that have the same score. */
static uint64_t ranks_same(const rank_row *rows, uint64_t count, uint64_t i)
{
    uint64_t end = i + 1;
    while (end < count && !(rows[end].score < rows[i].score)) {
        end++;
    }
    return end;
}

/* Of rows in the order of their scores: the sum over scores of precision times the recall that it
 * adds. */
static double ranks_precision(const rank_row *rows, uint64_t count)
{
    uint64_t hits = 0;
    double sum = 0.0;
    for (uint64_t i = 0, end; i < count; i = end) {
        uint64_t here = 0;
        end = ranks_same(rows, count, i);
        for (uint64_t k = i; k < end; k++) {
            here += rows[k].label >= 0.5 ? 1 : 0;
        }
        hits += here;
        sum += (double)here * (double)hits / (double)end;
    }
    return hits > 0 ? sum / (double)hits : 0.0;
}

static double ranks_reciprocal(const rank_row *rows, uint64_t count)
{
    for (uint64_t i = 0; i < count && i < RANKS_TOP; i++) {
        if (rows[i].label >= 0.5) {
            return 1.0 / (double)(i + 1);
        }
    }
    return 0.0;
}

static double ranks_discount(uint64_t place)
{
    return place < RANKS_TOP ? 1.0 / log2((double)place + 2.0) : 0.0;
}

/* Rows of equal scores share their gains where `ties`. */
static double ranks_gain(const rank_row *rows, uint64_t count, bool ties)
{
    double sum = 0.0;
    for (uint64_t i = 0, end; i < count; i = end) {
        double labels = 0.0, discounts = 0.0;
        end = ties ? ranks_same(rows, count, i) : i + 1;
        for (uint64_t k = i; k < end; k++) {
            labels += rows[k].label;
            discounts += ranks_discount(k);
        }
        sum += labels / (double)(end - i) * discounts;
    }
    return sum;
}

/* Of one query's rows, which are sorted by label afterwards. */
static void ranks_query(rank_sums *r, rank_row *rows, uint64_t count)
{
    const double gain = ranks_gain(rows, count, true);
    r->queries++;
    r->map += ranks_precision(rows, count);
    r->mrr += ranks_reciprocal(rows, count);
    bp_heap_sort(rows, (size_t)count, sizeof *rows, ranks_by_label);
    const double best = ranks_gain(rows, count, false);
    r->ndcg += best > 0.0 ? gain / best : 0.0;
}

/* The digest of a row's first text, as its tokens. */
static bp_status ranks_digest(bp_source *source, uint64_t row, uint64_t *digest)
{
    int32_t tokens[RANKS_TOKENS];
    bp_example at;
    bp_digest sum;
    BP_TRY(source->example(source, row, &at));
    const uint64_t count = at.second > 0 ? at.second : at.count;
    bp_digest_begin(&sum, 0);
    for (uint64_t i = 0; i < count;) {
        const uint64_t left = count - i;
        const uint32_t n = left < RANKS_TOKENS ? (uint32_t)left : RANKS_TOKENS;
        BP_TRY(source->read(source, at.first + i, n, tokens));
        bp_digest_add(&sum, tokens, n * sizeof tokens[0]);
        i += n;
    }
    *digest = bp_digest_end(&sum);
    return BP_OK;
}

bp_status predictions_ranks_end(predictions *p)
{
    rank_sums *r = &p->ranks;
    const uint64_t count = p->labelled < r->rows ? p->labelled : r->rows;
    for (uint64_t i = 0; i < count; i++) {
        BP_TRY(ranks_digest(p->source, i, &r->all[i].query));
    }
    bp_heap_sort(r->all, (size_t)count, sizeof *r->all, ranks_by_score);
    r->average_precision = ranks_precision(r->all, count);
    bp_heap_sort(r->all, (size_t)count, sizeof *r->all, ranks_by_query);
    for (uint64_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && r->all[end].query == r->all[i].query) {
            end++;
        }
        ranks_query(r, r->all + i, end - i);
    }
    return BP_OK;
}
