/* SPDX-License-Identifier: MIT */
/* A tile of c in SVE's registers, 6 rows x 16 columns, a row in `count` of them, and how it begins
 * and ends: for the files that say what is added in between. They are included in functions with
 * the tile `t`, and `lanes` floats in a register. */
#ifndef BP_DEVICE_HOST_MATMUL_TILE_SVE_H
#define BP_DEVICE_HOST_MATMUL_TILE_SVE_H

#include <arm_sve.h>

#include "device/host/matmul/matmul_pack.h"

#define ROWS    6
#define COLUMNS 16

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* The vectors of a row of which `count` are there: variables of this kind can be in no array. */
#define EACH_VECTOR(X, i)                                                                          \
    X(i, 0)                                                                                        \
    if (count > 1) {                                                                               \
        X(i, 1)                                                                                    \
    }                                                                                              \
    if (count > 2) {                                                                               \
        X(i, 2) X(i, 3)                                                                            \
    }

/* Rows that are not there are computed and not stored. */
#define DECLARE(i)                                                                                 \
    svfloat32_t c##i##0 = svdup_f32(0.0f), c##i##1 = c##i##0, c##i##2 = c##i##0, c##i##3 = c##i##0;

#define LOAD_ONE(i, v) c##i##v = svld1_vnum_f32(there##v, t->from + i * t->from_pitch, v);
#define LOAD(i)                                                                                    \
    if (i < t->rows) {                                                                             \
        EACH_VECTOR(LOAD_ONE, i)                                                                   \
    }

/* Of the vectors of a row, the lanes that the tile's columns have. */
#define WHAT_IS_THERE                                                                              \
    const svbool_t there0 = svwhilelt_b32(INT64_C(0), t->columns);                                 \
    const svbool_t there1 = svwhilelt_b32(lanes, t->columns);                                      \
    const svbool_t there2 = svwhilelt_b32(2 * lanes, t->columns);                                  \
    const svbool_t there3 = svwhilelt_b32(3 * lanes, t->columns);

#define BIAS_ONE(i, v) c##i##v = svadd_f32_x(all, c##i##v, svld1_vnum_f32(there##v, t->bias, v));
#define ADD_BIAS(i)    EACH_VECTOR(BIAS_ONE, i)

#define RESIDUAL_ONE(i, v)                                                                         \
    c##i##v = svadd_f32_x(all, c##i##v, svld1_vnum_f32(there##v, t->residual + i * t->to_pitch, v));
#define ADD_RESIDUAL(i)                                                                            \
    if (i < t->rows) {                                                                             \
        EACH_VECTOR(RESIDUAL_ONE, i)                                                               \
    }

#define STORE_ONE(i, v) svst1_vnum_f32(there##v, t->to + i * t->to_pitch, v, c##i##v);
#define STORE(i)                                                                                   \
    if (i < t->rows) {                                                                             \
        EACH_VECTOR(STORE_ONE, i)                                                                  \
    }

/* What follows the finished chains. */
#define FINISH                                                                                     \
    if (t->bias != NULL) {                                                                         \
        EACH_ROW(ADD_BIAS)                                                                         \
    }                                                                                              \
    if (t->residual != NULL) {                                                                     \
        EACH_ROW(ADD_RESIDUAL)                                                                     \
    }                                                                                              \
    EACH_ROW(STORE)

#endif
