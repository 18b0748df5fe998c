/* SPDX-License-Identifier: MIT */
/* The tables of a graph, and the lifetimes that follow from its ops. */
#include "core/ir/program.h"

#include <string.h>

#define TABLE_ALIGNMENT 16
#define OPS_MOST        (1u << 24) /* of one plan: gigabytes of tables */

static const char where[] = "program";

static bp_status graph_tables(bp_graph *graph, const bp_graph_limits *limit, bp_arena *memory)
{
    void *table[5];
    const uint64_t rows[5] = {limit->buffers, limit->ops, limit->refs, limit->scalars,
                              limit->name_bytes};
    const size_t row_bytes[5] = {sizeof(bp_buffer), sizeof(bp_op), sizeof(bp_ref),
                                 sizeof(bp_scalar), 1};
    for (int i = 0; i < 5; i++) {
        BP_TRY(bp_arena_rows(memory, rows[i], row_bytes[i], TABLE_ALIGNMENT, &table[i]));
    }
    graph->buffers = table[0];
    graph->ops = table[1];
    graph->refs = table[2];
    graph->scalars = table[3];
    graph->names = table[4];
    return BP_OK;
}

uint64_t bp_graph_bytes(const bp_graph_limits *limit)
{
    bp_arena count;
    bp_graph graph;
    bp_arena_count(&count);
    const bp_status status = graph_tables(&graph, limit, &count);
    (void)status; /* what is too much for it is BP_SIZE_INVALID */
    return bp_arena_counted(&count);
}

static bp_status table_full(const bp_graph *graph, const char *table, uint32_t limit,
                            uint64_t wanted)
{
    if (bp_graph_counts(graph)) {
        return bp_error_limit(graph->error, BP_ERR_OVERFLOW, where,
                              "the programs of this model and policy have too many ops", table,
                              bp_size_signed(wanted), BP_LIMIT_MOST, bp_size_signed(limit));
    }
    return bp_error_limit(graph->error, BP_ERR_FIT, where, "a table of the plan is full", table,
                          bp_size_signed(wanted), BP_LIMIT_MOST, bp_size_signed(limit));
}

bp_status bp_graph_init(bp_graph *graph, const bp_graph_limits *limit, bp_arena *memory,
                        bp_error *error)
{
    *graph = (bp_graph){.limit = *limit, .error = error};
    if (graph_tables(graph, limit, memory) != BP_OK) {
        return bp_error_set(error, BP_ERR_FIT, where, "the plan's memory is too small", NULL);
    }
    if (limit->buffers == 0) {
        return table_full(graph, "buffers", 0, 1);
    }
    graph->buffers[BP_NO_BUFFER] = (bp_buffer){.scope = BP_SCOPE_PROGRAM};
    graph->used.buffers = BP_NO_BUFFER + 1;
    return BP_OK;
}

void bp_graph_count(bp_graph *graph, bp_error *error)
{
    *graph = (bp_graph){.limit = {.buffers = UINT32_MAX,
                                  .ops = OPS_MOST,
                                  .refs = UINT32_MAX,
                                  .scalars = UINT32_MAX,
                                  .name_bytes = UINT32_MAX},
                        .used = {.buffers = BP_NO_BUFFER + 1},
                        .error = error};
}

void bp_graph_begin(bp_graph *graph, bp_program_kind program)
{
    graph->program = (uint32_t)program;
    graph->program_first[program] = graph->used.ops;
    graph->program_count[program] = 0;
    graph->requests = 0;
}

/* Bytes of a text before its end, at most `most`. */
static size_t text_bytes(const char *text, size_t most)
{
    const char *end = memchr(text, '\0', most);
    return end != NULL ? (size_t)(end - text) : most;
}

/* A buffer's name in its two parts; `second` is NULL where it has one. */
typedef struct buffer_name {
    const char *first;
    const char *second;
    size_t first_bytes;
    size_t second_bytes;
} buffer_name;

