/* SPDX-License-Identifier: MIT */
/* --fabric mpi: this process is one of the ranks that a launcher started; joined by TCP where that
 * one speaks no MPI but says where rank 0 is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/version.h"
#include "device/fabric/leave.h"
#include "device/fabric/mpi.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/signals.h"
#include "tools/bedplate/app/commands.h"

enum {
    START_MS = 60000, /* hosts load a program from a slow disk, perhaps */
    SECRET_LEAST = 16,
    SECRET_MOST = 4096,
    ALONE_MS = 1000 /* the first rank speaks, and the launcher ends the others meanwhile */
};

static unsigned char secret[SECRET_MOST + 1]; /* --fabric-secret */
static bp_mpi_world world;                    /* large, and there can be one */
static bp_tcp messages;                       /* as large */
static bool said;                             /* why this rank ends, by itself */

static void nap(uint64_t ms)
{
    const struct timespec span = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&span, NULL);
}

static bool mpi_found(void)
{
    bp_launcher launcher;
    bp_launcher_find(&launcher);
    return launcher.size > 1 || launcher.malformed != NULL;
}

static void mpi_speak(void *user, const bp_error *error)
{
    (void)user;
    if (!said) {
        (void)report_error(error);
    }
    fflush(stdout);
}

static void mpi_fail(const bp_error *error)
{
    bp_mpi_world_fail(&world, error);
}

static void mpi_note(uint64_t step)
{
    bp_mpi_world_note(&world, step);
}

static const ranks_process process = {mpi_fail, mpi_note};

/* Nobody else can be reached. What is wrong in all ranks the first one says, what is wrong on a
 * host the first one there. */
static int mpi_alone(const bp_error *error, const bp_launcher *launcher)
{
    if (launcher->rank > 0) {
        nap(ALONE_MS);
    }
    if (launcher->rank == 0 ||
        (error->code != BP_ERR_USAGE && launcher->has_local && launcher->local_rank == 0)) {
        return report_error(error);
    }
    return bp_status_exit_code(error->code);
}

static bp_status mpi_check(const bp_launcher *launcher, const char *words, bp_error *error)
{
    static const char where[] = "mpi";
    if (words != NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where, "mpi is followed by nothing", "--fabric");
    }
    if (launcher->malformed != NULL) {
        const char *value = getenv(launcher->malformed);
        bp_status status =
            bp_error_set(error, BP_ERR_USAGE, where, "a launcher's variable has a wrong value",
                         launcher->malformed);
        bp_error_found(error, value, value != NULL ? strlen(value) : 0);
        bp_error_right(error, "a whole number of up to 6 digits, a rank below the number of "
                              "ranks, or --fabric none");
        return status;
    }
    if ((launcher->kind != BP_LAUNCHER_SLURM && launcher->kind != BP_LAUNCHER_TORCHRUN) ||
        bp_tcp_takes(launcher)) {
        return BP_OK;
    }
    bp_status status = bp_error_numbers(error, BP_ERR_USAGE, where,
                                        "the launcher started copies that cannot find each other "
                                        "by MPI",
                                        bp_launcher_text(launcher->kind), launcher->size, 1);
    bp_error_right(error, launcher->kind == BP_LAUNCHER_SLURM
                              ? "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), MASTER_ADDR and "
                                "MASTER_PORT, or --fabric none"
                              : "mpirun or srun, or --fabric none");
    return status;
}

/* What a rank that has said itself why it ends tells the others. */
static void mpi_end(int code)
{
    bp_error error = {.code = BP_OK};
    bp_status status = BP_ERR_USAGE;
    while (status < BP_ERR_INTERNAL && bp_status_exit_code(status) != code) {
        status = (bp_status)(status + 1);
    }
    if (bp_status_exit_code(status) !=
        code) { /* 8, a computation in doubt: the others lose a rank */
        status = BP_ERR_FABRIC;
    }
    said = bp_error_set(&error, status, "ranks", "a rank cannot continue", NULL) != BP_OK;
    mpi_fail(&error);
}

