/* SPDX-License-Identifier: MIT */
/* From --offload to an open file, and what the plan says of it. */
#include "tools/bedplate/planning/offload_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/plan/optimizer.h"
#include "core/base/digest.h"
#include "core/ir/tier.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/path_guard.h"

#define OFFLOAD_AHEAD    2
#define OFFLOAD_NAME_MAX 255 /* bytes of a name in a directory, as Linux has them */

static const char where[] = "offload";

static bp_status offload_wrong(bp_error *error, const char *found)
{
    const bp_status status =
        bp_error_set(error, BP_ERR_USAGE, where, "the value is not a tier", "--offload");
    bp_error_found(error, found, strlen(found));
    bp_error_right(error,
                   "file:PATH:BYTES, such as file:/data/offload:20GiB, host:BYTES or flash:BYTES");
    return status;
}

/* Names between commas. */
static bool offload_what(uint32_t *what, const char *text)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } names[] = {{"bases", OFFLOAD_BASES},
                 {"states", OFFLOAD_STATES},
                 {"weights", OFFLOAD_STATES | OFFLOAD_WEIGHTS},
                 {"gradients", OFFLOAD_STATES | OFFLOAD_GRADIENTS},
                 {"checkpoints", OFFLOAD_CHECKPOINTS},
                 {"streams", OFFLOAD_CHECKPOINTS | OFFLOAD_STREAMS}};
    *what = 0;
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += at != text ? 1 : 0;
        const size_t length = strcspn(at, ",");
        size_t i = 0;
        while (i < sizeof names / sizeof names[0] &&
               (strlen(names[i].name) != length || memcmp(names[i].name, at, length) != 0)) {
            i++;
        }
        if (i == sizeof names / sizeof names[0]) {
            return false;
        }
        *what |= names[i].bits;
    }
    return true;
}

/* "file:PATH:BYTES", "host:BYTES" or "flash:BYTES" up to the last colon. */
static bool offload_form(offload_choice *b, const char *text, const char *end)
{
    static const char file[] = "file:", host[] = "host:", flash[] = "flash:";
    const size_t head = sizeof file - 1;
    if (strncmp(text, host, sizeof host - 1) == 0) {
        b->host = true;
        return end == text + sizeof host - 2;
    }
    if (strncmp(text, flash, sizeof flash - 1) == 0) {
        b->flash = true;
        return end == text + sizeof flash - 2;
    }
    const size_t length = end > text + head ? (size_t)(end - text) - head : 0;
    if (strncmp(text, file, head) != 0 || length == 0 || length >= sizeof b->path) {
        return false;
    }
    memcpy(b->path, text + head, length);
    return true;
}

/* The file, and the one beside it of a reward model, have names that a directory can hold. */
static bp_status offload_check_name(const offload_choice *b, const settings *set, bp_error *error)
{
    const char *slash = strrchr(b->path, '/');
    const char *name = slash != NULL ? slash + 1 : b->path;
    const size_t more = set->reward_model != NULL ? sizeof PATH_BESIDE_REWARD - 1 : 0;
    const bool beside = more > 0;
    if (strlen(name) + more > OFFLOAD_NAME_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              beside ? "the bytes of the file's name, which PATH.reward lengthens"
                                     : "the bytes of the file's name",
                              "--offload", (int64_t)strlen(name), BP_LIMIT_MOST,
                              (int64_t)(OFFLOAD_NAME_MAX - more));
    }
    if (strlen(b->path) + more >= sizeof b->path) { /* alone it was short enough */
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "the bytes of the path, which PATH.reward lengthens", "--offload",
                              (int64_t)strlen(b->path), BP_LIMIT_MOST,
                              (int64_t)(sizeof b->path - 1 - more));
    }
    return BP_OK;
}

/* --offload-what where it has no say. */
static bp_status offload_what_alone(const settings *set, bp_error *error, const char *why,
                                    const char *right)
{
    const bp_status status = bp_error_set(error, BP_ERR_USAGE, where, why, "--offload-what");
    bp_error_found(error, set->offload_what, strlen(set->offload_what));
    bp_error_right(error, right);
    return status;
}

