/* SPDX-License-Identifier: MIT */
/* Products of 16-bit elements with a b in 4 or 8 bits on Hopper's own tensor instructions, with the
 * bits of quantised_16.cu: matmul_hopper.cu's tiles, whose slices of a come by a tensor map and
 * whose slices of b two warpgroups make of codes, a panel each, beside the two that multiply. What
 * a slice is made of is copied to shared memory while the one before is made: each thread's own
 * pieces, of eight elements, as three words each. */
#include "device/cuda/kernels/products/matmul_hopper.cuh"
#include "device/cuda/kernels/products/quantised.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#undef THREADS
#define THREADS 512
#define MAKERS  256
#define PIECES  4 /* that a thread makes of a slice */
#define PLACE   (3 * PIECES * MAKERS * 4)
#define PLACES  (BARRIERS + 2 * STAGES * 8)
#define TABLES  (PLACES + 2 * PLACE)

/* The work on b. */
typedef struct bp_maker {
    const bp_share *s;
    bp_codes b;
    uint64_t rows; /* of codes in memory */
    uint64_t columns;
    bool along;  /* rows of memory lie along the tile's columns */
    bool nested; /* scales have scales */
    bool second; /* pieces have a second word */
    bool half;   /* the working type */
    uint32_t thread;
    uint32_t places;      /* shared address of the thread's words */
    const float *table;   /* the sixteen values; shared */
    const float *nesting; /* the first floats of b.nested; shared */
} bp_maker;

/* Where a piece begins, in elements, and whether it is one: pieces lie inside or outside. */
BP_DEVICE bool piece_at(const bp_maker *k, uint32_t column, uint32_t term, uint32_t i,
                        uint64_t *first, uint64_t *row)
{
    const uint32_t at = k->thread % 8 * 8, panel = k->thread / GROUP * 64;
    const uint32_t line = k->thread % GROUP / 8 + i * 16;
    const uint64_t x = k->along ? column + panel + at : term + at;
    const uint64_t y = k->along ? term + line : column + panel + line;
    *first = y * k->columns + x;
    *row = y;
    return x < k->columns && y < k->rows;
}

/* Begins to copy the words of the thread's pieces: codes, codes or a scale of scales, scales. */
BP_DEVICE void codes_fetch(const bp_maker *k, uint32_t column, uint32_t term, uint32_t to)
{
    const uint32_t form = k->b.form;
#pragma unroll 1
    for (uint32_t i = 0; i < PIECES; i++) {
        uint64_t first, row;
        if (!piece_at(k, column, term, i, &first, &row)) {
            continue;
        }
        const uint8_t *words = k->b.codes, *scales = (const uint8_t *)k->b.scales;
        const void *second = NULL;
        uint32_t bytes = 4;
        if (form == FP8) {
            scales = words + first / 256 * 260;
            words = scales + 4 + first % 256;
            second = words + 4;
        } else if (form == INT8) {
            words += first;
            second = words + 4;
            scales += row * 4;
        } else {
            const uint64_t block = block_of(form, first);
            words += first / 2;
            if (k->nested) { /* bytes: the word that has it, or what there is of it */
                const uint64_t blocks = block_of(form, k->rows * k->columns - 1) + 1;
                second = k->b.nested + NESTED_SCALES + block / 256;
                scales += block / 4 * 4;
                bytes = (uint32_t)bp_least(4, blocks - block / 4 * 4);
            } else {
                scales += block * 4;
            }
        }
        bp_copy_async4(to + i * MAKERS * 4, words, 4);
        if (second != NULL) {
            bp_copy_async4(to + (PIECES + i) * MAKERS * 4, second, 4);
        }
        bp_copy_async4(to + (2 * PIECES + i) * MAKERS * 4, scales, bytes);
    }
    bp_copy_commit();
}

BP_DEVICE uint32_t shared_word(uint32_t from)
{
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

/* A piece of the words that were copied. */
BP_DEVICE bp_code_piece piece_of(const bp_maker *k, uint64_t first, uint32_t from)
{
    bp_code_piece piece;
    piece.low = shared_word(from);
    piece.high = k->second ? shared_word(from + PIECES * MAKERS * 4) : 0;
    piece.scale = shared_word(from + 2 * PIECES * MAKERS * 4);
    if (k->b.form == FP8) {
        piece.scale = piece.scale >> first % 256 / 64 * 8 & 0xff;
    } else if (k->nested) {
        const uint32_t code = piece.scale >> block_of(k->b.form, first) % 4 * 8 & 0xff;
        const float scale = k->nesting[NESTED_MAP + code] * bp_float_from_bits(piece.high);
        piece.scale = bp_float_bits(scale + k->nesting[0]);
    }
    return piece;
}

/* The values of the thread's pieces to its panel of b. */
BP_DEVICE void slice_make(const bp_maker *k, uint32_t column, uint32_t term, uint32_t from,
                          uint32_t to)
{
    const uint32_t line = k->thread % GROUP / 8;
    to += k->thread / GROUP * PANEL + line * 128 + (k->thread % 8 ^ line % 8) * 16;
#pragma unroll 1
    for (uint32_t i = 0; i < PIECES; i++) {
        float x[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        uint64_t first, row;
        if (piece_at(k, column, term, i, &first, &row)) {
            const bp_code_piece piece = piece_of(k, first, from + i * MAKERS * 4);
            code_piece_values(k->b.form, &piece, k->table, x);
        }
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * 2048),
                     "r"(bp_pair(x[0], x[1], k->half)), "r"(bp_pair(x[2], x[3], k->half)),
                     "r"(bp_pair(x[4], x[5], k->half)), "r"(bp_pair(x[6], x[7], k->half))
                     : "memory");
    }
}

