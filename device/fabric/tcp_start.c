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
#include "core/base/hmac.h"
#include "device/fabric/tcp.h"

static const char where[] = "tcp";

enum {
    MAGIC = 0x62707433,
    TAKEN = 'k',     /* the one byte that says: this rank is in */
    AGAIN_MS = 100,  /* between attempts to reach a rank */
    HELLO_MS = 5000, /* for who has connected to say who it is */
    GUESTS = 64,     /* connections that have not said so yet; of more the oldest goes */
    PORT_MOST = 65535
};

/* What a rank says when it has connected; it is answered by the same of the other side and a proof
 * that this one knows the secret, answers with a proof of its own, and gets TAKEN. */
typedef struct tcp_hello {
    uint32_t magic, rank, size;
    uint32_t port;           /* at which this rank listens, too */
    uint64_t run;            /* digest of what the launcher calls this run */
    unsigned char nonce[16]; /* never used before */
} tcp_hello;

typedef struct tcp_answer {
    tcp_hello hello;
    unsigned char proof[BP_SHA256_BYTES];
} tcp_answer;

/* Who has connected, while it says hello, and then while it proves that it knows the secret. */
typedef struct tcp_guest {
    int socket; /* -1: none */
    bool answered;
    uint64_t since;
    size_t got; /* bytes of what is awaited */
    tcp_hello hello, own;
    unsigned char proof[BP_SHA256_BYTES];
    struct sockaddr_storage address;
    socklen_t address_bytes;
} tcp_guest;

typedef struct tcp_start {
    bp_tcp *tcp;
    const bp_launcher *launcher;
    uint64_t until;
    tcp_hello self;
    bool anywhere;                 /* at which address to listen nobody says */
    bool other_secret;             /* somebody of this run had one */
    struct sockaddr_storage first; /* the address at which rank 0 was reached */
    uint32_t first_bytes;
    tcp_guest guests[GUESTS];
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

/* Bytes that were never used before; false: the system has none. */
static bool tcp_nonce(unsigned char nonce[16])
{
    const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? read(file, nonce, 16) : -1;
    if (file >= 0) {
        close(file);
    }
    return got == 16;
}

/* What shows that a side knows the secret: both hellos under it, and whose proof it is. */
static void tcp_prove(const tcp_start *start, unsigned char side, const tcp_hello *came,
                      const tcp_hello *answer, unsigned char proof[BP_SHA256_BYTES])
{
    unsigned char words[1 + 2 * sizeof *came];
    words[0] = side;
    memcpy(words + 1, came, sizeof *came);
    memcpy(words + 1 + sizeof *came, answer, sizeof *answer);
    bp_hmac_sha256(start->launcher->secret, start->launcher->secret_bytes, words, sizeof words,
                   proof);
}

static void tcp_keep(bp_tcp *tcp, uint32_t rank, int socket)
{
    const int yes = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)fcntl(socket, F_SETFL, O_NONBLOCK);
    tcp->peers[rank].socket = socket;
}

static void address_port(struct sockaddr_storage *address, uint32_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
    } else {
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
    }
}

static uint32_t address_port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static bool address_local(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    }
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* A socket that listens at a port of an address; -1: the port is taken, or errno is
 * EADDRNOTAVAIL. Port 0: any. */
static int tcp_listen(const tcp_start *start, const struct sockaddr *at, socklen_t bytes,
                      uint32_t port)
{
    struct sockaddr_storage address;
    const int yes = 1;
    memset(&address, 0, sizeof address);
    memcpy(&address, at, bytes);
    if (start->anywhere) {
        memset(&address, 0, sizeof address);
        address.ss_family = at->sa_family;
    }
    address_port(&address, port);
    int made = socket(address.ss_family, SOCK_STREAM, 0);
    if (made < 0) {
        return -1;
    }
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    (void)fcntl(made, F_SETFL, O_NONBLOCK);
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(made, (struct sockaddr *)&address, bytes) != 0 ||
        listen(made, (int)start->tcp->size + GUESTS) != 0) {
        const int why = errno;
        close(made);
        errno = why;
        return -1;
    }
    return made;
}

/* A name that this host knows as its own loopback, as Debian's /etc/hosts has it, does not say
 * where the others look for it: then a rank listens at every address. */
