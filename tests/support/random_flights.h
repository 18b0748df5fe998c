/* SPDX-License-Identifier: MIT */
/* Random programs of copies that overlap in time. Which of them are legal is decided byte by byte,
 * and the verifier has to say the same; the legal ones, run under poison with an engine beside what
 * computes, have to leave the bytes that doing each copy at its begin leaves, and those that doing
 * it at its wait leaves. */
#ifndef BP_TESTS_SUPPORT_RANDOM_FLIGHTS_H
#define BP_TESTS_SUPPORT_RANDOM_FLIGHTS_H

#include "core/program/device.h"

/* How a program of this seed is run. */
typedef bp_device_options random_flights_options(uint64_t seed);

/* Fails the test where the verifier or the device is wrong; runs the first `runs` legal ones. */
void random_flights(const bp_device *device, uint64_t programs, int runs,
                    random_flights_options *options_of);

#endif
