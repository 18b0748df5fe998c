/* SPDX-License-Identifier: MIT */
/* The compiler: walks schedules and lets stages and optimizer write their ops. */
#include <string.h>

#include "core/plan/compile_private.h"

#include "core/plan/adapter.h"
#include "core/plan/passes/token_lanes.h"
#include "core/plan/passes/virtual_ranks.h"
#include "core/base/glob.h"
#include "core/ir/link.h"
#include "core/plan/input.h"
#include "core/plan/optimizer.h"
#include "core/plan/rows.h"
#include "core/ir/step.h"

static const char where[] = "compile";

static bp_status compile_tables(bp_compile *compile, const bp_spec *spec, bp_arena *memory)
{
    const uint32_t stages = spec->model->stages(&spec->config);
    const uint64_t micros = bp_compile_micros(spec);
    compile->stages = stages;
    compile->micros = (uint32_t)micros;
    compile->action_count = bp_schedule_count(&spec->policy, stages);
    const uint64_t edges = bp_size_mul(micros, (uint64_t)stages + 1);
    const uint64_t rows[7] = {
        stages, compile->action_count, edges, edges, bp_size_mul(micros, stages), micros, edges};
    const size_t size[7] = {sizeof(uint32_t), sizeof(bp_action),       sizeof(bp_ref),
                            sizeof(bp_ref),   sizeof compile->tape[0], sizeof(bp_slice_call),
                            sizeof(bp_left)};
    void *table[7];
    for (int i = 0; i < 7; i++) {
        BP_TRY(bp_arena_rows(memory, rows[i], size[i], TABLE_ALIGNMENT, &table[i]));
    }
    compile->variants = table[0];
    compile->actions = table[1];
    compile->boundary = table[2];
    compile->d_boundary = table[3];
    compile->tape = table[4];
    compile->slices = table[5];
    compile->left = table[6];
    for (uint32_t s = 0; s < stages && !memory->counts; s++) {
        compile->variants[s] = spec->model->variants(&spec->config, s);
    }
    return bp_virtual_ranks_allocate(compile, spec, memory);
}

/* Every rule has to match something, and something has to be left to train. */
static bp_status check_rules(const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    static const char *const options[] = {[BP_RULE_FREEZE] = "freeze",
                                          [BP_RULE_TRAIN] = "trainable",
                                          [BP_RULE_OVERRIDE] = "param-override"};
    for (uint32_t r = 0; r < spec->rule_count; r++) {
        bool matches = spec->rules[r].may_match_none;
        for (uint32_t i = 0; i < builder->parameter_count && !matches; i++) {
            const char *name = bp_build_name(builder, i);
            matches = bp_glob_match(spec->rules[r].glob, name);
        }
        if (!matches) {
            bp_status status = bp_error_set(
                builder->graph->error, BP_ERR_USAGE, where,
                "the pattern matches no parameter of this model (plan --map lists their names)",
                spec->rules[r].glob);
            bp_error_prefix(builder->graph->error, options[spec->rules[r].kind]);
            return status;
        }
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].trainable) {
            return BP_OK;
        }
    }
    return bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                        "every parameter is frozen; --trainable GLOB keeps some of them", "freeze");
}

/* What was asked to be quantised has to be there. */
static bp_status check_quantised(const bp_builder *builder)
{
    bool any = builder->spec->quantised == BP_QUANTISED_NONE;
    for (uint32_t i = 0; i < builder->parameter_count && !any; i++) {
        any = bp_build_quantised(builder, i);
    }
    return any ? BP_OK
               : bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                              "this model has no dense layers in blocks to quantise",
                              builder->spec->quantised == BP_QUANTISED_INT8 ? "load-in-8bit"
                                                                            : "load-in-4bit");
}

/* What was asked to be in fp8 has to be there. */
static bp_status check_fp8(const bp_builder *builder)
{
    bool any = builder->spec->weights == BP_WEIGHT_WORKING || builder->spec->optimizer == NULL;
    for (uint32_t i = 0; i < builder->parameter_count && !any; i++) {
        any = bp_build_fp8(builder, i);
    }
    return any ? BP_OK
               : bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                              "this run trains no dense layers in blocks, whose weights fp8 is for",
                              "weight-dtype");
}

void compile_find_first(bp_compile *compile, const bp_builder *builder)
{
    compile->first = compile->stages - 1;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        uint32_t stage = bp_adapter_stage(builder, i);
        bool lower = builder->parameters[i].trainable && stage < compile->first;
        compile->first = lower ? stage : compile->first;
    }
}

static bp_status make_schedule(bp_compile *compile, const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    compile_find_first(compile, builder);
    return bp_schedule_generate(&spec->policy, compile->stages, compile->first, compile->variants,
                                compile->actions, compile->action_count, &compile->action_count);
}

static bp_status fixed_buffer(bp_builder *builder, const char *name, bp_scope scope, uint64_t bytes,
                              uint32_t *index)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_IO,
                                 .scope = scope,
                                 .dtype = BP_U8,
                                 .rank = 1,
                                 .shape = {bytes},
                                 .filled =
                                     scope == BP_SCOPE_RESIDENT && bytes > sizeof(bp_result_block)};
    return bp_graph_buffer(builder->graph, &prototype, name, index);
}

