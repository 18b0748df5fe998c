/* SPDX-License-Identifier: MIT */
/* Programs by hand (see hand_program.h). Nothing here ends a test: it is called from threads. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/support/hand_program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/program/verify.h"

#define TABLE_BYTES ((size_t)1 << 20)

/* The first failure ends all that follows. */
static void hand_note(hand_program *h, bp_status status)
{
    if (status != BP_OK && h->error.code == BP_OK) {
        (void)!bp_error_set(&h->error, status, "hand", "a call failed", NULL);
    }
}

void hand_begin(hand_program *h)
{
    const bp_graph_limits limit = {256, 1024, 4096, 8192, 8192};
    bp_arena arena;
    *h = (hand_program){.tables = malloc(TABLE_BYTES)};
    bp_arena_init(&arena, h->tables, TABLE_BYTES);
    hand_note(h, bp_graph_init(&h->graph, &limit, &arena, &h->error));
    bp_graph_begin(&h->graph, BP_PROGRAM_STEP);
}

bp_ref hand_buffer(hand_program *h, const char *name, bp_space space, bp_scope scope,
                   uint64_t bytes)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_TAPE,
                                 .scope = scope,
                                 .dtype = BP_U8,
                                 .rank = 1,
                                 .space = space,
                                 .shape = {bytes}};
    uint32_t index = 0;
    hand_note(h, bp_graph_buffer(&h->graph, &prototype, name, &index));
    return (bp_ref){index, BP_U8, 0};
}

bp_ref hand_at(bp_ref ref, uint64_t bytes, bp_dtype dtype)
{
    return (bp_ref){ref.buffer, dtype, ref.offset + bytes};
}

void hand_op(hand_program *h, bp_kernel kernel, const void *operands, const void *scalars)
{
    const bp_op prototype = {.kernel = kernel, .tuples = 1};
    hand_note(h, bp_graph_op(&h->graph, &prototype, operands, scalars));
}

void hand_compute(hand_program *h, bp_ref y, bp_ref x, int64_t count)
{
    const bp_copy_operands operands = {.y = hand_at(y, 0, BP_F32), .x = hand_at(x, 0, BP_F32)};
    const bp_copy_scalars scalars = {.count = count};
    hand_op(h, BP_KERNEL_copy, &operands, &scalars);
}

int64_t hand_copy_begin(hand_program *h, bp_ref to, bp_ref from, int64_t bytes)
{
    const bp_copy_begin_operands operands = {to, from};
    const bp_copy_begin_scalars s = {bp_graph_ticket(&h->graph), 1, bytes, bytes, bytes};
    hand_op(h, BP_KERNEL_copy_begin, &operands, &s);
    return s.ticket;
}

void hand_copy_wait(hand_program *h, int64_t ticket, bp_ref to, bp_ref from, int64_t bytes)
{
    const bp_copy_wait_operands operands = {to, from};
    const bp_copy_wait_scalars s = {ticket, 1, bytes, bytes, bytes};
    hand_op(h, BP_KERNEL_copy_wait, &operands, &s);
}

int64_t hand_all_gather(hand_program *h, int64_t group, int64_t ranks, bp_ref to, bp_ref from,
                        int64_t bytes)
{
    const bp_all_gather_begin_operands operands = {to, from};
    const bp_all_gather_begin_scalars s = {bp_graph_ticket(&h->graph), group, ranks, bytes};
    hand_op(h, BP_KERNEL_all_gather_begin, &operands, &s);
    return s.ticket;
}

int64_t hand_exchange(hand_program *h, int64_t group, int64_t ranks, bp_ref to, bp_ref from,
                      int64_t bytes)
{
    const bp_exchange_begin_operands operands = {to, from};
    const bp_exchange_begin_scalars s = {bp_graph_ticket(&h->graph), group, ranks, bytes};
    hand_op(h, BP_KERNEL_exchange_begin, &operands, &s);
    return s.ticket;
}

int64_t hand_broadcast(hand_program *h, int64_t group, int64_t ranks, int64_t root, bp_ref to,
                       bp_ref from, int64_t bytes)
{
    const bp_broadcast_begin_operands operands = {to, from};
    const bp_broadcast_begin_scalars s = {bp_graph_ticket(&h->graph), group, ranks, bytes, root};
    hand_op(h, BP_KERNEL_broadcast_begin, &operands, &s);
    return s.ticket;
}

void hand_fabric_wait(hand_program *h, int64_t ticket, bp_ref to, int64_t to_bytes, bp_ref from,
                      int64_t from_bytes)
{
    const bp_fabric_wait_operands operands = {to, from};
    const bp_fabric_wait_scalars s = {ticket, to_bytes, from_bytes};
    hand_op(h, BP_KERNEL_fabric_wait, &operands, &s);
}

