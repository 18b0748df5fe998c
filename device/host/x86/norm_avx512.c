/* SPDX-License-Identifier: MIT */
/* The gradient norm in AVX-512. */
#include "device/host/x86/vector_avx512.h"

#include "device/host/rows/norm_vector.h"
