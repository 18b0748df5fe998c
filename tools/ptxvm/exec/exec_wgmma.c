/* SPDX-License-Identifier: MIT */
/* wgmma: products by four warps, whose operands lie in shared memory. Each warp multiplies its own
 * 16 rows when it issues; until the wait, registers and shared bytes belong to nobody. What ptxas
 * would mend in silence (a missing fence or wait) is an error. */
#include <stdio.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/matrix.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

enum { SLAB = VM_MATRIX_SLAB, PATIENCE = 200000 };

/* Operands in order: D, A (a descriptor or registers), B's descriptor, scale-d, then constants. */
typedef struct product {
    unsigned columns, depth, size;
    unsigned d_count, a_count; /* registers; 0: A lies in shared memory */
    vm_type type_a, type_b, type_d;
    bool half; /* D */
} product;

static product product_of(const vm_insn *in)
{
    product p = {.columns = in->vector * 8u,
                 .type_d = (vm_type)in->types[0],
                 .type_a = (vm_type)in->types[1],
                 .type_b = (vm_type)in->types[2]};
    p.size = vm_type_bytes(p.type_a);
    p.depth = 32 / p.size;
    p.half = p.type_d == VT_F16;
    p.d_count = p.columns / (p.half ? 4 : 2);
    p.a_count = in->choice2 != 0 ? 4 : 0;
    return p;
}

static float element(const uint8_t *at, vm_type type)
{
    uint32_t bits = 0;
    switch (type) {
    case VT_TF32:
        memcpy(&bits, at, 4);
        return vm_f32_bits(bits & ~0x1fffu);
    case VT_E4M3:
        return vm_f32_of_e4m3(*at);
    case VT_E5M2:
        return (float)vm_f64_of_f16((uint16_t)(*at << 8));
    default:
        memcpy(&bits, at, 2);
        return (float)(type == VT_BF16 ? vm_f64_of_bf16((uint16_t)bits)
                                       : vm_f64_of_f16((uint16_t)bits));
    }
}

/* ---- checks of the group ---- */

/* The warps of a group must execute the same, in the same order. */
static bool step(vm_warp *warp, const vm_insn *in, uint64_t signature)
{
    vm_warpgroup *group = &warp->block->warpgroups[warp->index / VM_READERS];
    uint64_t *own = &group->steps[warp->index % VM_READERS];
    signature = (signature ^ in->line) * UINT64_C(0x9e3779b97f4a7c15);
    if (warp->live != VM_ALL_LANES ||
        warp->index / VM_READERS * VM_READERS + VM_READERS > warp->block->warp_count) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "wgmma wants all 128 threads of a warpgroup");
    }
    if (*own == group->latest) {
        group->signatures[group->latest++ % VM_MATRIX_AHEAD] = signature;
    } else if (group->signatures[*own % VM_MATRIX_AHEAD] != signature) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "the warps of a warpgroup execute different wgmma, or the same with "
                       "different descriptors");
    }
    (*own)++;
    for (unsigned i = 0; i < VM_READERS; i++) {
        if (group->latest - group->steps[i] > VM_MATRIX_AHEAD) {
            return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "a warp is %d wgmma ahead of another of its warpgroup", VM_MATRIX_AHEAD);
        }
    }
    warp->block->pauses = 0;
    return true;
}

/* A value that all lanes must agree on. */
static bool same_value(vm_warp *warp, const vm_insn *in, unsigned operand, uint64_t *value)
{
    const uint64_t *lanes = vm_source(warp, in, operand);
    *value = lanes[0];
    for (unsigned i = 1; i < VM_LANES; i++) {
        if (lanes[i] != *value) {
            return vm_fail(warp, in, (int)i, VM_ILLEGAL_INSTRUCTION,
                           "lanes disagree about a descriptor of wgmma");
        }
    }
    return true;
}

/* The registers of D, or of A: fenced, and no other wgmma's in a way that matters. */
static bool take_registers(vm_warp *warp, const vm_insn *in, unsigned first, unsigned count,
                           bool source)
{
    const uint16_t shape = (uint16_t)(in->vector | in->types[1] << 8);
    const uint32_t group =
        warp->block->warpgroups[warp->index / VM_READERS].committed[warp->index % VM_READERS] + 1;
    for (unsigned i = first; i < first + count; i++) {
        const vm_operand *operand = vm_operand_at(warp, in, i);
        if (operand->where != VW_REGISTER) {
            continue;
        }
        vm_mark *mark = vm_matrix_mark(warp, operand);
        const bool flies = mark->group > warp->matrix_done;
        if (!warp->matrix_fenced || mark->touched == warp->epoch) {
            return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "no wgmma.fence between the last access to a register of %s and this",
                           source ? "A" : "the accumulator");
        }
        if (flies && (mark->source != source || (!source && mark->shape != shape))) {
            return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "a register that a wgmma in flight has in another role or shape");
        }
        mark->group = group;
        mark->shape = shape;
        mark->source = source;
    }
    return true;
}

