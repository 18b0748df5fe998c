/* SPDX-License-Identifier: MIT */
/* The parameters of launches: their bytes, and what memory may be touched through them. */
#include <string.h>

#include "device/cuda/context.h"

static uint64_t parameter_value(const cuda_context *context, const bp_linked_op *op,
                                const bp_cuda_parameter *parameter)
{
    uint64_t offset = op->offsets[parameter->operand];
    switch ((bp_cuda_parameter_kind)parameter->kind) {
    case BP_CUDA_OPERAND:
        return offset == BP_OFFSET_ABSENT ? 0 : context->arena + offset + parameter->value;
    case BP_CUDA_BASE:
        return context->arena;
    case BP_CUDA_TABLE:
        return context->arena + op->table;
    case BP_CUDA_WORD64:
    case BP_CUDA_WORD32:
    case BP_CUDA_VALUE:
    case BP_CUDA_MAP:
        break;
    }
    return parameter->value;
}

/* Where the next parameter goes, and how long it is. */
static uint32_t parameter_place(const bp_cuda_launch *launch, const bp_cuda_parameter *parameter,
                                uint32_t from, uint32_t *bytes)
{
    uint32_t alignment = parameter->kind == BP_CUDA_WORD32 ? sizeof(uint32_t) : sizeof(uint64_t);
    *bytes = alignment;
    if (parameter->kind == BP_CUDA_MAP) {
        alignment = *bytes = BP_CUDA_MAP_BYTES;
    }
    if (parameter->kind == BP_CUDA_VALUE) {
        alignment = launch->value[parameter->value].alignment;
        *bytes = launch->value[parameter->value].bytes;
    }
    return (from + alignment - 1) / alignment * alignment;
}

enum { MAP_ALIGN = 128 /* of a map in the host's memory */ };

/* The driver makes the map where it wants it to lie. */
static bp_status parameter_map(cuda_context *context, const bp_linked_op *op,
                               const bp_cuda_launch *launch, const bp_cuda_parameter *parameter,
                               unsigned char *to)
{
    unsigned char room[BP_CUDA_MAP_BYTES + MAP_ALIGN];
    void *made = room + (MAP_ALIGN - (uintptr_t)room % MAP_ALIGN) % MAP_ALIGN;
    const uint32_t steps[3] = {1, 1, 1};
    bp_cuda_map map;
    memcpy(&map, launch->value[parameter->value].content, sizeof map);
    const bp_cu_address address = context->arena + op->offsets[parameter->operand] + map.offset;
    const bp_cu_map_type type = map.dtype == BP_U8    ? BP_CU_MAP_U8
                                : map.dtype == BP_F16 ? BP_CU_MAP_F16
                                                      : BP_CU_MAP_BF16;
    const bp_cu_result result = context->driver.cuTensorMapEncodeTiled(
        made, type, map.directions, (void *)(uintptr_t)address, map.extents, map.pitch, map.box,
        steps, 0, BP_CU_MAP_SWIZZLE_128, BP_CU_MAP_L2_128, 0);
    memcpy(to, made, BP_CUDA_MAP_BYTES);
    return cuda_check(context, result, "cuTensorMapEncodeTiled");
}

/* The low half of a word comes first: GPUs and their hosts are little-endian. */
bp_status cuda_parameters_write(cuda_context *context, const bp_linked_op *op,
                                const bp_cuda_launch *launch,
                                unsigned char to[CUDA_PARAMETERS_BYTES], uint32_t *bytes)
{
    memset(to, 0, CUDA_PARAMETERS_BYTES);
    *bytes = 0;
    for (uint32_t i = 0; i < launch->parameter_count; i++) {
        const bp_cuda_parameter *parameter = &launch->parameter[i];
        bool by_value = parameter->kind == BP_CUDA_VALUE || parameter->kind == BP_CUDA_MAP;
        uint64_t word = by_value ? 0 : parameter_value(context, op, parameter);
        uint32_t length;
        uint32_t place = parameter_place(launch, parameter, *bytes, &length);
        if (place + length > CUDA_PARAMETERS_BYTES) {
            return BP_ERR_FIT;
        }
        if (parameter->kind == BP_CUDA_MAP) {
            BP_TRY(parameter_map(context, op, launch, parameter, to + place));
            *bytes = place + length;
            continue;
        }
        memcpy(to + place, by_value ? (const void *)launch->value[parameter->value].content : &word,
               length);
        *bytes = place + length;
    }
    return BP_OK;
}

