/* SPDX-License-Identifier: MIT */
/* Recurrent language models as chains of pieces of time. */
#include "layers/rnn.h"

#include <math.h>

#include "core/compile/compile.h"
#include "core/compile/range.h"
#include "layers/embedding.h"
#include "layers/inputs.h"
#include "layers/loss.h"
#include "layers/publish.h"
#include "layers/recurrent.h"

/* Numbers of parameters: the encoder, four of each layer, the decoder. */
enum { ENCODER = 0, FIRST_LAYER = 1, LAYER_PARAMETERS = 4 };

/* Of a stage's tape. */
enum { STATES = 0, GATES = 1, KEPT = 2 };

BP_OWN_FITS(bp_rnn_config);

bp_rnn_config bp_rnn_config_of(const bp_model_config *config)
{
    bp_rnn_config own;
    bp_config_own(config, &own, sizeof own);
    return own;
}

static uint32_t stage_count(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return own.chunks != 0 ? own.chunks : 1;
}

static void stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    (void)config;
    bp_name_append_number(bp_name_append(text, "time."), stage);
}

static uint32_t variants(const bp_model_config *config, uint32_t stage)
{
    return stage + 1 < stage_count(config) ? BP_TAPE_VARIANTS : 1;
}

static uint32_t decoder_bias(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return FIRST_LAYER + LAYER_PARAMETERS * own.layers + (own.untied ? 1 : 0);
}

static uint32_t parameter_count(const bp_model_config *config)
{
    return decoder_bias(config) + 1;
}

static uint64_t embedding_width(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return own.embedding != 0 ? own.embedding : own.width;
}

static void publish_layer(bp_emit *emit, const bp_model_config *config, uint32_t index,
                          double range)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    static const char *const names[LAYER_PARAMETERS] = {"weight_ih_l", "weight_hh_l", "bias_ih_l",
                                                        "bias_hh_l"};
    const uint64_t gates = bp_cell_gates(own.cell) * own.width;
    const uint64_t in = index == 0 ? embedding_width(config) : own.width;
    const uint64_t columns[LAYER_PARAMETERS] = {in, own.width, 0, 0};
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++) {
        char name[BP_NAME_BYTES];
        const bp_publish_row row = {name,
                                    {gates, columns[i]},
                                    columns[i] > 0 ? BP_INIT_NORMAL : BP_INIT_ZEROS,
                                    columns[i] > 0 ? range : 0.0};
        bp_name_append_number(bp_name_append(name, names[i]), index);
        bp_publish(emit, "rnn.", &row);
    }
}

/* Without a range of the config's: the variances of PyTorch's own initial weights, which are
 * uniform below 1 / sqrt(width), and normal in the embedding. A table that is also the decoder's
 * has the decoder's. */
static void parameters(bp_emit *emit, const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    const double given = own.initializer_range;
    const double range = given > 0.0 ? given : 1.0 / sqrt(3.0 * (double)own.width);
    const double table = given > 0.0 ? given : own.untied ? 1.0 : range;
    const bp_publish_row encoder = {
        "encoder.weight", {config->vocabulary, embedding_width(config)}, BP_INIT_NORMAL, table};
    const bp_publish_row decoder = {
        "decoder.weight", {config->vocabulary, own.width}, BP_INIT_NORMAL, range};
    const bp_publish_row bias = {"decoder.bias", {config->vocabulary, 0}, BP_INIT_ZEROS, 0.0};
    bp_publish_table(emit, "", &encoder);
    for (uint32_t i = 0; i < own.layers; i++) {
        publish_layer(emit, config, i, range);
    }
    if (own.untied) {
        bp_publish(emit, "", &decoder);
    }
    bp_publish(emit, "", &bias);
}

/* A piece of time of the micro-batch: rows of its own order, and where they come from. */
typedef struct piece {
    uint64_t first; /* step */
    uint64_t length;
    uint64_t batch;
    uint64_t width;
    uint64_t states; /* vectors of a layer's state */
    uint32_t layers;
    bp_cell cell;
    bp_emit outside; /* the pen as it was */
} piece;

/* The first step of a piece: as even pieces as there can be. */
static uint64_t first_step(const bp_spec *spec, uint32_t stage)
{
    return (uint64_t)stage * spec->sequence / stage_count(&spec->config);
}

/* The first `length` steps of what ids or labels hold from the piece on, ordered by time. */
static bp_ref slice(bp_emit *emit, const piece *p, bp_ref from, const char *name)
{
    const bp_ref x = bp_ref_at(from, p->first);
    if (p->batch == 1) {
        return x;
    }
    const bp_time_slice_scalars scalars = {
        .batch = (int64_t)p->batch, .sequence = emit->spec->sequence, .length = (int64_t)p->length};
    const bp_time_slice_operands operands = {
        .y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_I32, p->length, p->batch, name), .x = x};
    bp_emit_time_slice(emit, &operands, &scalars);
    return operands.y;
}

