/* SPDX-License-Identifier: MIT */
/* The program verifier: extents, order of writes and reads, overlaps. */
#include "core/program/verify.h"

#include "core/program/verify_flight.h"
#include "core/program/written.h"

static const char where[] = "verify";

uint64_t bp_verify_scratch(const bp_graph *graph)
{
    uint64_t written = bp_size_mul(graph->used.buffers, sizeof(bp_written));
    uint64_t sweep = bp_size_mul(graph->used.buffers, 3 * sizeof(uint32_t));
    return bp_size_add(written > sweep ? written : sweep, sizeof(uint64_t));
}

typedef struct verifier {
    const bp_graph *graph;
    const bp_device *device;
    const bp_device_options *options;
    bp_written *written; /* of each buffer */
    uint32_t program;    /* being checked */
} verifier;

/* One operand of one tuple, with its bytes. */
typedef struct verify_operand {
    bp_ref ref;
    bp_access access;
    bp_rectangle bytes;
} verify_operand;

static bp_status verify_refuse(const verifier *check, const bp_kernel_info *info, uint32_t position,
                               const char *text)
{
    bp_status status =
        bp_error_set(check->graph->error, BP_ERR_VERIFY, where, text, info->operand[position].name);
    bp_error_prefix(check->graph->error, info->name);
    return status;
}

static bool type_fits(bp_operand_type type, bp_dtype dtype)
{
    switch (type) {
    case BP_TYPE_ANY:
    case BP_TYPE_FLOAT:
        return dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16;
    case BP_TYPE_F32:
        return dtype == BP_F32;
    case BP_TYPE_F64:
        return dtype == BP_F64;
    case BP_TYPE_I32:
        return dtype == BP_I32;
    case BP_TYPE_BYTE:
        break;
    }
    return true;
}

static void dtypes_of(const bp_kernel_info *info, const bp_ref *refs, uint8_t *dtypes)
{
    for (uint32_t i = 0; i < info->operand_count; i++) {
        dtypes[i] = (uint8_t)refs[i].dtype;
    }
}

/* Finds an operand's bytes and holds them against its buffer. */
static bp_status verify_place(const verifier *check, const bp_op *op, uint32_t position,
                              const bp_extent *extent, const void *scalars, verify_operand *out)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_operand_info *about = &info->operand[position];
    const size_t element = bp_operand_element_bytes(about->type, out->ref.dtype);
    uint64_t bytes = bp_extent_bytes(extent, element);
    if (about->workspace) {
        uint8_t dtypes[BP_OPERANDS_MAX];
        dtypes_of(info, check->graph->refs + op->operand, dtypes);
        bytes = check->device->workspace(check->options, op->kernel, scalars, dtypes);
    }
    out->access = extent->access;
    out->bytes = bp_rectangle_flat(0, 0);
    if (!bp_ref_present(out->ref)) {
        bool legal = about->workspace ? bytes == 0 : about->optional;
        return legal ? BP_OK : verify_refuse(check, info, position, "a needed operand is absent");
    }
    if (!type_fits(about->type, out->ref.dtype)) {
        return verify_refuse(check, info, position,
                             "an operand has an element type the row does not take");
    }
    const bp_buffer *buffer = &check->graph->buffers[out->ref.buffer];
    if (bp_size_add(out->ref.offset, bytes) > buffer->bytes) {
        return verify_refuse(check, info, position, "an operand reaches beyond its buffer");
    }
    out->bytes = about->workspace ? bp_rectangle_flat(out->ref.offset, bytes)
                                  : bp_rectangle_of(extent, element, out->ref.offset);
    return BP_OK;
}

static bool may_coincide(const bp_kernel_info *info, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < info->in_place_count; i++) {
        uint32_t p = info->in_place[i][0];
        uint32_t q = info->in_place[i][1];
        if ((p == a && q == b) || (p == b && q == a)) {
            return true;
        }
    }
    return false;
}

static bool verify_writes(const verify_operand *o)
{
    return o->access != BP_ACCESS_READ;
}

/* Written bytes may belong to no other operand of the tuple, except in a pair that says so. */
static bp_status verify_overlaps(const verifier *check, const bp_kernel_info *info,
                                 const verify_operand *operands)
{
    for (uint32_t a = 0; a < info->operand_count; a++) {
        if (!verify_writes(&operands[a]) || !bp_ref_present(operands[a].ref)) {
            continue;
        }
        for (uint32_t b = 0; b < info->operand_count; b++) {
            bool clash = a != b && operands[a].ref.buffer == operands[b].ref.buffer &&
                         bp_rectangle_touch(&operands[a].bytes, &operands[b].bytes);
            bool same = clash && bp_rectangle_equal(&operands[a].bytes, &operands[b].bytes);
            if (clash && !(same && may_coincide(info, a, b))) {
                return verify_refuse(check, info, a, "a written operand overlaps another one");
            }
        }
    }
    return BP_OK;
}

