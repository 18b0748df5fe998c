/* SPDX-License-Identifier: MIT */
/* bedplate devices: what this machine can execute programs on, and why a GPU cannot be used. */
#include "device/cuda/cuda.h"
#include "device/cuda/query.h"
#include "device/host/cpu.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"

#define REASON_BYTES 200

static void put_host(output *out, bool json)
{
    const char *best = bp_cpu_has_avx512()     ? "avx512"
                       : bp_cpu_has_avx2()     ? "avx2"
                       : bp_cpu_has_wide_sve() ? "sve"
                       : bp_cpu_has_neon()     ? "neon"
                                               : "portable";
    if (json) {
        json_begin(out);
        json_text(out, "device", "host");
        json_text(out, "kernels", best);
        json_count(out, "threads", bp_cpu_count());
        json_end(out);
        return;
    }
    bp_text_string(&out->text, "host    ");
    bp_text_u64(&out->text, bp_cpu_count());
    bp_text_string(&out->text, " processors, ");
    bp_text_string(&out->text, best);
    bp_text_string(&out->text, " kernels\n");
}

static void put_no_gpu(output *out, bool json, const bp_error *error)
{
    if (json) {
        json_begin(out);
        json_text(out, "device", "cuda");
        json_flag(out, "usable", false);
        json_text(out, "reason", error->text);
        json_end(out);
        return;
    }
    bp_text_string(&out->text, "cuda    not usable: ");
    bp_text_string(&out->text, error->text);
    bp_text_char(&out->text, '\n');
}

static void json_gpu(output *out, uint32_t ordinal, const bp_cuda_gpu *gpu,
                     const bp_cuda_probe *probe, const char *reason)
{
    json_begin(out);
    json_text(out, "device", "cuda");
    json_count(out, "ordinal", ordinal);
    json_text(out, "name", gpu->name);
    json_count(out, "memory_bytes", gpu->memory_bytes);
    json_count(out, "compute_capability", gpu->capability);
    json_count(out, "driver", (uint64_t)gpu->driver);
    json_flag(out, "usable", reason == NULL);
    if (reason == NULL) {
        json_text(out, "target", gpu->target);
        json_text(out, "ptx", bp_cuda_query_texts(gpu->target));
        json_count(out, "free_bytes", probe->free_bytes);
        json_real(out, "cold_jit_seconds", probe->jit_seconds, 4);
    } else {
        json_text(out, "reason", reason);
    }
    if (probe->log[0] != '\0') {
        json_text(out, "jit_log", probe->log);
    }
    json_end(out);
}

/* 12020 -> "12.2", 90 -> "9.0" with its own divisors. */
static void put_version(bp_text *text, uint32_t major, uint32_t minor)
{
    bp_text_u64(text, major);
    bp_text_char(text, '.');
    bp_text_u64(text, minor);
}

static void text_gpu(bp_text *text, uint32_t ordinal, const bp_cuda_gpu *gpu,
                     const bp_cuda_probe *probe, const char *reason)
{
    uint32_t driver = (uint32_t)gpu->driver;
    bp_text_string(text, "cuda:");
    bp_text_u64(text, ordinal);
    bp_text_string(text, "  ");
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

/* "...: found 5, expected at least 6", or NULL when the arena that was asked for fits. */
static const char *cmd_devices_no_room(const bp_cuda_probe *probe, uint64_t arena,
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

static void put_gpu(output *out, const settings *set, uint32_t ordinal)
{
    char words[REASON_BYTES];
    bp_error error = {0};
    bp_cuda_gpu gpu = {0};
    bp_cuda_probe probe = {0};
    bp_status status = bp_cuda_query(ordinal, &gpu, &error);
    const char *reason = status != BP_OK ? error.text : gpu.reason;
    if (reason == NULL && bp_cuda_query_probe(ordinal, gpu.target, &probe, &error) != BP_OK) {
        reason = error.text;
    }
    reason = reason == NULL ? cmd_devices_no_room(&probe, set->arena, words) : reason;
    if (set->json) {
        json_gpu(out, ordinal, &gpu, &probe, reason);
    } else {
        text_gpu(&out->text, ordinal, &gpu, &probe, reason);
    }
}

int cmd_devices(const settings *set)
{
    output out;
    bp_error error = {0};
    uint32_t count = 0;
    int driver = 0;
    output_begin(&out, stdout);
    put_host(&out, set->json);
    if (bp_cuda_query_count(&count, &driver, &error) != BP_OK) {
        put_no_gpu(&out, set->json, &error);
    }
    for (uint32_t i = 0; i < count; i++) {
        put_gpu(&out, set, i);
    }
    output_end(&out);
    return 0;
}
