/* SPDX-License-Identifier: MIT */
/* Finding what would fit. */
#include "tools/bedplate/planning/shortage.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/plan/schedule.h"
#include "tools/bedplate/planning/offload_choice.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/session/memory_option.h"
#include "tools/bedplate/app/output.h"

#define SHORT_CHUNK   64   /* rows of the shortest loss chunk that the fit tries */
#define SHORT_ACTIONS 1500 /* of a schedule that is still planned to find advice */

/* The options that one change leaves free, beyond those that are free already. */
typedef struct change {
    bool policy;
    bool batch;
    bool chunk;
} change;

/* The largest buffer that lives where the sum of all is largest. */
static const bp_buffer *largest_at_peak(const bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->graph;
    uint32_t peak = runtime->report.peak_op;
    const bp_buffer *largest = &graph->buffers[0];
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        bool always = buffer->scope <= BP_SCOPE_RESIDENT;
        bool lives = buffer->space == BP_SPACE_DEVICE &&
                     (always || (buffer->lower <= peak && peak < buffer->upper));
        if (lives && buffer->bytes > largest->bytes) {
            largest = buffer;
        }
    }
    return largest;
}

/* The options of `found` that differ from those of `base`. */
static void put_difference(bp_text *text, const bp_fit_try *base, const bp_fit_try *found,
                           const bp_fit_request *given)
{
    const char *space = "";
    if (!given->free_policy && found->policy.kind != base->policy.kind) {
        bp_text_string(text, "--gradient-checkpointing ");
        policy_put(text, &found->policy);
        space = " ";
    }
    if (!given->free_batch && found->batch != base->batch) {
        bp_text_string(text, space);
        bp_text_string(text, "--per-device-train-batch-size ");
        bp_text_u64(text, found->batch);
        bp_text_string(text, " --gradient-accumulation-steps ");
        bp_text_u64(text, found->accumulation);
        space = " ";
    }
    if (!given->free_chunk && found->loss_rows != base->loss_rows) {
        bp_text_string(text, space);
        bp_text_string(text, "--loss-chunk-rows ");
        bp_text_u64(text, found->loss_rows);
    }
}

/* Runs the fit with more left free; `first`: the first candidate that fits will do. */
static bool fits_with(const choice *c, const change *free, uint32_t sequence, bool first,
                      choice *trial)
{
    bp_error error = {.code = BP_OK};
    bp_fit_request request = c->request;
    request.free_policy = request.free_policy || free->policy;
    request.free_batch = request.free_batch || free->batch;
    request.free_chunk = request.free_chunk || free->chunk;
    request.first = first;
    request.spec.sequence = sequence;
    uint64_t rows = (uint64_t)sequence * request.spec.batch;
    if (request.spec.loss_rows > rows) {
        request.spec.loss_rows = (uint32_t)rows;
    }
    bp_status status = choice_run(trial, &request, NULL, &error);
    choice_end(trial);
    return status == BP_OK && trial->fits;
}

static bool frees_more(const bp_fit_request *request, const change *free)
{
    return (free->policy && !request->free_policy) || (free->batch && !request->free_batch) ||
           (free->chunk && !request->free_chunk);
}

/* Whether the way of training that needs the fewest bytes, a single micro-batch of one sequence,
 * fits at this length: two plans of few ops. What does not fit so fits in no way. */
static bool least_fits(const choice *c, uint32_t sequence)
{
    static const bp_policy_kind kinds[] = {BP_POLICY_FULL, BP_POLICY_MEMORY_POOR};
    static choice trial;
    const change none = {false, false, false};
    choice least = *c;
    bp_spec *spec = &least.request.spec;
    least.request.free_policy = false;
    least.request.free_batch = false;
    least.request.free_chunk = false;
    spec->accumulation = 1;
    spec->batch = 1;
    spec->loss_rows = SHORT_CHUNK;
    const uint32_t stages = spec->model->stages(&spec->config);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        spec->policy = (bp_policy){.kind = kinds[i]};
        if (i > 0 && bp_schedule_count(&spec->policy, stages) > SHORT_ACTIONS) {
            return false; /* it would take seconds to find out about such long programs */
        }
        if (fits_with(&least, &none, sequence, true, &trial)) {
            return true;
        }
        if (trial.fit.fixed_bytes > least.request.budget) {
            return false; /* whatever the policy */
        }
    }
    return false;
}

