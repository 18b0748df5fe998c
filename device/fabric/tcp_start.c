/* SPDX-License-Identifier: MIT */
/* How ranks find each other without MPI: rank 0 listens where everybody was told. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "arena/text.h"
#include "core/base/digest.h"
#include "device/fabric/tcp.h"

static const char where[] = "tcp";

enum {
    MAGIC = 0x62707431,
    AGAIN_MS = 100,  /* between attempts to reach a rank */
    HELLO_MS = 5000, /* for who has connected to say who it is */
    PORT_MOST = 65535
};

/* What a rank says when it has connected; the first one answers. */
typedef struct tcp_hello {
    uint32_t magic, rank, size;
    uint32_t port; /* at which this rank listens, too */
    uint64_t run;  /* digest of what the launcher calls this run */
} tcp_hello;

typedef struct tcp_start {
    bp_tcp *tcp;
    const bp_launcher *launcher;
    uint64_t until;
    tcp_hello self;
    struct sockaddr_storage first; /* the address at which rank 0 was reached */
    uint32_t first_bytes;
} tcp_start;

static uint64_t tcp_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

static void tcp_nap(void)
{
    const struct timespec span = {0, AGAIN_MS * 1000000};
    nanosleep(&span, NULL);
}

bool bp_tcp_takes(const bp_launcher *launcher)
{
    return launcher->address != NULL &&
           (launcher->kind == BP_LAUNCHER_TORCHRUN || launcher->kind == BP_LAUNCHER_SLURM);
}

static bp_status tcp_late(const tcp_start *start, uint32_t rank, const char *text, bp_error *error)
{
    char name[BP_ERROR_NAME_MAX];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "rank ");
    bp_text_u64(&out, rank);
    bp_text_string(&out, " by ");
    bp_text_string(&out, start->launcher->address);
    bp_text_string(&out, " port ");
    bp_text_string(&out, start->launcher->port);
    bp_status cut = bp_text_flush(&out);
    (void)cut; /* a longer address is cut, which is all right */
    return bp_error_set(error, BP_ERR_FABRIC, where, text, name);
}

/* Sends or gets all of a record, in time. */
static bool tcp_all(int socket, void *to, const void *from, size_t bytes, uint64_t until)
{
    size_t done = 0;
    while (done < bytes) {
        const uint64_t now = tcp_now();
        struct pollfd at = {.fd = socket, .events = to != NULL ? POLLIN : POLLOUT};
        if (now >= until || poll(&at, 1, (int)(until - now)) <= 0) {
            return false;
        }
        ssize_t moved = to != NULL ? recv(socket, (unsigned char *)to + done, bytes - done, 0)
                                   : send(socket, (const unsigned char *)from + done, bytes - done,
                                          MSG_NOSIGNAL);
        if (moved <= 0 && errno != EINTR && errno != EAGAIN) {
            return false;
        }
        if (moved == 0) {
            return false;
        }
        done += moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static void tcp_keep(bp_tcp *tcp, uint32_t rank, int socket)
{
    const int yes = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)fcntl(socket, F_SETFL, O_NONBLOCK);
    tcp->peers[rank].socket = socket;
}

/* A socket that listens at a port of every address; -1: the port is taken. 0: any port. */
static int tcp_listen(int family, uint32_t port, int most)
{
    struct sockaddr_storage address;
    const int yes = 1;
    memset(&address, 0, sizeof address);
    address.ss_family = (sa_family_t)family;
    if (family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)&address)->sin6_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in *)(void *)&address)->sin_port = htons((uint16_t)port);
    }
    int made = socket(family, SOCK_STREAM, 0);
    if (made < 0) {
        return -1;
    }
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const socklen_t bytes =
        family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(made, (struct sockaddr *)&address, bytes) != 0 || listen(made, most) != 0) {
        close(made);
        return -1;
    }
    return made;
}

static void address_port(struct sockaddr_storage *address, uint32_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
    }
}

static bool address_local(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    }
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* A connection that has said hello; -1: nobody is there now. */
static int tcp_reach(const tcp_start *start, const struct sockaddr_storage *address, uint32_t bytes)
{
    int made = socket(address->ss_family, SOCK_STREAM, 0);
    if (made < 0) {
        return -1;
    }
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    if (connect(made, (const struct sockaddr *)address, (socklen_t)bytes) == 0 &&
        tcp_all(made, NULL, &start->self, sizeof start->self, tcp_now() + HELLO_MS)) {
        return made;
    }
    close(made);
    return -1;
}

