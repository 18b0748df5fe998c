/* SPDX-License-Identifier: MIT */
/* What walks the tables of a trainer. */
#include "device/host/trainer.h"

#include <string.h>

#include "core/base/fused.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"

bp_status bp_trainer_open(bp_trainer *trainer, const bp_trainer_plan *plan, void *arena,
                          uint64_t bytes)
{
    if (bytes < plan->arena_bytes) {
        return BP_ERR_FIT;
    }
    if ((uintptr_t)arena % sizeof(uint64_t) != 0) {
        return BP_ERR_USAGE;
    }
    if (bp_fused_fault() != NULL) {
        return BP_ERR_DEVICE;
    }
    *trainer = (bp_trainer){plan, arena, 0};
    memset(arena, 0, plan->arena_bytes);
    return BP_OK;
}

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
        const bp_host_call call = {pointers, scalars, dtypes, NULL};
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

/* Whether so many samples are there, with no integer that kernels may not read as a row of a table.
 */
static bp_status check_batch(const bp_trainer *trainer, const bp_trainer_batch *batch,
                             size_t samples)
{
    const bp_trainer_input *input = trainer->plan->input;
    for (uint32_t i = 0; i < trainer->plan->inputs; i++, input++) {
        const int32_t *at = batch->column[i];
        if (at == NULL) {
            return BP_ERR_USAGE;
        }
        for (size_t left = samples * input->elements; input->below > 0 && left > 0; left--, at++) {
            if (*at < 0 ? !input->negative : (uint32_t)*at >= input->below) {
                return BP_ERR_DATA;
            }
        }
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
                           .inverse_valid = (float)(1.0 / batch->weight)};
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

bp_status bp_trainer_step(bp_trainer *trainer, const bp_trainer_batch *batch,
                          bp_trainer_outcome *outcome)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL) {
        return BP_ERR_USAGE;
    }
    *outcome = (bp_trainer_outcome){.step = trainer->steps + 1};
    if (batch->weight > 0.0) {
        if (batch->micros - 1u >= plan->micros) { /* none, or too many */
            return BP_ERR_USAGE;
        }
        BP_TRY(check_batch(trainer, batch, (size_t)batch->micros * plan->batch));
        run_step(trainer, batch, outcome);
    }
    trainer->steps++;
    return BP_OK;
}

bp_status bp_trainer_evaluate(bp_trainer *trainer, const bp_trainer_batch *batch, double *loss)
{
    const bp_trainer_plan *plan = trainer->plan;
    if (plan == NULL || plan->count[BP_TRAINER_EVALUATE] == 0) {
        return BP_ERR_USAGE;
    }
    BP_TRY(check_batch(trainer, batch, plan->evaluated));
    const bp_step_block block = {.seed = plan->seed, .inverse_valid = 1.0f};
    send(trainer, &block, batch, 0, plan->evaluated);
    run_program(trainer, BP_TRAINER_EVALUATE);
    *loss = result_of(trainer)->loss_sum;
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
    return copy_state(trainer, offset, to, NULL, bytes);
}

bp_status bp_trainer_write_state(bp_trainer *trainer, uint64_t offset, const void *from,
                                 size_t bytes)
{
    return copy_state(trainer, offset, NULL, from, bytes);
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
