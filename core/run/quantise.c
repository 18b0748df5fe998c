/* SPDX-License-Identifier: MIT */
/* Weights on their way into codes, through the runtime's transfer piece. */
#include <string.h>

#include "core/ops/block_write.h"
#include "core/ops/convert.h"
#include "core/run/runtime.h"

#define PIECE     32768 /* elements at once: whole blocks, whatever their size */
#define ROW_PIECE 1024  /* of one row */

static const char where[] = "quantise";

/* A parameter with its buffers, and the halves of the transfer piece. */
typedef struct quantise_context {
    bp_runtime *runtime;
    bp_quantiser *q; /* the runtime's */
    const bp_parameter *parameter;
    const bp_buffer *codes;
    const bp_buffer *scales;
    const bp_buffer *nested; /* NULL: none */
    uint64_t columns;
    uint64_t each; /* elements of a matrix */
    uint8_t *packed;
    float *floats;
} quantise_context;

static quantise_context context_of(bp_runtime *runtime, uint32_t parameter)
{
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    const bp_matrices matrices = bp_build_matrices(&runtime->plan->spec, p);
    const bp_buffer *buffers = runtime->plan->graph.buffers;
    return (quantise_context){.runtime = runtime,
                              .q = &runtime->quantiser,
                              .parameter = p,
                              .codes = &buffers[p->weight],
                              .scales = &buffers[p->scales],
                              .nested = p->nested != BP_NO_BUFFER ? &buffers[p->nested] : NULL,
                              .columns = matrices.in,
                              .each = matrices.in * matrices.out,
                              .packed = runtime->transfer,
                              .floats =
                                  (float *)(void *)(runtime->transfer + BP_TRANSFER_BYTES / 2)};
}

/* Whole blocks, by the device if it can. */
static void fill_blocks(const quantise_context *context, const float *values, uint64_t blocks,
                        float *scales, uint8_t *codes)
{
    const bp_device *device = context->runtime->plan->spec.device;
    if (device->four_blocks != NULL) {
        device->four_blocks(context->runtime->device, context->parameter->quantised, values, blocks,
                            scales, codes);
    } else {
        bp_four_blocks(context->parameter->quantised, values, blocks, scales, codes);
    }
}

/* Elements that share a scale. */
static uint64_t block_of(const quantise_context *context)
{
    return bp_quantised_block(context->parameter->quantised);
}

/* Where codes are made: in their place, or where that cannot be reached on the desk. */
static uint8_t *codes_room(const quantise_context *context, uint64_t offset, uint64_t bytes)
{
    const bool whole = context->codes->part.whole == 0;
    uint8_t *place =
        whole ? bp_runtime_reach(context->runtime, context->codes, offset, bytes, 1) : NULL;
    return place != NULL ? place : context->packed;
}

static bp_status put_codes(const quantise_context *context, uint64_t offset, const uint8_t *codes,
                           uint64_t bytes)
{
    return codes != context->packed ? BP_OK
                                    : bp_runtime_write_gathered(context->runtime, context->codes,
                                                                offset, codes, (size_t)bytes);
}

/* Blocks in 4 bits: codes go out, scales to desk->floats. */
static bp_status put_blocks(quantise_context *context, uint64_t first, const float *values,
                            uint64_t count)
{
    const bp_quantised form = context->parameter->quantised;
    const uint64_t bytes = bp_quantised_codes(count, form), block = block_of(context);
    const uint64_t whole = count / block, rest = count % block;
    uint8_t *packed = codes_room(context, first / 2, bytes);
    fill_blocks(context, values, whole, context->floats, packed);
    if (rest != 0) {
        context->floats[whole] =
            bp_four_block(form, values + count - rest, rest, packed + whole * (block / 2));
    }
    return put_codes(context, first / 2, packed, bytes);
}

static bp_status quantise_four(quantise_context *context, uint64_t first, const float *values,
                               uint64_t count)
{
    const uint64_t block = block_of(context);
    BP_TRY(put_blocks(context, first, values, count));
    return bp_runtime_write(context->runtime, context->scales, first / block * sizeof(float),
                            context->floats,
                            (size_t)bp_size_ceil_div(count, block) * sizeof(float));
}

/* Where the nested scales of the matrix of an element begin, in bytes. */
static uint64_t nested_at(const quantise_context *context, uint64_t element)
{
    return element / context->each *
           bp_quantised_nested(context->each, context->parameter->quantised) * sizeof(float);
}

