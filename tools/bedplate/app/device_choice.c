/* SPDX-License-Identifier: MIT */
/* The device that was asked for: one of the registry that can be used. */
#include "tools/bedplate/app/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/ranks/ranks.h"

static const char where[] = "device";

const bp_device_entry *device_entry_asked(const settings *set)
{
    return bp_device_named(set->device, strcspn(set->device, ":"));
}

/* What is made of a plan as C has one thread and the form that every machine has; what is taken by
 * itself is there. */
static bp_status device_take(const settings *set, const bp_device_entry *entry, const char *which,
                             bp_spec *spec, bp_error *error)
{
    const bool made = set->emit_c != NULL;
    const bool automatic = strcmp(set->kernels, "auto") == 0;
    bp_device_request request = {
        .which = which,
        .kernels = made        ? "portable"
                   : automatic ? NULL
                               : set->kernels,
        .threads = made ? 1 : (uint32_t)set->threads,
        .local = set->ranks != NULL ? set->ranks->local : 0,
        .planned = set->command == COMMAND_PLAN && strcmp(set->device, "auto") != 0,
    };
    BP_TRY(entry->options(&request, &spec->device_options, error));
    spec->device = entry->device;
    if (request.note != NULL) {
        output_print(stderr, "bedplate: --device: %s\n", request.note);
    }
    return BP_OK;
}

static bp_status choose_device(const settings *set, bp_spec *spec, bp_error *error)
{
    const bp_device_entry *entry = device_entry_asked(set);
    const size_t length = strcspn(set->device, ":");
    const bool colon = set->device[length] == ':';
    bp_status status = BP_ERR_USAGE;
    if (strcmp(set->device, "auto") == 0) {
        for (uint32_t i = 1; (entry = bp_device_at(i)) != NULL; i++) {
            bp_error unused = {.code = BP_OK};
            if (entry->automatic && device_take(set, entry, "", spec, &unused) == BP_OK) {
                return BP_OK;
            }
        }
        return device_take(set, bp_device_at(0), "", spec, error);
    }
    if (entry != NULL && (!colon || set->device[length + 1] != '\0')) {
        status = device_take(set, entry, set->device + length + colon, spec, error);
    }
    if (status == BP_ERR_USAGE) {
        status = bp_error_set(error, status, where, "no such device", "--device");
        bp_error_found(error, set->device, strlen(set->device));
        bp_error_right(error, option_find("device", 6)->choices);
    }
    return status;
}

/* Whether products may be rounded is the user's word, and only some devices take it. */
static bp_status choose_products(const settings *set, bp_spec *spec, bp_error *error)
{
    const bp_device_entry *entry = bp_device_entry_of(spec->device);
    if (set->tf32 && !entry->tf32) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "the host computes fp32 in full; TF32 is for a GPU's tensor cores: "
                            "expected --device cuda, or no --tf32",
                            "--tf32");
    }
    const bool codes = set->product_dtype != NULL && strcmp(set->product_dtype, "fp8") == 0;
    if (codes && (entry->fp8 == NULL || !entry->fp8(&spec->device_options))) {
        const char *target = spec->device_options.target;
        char found[64];
        (void)snprintf(found, sizeof found, "--product-dtype fp8 on %s%s%s", spec->device->name,
                       target != NULL ? ":" : "", target != NULL ? target : "");
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "products in fp8 are made by a Hopper's tensor cores alone (right "
                            "would be --device cuda:sm_90a, or no --product-dtype)",
                            found);
    }
    spec->device_options.tf32 = set->tf32;
    /* Hopper's own products alone; a budget may take it back */
    spec->device_options.dequantizes = entry->fp8 != NULL && entry->fp8(&spec->device_options);
    spec->device_options.alignment = (uint32_t)strtoul(set->alignment, NULL, 10);
    return BP_OK;
}

/* Checks of products are part of the host's fast forms. */
static bp_status choose_checks(const settings *set, const bp_spec *spec, bp_error *error)
{
    const char *kernels = spec->device_options.variant;
    const bool plain = kernels != NULL && strcmp(kernels, "portable") == 0;
    const bool own = kernels != NULL && strcmp(kernels, "amx") == 0;
    if (!set->verify_products || (bp_device_entry_of(spec->device)->verify && !plain && !own)) {
        return BP_OK;
    }
    bp_status status =
        bp_error_set(error, BP_ERR_USAGE, where,
                     "products are checked by the host's fast kernels alone", "--verify-products");
    bp_error_found(error, plain || own ? kernels : spec->device->name,
                   strlen(plain || own ? kernels : spec->device->name));
    bp_error_right(error, "--device host, and --kernels avx2, avx512, neon or sve");
    return status;
}

bp_status device_choose(const settings *set, bp_spec *spec, bp_error *error)
{
    BP_TRY(choose_device(set, spec, error));
    const bool runs = set->command != COMMAND_PLAN || set->calibrate;
    if (runs && bp_device_entry_of(spec->device)->dry) {
        bp_status status =
            bp_error_set(error, BP_ERR_USAGE, where,
                         "the device executes nothing, it is for plans alone", "--device");
        bp_error_found(error, set->device, strlen(set->device));
        bp_error_right(error, "bedplate plan without --calibrate, or another device");
        return status;
    }
    BP_TRY(choose_checks(set, spec, error));
    return choose_products(set, spec, error);
}

bool device_takes_memory(const bp_spec *spec)
{
    return bp_device_entry_of(spec->device)->supplied;
}

void device_facts_json(output *out, const bp_device_facts *facts)
{
    for (uint32_t i = 0; i < facts->count; i++) {
        const bp_device_fact *fact = &facts->fact[i];
        switch (fact->kind) {
        case BP_FACT_TEXT:
            json_text(out, fact->name, fact->text);
            break;
        case BP_FACT_COUNT:
            json_count(out, fact->name, fact->count);
            break;
        case BP_FACT_FLAG:
            json_flag(out, fact->name, fact->count != 0);
            break;
        default:
            json_real(out, fact->name, fact->real, 4);
            break;
        }
    }
}

void device_describe(output *out, const bp_spec *spec, bool json)
{
    static bp_device_facts facts; /* large */
    const bp_device_entry *entry = bp_device_entry_of(spec->device);
    char nothing[2];
    bp_text none;
    if (entry->describe == NULL) {
        return;
    }
    bp_text_init(&none, NULL, NULL, nothing, sizeof nothing);
    facts = (bp_device_facts){.line = json ? &none : &out->text};
    bp_text_string(facts.line, "device      ");
    entry->describe(&spec->device_options, &facts);
    bp_text_char(facts.line, '\n');
    if (json) {
        device_facts_json(out, &facts);
    }
}
