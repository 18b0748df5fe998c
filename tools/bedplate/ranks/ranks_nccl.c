/* SPDX-License-Identifier: MIT */
/* --fabric nccl: the ranks of a launcher, or threads of this process, whose GPUs NCCL joins. */
#include "tools/bedplate/ranks/ranks_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/registry.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "nccl";

static bool nccl_asked(const settings *set)
{
    return strcmp(set->fabric, "nccl") == 0 || strncmp(set->fabric, "nccl:", 5) == 0;
}

/* Under a launcher its processes, else threads: of one rank, unless their number is given. */
static int nccl_run(const settings *set, const char *words, ranks_body body)
{
    return words == NULL && ranks_mpi.found() ? ranks_mpi.run(set, NULL, body)
                                              : ranks_threads.run(set, words ? words : "1", body);
}

const ranks_engine ranks_nccl = {"nccl", NULL, nccl_run};

/* What one rank has. */
typedef struct nccl_facts {
    int32_t version; /* 0: none that can be used */
    uint32_t reserved;
} nccl_facts;

/* Whether all ranks have one version; `error`: which has not, and BP_OK where this one's own error
 * is there already. */
static bp_status nccl_alike(const settings *set, int version, bp_error *error)
{
    const nccl_facts mine = {.version = version};
    bp_error found = {.code = BP_OK};
    nccl_facts *theirs = malloc(ranks_size(set) * sizeof *theirs);
    if (theirs == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the facts of all ranks", "");
    }
    bp_status status = ranks_gather(set, &mine, sizeof mine, theirs, &found);
    for (uint32_t i = 0; i < ranks_size(set) && status == BP_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "rank %u", i);
        if (theirs[i].version != theirs[0].version || theirs[i].version == 0) {
            status = bp_error_numbers(&found, BP_ERR_DEVICE, where,
                                      "the ranks have no NCCL, or not the same", name,
                                      theirs[i].version, theirs[0].version);
        }
    }
    free(theirs);
    if (status != BP_OK && error->code == BP_OK) {
        *error = found;
    }
    return status;
}

static bp_status nccl_wrap(ranks_gpus *gpus, const settings *set, bp_regions *places,
                           bp_error *error)
{
    const bp_fabric_options options = {.patience_ms = set->step_limit * 1000};
    gpus->context = malloc(bp_fabric_nccl.context_bytes);
    if (gpus->context == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the fabric", "");
    }
    bp_nccl_wrap(gpus->context, &gpus->library, set->ranks->fabric, set->ranks->context, &options,
                 strcmp(set->shard, "none") == 0);
    places->fabric = &bp_fabric_nccl;
    places->rank = gpus->context;
    return BP_OK;
}

bp_status ranks_gpus_join(ranks_gpus *gpus, const settings *set, const bp_spec *spec,
                          bp_regions *places, bp_error *error)
{
    const bool asked = nccl_asked(set);
    const bool gpu = bp_device_entry_of(spec->device)->nccl;
    gpus->context = NULL;
    if (set->ranks == NULL) {
        return BP_OK;
    }
    places->fabric = set->ranks->fabric;
    places->rank = set->ranks->context;
    if (asked && (!gpu || set->fabric_check)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            gpu ? "what NCCL moves between GPUs cannot be checked: expected "
                                  "no --fabric-check"
                                : "NCCL joins GPUs: expected --device cuda",
                            "--fabric nccl");
    }
    if (!asked && (!gpu || set->fabric_check || set->ranks->process == NULL ||
                   strcmp(set->fabric, "auto") != 0)) {
        return BP_OK;
    }
    bp_error found = {.code = BP_OK};
    bp_status own = bp_nccl_library_load(&gpus->library, &found);
    bp_status status = nccl_alike(set, own == BP_OK ? gpus->library.version : 0, &found);
    if (status == BP_OK) {
        status = nccl_wrap(gpus, set, places, error);
        if (status == BP_OK && !set->quiet && !set->json) {
            output_print(stderr, "the GPUs of %u ranks are joined by NCCL %d.%d.%d\n",
                         ranks_size(set), gpus->library.version / 10000,
                         gpus->library.version / 100 % 100, gpus->library.version % 100);
        }
        return status;
    }
    if (!asked && status == BP_ERR_DEVICE) {
        if (!set->quiet && !set->json) {
            output_print(stderr, "the GPUs exchange through the host's memory: %s (%s)\n",
                         found.text, found.name);
        }
        return BP_OK;
    }
    *error = error->code == BP_OK ? found : *error;
    return status;
}

void ranks_gpus_end(ranks_gpus *gpus)
{
    free(gpus->context);
    gpus->context = NULL;
}
