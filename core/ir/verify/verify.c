/* SPDX-License-Identifier: MIT */
/* The program verifier: extents, order of writes and reads, overlaps. */
#include "core/ir/verify/verify.h"

#include "core/ir/verify/verify_copies.h"
#include "core/ir/verify/verify_pending.h"
#include "core/ir/written.h"

static const char where[] = "verify";

typedef struct verifier {
    const bp_graph *graph;
    const bp_device *device;
    const bp_device_options *options;
    bp_written *written; /* of each buffer */
    bp_copies_row *copies;
    bp_pending_rows pending;
    uint32_t program; /* being checked */
    uint32_t list;    /* number of the op being checked, from 1 on */
} verifier;

static void verify_take(verifier *check, const bp_graph_limits *used, bp_arena *memory)
{
    check->written = bp_arena_take(memory, used->buffers, sizeof *check->written);
    check->copies = bp_verify_copies_take(memory, used->buffers);
    check->pending = bp_verify_pending_take(memory, used);
}

/* What a plan is checked in (verify_plan.c) is less: three numbers of each buffer. */
uint64_t bp_verify_scratch(const bp_graph *graph)
{
    verifier check;
    bp_arena count;
    bp_arena_count(&count);
    verify_take(&check, &graph->used, &count);
    return bp_arena_counted(&count);
}

