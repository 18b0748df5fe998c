/* SPDX-License-Identifier: MIT */
/* SwiGLU and the activations in NEON. */
#include "device/host/arm/vector_neon.h"

#include "device/host/elements/activation_vector.h"
