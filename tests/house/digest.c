/* SPDX-License-Identifier: MIT */
/* Prints the state digest of the same 20 steps under every form of kernels that this processor has,
 * on 1, 2 and 5 threads, one per line: FORM THREADS DIGEST LOSS. test_digest.sh compares builds.
 * With an argument only the best form runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/trial.h"

static void *aligned(uint64_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, BP_ARENA_ALIGNMENT, (size_t)bytes) == 0 ? memory : NULL;
}

static bp_status run(trial *t, const bp_spec *spec, uint64_t *digest, double *loss)
{
    uint64_t bytes = bp_runtime_scratch(spec);
    void *host = aligned(bytes);
    BP_TRY(trial_plan(t, spec, host, bytes));
    void *arena = aligned(t->runtime.report.arena_bytes);
    BP_TRY(trial_open(t, arena, t->runtime.report.arena_bytes));
    BP_TRY(trial_train(t, loss));
    BP_TRY(trial_digest(t, digest));
    bp_runtime_close(&t->runtime);
    free(arena);
    free(host);
    return BP_OK;
}

int main(int argc, char **argv)
{
    (void)argv;
    const char *const forms[] = {"portable", "avx2", "avx512", NULL}; /* NULL: the best */
    const uint32_t threads[] = {1, 2, 5};
    size_t first = argc > 1 ? 3 : 0;
    for (size_t f = first; f < first + (argc > 1 ? 1 : 3); f++) {
        for (size_t n = 0; n < 3; n++) {
            static trial t;
            uint64_t digest = 0;
            double loss = 0.0;
            const char *form = forms[f] != NULL ? forms[f] : "best";
            bp_spec spec = trial_spec();
            spec.device_options.variant = forms[f];
            spec.device_options.threads = threads[n];
            bp_status status = run(&t, &spec, &digest, &loss);
            /* A processor without this form says so at open. */
            if (status != BP_OK && forms[f] != NULL && f > 0 && n == 0) {
                break;
            }
            if (status != BP_OK) {
                fprintf(stderr, "%s: %s %s\n", form,
                        t.runtime.error.text != NULL ? t.runtime.error.text : "",
                        t.runtime.error.name);
                return 1;
            }
            printf("%s %u %016llx %.6f\n", form, (unsigned)threads[n], (unsigned long long)digest,
                   loss);
            fflush(stdout);
        }
    }
    return 0;
}
