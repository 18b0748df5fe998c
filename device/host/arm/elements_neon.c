/* SPDX-License-Identifier: MIT */
/* The element kernels in NEON. */
#include "device/host/arm/vector_neon.h"

#include "device/host/elements/elements_vector.h"
