/* SPDX-License-Identifier: MIT */
/* The version of the library that was linked. */
#include "core/base/version.h"

const char *bp_version(void)
{
    return BP_VERSION;
}
