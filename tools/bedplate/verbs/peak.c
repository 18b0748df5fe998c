/* SPDX-License-Identifier: MIT */
/* One multiply-add loop per thread, all at once, timed together. */
#include "tools/bedplate/verbs/peak.h"
#include "tools/bedplate/app/clock.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/host/isa_table.h"
#include "device/host/peak.h"

#define TRIALS        5
#define TRIAL_SECONDS 0.05

typedef struct lane {
    pthread_t thread;
    bp_peak_loop *loop;
    uint64_t iterations;
    uint64_t operations;
    float sink;
} lane;

/* Of a form that does not run here, plain C's. */
static bp_peak_loop *loop_of(const char *form)
{
    uint32_t index;
    return bp_peak_of(bp_host_isa_find(form, &index) == BP_OK ? index : 0);
}

static void *run_lane(void *argument)
{
    lane *l = argument;
    l->operations = l->loop(l->iterations, &l->sink);
    return NULL;
}

/* Operations per second of all virtual ranks, from the start of the first to the end of the last.
 */
static double run_all(lane *lanes, uint32_t threads)
{
    uint32_t started = 0;
    double began = clock_seconds();
    while (started < threads &&
           pthread_create(&lanes[started].thread, NULL, run_lane, &lanes[started]) == 0) {
        started++;
    }
    uint64_t operations = 0;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(lanes[i].thread, NULL);
        operations += lanes[i].operations;
    }
    double seconds = clock_seconds() - began;
    return started == threads ? (double)operations / seconds : 0.0;
}

double peak_gflops(const char *form, uint32_t threads)
{
    lane *lanes = calloc(threads, sizeof *lanes);
    if (lanes == NULL) {
        return 0.0;
    }
    bp_peak_loop *loop = loop_of(form);
    uint64_t iterations = 100000;
    double best = 0.0;
    for (int trial = 0; trial < TRIALS; trial++) {
        for (uint32_t i = 0; i < threads; i++) {
            lanes[i].loop = loop;
            lanes[i].iterations = iterations;
        }
        double began = clock_seconds();
        double speed = run_all(lanes, threads);
        double seconds = clock_seconds() - began;
        best = speed > best ? speed : best;
        /* Long enough to make starting the threads a trifle. */
        double factor = TRIAL_SECONDS / seconds;
        iterations = factor > 1.0 ? (uint64_t)((double)iterations * factor) + 1 : iterations;
    }
    free(lanes);
    return best * 1e-9;
}