/* One operand of one tuple, with its bytes. */
typedef struct verify_operand {
    bp_ref ref;
    bp_operand_type type;
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
    case BP_TYPE_WEIGHT:
        return dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16 || dtype == BP_U8;
    case BP_TYPE_F32:
        return dtype == BP_F32;
    case BP_TYPE_F64:
        return dtype == BP_F64;
    case BP_TYPE_I32:
        return dtype == BP_I32;
    case BP_TYPE_BYTE:
    case BP_TYPE_STEP:
    case BP_TYPE_CONTROL:
    case BP_TYPE_RESULT:
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

/* Bytes from which an operand's place is a multiple. */
static uint64_t alignment_of(bp_operand_type type, size_t element_bytes)
{
    switch (type) {
    case BP_TYPE_STEP:
    case BP_TYPE_CONTROL:
    case BP_TYPE_RESULT:
        return sizeof(uint64_t);
    case BP_TYPE_BYTE:
        return sizeof(float);
    default:
        return element_bytes;
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
    out->type = about->type;
    out->access = extent->access;
    out->bytes = bp_rectangle_flat(0, 0);
    if (!bp_ref_present(out->ref)) {
        bool legal = about->sized ? bytes == 0 : about->optional; /* workspaces are sized */
        return legal ? BP_OK : verify_refuse(check, info, position, "a needed operand is absent");
    }
    if (about->optional && bytes == 0) {
        return verify_refuse(check, info, position, "an operand without bytes is present");
    }
    if (!type_fits(about->type, out->ref.dtype)) {
        return verify_refuse(check, info, position,
                             "an operand has an element type the row does not take");
    }
    if (out->ref.offset % alignment_of(about->type, element) != 0) {
        return verify_refuse(check, info, position, "an operand is not aligned");
    }
    const bp_buffer *buffer = &check->graph->buffers[out->ref.buffer];
    if (bp_size_add(out->ref.offset, bytes) > buffer->bytes) {
        return verify_refuse(check, info, position, "an operand reaches beyond its buffer");
    }
    out->bytes = about->workspace ? bp_rectangle_flat(out->ref.offset, bytes)
                                  : bp_rectangle_of(extent, element, out->ref.offset);
    return BP_OK;
}

/* a is written; in the table's pairs the operand that is written comes first, and alone is. */
static bool may_coincide(const bp_kernel_info *info, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < info->in_place_count; i++) {
        if (info->in_place[i][0] == a && info->in_place[i][1] == b) {
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
            if (a == b || operands[a].ref.buffer != operands[b].ref.buffer ||
                !bp_rectangle_touch(&operands[a].bytes, &operands[b].bytes)) {
                continue;
            }
            bool same = bp_rectangle_equal(&operands[a].bytes, &operands[b].bytes);
            if (!same || !may_coincide(info, a, b)) {
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
           buffer->scope == BP_SCOPE_CARRIED || buffer->filled ||
           (buffer->scope == BP_SCOPE_RESIDENT && buffer->class_of == BP_CLASS_WEIGHTS);
}

/* The field that holds all of an operand's bytes; NULL: none. */
static const bp_field *field_of(const verifier *check, const verify_operand *o)
{
    const bp_graph *graph = check->graph;
    const uint64_t pitch = graph->field_pitch;
    const uint64_t piece = pitch > 0 ? o->bytes.first - o->bytes.first % pitch : 0;
    for (uint32_t i = 0; i < graph->field_count; i++) {
        const bp_field *field = &graph->fields[i];
        const bp_rectangle all = bp_rectangle_flat(piece + field->offset, field->bytes);
        if (field->buffer == o->ref.buffer && (field->programs >> check->program & 1) != 0 &&
            bp_rectangle_contains(&all, &o->bytes)) {
            return field;
        }
    }
    return NULL;
}

static bp_status verify_access(const verifier *check, const bp_kernel_info *info, uint32_t position,
                               const verify_operand *o)
{
    const bp_buffer *buffer = &check->graph->buffers[o->ref.buffer];
    /* Only the program that makes the first weights writes those that stay. */
    bool constant = buffer->scope == BP_SCOPE_CONSTANT && check->program != BP_PROGRAM_INITIALIZE;
    if (constant && verify_writes(o)) {
        return verify_refuse(check, info, position, "a constant buffer is written");
    }
    if (check->graph->fixed && buffer->space == BP_SPACE_HOST && verify_writes(o)) {
        return verify_refuse(check, info, position, "read-only memory is written");
    }
    if (buffer->filled && verify_writes(o)) {
        return verify_refuse(check, info, position, "what the host fills in is written");
    }
    if (o->access == BP_ACCESS_SCRATCH && contents_stay(buffer)) {
        return verify_refuse(check, info, position, "a workspace lies where contents stay");
    }
    bool reads = o->access == BP_ACCESS_READ || o->access == BP_ACCESS_READ_WRITE;
    if (reads && buffer->filled && field_of(check, o) == NULL) {
        return verify_refuse(check, info, position, "the host does not fill in what is read");
    }
    if (reads && !bp_written_contains(&check->written[o->ref.buffer], &o->bytes)) {
        return verify_refuse(check, info, position, "an operand is read before it is written");
    }
    return BP_OK;
}

/* What is known of the integers that an operand reads. */
static bp_indices indices_of(const verifier *check, const verify_operand *o)
{
    const bp_indices anything = {0, true};
    if (check->graph->buffers[o->ref.buffer].filled) {
        const bp_field *field = field_of(check, o);
        const bool integers = field != NULL && field->type == BP_TYPE_I32;
        return integers ? (bp_indices){field->below, field->negative} : anything;
    }
    return check->written[o->ref.buffer].indices;
}

/* The step block is where the host puts one, and integers that things are looked up by are below
 * what the row says. */
static bp_status verify_contents(const verifier *check, const bp_kernel_info *info,
                                 uint32_t position, const bp_extent *extent,
                                 const verify_operand *o)
{
    if (o->type == BP_TYPE_STEP) {
        bool filled = check->graph->buffers[o->ref.buffer].filled;
        const bp_field *field = filled ? field_of(check, o) : NULL;
        bool there = field != NULL && field->type == BP_TYPE_STEP;
        return there ? BP_OK
                     : verify_refuse(check, info, position, "this is not the step block's place");
    }
    if (extent->below == 0 || bp_rectangle_empty(&o->bytes)) {
        return BP_OK;
    }
    const bp_indices known = indices_of(check, o);
    bool inside =
        known.below != 0 && known.below <= extent->below && (extent->negative || !known.negative);
    return inside ? BP_OK
                  : verify_refuse(check, info, position,
                                  "integers to look things up by may be out of range");
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

/* What an operand leaves in its buffer: integers are those of the operand that they came from,
 * anything else may look like any integer. */
static bp_indices indices_left(const verifier *check, const verify_operand *operands,
                               uint32_t count, const verify_operand *to)
{
    for (uint32_t i = 0; to->type == BP_TYPE_I32 && i < count; i++) {
        bool source = operands[i].type == BP_TYPE_I32 && &operands[i] != to;
        if (source && bp_ref_present(operands[i].ref)) {
            return indices_of(check, &operands[i]);
        }
    }
    return (bp_indices){0, true};
}

/* After the tuple its outputs are written, and of its workspaces nothing is known. */
static void verify_leave(const verifier *check, const verify_operand *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const verify_operand *o = &operands[i];
        if (!bp_ref_present(o->ref) || o->access == BP_ACCESS_READ) {
            continue;
        }
        bp_written *written = &check->written[o->ref.buffer];
        if (check->graph->buffers[o->ref.buffer].dtype == BP_I32) {
            bp_written_indices(written, indices_left(check, operands, count, o));
        }
        if (o->access == BP_ACCESS_WRITE) {
            bp_written_add(written, &o->bytes);
        } else if (o->access == BP_ACCESS_SCRATCH) {
            bp_written_forget(written, &o->bytes);
        }
    }
}

static bool span_meets(const bp_span *span, const bp_span *other)
{
    return span->first < other->end && other->first < span->end;
}

static void span_widen(bp_span *span, const bp_span *other)
{
    bool empty = span->first == span->end;
    span->first = empty || other->first < span->first ? other->first : span->first;
    span->end = empty || other->end > span->end ? other->end : span->end;
}

/* A device works on the tuples of a list op at the same time: none touches what another writes.
 * Spans are wider than rectangles, which is safe. */
static bp_status verify_apart(const verifier *check, const bp_kernel_info *info,
                              const verify_operand *operands)
{
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const verify_operand *o = &operands[i];
        const bp_written *there = &check->written[o->ref.buffer];
        const bp_span span = bp_rectangle_span(&o->bytes);
        if (there->list != check->list || bp_rectangle_empty(&o->bytes)) {
            continue;
        }
        if (span_meets(&there->wrote, &span) ||
            (verify_writes(o) && span_meets(&there->read, &span))) {
            return verify_refuse(check, info, i, "a tuple touches what another one writes");
        }
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const verify_operand *o = &operands[i];
        bp_written *there = &check->written[o->ref.buffer];
        const bp_span span = bp_rectangle_span(&o->bytes);
        if (bp_rectangle_empty(&o->bytes)) {
            continue;
        }
        if (there->list != check->list) {
            there->list = check->list;
            there->wrote = there->read = (bp_span){0, 0};
        }
        span_widen(verify_writes(o) ? &there->wrote : &there->read, &span);
    }
    return BP_OK;
}

static bp_status verify_tuple(const verifier *check, const bp_op *op, uint32_t tuple)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = check->graph->refs + op->operand + tuple * info->operand_count;
    const void *scalars = check->graph->scalars + op->scalar + tuple * info->scalar_count;
    bp_extent extents[BP_OPERANDS_MAX];
    verify_operand operands[BP_OPERANDS_MAX];
    if (op->kernel >= BP_KERNEL_COUNT) {
        return bp_error_set(check->graph->error, BP_ERR_VERIFY, where,
                            "a marker is left that the compiler's passes had to take out",
                            info->name);
    }
    if (!info->legal(scalars)) {
        return bp_error_set(check->graph->error, BP_ERR_VERIFY, where,
                            "an op's scalars are not what its row requires", info->name);
    }
    info->extents(scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        operands[i].ref = refs[i];
        BP_TRY(verify_place(check, op, i, &extents[i], scalars, &operands[i]));
        if (bp_ref_present(refs[i])) {
            BP_TRY(verify_access(check, info, i, &operands[i]));
            BP_TRY(verify_contents(check, info, i, &extents[i], &operands[i]));
        }
    }
    BP_TRY(verify_types(check, info, refs));
    BP_TRY(verify_overlaps(check, info, operands));
    if (op->tuples > 1) {
        BP_TRY(verify_apart(check, info, operands));
    }
    verify_leave(check, operands, info->operand_count);
    return BP_OK;
}

/* What a program may read from the start. Results and group buffers keep what the first
 * micro-batch wrote; a group may have no other, so that what a later one adds to them is known to
 * none after it. Everything else that no run leaves behind begins unwritten. */
static void verify_enter(const verifier *check, uint32_t program)
{
    bool compares = check->graph->program_count[BP_PROGRAM_CONTRAST] > 0;
    bool in_group = program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_UPDATE ||
                    program == BP_PROGRAM_VECTORS_NEXT || program == BP_PROGRAM_CONTRAST ||
                    (program == BP_PROGRAM_MICRO_FIRST && compares);
    bool update = program == BP_PROGRAM_UPDATE;
    bool later = update && check->graph->program_count[BP_PROGRAM_MICRO_NEXT] > 0;
    for (uint32_t i = 0; i < check->graph->used.buffers; i++) {
        const bp_buffer *buffer = &check->graph->buffers[i];
        bp_written *written = &check->written[i];
        bool kept =
            in_group && (buffer->scope == BP_SCOPE_GROUP || buffer->scope == BP_SCOPE_RESIDENT);
        bool taken = (buffer->taken >> program & 1) != 0;
        if (contents_stay(buffer) && buffer->bytes > 0 && !taken) {
            written->part[0] = bp_rectangle_flat(0, buffer->bytes);
            written->count = 1;
            written->indices = (bp_indices){0, true};
        } else if (!kept || (later && written->grown)) {
            written->count = 0;
        }
        written->grown = false;
    }
}

/* Programs of a group in the order in which they run; the others are by themselves. */
static const bp_program_kind verify_order[BP_PROGRAM_COUNT] = {
    BP_PROGRAM_INITIALIZE,   BP_PROGRAM_STEP,     BP_PROGRAM_VECTORS_FIRST,
    BP_PROGRAM_VECTORS_NEXT, BP_PROGRAM_CONTRAST, BP_PROGRAM_MICRO_FIRST,
    BP_PROGRAM_MICRO_NEXT,   BP_PROGRAM_UPDATE,   BP_PROGRAM_EVAL,
    BP_PROGRAM_PREFILL,      BP_PROGRAM_DECODE};

/* After a program all is written that the host reads then. */
static bp_status verify_exit(const verifier *check)
{
    for (uint32_t i = 0; i < check->graph->used.buffers; i++) {
        const bp_buffer *buffer = &check->graph->buffers[i];
        const bp_rectangle all = bp_rectangle_flat(0, buffer->bytes);
        bool taken = (buffer->taken >> check->program & 1) != 0;
        if (taken && !bp_written_contains(&check->written[i], &all)) {
            return bp_error_set(check->graph->error, BP_ERR_VERIFY, where,
                                "what the host reads after a program is not written by it",
                                bp_graph_name(check->graph, i));
        }
    }
    return BP_OK;
}

bp_status bp_verify(const bp_graph *graph, const bp_device *device,
                    const bp_device_options *options, void *scratch, uint64_t bytes)
{
    if (bytes < bp_verify_scratch(graph)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    bp_arena memory;
    verifier check = {.graph = graph, .device = device, .options = options};
    bp_arena_init(&memory, scratch, (size_t)bytes);
    verify_take(&check, &graph->used, &memory);
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        check.written[i].list = 0;
    }
    for (uint32_t k = 0; k < BP_PROGRAM_COUNT; k++) {
        const uint32_t program = verify_order[k];
        if (graph->program_count[program] == 0) {
            continue;
        }
        check.program = program;
        verify_enter(&check, program);
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            const bp_op *op = &graph->ops[graph->program_first[program] + i];
            check.list++;
            for (uint32_t t = 0; t < op->tuples; t++) {
                BP_TRY(verify_tuple(&check, op, t));
            }
        }
        BP_TRY(verify_exit(&check));
        BP_TRY(bp_verify_pending(graph, program, &check.pending));
        BP_TRY(bp_verify_copies(graph, program, check.copies));
    }
    return BP_OK;
}
