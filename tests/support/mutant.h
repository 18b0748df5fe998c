/* SPDX-License-Identifier: MIT */
/* Faults planted into a graph, one at a time. */
#ifndef BP_TESTS_SUPPORT_MUTANT_H
#define BP_TESTS_SUPPORT_MUTANT_H

#include "core/program/program.h"

typedef enum mutant_way {
    MUTANT_DROP,    /* an op is left out */
    MUTANT_DOUBLE,  /* an op comes twice */
    MUTANT_SWAP,    /* an op and the next one change places */
    MUTANT_ELEMENT, /* a ref moves by an element, up or down */
    MUTANT_ROW,     /* a ref moves by a row of its operand or buffer */
    MUTANT_BUFFER,  /* a ref names the buffer before or behind its own */
    MUTANT_EXTENT,  /* an operand reaches one element further than its buffer */
    MUTANT_SCALAR,  /* a shape grows or shrinks by one */
    MUTANT_WAYS
} mutant_way;

typedef struct mutant {
    mutant_way way;
    uint32_t program;
    uint32_t op;    /* index into the graph's ops */
    uint32_t which; /* ref or scalar: index into the graph's refs or scalars */
    int32_t by;     /* 1 or -1 */
} mutant;

const char *mutant_way_name(mutant_way way);

/* Every mutant of a graph, in the order of its ops; the caller frees the array. */
mutant *mutant_list(const bp_graph *graph, uint32_t *count);

/* A copy of a graph's tables with room for one more op; names stay the original's. The caller
 * frees it with mutant_free. */
void mutant_copy(const bp_graph *original, bp_graph *copy, bp_error *error);
void mutant_free(bp_graph *copy);

/* Makes `copy` the original with one fault. */
void mutant_plant(const bp_graph *original, const mutant *m, bp_graph *copy);

/* "step: op 12 matmul: ref a by -1 row", for people; `to` of `bytes`. */
void mutant_describe(const bp_graph *original, const mutant *m, char *to, size_t bytes);

#endif
