/* SPDX-License-Identifier: MIT */
/* Measured rates of this machine, for choosing a checkpoint policy. They never choose anything that
 * could change bits. */
#ifndef BP_BEDPLATE_CALIBRATE_H
#define BP_BEDPLATE_CALIBRATE_H

#include "core/ir/cost.h"
#include "core/plan/spec.h"
#include "core/base/store.h"

#define CALIBRATE_FILE "calibration.json"

/* Times a matrix product of the model's widths, and the activation and norm that a policy computes
 * again, on the spec's device with its threads: about a fifth of a second. */
bp_status calibrate_measure(const bp_spec *spec, bp_rates *rates, bp_error *error) BP_MUST_CHECK;

/* Reads DIRECTORY/calibration.json. False when it is not there, cannot be read, or was made with
 * another device, other kernels, threads or widths. */
bool calibrate_read(bp_store *store, const char *directory, const bp_spec *spec, bp_rates *rates);

/* Writes it. */
bp_status calibrate_write(bp_store *store, const char *directory, const bp_spec *spec,
                          const bp_rates *rates, bp_error *error) BP_MUST_CHECK;

#endif
