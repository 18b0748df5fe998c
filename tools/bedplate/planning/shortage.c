/* SPDX-License-Identifier: MIT */
/* Finding what would fit. */
#include "tools/bedplate/planning/shortage.h"

#include <stdio.h>

#include "tools/bedplate/planning/offload_choice.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/session/memory_option.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

#define LEAST_SEQUENCE 8 /* shorter ones teach nothing */

/* What was tried last; large. */
static bp_choice shortage_trial;

/* The largest buffer that lives where the sum of all is largest. */
static const bp_buffer *largest_at_peak(const bp_plan *plan)
{
    const bp_graph *graph = &plan->graph;
    uint32_t peak = plan->report.peak_op;
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
    /* A batch whose division changes the result is divided by those who type it alone. */
    const bool typed = !given->free_batch || bp_fit_batch_matters(&given->spec) != NULL;
    if (typed && found->batch != base->batch) {
        bp_text_string(text, space);
        bp_text_string(text, "--per-device-train-batch-size ");
        bp_text_u64(text, choice_examples(&given->spec, found->batch));
        bp_text_string(text, " --gradient-accumulation-steps ");
        bp_text_u64(text, found->accumulation);
        space = " ";
    }
    if (!given->free_chunk && found->loss_rows != base->loss_rows) {
        bp_text_string(text, space);
        bp_text_string(text, "--loss-chunk-rows ");
        bp_text_u64(text, found->loss_rows);
        space = " ";
    }
    if (!given->free_sequence_chunk && found->sequence_chunk != base->sequence_chunk) {
        bp_text_string(text, space);
        bp_text_string(text, "--sequence-chunk ");
        bp_text_u64(text, found->sequence_chunk);
    }
}

static void ways_add(shortage *to, const char *options, const char *rest, uint64_t arena_bytes)
{
    if (to->count < SHORTAGE_WAYS) {
        shortage_way *way = &to->way[to->count++];
        options += options[0] == ' ' ? 1 : 0;
        snprintf(way->options, sizeof way->options, "%s%s%s", options,
                 options[0] != '\0' && rest[0] != '\0' ? " " : "", rest);
        way->arena_bytes = arena_bytes;
        way->changes = NULL;
    }
}

/* Adds a change that fits, behind options that it takes besides. */
static void add_change(shortage *to, const bp_choice *c, const bp_fit_try *found,
                       const char *options)
{
    char rest[512];
    bp_text text;
    bp_text_init(&text, NULL, NULL, rest, sizeof rest);
    put_difference(&text, &c->fit.best, found, &c->request);
    bp_status cut = bp_text_flush(&text);
    (void)cut;
    ways_add(to, options, rest, found->arena_bytes);
}

/* Whether a spec fits in the way that needs the fewest bytes. */
static bool shortage_least_fits(const bp_choice *c, const bp_spec *spec)
{
    bp_fit_request request = c->request;
    request.spec = *spec;
    return bp_choice_least_fits(&request, &dry_run_lender, &shortage_trial);
}

/* Shorter sequences change what is learned. */
static bool add_sequence(shortage *to, const bp_choice *c)
{
    char options[64];
    bp_spec spec = c->request.spec;
    spec.sequence = LEAST_SEQUENCE;
    const bool helps = shortage_least_fits(c, &spec);
    for (uint32_t sequence = helps ? c->request.spec.sequence / 2 : 0; sequence >= LEAST_SEQUENCE;
         sequence /= 2) {
        spec.sequence = sequence;
        if (bp_choice_try_spec(&c->request, &spec, &dry_run_lender, &shortage_trial)) {
            snprintf(options, sizeof options, "--max-seq-length %u", sequence);
            add_change(to, c, &shortage_trial.fit.best, options);
            return true;
        }
    }
    return false;
}

/* Adds a changed spec, if it fits with everything else free. */
static bool add_spec(shortage *to, const bp_choice *c, const bp_spec *spec, const char *options)
{
    if (!bp_choice_try_spec(&c->request, spec, &dry_run_lender, &shortage_trial)) {
        return false;
    }
    if (shortage_trial.release_dropped && c->request.spec.gradient_release == BP_RELEASE_NONE) {
        return false; /* the same without that memory option is tried as well */
    }
    add_change(to, c, &shortage_trial.fit.best, options);
    return true;
}

