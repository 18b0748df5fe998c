/* SPDX-License-Identifier: MIT */
/* What the parts of the fabric over MPI call of each other. */
#ifndef BP_DEVICE_FABRIC_MPI_WORLD_H
#define BP_DEVICE_FABRIC_MPI_WORLD_H

#include "arena/text.h"
#include "device/fabric/mpi.h"

/* Starts MPI in this thread and asks who this is. As bp_mpi_world_open. */
bp_status bp_mpi_start_init(bp_mpi_world *world, bp_error *error) BP_MUST_CHECK;
/* Fills in who and where this process is. */
void bp_mpi_start_self(bp_mpi_world *world);
/* BP_ERR_USAGE: a rank, all of which have been met, runs another version. */
bp_status bp_mpi_start_compare(const bp_mpi_world *world, bp_error *error) BP_MUST_CHECK;

/* Copies a text into a field, cut to fit and filled with zeros. */
void bp_mpi_control_text(char *field, size_t bytes, const char *text);
/* "rank 3 on node7", or without a host */
void bp_mpi_rank_name(bp_text *out, uint32_t rank, const char *host);

/* A rank is lost in a call (NULL: in none): the failure of all. With the lock. */
bp_status bp_mpi_world_lose(bp_mpi_world *world, uint32_t rank, const bp_fabric_transfer *transfer,
                            const char *text);
/* This rank has found a failure; the first one stays. With the lock. */
bp_status bp_mpi_world_refuse(bp_mpi_world *world, bp_status status, const bp_error *error);

/* Moves what calls are under way; whether something came or went. By the communication thread,
 * without the lock. */
bool bp_mpi_collectives_poll(bp_mpi_world *world);
/* Whether a call under way still misses something of a rank. By the same thread. */
bool bp_mpi_collectives_miss(const bp_mpi_world *world, uint32_t rank);

#endif
