/* SPDX-License-Identifier: MIT */
/* From --below to an open file, and what the plan says of it. */
#include "tools/bedplate/below_choice.h"

#include <stdlib.h>
#include <string.h>

#include "core/compile/optimizer.h"
#include "core/program/tier.h"
#include "tools/bedplate/counted.h"
#include "tools/bedplate/device_choice.h"
#include "tools/bedplate/options.h"

#define BELOW_AHEAD 2

static const char where[] = "below";

static bp_status below_wrong(bp_error *error, const char *found)
{
    const bp_status status =
        bp_error_set(error, BP_ERR_USAGE, where, "the value is not a tier", "--below");
    bp_error_found(error, found, strlen(found));
    bp_error_right(error, "file:PATH:BYTES, such as file:/data/below:20GiB, or host:BYTES");
    return status;
}

/* "file:PATH:BYTES" or "host:BYTES" up to the last colon. */
static bool below_form(below_choice *b, const char *text, const char *end)
{
    static const char file[] = "file:", host[] = "host:";
    const size_t head = sizeof file - 1;
    if (strncmp(text, host, sizeof host - 1) == 0) {
        b->host = true;
        return end == text + sizeof host - 2;
    }
    const size_t length = end > text + head ? (size_t)(end - text) - head : 0;
    if (strncmp(text, file, head) != 0 || length == 0 || length >= sizeof b->path) {
        return false;
    }
    memcpy(b->path, text + head, length);
    return true;
}

bp_status below_read(below_choice *b, const settings *set, bp_error *error)
{
    const char *text = set->below;
    double bytes = 0.0;
    *b = (below_choice){.asked = text != NULL};
    if (text == NULL) {
        return BP_OK;
    }
    const char *end = strrchr(text, ':');
    if (end == NULL || !below_form(b, text, end) || !option_bytes(end + 1, &bytes) || bytes < 1.0 ||
        bytes > 9e18) {
        return below_wrong(error, text);
    }
    b->bytes = (uint64_t)bytes;
    return BP_OK;
}

static bool below_beside(const bp_spec *spec)
{
    return !device_takes_memory(spec);
}

bp_status below_check(const below_choice *b, const bp_spec *spec, bp_error *error)
{
    if (b->asked && b->host && !below_beside(spec)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "the arena is in the host's memory already; give file:PATH:BYTES",
                            "--below");
    }
    if (b->asked && !b->host && below_beside(spec)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "a GPU has no tier in a file; give host:BYTES", "--below");
    }
    return BP_OK;
}

void below_all(bp_spec *spec)
{
    const bool parts = spec->optimizer != NULL && !spec->optimizer->whole_tensors;
    spec->below = (bp_below){.bases = BP_BELOW_ALL,
                             .states = parts ? BP_BELOW_ALL : 0,
                             .ahead = BELOW_AHEAD,
                             .host = below_beside(spec)};
}

/* The least of a share with which the choice fits, between `low`, with which it does not, and all.
 */
static bp_status least_share(choice *c, bp_spec *spec, uint32_t *share, bp_error *error)
{
    uint32_t low = 0, high = BP_BELOW_ALL;
    while (high - low > 1) {
        uint64_t bytes = 0;
        *share = low + (high - low) / 2;
        BP_TRY(counted_arena(spec, &bytes, error));
        if (bytes <= c->request.budget) {
            high = *share;
            c->fit.best.arena_bytes = bytes;
        } else {
            low = *share;
        }
    }
    *share = high;
    return BP_OK;
}

/* Frozen weights first, which wear nothing; where they are not enough, all of them and some of the
 * states. */
bp_status below_least(choice *c, bp_error *error)
{
    bp_spec spec = c->fit.spec;
    const uint32_t states = spec.below.states;
    uint64_t bytes = 0;
    spec.below.states = 0;
    BP_TRY(counted_arena(&spec, &bytes, error));
    if (bytes <= c->request.budget) {
        c->fit.best.arena_bytes = bytes;
        BP_TRY(least_share(c, &spec, &spec.below.bases, error));
    } else if (states > 0) {
        BP_TRY(least_share(c, &spec, &spec.below.states, error));
    }
    c->fit.spec.below = spec.below;
    return BP_OK;
}

uint64_t below_room(const bp_report *report)
{
    return report->below.arena_bytes > 0 ? BP_TIER_ROOM : 0;
}

bp_status below_open(below_choice *b, const settings *set, const bp_report *report,
                     bp_places *places, bp_error *error)
{
    const uint64_t needed = b->host ? report->host.arena_bytes : report->below.arena_bytes;
    if (needed == 0) {
        return BP_OK;
    }
    if (b->asked && needed > b->bytes) {
        return bp_error_limit(error, BP_ERR_FIT, where,
                              "what lives below the arena does not fit there", "--below",
                              (int64_t)b->bytes, BP_LIMIT_LEAST, (int64_t)needed);
    }
    if (b->host) {
        return BP_OK; /* the driver gives its memory, pinned once, when the device is opened */
    }
    BP_TRY(memory_take(&b->room, BP_TIER_ROOM, true, "room for --below", error));
    BP_TRY(
        bp_tier_posix_open(&b->file, b->path, needed, set->below_buffered, b->room.address, error));
    places->space[BP_SPACE_BELOW] = (bp_region){NULL, needed};
    places->tier = &bp_tier_posix_table;
    places->below = &b->file;
    return BP_OK;
}

