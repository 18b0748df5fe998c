/* SPDX-License-Identifier: MIT */
/* One text or a pair between the template's tokens, truncated to a room. */
#include <string.h>

#include "tools/formats/tokenizer_state.h"

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

/* "longest_first" of the tokenizers library: what is left of each text. */
static void truncate(size_t most, size_t *a, size_t *b)
{
    size_t less = *a < *b ? *a : *b;
    size_t other = less > most ? less : most - less > less ? most - less : less;
    if (less + other > most) {
        less = most / 2;
        other = less + most % 2;
    }
    bool swap = *a > *b;
    *a = swap ? other : less;
    *b = swap ? less : other;
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
            truncate(room - own, &a_ids, &b_ids);
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