/* Whether a buffer's contents outlast the program's run and no program has to make them. */
static bool contents_stay(const bp_buffer *buffer)
{
    return buffer->scope == BP_SCOPE_CONSTANT || buffer->scope == BP_SCOPE_PERSISTENT ||
           buffer->scope == BP_SCOPE_CARRIED || buffer->filled;
}

static bp_status verify_access(const verifier *check, const bp_kernel_info *info, uint32_t position,
                               const verify_operand *o)
{
    if (!bp_ref_present(o->ref)) {
        return BP_OK;
    }
    const bp_buffer *buffer = &check->graph->buffers[o->ref.buffer];
    /* Only the program that makes the first weights writes those that stay. */
    bool constant = buffer->scope == BP_SCOPE_CONSTANT && check->program != BP_PROGRAM_INITIALIZE;
    if (constant && verify_writes(o)) {
        return verify_refuse(check, info, position, "a constant buffer is written");
    }
    if (buffer->filled && verify_writes(o)) {
        return verify_refuse(check, info, position, "what the host fills in is written");
    }
    if (o->access == BP_ACCESS_SCRATCH && contents_stay(buffer)) {
        return verify_refuse(check, info, position, "a workspace lies where contents stay");
    }
    bool reads = o->access == BP_ACCESS_READ || o->access == BP_ACCESS_READ_WRITE;
    if (reads && !bp_written_contains(&check->written[o->ref.buffer], &o->bytes)) {
        return verify_refuse(check, info, position, "an operand is read before it is written");
    }
    return BP_OK;
}

/* All operands of the working type share it. */
static bp_status verify_types(const verifier *check, const bp_kernel_info *info, const bp_ref *refs)
{
    bool found = false;
    bp_dtype working = BP_F32;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (info->operand[i].type != BP_TYPE_ANY || !bp_ref_present(refs[i])) {
            continue;
        }
        if (found && refs[i].dtype != working) {
            return verify_refuse(check, info, i, "operands of the working type differ in it");
        }
        working = refs[i].dtype;
        found = true;
    }
    return BP_OK;
}

/* After the tuple its outputs are written, and of its workspaces nothing is known. */
static void verify_leave(const verifier *check, const verify_operand *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const verify_operand *o = &operands[i];
        if (!bp_ref_present(o->ref)) {
            continue;
        }
        if (o->access == BP_ACCESS_WRITE) {
            bp_written_add(&check->written[o->ref.buffer], &o->bytes);
        } else if (o->access == BP_ACCESS_SCRATCH) {
            bp_written_forget(&check->written[o->ref.buffer], &o->bytes);
        }
    }
}

static bp_status verify_tuple(const verifier *check, const bp_op *op, uint32_t tuple)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = check->graph->refs + op->operand + tuple * info->operand_count;
    const void *scalars = check->graph->scalars + op->scalar + tuple * info->scalar_count;
    bp_extent extents[BP_OPERANDS_MAX];
    verify_operand operands[BP_OPERANDS_MAX];
    info->extents(scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        operands[i].ref = refs[i];
        BP_TRY(verify_place(check, op, i, &extents[i], scalars, &operands[i]));
        BP_TRY(verify_access(check, info, i, &operands[i]));
    }
    BP_TRY(verify_types(check, info, refs));
    BP_TRY(verify_overlaps(check, info, operands));
    verify_leave(check, operands, info->operand_count);
    return BP_OK;
}

/* What a program may read from the start. Results and group buffers keep what the first
 * micro-batch wrote; a group may have no other, so that what a later one adds to them is known to
 * none after it. Everything else that no run leaves behind begins unwritten. */
static void verify_enter(const verifier *check, uint32_t program)
{
    bool in_group = program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_UPDATE;
    bool update = program == BP_PROGRAM_UPDATE;
    bool later = update && check->graph->program_count[BP_PROGRAM_MICRO_NEXT] > 0;
    for (uint32_t i = 0; i < check->graph->used.buffers; i++) {
        const bp_buffer *buffer = &check->graph->buffers[i];
        bp_written *written = &check->written[i];
        bool kept =
            in_group && (buffer->scope == BP_SCOPE_GROUP || buffer->scope == BP_SCOPE_RESIDENT);
        if (contents_stay(buffer) && buffer->bytes > 0) {
            written->part[0] = bp_rectangle_flat(0, buffer->bytes);
            written->count = 1;
        } else if (!kept || (later && written->grown)) {
            written->count = 0;
        }
        written->grown = false;
    }
}

bp_status bp_verify(const bp_graph *graph, const bp_device *device,
                    const bp_device_options *options, void *scratch, uint64_t bytes)
{
    if (bytes < bp_verify_scratch(graph)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    verifier check = {.graph = graph, .device = device, .options = options, .written = scratch};
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (graph->program_count[program] == 0) {
            continue;
        }
        check.program = program;
        verify_enter(&check, program);
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            const bp_op *op = &graph->ops[graph->program_first[program] + i];
            for (uint32_t t = 0; t < op->tuples; t++) {
                BP_TRY(verify_tuple(&check, op, t));
            }
        }
        BP_TRY(bp_verify_flight(graph, program));
    }
    return BP_OK;
}
