/* SPDX-License-Identifier: MIT */
/* What a launcher (mpirun, srun, torchrun) tells a process in environment variables. */
#ifndef BP_DEVICE_FABRIC_LAUNCHER_H
#define BP_DEVICE_FABRIC_LAUNCHER_H

#include "arena/base.h"

typedef enum bp_launcher_kind {
    BP_LAUNCHER_NONE,     /* started by hand */
    BP_LAUNCHER_OPENMPI,  /* mpirun of Open MPI */
    BP_LAUNCHER_PMIX,     /* another one that speaks PMIx, such as srun --mpi=pmix */
    BP_LAUNCHER_PMI,      /* mpirun of MPICH and its relatives, srun --mpi=pmi2 */
    BP_LAUNCHER_SLURM,    /* srun without any of these: copies that cannot find each other by MPI */
    BP_LAUNCHER_TORCHRUN, /* or what sets the same variables: addresses, no MPI */
    BP_LAUNCHERS
} bp_launcher_kind;

typedef struct bp_launcher {
    bp_launcher_kind kind;
    uint32_t rank;
    uint32_t size;               /* at least 1 */
    uint32_t local_rank;         /* among the ranks of this host; `rank` where nobody says */
    bool has_local;              /* somebody said */
    const char *malformed;       /* a variable whose value is no number, or a rank that is not
                                    below its size; NULL: none */
    const char *address;         /* TORCHRUN, SLURM: MASTER_ADDR; NULL: unknown */
    const char *port;            /* MASTER_PORT; NULL: unknown */
    const char *run;             /* what torchrun calls this run; NULL: nothing */
    bool port_taken;             /* torchrun's own agent listens there */
    const unsigned char *secret; /* what all ranks have to know; the caller's. NULL: nothing */
    size_t secret_bytes;
} bp_launcher;

/* Looks a variable up; getenv is one. */
typedef const char *(*bp_launcher_lookup)(const char *name);

/* Reads the variables; where several launchers have been at work, the innermost counts. Where
 * a variable of it is malformed, one of them is named. */
void bp_launcher_read(bp_launcher *launcher, bp_launcher_lookup lookup);

/* bp_launcher_read of this process's own environment. */
void bp_launcher_find(bp_launcher *launcher);

/* "mpirun of Open MPI", .. */
const char *bp_launcher_text(bp_launcher_kind kind);

#endif
