/* SPDX-License-Identifier: MIT */
/* bedplate plan: where every byte of a training run will go. */
#include <stdlib.h>
#include <string.h>

#include "core/plan/optimizer.h"
#include "core/plan/plan_file.h"
#include "core/plan/parts.h"
#include "tools/bedplate/runs/checkpoint.h"
#include "tools/bedplate/runs/metric.h"
#include "tools/bedplate/planning/emit_c.h"
#include "tools/bedplate/planning/sparse_choice.h"
#include "tools/bedplate/planning/release_cost.h"
#include "tools/bedplate/planning/frontier_text.h"
#include "tools/bedplate/predict/transcribe.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/session/frozen.h"
#include "tools/bedplate/session/image_choice.h"
#include "tools/bedplate/planning/host_arena.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/session/kernel_isa.h"
#include "tools/bedplate/planning/listing.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/session/quantised_choice.h"
#include "tools/bedplate/session/reference.h"
#include "tools/bedplate/planning/release_text.h"
#include "tools/bedplate/session/class_weights.h"
#include "tools/bedplate/session/rate_choice.h"
#include "tools/bedplate/planning/schedule_text.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/sources/data_task.h"
#include "tools/bedplate/sources/packing.h"
#include "tools/bedplate/planning/unit_text.h"
#include "tools/bedplate/planning/shard_plan_text.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/verbs/plan_run.h"

static bool fits(const session *s)
{
    return (s->set->arena == 0 || s->plan.report.arena_bytes <= s->set->arena) &&
           offload_check_bytes(&s->offload, &s->plan, NULL) == BP_OK;
}

static const char *peak_name(const session *s)
{
    const bp_graph *graph = &s->plan.graph;
    return bp_kernel_describe(graph->ops[s->plan.report.peak_op].kernel)->name;
}

static void json_classes(output *out, const char *key, const uint64_t *bytes)
{
    json_open(out, key);
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        json_count(out, bp_class_name((bp_class)c), bytes[c]);
    }
    json_close(out);
}

/* The schedule as one line, in JSON as a string; nothing for a model that only runs forward. */
static bp_status put_schedule(output *out, const session *s)
{
    const bp_compile *compile = &s->plan.compile;
    size_t room = 192 * ((size_t)compile->action_count + 1);
    char *line = malloc(room);
    void *scratch = malloc(schedule_scratch(compile->action_count));
    bp_status status = line != NULL && scratch != NULL ? BP_OK : BP_ERR_FIT;
    if (status == BP_OK) {
        bp_text text;
        bp_text_init(&text, NULL, NULL, line, room);
        schedule_put(&text, &s->plan.spec, compile->actions, compile->action_count,
                     compile->variants, scratch);
        status = bp_text_flush(&text);
    }
    if (status == BP_OK && s->set->json) {
        json_text(out, "schedule", line);
    } else if (status == BP_OK) {
        bp_text_string(&out->text, "schedule    ");
        bp_text_string(&out->text, line);
        bp_text_char(&out->text, '\n');
    }
    free(scratch);
    free(line);
    return status;
}

/* What `plan` shows beside the plan itself. */
typedef struct extras {
    const bp_frontier *curve; /* NULL: not asked for */
    frozen still;
    release_cost release;
    uint64_t lanes;      /* bytes that they add */
    uint64_t evaluation; /* bytes that --per-device-eval-batch-size adds */
    shard_plan ranks;
    offload_traffic offload;
    policy_phases phases; /* of --task grpo */
    sparse_choice sparse; /* of --sparse-update-bytes */
} extras;