/* A second tier of memory: the same bits as `from` has, more slowly. `before` are the options that
 * made it. */
static bool shortage_add_moved(shortage *to, const bp_choice *c, const bp_spec *from,
                               const char *before, uint32_t what, const char *named)
{
    char options[512];
    bp_text text;
    bp_error ignored = {.code = BP_OK};
    bp_report report;
    bp_spec spec = *from;
    offload_all(&spec, what);
    if (c->request.spec.offload.bases > 0 || c->request.spec.offload.fixed ||
        bp_spec_check(&spec, NULL) != BP_OK ||
        dry_run_report(&spec, 1, &report, &ignored) != BP_OK ||
        report.offload.arena_bytes + report.host.arena_bytes == 0) {
        return false;
    }
    const bool host = spec.offload.host;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    bp_text_string(&text, before);
    bp_text_string(&text, before[0] != '\0' ? " " : "");
    bp_text_string(&text, host ? "--offload host:" : "--offload file:PATH:");
    bp_text_u64(&text, host ? report.host.arena_bytes : report.offload.arena_bytes);
    bp_text_string(&text, named);
    return bp_text_flush(&text) == BP_OK && add_spec(to, c, &spec, options);
}

/* What is written for every micro-batch where nothing else is enough. */
static bool shortage_add_offload(shortage *to, const bp_choice *c)
{
    const bp_spec *spec = &c->request.spec;
    return shortage_add_moved(to, c, spec, "", OFFLOAD_ALL, "") ||
           shortage_add_moved(to, c, spec, "", OFFLOAD_ALL | OFFLOAD_GRADIENTS,
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

/* The first memory option of those from .. end - 1 that is enough by itself; `together`: that is
 * with those before it. */
static bool shortage_add_option(shortage *to, const bp_choice *c, bool together, uint32_t from,
                                uint32_t end)
{
    char options[512];
    bp_text text;
    bp_spec spec = c->request.spec;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    for (uint32_t i = from; i < end; i++) {
        if (!together) {
            spec = c->request.spec;
            bp_text_init(&text, NULL, NULL, options, sizeof options);
        }
        bool done = apply(i, &spec, &text) && bp_text_flush(&text) == BP_OK;
        if (done && add_spec(to, c, &spec, options)) {
            return true;
        }
    }
    return false;
}

/* Whether all memory options of these numbers are enough, with all other choices free: where they
 * are not, no few of them are. */
static bool options_help(const bp_choice *c, uint32_t from, uint32_t end)
{
    char options[512];
    bp_text text;
    bp_spec spec = c->request.spec;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    for (uint32_t i = from; i < end; i++) {
        bool done = apply(i, &spec, &text);
        (void)done;
    }
    return bp_choice_spec_may_fit(&c->request, &spec, &dry_run_lender, &shortage_trial);
}

/* Of full training: one of its options, or several. The first, gradient release, can enlarge an
 * arena. */
static bool add_full(shortage *to, const bp_choice *c)
{
    const uint32_t end = MEMORY_OPTION_ADAPTERS;
    const bool help = options_help(c, 0, end) || options_help(c, 1, end);
    return help &&
           (shortage_add_option(to, c, false, 0, end) || shortage_add_option(to, c, true, 0, end) ||
            shortage_add_option(to, c, true, 1, end));
}

/* Adapters with the memory options from .. ADAPTERS - 1, over a base of that form. */
static bool shortage_add_base(shortage *to, const bp_choice *c, uint32_t from, uint32_t base)
{
    char options[512];
    bp_text text;
    bp_spec spec = c->request.spec;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    bool any = false;
    for (uint32_t i = from; i <= MEMORY_OPTION_ADAPTERS; i++) {
        any = apply(i, &spec, &text) || any;
    }
    any = (base != 0 && apply(base, &spec, &text)) || (any && base == 0);
    any = any && spec.lora.rank > 0;
    return any && bp_text_flush(&text) == BP_OK && add_spec(to, c, &spec, options);
}

/* Of adapters: alone, over a quantised base, and with 16-bit weights and the like. */
static bool shortage_add_adapters(shortage *to, const bp_choice *c)
{
    const uint32_t bases[] = {0, MEMORY_OPTION_8BIT, MEMORY_OPTION_4BIT};
    const uint32_t froms[] = {MEMORY_OPTION_ADAPTERS, 1};
    for (size_t i = 0; i < 6; i++) {
        if (shortage_add_base(to, c, froms[i / 3], bases[i % 3])) {
            return true;
        }
    }
    return false;
}

/* What takes least of all: adapters over a base in 4 bits, or in 8, that is offloaded. */
static void shortage_add_smallest(shortage *to, const bp_choice *c)
{
    char options[512];
    bp_text text;
    bp_spec spec = c->request.spec;
    bp_text_init(&text, NULL, NULL, options, sizeof options);
    bool any = false;
    for (uint32_t i = 1; i <= MEMORY_OPTION_ADAPTERS; i++) {
        any = apply(i, &spec, &text) || any;
    }
    any = apply(MEMORY_OPTION_4BIT, &spec, &text) || apply(MEMORY_OPTION_8BIT, &spec, &text) || any;
    if (any && spec.lora.rank > 0 && bp_text_flush(&text) == BP_OK) {
        (void)shortage_add_moved(to, c, &spec, options[0] == ' ' ? options + 1 : options,
                                 OFFLOAD_ALL, "");
    }
}

/* What changes no result: one option, or all of them. */
static bool add_equal(shortage *to, const bp_choice *c)
{
    static bp_choice_proposal found[BP_CHOICE_PROPOSALS];
    const uint32_t count = bp_choice_propose(&c->request, &dry_run_lender, found, &shortage_trial);
    if (count > 0) {
        add_change(to, c, &found[0].found, "");
    }
    return count > 0;
}

/* The same batch in smaller micro-batches, where these change the result. */
static bool shortage_add_divided(shortage *to, const bp_choice *c)
{
    bp_fit_request divided = c->request;
    const char *changes = bp_fit_batch_matters(&divided.spec);
    divided.free_batch = true;
    if (changes == NULL || c->request.free_batch ||
        !bp_choice_try_spec(&divided, &divided.spec, &dry_run_lender, &shortage_trial)) {
        return false;
    }
    add_change(to, c, &shortage_trial.fit.best, "");
    to->way[to->count - 1].changes = changes;
    return true;
}

/* What takes memory from full training or from adapters, over the same batch in smaller
 * micro-batches where these change the result. */
static void shortage_add_both(shortage *to, const bp_choice *c, bool adapters)
{
    static bp_choice divided; /* large */
    const char *changes = bp_fit_batch_matters(&c->request.spec);
    if (changes == NULL || c->request.free_batch) {
        return;
    }
    divided = *c;
    divided.request.free_batch = true;
    (void)add_full(to, &divided);
    if (adapters) {
        (void)shortage_add_adapters(to, &divided);
    }
    for (uint32_t i = 0; i < to->count; i++) {
        to->way[i].changes = changes;
    }
}

/* The fewest bytes with all choices free: those of the plan, where no bound is below them. */
static uint64_t shortage_least(const bp_choice *c, const bp_plan *plan)
{
    static const bp_budget_proposal all = {
        .policy = true, .batch = true, .chunk = true, .sequence_chunk = true};
    const uint64_t found = plan->report.arena_bytes;
    if (!bp_choice_frees(&c->request, &all)) {
        return found;
    }
    (void)bp_choice_try(&c->request, &all, true, &dry_run_lender, &shortage_trial);
    return shortage_trial.fit.least.arena_bytes < found
               ? bp_choice_least(&c->request, &dry_run_lender, &shortage_trial)
               : found;
}

void shortage_find(shortage *to, const bp_choice *c, const bp_plan *plan, const settings *set)
{
    *to = (shortage){.found = true};
    if (!c->made || add_equal(to, c)) {
        return;
    }
    /* The reference of adapters is the model without them, and the lengths of prompts and
     * completions are given. */
    const bool completions = c->request.spec.row_weights;
    const bool adapters = !(completions && set->ref_model != NULL);
    (void)shortage_add_divided(to, c);
    (void)add_full(to, c);
    if (adapters) {
        (void)shortage_add_adapters(to, c);
    }
    if (to->count == 0) {
        shortage_add_both(to, c, adapters);
    }
    shortage more = {.count = 0};
    (void)shortage_add_offload(&more, c);
    const bool room = to->count + more.count < SHORTAGE_WAYS;
    if (room && !completions && plan->report.resident_bytes < set->arena) {
        (void)add_sequence(to, c);
    }
    for (uint32_t i = 0; i < more.count; i++) {
        ways_add(to, more.way[i].options, "", more.way[i].arena_bytes);
    }
    if (to->count == 0 && adapters) {
        shortage_add_smallest(to, c);
    }
    if (to->count == 0) {
        to->least = shortage_least(c, plan);
    }
}

/* A line on stderr: what was put into `text`, whose memory is `line`. */
static void shortage_say(bp_text *text, const char *line)
{
    bp_text_char(text, '\0');
    const bp_status cut = bp_text_flush(text);
    output_print(stderr, "bedplate: %s\n", cut == BP_OK ? line : "..");
}

/* The command with the first of the ways. */
static void shortage_try(const shortage *ways, const settings *set)
{
    static output out; /* large */
    output_begin(&out, stderr);
    bp_text_string(&out.text, "try: ");
    options_command_put(&out.text, set, ways->way[0].options);
    bp_text_char(&out.text, '\n');
    output_end(&out);
}

static void print_ways(const shortage *ways, const settings *set, const bp_plan *plan)
{
    char line[1024];
    bp_text text;
    for (uint32_t i = 0; i < ways->count; i++) {
        bp_text_init(&text, NULL, NULL, line, sizeof line - 1);
        bp_text_string(&text, "it would fit with ");
        bp_text_string(&text, ways->way[i].options);
        bp_text_string(&text, ": ");
        bp_text_grouped(&text, ways->way[i].arena_bytes);
        bp_text_string(&text, " bytes");
        shortage_say(&text, line);
        if (ways->way[i].changes != NULL) {
            output_print(stderr, "bedplate: its smaller micro-batches change the result: %s\n",
                         ways->way[i].changes);
        }
    }
    if (ways->count > 0) {
        output_print(stderr, "bedplate: these bytes are the arena of a plan that fits; the fastest "
                             "that fits is chosen, and may take more\n");
        shortage_try(ways, set);
    } else {
        bp_text_init(&text, NULL, NULL, line, sizeof line - 1);
        bp_text_string(&text,
                       "no option that was tried makes it fit; without others the least is ");
        bp_text_grouped(&text, ways->least);
        bp_text_string(&text, " bytes, of which weights and their optimizer's state take ");
        bp_text_grouped(&text, plan->report.state_bytes);
        shortage_say(&text, line);
    }
}

void shortage_json(output *out, const shortage *ways)
{
    json_list(out, "proposals");
    for (uint32_t i = 0; i < ways->count; i++) {
        json_item(out);
        json_text(out, "options", ways->way[i].options);
        json_count(out, "arena_bytes", ways->way[i].arena_bytes);
        if (ways->way[i].changes != NULL) {
            json_text(out, "changes_result", ways->way[i].changes);
        }
        json_close(out);
    }
    json_list_end(out);
}

void shortage_print(const shortage *ways, bool chose, const settings *set, const bp_plan *plan)
{
    const uint64_t limit = set->arena;
    const bp_report *report = &plan->report;
    const bp_buffer *largest = largest_at_peak(plan);
    char line[1024];
    bp_text text;
    dry_run_wipe();
    bp_text_init(&text, NULL, NULL, line, sizeof line - 1);
    bp_text_string(&text, "--arena: the plan does not fit: ");
    bp_text_grouped(&text, report->arena_bytes - limit);
    bp_text_string(&text, " bytes are missing: found ");
    bp_text_grouped(&text, limit);
    bp_text_string(&text, ", expected at least ");
    bp_text_grouped(&text, report->arena_bytes);
    shortage_say(&text, line);
    bp_text_init(&text, NULL, NULL, line, sizeof line - 1);
    bp_text_string(&text, "the largest buffer at the peak is ");
    bp_text_string(&text, plan->graph.names + largest->name);
    bp_text_string(&text, " with ");
    bp_text_grouped(&text, largest->bytes);
    bp_text_string(&text, " bytes (");
    bp_text_string(&text, bp_class_name(largest->class_of));
    bp_text_char(&text, ')');
    shortage_say(&text, line);
    if (chose) {
        print_ways(ways, set, plan);
    } else {
        output_print(stderr, "bedplate: a smaller batch or --max-seq-length might fit\n");
    }
}
