/* SPDX-License-Identifier: MIT */
/* Memory that this process's control groups leave it: containers and batch systems set limits that
 * the system's own count of free memory does not show, and end who goes beyond. */
#ifndef BP_BEDPLATE_GROUP_MEMORY_H
#define BP_BEDPLATE_GROUP_MEMORY_H

#include <stdint.h>

/* The least that any group of the process, or one around it, still allows; pages of files count as
 * free, unless `enough` is left without them. UINT64_MAX: there is no limit, or nothing that tells.
 * `groups` lists the process's groups as /proc/self/cgroup does, and `root` is where their files
 * are: /sys/fs/cgroup. */
uint64_t group_memory_available(const char *groups, const char *root, uint64_t enough);

#endif
