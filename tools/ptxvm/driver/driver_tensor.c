/* SPDX-License-Identifier: MIT */
/* cuTensorMapEncodeTiled: what can be described, in this instrument's own encoding. */
#include <string.h>

#include "tools/ptxvm/driver/driver.h"
#include "tools/ptxvm/driver/tensor_map.h"

/* Limits of cuTensorMapEncodeTiled. */
enum { HOST_ALIGN = 64, BOX_MOST = 256, STEP_MOST = 8, PROMOTIONS = 4 };
#define EXTENT_MOST (UINT64_C(1) << 32)
#define STRIDE_MOST (UINT64_C(1) << 40)

/* Whether the tensor and the box can be described. */
static bool map_fits(const vm_tensor_map *map, const uint64_t *extents, const uint64_t *strides,
                     const uint32_t *box, const uint32_t *steps)
{
    static const unsigned spans[SZ_COUNT] = {UINT16_MAX, 32, 64, 128};
    const unsigned size = vm_map_element(map->type);
    if (map->address % 16 != 0 || box[0] * size % VM_MAP_CHUNK != 0) {
        return false;
    }
    for (unsigned i = 0; i < map->rank; i++) {
        if (extents[i] == 0 || extents[i] > EXTENT_MOST || box[i] == 0 || box[i] > BOX_MOST ||
            steps[i] == 0 || steps[i] > STEP_MOST) {
            return false;
        }
        if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= STRIDE_MOST)) {
            return false;
        }
    }
    return box[0] * size <= spans[map->swizzle] && (!map->fills_nan || vm_map_floating(map->type));
}

int cuTensorMapEncodeTiled(void *made, int type, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill)
{
    vm_tensor_map map;
    DR_ENTER(cuTensorMapEncodeTiled);
    memset(&map, 0, sizeof map);
    if (made == NULL || (uintptr_t)made % HOST_ALIGN != 0 || extents == NULL || box == NULL ||
        steps == NULL || (rank > 1 && strides == NULL) || rank == 0 || rank > VM_MAP_RANK ||
        type < 0 || vm_map_element((unsigned)type) == 0 || interleave != 0 || swizzle < 0 ||
        swizzle >= SZ_COUNT || promotion < 0 || promotion >= PROMOTIONS || fill < 0 || fill > 1) {
        return dr_leave(VM_INVALID_VALUE);
    }
    map.address = (uint64_t)(uintptr_t)address;
    map.type = (uint8_t)type;
    map.rank = (uint8_t)rank;
    map.swizzle = (uint8_t)swizzle;
    map.fills_nan = (uint8_t)fill;
    if (!map_fits(&map, extents, strides, box, steps)) {
        return dr_leave(VM_INVALID_VALUE);
    }
    for (uint32_t i = 0; i < rank; i++) {
        map.last[i] = (uint32_t)(extents[i] - 1);
        map.box[i] = (uint16_t)box[i];
        map.steps[i] = (uint8_t)steps[i];
        if (i > 0) {
            map.strides[i - 1] = strides[i - 1];
        }
    }
    vm_map_seal(&map);
    memcpy(made, &map, sizeof map);
    return dr_leave(VM_OK);
}