static bool tcp_anywhere(const bp_launcher *launcher, const struct addrinfo *found)
{
    struct sockaddr_storage address;
    struct addrinfo wanted, *number = NULL;
    memset(&wanted, 0, sizeof wanted);
    wanted.ai_flags = AI_NUMERICHOST;
    const bool numeric = getaddrinfo(launcher->address, NULL, &wanted, &number) == 0;
    if (numeric) {
        freeaddrinfo(number);
    }
    memset(&address, 0, sizeof address);
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    return !numeric && strcmp(launcher->address, "localhost") != 0 && address_local(&address);
}

/* A rank but the first listens where it reached the first one from, and says its port. */
static bool tcp_listen_beside(tcp_start *start, int made)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getsockname(made, (struct sockaddr *)&address, &bytes) != 0) {
        return false;
    }
    if (start->tcp->listening >= 0) {
        close(start->tcp->listening);
    }
    start->tcp->listening = tcp_listen(start, (const struct sockaddr *)&address, bytes, 0);
    bytes = sizeof address;
    if (start->tcp->listening < 0 ||
        getsockname(start->tcp->listening, (struct sockaddr *)&address, &bytes) != 0) {
        return false;
    }
    start->self.port = address_port_of(&address);
    return true;
}

/* Each side shows that it knows the secret. The other side may have closed the connection before
 * the proof came (a host that stood still for HELLO_MS, more strangers than it listens to): only
 * the byte that it sends back says that this rank is in, and without it the rank comes again. */
static bool tcp_greet(tcp_start *start, int made, uint32_t rank)
{
    tcp_answer answer;
    unsigned char proof[BP_SHA256_BYTES], taken = 0;
    const uint64_t until = tcp_now() + HELLO_MS;
    if (!tcp_nonce(start->self.nonce) ||
        !tcp_all(made, NULL, &start->self, sizeof start->self, until) ||
        !tcp_all(made, &answer, NULL, sizeof answer, until) || answer.hello.magic != MAGIC ||
        answer.hello.run != start->self.run || answer.hello.size != start->self.size ||
        answer.hello.rank != rank) {
        return false;
    }
    tcp_prove(start, 'a', &start->self, &answer.hello, proof);
    if (!bp_hmac_same(proof, answer.proof)) {
        start->other_secret = true;
        return false;
    }
    tcp_prove(start, 'c', &start->self, &answer.hello, proof);
    return tcp_all(made, NULL, proof, sizeof proof, until) &&
           tcp_all(made, &taken, NULL, 1, start->until) && taken == TAKEN;
}

/* A connection to a rank that knows the secret; -1: it is not there now. */
static int tcp_reach(tcp_start *start, uint32_t rank, const struct sockaddr_storage *address,
                     uint32_t bytes)
{
    int made = socket(address->ss_family, SOCK_STREAM, 0);
    if (made < 0) {
        return -1;
    }
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    if (connect(made, (const struct sockaddr *)address, (socklen_t)bytes) == 0 &&
        (rank > 0 || tcp_listen_beside(start, made)) && tcp_greet(start, made, rank)) {
        return made;
    }
    close(made);
    return -1;
}

static void guest_leaves(tcp_guest *guest)
{
    if (guest->socket >= 0) {
        close(guest->socket);
    }
    guest->socket = -1;
}

/* A place for who connects: a free one, else that of who has been silent for longest. */
static void guest_comes(tcp_start *start)
{
    tcp_guest *guest = &start->guests[0];
    for (uint32_t i = 0; i < GUESTS && guest->socket >= 0; i++) {
        tcp_guest *other = &start->guests[i];
        guest = other->socket < 0 || other->since < guest->since ? other : guest;
    }
    guest_leaves(guest);
    *guest = (tcp_guest){.since = tcp_now(), .address_bytes = sizeof guest->address};
    guest->socket =
        accept(start->tcp->listening, (struct sockaddr *)&guest->address, &guest->address_bytes);
    if (guest->socket >= 0) {
        (void)fcntl(guest->socket, F_SETFD, FD_CLOEXEC);
        (void)fcntl(guest->socket, F_SETFL, O_NONBLOCK);
    }
}

