/* SPDX-License-Identifier: MIT */
/* What happens after the seal: steps, evaluation, generation. Nothing here allocates or decides; it
 * stages tokens, uploads them and runs linked programs. */
#include <string.h>

#include "core/base/digest.h"
#include "core/run/run_private.h"
#include "core/plan/parts.h"

static const char where[] = "run";

static uint64_t offset_of(const bp_runtime *runtime, bp_ref ref)
{
    return bp_buffer_address(&runtime->plan->graph.buffers[ref.buffer]) + ref.offset;
}

static bp_status device_failed(bp_runtime *runtime, bp_status status)
{
    return bp_error_set(&runtime->error, status, where, "the device failed while running",
                        runtime->plan->spec.device->name);
}

/* Bytes of a column that a micro-batch has. */
static size_t column_bytes(uint32_t batch, const bp_column *column)
{
    return (size_t)batch * column->elements * bp_dtype_bytes(column->dtype);
}

/* Of each sample what a program for shorter sequences reads: the first elements. */
static void copy_bucket(const bp_runtime *runtime, const run_inputs *in, uint8_t *slot)
{
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        const bp_column *column = &runtime->group.column[i];
        const size_t size = bp_dtype_bytes(column->dtype), from = column->elements * size;
        const size_t to = in->bucket->elements[i] * size;
        for (uint32_t b = 0; b < in->batch; b++) {
            memcpy(slot + in->bucket->offset[i] + b * to, (const uint8_t *)in->from[i] + b * from,
                   to);
        }
    }
}

static void copy_whole(const bp_runtime *runtime, const run_inputs *in, uint8_t *slot)
{
    const bp_compile *compile = &runtime->plan->compile;
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        const bp_column *column = &runtime->group.column[i];
        const size_t whole = column_bytes(in->batch, column);
        if (in->from[i] != NULL) {
            memcpy(slot + runtime->plan->builder.declared[i].offset, in->from[i],
                   in->tokens == 0 ? whole
                   : compile->input[i].whole
                       ? column_bytes(1, column)
                       : (size_t)in->tokens * bp_input_each(&compile->input[i]) *
                             bp_dtype_bytes(column->dtype));
        }
    }
}

