/* SPDX-License-Identifier: MIT */
/* Steps with known answers. */
#include "tools/bedplate/verbs/selftest.h"

#include <stdio.h>
#include <string.h>

#include "core/base/digest.h"
#include "device/registry.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/rate_choice.h"
#include "tools/bedplate/session/session.h"

enum { STEPS = 2, TOKENS = 2000, SEQUENCE = 16, BATCH = 2 };

/* What is trained, and the state that it comes to: on every machine, in every form. */
typedef struct selftest_case {
    const char *name;
    const char *model;
    const char *optimizer;
    bool bf16;
    uint64_t right;
    uint64_t gpu; /* on a GPU, whose sums are put together otherwise; 0: not known */
} selftest_case;

static const selftest_case cases[] = {
    {"gpt2 fp32", "tiny", "adamw", false, UINT64_C(0xb7000796e79fa2e4),
     UINT64_C(0xe5634ce22d5be611)},
    {"llama bf16 8-bit", "tiny-llama", "adamw_8bit", true, UINT64_C(0x10907f6dacf8930b), 0},
};

static const char *const forms[] = {"portable", "neon", "sve", "avx2", "avx512"};
static const uint64_t threads[] = {1, 2, 5};

/* Three of four bytes follow from their place. */
static bp_status selftest_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t place = first + i;
        uint64_t mixed = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
        mixed ^= mixed >> 29;
        to[i] = (int32_t)((place % 4 == 3 ? mixed : place * place % 29) % 256);
    }
    return BP_OK;
}

static bp_status selftest_digest(session *s, uint64_t *value)
{
    bp_digest digest;
    unsigned char piece[4096];
    bp_digest_begin(&digest, 0);
    for (uint32_t i = 0; i < bp_runtime_state_count(&s->runtime); i++) {
        const bp_buffer *buffer = bp_runtime_state(&s->runtime, i);
        for (uint64_t at = 0; at < buffer->bytes; at += sizeof piece) {
            const uint64_t left = buffer->bytes - at;
            const size_t bytes = left < sizeof piece ? (size_t)left : sizeof piece;
            BP_TRY(bp_runtime_read(&s->runtime, buffer, at, piece, bytes));
            bp_digest_add(&digest, piece, bytes);
        }
    }
    *value = bp_digest_end(&digest);
    return BP_OK;
}

static bp_status selftest_steps(session *s, const settings *set, uint64_t *digest)
{
    bp_source source = {.name = "known bytes", .count = TOKENS, .read = selftest_read};
    bp_feed feed = {.source = &source,
                    .seed = set->seed,
                    .sequence = SEQUENCE,
                    .batch = BATCH,
                    .group = BATCH * (uint32_t)set->accumulation,
                    .shuffle = true};
    bp_outcome outcome;
    BP_TRY(session_begin(s, set));
    BP_TRY(rate_fill(set, STEPS, &s->spec));
    feed.vocabulary = s->spec.config.vocabulary;
    BP_TRY(session_start(s));
    BP_TRY(bp_feed_init(&feed, &s->error));
    for (uint32_t i = 0; i < STEPS; i++) {
        BP_TRY(bp_runtime_step(&s->runtime, &feed, &outcome));
    }
    return selftest_digest(s, digest);
}

static bp_status selftest_one(const selftest_case *one, const char *device, selftest_result *result,
                              bool *there)
{
    static session s; /* large */
    static settings set;
    options_defaults(&set);
    set.command = COMMAND_TRAIN;
    set.quiet = true;
    set.model = one->model;
    set.optimizer = one->optimizer;
    set.bf16 = one->bf16;
    set.sequence = SEQUENCE;
    set.batch = BATCH;
    set.accumulation = 2;
    set.learning_rate = 1e-3;
    set.weight_decay = 0.1;
    set.device = device;
    set.kernels = strcmp(device, bp_device_at(0)->device->name) == 0 ? result->form : "auto";
    set.threads = result->threads;
    bp_status status = selftest_steps(&s, &set, &result->found);
    /* A processor without this form says so when the device is opened. */
    *there = s.runtime.error.code != BP_ERR_DEVICE;
    if (status != BP_OK && *there) {
        status = session_report(&s, status) != 0 ? status : BP_ERR_DEVICE;
    }
    session_end(&s);
    return *there ? status : BP_OK;
}

bp_status selftest_run(selftest_seen seen, void *user, uint32_t *runs, uint32_t *wrong)
{
    *runs = 0;
    *wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool there = true;
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            for (size_t n = 0; n < sizeof threads / sizeof threads[0]; n++) {
                selftest_result result = {.name = cases[i].name,
                                          .form = forms[f],
                                          .threads = (uint32_t)threads[n],
                                          .right = cases[i].right};
                BP_TRY(selftest_one(&cases[i], bp_device_at(0)->device->name, &result, &there));
                if (!there && f > 0) {
                    break;
                }
                there = true; /* every processor has the first form: one that is refused is wrong */
                *runs += 1;
                *wrong += result.found != result.right ? 1 : 0;
                if (seen != NULL) {
                    seen(user, &result);
                }
            }
        }
    }
    return BP_OK;
}

bp_status selftest_gpu(const char *device, selftest_seen seen, void *user, uint32_t *runs,
                       uint32_t *wrong)
{
    bool there = true;
    selftest_result result = {
        .name = cases[0].name, .form = device, .threads = 1, .right = cases[0].gpu};
    *runs = 1;
    BP_TRY(selftest_one(&cases[0], device, &result, &there));
    *wrong = !there || result.found != result.right ? 1 : 0;
    if (!there) {
        return BP_ERR_DEVICE;
    }
    if (seen != NULL) {
        seen(user, &result);
    }
    return BP_OK;
}