/* Fills the ring: b by all threads of the two warpgroups, a by one. The first turn only fetches. */
BP_DEVICE void slices_make(const bp_maker *k, const bp_map *map_a)
{
    const bp_share *s = k->s;
    const bool brings = k->thread < BP_WARP && bp_elect();
    const uint32_t mine = s->tiles - blockIdx.x; /* tiles from this block's first on */
    const uint32_t all = (mine + gridDim.x - 1) / gridDim.x * s->slices;
    uint32_t stage = 0, turn = 1, tile = blockIdx.x, slice = 0, next_row = 0, next_column = 0;
    uint32_t row = 0, column = 0, term = 0, place = 0;
#pragma unroll 1
    for (uint32_t i = 0; i <= all; i++) {
        const uint32_t next = slice * DEPTH;
        if (i < all) {
            tile_at(s, tile, &next_row, &next_column);
            codes_fetch(k, next_column, next, k->places + place);
            slice++;
            tile += slice == s->slices ? gridDim.x : 0;
            slice = slice == s->slices ? 0 : slice;
        } else {
            bp_copy_commit();
        }
        place = PLACE - place;
        if (i > 0) {
            const uint32_t to = s->ring + stage * SLICE, full = s->full + stage * 8;
            bp_copy_wait(1);
            bp_barrier_wait(s->empty + stage * 8, turn);
            if (brings) {
                bp_barrier_expect(full, 2 * PANEL);
                slice_bring(to, map_a, full, false, row, term, 2);
            }
            slice_make(k, column, term, k->places + place, to + 2 * PANEL);
            bp_proxy_fence();
            __syncwarp();
            if (threadIdx.x % BP_WARP == 0) {
                bp_barrier_arrive(full);
            }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            turn ^= stage == 0;
        }
        row = next_row;
        column = next_column;
        term = next;
    }
    bp_copy_wait(0);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    bp_matmul_quantised_hopper(void *c, void *before, const void *a, const uint8_t *codes,
                               const void *scales, const float *nested, const void *bias,
                               const void *residual, uint64_t m, uint64_t n, uint64_t k,
                               uint64_t lda, uint64_t ldc, uint32_t form, uint32_t flags,
                               const __grid_constant__ bp_map map_a)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    if (m == 0) {
        return;
    }
    const uint32_t can = flags & ~(BP_TRANSPOSE_A | BP_ACCUMULATE);
    const bp_product product = {c, before, a,   NULL, bias, residual, NULL, m,
                                n, k,      lda, 0,    ldc,  k,        1,    can};
    const uint32_t base = bp_shared_address(memory), ring = (base + 1023) / 1024 * 1024;
    const bp_share share = share_of(&product, ring);
    float *table = (float *)(memory + (ring - base) + TABLES);
    if (threadIdx.x < 16) {
        table[threadIdx.x] = book_value(form, threadIdx.x);
    }
    if (is_nested(form) && threadIdx.x < NESTED_SCALES) {
        table[16 + threadIdx.x] = nested[threadIdx.x];
    }
    ring_begin(&share, 1 + MAKERS / BP_WARP);
    const uint32_t group = threadIdx.x / GROUP;
    if (group >= 2) {
        const bool along = (flags & BP_TRANSPOSE_B) == 0;
        const uint32_t thread = threadIdx.x - 2 * GROUP;
        const bp_maker maker = {&share,
                                {codes, scales, nested, form},
                                along ? k : n,
                                along ? n : k,
                                along,
                                is_nested(form),
                                form == INT8 || form == FP8 || is_nested(form),
                                (flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF,
                                thread,
                                ring + PLACES + thread * 4,
                                table,
                                table + 16};
        slices_make(&maker, &map_a);
    } else {
        slices_multiply(&share, group);
    }
}

/* A matrix of codes, rows of whole pieces, as 16-bit elements: the values that the tiles above make
 * of it. */
extern "C" __global__ void __launch_bounds__(256)
    bp_quantised_dequantize(uint16_t *to, const uint8_t *codes, const void *scales,
                            const float *nested, uint64_t rows, uint64_t columns, uint32_t form,
                            uint32_t dtype)
{
    __shared__ float table[16];
    if (rows == 0) {
        return;
    }
    const bp_codes b = {codes, scales, nested, form};
    const bool half = (dtype & BP_TYPE_BITS) == BP_HALF;
    const uint64_t pieces = rows * columns / 8;
    if (threadIdx.x < 16) {
        table[threadIdx.x] = book_value(form, threadIdx.x);
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = 0; i < PIECES; i++) {
        const uint64_t at = ((uint64_t)blockIdx.x * PIECES + i) * MAKERS + threadIdx.x;
        if (at < pieces) {
            float x[8];
            const uint64_t row = form == INT8 ? at * 8 / columns : 0; /* else it has no say */
            const bp_code_piece piece = code_piece_load(&b, at * 8, row);
            code_piece_values(form, &piece, table, x);
            *(uint4 *)(to + at * 8) =
                make_uint4(bp_pair(x[0], x[1], half), bp_pair(x[2], x[3], half),
                           bp_pair(x[4], x[5], half), bp_pair(x[6], x[7], half));
        }
    }
}
