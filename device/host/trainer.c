/* SPDX-License-Identifier: MIT */
/* What walks the tables of a trainer. */
#include "device/host/trainer.h"

#include <string.h>

#include "core/base/dtype.h"
#include "core/base/fused.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"

bp_status bp_trainer_open(bp_trainer *trainer, const bp_trainer_plan *plan, void *arena,
                          uint64_t bytes)
{
    if (plan == NULL || arena == NULL || (uintptr_t)arena % sizeof(uint64_t) != 0) {
        return BP_ERR_USAGE;
    }
    if (bytes < plan->arena_bytes) {
        return BP_ERR_FIT;
    }
    if (bp_fused_fault() != NULL) {
        return BP_ERR_DEVICE;
    }
    *trainer = (bp_trainer){.plan = plan, .arena = arena};
    memset(arena, 0, plan->arena_bytes);
    return BP_OK;
}

#define EXPONENT 0x7f800000 /* all ones in a float that is not finite */

/* Frozen weights lie behind the arena's end; nothing writes there. */
static unsigned char *at_offset(const bp_trainer *trainer, uint32_t offset)
{
    const bp_trainer_plan *plan = trainer->plan;
    return offset < plan->arena_bytes
               ? trainer->arena + offset
               : (unsigned char *)(uintptr_t)plan->frozen + (offset - plan->arena_bytes);
}

/* Every tuple of an op, whose operands become addresses on the way. */
static void run_op(const bp_trainer *trainer, const bp_trainer_op *op)
{
    const uint32_t *offset = op->offsets;
    const uint64_t *scalars = op->scalars;
    const uint8_t *dtypes = op->dtypes;
    for (uint32_t t = 0; t < op->tuples; t++) {
        void *pointers[BP_OPERANDS_MAX];
        for (uint32_t i = 0; i < op->operands; i++) {
            pointers[i] = offset[i] != BP_TRAINER_ABSENT ? at_offset(trainer, offset[i]) : NULL;
        }
        const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
        op->form->run(&call, 0, op->form->tasks(scalars), 0);
        offset += op->operands;
        dtypes += op->operands;
        scalars += op->scalar_count;
    }
}

static void run_program(const bp_trainer *trainer, bp_trainer_program program)
{
    const bp_trainer_plan *plan = trainer->plan;
    for (uint32_t i = 0; i < plan->count[program]; i++) {
        run_op(trainer, &plan->ops[plan->first[program] + i]);
    }
}

static void put_block(const bp_trainer *trainer, const bp_step_block *block)
{
    memcpy(trainer->arena + trainer->plan->step, block, sizeof *block);
}

bp_status bp_trainer_initialize(bp_trainer *trainer)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL) {
        return BP_ERR_USAGE;
    }
    bp_control_block *control = (void *)(trainer->arena + plan->control);
    const bp_step_block block = {.seed = plan->seed};
    for (uint32_t i = 0; i < plan->state_count; i++) {
        if (plan->state[i].offset < plan->arena_bytes) {
            memset(trainer->arena + plan->state[i].offset, 0, plan->state[i].bytes);
        }
    }
    *control = (bp_control_block){.scale = plan->scale};
    for (uint32_t i = 0; i < plan->ones_count; i++) {
        const bp_trainer_fill *fill = &plan->ones[i];
        for (uint32_t at = 0; at < fill->bytes; at += 2) {
            memcpy(trainer->arena + fill->offset + at,
                   (const unsigned char *)&fill->pattern + at % sizeof fill->pattern, 2);
        }
    }
    trainer->steps = 0;
    trainer->position = 0;
    put_block(trainer, &block);
    run_program(trainer, BP_TRAINER_INITIALIZE);
    return BP_OK;
}

void *bp_trainer_column(const bp_trainer *trainer, uint32_t input)
{
    if (trainer->plan == NULL || input >= trainer->plan->inputs) {
        return NULL;
    }
    return trainer->arena + trainer->plan->step + trainer->plan->input[input].offset;
}

