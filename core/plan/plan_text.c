/* SPDX-License-Identifier: MIT */
/* A plan for reading. */
#include "core/plan/plan_file.h"

#include "core/base/digest.h"
#include "core/base/version.h"
#include "core/ir/cost.h"

static void text_operand(bp_text *out, const bp_graph *graph, const bp_operand_info *info,
                         bp_ref ref, const bp_extent *extent)
{
    static const char *const access[] = {"?", "r", "w", "rw", "s"};
    bp_text_string(out, "\n        ");
    bp_text_padded(out, access[extent->access], 3, BP_TEXT_LEFT);
    bp_text_string(out, info->name);
    bp_text_string(out, " = ");
    if (!bp_ref_present(ref)) {
        bp_text_string(out, "-");
        return;
    }
    const bp_buffer *buffer = &graph->buffers[ref.buffer];
    size_t element = bp_operand_element_bytes(info->type, ref.dtype);
    bp_text_string(out, bp_graph_name(graph, ref.buffer));
    bp_text_string(out, " @");
    if (buffer->space != BP_SPACE_DEVICE) {
        bp_text_string(out, bp_space_name(buffer->space));
        bp_text_char(out, ':');
    }
    bp_text_string(out, "0x");
    bp_text_hex(out, buffer->offset + ref.offset, 8);
    bp_text_char(out, ' ');
    bp_text_u64(out, info->workspace ? buffer->bytes : bp_extent_bytes(extent, element));
    bp_text_string(out, " bytes");
}

static void text_scalar(bp_text *out, const bp_scalar_info *info, bp_scalar scalar)
{
    bp_text_char(out, ' ');
    bp_text_string(out, info->name);
    bp_text_char(out, '=');
    if (info->real) {
        bp_text_general(out, scalar.real, 9);
    } else {
        bp_text_i64(out, scalar.integer);
    }
}

static void text_tuple(bp_text *out, const bp_graph *graph, const bp_op *op, uint32_t tuple)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = graph->refs + op->operand + (size_t)tuple * info->operand_count;
    const bp_scalar *scalars = graph->scalars + op->scalar + (size_t)tuple * info->scalar_count;
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(scalars, extents);
    for (uint32_t s = 0; s < info->scalar_count; s++) {
        text_scalar(out, &info->scalar[s], scalars[s]);
    }
    for (uint32_t o = 0; o < info->operand_count; o++) {
        text_operand(out, graph, &info->operand[o], refs[o], &extents[o]);
    }
}

static void text_op(bp_text *out, const bp_graph *graph, uint32_t index)
{
    const bp_op *op = &graph->ops[index];
    bp_text_u64_padded(out, index, 5);
    bp_text_string(out, "  ");
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    bp_text_string(out, info->name);
    if (info->engine != BP_ENGINE_COMPUTE) {
        bp_text_string(out, " [");
        bp_text_string(out, bp_engine_name(info->engine));
        bp_text_char(out, ']');
    }
    if (op->tuples > 1) {
        bp_text_string(out, " x ");
        bp_text_u64(out, op->tuples);
    }
    for (uint32_t tuple = 0; tuple < op->tuples; tuple++) {
        if (tuple > 0) {
            bp_text_string(out, "\n      ");
        }
        text_tuple(out, graph, op, tuple);
    }
    bp_text_char(out, '\n');
}

/* What a program moves beside computing, if it does. */
static void text_moved(bp_text *out, double bytes, const char *how)
{
    if (bytes > 0.0) {
        bp_text_string(out, ", ");
        bp_text_grouped(out, (uint64_t)bytes);
        bp_text_string(out, how);
    }
}

void bp_plan_put_programs(bp_text *out, const bp_graph *graph)
{
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (graph->program_count[program] == 0) {
            continue;
        }
        bp_text_string(out, "program ");
        bp_text_string(out, bp_program_name((bp_program_kind)program));
        bp_text_string(out, ": ");
        bp_text_u64(out, graph->program_count[program]);
        bp_text_string(out, " ops");
        bp_cost cost = bp_cost_total(graph, (bp_program_kind)program);
        text_moved(out, cost.flops, " flops of products");
        text_moved(out, cost.bytes, " bytes of operands");
        text_moved(out, cost.copy_bytes, " bytes copied");
        text_moved(out, cost.fabric_bytes, " bytes from other ranks");
        bp_text_char(out, '\n');
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            text_op(out, graph, graph->program_first[program] + i);
        }
        bp_text_char(out, '\n');
    }
}

static void text_row(bp_text *out, const char *name, uint64_t value)
{
    bp_text_string(out, name);
    bp_text_char(out, ' ');
    bp_text_u64(out, value);
    bp_text_char(out, '\n');
}

static void text_buffer(bp_text *out, const bp_graph *graph, uint32_t index)
{
    const bp_buffer *b = &graph->buffers[index];
    bp_text_string(out, bp_space_name(b->space));
    bp_text_string(out, " 0x");
    bp_text_hex(out, b->offset, 8);
    bp_text_char(out, ' ');
    bp_text_u64(out, b->bytes);
    bp_text_string(out, " bytes, ops ");
    bp_text_u64(out, b->lower);
    bp_text_string(out, " to ");
    bp_text_u64(out, b->upper);
    bp_text_string(out, ", ");
    bp_text_string(out, bp_class_name(b->class_of));
    bp_text_string(out, ", ");
    bp_text_string(out, bp_scope_name(b->scope));
    bp_text_string(out, ": ");
    bp_text_string(out, bp_graph_name(graph, index));
    bp_text_string(out, " (");
    for (uint32_t i = 0; i < b->rank; i++) {
        bp_text_string(out, i > 0 ? ", " : "");
        bp_text_u64(out, b->shape[i]);
    }
    bp_text_string(out, ") ");
    bp_text_string(out, bp_dtype_name(b->dtype));
    bp_text_char(out, '\n');
}

bp_status bp_plan_print(const bp_plan *plan, bp_plan_sink sink, void *user)
{
    char buffer[256], digest[BP_DIGEST_TEXT];
    bp_plan_choice choices[BP_PLAN_CHOICES];
    bp_text out;
    if (!plan->made) {
        return BP_ERR_USAGE;
    }
    bp_text_init(&out, sink, user, buffer, sizeof buffer);
    bp_digest_text(bp_graph_programs_digest(&plan->graph), digest);
    bp_text_string(&out, "plan " BP_VERSION ", programs ");
    bp_text_string(&out, digest);
    bp_text_char(&out, '\n');
    bp_plan_choices(&plan->spec, choices);
    for (uint32_t i = 0; i < BP_PLAN_CHOICES; i++) {
        text_row(&out, choices[i].name, choices[i].value);
    }
    text_row(&out, "arena_bytes", plan->report.arena_bytes);
    text_row(&out, "lower_bound_bytes", plan->report.lower_bound_bytes);
    text_row(&out, "host_arena_bytes", plan->report.host.arena_bytes);
    text_row(&out, "offload_bytes", plan->report.offload.arena_bytes);
    text_row(&out, "state_bytes", plan->report.state_bytes);
    for (uint32_t i = 0; i < plan->bucket_count; i++) {
        text_row(&out, "length_bucket", plan->buckets[i].sequence);
    }
    for (uint32_t i = BP_NO_BUFFER + 1; i < plan->graph.used.buffers; i++) {
        text_buffer(&out, &plan->graph, i);
    }
    bp_text_char(&out, '\n');
    bp_plan_put_programs(&out, &plan->graph);
    return bp_text_flush(&out);
}