bp_status offload_read(offload_choice *b, const settings *set, bp_error *error)
{
    const char *text = set->offload;
    double bytes = 0.0;
    *b = (offload_choice){.asked = text != NULL, .two = set->offload_two};
    if (!offload_what(&b->what, set->offload_what)) {
        bp_status status =
            bp_error_set(error, BP_ERR_USAGE, where,
                         "what may be offloaded is named by bases, states, weights, gradients, "
                         "checkpoints and streams",
                         "--offload-what");
        bp_error_found(error, set->offload_what, strlen(set->offload_what));
        return status;
    }
    const bool named = option_said(set, "offload-what");
    if (text == NULL) {
        return named ? offload_what_alone(set, error, "nothing is offloaded",
                                          "--offload file:PATH:BYTES or host:BYTES beside it")
                     : BP_OK;
    }
    const char *end = strrchr(text, ':');
    if (end == NULL || !offload_form(b, text, end) || !option_bytes(end + 1, &bytes) ||
        bytes < 1.0 || bytes > 9e18) {
        return offload_wrong(error, text);
    }
    b->bytes = (uint64_t)bytes;
    if (b->flash && named) {
        return offload_what_alone(set, error, "flash takes what is frozen, and nothing else",
                                  "none beside --offload flash:BYTES");
    }
    return offload_check_name(b, set, error);
}

static bool offload_beside(const bp_spec *spec)
{
    return !device_takes_memory(spec);
}

/* Older checkpoints than the last two are whole no more, and none is to be read back. */
static bp_status offload_check_two(const offload_choice *b, const settings *set, bp_error *error)
{
    const char *with = !b->asked || b->host || b->flash         ? "--offload"
                       : set->load_best                         ? "--load-best-model-at-end"
                       : set->keep_best                         ? "--keep-best"
                       : set->replay_every > 0                  ? "--replay-every"
                       : strcmp(set->on_spike, "rollback") == 0 ? "--on-spike rollback"
                                                                : NULL;
    if (!set->offload_two || with == NULL) {
        return BP_OK;
    }
    return bp_error_set(error, BP_ERR_USAGE, where,
                        b->asked && !b->host && !b->flash
                            ? "two versions in the offload file do not go with it: only the newest "
                              "checkpoints can be gone back to"
                            : "--offload-two-versions needs an offload file: file:PATH:BYTES",
                        with);
}

bp_status offload_check(const offload_choice *b, const settings *set, const bp_spec *spec,
                        bp_error *error)
{
    BP_TRY(offload_check_two(b, set, error));
    if (b->flash) {
        return offload_beside(spec) ? bp_error_set(error, BP_ERR_USAGE, where,
                                                   "weights in flash are for a board, and for the "
                                                   "host device in its place; give host:BYTES",
                                                   "--offload")
                                    : BP_OK;
    }
    if (b->asked && b->host && !offload_beside(spec)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "the arena is in the host's memory already; give file:PATH:BYTES",
                            "--offload");
    }
    if (b->asked && !b->host && offload_beside(spec)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "a GPU has no tier in a file; give host:BYTES", "--offload");
    }
    return BP_OK;
}

void offload_say_here(const offload_choice *b)
{
    struct stat at;
    char folder[sizeof b->path + 1];
    const bool file = b->asked && !b->host && !b->flash;
    const bool there = file && stat(b->path, &at) == 0;
    const char *slash = strrchr(b->path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s.", slash != NULL ? (int)(slash - b->path + 1) : 0,
                   b->path);
    const char *found = !file                             ? NULL
                        : there && S_ISDIR(at.st_mode)    ? "is a directory"
                        : there || stat(folder, &at) == 0 ? NULL
                                                          : "there is no such directory";
    if (found != NULL) {
        output_print(stderr, "bedplate: %s: %s: train refuses the file on this machine\n", b->path,
                     found);
    }
}

void offload_all(bp_spec *spec, uint32_t what)
{
    const bool parts = spec->optimizer != NULL && !spec->optimizer->whole_tensors;
    spec->offload =
        (bp_offload){.bases = (what & OFFLOAD_BASES) != 0 ? BP_OFFLOAD_ALL : 0,
                     .states = parts && (what & OFFLOAD_STATES) != 0 ? BP_OFFLOAD_ALL : 0,
                     .weights = parts && (what & OFFLOAD_WEIGHTS) != 0 ? BP_OFFLOAD_ALL : 0,
                     .gradients = parts && (what & OFFLOAD_GRADIENTS) != 0 ? BP_OFFLOAD_ALL : 0,
                     .checkpoints = (what & OFFLOAD_STREAMS) != 0       ? BP_OFFLOAD_STREAMS
                                    : (what & OFFLOAD_CHECKPOINTS) != 0 ? BP_OFFLOAD_ALL
                                                                        : 0,
                     .ahead = OFFLOAD_AHEAD,
                     .host = offload_beside(spec)};
}

