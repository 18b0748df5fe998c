/* SPDX-License-Identifier: MIT */
/* Asynchronous copies: actors of their own that a thread issues and later waits for. */
#ifndef PTXVM_ASYNC_H
#define PTXVM_ASYNC_H

#include "tools/ptxvm/machine.h"

/* At a block's end nothing may be in flight. */
bool vm_async_finish(vm_block *block);

#endif