/* The programs before whose runs the host sends a micro-batch. */
#define SENT_BATCH                                                                                 \
    (1u << BP_PROGRAM_STEP | 1u << BP_PROGRAM_MICRO_FIRST | 1u << BP_PROGRAM_MICRO_NEXT |          \
     1u << BP_PROGRAM_UPDATE | 1u << BP_PROGRAM_EVAL | 1u << BP_PROGRAM_VECTORS_FIRST |            \
     1u << BP_PROGRAM_VECTORS_NEXT)

/* Part of the inputs buffer that some programs may read; the feed has seen to the ranges. */
static bp_status declare_field(const bp_compile *compile, const bp_builder *builder, uint32_t row,
                               uint32_t programs, uint64_t elements)
{
    const bp_input *input = &compile->input[row];
    const bp_field field = {.programs = programs,
                            .type = BP_TYPE_I32,
                            .buffer = compile->inputs,
                            .offset = builder->declared[row].offset,
                            .bytes = bp_size_mul(elements, bp_dtype_bytes(input->dtype)),
                            .below = input->below,
                            .negative = input->negative};
    return bp_graph_field(builder->graph, &field);
}

/* What lies where in each micro-batch's piece of the inputs. */
static bp_status declare_inputs(const bp_compile *compile, const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    const bp_field step = {.programs = UINT32_MAX,
                           .type = BP_TYPE_STEP,
                           .buffer = compile->inputs,
                           .offset = builder->step.offset,
                           .bytes = sizeof(bp_step_block)};
    builder->graph->field_pitch = bp_compile_micro_bytes(spec);
    builder->graph->fixed = spec->offload.fixed;
    BP_TRY(bp_graph_field(builder->graph, &step));
    for (uint32_t i = 0; i < compile->input_count; i++) {
        const bp_input *input = &compile->input[i];
        const uint64_t each = bp_input_elements(input);
        const bool apart = bp_spec_eval_batch(spec) != spec->batch;
        const uint32_t sent = apart ? SENT_BATCH & ~(1u << BP_PROGRAM_EVAL) : SENT_BATCH;
        if (each > 0) {
            BP_TRY(declare_field(compile, builder, i, sent, bp_size_mul(spec->batch, each)));
        }
        if (each > 0 && apart && spec->evaluate) {
            BP_TRY(declare_field(compile, builder, i, 1u << BP_PROGRAM_EVAL,
                                 bp_size_mul(bp_spec_eval_batch(spec), each)));
        }
        if (input->whole && spec->generate_context > 0) {
            BP_TRY(declare_field(compile, builder, i,
                                 1u << BP_PROGRAM_PREFILL | 1u << BP_PROGRAM_DECODE, each));
        } else if (input->decodes) {
            const uint32_t row = bp_input_each(input);
            BP_TRY(declare_field(compile, builder, i, 1u << BP_PROGRAM_PREFILL,
                                 bp_size_mul(bp_compile_prefill_rows(spec), row)));
            BP_TRY(declare_field(compile, builder, i, 1u << BP_PROGRAM_DECODE,
                                 bp_size_mul(bp_spec_decode_rows(spec), row)));
        }
    }
    return BP_OK;
}

/* What routers are balanced by, of each micro-batch that a program holds. */
static bp_status fixed_balances(bp_compile *compile, bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    const bool has = spec->optimizer != NULL && spec->model->balance != NULL;
    compile->balance = has ? spec->model->balance(spec) : 0;
    const bp_buffer balances = {.class_of = BP_CLASS_IO,
                                .scope = BP_SCOPE_RESIDENT,
                                .dtype = BP_F32,
                                .rank = 1,
                                .shape = {bp_size_mul(compile->balance, bp_compile_micros(spec))}};
    if (compile->balance == 0) {
        return BP_OK;
    }
    return bp_graph_buffer(builder->graph, &balances, "balance", &compile->balances);
}

bp_status compile_fixed(bp_compile *compile, bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    uint32_t control = 0;
    uint32_t result = 0;
    compile->input_count = bp_input_declare(spec, compile->input);
    const uint64_t inputs = bp_size_mul(bp_compile_micro_bytes(spec), bp_compile_micros(spec));
    BP_TRY(fixed_buffer(builder, "inputs", BP_SCOPE_RESIDENT, inputs, &compile->inputs));
    BP_TRY(
        fixed_buffer(builder, "control", BP_SCOPE_PERSISTENT, sizeof(bp_control_block), &control));
    BP_TRY(fixed_buffer(builder, "result", BP_SCOPE_RESIDENT, sizeof(bp_result_block), &result));
    if (spec->class_weights != NULL) {
        uint32_t weights = 0;
        BP_TRY(fixed_buffer(builder, "class_weights", BP_SCOPE_CONSTANT,
                            bp_size_mul(spec->config.classes, sizeof(float)), &weights));
        builder->class_weights = (bp_ref){weights, BP_F32, 0};
    }
    BP_TRY(fixed_balances(compile, builder));
    if (spec->between_bytes > 0) {
        uint32_t between = 0;
        BP_TRY(fixed_buffer(builder, "between", BP_SCOPE_BETWEEN, spec->between_bytes, &between));
    }
    compile_inputs(compile, builder, 0);
    BP_TRY(declare_inputs(compile, builder));
    bp_graph_take(builder->graph, result,
                  1u << BP_PROGRAM_STEP | 1u << BP_PROGRAM_UPDATE | 1u << BP_PROGRAM_EVAL);
    builder->control = (bp_ref){control, BP_U8, 0};
    builder->result = (bp_ref){result, BP_U8, 0};
    return BP_OK;
}

