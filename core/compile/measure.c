/* SPDX-License-Identifier: MIT */
/* Stages measured one by one. */
#include "core/compile/measure.h"

#include "core/compile/adapter.h"
#include "core/compile/compile_private.h"
#include "core/program/report.h"

/* The graph holds the parameters (and the gradients met so far) up to a mark; each trial writes
 * behind it and is forgotten. */
typedef struct measure {
    const bp_spec *spec;
    const bp_rates *rates;
    bp_graph graph;
    bp_emit emit;
    bp_compile compile; /* no tables: where the inputs are, and what backward is asked for */
    bp_measure_watch watch;
    void *user;
    bp_graph_limits mark;
    bp_graph_limits most; /* rows of the largest trial and of what lies before it */
    bp_ref shared;        /* made once for all stages, as in a program */
    char label[32];
    uint32_t input; /* the trial's fake input, its output and the gradients of both */
    uint32_t output;
    uint32_t d_output;
    uint32_t d_input;
    uint32_t backward; /* first op of the trial's backward */
    uint64_t before;   /* bytes of the boundary before the stage, and of the one behind it */
    uint64_t behind;
} measure;

uint64_t bp_measure_scratch(const bp_spec *spec)
{
    return bp_compile_scratch(spec);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A trial is written: what its graph holds now is the most, or it is not. */
static void note_rows(measure *m)
{
    const bp_graph_limits *used = &m->graph.used;
    bp_graph_limits *most = &m->most;
    most->buffers = larger(most->buffers, used->buffers);
    most->ops = larger(most->ops, used->ops);
    most->refs = larger(most->refs, used->refs);
    most->scalars = larger(most->scalars, used->scalars);
    most->name_bytes = larger(most->name_bytes, used->name_bytes);
}

static bp_ref fake(measure *m, bp_class class_of, uint64_t bytes, const char *name)
{
    bp_dtype dtype = m->spec->working;
    return bp_emit_buffer(&m->emit, class_of, dtype, bytes / bp_dtype_bytes(dtype), 1, name);
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
        bool kept = parameter->gradient != BP_NO_BUFFER && parameter->gradient < m->mark.buffers;
        parameter->gradient = kept ? parameter->gradient : BP_NO_BUFFER;
        parameter->gradient_written = kept;
    }
    m->emit.loss_written = false;
    m->emit.shared = m->shared;
}

static bp_stage_call trial_call(measure *m, uint32_t stage, uint32_t variant)
{
    bp_stage_call call = {.stage = stage, .variant = variant};
    compile_ask(&m->compile, &call);
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
    note_rows(m);
    if (bp_graph_counts(graph)) {
        return;
    }
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

static void show(const measure *m, bp_action_kind kind, uint32_t stage, uint32_t variant,
                 uint32_t first, uint32_t last)
{
    const bp_measured trial = {&m->graph, kind, stage, variant, first, last};
    if (m->watch != NULL && m->emit.status == BP_OK) {
        m->watch(m->user, &trial);
    }
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
    if (bp_graph_counts(&m->graph)) {
        return;
    }
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        if (bp_ref_present(call.tape[i]) && call.tape[i].buffer >= m->mark.buffers) {
            m->graph.buffers[call.tape[i].buffer].upper = m->backward;
        }
    }
    out->forward_peak = peak_between(m, 0, m->backward);
    out->forward = seconds_between(m, 0, m->backward);
    show(m, BP_ACTION_FORWARD, stage, variant, 0, m->backward);
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
    if (bp_graph_counts(&m->graph)) {
        return;
    }
    row->tape = tape_bytes(m);
    row->backward_peak = peak_between(m, m->backward, m->graph.used.ops);
    row->backward = seconds_between(m, m->backward, m->graph.used.ops);
    out->gradients = gradient_bytes(m);
    show(m, BP_ACTION_BACKWARD, stage, variant, m->backward, m->graph.used.ops);
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

/* What the first stage that needs it has made for all stays where it is; its ops are in no trial.
 */
static void keep_shared(measure *m)
{
    if (!bp_ref_present(m->shared) && bp_ref_present(m->emit.shared)) {
        m->shared = m->emit.shared;
        m->mark.buffers = m->graph.used.buffers;
        m->mark.name_bytes = m->graph.used.name_bytes;
    }
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
        note_rows(m);
        keep_shared(m);
        bool made =
            m->emit.status == BP_OK && bp_ref_present(call.output) && !bp_graph_counts(&m->graph);
        stages[s + 1].input = made ? m->graph.buffers[call.output.buffer].bytes : 0;
    }
    m->graph.used = m->mark;
}

