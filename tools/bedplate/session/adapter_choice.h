/* SPDX-License-Identifier: MIT */
/* Low-rank adapters of a run: options and adapter directories in PEFT's form. */
#ifndef BP_BEDPLATE_ADAPTER_CHOICE_H
#define BP_BEDPLATE_ADAPTER_CHOICE_H

#include "core/base/safetensors.h"
#include "core/base/store.h"
#include "tools/bedplate/app/settings.h"
#include "tools/formats/peft/peft_config.h"

/* Must not move once filled: the spec refers to it. */
typedef struct adapter_choice {
    bp_peft_config config;
} adapter_choice;

/* Fills spec->lora from --adapter's directory or from --lora-r and what goes with it; the default
 * targets are PEFT's for the model's family. Prints what contradicts itself, BP_ERR_USAGE; what is
 * wrong with a directory is in `error`. spec->model and config are set. */
bp_status adapter_fill(const settings *set, bp_store *store, adapter_choice *choice, bp_spec *spec,
                       bp_error *error) BP_MUST_CHECK;

/* BP_ERR_DATA naming `path` (adapter_config.json) when it saves a copy of a table that the model
 * ties to its head: the two would no longer be one. */
bp_status adapter_check(const char *path, const bp_peft_config *config,
                        const bp_model_config *model, bp_error *error) BP_MUST_CHECK;

/* A target that names nothing was the file's word and not an option's: then `error` is one of bad
 * data and names the file. */
bp_status adapter_blame(const settings *set, bp_status status, bp_error *error) BP_MUST_CHECK;

/* What an adapter's file has of the base that it was learned beside. */
typedef struct adapter_note {
    bp_pair pairs[4];
    bp_metadata_group group;
    char block[16];
} adapter_note;

/* The metadata for adapters of a run, which PEFT passes over: the options of its base's 4 or 8
 * bits. NULL where the base has none. They point into the note. */
const bp_metadata_group *adapter_note_base(adapter_note *note, const bp_spec *spec);

/* Says on stderr that --adapter was learned beside a base of 4 or 8 bits, as its file has it or
 * else the record of its run, where dense layers of `spec` are floats or experts are in another
 * form: it gives other numbers there. spec->model, config, quantised and experts are set. */
void adapter_say_base(const settings *set, const bp_spec *spec);

/* Whether the adapter of a directory has such metadata; those of older programs have none. */
bool adapter_has_note(const char *directory);

#endif
