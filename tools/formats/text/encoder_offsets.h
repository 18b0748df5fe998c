/* SPDX-License-Identifier: MIT */
/* What the encoder tells of where its tokens come from, while somebody asks. */
#ifndef BP_FORMATS_ENCODER_OFFSETS_H
#define BP_FORMATS_ENCODER_OFFSETS_H

#include "tools/formats/text/tokenizer.h"

struct bp_tracing {
    const bp_encoder_trace *to;
    uint32_t *from; /* of each byte of normalised text: where its character begins in the text */
    uint8_t *bytes; /* and how many bytes that has */
    uint64_t base;  /* bytes of the text that lie before raw[0] */
    size_t count;   /* tokens so far */
};

/* The character of `bytes` bytes at raw_at became text[before .. text_end - 1]. */
void bp_trace_character(bp_encoder *e, size_t before, size_t bytes);
/* The first `gone` bytes of the normalised text go, whose end is still the old one. */
void bp_trace_moved(bp_encoder *e, size_t gone);

#endif
