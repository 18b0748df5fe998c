/* SPDX-License-Identifier: MIT */
/* Tensor maps: 128 bytes that describe a tensor in global memory, the box that one copy moves, and
 * where the box's bytes lie in shared memory. The encoding is this instrument's own; NVIDIA's is
 * not documented. */
#ifndef PTXVM_TENSOR_MAP_H
#define PTXVM_TENSOR_MAP_H

#include "tools/ptxvm/text/types.h"

enum { VM_MAP_RANK = 5, VM_MAP_BYTES = 128, VM_MAP_CHUNK = 16 };

/* Patterns of shared memory, by CUtensorMapSwizzle's numbers: pieces of 16 bytes change places
 * within 32, 64 or 128 bytes. */
typedef enum vm_swizzle { SZ_NONE, SZ_32, SZ_64, SZ_128, SZ_COUNT } vm_swizzle;

typedef struct vm_tensor_map {
    uint64_t magic;
    uint64_t address;
    uint64_t strides[VM_MAP_RANK - 1]; /* bytes, of dimensions 1 .. */
    uint32_t last[VM_MAP_RANK];        /* elements of each dimension less one */
    uint16_t box[VM_MAP_RANK];         /* elements */
    uint8_t steps[VM_MAP_RANK];
    uint8_t type; /* CUtensorMapDataType's number */
    uint8_t rank;
    uint8_t swizzle;
    uint8_t fills_nan;
    uint8_t spare[1];
    uint64_t digest;
    uint8_t rest[32];
} vm_tensor_map;

/* Bytes of an element; 0: no such type. */
unsigned vm_map_element(unsigned type);
/* What its elements are to an addition. */
vm_type vm_map_type(unsigned type);
bool vm_map_floating(unsigned type);

/* Marks a map as whole, and tells whether one is. */
void vm_map_seal(vm_tensor_map *map);
bool vm_map_whole(const vm_tensor_map *map);

uint32_t vm_map_box_bytes(const vm_tensor_map *map);

/* The shared address that an address means under a pattern. */
static inline uint32_t vm_swizzled(uint32_t address, vm_swizzle pattern)
{
    const uint32_t kept = (1u << pattern) - 1; /* 0, 1, 3, 7 */
    return address ^ ((address >> 7 & kept) << 4);
}

/* Elements of one chunk of 16 bytes of a box: the address of the first, wherever it lies, and which
 * of them are inside the tensor. */
typedef struct vm_map_chunk {
    uint64_t address;
    uint32_t inside; /* one bit for each element */
    unsigned elements;
} vm_map_chunk;
vm_map_chunk vm_map_find(const vm_tensor_map *map, const int32_t *at, uint32_t chunk);

#endif
