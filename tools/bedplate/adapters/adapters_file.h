/* SPDX-License-Identifier: MIT */
/* The file of --adapters: an object for each adapter, as JSON lines or in one list.
 *
 *     {"name": "french", "data": "fr.txt", "lora_r": 8, "learning_rate": 2e-4, "max_steps": 500}
 *
 * Members are options under their names on the command line, which gives those that an object does
 * not have. What all adapters have alike, the base above all, is an option of the command line. */
#ifndef BP_BEDPLATE_ADAPTERS_FILE_H
#define BP_BEDPLATE_ADAPTERS_FILE_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "tools/bedplate/app/settings.h"

#define ADAPTERS_MAX      256
#define ADAPTERS_NAME_MAX 63

typedef struct adapter_entry {
    char name[ADAPTERS_NAME_MAX + 1];
    char where[600];                   /* "FILE:LINE" */
    char directory[BP_STORE_PATH_MAX]; /* OUTPUT/NAME, where the object names none */
    settings set;                      /* of its run, as if it were alone */
} adapter_entry;

typedef struct adapters_file {
    uint32_t count;
    adapter_entry *entries[ADAPTERS_MAX];
    char *values; /* texts that settings refer to */
} adapters_file;

/* Reads base->adapters and resolves each one's options (session/resolve.h). Prints what is wrong
 * with its line: BP_ERR_USAGE for an option, a name or a directory, BP_ERR_DATA for what is no
 * JSON. On zeros; adapters_file_close follows in any case. */
bp_status adapters_file_read(adapters_file *file, const settings *base) BP_MUST_CHECK;

void adapters_file_close(adapters_file *file);

#endif
