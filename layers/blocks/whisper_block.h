/* SPDX-License-Identifier: MIT */
/* The stages of Whisper that are lists of nodes: the two convolutions over frames, each with its
 * GELU; a block of the encoder, middle = x + attention(norm_1(x)), out = middle +
 * mlp(norm_2(middle)); and one of the decoder, with attention to the encoder's output between. */
#ifndef BP_LAYERS_WHISPER_BLOCK_H
#define BP_LAYERS_WHISPER_BLOCK_H

#include "layers/blocks/block.h"
#include "layers/families/whisper.h"

/* Parameters before the blocks'. The encoder's positions are constants. */
enum {
    BP_WHISPER_TABLE,
    BP_WHISPER_POSITIONS, /* the decoder's */
    BP_WHISPER_CONV_1,    /* a weight, and its bias behind it */
    BP_WHISPER_CONV_2 = 4,
    BP_WHISPER_SINUSOIDS = 6,
    BP_WHISPER_EMBEDDINGS
};

/* A block's parameters in the order of publication. Keys have no bias. */
typedef enum bp_whisper_parameter {
    BP_WHISPER_K,
    BP_WHISPER_V, /* from here on a weight, and its bias behind it */
    BP_WHISPER_Q = 3,
    BP_WHISPER_O = 5,
    BP_WHISPER_NORM_1 = 7,
    BP_WHISPER_UP = 9,
    BP_WHISPER_DOWN = 11,
    BP_WHISPER_NORM_2 = 13,
    BP_WHISPER_BLOCK_PARAMETERS = 15
} bp_whisper_parameter;

/* What a decoder's block has behind BP_WHISPER_NORM_1: as many as attention and its norm, in the
 * same order. */
#define BP_WHISPER_CROSS_PARAMETERS BP_WHISPER_UP

/* What a stage is. */
typedef enum bp_whisper_place {
    BP_WHISPER_FIRST_CONV,
    BP_WHISPER_SECOND_CONV,
    BP_WHISPER_ENCODER_BLOCK,
    BP_WHISPER_ENCODER_END,
    BP_WHISPER_DECODER_EMBEDDING,
    BP_WHISPER_DECODER_BLOCK,
    BP_WHISPER_HEAD
} bp_whisper_place;

bp_whisper_place bp_whisper_place_of(const bp_whisper_config *own, uint32_t stage);

/* The stage of the encoder's last norm; the decoder's embedding is the one behind it. */
uint32_t bp_whisper_memory_stage(const bp_whisper_config *own);

/* The number of the first parameter of a block; of `layers` that of the stack's last norm. */
uint32_t bp_whisper_encoder_first(const bp_whisper_config *own, uint32_t index);
uint32_t bp_whisper_decoder_first(const bp_whisper_config *own, uint32_t index);

/* Dropout sites: the encoder's embedding has 0, each of its blocks three; then the decoder's
 * embedding, and five of each of its blocks. */
uint32_t bp_whisper_decoder_site(const bp_whisper_config *own, uint32_t block);

/* The list of nodes of a convolution's or a block's stage; of any other it has none. */
void bp_whisper_block_describe(const bp_builder *builder, const bp_stage_call *call,
                               bp_block *block);

#endif