/* "bf16, master split, gradients bf16" */
static void put_precision(bp_text *text, const bp_spec *spec)
{
    static const char *const names[] = {[BP_F32] = "fp32", [BP_BF16] = "bf16", [BP_F16] = "fp16"};
    bp_text_string(text, names[spec->working]);
    if (spec->master != BP_MASTER_WEIGHT) {
        bp_text_string(text, ", master ");
        bp_text_string(text, bp_master_name(spec->master));
    }
    if (spec->optimizer != NULL && (spec->working != BP_F32 || spec->gradient_int8)) {
        bp_text_string(text, ", gradients ");
        bp_text_string(text, names[spec->gradient]);
    }
    if (spec->optimizer != NULL && spec->gradient_int8) {
        bp_text_string(text, ", added up in int8");
    }
    if (spec->optimizer != NULL && spec->tape == BP_TAPE_FP8) {
        bp_text_string(text, ", tape fp8");
    }
    if (spec->optimizer != NULL && spec->weights == BP_WEIGHT_FP8) {
        bp_text_string(text, ", dense weights fp8");
    }
    if (spec->optimizer != NULL && spec->products == BP_PRODUCT_FP8) {
        bp_text_string(text, ", products fp8 from ");
        bp_text_u64(text, spec->products_from);
    }
    if (spec->quantised != BP_QUANTISED_NONE) {
        bp_text_string(text, ", frozen base in ");
        bp_text_string(text, bp_quantised_name(spec->quantised));
        if (bp_quantised_four(spec->quantised) &&
            bp_quantised_block(spec->quantised) != BP_NF4_BLOCK) {
            bp_text_string(text, ", blocks of ");
            bp_text_u64(text, bp_quantised_block(spec->quantised));
        }
    }
    if (spec->experts != BP_QUANTISED_NONE && spec->experts != spec->quantised) {
        bp_text_string(text, ", frozen experts in ");
        bp_text_string(text, bp_quantised_name(spec->experts));
    } else if (spec->quantised != spec->experts && quantised_mixes(spec)) {
        bp_text_string(text, ", experts as they are");
    }
    if (spec->stored_count > 0) {
        bp_text_string(text, ", frozen base in the file's types");
    }
    if (spec->gradient_release != BP_RELEASE_NONE) {
        bp_text_string(text, ", released in backward");
    }
}

static void json_precision(output *out, const bp_spec *spec)
{
    char words[256];
    bp_text text;
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    put_precision(&text, spec);
    bp_status fits = bp_text_flush(&text);
    (void)fits;
    json_text(out, "precision", words);
    json_text(out, "tape_dtype", spec->tape == BP_TAPE_FP8 ? "fp8" : "auto");
    json_text(out, "weight_dtype", spec->weights == BP_WEIGHT_FP8 ? "fp8" : "auto");
    json_text(out, "product_dtype", spec->products == BP_PRODUCT_FP8 ? "fp8" : "auto");
    json_text(out, "optimizer", spec->optimizer->name);
}

/* Most bytes of a class at one time over the parameters of the model. */
static void json_anatomy(output *out, const bp_report *report)
{
    json_open(out, "bytes_per_parameter");
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        json_real(out, bp_class_name((bp_class)c),
                  (double)report->class_most[c] / (double)report->parameters, 9);
    }
    json_close(out);
}

static void json_parts(output *out, const bp_spec *spec, uint64_t more)
{
    if (bp_spec_token_lanes(spec) > 1) {
        json_count(out, "virtual_sequence_ranks", bp_spec_token_lanes(spec));
        json_count(out, "sequence_ranks", bp_spec_sequence_ranks(spec));
        json_count(out, "tokens_of_a_rank", bp_spec_rank_tokens(spec));
        json_count(out, "parts_enlarge_bytes", more);
    }
}

