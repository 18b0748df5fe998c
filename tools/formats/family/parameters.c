/* SPDX-License-Identifier: MIT */
/* A graph with nothing but parameters in it. */
#include "tools/formats/family/parameters.h"

#include <string.h>

#include "core/plan/adapter.h"

#define NAME_BYTES 160 /* most that a buffer's name takes (core/plan/builder.c) */

static bp_graph_limits limits_of(const bp_model *model, const bp_model_config *config)
{
    uint32_t count = model->parameter_count(config);
    return (bp_graph_limits){.buffers = count + 1,
                             .name_bytes =
                                 count > UINT32_MAX / NAME_BYTES ? UINT32_MAX : count * NAME_BYTES};
}

/* The rows that a graph's tables go before. */
static bp_status parameters_rows(const bp_graph_limits *limit, bp_arena *memory, void **rows,
                                 void **list)
{
    BP_TRY(bp_arena_rows(memory, limit->buffers, sizeof(bp_parameter), 16, rows));
    return bp_arena_rows(memory, limit->buffers, sizeof(bp_wanted), 16, list);
}

uint64_t bp_parameters_bytes(const bp_model *model, const bp_model_config *config)
{
    const bp_graph_limits limit = limits_of(model, config);
    bp_arena count;
    void *rows, *list;
    bp_arena_count(&count);
    const bp_status status = parameters_rows(&limit, &count, &rows, &list);
    (void)status; /* what is too much for it is BP_SIZE_INVALID */
    return bp_size_add(bp_graph_bytes(&limit), bp_arena_counted(&count));
}

bp_status bp_parameters_list(const bp_model *model, const bp_model_config *config, bp_staging *room,
                             bp_parameters *parameters, bp_error *error)
{
    const bp_graph_limits limit = limits_of(model, config);
    const bp_spec spec = {.model = model, .config = *config};
    uint64_t bytes = bp_parameters_bytes(model, config);
    void *memory = bp_room_take(room, bytes);
    bp_arena arena;
    bp_graph graph;
    void *rows = NULL;
    void *list = NULL;
    if (memory == NULL) {
        return bp_error_limit(error, BP_ERR_FIT, "parameters",
                              "the memory for a model's table of parameters is too small", NULL,
                              bp_size_signed(room->capacity), BP_LIMIT_LEAST,
                              bp_size_signed(bytes));
    }
    bp_arena_init(&arena, memory, (size_t)bytes);
    BP_TRY(bp_graph_init(&graph, &limit, &arena, error));
    BP_TRY(parameters_rows(&limit, &arena, &rows, &list));
    bp_builder builder;
    bp_build_init(&builder, &graph, &spec, rows, limit.buffers);
    model->parameters(&builder, config);
    BP_TRY(builder.status);
    *parameters = (bp_parameters){.list = list, .count = builder.parameter_count};
    for (uint32_t p = 0; p < builder.parameter_count; p++) {
        const bp_buffer *buffer = &graph.buffers[builder.parameters[p].weight];
        bp_wanted *wanted = &parameters->list[p];
        *wanted = (bp_wanted){.name = graph.names + buffer->name, .rank = buffer->rank};
        wanted->dense = bp_adapter_dense(&builder, p);
        wanted->input_major = builder.parameters[p].input_major;
        memcpy(wanted->shape, buffer->shape, sizeof wanted->shape);
    }
    return BP_OK;
}