/* Whether elements of an input are what kernels may read: rows of their tables, finite numbers. */
static bp_status check_elements(const bp_trainer_input *input, const int32_t *at, size_t count)
{
    for (; count > 0; count--, at++) {
        const bool integer =
            input->below == 0 || ((uint32_t)*at < input->below) || (*at < 0 && input->negative);
        const bool finite = !input->real || (*at & EXPONENT) != EXPONENT;
        if (!integer || !finite) {
            return BP_ERR_DATA;
        }
    }
    return BP_OK;
}

/* Whether so many samples are there, and may be read. */
static bp_status check_batch(const bp_trainer *trainer, const bp_trainer_batch *batch,
                             size_t samples)
{
    const bp_trainer_input *input = trainer->plan->input;
    for (uint32_t i = 0; i < trainer->plan->inputs; i++, input++) {
        if (batch->column[i] == NULL) {
            return BP_ERR_USAGE;
        }
        BP_TRY(check_elements(input, batch->column[i], samples * input->elements));
    }
    return BP_OK;
}

/* The step block and micro-batch number `micro`, of so many samples. */
static void send(const bp_trainer *trainer, const bp_step_block *block,
                 const bp_trainer_batch *batch, uint32_t micro, uint32_t samples)
{
    const bp_trainer_plan *plan = trainer->plan;
    put_block(trainer, block);
    for (uint32_t i = 0; i < plan->inputs; i++) {
        const size_t bytes = (size_t)samples * plan->input[i].elements * 4;
        const unsigned char *from = (const unsigned char *)batch->column[i] + micro * bytes;
        void *to = bp_trainer_column(trainer, i);
        if (from != to) {
            memcpy(to, from, bytes);
        }
    }
}

/* What the programs of a step leave: a buffer of the arena, aligned as all of them are. */
static const bp_result_block *result_of(const bp_trainer *trainer)
{
    return (const void *)(trainer->arena + trainer->plan->result);
}

/* Samples that are compared with each other: each weighs 1 with all texts beside it. */
static uint32_t trainer_samples(const bp_trainer_plan *plan, const bp_trainer_batch *batch)
{
    return plan->texts > 0 ? plan->texts * (uint32_t)batch->weight : 0;
}

/* A step that has targets; the whole of it is one program, or it goes micro-batch by micro-batch.
 */
static void run_step(const bp_trainer *trainer, const bp_trainer_batch *batch,
                     bp_trainer_outcome *outcome)
{
    const bp_trainer_plan *plan = trainer->plan;
    const bool whole = plan->count[BP_TRAINER_STEP] > 0;
    const double rate = plan->rate != NULL ? plan->rate(&plan->rate_options, trainer->steps)
                                           : plan->rate_options.learning_rate;
    bp_step_block block = {.seed = plan->seed,
                           .step = trainer->steps,
                           .learning_rate = (float)rate,
                           .inverse_valid = (float)(1.0 / batch->weight),
                           .inverse_micros = 1.0f / (float)batch->micros,
                           .samples = trainer_samples(plan, batch)};
    const bp_result_block *result = result_of(trainer);
    for (uint32_t micro = 0; micro < batch->micros; micro++) {
        block.sample = micro * plan->batch;
        send(trainer, &block, batch, micro, plan->batch);
        run_program(trainer, whole        ? BP_TRAINER_STEP
                             : micro == 0 ? BP_TRAINER_FIRST
                                          : BP_TRAINER_NEXT);
    }
    if (!whole) {
        run_program(trainer, BP_TRAINER_UPDATE);
    }
    outcome->loss = result->loss_sum / batch->weight;
    outcome->norm = (double)result->norm;
    outcome->skipped = result->skip != 0;
}

/* From 0 to below 2^32, by its bits: 16 bytes less than comparisons on a Cortex-M7. */
static bool is_weight(double weight)
{
    uint64_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> 52 < 0x41f;
}

