/* SPDX-License-Identifier: MIT */
/* One text or a pair between the template's tokens, truncated to a room. */
#include <string.h>

#include "core/run/feed.h"
#include "tools/formats/text/tokenizer_state.h"

/* Writes at most `most` ids of a text. */
static void put_text(bp_encoder *e, const void *text, size_t length, unsigned flags, uint8_t type,
                     size_t most, uint32_t *ids, uint8_t *types, size_t *count)
{
    size_t whole;
    bp_encoder_text(e, text, length, flags & ~(unsigned)BP_ENCODE_TEMPLATE, ids + *count, most,
                    &whole);
    size_t put = whole < most ? whole : most;
    if (types != NULL) {
        memset(types + *count, type, put);
    }
    *count += put;
}

static void put_part(const bp_template_part *part, uint32_t *ids, uint8_t *types, size_t *count)
{
    memcpy(ids + *count, part->ids, part->count * sizeof *ids);
    if (types != NULL) {
        memcpy(types + *count, part->types, part->count);
    }
    *count += part->count;
}

bp_status bp_encoder_pair(bp_encoder *e, const void *a, size_t a_length, const void *b,
                          size_t b_length, unsigned flags, uint32_t *ids, uint8_t *types,
                          size_t room, size_t *count, size_t *whole)
{
    static const bp_template bare = {.type_b = 1};
    const bp_token_rules *rules = &e->tokenizer->rules;
    bool add = (flags & BP_ENCODE_TEMPLATE) != 0;
    unsigned plain = flags & ~(unsigned)BP_ENCODE_TEMPLATE;
    const bp_template *form = !add ? &bare : b != NULL ? &rules->pair : &rules->single;
    size_t own = (size_t)form->before.count + form->between.count + form->after.count;
    size_t a_ids;
    size_t b_ids = 0;
    *count = 0;
    if (own > room) {
        return BP_ERR_USAGE;
    }
    bp_encoder_text(e, a, a_length, plain, NULL, 0, &a_ids);
    if (b != NULL) {
        bp_encoder_text(e, b, b_length, plain, NULL, 0, &b_ids);
    }
    if (whole != NULL) {
        *whole = own + a_ids + b_ids;
    }
    if (own + a_ids + b_ids > room) {
        if (b == NULL) {
            a_ids = room - own;
        } else {
            uint64_t left_a = a_ids, left_b = b_ids;
            bp_feed_cut_pair(room - own, &left_a, &left_b);
            a_ids = (size_t)left_a;
            b_ids = (size_t)left_b;
        }
    }
    put_part(&form->before, ids, types, count);
    put_text(e, a, a_length, flags, form->type_a, a_ids, ids, types, count);
    put_part(&form->between, ids, types, count);
    if (b != NULL) {
        put_text(e, b, b_length, flags, form->type_b, b_ids, ids, types, count);
    }
    put_part(&form->after, ids, types, count);
    return BP_OK;
}

static uint32_t ids_at(const bp_template *form, bp_pair_place place, const uint32_t **ids)
{
    const bp_template_part *part = place == BP_PAIR_BEFORE    ? &form->before
                                   : place == BP_PAIR_BETWEEN ? &form->between
                                                              : &form->after;
    *ids = part->ids;
    return part->count;
}

uint32_t bp_encoder_pair_ids(const bp_encoder *e, bp_pair_place place, const uint32_t **ids)
{
    return ids_at(&e->tokenizer->rules.pair, place, ids);
}

uint32_t bp_encoder_single_ids(const bp_encoder *e, bp_pair_place place, const uint32_t **ids)
{
    return ids_at(&e->tokenizer->rules.single, place, ids);
}

static bool all_have(const bp_template_part *part, uint8_t type)
{
    for (uint32_t i = 0; i < part->count; i++) {
        if (part->types[i] != type) {
            return false;
        }
    }
    return true;
}

bp_pair_types bp_encoder_pair_types(const bp_encoder *e)
{
    const bp_template *form = &e->tokenizer->rules.pair;
    const bool first =
        form->type_a == 0 && all_have(&form->before, 0) && all_have(&form->between, 0);
    const bool second = form->type_b <= 1 && all_have(&form->after, form->type_b);
    return !first || !second ? BP_PAIR_OTHER : form->type_b == 1 ? BP_PAIR_APART : BP_PAIR_ALIKE;
}
