/* SPDX-License-Identifier: MIT */
/* mma.sync for f16, bf16 and tf32, and ldmatrix, stmatrix, movmatrix. Fragment layouts are those of
 * the PTX manual; sums run over k in ascending order, one fused multiply-add each, in f32, unless
 * the sums of an architecture are asked for. */
#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH_MAX = 16 };

static float load_half(uint32_t bits, vm_type type)
{
    return (float)(type == VT_BF16 ? vm_f64_of_bf16((uint16_t)bits)
                                   : vm_f64_of_f16((uint16_t)bits));
}

static float load_tf32(uint32_t bits)
{
    return vm_f32_bits(bits & ~0x1fffu);
}

/* Register r of lane `lane` of A: two halves of a row, or one tf32. */
static void load_a(float *a, const uint32_t *lanes, unsigned r, vm_type type, unsigned depth)
{
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        unsigned row = lane / 4 + (r & 1) * 8;
        unsigned column = (type == VT_TF32 ? lane % 4 + (r / 2) * 4 : (lane % 4) * 2 + (r / 2) * 8);
        if (type == VT_TF32) {
            a[row * depth + column] = load_tf32(lanes[lane]);
        } else {
            a[row * depth + column] = load_half(lanes[lane], type);
            a[row * depth + column + 1] = load_half(lanes[lane] >> 16, type);
        }
    }
}

static void load_b(float *b, const uint32_t *lanes, unsigned r, vm_type type)
{
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        unsigned column = lane / 4;
        unsigned row = type == VT_TF32 ? lane % 4 + r * 4 : (lane % 4) * 2 + r * 8;
        if (type == VT_TF32) {
            b[row * COLUMNS + column] = load_tf32(lanes[lane]);
        } else {
            b[row * COLUMNS + column] = load_half(lanes[lane], type);
            b[(row + 1) * COLUMNS + column] = load_half(lanes[lane] >> 16, type);
        }
    }
}

static void load_c(float *c, const vm_warp *warp, const vm_insn *in, unsigned first)
{
    bool half = in->types[3] == VT_F16;
    for (unsigned r = 0; r < (half ? 2u : 4u); r++) {
        const uint32_t *lanes = vm_source(warp, in, first + r);
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            unsigned row = lane / 4 + (half ? r : r / 2) * 8;
            unsigned column = (lane % 4) * 2;
            if (half) {
                c[row * COLUMNS + column] = load_half(lanes[lane], VT_F16);
                c[row * COLUMNS + column + 1] = load_half(lanes[lane] >> 16, VT_F16);
            } else {
                c[row * COLUMNS + column + (r & 1)] = vm_f32_bits(lanes[lane]);
            }
        }
    }
}

static void store_d(const float *c, vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    bool half = in->types[0] == VT_F16;
    for (unsigned r = 0; r < (half ? 2u : 4u); r++) {
        uint32_t lanes[VM_LANES];
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            unsigned row = lane / 4 + (half ? r : r / 2) * 8;
            unsigned column = (lane % 4) * 2;
            const float *at = &c[row * COLUMNS + column];
            lanes[lane] = half ? (uint32_t)vm_f16_of_f64((double)at[0], 0) |
                                     (uint32_t)vm_f16_of_f64((double)at[1], 0) << 16
                               : vm_bits_f32(at[r & 1]);
        }
        vm_put(warp, in, r, mask, lanes);
    }
}

/* C += A x B as the chosen architecture's tensor cores do it. */
static void multiply_as_chosen(float *c, const float *a, const float *b, const vm_insn *in)
{
    for (unsigned i = 0; i < ROWS * COLUMNS; i++) {
        const vm_sum sum = {.a = a + i / COLUMNS * in->vector,
                            .b = b + i % COLUMNS,
                            .stride = COLUMNS,
                            .count = in->vector,
                            .least = in->types[1] == VT_F16 ? -14 : -126,
                            .least_b = in->types[1] == VT_F16 ? -14 : -126,
                            .tf32 = in->types[1] == VT_TF32,
                            .half = in->types[0] == VT_F16};
        c[i] = vm_sums_add(&sum, c[i]);
    }
}