/* Forward and backward of one micro-batch. */
static void write_micro(bp_compile *compile, bp_builder *builder, bp_program_kind program)
{
    compile_begin(compile, builder, program, BP_MODE_TRAIN);
    bool later = program == BP_PROGRAM_MICRO_NEXT;
    builder->loss_written = later;
    if (builder->spec->gradient_int8) {
        compile_summed(compile, builder, later);
        return;
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        builder->parameters[i].gradient_written = later;
    }
    for (uint32_t i = 0; i < compile->action_count && builder->status == BP_OK; i++) {
        compile_action(compile, builder, i, 0);
    }
}

static void keep_part(bp_builder *builder, bp_ref to, bp_ref from, int64_t bytes)
{
    const bp_copy_begin_scalars begin = {.request = (int64_t)bp_graph_request(builder->graph),
                                         .rows = 1,
                                         .width = bytes,
                                         .to_pitch = bytes,
                                         .from_pitch = bytes};
    const bp_copy_wait_scalars wait = {begin.request, 1, bytes, bytes, bytes};
    bp_build_copy_begin(builder, &(bp_copy_begin_operands){to, from}, &begin);
    bp_build_copy_wait(builder, &(bp_copy_wait_operands){to, from}, &wait);
}

static void draw_normal(bp_builder *builder, uint32_t index, bp_ref weight, bp_ref master)
{
    const bp_parameter *parameter = &builder->parameters[index];
    bp_build_random_normal(
        builder, &(bp_random_normal_operands){.y = weight, .master = master, .step = builder->step},
        &(bp_random_normal_scalars){.count = (int64_t)parameter->count,
                                    .stream = index,
                                    .form = parameter->master_form,
                                    .deviation = parameter->deviation});
}

/* Rows of a table that are trained apart from it. */
static void draw_rows(bp_builder *builder, uint32_t index, bp_ref weight, bp_ref master)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_ref values =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 1, parameter->count, "rows");
    bp_rows_values(builder, parameter->base, values);
    bp_build_store_values(builder,
                          &(bp_store_values_operands){.y = weight, .master = master, .x = values},
                          &(bp_store_values_scalars){.count = (int64_t)parameter->count,
                                                     .form = parameter->master_form});
}

/* The magnitude of an adapter, behind its A and B. */
static void draw_norms(bp_builder *builder, uint32_t index, bp_ref weight, bp_ref master)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_ref norms =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 1, parameter->count, "norms");
    bp_adapter_norms(builder, parameter->base, norms);
    bp_build_store_values(builder,
                          &(bp_store_values_operands){.y = weight, .master = master, .x = norms},
                          &(bp_store_values_scalars){.count = (int64_t)parameter->count,
                                                     .form = parameter->master_form});
}

/* Draws a parameter, whose number is its ops' action. What is shared out is drawn whole, and this
 * rank's part kept. */
static void write_draw(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t first = parameter->share.first, count = parameter->share.count;
    const uint64_t width = bp_master_bytes(parameter->master_form);
    const bool part = bp_build_shared(builder) && parameter->master != BP_NO_BUFFER;
    builder->action = index;
    const bp_ref own = bp_build_acquire_update(builder, index);
    bp_ref weight = own;
    bp_ref master = {parameter->master, BP_U8, 0};
    if (bp_build_weight_shared(builder, index)) {
        weight =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, own.dtype, parameter->count, 1, "weight");
    }
    if (part) {
        master =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_U8, parameter->count, width, "master");
    }
    if (parameter->init == BP_INIT_NORMAL) {
        draw_normal(builder, index, weight, master);
    } else if (parameter->init == BP_INIT_ROWS) {
        draw_rows(builder, index, weight, master);
    } else {
        draw_norms(builder, index, weight, master);
    }
    if (weight.buffer != own.buffer && count > 0) {
        const uint64_t bytes = bp_dtype_bytes(own.dtype);
        keep_part(builder, (bp_ref){own.buffer, BP_U8, 0},
                  (bp_ref){weight.buffer, BP_U8, first * bytes}, (int64_t)(count * bytes));
    }
    if (part && count > 0) {
        keep_part(builder, (bp_ref){parameter->master, BP_U8, 0}, bp_ref_at(master, first * width),
                  (int64_t)(count * width));
    }
    bp_build_release(builder, index);
}

/* Normal variates and norms come from the device; zeros and ones from the host, they are few, and
 * so do weights that have to be quantised, or that the device does not reach. */
static void write_initialization(bp_compile *compile, bp_builder *builder)
{
    compile_begin(compile, builder, BP_PROGRAM_INITIALIZE, BP_MODE_DECODE);
    builder->stage = UINT32_MAX;
    builder->action = UINT32_MAX;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        const bool drawn = parameter->init > BP_INIT_VALUE;
        if (drawn && parameter->quantised == BP_QUANTISED_NONE && !parameter->offloaded &&
            !parameter->fixed && !parameter->aside && parameter->master_form != BP_MASTER_FP8) {
            write_draw(builder, i);
        }
    }
}

