/* SPDX-License-Identifier: MIT */
/* The element kernels in AVX-512. */
#include "device/host/x86/vector_avx512.h"

#include "device/host/elements/elements_vector.h"
