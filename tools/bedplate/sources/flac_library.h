/* SPDX-License-Identifier: MIT */
/* FLAC by libFLAC, which is loaded when the first such file comes: the program itself does not need
 * it. Debian's archive would add 156 KB to it, needs libogg, and does not link with musl. What
 * libFLAC allocates, at most some 3 MB, is its own. */
#ifndef BP_BEDPLATE_FLAC_LIBRARY_H
#define BP_BEDPLATE_FLAC_LIBRARY_H

#include "tools/formats/audio/flac.h"

/* libFLAC's entry points. */
typedef struct flac_entries {
    void *(*make)(void);
    void (*drop)(void *);
    int (*check_md5)(void *, int);
    int (*begin)(void *, int (*read)(const void *, unsigned char *, size_t *, void *), void *seek,
                 int (*tell)(const void *, uint64_t *, void *), void *length, void *eof,
                 int (*write)(const void *, const void *, const int32_t *const *, void *),
                 void *metadata, void (*error)(const void *, int, void *), void *user);
    int (*run)(void *);
    int (*finish)(void *);
    int (*place)(const void *, uint64_t *);
    int (*state)(const void *);
} flac_entries;

typedef struct flac_library {
    bp_flac_library table; /* what formats is given */
    void *handle;          /* NULL: not loaded yet */
    flac_entries entries;
    bp_flac_pass *pass; /* on its way */
} flac_library;

void flac_library_begin(flac_library *library);
void flac_library_end(flac_library *library);

#endif
