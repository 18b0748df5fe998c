/* SPDX-License-Identifier: MIT */
/* Elementary functions of our own: the same bits under every compiler and on every machine.
 *
 * Only IEEE add, multiply, divide, square root and explicit fused multiply-add are used, in a fixed
 * order, so a vector form with the same order gives the same bits. Errors are in units in the last
 * place of the result, over the stated range, measured by tests/unit/core/base/test_math.c. */
#ifndef BP_CORE_MATH_H
#define BP_CORE_MATH_H

#include <stdint.h>

/* e^x. Below -104 gives 0, above 88.73 infinity; NaN stays NaN. Error 0.97. */
float bp_expf(float x);
/* Natural logarithm; 0 gives -infinity, negatives NaN. Error 0.5. */
float bp_logf(float x);
/* Error 2.3. */
float bp_tanhf(float x);
/* The error function. Error 2.4. */
float bp_erff(float x);

/* Double forms for initialisation, schedules, the loss and the step's decisions. */
double bp_exp(double x); /* error 1.0 */
double bp_log(double x); /* error 0.53 */
double bp_cos(double x); /* |x| <= 2^20; absolute error 1.5e-16 */
double bp_sin(double x); /* |x| <= 2^20; absolute error 1.5e-16 */
/* base^exponent for base > 0, as exp(exponent * log(base)) with compensation; error 1.4
 * while |exponent * log(base)| stays below some hundreds. */
double bp_pow(double base, double exponent);
/* base^n by repeated squaring: exact order, at most 64 steps. */
double bp_powi(double base, uint64_t n);

#endif
