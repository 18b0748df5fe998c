/* SPDX-License-Identifier: MIT */
/* The compiler: walks schedules and lets stages and optimizer write their ops. */
#include "core/compile.h"

#include "core/glob.h"
#include "core/link.h"
#include "core/optimizer.h"
#include "core/step.h"

#define TABLE_ALIGNMENT      16
#define NAME_BYTES           96 /* longest usual buffer name, for the closed form */
#define PREFILL_ROWS_DEFAULT 32
#define FIXED_BUFFERS        16 /* inputs, control, result, tables, one set of losses per program */

static const char where[] = "compile";

uint32_t bp_compile_prefill_rows(const bp_spec *spec)
{
    uint32_t rows = spec->prefill_rows != 0 ? spec->prefill_rows : PREFILL_ROWS_DEFAULT;
    return rows < spec->generate_context ? rows : spec->generate_context;
}

uint64_t bp_compile_input_rows(const bp_spec *spec)
{
    uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    uint64_t prefill = bp_compile_prefill_rows(spec);
    return rows > prefill ? rows : prefill;
}

static uint64_t ids_bytes(const bp_spec *spec)
{
    return bp_size_align(bp_compile_input_rows(spec) * sizeof(int32_t), BP_ARENA_ALIGNMENT);
}

uint64_t bp_compile_input_bytes(const bp_spec *spec)
{
    return BP_STEP_ROOM + 2 * ids_bytes(spec);
}

/* Adds `times` times the rows of `more`, in 64 bits. */
typedef struct wide_limits {
    uint64_t buffers, ops, refs, scalars, name_bytes;
} wide_limits;