static bp_status hand_plan_in(hand_program *h, void *scratch, uint64_t bytes)
{
    bp_graph *graph = &h->graph;
    BP_TRY(bp_verify(graph, h->device, &h->options, scratch, bytes));
    bp_graph_lifetimes(graph);
    BP_TRY(bp_report_plan(graph, 1000, scratch, bytes, &h->report));
    BP_TRY(bp_verify_plan(graph, h->report.arena_bytes, scratch, bytes));
    BP_TRY(bp_verify_space(graph, BP_SPACE_HOST, h->report.host.arena_bytes, scratch, bytes));
    return bp_verify_space(graph, BP_SPACE_BELOW, h->report.below.arena_bytes, scratch, bytes);
}

bp_status hand_plan(hand_program *h, const bp_device *device)
{
    uint64_t verify = bp_verify_scratch(&h->graph);
    uint64_t report = bp_report_scratch(h->graph.used.buffers, 1000);
    uint64_t bytes = verify > report ? verify : report;
    void *scratch = malloc(bytes);
    h->device = device;
    h->options.threads = 1;
    if (h->error.code == BP_OK) {
        hand_note(h, hand_plan_in(h, scratch, bytes));
    }
    free(scratch);
    return h->error.code;
}

/* An arena that ends where a page nobody may touch begins, behind another such page. */
static void hand_map(hand_arena *arena, bp_region *region, uint64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (bytes + page - 1) / page * page;
    arena->map_bytes = inner + 2 * page;
    arena->map = mmap(NULL, arena->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *start = (unsigned char *)arena->map + page;
    if (inner > 0 && mprotect(start, inner, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
    *region = (bp_region){bytes > 0 ? start + (inner - bytes) : NULL, bytes};
}

static bp_status hand_link(hand_program *h, bool poison)
{
    uint64_t bytes = bp_link_bytes(&h->graph.used, h->device, poison);
    bp_arena arena;
    h->linked = malloc(bytes);
    bp_arena_init(&arena, h->linked, bytes);
    return bp_link_graph(&h->link, &h->graph, h->device, poison, &arena);
}

bp_status hand_open(hand_program *h, const bp_device_options *options, bool poison,
                    const bp_fabric *fabric, void *rank)
{
    const bool own = strcmp(h->device->name, "host") != 0; /* it brings its own memory */
    BP_TRY(h->error.code);
    h->options = *options;
    h->context = malloc(h->device->context_bytes);
    hand_map(&h->arenas[BP_SPACE_DEVICE], &h->places.space[BP_SPACE_DEVICE], h->report.arena_bytes);
    hand_map(&h->arenas[BP_SPACE_HOST], &h->places.space[BP_SPACE_HOST],
             h->report.host.arena_bytes);
    for (int i = 0; own && i < BP_SPACE_COUNT; i++) {
        h->places.space[i].address = NULL;
    }
    h->places.fabric = fabric;
    h->places.rank = rank;
    BP_TRY(hand_link(h, poison));
    BP_TRY(h->device->open(h->context, &h->options, &h->places, &h->error));
    h->open = true;
    BP_TRY(h->device->link(h->context, BP_PROGRAM_STEP, &h->link.programs[BP_PROGRAM_STEP],
                           h->link.device_memory[BP_PROGRAM_STEP],
                           h->link.device_bytes[BP_PROGRAM_STEP]));
    return h->device->seal(h->context);
}

bp_status hand_run(hand_program *h)
{
    BP_TRY(h->device->run(h->context, BP_PROGRAM_STEP));
    return h->device->wait(h->context);
}

bp_status hand_write(hand_program *h, bp_ref ref, const void *from, size_t bytes)
{
    uint64_t place = bp_buffer_place(&h->graph.buffers[ref.buffer]);
    return h->device->upload(h->context, place, from, bytes);
}

bp_status hand_read(hand_program *h, bp_ref ref, void *to, size_t bytes)
{
    uint64_t place = bp_buffer_place(&h->graph.buffers[ref.buffer]);
    return h->device->download(h->context, place, to, bytes);
}

void hand_close(hand_program *h)
{
    if (h->open) {
        h->device->close(h->context);
    }
    if (h->context != NULL) {
        munmap(h->arenas[BP_SPACE_DEVICE].map, h->arenas[BP_SPACE_DEVICE].map_bytes);
        munmap(h->arenas[BP_SPACE_HOST].map, h->arenas[BP_SPACE_HOST].map_bytes);
    }
    free(h->context);
    free(h->linked);
    free(h->tables);
    *h = (hand_program){0};
}