bp_status run_send(bp_runtime *runtime, const bp_step_block *block, const run_inputs *in)
{
    uint8_t *slot = runtime->staging[runtime->slot];
    size_t bytes = (size_t)bp_compile_micro_bytes(&runtime->plan->spec);
    runtime->slot ^= 1;
    memset(slot, 0, (size_t)bp_compile_step_room(&runtime->plan->spec));
    memcpy(slot, block, sizeof *block);
    if (in->bucket != NULL) {
        copy_bucket(runtime, in, slot);
        bytes = (size_t)in->bucket->micro_bytes;
    } else {
        copy_whole(runtime, in, slot);
    }
    const bp_device *device = runtime->plan->spec.device;
    uint64_t place = offset_of(runtime, runtime->plan->builder.step) + in->micro * (uint64_t)bytes;
    bp_status status = device->upload(runtime->device, place, slot, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

/* Where the feed has staged micro-batch `micro` of a column. */
static void *staged_micro(const bp_runtime *runtime, const bp_column *column, uint32_t micro)
{
    return (uint8_t *)column->data + micro * column_bytes(runtime->plan->spec.batch, column);
}

run_inputs run_inputs_of(const bp_runtime *runtime, uint32_t micro, uint32_t place)
{
    run_inputs in = {.batch = runtime->plan->spec.batch, .micro = place};
    for (uint32_t i = 0; i < runtime->group.columns; i++) {
        in.from[i] = staged_micro(runtime, &runtime->group.column[i], micro);
    }
    return in;
}

/* A micro-batch that a short group lacks: no targets, so that it adds nothing. */
static void stage_nothing(bp_runtime *runtime, uint32_t micro)
{
    for (uint32_t i = 0; i < runtime->group.columns; i++) {
        const bp_column *column = &runtime->group.column[i];
        int32_t *to = staged_micro(runtime, column, micro);
        for (size_t e = 0; e < (size_t)runtime->plan->spec.batch * column->elements; e++) {
            to[e] = column->fill;
        }
    }
}

static bp_status run_number(bp_runtime *runtime, uint32_t number)
{
    runtime->zeroed = false;
    bp_status status = runtime->plan->spec.device->run(runtime->device, number);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

static bp_status run(bp_runtime *runtime, bp_program_kind program)
{
    return run_number(runtime, (uint32_t)program);
}

/* The shortest of the programs that hold `tokens` tokens of each sample; NULL: the padded run's. */
static const bp_length_bucket *shortest(const bp_runtime *runtime, uint32_t tokens)
{
    for (uint32_t i = 0; i < runtime->plan->bucket_count; i++) {
        if (runtime->plan->buckets[i].sequence >= tokens) {
            return &runtime->plan->buckets[i];
        }
    }
    return NULL;
}

const bp_length_bucket *run_shortest(const bp_runtime *runtime, uint32_t first, uint32_t last)
{
    uint32_t tokens = 0;
    for (uint32_t i = first; runtime->group.longest != NULL && i <= last; i++) {
        const uint32_t longest = runtime->group.longest[i];
        tokens = longest > tokens ? longest : tokens;
    }
    return shortest(runtime, tokens);
}

bp_status run_length(bp_runtime *runtime, const bp_length_bucket *bucket, bp_program_kind program)
{
    return bucket == NULL ? run(runtime, program)
                          : run_number(runtime, bp_length_bucket_program(runtime, bucket, program));
}

static void count_runs(bp_runtime *runtime, const bp_length_bucket *bucket, uint32_t micros)
{
    uint64_t *runs =
        bucket != NULL ? &bp_length_bucket_run(runtime, bucket)->runs : &runtime->padded_runs;
    const uint32_t sequence = bucket != NULL ? bucket->sequence : runtime->plan->spec.sequence;
    *runs += micros;
    runtime->places += (uint64_t)micros * runtime->plan->spec.batch * sequence;
}

bp_status run_receive(bp_runtime *runtime, const bp_graph *graph, bp_ref from, void *to,
                      size_t bytes)
{
    const uint64_t place = bp_buffer_address(&graph->buffers[from.buffer]) + from.offset;
    const bp_status status =
        runtime->plan->spec.device->download(runtime->device, place, to, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

bp_status run_word_sum(bp_runtime *runtime, const bp_graph *graph, uint32_t buffer, uint64_t from,
                       uint64_t *sum)
{
    const bp_device *device = runtime->plan->spec.device;
    const bp_buffer *which = &graph->buffers[buffer];
    const uint64_t place = bp_buffer_address(which);
    *sum = 0;
    if (device->word_sum != NULL && bp_address_space(place) == BP_SPACE_DEVICE) {
        const bp_status status = device->word_sum(runtime->device, place, which->bytes, from, sum);
        return status == BP_OK ? BP_OK : device_failed(runtime, status);
    }
    for (uint64_t at = 0; at < which->bytes; at += BP_TRANSFER_BYTES) {
        const uint64_t left = which->bytes - at;
        const size_t piece = left < BP_TRANSFER_BYTES ? (size_t)left : BP_TRANSFER_BYTES;
        BP_TRY(run_receive(runtime, graph, (bp_ref){buffer, BP_U8, at}, runtime->transfer, piece));
        *sum += bp_word_sum(runtime->transfer, piece, from + at / sizeof(uint32_t));
    }
    return BP_OK;
}

bp_status run_require(bp_runtime *runtime, bp_program_kind program, const char *text)
{
    if (runtime->open && runtime->plan->graph.program_count[program] > 0) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, BP_ERR_USAGE, where, text, NULL);
}

/* Runs of ops [first, end) of the program that draws. */
static bp_status run_draws(bp_runtime *runtime, uint32_t first, uint32_t end)
{
    const bp_device *device = runtime->plan->spec.device;
    const bp_linked_program *draws = &runtime->link.programs[BP_PROGRAM_INITIALIZE];
    bp_status status = BP_OK;
    runtime->zeroed = false;
    if (end - first == draws->count) {
        status = device->run(runtime->device, BP_PROGRAM_INITIALIZE);
    } else if (end > first) {
        status = device->run_ops(runtime->device, BP_PROGRAM_INITIALIZE, first, end - first);
    }
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

/* Whether op number `index` of the program that draws is for a parameter that was given. */
static bool draws_given(const bp_runtime *runtime, uint32_t index)
{
    const bp_graph *graph = &runtime->plan->graph;
    const bp_op *op = &graph->ops[graph->program_first[BP_PROGRAM_INITIALIZE] + index];
    return runtime->plan->builder.parameters[op->action].given;
}

bp_status bp_runtime_draw_normal(bp_runtime *runtime)
{
    const bp_linked_program *draws = &runtime->link.programs[BP_PROGRAM_INITIALIZE];
    const bp_step_block block = {.seed = runtime->plan->spec.seed};
    uint32_t left = 0;
    for (uint32_t i = 0; i < draws->count; i++) {
        left += draws_given(runtime, i) ? 0 : 1;
    }
    if (left == 0) {
        return BP_OK;
    }
    BP_TRY(run_send(runtime, &block, &(run_inputs){.micro = 0}));
    uint32_t first = 0;
    for (uint32_t i = 0; i < draws->count; i++) {
        if (draws_given(runtime, i)) {
            BP_TRY(run_draws(runtime, first, i));
            first = i + 1;
        }
    }
    BP_TRY(run_draws(runtime, first, draws->count));
    bp_status status = runtime->plan->spec.device->wait(runtime->device);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

static double step_rate(const bp_spec *spec, uint64_t step)
{
    return spec->rate != NULL ? spec->rate(&spec->rate_options, step)
                              : spec->optimizer_options.learning_rate;
}

/* Below this a loss scale has no use: gradients would be smaller than without one. */
static double least_scale(const bp_scaling *scaling)
{
    return scaling->floor > 1.0 ? scaling->floor : 1.0;
}

/* The program that decides a step: whole, or, where steps are judged, up to the op that decides. */
static bp_status run_deciding(bp_runtime *runtime, const bp_length_bucket *bucket,
                              bp_program_kind program)
{
    if (runtime->step_check == NULL) {
        return run_length(runtime, bucket, program);
    }
    const bool own = bucket != NULL; /* which has no update of its own */
    const bp_linked_program *linked =
        own ? &bp_length_bucket_run(runtime, bucket)->link.programs[program]
            : &runtime->link.programs[program];
    const uint32_t decides = step_check_find(linked);
    runtime->decided = (run_decided){
        .bucket = bucket,
        .program = own ? bp_length_bucket_program(runtime, bucket, program) : (uint32_t)program,
        .first = decides + 1,
        .count = linked->count - decides - 1};
    runtime->zeroed = false;
    bp_status status = runtime->plan->spec.device->run_ops(
        runtime->device, runtime->decided.program, 0, decides + 1);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

bp_status run_rest(bp_runtime *runtime)
{
    const run_decided *decided = &runtime->decided;
    bp_status status = runtime->plan->spec.device->run_ops(runtime->device, decided->program,
                                                           decided->first, decided->count);
    return status == BP_OK ? BP_OK : device_failed(runtime, status);
}

/* Runs micro-batch number `micro` of the staged group. */
static bp_status run_micro(bp_runtime *runtime, bp_step_block *block, uint32_t micro,
                           bp_program_kind program)
{
    run_inputs in = run_inputs_of(runtime, micro, 0);
    const bool vectors = program == BP_PROGRAM_VECTORS_FIRST || program == BP_PROGRAM_VECTORS_NEXT;
    in.bucket = vectors ? NULL : run_shortest(runtime, micro, micro);
    block->sample = micro * runtime->plan->spec.batch;
    BP_TRY(run_send(runtime, block, &in));
    count_runs(runtime, in.bucket, 1);
    return program == BP_PROGRAM_STEP ? run_deciding(runtime, in.bucket, program)
                                      : run_length(runtime, in.bucket, program);
}

/* All of this rank's micro-batches of a group that one program holds. Those that a short group
 * lacks have no targets, so they add nothing. */
static bp_status run_whole_group(bp_runtime *runtime, bp_step_block *block)
{
    const bp_group *group = &runtime->group;
    const bool shares = bp_spec_ranks(&runtime->plan->spec) > 1;
    const uint32_t data = shares ? bp_spec_data_rank(&runtime->plan->spec) : 0;
    const uint32_t first = data * runtime->plan->compile.micros;
    const uint32_t end = first + runtime->plan->compile.micros;
    const bp_length_bucket *bucket =
        run_shortest(runtime, first, (end < group->micros ? end : group->micros) - 1);
    for (uint32_t micro = first; micro < end; micro++) {
        if (micro >= group->micros) {
            stage_nothing(runtime, micro);
        }
        run_inputs in = run_inputs_of(runtime, micro, micro - first);
        in.bucket = bucket;
        block->sample = micro * runtime->plan->spec.batch;
        BP_TRY(run_send(runtime, block, &in));
    }
    count_runs(runtime, bucket, runtime->plan->compile.micros);
    return run_deciding(runtime, bucket, BP_PROGRAM_STEP);
}

/* The vectors of all micro-batches, and their gradients, which each micro-batch then begins with.
 */
static bp_status run_vectors(bp_runtime *runtime, bp_step_block *block)
{
    BP_TRY(run_micro(runtime, block, 0, BP_PROGRAM_VECTORS_FIRST));
    for (uint32_t micro = 1; micro < runtime->group.micros; micro++) {
        BP_TRY(run_micro(runtime, block, micro, BP_PROGRAM_VECTORS_NEXT));
    }
    return run(runtime, BP_PROGRAM_CONTRAST);
}

bp_status run_group(bp_runtime *runtime, bp_step_block *block)
{
    if (bp_spec_whole_group(&runtime->plan->spec)) {
        return run_whole_group(runtime, block);
    }
    if (runtime->plan->spec.accumulation == 1) {
        return run_micro(runtime, block, 0, BP_PROGRAM_STEP);
    }
    if (bp_spec_keeps_vectors(&runtime->plan->spec)) {
        BP_TRY(run_vectors(runtime, block));
    }
    BP_TRY(run_micro(runtime, block, 0, BP_PROGRAM_MICRO_FIRST));
    for (uint32_t micro = 1; micro < runtime->group.micros; micro++) {
        BP_TRY(run_micro(runtime, block, micro, BP_PROGRAM_MICRO_NEXT));
    }
    return run_deciding(runtime, NULL, BP_PROGRAM_UPDATE);
}

void run_outcome(const bp_runtime *runtime, const bp_result_block *result, bp_outcome *outcome)
{
    const bp_scaling *scaling = &runtime->plan->spec.scaling;
    const bool retry =
        scaling->kind == BP_SCALING_DYNAMIC && (double)result->scale > least_scale(scaling);
    outcome->places = runtime->places;
    outcome->loss = result->loss_sum / runtime->group.weight;
    outcome->norm = (double)result->norm;
    outcome->scale = (double)result->scale;
    outcome->skipped = result->skip != 0 && retry;
    outcome->nonfinite = result->skip != 0 && !retry;
    memcpy(outcome->metrics, result->metrics, sizeof outcome->metrics);
}

bp_status bp_runtime_step(bp_runtime *runtime, const bp_feed *feed, bp_outcome *outcome)
{
    BP_TRY(bp_runtime_require(runtime, runtime->open, "the runtime is not open"));
    const bp_spec *spec = &runtime->plan->spec;
    bool single = spec->accumulation == 1 || bp_spec_whole_group(spec);
    bp_program_kind first = single ? BP_PROGRAM_STEP : BP_PROGRAM_MICRO_FIRST;
    BP_TRY(run_require(runtime, first, "the plan has no training programs"));
    const bool learns = spec->distill.top_k > 0 && !spec->distill.is_teacher;
    if ((learns || spec->row_weights) && feed->teacher == NULL) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where, "the feed has no teacher", NULL);
    }
    BP_TRY(run_check_feed(runtime, feed, spec->batch, spec->batch * spec->accumulation));
    bp_status status = bp_feed_stage(feed, runtime->steps, &runtime->group, runtime->window);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the feed failed", NULL);
    }
    if (spec->row_weights) {
        runtime->group.weight = 1.0; /* each target has its own */
    }
    BP_TRY(run_check_group(runtime, feed));
    double rate = step_rate(spec, runtime->steps);
    *outcome = (bp_outcome){.step = runtime->steps + 1,
                            .rate = rate,
                            .valid = runtime->group.valid,
                            .weight = runtime->group.weight,
                            .samples = runtime->group.samples,
                            .tokens = runtime->group.tokens};
    if (!(runtime->group.weight > 0.0)) {
        runtime->steps++;
        runtime->skipped++;
        return BP_OK;
    }
    bp_step_block block = {.seed = spec->seed,
                           .step = runtime->steps,
                           .learning_rate = (float)rate,
                           .mask_span = runtime->plan->bucket_count > 0 ? spec->sequence : 0,
                           .samples = runtime->group.samples,
                           .inverse_micros = 1.0f / (float)runtime->group.micros,
                           .inverse_valid = (float)(1.0 / runtime->group.weight)};
    bp_result_block result;
    runtime->places = 0;
    if (runtime->step_check != NULL) {
        BP_TRY(step_check_step(runtime, &block, &result, outcome));
        runtime->steps++;
        return BP_OK;
    }
    BP_TRY(run_group(runtime, &block));
    BP_TRY(run_receive(runtime, &runtime->plan->graph, runtime->plan->builder.result, &result,
                       sizeof result));
    runtime->steps++;
    run_outcome(runtime, &result, outcome);
    return BP_OK;
}

bp_status bp_runtime_restart(bp_runtime *runtime)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    runtime->position = 0;
    runtime->text = 0;
    return BP_OK;
}

/* Whether the model reads a text of so many tokens by what it has for long ones. */
static bool reads_far(const bp_runtime *runtime, uint32_t tokens)
{
    const bp_model *model = runtime->plan->spec.model;
    const uint32_t near =
        model->near_tokens != NULL ? model->near_tokens(&runtime->plan->spec.config) : 0;
    return near > 0 && tokens > near;
}

bp_status bp_runtime_reread(bp_runtime *runtime, uint32_t tokens, bool *again)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    *again = runtime->position > 0 && reads_far(runtime, tokens) != runtime->far;
    runtime->position = *again ? 0 : runtime->position;
    runtime->text = tokens;
    return BP_OK;
}

bp_status bp_runtime_rewind(bp_runtime *runtime, uint32_t tokens, bool *kept)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    if (tokens > runtime->position) {
        return bp_error_limit(&runtime->error, BP_ERR_USAGE, where,
                              "that many tokens were not accepted", NULL, tokens, BP_LIMIT_MOST,
                              runtime->position);
    }
    const bp_model *model = runtime->plan->spec.model;
    const bool recurs = model->recurs != NULL && model->recurs(&runtime->plan->spec.config);
    /* Otherwise later tokens change nothing of earlier ones. */
    *kept = model->pads && (!recurs || tokens == runtime->position);
    runtime->position = *kept ? tokens : runtime->position;
    runtime->text = *kept ? 0 : runtime->text;
    return BP_OK;
}

/* Whether so many ids go through prefill: several of one sequence, and the first of all where it
 * leaves what depends on weights alone (layers/nodes/magnitude.c), or on a source. */
static bool run_prefills(const bp_runtime *runtime, uint32_t tokens)
{
    const bp_spec *spec = &runtime->plan->spec;
    return tokens > 1 || (runtime->position == 0 && (spec->lora.magnitudes || spec->source > 0));
}

/* Runs a decode program over the ids that lie in the transfer's memory, and goes on by `tokens`. */
static bp_status run_tokens(bp_runtime *runtime, uint32_t rows, uint32_t tokens)
{
    const bool prefills = run_prefills(runtime, tokens);
    const bp_step_block block = {.seed = runtime->plan->spec.seed,
                                 .position = runtime->position,
                                 .last_row = prefills ? tokens - 1 : 0};
    run_inputs in = {.tokens = rows};
    int32_t *extents = (int32_t *)(void *)(runtime->transfer + BP_TRANSFER_BYTES / 2);
    for (uint32_t i = 0; i < rows; i++) {
        extents[i] = (int32_t)runtime->text;
    }
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        const bp_input *input = &runtime->plan->compile.input[i];
        const void *from = input->from == BP_INPUT_EXTENTS  ? (void *)extents
                           : input->from == BP_INPUT_SOURCE ? (const void *)runtime->source
                           : input->from == BP_INPUT_SOURCE_LENGTHS
                               ? (const void *)&runtime->source_length
                               : runtime->transfer;
        in.from[i] = input->decodes || input->whole ? from : NULL;
    }
    BP_TRY(run_send(runtime, &block, &in));
    BP_TRY(run(runtime, prefills ? BP_PROGRAM_PREFILL : BP_PROGRAM_DECODE));
    runtime->position += tokens;
    return BP_OK;
}

