/* SPDX-License-Identifier: MIT */
/* The row kernels in AVX-512. */
#include "device/host/x86/vector_avx512.h"

#include "device/host/rows/rows_vector.h"
