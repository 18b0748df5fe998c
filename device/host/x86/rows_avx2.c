/* SPDX-License-Identifier: MIT */
/* The row kernels in AVX2. */
#include "device/host/x86/vector_avx2.h"

#include "device/host/rows/rows_vector.h"