/* The extent of an operand from where the parameter points. Part of an operand is given as one
 * run. */
static bp_cu_operand operand_extent(const cuda_context *context, const bp_linked_op *op,
                                    const bp_cuda_parameter *parameter, const bp_extent *extent)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_operand_info *operand = &info->operand[parameter->operand];
    bp_cu_operand out = {.rows = 1};
    if (operand->workspace) {
        out.row_bytes = bp_cuda_workspace(&context->target, op->kernel, op->scalars);
    } else {
        size_t element =
            bp_operand_element_bytes(operand->type, (bp_dtype)op->dtypes[parameter->operand]);
        out.rows = extent->rows;
        out.row_bytes = extent->width * element;
        out.pitch = extent->pitch * element;
    }
    if (parameter->value != 0) {
        uint64_t all = out.rows > 0 ? (out.rows - 1) * out.pitch + out.row_bytes : 0;
        out = (bp_cu_operand){.rows = 1, .row_bytes = bp_size_sub(all, parameter->value)};
    }
    return out;
}

/* What a launch may touch through one parameter; false where that is no memory. bp_access has its
 * scratch beside read and write, which here is both. */
static bool operand_of(const cuda_context *context, const bp_linked_op *op,
                       const bp_cuda_launch *launch, const bp_cuda_parameter *parameter,
                       const bp_extent *extents, bp_cu_operand *operand)
{
    bp_cuda_parameter from = *parameter;
    bp_cuda_map map;
    *operand = (bp_cu_operand){.rows = 1};
    switch ((bp_cuda_parameter_kind)parameter->kind) {
    case BP_CUDA_OPERAND:
        *operand = operand_extent(context, op, parameter, &extents[parameter->operand]);
        operand->access =
            parameter->access == BP_ACCESS_SCRATCH ? BP_ACCESS_READ_WRITE : parameter->access;
        return true;
    case BP_CUDA_MAP:
        memcpy(&map, launch->value[parameter->value].content, sizeof map);
        from.value = map.offset;
        *operand = operand_extent(context, op, &from, &extents[parameter->operand]);
        operand->access = parameter->access;
        return true;
    case BP_CUDA_BASE:
        operand->row_bytes = context->arena_bytes;
        operand->access = BP_ACCESS_READ_WRITE;
        return true;
    case BP_CUDA_TABLE:
        operand->row_bytes = bp_cuda_table_bytes(op->kernel, op->tuples);
        operand->access = BP_ACCESS_READ;
        return true;
    case BP_CUDA_WORD64:
    case BP_CUDA_WORD32:
    case BP_CUDA_VALUE:
        break;
    }
    return false;
}

bp_status cuda_operands_declare(cuda_context *context, const cuda_record *record)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    bp_cu_operand operands[BP_CUDA_PARAMETERS_MAX];
    bp_extent extents[BP_OPERANDS_MAX];
    const bp_linked_op *op = record->op;
    uint32_t count = 0;
    uint32_t planned = bp_cuda_plan_launches(&context->target, op, launches);
    uint32_t index = record->as.kernel.index;
    const bp_cuda_launch *made = &launches[index < planned ? index : 0];
    bp_kernel_describe(op->kernel)->extents(op->scalars, extents);
    for (uint32_t i = 0; i < made->parameter_count; i++) {
        if (operand_of(context, op, made, &made->parameter[i], extents, &operands[count])) {
            operands[count++].parameter = i;
        }
    }
    return CUDA_CALL(context, ptxvmNextOperands, operands, count);
}