/* Puts the pen on a piece of time: its rows, ids and losses. */
static piece enter(bp_emit *emit, uint32_t stage)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_rnn_config own = bp_rnn_config_of(config);
    const bool decode = emit->mode == BP_MODE_DECODE;
    piece p = {.first = decode ? 0 : first_step(emit->spec, stage),
               .batch = decode ? 1 : emit->spec->batch,
               .width = own.width,
               .states = bp_cell_states(own.cell),
               .layers = own.layers,
               .cell = own.cell,
               .outside = *emit};
    p.length = decode ? emit->rows : first_step(emit->spec, stage + 1) - p.first;
    emit->input[BP_INPUT_IDS] = slice(emit, &p, emit->input[BP_INPUT_IDS], "ids");
    emit->rows = p.length * p.batch;
    emit->losses = decode ? emit->losses : bp_ref_at(emit->losses, p.first * p.batch);
    return p;
}

static void leave(bp_emit *emit, const piece *p)
{
    emit->rows = p->outside.rows;
    emit->input[BP_INPUT_IDS] = p->outside.input[BP_INPUT_IDS];
    emit->input[BP_INPUT_LABELS] = p->outside.input[BP_INPUT_LABELS];
    emit->losses = p->outside.losses;
}

static bp_ref make(bp_emit *emit, bp_class class_of, uint64_t rows, uint64_t width,
                   const char *name)
{
    return bp_emit_buffer(emit, class_of, bp_emit_working(emit), rows, width, name);
}

static bp_embedding describe_embedding(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_embedding){.token = ENCODER,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = embedding_width(config)};
}

static bp_head describe_head(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_rnn_config own = bp_rnn_config_of(config);
    return (bp_head){.table = own.untied ? decoder_bias(config) - 1 : (uint32_t)ENCODER,
                     .bias = decoder_bias(config),
                     .vocabulary = config->vocabulary,
                     .width = own.width};
}

static bp_recurrent describe_layer(const bp_emit *emit, const piece *p, uint32_t index)
{
    const uint32_t first = FIRST_LAYER + LAYER_PARAMETERS * index;
    const uint64_t gates = bp_cell_gates(p->cell) * p->width;
    const uint64_t in = index == 0 ? embedding_width(&emit->spec->config) : p->width;
    return (bp_recurrent){
        .cell = p->cell,
        .input = {.weight = first, .bias = first + 2, .in = in, .out = gates, .output_major = true},
        .state = {.weight = first + 1,
                  .bias = first + 3,
                  .in = p->width,
                  .out = gates,
                  .output_major = true},
        .width = p->width,
        .batch = p->batch,
        .length = p->length};
}

/* The state of a layer in a boundary (layers * states * batch, width). */
static bp_recurrent_state state_of(const piece *p, bp_ref boundary, uint32_t layer)
{
    if (!bp_ref_present(boundary)) {
        return (bp_recurrent_state){BP_ABSENT, BP_ABSENT};
    }
    const uint64_t one = p->batch * p->width;
    const bp_ref h = bp_ref_at(boundary, layer * p->states * one);
    return (bp_recurrent_state){h, p->states > 1 ? bp_ref_at(h, one) : BP_ABSENT};
}

/* All layers' tapes, as `class_of`. */
static void make_tape(bp_emit *emit, const piece *p, bp_class class_of, bp_ref *tape)
{
    const uint64_t steps = p->layers * p->length * p->batch;
    const uint64_t states = p->layers * p->states * (p->length + 1) * p->batch;
    tape[STATES] = make(emit, class_of, states, p->width, "states");
    tape[GATES] = make(emit, class_of, steps, bp_cell_gates(p->cell) * p->width, "gates");
    tape[KEPT] = p->cell == BP_CELL_GRU ? make(emit, class_of, steps, p->width, "kept") : BP_ABSENT;
}

static bp_recurrent_tape tape_of(const piece *p, const bp_ref *tape, uint32_t layer)
{
    const uint64_t one = p->batch * p->width, states = (p->length + 1) * one;
    const bp_ref h = bp_ref_at(tape[STATES], layer * p->states * states);
    const bool lstm = p->cell == BP_CELL_LSTM;
    return (bp_recurrent_tape){
        .h = h,
        .c = lstm ? bp_ref_at(h, states) : BP_ABSENT,
        .gates = bp_ref_at(tape[GATES], layer * p->length * one * bp_cell_gates(p->cell)),
        .kept = lstm ? BP_ABSENT : bp_ref_at(tape[KEPT], layer * p->length * one)};
}

