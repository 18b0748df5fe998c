/* SPDX-License-Identifier: MIT */
/* Launches of attention: in tiles where rows can be read in whole groups, on tensor cores in 16
 * bits; a row per block elsewhere and when generating. */
#include "device/cuda/plan.h"

#define ROW_THREADS 128
#define TILE        64

/* The kernels in tiles of one working type, and their shared memory. */
typedef struct tile_kernels {
    bp_cuda_family family;
    uint32_t forward;
    uint32_t queries;
    uint32_t keys;
    uint32_t forward_shared;
    uint32_t backward_shared;
} tile_kernels;

/* Three and five tiles at a pitch of 68 floats. */
static const tile_kernels single_kernels = {BP_CUDA_FAMILY_attention,
                                            BP_CUDA_FUNCTION_attention_forward,
                                            BP_CUDA_FUNCTION_attention_backward_queries,
                                            BP_CUDA_FUNCTION_attention_backward_keys,
                                            52224,
                                            87040};

/* Two and four tiles at a pitch of 72 elements, and weights at one of 72 floats. */
static const tile_kernels sixteen_kernels = {BP_CUDA_FAMILY_attention_16,
                                             BP_CUDA_FUNCTION_attention_forward_16,
                                             BP_CUDA_FUNCTION_attention_backward_queries_16,
                                             BP_CUDA_FUNCTION_attention_backward_keys_16,
                                             36864,
                                             55296};

/* The kernels of a head that goes through tiles, which are read 16 bytes at a time (`floats`: the
 * operands they are read from); NULL: a block has one row. */
static const tile_kernels *in_tiles(const bp_cuda_plan *plan, int64_t width, uint32_t floats)
{
    bool single = plan->dtype == BP_F32;
    if (!bp_cuda_wide(plan, floats, (uint64_t)width, single ? 4 : 8)) {
        return NULL;
    }
    return single ? &single_kernels : &sixteen_kernels;
}

/* On Hopper, heads of 64 and of 128. Shared memory: so many tiles of 64 rows of a head. */
#define HOPPER_THREADS  128
#define HOPPER_FORWARD  5
#define HOPPER_BACKWARD 6
#define HOPPER_ROOM     1024   /* tiles begin at multiples of it */
#define HOPPER_LEAST    131072 /* bytes: hardware may look so far behind the start of a tensor */
#define HOPPER_MOST     (INT64_C(1) << 30)

/* Why Hopper's own kernels do not take a call; NULL: they do. Tensor maps describe the operands
 * that they read, `heads` heads in a row of the smallest. */
static const char *hopper_misses(const bp_cuda_plan *plan, int64_t heads)
{
    const bp_attention_forward_scalars *s = plan->op->scalars; /* both rows have the same */
    if (s->head_width != 64 && s->head_width != 128) {
        return "heads of neither 64 nor 128";
    }
    if (s->batch >= HOPPER_MOST || s->sequence >= HOPPER_MOST ||
        (s->heads + 2 * s->kv_heads) * s->head_width >= HOPPER_MOST) {
        return "a side of 2^30 or more";
    }
    const int64_t row = heads * s->head_width * 2;
    const bool fills = row > 0 && bp_cuda_cut(HOPPER_LEAST, (uint64_t)row) <=
                                      (uint64_t)s->batch * (uint64_t)s->sequence;
    return fills ? NULL : "an operand of less than 128 KiB";
}

/* Whether documents lie behind each other in rows; operands have the places of the other rows. */
static bool is_packed(const bp_cuda_plan *plan)
{
    return plan->op->kernel == BP_KERNEL_attention_packed_forward ||
           plan->op->kernel == BP_KERNEL_attention_packed_backward;
}

static bool on_hopper(const bp_cuda_plan *plan, int64_t heads)
{
    return plan->dtype != BP_F32 &&
           bp_cuda_module_choose(plan->target, BP_CUDA_FAMILY_attention_hopper, plan->dtype) !=
               BP_CUDA_NO_MODULE &&
           hopper_misses(plan, heads) == NULL;
}

