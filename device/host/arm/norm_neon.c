/* SPDX-License-Identifier: MIT */
/* The gradient norm in NEON. */
#include "device/host/arm/vector_neon.h"

#include "device/host/rows/norm_vector.h"
