/* SPDX-License-Identifier: MIT */
/* The system's threads; a build for one thread (arena/config.h) needs no system. */
#ifndef BP_DEVICE_HOST_THREADS_H
#define BP_DEVICE_HOST_THREADS_H

#include "arena/config.h"

#if BP_THREADS_MAX > 1
#include <pthread.h>
typedef pthread_t bp_thread;
typedef pthread_mutex_t bp_mutex;
typedef pthread_cond_t bp_condition;
#else
typedef unsigned char bp_thread;
typedef unsigned char bp_mutex;
typedef unsigned char bp_condition;
#endif

#endif