/* The map of an operand of `heads` heads in a row: a sample is a matrix of its own, so that zeros
 * follow its last row. */
static void add_map(bp_cuda_plan *plan, uint32_t operand, int64_t heads)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    const uint64_t row = (uint64_t)heads * (uint64_t)s->head_width;
    const bp_cuda_map map = {{row, (uint64_t)s->sequence, (uint64_t)s->batch},
                             {row * 2, row * 2 * (uint64_t)s->sequence},
                             {64, TILE, 1},
                             3,
                             (uint32_t)plan->dtype,
                             0};
    bp_cuda_map_of(plan, operand, &map);
}

/* Begins one of these kernels; each block has all columns of its outputs. */
static bool begin_hopper(bp_cuda_plan *plan, uint32_t function, int64_t heads, uint32_t tiles)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    uint64_t blocks = (uint64_t)s->batch * (uint64_t)heads * bp_cuda_cut(s->sequence, TILE);
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_hopper, function, blocks, 1,
                       HOPPER_THREADS)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes =
        tiles * TILE * 2 * (uint32_t)s->head_width + HOPPER_ROOM;
    return true;
}

/* The parameters that end every attention kernel; step and lengths are operands of both rows. Both
 * rows have the same scalars. */
static void add_shape(bp_cuda_plan *plan, uint32_t step, uint32_t lengths, uint32_t floats)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    bp_cuda_operand(plan, step, BP_ACCESS_READ);
    bp_cuda_operand(plan, lengths, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->sequence);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->kv_heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    bp_cuda_single(plan, (float)s->scale);
    bp_cuda_word32(plan, (s->causal != 0 ? 1u : 0u) | (is_packed(plan) ? 2u : 0u));
    bp_cuda_dropout(plan, s->site, s->dropout);
    bp_cuda_word32(plan, bp_cuda_width(plan, floats, (uint64_t)s->head_width));
    bp_cuda_single(plan, (float)s->cap);
    bp_cuda_word64(plan, (uint64_t)s->window);
}

/* Shared memory of a row's form: `rows` rows of the head and `weights` weights. */
static uint64_t row_shared(int64_t width, uint64_t rows, uint64_t weights)
{
    return ((uint64_t)width * rows + weights) * sizeof(float);
}

/* Leaves room for what a kernel declares itself. */
static bool row_fits(uint64_t shared)
{
    return shared <= BP_CUDA_SHARED_LEAST - 1024;
}

/* Begins a kernel in tiles of `heads` heads, each block with 64 columns of its outputs. */
static bool begin_tiles(bp_cuda_plan *plan, bp_cuda_family family, uint32_t function, int64_t heads,
                        uint32_t shared)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    uint64_t blocks = (uint64_t)s->batch * (uint64_t)heads * bp_cuda_cut(s->sequence, TILE);
    if (!bp_cuda_begin(plan, family, function, blocks, bp_cuda_cut(s->head_width, TILE), 256)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes = shared;
    return true;
}

/* Begins a kernel of one row of `heads` heads per block, with `rows` rows of the head and `weights`
 * weights in shared memory. */
static bool begin_rows(bp_cuda_plan *plan, uint32_t function, int64_t heads, uint64_t rows,
                       uint64_t weights)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    uint64_t blocks = (uint64_t)s->batch * (uint64_t)heads * (uint64_t)s->sequence;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_row, function, blocks, 1, ROW_THREADS)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes = (uint32_t)row_shared(s->head_width, rows, weights);
    return true;
}

