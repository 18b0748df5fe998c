/* SPDX-License-Identifier: MIT */
/* Stages measured one by one. */
#include "core/compile/measure.h"

#include "core/compile/adapter.h"
#include "core/compile/compile.h"
#include "core/program/report.h"

#define TABLE_ALIGNMENT 64
#define NAME_BYTES      96
#define FIXED_BUFFERS   8

/* The graph holds the parameters (and the gradients met so far) up to a mark; each trial writes
 * behind it and is forgotten. */
typedef struct measure {
    const bp_spec *spec;
    const bp_rates *rates;
    bp_graph graph;
    bp_emit emit;
    bp_graph_limits mark;
    char label[32];
    uint32_t input; /* the trial's fake input, its output and the gradients of both */
    uint32_t output;
    uint32_t d_output;
    uint32_t d_input;
    uint32_t backward; /* first op of the trial's backward */
    uint64_t before;   /* bytes of the boundary before the stage, and of the one behind it */
    uint64_t behind;
} measure;

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Room for the largest trial of any stage: one forward and one backward. */
static bool limits_for(const bp_spec *spec, bp_graph_limits *limits)
{
    uint64_t parameters = bp_adapter_parameters(spec);
    uint64_t buffers = 3 * parameters + FIXED_BUFFERS;
    uint64_t names = buffers * NAME_BYTES;
    bp_graph_limits trial = {0};
    for (uint32_t s = 0; s < spec->model->stages(&spec->config); s++) {
        bp_graph_limits one = bp_compile_stage_limits(spec, s, false);
        bp_graph_limits two = bp_compile_stage_limits(spec, s, true);
        trial.buffers = larger(trial.buffers, one.buffers + two.buffers);
        trial.ops = larger(trial.ops, one.ops + two.ops);
        trial.refs = larger(trial.refs, one.refs + two.refs);
        trial.scalars = larger(trial.scalars, one.scalars + two.scalars);
        trial.name_bytes = larger(trial.name_bytes, one.name_bytes + two.name_bytes);
    }
    buffers += trial.buffers;
    names += trial.name_bytes;
    *limits = trial;
    limits->buffers = (uint32_t)buffers;
    limits->name_bytes = (uint32_t)names;
    return buffers < UINT32_MAX && names < UINT32_MAX;
}

uint64_t bp_measure_bytes(const bp_spec *spec)
{
    bp_graph_limits limits;
    if (!limits_for(spec, &limits)) {
        return BP_SIZE_INVALID;
    }
    uint64_t parameters = bp_adapter_parameters(spec);
    return bp_size_add(bp_graph_bytes(&limits),
                       parameters * sizeof(bp_parameter) + 2 * TABLE_ALIGNMENT);
}

static bp_ref fake(measure *m, bp_class class_of, uint64_t bytes, const char *name)
{
    bp_dtype dtype = m->spec->working;
    return bp_emit_buffer(&m->emit, class_of, dtype, bytes / bp_dtype_bytes(dtype), 1, name);
}

static void set_inputs(measure *m)
{
    bp_emit *emit = &m->emit;
    uint64_t bytes = bp_compile_input_bytes(m->spec);
    emit->label = "measure";
    bp_ref inputs = fake(m, BP_CLASS_IO, bytes, "inputs");
    emit->step = (bp_ref){inputs.buffer, BP_U8, 0};
    emit->ids = (bp_ref){inputs.buffer, BP_I32, BP_STEP_ROOM};
    emit->labels = (bp_ref){inputs.buffer, BP_I32, BP_STEP_ROOM};
    emit->lengths = m->spec->config.task != BP_TASK_CAUSAL_LM ? emit->labels : BP_ABSENT;
    emit->losses = bp_emit_buffer(emit, BP_CLASS_IO, BP_F32, emit->rows, 1, "losses");
    emit->result = (bp_ref){fake(m, BP_CLASS_IO, BP_STEP_ROOM, "result").buffer, BP_U8, 0};
    emit->control = emit->result;
}

/* Makes a gradient buffer that trials from now on find already there. */
static void own_gradient(measure *m, uint32_t index)
{
    int64_t accumulate = 0;
    m->emit.parameters[index].gradient = BP_NO_BUFFER;
    (void)bp_emit_gradient(&m->emit, index, &accumulate);
}

static void begin_trial(measure *m)
{
    m->graph.used = m->mark;
    m->output = m->d_output = m->d_input = BP_NO_BUFFER;
    bp_graph_begin(&m->graph, BP_PROGRAM_STEP);
    for (uint32_t i = 0; i < m->emit.parameter_count; i++) {
        bp_parameter *parameter = &m->emit.parameters[i];
        bool kept = parameter->gradient < m->mark.buffers;
        parameter->gradient = kept ? parameter->gradient : BP_NO_BUFFER;
        parameter->gradient_written = kept;
    }
    m->emit.loss_written = false;
    m->emit.shared = BP_ABSENT;
}