bp_status bp_trainer_step(bp_trainer *trainer, const bp_trainer_batch *batch,
                          bp_trainer_outcome *outcome)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || batch == NULL || outcome == NULL || !is_weight(batch->weight)) {
        return BP_ERR_USAGE;
    }
    *outcome = (bp_trainer_outcome){.step = trainer->steps + 1};
    if (batch->weight > 0.0) {
        if (batch->micros - 1u >= plan->micros) { /* none, or too many */
            return BP_ERR_USAGE;
        }
        BP_TRY(check_batch(trainer, batch, (size_t)batch->micros * plan->batch));
        trainer->position = 0;
        run_step(trainer, batch, outcome);
    }
    trainer->steps++;
    return BP_OK;
}

bp_status bp_trainer_evaluate(bp_trainer *trainer, const bp_trainer_batch *batch, double *loss)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || plan->count[BP_TRAINER_EVALUATE] == 0 || batch == NULL || loss == NULL ||
        (plan->texts > 0 && !is_weight(batch->weight))) {
        return BP_ERR_USAGE;
    }
    BP_TRY(check_batch(trainer, batch, plan->evaluated));
    const bp_step_block block = {
        .seed = plan->seed, .inverse_valid = 1.0f, .samples = trainer_samples(plan, batch)};
    trainer->position = 0;
    send(trainer, &block, batch, 0, plan->evaluated);
    run_program(trainer, BP_TRAINER_EVALUATE);
    *loss = result_of(trainer)->loss_sum;
    return BP_OK;
}

/* Element t of an input of a sample of n tokens or numbers, as the feed fills columns
 * (core/run/feed.c); *last counts positions. */
static int32_t sample_element(const bp_trainer_input *input, const int32_t *sample, uint32_t t,
                              uint32_t n, int32_t *last)
{
    if (t >= n) {
        return input->fill;
    }
    switch ((bp_input_from)input->from) {
    case BP_INPUT_IDS:
        return sample[t];
    case BP_INPUT_LENGTHS:
        return t == 0 ? (int32_t)n : input->fill;
    case BP_INPUT_EXTENTS:
        return (int32_t)n;
    case BP_INPUT_STARTS:
        return 0;
    case BP_INPUT_DOCUMENT_POSITIONS:
        return (int32_t)t;
    case BP_INPUT_POSITIONS:
        return sample[t] != input->fill ? ++*last : input->fill;
    default:
        return input->fill; /* no targets, one text */
    }
}

/* Number `s` of a run's samples in the arena, with its label unless that is NULL; n = 0: nothing is
 * in its place. */
static void send_sample(const bp_trainer *trainer, uint32_t s, const int32_t *sample, uint32_t n,
                        const int32_t *label)
{
    const bp_trainer_input *input = trainer->plan->input;
    for (uint32_t i = trainer->plan->inputs; i-- > 0;) { /* the sample may lie in the first */
        int32_t *to = (int32_t *)bp_trainer_column(trainer, i) + (size_t)s * input[i].elements;
        int32_t last = input[i].fill;
        for (uint32_t t = 0; t < input[i].elements; t++) {
            to[t] = sample_element(&input[i], sample, t, n, &last);
        }
        if (label != NULL && input[i].from == BP_INPUT_LABELS) {
            to[0] = *label;
        }
    }
}

/* Whether a sample of so many elements can be read. */
static bp_status check_sample(const bp_trainer_plan *plan, const void *sample, uint32_t elements)
{
    const bp_trainer_input *input = &plan->input[0];
    if (sample == NULL || elements == 0 || elements > input->elements ||
        (input->real && elements != input->elements)) {
        return BP_ERR_USAGE;
    }
    return check_elements(input, sample, elements);
}

static float widened(bp_dtype dtype, const unsigned char *from)
{
    uint16_t bits;
    float value;
    if (dtype == BP_F32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&bits, from, sizeof bits);
    return dtype == BP_BF16 ? bp_f32_from_bf16(bits) : bp_f32_from_f16(bits);
}