void compile_update(bp_builder *builder)
{
    builder->label = "update";
    builder->stage = UINT32_MAX;
    builder->action = UINT32_MAX;
    builder->norms = BP_ABSENT;
    const bp_optimizer *optimizer = builder->spec->optimizer;
    if (builder->spec->gradient_int8) {
        compile_sum_update(builder);
        return;
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        const bool formed =
            parameter->gradient != BP_NO_BUFFER || bp_ref_present(parameter->acquired.root);
        parameter->ready = parameter->trainable && formed;
        const bp_share trained = bp_build_trained(parameter);
        parameter->ready_first = trained.first;
        parameter->ready_count = trained.count;
    }
    optimizer->norms(builder);
    optimizer->decide(builder, false, true);
    compile_apply(builder);
}

static bp_ref *boundaries(const bp_compile *compile, bp_ref *table, uint32_t micro)
{
    return table + (size_t)micro * (compile->stages + 1);
}

/* Names the stage that the next ops belong to; action is UINT32_MAX outside a schedule. */
static void compile_enter(bp_compile *compile, bp_builder *builder, uint32_t stage, uint32_t action)
{
    builder->spec->model->stage_name(&builder->spec->config, stage, compile->label);
    builder->label = compile->label;
    builder->stage = stage;
    builder->action = action;
}

/* The stage that others read beside what they follow; UINT32_MAX: none. */
static uint32_t memory_stage(const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    return spec->model->memory != NULL ? spec->model->memory(&spec->config) : UINT32_MAX;
}

/* What a stage finds of it, and where its gradient is kept from stage to stage. */
static bp_ref *memory_enter(const bp_compile *compile, bp_builder *builder, uint32_t stage,
                            uint32_t micro)
{
    const uint32_t maker = memory_stage(builder);
    const bool reads = maker != UINT32_MAX && stage > maker;
    bp_ref *gradient = reads ? boundaries(compile, compile->d_boundary, micro) + maker + 1 : NULL;
    builder->memory = reads ? boundaries(compile, compile->boundary, micro)[maker + 1] : BP_ABSENT;
    builder->d_memory = reads ? *gradient : BP_ABSENT;
    builder->memory_wanted = reads && compile->first <= maker;
    return gradient;
}

/* A call of a stage with nothing but its input known. */
static bp_stage_call compile_call(const bp_compile *compile, uint32_t stage, uint32_t micro)
{
    return (bp_stage_call){.stage = stage,
                           .input = boundaries(compile, compile->boundary, micro)[stage]};
}

/* A program that only goes forward, through every stage once. */
static void write_chain(bp_compile *compile, bp_builder *builder,
                        void (*stage_ops)(bp_builder *builder, bp_stage_call *call))
{
    for (uint32_t s = 0; s < compile->stages && builder->status == BP_OK; s++) {
        compile_enter(compile, builder, s, UINT32_MAX);
        bp_stage_call call = compile_call(compile, s, 0);
        call.variant = compile->variants[s] - 1;
        (void)memory_enter(compile, builder, s, 0);
        stage_ops(builder, &call);
        bp_build_resolved(builder);
        compile->boundary[s + 1] = call.output;
    }
}

/* Where the vectors of a group lie, and then their gradients. */
static bp_status make_vectors(bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    const bp_buffer prototype = {
        .class_of = BP_CLASS_CHECKPOINT,
        .scope = BP_SCOPE_RESIDENT,
        .dtype = BP_F32,
        .rank = 2,
        .shape = {(uint64_t)spec->batch * spec->accumulation, spec->config.classes}};
    uint32_t vectors = 0;
    BP_TRY(bp_graph_buffer(builder->graph, &prototype, "vectors", &vectors));
    builder->vectors = (bp_ref){vectors, BP_F32, 0};
    return BP_OK;
}

/* The vectors of each micro-batch, and the loss of all of them. */
static void write_vectors(bp_compile *compile, bp_builder *builder)
{
    if (!bp_spec_keeps_vectors(builder->spec) || builder->status != BP_OK) {
        return;
    }
    builder->status = make_vectors(builder);
    for (uint32_t later = 0; later < 2 && builder->status == BP_OK; later++) {
        compile_begin(compile, builder,
                      later != 0 ? BP_PROGRAM_VECTORS_NEXT : BP_PROGRAM_VECTORS_FIRST,
                      BP_MODE_TRAIN);
        builder->vectors_written = later != 0;
        write_chain(compile, builder, builder->spec->model->forward);
    }
    compile_begin(compile, builder, BP_PROGRAM_CONTRAST, BP_MODE_TRAIN);
    builder->stage = UINT32_MAX;
    builder->action = UINT32_MAX;
    if (builder->status == BP_OK) {
        builder->spec->model->contrast(builder);
    }
}

static void write_training(bp_compile *compile, bp_builder *builder)
{
    if (bp_spec_whole_group(builder->spec)) {
        compile_released(compile, builder);
        return;
    }
    if (builder->spec->accumulation == 1) {
        write_micro(compile, builder, BP_PROGRAM_STEP);
        compile_update(builder);
        return;
    }
    write_vectors(compile, builder);
    write_micro(compile, builder, BP_PROGRAM_MICRO_FIRST);
    write_micro(compile, builder, BP_PROGRAM_MICRO_NEXT);
    compile_begin(compile, builder, BP_PROGRAM_UPDATE, BP_MODE_TRAIN);
    compile_update(builder);
}

