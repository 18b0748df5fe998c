/* SPDX-License-Identifier: MIT */
/* Products of 16-bit elements on Hopper in tiles of five shapes: 128 x 128, 256 x 128, 256 x 160,
 * 256 x 192 and 128 x 192. The shape is one more parameter, so that what is around the products is
 * there once; the sums of an element are the same in each. */
#ifndef BP_DEVICE_KERNELS_MATMUL_HOPPER_SHAPES_CUH
#define BP_DEVICE_KERNELS_MATMUL_HOPPER_SHAPES_CUH

#include "device/cuda/kernels/products/matmul_hopper.cuh"

/* In a product's `flags`: rows of a tile by 128, less 1; and its columns by 32. */
#define BP_TILE_ROWS    12
#define BP_TILE_COLUMNS 13

#define SHAPED_SUMS 96 /* a thread's most, of 64 rows */

/* What a block works on. */
typedef struct bp_shaped {
    const bp_product *p;
    uint32_t ring; /* shared addresses */
    uint32_t full; /* of `stages` barriers each */
    uint32_t empty;
    uint32_t first; /* term */
    uint32_t slices;
    uint32_t tiles;
    uint32_t rows;    /* blocks of 64 rows that a warpgroup multiplies: 1 or 2 */
    uint32_t columns; /* of a tile */
    uint32_t panels;  /* of 64 columns; the last may reach further than the tile */
    uint32_t stages;
    uint32_t slice; /* bytes of both operands */
} bp_shaped;

BP_DEVICE bp_shaped shaped_of(const bp_product *p, uint32_t ring)
{
    bp_shaped w;
    w.p = p;
    w.rows = (p->flags >> BP_TILE_ROWS & 1) + 1;
    w.columns = (p->flags >> BP_TILE_COLUMNS & 7) * 32;
    w.panels = (w.columns + 63) / 64;
    w.stages = w.rows == 2 ? 3 : w.panels == 3 ? 4 : 5;
    w.slice = (2 * w.rows + w.panels) * PANEL;
    w.ring = ring;
    w.full = ring + w.stages * w.slice + ROWS_BYTES;
    w.empty = w.full + w.stages * 8;
    const uint64_t first = blockIdx.y * p->depth, terms = bp_least(p->depth, p->k - first);
    w.first = (uint32_t)first;
    w.slices = (uint32_t)((terms + DEPTH - 1) / DEPTH);
    w.tiles = (uint32_t)((p->m + w.rows * TILE - 1) / (w.rows * TILE) *
                         ((p->n + w.columns - 1) / w.columns));
    return w;
}

/* The tile of a number, in the order of bp_product_tile(). */
BP_DEVICE void shaped_tile(const bp_shaped *w, uint32_t index, uint32_t *row, uint32_t *column)
{
    const uint32_t height_of = w->rows * TILE;
    uint32_t down = (uint32_t)((w->p->m + height_of - 1) / height_of);
    uint32_t across = (uint32_t)((w->p->n + w->columns - 1) / w->columns);
    uint32_t band = index / (8 * across), rest = index % (8 * across);
    uint32_t height = min(8u, down - band * 8);
    *row = (band * 8 + rest % height) * height_of;
    *column = rest / height * w->columns;
}

/* Panels of an operand's slice, as slice_bring() brings them. */
BP_DEVICE void panels_bring(uint32_t to, const bp_map *map, uint32_t barrier, bool along,
                            uint32_t edge, uint32_t term, uint32_t panels)
{
#pragma unroll 1
    for (uint32_t i = 0; i < panels; i++) {
        uint32_t x = along ? edge + 64 * i : term, y = along ? term : edge + 64 * i;
        bp_bring_box(to + i * PANEL, map, x, y, barrier);
    }
}

