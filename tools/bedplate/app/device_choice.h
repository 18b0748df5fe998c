/* SPDX-License-Identifier: MIT */
/* The option of the device: who executes, and what it says of itself. */
#ifndef BP_BEDPLATE_DEVICE_CHOICE_H
#define BP_BEDPLATE_DEVICE_CHOICE_H

#include "core/plan/spec.h"
#include "device/registry.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/settings.h"

/* Fills spec->device and spec->device_options from --device (auto, or a name of device/registry.c,
 * perhaps with a colon and which one), --threads and --kernels. auto takes the first that is taken
 * by itself and can be used, else the host. BP_ERR_USAGE for other words, and for a device that
 * executes nothing where something is to be done; BP_ERR_DEVICE, with the reason, when the one
 * asked for cannot be used. */
bp_status device_choose(const settings *set, bp_spec *spec, bp_error *error) BP_MUST_CHECK;

/* The device that --device names; NULL: none, or auto. */
const bp_device_entry *device_entry_asked(const settings *set);

/* Whether the spec's device lives in arena memory that the caller supplies. */
bool device_takes_memory(const bp_spec *spec);

/* Facts as members of the JSON object that is open. */
void device_facts_json(output *out, const bp_device_facts *facts);

/* What a plan's device says of itself: members, or after "device" a line. */
void device_describe(output *out, const bp_spec *spec, bool json);

#endif
