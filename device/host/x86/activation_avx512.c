/* SPDX-License-Identifier: MIT */
/* SwiGLU and the activations in AVX-512. */
#include "device/host/x86/vector_avx512.h"

#include "device/host/elements/activation_vector.h"
