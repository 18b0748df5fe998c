/* SPDX-License-Identifier: MIT */
/* A defective device. */
#include "tests/support/flip.h"

#include "core/number/random.h"
#include "device/host/host.h"

flip flip_now;

/* Turns over a bit of what the op has written; false where it writes nothing. */
static bool flip_output(void *context, const bp_linked_op *op, uint64_t which)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    bp_extent extents[BP_OPERANDS_MAX];
    uint32_t random[4];
    bp_philox((const uint32_t[4]){(uint32_t)which, 1, 2, 3}, flip_now.seed, random);
    info->extents(op->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const uint32_t operand = (i + random[0]) % info->operand_count;
        const bp_extent *extent = &extents[operand];
        const uint64_t offset = op->offsets[operand];
        const size_t size =
            bp_operand_element_bytes(info->operand[operand].type, (bp_dtype)op->dtypes[operand]);
        const bool writes =
            extent->access == BP_ACCESS_WRITE || extent->access == BP_ACCESS_READ_WRITE;
        if (!writes || offset == BP_OFFSET_ABSENT || extent->rows == 0 || extent->width == 0) {
            continue;
        }
        const uint64_t row = random[1] % extent->rows;
        const uint64_t byte = row * extent->pitch * size + random[2] % (extent->width * size);
        uint8_t value;
        const bp_device *device = flip_now.device;
        if (device->download(context, offset + byte, &value, 1) != BP_OK) {
            return false;
        }
        value ^= (uint8_t)(1u << random[3] % 8);
        flip_now.kernel = op->kernel;
        return device->upload(context, offset + byte, &value, 1) == BP_OK;
    }
    return false;
}

/* Whether the op about to be finished is spoilt by what is sick; *which: in which way. */
static bool flip_sick(uint32_t op, uint64_t *which)
{
    const bp_device_move *move = &flip_now.move;
    if (op != flip_now.sick_op) {
        return false;
    }
    *which = 1;
    if (flip_now.sick_form) {
        return move->form == 0;
    }
    *which = 100 * move->form + 10 * move->first + move->count + 1000 * move->turn;
    if (flip_now.sick == 0 || move->count == 0) {
        return flip_now.sick > 0 && flip_now.sick <= flip_now.threads;
    }
    for (uint32_t w = 0; w < flip_now.threads; w++) {
        if (move->first + (w + move->turn) % move->count == flip_now.sick - 1) {
            return true;
        }
    }
    return false;
}

static void flip_move(void *context, const bp_device_move *to)
{
    flip_now.move = *to;
    flip_now.device->move(context, to);
}

static uint32_t flip_processors(const void *context, uint16_t *list, uint32_t most)
{
    (void)context;
    (void)most;
    for (uint16_t i = 0; i < FLIP_PROCESSORS; i++) {
        list[i] = i;
    }
    return FLIP_PROCESSORS;
}

static bp_status flip_run_ops(void *context, uint32_t program, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        BP_TRY(flip_now.device->run_ops(context, program, i, 1));
        const uint64_t behind = flip_now.ran - flip_now.at;
        uint64_t which = flip_now.ran;
        const bool hit =
            flip_sick(i, &which) || flip_now.ran == flip_now.at ||
            (flip_now.every > 0 && flip_now.ran > flip_now.at && behind % flip_now.every == 0);
        if (hit && program < BP_PROGRAM_COUNT) {
            const bp_linked_op *op = &flip_now.runtime->link.programs[program].ops[i];
            flip_now.flipped += flip_output(context, op, which) ? 1 : 0;
        }
        flip_now.ran++;
    }
    return BP_OK;
}

static bp_status flip_run(void *context, uint32_t program)
{
    return flip_run_ops(context, program, 0, flip_now.runtime->link.programs[program].count);
}

bp_device flip_device_of(const bp_device *device)
{
    bp_device defective = *device;
    flip_now.device = device;
    defective.run = flip_run;
    defective.run_ops = flip_run_ops;
    if (device->move != NULL) {
        defective.move = flip_move;
        defective.processors = flip_processors;
    }
    return defective;
}

bp_device flip_device(void)
{
    return flip_device_of(&bp_device_host);
}