static bool offload_kept(const bp_buffer *buffer)
{
    return buffer->space == BP_SPACE_OFFLOAD && buffer->scope == BP_SCOPE_PERSISTENT;
}

static bp_tier_range offload_range(const bp_buffer *buffer)
{
    return (bp_tier_range){.first = bp_address_offset(bp_buffer_address(buffer)),
                           .bytes = bp_size_align(buffer->bytes, BP_VERSIONS_PAGE)};
}

/* How many buffers have two versions, and how long they are together, as one range of them. */
static uint32_t offload_count(const offload_choice *b, const bp_plan *plan, bp_tier_range *all)
{
    uint32_t count = 0;
    *all = (bp_tier_range){.first = 0};
    for (uint32_t i = 0; b->two && i < plan->graph.used.buffers; i++) {
        if (offload_kept(&plan->graph.buffers[i])) {
            all->bytes += offload_range(&plan->graph.buffers[i]).bytes;
            count++;
        }
    }
    return count;
}

static uint64_t offload_file_bytes(const offload_choice *b, const bp_plan *plan)
{
    bp_tier_range all;
    const uint64_t bytes = plan->report.offload.arena_bytes;
    return offload_count(b, plan, &all) > 0 ? bp_tier_versions_bytes(bytes, &all, 1) : bytes;
}

uint64_t offload_room(const offload_choice *b, const bp_plan *plan)
{
    bp_tier_range all;
    const uint32_t count = offload_count(b, plan, &all);
    if (plan->report.offload.arena_bytes == 0) {
        return 0;
    }
    const uint64_t room = bp_tier_posix_memory(offload_file_bytes(b, plan));
    return count == 0
               ? room
               : bp_size_add(room, bp_size_add(bp_size_align(count * sizeof all, BP_VERSIONS_PAGE),
                                               bp_size_align(bp_tier_versions_memory(&all, 1),
                                                             BP_VERSIONS_PAGE)));
}

/* What lives always lies in the order of its table; what is without a gap is one range. Returns how
 * many there are, with a digest of what lies where. */
static uint32_t offload_list(const bp_plan *plan, bp_tier_range *ranges, uint64_t *identity)
{
    const bp_graph *graph = &plan->graph;
    bp_digest digest;
    uint32_t count = 0;
    bp_digest_begin(&digest, 0);
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (!offload_kept(&graph->buffers[i])) {
            continue;
        }
        const bp_tier_range one = offload_range(&graph->buffers[i]);
        const char *name = bp_graph_name(graph, i);
        bp_digest_add(&digest, &one, sizeof one);
        bp_digest_add(&digest, name, strlen(name) + 1);
        if (count > 0 && ranges[count - 1].first + ranges[count - 1].bytes == one.first) {
            ranges[count - 1].bytes += one.bytes;
        } else {
            ranges[count++] = one;
        }
    }
    *identity = bp_digest_end(&digest);
    return count;
}

static bp_status offload_open_versions(offload_choice *b, const bp_plan *plan, bp_regions *places,
                                       bp_error *error)
{
    bp_tier_range all;
    uint64_t identity;
    const uint32_t most = offload_count(b, plan, &all);
    if (most == 0) {
        return BP_OK;
    }
    BP_TRY(memory_take(&b->list, most * sizeof all, true, "ranges of --offload", error));
    BP_TRY(
        memory_take(&b->bits, bp_tier_versions_memory(&all, 1), true, "pages of --offload", error));
    const uint32_t count = offload_list(plan, b->list.address, &identity);
    bp_tier_versions_open(&b->versions, &bp_tier_posix_table, &b->file,
                          plan->report.offload.arena_bytes, identity, b->list.address, count,
                          b->bits.address);
    places->tier = &bp_tier_versions_table;
    places->tier_context = &b->versions;
    return b->resumes ? bp_tier_versions_take(&b->versions, b->step, error)
                      : bp_tier_versions_begin(&b->versions, error);
}

static uint64_t offload_needed(const offload_choice *b, const bp_plan *plan)
{
    return b->host || b->flash ? plan->report.host.arena_bytes : offload_file_bytes(b, plan);
}

bp_status offload_check_bytes(const offload_choice *b, const bp_plan *plan, bp_error *error)
{
    const uint64_t needed = offload_needed(b, plan);
    return !b->asked || needed <= b->bytes
               ? BP_OK
               : bp_error_limit(error, BP_ERR_FIT, where, "what is offloaded does not fit there",
                                "--offload", bp_size_signed(b->bytes), BP_LIMIT_LEAST,
                                bp_size_signed(needed));
}