static buffer_name program_name_of(const char *first, const char *second)
{
    const size_t half = BP_BUFFER_NAME_MAX / 2;
    buffer_name name = {.first = first, .second = second};
    name.first_bytes = second != NULL ? text_bytes(first, half) : strlen(first);
    if (second != NULL) {
        name.second_bytes = text_bytes(second, BP_BUFFER_NAME_MAX - name.first_bytes - 2);
    }
    return name;
}

static size_t name_bytes(const buffer_name *name)
{
    return name->first_bytes + (name->second != NULL ? 1 : 0) + name->second_bytes + 1;
}

static void put_name(char *to, const buffer_name *name)
{
    memcpy(to, name->first, name->first_bytes);
    to += name->first_bytes;
    if (name->second != NULL) {
        *to++ = '.';
        memcpy(to, name->second, name->second_bytes);
        to += name->second_bytes;
    }
    *to = '\0';
}

static bp_status add_name(bp_graph *graph, const buffer_name *name, uint32_t *offset)
{
    const size_t length = name_bytes(name);
    if (length > graph->limit.name_bytes - graph->used.name_bytes) {
        return table_full(graph, "names", graph->limit.name_bytes,
                          (uint64_t)graph->used.name_bytes + length);
    }
    *offset = graph->used.name_bytes;
    if (!bp_graph_counts(graph)) {
        put_name(graph->names + *offset, name);
    }
    graph->used.name_bytes += (uint32_t)length;
    return BP_OK;
}

static bp_status size_overflows(const bp_graph *graph, const buffer_name *name)
{
    char text[BP_BUFFER_NAME_MAX];
    buffer_name cut = *name;
    cut.first_bytes = text_bytes(name->first, sizeof text / 2);
    put_name(text, &cut);
    return bp_error_set(graph->error, BP_ERR_OVERFLOW, where, "a buffer's size overflows", text);
}

static bp_status program_add_buffer(bp_graph *graph, const bp_buffer *prototype,
                                    const buffer_name *name, uint32_t *index)
{
    if (graph->used.buffers == graph->limit.buffers) {
        return table_full(graph, "buffers", graph->limit.buffers,
                          (uint64_t)graph->used.buffers + 1);
    }
    uint64_t elements = 1;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < prototype->rank; i++) {
        elements = bp_size_mul(elements, prototype->shape[i]);
    }
    uint64_t bytes = bp_size_mul(elements, bp_dtype_bytes(prototype->dtype));
    bytes = prototype->part.whole > 0 && bytes != BP_SIZE_INVALID ? prototype->bytes : bytes;
    if (bytes == BP_SIZE_INVALID) {
        return size_overflows(graph, name);
    }
    BP_TRY(add_name(graph, name, &offset));
    *index = graph->used.buffers++;
    if (!bp_graph_counts(graph)) {
        bp_buffer *buffer = &graph->buffers[*index];
        *buffer = *prototype;
        buffer->bytes = bytes;
        buffer->program = graph->program;
        buffer->name = offset;
    }
    return BP_OK;
}

bp_status bp_graph_buffer(bp_graph *graph, const bp_buffer *prototype, const char *name,
                          uint32_t *index)
{
    const buffer_name whole = program_name_of(name, NULL);
    return program_add_buffer(graph, prototype, &whole, index);
}

bp_status bp_graph_buffer_of(bp_graph *graph, const bp_buffer *prototype, const char *first,
                             const char *second, uint32_t *index)
{
    const buffer_name joined = program_name_of(first, second);
    return program_add_buffer(graph, prototype, &joined, index);
}

/* Copies operands and scalars behind those of the newest op. */
static bp_status add_operands(bp_graph *graph, uint64_t refs, uint64_t scalars, const bp_ref *from,
                              const void *values)
{
    if (refs > graph->limit.refs - graph->used.refs) {
        return table_full(graph, "refs", graph->limit.refs, graph->used.refs + refs);
    }
    if (scalars > graph->limit.scalars - graph->used.scalars) {
        return table_full(graph, "scalars", graph->limit.scalars, graph->used.scalars + scalars);
    }
    if (!bp_graph_counts(graph)) {
        if (refs > 0) {
            memcpy(graph->refs + graph->used.refs, from, (size_t)refs * sizeof(bp_ref));
        }
        memcpy(graph->scalars + graph->used.scalars, values, (size_t)scalars * sizeof(bp_scalar));
    }
    graph->used.refs += (uint32_t)refs;
    graph->used.scalars += (uint32_t)scalars;
    return BP_OK;
}