/* Appends up to one run's worth of ids: prefill takes several with padding, decode one, which all
 * sequences have. */
static bp_status accept_some(bp_runtime *runtime, const int32_t *ids, uint32_t count,
                             uint32_t *taken)
{
    const uint32_t rows = bp_compile_prefill_rows(&runtime->plan->spec);
    const uint32_t written = bp_spec_decode_rows(&runtime->plan->spec);
    const uint32_t n = count < rows ? count : rows;
    int32_t *padded = (int32_t *)runtime->transfer;
    memset(padded, 0, rows * sizeof *padded);
    memcpy(padded, ids, n * sizeof *padded);
    for (uint32_t i = 1; n == 1 && i < written; i++) {
        padded[i] = ids[0];
    }
    *taken = n;
    return run_tokens(runtime, run_prefills(runtime, n) ? rows : written, n);
}

/* Whether so many ids, one after the other or beside each other, can be appended; then the text has
 * them. */
static bp_status check_ids(bp_runtime *runtime, const int32_t *ids, uint32_t count, uint32_t tokens)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    if (runtime->plan->spec.generate_regions > 0) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "the plan's sequences have slots: bp_runtime_decode_slots", NULL);
    }
    if (runtime->plan->spec.source > 0 && runtime->source == NULL) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "the model makes a text of another: bp_runtime_read_source", NULL);
    }
    const uint32_t room = runtime->plan->spec.generate_context - runtime->position;
    if (tokens > room) {
        return bp_error_limit(&runtime->error, BP_ERR_FIT, where,
                              "the tokens do not fit the generation context", NULL, tokens,
                              BP_LIMIT_MOST, room);
    }
    const uint32_t after = runtime->position + tokens;
    const uint32_t text = after > runtime->text ? after : runtime->text;
    const bool far = reads_far(runtime, text);
    if (runtime->position > 0 && far != runtime->far) {
        return bp_error_limit(&runtime->error, BP_ERR_USAGE, where,
                              "a text of this length is read otherwise from its first token on; "
                              "see bp_runtime_reread",
                              NULL, text, BP_LIMIT_NONE, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((uint32_t)ids[i] >= runtime->plan->spec.config.vocabulary) {
            return bp_error_limit(&runtime->error, BP_ERR_DATA, where,
                                  "a token id is not below the model's vocabulary", NULL, ids[i],
                                  BP_LIMIT_BELOW, runtime->plan->spec.config.vocabulary);
        }
    }
    runtime->text = text;
    runtime->far = far;
    return BP_OK;
}