static bp_status print_json(output *out, const session *s, const extras *more)
{
    const bp_report *report = &s->plan.report;
    json_begin(out);
    json_text(out, "model", s->set->model);
    data_task_json(out, s);
    json_text(out, "weights", s->weights ? "given" : "random");
    json_count(out, "arena_bytes", report->arena_bytes);
    json_count(out, "lower_bound_bytes", report->lower_bound_bytes);
    json_count(out, "waste_bytes", report->arena_bytes - report->lower_bound_bytes);
    json_count(out, "host_bytes", session_host_bytes(s));
    json_count(out, "state_bytes", report->state_bytes);
    json_count(out, "parameters", report->parameters);
    json_classes(out, "classes", report->class_most);
    json_classes(out, "classes_at_peak", report->class_peak);
    json_anatomy(out, report);
    host_arena_json(out, report, s->spec.offload.fixed);
    offload_json(out, &more->offload);
    json_precision(out, &s->plan.spec);
    release_json(out, &s->plan.spec, &more->release);
    if (bp_spec_virtual_ranks(&s->plan.spec) > 1) {
        json_count(out, "virtual_ranks", s->plan.spec.virtual_ranks);
        json_count(out, "virtual_ranks_enlarge_bytes", more->lanes);
    }
    json_parts(out, &s->plan.spec, more->lanes);
    if (more->evaluation > 0) {
        json_count(out, "eval_batch_enlarges_bytes", more->evaluation);
    }
    policy_phases_json(out, &more->phases);
    buckets_json(out, s);
    frozen_json(out, s, &more->still);
    device_describe(out, &s->plan.spec, true);
    kernel_isa_json(out, &s->plan);
    json_text(out, "peak_op", peak_name(s));
    json_count(out, "peak_op_index", report->peak_op);
    json_flag(out, "fits", fits(s));
    bp_status status = put_schedule(out, s);
    if (s->choice.made) {
        choice_json(out, &s->choice, true);
    }
    if (s->lack.found) {
        shortage_json(out, &s->lack);
    }
    sparse_json(out, s, &more->sparse);
    if (s->set->max_batch) {
        json_count(out, "max_batch", choice_examples(&s->spec, s->largest));
    }
    if (more->curve != NULL) {
        frontier_json(out, more->curve);
    }
    shard_plan_json(out, s, &more->ranks);
    json_end(out);
    return status;
}

static void cmd_plan_put_row(bp_text *text, const char *name, uint64_t most, uint64_t peak,
                             double parameters)
{
    bp_text_padded(text, name, 12, BP_TEXT_LEFT);
    char grouped[32];
    bp_text number;
    bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
    bp_text_grouped(&number, most);
    bp_status ok = bp_text_flush(&number);
    bp_text_padded(text, grouped, 20, BP_TEXT_RIGHT);
    bp_text_fixed_padded(text, (double)most / parameters, 2, 17);
    bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
    bp_text_grouped(&number, peak);
    ok = ok == BP_OK ? bp_text_flush(&number) : ok;
    bp_text_padded(text, grouped, 20, BP_TEXT_RIGHT);
    bp_text_char(text, '\n');
}

static void put_bytes(bp_text *text, const char *label, uint64_t bytes)
{
    bp_text_padded(text, label, 12, BP_TEXT_LEFT);
    bp_text_grouped(text, bytes);
    bp_text_string(text, " bytes (");
    bp_text_bytes_human(text, bytes);
    bp_text_string(text, ")\n");
}

/* What is beside full training in the arena. */
static void put_methods(bp_text *text, const bp_spec *spec)
{
    const bp_offload *out = &spec->offload;
    if (spec->lora.rank > 0) {
        bp_text_string(text, ", adapters of rank ");
        bp_text_u64(text, spec->lora.rank);
    }
    if ((out->bases | out->states | out->weights | out->gradients | out->checkpoints) != 0) {
        bp_text_string(text, out->host ? ", offload to the host" : ", offload to a file");
    }
}

