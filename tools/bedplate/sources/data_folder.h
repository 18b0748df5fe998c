/* SPDX-License-Identifier: MIT */
/* A folder of images, FOLDER/CLASS/IMAGE, as the table of them that formats reads (data_pnm.h). */
#ifndef BP_BEDPLATE_DATA_FOLDER_H
#define BP_BEDPLATE_DATA_FOLDER_H

#include "tools/bedplate/session/session.h"

/* Writes the table of the folder's images (.png, .jpg, .jpeg, .ppm, .pgm; others are passed over)
 * to the file `to`: classes and then images in the order of their names' bytes. Labels are the
 * classes' folders, by name where the model names its classes; those of a model that has no names
 * for them become the folders'. BP_ERR_DATA: no image, or another number of folders than the
 * model's classes, where these have no names. */
bp_status data_folder_table(session *s, const char *folder, const char *to) BP_MUST_CHECK;

#endif
