/* SPDX-License-Identifier: MIT */
/* Type facts and the keyword table: what each dotted word of an opcode means. */
#include "tools/ptxvm/text/types.h"

#include <string.h>

typedef struct type_fact {
    const char *name;
    uint8_t bytes;
    bool is_signed;
    bool is_float;
} type_fact;

static const type_fact type_facts[] = {
    [VT_NONE] = {"?", 0, false, false},       [VT_PRED] = {"pred", 0, false, false},
    [VT_B8] = {"b8", 1, false, false},        [VT_B16] = {"b16", 2, false, false},
    [VT_B32] = {"b32", 4, false, false},      [VT_B64] = {"b64", 8, false, false},
    [VT_B128] = {"b128", 16, false, false},   [VT_U8] = {"u8", 1, false, false},
    [VT_U16] = {"u16", 2, false, false},      [VT_U32] = {"u32", 4, false, false},
    [VT_U64] = {"u64", 8, false, false},      [VT_S8] = {"s8", 1, true, false},
    [VT_S16] = {"s16", 2, true, false},       [VT_S32] = {"s32", 4, true, false},
    [VT_S64] = {"s64", 8, true, false},       [VT_F16] = {"f16", 2, false, true},
    [VT_F16X2] = {"f16x2", 4, false, true},   [VT_BF16] = {"bf16", 2, false, true},
    [VT_BF16X2] = {"bf16x2", 4, false, true}, [VT_TF32] = {"tf32", 4, false, true},
    [VT_F32] = {"f32", 4, false, true},       [VT_F64] = {"f64", 8, false, true},
    [VT_F32X2] = {"f32x2", 8, false, true},   [VT_U16X2] = {"u16x2", 4, false, false},
    [VT_S16X2] = {"s16x2", 4, true, false},   [VT_E4M3] = {"e4m3", 1, false, true},
    [VT_E5M2] = {"e5m2", 1, false, true}};

unsigned vm_type_bytes(vm_type type)
{
    return type_facts[type].bytes;
}

bool vm_type_signed(vm_type type)
{
    return type_facts[type].is_signed;
}

bool vm_type_float(vm_type type)
{
    return type_facts[type].is_float;
}

const char *vm_type_name(vm_type type)
{
    return type_facts[type].name;
}

