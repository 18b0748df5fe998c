/* SPDX-License-Identifier: MIT */
/* A run's checkpoints: what is saved, under which keys, and how a run finds back. */
#ifndef BP_BEDPLATE_CHECKPOINT_H
#define BP_BEDPLATE_CHECKPOINT_H

#include "core/run/checkpoint/checkpoint.h"
#include "tools/bedplate/runs/anomaly.h"
#include "tools/bedplate/runs/best.h"
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/record/events.h"
#include "tools/bedplate/record/record.h"
#include "tools/bedplate/session/session.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/hf/hf_config.h"

#define CHECKPOINT_KEYS_MAX  288
#define CHECKPOINT_KEY_BYTES 36864
#define CHECKPOINT_FILES     3 /* config.json and the two of the byte tokenizer */

/* Why a checkpoint is made: the options name its step, or something came in between (a signal). The
 * record of a run says of the first kind only what the state was. */
typedef enum checkpoint_cause { CHECKPOINT_DUE, CHECKPOINT_BETWEEN } checkpoint_cause;

/* What a checkpoint says of its run's record. */
typedef struct checkpoint_record {
    uint64_t length;            /* bytes of record.jsonl when it was saved */
    char chain[BP_SHA256_TEXT]; /* of the last line; "" if there was no record */
    bool owed;                  /* the line of its own state came after it */
} checkpoint_record;

#define CHECKPOINT_PARENT      40 /* step and digest of a state as text */
#define CHECKPOINT_RECORD_TEXT 96 /* length, chain and whether a line is owed */

/* Must not move. */
typedef struct checkpoint {
    session *s;
    bp_checkpoint checkpoint;
    bp_checkpoint_location place;
    bp_state_tensor *tensors;
    bp_state_tensor *above; /* those that do not live in a file of two versions; NULL: no file */
    size_t above_count;
    bool last;                         /* the checkpoint at the end of a run, which is whole, */
    uint64_t total;                    /* as is the one of its last step */
    char offload_text[BP_DIGEST_TEXT]; /* of CHECKPOINT_OFFLOAD_KEY */
    bp_pair keys[CHECKPOINT_KEYS_MAX];
    char key_text[CHECKPOINT_KEY_BYTES];
    bp_blob files[CHECKPOINT_FILES];
    char config_json[BP_HF_CONFIG_TEXT];
    char tokenizer_json[BP_BYTE_TOKENIZER_TEXT];
    char tokenizer_settings[BP_BYTE_TOKENIZER_TEXT];
    uint64_t digest;       /* of the state last saved */
    uint64_t first_digest; /* of the state that the record begins with */
    bool failed;           /* a save failed: the medium is not to be tried again */
    bool apart;            /* not all ranks see the output directory: rank 0 writes alone */
    uint64_t saved;        /* step of the newest checkpoint of this run; UINT64_MAX: none */
    bool found;            /* --resume: there is a checkpoint to continue, `newest` */
    bp_checkpoint_found newest;
    uint64_t began;            /* step of the checkpoint that --continue-from began with */
    best_state best;           /* what evaluations said; in every checkpoint */
    char best_text[BEST_TEXT]; /* the value of its key */
    bool unnoted; /* exported adapters have no word of their base (adapter_note_base) */
    anomaly watch;
    uint64_t stated; /* step of the newest state that the record tells; UINT64_MAX: none */
    uint64_t target; /* of the newest checkpoint that was due: where --on-spike goes back to */
    char target_text[24];
    checkpoint_record loaded;                 /* of `newest` */
    char record_text[CHECKPOINT_RECORD_TEXT]; /* values of the keys, of fixed lengths */
    char parent[CHECKPOINT_PARENT];           /* the state saved or loaded before */
    char verified[24];                        /* the last step that was computed twice */
    /* The last, as both end with much text whose pages come as they are used. */
    events log;
    record book;
} checkpoint;

/* What a run is besides its options: goes into the keys. */
typedef struct checkpoint_facts {
    uint64_t total_steps;
    const char *data; /* data_set_identity */
} checkpoint_facts;

/* Refuses an output directory that holds another model, or checkpoints that the run would not
 * continue. Before any memory is taken. */
bp_status checkpoint_check_directory(session *s) BP_MUST_CHECK;

/* With --resume: finds the newest valid checkpoint (damaged ones are named on stderr) and puts its
 * micro-batch, accumulation and loss chunk into session->spec where they were not given, so that a
 * fit keeps them. The first call on `c`. */
bp_status checkpoint_recall(checkpoint *c, session *s) BP_MUST_CHECK;

/* Makes the lists for an open session. Uses the heap: before training begins. */
bp_status checkpoint_begin(checkpoint *c, session *s, const checkpoint_facts *facts) BP_MUST_CHECK;

/* With --resume loads the checkpoint found and sets runtime.steps; BP_ERR_USAGE, naming each on
 * stderr, when result keys differ. Without a checkpoint says so on stderr. Else, with
 * --continue-from, loads that checkpoint's state for a run that begins at step 0: BP_ERR_USAGE
 * where it is another model's, optimizer's, precision's or adapter's, BP_ERR_DATA where there is
 * none. */
bp_status checkpoint_start(checkpoint *c) BP_MUST_CHECK;

/* Writes the state at runtime.steps as a checkpoint of the place, which is c->place but for its
 * error and what pruning spares; saving.h decides when, and what happens where this fails. */
bp_status checkpoint_write(checkpoint *c, const bp_checkpoint_location *place,
                           checkpoint_cause cause) BP_MUST_CHECK;

/* The record's line of this step's state, which is written whether or not the checkpoint could be.
 * Where ranks share out the state all of them call it. */
bp_status checkpoint_state(checkpoint *c) BP_MUST_CHECK;

/* Loads the checkpoint of the best evaluation into the runtime: the weights and all else of the
 * state. Nothing when there is none, or the state is that one. */
bp_status checkpoint_load_best(checkpoint *c) BP_MUST_CHECK;

/* Copies the files of the tokenizer into the output directory, which is there, so that the model
 * and its checkpoints are used with the same one. A byte model's are among the files of each
 * checkpoint. */
bp_status checkpoint_copy_tokenizer(checkpoint *c) BP_MUST_CHECK;

/* Writes the trained model into the output directory itself, as transformers opens it. */
bp_status checkpoint_export(checkpoint *c) BP_MUST_CHECK;

void checkpoint_end(checkpoint *c);

#endif