bp_status bp_trainer_predict(bp_trainer *trainer, const void *sample, uint32_t elements,
                             float *outputs, uint32_t count)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || plan->outputs.width == 0 || outputs == NULL ||
        count != plan->outputs.rows * plan->outputs.width) {
        return BP_ERR_USAGE;
    }
    BP_TRY(check_sample(plan, sample, elements));
    const bp_step_block block = {.seed = plan->seed, .inverse_valid = 1.0f};
    const unsigned char *from = trainer->arena + plan->outputs.offset;
    trainer->position = 0;
    send_sample(trainer, 0, sample, elements, NULL);
    for (uint32_t i = 1; i < plan->evaluated; i++) {
        send_sample(trainer, i, NULL, 0, NULL);
    }
    put_block(trainer, &block);
    run_program(trainer, BP_TRAINER_EVALUATE);
    for (uint32_t i = 0; i < count; i++) {
        outputs[i] = widened(plan->outputs.dtype, from + i * bp_dtype_bytes(plan->outputs.dtype));
    }
    return BP_OK;
}

bp_status bp_trainer_place(bp_trainer *trainer, uint32_t number, const void *sample,
                           uint32_t elements, int32_t label)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || plan->micros != 1 || number >= plan->batch) {
        return BP_ERR_USAGE;
    }
    BP_TRY(check_sample(plan, sample, elements));
    for (uint32_t i = 0; i < plan->inputs; i++) {
        if (plan->input[i].from == BP_INPUT_LABELS) {
            BP_TRY(check_elements(&plan->input[i], &label, 1));
        }
    }
    trainer->position = 0;
    send_sample(trainer, number, sample, elements, &label);
    return BP_OK;
}

bp_status bp_trainer_learn(bp_trainer *trainer, uint32_t samples, bp_trainer_outcome *outcome)
{
    const bp_trainer_plan *plan = trainer->plan;
    bp_trainer_batch batch = {.micros = 1, .weight = samples};
    if (plan == NULL || plan->micros != 1 || samples == 0 || samples > plan->batch ||
        outcome == NULL) {
        return BP_ERR_USAGE;
    }
    for (uint32_t i = samples; i < plan->batch; i++) {
        send_sample(trainer, i, NULL, 0, NULL);
    }
    for (uint32_t i = 0; i < plan->inputs; i++) {
        batch.column[i] = bp_trainer_column(trainer, i);
    }
    return bp_trainer_step(trainer, &batch, outcome);
}

bp_status bp_trainer_class(const float *outputs, uint32_t count, uint32_t *best)
{
    const bp_trainer_input number = {.real = true};
    uint32_t found = 0;
    if (outputs == NULL || best == NULL || count == 0) {
        return BP_ERR_USAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &outputs[i], sizeof bits);
        if (check_elements(&number, &bits, 1) != BP_OK) {
            return BP_ERR_NONFINITE;
        }
        found = outputs[i] > outputs[found] ? i : found;
    }
    *best = found;
    return BP_OK;
}

/* One run over `tokens` ids: prefill takes several with padding, decode one. */
static const float *read_tokens(bp_trainer *trainer, const int32_t *ids, uint32_t tokens)
{
    const bp_trainer_plan *plan = trainer->plan;
    const bp_trainer_decoding *decoding = &plan->decoding;
    const bool prefills = tokens > 1 || (trainer->position == 0 && decoding->prefills);
    const bp_step_block block = {
        .seed = plan->seed, .position = trainer->position, .last_row = prefills ? tokens - 1 : 0};
    put_block(trainer, &block);
    for (uint32_t i = 0; i < plan->inputs; i++) {
        int32_t *to = bp_trainer_column(trainer, i);
        for (uint32_t t = 0; plan->input[i].decodes && t < (prefills ? decoding->prefill : 1);
             t++) {
            const bool extent = plan->input[i].from == BP_INPUT_EXTENTS;
            to[t] = extent ? (int32_t)(trainer->position + tokens) : t < tokens ? ids[t] : 0;
        }
    }
    run_program(trainer, prefills ? BP_TRAINER_PREFILL : BP_TRAINER_DECODE);
    trainer->position += tokens;
    return (const void *)(trainer->arena + (prefills ? decoding->prefilled : decoding->decoded));
}