static void add_limits(wide_limits *sum, bp_graph_limits more, uint64_t times)
{
    sum->buffers = bp_size_add(sum->buffers, bp_size_mul(more.buffers, times));
    sum->ops = bp_size_add(sum->ops, bp_size_mul(more.ops, times));
    sum->refs = bp_size_add(sum->refs, bp_size_mul(more.refs, times));
    sum->scalars = bp_size_add(sum->scalars, bp_size_mul(more.scalars, times));
    sum->name_bytes = bp_size_add(sum->name_bytes, bp_size_mul(more.name_bytes, times));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static bp_graph_limits largest(bp_graph_limits a, bp_graph_limits b)
{
    return (bp_graph_limits){.buffers = larger(a.buffers, b.buffers),
                             .ops = larger(a.ops, b.ops),
                             .refs = larger(a.refs, b.refs),
                             .scalars = larger(a.scalars, b.scalars),
                             .name_bytes = larger(a.name_bytes, b.name_bytes)};
}

/* Every schedule has one backward of each stage; the rest of its actions are forwards of stages
 * before the last. */
static void add_micro(wide_limits *sum, const bp_spec *spec, uint64_t times)
{
    uint32_t stages = spec->model->stages(&spec->config);
    uint64_t actions = bp_schedule_count(&spec->policy, stages);
    bp_graph_limits forward = {0};
    for (uint32_t s = 0; s < stages; s++) {
        add_limits(sum, spec->model->limits(spec, s, true), times);
        if (s + 1 < stages) {
            forward = largest(forward, spec->model->limits(spec, s, false));
        }
    }
    uint64_t forwards = actions > stages ? actions - stages : 0;
    add_limits(sum, forward, bp_size_mul(forwards, times));
}

static void add_chain(wide_limits *sum, const bp_spec *spec, uint64_t times)
{
    uint32_t stages = spec->model->stages(&spec->config);
    for (uint32_t s = 0; s < stages && times > 0; s++) {
        add_limits(sum, spec->model->limits(spec, s, false), times);
    }
}

static uint32_t narrow(uint64_t value, bool *fits)
{
    *fits = *fits && value < UINT32_MAX;
    return (uint32_t)value;
}

bool bp_compile_limits(const bp_spec *spec, bp_graph_limits *limits)
{
    uint32_t parameters = spec->model->parameter_count(&spec->config);
    /* a weight, its master and its gradient */
    uint64_t fixed = FIXED_BUFFERS + 3 * (uint64_t)parameters;
    wide_limits sum = {.buffers = fixed, .name_bytes = fixed * NAME_BYTES};
    const bp_graph_limits initialize = {.ops = 1, .refs = 3, .scalars = 4};
    add_limits(&sum, initialize, parameters);
    add_chain(&sum, spec, (spec->evaluate ? 1u : 0u) + (spec->generate_context > 0 ? 2u : 0u));
    if (spec->optimizer != NULL) {
        add_micro(&sum, spec, spec->accumulation > 1 ? 2 : 1);
        add_limits(&sum, spec->optimizer->limits(spec, parameters), 1);
    }
    bool fits = true;
    *limits = (bp_graph_limits){.buffers = narrow(sum.buffers, &fits),
                                .ops = narrow(sum.ops, &fits),
                                .refs = narrow(sum.refs, &fits),
                                .scalars = narrow(sum.scalars, &fits),
                                .name_bytes = narrow(sum.name_bytes, &fits)};
    return fits;
}

uint64_t bp_compile_bytes(const bp_spec *spec)
{
    uint64_t stages = spec->model->stages(&spec->config);
    uint64_t bytes = stages * (sizeof(uint32_t) + BP_TAPE_MAX * sizeof(bp_ref));
    bytes += 2 * (stages + 1) * sizeof(bp_ref);
    bytes += (uint64_t)bp_schedule_count(&spec->policy, (uint32_t)stages) * sizeof(bp_action);
    return bytes + 5 * TABLE_ALIGNMENT;
}

static bp_status carve_tables(bp_compile *compile, const bp_spec *spec, bp_arena *memory)
{
    uint32_t stages = spec->model->stages(&spec->config);
    compile->stages = stages;
    compile->action_count = bp_schedule_count(&spec->policy, stages);
    const size_t bytes[5] = {stages * sizeof(uint32_t), compile->action_count * sizeof(bp_action),
                             (stages + 1) * sizeof(bp_ref), (stages + 1) * sizeof(bp_ref),
                             stages * sizeof compile->tape[0]};
    void *table[5];
    for (int i = 0; i < 5; i++) {
        BP_TRY(bp_arena_carve(memory, bytes[i], TABLE_ALIGNMENT, &table[i]));
    }
    compile->variants = table[0];
    compile->actions = table[1];
    compile->boundary = table[2];
    compile->d_boundary = table[3];
    compile->tape = table[4];
    for (uint32_t s = 0; s < stages; s++) {
        compile->variants[s] = spec->model->variants(&spec->config, s);
    }
    return BP_OK;
}

/* Every rule has to match something, and something has to be left to train. */
static bp_status check_rules(const bp_emit *emit)
{
    const bp_spec *spec = emit->spec;
    static const char *const options[] = {[BP_RULE_FREEZE] = "freeze",
                                          [BP_RULE_TRAIN] = "trainable",
                                          [BP_RULE_OVERRIDE] = "param-override"};
    for (uint32_t r = 0; r < spec->rule_count; r++) {
        bool matches = false;
        for (uint32_t i = 0; i < emit->parameter_count && !matches; i++) {
            const char *name = bp_graph_name(emit->graph, emit->parameters[i].weight);
            matches = bp_glob_match(spec->rules[r].glob, name);
        }
        if (!matches) {
            bp_status status = bp_error_set(
                emit->graph->error, BP_ERR_USAGE, where,
                "the pattern matches no parameter of this model (plan --map lists their names)",
                spec->rules[r].glob);
            bp_error_prefix(emit->graph->error, options[spec->rules[r].kind]);
            return status;
        }
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        if (emit->parameters[i].trainable) {
            return BP_OK;
        }
    }
    return bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                        "every parameter is frozen; --trainable GLOB keeps some of them", "freeze");
}

static bp_status make_schedule(bp_compile *compile, const bp_emit *emit)
{
    const bp_spec *spec = emit->spec;
    const bp_model *model = spec->model;
    compile->first = compile->stages - 1;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        uint32_t stage =
            model->parameter_stage != NULL ? model->parameter_stage(&spec->config, i) : 0;
        bool lower = emit->parameters[i].trainable && stage < compile->first;
        compile->first = lower ? stage : compile->first;
    }
    return bp_schedule_generate(&spec->policy, compile->stages, compile->first, compile->variants,
                                compile->actions, compile->action_count, &compile->action_count);
}

static bp_status fixed_buffer(bp_emit *emit, const char *name, bp_scope scope, uint64_t bytes,
                              uint32_t *index)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_IO,
                                 .scope = scope,
                                 .dtype = BP_U8,
                                 .rank = 1,
                                 .shape = {bytes},
                                 .filled = scope == BP_SCOPE_RESIDENT && bytes >= BP_STEP_ROOM};
    return bp_graph_buffer(emit->graph, &prototype, name, index);
}