static bool plan_forward(bp_cuda_plan *plan)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    uint32_t floats = BP_CUDA_BIT(attention_forward, qkv) | BP_CUDA_BIT(attention_forward, out);
    const tile_kernels *tiles = in_tiles(plan, s->head_width, floats);
    const bool own = tiles != NULL && on_hopper(plan, s->heads + 2 * s->kv_heads);
    bool begun;
    if (own) {
        begun =
            begin_hopper(plan, BP_CUDA_FUNCTION_attention_forward_hopper, s->heads, HOPPER_FORWARD);
    } else if (tiles != NULL) {
        begun = begin_tiles(plan, tiles->family, tiles->forward, s->heads, tiles->forward_shared);
    } else if (row_fits(row_shared(s->head_width, 2, ROW_THREADS))) {
        begun = begin_rows(plan, BP_CUDA_FUNCTION_attention_forward_any, s->heads, 2, ROW_THREADS);
    } else {
        return false;
    }
    if (begun) {
        BP_CUDA_OPERAND_OF(plan, attention_forward, out, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, attention_forward, lse, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, attention_forward, qkv, BP_ACCESS_READ);
        add_shape(plan, BP_CUDA_POSITION(attention_forward, step),
                  BP_CUDA_POSITION(attention_forward, lengths), floats);
        if (own) {
            add_map(plan, BP_CUDA_POSITION(attention_forward, qkv), s->heads + 2 * s->kv_heads);
        }
    }
    return true;
}

static void add_backward(bp_cuda_plan *plan)
{
    uint32_t floats = BP_CUDA_BIT(attention_backward, qkv) |
                      BP_CUDA_BIT(attention_backward, d_out) |
                      BP_CUDA_BIT(attention_backward, d_qkv);
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_qkv, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_out, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, lse, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, work, BP_ACCESS_READ);
    add_shape(plan, BP_CUDA_POSITION(attention_backward, step),
              BP_CUDA_POSITION(attention_backward, lengths), floats);
}

/* The same of Hopper's kernels. */
static void add_backward_hopper(bp_cuda_plan *plan)
{
    const bp_attention_backward_scalars *s = plan->op->scalars;
    add_backward(plan);
    add_map(plan, BP_CUDA_POSITION(attention_backward, qkv), s->heads + 2 * s->kv_heads);
    add_map(plan, BP_CUDA_POSITION(attention_backward, d_out), s->heads);
}

static bool begin_delta(bp_cuda_plan *plan)
{
    const bp_attention_backward_scalars *s = plan->op->scalars;
    int64_t rows = s->batch * s->sequence;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention, BP_CUDA_FUNCTION_attention_delta,
                       bp_cuda_cut(rows * s->heads, 256), 1, 256)) {
        return false;
    }
    BP_CUDA_OPERAND_OF(plan, attention_backward, work, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_out, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, out, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, lse, BP_ACCESS_READ);
    if (is_packed(plan)) {
        BP_CUDA_OPERAND_OF(plan, attention_packed_backward, starts, BP_ACCESS_READ);
    } else {
        bp_cuda_word64(plan, 0);
    }
    bp_cuda_word64(plan, (uint64_t)rows);
    bp_cuda_word64(plan, (uint64_t)s->sequence);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    uint32_t floats = BP_CUDA_BIT(attention_backward, d_out) | BP_CUDA_BIT(attention_backward, out);
    bp_cuda_word32(plan, bp_cuda_width(plan, floats, (uint64_t)s->head_width));
    return true;
}