/* ---- the product ---- */

/* The warp's 16 rows of A out of registers: fragments of 32 bits. */
static void a_of_registers(float *a, vm_warp *warp, const vm_insn *in, const product *p)
{
    const unsigned per = 4 / p->size; /* elements of a register */
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t *lanes = vm_source(warp, in, p->d_count + r);
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            const unsigned row = lane / 4 + 8 * (r % 2);
            const unsigned column = (lane % 4 + 4 * (r / 2)) * per;
            uint8_t bytes[4];
            memcpy(bytes, &lanes[lane], 4);
            for (unsigned e = 0; e < per; e++) {
                a[row * p->depth + column + e] = element(bytes + (size_t)e * p->size, p->type_a);
            }
        }
    }
}

static bool load_a(float *a, vm_warp *warp, const vm_insn *in, const product *p)
{
    uint8_t bytes[SLAB * VM_MATRIX_DEPTH];
    if (p->a_count != 0) {
        if (!take_registers(warp, in, p->d_count, p->a_count, true)) {
            return false;
        }
        a_of_registers(a, warp, in, p);
        return true;
    }
    vm_matrix_operand operand = {.insn = in,
                                 .rows = VM_MATRIX_ROWS,
                                 .depth = p->depth,
                                 .size = p->size,
                                 .major = (in->flags & VF_HIGH) != 0,
                                 .name = "A"};
    operand.descriptor = *(const uint64_t *)vm_source(warp, in, p->d_count);
    if (!vm_matrix_gather(warp, &operand, warp->index % VM_READERS * SLAB, SLAB, bytes)) {
        return false;
    }
    for (unsigned i = 0; i < SLAB * p->depth; i++) {
        a[i] = element(bytes + (size_t)i * p->size, p->type_a);
    }
    vm_matrix_reads(warp, &operand);
    return true;
}

static bool load_b(float *b, vm_warp *warp, const vm_insn *in, const product *p)
{
    uint8_t bytes[VM_MATRIX_COLUMNS * VM_MATRIX_DEPTH];
    vm_matrix_operand operand = {.insn = in,
                                 .rows = p->columns,
                                 .depth = p->depth,
                                 .size = p->size,
                                 .major = (in->flags & VF_TRANS) != 0,
                                 .name = "B"};
    operand.descriptor =
        *(const uint64_t *)vm_source(warp, in, p->d_count + (p->a_count != 0 ? 4u : 1u));
    if (!vm_matrix_gather(warp, &operand, 0, p->columns, bytes)) {
        return false;
    }
    for (unsigned n = 0; n < p->columns; n++) {
        for (unsigned k = 0; k < p->depth; k++) {
            b[k * p->columns + n] =
                element(bytes + ((size_t)n * p->depth + k) * p->size, p->type_b);
        }
    }
    vm_matrix_reads(warp, &operand);
    return true;
}

/* Element (row, column) of the accumulator lies in which register, lane and half. */
static void move_d(float *d, vm_warp *warp, const vm_insn *in, const product *p, bool load)
{
    for (unsigned r = 0; r < p->d_count; r++) {
        const vm_operand *operand = vm_operand_at(warp, in, r);
        uint32_t *lanes = (uint32_t *)(void *)(warp->bases[operand->where] + operand->offset);
        for (unsigned lane = 0; lane < VM_LANES; lane++) {
            const unsigned i = p->half ? 2 * r : r;
            const unsigned row = lane / 4 + 8 * (i / 2 % 2);
            float *at = &d[row * p->columns + 8 * (i / 4) + 2 * (lane % 4) + i % 2];
            if (p->half && load) {
                at[0] = (float)vm_f64_of_f16((uint16_t)lanes[lane]);
                at[1] = (float)vm_f64_of_f16((uint16_t)(lanes[lane] >> 16));
            } else if (p->half) {
                lanes[lane] = (uint32_t)vm_f16_of_f64((double)at[0], 0) |
                              (uint32_t)vm_f16_of_f64((double)at[1], 0) << 16;
            } else if (load) {
                *at = vm_f32_bits(lanes[lane]);
            } else {
                lanes[lane] = vm_bits_f32(*at);
            }
        }
    }
}

