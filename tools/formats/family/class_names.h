/* SPDX-License-Identifier: MIT */
/* The names of a classifier's classes, as id2label of config.json has them. */
#ifndef BP_FORMATS_CLASS_NAMES_H
#define BP_FORMATS_CLASS_NAMES_H

#include "core/base/error.h"
#include "core/base/store.h"

#define BP_CLASS_NAMES_MAX     1024
#define BP_CLASS_NAMES_TEXT    8192 /* bytes of all names, each with its terminator */
#define BP_CLASS_NAMES_SCRATCH 32768

/* A plain record: name i is the text from start[i]. */
typedef struct bp_class_names {
    uint32_t count; /* 0: none */
    uint32_t used;
    uint32_t start[BP_CLASS_NAMES_MAX];
    char text[BP_CLASS_NAMES_TEXT];
} bp_class_names;

/* Reads the names of the classes 0 ... n - 1 from a config.json that bp_hf_config_read accepts.
 * There are none (count 0, BP_OK) where id2label is absent, holds something else than one text for
 * each of these numbers in their order, or is too long to keep: classes then have only numbers.
 * BP_ERR_DATA, BP_ERR_STORE as bp_hf_config_read. scratch: BP_CLASS_NAMES_SCRATCH bytes aligned
 * to 8. */
bp_status bp_class_names_read(bp_store *store, const char *path, void *scratch,
                              bp_class_names *names, bp_error *error) BP_MUST_CHECK;

/* The class whose name these bytes are; false: none, or `names` is NULL. */
bool bp_class_names_find(const bp_class_names *names, const char *text, size_t length,
                         uint32_t *class_number);

#endif
