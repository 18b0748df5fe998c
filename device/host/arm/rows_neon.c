/* SPDX-License-Identifier: MIT */
/* The row kernels in NEON. */
#include "device/host/arm/vector_neon.h"

#include "device/host/rows/rows_vector.h"
