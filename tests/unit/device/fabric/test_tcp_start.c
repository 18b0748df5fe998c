/* SPDX-License-Identifier: MIT */
/* How ranks find each other without MPI, and who else may knock at the port: strangers, other runs,
 * ranks that come twice, that lie or that leave. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/digest.h"
#include "core/base/hmac.h"
#include "device/fabric/tcp.h"
#include "tests/fixtures/tcp_hello.h"

enum {
    RANKS = 4,
    MAGIC = TCP_HELLO_MAGIC,
    SHORT_MS = 400, /* where nobody comes */
    WAIT_MS = 60000,
    LOOKS_MOST = WAIT_MS
};

/* Where a wait must be over for a test to end, and something has to happen within it, it is tried
 * again with four times the time while a slow machine did not come so far. */
#define LONGER(wait_ms) for (uint64_t wait_ms = SHORT_MS; wait_ms <= WAIT_MS; wait_ms *= 4)

typedef struct place {
    struct sockaddr_storage address;
    uint32_t length, local;
} place;

typedef struct player {
    pthread_t thread;
    bp_launcher launcher;
    uint64_t wait_ms;
    bp_status status;
    bp_error error;
    bp_tcp tcp;
    int over; /* atomic */
} player;

static player players[RANKS];
static char port_text[16];
static uint16_t port;

static void nap(long ms)
{
    const struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL); /* no wait: its callers give the reason */
}

/* Ports of its own for each test: a block below those that the system gives away, of which a socket
 * holds the last one while the test runs, so that no other process takes the same block. */
static int fresh(void **state)
{
    static int guard = -1;
    static uint32_t next;
    (void)state;
    if (guard >= 0) {
        close(guard);
    }
    guard = -1;
    for (int i = 0; i < 400 && guard < 0; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        port = (uint16_t)(20000 + ((uint32_t)getpid() + next++) % 400 * 32);
        guard = socket(AF_INET, SOCK_STREAM, 0);
        for (uint32_t k = 0; k < 31 && guard >= 0; k++) { /* the others are free, too */
            int made = socket(AF_INET, SOCK_STREAM, 0);
            address.sin_port = htons((uint16_t)(port + k));
            const bool taken =
                bind(made, (struct sockaddr *)&address, sizeof address) != 0 && k <= BP_TCP_PORTS;
            close(made);
            if (taken) {
                close(guard);
                guard = -1;
            }
        }
        address.sin_port = htons((uint16_t)(port + 31));
        if (guard >= 0 && bind(guard, (struct sockaddr *)&address, sizeof address) != 0) {
            close(guard);
            guard = -1;
        }
    }
    assert_true(guard >= 0);
    snprintf(port_text, sizeof port_text, "%u", port);
    memset(players, 0, sizeof players);
    for (uint32_t i = 0; i < RANKS; i++) {
        players[i].launcher = (bp_launcher){.kind = BP_LAUNCHER_TORCHRUN,
                                            .rank = i,
                                            .size = RANKS,
                                            .address = "127.0.0.1",
                                            .port = port_text,
                                            .run = "a run"};
        players[i].wait_ms = WAIT_MS;
    }
    return 0;
}

static void *player_main(void *argument)
{
    player *p = argument;
    p->status = bp_tcp_connect(&p->tcp, &p->launcher, p->wait_ms, &p->error);
    __atomic_store_n(&p->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(player *p)
{
    assert_int_equal(pthread_create(&p->thread, NULL, player_main, p), 0);
}

static bp_status end(player *p)
{
    pthread_join(p->thread, NULL);
    return p->status;
}

static void sizes(uint32_t size)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        players[i].launcher.size = size;
    }
}

/* One byte goes between each pair. */
static void all_are_joined(uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < size; k++) {
            const unsigned char sent = (unsigned char)(i * 16 + k);
            unsigned char got = 0;
            if (i == k) {
                assert_int_equal(players[i].tcp.peers[k].socket, -1);
                continue;
            }
            void *out = NULL, *in = NULL;
            int gone = 0, come = 0;
            assert_int_equal(bp_tcp_begin(&players[i].tcp, &sent, NULL, 1, k, 3, &out), 0);
            assert_int_equal(bp_tcp_begin(&players[k].tcp, NULL, &got, 1, i, 3, &in), 0);
            for (int rounds = 0; (!gone || !come) && rounds < LOOKS_MOST; rounds++) {
                assert_int_equal(gone ? 0 : bp_tcp_test(&out, &gone), 0);
                assert_int_equal(come ? 0 : bp_tcp_test(&in, &come), 0);
                if (rounds > 1000) {
                    nap(1); /* no wait: between two looks */
                }
            }
            assert_int_equal(got, sent);
        }
    }
}

