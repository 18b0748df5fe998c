/* SPDX-License-Identifier: MIT */
/* Whisper (Radford et al., arXiv 2212.04356) as the Hugging Face class
 * WhisperForConditionalGeneration computes it: the same names, layouts and numerics. An encoder
 * reads the log-mel spectrum of a piece of speech of fixed length, a decoder writes its text. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_WHISPER_H
#define BP_LAYERS_WHISPER_H

#include "layers/families/transformer.h"

/* The stack is the encoder's: layers, heads and inner are encoder_layers, encoder_attention_heads
 * and encoder_ffn_dim; the width and the dropouts are those of both. The decoder's texts have at
 * most bp_model_config.positions tokens. */
typedef struct bp_whisper_config {
    bp_transformer stack;
    uint32_t mels;             /* num_mel_bins: numbers of a frame */
    uint32_t source_positions; /* max_source_positions: the encoder's rows, two frames each */
    uint32_t decoder_layers;
    uint32_t decoder_heads; /* decoder_attention_heads */
    uint32_t decoder_inner; /* decoder_ffn_dim */
    uint32_t start_token;   /* decoder_start_token_id: what a decoder's text begins with */
    double never;           /* dropouts that are not implemented: 0 */
} bp_whisper_config;

bp_whisper_config bp_whisper_config_of(const bp_model_config *config);

/* Frames of the spectrum that a sample has: two for each position of the encoder. */
uint32_t bp_whisper_frames(const bp_whisper_config *own);

/* Stages: the two convolutions, each with its GELU, of which the second adds the positions; the
 * encoder's blocks, its last norm, whose output is bp_model.memory; the decoder's embedding, its
 * blocks, and its norm, the head and the loss. spec.source is source_positions, and the input
 * BP_INPUT_SOURCE has (frames, mels) of each sample, F32. */
extern const bp_model bp_model_whisper;

#endif