/* Takes the ranks [from, size) in, in any order; whoever says something else is sent away. */
static bp_status tcp_accept(tcp_start *start, uint32_t from, const char *text, bp_error *error)
{
    bp_tcp *tcp = start->tcp;
    uint32_t missing = tcp->size - from;
    while (missing > 0) {
        const uint64_t now = tcp_now();
        struct pollfd at = {.fd = tcp->listening, .events = POLLIN};
        if (now >= start->until || poll(&at, 1, (int)(start->until - now)) == 0) {
            uint32_t lost = from;
            while (tcp->peers[lost].socket >= 0) {
                lost++;
            }
            return tcp_late(start, lost, text, error);
        }
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        tcp_hello hello;
        int came = accept(tcp->listening, (struct sockaddr *)&address, &bytes);
        if (came < 0) {
            continue;
        }
        (void)fcntl(came, F_SETFD, FD_CLOEXEC);
        if (!tcp_all(came, &hello, NULL, sizeof hello, tcp_now() + HELLO_MS) ||
            hello.magic != MAGIC || hello.size != tcp->size || hello.run != start->self.run ||
            hello.rank < from || hello.rank >= tcp->size || tcp->peers[hello.rank].socket >= 0 ||
            (tcp->rank == 0 &&
             !tcp_all(came, NULL, &start->self, sizeof start->self, tcp_now() + HELLO_MS))) {
            close(came);
            continue;
        }
        bp_tcp_place *place = &start->tcp->places[hello.rank];
        place->address = address;
        place->length = (uint32_t)bytes;
        place->local = address_local(&address);
        address_port(&place->address, hello.port);
        tcp_keep(tcp, hello.rank, came);
        missing--;
    }
    return BP_OK;
}

/* The first port that counts: torchrun's agent listens at its own. */
static uint32_t tcp_port(const bp_launcher *launcher)
{
    const unsigned long port = launcher->port != NULL ? strtoul(launcher->port, NULL, 10) : 0;
    return port > PORT_MOST - BP_TCP_PORTS || port == 0 ? 0 : (uint32_t)port + launcher->port_taken;
}

static bp_status first_listens(tcp_start *start, const struct addrinfo *found, bp_error *error)
{
    const uint32_t port = tcp_port(start->launcher);
    start->tcp->listening = -1;
    for (uint32_t i = 0; i < BP_TCP_PORTS && start->tcp->listening < 0; i++) {
        start->tcp->listening = tcp_listen(found->ai_family, port + i, (int)start->tcp->size);
    }
    if (start->tcp->listening < 0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "rank 0 cannot listen at the launcher's port, nor at the next ones",
                            "MASTER_PORT");
    }
    BP_TRY(tcp_accept(start, 1, "a rank did not come in time", error));
    for (uint32_t i = 1; i < start->tcp->size; i++) {
        if (!tcp_all(start->tcp->peers[i].socket, NULL, start->tcp->places,
                     start->tcp->size * sizeof start->tcp->places[0], start->until)) {
            return tcp_late(start, i, "a rank left as it came", error);
        }
    }
    return BP_OK;
}

/* Rank 0 may have come later, or listen at a later port. */
static bp_status other_finds(tcp_start *start, const struct addrinfo *found, bp_error *error)
{
    const uint32_t port = tcp_port(start->launcher);
    for (uint32_t i = 0; tcp_now() < start->until; i++) {
        const struct addrinfo *at = found;
        tcp_hello answer;
        for (uint32_t k = 0; k < i / BP_TCP_PORTS % 4 && at->ai_next != NULL; k++) {
            at = at->ai_next;
        }
        memset(&start->first, 0, sizeof start->first);
        memcpy(&start->first, at->ai_addr, at->ai_addrlen);
        start->first_bytes = (uint32_t)at->ai_addrlen;
        address_port(&start->first, port + i % BP_TCP_PORTS);
        int made = tcp_reach(start, &start->first, start->first_bytes);
        if (made >= 0 && tcp_all(made, &answer, NULL, sizeof answer, tcp_now() + HELLO_MS) &&
            answer.magic == MAGIC && answer.run == start->self.run) {
            tcp_keep(start->tcp, 0, made);
            return tcp_all(made, start->tcp->places, NULL,
                           start->tcp->size * sizeof start->tcp->places[0], start->until)
                       ? BP_OK
                       : tcp_late(start, 0, "a rank did not come in time", error);
        }
        if (made >= 0) {
            close(made);
        }
        if (i % BP_TCP_PORTS == BP_TCP_PORTS - 1) {
            tcp_nap();
        }
    }
    return tcp_late(start, 0, "rank 0 cannot be reached", error);
}

