/* SPDX-License-Identifier: MIT */
/* SwiGLU and the activations in AVX2. */
#include "device/host/x86/vector_avx2.h"

#include "device/host/elements/activation_vector.h"
