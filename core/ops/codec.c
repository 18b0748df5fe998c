/* SPDX-License-Identifier: MIT */
/* Forms of optimizer state, block by block. */
#include "core/ops/codec.h"

#include "core/ops/codec_inline.h"

void bp_codec_encode(bp_codec form, bool has_sign, const float *values, uint32_t count, void *state)
{
    if (form == BP_CODEC_F32) {
        memcpy(state, values, count * sizeof *values);
    } else if (form == BP_CODEC_BLOCK8) {
        bp_codec_encode8(has_sign, values, count, state);
    } else if (form == BP_CODEC_COMPANDED8) {
        bp_codec_encode_companded(has_sign, values, count, state);
    } else {
        bp_codec_encode4(has_sign, values, count, state);
    }
}

void bp_codec_decode(bp_codec form, bool has_sign, const void *state, uint32_t count, float *values)
{
    if (form == BP_CODEC_F32) {
        memcpy(values, state, count * sizeof *values);
    } else if (form == BP_CODEC_BLOCK8) {
        bp_codec_decode8(has_sign, state, count, values);
    } else if (form == BP_CODEC_COMPANDED8) {
        bp_codec_decode_companded(has_sign, state, count, values);
    } else {
        bp_codec_decode4(has_sign, state, count, values);
    }
}
