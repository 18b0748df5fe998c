/* SPDX-License-Identifier: MIT */
/* Completions of prompts, several of each, sampled from the model's own distribution at a
 * temperature: no top-k, no penalty, so that what is sampled is what a loss differentiates.
 *
 * A token is a function of the weights, the tokens before it and a random number that is named by
 * (step, prompt row, generation, position). Rows of a product do not depend on each other, so how
 * many sequences run at once, on how many threads, and which of them ends first change no bit. */
#ifndef BP_BEDPLATE_ROLLOUT_H
#define BP_BEDPLATE_ROLLOUT_H

#include "core/run/runtime.h"
#include "tools/bedplate/app/settings.h"

#define ROLLOUT_SLOTS_MOST 4096 /* sequences at once */

typedef enum rollout_finish {
    ROLLOUT_STOP,  /* by a token that ends a text, which is the last one */
    ROLLOUT_LENGTH /* it has all its tokens and none of them ends it */
} rollout_finish;

typedef struct rollout_prompt {
    const int32_t *ids;
    uint32_t count; /* 1 at least */
    uint64_t row;   /* its name in random numbers; times generations below 2^32 */
} rollout_prompt;

typedef struct rollout_completion {
    int32_t *ids;     /* room for `most`; the caller's */
    float *logps;     /* the same, or NULL: the log-probability of each at the temperature */
    float *entropies; /* the same, or NULL: of the distribution that each was drawn from */
    uint32_t count;   /* tokens, the one that ends the text among them */
    rollout_finish finish;
} rollout_completion;

typedef struct rollout_choice {
    uint32_t generations; /* of each prompt, 1 at least */
    uint32_t most;        /* tokens of a completion, 1 at least */
    double temperature; /* 0: always the likeliest (the first of equals), log-probabilities at 1 */
    uint64_t seed;
    uint64_t step; /* names the random numbers with row, generation and position */
    bool (*ends)(const void *user, uint32_t id); /* whether a text ends at this token */
    const void *user;
    uint32_t prompts; /* of a call, at most; 0: any number */
} rollout_choice;

/* Gives the spec the decode programs that prompts of up to `longest` tokens need, with so many
 * sequences at once. A slot whose completion has ended takes the next one in the order of prompts
 * and generations; prompts are read and held once for all their completions, as many of them as
 * keep the slots busy. */
void rollout_spec(bp_spec *spec, uint32_t longest, const rollout_choice *choice, uint32_t slots);

/* BP_ERR_USAGE with the reason where completions of this spec would not be what is said above: a
 * task without next tokens, a recurrent family, a device or kernels whose products depend on the
 * number of rows, texts that the model reads in two ways, prompts longer than its positions. */
bp_status rollout_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

/* Bytes, aligned to 64, that rollout_run works in: a function of the spec. */
uint64_t rollout_bytes(const bp_spec *spec);

/* Fills completions[p * generations + g] for each of `count` prompts. The runtime is open, its plan
 * made of a spec as above; it may be one that trains, between two steps: its state is as it was.
 * `work`: rollout_bytes, aligned to 64. BP_ERR_NONFINITE: a logit is not finite. */
bp_status rollout_run(bp_runtime *runtime, const rollout_choice *choice,
                      const rollout_prompt *prompts, uint32_t count,
                      rollout_completion *completions, void *work, bp_error *error) BP_MUST_CHECK;

/* A token that was drawn. */
typedef struct rollout_drawn {
    uint32_t id;
    float logp;    /* in the arithmetic of the row cross_entropy: with z = logit * (float)(1 /
                    * temperature), minus the loss of that label */
    float entropy; /* of the distribution, in nats */
} rollout_drawn;

/* The token that `uniform`, in [0, 1), chooses among `count` logits. Logits are finite. `room`:
 * count floats. */
rollout_drawn rollout_draw(const float *logits, uint32_t count, double temperature, double uniform,
                           float *room);

/* The number in [0, 1) of a token. */
double rollout_uniform(const rollout_choice *choice, uint64_t row, uint32_t generation,
                       uint32_t position);

#endif
