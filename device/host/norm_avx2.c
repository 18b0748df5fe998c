/* SPDX-License-Identifier: MIT */
/* The gradient norm in AVX2. */
#include "device/host/vector_avx2.h"

#include "device/host/norm_vector.h"
