/* SPDX-License-Identifier: MIT */
/* What launchers set, as found in their processes, and what must not be taken for a launcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/fabric/launcher.h"

static const char *const *variables; /* name, value, .., NULL */

static const char *lookup(const char *name)
{
    for (const char *const *v = variables; *v != NULL; v += 2) {
        if (strcmp(v[0], name) == 0) {
            return v[1];
        }
    }
    return NULL;
}

typedef struct row {
    const char *variables[16];
    bp_launcher_kind kind;
    uint32_t rank, size, local;
    const char *malformed;
} row;

static const row rows[] = {
    {{NULL}, BP_LAUNCHER_NONE, 0, 1, 0, NULL},
    {{"OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
      "PMIX_RANK", "3"},
     BP_LAUNCHER_OPENMPI,
     3,
     4,
     1,
     NULL},
    /* mpirun in a batch job: what Slurm says is of the job, not of these processes */
    {{"OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "2", "SLURM_PROCID", "0",
      "SLURM_STEP_NUM_TASKS", "2", "SLURM_LOCALID", "0"},
     BP_LAUNCHER_OPENMPI,
     2,
     4,
     0,
     NULL},
    {{"PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALRANKID", "1"}, BP_LAUNCHER_PMI, 1, 2, 1, NULL},
    /* srun --mpi=pmi2 */
    {{"PMI_RANK", "5", "PMI_SIZE", "8", "SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "8",
      "SLURM_LOCALID", "2"},
     BP_LAUNCHER_PMI,
     5,
     8,
     2,
     NULL},
    /* srun --mpi=pmix */
    {{"PMIX_RANK", "5", "SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "8", "SLURM_LOCALID", "1"},
     BP_LAUNCHER_PMIX,
     5,
     8,
     1,
     NULL},
    {{"SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_LOCALID", "0"},
     BP_LAUNCHER_SLURM,
     1,
     2,
     0,
     NULL},
    /* a batch script's own process */
    {{"SLURM_PROCID", "0", "SLURM_NTASKS", "8"}, BP_LAUNCHER_NONE, 0, 1, 0, NULL},
    {{"RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "MASTER_ADDR", "node1", "MASTER_PORT",
      "29500"},
     BP_LAUNCHER_TORCHRUN,
     3,
     4,
     1,
     NULL},
    {{"RANK", "3", "WORLD_SIZE", "4"}, BP_LAUNCHER_NONE, 0, 1, 0, NULL},
    /* no numbers, and a rank outside of the size */
    {{"OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "4"},
     BP_LAUNCHER_NONE,
     0,
     1,
     0,
     "OMPI_COMM_WORLD_RANK"},
    {{"OMPI_COMM_WORLD_SIZE", "", "OMPI_COMM_WORLD_RANK", "0"},
     BP_LAUNCHER_NONE,
     0,
     1,
     0,
     "OMPI_COMM_WORLD_SIZE"},
    {{"PMI_RANK", "-1", "PMI_SIZE", "2"}, BP_LAUNCHER_NONE, 0, 1, 0, "PMI_RANK"},
    {{"PMI_RANK", "1", "PMI_SIZE", "2x"}, BP_LAUNCHER_NONE, 0, 1, 0, "PMI_SIZE"},
    {{"PMI_RANK", "1", "PMI_SIZE", "99999999999999"}, BP_LAUNCHER_NONE, 0, 1, 0, "PMI_SIZE"},
    {{"PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALRANKID", "0x1"},
     BP_LAUNCHER_PMI,
     1,
     2,
     1,
     "MPI_LOCALRANKID"},
    {{"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT", "29500x"},
     BP_LAUNCHER_TORCHRUN,
     1,
     2,
     1,
     "MASTER_PORT"},
    {{"PMI_RANK", "1"}, BP_LAUNCHER_NONE, 0, 1, 0, NULL},
};

/* verifies ranks-18.4f4a */
static void variables_say_which_rank_this_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_launcher launcher;
        variables = rows[i].variables;
        bp_launcher_read(&launcher, lookup);
        assert_int_equal(launcher.kind, rows[i].kind);
        assert_int_equal(launcher.rank, rows[i].rank);
        assert_int_equal(launcher.size, rows[i].size);
        assert_int_equal(launcher.local_rank, rows[i].local);
        assert_true(launcher.malformed == rows[i].malformed ||
                    strcmp(launcher.malformed, rows[i].malformed) == 0);
        assert_true(launcher.size == 1 || strlen(bp_launcher_text(launcher.kind)) > 4);
    }
}

/* verifies ranks-18.4f4a */
static void addresses_are_torchruns(void **state)
{
    bp_launcher launcher;
    (void)state;
    variables = rows[8].variables;
    bp_launcher_read(&launcher, lookup);
    assert_string_equal(launcher.address, "node1");
    assert_string_equal(launcher.port, "29500");
    assert_string_equal(bp_launcher_text(BP_LAUNCHER_NONE), "no launcher");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_say_which_rank_this_is),
        cmocka_unit_test(addresses_are_torchruns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
