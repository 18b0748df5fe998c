/* SPDX-License-Identifier: MIT */
/* The table of PTX modules; their texts are binary data (tools/ptx/ptx.mk). */
#include "device/cuda/ptx_table.h"

#include "device/cuda/launch.h"

#define FAMILY(name)                   static const bp_cuda_function functions_##name[] = {
#define FUNCTION(family, name, shared) {"bp_" #name, shared},
#define END_FAMILY(name)                                                                           \
    }                                                                                              \
    ;
#include "device/cuda/ptx_table.def"

#define MODULE(family, suffix, types, target)                                                      \
    extern const unsigned char bp_ptx_##family##suffix[];                                          \
    extern const unsigned char bp_ptx_##family##suffix##_end[];
#include "device/cuda/ptx_table.def"

const bp_cuda_module bp_cuda_modules[] = {
#define MODULE(family, suffix, types, target)                                                      \
    {#family #suffix,         target,                                                              \
     BP_CUDA_FAMILY_##family, BP_CUDA_TYPES_##types,                                               \
     bp_ptx_##family##suffix, bp_ptx_##family##suffix##_end,                                       \
     functions_##family,      BP_CUDA_FUNCTIONS_OF_##family},
#include "device/cuda/ptx_table.def"
};

const uint32_t bp_cuda_module_count = BP_CUDA_MODULE_COUNT;
