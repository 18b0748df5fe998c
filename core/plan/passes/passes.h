/* SPDX-License-Identifier: MIT */
/* Passes: what the compiler makes of the programs that layers and update rules write.
 *
 * These know of no ranks, storage or averages: they acquire a parameter, write ops on its weight
 * where it lives, and release it. Both are markers among the ops (BP_OP_ACQUIRE, BP_OP_RELEASE).
 * Programs go through the first passes op by op, as they are written, so that a graph that only
 * counts has what they add as well, and no second graph is needed: a pass that is shown an
 * acquisition may write ops that bring the weight elsewhere, and operands of the ops behind it are
 * then there until it is released. No marker is left in a program. The last passes move ops of
 * whole programs. passes.c has them all, in their order. */
#ifndef BP_CORE_PASSES_H
#define BP_CORE_PASSES_H

#include "core/ops/kernel.h"
#include "core/plan/spec.h"

struct bp_builder;
struct bp_compile;
struct bp_graph;

/* What a parameter is acquired for. */
typedef enum bp_purpose { BP_FOR_FORWARD, BP_FOR_BACKWARD, BP_FOR_UPDATE, BP_PURPOSES } bp_purpose;

/* Rows of experts, of whose parameters only the experts that have some are read. */
typedef struct bp_routed {
    bp_ref runs; /* I32 (experts + 1): the first row of each expert and the end of the last one's */
    uint64_t experts;
    uint64_t tokens; /* that chose, */
    uint64_t top;    /* so many experts each */
} bp_routed;

/* What passes know of a parameter: a row with it. */
typedef struct bp_acquired {
    uint32_t held;   /* times that it is acquired and not yet released */
    uint32_t weight; /* where it was brought to while it is held; BP_NO_BUFFER: nowhere */
    uint32_t scales; /* of a quantised one, likewise */
    uint32_t nested;
    uint32_t gradient; /* where a stage adds to a gradient that is offloaded, or BP_NO_BUFFER */
    uint32_t leaf;     /* a virtual rank's complete gradient, until it has been sent to others */
    uint32_t pieces;   /* row of what each rank has of it in unequal shares */
    uint32_t updated;  /* 1 more than the newest program in which some of it has been */
    bp_ref root; /* its sum over all virtual ranks, F32; absent where there is one virtual rank */
    uint64_t root_first; /* the element of the parameter that it begins with */
} bp_acquired;

/* And of all: zeros when a graph is begun. */
typedef struct bp_passes {
    const struct bp_pass *order; /* those that see acquisitions come first; NULL: there are none */
    uint32_t held;               /* acquisitions that are not yet released */
    uint32_t acquired[BP_PURPOSES]; /* how many there were, of each kind */
    bp_ref control_before;   /* in a second backward: the control block before the decision, which
                                may have moved the loss scale; absent where there is none */
    const bp_routed *routed; /* of what is acquired now, these experts are read; NULL: all of it */
    struct bp_compile *flying;               /* buckets of gradients are sent meanwhile, or NULL */
    uint32_t offload_seen[BP_OFFLOAD_KINDS]; /* what might be offloaded, so far, of each kind, */
    uint32_t part_seen[BP_OFFLOAD_PARTS];    /* and of each size of the kind that has parts */
    uint64_t slice_bytes; /* of a slice of a matrix that is offloaded, about; 0: they come whole */
} bp_passes;

/* A pass is about acquisitions, or about programs. */
typedef struct bp_pass {
    const char *name;
    /* Parameter `index` has been acquired to be read. Writes what the ops behind the marker need.
     */
    void (*acquire)(struct bp_builder *builder, uint32_t index);
    /* A graph is written whole. Moves its ops; one that counts has none, and stays as it is. */
    void (*program)(struct bp_graph *graph, const bp_spec *spec);
} bp_pass;

#define BP_PASSES 6

/* All of them, in their order. */
extern const bp_pass bp_passes_order[BP_PASSES];

/* The marker BP_OP_ACQUIRE or BP_OP_RELEASE of parameter `index`, in the place where it stands in
 * the program: acquire of every pass, in their order. BP_ERR_INTERNAL in builder->status, with the
 * number of the op, the stage and the parameter, where it is released and not held. */
void bp_passes_marker(struct bp_builder *builder, bp_kernel marker, uint32_t index,
                      bp_purpose purpose);

/* The operands of an op that is about to be written: those of weights that were brought elsewhere
 * are there afterwards. BP_ERR_INTERNAL as above where the parameter is not held. */
void bp_passes_operands(struct bp_builder *builder, bp_kernel kernel, uint32_t count, bp_ref *refs);

/* program of every pass, in their order. */
void bp_passes_program(struct bp_graph *graph, const bp_spec *spec);

#endif
