/* SPDX-License-Identifier: MIT */
/* The version of library and program: here and nowhere else. The Makefile reads it. */
#ifndef BP_CORE_VERSION_H
#define BP_CORE_VERSION_H

#define BP_VERSION "0.1.0"

#endif
