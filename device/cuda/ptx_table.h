/* SPDX-License-Identifier: MIT */
/* Numbers of the PTX modules and of the functions in them: ptx_table.def as enums. */
#ifndef BP_DEVICE_CUDA_PTX_TABLE_H
#define BP_DEVICE_CUDA_PTX_TABLE_H

typedef enum bp_cuda_family {
#define FAMILY(name) BP_CUDA_FAMILY_##name,
#include "device/cuda/ptx_table.def"
    BP_CUDA_FAMILY_COUNT
} bp_cuda_family;

typedef enum bp_cuda_module_number {
#define MODULE(family, suffix, types, target) BP_CUDA_MODULE_##family##suffix,
#include "device/cuda/ptx_table.def"
    BP_CUDA_MODULE_COUNT
} bp_cuda_module_number;

/* The number of each function within its family. */
#define FAMILY(name)                   enum {
#define FUNCTION(family, name, shared) BP_CUDA_FUNCTION_##name,
#define END_FAMILY(name)                                                                           \
    BP_CUDA_FUNCTIONS_OF_##name                                                                    \
    }                                                                                              \
    ;
#include "device/cuda/ptx_table.def"

#endif