void bp_trainer_restart(bp_trainer *trainer)
{
    trainer->position = 0;
}

bp_status bp_trainer_accept(bp_trainer *trainer, const int32_t *ids, uint32_t count,
                            const float **logits)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || plan->decoding.context == 0 || count == 0 || ids == NULL ||
        logits == NULL) {
        return BP_ERR_USAGE;
    }
    if (count > plan->decoding.context - trainer->position) {
        return BP_ERR_FIT;
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((uint32_t)ids[i] >= plan->decoding.vocabulary) {
            return BP_ERR_DATA;
        }
    }
    for (uint32_t done = 0, some; done < count; done += some) {
        const uint32_t left = count - done;
        some = left < plan->decoding.prefill ? left : plan->decoding.prefill;
        *logits = read_tokens(trainer, ids + done, some);
    }
    return BP_OK;
}

bp_status bp_trainer_generate(bp_trainer *trainer, const int32_t *prompt, uint32_t count,
                              int32_t *to, uint32_t most, bp_trainer_chooser choose, void *user)
{
    const bp_trainer_plan *plan = trainer->plan;
    const float *logits = NULL;
    if (plan == NULL || plan->decoding.context == 0 || (to == NULL && most > 0)) {
        return BP_ERR_USAGE;
    }
    if (count > plan->decoding.context || most > plan->decoding.context - count) {
        return BP_ERR_FIT;
    }
    bp_trainer_restart(trainer);
    BP_TRY(bp_trainer_accept(trainer, prompt, count, &logits));
    for (uint32_t i = 0; i < most; i++) {
        uint32_t next;
        BP_TRY(bp_trainer_class(logits, plan->decoding.vocabulary, &next));
        next = choose != NULL ? choose(user, logits, plan->decoding.vocabulary) : next;
        to[i] = (int32_t)next;
        if (i + 1 < most) {
            BP_TRY(bp_trainer_accept(trainer, &to[i], 1, &logits));
        }
    }
    return BP_OK;
}

uint64_t bp_trainer_state_bytes(const bp_trainer *trainer)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; trainer->plan != NULL && i < trainer->plan->state_count; i++) {
        bytes += trainer->plan->state[i].bytes;
    }
    return bytes;
}

/* Puts bytes of a row of the state in place; frozen ones are there already. */
static bp_status put_state(const bp_trainer *trainer, const bp_trainer_range *row, uint32_t offset,
                           const void *from, size_t bytes)
{
    unsigned char *to = at_offset(trainer, row->offset) + offset;
    if (row->offset >= trainer->plan->arena_bytes) {
        return memcmp(to, from, bytes) == 0 ? BP_OK : BP_ERR_DATA;
    }
    memcpy(to, from, bytes);
    return BP_OK;
}

/* Copies [offset, offset + bytes) of the state, row by row; `to` or `from` is NULL. */
static bp_status copy_state(const bp_trainer *trainer, uint64_t offset, unsigned char *to,
                            const unsigned char *from, size_t bytes)
{
    if (trainer->plan == NULL) {
        return BP_ERR_USAGE;
    }
    for (uint32_t i = 0; i < trainer->plan->state_count && bytes > 0; i++) {
        const bp_trainer_range *row = &trainer->plan->state[i];
        if (offset >= row->bytes) {
            offset -= row->bytes;
            continue;
        }
        const size_t left = row->bytes - (size_t)offset, piece = bytes < left ? bytes : left;
        if (to != NULL) {
            memcpy(to, at_offset(trainer, row->offset) + offset, piece);
            to += piece;
        } else {
            BP_TRY(put_state(trainer, row, (uint32_t)offset, from, piece));
            from += piece;
        }
        bytes -= piece;
        offset = 0;
    }
    return bytes == 0 ? BP_OK : BP_ERR_USAGE;
}