static int mpi_play(const settings *set, ranks *own, ranks_body body, bp_error *error)
{
    bp_fabric_options options = {.world = &world,
                                 .rank = own->rank,
                                 .size = own->size,
                                 .patience_ms = set->step_limit * 1000};
    ranks_group(set, own, &options);
    bp_status status = bp_fabric_mpi.open(own->context, &options, error);
    if (status == BP_OK) {
        status = bp_fabric_mpi.agree(own->context, ranks_version_digest(), error);
    }
    if (status != BP_OK) {
        mpi_fail(error);
        return bp_status_exit_code(status);
    }
    const int code = ranks_run_one(set, own, body);
    /* All ranks end together by a signal, for want of finite numbers or of spikes; else one has an
     * error. */
    if (code != 0 && code < 128 && code != EXIT_ANOMALY &&
        code != bp_status_exit_code(BP_ERR_NONFINITE)) {
        mpi_end(code);
    }
    bp_fabric_mpi.close(own->context);
    return code;
}

/* The bytes of --fabric-secret, without a newline at their end. */
static bp_status mpi_secret(const settings *set, bp_mpi_options *options, bp_error *error)
{
    static const char where[] = "mpi";
    if (set->fabric_secret == NULL) {
        return BP_OK;
    }
    if (options->tcp == NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "ranks that MPI joins know no secret: it is for those joined by TCP",
                            "--fabric-secret");
    }
    FILE *file = fopen(set->fabric_secret, "rb");
    size_t count = file != NULL ? fread(secret, 1, sizeof secret, file) : 0;
    const bool failed = file == NULL || ferror(file) != 0;
    if (file != NULL) {
        (void)fclose(file); /* it was only read */
    }
    if (failed) {
        return bp_error_set(error, BP_ERR_STORE, where, "the secret cannot be read",
                            set->fabric_secret);
    }
    count -= count > 0 && secret[count - 1] == '\n' ? 1 : 0;
    if (count < SECRET_LEAST || count > SECRET_MOST) {
        const bool few = count < SECRET_LEAST;
        return bp_error_limit(
            error, BP_ERR_USAGE, where, few ? "the secret is too short" : "the secret is too long",
            set->fabric_secret, (int64_t)count, few ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
            few ? SECRET_LEAST : SECRET_MOST);
    }
    options->launcher.secret = secret;
    options->launcher.secret_bytes = count;
    return BP_OK;
}

static int mpi_run(const settings *set, const char *words, ranks_body body)
{
    bp_error error = {.code = BP_OK};
    bp_mpi_options options = {.library = strcmp(set->mpi, "auto") == 0 ? NULL : set->mpi,
                              .version = BP_VERSION,
                              .start_ms = set->step_limit * 1000 < START_MS ? set->step_limit * 1000
                                                                            : START_MS,
                              .silence_ms = set->silence_limit * 1000,
                              .speak = mpi_speak};
    if (set->command == COMMAND_TRAIN) {
        signals_begin(strcmp(set->on_usr1, "stop") == 0); /* launchers pass on what comes early */
    }
    bp_launcher_find(&options.launcher);
    options.tcp = bp_tcp_takes(&options.launcher) && options.library == NULL ? &messages : NULL;
    if (mpi_check(&options.launcher, words, &error) != BP_OK ||
        mpi_secret(set, &options, &error) != BP_OK ||
        bp_mpi_world_open(&world, &options, &error) != BP_OK) {
        const int code = mpi_alone(&error, &options.launcher);
        if (error.code == BP_ERR_FABRIC) {
            bp_leave(code); /* MPI's start is still under way */
        }
        return code;
    }
    ranks own = {.fabric = &bp_fabric_mpi,
                 .context = malloc(bp_fabric_mpi.context_bytes),
                 .rank = world.rank,
                 .size = world.size,
                 .local = options.launcher.local_rank,
                 .process = &process};
    int code = bp_status_exit_code(BP_ERR_FIT);
    if (own.context == NULL) {
        output_print(stderr, "bedplate: --fabric: no memory for the fabric\n");
        mpi_end(code);
    } else {
        for (uint32_t i = 0; i < own.size; i++) {
            own.beside +=
                strcmp(bp_mpi_world_host(&world, i), bp_mpi_world_host(&world, own.rank)) == 0;
        }
        snprintf(own.host, sizeof own.host, "%s", bp_mpi_world_host(&world, world.rank));
        code = mpi_play(set, &own, body, &error);
    }
    if (!bp_mpi_world_close(&world)) {
        fflush(stdout);
        bp_leave(code);
    }
    free(own.context);
    return code;
}

const ranks_engine ranks_mpi = {"mpi", mpi_found, mpi_run};