/* vector holds k. Operands: d, a, b, c registers in order. */
static bool exec_mma(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    float a[ROWS * DEPTH_MAX];
    float b[DEPTH_MAX * COLUMNS];
    float c[ROWS * COLUMNS];
    vm_type type = (vm_type)in->types[1];
    unsigned depth = in->vector;
    unsigned per = type == VT_TF32 ? 4 : 8; /* columns of A that one pair of registers spans */
    unsigned count_a = 2 * (depth / per);
    unsigned count_d = in->types[0] == VT_F16 ? 2 : 4;
    for (unsigned r = 0; r < count_a; r++) {
        load_a(a, vm_source(warp, in, count_d + r), r, type, depth);
    }
    for (unsigned r = 0; r < count_a / 2; r++) {
        load_b(b, vm_source(warp, in, count_d + count_a + r), r, type);
    }
    load_c(c, warp, in, count_d + count_a + count_a / 2);
    if (vm_sums_chosen()) {
        multiply_as_chosen(c, a, b, in);
    } else {
        vm_arith_multiply()(c, a, b, ROWS, COLUMNS, depth);
    }
    store_d(c, warp, in, mask);
    return true;
}

static bool add_vector(vm_parser *parser, vm_insn *in, size_t *at, unsigned count, vm_type type,
                       bool target)
{
    const vm_node *head = &parser->nodes[*at];
    bool vector = head->kind == ND_VECTOR;
    if (*at >= parser->node_count || (vector ? head->children : 1u) != count) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "a matrix fragment of %u registers is wanted",
                             count);
    }
    *at += vector ? 1 : 0;
    for (unsigned i = 0; i < count; i++, (*at)++) {
        const vm_node *node = &parser->nodes[*at];
        if (!(target ? vm_add_target(parser, in, node, type, false)
                     : vm_add_source(parser, in, node, type, false))) {
            return false;
        }
    }
    return true;
}

static bool decode_mma(vm_parser *parser, vm_insn *in, unsigned depth)
{
    vm_type type = (vm_type)in->types[1];
    if (in->types[2] != in->types[1]) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "mma of two element types");
    }
    unsigned count = 2 * (depth / (type == VT_TF32 ? 4 : 8));
    bool half_d = in->types[0] == VT_F16;
    bool half_c = in->types[3] == VT_F16;
    size_t at = 0;
    in->vector = (uint8_t)depth;
    return add_vector(parser, in, &at, half_d ? 2 : 4, VT_B32, true) &&
           add_vector(parser, in, &at, count, VT_B32, false) &&
           add_vector(parser, in, &at, count / 2, VT_B32, false) &&
           add_vector(parser, in, &at, half_c ? 2 : 4, VT_B32, false);
}

static bool hook_k4(vm_parser *parser, vm_insn *in)
{
    return decode_mma(parser, in, 4);
}
static bool hook_k8(vm_parser *parser, vm_insn *in)
{
    return decode_mma(parser, in, 8);
}
static bool hook_k16(vm_parser *parser, vm_insn *in)
{
    return decode_mma(parser, in, 16);
}

/* ---- 8x8 matrices of 16-bit elements in shared memory: lane 8 m + r names row r of matrix m ----
 */

static uint64_t row_address(const vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane)
{
    const vm_operand *memory = vm_operand_at(warp, in, operand);
    uint64_t address = vm_lane(vm_source(warp, in, operand), memory->bytes, lane);
    address += (uint64_t)memory->displacement;
    return memory->bytes == 4 ? address & 0xffffffffu : address;
}

/* Where the rows of `count` matrices are, after every check. */
static bool find_rows(vm_warp *warp, const vm_insn *in, unsigned count, uint8_t **data)
{
    uint64_t addresses[VM_LANES];
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        addresses[lane] = row_address(warp, in, count, lane);
    }
    uint32_t mask = VM_ALL_LANES >> (VM_LANES - 8 * count);
    if (vm_access_together(warp, mask, (vm_space)in->space, addresses, 16, false, data)) {
        return true;
    }
    for (unsigned lane = 0; lane < 8 * count; lane++) {
        data[lane] = vm_access(warp, in, lane, (vm_space)in->space, addresses[lane], 16, VA_READ);
        if (data[lane] == NULL) {
            return false;
        }
    }
    return true;
}

