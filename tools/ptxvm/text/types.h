/* SPDX-License-Identifier: MIT */
/* The words of PTX that carry meaning, as numbers: types, spaces, rounding, comparisons, flags. */
#ifndef PTXVM_TYPES_H
#define PTXVM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VM_CLUSTER_MAX = 8, VM_LANES = 32, VM_WARPS_MAX = 32, VM_BARRIERS = 16, VM_FULL = -1 };
#define VM_ALL_LANES 0xffffffffu

typedef enum vm_type {
    VT_NONE,
    VT_PRED,
    VT_B8,
    VT_B16,
    VT_B32,
    VT_B64,
    VT_B128,
    VT_U8,
    VT_U16,
    VT_U32,
    VT_U64,
    VT_S8,
    VT_S16,
    VT_S32,
    VT_S64,
    VT_F16,
    VT_F16X2,
    VT_BF16,
    VT_BF16X2,
    VT_TF32,
    VT_F32,
    VT_F64,
    VT_F32X2,
    VT_U16X2,
    VT_S16X2,
    VT_E4M3,
    VT_E5M2
} vm_type;

typedef enum vm_space {
    VS_GENERIC,
    VS_GLOBAL,
    VS_SHARED,
    VS_LOCAL,
    VS_CONST,
    VS_PARAM, /* the kernel's parameter blob, and the frames of calls above VM_FRAME_BASE */
    VS_REG
} vm_space;

typedef enum vm_round { VR_RN, VR_RZ, VR_RM, VR_RP, VR_RNA } vm_round;

typedef enum vm_compare {
    VC_EQ,
    VC_NE,
    VC_LT,
    VC_LE,
    VC_GT,
    VC_GE,
    VC_EQU,
    VC_NEU,
    VC_LTU,
    VC_LEU,
    VC_GTU,
    VC_GEU,
    VC_NUM,
    VC_NAN
} vm_compare;

/* What a modifier word that stands alone adds to an instruction. */
enum {
    VF_FTZ = 1u << 3,
    VF_SAT = 1u << 4,
    VF_NAN = 1u << 5,
    VF_RELU = 1u << 6,
    VF_XORSIGN = 1u << 7,
    VF_ABS = 1u << 8,
    VF_CC = 1u << 9,
    VF_ALIGNED = 1u << 10,
    VF_STRONG = 1u << 11, /* volatile, relaxed, acquire, release: never a race with its like */
    VF_TRANS = 1u << 12,
    VF_INTEGER = 1u << 13, /* cvt .rni .rzi .rmi .rpi: to an integer in floating-point form */
    VF_UNIFORM = 1u << 14,
    VF_CLAMP = 1u << 15,
    VF_WRAP = 1u << 16,
    VF_HIGH = 1u << 17,
    VF_WIDE = 1u << 18,
    VF_SHIFTAMT = 1u << 19,
    VF_APPROX = 1u << 20,
    VF_FULL = 1u << 21,
    VF_ACQUIRE = 1u << 22,
    VF_RELEASE = 1u << 23,
    VF_NOINC = 1u << 24,
    VF_READ = 1u << 25,      /* only until sources may be overwritten */
    VF_MULTICAST = 1u << 26, /* to several blocks of a cluster */
    VF_CLUSTER = 1u << 27,   /* ordered for all blocks of a cluster */
    VF_ROUND_MASK = 7u
};

/* A word chosen among alternatives that only one instruction family understands. */
typedef enum vm_choice {
    VX_NONE,
    VX_AND,
    VX_OR,
    VX_XOR,
    VX_ADD,
    VX_MIN,
    VX_MAX,
    VX_INC,
    VX_DEC,
    VX_EXCH,
    VX_CAS,
    VX_POPC,
    VX_UP,
    VX_DOWN,
    VX_BFLY,
    VX_IDX,
    VX_ALL,
    VX_ANY,
    VX_UNI,
    VX_BALLOT,
    VX_FINITE,
    VX_INFINITE,
    VX_NUMBER,
    VX_NOTANUMBER,
    VX_NORMAL,
    VX_SUBNORMAL,
    VX_F4E,
    VX_B4E,
    VX_RC8,
    VX_ECL,
    VX_ECR,
    VX_RC16,
    VX_CTA,
    VX_GPU,
    VX_SYS,
    VX_CLUSTER,
    VX_LO,
    VX_HI,
    VX_L,
    VX_R
} vm_choice;

/* Bytes of one element of a type in memory; predicates have none. */
unsigned vm_type_bytes(vm_type type);
bool vm_type_signed(vm_type type);
bool vm_type_float(vm_type type);
const char *vm_type_name(vm_type type);

/* How a keyword of an opcode's dotted tail changes the instruction. */
typedef enum vm_field {
    VK_TYPE,
    VK_SPACE,
    VK_ROUND,
    VK_COMPARE,
    VK_FLAG,
    VK_CHOICE,
    VK_VECTOR,
    VK_NUMBER,
    VK_IGNORE
} vm_field;
typedef struct vm_keyword {
    const char *word;
    vm_field field;
    uint32_t value;
} vm_keyword;

/* NULL when the word means nothing to any instruction. */
const vm_keyword *vm_keyword_find(const char *word, size_t length);

#endif
