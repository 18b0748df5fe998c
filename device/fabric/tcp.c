/* SPDX-License-Identifier: MIT */
/* Messages over connected sockets. */
#include "device/fabric/tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READY = 0x52455031,
    DATA = 0x44415431,
    PIECE = 1 << 20, /* of a message at a time, so that others come between */
    CLOSE_MS = 1000  /* longest wait for the others to close */
};

/* Whether a call of the system's may be made again later; else the peer is gone. */
static bool tcp_later(bp_tcp_peer *peer, ssize_t moved)
{
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return true;
    }
    peer->lost = true;
    return false;
}

/* The request of that tag which a frame from the other side is about. */
static bp_tcp_request *request_find(bp_tcp_peer *peer, bool sends, int32_t tag)
{
    for (uint32_t i = 0; i < BP_TCP_REQUESTS_MAX; i++) {
        bp_tcp_request *r = &peer->requests[i];
        if (r->used && r->sends == sends && !r->done && !r->ready && r->tag == tag) {
            return r;
        }
    }
    return NULL;
}

/* ---- what comes ---- */

/* A frame's head is there. */
static void frame_come(bp_tcp_peer *peer)
{
    const bp_tcp_frame *frame = &peer->in;
    peer->in_bytes = 0;
    if (frame->kind == READY) {
        bp_tcp_request *wanted = request_find(peer, true, frame->tag);
        if (wanted != NULL && wanted->bytes == frame->bytes) {
            wanted->ready = true;
        } else if (peer->ready_count < BP_TCP_REQUESTS_MAX) {
            peer->ready[peer->ready_count++] = *frame;
        } else {
            peer->lost = true;
        }
        return;
    }
    peer->coming = request_find(peer, false, frame->tag);
    peer->in_left = frame->bytes;
    peer->lost = frame->kind != DATA || peer->coming == NULL ||
                 frame->bytes > peer->coming->bytes - peer->coming->moved;
}

/* Reads what there is; false when there is nothing now. */
static bool peer_read(bp_tcp_peer *peer)
{
    unsigned char *head = (unsigned char *)&peer->in;
    if (peer->coming == NULL) {
        ssize_t got =
            recv(peer->socket, head + peer->in_bytes, sizeof peer->in - peer->in_bytes, 0);
        if (got <= 0) {
            return !tcp_later(peer, got) && !peer->lost;
        }
        peer->in_bytes += (uint32_t)got;
        if (peer->in_bytes == sizeof peer->in) {
            frame_come(peer);
        }
        return !peer->lost;
    }
    bp_tcp_request *r = peer->coming;
    ssize_t got = recv(peer->socket, r->to + r->moved, (size_t)peer->in_left, 0);
    if (got <= 0) {
        return !tcp_later(peer, got) && !peer->lost;
    }
    r->moved += (uint64_t)got;
    peer->in_left -= (uint64_t)got;
    if (peer->in_left == 0) {
        r->done = r->moved == r->bytes;
        peer->coming = NULL;
    }
    return true;
}

/* ---- what goes ---- */

/* The next frame: what is wanted is said first, then short messages before long ones. */
static bool frame_next(bp_tcp_peer *peer)
{
    bp_tcp_request *next = NULL;
    for (uint32_t i = 0; i < BP_TCP_REQUESTS_MAX; i++) {
        bp_tcp_request *r = &peer->requests[i];
        if (r->used && !r->sends && !r->said) {
            r->said = true;
            peer->out = (bp_tcp_frame){READY, r->tag, r->bytes};
            peer->out_left = sizeof peer->out;
            peer->going = NULL;
            return true;
        }
        if (r->used && r->sends && r->ready && !r->done &&
            (next == NULL || r->bytes < next->bytes)) {
            next = r;
        }
    }
    if (next != NULL) {
        const uint64_t left = next->bytes - next->moved;
        peer->going = next;
        peer->out_data = left < PIECE ? left : PIECE;
        peer->out = (bp_tcp_frame){DATA, next->tag, peer->out_data};
        peer->out_left = sizeof peer->out;
    }
    return next != NULL;
}

