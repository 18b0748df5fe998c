/* SPDX-License-Identifier: MIT */
/* The one configuration header: everything that differs between compilers is decided here. */
/* Installed as part of <bedplate/base.h>. */
#ifndef BP_ARENA_CONFIG_H
#define BP_ARENA_CONFIG_H

/* BP_MUST_CHECK makes an unread status a compile-time warning, hence an error. */
#if defined(__GNUC__)
#define BP_MUST_CHECK __attribute__((warn_unused_result))
#else
#define BP_MUST_CHECK
#endif

#endif
