/* SPDX-License-Identifier: MIT */
/* The rate of the matrix product's tile alone: packed factors that the second-level cache holds, no
 * packing, and the same rows of c again and again. What a product loses beside it is packing and
 * waiting for memory. The multiply-add peak is measured before every run of tiles; medians.
 *
 *     build/release/tools/bench/tile [avx512|avx2] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/host/matmul/matmul_pack.h"
#include "device/host/peak.h"

#define RUNS   200
#define STRIPS 32
#define PITCH  1536
#define DEPTHS 4

typedef uint64_t peak_loop(uint64_t iterations, float *sink);

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the peak, in the middle of all runs; `again`: chains go on from c. */
static double measure(const bp_matmul_isa *form, peak_loop *loop, float *memory, int64_t depth,
                      bool again)
{
    static const bp_matmul_asks nothing;
    static double rate[RUNS];
    float *a = memory, *panel = a + STRIPS * form->rows * depth;
    float *c = panel + form->columns * depth, sink;
    const char *near = (const char *)panel;
    const double work = 2.0 * (double)(form->rows * form->columns * depth * STRIPS);
    for (int i = 0; i < RUNS; i++) {
        double began = seconds_now();
        const double peak = (double)loop(10000, &sink) / (seconds_now() - began);
        bp_matmul_tile tile = {.rows = form->rows,
                               .columns = form->columns,
                               .depth = depth,
                               .packed = true,
                               .panel = panel,
                               .panel_pitch = form->columns,
                               .from_pitch = PITCH,
                               .to_pitch = PITCH,
                               .walks = {&nothing, near, near, near, near, near}};
        began = seconds_now();
        for (int64_t strip = 0; strip < STRIPS; strip++) {
            tile.a = a + strip * form->rows * depth;
            tile.to = c + strip * form->rows * PITCH;
            tile.from = again ? tile.to : NULL;
            form->tile(&tile);
        }
        rate[i] = work / (seconds_now() - began) / peak;
    }
    qsort(rate, RUNS, sizeof rate[0], by_value);
    return rate[RUNS / 2];
}

int main(int argc, char **argv)
{
    static const int64_t depths[DEPTHS] = {64, 128, 256, 384};
    const bool narrow = argc > 1 && strcmp(argv[1], "avx2") == 0;
    const bp_matmul_isa *form = narrow ? &bp_matmul_isa_avx2 : &bp_matmul_isa_avx512;
    peak_loop *loop = narrow ? bp_peak_loop_avx2 : bp_peak_loop_avx512;
    const size_t floats = (size_t)(STRIPS * BP_MATMUL_ROWS_MAX + BP_MATMUL_PANEL_MAX) * 384 +
                          (size_t)STRIPS * BP_MATMUL_ROWS_MAX * PITCH;
    float *memory = calloc(floats, sizeof *memory);
    if (memory == NULL) {
        return 1;
    }
    printf("| terms | from 0 | from c |\n|---|---|---|\n");
    for (int i = 0; i < DEPTHS; i++) {
        printf("| %d | %.3f | %.3f |\n", (int)depths[i],
               measure(form, loop, memory, depths[i], false),
               measure(form, loop, memory, depths[i], true));
    }
    free(memory);
    return 0;
}