bp_status bp_trainer_read_state(const bp_trainer *trainer, uint64_t offset, void *to, size_t bytes)
{
    return to == NULL && bytes > 0 ? BP_ERR_USAGE : copy_state(trainer, offset, to, NULL, bytes);
}

bp_status bp_trainer_write_state(bp_trainer *trainer, uint64_t offset, const void *from,
                                 size_t bytes)
{
    return from == NULL && bytes > 0 ? BP_ERR_USAGE
                                     : copy_state(trainer, offset, NULL, from, bytes);
}

/* Whether bytes of a tensor are in the state. */
static bool reaches(const bp_trainer *trainer, uint64_t handle, uint64_t offset, size_t bytes)
{
    return trainer->plan != NULL && handle < trainer->plan->state_count &&
           bp_size_add(offset, bytes) <= trainer->plan->state[handle].bytes;
}

static bp_status read_tensor(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    const bp_trainer *trainer = user;
    if (!reaches(trainer, handle, offset, bytes)) {
        return BP_ERR_USAGE;
    }
    memcpy(to, at_offset(trainer, trainer->plan->state[handle].offset) + offset, bytes);
    return BP_OK;
}

static bp_status write_tensor(void *user, uint64_t handle, uint64_t offset, const void *from,
                              size_t bytes)
{
    const bp_trainer *trainer = user;
    if (!reaches(trainer, handle, offset, bytes)) {
        return BP_ERR_USAGE;
    }
    return put_state(trainer, &trainer->plan->state[handle], (uint32_t)offset, from, bytes);
}

bp_state_io bp_trainer_state_io(bp_trainer *trainer)
{
    return (bp_state_io){trainer, read_tensor, write_tensor};
}

/* The tensor of that name and size; NULL: there is none, or nothing is at `bytes_at`. */
static const bp_state_tensor *named(const bp_trainer *trainer, const bp_state_tensor *tensors,
                                    const char *name, const void *bytes_at, size_t bytes)
{
    const bool given = tensors != NULL && name != NULL && bytes_at != NULL;
    const uint32_t count = given && trainer->plan != NULL ? trainer->plan->state_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(tensors[i].name, name) == 0) {
            return tensors[i].bytes == bytes ? &tensors[i] : NULL;
        }
    }
    return NULL;
}

bp_status bp_trainer_get(const bp_trainer *trainer, const bp_state_tensor *tensors,
                         const char *name, void *to, size_t bytes)
{
    const bp_state_tensor *tensor = named(trainer, tensors, name, to, bytes);
    if (tensor == NULL) {
        return BP_ERR_USAGE;
    }
    return read_tensor((void *)(uintptr_t)trainer, tensor->handle, 0, to, bytes);
}

/* Whether floats of 16 bits are finite: in none of them all bits of the exponent are ones. */
static bool finite_halves(const unsigned char *at, size_t bytes, uint32_t exponent)
{
    bool finite = true;
    for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
        finite = finite && (((uint32_t)at[i + 1] << 8 | at[i]) & exponent) != exponent;
    }
    return finite;
}

static bool finite_tensor(bp_dtype dtype, const void *from, size_t bytes)
{
    const bp_trainer_input number = {.real = true};
    switch (dtype) {
    case BP_F32:
        return check_elements(&number, from, bytes / sizeof(float)) == BP_OK;
    case BP_BF16:
        return finite_halves(from, bytes, 0x7f80);
    case BP_F16:
        return finite_halves(from, bytes, 0x7c00);
    default:
        return true; /* codes, counts */
    }
}

bp_status bp_trainer_put(bp_trainer *trainer, const bp_state_tensor *tensors, const char *name,
                         const void *from, size_t bytes)
{
    const bp_state_tensor *tensor = named(trainer, tensors, name, from, bytes);
    if (tensor == NULL) {
        return BP_ERR_USAGE;
    }
    if (!finite_tensor(tensor->dtype, from, bytes)) {
        return BP_ERR_DATA;
    }
    return write_tensor(trainer, tensor->handle, 0, from, bytes);
}
