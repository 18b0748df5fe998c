/* SPDX-License-Identifier: MIT */
/* Recurrent language models: an embedding, layers of GRU or LSTM cells as torch.nn.GRU and
 * torch.nn.LSTM compute them, and a dense layer over the vocabulary. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_RNN_H
#define BP_LAYERS_RNN_H

#include "core/plan/spec.h"
#include "layers/recurrent/cell.h"

typedef struct bp_rnn_config {
    uint32_t width;     /* hidden_size */
    uint32_t layers;    /* num_hidden_layers */
    uint32_t embedding; /* embedding_size; 0: width */
    uint32_t chunks; /* pieces of time, each a stage, that a sequence is cut into; a choice of the
                        run, not of the model; 0: one */
    double dropout;
    double initializer_range; /* 0: as the width has it */
    bool untied;              /* not tie_word_embeddings */
    bp_cell cell;
} bp_rnn_config;

bp_rnn_config bp_rnn_config_of(const bp_model_config *config);

/* Stages: chunks pieces of time, each with all layers and its part of the loss. What goes
 * from stage to stage is the state (layers, 1 of a GRU or 2 of an LSTM, batch, width), which is 0
 * at the start of each sequence. All stages share all parameters, whose gradients add up from the
 * last stage to the first. Inside a stage rows are ordered by time, then sample.
 *
 * Parameters: encoder.weight (vocabulary, embedding), rnn.weight_ih_l<k>, rnn.weight_hh_l<k>,
 * rnn.bias_ih_l<k>, rnn.bias_hh_l<k> with their gates one after the other (r z n, or i f g o), and
 * decoder.weight (vocabulary, width; absent where it is the encoder's) and decoder.bias. */
extern const bp_model bp_model_rnn;

#endif