/* One thread fills the ring. */
BP_DEVICE void shaped_bring(const bp_shaped *w, const bp_map *map_a, const bp_map *map_b)
{
    bool along_a = (w->p->flags & BP_TRANSPOSE_A) != 0;
    bool along_b = (w->p->flags & BP_TRANSPOSE_B) == 0;
    uint32_t stage = 0, turn = 1; /* an empty ring waits for the turn before its first */
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < w->tiles; tile += gridDim.x) {
        uint32_t row, column;
        shaped_tile(w, tile, &row, &column);
#pragma unroll 1
        for (uint32_t slice = 0; slice < w->slices; slice++) {
            uint32_t to = w->ring + stage * w->slice, full = w->full + stage * 8;
            bp_barrier_wait(w->empty + stage * 8, turn);
            bp_barrier_expect(full, w->slice);
            uint32_t term = w->first + slice * DEPTH;
            panels_bring(to, map_a, full, along_a, row, term, 2 * w->rows);
            panels_bring(to + 2 * w->rows * PANEL, map_b, full, along_b, column, term, w->panels);
            stage = stage + 1 == w->stages ? 0 : stage + 1;
            turn ^= stage == 0;
        }
    }
}

#define S8(x, i)                                                                                   \
    "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]),    \
        "+f"(x[i + 6]), "+f"(x[i + 7])
#define S96(x)                                                                                     \
    S8(x, 0), S8(x, 8), S8(x, 16), S8(x, 24), S8(x, 32), S8(x, 40), S8(x, 48), S8(x, 56),          \
        S8(x, 64), S8(x, 72), S8(x, 80), S8(x, 88)

/* The sums of 64 rows as operands of a statement, and those of 64 more. */
#define FIRST64                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "             \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "             \
    "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "             \
    "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FIRST80                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "             \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "             \
    "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "             \
    "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "             \
    "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define FIRST96                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "             \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "             \
    "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "             \
    "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "             \
    "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "             \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SECOND64                                                                                   \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "             \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "         \
    "%124, %125, %126, %127, %128, %129, %130, %131, %132, %133, %134, %135, %136, %137, "         \
    "%138, %139, %140, %141, %142, %143, %144, %145, %146, %147, %148, %149, %150, %151, "         \
    "%152, %153, %154, %155, %156, %157, %158, %159"
#define SECOND80                                                                                   \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "             \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "         \
    "%124, %125, %126, %127, %128, %129, %130, %131, %132, %133, %134, %135, %136, %137, "         \
    "%138, %139, %140, %141, %142, %143, %144, %145, %146, %147, %148, %149, %150, %151, "         \
    "%152, %153, %154, %155, %156, %157, %158, %159, %160, %161, %162, %163, %164, %165, "         \
    "%166, %167, %168, %169, %170, %171, %172, %173, %174, %175"
#define SECOND96                                                                                   \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "             \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "         \
    "%124, %125, %126, %127, %128, %129, %130, %131, %132, %133, %134, %135, %136, %137, "         \
    "%138, %139, %140, %141, %142, %143, %144, %145, %146, %147, %148, %149, %150, %151, "         \
    "%152, %153, %154, %155, %156, %157, %158, %159, %160, %161, %162, %163, %164, %165, "         \
    "%166, %167, %168, %169, %170, %171, %172, %173, %174, %175, %176, %177, %178, %179, "         \
    "%180, %181, %182, %183, %184, %185, %186, %187, %188, %189, %190, %191"

/* A slice's four steps of 16 terms, as turns of a loop whose body chooses the product: one
 * statement for all shapes and types and ways in which the operands lie, so that compilers have one
 * loop that holds the sums. %192 and %193: a and b, %194: 0 where the sums start, %195: the kind.
 * As BP_GROUP_MULTIPLY has it, the product goes on until all are waited for. */
#define SHAPED_PRODUCT(columns, type, sums, a, turned_a, turned_b)                                 \
    "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" sums "}, " a         \
    ", y, adds, 1, 1, " turned_a ", " turned_b ";\n"
#define SHAPED_NEXT "wgmma.commit_group.sync.aligned;\nbra next;\n"
#define SHAPED_ONE(columns, first, second, type, ta, tb)                                           \
    "wgmma.fence.sync.aligned;\n" SHAPED_PRODUCT(columns, type, first, "x", ta, tb) SHAPED_NEXT
#define SHAPED_TWO(columns, first, second, type, ta, tb)                                           \
    "wgmma.fence.sync.aligned;\n" SHAPED_PRODUCT(columns, type, first, "x", ta, tb)                \
        SHAPED_PRODUCT(columns, type, second, "z", ta, tb) SHAPED_NEXT