/* The host reads all of a buffer after each run of a program. */
static void host_takes(bp_builder *builder, bp_ref from, bp_program_kind program)
{
    if (builder->status == BP_OK) {
        bp_graph_take(builder->graph, from.buffer, 1u << program);
    }
}

static void write_evaluation(bp_compile *compile, bp_builder *builder)
{
    const uint64_t rows = bp_compile_logits_rows(builder->spec);
    const bp_spec *spec = builder->spec;
    bp_spec evaluated = *spec;
    evaluated.batch = bp_spec_eval_batch(spec);
    evaluated.eval_batch = spec->batch; /* so that inputs lie where they do in other programs */
    builder->spec = &evaluated;
    compile_begin(compile, builder, BP_PROGRAM_EVAL, BP_MODE_EVAL);
    builder->loss_written = false;
    builder->vectors = BP_ABSENT;
    if (rows > 0) {
        builder->logits =
            bp_build_carried(builder, BP_CLASS_IO, bp_compile_logits_type(builder->spec), rows,
                             bp_compile_logits_width(builder->spec), "logits");
        builder->logits_kept = builder->logits;
        host_takes(builder, builder->logits, BP_PROGRAM_EVAL);
    }
    builder->losses_kept = builder->losses;
    write_chain(compile, builder, builder->spec->model->forward);
    builder->spec = spec;
}

static void write_decode(bp_compile *compile, bp_builder *builder, bp_program_kind program,
                         uint32_t rows)
{
    compile_begin(compile, builder, program, BP_MODE_DECODE);
    builder->rows = rows;
    builder->sequences = program == BP_PROGRAM_DECODE ? rows : 1;
    builder->continues = program == BP_PROGRAM_DECODE;
    builder->label = "decode";
    const uint64_t vocabulary = builder->spec->config.vocabulary;
    const bp_ref one = bp_build_carried(builder, BP_CLASS_IO, BP_F32, 1, vocabulary, "logits");
    builder->logits = one;
    if (builder->sequences > 1 && builder->status == BP_OK) {
        uint32_t each = 0;
        const uint64_t elements = bp_size_mul(rows, vocabulary);
        builder->status = fixed_buffer(builder, "decode.each", BP_SCOPE_CARRIED,
                                       bp_size_mul(elements, sizeof(float)), &each);
        builder->logits = (bp_ref){each, BP_F32, 0};
    }
    host_takes(builder, builder->logits, program);
    write_chain(compile, builder, builder->spec->model->decode);
    builder->logits_each = builder->logits;
    builder->logits = one;
}

/* The tables of list ops, on a device that keeps them in the arena. */
static bp_status make_tables(bp_builder *builder)
{
    if (!builder->tables) {
        return BP_OK;
    }
    const bool counts = bp_graph_counts(builder->graph);
    const uint64_t bytes = counts ? 1 : bp_link_table_bytes(builder->graph, builder->spec->device);
    return fixed_buffer(builder, "tables", BP_SCOPE_CONSTANT, bytes, &builder->graph->tables);
}

/* A tape in 8 bits is refused where nothing could lie in it. */
static bp_status check_tape(const bp_builder *builder)
{
    if (builder->spec->tape == BP_TAPE_FP8 && !builder->reduced) {
        return bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                            "backward of this model reads no output of a norm, a dense layer or "
                            "attention, so a tape in 8 bits has nothing to keep; leave it out",
                            "tape-dtype");
    }
    return BP_OK;
}

/* And products in 8 bits where none is wide enough. */
static bp_status check_products(const bp_builder *builder)
{
    if (builder->spec->products == BP_PRODUCT_FP8 && !builder->narrowed) {
        return bp_error_set(
            builder->graph->error, BP_ERR_USAGE, where,
            "no dense layer in blocks has weights in the type of activations and so "
            "many inputs and outputs as fp8 products are for, 1600 unless product-fp8-from gives "
            "another number",
            "product-dtype");
    }
    return BP_OK;
}

bp_status bp_compile_run(bp_compile *compile, bp_builder *builder, bp_graph *graph,
                         const bp_spec *spec, bp_arena *memory)
{
    BP_TRY(compile_emission(builder, graph, spec, memory));
    if (compile_tables(compile, spec, memory) != BP_OK) {
        return bp_error_set(builder->graph->error, BP_ERR_FIT, where,
                            "the plan's memory is too small", NULL);
    }
    BP_TRY(compile_fixed(compile, builder));
    spec->model->parameters(builder, &spec->config);
    bp_adapter_publish(builder);
    BP_TRY(builder->status);
    BP_TRY(check_quantised(builder));
    BP_TRY(check_fp8(builder));
    if (spec->optimizer != NULL) {
        BP_TRY(check_rules(builder));
        BP_TRY(compile_share_out(builder, memory));
        spec->optimizer->declare(builder);
    }
    compile_choose_slices(compile, builder);
    compile_slice_weights(builder);
    if (make_schedule(compile, builder) != BP_OK) {
        return bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                            "the checkpoint policy does not go with this model",
                            "gradient-checkpointing");
    }
    write_initialization(compile, builder);
    if (spec->optimizer != NULL) {
        write_training(compile, builder);
        BP_TRY(builder->status);
        BP_TRY(check_tape(builder));
        BP_TRY(check_products(builder));
    }
    if (spec->evaluate) {
        write_evaluation(compile, builder);
    }
    if (spec->generate_context > 0) {
        write_decode(compile, builder, BP_PROGRAM_PREFILL, bp_compile_prefill_rows(spec));
        write_decode(compile, builder, BP_PROGRAM_DECODE, bp_spec_decode_rows(spec));
    }
    compile_inputs(compile, builder, 0);
    BP_TRY(builder->status);
    bp_passes_program(graph, spec);
    return make_tables(builder);
}

