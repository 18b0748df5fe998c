/* SPDX-License-Identifier: MIT */
/* Exchanges of growing pieces, timed on every rank. */
#include "tools/bedplate/verbs/bench_fabric.h"
#include "tools/bedplate/app/clock.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/sort.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/ranks/ranks.h"

#define PIECE_LEAST UINT64_C(64)
#define PIECE_MOST  (UINT64_C(16) << 20)
#define SIZES       10 /* times four each */
#define WARM_UP     2

typedef struct fabric_times {
    uint64_t bytes[SIZES]; /* of a piece */
    double seconds[SIZES]; /* median of a call */
    double latency;
    double bandwidth;
} fabric_times;

static int bench_fabric_by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static bp_status time_size(const ranks *own, const bp_fabric_transfer *call, double *seconds,
                           uint64_t repeat, bp_error *error)
{
    for (uint64_t i = 0; i < WARM_UP + repeat; i++) {
        const double began = clock_seconds();
        BP_TRY(own->fabric->begin(own->context, call, error));
        BP_TRY(own->fabric->wait(own->context, call->request, error));
        if (i >= WARM_UP) {
            seconds[i - WARM_UP] = clock_seconds() - began;
        }
    }
    bp_heap_sort(seconds, (size_t)repeat, sizeof *seconds, bench_fabric_by_value);
    return BP_OK;
}

static bp_status time_sizes(const settings *set, fabric_times *times, double *seconds,
                            bp_error *error)
{
    const ranks *own = set->ranks;
    const size_t room = (size_t)(own->size * PIECE_MOST);
    char *from = calloc(room, 1);
    char *to = calloc(room, 1);
    bp_status status = from != NULL && to != NULL ? BP_OK : BP_ERR_FIT;
    if (status == BP_OK) { /* or all of it were one page of zeros, which no cache loses */
        memset(from, 1, room);
        memset(to, 1, room);
    }
    uint64_t bytes = PIECE_LEAST;
    for (int i = 0; i < SIZES && status == BP_OK; i++, bytes *= 4) {
        const bp_fabric_transfer call = {
            .call = BP_FABRIC_EXCHANGE, .bytes = bytes, .to = to, .from = from};
        status = time_size(own, &call, seconds, set->repeat, error);
        times->bytes[i] = bytes;
        times->seconds[i] = seconds[set->repeat / 2];
    }
    if (error->code != BP_OK) {
        ranks_fail(set, error); /* before memory goes that pieces still come to */
    }
    free(from);
    free(to);
    return status;
}

/* The smallest call is all latency; what the largest takes beyond it is the links'. */
static void solve_times(fabric_times *times, uint32_t size)
{
    const double sent = (double)(times->bytes[SIZES - 1] - times->bytes[0]) * (size - 1);
    const double more = times->seconds[SIZES - 1] - times->seconds[0];
    times->latency = times->seconds[0];
    times->bandwidth = more > 0.0 ? sent / more : 0.0;
}

static void print_times(const settings *set, const fabric_times *times, uint32_t size)
{
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_text(&out, "fabric", set->ranks->fabric->name);
        json_count(&out, "ranks", size);
        json_real(&out, "latency", times->latency, 6);
        json_real(&out, "bandwidth", times->bandwidth, 6);
        json_list(&out, "calls");
        for (int i = 0; i < SIZES; i++) {
            json_item(&out);
            json_count(&out, "piece_bytes", times->bytes[i]);
            json_real(&out, "seconds", times->seconds[i], 6);
            json_close(&out);
        }
        json_list_end(&out);
        json_end(&out);
    } else {
        bp_text_string(&out.text, "fabric: ");
        bp_text_string(&out.text, set->ranks->fabric->name);
        bp_text_string(&out.text, ", ");
        bp_text_u64(&out.text, size);
        bp_text_string(&out.text, " ranks: --latency ");
        bp_text_general(&out.text, times->latency, 4);
        bp_text_string(&out.text, " --bandwidth ");
        bp_text_general(&out.text, times->bandwidth, 4);
        bp_text_string(&out.text, " (bytes per second that a rank sends)\n");
    }
    output_end(&out);
}

int bench_fabric(const settings *set)
{
    bp_error error = {.code = BP_OK};
    fabric_times times = {{0}, {0}, 0.0, 0.0};
    if (set->ranks == NULL || set->ranks->size < 2) {
        output_print(stderr,
                     "bedplate: --fabric: there is one rank, and no link to measure: expected "
                     "threads:2, or a launcher\n");
        return bp_status_exit_code(BP_ERR_USAGE);
    }
    double *seconds = malloc((size_t)set->repeat * sizeof *seconds);
    bp_status status = BP_ERR_FIT;
    if (seconds != NULL) {
        ranks_leave_turn(set);
        status = time_sizes(set, &times, seconds, &error);
        ranks_take_turn(set);
    }
    free(seconds);
    if (status != BP_OK) {
        return ranks_may_tell(set, status) ? report_status(status, &error)
                                           : bp_status_exit_code(status);
    }
    solve_times(&times, set->ranks->size);
    if (ranks_leads(set)) {
        print_times(set, &times, set->ranks->size);
    }
    return 0;
}
