/* SPDX-License-Identifier: MIT */
/* Planning in new memory, and a bench's arguments. */
#ifndef BP_TOOLS_BENCH_PLAN_H
#define BP_TOOLS_BENCH_PLAN_H

#include <stdlib.h>
#include <string.h>

#include "core/plan/planned.h"

/* The value of KEY=VALUE among the arguments. */
static inline const char *word(int argc, char **argv, const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=') {
            return argv[i] + length + 1;
        }
    }
    return otherwise;
}

static inline uint32_t number(int argc, char **argv, const char *key, const char *otherwise)
{
    return (uint32_t)strtoul(word(argc, argv, key, otherwise), NULL, 10);
}

/* Counts and plans a spec; *memory is the caller's to free, whatever the answer. */
static inline bool bench_plan(bp_plan *plan, const bp_spec *spec, void **memory)
{
    const uint64_t scratch = bp_plan_scratch(spec);
    *memory = malloc((size_t)scratch);
    if (*memory == NULL || bp_plan_count(plan, spec, *memory, scratch) != BP_OK) {
        return false;
    }
    free(*memory);
    *memory = malloc((size_t)plan->host_bytes);
    return *memory != NULL && bp_plan_make_counted(plan, *memory, plan->host_bytes) == BP_OK;
}

#endif
