/* SPDX-License-Identifier: MIT */
/* Fused multiply-add in integers, for machines whose compiler and C library promise none, and the
 * question whether the one in use rounds once. Everything that is added up in this house goes
 * through fma and fmaf, so a library that rounds twice (newlib's do) is another arithmetic. */
#ifndef BP_CORE_FUSED_H
#define BP_CORE_FUSED_H

/* a * b + c with one rounding, to nearest even, for all operands: what IEEE 754 says, NaNs' payload
 * left out. About 100 instructions of integers; bp_fmaf needs doubles instead. device/bare/fused.h
 * puts them in the place of fma and fmaf. */
double bp_fma(double a, double b, double c);
float bp_fmaf(float a, float b, float c);

/* The same number, in integers alone: where a sum of doubles takes a hundred instructions too. */
float bp_fmaf_integers(float a, float b, float c);

/* NULL when fma and fmaf, as this library was built, round once and keep denormals; else a short
 * static text that says which of it they do not. Six products. */
const char *bp_fused_fault(void);

#endif