static bp_stage_call trial_call(measure *m, uint32_t stage, uint32_t variant)
{
    bp_stage_call call = {.stage = stage,
                          .variant = variant,
                          .input = BP_ABSENT,
                          .output = BP_ABSENT,
                          .d_output = BP_ABSENT,
                          .d_input = BP_ABSENT,
                          .input_wanted = true};
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = BP_ABSENT;
    }
    m->spec->model->stage_name(&m->spec->config, stage, m->label);
    m->emit.label = m->label;
    m->emit.stage = stage;
    m->emit.output_class = BP_CLASS_TAPE;
    if (stage > 0) {
        call.input = fake(m, BP_CLASS_TAPE, m->before, "input");
    }
    m->input = call.input.buffer;
    return call;
}

static void write_backward(measure *m, bp_stage_call *call, bool last)
{
    m->backward = m->graph.used.ops;
    if (!last) {
        call->d_output = fake(m, BP_CLASS_WORKSPACE, m->behind, "d_out");
    }
    m->d_output = call->d_output.buffer;
    m->spec->model->backward(&m->emit, call);
    m->d_input = call->d_input.buffer;
}

/* Lifetimes of the trial's own buffers. What leaves the trial lives to its end; the gradient of the
 * output is there from the start of backward. */
static void trial_lifetimes(measure *m)
{
    bp_graph *graph = &m->graph;
    uint32_t end = graph->used.ops;
    bp_graph_lifetimes(graph);
    for (uint32_t i = m->mark.buffers; i < graph->used.buffers; i++) {
        bp_buffer *buffer = &graph->buffers[i];
        bool made = buffer->lower < buffer->upper;
        bool leaves = i == m->d_input || buffer->class_of == BP_CLASS_GRADIENTS;
        if (made && leaves) {
            buffer->upper = end;
        }
        if (i == m->d_output) {
            buffer->lower = m->backward;
        }
        if (i == m->output) {
            buffer->upper = m->backward;
        }
    }
}

static uint64_t live_at(const measure *m, uint32_t tick)
{
    uint64_t bytes = 0;
    for (uint32_t i = m->mark.buffers; i < m->graph.used.buffers; i++) {
        const bp_buffer *buffer = &m->graph.buffers[i];
        bool live = buffer->lower <= tick && tick < buffer->upper && i != m->input;
        bytes += live ? bp_report_rounded(buffer) : 0;
    }
    return bytes;
}

static uint64_t peak_between(const measure *m, uint32_t first, uint32_t last)
{
    uint64_t peak = 0;
    for (uint32_t tick = first; tick < last; tick++) {
        uint64_t bytes = live_at(m, tick);
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

static double seconds_between(const measure *m, uint32_t first, uint32_t last)
{
    double seconds = 0.0;
    for (uint32_t i = first; i < last; i++) {
        seconds += bp_cost_seconds(bp_cost_op(&m->graph, &m->graph.ops[i]), m->rates);
    }
    return seconds;
}

/* Bytes that cross from forward into backward, the boundaries left out. */
static uint64_t tape_bytes(const measure *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = m->mark.buffers; i < m->graph.used.buffers; i++) {
        const bp_buffer *buffer = &m->graph.buffers[i];
        bool stream = i == m->input || i == m->output || i == m->d_output;
        bool crosses = buffer->lower < m->backward && buffer->upper > m->backward;
        bytes += crosses && !stream ? bp_report_rounded(buffer) : 0;
    }
    return bytes;
}

static uint64_t gradient_bytes(const measure *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = m->mark.buffers; i < m->graph.used.buffers; i++) {
        const bp_buffer *buffer = &m->graph.buffers[i];
        bool gradient = buffer->class_of == BP_CLASS_GRADIENTS && buffer->lower < buffer->upper;
        bytes += gradient ? bp_report_rounded(buffer) : 0;
    }
    return bytes;
}

/* Forward alone, as it runs when another stage follows. */
static void try_forward(measure *m, uint32_t stage, uint32_t variant, bp_chain_variant *out)
{
    begin_trial(m);
    bp_stage_call call = trial_call(m, stage, variant);
    m->spec->model->forward(&m->emit, &call);
    m->output = call.output.buffer;
    m->backward = m->graph.used.ops;
    trial_lifetimes(m);
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        if (bp_ref_present(call.tape[i]) && call.tape[i].buffer >= m->mark.buffers) {
            m->graph.buffers[call.tape[i].buffer].upper = m->backward;
        }
    }
    out->forward_peak = peak_between(m, 0, m->backward);
    out->forward = seconds_between(m, 0, m->backward);
}