static bool exec_ldmatrix(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    unsigned count = in->vector;
    bool trans = (in->flags & VF_TRANS) != 0;
    uint8_t *data[VM_LANES];
    if (!find_rows(warp, in, count, data)) {
        return false;
    }
    for (unsigned m = 0; m < count; m++) {
        uint16_t rows[8][8];
        for (unsigned r = 0; r < 8; r++) {
            memcpy(rows[r], data[m * 8 + r], 16);
        }
        uint32_t lanes[VM_LANES];
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            unsigned i = lane / 4;
            unsigned j = (lane % 4) * 2;
            uint32_t low = trans ? rows[j][i] : rows[i][j];
            uint32_t high = trans ? rows[j + 1][i] : rows[i][j + 1];
            lanes[lane] = high << 16 | low;
        }
        vm_put(warp, in, m, mask, lanes);
    }
    return true;
}

static bool exec_stmatrix(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    unsigned count = in->vector;
    for (unsigned m = 0; m < count; m++) {
        uint16_t rows[8][8];
        const uint32_t *lanes = vm_source(warp, in, 1 + m);
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            unsigned i = lane / 4;
            unsigned j = (lane % 4) * 2;
            bool trans = (in->flags & VF_TRANS) != 0;
            rows[trans ? j : i][trans ? i : j] = (uint16_t)lanes[lane];
            rows[trans ? j + 1 : i][trans ? i : j + 1] = (uint16_t)(lanes[lane] >> 16);
        }
        for (unsigned r = 0; r < 8; r++) {
            uint8_t *data = vm_access(warp, in, m * 8 + r, (vm_space)in->space,
                                      row_address(warp, in, 0, m * 8 + r), 16, VA_WRITE);
            if (data == NULL) {
                return false;
            }
            memcpy(data, rows[r], 16);
        }
    }
    return true;
}

static bool exec_movmatrix(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const uint32_t *a = vm_source(warp, in, 1);
    uint16_t rows[8][8];
    uint32_t lanes[VM_LANES];
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        rows[lane / 4][(lane % 4) * 2] = (uint16_t)a[lane];
        rows[lane / 4][(lane % 4) * 2 + 1] = (uint16_t)(a[lane] >> 16);
    }
    for (unsigned lane = 0; lane < VM_LANES; lane++) {
        unsigned j = (lane % 4) * 2;
        lanes[lane] = (uint32_t)rows[j + 1][lane / 4] << 16 | rows[j][lane / 4];
    }
    vm_put(warp, in, 0, mask, lanes);
    return true;
}

static bool hook_ldmatrix(vm_parser *parser, vm_insn *in)
{
    size_t at = 0;
    return add_vector(parser, in, &at, in->vector, VT_B32, true) &&
           vm_add_memory(parser, in, &parser->nodes[at]);
}
static bool hook_stmatrix(vm_parser *parser, vm_insn *in)
{
    size_t at = 1;
    return vm_add_memory(parser, in, &parser->nodes[0]) &&
           add_vector(parser, in, &at, in->vector, VT_B32, false);
}

#define MMA(shape, types, hook)                                                                    \
    {                                                                                              \
        "mma.sync.aligned." shape ".row.col." types, NULL, exec_mma, NULL, 0, SY_ALIGNED, hook     \
    }
#define MATRIX(pattern, shape, exec, hook)                                                         \
    {                                                                                              \
        pattern, shape, exec, NULL, 0, SY_ALIGNED, hook                                            \
    }

const vm_row vm_rows_matrix[] = {
    MMA("m16n8k16", "f32.f16|bf16.f16|bf16.f32", hook_k16),
    MMA("m16n8k16", "f16.f16.f16.f16", hook_k16),
    MMA("m16n8k8", "f32.f16|bf16|tf32.f16|bf16|tf32.f32", hook_k8),
    MMA("m16n8k8", "f16.f16.f16.f16", hook_k8),
    MMA("m16n8k4", "f32.tf32.tf32.f32", hook_k4),
    MATRIX("ldmatrix.sync.aligned.m8n8.x1|x2|x4.trans?.shared|shared::cta?.b16", NULL,
           exec_ldmatrix, hook_ldmatrix),
    MATRIX("stmatrix.sync.aligned.m8n8.x1|x2|x4.trans?.shared|shared::cta?.b16", NULL,
           exec_stmatrix, hook_stmatrix),
    MATRIX("movmatrix.sync.aligned.m8n8.trans.b16", "U u", exec_movmatrix, NULL),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
