/* SPDX-License-Identifier: MIT */
/* Messages without MPI, and peers that do not keep to what was agreed: frames that nobody asked for
 * end the connection and touch nothing, in whatever pieces they come. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/fabric/tcp.h"

enum { READY = 0x52455031, DATA = 0x44415431, TAG = 7, BYTES = 64 };

/* Rank 0 with one other, whose end of the connection the test has itself. */
static bp_tcp tcp;
static int other;
static unsigned char from[3 << 20], to[3 << 20];

static int join(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    memset(&tcp, 0, sizeof tcp);
    memset(to, 0xee, sizeof to);
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 31 + i / 257);
    }
    tcp.size = 2;
    tcp.peers[0].socket = -1;
    tcp.peers[1].socket = ends[0];
    other = ends[1];
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    return 0;
}

static int part(void **state)
{
    (void)state;
    close(other);
    bp_tcp_close(&tcp);
    return 0;
}

static void say(uint32_t kind, int32_t tag, uint64_t bytes)
{
    const bp_tcp_frame frame = {kind, tag, bytes};
    assert_int_equal(write(other, &frame, sizeof frame), sizeof frame);
}

static void *receive(uint64_t bytes)
{
    void *request = NULL;
    assert_int_equal(bp_tcp_begin(&tcp, NULL, to, bytes, 1, TAG, &request), 0);
    return request;
}

static void *send_all(uint64_t bytes)
{
    void *request = NULL;
    assert_int_equal(bp_tcp_begin(&tcp, from, NULL, bytes, 1, TAG, &request), 0);
    return request;
}

/* The result of one look at a request. */
static int look(void **request, int *done)
{
    *done = 7;
    int result = bp_tcp_test(request, done);
    assert_true(*done == 0 || *done == 1);
    return result;
}

/* verifies ranks-14.d729 */
static void a_message_comes_in_any_pieces(void **state)
{
    const bp_tcp_frame head = {DATA, TAG, BYTES};
    unsigned char stream[sizeof head + BYTES];
    (void)state;
    memcpy(stream, &head, sizeof head);
    memcpy(stream + sizeof head, from, BYTES);
    void *request = receive(BYTES);
    int done = 0;
    for (size_t i = 0; i < sizeof stream; i++) {
        assert_int_equal(look(&request, &done), 0);
        assert_int_equal(done, 0);
        assert_int_equal(write(other, stream + i, 1), 1);
    }
    assert_int_equal(look(&request, &done), 0);
    assert_int_equal(done, 1);
    assert_null(request);
    assert_memory_equal(to, from, BYTES);
    assert_int_equal(to[BYTES], 0xee);
}

/* It goes in pieces of a megabyte, each with a head, as the other one takes it. */
/* verifies ranks-14.d729 */
static void a_long_message_goes_as_it_is_taken(void **state)
{
    const uint64_t bytes = sizeof from - 5;
    uint64_t got = 0, left = 0;
    (void)state;
    void *request = send_all(bytes);
    int done = 0;
    assert_int_equal(look(&request, &done), 0); /* it has not been asked for */
    bp_tcp_frame frame;
    assert_int_equal(recv(other, &frame, sizeof frame, 0), -1);
    say(READY, TAG, bytes);
    for (int rounds = 0; !done && rounds < 100000; rounds++) {
        assert_int_equal(look(&request, &done), 0);
        if (left == 0 && recv(other, &frame, sizeof frame, 0) == sizeof frame) {
            assert_int_equal(frame.kind, DATA);
            assert_in_range(frame.bytes, 1, 1 << 20);
            left = frame.bytes;
        }
        ssize_t more = left > 0 ? recv(other, to + got, left < 5000 ? left : 5000, 0) : 0;
        got += more > 0 ? (uint64_t)more : 0;
        left -= more > 0 ? (uint64_t)more : 0;
    }
    assert_int_equal(done, 1);
    while (got < bytes) {
        ssize_t more = recv(other, left > 0 ? (void *)(to + got) : (void *)&frame,
                            left > 0 ? left : sizeof frame, 0);
        assert_true(more > 0);
        got += left > 0 ? (uint64_t)more : 0;
        left = left > 0 ? left - (uint64_t)more : frame.bytes;
    }
    assert_memory_equal(to, from, bytes);
}

