/* SPDX-License-Identifier: MIT */
/* Decoding in pieces that a terminal can show. */
#include "tools/bedplate/models/text_out.h"

#include <string.h>

#include "tools/bedplate/app/output.h"

void text_out_begin(text_out *out, const run_tokenizer *c)
{
    out->run_tokenizer = c;
    out->decoder = (bp_decoder){.begun = false};
    out->held = 0;
}

/* The bytes of one id, written to `to`. */
static size_t text_out_decode(text_out *out, int32_t id, char *to)
{
    size_t length = 0;
    if (out->run_tokenizer->kind != TOKENIZER_TOKENIZER) {
        to[0] = (char)id;
        return id < 256 ? 1 : 0;
    }
    const bp_tokenizer *tokenizer = &out->run_tokenizer->tokenizer;
    if (bp_tokenizer_is_special(tokenizer, (uint32_t)id)) {
        return 0;
    }
    bp_status status = bp_decoder_next(&out->decoder, tokenizer, (uint32_t)id, to, &length);
    return status == BP_OK ? length : 0; /* a model may have more ids than its tokenizer */
}

void text_out_pass(text_out *out, int32_t id)
{
    (void)text_out_decode(out, id, out->bytes);
}

const char *text_out_next(text_out *out, int32_t id, size_t *count)
{
    memcpy(out->bytes, out->kept, out->held);
    size_t length = out->held + text_out_decode(out, id, out->bytes + out->held);
    out->held = output_unfinished(out->bytes, length);
    *count = length - out->held;
    memcpy(out->kept, out->bytes + *count, out->held);
    return out->bytes;
}

const char *text_out_end(text_out *out, size_t *count)
{
    *count = out->held;
    out->held = 0;
    return out->kept;
}
