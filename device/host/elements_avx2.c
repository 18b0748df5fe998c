/* SPDX-License-Identifier: MIT */
/* The element kernels in AVX2. */
#include "device/host/vector_avx2.h"

#include "device/host/elements_vector.h"