/* How much of everything compiling a spec needs: closed forms for what follows from
 * the spec, a counted emission for the tables of its programs. */

uint64_t bp_compile_logits_rows(const bp_spec *spec)
{
    if (!spec->evaluate || !spec->keep_logits) {
        return 0;
    }
    const bp_task task = spec->config.task;
    const bool single = bp_task_scores_samples(task) || task == BP_TASK_EMBEDDING ||
                        spec->preference.kind != BP_PREFERENCE_NONE;
    const uint32_t per_sample = single ? 1 : task == BP_TASK_ANSWERS ? 2 : spec->sequence;
    return (uint64_t)bp_spec_eval_batch(spec) * per_sample;
}

uint64_t bp_compile_logits_width(const bp_spec *spec)
{
    const bp_task task = spec->config.task;
    if (spec->preference.kind != BP_PREFERENCE_NONE || spec->row_weights) {
        return 1;
    }
    if (spec->distill.is_teacher) {
        return 2 * (uint64_t)spec->distill.top_k;
    }
    return task < BP_TASK_CLASSES    ? spec->config.vocabulary
           : task == BP_TASK_ANSWERS ? spec->sequence
                                     : spec->config.classes;
}

bp_dtype bp_compile_logits_type(const bp_spec *spec)
{
    const bool numbers = spec->preference.kind != BP_PREFERENCE_NONE || spec->distill.is_teacher ||
                         spec->row_weights;
    return numbers || spec->config.task == BP_TASK_EMBEDDING ? BP_F32 : spec->working;
}

uint64_t bp_compile_step_room(const bp_spec *spec)
{
    return bp_size_align(sizeof(bp_step_block), bp_device_alignment(&spec->device_options));
}

uint64_t bp_compile_micro_bytes(const bp_spec *spec)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    uint64_t bytes = bp_compile_step_room(spec);
    for (uint32_t i = 0; i < count; i++) {
        bytes = bp_size_add(bytes, bp_input_bytes(spec, &rows[i]));
    }
    return bytes;
}

uint32_t bp_compile_micros(const bp_spec *spec)
{
    return bp_spec_whole_group(spec) ? spec->accumulation / bp_spec_data_ranks(spec) : 1;
}

uint32_t bp_compile_runs(const bp_spec *spec, bp_program_kind program)
{
    switch (program) {
    case BP_PROGRAM_STEP:
    case BP_PROGRAM_VECTORS_FIRST:
    case BP_PROGRAM_MICRO_FIRST:
    case BP_PROGRAM_UPDATE:
        return 1;
    case BP_PROGRAM_VECTORS_NEXT:
    case BP_PROGRAM_MICRO_NEXT:
        return spec->accumulation - 1;
    default:
        return 0;
    }
}

/* What an emission takes beside its graph; names where the graph has none of its own. */
typedef struct emission_parts {
    void *parameters, *names, *scratch;
} emission_parts;

static bp_status compile_parts(const bp_spec *spec, bool named, bp_arena *memory,
                               emission_parts *parts)
{
    const uint32_t count = bp_adapter_parameters(spec);
    *parts = (emission_parts){NULL, NULL, NULL};
    BP_TRY(bp_arena_rows(memory, count, sizeof(bp_parameter), TABLE_ALIGNMENT, &parts->parameters));
    if (named) {
        BP_TRY(bp_arena_rows(memory, count, BP_BUFFER_NAME_MAX, TABLE_ALIGNMENT, &parts->names));
    }
    return spec->model->scratch == 0
               ? BP_OK
               : bp_arena_allocate(memory, spec->model->scratch, TABLE_ALIGNMENT, &parts->scratch);
}

/* Everything that bp_compile_run allocates, from an arena that counts. */
static uint64_t compile_counted(const bp_spec *spec, bool named)
{
    bp_arena count;
    bp_compile compile = {0};
    emission_parts parts;
    bp_shards map;
    void *rows;
    bp_arena_count(&count);
    bp_status status = compile_parts(spec, named, &count, &parts);
    status = status == BP_OK ? compile_tables(&compile, spec, &count) : status;
    status = status == BP_OK ? compile_share_rows(spec, &count, &rows, &map) : status;
    (void)status; /* what is too much for it is BP_SIZE_INVALID */
    return bp_arena_counted(&count);
}

uint64_t bp_compile_bytes(const bp_spec *spec)
{
    return compile_counted(spec, false);
}

uint64_t bp_compile_scratch(const bp_spec *spec)
{
    return compile_counted(spec, true);
}

