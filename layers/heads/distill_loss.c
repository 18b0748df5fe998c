/* SPDX-License-Identifier: MIT */
/* A teacher's part of the loss as ops. */
#include "layers/heads/distill_loss.h"

bool bp_distills(const bp_builder *builder)
{
    return builder->spec->distill.top_k > 0 && !builder->spec->distill.is_teacher;
}

/* What the teacher says of the rows. */
static bp_ref distill_words(const bp_builder *builder, const bp_distill_rows *rows,
                            bp_input_from from)
{
    return bp_ref_at(builder->input[from], rows->first * builder->spec->distill.top_k);
}

static int64_t distill_scaled(const bp_builder *builder)
{
    return builder->spec->scaling.kind != BP_SCALING_OFF ? 1 : 0;
}

void bp_distill_loss_build(bp_builder *builder, const bp_distill_rows *rows)
{
    const bp_distill *d = &builder->spec->distill;
    const bp_distill_scalars scalars = {.rows = (int64_t)rows->rows,
                                        .vocabulary = (int64_t)rows->columns,
                                        .pitch = (int64_t)rows->pitch,
                                        .scaled = distill_scaled(builder),
                                        .stride = (int64_t)builder->rows,
                                        .k = (int64_t)d->top_k,
                                        .alpha = d->alpha,
                                        .temperature = d->temperature};
    const bp_distill_operands operands = {.logits = rows->logits,
                                          .losses = rows->losses,
                                          .labels = rows->labels,
                                          .tops = distill_words(builder, rows, BP_INPUT_TOPS),
                                          .logps = distill_words(builder, rows, BP_INPUT_LOGPS),
                                          .step = builder->step,
                                          .control = bp_build_loss_control(builder),
                                          .statistics = rows->statistics};
    bp_build_distill(builder, &operands, &scalars);
}

void bp_distill_loss_columns(bp_builder *builder, const bp_distill_rows *rows)
{
    const bp_distill *d = &builder->spec->distill;
    const bp_distill_columns_scalars scalars = {.rows = (int64_t)rows->rows,
                                                .columns = (int64_t)rows->columns,
                                                .pitch = (int64_t)rows->pitch,
                                                .first = (int64_t)rows->column,
                                                .scaled = distill_scaled(builder),
                                                .stride = (int64_t)builder->rows,
                                                .k = (int64_t)d->top_k,
                                                .alpha = d->alpha,
                                                .temperature = d->temperature};
    const bp_distill_columns_operands operands = {
        .logits = rows->logits,
        .labels = rows->labels,
        .tops = distill_words(builder, rows, BP_INPUT_TOPS),
        .logps = distill_words(builder, rows, BP_INPUT_LOGPS),
        .statistics = rows->statistics,
        .step = builder->step,
        .control = bp_build_loss_control(builder)};
    bp_build_distill_columns(builder, &operands, &scalars);
}

/* Of rows of one sample. */
static void say_part(bp_builder *builder, const bp_distill_rows *all, uint64_t first, uint64_t rows)
{
    const uint64_t k = builder->spec->distill.top_k, sequence = builder->spec->sequence;
    const uint64_t at = (first / sequence * 2 * sequence + first % sequence) * k;
    const bp_ref tops = {builder->logits.buffer, BP_I32, builder->logits.offset};
    const bp_top_logits_scalars scalars = {.rows = (int64_t)rows,
                                           .vocabulary = (int64_t)all->columns,
                                           .pitch = (int64_t)all->pitch,
                                           .k = (int64_t)k};
    const bp_top_logits_operands operands = {
        .logits = bp_ref_at(all->logits, (first - all->first) * all->pitch),
        .tops = bp_ref_at(tops, at),
        .logps = bp_ref_at(builder->logits, at + sequence * k)};
    bp_build_top_logits(builder, &operands, &scalars);
}

void bp_distill_loss_report(bp_builder *builder, const bp_distill_rows *rows)
{
    const uint64_t sequence = builder->spec->sequence, end = rows->first + rows->rows;
    for (uint64_t first = rows->first, some; first < end; first += some) {
        const uint64_t left = sequence - first % sequence;
        some = left < end - first ? left : end - first;
        say_part(builder, rows, first, some);
    }
}
