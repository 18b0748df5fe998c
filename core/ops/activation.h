/* SPDX-License-Identifier: MIT */
/* The activation functions that models may have, element by element. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_ACTIVATION_H
#define BP_CORE_ACTIVATION_H

typedef enum bp_activation {
    BP_ACTIVATION_GELU_ERF, /* x (1 + erf(x / sqrt(2))) / 2 */
    BP_ACTIVATION_TANH,
    BP_ACTIVATION_RELU,         /* its slope at 0 is 0 */
    BP_ACTIVATION_RELU6,        /* at most 6; its slope at 0 and 6 is 0 */
    BP_ACTIVATION_RELU_SQUARED, /* x^2 above 0 */
    BP_ACTIVATION_GELU_QUICK,   /* x / (1 + exp(-1.702 x)) */
    BP_ACTIVATION_COUNT
} bp_activation;

#define BP_GELU_QUICK 1.702f

/* The functions that gate: f of swiglu_forward and swiglu_backward. */
typedef enum bp_gate { BP_GATE_SILU, BP_GATE_GELU_TANH, BP_GATE_GELU_ERF, BP_GATE_COUNT } bp_gate;

#endif
