/* SPDX-License-Identifier: MIT */
/* How ranks come together: MPI starts, and each says who it is. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena/text.h"
#include "device/fabric/mpi_world.h"

static const char where[] = "mpi";

enum { MAGIC = 0x62706d31 }; /* with the form of bp_mpi_control */

void bp_mpi_control_text(char *field, size_t bytes, const char *text)
{
    size_t length = strnlen(text, bytes - 1);
    memcpy(field, text, length);
    memset(field + length, 0, bytes - length);
}

void bp_mpi_start_self(bp_mpi_world *world)
{
    bp_mpi_control *self = &world->self;
    struct stat space;
    self->magic = MAGIC;
    bp_mpi_control_text(self->version, sizeof self->version, world->options.version);
    if (gethostname(self->host, sizeof self->host - 1) != 0) {
        bp_mpi_control_text(self->host, sizeof self->host, "an unknown host");
    }
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, self->boot, sizeof self->boot - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    if (got > 0 && stat("/proc/self/ns/pid", &space) == 0) {
        self->process = (uint64_t)getpid();
        self->processes = (uint64_t)space.st_ino;
    }
}

void bp_mpi_rank_name(bp_text *out, uint32_t rank, const char *host)
{
    bp_text_string(out, "rank ");
    bp_text_u64(out, rank);
    if (host[0] != '\0') {
        bp_text_string(out, " on ");
        bp_text_string(out, host);
    }
}

/* Libraries that MPI loads put handlers of their own on these: the program's stay. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

enum { FAULTS = sizeof faults / sizeof faults[0] };

/* Who this rank is among how many, once MPI has started. */
static bp_status start_identity(bp_mpi_world *world, int provided, bp_error *error)
{
    int rank = -1;
    int size = 0;
    char words[BP_ERROR_NAME_MAX];
    const bp_mpi_library *library = &world->library;
    if (library->tcp != NULL) {
        world->rank = library->tcp->rank;
        world->size = library->tcp->size;
        return BP_OK;
    }
    if (provided < library->funneled) {
        bp_mpi_version(library, words, sizeof words);
        return bp_error_numbers(error, BP_ERR_DEVICE, where,
                                "this MPI has no support for threads (MPI_THREAD_FUNNELED)", words,
                                provided, library->funneled);
    }
    if (bp_mpi_rank(library, &rank) != 0 || bp_mpi_size(library, &size) != 0 || rank < 0 ||
        rank >= size) {
        return bp_error_set(error, BP_ERR_DEVICE, where,
                            "MPI does not report the rank of this process", library->file);
    }
    if ((uint32_t)size != world->options.launcher.size) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "the launcher started other ranks than this MPI finds; it belongs "
                                "to another MPI (--mpi FILE names the library)",
                                bp_launcher_text(world->options.launcher.kind), size,
                                world->options.launcher.size);
    }
    if (size > BP_MPI_RANKS_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "there are too many ranks", NULL, size,
                              BP_LIMIT_MOST, BP_MPI_RANKS_MAX);
    }
    world->rank = (uint32_t)rank;
    world->size = (uint32_t)size;
    return BP_OK;
}

bp_status bp_mpi_start_init(bp_mpi_world *world, bp_error *error)
{
    struct sigaction before[FAULTS];
    int provided = -1;
    char words[BP_ERROR_NAME_MAX];
    const bp_mpi_library *library = &world->library;
    if (library->tcp != NULL) {
        BP_TRY(
            bp_tcp_connect(library->tcp, &world->options.launcher, world->options.start_ms, error));
        return start_identity(world, 0, error);
    }
    for (int i = 0; i < FAULTS; i++) {
        sigaction(faults[i], NULL, &before[i]);
    }
    int result = bp_mpi_init(library, &provided);
    for (int i = 0; i < FAULTS; i++) {
        sigaction(faults[i], &before[i], NULL);
    }
    if (result != 0) {
        bp_mpi_words(library, result, words, sizeof words);
        return bp_error_set(error, BP_ERR_DEVICE, where, "MPI cannot start", words);
    }
    (void)bp_mpi_errors_return(library);
    bp_status status = start_identity(world, provided, error);
    if (status != BP_OK) {
        /* All ranks find the same here, so MPI can end. Before its end MPICH's launcher kills the
         * others when one leaves, and returns their signal in place of this one's code. */
        (void)bp_mpi_finalize(library);
    }
    return status;
}

bp_status bp_mpi_start_compare(const bp_mpi_world *world, bp_error *error)
{
    for (uint32_t i = 1; i < world->size; i++) {
        const bp_mpi_control *first = world->rank == 0 ? &world->self : &world->peers[0].hello;
        const bp_mpi_control *other = world->rank == i ? &world->self : &world->peers[i].hello;
        if (other->magic == first->magic &&
            memcmp(other->version, first->version, sizeof first->version) == 0) {
            continue;
        }
        char name[BP_ERROR_NAME_MAX];
        bp_text out;
        bp_text_init(&out, NULL, NULL, name, sizeof name);
        bp_mpi_rank_name(&out, i, other->host);
        bp_status written = bp_text_flush(&out);
        bp_status status = bp_error_set(error, BP_ERR_USAGE, where,
                                        "the ranks run different versions of the program",
                                        written == BP_OK ? name : NULL);
        bp_error_found(error, other->version, strnlen(other->version, sizeof other->version));
        bp_error_right(error, first->version);
        return status;
    }
    return BP_OK;
}