/* What was planned: the same words in the table and on the page. */
static void put_shapes(bp_text *text, const session *s)
{
    const bp_spec *spec = &s->plan.spec;
    bp_text_grouped(text, s->plan.report.parameters);
    bp_text_string(text,
                   s->directory ? " parameters, batch " : " parameters, random weights, batch ");
    bp_text_u64(text, spec->batch);
    bp_text_string(text, " x ");
    bp_text_u64(text, spec->sequence);
    bp_text_string(text, spec->config.vocabulary == 0 ? " numbers, " : " tokens, ");
    bp_text_u64(text, spec->accumulation);
    bp_text_string(text,
                   spec->accumulation == 1 ? " micro-batch a step, " : " micro-batches a step, ");
    if (spec->virtual_ranks > 1) {
        bp_text_u64(text, spec->virtual_ranks);
        bp_text_string(text, " virtual ranks, ");
    }
    if (bp_spec_token_lanes(spec) > 1) {
        bp_text_u64(text, bp_spec_token_lanes(spec));
        bp_text_string(text, " parts of a sample on ");
        bp_text_u64(text, bp_spec_sequence_ranks(spec));
        bp_text_string(text, bp_spec_sequence_ranks(spec) > 1 ? " ranks, " : " rank, ");
    }
    bp_text_string(text, "checkpointing ");
    policy_put(text, &spec->policy);
    bp_text_string(text, ", ");
    put_precision(text, spec);
    bp_text_string(text, ", ");
    bp_text_string(text, spec->optimizer->name);
    put_methods(text, spec);
}

static void put_spaces(bp_text *text, const bp_report *report, bool fixed, const extras *more)
{
    put_bytes(text, "arena", report->arena_bytes);
    put_bytes(text, "lower bound", report->lower_bound_bytes);
    put_bytes(text, "waste", report->arena_bytes - report->lower_bound_bytes);
    host_arena_put(text, report, fixed);
    offload_put(text, &more->offload);
}

static bp_status print_table(output *out, const session *s, const extras *more)
{
    bp_text *text = &out->text;
    const bp_report *report = &s->plan.report;
    const bp_spec *spec = &s->plan.spec;
    double parameters = (double)report->parameters;
    bp_text_string(text, s->set->model);
    bp_text_string(text, ": ");
    put_shapes(text, s);
    bp_text_string(text,
                   "\n\nclass           most at one time   bytes/parameter         at the peak\n");
    uint64_t total = 0;
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        cmd_plan_put_row(text, bp_class_name((bp_class)c), report->class_most[c],
                         report->class_peak[c], parameters);
        total += report->class_peak[c];
    }
    bp_text_repeat(text, ' ', 49);
    bp_text_repeat(text, '-', 20);
    bp_text_string(text, "\nlive at the peak");
    bp_text_fixed_padded(text, (double)total / parameters, 2, 33);
    bp_text_string(text, "  ");
    bp_text_grouped(text, total);
    bp_text_string(text, "\n\n");
    device_describe(out, spec, false);
    kernel_isa_text(text, &s->plan);
    put_spaces(text, report, spec->offload.fixed, more);
    policy_phases_put(text, &more->phases);
    put_bytes(text, "host", session_host_bytes(s));
    put_bytes(text, "checkpoint", report->state_bytes);
    if (more->lanes > 0) {
        put_bytes(text, bp_spec_virtual_ranks(spec) > 1 ? "virtual ranks add" : "parts add",
                  more->lanes);
    }
    bp_text_string(text, "peak        op ");
    bp_text_u64(text, report->peak_op);
    bp_text_string(text, " (");
    bp_text_string(text, peak_name(s));
    bp_text_string(text, ")\n");
    release_put(text, &s->plan.spec, &more->release);
    buckets_put(text, s);
    frozen_put(text, s, &more->still);
    sparse_put(text, s, &more->sparse);
    bp_status status = put_schedule(out, s);
    if (s->set->max_batch) {
        bp_text_string(text, "the largest micro-batch that fits is ");
        bp_text_u64(text, choice_examples(&s->spec, s->largest));
        bp_text_char(text, '\n');
    }
    if (s->choice.made) {
        bp_text_char(text, '\n');
        choice_put_table(text, &s->choice);
    }
    if (more->curve != NULL) {
        bp_text_char(text, '\n');
        frontier_put_table(text, more->curve);
    }
    shard_plan_put(text, s, &more->ranks, s->set->map);
    return status;
}

typedef struct page_parts {
    const session *s;
    const extras *more;
} page_parts;