/* Ranks reach those below them, and are reached by those above. */
static bp_status others_meet(tcp_start *start, bp_error *error)
{
    bp_tcp *tcp = start->tcp;
    for (uint32_t i = 1; i < tcp->rank; i++) {
        const bp_tcp_place *place = &start->tcp->places[i];
        struct sockaddr_storage address = place->address;
        if (place->local != 0) { /* seen from rank 0; from here it is where rank 0 is */
            const struct sockaddr_storage told = address;
            address = start->first;
            address_port(&address,
                         ntohs(told.ss_family == AF_INET6
                                   ? ((const struct sockaddr_in6 *)(const void *)&told)->sin6_port
                                   : ((const struct sockaddr_in *)(const void *)&told)->sin_port));
        }
        int made = -1;
        while (made < 0 && tcp_now() < start->until) {
            made = tcp_reach(start, &address, place->length);
            if (made < 0) {
                tcp_nap();
            }
        }
        if (made < 0) {
            return tcp_late(start, i, "a rank cannot be reached", error);
        }
        tcp_keep(tcp, i, made);
    }
    return tcp->rank + 1 < tcp->size
               ? tcp_accept(start, tcp->rank + 1, "a rank did not come in time", error)
               : BP_OK;
}

/* Every rank but the first listens at a port of its own. */
static bp_status other_listens(tcp_start *start, const struct addrinfo *found, bp_error *error)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    start->tcp->listening = tcp_listen(found->ai_family, 0, (int)start->tcp->size);
    if (start->tcp->listening < 0 ||
        getsockname(start->tcp->listening, (struct sockaddr *)&address, &bytes) != 0) {
        return bp_error_set(error, BP_ERR_FABRIC, where, "a rank cannot listen at any port", "");
    }
    start->self.port =
        ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                                            : ((struct sockaddr_in *)(void *)&address)->sin_port);
    return BP_OK;
}

static bp_status tcp_begin(tcp_start *start, bp_error *error)
{
    const bp_launcher *launcher = start->launcher;
    struct addrinfo wanted, *found = NULL;
    if (tcp_port(launcher) == 0 || launcher->size > BP_TCP_RANKS_MAX) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "ranks without MPI take MASTER_ADDR, a MASTER_PORT below 65520, and "
                            "at most 256 of them",
                            launcher->port);
    }
    memset(&wanted, 0, sizeof wanted);
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    int result = getaddrinfo(launcher->address, NULL, &wanted, &found);
    if (result != 0) {
        bp_status status = bp_error_set(error, BP_ERR_USAGE, where, "MASTER_ADDR is not known",
                                        gai_strerror(result));
        bp_error_found(error, launcher->address, strnlen(launcher->address, BP_ERROR_WORD_MAX));
        return status;
    }
    bp_status status = BP_OK;
    if (launcher->size > 1 && launcher->rank == 0) {
        status = first_listens(start, found, error);
    } else if (launcher->size > 1) {
        status = other_listens(start, found, error);
        status = status == BP_OK ? other_finds(start, found, error) : status;
        status = status == BP_OK ? others_meet(start, error) : status;
    }
    freeaddrinfo(found);
    return status;
}

bp_status bp_tcp_connect(bp_tcp *tcp, const bp_launcher *launcher, uint64_t wait_ms,
                         bp_error *error)
{
    const char *run = launcher->run != NULL ? launcher->run : "";
    tcp->rank = launcher->rank;
    tcp->size = launcher->size;
    tcp->listening = -1;
    for (uint32_t i = 0; i < BP_TCP_RANKS_MAX; i++) {
        tcp->peers[i].socket = -1;
    }
    tcp_start start = {.tcp = tcp,
                       .launcher = launcher,
                       .until = tcp_now() + wait_ms,
                       .self = {.magic = MAGIC,
                                .rank = launcher->rank,
                                .size = launcher->size,
                                .run = bp_digest_of(run, strlen(run), 0)}};
    bp_status status = tcp_begin(&start, error);
    if (tcp->listening >= 0) {
        close(tcp->listening);
    }
    tcp->listening = -1;
    if (status != BP_OK) {
        bp_tcp_close(tcp);
    }
    return status;
}