/* Writes what can go; false when nothing can now. */
static bool peer_write(bp_tcp_peer *peer)
{
    if (peer->out_left == 0 && peer->going == NULL && !frame_next(peer)) {
        return false;
    }
    if (peer->out_left > 0) {
        const unsigned char *head = (const unsigned char *)(&peer->out + 1) - peer->out_left;
        ssize_t gone = send(peer->socket, head, peer->out_left, MSG_NOSIGNAL);
        if (gone <= 0) {
            return !tcp_later(peer, gone) && !peer->lost;
        }
        peer->out_left -= (uint32_t)gone;
        return true;
    }
    bp_tcp_request *r = peer->going;
    ssize_t gone = send(peer->socket, r->from + r->moved, (size_t)peer->out_data, MSG_NOSIGNAL);
    if (gone <= 0) {
        return !tcp_later(peer, gone) && !peer->lost;
    }
    r->moved += (uint64_t)gone;
    peer->out_data -= (uint64_t)gone;
    if (peer->out_data == 0) {
        r->done = r->moved == r->bytes;
        peer->going = NULL;
    }
    return true;
}

static void peer_move(bp_tcp_peer *peer)
{
    while (!peer->lost && peer_read(peer)) {
    }
    while (!peer->lost && peer_write(peer)) {
    }
}

/* ---- requests ---- */

int bp_tcp_begin(bp_tcp *tcp, const void *from, void *to, uint64_t bytes, uint32_t peer,
                 int32_t tag, void **request)
{
    bp_tcp_peer *at = &tcp->peers[peer];
    uint32_t i = 0;
    while (i < BP_TCP_REQUESTS_MAX && at->requests[i].used) {
        i++;
    }
    if (i == BP_TCP_REQUESTS_MAX) {
        return 1;
    }
    bp_tcp_request *r = &at->requests[i];
    *r = (bp_tcp_request){.used = true,
                          .sends = from != NULL,
                          .tag = tag,
                          .bytes = bytes,
                          .from = from,
                          .to = to,
                          .peer = at};
    for (uint32_t k = 0; r->sends && k < at->ready_count && !r->ready; k++) {
        if (at->ready[k].tag == tag && at->ready[k].bytes == bytes) {
            r->ready = true;
            at->ready_count--;
            memmove(&at->ready[k], &at->ready[k + 1], (at->ready_count - k) * sizeof at->ready[k]);
        }
    }
    *request = r;
    return 0;
}

/* What has come whole counts, though the peer be gone by now. */
int bp_tcp_test(void **request, int *done)
{
    bp_tcp_request *r = *request;
    if (!r->done && !r->peer->lost) {
        peer_move(r->peer);
    }
    *done = r->done;
    if (r->done || r->peer->lost) {
        const int result = r->done ? 0 : 1;
        r->used = r->peer->coming == r || r->peer->going == r;
        *request = NULL;
        return result;
    }
    return 0;
}

/* A connection that is closed with something unread takes with it what the other has not read. */
void bp_tcp_close(bp_tcp *tcp)
{
    unsigned char rest[512];
    for (uint32_t i = 0; i < tcp->size; i++) {
        bp_tcp_peer *peer = &tcp->peers[i];
        if (peer->socket >= 0) {
            shutdown(peer->socket, SHUT_WR);
        }
    }
    for (uint32_t i = 0; i < tcp->size; i++) {
        bp_tcp_peer *peer = &tcp->peers[i];
        struct pollfd at = {.fd = peer->socket, .events = POLLIN};
        ssize_t got = 1;
        while (peer->socket >= 0 && got > 0 && poll(&at, 1, CLOSE_MS) > 0) {
            got = recv(peer->socket, rest, sizeof rest, 0);
        }
        if (peer->socket >= 0) {
            close(peer->socket);
        }
        peer->socket = -1;
    }
}
