/* SPDX-License-Identifier: MIT */
/* Macros that write lane kernels: a loop of 32 around one expression. */
#ifndef PTXVM_LANES_H
#define PTXVM_LANES_H

#include "tools/ptxvm/text/program.h"

#define L VM_LANES
#define HEAD(name)                                                                                 \
    static void name(void *restrict dv, const void *av, const void *bv, const void *cv,            \
                     unsigned how)
#define UNUSED3()                                                                                  \
    do {                                                                                           \
        (void)bv;                                                                                  \
        (void)cv;                                                                                  \
        (void)how;                                                                                 \
    } while (0)

/* A kernel of operands x, y, z of type A with result type D. */
#define OP(name, D, A, expression)                                                                 \
    HEAD(name)                                                                                     \
    {                                                                                              \
        D *restrict d = dv;                                                                        \
        const A *a = av, *b = bv, *c = cv;                                                         \
        (void)how, (void)c;                                                                        \
        for (int i = 0; i < L; i++) {                                                              \
            const A x = a[i], y = b[i];                                                            \
            (void)y;                                                                               \
            d[i] = (D)(expression);                                                                \
        }                                                                                          \
    }
#define OP1(name, D, A, expression)                                                                \
    HEAD(name)                                                                                     \
    {                                                                                              \
        D *restrict d = dv;                                                                        \
        const A *a = av;                                                                           \
        UNUSED3();                                                                                 \
        for (int i = 0; i < L; i++) {                                                              \
            const A x = a[i];                                                                      \
            d[i] = (D)(expression);                                                                \
        }                                                                                          \
    }
#define OP3(name, D, A, C, expression)                                                             \
    HEAD(name)                                                                                     \
    {                                                                                              \
        D *restrict d = dv;                                                                        \
        const A *a = av, *b = bv;                                                                  \
        const C *c = cv;                                                                           \
        (void)how;                                                                                 \
        for (int i = 0; i < L; i++) {                                                              \
            const A x = a[i], y = b[i];                                                            \
            const C z = c[i];                                                                      \
            d[i] = (D)(expression);                                                                \
        }                                                                                          \
    }

#endif
