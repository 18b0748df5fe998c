/* SPDX-License-Identifier: MIT */
/* The element kernels in AVX2. */
#include "device/host/x86/vector_avx2.h"

#include "device/host/elements/elements_vector.h"