/* All at once, so that none waits for another. */
static void all_leave(uint32_t size)
{
    for (uint32_t i = 0; i < size * size; i++) {
        if (i / size != i % size) {
            shutdown(players[i / size].tcp.peers[i % size].socket, SHUT_WR);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        bp_tcp_close(&players[i].tcp);
    }
}

static void all_meet(uint32_t size)
{
    for (uint32_t i = size; i-- > 0;) { /* rank 0 comes last */
        begin(&players[i]);
        nap(i == 1 ? 150 : 0); /* no wait: more often last than not */
    }
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(end(&players[i]), BP_OK);
    }
    all_are_joined(size);
    all_leave(size);
}

static bool has_six(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int made = socket(AF_INET6, SOCK_STREAM, 0);
    bool there = made >= 0 && bind(made, (const struct sockaddr *)&address, sizeof address) == 0;
    if (made >= 0) {
        close(made);
    }
    return there;
}

/* verifies ranks-9.39f4 */
static void ranks_meet(void **state)
{
    for (uint32_t size = 1; size <= RANKS; size++) {
        fresh(state);
        sizes(size);
        all_meet(size);
    }
    for (int run = 0; run < 2; run++) { /* a run without a name, a port that is the agent's */
        fresh(state);
        for (uint32_t i = 0; i < RANKS; i++) {
            players[i].launcher.run = run == 0 ? NULL : "a run";
            players[i].launcher.port_taken = run == 1;
        }
        all_meet(RANKS);
    }
    if (!has_six()) {
        printf("skipped: no IPv6\n");
        return;
    }
    fresh(state);
    for (uint32_t i = 0; i < RANKS; i++) {
        players[i].launcher.address = "::1";
    }
    all_meet(RANKS);
}

/* verifies ranks-18.4f4a */
static void what_the_launcher_says_has_to_make_sense(void **state)
{
    static const struct {
        const char *address, *port;
        uint32_t size;
        const char *text;
    } rows[] = {
        {"127.0.0.1", NULL, 2, "MASTER_PORT"},
        {"127.0.0.1", "", 2, "MASTER_PORT"},
        {"127.0.0.1", "none", 2, "MASTER_PORT"},
        {"127.0.0.1", "65520", 2, "MASTER_PORT"},
        {"127.0.0.1", "99999999999999999999", 2, "MASTER_PORT"},
        {"127.0.0.1", "29500", BP_TCP_RANKS_MAX + 1, "at most 256"},
        {"no.such.host.invalid", "29500", 2, "MASTER_ADDR is not known"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        player *p = &players[0];
        p->launcher.address = rows[i].address;
        p->launcher.port = rows[i].port;
        p->launcher.size = rows[i].size;
        p->error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_tcp_connect(&p->tcp, &p->launcher, SHORT_MS, &p->error), BP_ERR_USAGE);
        assert_non_null(strstr(p->error.text, rows[i].text));
    }
    const bp_launcher kinds[] = {{.kind = BP_LAUNCHER_TORCHRUN, .address = "a"},
                                 {.kind = BP_LAUNCHER_SLURM, .address = "a"},
                                 {.kind = BP_LAUNCHER_TORCHRUN},
                                 {.kind = BP_LAUNCHER_OPENMPI, .address = "a"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(bp_tcp_takes(&kinds[i]), i < 2);
    }
}

/* Listens at rank 0's port `offset` in its place. */
static int listens(uint32_t offset)
{
    const int yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_port = htons((uint16_t)(port + offset));
    int made = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(made, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(made, 8) != 0) {
        close(made);
        return -1;
    }
    return made;
}

/* verifies ranks-9.39f4 */
static void ports_that_are_taken_are_passed(void **state)
{
    int taken[BP_TCP_PORTS];
    (void)state;
    for (uint32_t i = 0; i < BP_TCP_PORTS; i++) {
        taken[i] = listens(i);
    }
    player *p = &players[0];
    assert_int_equal(bp_tcp_connect(&p->tcp, &p->launcher, WAIT_MS, &p->error), BP_ERR_USAGE);
    assert_non_null(strstr(p->error.text, "cannot listen at the launcher's port"));
    for (uint32_t i = 3; i < BP_TCP_PORTS; i++) {
        close(taken[i]);
    }
    p->error = (bp_error){.code = BP_OK};
    sizes(1);
    players[0].launcher.size = 2;
    p->wait_ms = SHORT_MS;
    assert_int_equal(bp_tcp_connect(&p->tcp, &p->launcher, SHORT_MS, &p->error), BP_ERR_FABRIC);
    assert_string_equal(p->error.text, "a rank did not come in time"); /* so it did listen */
    for (uint32_t i = 0; i < 3; i++) {
        close(taken[i]);
    }
}

/* Connects to rank 0 and says something; the connection, or -1: rank 0 waits no longer. */
static int knock(const void *words, size_t bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < WAIT_MS / 10 && __atomic_load_n(&players[0].over, __ATOMIC_ACQUIRE) == 0;
         i++) {
        int made = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(made, (const struct sockaddr *)&address, sizeof address) == 0) {
            if (send(made, words, bytes, MSG_NOSIGNAL) == (ssize_t)bytes) {
                return made;
            }
        }
        close(made);
        nap(10); /* no wait: between two looks */
    }
    return -1;
}