bp_status compile_emission(bp_builder *builder, bp_graph *graph, const bp_spec *spec,
                           bp_arena *memory)
{
    const uint32_t count = bp_adapter_parameters(spec);
    const bool named = bp_graph_counts(graph);
    emission_parts parts;
    if (compile_parts(spec, named, memory, &parts) != BP_OK) {
        return bp_error_set(graph->error, BP_ERR_FIT, "compile", "the plan's memory is too small",
                            NULL);
    }
    bp_build_init(builder, graph, spec, parts.parameters, count);
    graph->alignment = spec->device_options.alignment;
    builder->passes.order = bp_passes_order;
    builder->scratch = parts.scratch;
    builder->names = parts.names;
    builder->names_limit = named ? (uint32_t)((size_t)count * BP_BUFFER_NAME_MAX) : 0;
    return BP_OK;
}

bp_status bp_compile_count(const bp_spec *spec, bp_arena *memory, bp_graph_limits *tables,
                           bp_graph_limits *forward, bp_error *error)
{
    const size_t mark = memory->used;
    bp_graph graph;
    bp_compile compile = {0};
    bp_builder builder;
    bp_graph_count(&graph, error);
    BP_TRY(bp_compile_run(&compile, &builder, &graph, spec, memory));
    *tables = graph.used;
    if (forward != NULL) {
        *forward = compile.forward;
    }
    return bp_arena_rewind(memory, mark);
}

/* Walking through stage actions: which boundaries, tapes and gradients are the newest
 * of each micro-batch. */

static bp_ref *tape_of(const bp_compile *compile, uint32_t stage, uint32_t micro)
{
    return compile->tape[(size_t)micro * compile->stages + stage];
}

static void forget(bp_compile *compile)
{
    const size_t boundaries_all = (size_t)compile->micros * (compile->stages + 1);
    const size_t tapes = (size_t)compile->micros * compile->stages;
    memset(compile->boundary, 0, boundaries_all * sizeof *compile->boundary);
    memset(compile->d_boundary, 0, boundaries_all * sizeof *compile->d_boundary);
    memset(compile->left, 0, boundaries_all * sizeof *compile->left);
    memset(compile->tape, 0, tapes * sizeof *compile->tape);
}

void compile_inputs(const bp_compile *compile, bp_builder *builder, uint32_t micro)
{
    uint64_t at = micro * bp_compile_micro_bytes(builder->spec);
    builder->step = (bp_ref){compile->inputs, BP_U8, at};
    at += bp_compile_step_room(builder->spec);
    for (uint32_t i = 0; i < compile->input_count; i++) {
        const bp_input *input = &compile->input[i];
        builder->declared[i] = (bp_ref){compile->inputs, input->dtype, at};
        at += bp_input_bytes(builder->spec, input);
    }
    if (compile->balance > 0) {
        const bp_ref balances = {compile->balances, BP_F32, 0};
        builder->balance = bp_ref_at(balances, micro * compile->balance);
    }
    for (uint32_t i = compile->input_count; i-- > 0;) { /* of several of a kind, the first */
        builder->input[compile->input[i].from] = builder->declared[i];
    }
    bp_token_lanes_place(builder);
}

void compile_emitter(const bp_compile *compile, bp_builder *builder, bp_program_kind program,
                     bp_mode mode)
{
    compile_inputs(compile, builder, 0);
    builder->shared = BP_ABSENT;
    builder->shared_second = BP_ABSENT;
    builder->mode = mode;
    builder->label = bp_program_name(program);
    builder->rows = bp_size_mul(builder->spec->batch, bp_spec_rank_tokens(builder->spec));
    builder->sequences = 1;
    builder->output_class = BP_CLASS_WORKSPACE;
    builder->losses = BP_ABSENT;
    builder->logits = BP_ABSENT;
    const bool before = bp_spec_keeps_vectors(builder->spec) && program != BP_PROGRAM_EVAL;
    if (mode != BP_MODE_DECODE && program != BP_PROGRAM_UPDATE && !before) {
        const uint64_t losses = bp_size_mul(builder->spec->batch, bp_input_labels(builder->spec));
        builder->losses = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, losses, 1, "losses");
    }
}

void compile_begin(bp_compile *compile, bp_builder *builder, bp_program_kind program, bp_mode mode)
{
    bp_graph_begin(builder->graph, program);
    forget(compile);
    compile_emitter(compile, builder, program, mode);
    if (program != BP_PROGRAM_INITIALIZE && program != BP_PROGRAM_MICRO_NEXT &&
        program != BP_PROGRAM_UPDATE) {
        bp_rows_put(builder);
    }
}

static uint32_t more_rows(uint32_t before, uint32_t after, uint32_t most)
{
    return after - before > most ? after - before : most;
}

/* Notes the rows of a forward that began where `from` says. */
static void note_forward(bp_graph_limits *most, const bp_graph_limits *from,
                         const bp_graph_limits *to)
{
    most->buffers = more_rows(from->buffers, to->buffers, most->buffers);
    most->ops = more_rows(from->ops, to->ops, most->ops);
    most->refs = more_rows(from->refs, to->refs, most->refs);
    most->scalars = more_rows(from->scalars, to->scalars, most->scalars);
    most->name_bytes = more_rows(from->name_bytes, to->name_bytes, most->name_bytes);
}

static bp_left *left_of(const bp_compile *compile, uint32_t stage, uint32_t micro)
{
    return &compile->left[(size_t)micro * (compile->stages + 1) + stage];
}