bp_status offload_open(offload_choice *b, const settings *set, const bp_plan *plan,
                       bp_regions *places, bp_error *error)
{
    const bp_report *report = &plan->report;
    const uint64_t needed = offload_needed(b, plan);
    BP_TRY(offload_check_bytes(b, plan, error));
    if (needed == 0) {
        return BP_OK;
    }
    if (b->host || b->flash) {
        return BP_OK; /* a GPU's driver gives its memory, pinned once, when the device is opened */
    }
    BP_TRY(memory_take(&b->room, bp_tier_posix_memory(needed), true, "room for --offload", error));
    const bool on = set->offload_two && set->resume;
    BP_TRY((on ? bp_tier_posix_reopen : bp_tier_posix_open)(
        &b->file, b->path, needed, set->offload_buffered, b->room.address, error));
    places->space[BP_SPACE_OFFLOAD] = (bp_region){NULL, report->offload.arena_bytes};
    places->tier = &bp_tier_posix_table;
    places->tier_context = &b->file;
    return offload_open_versions(b, plan, places, error);
}

bool offload_failed(const bp_error *error)
{
    return error->code == BP_ERR_STORE && error->where != NULL && strcmp(error->where, where) == 0;
}

void offload_close(offload_choice *b)
{
    bp_tier_posix_close(&b->file);
    memory_give_back(&b->room);
    memory_give_back(&b->list);
    memory_give_back(&b->bits);
}

/* One more program, run `times` times in a step. */
static void traffic_add(bp_traffic *sum, const bp_traffic *more, uint32_t times)
{
    sum->read += more->read * times;
    sum->routed += more->routed * times;
    sum->even += more->even * times;
    sum->written += more->written * times;
    sum->first += more->first * times;
    sum->last += more->last * times;
    sum->seconds += more->seconds * times;
    sum->pending = more->pending > sum->pending ? more->pending : sum->pending;
    sum->read_rate = more->read_rate > sum->read_rate ? more->read_rate : sum->read_rate;
    sum->written_rate =
        more->written_rate > sum->written_rate ? more->written_rate : sum->written_rate;
}

bp_status offload_traffic_find(const bp_plan *plan, const offload_choice *b, const settings *set,
                               const bp_rates *rates, offload_traffic *t, bp_error *error)
{
    const bp_offload *offload = &plan->spec.offload;
    const bool any = offload->bases > 0 || offload->states > 0 || offload->weights > 0 ||
                     offload->checkpoints > 0;
    const bp_graph *graph = &plan->graph;
    *t = (offload_traffic){
        .choice = b->chosen,
        .resident = plan->resident,
        .slice = plan->builder.passes.slice_bytes,
        .rates = *rates,
        .host = offload->host,
        .endurance = offload->host ? 0.0 : (double)set->offload_endurance,
        .bytes = !any ? 0
                 : offload->host
                     ? plan->report.host.arena_bytes
                     : offload_file_bytes(&(offload_choice){.two = set->offload_two}, plan)};
    if (t->bytes == 0) {
        return BP_OK;
    }
    void *scratch = malloc((size_t)bp_traffic_scratch(graph));
    if (scratch == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory to count what a step moves", "");
    }
    for (uint32_t i = 0; i < BP_PROGRAM_COUNT; i++) {
        const uint32_t times = bp_compile_runs(&plan->spec, (bp_program_kind)i);
        if (times > 0) {
            const bp_traffic one = bp_traffic_program(graph, (bp_program_kind)i, rates, scratch);
            traffic_add(&t->step, &one, times);
        }
    }
    free(scratch);
    return BP_OK;
}

/* Steps until so many bytes have been written to the drive. */
static double offload_steps(const offload_traffic *t)
{
    return t->endurance / (double)t->step.written;
}