/* Forward for the tape (not needed where the variant keeps none), then backward. */
static void try_backward(measure *m, uint32_t stage, uint32_t variant, bool tape,
                         bp_chain_stage *out)
{
    bool last = stage + 1 == m->spec->model->stages(&m->spec->config);
    bp_chain_variant *row = &out->variant[variant];
    begin_trial(m);
    bp_stage_call call = trial_call(m, stage, variant);
    if (tape) {
        m->spec->model->forward(&m->emit, &call);
        m->output = call.output.buffer;
    }
    write_backward(m, &call, last);
    trial_lifetimes(m);
    row->tape = tape_bytes(m);
    row->backward_peak = peak_between(m, m->backward, m->graph.used.ops);
    row->backward = seconds_between(m, m->backward, m->graph.used.ops);
    out->gradients = gradient_bytes(m);
}

/* Whether gradients outlive the backward of their stage in the type they are made in. */
static bool keeps_gradients(const bp_spec *spec)
{
    return spec->gradient_release == BP_RELEASE_NONE && !spec->gradient_int8;
}

/* Gradients that this stage's backward made are there for the stages before it. */
static void keep_gradients(measure *m)
{
    uint32_t trial = m->mark.buffers;
    m->graph.used = m->mark;
    for (uint32_t i = 0; i < m->emit.parameter_count && keeps_gradients(m->spec); i++) {
        uint32_t gradient = m->emit.parameters[i].gradient;
        if (gradient != BP_NO_BUFFER && gradient >= trial) {
            own_gradient(m, i);
        }
    }
    m->mark = m->graph.used;
}

static void measure_stage(measure *m, uint32_t stage, bp_chain_stage *out)
{
    const bp_model *model = m->spec->model;
    bool last = stage + 1 == model->stages(&m->spec->config);
    uint32_t variants = model->variants(&m->spec->config, stage);
    m->before = out->input;
    *out = (bp_chain_stage){.input = bp_size_align(m->before, BP_ARENA_ALIGNMENT),
                            .d_output = last ? 0 : bp_size_align(m->behind, BP_ARENA_ALIGNMENT),
                            .variants = variants};
    for (uint32_t v = 0; v < variants; v++) {
        if (!last) {
            try_forward(m, stage, v, &out->variant[v]);
        }
        try_backward(m, stage, v, v + 1 < variants, out);
    }
    m->behind = m->before;
    keep_gradients(m);
}

/* Bytes of every boundary, as each stage's forward makes it, into the stages' inputs. */
static void measure_boundaries(measure *m, bp_chain_stage *stages, uint32_t count)
{
    stages[0].input = 0;
    for (uint32_t s = 0; s + 1 < count && m->emit.status == BP_OK; s++) {
        m->before = stages[s].input;
        begin_trial(m);
        bp_stage_call call = trial_call(m, s, m->spec->model->variants(&m->spec->config, s) - 1);
        m->spec->model->forward(&m->emit, &call);
        bool made = m->emit.status == BP_OK && bp_ref_present(call.output);
        stages[s + 1].input = made ? m->graph.buffers[call.output.buffer].bytes : 0;
    }
    m->graph.used = m->mark;
}

bp_status bp_measure_stages(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                            bp_chain_stage *stages, bp_error *error)
{
    measure m = {.spec = spec, .rates = rates};
    bp_graph_limits limits;
    void *parameters = NULL;
    uint32_t count = bp_adapter_parameters(spec);
    uint32_t stage_count = spec->model->stages(&spec->config);
    if (!limits_for(spec, &limits)) {
        return BP_ERR_OVERFLOW;
    }
    BP_TRY(bp_graph_init(&m.graph, &limits, memory, error));
    BP_TRY(bp_arena_carve(memory, count * sizeof(bp_parameter), TABLE_ALIGNMENT, &parameters));
    m.emit = (bp_emit){.graph = &m.graph,
                       .spec = spec,
                       .parameters = parameters,
                       .parameter_limit = count,
                       .mode = BP_MODE_TRAIN,
                       .rows = (uint64_t)spec->batch * spec->sequence,
                       .action = UINT32_MAX};
    set_inputs(&m);
    spec->model->parameters(&m.emit, &spec->config);
    bp_adapter_publish(&m.emit);
    const bool grouped = spec->accumulation > 1 && keeps_gradients(spec);
    for (uint32_t i = 0; i < m.emit.parameter_count && grouped; i++) {
        own_gradient(&m, i);
    }
    m.mark = m.graph.used;
    measure_boundaries(&m, stages, stage_count);
    for (uint32_t s = stage_count; s > 0 && m.emit.status == BP_OK; s--) {
        measure_stage(&m, s - 1, &stages[s - 1]);
    }
    return m.emit.status;
}
