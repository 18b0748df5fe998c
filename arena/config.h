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

/* Most threads of the host device. Each takes a record in the device's context, so a build for a
 * machine with one says 1, and then has no use for the system's threads (device/bare/). */
#ifndef BP_THREADS_MAX
#define BP_THREADS_MAX 256
#endif

/* The piece in which the runtime fills the arena: 4096 bytes at least, a multiple of 1024. */
#ifndef BP_TRANSFER_BYTES
#define BP_TRANSFER_BYTES 65536
#endif

#endif
