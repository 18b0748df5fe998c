/* SPDX-License-Identifier: MIT */
/* Prints the state digest of the same 20 steps under every form of kernels that this processor has,
 * on 1, 2 and 5 threads, one per line: FORM THREADS DIGEST LOSS. tests/variants/digests.sh compares
 * builds.
 * With an argument only the best form runs, with a second one on that many threads only. "none" is
 * a form that every processor lacks: what was made for it goes back, as the leak check of the
 * sanitized build sees on every machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/bare_fixture.h"

static void *aligned(uint64_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, BP_ARENA_ALIGNMENT, (size_t)bytes) == 0 ? memory : NULL;
}

static bp_status train(trial *t, uint64_t *digest, double *loss)
{
    bp_status status = bare_fixture_train(t, loss);
    if (status == BP_OK) {
        status = bare_fixture_digest(t, digest);
    }
    bp_runtime_close(&t->runtime);
    return status;
}

/* A form that this processor lacks is refused when the run opens: the blocks go back then too. */
static bp_status run(trial *t, const bp_spec *spec, uint64_t *digest, double *loss)
{
    uint64_t bytes = plan_bytes(spec);
    void *host = aligned(bytes);
    void *arena = NULL;
    bp_status status = bare_fixture_plan(t, spec, host, bytes);
    if (status == BP_OK) {
        arena = aligned(t->plan.report.arena_bytes);
        status = bare_fixture_open(t, arena, t->plan.report.arena_bytes);
    }
    if (status == BP_OK) {
        status = train(t, digest, loss);
    }
    free(arena);
    free(host);
    return status;
}

int main(int argc, char **argv)
{
    const char *const forms[] = {"portable", "neon", "sve", "avx2",
                                 "avx512",   "none", NULL}; /* NULL: the best */
    const uint32_t threads[] = {1, 2, 5};
    size_t first = argc > 1 ? 6 : 0;
    unsigned long only = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t f = first; f < first + (argc > 1 ? 1 : 6); f++) {
        for (size_t n = 0; n < 3; n++) {
            if (only != 0 && threads[n] != only) {
                continue;
            }
            static trial t;
            uint64_t digest = 0;
            double loss = 0.0;
            const char *form = forms[f] != NULL ? forms[f] : "best";
            bp_spec spec = bare_fixture_spec();
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
