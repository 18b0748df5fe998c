/* SPDX-License-Identifier: MIT */
/* The model card of a trained model, a CycloneDX 1.6 bill of materials, from its run's record. */
#ifndef BP_BEDPLATE_CARD_H
#define BP_BEDPLATE_CARD_H

#include "core/base/error.h"

/* Writes the card of the run whose output directory is `directory` to the file `path`, which is
 * replaced whole. The record is verified first, with its checkpoints and what it exported. Nothing
 * but the record goes into the card, so the same record gives the same bytes. BP_ERR_DATA: there is
 * no record, it does not hold, or the run has not ended. Uses the heap. */
bp_status card_write(const char *directory, const char *path, bp_error *error) BP_MUST_CHECK;

#endif
