/* SPDX-License-Identifier: MIT */
/* The option of the device: who executes. */
#ifndef BP_BEDPLATE_DEVICE_CHOICE_H
#define BP_BEDPLATE_DEVICE_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* Fills spec->device and spec->device_options from --device (auto, host, cuda, cuda:N, cuda:sm_80,
 * cuda:sm_90a), --threads and --kernels. cuda is the GPU of the rank's number on its host, or the
 * first where a launcher shows each rank its own alone. auto takes that one if it can be used, else
 * the host.
 * A named target is planned without looking for a GPU. BP_ERR_USAGE for other words; BP_ERR_DEVICE,
 * with the reason, when the GPU asked for cannot be used. */
bp_status device_choose(const settings *set, bp_spec *spec, bp_error *error) BP_MUST_CHECK;

/* A digest of which GPU of the world the spec's device is; 0: it is none, or nobody knows. */
uint64_t device_identity(const bp_spec *spec);

/* Whether the spec's device lives in arena memory that the caller supplies. */
bool device_takes_memory(const bp_spec *spec);

#endif