/* Whether a source is ids, or numbers. */
static bool run_reads_ids(const bp_runtime *runtime)
{
    bool ids = false;
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        const bp_input *input = &runtime->plan->compile.input[i];
        ids = ids || (input->from == BP_INPUT_SOURCE && input->dtype == BP_I32);
    }
    return ids;
}

bp_status bp_runtime_read_source(bp_runtime *runtime, const int32_t *ids, uint32_t count)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    const bp_spec *spec = &runtime->plan->spec;
    if (count > spec->source) {
        return bp_error_limit(&runtime->error, BP_ERR_USAGE, where,
                              "the plan has no room for this source", NULL, count, BP_LIMIT_MOST,
                              spec->source);
    }
    for (uint32_t i = 0; i < spec->source && run_reads_ids(runtime); i++) {
        if ((uint32_t)ids[i] >= spec->config.vocabulary) {
            return bp_error_limit(&runtime->error, BP_ERR_DATA, where,
                                  "a token id is not below the model's vocabulary", NULL, ids[i],
                                  BP_LIMIT_BELOW, spec->config.vocabulary);
        }
    }
    runtime->source = ids;
    runtime->source_length = (int32_t)count;
    return bp_runtime_restart(runtime);
}

/* Logits of `rows` sequences come to the host. */
static bp_status receive_logits(bp_runtime *runtime, bp_ref from, uint32_t rows)
{
    return run_receive(runtime, &runtime->plan->graph, from, runtime->logits_host,
                       (size_t)rows * runtime->plan->spec.config.vocabulary * sizeof(float));
}

