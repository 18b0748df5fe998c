/* SPDX-License-Identifier: MIT */
/* The version of library and program: here and nowhere else. The Makefile reads it. */
/* Installed as part of <bedplate/base.h>. */
#ifndef BP_CORE_VERSION_H
#define BP_CORE_VERSION_H

#define BP_VERSION "0.2.0"

/* BP_VERSION as the library was built with it: another than the headers' when the two do not belong
 * together. */
const char *bp_version(void);

#endif
