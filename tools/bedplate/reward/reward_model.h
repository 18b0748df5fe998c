/* SPDX-License-Identifier: MIT */
/* A reward model: a model with a head of one label, whose output is the reward of a completion.
 *
 * It is a session of its own, whose arena are the bytes that the policy's plan leaves free between
 * its programs (bp_spec.between_bytes): weights are read from their file before each scoring, and
 * gone afterwards, so that generating, scoring and training share their bytes. Where the policy has
 * an offload file and --arena has no room for the model beside what of the policy lives through all
 * phases, its weights are offloaded to a file of their own while it scores. */
#ifndef BP_BEDPLATE_REWARD_MODEL_H
#define BP_BEDPLATE_REWARD_MODEL_H

#include "tools/bedplate/reward/reward_builtin.h"
#include "tools/bedplate/session/session.h"

/* Must not move once open. */
typedef struct reward_model {
    session *owner; /* the policy's; NULL: there is no model */
    settings set;   /* the model's own */
    session s;
    char tier[1100];   /* its --offload; empty: nothing is offloaded */
    uint64_t stamp;    /* of its files */
    bool same;         /* its tokens are the policy's */
    bool seen;         /* its weights were read once */
    bool told;         /* that texts were too long */
    uint32_t room;     /* tokens of a text */
    uint32_t count;    /* texts at once, at most */
    memory_block held; /* counted: */
    int32_t *ids;      /* (count, room) */
    uint32_t *lengths; /* (count); 0: the text is longer than the room */
    double *scores;    /* (count) */
    uint32_t next;     /* which of them an evaluation is at */
    bp_source source;
} reward_model;

/* Settings of a session of its own for a model in a directory, on the policy's device and in its
 * working type. */
void reward_model_settings(settings *set, const settings *of, const char *directory);

/* Opens --reward-model for up to `count` completions at once of up to `longest` tokens with their
 * prompt, and plans it; the policy's spec gets its bytes. Nothing where the option is not given.
 * The policy's tokenizer is open. BP_ERR_USAGE, BP_ERR_DATA: it is no model of one label, has no
 * weights or no tokenizer. */
bp_status reward_model_open(reward_model *m, session *owner, uint32_t longest,
                            uint32_t count) BP_MUST_CHECK;

/* The policy's plan if scoring were all of it, in so many bytes: generating is left out, training
 * as small as it can be. */
bp_spec reward_model_phase(const bp_spec *spec, uint64_t bytes);

/* One number for its files, which may not be replaced from here on. */
bp_status reward_model_identify(reward_model *m, uint64_t *digest, bp_error *error) BP_MUST_CHECK;

/* Bytes of host memory that it takes; 0: there is none. */
uint64_t reward_model_bytes(const reward_model *m);

/* Reads its weights, the first time: what is wrong with them is found before anything is generated.
 * The policy's runtime is open. */
bp_status reward_model_try(reward_model *m, bp_error *error) BP_MUST_CHECK;

/* scores[i * pitch] for each of `count` completions: the output for the prompt with the completion,
 * in the order of tokens that the policy has read and written, without the end token of a plain
 * text; where the tokenizers differ, for their texts in its own tokens, with the text of the token
 * that ends a conversation's turn. Not a number for a text
 * that is longer than the model's room. Between two runs of the policy's programs, whose free bytes
 * it overwrites. BP_ERR_NONFINITE: an output is not finite. BP_ERR_STORE: its files were
 * replaced. */
bp_status reward_model_score(reward_model *m, const reward_case *cases, uint32_t count,
                             uint32_t pitch, double *scores, bp_error *error) BP_MUST_CHECK;

/* Safe on a record that is all zero. */
void reward_model_close(reward_model *m);

#endif
