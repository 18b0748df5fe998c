/* SPDX-License-Identifier: MIT */
/* Stages measured one by one. */
#include "core/plan/search/measure.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/ir/report.h"

#define MEASURE_ALIGNMENT 8 /* of the bytes that live at each tick */

/* The graph holds the parameters (and the gradients met so far) up to a mark; each trial writes
 * behind it and is forgotten. */
typedef struct measure {
    const bp_spec *spec;
    const bp_rates *rates;
    bp_graph graph;
    bp_builder builder;
    bp_compile compile; /* no tables: where the inputs are, and what backward is asked for */
    bp_measure_watch watch;
    void *user;
    bp_graph_limits mark;
    bp_graph_limits most; /* rows of the largest trial and of what lies before it */
    bp_ref shared;        /* made once for all stages, as in a program */
    bp_ref shared_second;
    uint64_t *live; /* [ops of a trial + 1] */
    char label[32];
    uint32_t input; /* the trial's fake input, its output and the gradients of both */
    uint32_t output;
    uint32_t d_output;
    uint32_t d_input;
    uint32_t backward;    /* first op of the trial's backward */
    bool named_only;      /* only the variants that selective:NAMES names */
    bp_chain_stage whole; /* the stage measured last, with all its variants */
    uint32_t whole_named; /* how many of them have names, or keep nothing */
    uint64_t memory;      /* bytes of bp_model.memory's output, and the trial's fake one */
    uint32_t memory_buffer;
    uint64_t before; /* bytes of the boundary before the stage, and of the one behind it */
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
    return bp_build_buffer(&m->builder, class_of, dtype, bytes / bp_dtype_bytes(dtype), 1, name);
}

/* Makes a gradient buffer that trials from now on find already there. */
static void own_gradient(measure *m, uint32_t index)
{
    m->builder.parameters[index].gradient = BP_NO_BUFFER;
    compile_make_gradient(&m->builder, index);
}

static void begin_bare_fixture(measure *m)
{
    m->graph.used = m->mark;
    m->output = m->d_output = m->d_input = BP_NO_BUFFER;
    bp_graph_begin(&m->graph, BP_PROGRAM_STEP);
    for (uint32_t i = 0; i < m->builder.parameter_count; i++) {
        bp_parameter *parameter = &m->builder.parameters[i];
        bool kept = parameter->gradient != BP_NO_BUFFER && parameter->gradient < m->mark.buffers;
        parameter->gradient = kept ? parameter->gradient : BP_NO_BUFFER;
        parameter->gradient_written = kept;
    }
    m->builder.loss_written = false;
    m->builder.shared = m->shared;
    m->builder.shared_second = m->shared_second;
}

/* What stages read beside what they follow, and its gradient, which those behind have begun. */
static void trial_memory(measure *m, uint32_t stage)
{
    const bp_model *model = m->spec->model;
    const uint32_t maker = model->memory != NULL ? model->memory(&m->spec->config) : UINT32_MAX;
    const bool reads = maker != UINT32_MAX && stage > maker;
    m->memory = stage == maker + 1 ? m->before : m->memory;
    m->builder.memory = reads ? fake(m, BP_CLASS_TAPE, m->memory, "memory") : BP_ABSENT;
    m->memory_buffer = reads ? m->builder.memory.buffer : BP_NO_BUFFER;
    m->builder.memory_wanted = reads && m->compile.first <= maker;
    m->builder.d_memory =
        m->builder.memory_wanted ? fake(m, BP_CLASS_WORKSPACE, m->memory, "d_memory") : BP_ABSENT;
}