/* First pass: the mean of all scales of a matrix is their offset. */
static bp_status measure_scales(quantise_context *context, uint64_t first, const float *values,
                                uint64_t count)
{
    bp_quantiser *q = context->q;
    const uint64_t block = block_of(context);
    if (first % context->each == 0) {
        bp_cascade_begin(&q->sum, bp_size_ceil_div(context->each, block));
    }
    const uint64_t whole = count / block, rest = count % block;
    fill_blocks(context, values, whole, context->floats, NULL);
    for (uint64_t b = 0; b < whole; b++) {
        bp_cascade_add(&q->sum, context->floats[b]);
    }
    if (rest != 0) {
        bp_cascade_add(&q->sum,
                       bp_four_scale(context->parameter->quantised, values + count - rest, rest));
    }
    if ((first + count) % context->each != 0) {
        return BP_OK;
    }
    context->floats[0] = bp_cascade_mean(&q->sum);
    memcpy(context->floats + BP_NESTED_MAP, bp_nested_map, sizeof bp_nested_map);
    return bp_runtime_write(context->runtime, context->nested, nested_at(context, first),
                            context->floats, BP_NESTED_SCALES * sizeof(float));
}

/* The scales that were kept, the last of which is of the block of that element. */
static bp_status put_scales(quantise_context *context, uint64_t element)
{
    bp_quantiser *q = context->q;
    const uint64_t last = element / block_of(context);
    const uint64_t group = element % context->each / block_of(context) / BP_NESTED_BLOCK;
    uint8_t codes[BP_NESTED_BLOCK];
    float scale = bp_nested_block(q->scales, q->kept, q->offset, codes);
    BP_TRY(bp_runtime_write(context->runtime, context->scales, last + 1 - q->kept, codes, q->kept));
    q->kept = 0;
    return bp_runtime_write(context->runtime, context->nested,
                            nested_at(context, element) +
                                (BP_NESTED_SCALES + group) * sizeof(float),
                            &scale, sizeof scale);
}

/* Second pass: scales wait until there are 256 of them. */
static bp_status quantise_double(quantise_context *context, uint64_t first, const float *values,
                                 uint64_t count)
{
    bp_quantiser *q = context->q;
    const uint64_t block = block_of(context);
    if (first % context->each == 0) {
        q->kept = 0;
        BP_TRY(bp_runtime_read(context->runtime, context->nested, nested_at(context, first),
                               &q->offset, sizeof q->offset));
    }
    BP_TRY(put_blocks(context, first, values, count));
    for (uint64_t i = 0; i < count; i += block) {
        q->scales[q->kept++] = context->floats[i / block];
        bool last = first % context->each + i + block >= context->each;
        if (q->kept == BP_NESTED_BLOCK || last) {
            BP_TRY(put_scales(context, first + i));
        }
    }
    return BP_OK;
}

/* A megabatch of one row in fp16's values; its length. */
static uint64_t quantise_stretch(const quantise_context *context, uint64_t first,
                                 const float *values, uint64_t count, float rounded[ROW_PIECE])
{
    const uint64_t rest = context->columns - first % context->columns;
    uint64_t some = count < rest ? count : rest;
    some = some < ROW_PIECE ? some : ROW_PIECE;
    memcpy(rounded, values, (size_t)some * sizeof *rounded);
    bp_elements_round(BP_F16, rounded, (size_t)some);
    return some;
}

/* First pass: the largest magnitude of every row, as fp16 has it: rounding keeps the order. */
static bp_status measure_rows(quantise_context *context, uint64_t first, const float *values,
                              uint64_t count)
{
    bp_quantiser *q = context->q;
    for (uint64_t i = 0; i < count;) {
        const uint64_t column = (first + i) % context->columns, rest = context->columns - column;
        const uint64_t some = count - i < rest ? count - i : rest;
        q->largest = bp_quantised_largest(values + i, some, column == 0 ? 0.0f : q->largest);
        i += some;
        if (some == rest) {
            bp_elements_round(BP_F16, &q->largest, 1);
            BP_TRY(bp_runtime_write(context->runtime, context->scales,
                                    ((first + i) / context->columns - 1) * sizeof(float),
                                    &q->largest, sizeof(float)));
        }
    }
    return BP_OK;
}

static bp_status quantise_int8(quantise_context *context, uint64_t first, const float *values,
                               uint64_t count)
{
    float rounded[ROW_PIECE];
    uint8_t *codes = codes_room(context, first, count);
    for (uint64_t i = 0; i < count;) {
        const uint64_t column = (first + i) % context->columns;
        const uint64_t some = quantise_stretch(context, first + i, values + i, count - i, rounded);
        if (i == 0 || column == 0) {
            BP_TRY(bp_runtime_read(context->runtime, context->scales,
                                   (first + i) / context->columns * sizeof(float),
                                   &context->q->largest, sizeof(float)));
        }
        bp_int8_codes(rounded, some, context->q->largest, codes + i);
        i += some;
    }
    return put_codes(context, first, codes, count);
}

/* Whole blocks of a type that is made here. */
static bp_status quantise_packed(quantise_context *context, const bp_packed_type *type,
                                 uint64_t first, const float *values, uint64_t count)
{
    uint64_t bytes = bp_packed_bytes(type, first);
    for (uint64_t i = 0; i < count; i += type->elements, bytes += type->bytes) {
        bp_block_writer_of(type)(values + i, context->packed);
        BP_TRY(bp_runtime_write_gathered(context->runtime, context->codes, bytes, context->packed,
                                         type->bytes));
    }
    return BP_OK;
}

