/* SPDX-License-Identifier: MIT */
/* Plans written, read and compared. A file has what a search found, the places, and enough to know
 * whether they are places of the programs that the reader's spec gives; the programs are compiled
 * again, so that nothing of a file is ever run. */
#include "core/plan/plan_file.h"

#include <string.h>

#include "core/base/digest.h"
#include "core/base/version.h"

#define FILE_MAGIC   UINT64_C(0x0a6e616c702d7062) /* "bp-plan" and an end of line */
#define FILE_FORMAT  2
#define FILE_VERSION 16 /* bytes of the version's text */

/* Words of a file, in order; behind them an offset for each buffer, and the digest of all that is
 * before it. */
enum {
    FILE_AT_MAGIC,
    FILE_AT_FORMAT,
    FILE_AT_VERSION,
    FILE_AT_LENGTH = FILE_AT_VERSION + FILE_VERSION / 8,
    FILE_AT_PROGRAMS,
    FILE_AT_CHOICES,
    FILE_AT_ARENAS = FILE_AT_CHOICES + BP_PLAN_CHOICES,
    FILE_AT_BUFFERS = FILE_AT_ARENAS + BP_SPACE_COUNT,
    FILE_AT_OFFSETS
};

static const char where[] = "plan";

typedef char file_version_fits[sizeof BP_VERSION <= FILE_VERSION ? 1 : -1];

static void file_put(unsigned char *to, uint64_t index, uint64_t value)
{
    for (uint32_t i = 0; i < 8; i++) {
        to[index * 8 + i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t file_get(const bp_plan_file *file, uint64_t index)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8; i++) {
        value |= (uint64_t)file->bytes[index * 8 + i] << (8 * i);
    }
    return value;
}

static uint64_t file_words(uint32_t buffers)
{
    return FILE_AT_OFFSETS + (uint64_t)buffers + 1;
}

void bp_plan_choices(const bp_spec *spec, bp_plan_choice choices[BP_PLAN_CHOICES])
{
    const bp_offload *offload = &spec->offload;
    const bp_plan_choice all[] = {
        {"batch", spec->batch},
        {"sequence", spec->sequence},
        {"accumulation", spec->accumulation},
        {"loss_rows", spec->loss_rows},
        {"length_count", spec->length_count},
        {"policy.kind", (uint64_t)spec->policy.kind},
        {"policy.every", spec->policy.every},
        {"policy.recompute", spec->policy.recompute},
        {"gradient_release", (uint64_t)spec->gradient_release},
        {"lora.rank", spec->lora.rank},
        {"quantised", (uint64_t)spec->quantised},
        {"working", (uint64_t)spec->working},
        {"tape", (uint64_t)spec->tape},
        {"gradient", (uint64_t)spec->gradient},
        {"master", (uint64_t)spec->master},
        {"weights", (uint64_t)spec->weights},
        {"products", (uint64_t)spec->products},
        {"virtual_ranks", bp_spec_virtual_ranks(spec)},
        {"ranks", bp_spec_ranks(spec)},
        {"rank", spec->rank},
        {"sharing", (uint64_t)spec->sharing},
        {"gather_ahead", spec->gather_ahead},
        {"offload.bases", offload->bases},
        {"offload.states", offload->states},
        {"offload.weights", offload->weights},
        {"offload.gradients", offload->gradients},
        {"offload.checkpoints", offload->checkpoints},
        {"offload.ahead", offload->ahead},
        {"offload.room", offload->room},
        {"generate_context", spec->generate_context},
        {"experts", (uint64_t)spec->experts},
    };
    memcpy(choices, all, sizeof all);
}

static uint64_t plan_arena(const bp_plan *plan, uint32_t space)
{
    const bp_report *report = &plan->report;
    return space == BP_SPACE_DEVICE ? report->arena_bytes
           : space == BP_SPACE_HOST ? report->host.arena_bytes
                                    : report->offload.arena_bytes;
}

uint64_t bp_plan_file_bytes(const bp_plan *plan)
{
    return plan->made ? file_words(plan->graph.used.buffers) * 8 : 0;
}

bp_status bp_plan_write(bp_plan *plan, void *to, uint64_t bytes)
{
    const bp_graph *graph = &plan->graph;
    const uint64_t last = file_words(graph->used.buffers) - 1;
    unsigned char *at = to;
    bp_plan_choice choices[BP_PLAN_CHOICES];
    if (!plan->made) {
        return bp_error_set(&plan->error, BP_ERR_USAGE, where, "a plan that is made is written",
                            NULL);
    }
    if (bytes < (last + 1) * 8) {
        return bp_error_limit(&plan->error, BP_ERR_FIT, where, "the plan does not fit", NULL,
                              bp_size_signed(bytes), BP_LIMIT_LEAST,
                              bp_size_signed((last + 1) * 8));
    }
    file_put(at, FILE_AT_MAGIC, FILE_MAGIC);
    file_put(at, FILE_AT_FORMAT, FILE_FORMAT);
    memset(at + FILE_AT_VERSION * 8, 0, FILE_VERSION);
    memcpy(at + FILE_AT_VERSION * 8, BP_VERSION, sizeof BP_VERSION);
    file_put(at, FILE_AT_LENGTH, last + 1);
    file_put(at, FILE_AT_PROGRAMS, bp_graph_programs_digest(graph));
    bp_plan_choices(&plan->spec, choices);
    for (uint32_t i = 0; i < BP_PLAN_CHOICES; i++) {
        file_put(at, FILE_AT_CHOICES + i, choices[i].value);
    }
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        file_put(at, FILE_AT_ARENAS + i, plan_arena(plan, i));
    }
    file_put(at, FILE_AT_BUFFERS, graph->used.buffers);
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        file_put(at, FILE_AT_OFFSETS + i, graph->buffers[i].offset);
    }
    file_put(at, last, bp_digest_of(at, (size_t)last * 8, 0));
    return BP_OK;
}