/* A shape's eight products, by three bits of the kind. */
#define SHAPED_TYPE(at, PRODUCT, columns, first, second, type)                                     \
    "@along_a bra " at "a;\n"                                                                      \
    "@along_b bra " at "b;\n" PRODUCT(columns, first, second, type, "0", "0") at                   \
        "b:\n" PRODUCT(columns, first, second, type, "0", "1") at                                  \
        "a:\n"                                                                                     \
        "@along_b bra " at "c;\n" PRODUCT(columns, first, second, type, "1", "0") at               \
        "c:\n" PRODUCT(columns, first, second, type, "1", "1")
#define SHAPED_SHAPE(at, PRODUCT, columns, first, second)                                          \
    at "x:\n@half bra " at "y;\n" SHAPED_TYPE(at, PRODUCT, columns, first, second, "bf16") at      \
        "y:\n" SHAPED_TYPE(at "h", PRODUCT, columns, first, second, "f16")

BP_DEVICE void shaped_multiply(float sum[SHAPED_SUMS], float more[SHAPED_SUMS], uint64_t a,
                               uint64_t b, bool starts, uint32_t kind)
{
    asm volatile("{\n"
                 ".reg .pred adds, left, along_a, along_b, half, is_0, is_1, is_2, is_4;\n"
                 ".reg .b64 x, y, z, step_x, step_y;\n"
                 ".reg .b32 bit, turns;\n"
                 "and.b32 bit, %195, 1;\n"
                 "setp.ne.u32 along_b, bit, 0;\n"
                 "and.b32 bit, %195, 2;\n"
                 "setp.ne.u32 along_a, bit, 0;\n"
                 "and.b32 bit, %195, 4;\n"
                 "setp.ne.u32 half, bit, 0;\n"
                 "shr.u32 bit, %195, 3;\n"
                 "setp.eq.u32 is_0, bit, 0;\n"
                 "setp.eq.u32 is_1, bit, 1;\n"
                 "setp.eq.u32 is_2, bit, 2;\n"
                 "setp.eq.u32 is_4, bit, 4;\n"
                 "selp.b64 step_x, 128, 2, along_a;\n"
                 "selp.b64 step_y, 128, 2, along_b;\n"
                 "mov.b64 x, %192;\n"
                 "mov.b64 y, %193;\n"
                 "mov.b32 turns, 4;\n"
                 "setp.eq.u32 adds, %194, 0;\n"
                 "again:\n"
                 "add.s64 z, x, 512;\n"
                 "@is_0 bra s0x;\n"
                 "@is_1 bra s1x;\n"
                 "@is_2 bra s2x;\n"
                 "@is_4 bra s4x;\n" SHAPED_SHAPE("s3", SHAPED_TWO, "192", FIRST96, SECOND96)
                     SHAPED_SHAPE("s0", SHAPED_ONE, "128", FIRST64, SECOND64)
                         SHAPED_SHAPE("s1", SHAPED_TWO, "128", FIRST64, SECOND64)
                             SHAPED_SHAPE("s2", SHAPED_TWO, "160", FIRST80, SECOND80)
                                 SHAPED_SHAPE("s4", SHAPED_ONE, "192", FIRST96,
                                              SECOND96) "next:\n"
                                                        "add.s64 x, x, step_x;\n"
                                                        "add.s64 y, y, step_y;\n"
                                                        "sub.u32 turns, turns, 1;\n"
                                                        "setp.eq.u32 adds, turns, turns;\n"
                                                        "setp.ne.u32 left, turns, 0;\n"
                                                        "@left bra again;\n"
                                                        "wgmma.wait_group.sync.aligned 4;\n"
                                                        "}"
                 : S96(sum), S96(more)
                 : "l"(a), "l"(b), "r"((uint32_t)starts), "r"(kind)
                 : "memory");
}

BP_DEVICE void shaped_clear(float sum[SHAPED_SUMS])
{
#pragma unroll
    for (uint32_t i = 0; i < SHAPED_SUMS; i++) {
        sum[i] = 0.0f;
    }
}

/* Waits until the sums are there. */
BP_DEVICE void shaped_wait(float sum[SHAPED_SUMS], float more[SHAPED_SUMS])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" : S96(sum), S96(more)::"memory");
}