static hello good(uint32_t rank, uint32_t size)
{
    return (hello){MAGIC, rank, size, 9, bp_digest_of("a run", strlen("a run"), 0), {7}};
}

/* Comes as a rank does, with its proof, of which these bits are changed. */
static int comes_with(uint32_t rank, uint32_t size, unsigned char changed)
{
    const hello own = good(rank, size);
    answer got;
    unsigned char proof[BP_SHA256_BYTES];
    int made = knock(&own, sizeof own);
    if (made >= 0 && recv(made, &got, sizeof got, MSG_WAITALL) == (ssize_t)sizeof got) {
        tcp_hello_prove('a', &own, &got.hello, proof);
        assert_memory_equal(proof, got.proof, sizeof proof);
        tcp_hello_prove('c', &own, &got.hello, proof);
        proof[BP_SHA256_BYTES - 1] ^= changed;
        (void)!send(made, proof, sizeof proof,
                    MSG_NOSIGNAL); /* what becomes of it the callers see */
    }
    return made;
}

static int comes(uint32_t rank, uint32_t size)
{
    return comes_with(rank, size, 0);
}

/* None of them keeps the ranks from meeting. */
/* verifies ranks-8.3a9e */
static void strangers_are_sent_away(void **state)
{
    hello words[6];
    int knocks[9];
    (void)state;
    begin(&players[0]);
    for (int i = 0; i < 6; i++) {
        words[i] = good(1, RANKS);
    }
    words[0].magic ^= 1;
    words[1].size++;
    words[2].run ^= 1;
    words[3].rank = 0;
    words[4].rank = RANKS;
    words[5].rank = UINT32_MAX;
    for (int i = 0; i < 6; i++) {
        unsigned char byte;
        knocks[i] = knock(&words[i], sizeof words[i]);
        assert_true(knocks[i] >= 0);
        assert_true(recv(knocks[i], &byte, 1, 0) <= 0); /* no answer: closed */
    }
    knocks[6] = knock("", 0);
    close(knocks[6]); /* says nothing */
    knocks[7] = knock("GET / HTTP/1.1\r\n", 16);
    shutdown(knocks[7], SHUT_WR);
    knocks[8] = comes_with(1, RANKS, 1); /* asks rank 0 for no proof, and has none */
    for (unsigned char byte; recv(knocks[8], &byte, 1, 0) > 0;) { /* until it is closed */
    }
    for (uint32_t i = 1; i < RANKS; i++) {
        begin(&players[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(end(&players[i]), BP_OK);
    }
    all_are_joined(RANKS);
    all_leave(RANKS);
    for (int i = 0; i < 9; i++) {
        if (i != 6) {
            close(knocks[i]);
        }
    }
}

/* A second rank 1 is a stranger; the one that is missing is named. */
/* verifies ranks-15.459a */
static void who_is_missing_is_named(void **state)
{
    bool named = false;
    LONGER(wait_ms)
    {
        fresh(state);
        players[0].wait_ms = wait_ms;
        begin(&players[0]);
        int first = comes(1, RANKS), second = comes(1, RANKS);
        assert_int_equal(end(&players[0]), BP_ERR_FABRIC);
        assert_string_equal(players[0].error.text, "a rank did not come in time");
        named = strstr(players[0].error.name, "rank 2 by 127.0.0.1 port ") != NULL;
        close(first);
        close(second);
        if (named) {
            break;
        }
    }
    assert_true(named);
}

/* Rank 1 is killed: its end is known when rank 0 wants to tell it of the others. */
/* verifies ranks-15.459a */
static void who_leaves_as_it_comes_is_named(void **state)
{
    (void)state;
    sizes(3);
    begin(&players[0]);
    const struct linger at_once = {.l_onoff = 1};
    unsigned char taken = 0;
    int first = comes(1, 3);
    assert_int_equal(recv(first, &taken, 1, 0), 1);                     /* it is in */
    setsockopt(first, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* as by a reset */
    close(first);
    int second = comes(2, 3);
    assert_int_equal(end(&players[0]), BP_ERR_FABRIC);
    assert_string_equal(players[0].error.text, "a rank left as it came");
    assert_non_null(strstr(players[0].error.name, "rank 1 by 127.0.0.1 port "));
    close(second);
}

/* What stands in rank 0's place says. ANSWERS: and nothing else. */
typedef enum liar { NOBODY, OTHER_RUN, NO_HELLO, ANSWERS, NO_PLACE, LIARS } liar;

/* Takes rank 2's connections and answers them as `kind` does; how many came before it gave up. */
static int lies(liar kind, int at, int *came)
{
    static place places[3]; /* where nobody listens */
    const unsigned char taken = TCP_HELLO_TAKEN;
    int count = 0;
    answer said = {.hello = good(0, 3)};
    said.hello.run ^= kind == OTHER_RUN;
    memset(places, 0, sizeof places);
    struct sockaddr_in closed = {.sin_family = AF_INET, .sin_port = htons(1)};
    closed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&places[1].address, &closed, sizeof closed);
    places[1].length = sizeof closed;
    places[1].local = 1;
    for (; at >= 0 && count < (kind < ANSWERS ? 3 : 1); count++) {
        struct pollfd next = {.fd = at, .events = POLLIN};
        while (poll(&next, 1, 20) == 0) {
            if (__atomic_load_n(&players[2].over, __ATOMIC_ACQUIRE) != 0) {
                return count;
            }
        }
        came[count] = accept(at, NULL, NULL);
        if (kind == NO_HELLO) {
            shutdown(came[count], SHUT_WR);
            continue;
        }
        hello own;
        if (recv(came[count], &own, sizeof own, MSG_WAITALL) != (ssize_t)sizeof own) {
            continue;
        }
        tcp_hello_prove('a', &own, &said.hello, said.proof);
        (void)!send(came[count], &said, sizeof said, MSG_NOSIGNAL);
        (void)!send(came[count], &taken, kind >= ANSWERS ? 1 : 0, MSG_NOSIGNAL);
        (void)!send(came[count], places, kind == NO_PLACE ? sizeof places : 0, MSG_NOSIGNAL);
    }
    return count;
}

/* verifies ranks-8.3a9e */
static void rank_0_may_be_another(void **state)
{
    static const char *const texts[LIARS] = {
        "rank 0 cannot be reached", "rank 0 cannot be reached", "rank 0 cannot be reached",
        "a rank did not come in time", "a rank cannot be reached"};
    for (liar kind = NOBODY; kind < LIARS; kind++) {
        const int wanted = kind == NOBODY ? 0 : kind < ANSWERS ? 3 : 1;
        bool right = false;
        LONGER(wait_ms)
        {
            int came[8];
            fresh(state);
            sizes(3);
            player *p = &players[2];
            p->wait_ms = wait_ms;
            int at = kind == NOBODY ? -1 : listens(0);
            begin(p);
            const int count = lies(kind, at, came);
            if (at >= 0) {
                close(at); /* and with it who still waits there */
            }
            assert_int_equal(end(p), BP_ERR_FABRIC);
            right = count == wanted && strcmp(p->error.text, texts[kind]) == 0;
            for (int i = 0; i < count; i++) {
                close(came[i]);
            }
            if (right) {
                break;
            }
        }
        assert_true(right);
    }
}

/* Rank 0 closes the connection of a rank that has just proved who it is: the rank comes again. */
/* verifies ranks-9.39f4 */
static void who_is_forgotten_comes_again(void **state)
{
    static const place places[2];
    const unsigned char taken = TCP_HELLO_TAKEN;
    const struct timeval patience = {.tv_sec = 2 * WAIT_MS / 1000};
    const int at = listens(0);
    int made = -1;
    (void)state;
    assert_int_equal(setsockopt(at, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    sizes(2);
    begin(&players[1]);
    for (int time = 0; time < 2; time++) {
        unsigned char proof[BP_SHA256_BYTES];
        answer said = {.hello = good(0, 2)};
        hello own;
        made = accept(at, NULL, NULL);
        assert_true(made >= 0);
        assert_int_equal(recv(made, &own, sizeof own, MSG_WAITALL), sizeof own);
        tcp_hello_prove('a', &own, &said.hello, said.proof);
        assert_int_equal(write(made, &said, sizeof said), sizeof said);
        assert_int_equal(recv(made, proof, sizeof proof, MSG_WAITALL), sizeof proof);
        if (time == 0) {
            close(made);
        }
    }
    assert_int_equal(write(made, &taken, 1), 1);
    assert_int_equal(write(made, places, sizeof places), sizeof places);
    assert_int_equal(end(&players[1]), BP_OK);
    bp_tcp_close(&players[1].tcp);
    close(made);
    close(at);
}

/* Who says nothing costs nobody anything: all are listened to beside each other. */
/* verifies ranks-8.3a9e */
static void silent_connections_keep_nobody_off(void **state)
{
    enum { SILENT = 100 };
    int knocks[SILENT];
    (void)state;
    begin(&players[0]);
    for (int i = 0; i < SILENT; i++) {
        knocks[i] = knock(i % 2 == 0 ? "" : "bpt", (size_t)(i % 2 * 3));
        assert_true(knocks[i] >= 0);
    }
    for (uint32_t i = 1; i < RANKS; i++) {
        begin(&players[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++) { /* one after the other would take 500 s of WAIT_MS */
        assert_int_equal(end(&players[i]), BP_OK);
    }
    all_are_joined(RANKS);
    all_leave(RANKS);
    for (int i = 0; i < SILENT; i++) {
        close(knocks[i]);
    }
}

/* 1: two ranks with these secrets meet; 0: they do not, and both say why; -1: neither. */
static int secrets_meet(void **state, const char *first, const char *second, uint64_t wait_ms)
{
    fresh(state);
    sizes(2);
    for (int i = 0; i < 2; i++) {
        const char *secret = i == 0 ? first : second;
        players[i].launcher.secret = (const unsigned char *)secret;
        players[i].launcher.secret_bytes = secret != NULL ? strlen(secret) : 0;
        players[i].wait_ms = wait_ms;
        begin(&players[i]);
    }
    const bp_status here = end(&players[0]), there = end(&players[1]);
    if (here == BP_OK && there == BP_OK) {
        all_are_joined(2);
        all_leave(2);
        return 1;
    }
    bool told = true;
    for (int i = 0; i < 2; i++) {
        told = told && strstr(players[i].error.text, "another secret (--fabric-secret)") != NULL;
    }
    return here == BP_ERR_FABRIC && there == BP_ERR_FABRIC && told ? 0 : -1;
}

/* The same secret joins them; another one, or none, on either side does not, and is told. */
/* verifies ranks-8.3a9e */
static void who_has_another_secret_stays_out(void **state)
{
    static const char *const secrets[] = {"a secret of sixteen bytes", "a secret of sixteen bytez",
                                          NULL};
    for (int first = 0; first < 3; first++) {
        for (int second = 0; second < 3; second++) {
            const bool same = first == second;
            bool right = false;
            for (uint64_t wait_ms = same ? WAIT_MS : SHORT_MS; wait_ms <= WAIT_MS && !right;
                 wait_ms *= 4) {
                right = secrets_meet(state, secrets[first], secrets[second], wait_ms) == same;
            }
            assert_true(right);
        }
    }
}

/* It listens at the address that it is known by, and at no other. */
/* verifies ranks-8.3a9e */
static void only_the_group_s_address_is_listened_at(void **state)
{
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_port = htons(port)};
    (void)state;
    players[0].wait_ms = 1000;
    begin(&players[0]);
    const int made = knock("", 0); /* at 127.0.0.1 */
    assert_true(made >= 0);
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    const int beside = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(connect(beside, (const struct sockaddr *)&other, sizeof other) != 0);
    assert_int_equal(end(&players[0]), BP_ERR_FABRIC);
    close(made);
    close(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranks_meet, fresh),
        cmocka_unit_test_setup(what_the_launcher_says_has_to_make_sense, fresh),
        cmocka_unit_test_setup(ports_that_are_taken_are_passed, fresh),
        cmocka_unit_test_setup(strangers_are_sent_away, fresh),
        cmocka_unit_test_setup(who_is_missing_is_named, fresh),
        cmocka_unit_test_setup(who_leaves_as_it_comes_is_named, fresh),
        cmocka_unit_test_setup(rank_0_may_be_another, fresh),
        cmocka_unit_test_setup(who_is_forgotten_comes_again, fresh),
        cmocka_unit_test_setup(silent_connections_keep_nobody_off, fresh),
        cmocka_unit_test_setup(who_has_another_secret_stays_out, fresh),
        cmocka_unit_test_setup(only_the_group_s_address_is_listened_at, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