/* Asked for before it is given; another one that was asked for before stays. */
/* verifies ranks-19.9436 */
static void who_asks_early_is_remembered(void **state)
{
    (void)state;
    int done = 0;
    say(READY, TAG + 1, BYTES);
    say(READY, TAG, BYTES + 1);
    say(READY, TAG, BYTES);
    void *incoming = receive(BYTES); /* a look at which reads what was said */
    assert_int_equal(look(&incoming, &done), 0);
    assert_int_equal(tcp.peers[1].ready_count, 3);
    void *request = send_all(BYTES);
    assert_int_equal(tcp.peers[1].ready_count, 2);
    assert_int_equal(tcp.peers[1].ready[1].bytes, BYTES + 1);
    assert_int_equal(look(&request, &done), 0);
    assert_int_equal(done, 1);
}

/* verifies ranks-19.9436 */
static void no_more_than_can_be_remembered(void **state)
{
    (void)state;
    void *request = NULL;
    int done = 0;
    for (int i = 0; i < BP_TCP_REQUESTS_MAX; i++) {
        assert_int_equal(bp_tcp_begin(&tcp, NULL, to, 1, 1, i, &request), 0);
    }
    assert_int_equal(bp_tcp_begin(&tcp, NULL, to, 1, 1, 99, &request), 1);
    for (int i = 0; i <= BP_TCP_REQUESTS_MAX; i++) {
        say(READY, 1000 + i, 1);
    }
    assert_int_equal(look(&request, &done), 1);
    assert_true(tcp.peers[1].lost);
}

/* verifies ranks-8.3a9e */
static void what_was_not_asked_for_ends_the_connection(void **state)
{
    static const struct {
        const char *what;
        uint32_t kind;
        int32_t tag;
        uint64_t bytes;
    } frames[] = {
        {"a kind that does not exist", 0x31313131, TAG, 8},
        {"another tag", DATA, TAG + 1, 8},
        {"one byte more than was asked for", DATA, TAG, BYTES + 1},
        {"a length that would go round", DATA, TAG, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        int done = 0;
        void *request = receive(BYTES);
        say(frames[i].kind, frames[i].tag, frames[i].bytes);
        assert_int_equal(write(other, from, BYTES), BYTES);
        assert_int_equal(look(&request, &done), 1);
        assert_int_equal(done, 0);
        assert_int_equal(to[0], 0xee);
        part(state);
        join(state);
    }
}

/* Where: 0 between frames, 1 in a head, 2 in a message, 3 in one that goes. */
/* verifies ranks-15.459a */
static void a_peer_may_end_anywhere(void **state)
{
    for (int where = 0; where < 4; where++) {
        int done = 0;
        void *request = where == 3 ? send_all(sizeof from) : receive(BYTES);
        if (where == 1) {
            assert_int_equal(write(other, from, 3), 3);
        } else if (where == 2) {
            say(DATA, TAG, BYTES);
            assert_int_equal(write(other, from, 5), 5);
        } else if (where == 3) {
            say(READY, TAG, sizeof from);
        }
        assert_int_equal(look(&request, &done), 0);
        close(other);
        assert_int_equal(look(&request, &done), 1);
        assert_int_equal(done, 0);
        assert_null(request);
        other = -1;
        bp_tcp_close(&tcp);
        join(state);
    }
}

/* What came before the end counts. */
/* verifies ranks-19.9436 */
static void a_whole_message_outlives_its_sender(void **state)
{
    (void)state;
    int done = 0;
    void *request = receive(BYTES);
    assert_int_equal(look(&request, &done), 0);
    void *second = NULL;
    assert_int_equal(bp_tcp_begin(&tcp, NULL, to + BYTES, BYTES, 1, TAG + 1, &second), 0);
    say(DATA, TAG, BYTES);
    assert_int_equal(write(other, from, BYTES), BYTES);
    close(other);
    other = -1;
    assert_int_equal(look(&second, &done), 1);
    assert_int_equal(look(&request, &done), 0);
    assert_int_equal(done, 1);
    assert_memory_equal(to, from, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_comes_in_any_pieces, join, part),
        cmocka_unit_test_setup_teardown(a_long_message_goes_as_it_is_taken, join, part),
        cmocka_unit_test_setup_teardown(who_asks_early_is_remembered, join, part),
        cmocka_unit_test_setup_teardown(no_more_than_can_be_remembered, join, part),
        cmocka_unit_test_setup_teardown(what_was_not_asked_for_ends_the_connection, join, part),
        cmocka_unit_test_setup_teardown(a_peer_may_end_anywhere, join, part),
        cmocka_unit_test_setup_teardown(a_whole_message_outlives_its_sender, join, part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