/* A piece of 64 x 64 sums to shared memory: block 0 or 1 of rows, panel piece / 2. */
BP_DEVICE void piece_lay(uint32_t piece, uint32_t lay, const float sum[SHAPED_SUMS],
                         const float more[SHAPED_SUMS])
{
    __syncwarp(); /* what was there before is read: a warp reads what it wrote itself */
    switch (piece) {
    case 0:
        bp_rows_lay(sum, lay);
        break;
    case 1:
        bp_rows_lay(more, lay);
        break;
    case 2:
        bp_rows_lay(sum + 32, lay);
        break;
    case 3:
        bp_rows_lay(more + 32, lay);
        break;
    case 4:
        bp_rows_lay(sum + 64, lay);
        break;
    default:
        bp_rows_lay(more + 64, lay);
        break;
    }
    __syncwarp();
}

/* The warpgroup's sums of a tile in a form, which is a constant as half is, by way of shared
 * memory, row by row. */
BP_DEVICE void shaped_end(const bp_shaped *w, const bp_rows *r, float sum[SHAPED_SUMS],
                          float more[SHAPED_SUMS], uint32_t form, bool half)
{
    const bp_product *p = w->p;
    const bp_shorts s = bp_shorts_at(r);
    const bp_rows_place at = bp_rows_first(r);
    const bp_rows_other o = bp_rows_others(p);
    const uint64_t pitch = p->ldc * 8; /* bytes of four rows */
    unsigned char *const to = (unsigned char *)p->c + (at.row * p->ldc + at.column) * 2;
    unsigned char *row[4] = {to, to + pitch, to + 2 * pitch, to + 3 * pitch};
    const int64_t next = w->rows == 2 ? (int64_t)(16 * pitch) : 0;
    __syncwarp(); /* what was there before is read */
    if (form == ROWS_ADDS) {
        bp_shorts_fetch(&s, row, o.added, at.left > 0);
    }
    bp_shorts_end(&s, r, sum, SHAPED_SUMS / 32, row, at.left, &o, next, form, half);
    if (w->rows == 2) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            row[i] += next;
        }
        bp_shorts_end(&s, r, more, SHAPED_SUMS / 32, row, at.left, &o, 0, form, half);
    }
}

/* A piece's sums with their bias to shared memory, as 16-bit elements. */
BP_DEVICE void piece_lay_shorts(const bp_shorts *s, float sum[32], uint32_t right, bool half)
{
    bp_shorts_bias(s, right, sum);
    bp_shorts_lay(s, sum, half);
}

/* The same with GELU, in pieces, so that it is there once. */
BP_DEVICE void shaped_end_gelu(const bp_shaped *w, const bp_rows *r, float sum[SHAPED_SUMS],
                               float more[SHAPED_SUMS], bool half)
{
    const bp_product *p = w->p;
    const bp_shorts s = bp_shorts_at(r);
    const bp_rows_place at = bp_rows_first(r);
    const bp_rows_other o = bp_rows_others(p);
    const uint64_t pitch = p->ldc * 8; /* bytes of four rows */
    unsigned char *to = (unsigned char *)p->c + (at.row * p->ldc + at.column) * 2;
#pragma unroll 1
    for (uint32_t right = 0; right < w->columns; right += 64) {
#pragma unroll 1
        for (uint32_t block = 0; block < w->rows; block++) {
            __syncwarp(); /* what was there before is read */
            switch (right / 32 + block) {
            case 0:
                piece_lay_shorts(&s, sum, 0, half);
                break;
            case 1:
                piece_lay_shorts(&s, more, 0, half);
                break;
            case 2:
                piece_lay_shorts(&s, sum + 32, 64, half);
                break;
            case 3:
                piece_lay_shorts(&s, more + 32, 64, half);
                break;
            case 4:
                piece_lay_shorts(&s, sum + 64, 128, half);
                break;
            default:
                piece_lay_shorts(&s, more + 64, 128, half);
                break;
            }
            __syncwarp();
            if (right < at.left) {
                bp_shorts_gelu(&s, to + (block == 0 ? 0 : 16 * pitch), pitch, &o, half);
            }
        }
        to += 128;
    }
}