void below_close(below_choice *b)
{
    bp_tier_posix_close(&b->file);
    memory_give_back(&b->room);
}

/* One more program, run `times` times in a step. */
static void traffic_add(bp_traffic *sum, const bp_traffic *more, uint32_t times)
{
    sum->read += more->read * times;
    sum->written += more->written * times;
    sum->first += more->first * times;
    sum->seconds += more->seconds * times;
    sum->flight = more->flight > sum->flight ? more->flight : sum->flight;
    sum->read_rate = more->read_rate > sum->read_rate ? more->read_rate : sum->read_rate;
    sum->written_rate =
        more->written_rate > sum->written_rate ? more->written_rate : sum->written_rate;
}

bp_status below_traffic_find(const bp_runtime *runtime, const settings *set, const bp_rates *rates,
                             below_traffic *t, bp_error *error)
{
    const bp_below *below = &runtime->spec.below;
    const bool any = below->bases > 0 || below->states > 0;
    const bp_graph *graph = &runtime->graph;
    const uint32_t later = runtime->spec.accumulation - 1;
    const struct {
        bp_program_kind program;
        uint32_t times;
    } parts[] = {{BP_PROGRAM_STEP, 1},
                 {BP_PROGRAM_VECTORS_FIRST, 1},
                 {BP_PROGRAM_VECTORS_NEXT, later},
                 {BP_PROGRAM_MICRO_FIRST, 1},
                 {BP_PROGRAM_MICRO_NEXT, later},
                 {BP_PROGRAM_UPDATE, 1}};
    *t = (below_traffic){.rates = *rates,
                         .host = below->host,
                         .endurance = below->host ? 0.0 : (double)set->below_endurance,
                         .bytes = !any          ? 0
                                  : below->host ? runtime->report.host.arena_bytes
                                                : runtime->report.below.arena_bytes};
    if (t->bytes == 0) {
        return BP_OK;
    }
    void *scratch = malloc((size_t)bp_traffic_scratch(graph));
    if (scratch == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory to count what a step moves", "");
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const bp_traffic one = bp_traffic_program(graph, parts[i].program, rates, scratch);
        traffic_add(&t->step, &one, parts[i].times);
    }
    free(scratch);
    return BP_OK;
}

/* Steps until so many bytes have been written to the drive. */
static double below_steps(const below_traffic *t)
{
    return t->endurance / (double)t->step.written;
}

void below_json(output *out, const below_traffic *t)
{
    const bp_traffic *step = &t->step;
    if (t->bytes == 0) {
        return;
    }
    json_open(out, "below");
    json_count(out, t->host ? "pinned_bytes" : "file_bytes", t->bytes);
    json_count(out, "read_bytes_per_step", step->read);
    json_count(out, "written_bytes_per_step", step->written);
    json_count(out, "first_bytes_per_step", step->first);
    json_count(out, "in_flight_bytes", step->flight);
    json_real(out, "read_bytes_per_second", step->read_rate, 9);
    json_real(out, "written_bytes_per_second", step->written_rate, 9);
    json_real(out, "counted_seconds", step->seconds, 9);
    json_real(out, "flops_per_second", t->rates.flops_per_second, 9);
    if (t->endurance > 0.0 && step->written > 0) {
        json_real(out, "steps_until_worn", below_steps(t), 9);
        json_real(out, "days_until_worn", below_steps(t) * step->seconds / 86400.0, 9);
    }
    json_close(out);
}

static void below_line(bp_text *text, const char *label, uint64_t bytes, const char *what)
{
    bp_text_padded(text, label, 12, BP_TEXT_LEFT);
    bp_text_grouped(text, bytes);
    bp_text_string(text, what);
}

static void below_rate(bp_text *text, const char *what, double bytes_per_second)
{
    bp_text_string(text, what);
    bp_text_grouped(text, (uint64_t)(bytes_per_second / 1e6) + 1);
    bp_text_string(text, " MB/s");
}

/* At the rates that times are counted with: those of --calibrate, or the usual ones. */
void below_put(bp_text *text, const below_traffic *t)
{
    const bp_traffic *step = &t->step;
    if (t->bytes == 0) {
        return;
    }
    below_line(text, "below", t->bytes,
               t->host ? " bytes of the host's memory, pinned\n" : " bytes of the file\n");
    below_line(text, "  read", step->read, " bytes a step\n");
    below_line(text, "  written", step->written, " bytes a step\n");
    below_line(text, "  in flight", step->flight, " bytes of the arena at most\n");
    below_line(text, "  waits for", step->first, " bytes that a step begins with");
    below_rate(text, ", and for nothing else from ", step->read_rate);
    if (step->written > 0) {
        below_rate(text, " of reading and ", step->written_rate);
        bp_text_string(text, " of writing");
    }
    bp_text_string(text, " on, where ");
    bp_text_general(text, t->rates.flops_per_second / 1e9, 4);
    bp_text_string(text, " GFLOP/s are computed\n");
    if (t->endurance > 0.0 && step->written > 0) {
        bp_text_string(text, "  worn after  ");
        bp_text_grouped(text, (uint64_t)below_steps(t));
        bp_text_string(text, " steps, ");
        bp_text_general(text, below_steps(t) * step->seconds / 86400.0, 4);
        bp_text_string(text, " days of them at these rates\n");
    }
}
