/* SPDX-License-Identifier: MIT */
/* The linker. */
#include "core/ir/link.h"

#define TABLE_ALIGNMENT 64

/* A buffer is poisoned at most twice. */
static uint64_t poison_rows(uint32_t buffers, bool poison)
{
    return poison ? 2 * (uint64_t)buffers : 0;
}

static bp_status link_tables(bp_link *link, const bp_graph_limits *rows, bool poison,
                             bp_arena *memory)
{
    const uint64_t extra = poison_rows(rows->buffers, poison);
    void *table[4];
    const uint64_t count[4] = {rows->ops + extra, rows->refs + extra, rows->refs + extra, extra};
    const size_t size[4] = {sizeof(bp_linked_op), sizeof(uint64_t), 1, sizeof(bp_poison_scalars)};
    for (int i = 0; i < 4; i++) {
        BP_TRY(bp_arena_rows(memory, count[i], size[i], TABLE_ALIGNMENT, &table[i]));
    }
    link->ops = table[0];
    link->offsets = table[1];
    link->dtypes = table[2];
    link->poison = table[3];
    return BP_OK;
}

/* A device's need may have a fixed part per program, so each program is counted apart. */
uint64_t bp_link_bytes(const bp_graph_limits *limit, const bp_device *device, bool poison)
{
    const uint64_t extra = poison_rows(limit->buffers, poison);
    bp_arena count;
    bp_link link;
    bp_arena_count(&count);
    const bp_status status = link_tables(&link, limit, poison, &count);
    (void)status; /* what is too much for it is BP_SIZE_INVALID */
    const uint64_t all =
        device->link_bytes(limit->ops + extra, limit->refs + extra, limit->scalars + extra);
    const uint64_t fixed = bp_size_add(device->link_bytes(0, 0, 0), TABLE_ALIGNMENT);
    return bp_size_add(bp_size_add(bp_arena_counted(&count), all), BP_PROGRAM_COUNT * fixed);
}

static uint64_t table_bytes(const bp_device *device, bp_kernel kernel, uint32_t tuples)
{
    uint64_t bytes = device->table_bytes != NULL ? device->table_bytes(kernel, tuples) : 0;
    return bp_size_align(bytes, BP_ARENA_ALIGNMENT);
}

uint64_t bp_link_table_bytes(const bp_graph *graph, const bp_device *device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        const bp_op *op = &graph->ops[i];
        bytes = bp_size_add(bytes, table_bytes(device, op->kernel, op->tuples));
    }
    return bytes;
}

/* Tables follow one another in the order of the ops. */
static uint64_t take_table(bp_link *link, const bp_device *device, const bp_op *op)
{
    uint64_t bytes = table_bytes(device, op->kernel, op->tuples);
    if (bytes == 0) {
        return BP_OFFSET_ABSENT;
    }
    uint64_t place = link->table;
    link->table += bytes;
    return place;
}

static void link_op(bp_link *link, const bp_graph *graph, const bp_device *device, const bp_op *op)
{
    uint32_t count = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
    uint64_t *offsets = link->offsets + link->offsets_used;
    uint8_t *dtypes = link->dtypes + link->offsets_used;
    for (uint32_t i = 0; i < count; i++) {
        bp_ref ref = graph->refs[op->operand + i];
        dtypes[i] = (uint8_t)ref.dtype;
        offsets[i] = bp_ref_present(ref)
                         ? bp_buffer_address(&graph->buffers[ref.buffer]) + ref.offset
                         : BP_OFFSET_ABSENT;
    }
    link->ops[link->ops_used++] = (bp_linked_op){.kernel = op->kernel,
                                                 .tuples = op->tuples,
                                                 .offsets = offsets,
                                                 .scalars = graph->scalars + op->scalar,
                                                 .dtypes = dtypes,
                                                 .table = take_table(link, device, op)};
    link->offsets_used += count;
}

static void link_poison(bp_link *link, const bp_buffer *buffer)
{
    bp_poison_scalars *scalars = &link->poison[link->poison_used++];
    scalars->count = (int64_t)(buffer->bytes / 4 * 4);
    link->offsets[link->offsets_used] = bp_buffer_address(buffer);
    link->dtypes[link->offsets_used] = BP_U8;
    link->ops[link->ops_used++] = (bp_linked_op){.kernel = BP_KERNEL_poison,
                                                 .tuples = 1,
                                                 .offsets = link->offsets + link->offsets_used,
                                                 .scalars = scalars,
                                                 .dtypes = link->dtypes + link->offsets_used,
                                                 .table = BP_OFFSET_ABSENT};
    link->offsets_used++;
}

static bool mortal(const bp_buffer *buffer)
{
    return buffer->space != BP_SPACE_OFFLOAD &&
           (buffer->scope == BP_SCOPE_PROGRAM || buffer->scope == BP_SCOPE_GROUP);
}

/* Poisons what is born at `tick` (births) or has died with it. */
static void poison_tick(bp_link *link, const bp_graph *graph, uint32_t tick, bool births)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        bool now = births ? buffer->lower == tick : buffer->upper == tick + 1;
        if (now && mortal(buffer) && buffer->lower < buffer->upper) {
            link_poison(link, buffer);
        }
    }
}

static void link_program(bp_link *link, const bp_graph *graph, const bp_device *device,
                         uint32_t program, bool poison)
{
    uint32_t first = graph->program_first[program];
    bp_linked_op *ops = link->ops + link->ops_used;
    uint32_t before = link->ops_used;
    for (uint32_t i = 0; i < graph->program_count[program]; i++) {
        if (poison) {
            poison_tick(link, graph, first + i, true);
        }
        link_op(link, graph, device, &graph->ops[first + i]);
        if (poison) {
            poison_tick(link, graph, first + i, false);
        }
    }
    link->programs[program] = (bp_linked_program){ops, link->ops_used - before};
}

static bp_status allocate_device(bp_link *link, const bp_device *device, uint32_t program,
                                 bp_arena *memory)
{
    const bp_linked_program *linked = &link->programs[program];
    uint64_t operands = 0;
    uint64_t scalars = 0;
    for (uint32_t i = 0; i < linked->count; i++) {
        const bp_kernel_info *info = bp_kernel_describe(linked->ops[i].kernel);
        operands += (uint64_t)linked->ops[i].tuples * info->operand_count;
        scalars += (uint64_t)linked->ops[i].tuples * info->scalar_count;
    }
    link->device_bytes[program] = (size_t)device->link_bytes(linked->count, operands, scalars);
    return bp_arena_allocate(memory, link->device_bytes[program], TABLE_ALIGNMENT,
                             &link->device_memory[program]);
}

bp_status bp_link_graph(bp_link *link, const bp_graph *graph, const bp_device *device, bool poison,
                        bp_arena *memory)
{
    *link = (bp_link){0};
    BP_TRY(link_tables(link, &graph->used, poison, memory));
    if (graph->tables != BP_NO_BUFFER) {
        link->table = graph->buffers[graph->tables].offset;
    }
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (graph->program_count[program] > 0) {
            link_program(link, graph, device, program, poison);
            BP_TRY(allocate_device(link, device, program, memory));
        }
    }
    return BP_OK;
}
