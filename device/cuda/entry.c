/* SPDX-License-Identifier: MIT */
/* GPUs as devices to choose from, and how they are listed. */
#include <string.h>

#include "core/base/digest.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch.h"
#include "device/cuda/query.h"
#include "device/cuda/target.h"
#include "device/registry.h"

static const char where[] = "device";

static void options_fill(bp_device_options *options, uint32_t ordinal, const char *target)
{
    *options = (bp_device_options){.threads = 1, .ordinal = ordinal, .target = target};
}

/* A GPU of this machine, by number. */
static bp_status options_of_gpu(bp_device_options *options, uint32_t ordinal, bp_error *error)
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
    options_fill(options, ordinal, gpu.target);
    return BP_OK;
}

static uint32_t count_gpus(void)
{
    uint32_t count = 0;
    int driver = 0;
    bp_error unused = {.code = BP_OK};
    return bp_cuda_query_count(&count, &driver, &unused) == BP_OK ? count : 0;
}

/* The GPU of this rank: where a launcher shows every rank one of its own, that one. Two ranks that
 * came to the same are refused when all have told theirs. */
static uint32_t own_gpu(const bp_device_request *request)
{
    const uint32_t count = request->local > 0 ? count_gpus() : 0;
    return count > 0 ? request->local % count : request->local;
}

/* A plan needs no GPU: without a driver it is made for a target that is named. */
static bp_status cuda_options(bp_device_request *request, bp_device_options *options,
                              bp_error *error)
{
    const char *word = request->which;
    if (word[0] == '\0' && request->planned && count_gpus() == 0) {
        request->note = "no driver: planned for sm_90a (H100); --device cuda:sm_80 plans for an "
                        "A100";
        options_fill(options, 0, "sm_90a");
        return BP_OK;
    }
    if (word[0] == '\0') {
        return options_of_gpu(options, own_gpu(request), error);
    }
    const bp_cuda_target_row *row = bp_cuda_target_find(word);
    if (row != NULL) {
        options_fill(options, own_gpu(request), row->name);
        return BP_OK;
    }
    uint32_t gpu = 0;
    size_t digits = 0;
    for (; digits < 3 && word[digits] >= '0' && word[digits] <= '9'; digits++) {
        gpu = 10 * gpu + (uint32_t)(word[digits] - '0');
    }
    if (digits == 0 || word[digits] != '\0') {
        return BP_ERR_USAGE;
    }
    return options_of_gpu(options, gpu, error);
}

static bp_status cuda_probe(const bp_device_options *options, bp_device_found *found,
                            bp_error *error)
{
    bp_cuda_gpu gpu;
    BP_TRY(bp_cuda_query(options->ordinal, &gpu, error));
    found->identity = bp_digest_of(gpu.uuid, sizeof gpu.uuid, 1);
    found->memory_bytes = gpu.memory_bytes;
    return BP_OK;
}

static bool cuda_fp8(const bp_device_options *options)
{
    return options->target != NULL && strcmp(options->target, "sm_90a") == 0;
}

static void cuda_describe(const bp_device_options *options, bp_device_facts *facts)
{
    const char *target = options->target != NULL ? options->target : "sm_80";
    bp_fact_text(facts, "target", target);
    bp_fact_text(facts, "ptx", bp_cuda_query_texts(target));
    bp_text_string(facts->line, "cuda ");
    bp_text_string(facts->line, target);
    bp_text_string(facts->line, " with the PTX of ");
    bp_text_string(facts->line, bp_cuda_query_texts(target));
}

static const char *cuda_misses(const bp_device_options *options, const bp_linked_op *op)
{
    return bp_cuda_query_misses(options->target, op);
}

/* 12020 -> "12.2", 90 -> "9.0" with its own divisors. */
static void put_version(bp_text *text, uint32_t major, uint32_t minor)
{
    bp_text_u64(text, major);
    bp_text_char(text, '.');
    bp_text_u64(text, minor);
}

static void list_gpu(bp_device_facts *facts, const bp_cuda_gpu *gpu, const bp_cuda_probe *probe,
                     const char *reason)
{
    bp_fact_text(facts, "name", gpu->name);
    bp_fact_count(facts, "memory_bytes", gpu->memory_bytes);
    bp_fact_count(facts, "compute_capability", gpu->capability);
    bp_fact_count(facts, "driver", (uint64_t)gpu->driver);
    bp_fact_flag(facts, "usable", reason == NULL);
    if (reason == NULL) {
        bp_fact_text(facts, "target", gpu->target);
        bp_fact_text(facts, "ptx", bp_cuda_query_texts(gpu->target));
        bp_fact_count(facts, "free_bytes", probe->free_bytes);
        bp_fact_real(facts, "cold_jit_seconds", probe->jit_seconds);
    }
    bp_fact_text(facts, "reason", reason);
    bp_fact_text(facts, "jit_log", probe->log[0] != '\0' ? probe->log : NULL);
}

