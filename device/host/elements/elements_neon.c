/* SPDX-License-Identifier: MIT */
/* The element kernels in NEON. */
#include "device/host/vector/vector_neon.h"

#include "device/host/elements/elements_vector.h"
