/* SPDX-License-Identifier: MIT */
/* Messages between ranks that no MPI joins: torchrun, or whatever sets its variables, says where
 * rank 0 is, and plain TCP does the rest. It is what bp_mpi_library calls where it has one, so that
 * everything above is as with MPI: calls, heartbeats, failures.
 *
 * A connection per pair of ranks. Who wants a message says so (READY), and only then is it sent: so
 * nothing arrives that has no place to go, and nothing is allocated. */
#ifndef BP_DEVICE_FABRIC_TCP_H
#define BP_DEVICE_FABRIC_TCP_H

#include <sys/socket.h>

#include "core/base/error.h"
#include "device/fabric/launcher.h"

#define BP_TCP_RANKS_MAX    256
#define BP_TCP_REQUESTS_MAX 40 /* of one pair, that have not ended */
#define BP_TCP_PORTS        16 /* that are tried, from the first on */

typedef struct bp_tcp_frame {
    uint32_t kind; /* READY or DATA */
    int32_t tag;
    uint64_t bytes; /* of the message; of what follows */
} bp_tcp_frame;

typedef struct bp_tcp_request {
    bool used, sends, said; /* said: the other one knows that this is wanted */
    bool ready;             /* the other one wants it */
    bool done;
    int32_t tag;
    uint64_t bytes, moved;
    const unsigned char *from;
    unsigned char *to;
    struct bp_tcp_peer *peer;
} bp_tcp_request;

typedef struct bp_tcp_peer {
    int socket; /* -1: none */
    bool lost;
    bp_tcp_frame in, out;
    uint32_t in_bytes; /* of the frame's head that have come */
    uint32_t out_left; /* of its head that have to go */
    uint64_t in_left, out_data;
    bp_tcp_request *coming, *going;
    uint32_t ready_count; /* wanted by the other one, before it is given here */
    bp_tcp_frame ready[BP_TCP_REQUESTS_MAX];
    bp_tcp_request requests[BP_TCP_REQUESTS_MAX];
} bp_tcp_peer;

/* Where a rank listens. local: on rank 0's host, by the address that led to rank 0. */
typedef struct bp_tcp_endpoint {
    struct sockaddr_storage address;
    uint32_t length, local;
} bp_tcp_endpoint;

/* The messages of one process. Zero before it is connected; large: about 1.5 MB. */
typedef struct bp_tcp {
    uint32_t rank, size;
    int listening;
    bp_tcp_endpoint regions[BP_TCP_RANKS_MAX]; /* that rank 0 tells everybody */
    bp_tcp_peer peers[BP_TCP_RANKS_MAX];
} bp_tcp;

/* Whether a launcher has said where rank 0 is, and speaks no MPI. */
bool bp_tcp_takes(const bp_launcher *launcher);

/* Connects all pairs of ranks: rank 0 listens at the launcher's port (or the next ones that are
 * free), tells everybody where the others are, and they connect. BP_ERR_USAGE: no address, no port,
 * too many ranks; BP_ERR_FABRIC: a rank did not come within wait_ms. */
bp_status bp_tcp_connect(bp_tcp *tcp, const bp_launcher *launcher, uint64_t wait_ms,
                         bp_error *error) BP_MUST_CHECK;

/* Begin and test as MPI's do, by one thread: 0, or 1 where the peer is gone or asks for too much. A
 * message is as long as its receiver says, and of one pair and tag there is one under way. */
int bp_tcp_begin(bp_tcp *tcp, const void *from, void *to, uint64_t bytes, uint32_t peer,
                 int32_t tag, void **request);
int bp_tcp_test(void **request, int *done);

/* Gives the others time to read what was sent, and closes. */
void bp_tcp_close(bp_tcp *tcp);

#endif