static void line_gpu(bp_text *text, const bp_cuda_gpu *gpu, const bp_cuda_probe *probe,
                     const char *reason)
{
    uint32_t driver = (uint32_t)gpu->driver;
    bp_text_string(text, gpu->name);
    bp_text_string(text, ", ");
    bp_text_bytes_human(text, gpu->memory_bytes);
    bp_text_string(text, ", compute capability ");
    put_version(text, gpu->capability / 10, gpu->capability % 10);
    bp_text_string(text, ", driver ");
    put_version(text, driver / 1000, driver % 1000 / 10);
    if (reason != NULL) {
        bp_text_string(text, "; not usable: ");
        bp_text_string(text, reason);
    } else {
        bp_text_string(text, ", PTX target ");
        bp_text_string(text, gpu->target);
        bp_text_string(text, " with the PTX of ");
        bp_text_string(text, bp_cuda_query_texts(gpu->target));
        bp_text_string(text, ", ");
        bp_text_bytes_human(text, probe->free_bytes);
        bp_text_string(text, " free, cold JIT ");
        bp_text_fixed(text, probe->jit_seconds, 2);
        bp_text_string(text, " s");
    }
    bp_text_char(text, '\n');
    if (probe->log[0] != '\0') {
        bp_text_string(text, probe->log);
        bp_text_char(text, '\n');
    }
}

#define REASON_BYTES 200

/* "...: found 5, expected at least 6", or NULL when the arena that was asked for fits. */
static const char *list_no_room(const bp_cuda_probe *probe, uint64_t arena,
                                char words[REASON_BYTES])
{
    bp_text text;
    if (probe->free_bytes >= arena) {
        return NULL;
    }
    bp_text_init(&text, NULL, NULL, words, REASON_BYTES);
    bp_text_string(&text, BP_CUDA_NO_ROOM ": found ");
    bp_text_u64(&text, probe->free_bytes);
    bp_text_string(&text, ", expected at least ");
    bp_text_u64(&text, arena);
    bp_status fits = bp_text_flush(&text); /* 150 characters at most */
    (void)fits;
    return words;
}

static void list_none(bp_device_facts *facts, const char *reason)
{
    bp_fact_flag(facts, "usable", false);
    bp_fact_text(facts, "reason", reason);
    bp_text_string(facts->line, "cuda    not usable: ");
    bp_text_string(facts->line, reason);
    bp_text_char(facts->line, '\n');
}

static bool cuda_list(uint32_t index, uint64_t arena_bytes, bp_device_facts *facts)
{
    char words[REASON_BYTES];
    bp_error error = {.code = BP_OK};
    bp_cuda_gpu gpu;
    bp_cuda_probe probe = {.modules = 0};
    uint32_t count = 0;
    int driver = 0;
    const bool known = bp_cuda_query_count(&count, &driver, &error) == BP_OK;
    if (!known && index == 0) {
        list_none(facts, error.text);
    }
    if (index >= count) {
        return !known && index == 0;
    }
    const bp_status status = bp_cuda_query(index, &gpu, &error);
    const char *reason = status != BP_OK ? error.text : gpu.reason;
    if (reason == NULL && bp_cuda_query_probe(index, gpu.target, &probe, &error) != BP_OK) {
        reason = error.text;
    }
    reason = reason == NULL ? list_no_room(&probe, arena_bytes, words) : reason;
    bp_fact_count(facts, "ordinal", index);
    list_gpu(facts, &gpu, &probe, reason);
    bp_text_string(facts->line, "cuda:");
    bp_text_u64(facts->line, index);
    bp_text_string(facts->line, "  ");
    line_gpu(facts->line, &gpu, &probe, reason);
    return true;
}

/* All modules; nowhere when they do not lie one behind the other. */
static void cuda_unread(uintptr_t *begin, uintptr_t *end)
{
    uint64_t bytes = 0;
    *begin = UINTPTR_MAX;
    *end = 0;
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        const uintptr_t first = (uintptr_t)bp_cuda_modules[i].begin;
        const uintptr_t last = (uintptr_t)bp_cuda_modules[i].end;
        *begin = first < *begin ? first : *begin;
        *end = last > *end ? last : *end;
        bytes += last - first;
    }
    if (*begin > *end || *end - *begin >= bytes + 65536) {
        *begin = *end = 0;
    }
}

BP_DEVICE_ENTRY(cuda) = {
    .device = &bp_device_cuda,
    .choices = "cuda[:N]|cuda:sm_80|cuda:sm_90a",
    .automatic = true,
    .tf32 = true,
    .nccl = true,
    .common = "sm_80",
    .unit = {"DevicePolicy=closed\nDeviceAllow=char-nvidia-frontend rw\n"
             "DeviceAllow=char-nvidia-uvm rw\nDeviceAllow=char-nvidia rw\n",
             "#SBATCH --gpus=1\n", ", nvidia.com/gpu: 1"},
    .image = "-cuda",
    .options = cuda_options,
    .probe = cuda_probe,
    .fp8 = cuda_fp8,
    .describe = cuda_describe,
    .misses = cuda_misses,
    .list = cuda_list,
    .memory = bp_cuda_memory_read,
    .log = bp_cuda_log,
    .unread = cuda_unread,
};