void offload_json(output *out, const offload_traffic *t)
{
    const bp_traffic *step = &t->step;
    if (t->bytes == 0) {
        return;
    }
    json_open(out, "offload");
    json_count(out, t->host ? "pinned_bytes" : "file_bytes", t->bytes);
    json_count(out, "read_bytes_per_step", step->read);
    if (step->routed > 0) {
        json_count(out, "even_read_bytes_per_step", step->even);
    }
    json_count(out, "written_bytes_per_step", step->written);
    json_count(out, "first_bytes_per_step", step->first);
    json_count(out, "last_bytes_per_step", step->last);
    json_count(out, "in_pending_bytes", step->pending);
    json_count(out, "slice_bytes", t->slice);
    if (t->choice.made) {
        json_count(out, "chosen_bytes_per_step", t->choice.moved);
    }
    if (t->choice.made && t->resident.bytes == 0) {
        json_count(out, "least_bytes_per_step", t->choice.least);
    }
    if (t->resident.most > 0) {
        json_count(out, "resident_bytes_per_step", t->resident.bytes);
        json_count(out, "most_resident_bytes_per_step", t->resident.most);
    }
    json_real(out, "read_bytes_per_second", step->read_rate, 9);
    json_real(out, "written_bytes_per_second", step->written_rate, 9);
    json_real(out, "counted_seconds", step->seconds, 9);
    json_real(out, "flops_per_second", t->rates.flops_per_second, 9);
    if (t->endurance > 0.0 && step->written > 0) {
        json_real(out, "steps_until_worn", offload_steps(t), 9);
        json_real(out, "days_until_worn", offload_steps(t) * step->seconds / 86400.0, 9);
    }
    json_close(out);
}

static void offload_line(bp_text *text, const char *label, uint64_t bytes, const char *what)
{
    bp_text_padded(text, label, 12, BP_TEXT_LEFT);
    bp_text_grouped(text, bytes);
    bp_text_string(text, what);
}

static void offload_rate(bp_text *text, const char *what, double bytes_per_second)
{
    bp_text_string(text, what);
    bp_text_grouped(text, (uint64_t)(bytes_per_second / 1e6) + 1);
    bp_text_string(text, " MB/s");
}

/* At the rates that times are counted with: those of --calibrate, or the usual ones. */
void offload_put(bp_text *text, const offload_traffic *t)
{
    const bp_traffic *step = &t->step;
    if (t->bytes == 0) {
        return;
    }
    offload_line(text, "offload", t->bytes,
                 t->host ? " bytes of the host's memory, pinned\n" : " bytes of the file\n");
    offload_line(text, "  read", step->read, " bytes a step");
    if (step->routed > 0) {
        bp_text_string(text, " at most, ");
        bp_text_grouped(text, step->even);
        bp_text_string(text, " expected where all experts are chosen as often");
    }
    bp_text_char(text, '\n');
    offload_line(text, "  written", step->written, " bytes a step\n");
    offload_line(text, "  in flight", step->pending, " bytes of the arena at most\n");
    if (t->slice > 0) {
        offload_line(text, "  slices", t->slice, " bytes of a matrix are brought at once\n");
    }
    if (t->choice.made) {
        offload_line(text, "  chosen", t->choice.moved, " bytes a step move for the ");
        bp_text_string(text, t->choice.kind == BP_OFFLOAD_BASES     ? "frozen weights"
                             : t->choice.kind == BP_OFFLOAD_STATES  ? "states"
                             : t->choice.kind == BP_OFFLOAD_WEIGHTS ? "trained weights"
                                                                    : "gradients");
        bp_text_string(text, " that were chosen");
        if (t->resident.bytes == 0) { /* the bound knows of no room in which they are */
            bp_text_string(text, "; of no choice that fits and keeps nothing are it less than ");
            bp_text_grouped(text, t->choice.least);
        }
        bp_text_char(text, '\n');
    }
    if (t->resident.most > 0) {
        offload_line(text, "  resident", t->resident.bytes,
                     " bytes a step stay from one use to the next and ");
        bp_text_string(text, "are read once less; in this room, of no choice more than ");
        bp_text_grouped(text, t->resident.most);
        bp_text_char(text, '\n');
    }
    offload_line(text, "  waits for", step->first, " bytes that nothing is computed beside");
    if (step->last > 0) {
        bp_text_string(text, " and ");
        bp_text_grouped(text, step->last);
        bp_text_string(text, " that are written last");
    }
    offload_rate(text, ", and for nothing else from ", step->read_rate);
    if (step->written > 0) {
        offload_rate(text, " of reading and ", step->written_rate);
        bp_text_string(text, " of writing");
    }
    bp_text_string(text, " on, where ");
    bp_text_general(text, t->rates.flops_per_second / 1e9, 4);
    bp_text_string(text, " GFLOP/s are computed\n");
    if (t->endurance > 0.0 && step->written > 0) {
        bp_text_string(text, "  worn after  ");
        bp_text_grouped(text, (uint64_t)offload_steps(t));
        bp_text_string(text, " steps, ");
        bp_text_general(text, offload_steps(t) * step->seconds / 86400.0, 4);
        bp_text_string(text, " days of them at these rates\n");
    }
}