/* Whether a hello is that of a rank that is awaited; then it is answered. */
static bool guest_answer(tcp_start *start, tcp_guest *guest, uint32_t from)
{
    const bp_tcp *tcp = start->tcp;
    const tcp_hello *hello = &guest->hello;
    tcp_answer answer = {.hello = start->self};
    if (hello->magic != MAGIC || hello->size != tcp->size || hello->run != start->self.run ||
        hello->rank < from || hello->rank >= tcp->size || tcp->peers[hello->rank].socket >= 0 ||
        !tcp_nonce(answer.hello.nonce)) {
        return false;
    }
    guest->own = answer.hello;
    tcp_prove(start, 'a', hello, &guest->own, answer.proof);
    guest->answered = true;
    guest->got = 0;
    return send(guest->socket, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer;
}

/* It has proved it: it is the rank that it says. */
static bool guest_stays(tcp_start *start, tcp_guest *guest)
{
    unsigned char proof[BP_SHA256_BYTES];
    const unsigned char taken = TAKEN;
    const uint32_t rank = guest->hello.rank;
    tcp_prove(start, 'c', &guest->hello, &guest->own, proof);
    if (!bp_hmac_same(proof, guest->proof)) {
        start->other_secret = true;
        return false;
    }
    if (start->tcp->peers[rank].socket >= 0) {
        return false; /* it came twice */
    }
    if (send(guest->socket, &taken, 1, MSG_NOSIGNAL) != 1) {
        return false; /* it has left; it may come again */
    }
    bp_tcp_endpoint *place = &start->tcp->regions[rank];
    place->address = guest->address;
    place->length = (uint32_t)guest->address_bytes;
    place->local = address_local(&guest->address);
    address_port(&place->address, guest->hello.port);
    tcp_keep(start->tcp, rank, guest->socket);
    guest->socket = -1;
    return true;
}

/* Reads what has come of it; true: it is a rank from now on. Whoever says something else goes. */
static bool guest_reads(tcp_start *start, tcp_guest *guest, uint32_t from)
{
    unsigned char *to = guest->answered ? guest->proof : (unsigned char *)&guest->hello;
    const size_t wanted = guest->answered ? sizeof guest->proof : sizeof guest->hello;
    const ssize_t got = recv(guest->socket, to + guest->got, wanted - guest->got, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return false;
    }
    guest->got += got > 0 ? (size_t)got : 0;
    if (got > 0 && guest->got < wanted) {
        return false;
    }
    if (got > 0 && guest->answered && guest_stays(start, guest)) {
        return true;
    }
    if (got <= 0 || guest->answered || !guest_answer(start, guest, from)) {
        /* An answered one that leaves did not believe it: so it is where secrets differ. */
        start->other_secret = start->other_secret || (got <= 0 && guest->answered);
        guest_leaves(guest);
    }
    return false;
}

/* Waits until one of those who have connected says something, or another one comes. How many are
 * ranks from now on. */
static uint32_t tcp_listen_once(tcp_start *start, uint32_t from)
{
    struct pollfd at[GUESTS + 1];
    tcp_guest *who[GUESTS + 1];
    nfds_t count = 1;
    uint32_t came = 0;
    uint64_t now = tcp_now(), until = start->until;
    at[0] = (struct pollfd){.fd = start->tcp->listening, .events = POLLIN};
    for (uint32_t i = 0; i < GUESTS; i++) {
        tcp_guest *guest = &start->guests[i];
        if (guest->socket >= 0 && now - guest->since >= HELLO_MS) {
            guest_leaves(guest);
        }
        if (guest->socket >= 0) {
            until = guest->since + HELLO_MS < until ? guest->since + HELLO_MS : until;
            at[count] = (struct pollfd){.fd = guest->socket, .events = POLLIN};
            who[count++] = guest;
        }
    }
    if (poll(at, count, until > now ? (int)(until - now) : 0) <= 0) {
        return 0;
    }
    for (nfds_t i = 1; i < count; i++) {
        came += at[i].revents != 0 && guest_reads(start, who[i], from) ? 1 : 0;
    }
    if (at[0].revents != 0) {
        guest_comes(start);
    }
    return came;
}

/* Takes the ranks [from, size) in, in any order and beside each other. */
static bp_status tcp_accept(tcp_start *start, uint32_t from, bp_error *error)
{
    bp_tcp *tcp = start->tcp;
    uint32_t missing = tcp->size - from;
    for (uint32_t i = 0; i < GUESTS; i++) {
        start->guests[i].socket = -1;
    }
    while (missing > 0 && tcp_now() < start->until) {
        missing -= tcp_listen_once(start, from);
    }
    for (uint32_t i = 0; i < GUESTS; i++) {
        guest_leaves(&start->guests[i]);
    }
    if (missing == 0) {
        return BP_OK;
    }
    uint32_t lost = from;
    while (tcp->peers[lost].socket >= 0) {
        lost++;
    }
    return tcp_late(start, lost,
                    start->other_secret ? "a rank did not come in time, and one that came has "
                                          "another secret (--fabric-secret)"
                                        : "a rank did not come in time",
                    error);
}

/* The first port that counts: torchrun's agent listens at its own. */
static uint32_t tcp_port(const bp_launcher *launcher)
{
    const unsigned long port = launcher->port != NULL ? strtoul(launcher->port, NULL, 10) : 0;
    return port > PORT_MOST - BP_TCP_PORTS || port == 0 ? 0 : (uint32_t)port + launcher->port_taken;
}

/* At the first of rank 0's addresses that is this host's. Where none is, another machine passes
 * what comes for it on, and it listens everywhere. */
static void first_opens(tcp_start *start, const struct addrinfo *found)
{
    const uint32_t port = tcp_port(start->launcher);
    for (int tries = 0; tries < 2 && start->tcp->listening < 0; tries++) {
        bool ours = false;
        for (uint32_t i = 0; i < BP_TCP_PORTS && start->tcp->listening < 0; i++) {
            const struct addrinfo *at = found;
            for (; at != NULL && start->tcp->listening < 0; at = at->ai_next) {
                errno = 0;
                start->tcp->listening = tcp_listen(start, at->ai_addr, at->ai_addrlen, port + i);
                ours = ours || errno != EADDRNOTAVAIL;
            }
        }
        if (ours) {
            return;
        }
        start->anywhere = true;
    }
}

static bp_status first_listens(tcp_start *start, const struct addrinfo *found, bp_error *error)
{
    first_opens(start, found);
    if (start->tcp->listening < 0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "rank 0 cannot listen at the launcher's port, nor at the next ones",
                            "MASTER_PORT");
    }
    BP_TRY(tcp_accept(start, 1, error));
    for (uint32_t i = 1; i < start->tcp->size; i++) {
        if (!tcp_all(start->tcp->peers[i].socket, NULL, start->tcp->regions,
                     start->tcp->size * sizeof start->tcp->regions[0], start->until)) {
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
        for (uint32_t k = 0; k < i / BP_TCP_PORTS % 4 && at->ai_next != NULL; k++) {
            at = at->ai_next;
        }
        memset(&start->first, 0, sizeof start->first);
        memcpy(&start->first, at->ai_addr, at->ai_addrlen);
        start->first_bytes = (uint32_t)at->ai_addrlen;
        address_port(&start->first, port + i % BP_TCP_PORTS);
        const int made = tcp_reach(start, 0, &start->first, start->first_bytes);
        if (made >= 0) {
            tcp_keep(start->tcp, 0, made);
            return tcp_all(made, start->tcp->regions, NULL,
                           start->tcp->size * sizeof start->tcp->regions[0], start->until)
                       ? BP_OK
                       : tcp_late(start, 0, "a rank did not come in time", error);
        }
        if (i % BP_TCP_PORTS == BP_TCP_PORTS - 1) {
            tcp_nap();
        }
    }
    return tcp_late(start, 0,
                    start->other_secret ? "rank 0 has another secret (--fabric-secret)"
                                        : "rank 0 cannot be reached",
                    error);
}

/* Ranks reach those below them, and are reached by those above. */
static bp_status others_meet(tcp_start *start, bp_error *error)
{
    bp_tcp *tcp = start->tcp;
    for (uint32_t i = 1; i < tcp->rank; i++) {
        const bp_tcp_endpoint *place = &start->tcp->regions[i];
        struct sockaddr_storage address = place->address;
        if (place->local != 0) { /* seen from rank 0; from here it is where rank 0 is */
            const struct sockaddr_storage told = address;
            address = start->first;
            address_port(&address, address_port_of(&told));
        }
        int made = -1;
        while (made < 0 && tcp_now() < start->until) {
            made = tcp_reach(start, i, &address, place->length);
            if (made < 0) {
                tcp_nap();
            }
        }
        if (made < 0) {
            return tcp_late(start, i, "a rank cannot be reached", error);
        }
        tcp_keep(tcp, i, made);
    }
    return tcp->rank + 1 < tcp->size ? tcp_accept(start, tcp->rank + 1, error) : BP_OK;
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
        bp_error_found(error, launcher->address, strlen(launcher->address));
        return status;
    }
    bp_status status = BP_OK;
    start->anywhere = tcp_anywhere(launcher, found);
    if (launcher->size > 1 && launcher->rank == 0) {
        status = first_listens(start, found, error);
    } else if (launcher->size > 1) {
        status = other_finds(start, found, error);
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
