/* SPDX-License-Identifier: MIT */
/* The data of a run: files, patterns, formats and the held-out part. */
#ifndef BP_BEDPLATE_DATA_SET_H
#define BP_BEDPLATE_DATA_SET_H

#include <glob.h>

#include "tools/bedplate/session/session.h"
#include "tools/bedplate/sources/image_source.h"
#include "tools/bedplate/sources/speech_source.h"
#include "tools/formats/data/data.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/files/split.h"

/* One list of files, opened. Must not move. */
typedef struct data_files {
    bp_data data;
    bp_tokens tokens; /* what the files were tokenised to */
    char path[BP_STORE_PATH_MAX];
    bp_source *source; /* the one or the other */
    bp_data_file rows[SETTINGS_PATHS_MAX];
    glob_t patterns; /* owns the names that patterns expanded to */
    bool expanded;
    bool judged; /* what evaluations read: it is never packed */
    bool look; /* they are opened for a look: what comes through pipes is kept for the next time */
    bool lost; /* and could not be */
} data_files;

/* What a run learns from and what it is tested on. Must not move. */
typedef struct data_set {
    data_files main;
    data_files held;
    bp_part kept_part;
    bp_part held_part;
    data_files *more; /* --data-weights: the data sets behind main; allocated */
    bp_source *mixed[BP_MIXTURE_MOST];
    bp_joined joined;
    bp_mixture mixture;
    bp_source *train;             /* what is left to learn from */
    bp_source *eval;              /* NULL: nothing is held out */
    image_source *images;         /* of a model that sees; the same */
    speech_source *speech;        /* of a model that hears; NULL: it reads texts; allocated */
    bool made;                    /* --output-dir was made for the token files */
    bp_tokenizer_special special; /* of the tokenizer, if one was used; else all -1 */
} data_set;

/* Opens a list of files and patterns as --data-format says, and closes them; of the session only
 * settings, store and error are used. */
bp_status data_files_find(data_files *files, session *s, const path_list *list) BP_MUST_CHECK;
void data_files_close(data_files *files);

/* Opens --data, and --eval-data or the --validation-split of it. Text for a model with a tokenizer,
 * and documents (JSON lines), are tokenised into data.tokens and eval.tokens in --output-dir, which
 * is made, or used again; without that option, into a file in TMPDIR that goes with the program.
 * What was done is said on stderr, unless --quiet. BP_ERR_DATA when a file is not there, or when
 * text meets a model without tokenizer whose weights are not for bytes. A byte model that learns
 * documents gets NUL as its end token (spec.config.eos_token). */
bp_status data_set_open(data_set *set, session *s) BP_MUST_CHECK;
void data_set_close(data_set *set);

/* What data_set_open refuses --data and --eval-data for before it reads their rows, in its words;
 * data that are not there are not refused. Data that come through pipes are kept. */
bp_status data_set_check(session *s) BP_MUST_CHECK;

/* Whether rows can be grouped by their lengths, where --group-by-length asks for it: not those of a
 * stream of tokens, nor those that are compared. BP_ERR_USAGE. */
bp_status data_grouped_check(session *s, bool stream) BP_MUST_CHECK;

/* A feed over one of the parts, in file order and by single micro-batches: shapes, labels, classes
 * and padding are those of the spec. Not initialised yet. */
bp_feed data_set_feed(const data_set *set, const session *s, bp_source *part);

/* BP_ERR_DATA: an evaluation of the source had no targets, or all are of classes whose weight is 0:
 * there is no loss, which is 0 then. */
bp_status data_evaluated(session *s, const bp_source *source, uint64_t targets,
                         double loss) BP_MUST_CHECK;

/* --data-weights: the feed of set->train, initialised, gets the order of the mixture. */
bp_status data_set_mix(data_set *set, session *s, bp_feed *feed) BP_MUST_CHECK;

/* Names what the data is by content: tokens and a digest of the first and last of them; so that a
 * resumed run can tell whether it sees the same data, wherever the files lie now. BP_ERR_DATA when
 * an id among them is beyond the model's vocabulary. */
bp_status data_set_identity(session *s, bp_source *source, char *text, size_t room) BP_MUST_CHECK;

#endif
