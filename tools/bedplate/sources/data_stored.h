/* SPDX-License-Identifier: MIT */
/* Data that is not at its place as it is read: packed files, standard input, pipes. It is stored in
 * a file without a name, in --output-dir or in TMPDIR, which goes with the program. */
#ifndef BP_BEDPLATE_DATA_STORED_H
#define BP_BEDPLATE_DATA_STORED_H

#include "tools/bedplate/sources/data_set.h"

/* Opens the files of the rows as bp_data_open does, those that are packed or come through a pipe
 * ("-" is standard input) after having stored them, and looks whether what is read as text is text
 * (bp_content_check). Unpacking takes memory for as long as it lasts; how much is kept in
 * s->unpack_bytes. BP_ERR_DATA, BP_ERR_STORE; then nothing is left open or stored. */
bp_status data_stored_open(data_files *files, session *s, uint32_t count,
                           bp_data_format format) BP_MUST_CHECK;

/* Gives back what came through pipes when data were looked at (files->look), and was never read. */
void data_stored_end(void);

#endif