/* What a layer gives: its state after each step. */
static bp_ref output_of(const piece *p, const bp_ref *tape, uint32_t layer)
{
    return bp_ref_at(tape_of(p, tape, layer).h, p->batch * p->width);
}

static bp_ref embed(bp_emit *emit)
{
    const bp_embedding embedding = describe_embedding(emit);
    const bp_ref x = make(emit, BP_CLASS_WORKSPACE, emit->rows, embedding.width, "embedded");
    bp_embedding_forward(emit, &embedding, x);
    return x;
}

/* Runs all layers over a piece from a state, and fills the tape; x is the embedded ids. */
static void run_layers(bp_emit *emit, const piece *p, bp_ref x, bp_ref before, const bp_ref *tape)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        const bp_recurrent layer = describe_layer(emit, p, i);
        const bp_recurrent_state state = state_of(p, before, i);
        const bp_recurrent_tape own = tape_of(p, tape, i);
        bp_recurrent_forward(emit, &layer, x, &state, &own);
        x = output_of(p, tape, i);
    }
}

static void copy(bp_emit *emit, const piece *p, bp_ref x, bp_ref y)
{
    const bp_copy_scalars scalars = {.count = (int64_t)(p->batch * p->width)};
    const bp_copy_operands operands = {.y = y, .x = x};
    bp_emit_copy(emit, &operands, &scalars);
}

/* The last states of all layers, as the next stage's input. */
static bp_ref hand_on(bp_emit *emit, const piece *p, const bp_ref *tape)
{
    const uint64_t last = p->length * p->batch * p->width;
    const bp_ref to =
        make(emit, emit->output_class, p->layers * p->states * p->batch, p->width, "state");
    for (uint32_t i = 0; i < p->layers; i++) {
        const bp_recurrent_tape from = tape_of(p, tape, i);
        const bp_recurrent_state slot = state_of(p, to, i);
        copy(emit, p, bp_ref_at(from.h, last), slot.h);
        if (p->cell == BP_CELL_LSTM) {
            copy(emit, p, bp_ref_at(from.c, last), slot.c);
        }
    }
    return to;
}

static void forward(bp_emit *emit, bp_stage_call *call)
{
    piece p = enter(emit, call->stage);
    const bool train = emit->mode == BP_MODE_TRAIN;
    const bool keep = train && call->variant <= BP_RECOMPUTE_ALL;
    bp_ref tape[3];
    make_tape(emit, &p, keep ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE, tape);
    run_layers(emit, &p, embed(emit), call->input, tape);
    for (uint32_t i = 0; keep && i < 3; i++) {
        call->tape[i] = tape[i];
    }
    if (!train) {
        const bp_head head = describe_head(emit);
        emit->input[BP_INPUT_LABELS] = slice(emit, &p, emit->input[BP_INPUT_LABELS], "labels");
        bp_loss_forward(emit, &head, output_of(&p, tape, p.layers - 1));
    }
    const bool last = call->stage + 1 == stage_count(&emit->spec->config);
    call->output = last ? BP_ABSENT : hand_on(emit, &p, tape);
    leave(emit, &p);
}

/* The loss of the piece, and the gradient of what the last layer gave. */
static bp_ref backward_loss(bp_emit *emit, const piece *p, const bp_ref *tape)
{
    const bp_head head = describe_head(emit);
    const bp_ref d_y = make(emit, BP_CLASS_WORKSPACE, emit->rows, p->width, "d_loss");
    emit->input[BP_INPUT_LABELS] = slice(emit, p, emit->input[BP_INPUT_LABELS], "labels");
    bp_loss_backward(emit, &head, output_of(p, tape, p->layers - 1), d_y, BP_ABSENT);
    return d_y;
}

/* Backward through all layers; returns the gradient of the embedded ids, absent where the encoder
 * is frozen. */
static bp_ref back_layers(bp_emit *emit, const piece *p, bp_stage_call *call, bp_ref x,
                          const bp_ref *tape, bp_ref d_y)
{
    const bp_ref d_states =
        make(emit, BP_CLASS_WORKSPACE, p->layers * p->states * p->batch, p->width, "d_state");
    for (uint32_t i = p->layers; i-- > 0;) {
        const bp_recurrent layer = describe_layer(emit, p, i);
        const bp_recurrent_tape own = tape_of(p, tape, i);
        const bool wanted = i > 0 || bp_emit_trainable(emit, ENCODER);
        const bp_recurrent_backward_call back = {
            .x = i > 0 ? output_of(p, tape, i - 1) : x,
            .d_y = d_y,
            .d_after = state_of(p, call->d_output, i),
            .d_state = state_of(p, d_states, i),
            .d_state_wanted = call->input_wanted,
            .d_x = wanted ? make(emit, BP_CLASS_WORKSPACE, emit->rows, layer.input.in, "d_in")
                          : BP_ABSENT};
        bp_recurrent_backward(emit, &layer, &own, &back);
        d_y = back.d_x;
    }
    call->d_input = call->input_wanted ? d_states : BP_ABSENT;
    return d_y;
}