bp_status bp_graph_piece(bp_graph *graph, uint64_t first, uint64_t bytes)
{
    const bp_scalar piece[BP_PIECE_SCALARS] = {{.integer = (int64_t)first},
                                               {.integer = (int64_t)bytes}};
    return add_operands(graph, 0, BP_PIECE_SCALARS, NULL, piece);
}

bp_status bp_graph_field(bp_graph *graph, const bp_field *field)
{
    if (graph->field_count == BP_FIELDS_MAX) {
        return bp_error_set(graph->error, BP_ERR_INTERNAL, where,
                            "the inputs have more fields than a graph has room for", NULL);
    }
    graph->fields[graph->field_count++] = *field;
    return BP_OK;
}

void bp_graph_part(bp_graph *graph, uint32_t buffer, const bp_buffer_part *part, uint64_t bytes)
{
    if (!bp_graph_counts(graph)) {
        graph->buffers[buffer].part = *part;
        graph->buffers[buffer].bytes = bytes;
    }
}

void bp_graph_take(bp_graph *graph, uint32_t buffer, uint32_t programs)
{
    if (!bp_graph_counts(graph)) {
        bp_buffer *taken = &graph->buffers[buffer];
        taken->taken = (uint16_t)(taken->taken | programs);
    }
}

bp_status bp_graph_op(bp_graph *graph, const bp_op *prototype, const bp_ref *refs,
                      const void *scalars)
{
    const bp_kernel_info *info = bp_kernel_describe(prototype->kernel);
    const uint32_t operand = graph->used.refs;
    const uint32_t scalar = graph->used.scalars;
    if (graph->used.ops == graph->limit.ops) {
        return table_full(graph, "ops", graph->limit.ops, (uint64_t)graph->used.ops + 1);
    }
    BP_TRY(add_operands(graph, (uint64_t)prototype->tuples * info->operand_count,
                        (uint64_t)prototype->tuples * info->scalar_count, refs, scalars));
    if (!bp_graph_counts(graph)) {
        bp_op *op = &graph->ops[graph->used.ops];
        *op = *prototype;
        op->operand = operand;
        op->scalar = scalar;
    }
    graph->newest = *prototype;
    graph->used.ops++;
    graph->program_count[graph->program]++;
    graph->requests += info->pending == BP_PENDING_BEGIN ? 1 : 0;
    return BP_OK;
}

uint32_t bp_graph_request(const bp_graph *graph)
{
    return graph->requests;
}

bp_status bp_graph_tuple(bp_graph *graph, const bp_ref *refs, const void *scalars)
{
    const bp_kernel_info *info = bp_kernel_describe(graph->newest.kernel);
    BP_TRY(add_operands(graph, info->operand_count, info->scalar_count, refs, scalars));
    graph->newest.tuples++;
    if (!bp_graph_counts(graph)) {
        graph->ops[graph->used.ops - 1].tuples = graph->newest.tuples;
    }
    return BP_OK;
}

uint32_t bp_graph_ticks(const bp_graph *graph)
{
    return graph->used.ops > 0 ? graph->used.ops : 1;
}

static void widen(bp_buffer *buffer, uint32_t lower, uint32_t upper)
{
    if (buffer->lower == buffer->upper) {
        buffer->lower = lower;
        buffer->upper = upper;
        return;
    }
    buffer->lower = lower < buffer->lower ? lower : buffer->lower;
    buffer->upper = upper > buffer->upper ? upper : buffer->upper;
}

/* One use of a buffer at a tick of a program. A carried buffer lives through every program that
 * uses it. MICRO_NEXT runs again and again, so a group buffer that it uses lives through all of it.
 */
