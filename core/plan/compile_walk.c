/* SPDX-License-Identifier: MIT */
/* Walking through stage actions: which boundaries, tapes and gradients are the newest of each
 * micro-batch. */
#include "core/plan/compile_private.h"

#include <string.h>

#include "core/plan/passes/lanes.h"
#include "core/plan/rows.h"

static bp_ref *boundaries(const bp_compile *compile, bp_ref *table, uint32_t micro)
{
    return table + (size_t)micro * (compile->stages + 1);
}

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

void compile_inputs(const bp_compile *compile, bp_emit *emit, uint32_t micro)
{
    uint64_t at = micro * bp_compile_micro_bytes(emit->spec);
    emit->step = (bp_ref){compile->inputs, BP_U8, at};
    at += bp_compile_step_room(emit->spec);
    for (uint32_t i = 0; i < compile->input_count; i++) {
        const bp_input *input = &compile->input[i];
        emit->declared[i] = (bp_ref){compile->inputs, input->dtype, at};
        at += bp_input_bytes(emit->spec, input);
    }
    for (uint32_t i = compile->input_count; i-- > 0;) { /* of several of a kind, the first */
        emit->input[compile->input[i].from] = emit->declared[i];
    }
}

void compile_emitter(const bp_compile *compile, bp_emit *emit, bp_program_kind program,
                     bp_mode mode)
{
    compile_inputs(compile, emit, 0);
    emit->shared = BP_ABSENT;
    emit->shared_second = BP_ABSENT;
    emit->mode = mode;
    emit->label = bp_program_name(program);
    emit->rows = (uint64_t)emit->spec->batch * emit->spec->sequence;
    emit->sequences = 1;
    emit->output_class = BP_CLASS_WORKSPACE;
    emit->losses = BP_ABSENT;
    emit->logits = BP_ABSENT;
    const bool before = bp_spec_keeps_vectors(emit->spec) && program != BP_PROGRAM_EVAL;
    if (mode != BP_MODE_DECODE && program != BP_PROGRAM_UPDATE && !before) {
        emit->losses = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, emit->rows, 1, "losses");
    }
    compile_gather_begin(emit);
}

void compile_begin(bp_compile *compile, bp_emit *emit, bp_program_kind program, bp_mode mode)
{
    bp_graph_begin(emit->graph, program);
    forget(compile);
    compile_emitter(compile, emit, program, mode);
    if (program != BP_PROGRAM_INITIALIZE && program != BP_PROGRAM_MICRO_NEXT &&
        program != BP_PROGRAM_UPDATE) {
        bp_rows_put(emit);
    }
}

void compile_enter(bp_compile *compile, bp_emit *emit, uint32_t stage, uint32_t action)
{
    emit->spec->model->stage_name(&emit->spec->config, stage, compile->label);
    emit->label = compile->label;
    emit->stage = stage;
    emit->action = action;
}

bp_stage_call compile_call(const bp_compile *compile, uint32_t stage, uint32_t micro)
{
    return (bp_stage_call){.stage = stage,
                           .input = boundaries(compile, compile->boundary, micro)[stage]};
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

/* What a stage reads, brought where it lives below. It stays no longer than it is read. */
static void bring_input(const bp_compile *compile, bp_emit *emit, bp_stage_call *call,
                        uint32_t micro)
{
    const bp_left *left = left_of(compile, call->stage, micro);
    if (left->there) {
        call->input = compile_bring_checkpoint(emit, left->slot);
    }
}

/* After a forward: what it read goes below, if it is one of those; what it made may, later. */
static void leave_checkpoint(bp_compile *compile, bp_emit *emit, const bp_action *action,
                             uint32_t micro)
{
    bp_left *before = left_of(compile, action->stage, micro);
    if (before->due) {
        const bp_ref boundary = boundaries(compile, compile->boundary, micro)[action->stage];
        *before = (bp_left){.there = true, .slot = compile_leave_checkpoint(emit, boundary)};
    }
    *left_of(compile, action->stage + 1, micro) =
        (bp_left){.due = action->checkpoint && emit->spec->below.checkpoints > 0};
}

static void write_forward(bp_compile *compile, bp_emit *emit, const bp_action *action,
                          uint32_t micro)
{
    bp_stage_call call = compile_call(compile, action->stage, micro);
    bp_ref *tape = tape_of(compile, action->stage, micro);
    bring_input(compile, emit, &call, micro);
    call.variant = action->variant;
    emit->output_class = action->checkpoint ? BP_CLASS_CHECKPOINT : BP_CLASS_TAPE;
    const bp_graph_limits from = emit->graph->used;
    emit->spec->model->forward(emit, &call);
    note_forward(&compile->forward, &from, &emit->graph->used);
    boundaries(compile, compile->boundary, micro)[action->stage + 1] = call.output;
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        tape[i] = call.tape[i];
    }
    leave_checkpoint(compile, emit, action, micro);
}

void compile_ask(const bp_compile *compile, bp_stage_call *call)
{
    call->input_wanted = call->stage > compile->first;
    call->table_deferred = call->stage + 1 == compile->stages
                               ? compile->head_deferred
                               : call->stage == 0 && compile->sliced[1] != UINT32_MAX;
}

static void write_backward(bp_compile *compile, bp_emit *emit, const bp_action *action,
                           uint32_t micro)
{
    bp_stage_call call = compile_call(compile, action->stage, micro);
    bp_ref *gradients = boundaries(compile, compile->d_boundary, micro);
    const bp_ref *tape = tape_of(compile, action->stage, micro);
    bring_input(compile, emit, &call, micro);
    call.variant = action->variant;
    call.d_output = gradients[action->stage + 1];
    compile_ask(compile, &call);
    for (uint32_t i = 0; i < BP_TAPE_MAX; i++) {
        call.tape[i] = tape[i];
    }
    emit->spec->model->backward(emit, &call);
    compile_leave_gradients(emit);
    gradients[action->stage] = call.d_input;
    if (action->stage + 1 == compile->stages) {
        compile->slices[micro] = (bp_slice_call){.kept = {call.kept[0], call.kept[1]}};
    } else if (action->stage == 0) {
        compile->slices[micro].d_embedded = call.d_output;
    }
}

void compile_action(bp_compile *compile, bp_emit *emit, uint32_t index, uint32_t micro)
{
    const bp_action *action = &compile->actions[index];
    compile_inputs(compile, emit, micro);
    compile_enter(compile, emit, action->stage, index);
    bp_lanes_enter(compile, emit, micro);
    if (action->kind == BP_ACTION_FORWARD) {
        write_forward(compile, emit, action, micro);
    } else {
        write_backward(compile, emit, action, micro);
    }
    bp_lanes_leave(compile, emit, micro);
    bp_emit_settled(emit);
}
