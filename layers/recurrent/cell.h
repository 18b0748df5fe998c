/* SPDX-License-Identifier: MIT */
/* Which recurrent cell an rnn has. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_CELL_H
#define BP_LAYERS_CELL_H

typedef enum bp_cell { BP_CELL_GRU, BP_CELL_LSTM } bp_cell;

#endif
