/* SPDX-License-Identifier: MIT */
/* The keys of a checkpoint: "result.NAME" must be equal on resume, "run.NAME" may change. */
#ifndef BP_BEDPLATE_CHECKPOINT_KEYS_H
#define BP_BEDPLATE_CHECKPOINT_KEYS_H

#include "tools/bedplate/runs/checkpoint.h"

#define CHECKPOINT_BEST_KEY "run.evaluations" /* best_state; its text is renewed by every save */

#define CHECKPOINT_RECORD_KEY  "run.record"
#define CHECKPOINT_PARENT_KEY  "run.parent"
#define CHECKPOINT_CHECKED_KEY "run.verified"
#define CHECKPOINT_WATCH_KEY   "run.anomalies" /* only where --on-spike has a policy */
#define CHECKPOINT_TARGET_KEY  "run.rollback"  /* only where that is to go back */

/* The model's configuration: this and the key of config.json. Checkpoints of earlier versions have
 * one key instead, which does not say all; their config.json does. */
#define CHECKPOINT_MODEL_PREFIX  "result.config."
#define CHECKPOINT_OLD_MODEL_KEY "result.model"

/* Whether checkpoints and the record can keep every option of training: before a run makes a file.
 * BP_ERR_USAGE names the option that has a byte that is not UTF-8. */
bp_status checkpoint_keys_check(const settings *set, bp_error *error) BP_MUST_CHECK;

/* Fills c->keys from the session's options and the facts. */
bp_status checkpoint_keys_fill(checkpoint *c, const checkpoint_facts *facts) BP_MUST_CHECK;

/* Prints every result key that differs between this run and `saved`; returns how many do. Of a
 * checkpoint that has CHECKPOINT_OLD_MODEL_KEY the model is left to the second function. */
size_t checkpoint_keys_compare(const checkpoint *c, bp_pairs saved);

/* The same for two configurations, key by key. */
size_t checkpoint_keys_compare_model(const bp_model_config *config, const bp_model_config *saved,
                                     const char *asked);

/* The same for the keys on which the form and the meaning of the state hang, and for
 * --continue-from: the model without its dropouts, the base of adapters, the update rule, element
 * types and masters, adapters, which parameters are trained. */
size_t checkpoint_keys_compare_state(const checkpoint *c, bp_pairs saved);

/* Whether this run and `saved` have the same value of a key; a key that `saved` lacks is one whose
 * option has its default. */
bool checkpoint_keys_same(const checkpoint *c, bp_pairs saved, const char *key);

/* Says on stderr what may make the bits differ from here on: other kernels than those saved with.
 */
void checkpoint_keys_remark(const checkpoint *c, bp_pairs saved);

/* The keys that a save renews: where the record is (nothing, where it is not whole), and which
 * state was saved before. All have a fixed length, so a checkpoint's size is known beforehand. */
void checkpoint_keys_put_record(checkpoint *c, bool whole, bool owed);
void checkpoint_keys_put_parent(checkpoint *c, uint64_t step, uint64_t digest);
/* The same of the last step that was verified, and of where a spike goes back to; and both, with
 * what spikes are judged by, from a checkpoint. */
void checkpoint_keys_put_verified(checkpoint *c);
void checkpoint_keys_read_watch(checkpoint *c, bp_pairs saved);
/* What the value of a checkpoint's record key says; NULL: it has none. */
void checkpoint_keys_parse_record(const char *text, checkpoint_record *to);

#endif
