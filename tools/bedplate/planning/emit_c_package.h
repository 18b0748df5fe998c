/* SPDX-License-Identifier: MIT */
/* plan --emit-c DIR --as FORM: the files that an ecosystem wants around a trainer. */
#ifndef BP_BEDPLATE_EMIT_C_PACKAGE_H
#define BP_BEDPLATE_EMIT_C_PACKAGE_H

#include <stdbool.h>

typedef struct emit_c_package_file {
    const char *name; /* in DIR; NULL: the end */
    const char *text; /* @VERSION@ and @FROZEN@ (what stands between two of them goes where there
                         are frozen weights alone) are filled in */
} emit_c_package_file;

typedef struct emit_c_package {
    const char *form;
    const char *folders[4]; /* made before, outer ones first; NULL: the end */
    const emit_c_package_file *files;
} emit_c_package;

/* NULL: the form is plain, whose files lie in DIR itself (emit_c_text.h). */
const emit_c_package *emit_c_package_of(const char *form);

#endif
