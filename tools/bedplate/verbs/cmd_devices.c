/* SPDX-License-Identifier: MIT */
/* bedplate devices: what this machine can execute programs on, and why something cannot be used. */
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/device_choice.h"

int cmd_devices(const settings *set)
{
    static bp_device_facts facts; /* large */
    const bp_device_entry *entry;
    char nothing[2];
    bp_text none;
    output out;
    output_begin(&out, stdout);
    for (uint32_t d = 0; (entry = bp_device_at(d)) != NULL; d++) {
        for (uint32_t i = 0;; i++) {
            bp_text_init(&none, NULL, NULL, nothing, sizeof nothing);
            facts = (bp_device_facts){.line = set->json ? &none : &out.text};
            if (!entry->list(i, set->arena, &facts)) {
                break;
            }
            if (set->json) {
                json_begin(&out);
                json_text(&out, "device", entry->device->name);
                device_facts_json(&out, &facts);
                json_end(&out);
            }
        }
    }
    output_end(&out);
    return 0;
}