static bp_status make_fixed_buffers(bp_compile *compile, bp_emit *emit)
{
    const bp_spec *spec = emit->spec;
    uint32_t control = 0;
    uint32_t result = 0;
    BP_TRY(fixed_buffer(emit, "inputs", BP_SCOPE_RESIDENT, bp_compile_input_bytes(spec),
                        &compile->inputs));
    BP_TRY(fixed_buffer(emit, "control", BP_SCOPE_PERSISTENT, sizeof(bp_control_block), &control));
    BP_TRY(fixed_buffer(emit, "result", BP_SCOPE_RESIDENT, sizeof(bp_result_block), &result));
    emit->step = (bp_ref){compile->inputs, BP_U8, 0};
    emit->ids = (bp_ref){compile->inputs, BP_I32, BP_STEP_ROOM};
    emit->labels = (bp_ref){compile->inputs, BP_I32, BP_STEP_ROOM + ids_bytes(spec)};
    emit->control = (bp_ref){control, BP_U8, 0};
    emit->result = (bp_ref){result, BP_U8, 0};
    return BP_OK;
}

static void enter_stage(bp_compile *compile, bp_emit *emit, uint32_t stage, uint32_t action)
{
    emit->spec->model->stage_name(&emit->spec->config, stage, compile->label);
    emit->label = compile->label;
    emit->stage = stage;
    emit->action = action;
}

static void forget_boundaries(bp_compile *compile)
{
    for (uint32_t s = 0; s <= compile->stages; s++) {
        compile->boundary[s] = BP_ABSENT;
        compile->d_boundary[s] = BP_ABSENT;
    }
    for (uint32_t s = 0; s < compile->stages; s++) {
        for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
            compile->tape[s][i] = BP_ABSENT;
        }
    }
}

static void begin_program(bp_compile *compile, bp_emit *emit, bp_program_kind program, bp_mode mode)
{
    bp_graph_begin(emit->graph, program);
    forget_boundaries(compile);
    emit->mode = mode;
    emit->label = bp_program_name(program);
    emit->rows = (uint64_t)emit->spec->batch * emit->spec->sequence;
    emit->output_class = BP_CLASS_WORKSPACE;
    emit->losses = BP_ABSENT;
    emit->logits = BP_ABSENT;
    if (mode != BP_MODE_DECODE && program != BP_PROGRAM_UPDATE) {
        emit->losses = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, emit->rows, 1, "losses");
    }
}

/* A call of a stage with nothing but its input known. */
static bp_stage_call stage_call(const bp_compile *compile, uint32_t stage)
{
    bp_stage_call call = {.stage = stage,
                          .input = compile->boundary[stage],
                          .output = BP_ABSENT,
                          .d_output = BP_ABSENT,
                          .d_input = BP_ABSENT};
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = BP_ABSENT;
    }
    return call;
}

static void write_forward(bp_compile *compile, bp_emit *emit, const bp_action *action)
{
    bp_stage_call call = stage_call(compile, action->stage);
    call.variant = action->variant;
    emit->output_class = action->checkpoint ? BP_CLASS_CHECKPOINT : BP_CLASS_TAPE;
    emit->spec->model->forward(emit, &call);
    compile->boundary[action->stage + 1] = call.output;
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        compile->tape[action->stage][i] = call.tape[i];
    }
}

static void write_backward(bp_compile *compile, bp_emit *emit, const bp_action *action)
{
    bp_stage_call call = stage_call(compile, action->stage);
    call.variant = action->variant;
    call.d_output = compile->d_boundary[action->stage + 1];
    call.input_wanted = action->stage > compile->first;
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = compile->tape[action->stage][i];
    }
    emit->spec->model->backward(emit, &call);
    compile->d_boundary[action->stage] = call.d_input;
}

/* Forward and backward of one micro-batch. */
static void write_micro(bp_compile *compile, bp_emit *emit, bp_program_kind program)
{
    begin_program(compile, emit, program, BP_MODE_TRAIN);
    bool later = program == BP_PROGRAM_MICRO_NEXT;
    emit->loss_written = later;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        emit->parameters[i].gradient_written = later;
    }
    for (uint32_t i = 0; i < compile->action_count && emit->status == BP_OK; i++) {
        const bp_action *action = &compile->actions[i];
        enter_stage(compile, emit, action->stage, i);
        if (action->kind == BP_ACTION_FORWARD) {
            write_forward(compile, emit, action);
        } else {
            write_backward(compile, emit, action);
        }
    }
}

