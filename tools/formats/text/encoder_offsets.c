/* SPDX-License-Identifier: MIT */
/* Where tokens lie in their text: WordPiece's normaliser turns each character into some, so every
 * byte of normalised text remembers the character that it was made of. */
#include "tools/formats/text/encoder_offsets.h"

#include <string.h>

uint64_t bp_encoder_offsets_bytes(void)
{
    return 5 * (uint64_t)(BP_ENCODER_WORD_BYTES + BP_ENCODER_MARGIN);
}

void bp_trace_character(bp_encoder *e, size_t before, size_t bytes)
{
    bp_tracing *t = e->tracing;
    for (size_t i = before; i < e->text_end; i++) {
        t->from[i] = (uint32_t)(t->base + e->raw_at);
        t->bytes[i] = (uint8_t)bytes;
    }
}

void bp_trace_moved(bp_encoder *e, size_t gone)
{
    bp_tracing *t = e->tracing;
    memmove(t->from, t->from + gone, (e->text_end - gone) * sizeof *t->from);
    memmove(t->bytes, t->bytes + gone, e->text_end - gone);
}

static void put_offsets(bp_tracing *t, uint32_t start, uint32_t end)
{
    if (t->count < t->to->room) {
        t->to->starts[t->count] = start;
        t->to->ends[t->count] = end;
    }
    t->count++;
}

/* Bytes of normalised text that a piece stands for. */
static size_t piece_bytes(const bp_tokenizer *t, uint32_t id, bool first)
{
    const size_t bytes = t->lengths[id] & BP_TOKEN_LENGTH, mark = strlen(t->rules.continuing);
    return first || bytes < mark ? bytes : bytes - mark;
}

void bp_trace_word(bp_encoder *e, size_t at, size_t length)
{
    bp_tracing *t = e->tracing;
    const size_t end = at + length;
    const bool whole = e->out_end == 1; /* the word is a token, or unknown as a whole */
    for (size_t i = 0; i < e->out_end; i++) {
        size_t bytes = whole ? length : piece_bytes(e->tokenizer, e->work.id[i], i == 0);
        bytes = bytes < 1 ? 1 : bytes < end - at ? bytes : end - at;
        const size_t last = at + bytes - 1 < end ? at + bytes - 1 : end - 1;
        const size_t first = at < end ? at : end - 1;
        put_offsets(t, t->from[first], t->from[last] + t->bytes[last]);
        at += bytes;
    }
}

void bp_trace_added(bp_encoder *e)
{
    bp_tracing *t = e->tracing;
    put_offsets(t, (uint32_t)(t->base + e->next.start), (uint32_t)(t->base + e->next.end));
}

bp_status bp_encoder_offsets(bp_encoder *e, const void *text, size_t length,
                             const bp_encoder_trace *to, size_t *count)
{
    const size_t places = BP_ENCODER_WORD_BYTES + BP_ENCODER_MARGIN;
    bp_tracing tracing = {
        .to = to, .from = to->memory, .bytes = (uint8_t *)to->memory + 4 * places};
    if (e->tokenizer->rules.kind != BP_TOKENIZER_WORDPIECE ||
        e->word_bytes > BP_ENCODER_WORD_BYTES || length > UINT32_MAX) {
        return BP_ERR_USAGE;
    }
    e->tracing = &tracing;
    bp_encoder_text(e, text, length, BP_ENCODE_PLAIN, to->ids, to->room, count);
    e->tracing = NULL;
    return BP_OK;
}
