/* SPDX-License-Identifier: MIT */
/* The gradient norm in AVX-512. */
#include "device/host/vector_avx512.h"

#include "device/host/norm_vector.h"
