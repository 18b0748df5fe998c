/* SPDX-License-Identifier: MIT */
/* A store that writes nothing and compares what is written with the files that are there. */
#ifndef BP_BEDPLATE_STORE_COMPARE_H
#define BP_BEDPLATE_STORE_COMPARE_H

#include "core/base/store.h"

enum { STORE_COMPARE_FILES = 16, STORE_COMPARE_NAME = 64 };

typedef struct store_compared {
    char name[STORE_COMPARE_NAME]; /* without its directory */
    bool there;                    /* there is such a file; else nothing was compared */
    bool equal;
} store_compared;

/* Must not move while `store` is used. */
typedef struct store_compare {
    bp_store store;
    bp_store *medium; /* what is read by others */
    bp_store *files;  /* where the files lie */
    bp_file file;     /* the one that is compared */
    uint64_t end;     /* bytes that were written to it */
    uint32_t count;
    store_compared list[STORE_COMPARE_FILES];
} store_compare;

/* Files that are written one after the other, each beside its name and then renamed
 * (tools/formats/files/stream_file.h), come into `list`. More than its room are passed over. */
void store_compare_begin(store_compare *c, bp_store *medium, bp_store *files);

#endif