static bool plan_backward(bp_cuda_plan *plan)
{
    const bp_attention_backward_scalars *s = plan->op->scalars;
    uint32_t floats = BP_CUDA_BIT(attention_backward, qkv) |
                      BP_CUDA_BIT(attention_backward, d_out) |
                      BP_CUDA_BIT(attention_backward, d_qkv);
    const tile_kernels *tiles = in_tiles(plan, s->head_width, floats);
    if (tiles == NULL && !row_fits(row_shared(s->head_width, 4, 2 * ROW_THREADS))) {
        return false;
    }
    if (!begin_delta(plan)) {
        return true;
    }
    if (tiles != NULL && on_hopper(plan, s->heads)) {
        (void)begin_hopper(plan, BP_CUDA_FUNCTION_attention_backward_queries_hopper, s->heads,
                           HOPPER_BACKWARD);
        add_backward_hopper(plan);
        (void)begin_hopper(plan, BP_CUDA_FUNCTION_attention_backward_keys_hopper, s->kv_heads,
                           HOPPER_BACKWARD);
        add_backward_hopper(plan);
    } else if (tiles != NULL) {
        (void)begin_tiles(plan, tiles->family, tiles->queries, s->heads, tiles->backward_shared);
        add_backward(plan);
        (void)begin_tiles(plan, tiles->family, tiles->keys, s->kv_heads, tiles->backward_shared);
        add_backward(plan);
    } else {
        (void)begin_rows(plan, BP_CUDA_FUNCTION_attention_backward_queries_any, s->heads, 3,
                         ROW_THREADS);
        add_backward(plan);
        (void)begin_rows(plan, BP_CUDA_FUNCTION_attention_backward_keys_any, s->kv_heads, 4,
                         2 * ROW_THREADS);
        add_backward(plan);
    }
    return true;
}

static bool is_forward(const bp_cuda_plan *plan)
{
    return plan->op->kernel == BP_KERNEL_attention_forward ||
           plan->op->kernel == BP_KERNEL_attention_packed_forward;
}

bool bp_cuda_plan_attention(bp_cuda_plan *plan)
{
    return is_forward(plan) ? plan_forward(plan) : plan_backward(plan);
}

const char *bp_cuda_attention_misses(const bp_cuda_plan *plan)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    const bool forward = is_forward(plan);
    const uint32_t floats =
        forward ? BP_CUDA_BIT(attention_forward, qkv) | BP_CUDA_BIT(attention_forward, out)
                : BP_CUDA_BIT(attention_backward, qkv) | BP_CUDA_BIT(attention_backward, d_out) |
                      BP_CUDA_BIT(attention_backward, d_qkv);
    const char *misses = hopper_misses(plan, forward ? s->heads + 2 * s->kv_heads : s->heads);
    return misses != NULL || in_tiles(plan, s->head_width, floats) != NULL
               ? misses
               : "rows that are no multiples of 16 bytes apart";
}

bool bp_cuda_plan_decode(bp_cuda_plan *plan)
{
    const bp_attention_decode_scalars *s = plan->op->scalars;
    int64_t across = s->kv_heads * s->head_width;
    uint64_t shared = row_shared(s->head_width, 2, ROW_THREADS);
    if (!row_fits(shared)) {
        return false;
    }
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_row, BP_CUDA_FUNCTION_attention_cache,
                       bp_cuda_cut(s->rows * across, 256), 1, 256)) {
        return true;
    }
    BP_CUDA_OPERAND_OF(plan, attention_decode, k_cache, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, v_cache, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->rows);
    bp_cuda_word64(plan, (uint64_t)s->positions);
    bp_cuda_word64(plan, (uint64_t)(s->heads * s->head_width));
    bp_cuda_word64(plan, (uint64_t)across);
    bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    bp_cuda_word64(plan, (uint64_t)s->others + 1);
    bp_cuda_word32(plan, s->apart != 0);
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_row, BP_CUDA_FUNCTION_attention_decode,
                        (uint64_t)(s->rows * s->heads), 1, ROW_THREADS);
    plan->launch[plan->count - 1].shared_bytes = (uint32_t)shared;
    BP_CUDA_OPERAND_OF(plan, attention_decode, out, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, k_cache, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, v_cache, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->rows);
    bp_cuda_word64(plan, (uint64_t)s->positions);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->kv_heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    bp_cuda_single(plan, (float)s->scale);
    uint32_t floats = BP_CUDA_BIT(attention_decode, k_cache);
    bp_cuda_word32(plan, bp_cuda_width(plan, floats, (uint64_t)s->head_width));
    bp_cuda_single(plan, (float)s->cap);
    bp_cuda_word64(plan, (uint64_t)s->window);
    bp_cuda_word32(plan, s->apart != 0);
    return true;
}