bp_status bp_plan_file_check(const bp_plan_file *file, bp_error *error)
{
    char version[FILE_VERSION + 1] = {0};
    if (file->length < file_words(0) * 8) {
        return bp_error_limit(error, BP_ERR_DATA, where, "the plan is cut off", "bytes",
                              bp_size_signed(file->length), BP_LIMIT_LEAST,
                              (int64_t)file_words(0) * 8);
    }
    if (file_get(file, FILE_AT_MAGIC) != FILE_MAGIC) {
        return bp_error_set(error, BP_ERR_DATA, where, "this is no plan", NULL);
    }
    if (file_get(file, FILE_AT_FORMAT) != FILE_FORMAT) {
        return bp_error_numbers(error, BP_ERR_DATA, where, "the plan is of another format",
                                "format", bp_size_signed(file_get(file, FILE_AT_FORMAT)),
                                FILE_FORMAT);
    }
    memcpy(version, file->bytes + FILE_AT_VERSION * 8, FILE_VERSION);
    if (strcmp(version, BP_VERSION) != 0) {
        const bp_status status =
            bp_error_set(error, BP_ERR_DATA, where, "the plan is of another version", "version");
        bp_error_found(error, version, strlen(version));
        bp_error_right(error, BP_VERSION);
        return status;
    }
    const uint64_t words = file_get(file, FILE_AT_LENGTH);
    if (words > file->length / 8 || words * 8 != file->length ||
        words - file_words(0) != file_get(file, FILE_AT_BUFFERS)) {
        return bp_error_numbers(error, BP_ERR_DATA, where, "the plan is cut off", "words",
                                bp_size_signed(file->length / 8), bp_size_signed(words));
    }
    if (file_get(file, words - 1) != bp_digest_of(file->bytes, (size_t)(words - 1) * 8, 0)) {
        return bp_error_set(error, BP_ERR_DATA, where, "the plan is damaged", NULL);
    }
    return BP_OK;
}

bp_status bp_plan_file_choices(const bp_plan_file *file, const bp_spec *spec, bp_error *error)
{
    bp_plan_choice choices[BP_PLAN_CHOICES];
    bp_plan_choices(spec, choices);
    for (uint32_t i = 0; i < BP_PLAN_CHOICES; i++) {
        const uint64_t found = file_get(file, FILE_AT_CHOICES + i);
        if (found != choices[i].value) {
            return bp_error_numbers(error, BP_ERR_DATA, where, "the plan is of another spec",
                                    choices[i].name, bp_size_signed(found),
                                    bp_size_signed(choices[i].value));
        }
    }
    return BP_OK;
}

bp_status bp_plan_file_programs(const bp_plan_file *file, const bp_graph *graph, bp_error *error)
{
    if (file_get(file, FILE_AT_BUFFERS) != graph->used.buffers ||
        file_get(file, FILE_AT_PROGRAMS) != bp_graph_programs_digest(graph)) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "the plan is of other programs than the spec gives", NULL);
    }
    return BP_OK;
}

