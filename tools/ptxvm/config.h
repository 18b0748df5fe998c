/* SPDX-License-Identifier: MIT */
/* What the environment asks of the instrument, and storage that outlives launches. */
#ifndef PTXVM_CONFIG_H
#define PTXVM_CONFIG_H

#include "tools/ptxvm/machine.h"

/* A setting by its environment name (PTXVM_SEED ...): what vm_config_set said, else the
 * environment's value, else NULL. */
const char *vm_config_text(const char *name);
uint64_t vm_config_number(const char *name, uint64_t otherwise);
void vm_config_set(const char *name, const char *value);

unsigned vm_config_threads(void);

/* Clusters keep their storage between launches. */
vm_cluster *vm_config_cluster_take(void);
void vm_config_cluster_give(vm_cluster *cluster);

/* Whether an instruction that is an error in shipped programs (activemask, %clock ...) may run:
 * PTXVM_PERMIT holds its name. */
bool vm_config_permits(const char *what);

#endif