static void use_buffer(const bp_graph *graph, bp_buffer *buffer, uint32_t program, uint32_t tick)
{
    bool whole = buffer->scope == BP_SCOPE_CARRIED ||
                 (buffer->scope == BP_SCOPE_GROUP && program == BP_PROGRAM_MICRO_NEXT);
    if (whole) {
        uint32_t first = graph->program_first[program];
        widen(buffer, first, first + graph->program_count[program]);
    } else {
        widen(buffer, tick, tick + 1);
    }
}

static void use_operands(bp_graph *graph, uint32_t program, uint32_t tick)
{
    const bp_op *op = &graph->ops[tick];
    uint32_t count = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        bp_ref ref = graph->refs[op->operand + i];
        if (bp_ref_present(ref)) {
            use_buffer(graph, &graph->buffers[ref.buffer], program, tick);
        }
    }
}

static bool program_lives_always(bp_scope scope)
{
    return scope == BP_SCOPE_CONSTANT || scope == BP_SCOPE_PERSISTENT || scope == BP_SCOPE_RESIDENT;
}

void bp_graph_lifetimes(bp_graph *graph)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        graph->buffers[i].lower = 0;
        graph->buffers[i].upper = 0;
    }
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        uint32_t first = graph->program_first[program];
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            use_operands(graph, program, first + i);
        }
    }
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (program_lives_always(graph->buffers[i].scope)) {
            graph->buffers[i].lower = 0;
            graph->buffers[i].upper = bp_graph_ticks(graph);
        } else if (graph->buffers[i].scope == BP_SCOPE_BETWEEN) {
            graph->buffers[i].lower = 0;
            graph->buffers[i].upper = 1;
        }
    }
}

const char *bp_graph_name(const bp_graph *graph, uint32_t buffer)
{
    const bool there = buffer != BP_NO_BUFFER && buffer < graph->used.buffers;
    return there ? graph->names + graph->buffers[buffer].name : "-";
}

const char *bp_space_name(bp_space space)
{
    static const char *const names[BP_SPACE_COUNT] = {
        [BP_SPACE_DEVICE] = "device", [BP_SPACE_HOST] = "host", [BP_SPACE_OFFLOAD] = "offload"};
    return names[space];
}

const char *bp_class_name(bp_class class_of)
{
    static const char *const names[BP_CLASS_COUNT] = {
        [BP_CLASS_WEIGHTS] = "weights",       [BP_CLASS_MASTER] = "master",
        [BP_CLASS_OPTIMIZER] = "optimizer",   [BP_CLASS_GRADIENTS] = "gradients",
        [BP_CLASS_CHECKPOINT] = "checkpoint", [BP_CLASS_TAPE] = "tape",
        [BP_CLASS_WORKSPACE] = "workspace",   [BP_CLASS_IO] = "io"};
    return names[class_of];
}

const char *bp_scope_name(bp_scope scope)
{
    static const char *const names[] = {
        [BP_SCOPE_CONSTANT] = "constant", [BP_SCOPE_PERSISTENT] = "persistent",
        [BP_SCOPE_RESIDENT] = "resident", [BP_SCOPE_GROUP] = "group",
        [BP_SCOPE_CARRIED] = "carried",   [BP_SCOPE_PROGRAM] = "program",
        [BP_SCOPE_BETWEEN] = "between"};
    return names[scope];
}

const char *bp_program_name(bp_program_kind program)
{
    static const char *const names[BP_PROGRAM_COUNT] = {[BP_PROGRAM_INITIALIZE] = "initialize",
                                                        [BP_PROGRAM_STEP] = "step",
                                                        [BP_PROGRAM_MICRO_FIRST] = "micro-first",
                                                        [BP_PROGRAM_MICRO_NEXT] = "micro-next",
                                                        [BP_PROGRAM_UPDATE] = "update",
                                                        [BP_PROGRAM_EVAL] = "eval",
                                                        [BP_PROGRAM_PREFILL] = "prefill",
                                                        [BP_PROGRAM_DECODE] = "decode",
                                                        [BP_PROGRAM_VECTORS_FIRST] =
                                                            "vectors-first",
                                                        [BP_PROGRAM_VECTORS_NEXT] = "vectors-next",
                                                        [BP_PROGRAM_CONTRAST] = "contrast"};
    return names[program];
}
