/* SPDX-License-Identifier: MIT */
/* bedplate selftest: whether this machine computes what is known to be right. */
#include <stdio.h>
#include <string.h>

#include "core/base/digest.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/verbs/selftest.h"
#include "tools/bedplate/app/commands.h"

static void selftest_print(void *user, const selftest_result *result)
{
    const settings *set = user;
    char found[BP_DIGEST_TEXT], right[BP_DIGEST_TEXT];
    output out;
    bp_digest_text(result->found, found);
    bp_digest_text(result->right, right);
    if (set->json) {
        output_begin(&out, stdout);
        json_begin(&out);
        json_text(&out, "case", result->name);
        json_text(&out, "kernels", result->form);
        json_count(&out, "threads", result->threads);
        json_text(&out, "state_digest", found);
        json_flag(&out, "right", result->found == result->right);
        json_end(&out);
        output_end(&out);
    } else if (result->found != result->right) {
        output_print(stderr,
                     "bedplate: %s, %s on %u threads: the state is wrong: found %s, expected "
                     "%s\n",
                     result->name, result->form, result->threads, found, right);
    }
}

int cmd_selftest(const settings *set)
{
    uint32_t runs, wrong;
    const bp_device_entry *asked = device_entry_asked(set);
    const bool gpu = asked != NULL && asked != bp_device_at(0);
    void *user = (void *)(uintptr_t)set;
    const bp_status status = gpu ? selftest_gpu(set->device, selftest_print, user, &runs, &wrong)
                                 : selftest_run(selftest_print, user, &runs, &wrong);
    if (status != BP_OK) {
        if (gpu) {
            output_print(stderr, "bedplate: selftest: %s cannot be used\n", set->device);
        }
        return bp_status_exit_code(status);
    }
    const double seconds = clock_seconds() - set->began;
    if (set->json) {
        output out;
        output_begin(&out, stdout);
        json_begin(&out);
        json_count(&out, "runs", runs);
        json_count(&out, "wrong", wrong);
        bp_json_put_member(&out.json, "seconds");
        bp_text_fixed(&out.text, seconds, 3);
        json_end(&out);
        output_end(&out);
    } else {
        printf("%u of %u runs came to the known states, %.2f s\n", runs - wrong, runs, seconds);
    }
    return wrong == 0 ? 0 : 8;
}
