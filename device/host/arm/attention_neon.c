/* SPDX-License-Identifier: MIT */
/* Attention in NEON. */
#include "device/host/arm/vector_neon.h"

#include "device/host/attention/attention_vector.h"
#include "device/host/attention/attention_decode_vector.h"