/* Normal variates come from the device; zeros and ones from the host, they are few. */
static void write_initialization(bp_compile *compile, bp_emit *emit)
{
    begin_program(compile, emit, BP_PROGRAM_INITIALIZE, BP_MODE_DECODE);
    emit->stage = UINT32_MAX;
    emit->action = UINT32_MAX;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        if (parameter->init == BP_INIT_NORMAL) {
            bp_emit_random_normal(
                emit,
                &(bp_random_normal_operands){.y = bp_emit_weight(emit, i),
                                             .master = {parameter->master, BP_U8, 0},
                                             .step = emit->step},
                &(bp_random_normal_scalars){.count = (int64_t)parameter->count,
                                            .stream = i,
                                            .form = parameter->master_form,
                                            .deviation = parameter->deviation});
        }
    }
}

static void write_update(bp_emit *emit)
{
    emit->label = "update";
    emit->stage = UINT32_MAX;
    emit->action = UINT32_MAX;
    emit->spec->optimizer->update(emit);
}

static void write_training(bp_compile *compile, bp_emit *emit)
{
    if (emit->spec->accumulation == 1) {
        write_micro(compile, emit, BP_PROGRAM_STEP);
        write_update(emit);
        return;
    }
    write_micro(compile, emit, BP_PROGRAM_MICRO_FIRST);
    write_micro(compile, emit, BP_PROGRAM_MICRO_NEXT);
    begin_program(compile, emit, BP_PROGRAM_UPDATE, BP_MODE_TRAIN);
    write_update(emit);
}

/* A program that only goes forward, through every stage once. */
static void write_chain(bp_compile *compile, bp_emit *emit,
                        void (*stage_ops)(bp_emit *emit, bp_stage_call *call))
{
    for (uint32_t s = 0; s < compile->stages && emit->status == BP_OK; s++) {
        enter_stage(compile, emit, s, UINT32_MAX);
        bp_stage_call call = stage_call(compile, s);
        call.variant = compile->variants[s] - 1;
        stage_ops(emit, &call);
        compile->boundary[s + 1] = call.output;
    }
}

static void write_evaluation(bp_compile *compile, bp_emit *emit)
{
    begin_program(compile, emit, BP_PROGRAM_EVAL, BP_MODE_EVAL);
    emit->loss_written = false;
    write_chain(compile, emit, emit->spec->model->forward);
}

static void write_decode(bp_compile *compile, bp_emit *emit, bp_program_kind program, uint32_t rows)
{
    begin_program(compile, emit, program, BP_MODE_DECODE);
    emit->rows = rows;
    emit->label = "decode";
    emit->logits =
        bp_emit_carried(emit, BP_CLASS_IO, BP_F32, 1, emit->spec->config.vocabulary, "logits");
    write_chain(compile, emit, emit->spec->model->decode);
}

/* The tables of list ops, on a device that keeps them in the arena. */
static bp_status make_tables(bp_emit *emit)
{
    uint64_t bytes = bp_link_table_bytes(emit->graph, emit->spec->device);
    if (bytes == 0) {
        return BP_OK;
    }
    return fixed_buffer(emit, "tables", BP_SCOPE_CONSTANT, bytes, &emit->graph->tables);
}

bp_status bp_compile_run(bp_compile *compile, bp_emit *emit, bp_arena *memory)
{
    const bp_spec *spec = emit->spec;
    if (carve_tables(compile, spec, memory) != BP_OK) {
        return bp_error_set(emit->graph->error, BP_ERR_FIT, where, "the plan's memory is too small",
                            NULL);
    }
    BP_TRY(make_fixed_buffers(compile, emit));
    spec->model->parameters(emit, &spec->config);
    BP_TRY(emit->status);
    if (spec->optimizer != NULL) {
        BP_TRY(check_rules(emit));
        spec->optimizer->declare(emit);
    }
    if (make_schedule(compile, emit) != BP_OK) {
        return bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                            "the checkpoint policy does not go with this model",
                            "gradient-checkpointing");
    }
    write_initialization(compile, emit);
    if (spec->optimizer != NULL) {
        write_training(compile, emit);
    }
    if (spec->evaluate) {
        write_evaluation(compile, emit);
    }
    if (spec->generate_context > 0) {
        write_decode(compile, emit, BP_PROGRAM_PREFILL, bp_compile_prefill_rows(spec));
        write_decode(compile, emit, BP_PROGRAM_DECODE, 1);
    }
    BP_TRY(emit->status);
    return make_tables(emit);
}
