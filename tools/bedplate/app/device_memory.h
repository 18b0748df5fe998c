/* SPDX-License-Identifier: MIT */
/* What a run takes of a GPU outside its arena: the driver's context, modules and graphs, as its
 * driver counts free bytes; and what the driver's compiler said. */
#ifndef BP_BEDPLATE_DEVICE_MEMORY_H
#define BP_BEDPLATE_DEVICE_MEMORY_H

#include "core/run/runtime.h"
#include "device/registry.h"
#include "tools/bedplate/app/output.h"

/* After this many steps of a run nothing may change any more. */
#define DEVICE_MEMORY_STEPS 3

typedef struct device_memory {
    bool known;            /* the runtime runs on a GPU that answered */
    uint64_t steps;        /* counted so far */
    uint64_t free_stepped; /* free bytes after step DEVICE_MEMORY_STEPS; 0: not so many steps */
    bp_device_memory at;
} device_memory;

/* A step was made; the one after which free bytes are noted asks the driver. Starts from zeros. */
void device_memory_step(device_memory *memory, const bp_runtime *runtime);

/* Asks for everything else, after the last step: the management library allocates. */
void device_memory_read(device_memory *memory, bp_runtime *runtime);

/* Members of a JSON object; lines of text. Nothing for other devices. */
void device_memory_json(output *out, const device_memory *memory, uint64_t arena_bytes);
void device_memory_text(bp_text *text, const device_memory *memory, uint64_t arena_bytes);

/* Prints the log of a compiler that refused a kernel, all of it, to stderr; with json one line
 * with the member "jit_log" to stdout as well. Nothing where there is none. */
void device_log_show(const bp_runtime *runtime, bool json);

#endif
