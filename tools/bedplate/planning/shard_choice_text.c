/* SPDX-License-Identifier: MIT */
/* What each form of sharing would take, in words and numbers. */
#include "tools/bedplate/planning/shard_choice_text.h"

void shard_choice_put(bp_text *text, const bp_share_choice *all)
{
    if (!all->made) {
        return;
    }
    bp_text_string(text, "\nsharing                  arena  seconds of computing + exchange\n");
    for (uint32_t form = 0; form < BP_SHARINGS; form++) {
        const bp_share_try *one = &all->form[form];
        char number[32];
        bp_text grouped;
        if (!one->known) {
            continue;
        }
        bp_text_init(&grouped, NULL, NULL, number, sizeof number);
        bp_text_grouped(&grouped, one->arena_bytes);
        const bp_status fits = bp_text_flush(&grouped);
        (void)fits; /* 26 characters at most */
        bp_text_padded(text, bp_sharing_name((bp_sharing)form), 10, BP_TEXT_LEFT);
        bp_text_padded(text, number, 18, BP_TEXT_RIGHT);
        bp_text_string(text, "  ");
        bp_text_general(text, one->computing, 4);
        bp_text_string(text, " + ");
        bp_text_general(text, one->exchange, 4);
        bp_text_string(text, form == all->chosen ? "  chosen" : "");
        bp_text_string(text, one->fits ? "\n" : "  does not fit\n");
    }
}

void shard_choice_json(output *out, const bp_share_choice *all)
{
    if (!all->made) {
        return;
    }
    json_list(out, "shard_candidates");
    for (uint32_t form = 0; form < BP_SHARINGS; form++) {
        const bp_share_try *one = &all->form[form];
        if (one->known) {
            json_item(out);
            json_text(out, "shard", bp_sharing_name((bp_sharing)form));
            json_flag(out, "fits", one->fits);
            json_count(out, "arena_bytes", one->arena_bytes);
            json_real(out, "computing_seconds", one->computing, 9);
            json_real(out, "exchange_seconds", one->exchange, 9);
            json_close(out);
        }
    }
    json_list_end(out);
}