/* The change of one option (of batch and accumulation together) that costs the least time. */
static bool find_single(const choice *c, bp_fit_try *found)
{
    const change changes[] = {{.policy = true}, {.batch = true}, {.chunk = true}};
    static choice trial;
    bool any = false;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        bool fits = frees_more(&c->request, &changes[i]) &&
                    fits_with(c, &changes[i], c->request.spec.sequence, false, &trial);
        if (fits && (!any || trial.fit.best.seconds < found->seconds)) {
            *found = trial.fit.best;
            any = true;
        }
    }
    return any;
}

/* `sequence`: the shorter one that it takes, 0 for none. */
static void print_change(const choice *c, const bp_fit_try *found, uint32_t sequence)
{
    char options[512];
    bp_text text;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    if (sequence > 0) {
        bp_text_string(&text, "--max-seq-length ");
        bp_text_u64(&text, sequence);
        bp_text_char(&text, ' ');
    }
    put_difference(&text, &c->fit.best, found, &c->request);
    bp_status cut = bp_text_flush(&text);
    (void)cut;
    dry_run_wipe();
    output_print(stderr, "bedplate: it would fit with %s: %" PRIu64 " bytes\n", options,
                 found->arena_bytes);
}

/* Shorter sequences change what is learned: the last thing to offer. */
static bool print_sequence(const choice *c)
{
    const change all = {true, true, true};
    static choice trial;
    uint32_t sequence = least_fits(c, 1) ? c->request.spec.sequence / 2 : 0;
    for (; sequence > 0; sequence /= 2) {
        if (least_fits(c, sequence) && fits_with(c, &all, sequence, true, &trial)) {
            print_change(c, &trial.fit.best, sequence);
            return true;
        }
    }
    return false;
}

/* Prints what a changed spec needs beside `options`, if it fits with everything else free. */
static bool print_memory_option(const choice *c, const bp_spec *spec, const char *options)
{
    const change all = {true, true, true};
    static choice trial;
    choice changed = *c;
    char rest[512];
    bp_text text;
    changed.request.spec = *spec;
    if (!least_fits(&changed, spec->sequence) ||
        !fits_with(&changed, &all, spec->sequence, true, &trial)) {
        return false;
    }
    if (trial.release_dropped && c->request.spec.gradient_release == BP_RELEASE_NONE) {
        return false; /* the same without that memory option is tried as well */
    }
    bp_text_init(&text, NULL, NULL, rest, sizeof rest);
    put_difference(&text, &c->fit.best, &trial.fit.best, &c->request);
    bp_status cut = bp_text_flush(&text);
    (void)cut;
    dry_run_wipe();
    output_print(stderr, "bedplate: it would fit with%s%s%s: %" PRIu64 " bytes\n", options,
                 rest[0] != '\0' ? " " : "", rest, trial.fit.best.arena_bytes);
    return true;
}

/* A second tier of memory: the same bits, more slowly. */
static bool print_offload_with(const choice *c, uint32_t what, const char *named)
{
    char options[128];
    bp_text text;
    bp_error ignored = {.code = BP_OK};
    bp_report report;
    choice changed = *c;
    offload_all(&changed.request.spec, what);
    if (c->request.spec.offload.bases > 0 || c->request.spec.offload.fixed ||
        bp_spec_check(&changed.request.spec, NULL) != BP_OK ||
        dry_run_report(&changed.request.spec, 1, &report, &ignored) != BP_OK ||
        report.offload.arena_bytes + report.host.arena_bytes == 0) {
        return false;
    }
    const bool host = changed.request.spec.offload.host;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    bp_text_string(&text, host ? " --offload host:" : " --offload file:PATH:");
    bp_text_u64(&text, host ? report.host.arena_bytes : report.offload.arena_bytes);
    bp_text_string(&text, named);
    return bp_text_flush(&text) == BP_OK && print_memory_option(c, &changed.request.spec, options);
}

