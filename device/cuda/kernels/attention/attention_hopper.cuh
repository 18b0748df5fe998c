/* SPDX-License-Identifier: MIT */
/* What Hopper's attention kernels share: tiles of 64 lines of 64 or 128 elements, brought by tensor
 * maps; products of such tiles by one warpgroup; and which pairs of a query and a key there are.
 *
 * A tile of scores is 64 x 64, in the fragments of wgmma: element i of a thread is in line
 * own_line() + 8 (i / 2 % 2) and column 8 (i / 4) + own_column() + i % 2. As the left operand of
 * the next product it has the same places, so weights stay in registers. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_HOPPER_CUH
#define BP_DEVICE_KERNELS_ATTENTION_HOPPER_CUH

#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/attention/attention_power.cuh"
#include "device/cuda/kernels/products/hopper.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define ROWS    64
#define THREADS 128
#define PANEL   8192 /* bytes: 64 lines of 64 elements */
#define SCORES  32   /* a thread's own, of a tile */
#define STAGES  2

/* Bytes of a tile. A thread has 32 sums of one, or 64 where it is wide. */
#define TILE_BYTES(wide) ((wide) ? 2 * PANEL : PANEL)

BP_DEVICE uint32_t own_line(void)
{
    return threadIdx.x / BP_WARP * 16 + threadIdx.x % BP_WARP / 4;
}

BP_DEVICE uint32_t own_column(void)
{
    return threadIdx.x % 4 * 2;
}

/* A tile of a map: 64 lines of one sample from `line` on, zeros behind its last. */
BP_DEVICE void tile_bring(uint32_t to, const bp_map *map, uint32_t column, uint32_t line,
                          uint32_t sample, uint32_t barrier, bool wide)
{
#pragma unroll
    for (uint32_t i = 0; i < (wide ? 2 : 1); i++) {
        bp_bring_box_of(to + i * PANEL, map, column + i * 64, line, sample, barrier);
    }
}

#define SUMS32_TEXT                                                                                \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define PRODUCT_TEXT(shape, type) "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " "
#define BEGIN_TEXT(from_y)                                                                         \
    "{\n.reg .b64 y;\n"                                                                            \
    "mov.b64 y, " from_y ";\nwgmma.fence.sync.aligned;\n"
#define END_TEXT                                                                                   \
    "wgmma.commit_group.sync.aligned;\n"                                                           \
    "wgmma.wait_group.sync.aligned 0;\n}"

/* 16 terms of scores along the lines of both tiles, and 32 bytes further. */
#define SCORE_TEXT(type, adds)                                                                     \
    PRODUCT_TEXT("m64n64k16", type) SUMS32_TEXT ", x, y, " adds ", 1, 1, 0, 0;\n"
#define FURTHER_TEXT(by) "add.s64 x, x, " by ";\nadd.s64 y, y, " by ";\n"
#define SCORES_TEXT(type, adds)                                                                    \
    SCORE_TEXT(type, adds)                                                                         \
    FURTHER_TEXT("2")                                                                              \
    SCORE_TEXT(type, "1")                                                                          \
    FURTHER_TEXT("2") SCORE_TEXT(type, "1") FURTHER_TEXT("2") SCORE_TEXT(type, "1")
#define SCORES_ASM(text)                                                                           \
    asm volatile(BEGIN_TEXT("%33") ".reg .b64 x;\nmov.b64 x, %32;\n" text END_TEXT                 \
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3]), "=f"(sum[4]),           \
                   "=f"(sum[5]), "=f"(sum[6]), "=f"(sum[7]), "=f"(sum[8]), "=f"(sum[9]),           \
                   "=f"(sum[10]), "=f"(sum[11]), "=f"(sum[12]), "=f"(sum[13]), "=f"(sum[14]),      \
                   "=f"(sum[15]), "=f"(sum[16]), "=f"(sum[17]), "=f"(sum[18]), "=f"(sum[19]),      \
                   "=f"(sum[20]), "=f"(sum[21]), "=f"(sum[22]), "=f"(sum[23]), "=f"(sum[24]),      \
                   "=f"(sum[25]), "=f"(sum[26]), "=f"(sum[27]), "=f"(sum[28]), "=f"(sum[29]),      \
                   "=f"(sum[30]), "=f"(sum[31])                                                    \
                 : "l"(from_x), "l"(from_y)                                                        \
                 : "memory")

/* sum = x_line . y_line, over the columns in order. */
BP_DEVICE void tile_scores(float sum[SCORES], uint32_t x, uint32_t y, bool half, bool wide)
{
    uint64_t from_x = bp_descriptor(x, 16), from_y = bp_descriptor(y, 16);
    if (wide && half) {
        SCORES_ASM(SCORES_TEXT("f16", "0") FURTHER_TEXT("506") SCORES_TEXT("f16", "1"));
    } else if (wide) {
        SCORES_ASM(SCORES_TEXT("bf16", "0") FURTHER_TEXT("506") SCORES_TEXT("bf16", "1"));
    } else if (half) {
        SCORES_ASM(SCORES_TEXT("f16", "0"));
    } else {
        SCORES_ASM(SCORES_TEXT("bf16", "0"));
    }
}