static bp_stage_call trial_call(measure *m, uint32_t stage, uint32_t variant)
{
    bp_stage_call call = {.stage = stage, .variant = variant};
    compile_ask(&m->compile, &call);
    m->spec->model->stage_name(&m->spec->config, stage, m->label);
    m->builder.label = m->label;
    m->builder.stage = stage;
    m->builder.output_class = BP_CLASS_TAPE;
    if (stage > 0) {
        call.input = fake(m, BP_CLASS_TAPE, m->before, "input");
    }
    trial_memory(m, stage);
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
    m->spec->model->backward(&m->builder, call);
    compile_offload_gradients(&m->builder);
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

/* Bytes that live at each tick of a trial. */
static void count_live(measure *m)
{
    const uint32_t ticks = m->graph.used.ops + 1;
    memset(m->live, 0, ticks * sizeof *m->live);
    for (uint32_t i = m->mark.buffers; i < m->graph.used.buffers; i++) {
        const bp_buffer *buffer = &m->graph.buffers[i];
        const bool lives = buffer->lower < buffer->upper && buffer->lower < ticks &&
                           i != m->input && i != m->memory_buffer &&
                           buffer->space == BP_SPACE_DEVICE;
        const uint64_t bytes = lives ? bp_report_rounded(&m->graph, buffer) : 0;
        if (lives) {
            m->live[buffer->lower] += bytes;
        }
        if (lives && buffer->upper < ticks) {
            m->live[buffer->upper] -= bytes; /* wraps, and back */
        }
    }
    for (uint32_t tick = 1; tick < ticks; tick++) {
        m->live[tick] += m->live[tick - 1];
    }
}

static uint64_t peak_between(measure *m, uint32_t first, uint32_t last)
{
    uint64_t peak = 0;
    count_live(m);
    for (uint32_t tick = first; tick < last; tick++) {
        peak = m->live[tick] > peak ? m->live[tick] : peak;
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
        bool stream = i == m->input || i == m->output || i == m->d_output || i == m->memory_buffer;
        bool crosses = buffer->lower < m->backward && buffer->upper > m->backward;
        bytes += crosses && !stream ? bp_report_rounded(&m->graph, buffer) : 0;
    }
    return bytes;
}

static uint64_t gradient_bytes(const measure *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = m->mark.buffers; i < m->graph.used.buffers; i++) {
        const bp_buffer *buffer = &m->graph.buffers[i];
        bool gradient = buffer->class_of == BP_CLASS_GRADIENTS && buffer->lower < buffer->upper &&
                        buffer->space == BP_SPACE_DEVICE;
        bytes += gradient ? bp_report_rounded(&m->graph, buffer) : 0;
    }
    return bytes;
}

static void show(const measure *m, bp_action_kind kind, uint32_t stage, uint32_t variant,
                 uint32_t first, uint32_t last)
{
    const bp_measured trial = {&m->graph, kind, stage, variant, first, last};
    if (m->watch != NULL && m->builder.status == BP_OK) {
        m->watch(m->user, &trial);
    }
}