/* A space in which nothing lives has no plan. */
static void file_optimal(bp_report_space *space)
{
    space->optimal = space->arena_bytes > 0 && space->arena_bytes == space->lower_bound_bytes;
}

void bp_plan_file_place(const bp_plan_file *file, bp_graph *graph, bp_report *report)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        graph->buffers[i].offset = file_get(file, FILE_AT_OFFSETS + i);
    }
    report->arena_bytes = file_get(file, FILE_AT_ARENAS + BP_SPACE_DEVICE);
    report->host.arena_bytes = file_get(file, FILE_AT_ARENAS + BP_SPACE_HOST);
    report->offload.arena_bytes = file_get(file, FILE_AT_ARENAS + BP_SPACE_OFFLOAD);
    report->optimal = report->arena_bytes == report->lower_bound_bytes;
    file_optimal(&report->host);
    file_optimal(&report->offload);
}

/* Places, and the lengths that have programs in them. */
static bp_status plan_compare_places(const bp_plan *a, const bp_plan *b, bp_error *error)
{
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        if (plan_arena(a, i) != plan_arena(b, i)) {
            return bp_error_numbers(error, BP_ERR_DATA, where, "the plans' arenas differ",
                                    bp_space_name((bp_space)i), bp_size_signed(plan_arena(a, i)),
                                    bp_size_signed(plan_arena(b, i)));
        }
    }
    for (uint32_t i = 0; i < a->graph.used.buffers; i++) {
        const uint64_t mine = a->graph.buffers[i].offset, other = b->graph.buffers[i].offset;
        if (mine != other) {
            return bp_error_numbers(error, BP_ERR_DATA, where, "a buffer lies elsewhere",
                                    bp_graph_name(&a->graph, i), bp_size_signed(mine),
                                    bp_size_signed(other));
        }
    }
    for (uint32_t i = 0; i < a->bucket_count && i < b->bucket_count; i++) {
        if (a->buckets[i].sequence != b->buckets[i].sequence ||
            bp_graph_programs_digest(&a->buckets[i].graph) !=
                bp_graph_programs_digest(&b->buckets[i].graph)) {
            return bp_error_numbers(error, BP_ERR_DATA, where, "the plans' length buckets differ",
                                    NULL, a->buckets[i].sequence, b->buckets[i].sequence);
        }
    }
    return a->bucket_count == b->bucket_count
               ? BP_OK
               : bp_error_numbers(error, BP_ERR_DATA, where, "the plans' length buckets differ",
                                  "count", a->bucket_count, b->bucket_count);
}

bp_status bp_plan_compare(const bp_plan *a, const bp_plan *b, bp_error *error)
{
    bp_plan_choice mine[BP_PLAN_CHOICES], other[BP_PLAN_CHOICES];
    if (!a->made || !b->made) {
        return bp_error_set(error, BP_ERR_USAGE, where, "plans that are made are compared", NULL);
    }
    bp_plan_choices(&a->spec, mine);
    bp_plan_choices(&b->spec, other);
    for (uint32_t i = 0; i < BP_PLAN_CHOICES; i++) {
        if (mine[i].value != other[i].value) {
            return bp_error_numbers(error, BP_ERR_DATA, where, "the plans' specs differ",
                                    mine[i].name, bp_size_signed(mine[i].value),
                                    bp_size_signed(other[i].value));
        }
    }
    if (a->graph.used.buffers != b->graph.used.buffers ||
        bp_graph_programs_digest(&a->graph) != bp_graph_programs_digest(&b->graph)) {
        return bp_error_set(error, BP_ERR_DATA, where, "the plans' programs differ", NULL);
    }
    return plan_compare_places(a, b, error);
}

bp_status bp_plan_read(bp_plan *plan, const bp_spec *spec, const void *from, uint64_t from_bytes,
                       void *memory, uint64_t bytes)
{
    const bp_plan_file file = {from, from_bytes};
    BP_TRY(bp_plan_count(plan, spec, memory, bytes));
    plan->counted = false; /* whatever is wrong with the file */
    BP_TRY(bp_plan_file_check(&file, &plan->error));
    BP_TRY(bp_plan_file_choices(&file, &plan->spec, &plan->error));
    plan->counted = true;
    return bp_plan_make_placed(plan, &file, memory, bytes);
}
