/* SPDX-License-Identifier: MIT */
/* What import and export share: memory, the element types asked for, the families, and looking at
 * places before anything is written there. */
#ifndef BP_BEDPLATE_MODEL_FILES_H
#define BP_BEDPLATE_MODEL_FILES_H

#include "core/base/json.h"
#include "core/plan/model.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/settings.h"
#include "tools/formats/hf/weight_target.h"

/* Must not move once begun. */
typedef struct model_files {
    const settings *set;
    bp_store_posix posix;
    bp_store *store;
    bp_error error;
    memory_block memory;
    bp_staging room; /* for tables; takes come off its front */
    bp_staging work; /* through which data flows */
    bp_model_config config;
    const bp_model *model;
    const bp_tensor_naming *naming; /* that the source was matched by */
    bp_tensor_set source;
    bp_parameters parameters;
    bp_weight_target target;
} model_files;

/* Takes the memory and reads --dtype. */
bp_status model_files_begin(model_files *m, const settings *set) BP_MUST_CHECK;

/* Lists the model's parameters and matches them with m->source by a naming. Every faulty tensor is
 * printed. */
bp_status model_files_match(model_files *m, const bp_tensor_naming *naming,
                            bp_weight_source *source) BP_MUST_CHECK;

/* Writes config.json into the directory `to`, from the JSON document of `source`; with the element
 * types of --dtype unless they are kept. */
bp_status model_files_config(model_files *m, const bp_json_source *source,
                             const char *to) BP_MUST_CHECK;

/* Says on stderr that model.safetensors, which is `weights`, is read and an index of shards beside
 * it in the directory is not. */
void model_files_say_other(bp_store *store, const char *directory, const char *weights);

/* Whether two paths are the same file or directory. */
bool model_files_same(const char *a, const char *b);

/* Whether a path ends so, and has something in front. */
bool model_files_ends(const char *path, const char *ending);

/* Prints what was written and which tensors of the source were not (format NULL: neither), and ends
 * everything. Returns the exit code. */
int model_files_end(model_files *m, bp_status status, const char *format, const char *path);

#endif
