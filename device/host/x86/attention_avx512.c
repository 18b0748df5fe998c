/* SPDX-License-Identifier: MIT */
/* Attention in AVX-512. */
#include "device/host/x86/vector_avx512.h"

#include "device/host/attention/attention_vector.h"
#include "device/host/attention/attention_decode_vector.h"