#define WEIGHTS_OF(part)                                                                           \
    "r"(part[0]), "r"(part[1]), "r"(part[2]), "r"(part[3]), "r"(part[4]), "r"(part[5]),            \
        "r"(part[6]), "r"(part[7]), "r"(part[8]), "r"(part[9]), "r"(part[10]), "r"(part[11]),      \
        "r"(part[12]), "r"(part[13]), "r"(part[14]), "r"(part[15])
#define COMBINE_TEXT(product, a, b, c, d)                                                          \
    product ", {%" #a ", %" #b ", %" #c ", %" #d "}, y, 1, 1, 1, 1;\n"
#define LOWER_TEXT   "add.s64 y, y, 128;\n" /* 16 lines */
#define NARROW(type) PRODUCT_TEXT("m64n64k16", type) SUMS32_TEXT
#define WIDE(type)   PRODUCT_TEXT("m64n128k16", type) BP_SUMS_TEXT
#define NARROW_ASM(type)                                                                           \
    asm volatile(BEGIN_TEXT("%48") COMBINE_TEXT(NARROW(type), 32, 33, 34, 35)                      \
                     LOWER_TEXT COMBINE_TEXT(NARROW(type), 36, 37, 38, 39)                         \
                         LOWER_TEXT COMBINE_TEXT(NARROW(type), 40, 41, 42, 43)                     \
                             LOWER_TEXT COMBINE_TEXT(NARROW(type), 44, 45, 46, 47) END_TEXT        \
                 : BP_SUMS8(0), BP_SUMS8(8), BP_SUMS8(16), BP_SUMS8(24)                            \
                 : WEIGHTS_OF(part), "l"(from_y)                                                   \
                 : "memory")
#define WIDE_ASM(type)                                                                             \
    asm volatile(BEGIN_TEXT("%80") COMBINE_TEXT(WIDE(type), 64, 65, 66, 67)                        \
                     LOWER_TEXT COMBINE_TEXT(WIDE(type), 68, 69, 70, 71)                           \
                         LOWER_TEXT COMBINE_TEXT(WIDE(type), 72, 73, 74, 75)                       \
                             LOWER_TEXT COMBINE_TEXT(WIDE(type), 76, 77, 78, 79) END_TEXT          \
                 : BP_SUMS8(0), BP_SUMS8(8), BP_SUMS8(16), BP_SUMS8(24), BP_SUMS8(32),             \
                   BP_SUMS8(40), BP_SUMS8(48), BP_SUMS8(56)                                        \
                 : WEIGHTS_OF(part), "l"(from_y)                                                   \
                 : "memory")

BP_DEVICE void weights_pair(uint32_t part[SCORES / 2], const float weight[SCORES], bool half)
{
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        part[i] = bp_pair(weight[2 * i], weight[2 * i + 1], half);
    }
}

/* sum += weights_line . y, over the lines of y in order. */
BP_DEVICE void tile_combine(float sum[64], const float weight[SCORES], uint32_t y, bool half,
                            bool wide)
{
    uint64_t from_y = bp_descriptor(y, PANEL); /* of narrow tiles there is no next panel */
    uint32_t part[SCORES / 2];
    if (half) {
        weights_pair(part, weight, true);
        if (wide) {
            WIDE_ASM("f16");
        } else {
            NARROW_ASM("f16");
        }
    } else {
        weights_pair(part, weight, false);
        if (wide) {
            WIDE_ASM("bf16");
        } else {
            NARROW_ASM("bf16");
        }
    }
}

BP_DEVICE void tile_clear(float sum[64])
{
#pragma unroll
    for (uint32_t i = 0; i < 64; i++) {
        sum[i] = 0.0f;
    }
}

/* Multiplies both lines by their factors. */
BP_DEVICE void tile_scale(float sum[64], const float factor[2], bool wide)
{
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) {
        sum[i] *= factor[i / 2 % 2];
    }
    if (wide) {
#pragma unroll
        for (uint32_t i = 32; i < 64; i++) {
            sum[i] *= factor[i / 2 % 2];
        }
    }
}

/* Writes sums to the lines of a matrix that are there. */
BP_DEVICE void tile_store(void *to, uint64_t pitch, uint64_t first, const float sum[64],
                          const bp_attention *at, bool wide)
{
    bool half = (at->form & BP_TYPE_BITS) == BP_HALF;
#pragma unroll
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint64_t line = first + own_line() + 8 * turn;
        uint16_t *out = (uint16_t *)to + line * pitch + own_column();
        if (line < at->sequence) {
#pragma unroll
            for (uint32_t i = 2 * turn; i < 64; i += 4) {
                if (i < 32 || wide) {
                    *(uint32_t *)(out + i / 4 * 8) = bp_pair(sum[i], sum[i + 1], half);
                }
            }
        }
    }
}

