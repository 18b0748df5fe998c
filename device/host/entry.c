/* SPDX-License-Identifier: MIT */
/* The host as one of the devices to choose from. */
#include "device/host/cpu.h"
#include "device/host/host.h"
#include "device/registry.h"

static bp_status host_options(bp_device_request *request, bp_device_options *options,
                              bp_error *error)
{
    const uint32_t threads = request->threads > 0 ? request->threads : bp_cpu_count();
    (void)error;
    *options = (bp_device_options){.threads = threads > BP_THREADS_MAX ? BP_THREADS_MAX : threads,
                                   .variant = request->kernels};
    return request->which[0] == '\0' ? BP_OK : BP_ERR_USAGE;
}

static bool host_list(uint32_t index, uint64_t arena_bytes, bp_device_facts *facts)
{
    const char *best = bp_cpu_has_avx512()     ? "avx512"
                       : bp_cpu_has_avx2()     ? "avx2"
                       : bp_cpu_has_wide_sve() ? "sve"
                       : bp_cpu_has_neon()     ? "neon"
                                               : "portable";
    (void)arena_bytes;
    if (index > 0) {
        return false;
    }
    bp_fact_text(facts, "kernels", best);
    bp_fact_count(facts, "threads", bp_cpu_count());
    bp_text_string(facts->line, "host    ");
    bp_text_u64(facts->line, bp_cpu_count());
    bp_text_string(facts->line, " processors, ");
    bp_text_string(facts->line, best);
    bp_text_string(facts->line, " kernels\n");
    return true;
}

BP_DEVICE_ENTRY(host) = {
    .device = &bp_device_host,
    .choices = "host",
    .supplied = true,
    .verify = true,
    .unit = {[BP_UNIT_SYSTEMD] = "PrivateDevices=yes\nMemoryDenyWriteExecute=yes\n"},
    .options = host_options,
    .list = host_list,
};