static void backward(bp_emit *emit, bp_stage_call *call)
{
    piece p = enter(emit, call->stage);
    bp_ref tape[3] = {call->tape[STATES], call->tape[GATES], call->tape[KEPT]};
    const bp_ref x = embed(emit);
    if (!bp_ref_present(tape[STATES])) {
        make_tape(emit, &p, BP_CLASS_WORKSPACE, tape);
        run_layers(emit, &p, x, call->input, tape);
    }
    const bp_ref d_y = backward_loss(emit, &p, tape);
    const bp_ref d_x = back_layers(emit, &p, call, x, tape, d_y);
    if (bp_ref_present(d_x)) {
        const bp_embedding embedding = describe_embedding(emit);
        bp_embedding_backward(emit, &embedding, d_x);
    }
    leave(emit, &p);
}

/* The state after the last row that counts goes on. */
static bp_ref pick(bp_emit *emit, const piece *p, bp_ref x, bp_ref y)
{
    const bp_pick_row_scalars scalars = {.rows = (int64_t)p->length, .width = (int64_t)p->width};
    const bp_pick_row_operands operands = {.y = y, .x = x, .step = emit->step};
    bp_emit_pick_row(emit, &operands, &scalars);
    return y;
}

/* All of it happens in the first stage: pieces of time are for training. */
static void decode(bp_emit *emit, bp_stage_call *call)
{
    call->output = BP_ABSENT;
    if (call->stage > 0) {
        return;
    }
    piece p = enter(emit, 0);
    bp_ref tape[3], top = BP_ABSENT;
    const bp_ref carried = bp_emit_carried(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit),
                                           p.layers * p.states, p.width, "state");
    make_tape(emit, &p, BP_CLASS_WORKSPACE, tape);
    run_layers(emit, &p, embed(emit), carried, tape);
    for (uint32_t i = 0; i < p.layers; i++) {
        const bp_recurrent_tape from = tape_of(&p, tape, i);
        const bp_recurrent_state slot = state_of(&p, carried, i);
        top = pick(emit, &p, bp_ref_at(from.h, p.width), slot.h);
        if (p.cell == BP_CELL_LSTM) {
            (void)pick(emit, &p, bp_ref_at(from.c, p.width), slot.c);
        }
    }
    const bp_head head = describe_head(emit);
    bp_head_logits(emit, &head, top);
    leave(emit, &p);
}

static bp_status check_ranges(const bp_model_config *config, bp_error *error)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    const bp_range counts[] = {{"vocab_size", config->vocabulary, 1, INT32_MAX},
                               {"hidden_size", own.width, 1, 1u << 20},
                               {"num_hidden_layers", own.layers, 1, 1u << 12},
                               {"embedding_size", own.embedding, 0, 1u << 20}};
    const bp_real_range reals[] = {{"dropout", own.dropout, 0.0, 1.0},
                                   {"initializer_range", own.initializer_range, 0.0, 1e6}};
    BP_TRY(bp_ranges_check(counts, 4, "rnn", error));
    return bp_real_ranges_check(reals, 2, "rnn", error);
}

static bp_status check(const bp_spec *spec, bp_error *error)
{
    static const char where[] = "rnn";
    const bp_model_config *config = &spec->config;
    const bp_rnn_config own = bp_rnn_config_of(config);
    BP_TRY(check_ranges(config, error));
    if (config->task != BP_TASK_CAUSAL_LM) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "this model is trained to guess the next token: its task is causal-lm",
                            "task");
    }
    if (own.chunks > spec->sequence) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "a sequence has fewer steps than it is to be cut into pieces",
                                "time-chunk", own.chunks, spec->sequence);
    }
    if (!own.untied && embedding_width(config) != own.width) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "tie_word_embeddings needs an embedding_size equal to hidden_size",
                                "embedding_size", own.embedding, own.width);
    }
    if (own.dropout > 0.0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "dropout is not implemented for this model; give --dropout 0",
                            "dropout");
    }
    if (spec->keep_logits) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "logits are made piece of time by piece of time and are not kept",
                            "keep-logits");
    }
    if (spec->lora.rank > 0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "adapters are not implemented for this model", "lora-r");
    }
    return BP_OK;
}

const bp_model bp_model_rnn = {.name = "rnn",
                               .check = check,
                               .inputs = bp_inputs_windows,
                               .stages = stage_count,
                               .stage_name = stage_name,
                               .variants = variants,
                               .parameters = parameters,
                               .parameter_count = parameter_count,
                               .forward = forward,
                               .backward = backward,
                               .decode = decode};
