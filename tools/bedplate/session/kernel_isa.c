/* SPDX-License-Identifier: MIT */
/* Kernels for every GPU in place of a target's own. */
#include "tools/bedplate/session/kernel_isa.h"

#include "device/registry.h"

enum { KINDS_MOST = 16 };

/* Ops of one kernel with one reason. */
typedef struct kernel_form {
    bp_kernel kernel;
    const char *reason; /* static */
    uint32_t count;
    uint32_t first; /* op */
} kernel_form;

typedef struct kernel_isa {
    kernel_form kind[KINDS_MOST];
    uint32_t count;
} kernel_isa;

/* Why an op has another kernel; NULL: it has not. It is linked as the linker does. */
static const char *forms_reason(const bp_device_entry *device, const bp_plan *plan, const bp_op *op)
{
    const bp_graph *graph = &plan->graph;
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    const uint32_t count = bp_kernel_describe(op->kernel)->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        const bp_ref ref = graph->refs[op->operand + i];
        dtypes[i] = (uint8_t)ref.dtype;
        offsets[i] = bp_ref_present(ref)
                         ? bp_buffer_address(&graph->buffers[ref.buffer]) + ref.offset
                         : BP_OFFSET_ABSENT;
    }
    const bp_linked_op linked = {.kernel = op->kernel,
                                 .tuples = 1,
                                 .offsets = offsets,
                                 .scalars = graph->scalars + op->scalar,
                                 .dtypes = dtypes,
                                 .table = BP_OFFSET_ABSENT};
    return device->misses(&plan->spec.device_options, &linked);
}

static void forms_count(kernel_isa *forms, bp_kernel kernel, const char *reason, uint32_t op)
{
    uint32_t i = 0;
    while (i < forms->count &&
           (forms->kind[i].kernel != kernel || forms->kind[i].reason != reason)) {
        i++;
    }
    if (i == forms->count && i < KINDS_MOST) {
        forms->kind[forms->count++] = (kernel_form){kernel, reason, 0, op};
    }
    if (i < KINDS_MOST) {
        forms->kind[i].count++;
    }
}

static kernel_isa forms_find(const bp_plan *plan)
{
    kernel_isa forms = {.count = 0};
    const bp_device_entry *device = bp_device_entry_of(plan->spec.device);
    if (device->misses == NULL) {
        return forms;
    }
    for (uint32_t i = 0; i < plan->graph.used.ops; i++) {
        const bp_op *op = &plan->graph.ops[i];
        const char *reason = op->tuples == 1 ? forms_reason(device, plan, op) : NULL;
        if (reason != NULL) {
            forms_count(&forms, op->kernel, reason, i);
        }
    }
    return forms;
}

void kernel_isa_text(bp_text *text, const bp_plan *plan)
{
    const kernel_isa forms = forms_find(plan);
    for (uint32_t i = 0; i < forms.count; i++) {
        const kernel_form *kind = &forms.kind[i];
        const bp_kernel_info *info = bp_kernel_describe(kind->kernel);
        const bp_scalar *scalars = plan->graph.scalars + plan->graph.ops[kind->first].scalar;
        bp_text_string(text, i == 0 ? "as " : "   ");
        bp_text_padded(text, i == 0 ? bp_device_entry_of(plan->spec.device)->common : "", 9,
                       BP_TEXT_LEFT);
        bp_text_u64(text, kind->count);
        bp_text_char(text, ' ');
        bp_text_string(text, info->name);
        bp_text_string(text, ", ");
        bp_text_string(text, kind->reason);
        bp_text_string(text, ": first op ");
        bp_text_u64(text, kind->first);
        for (uint32_t s = 0; s < info->scalar_count && s < 5; s++) {
            bp_text_char(text, ' ');
            bp_text_string(text, info->scalar[s].name);
            bp_text_char(text, '=');
            bp_text_i64(text, scalars[s].integer);
        }
        bp_text_char(text, '\n');
    }
}

void kernel_isa_json(output *out, const bp_plan *plan)
{
    const kernel_isa forms = forms_find(plan);
    if (forms.count == 0) {
        return;
    }
    json_open(out, "other_kernels");
    for (uint32_t i = 0; i < forms.count; i++) {
        char key[128];
        bp_text text;
        bp_text_init(&text, NULL, NULL, key, sizeof key);
        bp_text_string(&text, bp_kernel_describe(forms.kind[i].kernel)->name);
        bp_text_string(&text, ": ");
        bp_text_string(&text, forms.kind[i].reason);
        const bp_status fits = bp_text_flush(&text);
        (void)fits;
        json_count(out, key, forms.kind[i].count);
    }
    json_close(out);
}