static bp_status quantise_piece(quantise_context *context, uint32_t pass, uint64_t first,
                                const float *values, uint64_t count)
{
    const bp_quantised form = context->parameter->quantised;
    if (bp_quantised_packed(form)) {
        return quantise_packed(context, bp_packed_of_form(form), first, values, count);
    }
    if (bp_quantised_nests(form)) {
        return pass == 0 ? measure_scales(context, first, values, count)
                         : quantise_double(context, first, values, count);
    }
    if (bp_quantised_four(form)) {
        return quantise_four(context, first, values, count);
    }
    return pass == 0 ? measure_rows(context, first, values, count)
                     : quantise_int8(context, first, values, count);
}

bp_status bp_runtime_quantise(bp_runtime *runtime, uint32_t parameter, uint32_t pass,
                              uint64_t first, const float *values, uint64_t count)
{
    quantise_context context = context_of(runtime, parameter);
    uint64_t end = bp_size_add(first, count);
    bool ends = end == context.parameter->count;
    const bp_quantised form = context.parameter->quantised;
    const bp_packed_type *packed = bp_packed_of_form(form);
    const uint64_t block = bp_quantised_four(form) ? block_of(&context)
                           : packed != NULL        ? packed->elements
                                                   : BP_NF4_BLOCK;
    bool whole = first % block == 0 && (ends || end % block == 0);
    if (form == BP_QUANTISED_NONE || (packed != NULL && bp_block_writer_of(packed) == NULL) ||
        end > context.parameter->count || !whole) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "a weight is quantised in whole blocks, and only if it is to be; "
                            "those that a file packs are read from it",
                            bp_graph_name(&runtime->plan->graph, context.parameter->weight));
    }
    for (uint64_t done = 0; done < count;) {
        const uint64_t rest = context.each - (first + done) % context.each; /* of its matrix */
        uint64_t piece = count - done < PIECE ? count - done : PIECE;
        piece = piece < rest ? piece : rest;
        BP_TRY(quantise_piece(&context, pass, first + done, values + done, piece));
        done += piece;
    }
    return BP_OK;
}

/* What one element is made of: its code, its scale, and where scales are nested theirs. */
typedef struct one_element {
    uint8_t code;
    union {
        float real;
        uint8_t byte;
    } scale;
    float nested[BP_NESTED_SCALES + 1];
} one_element;

static bp_status fetch(const quantise_context *context, uint64_t at, one_element *one)
{
    const bp_quantised form = context->parameter->quantised;
    const bool nested = bp_quantised_nests(form), bytes = form == BP_QUANTISED_INT8;
    const uint64_t block = at / (bytes ? context->columns : block_of(context));
    const size_t width = nested ? 1 : sizeof(float);
    BP_TRY(bp_runtime_read_gathered(context->runtime, context->codes, bytes ? at : at / 2,
                                    &one->code, 1));
    BP_TRY(bp_runtime_read(context->runtime, context->scales, block * width, &one->scale, width));
    if (!nested) {
        return BP_OK;
    }
    const uint64_t base = nested_at(context, at);
    uint64_t group = BP_NESTED_SCALES + at % context->each / block_of(context) / BP_NESTED_BLOCK;
    BP_TRY(bp_runtime_read(context->runtime, context->nested, base, one->nested,
                           BP_NESTED_SCALES * sizeof(float)));
    return bp_runtime_read(context->runtime, context->nested, base + group * sizeof(float),
                           one->nested + BP_NESTED_SCALES, sizeof(float));
}

/* Elements of packed rows, block by block. */
static bp_status unpack(const quantise_context *context, uint64_t first, float *values,
                        uint64_t count)
{
    const bp_packed_type *block = bp_packed_of_form(context->parameter->quantised);
    while (count > 0) {
        const uint64_t number = first / block->elements, skip = first % block->elements;
        const uint64_t left = block->elements - skip, some = count < left ? count : left;
        BP_TRY(bp_runtime_read_gathered(context->runtime, context->codes, number * block->bytes,
                                        context->packed, block->bytes));
        bp_packed_values(block, context->packed, skip, some, values);
        values += some;
        first += some;
        count -= some;
    }
    return BP_OK;
}

bp_status bp_runtime_dequantise(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count)
{
    const quantise_context context = context_of(runtime, parameter);
    const bp_quantised form = context.parameter->quantised;
    if (bp_quantised_packed(form)) {
        return unpack(&context, first, values, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        one_element one;
        BP_TRY(fetch(&context, first + i, &one));
        const bp_quantised_matrix matrix = {form, 1, &one.code, &one.scale, one.nested};
        values[i] = bp_quantised_value(&matrix, form == BP_QUANTISED_INT8 ? 0 : (first + i) % 2);
    }
    return BP_OK;
}