static void multiply(float *d, const float *a, const float *b, const product *p)
{
    if (!vm_sums_chosen()) {
        vm_arith_multiply()(d, a, b, SLAB, p->columns, p->depth);
        return;
    }
    for (unsigned i = 0; i < SLAB * p->columns; i++) {
        const vm_sum sum = {.a = a + (size_t)(i / p->columns) * p->depth,
                            .b = b + i % p->columns,
                            .stride = p->columns,
                            .count = p->depth,
                            .least = p->type_a == VT_E4M3                          ? -6
                                     : p->type_a == VT_E5M2 || p->type_a == VT_F16 ? -14
                                                                                   : -126,
                            .least_b = p->type_b == VT_E4M3                          ? -6
                                       : p->type_b == VT_E5M2 || p->type_b == VT_F16 ? -14
                                                                                     : -126,
                            .tf32 = p->type_a == VT_TF32,
                            .eight = p->size == 1,
                            .half = p->half};
        d[i] = vm_sums_add(&sum, d[i]);
    }
}

static void negate(float *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        values[i] = -values[i];
    }
}

static bool exec_product(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    const product p = product_of(in);
    const unsigned at_b = p.d_count + (p.a_count != 0 ? 4u : 1u);
    float a[SLAB * VM_MATRIX_DEPTH], b[VM_MATRIX_DEPTH * VM_MATRIX_COLUMNS];
    float d[SLAB * VM_MATRIX_COLUMNS];
    uint64_t of_a = 0, of_b = 0;
    const uint32_t scale = vm_predicate(warp, in, at_b + 1);
    if ((p.a_count == 0 && !same_value(warp, in, p.d_count, &of_a)) ||
        !same_value(warp, in, at_b, &of_b)) {
        return false;
    }
    if ((scale & mask) != 0 && (scale & mask) != mask) {
        return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "lanes disagree about scale-d of wgmma");
    }
    if (!step(warp, in, of_a * 31 + of_b * 7 + (scale & 1)) ||
        !take_registers(warp, in, 0, p.d_count, false) || !load_a(a, warp, in, &p) ||
        !load_b(b, warp, in, &p)) {
        return false;
    }
    memset(d, 0, sizeof(float) * SLAB * p.columns);
    if ((scale & mask) != 0) {
        move_d(d, warp, in, &p, true);
    }
    if ((in->compare & 1) != 0) {
        negate(a, SLAB * p.depth);
    }
    if ((in->compare & 2) != 0) {
        negate(b, p.columns * p.depth);
    }
    multiply(d, a, b, &p);
    move_d(d, warp, in, &p, false);
    warp->matrix_open = true;
    return true;
}

/* ---- fence, commit, wait ---- */

static bool exec_fence(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)in;
    (void)mask;
    warp->epoch++;
    warp->matrix_fenced = true;
    return true;
}

static bool exec_commit(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    vm_warpgroup *group = &warp->block->warpgroups[warp->index / VM_READERS];
    if (!step(warp, in, UINT64_MAX)) {
        return false;
    }
    group->committed[warp->index % VM_READERS]++;
    warp->matrix_open = false;
    return true;
}

/* wgmma.wait_group n: a product is over when all four warps have issued it. */
static bool exec_wait(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    (void)mask;
    vm_block *block = warp->block;
    const vm_warpgroup *group = &block->warpgroups[warp->index / VM_READERS];
    const uint32_t keep = *(const uint32_t *)vm_source(warp, in, 0);
    const uint32_t own = group->committed[warp->index % VM_READERS];
    const uint32_t over = own > keep ? own - keep : 0;
    for (unsigned i = 0; i < VM_READERS; i++) {
        if (group->committed[i] < over) {
            warp->pauses = warp->again = true;
            return ++block->pauses <= PATIENCE ||
                   vm_fail(warp, in, VM_FULL, VM_LAUNCH_TIMEOUT,
                           "this waits for wgmma that warp %u of the warpgroup does not execute",
                           i);
        }
    }
    if (over > warp->matrix_done) {
        warp->matrix_done = over;
        vm_reading_end(warp, warp->index / VM_READERS, true, over + 1);
    }
    return true;
}

/* ---- operands ---- */

static bool needs_target(vm_parser *parser, vm_insn *in)
{
    parser->function->matrix = true;
    in->touches = false;
    return (parser->module->target == 90 && parser->module->target_specific) ||
           vm_parse_fail(parser, VM_INVALID_PTX, "wgmma needs .target sm_90a");
}

/* The N of m64nNkK, checked against K. 0: no such shape. */
static unsigned shape_columns(vm_name opcode, unsigned depth)
{
    char text[160];
    unsigned n = 0, k = 0;
    size_t length = opcode.length < sizeof text - 1 ? opcode.length : sizeof text - 1;
    memcpy(text, opcode.text, length);
    text[length] = '\0';
    const char *at = strstr(text, ".m64n");
    bool fits = at != NULL && sscanf(at, ".m64n%3uk%2u.", &n, &k) == 2 && k == depth && n >= 8 &&
                n <= VM_MATRIX_COLUMNS && n % 8 == 0;
    return fits ? n : 0;
}