/* What the page has beside the map: the curve, phases, ranks, traffic. */
static void put_parts(bp_text *out, const void *user)
{
    const page_parts *parts = user;
    const extras *more = parts->more;
    char notes[2048];
    bp_text words;
    bp_text_init(&words, NULL, NULL, notes, sizeof notes);
    offload_put(&words, &more->offload);
    const bp_status whole = bp_text_flush(&words);
    (void)whole; /* longer ones are cut */
    policy_phases_page(out, &more->phases);
    shard_plan_page(out, parts->s, &more->ranks);
    if (more->curve != NULL) {
        frontier_page(out, more->curve);
    }
    if (notes[0] != '\0') {
        bp_text_string(out, "<h2>Beside this map</h2>\n<pre>\n");
        bp_text_html(out, notes);
        bp_text_string(out, "</pre>\n");
    }
}

static bp_status write_page(session *s, const extras *more)
{
    FILE *file = fopen(s->set->html, "w");
    bp_status status = BP_ERR_STORE;
    if (file != NULL) {
        output out;
        char details[1024];
        bp_text words;
        const page_parts parts = {s, more};
        bp_text_init(&words, NULL, NULL, details, sizeof details);
        put_shapes(&words, s);
        const bp_status whole = bp_text_flush(&words);
        (void)whole; /* a longer one is cut */
        output_begin(&out, file);
        status = listing_page(&out.text, &s->plan, s->set->model, details, put_parts, &parts);
        output_end(&out);
        bool failed = ferror(file) != 0;
        failed = fclose(file) != 0 || failed;
        status = failed && status == BP_OK ? BP_ERR_STORE : status;
    }
    if (status != BP_OK) {
        return bp_error_set(&s->error, status, "plan", "the page could not be written",
                            s->set->html);
    }
    return BP_OK;
}

/* Plans that batch instead of the one asked for; when none fits, the message of that one is good.
 */
static bp_status take_largest_batch(session *s)
{
    if (s->set->arena == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan", "the option needs --arena",
                            "--max-batch");
    }
    const bp_fit_request request = session_request(s);
    BP_TRY(bp_frontier_largest_batch(&request, bp_family_count(&s->spec.config, BP_ROLE_WIDTH),
                                     &dry_run_lender, &s->largest, &s->error));
    if (s->largest > 0) {
        s->spec.batch = s->largest;
        s->batch_resolved = true;
    }
    return BP_OK;
}

/* Text would be tokenised before the run: its memory is part of the host's. A tokenizer that cannot
 * be used is no matter here, since the data may be token files. */
static void find_tokenizer(session *s)
{
    const bp_error none = s->error;
    if ((s->directory || s->set->tokenizer != NULL) && session_find_run_tokenizer(s) != BP_OK) {
        s->error = none;
        s->run_tokenizer.bytes = 0;
    }
}

/* A trainer has the schedule in it, which ends with the last step. */
static bp_status plan_schedule(session *s)
{
    if (s->set->emit_c == NULL) {
        return BP_OK;
    }
    BP_TRY(emit_c_check(s));
    if (s->set->max_steps <= 0) {
        return bp_error_mend(
            &s->error, BP_ERR_USAGE, "plan",
            "the option needs --max-steps, where the learning rate's schedule ends", "--emit-c",
            BP_MEND_STEPS);
    }
    return rate_fill(s->set, (uint64_t)s->set->max_steps, &s->spec);
}

