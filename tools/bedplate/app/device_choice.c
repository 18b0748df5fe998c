/* SPDX-License-Identifier: MIT */
/* The device that was asked for: the host, or a GPU that can be used. */
#include "tools/bedplate/app/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "device/cuda/cuda.h"
#include "device/cuda/query.h"
#include "device/host/cpu.h"
#include "device/host/host.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/ranks/ranks.h"

static const char where[] = "device";

static void choose_host(const settings *set, bp_spec *spec)
{
    bool automatic = strcmp(set->kernels, "auto") == 0;
    uint32_t threads = set->threads > 0 ? (uint32_t)set->threads : bp_cpu_count();
    threads = threads > BP_THREADS_MAX ? BP_THREADS_MAX : threads;
    spec->device = &bp_device_host;
    spec->device_options =
        (bp_device_options){.threads = threads, .variant = automatic ? NULL : set->kernels};
    if (set->emit_c != NULL) { /* what is made of the plan has one thread and this form */
        spec->device_options = (bp_device_options){.threads = 1, .variant = "portable"};
    }
}

static void choose_cuda(bp_spec *spec, uint32_t ordinal, const char *target)
{
    spec->device = &bp_device_cuda;
    spec->device_options = (bp_device_options){.threads = 1, .ordinal = ordinal, .target = target};
}

/* Whether products may be rounded is the user's word, and only a GPU's tensor cores take it. */
static bp_status choose_products(const settings *set, bp_spec *spec, bp_error *error)
{
    if (set->tf32 && spec->device != &bp_device_cuda) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "the host computes fp32 in full; TF32 is for a GPU's tensor cores: "
                            "expected --device cuda, or no --tf32",
                            "--tf32");
    }
    const bool cuda = spec->device == &bp_device_cuda;
    const char *target = cuda ? spec->device_options.target : "the host";
    const bool codes = set->product_dtype != NULL && strcmp(set->product_dtype, "fp8") == 0;
    if (codes && strcmp(target, "sm_90a") != 0) {
        char found[64];
        (void)snprintf(found, sizeof found, "--product-dtype fp8 on %s%s", cuda ? "cuda:" : "",
                       target);
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "products in fp8 are made by a Hopper's tensor cores alone (right "
                            "would be --device cuda:sm_90a, or no --product-dtype)",
                            found);
    }
    spec->device_options.tf32 = set->tf32;
    spec->device_options.alignment = (uint32_t)strtoul(set->alignment, NULL, 10);
    return BP_OK;
}

/* A GPU of this machine, by number. */
static bp_status choose_gpu(bp_spec *spec, uint32_t ordinal, bp_error *error)
{
    uint32_t count = 0;
    int driver = 0;
    bp_cuda_gpu gpu;
    BP_TRY(bp_cuda_query_count(&count, &driver, error));
    if (ordinal >= count) {
        return bp_error_limit(error, BP_ERR_DEVICE, where,
                              "this machine has no GPU of that number; they count from 0",
                              "--device", ordinal, BP_LIMIT_MOST, (int64_t)count - 1);
    }
    BP_TRY(bp_cuda_query(ordinal, &gpu, error));
    if (gpu.target == NULL) {
        return bp_error_set(error, BP_ERR_DEVICE, where, gpu.reason, gpu.name);
    }
    choose_cuda(spec, ordinal, gpu.target);
    return BP_OK;
}

/* The GPU of this rank: where a launcher shows every rank one of its own, that one. Two ranks that
 * came to the same are refused when all have told theirs. */
static uint32_t device_of_rank(const settings *set)
{
    uint32_t count = 0;
    int driver = 0;
    bp_error unused = {.code = BP_OK};
    const uint32_t local = set->ranks != NULL ? set->ranks->local : 0;
    const bool known = bp_cuda_query_count(&count, &driver, &unused) == BP_OK;
    return known ? local % count : local;
}

/* A plan needs no GPU: without a driver it is made for a target that is named. */
static bp_status plan_gpu(const settings *set, bp_spec *spec, bp_error *error)
{
    uint32_t count = 0;
    int driver = 0;
    bp_error none = {.code = BP_OK};
    if (bp_cuda_query_count(&count, &driver, &none) == BP_OK && count > 0) {
        return choose_gpu(spec, device_of_rank(set), error);
    }
    output_print(stderr, "bedplate: --device: no driver: planned for sm_90a (H100); --device "
                         "cuda:sm_80 plans for an A100\n");
    choose_cuda(spec, 0, "sm_90a");
    return BP_OK;
}

/* The word behind "cuda:": a target or a number. */
static bp_status choose_named(const settings *set, bp_spec *spec, const char *word, bp_error *error)
{
    static const char *const targets[] = {"sm_80", "sm_90a"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (strcmp(word, targets[i]) == 0) {
            choose_cuda(spec, set->ranks != NULL ? device_of_rank(set) : 0, targets[i]);
            return BP_OK;
        }
    }
    size_t digits = strspn(word, "0123456789");
    if (digits == 0 || digits > 3 || word[digits] != '\0') {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "no such device: expected auto, host, cuda, cuda:NUMBER, "
                            "cuda:sm_80 or cuda:sm_90a",
                            "--device");
    }
    return choose_gpu(spec, (uint32_t)strtoul(word, NULL, 10), error);
}

static bp_status choose_device(const settings *set, bp_spec *spec, bp_error *error)
{
    const char *word = set->device;
    if (strcmp(word, "host") == 0) {
        choose_host(set, spec);
        return BP_OK;
    }
    if (strcmp(word, "auto") == 0) {
        bp_error unused = {0};
        if (choose_gpu(spec, device_of_rank(set), &unused) != BP_OK) {
            choose_host(set, spec);
        }
        return BP_OK;
    }
    if (strcmp(word, "cuda") == 0) {
        return set->command == COMMAND_PLAN ? plan_gpu(set, spec, error)
                                            : choose_gpu(spec, device_of_rank(set), error);
    }
    bool named = strncmp(word, "cuda:", 5) == 0;
    return choose_named(set, spec, named ? word + 5 : "", error);
}

bp_status device_choose(const settings *set, bp_spec *spec, bp_error *error)
{
    BP_TRY(choose_device(set, spec, error));
    return choose_products(set, spec, error);
}

uint64_t device_identity(const bp_spec *spec)
{
    bp_cuda_gpu gpu;
    bp_error unused = {.code = BP_OK};
    const bool known = spec->device == &bp_device_cuda &&
                       bp_cuda_query(spec->device_options.ordinal, &gpu, &unused) == BP_OK;
    return known ? bp_digest_of(gpu.uuid, sizeof gpu.uuid, 1) : 0;
}

bool device_takes_memory(const bp_spec *spec)
{
    return spec->device == &bp_device_host;
}
