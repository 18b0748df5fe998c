/* SPDX-License-Identifier: MIT */
/* What a file that was made from data remembers of it: a digest of everything that decides its
 * content.
 */
#ifndef BP_FORMATS_DATA_KEY_H
#define BP_FORMATS_DATA_KEY_H

#include "core/base/digest.h"
#include "tools/formats/files/data_reader.h"

void bp_data_key_number(bp_digest *key, uint64_t value);

/* Begins reading a file, adds its size and all its bytes to the key, and its line feeds to *lines;
 * of a JSON array also its braces, for so many elements it may have on one line. */
bp_status bp_data_key_file(bp_data_reader *reader, bp_digest *key, uint64_t *lines) BP_MUST_CHECK;

#endif
