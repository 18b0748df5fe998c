/* SPDX-License-Identifier: MIT */
/* The variables of launchers, in one table. */
#include "device/fabric/launcher.h"

#include <stdlib.h>

enum { DIGITS_MOST = 6 };

/* In the order of asking: mpirun under Slurm sets its own variables beside Slurm's, and each MPI's
 * mpirun may run inside a batch job. PMIx names no size; that is Slurm's then. SLURM_NTASKS and
 * SLURM_PROCID stand in batch scripts too, where there is one process: SLURM_STEP_NUM_TASKS does
 * not. */
static const struct launcher_row {
    bp_launcher_kind kind;
    const char *sign; /* this variable shows that the launcher was there */
    const char *rank, *size;
    const char *local;
    const char *text;
} rows[] = {
    {BP_LAUNCHER_OPENMPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "mpirun of Open MPI"},
    {BP_LAUNCHER_PMIX, "PMIX_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "a launcher with PMIx"},
    {BP_LAUNCHER_PMI, "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "mpirun of MPICH, or another launcher with PMI"},
    {BP_LAUNCHER_SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID", "srun without PMI"},
    {BP_LAUNCHER_TORCHRUN, "MASTER_ADDR", "RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun"},
};

/* A decimal number; false for anything else, which is malformed unless it is not there. */
static bool launcher_number(bp_launcher *launcher, bp_launcher_lookup lookup, const char *name,
                            uint32_t *number)
{
    const char *text = lookup(name);
    uint32_t value = 0;
    uint32_t digits = 0;
    while (text != NULL && text[digits] >= '0' && text[digits] <= '9' && digits <= DIGITS_MOST) {
        value = value * 10 + (uint32_t)(text[digits++] - '0');
    }
    *number = value;
    const bool good = digits > 0 && digits <= DIGITS_MOST && text[digits] == '\0';
    launcher->malformed = text != NULL && !good ? name : launcher->malformed;
    return good;
}

/* What one launcher says, whose sign is there; false: it lacks the rank or the size. */
static bool launcher_take(bp_launcher *launcher, bp_launcher_lookup lookup,
                          const struct launcher_row *row)
{
    uint32_t rank, size, local, port;
    if (!launcher_number(launcher, lookup, row->rank, &rank) ||
        !launcher_number(launcher, lookup, row->size, &size)) {
        return false;
    }
    if (rank >= size) {
        launcher->malformed = row->rank;
        return false;
    }
    *launcher = (bp_launcher){.kind = row->kind, .rank = rank, .size = size, .local_rank = rank};
    launcher->has_local = launcher_number(launcher, lookup, row->local, &local) ||
                          launcher_number(launcher, lookup, "SLURM_LOCALID", &local);
    launcher->local_rank = launcher->has_local ? local : rank;
    if (row->kind == BP_LAUNCHER_TORCHRUN || row->kind == BP_LAUNCHER_SLURM) {
        const char *store = lookup("TORCHELASTIC_USE_AGENT_STORE");
        launcher->address = lookup("MASTER_ADDR");
        launcher->port =
            launcher_number(launcher, lookup, "MASTER_PORT", &port) ? lookup("MASTER_PORT") : NULL;
        launcher->run = lookup("TORCHELASTIC_RUN_ID");
        launcher->port_taken = store != NULL && store[0] == 'T';
    }
    return true;
}

void bp_launcher_read(bp_launcher *launcher, bp_launcher_lookup lookup)
{
    *launcher = (bp_launcher){.size = 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (lookup(rows[i].sign) != NULL &&
            (launcher_take(launcher, lookup, &rows[i]) || launcher->malformed != NULL)) {
            return;
        }
    }
}

static const char *launcher_getenv(const char *name)
{
    return getenv(name);
}

void bp_launcher_find(bp_launcher *launcher)
{
    bp_launcher_read(launcher, launcher_getenv);
}

const char *bp_launcher_text(bp_launcher_kind kind)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].kind == kind) {
            return rows[i].text;
        }
    }
    return "no launcher";
}