/* 1 or -1: whether an operand is negated. Or 0 and 1: whether it runs along M or N. */
static bool read_flag(vm_parser *parser, size_t at, uint64_t yes, uint64_t no, bool *flag)
{
    const vm_node *node = &parser->nodes[at];
    if (at >= parser->node_count || node->kind != ND_INTEGER ||
        (node->bits != yes && node->bits != no)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wgmma wants a constant here");
    }
    *flag = node->bits == yes;
    return true;
}

static bool add_registers(vm_parser *parser, vm_insn *in, size_t *at, unsigned count, bool target)
{
    const vm_node *head = &parser->nodes[*at];
    if (*at >= parser->node_count || head->kind != ND_VECTOR || head->children != count) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wgmma wants %u registers here", count);
    }
    (*at)++;
    for (unsigned i = 0; i < count; i++, (*at)++) {
        const vm_node *node = &parser->nodes[*at];
        if (node->kind != ND_REGISTER ||
            !(target ? vm_add_target(parser, in, node, VT_B32, false)
                     : vm_add_source(parser, in, node, VT_B32, false))) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "wgmma wants registers of 32 bits");
        }
    }
    return true;
}

/* Constants behind scale-d: signs of A and B, then for 16-bit types how they run. */
static bool read_constants(vm_parser *parser, vm_insn *in, size_t at, bool wide)
{
    bool minus_a = false, minus_b = false, transposed_a = false, transposed_b = false;
    if (!read_flag(parser, at, UINT64_MAX, 1, &minus_a) ||
        !read_flag(parser, at + 1, UINT64_MAX, 1, &minus_b)) {
        return false;
    }
    at += 2;
    if (wide && at < parser->node_count) {
        if ((in->choice2 == 0 && !read_flag(parser, at++, 1, 0, &transposed_a)) ||
            !read_flag(parser, at++, 1, 0, &transposed_b)) {
            return false;
        }
    }
    in->compare = (uint8_t)((minus_a ? 1 : 0) | (minus_b ? 2 : 0));
    in->flags |= (transposed_a ? (uint32_t)VF_HIGH : 0) | (transposed_b ? (uint32_t)VF_TRANS : 0);
    return at == parser->node_count || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
}

static bool hook_product(vm_parser *parser, vm_insn *in)
{
    const unsigned size = vm_type_bytes((vm_type)in->types[1]);
    const bool half = in->types[0] == VT_F16;
    const unsigned columns = shape_columns(parser->opcode, 32 / size);
    size_t at = 0;
    if (!needs_target(parser, in)) {
        return false;
    }
    if (columns == 0 || (in->types[1] != in->types[2] && size != 1)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "no such shape or types of wgmma");
    }
    in->vector = (uint8_t)(columns / 8);
    if (!add_registers(parser, in, &at, columns / (half ? 4 : 2), true)) {
        return false;
    }
    in->choice2 = parser->nodes[at].kind == ND_VECTOR ? 1 : 0;
    if (!(in->choice2 != 0 ? add_registers(parser, in, &at, 4, false)
                           : vm_add_source(parser, in, &parser->nodes[at++], VT_B64, false)) ||
        at + 1 >= parser->node_count ||
        !vm_add_source(parser, in, &parser->nodes[at++], VT_B64, false) ||
        !vm_add_predicate(parser, in, &parser->nodes[at++], false)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wrong operands of wgmma");
    }
    return read_constants(parser, in, at, size == 2);
}

static bool hook_none(vm_parser *parser, vm_insn *in)
{
    return needs_target(parser, in) &&
           (parser->node_count == 0 || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands"));
}

static bool hook_wait(vm_parser *parser, vm_insn *in)
{
    const vm_node *node = &parser->nodes[0];
    if (parser->node_count != 1 || node->kind != ND_INTEGER || node->bits > 7) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "wait_group wants a constant from 0 to 7");
    }
    return needs_target(parser, in) && vm_add_source(parser, in, node, VT_U32, false);
}

#define ROW(pattern, exec, hook)                                                                   \
    {                                                                                              \
        pattern, NULL, exec, NULL, 0, SY_ALIGNED, hook                                             \
    }

/* The shape is a word that the hook reads: `*` fits any. */
const vm_row vm_rows_wgmma[] = {
    ROW("wgmma.mma_async.sync.aligned.*.f32.bf16|f16|tf32.bf16|f16|tf32", exec_product,
        hook_product),
    ROW("wgmma.mma_async.sync.aligned.*.f16.f16.f16", exec_product, hook_product),
    ROW("wgmma.mma_async.sync.aligned.*.f32|f16.e4m3|e5m2.e4m3|e5m2", exec_product, hook_product),
    ROW("wgmma.fence.sync.aligned", exec_fence, hook_none),
    ROW("wgmma.commit_group.sync.aligned", exec_commit, hook_none),
    ROW("wgmma.wait_group.sync.aligned", exec_wait, hook_wait),
    {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