/* What is written for every micro-batch where nothing else is enough. */
static bool print_offload(const choice *c)
{
    return print_offload_with(c, OFFLOAD_ALL, "") ||
           print_offload_with(c, OFFLOAD_ALL | OFFLOAD_GRADIENTS,
                              " --offload-what bases,weights,gradients");
}

/* Changes the spec and appends the option, where the model can have the memory option: not all of
 * them have adapters, or 16-bit forms. */
static bool apply(uint32_t i, bp_spec *spec, bp_text *options)
{
    char ignored[512];
    bp_text none;
    bp_spec changed = *spec;
    bp_text_init(&none, NULL, NULL, ignored, sizeof ignored);
    return memory_option_apply(i, &changed, &none) && bp_spec_check(&changed, NULL) == BP_OK &&
           memory_option_apply(i, spec, options);
}

/* The first memory option from number `from` on that is enough by itself; `together`: that is with
 * those before it. */
static bool print_memory_options(const choice *c, bool together, uint32_t from)
{
    char options[512];
    bp_text text;
    bp_spec spec = c->request.spec;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    for (uint32_t i = from; i < MEMORY_OPTIONS; i++) {
        if (!together) {
            spec = c->request.spec;
            bp_text_init(&text, NULL, NULL, options, sizeof options);
        }
        bool done = apply(i, &spec, &text) && bp_text_flush(&text) == BP_OK;
        if (done && print_memory_option(c, &spec, options)) {
            return true;
        }
    }
    return false;
}

/* Whether all memory options from number `from` on are enough: where they are not, no few of them
 * are.
 */
static bool memory_options_help(const choice *c, uint32_t from)
{
    char options[512];
    bp_text text;
    choice changed = *c;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    for (uint32_t i = from; i < MEMORY_OPTIONS; i++) {
        bool done = apply(i, &changed.request.spec, &text);
        (void)done;
    }
    return least_fits(&changed, c->request.spec.sequence);
}

static void print_ways_out(const choice *c, const bp_runtime *runtime, uint64_t limit)
{
    const change all = {true, true, true};
    static choice trial;
    bp_fit_try found;
    uint64_t least = c->fit.least.arena_bytes;
    if (find_single(c, &found)) {
        print_change(c, &found, 0);
        return;
    }
    if (frees_more(&c->request, &all)) {
        if (fits_with(c, &all, c->request.spec.sequence, false, &trial)) {
            print_change(c, &trial.fit.best, 0);
            return;
        }
        least = trial.fit.least.arena_bytes;
    }
    /* the first of them, gradient release, can enlarge an arena */
    bool help = memory_options_help(c, 0) || memory_options_help(c, 1);
    bool found_one =
        (help && print_memory_options(c, false, 0)) ||
        (runtime->report.resident_bytes < limit && print_sequence(c)) ||
        (help && (print_memory_options(c, true, 0) || print_memory_options(c, true, 1)));
    found_one = print_offload(c) || found_one;
    if (!found_one) {
        dry_run_wipe();
        output_print(stderr,
                     "bedplate: no option makes it fit; the least is %" PRIu64
                     " bytes, of which weights and their optimizer's state take %" PRIu64 "\n",
                     least, runtime->report.state_bytes);
    }
}

void shortage_print(const choice *c, const bp_runtime *runtime, uint64_t limit)
{
    const bp_report *report = &runtime->report;
    const bp_buffer *largest = largest_at_peak(runtime);
    dry_run_wipe();
    output_print(stderr,
                 "bedplate: --arena: the plan does not fit: %" PRIu64
                 " bytes are missing (found %" PRIu64 ", right would be at least %" PRIu64 ")\n"
                 "bedplate: the largest buffer at the peak is %s with %" PRIu64 " bytes (%s)\n",
                 report->arena_bytes - limit, limit, report->arena_bytes,
                 runtime->graph.names + largest->name, largest->bytes,
                 bp_class_name(largest->class_of));
    if (c->made) {
        print_ways_out(c, runtime, limit);
    } else {
        output_print(stderr, "bedplate: a smaller batch or --max-seq-length might fit\n");
    }
}