/* Runs a decode program over `rows` rows whose ids, positions and places lie in the transfer's
 * memory one behind the other. */
static bp_status run_slots(bp_runtime *runtime, bp_program_kind program, uint32_t rows,
                           uint32_t last_row)
{
    const bp_step_block block = {.seed = runtime->plan->spec.seed, .last_row = last_row};
    const int32_t *ids = (const int32_t *)(const void *)runtime->transfer;
    run_inputs in = {.tokens = rows};
    for (uint32_t i = 0; i < runtime->plan->compile.input_count; i++) {
        const bp_input *input = &runtime->plan->compile.input[i];
        const int32_t *from = input->from == BP_INPUT_SLOTS            ? ids + 2 * (size_t)rows
                              : input->from == BP_INPUT_SLOT_POSITIONS ? ids + rows
                              : input->from == BP_INPUT_EXTENTS        ? ids + rows
                                                                       : ids;
        in.from[i] = input->decodes ? from : NULL;
    }
    BP_TRY(run_send(runtime, &block, &in));
    return run(runtime, program);
}

/* Row r of the transfer's arrays. */
static bp_status put_slot(bp_runtime *runtime, uint32_t rows, uint32_t r, int32_t id,
                          const bp_slot *slot)
{
    int32_t *ids = (int32_t *)(void *)runtime->transfer;
    const bp_spec *spec = &runtime->plan->spec;
    const bool wrong = (uint32_t)id >= spec->config.vocabulary;
    if (wrong || (uint32_t)slot->position >= spec->generate_context) {
        return bp_error_limit(&runtime->error, BP_ERR_DATA, where,
                              wrong ? "a token id is not below the model's vocabulary"
                                    : "a position is beyond the generation context",
                              NULL, wrong ? id : slot->position, BP_LIMIT_BELOW,
                              wrong ? spec->config.vocabulary : spec->generate_context);
    }
    ids[r] = id;
    ids[rows + r] = slot->position;
    ids[2 * (size_t)rows + r] = slot->region;
    ids[3 * (size_t)rows + r] = slot->shared;
    return BP_OK;
}