/* What a trainer makes of bytes is what image files' become here (bp_image_prep_number). */
static bp_status plan_bytes(session *s)
{
    bp_image_prep prep;
    bp_pixel_bytes *pixels = &s->spec.pixels;
    if (!s->set->byte_images) {
        return BP_OK;
    }
    if (s->set->emit_c == NULL || strcmp(s->set->emit_as, "plain") != 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                            "the option is for trainers of --emit-c in the form plain",
                            "--byte-images");
    }
    if (s->spec.accumulation > 1) { /* trainer_place and trainer_learn have one */
        return bp_error_numbers(&s->error, BP_ERR_USAGE, "plan",
                                "a trainer learns images in bytes in steps of one micro-batch",
                                "gradient-accumulation-steps", s->spec.accumulation, 1);
    }
    BP_TRY(image_prep_find(&prep, s));
    *pixels = (bp_pixel_bytes){.there = true, .factor = prep.given != 0 ? prep.factor : 1.0};
    for (uint32_t c = 0; c < 4; c++) {
        const bool normal = prep.given != 0 && prep.normalise != 0;
        pixels->mean[c] = normal ? prep.mean[c] : 0.0;
        pixels->std[c] = normal ? prep.std[c] : prep.given != 0 ? 1.0 : 255.0;
        pixels->std[c] = pixels->std[c] != 0.0 ? pixels->std[c] : 1.0; /* of channels not there */
    }
    return BP_OK;
}

/* What a trainer answers, by programs beside those that train. */
static bp_status plan_answers(session *s)
{
    const settings *set = s->set;
    const uint32_t samples = s->spec.config.task == BP_TASK_EMBEDDING ? s->spec.texts : 1;
    s->spec.generate_context = (uint32_t)set->generate_context;
    s->spec.evaluate = set->eval_data.count > 0 || set->validation_split > 0 || set->predict ||
                       preference_refers(&s->spec);
    if (set->generate_context > 0 && s->spec.config.task != BP_TASK_CAUSAL_LM) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                            "only a causal language model generates", "--generate-context");
    }
    if (!set->predict) {
        return transcribe_plan_training(s);
    }
    if (s->spec.config.task == BP_TASK_CAUSAL_LM) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                            "a language model answers by generating: expected --generate-context",
                            "--predict");
    }
    s->spec.keep_logits = true;
    s->spec.eval_batch = set->eval_batch > 0 ? s->spec.eval_batch : samples;
    return BP_OK;
}

/* Completions are planned for at one length. */
static bp_status plan_lengths(session *s)
{
    return policy_asked(s->set) ? BP_OK : lengths_fill(s, NULL, s->spec.batch);
}

static void plan_write_unit(FILE *stream, const void *user)
{
    output out;
    output_begin(&out, stream);
    unit_put(&out.text, user);
    output_end(&out);
}

static void plan_write_listing(FILE *stream, const void *user)
{
    const session *s = user;
    output out;
    output_begin(&out, stream);
    bp_plan_put_programs(&out.text, &s->plan.graph);
    output_end(&out);
}

/* Nothing is printed of a plan that does not fit. */
static bp_status print_unit(session *s)
{
    output out;
    bp_status status = BP_OK;
    BP_TRY(unit_check(s));
    if (!s->set->json) {
        plan_write_unit(stdout, s);
        return BP_OK;
    }
    output_begin(&out, stdout);
    json_begin(&out);
    json_text(&out, "unit", s->set->unit);
    status = json_written(&out, "text", plan_write_unit, s);
    json_end(&out);
    output_end(&out);
    return status;
}

/* What train would refuse at once. Without --data nothing is known of what is held out. */
static bp_status plan_inputs(session *s)
{
    metric_choice metric;
    BP_TRY(rate_check(s->set));
    const bp_task task = s->spec.config.task;
    if (task == BP_TASK_TOKENS ||
        task == BP_TASK_ANSWERS) { /* before its tokenizer is looked for */
        BP_TRY(s->spec.model->check(&s->spec, &s->error));
    }
    if (policy_asked(s->set)) {
        return BP_OK; /* there are no evaluations, as policy_plan answers */
    }
    BP_TRY(packing_check(s));
    BP_TRY(data_set_check(s));
    const bool held_out = s->set->eval_data.count > 0 || s->set->validation_split > 0;
    return metric_check(s->set, &s->spec, held_out || s->set->data.count == 0, &metric, &s->error);
}

