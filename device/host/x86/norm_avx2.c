/* SPDX-License-Identifier: MIT */
/* The gradient norm in AVX2. */
#include "device/host/x86/vector_avx2.h"

#include "device/host/rows/norm_vector.h"
