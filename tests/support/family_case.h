/* SPDX-License-Identifier: MIT */
/* Cases of tools/golden/families.py and quantised.py: a small model with its data, as a spec and a
 * feed. */
#ifndef BP_TESTS_SUPPORT_FAMILY_CASE_H
#define BP_TESTS_SUPPORT_FAMILY_CASE_H

#include "tests/support/reference.h"

typedef struct family_case {
    golden file;
    bp_spec spec;
    int32_t *tokens;
    int32_t *labels;   /* NULL: a stream */
    int32_t *lengths;  /* NULL: a stream */
    int32_t *seconds;  /* NULL: no pairs of texts */
    uint32_t *trained; /* tokens whose rows are trained; NULL: no file of rows.py */
    uint32_t token_count;
    uint32_t samples;
} family_case;

/* Reads tests/golden/NAME.safetensors; the spec may be changed until the rig is opened. */
void family_open(family_case *ref, const char *name);
void family_close(family_case *ref);

/* A rig over the case's own tokens, labels and lengths; its weights are random ones. */
void family_rig(family_case *ref, rig *r);

#endif