bp_status bp_runtime_read_prompt(bp_runtime *runtime, uint32_t region, const int32_t *ids,
                                 uint32_t count)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    const bp_spec *spec = &runtime->plan->spec;
    const uint32_t rows = bp_compile_prefill_rows(spec);
    if (region >= spec->generate_regions || count == 0 || count > spec->generate_prompt) {
        return bp_error_limit(&runtime->error, BP_ERR_USAGE, where,
                              "the plan has no room for this prompt", NULL, count, BP_LIMIT_MOST,
                              region < spec->generate_regions ? spec->generate_prompt : 0);
    }
    for (uint32_t done = 0; done < count; done += rows) {
        const uint32_t n = count - done < rows ? count - done : rows;
        for (uint32_t r = 0; r < rows; r++) {
            const bool there = r < n;
            const bp_slot slot = {.position = there ? (int32_t)(done + r) : 0,
                                  .region = (int32_t)region,
                                  .shared = there ? (int32_t)spec->generate_prompt : -1};
            BP_TRY(put_slot(runtime, rows, r, there ? ids[done + r] : 0, &slot));
        }
        BP_TRY(run_slots(runtime, BP_PROGRAM_PREFILL, rows, n - 1));
    }
    return receive_logits(runtime, runtime->plan->builder.logits, 1);
}

