/* SPDX-License-Identifier: MIT */
/* Tensor maps: where the elements of a box lie. */
#include "tools/ptxvm/driver/tensor_map.h"

#include <string.h>

#define MAP_MAGIC UINT64_C(0x70616d726f736e74)

static const struct {
    uint8_t bytes;
    uint8_t type;
    bool floating;
} elements[] = {{1, VT_U8, false},  {2, VT_U16, false}, {4, VT_U32, false}, {4, VT_S32, false},
                {8, VT_U64, false}, {8, VT_S64, false}, {2, VT_F16, true},  {4, VT_F32, true},
                {8, VT_F64, true},  {2, VT_BF16, true}, {4, VT_F32, true},  {4, VT_TF32, true},
                {4, VT_TF32, true}};
enum { ELEMENTS = sizeof elements / sizeof elements[0] };

unsigned vm_map_element(unsigned type)
{
    return type < ELEMENTS ? elements[type].bytes : 0;
}

bool vm_map_floating(unsigned type)
{
    return type < ELEMENTS && elements[type].floating;
}

vm_type vm_map_type(unsigned type)
{
    return type < ELEMENTS ? (vm_type)elements[type].type : VT_NONE;
}

static uint64_t digest_of(const vm_tensor_map *map)
{
    vm_tensor_map copy = *map;
    copy.digest = 0;
    const uint8_t *bytes = (const uint8_t *)&copy;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < sizeof copy; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

void vm_map_seal(vm_tensor_map *map)
{
    map->magic = MAP_MAGIC;
    map->digest = digest_of(map);
}

bool vm_map_whole(const vm_tensor_map *map)
{
    return map->magic == MAP_MAGIC && map->digest == digest_of(map);
}

uint32_t vm_map_box_bytes(const vm_tensor_map *map)
{
    uint32_t bytes = vm_map_element(map->type);
    for (unsigned i = 0; i < map->rank; i++) {
        bytes *= map->box[i];
    }
    return bytes;
}

vm_map_chunk vm_map_find(const vm_tensor_map *map, const int32_t *at, uint32_t chunk)
{
    const unsigned size = vm_map_element(map->type);
    const unsigned per = VM_MAP_CHUNK / size;
    const uint32_t row = map->box[0] / per; /* chunks */
    vm_map_chunk found = {.address = map->address, .elements = per};
    bool inside = true;
    const int64_t first = (int64_t)at[0] + (int64_t)(chunk % row) * per;
    uint32_t rest = chunk / row;
    for (unsigned i = 1; i < map->rank; i++) {
        const int64_t where = (int64_t)at[i] + rest % map->box[i];
        rest /= map->box[i];
        inside = inside && where >= 0 && where <= (int64_t)map->last[i];
        found.address += (uint64_t)where * map->strides[i - 1];
    }
    found.address += (uint64_t)first * size;
    for (unsigned e = 0; e < per && inside; e++) {
        const int64_t where = first + e;
        found.inside |= where >= 0 && where <= (int64_t)map->last[0] ? 1u << e : 0;
    }
    return found;
}