/* Whether blocks run in chunks of rows, which need parts of what they read. */
static bool has_chunks(const bp_builder *builder)
{
    return builder->spec->model->chunks && builder->spec->sequence_chunk > 0;
}

/* What a stage reads, brought where it is offloaded. It stays no longer than it is read. */
static void bring_input(const bp_compile *compile, bp_builder *builder, bp_stage_call *call,
                        uint32_t micro)
{
    const bp_left *left = left_of(compile, call->stage, micro);
    if (left->there && !call->input_away) {
        call->input = bp_build_bring_input(builder, left->slot);
    } else if (left->there) {
        call->input = left->slot;
    }
    call->input_away = call->input_away && left->there;
}

/* What a forward reads is offloaded, if it is one of those: after it, or in chunks of rows, which
 * leave room for one stream, beside it. */
static void offload_begin_checkpoint(const bp_compile *compile, bp_builder *builder, uint32_t stage,
                                     uint32_t micro, bool beside)
{
    bp_left *left = left_of(compile, stage, micro);
    if (left->ready && beside == has_chunks(builder)) {
        const bp_ref boundary = boundaries(compile, compile->boundary, micro)[stage];
        left->slot = compile_checkpoint_begin(builder, boundary, &left->request);
    }
}

/* After a forward: what it read is offloaded; what it made may be, later. */
static void offload_checkpoint(bp_compile *compile, bp_builder *builder, const bp_action *action,
                               uint32_t micro)
{
    bp_left *before = left_of(compile, action->stage, micro);
    offload_begin_checkpoint(compile, builder, action->stage, micro, false);
    if (before->ready) {
        const bp_ref boundary = boundaries(compile, compile->boundary, micro)[action->stage];
        compile_checkpoint_wait(builder, before->slot, boundary, before->request);
        *before = (bp_left){.there = true, .slot = before->slot};
    }
    *left_of(compile, action->stage + 1, micro) =
        (bp_left){.ready = action->checkpoint && builder->spec->offload.checkpoints > 0};
}

static void write_forward(bp_compile *compile, bp_builder *builder, const bp_action *action,
                          uint32_t micro)
{
    bp_stage_call call = compile_call(compile, action->stage, micro);
    bp_ref *tape = tape_of(compile, action->stage, micro);
    call.streams = call.input_away = bp_build_streams(builder);
    bring_input(compile, builder, &call, micro);
    call.variant = action->variant;
    builder->output_class = action->checkpoint ? BP_CLASS_CHECKPOINT : BP_CLASS_TAPE;
    offload_begin_checkpoint(compile, builder, action->stage, micro, true);
    const bp_graph_limits from = builder->graph->used;
    (void)memory_enter(compile, builder, action->stage, micro);
    builder->spec->model->forward(builder, &call);
    note_forward(&compile->forward, &from, &builder->graph->used);
    boundaries(compile, compile->boundary, micro)[action->stage + 1] = call.output;
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        tape[i] = call.tape[i];
    }
    if (call.streams) {
        *left_of(compile, action->stage + 1, micro) = (bp_left){.there = true, .slot = call.output};
    } else {
        offload_checkpoint(compile, builder, action, micro);
    }
}

void compile_ask(const bp_compile *compile, bp_stage_call *call)
{
    call->input_wanted = call->stage > compile->first;
    call->table_deferred = call->stage + 1 == compile->stages
                               ? compile->head_deferred
                               : call->stage == 0 && compile->sliced[1] != UINT32_MAX;
}

static void write_backward(bp_compile *compile, bp_builder *builder, const bp_action *action,
                           uint32_t micro)
{
    bp_stage_call call = compile_call(compile, action->stage, micro);
    bp_ref *gradients = boundaries(compile, compile->d_boundary, micro);
    const bp_ref *tape = tape_of(compile, action->stage, micro);
    call.streams = bp_build_streams(builder);
    call.input_away = has_chunks(builder);
    bring_input(compile, builder, &call, micro);
    call.variant = action->variant;
    call.d_output = gradients[action->stage + 1];
    compile_ask(compile, &call);
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = tape[i];
    }
    if (action->stage + 1 == compile->stages && memory_stage(builder) != UINT32_MAX) {
        gradients[memory_stage(builder) + 1] = BP_ABSENT; /* a second backward has left one */
    }
    bp_ref *d_memory = memory_enter(compile, builder, action->stage, micro);
    builder->spec->model->backward(builder, &call);
    compile_offload_gradients(builder);
    if (d_memory != NULL) {
        *d_memory = builder->d_memory;
    }
    gradients[action->stage] = call.d_input;
    if (action->stage + 1 == compile->stages) {
        compile->slices[micro] = (bp_slice_call){.kept = {call.kept[0], call.kept[1]}};
    } else if (action->stage == 0) {
        compile->slices[micro].d_embedded = call.d_output;
    }
}

void compile_action(bp_compile *compile, bp_builder *builder, uint32_t index, uint32_t micro)
{
    const bp_action *action = &compile->actions[index];
    compile_inputs(compile, builder, micro);
    compile_enter(compile, builder, action->stage, index);
    bp_token_lanes_enter(compile, builder, micro);
    if (action->kind == BP_ACTION_FORWARD) {
        write_forward(compile, builder, action, micro);
    } else {
        write_backward(compile, builder, action, micro);
    }
    bp_token_lanes_leave(compile, builder, micro);
    bp_build_resolved(builder);
}