bp_status bp_runtime_decode_slots(bp_runtime *runtime, const int32_t *ids, const bp_slot *slots)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_DECODE, "the plan has no decode programs"));
    const uint32_t rows = bp_spec_decode_rows(&runtime->plan->spec);
    if (runtime->plan->spec.generate_regions == 0) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where, "the plan has no slots", NULL);
    }
    for (uint32_t r = 0; r < rows; r++) {
        BP_TRY(put_slot(runtime, rows, r, ids[r], &slots[r]));
    }
    BP_TRY(run_slots(runtime, BP_PROGRAM_DECODE, rows, 0));
    return receive_logits(runtime, runtime->plan->builder.logits_each, rows);
}

bp_status bp_runtime_accept(bp_runtime *runtime, const int32_t *ids, uint32_t count)
{
    BP_TRY(check_ids(runtime, ids, count, count));
    uint32_t taken = 0;
    bool prefills = false;
    for (uint32_t done = 0; done < count; done += taken) {
        prefills = run_prefills(runtime, count - done);
        BP_TRY(accept_some(runtime, ids + done, count - done, &taken));
    }
    return receive_logits(
        runtime, prefills ? runtime->plan->builder.logits : runtime->plan->builder.logits_each, 1);
}

bp_status bp_runtime_accept_each(bp_runtime *runtime, const int32_t *ids)
{
    BP_TRY(bp_runtime_require(runtime, runtime->open, "the runtime is not open"));
    const uint32_t rows = bp_spec_decode_rows(&runtime->plan->spec);
    BP_TRY(check_ids(runtime, ids, rows, 1));
    memcpy(runtime->transfer, ids, rows * sizeof *ids);
    BP_TRY(run_tokens(runtime, rows, 1));
    return receive_logits(runtime, runtime->plan->builder.logits_each, rows);
}
