/* SPDX-License-Identifier: MIT */
/* The rival of the demo: what a context model of order 2 makes of the same split.
 *
 *     order2 FILE FRACTION
 *
 * learns the first part of a file and prints the mean loss, in nats per byte, on the last FRACTION
 * of it, cut as --validation-split cuts it. The model is interpolated absolute discounting (Ney,
 * Essen, Kneser 1994) over contexts of two bytes, one byte, none, and the uniform distribution,
 * with plain lower-order counts or those of Kneser and Ney (1995), whichever is better. The
 * discounts are chosen on the very bytes it is tested on: better than the model could do honestly.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 256

/* Counts of a byte after a context, and per context their sum and how many bytes have any. */
typedef struct counts {
    uint32_t contexts;
    uint32_t (*of)[BYTES];
    uint32_t *sum;
    uint32_t *kinds;
} counts;

static int counts_take(counts *c, uint32_t contexts)
{
    c->contexts = contexts;
    c->of = calloc(contexts, sizeof *c->of);
    c->sum = calloc(contexts, sizeof *c->sum);
    c->kinds = calloc(contexts, sizeof *c->kinds);
    return c->of != NULL && c->sum != NULL && c->kinds != NULL;
}

static void counts_give(counts *c)
{
    free(c->of);
    free(c->sum);
    free(c->kinds);
}

static int counts_add(counts *c, uint32_t context, unsigned byte)
{
    int fresh = c->of[context][byte]++ == 0;
    c->sum[context]++;
    c->kinds[context] += fresh ? 1 : 0;
    return fresh;
}

/* (n - d) / sum + d * kinds / sum * lower */
static double discounted(const counts *c, uint32_t context, unsigned byte, double d, double lower)
{
    if (c->sum[context] == 0) {
        return lower;
    }
    double n = c->of[context][byte];
    double kept = n > d ? n - d : 0.0;
    return (kept + d * c->kinds[context] * lower) / c->sum[context];
}

/* Orders 0, 1, 2. */
typedef struct model {
    counts order[3];
} model;

static void learn(model *plain, model *continued, const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        uint32_t one = i > 0 ? text[i - 1] : 0;
        uint32_t two = one | (i > 1 ? (uint32_t)text[i - 2] << 8 : 0);
        counts_add(&plain->order[0], 0, text[i]);
        counts_add(&plain->order[1], one, text[i]);
        counts_add(&plain->order[2], two, text[i]);
        /* A continuation counts once per longer context that it follows. */
        if (counts_add(&continued->order[2], two, text[i]) &&
            counts_add(&continued->order[1], one, text[i])) {
            counts_add(&continued->order[0], 0, text[i]);
        }
    }
}

static double test(const model *m, const unsigned char *text, size_t first, size_t end,
                   const double *discounts)
{
    double sum = 0.0;
    for (size_t i = first; i < end; i++) {
        uint32_t one = text[i - 1];
        uint32_t two = one | (uint32_t)text[i - 2] << 8;
        double p = discounted(&m->order[0], 0, text[i], 0.5, 1.0 / BYTES);
        p = discounted(&m->order[1], one, text[i], discounts[0], p);
        p = discounted(&m->order[2], two, text[i], discounts[1], p);
        sum -= log(p);
    }
    return sum / (double)(end - first);
}

static double best_of(const model *m, const unsigned char *text, size_t first, size_t end)
{
    double best = 1e9;
    for (int i = 1; i < 20; i++) {
        for (int j = 1; j < 20; j++) {
            const double discounts[2] = {0.05 * i, 0.05 * j};
            double loss = test(m, text, first, end, discounts);
            best = loss < best ? loss : best;
        }
    }
    return best;
}

static unsigned char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    unsigned char *text = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        text = size > 0 ? malloc((size_t)size) : NULL;
        *length = size > 0 ? (size_t)size : 0;
        if (text != NULL && fread(text, 1, *length, file) != *length) {
            free(text);
            text = NULL;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static double compare(const unsigned char *text, size_t cut, size_t length)
{
    model plain;
    model continued;
    static const uint32_t contexts[3] = {1, BYTES, BYTES * BYTES};
    int taken = 1;
    for (int i = 0; i < 3; i++) {
        taken &= counts_take(&plain.order[i], contexts[i]);
        taken &= counts_take(&continued.order[i], contexts[i]);
    }
    double best = -1.0;
    if (taken) {
        learn(&plain, &continued, text, cut);
        double a = best_of(&plain, text, cut, length);
        double b = best_of(&continued, text, cut, length);
        best = a < b ? a : b;
    }
    for (int i = 0; i < 3; i++) {
        counts_give(&plain.order[i]);
        counts_give(&continued.order[i]);
    }
    return best;
}

int main(int count, char **arguments)
{
    size_t length = 0;
    double fraction = count == 3 ? atof(arguments[2]) : 0.0;
    if (!(fraction > 0.0 && fraction < 1.0)) {
        fputs("order2 FILE FRACTION\n", stderr);
        return 2;
    }
    unsigned char *text = read_file(arguments[1], &length);
    size_t cut = length - (size_t)((double)length * fraction);
    if (text == NULL || cut < 2 || cut == length) {
        fprintf(stderr, "order2: %s: cannot be read, or is too short\n", arguments[1]);
        free(text);
        return 4;
    }
    double best = compare(text, cut, length);
    free(text);
    printf("%.4f\n", best);
    return best < 0.0 ? 3 : 0;
}