/* The same as floats, and by fours. */
BP_DEVICE void shaped_end_floats(const bp_shaped *w, const bp_rows *r, const float sum[SHAPED_SUMS],
                                 const float more[SHAPED_SUMS])
{
    const bool adds = w->p->splits == 1 && (w->p->flags & BP_ACCUMULATE) != 0;
    const bp_rows_place at = bp_rows_first(r);
    const uint32_t from = bp_rows_from(r->out);
    uint64_t pitch;
    float *to = bp_rows_floats(w->p, &pitch);
    to += at.row * pitch + at.column;
#pragma unroll 1
    for (uint32_t piece = 0; piece < 2 * w->panels; piece += 3 - w->rows) {
        const uint32_t right = piece / 2 * 64;
        piece_lay(piece, bp_rows_to(r->out), sum, more);
        if (right < at.left) {
            bp_rows_make_floats(from, to + piece % 2 * 64 * pitch + right, pitch, adds,
                                at.left - right);
        }
    }
}

BP_DEVICE void shaped_end_edge(const bp_shaped *w, const bp_rows *r, const float sum[SHAPED_SUMS],
                               const float more[SHAPED_SUMS])
{
#pragma unroll 1
    for (uint32_t piece = 0; piece < 2 * w->panels; piece += 3 - w->rows) {
        piece_lay(piece, bp_rows_to(r->out), sum, more);
        bp_rows_edge(r, piece % 2 * 64, piece / 2 * 64);
    }
}

BP_DEVICE void shaped_finish(const bp_shaped *w, const bp_rows *r, float sum[SHAPED_SUMS],
                             float more[SHAPED_SUMS])
{
    const bool half = bp_rows_half(w->p);
    if (r->form == ROWS_EDGE) {
        shaped_end_edge(w, r, sum, more);
    } else if (r->form == ROWS_FLOAT) {
        shaped_end_floats(w, r, sum, more);
    } else if (r->form == ROWS_PLAIN && half) {
        shaped_end(w, r, sum, more, ROWS_PLAIN, true);
    } else if (r->form == ROWS_PLAIN) {
        shaped_end(w, r, sum, more, ROWS_PLAIN, false);
    } else if (r->form == ROWS_ADDS && half) {
        shaped_end(w, r, sum, more, ROWS_ADDS, true);
    } else if (r->form == ROWS_ADDS) {
        shaped_end(w, r, sum, more, ROWS_ADDS, false);
    } else if (half) {
        shaped_end_gelu(w, r, sum, more, true);
    } else {
        shaped_end_gelu(w, r, sum, more, false);
    }
}

BP_DEVICE void shaped_make(const bp_shaped *w, uint32_t group)
{
    bool along_a = (w->p->flags & BP_TRANSPOSE_A) != 0;
    bool along_b = (w->p->flags & BP_TRANSPOSE_B) == 0;
    const bool half = (w->p->flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
    const uint32_t shape = w->rows == 2 ? 1 + (w->columns - 128) / 32 : w->panels == 3 ? 4 : 0;
    const uint32_t kind = shape << 3 | (half ? 4 : 0) | (along_a ? 2 : 0) | (along_b ? 1 : 0);
    const uint32_t form = bp_rows_form(w->p);
    uint32_t stage = 0, before = 0, turn = 0;
    const uint32_t out = w->ring + w->stages * w->slice;
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < w->tiles; tile += gridDim.x) {
        float sum[SHAPED_SUMS], more[SHAPED_SUMS]; /* of one block of 64 rows, and of a second */
        uint32_t row, column;
        shaped_tile(w, tile, &row, &column);
        shaped_clear(sum);
        shaped_clear(more);
#pragma unroll 1
        for (uint32_t slice = 0; slice < w->slices; slice++) {
            uint32_t at = w->ring + stage * w->slice;
            uint64_t a = bp_descriptor(at + group * w->rows * PANEL, along_a ? PANEL : 16);
            uint64_t b = bp_descriptor(at + 2 * w->rows * PANEL, along_b ? PANEL : 16);
            bp_barrier_wait(w->full + stage * 8, turn);
            shaped_multiply(sum, more, a, b, slice == 0, kind);
            if (threadIdx.x % GROUP == 0 && slice > 0) { /* the slice before is multiplied */
                bp_barrier_arrive(w->empty + before * 8);
            }
            before = stage;
            stage = stage + 1 == w->stages ? 0 : stage + 1;
            turn ^= stage == 0;
        }
        shaped_wait(sum, more);
        if (threadIdx.x % GROUP == 0 && w->slices > 0) {
            bp_barrier_arrive(w->empty + before * 8);
        }
        const bp_rows rows = bp_rows_set(w->p, form, out, row, column, w->rows * 64, w->columns);
        shaped_finish(w, &rows, sum, more);
    }
}

#endif