/* Forward alone, as it runs when another stage follows. */
static void try_forward(measure *m, uint32_t stage, bp_chain_variant *out)
{
    const uint32_t variant = out->number;
    begin_bare_fixture(m);
    bp_stage_call call = trial_call(m, stage, variant);
    m->spec->model->forward(&m->builder, &call);
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
static void try_backward(measure *m, uint32_t stage, uint32_t index, bp_chain_stage *out)
{
    bool last = stage + 1 == m->spec->model->stages(&m->spec->config);
    bp_chain_variant *row = &out->variant[index];
    const uint32_t variant = row->number;
    /* No set takes more rows than all of forward and of a backward that finds nothing. */
    const bool tape = index + 1 < out->variants || bp_graph_counts(&m->graph);
    begin_bare_fixture(m);
    bp_stage_call call = trial_call(m, stage, variant);
    if (tape) {
        m->spec->model->forward(&m->builder, &call);
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
    for (uint32_t i = 0; i < m->builder.parameter_count && keeps_gradients(m->spec); i++) {
        uint32_t gradient = m->builder.parameters[i].gradient;
        if (gradient != BP_NO_BUFFER && gradient >= trial) {
            own_gradient(m, i);
        }
    }
    m->mark = m->graph.used;
}

static void try_variant(measure *m, uint32_t stage, uint32_t index, bp_chain_stage *out)
{
    if (stage + 1 < m->compile.stages) {
        try_forward(m, stage, &out->variant[index]);
    }
    try_backward(m, stage, index, out);
}

/* The variants that selective:NAMES names, the sets that the model finds worth keeping, and last
 * the one that keeps nothing. */
static void list_variants(measure *m, uint32_t stage, bp_chain_stage *out)
{
    const bp_model *model = m->spec->model;
    uint32_t sets[BP_CHAIN_VARIANTS];
    uint32_t named = model->variants(&m->spec->config, stage), found = 0;
    if (model->tapes != NULL && named > 1 && !m->named_only) {
        begin_bare_fixture(m);
        const bp_stage_call call = trial_call(m, stage, 0);
        const bp_rates rates = m->rates != NULL ? *m->rates : BP_RATES_DEFAULT;
        const bp_tape_request request = {rates, BP_CHAIN_VARIANTS - named};
        found = model->tapes(&m->builder, &call, &request, sets);
        note_rows(m);
    }
    out->variants = 0;
    for (uint32_t v = 0; v + 1 < named; v++) {
        out->variant[out->variants++].number = v;
    }
    for (uint32_t i = 0; i < found; i++) {
        out->variant[out->variants++].number = sets[i];
    }
    out->variant[out->variants++].number = named - 1;
}

/* Of one variant, in two stages. */
static bool same_measure(const bp_chain_variant *a, const bp_chain_variant *b)
{
    return a->forward == b->forward && a->backward == b->backward && a->tape == b->tape &&
           a->forward_peak == b->forward_peak && a->backward_peak == b->backward_peak;
}

/* Whether the stage is one like the stage measured last: what it is with all of its tape, and with
 * none, is the same. */
static bool is_alike(measure *m, uint32_t stage, bp_chain_stage *out)
{
    const bp_chain_stage *behind = &m->whole;
    if (m->watch != NULL || behind->variants < 2 || behind->input != out->input ||
        behind->d_output != out->d_output ||
        m->spec->model->variants(&m->spec->config, stage) != m->whole_named) {
        return false;
    }
    const uint32_t ends[2] = {0, behind->variants - 1};
    out->variants = behind->variants;
    for (uint32_t k = 0; k < 2; k++) {
        out->variant[ends[k]].number = behind->variant[ends[k]].number;
        try_variant(m, stage, ends[k], out);
        if (!same_measure(&out->variant[ends[k]], &behind->variant[ends[k]])) {
            return false;
        }
    }
    for (uint32_t v = 0; v < out->variants; v++) {
        out->variant[v] = behind->variant[v];
    }
    return out->gradients == behind->gradients;
}

static bool is_beaten(const bp_chain_variant *a, const bp_chain_variant *by)
{
    return by->tape <= a->tape && by->forward_peak <= a->forward_peak &&
           by->backward_peak <= a->backward_peak &&
           by->forward + by->backward <= a->forward + a->backward;
}

/* Leaves out variants that another one beats in bytes, peaks and time; of equal ones the first
 * stays. The last one has a part of its own in the dynamic programme. */
static void drop_beaten(bp_chain_stage *stage)
{
    uint32_t kept = 0;
    const uint32_t last = stage->variants - 1;
    for (uint32_t v = 0; v < last; v++) {
        bool beaten = false;
        for (uint32_t i = 0; i < kept; i++) {
            beaten = beaten || is_beaten(&stage->variant[v], &stage->variant[i]);
        }
        for (uint32_t i = v + 1; i < last; i++) {
            const bool better = is_beaten(&stage->variant[v], &stage->variant[i]);
            beaten = beaten || (better && !is_beaten(&stage->variant[i], &stage->variant[v]));
        }
        if (!beaten) {
            stage->variant[kept++] = stage->variant[v];
        }
    }
    stage->variant[kept++] = stage->variant[last];
    stage->variants = kept;
}

static void measure_stage(measure *m, uint32_t stage, bp_chain_stage *out)
{
    bool last = stage + 1 == m->compile.stages;
    m->before = out->input;
    *out = (bp_chain_stage){.input = bp_size_align(m->before, bp_graph_alignment(&m->graph)),
                            .d_output =
                                last ? 0 : bp_size_align(m->behind, bp_graph_alignment(&m->graph))};
    if (!is_alike(m, stage, out)) {
        list_variants(m, stage, out);
        for (uint32_t v = 0; v < out->variants; v++) {
            try_variant(m, stage, v, out);
        }
    }
    m->whole = *out;
    m->whole_named = m->spec->model->variants(&m->spec->config, stage);
    drop_beaten(out);
    m->behind = m->before;
    keep_gradients(m);
}

/* What the first stage that needs it has made for all stays where it is; its ops are in no trial.
 */
static void keep_shared(measure *m)
{
    const bool first = !bp_ref_present(m->shared) && bp_ref_present(m->builder.shared);
    const bool second =
        !bp_ref_present(m->shared_second) && bp_ref_present(m->builder.shared_second);
    if (first || second) {
        m->shared = m->builder.shared;
        m->shared_second = m->builder.shared_second;
        m->mark.buffers = m->graph.used.buffers;
        m->mark.name_bytes = m->graph.used.name_bytes;
    }
}

/* Bytes of every boundary, as each stage's forward makes it, into the stages' inputs. */
static void measure_boundaries(measure *m, bp_chain_stage *stages, uint32_t count)
{
    stages[0].input = 0;
    for (uint32_t s = 0; s + 1 < count && m->builder.status == BP_OK; s++) {
        m->before = stages[s].input;
        begin_bare_fixture(m);
        bp_stage_call call = trial_call(m, s, m->spec->model->variants(&m->spec->config, s) - 1);
        m->spec->model->forward(&m->builder, &call);
        note_rows(m);
        keep_shared(m);
        const bool made = m->builder.status == BP_OK && !bp_graph_counts(&m->graph);
        stages[s + 1].input = made ? m->graph.buffers[call.output.buffer].bytes : 0;
    }
    m->graph.used = m->mark;
}

/* Everything that lives before the first stage: inputs, parameters, gradients of a whole group. */
static bp_status prepare(measure *m, bp_arena *memory)
{
    const bp_spec *spec = m->spec;
    BP_TRY(compile_emission(&m->builder, &m->graph, spec, memory));
    BP_TRY(compile_fixed(&m->compile, &m->builder));
    compile_emitter(&m->compile, &m->builder, BP_PROGRAM_STEP, BP_MODE_TRAIN);
    spec->model->parameters(&m->builder, &spec->config);
    bp_adapter_publish(&m->builder);
    BP_TRY(m->builder.status);
    m->compile.stages = spec->model->stages(&spec->config);
    compile_find_first(&m->compile, &m->builder);
    compile_choose_slices(&m->compile, &m->builder);
    const bool grouped = spec->accumulation > 1 && keeps_gradients(spec);
    for (uint32_t i = 0; i < m->builder.parameter_count && grouped; i++) {
        if (m->builder.parameters[i].trainable) {
            own_gradient(m, i);
        }
    }
    m->mark = m->graph.used;
    return m->builder.status;
}

/* All trials, into the graph that is there. */
static bp_status measure_all(measure *m, bp_arena *memory, bp_chain_stage *stages)
{
    BP_TRY(prepare(m, memory));
    measure_boundaries(m, stages, m->compile.stages);
    for (uint32_t s = m->compile.stages; s > 0 && m->builder.status == BP_OK; s--) {
        measure_stage(m, s - 1, &stages[s - 1]);
    }
    note_rows(m);
    return m->builder.status;
}

/* A set that is not named may take more rows than those that are: a buffer for each value that it
 * keeps and that the set which keeps nothing lays into another's place, and with a tape in 8 bits
 * an op and a buffer for each packed value that is unpacked. */
static void add_kept(bp_graph_limits *rows)
{
    const uint32_t most = BP_TAPE_MAX;
    const uint32_t each = (uint32_t)(sizeof(bp_tape_unpack_operands) / sizeof(bp_ref));
    rows->buffers += most;
    rows->ops += most;
    rows->refs += most * each;
    rows->scalars += most * (uint32_t)(sizeof(bp_tape_unpack_scalars) / sizeof(int64_t));
    rows->name_bytes += most * BP_BUFFER_NAME_MAX;
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
    add_kept(rows);
    return bp_arena_rewind(memory, mark);
}

static size_t live_bytes(const bp_graph_limits *rows)
{
    return ((size_t)rows->ops + 1) * sizeof(uint64_t);
}

bp_status bp_measure_count(const bp_spec *spec, bp_arena *memory, bp_chain_stage *stages,
                           uint64_t *bytes, bp_error *error)
{
    bp_graph_limits rows = {0};
    BP_TRY(count_rows(spec, memory, stages, &rows, error));
    *bytes = bp_size_add(bp_graph_bytes(&rows), bp_compile_bytes(spec));
    *bytes = bp_size_add(*bytes, live_bytes(&rows) + MEASURE_ALIGNMENT);
    *bytes = *bytes > bp_measure_scratch(spec) ? *bytes : bp_measure_scratch(spec);
    return BP_OK;
}

/* Counts the rows, then measures. */
static bp_status measure_counted(measure *m, bp_arena *memory, bp_chain_stage *stages,
                                 bp_error *error)
{
    bp_graph_limits rows = {0};
    BP_TRY(count_rows(m->spec, memory, stages, &rows, error));
    BP_TRY(bp_graph_init(&m->graph, &rows, memory, error));
    void *live = NULL;
    if (bp_arena_allocate(memory, live_bytes(&rows), MEASURE_ALIGNMENT, &live) != BP_OK) {
        return bp_error_set(error, BP_ERR_FIT, "measure", "the memory is too small", NULL);
    }
    m->live = live;
    return measure_all(m, memory, stages);
}

bp_status bp_measure_each(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                          bp_chain_stage *stages, bp_measure_watch watch, void *user,
                          bp_error *error)
{
    measure m = {.spec = spec, .rates = rates, .watch = watch, .user = user};
    return measure_counted(&m, memory, stages, error);
}

bp_status bp_measure_stages(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                            bp_chain_stage *stages, bp_error *error)
{
    measure m = {.spec = spec, .rates = rates};
    return measure_counted(&m, memory, stages, error);
}

bp_status bp_measure_named(const bp_spec *spec, const bp_rates *rates, bp_arena *memory,
                           bp_chain_stage *stages, bp_error *error)
{
    measure m = {.spec = spec, .rates = rates, .named_only = true};
    return measure_counted(&m, memory, stages, error);
}
