/* SPDX-License-Identifier: MIT */
/* bedplate devices: what this machine can execute programs on. */
#include "device/host/cpu.h"
#include "tools/bedplate/output.h"
#include "tools/bedplate/verbs.h"

int cmd_devices(const settings *set)
{
    const char *best = bp_cpu_has_avx512() ? "avx512" : bp_cpu_has_avx2() ? "avx2" : "portable";
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_text(&out, "device", "host");
        json_text(&out, "kernels", best);
        json_count(&out, "threads", bp_cpu_count());
        json_end(&out);
    } else {
        bp_text_string(&out.text, "host  ");
        bp_text_u64(&out.text, bp_cpu_count());
        bp_text_string(&out.text, " processors, ");
        bp_text_string(&out.text, best);
        bp_text_string(&out.text, " kernels\n");
    }
    output_end(&out);
    return 0;
}