/* Everything that lives before the first stage: inputs, parameters, gradients of a whole group. */
static bp_status prepare(measure *m, bp_arena *memory)
{
    const bp_spec *spec = m->spec;
    BP_TRY(compile_emission(&m->emit, &m->graph, spec, memory));
    BP_TRY(compile_fixed(&m->compile, &m->emit));
    compile_emitter(&m->compile, &m->emit, BP_PROGRAM_STEP, BP_MODE_TRAIN);
    spec->model->parameters(&m->emit, &spec->config);
    bp_adapter_publish(&m->emit);
    BP_TRY(m->emit.status);
    m->compile.stages = spec->model->stages(&spec->config);
    compile_find_first(&m->compile, &m->emit);
    compile_choose_slices(&m->compile, &m->emit);
    const bool grouped = spec->accumulation > 1 && keeps_gradients(spec);
    for (uint32_t i = 0; i < m->emit.parameter_count && grouped; i++) {
        if (m->emit.parameters[i].trainable) {
            own_gradient(m, i);
        }
    }
    m->mark = m->graph.used;
    return m->emit.status;
}

/* All trials, into the graph that is there. */
static bp_status measure_all(measure *m, bp_arena *memory, bp_chain_stage *stages)
{
    BP_TRY(prepare(m, memory));
    measure_boundaries(m, stages, m->compile.stages);
    for (uint32_t s = m->compile.stages; s > 0 && m->emit.status == BP_OK; s--) {
        measure_stage(m, s - 1, &stages[s - 1]);
    }
    note_rows(m);
    return m->emit.status;
}

/* The rows that the trials need; `stages` serve as scratch. */
static bp_status count_rows(const bp_spec *spec, bp_arena *memory, bp_chain_stage *stages,
                            bp_graph_limits *rows, bp_error *error)
{
    const size_t mark = memory->used;
    measure m = {.spec = spec};
    bp_graph_count(&m.graph, error);
    BP_TRY(measure_all(&m, memory, stages));
    *rows = m.most;
    return bp_arena_rewind(memory, mark);
}

bp_status bp_measure_count(const bp_spec *spec, bp_arena *memory, bp_chain_stage *stages,
                           uint64_t *bytes, bp_error *error)
{
    bp_graph_limits rows = {0};
    BP_TRY(count_rows(spec, memory, stages, &rows, error));
    *bytes = bp_size_add(bp_graph_bytes(&rows), bp_compile_bytes(spec));
    *bytes = *bytes > bp_measure_scratch(spec) ? *bytes : bp_measure_scratch(spec);
    return BP_OK;
}

bp_status bp_measure_each(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                          bp_chain_stage *stages, bp_measure_watch watch, void *user,
                          bp_error *error)
{
    measure m = {.spec = spec, .rates = rates, .watch = watch, .user = user};
    bp_graph_limits rows = {0};
    BP_TRY(count_rows(spec, memory, stages, &rows, error));
    BP_TRY(bp_graph_init(&m.graph, &rows, memory, error));
    return measure_all(&m, memory, stages);
}

bp_status bp_measure_stages(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                            bp_chain_stage *stages, bp_error *error)
{
    return bp_measure_each(spec, rates, memory, stages, NULL, NULL, error);
}
