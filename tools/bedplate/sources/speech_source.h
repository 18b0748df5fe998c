/* SPDX-License-Identifier: MIT */
/* Speech as what a feed reads beside texts. An example's first text is the path of a file, whose
 * bytes are its tokens (tools/formats/data/data_tokenise.h); the spectrum is computed when a batch
 * is made of it. */
#ifndef BP_BEDPLATE_SPEECH_SOURCE_H
#define BP_BEDPLATE_SPEECH_SOURCE_H

#include "tools/bedplate/session/session.h"
#include "tools/bedplate/sources/flac_library.h"
#include "tools/formats/audio/speech.h"

/* Must not move. */
typedef struct speech_source {
    bp_feed_texts texts; /* the first: what a feed has of it */
    bp_speech speech;
    flac_library flac;
} speech_source;

/* Takes memory for the spectra of the session's model; *source is NULL for a model that does not
 * hear, and stays where it is open. BP_ERR_FIT. */
bp_status speech_source_open(speech_source **source, session *s) BP_MUST_CHECK;
void speech_source_close(speech_source **source);

/* The path of an example of a source of such rows. BP_ERR_DATA: it has none. */
bp_status speech_source_path(bp_source *source, const bp_example *example,
                             char path[BP_STORE_PATH_MAX], bp_error *error) BP_MUST_CHECK;

/* Elements of a spectrum. */
uint64_t speech_source_elements(const speech_source *source);

#endif
