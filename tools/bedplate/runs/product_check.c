/* SPDX-License-Identifier: MIT */
/* Products that were found wrong: a line on stderr, and an event. */
#include "tools/bedplate/runs/product_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/ops/kernel.h"
#include "tools/bedplate/app/output.h"

void product_check_tell(bp_checked *told, const bp_checked *now, events *log, uint64_t step)
{
    const uint64_t repaired = now->repaired - told->repaired;
    if (repaired == 0 && !now->damaged) {
        *told = *now;
        return;
    }
    const char *kernel = bp_kernel_describe((bp_kernel)now->kernel)->name;
    output_print(stderr,
                 "bedplate: step %" PRIu64 ": %s was computed wrongly in %" PRIu64 " places; %s\n",
                 step, kernel, repaired,
                 now->damaged ? "computing them again did not settle it"
                              : "they were computed again, and the step goes on with that");
    if (log != NULL) {
        json_line *line = events_begin(log, "product", step);
        line_text(line, "kernel", kernel);
        line_count(line, "repaired", repaired);
        line_flag(line, "damaged", now->damaged);
        events_end(log);
    }
    *told = *now;
}