/* Dot products become capped scores, four at a time, so that the code is there once. */
BP_DEVICE void tile_cap(float score[SCORES], const bp_attention *at)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn < SCORES / 4; turn++) {
        float first[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            first[i] = at->cap * bp_tanhf_inline(score[i] * at->scale / at->cap);
        }
#pragma unroll
        for (uint32_t i = 0; i < SCORES; i++) {
            score[i] = i + 4 < SCORES ? score[i + 4] : first[i % 4];
        }
    }
}

/* What a call is: of half elements, with dropout, with heads of 128, with capped scores, of packed
 * documents. */
#define IS_HALF   1u
#define IS_DROPS  2u
#define IS_WIDE   4u
#define IS_CAPPED 8u
#define IS_PACKED 16u

/* Makes the compiler forget that they stay the same from turn to turn of a loop: it would write the
 * loop once for each. */
BP_DEVICE void flags_forget(uint32_t *flags)
{
    asm volatile("" : "+r"(*flags));
}

/* Which pairs of a query and a key there are: key - query is below `upper` and above -lower. */
typedef struct sight {
    int32_t upper;
    int32_t lower;
    uint32_t keys;
    uint32_t queries;
} sight;

BP_DEVICE sight sight_make(const bp_attention *at, const bp_head *head)
{
    const uint64_t far = 1u << 30; /* sequences are shorter */
    sight s;
    s.lower = (int32_t)(at->window != 0 ? bp_least(at->window, far) : far);
    s.upper = at->causal != 0 ? 1 : s.lower;
    s.keys = (uint32_t)head->keys;
    s.queries = (uint32_t)at->sequence;
    return s;
}

BP_DEVICE bool sight_has(const sight *s, uint32_t query, uint32_t key)
{
    int32_t apart = (int32_t)key - (int32_t)query;
    return apart < s->upper && apart > -s->lower && key < s->keys && query < s->queries;
}

/* Which columns of a line of a tile are there, a bit each, the thread's first the lowest. `turned`:
 * lines are keys, columns queries. No column is there before `edge`, or, turned, from it on. */
BP_DEVICE uint64_t sight_columns(const sight *s, uint32_t line, uint32_t column, int32_t edge,
                                 bool turned)
{
    int32_t before = turned ? s->upper : s->lower, behind = turned ? s->lower : s->upper;
    int32_t first = (int32_t)line - before + 1 - (int32_t)column;
    int32_t end = min((int32_t)line + behind, (int32_t)(turned ? s->queries : s->keys));
    bool out = line >= (turned ? s->keys : s->queries);
    first = turned ? first : max(first, edge - (int32_t)column);
    end = turned ? min(end, edge) : end;
    end = out ? 0 : max(0, min(64, end - (int32_t)column));
    first = max(0, min(64, first));
    uint64_t all = ~(uint64_t)0, low = end == 64 ? all : ((uint64_t)1 << end) - 1;
    uint64_t high = first == 64 ? 0 : all << first;
    return (low & high) >> own_column();
}

/* Whether all pairs of a tile are there. */
BP_DEVICE bool sight_whole(const sight *s, uint32_t query, uint32_t key)
{
    return sight_has(s, query, key + ROWS - 1) && sight_has(s, query + ROWS - 1, key);
}

/* Which elements of a tile are kept, 16 keys to a word; [query][key / 16]. */
BP_DEVICE void tile_masks(uint16_t kept[ROWS * 4], const bp_mask *mask, const bp_attention *at,
                          const bp_head *head, uint32_t query, uint32_t key)
{
#pragma unroll 1
    for (uint32_t s = threadIdx.x; s < ROWS * 4; s += THREADS) {
        kept[s] = (uint16_t)bp_head_mask16(mask, at, head, query + s / 4, key + s % 4 * 16);
    }
}

/* What lies in shared memory behind `base`: the tile or tiles that a block keeps, then two stages
 * of two tiles that go by, each with a barrier. */
typedef struct ring {
    uint32_t tiles;
    uint32_t full;
    uint32_t stages;
} ring;

BP_DEVICE ring ring_make(const void *memory, const uint64_t *full, uint32_t kept, bool wide)
{
    ring r;
    r.tiles = (bp_shared_address(memory) + 1023) / 1024 * 1024;
    r.full = bp_shared_address(full);
    r.stages = r.tiles + kept * TILE_BYTES(wide);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            bp_barrier_init(r.full + i * 8, 1);
        }
        bp_barrier_init_fence();
    }
    __syncthreads();
    return r;
}

BP_DEVICE uint32_t ring_stage(const ring *r, uint32_t turn, bool wide)
{
    return r->stages + turn % STAGES * 2 * TILE_BYTES(wide);
}

BP_DEVICE uint32_t ring_full(const ring *r, uint32_t turn)
{
    return r->full + turn % STAGES * 8;
}

BP_DEVICE void ring_wait(const ring *r, uint32_t turn)
{
    bp_barrier_wait(ring_full(r, turn), turn / STAGES % 2);
}

#endif