bp_status plan_read(session *s)
{
    static checkpoint points; /* large */
    static policy_run policy;
    BP_TRY(shard_plan_check(s->set, &s->error));
    BP_TRY(plan_inputs(s));
    BP_TRY(plan_schedule(s));
    BP_TRY(class_weights_fill(s, NULL));
    BP_TRY(plan_answers(s));
    BP_TRY(reference_plan(s));
    BP_TRY(plan_bytes(s));
    BP_TRY(policy_plan(&policy, s));
    offload_say_here(&s->offload);
    return checkpoint_recall(&points, s);
}

bp_status plan_make(session *s)
{
    BP_TRY(plan_lengths(s));
    BP_TRY(session_plan(s));
    find_tokenizer(s);
    return BP_OK;
}

/* Where nothing fits, the rank that lacks most is planned and shown. */
static bp_status plan_choose(session *s)
{
    BP_TRY(session_choose(s));
    s->spec.rank = s->choice.made && !s->choice.fits ? s->choice.fit.spec.rank : s->spec.rank;
    return BP_OK;
}

static bp_status cmd_plan_plan(session *s)
{
    const settings *set = s->set;
    output out;
    static bp_frontier curve;
    extras more = {.curve = set->frontier ? &curve : NULL};
    const bp_rates usual = BP_RATES_DEFAULT;
    BP_TRY(plan_read(s));
    if (set->max_batch) {
        BP_TRY(take_largest_batch(s));
    }
    BP_TRY(sparse_choose(&more.sparse, s));
    BP_TRY(plan_choose(s));
    BP_TRY(plan_make(s));
    if (set->frontier) {
        bp_fit_request request = session_request(s);
        request.spec = s->plan.spec;
        BP_TRY(bp_frontier_find(&curve, &request, &dry_run_lender, &s->error));
    }
    BP_TRY(frozen_find(s, &more.still));
    BP_TRY(release_cost_find(&s->plan.spec, s->plan.report.arena_bytes, &more.release, &s->error));
    BP_TRY(
        virtual_ranks_cost_find(&s->plan.spec, s->plan.report.arena_bytes, &more.lanes, &s->error));
    BP_TRY(eval_cost_find(&s->plan.spec, s->plan.report.arena_bytes, false, &more.evaluation,
                          &s->error));
    BP_TRY(shard_plan_find(s, &more.ranks));
    BP_TRY(policy_phases_find(&s->plan.spec, &more.phases, &s->error));
    BP_TRY(offload_traffic_find(&s->plan, &s->offload, set, s->calibrated ? &s->rates : &usual,
                                &more.offload, &s->error));
    if (set->json && !fits(s) && s->choice.made) {
        shortage_find(&s->lack, &s->choice, &s->plan, set);
    }
    dry_run_wipe();
    if (set->unit != NULL) {
        shard_plan_end(&more.ranks);
        return print_unit(s);
    }
    output_begin(&out, stdout);
    bp_status status = set->json ? print_json(&out, s, &more) : print_table(&out, s, &more);
    if (set->listing && set->json && status == BP_OK) {
        json_begin(&out);
        status = json_written(&out, "listing", plan_write_listing, s);
        json_end(&out);
    } else if (set->listing) {
        bp_text_char(&out.text, '\n');
        bp_plan_put_programs(&out.text, &s->plan.graph);
    }
    if (set->map && status == BP_OK) {
        bp_text_string(&out.text, set->json ? "" : "\n");
        status = listing_map(&out.text, &s->plan, set->model, set->json);
    }
    output_end(&out);
    status = status == BP_OK && set->html != NULL ? write_page(s, &more) : status;
    shard_plan_end(&more.ranks);
    BP_TRY(status);
    BP_TRY(session_check_fit(s));
    BP_TRY(offload_check_bytes(&s->offload, &s->plan, &s->error));
    return set->emit_c != NULL ? emit_c_write(s) : BP_OK;
}

int cmd_plan(const settings *set)
{
    static session s;
    static settings planned;
    planned = *set;
    shard_plan_here(&planned);
    bp_status status = session_begin(&s, &planned);
    if (status == BP_OK) {
        status = cmd_plan_plan(&s);
    }
    int code = session_report(&s, status);
    session_end(&s);
    return code;
}
