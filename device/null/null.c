/* SPDX-License-Identifier: MIT */
/* The null device's table and its entry. It has no memory, no workspaces and every kernel; what
 * would be read of it is refused, so that nobody takes nothing for a result. */
#include "device/null/null.h"

#include <string.h>

#include "device/registry.h"

typedef struct null_context {
    bp_null_counts counts;
    uint32_t programs[BP_PROGRAMS_MAX]; /* ops of each */
    bool linked[BP_PROGRAMS_MAX];
    bool sealed;
    bp_error *error;
} null_context;

static uint64_t null_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    (void)options;
    (void)kernel;
    (void)scalars;
    (void)dtypes;
    return 0;
}

static uint64_t null_link_bytes(uint64_t ops, uint64_t operands, uint64_t scalars)
{
    (void)ops;
    (void)operands;
    (void)scalars;
    return 0;
}

static bp_status null_open(void *memory, const bp_device_options *options,
                           const bp_regions *regions, bp_error *error)
{
    null_context *context = memory;
    (void)options;
    (void)regions;
    memset(context, 0, sizeof *context);
    context->error = error;
    return BP_OK;
}

static bp_status null_link(void *memory, uint32_t program, const bp_linked_program *linked,
                           void *link_memory, size_t bytes)
{
    null_context *context = memory;
    (void)link_memory;
    (void)bytes;
    if (context->sealed) {
        return BP_ERR_SEALED;
    }
    if (program >= BP_PROGRAMS_MAX) {
        return BP_ERR_USAGE;
    }
    for (uint32_t i = 0; i < linked->count; i++) {
        context->counts.linked[linked->ops[i].kernel]++;
    }
    context->programs[program] = linked->count;
    context->linked[program] = true;
    return BP_OK;
}

static bp_status null_seal(void *memory)
{
    null_context *context = memory;
    context->sealed = true;
    return BP_OK;
}

static bp_status null_upload(void *memory, uint64_t place, const void *from, size_t bytes)
{
    null_context *context = memory;
    (void)place;
    (void)from;
    context->counts.uploaded_bytes += bytes;
    return BP_OK;
}

static bp_status null_download(void *memory, uint64_t place, void *to, size_t bytes)
{
    const null_context *context = memory;
    (void)place;
    (void)to;
    (void)bytes;
    return bp_error_set(context->error, BP_ERR_DEVICE, "null device",
                        "the device executes nothing, so there is nothing to read: expected a plan "
                        "alone, or another device",
                        "null");
}

static bp_status null_run_ops(void *memory, uint32_t program, uint32_t first, uint32_t count)
{
    null_context *context = memory;
    if (program >= BP_PROGRAMS_MAX || !context->linked[program] ||
        first > context->programs[program] || count > context->programs[program] - first) {
        return BP_ERR_USAGE;
    }
    context->counts.runs++;
    context->counts.ops += count;
    return BP_OK;
}

static bp_status null_run(void *memory, uint32_t program)
{
    const null_context *context = memory;
    const bool there = program < BP_PROGRAMS_MAX;
    return null_run_ops(memory, program, 0, there ? context->programs[program] : 0);
}

static bp_status null_wait(void *memory)
{
    (void)memory;
    return BP_OK;
}

static const char *null_variant(const void *memory)
{
    (void)memory;
    return "null";
}

static uint64_t null_bytes_in_use(const void *memory)
{
    (void)memory;
    return 0;
}

static void null_close(void *memory)
{
    (void)memory;
}

const bp_null_counts *bp_null_counted(const void *memory)
{
    const null_context *context = memory;
    return &context->counts;
}

static const bp_device null_device = {
    .name = "null",
    .sums_by_row = true,
    .attention_over = true,
    .blocks = true,
    .tier = true,
    .context_bytes = sizeof(null_context),
    .workspace = null_workspace,
    .link_bytes = null_link_bytes,
    .open = null_open,
    .link = null_link,
    .seal = null_seal,
    .upload = null_upload,
    .download = null_download,
    .run = null_run,
    .run_ops = null_run_ops,
    .wait = null_wait,
    .variant = null_variant,
    .bytes_in_use = null_bytes_in_use,
    .close = null_close,
};

static bp_status null_options(bp_device_request *request, bp_device_options *options,
                              bp_error *error)
{
    (void)error;
    *options = (bp_device_options){.threads = 1};
    return request->which[0] == '\0' ? BP_OK : BP_ERR_USAGE;
}

static bool null_list(uint32_t index, uint64_t arena_bytes, bp_device_facts *facts)
{
    (void)arena_bytes;
    if (index > 0) {
        return false;
    }
    bp_fact_flag(facts, "usable", false);
    bp_fact_text(facts, "reason", "executes nothing: for plans alone");
    bp_text_string(facts->line, "null    executes nothing: for plans alone\n");
    return true;
}

static void null_describe(const bp_device_options *options, bp_device_facts *facts)
{
    (void)options;
    bp_fact_flag(facts, "executes", false);
    bp_text_string(facts->line, "null: executes nothing; the arena has no kernel's workspace");
}

BP_DEVICE_ENTRY(null) = {
    .device = &null_device,
    .choices = "null",
    .dry = true,
    .options = null_options,
    .describe = null_describe,
    .list = null_list,
};
