/* SPDX-License-Identifier: MIT */
/* Ranks tell each other whether they have the memory that they need. */
#include "tools/bedplate/ranks/ranks_memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "arena/text.h"
#include "device/registry.h"
#include "tools/bedplate/ranks/ranks.h"

#define NAME_BYTES 32 /* of the memory's name in messages: "host memory" is the longest */

typedef struct memory_word {
    uint32_t lacks;
    uint32_t limit; /* bp_limit */
    int64_t found;
    int64_t wanted;
    uint64_t arena; /* --arena */
    char name[NAME_BYTES];
    char host[RANKS_HOST_MAX];
} memory_word;

static memory_word memory_word_of(const settings *set, bool lacks, const bp_error *why)
{
    memory_word word = {.lacks = lacks, .limit = BP_LIMIT_NONE, .arena = set->arena};
    if (lacks && why->code != BP_OK) {
        word.limit = (uint32_t)why->limit;
        word.found = why->found;
        word.wanted = why->wanted;
        snprintf(word.name, sizeof word.name, ", %.24s", why->name);
    }
    snprintf(word.host, sizeof word.host, "%s", set->ranks->host);
    return word;
}

/* Threads have the memory of one process; and the shares of ranks with one --arena may differ. */
static bool memory_is_one(const settings *set, const memory_word *all, const memory_word *lacks)
{
    bool one = lacks->arena > 0 && lacks->found == (int64_t)lacks->arena;
    for (uint32_t i = 0; i < ranks_size(set); i++) {
        one = one && all[i].arena == lacks->arena;
    }
    return one || set->ranks->process == NULL;
}

static bp_status memory_differs(const memory_word *word, uint32_t rank, bool one, bp_error *error)
{
    const bp_status status = one ? BP_ERR_FIT : BP_ERR_USAGE;
    const char *text = one ? "this rank has too little memory"
                           : "this rank has too little memory where others have enough";
    char name[BP_ERROR_NAME_MAX];
    snprintf(name, sizeof name, "rank %u%s%s%s", rank, word->host[0] != '\0' ? " on " : "",
             word->host, word->name);
    *error = (bp_error){.code = BP_OK};
    return word->found != 0 ? bp_error_limit(error, status, "ranks", text, name, word->found,
                                             (bp_limit)word->limit, word->wanted)
                            : bp_error_set(error, status, "ranks", text, name);
}

bp_status ranks_memory_alike(const settings *set, bp_status mine, const bp_error *why,
                             bp_error *error)
{
    const uint32_t size = ranks_size(set);
    bp_error lost = {.code = BP_OK};
    if (size == 1 || (mine != BP_OK && mine != BP_ERR_FIT)) {
        return mine;
    }
    const memory_word own = memory_word_of(set, mine == BP_ERR_FIT, why);
    memory_word *all = malloc(size * sizeof *all);
    if (all == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "ranks", "no memory for the words of all ranks", "");
    }
    bp_status status = ranks_gather(set, &own, sizeof own, all, &lost);
    uint32_t lacking = 0, first = size;
    for (uint32_t i = 0; status == BP_OK && i < size; i++) {
        lacking += all[i].lacks;
        first = first == size && all[i].lacks != 0 ? i : first;
    }
    if (status != BP_OK) {
        *error = lost;
    } else if (lacking > 0 && lacking < size) {
        status = memory_differs(&all[first], first, memory_is_one(set, all, &all[first]), error);
    } else {
        status = mine;
    }
    free(all);
    return status;
}

void ranks_memory_say(const settings *set, void (*say)(const void *user), const void *user)
{
    uint32_t all[RANKS_MOST];
    const uint32_t nothing = 0;
    bp_error error = {.code = BP_OK};
    if (ranks_leads(set)) {
        say(user);
    }
    /* Whoever is lost meanwhile: the run ends here anyway. */
    const bp_status status = ranks_gather(set, &nothing, sizeof nothing, all, &error);
    (void)status;
}

bp_status ranks_memory_gpu(const settings *set, const bp_spec *spec, uint64_t bytes,
                           bp_error *error)
{
    const uint64_t found =
        ranks_size(set) == 1 ? 0 : bp_device_find(spec->device, &spec->device_options).memory_bytes;
    if (found == 0 || found >= bytes) {
        return BP_OK;
    }
    return bp_error_limit(error, BP_ERR_FIT, "memory", "the GPU has less memory than the plan",
                          "GPU", (int64_t)found, BP_LIMIT_LEAST, (int64_t)bytes);
}