static const vm_keyword keywords[] = {{"pred", VK_TYPE, VT_PRED},
                                      {"b8", VK_TYPE, VT_B8},
                                      {"b16", VK_TYPE, VT_B16},
                                      {"b32", VK_TYPE, VT_B32},
                                      {"b64", VK_TYPE, VT_B64},
                                      {"b128", VK_TYPE, VT_B128},
                                      {"u8", VK_TYPE, VT_U8},
                                      {"u16", VK_TYPE, VT_U16},
                                      {"u32", VK_TYPE, VT_U32},
                                      {"u64", VK_TYPE, VT_U64},
                                      {"s8", VK_TYPE, VT_S8},
                                      {"s16", VK_TYPE, VT_S16},
                                      {"s32", VK_TYPE, VT_S32},
                                      {"s64", VK_TYPE, VT_S64},
                                      {"f16", VK_TYPE, VT_F16},
                                      {"f16x2", VK_TYPE, VT_F16X2},
                                      {"bf16", VK_TYPE, VT_BF16},
                                      {"bf16x2", VK_TYPE, VT_BF16X2},
                                      {"tf32", VK_TYPE, VT_TF32},
                                      {"f32", VK_TYPE, VT_F32},
                                      {"f64", VK_TYPE, VT_F64},
                                      {"f32x2", VK_TYPE, VT_F32X2},
                                      {"e4m3", VK_TYPE, VT_E4M3},
                                      {"e5m2", VK_TYPE, VT_E5M2},
                                      {"u16x2", VK_TYPE, VT_U16X2},
                                      {"s16x2", VK_TYPE, VT_S16X2},
                                      {"global", VK_SPACE, VS_GLOBAL},
                                      {"shared", VK_SPACE, VS_SHARED},
                                      {"shared::cta", VK_SPACE, VS_SHARED},
                                      {"shared::cluster", VK_SPACE, VS_SHARED},
                                      {"local", VK_SPACE, VS_LOCAL},
                                      {"const", VK_SPACE, VS_CONST},
                                      {"param", VK_SPACE, VS_PARAM},
                                      {"param::entry", VK_SPACE, VS_PARAM},
                                      {"param::func", VK_SPACE, VS_PARAM},
                                      {"rn", VK_ROUND, VR_RN},
                                      {"rz", VK_ROUND, VR_RZ},
                                      {"rm", VK_ROUND, VR_RM},
                                      {"rp", VK_ROUND, VR_RP},
                                      {"rna", VK_ROUND, VR_RNA},
                                      {"rni", VK_ROUND, VR_RN | VF_INTEGER},
                                      {"rzi", VK_ROUND, VR_RZ | VF_INTEGER},
                                      {"rmi", VK_ROUND, VR_RM | VF_INTEGER},
                                      {"rpi", VK_ROUND, VR_RP | VF_INTEGER},
                                      {"eq", VK_COMPARE, VC_EQ},
                                      {"ne", VK_COMPARE, VC_NE},
                                      {"lt", VK_COMPARE, VC_LT},
                                      {"le", VK_COMPARE, VC_LE},
                                      {"gt", VK_COMPARE, VC_GT},
                                      {"ge", VK_COMPARE, VC_GE},
                                      {"lo", VK_COMPARE, VC_LT},
                                      {"ls", VK_COMPARE, VC_LE},
                                      {"hi", VK_COMPARE, VC_GT},
                                      {"hs", VK_COMPARE, VC_GE},
                                      {"equ", VK_COMPARE, VC_EQU},
                                      {"neu", VK_COMPARE, VC_NEU},
                                      {"ltu", VK_COMPARE, VC_LTU},
                                      {"leu", VK_COMPARE, VC_LEU},
                                      {"gtu", VK_COMPARE, VC_GTU},
                                      {"geu", VK_COMPARE, VC_GEU},
                                      {"num", VK_COMPARE, VC_NUM},
                                      {"nan", VK_COMPARE, VC_NAN},
                                      {"ftz", VK_FLAG, VF_FTZ},
                                      {"sat", VK_FLAG, VF_SAT},
                                      {"satfinite", VK_FLAG, VF_SAT},
                                      {"NaN", VK_FLAG, VF_NAN},
                                      {"relu", VK_FLAG, VF_RELU},
                                      {"xorsign", VK_FLAG, VF_XORSIGN},
                                      {"abs", VK_FLAG, VF_ABS},
                                      {"cc", VK_FLAG, VF_CC},
                                      {"aligned", VK_FLAG, VF_ALIGNED},
                                      {"volatile", VK_FLAG, VF_STRONG},
                                      {"relaxed", VK_FLAG, VF_STRONG},
                                      {"acquire", VK_FLAG, VF_STRONG | VF_ACQUIRE},
                                      {"release", VK_FLAG, VF_STRONG | VF_RELEASE},
                                      {"acq_rel", VK_FLAG, VF_STRONG | VF_ACQUIRE | VF_RELEASE},
                                      {"sc", VK_FLAG, VF_STRONG | VF_ACQUIRE | VF_RELEASE},
                                      {"trans", VK_FLAG, VF_TRANS},
                                      {"clamp", VK_FLAG, VF_CLAMP},
                                      {"wrap", VK_FLAG, VF_WRAP},
                                      {"wide", VK_FLAG, VF_WIDE},
                                      {"shiftamt", VK_FLAG, VF_SHIFTAMT},
                                      {"approx", VK_FLAG, VF_APPROX},
                                      {"full", VK_FLAG, VF_FULL},
                                      {"noinc", VK_FLAG, VF_NOINC},
                                      {"and", VK_CHOICE, VX_AND},
                                      {"or", VK_CHOICE, VX_OR},
                                      {"xor", VK_CHOICE, VX_XOR},
                                      {"add", VK_CHOICE, VX_ADD},
                                      {"min", VK_CHOICE, VX_MIN},
                                      {"max", VK_CHOICE, VX_MAX},
                                      {"inc", VK_CHOICE, VX_INC},
                                      {"dec", VK_CHOICE, VX_DEC},
                                      {"exch", VK_CHOICE, VX_EXCH},
                                      {"cas", VK_CHOICE, VX_CAS},
                                      {"popc", VK_CHOICE, VX_POPC},
                                      {"up", VK_CHOICE, VX_UP},
                                      {"down", VK_CHOICE, VX_DOWN},
                                      {"bfly", VK_CHOICE, VX_BFLY},
                                      {"idx", VK_CHOICE, VX_IDX},
                                      {"all", VK_CHOICE, VX_ALL},
                                      {"any", VK_CHOICE, VX_ANY},
                                      {"uni", VK_CHOICE, VX_UNI},
                                      {"ballot", VK_CHOICE, VX_BALLOT},
                                      {"finite", VK_CHOICE, VX_FINITE},
                                      {"infinite", VK_CHOICE, VX_INFINITE},
                                      {"number", VK_CHOICE, VX_NUMBER},
                                      {"notanumber", VK_CHOICE, VX_NOTANUMBER},
                                      {"normal", VK_CHOICE, VX_NORMAL},
                                      {"subnormal", VK_CHOICE, VX_SUBNORMAL},
                                      {"f4e", VK_CHOICE, VX_F4E},
                                      {"b4e", VK_CHOICE, VX_B4E},
                                      {"rc8", VK_CHOICE, VX_RC8},
                                      {"ecl", VK_CHOICE, VX_ECL},
                                      {"ecr", VK_CHOICE, VX_ECR},
                                      {"rc16", VK_CHOICE, VX_RC16},
                                      {"l", VK_CHOICE, VX_L},
                                      {"r", VK_CHOICE, VX_R},
                                      {"v2", VK_VECTOR, 2},
                                      {"v4", VK_VECTOR, 4},
                                      {"v8", VK_VECTOR, 8},
                                      {"1d", VK_NUMBER, 1},
                                      {"2d", VK_NUMBER, 2},
                                      {"3d", VK_NUMBER, 3},
                                      {"4d", VK_NUMBER, 4},
                                      {"5d", VK_NUMBER, 5},
                                      {"read", VK_FLAG, VF_READ},
                                      {"multicast::cluster", VK_FLAG, VF_MULTICAST},
                                      {"cluster", VK_FLAG, VF_CLUSTER},
                                      {"x1", VK_NUMBER, 1},
                                      {"x2", VK_NUMBER, 2},
                                      {"x4", VK_NUMBER, 4}};

const vm_keyword *vm_keyword_find(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strncmp(keywords[i].word, word, length) == 0 && keywords[i].word[length] == '\0') {
            return &keywords[i];
        }
    }
    return NULL;
}
