/* SPDX-License-Identifier: MIT */
/* Digests that travel beside messages. */
#include "device/fabric/checked.h"

#include "arena/text.h"
#include "core/base/digest.h"

static const char where[] = "fabric";

typedef struct checked_collective {
    bool used;
    bp_fabric_transfer transfer;
    uint64_t number; /* which call of the group it is */
    uint64_t mine[BP_CHECKED_RANKS_MAX];
    uint64_t theirs[BP_CHECKED_RANKS_MAX];
} checked_collective;

typedef struct checked_rank {
    const bp_fabric *inner;
    void *context;
    uint64_t calls[BP_CHECKED_GROUPS_MAX];
    checked_collective collectives[BP_CHECKED_COLLECTIVES_MAX];
} checked_rank;

bp_status bp_checked_wrap(void *context, const bp_fabric *inner, void *inner_context,
                          bp_error *error)
{
    checked_rank *rank = context;
    if (inner->stream != NULL || inner->size(inner_context) > BP_CHECKED_RANKS_MAX) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "messages cannot be checked here: their addresses are a GPU's, or "
                            "there are more than 128 ranks",
                            inner->name);
    }
    *rank = (checked_rank){.inner = inner, .context = inner_context};
    return BP_OK;
}

static bp_status checked_open(void *context, const bp_fabric_options *options, bp_error *error)
{
    (void)context;
    (void)options;
    return bp_error_set(error, BP_ERR_USAGE, where, "a checked fabric is made over an open one",
                        NULL);
}

static bp_status checked_agree(void *context, uint64_t digest, bp_error *error)
{
    const checked_rank *rank = context;
    return rank->inner->agree(rank->context, digest, error);
}

static uint32_t checked_number(const void *context)
{
    const checked_rank *rank = context;
    return rank->inner->rank(rank->context);
}

static uint32_t checked_size(const void *context)
{
    const checked_rank *rank = context;
    return rank->inner->size(rank->context);
}

static uint32_t checked_members(const void *context, uint32_t group)
{
    const checked_rank *rank = context;
    return rank->inner->members(rank->context, group);
}

/* Of one piece; the slot that its digest comes in says between whom it goes. */
static uint64_t piece_digest(const checked_collective *collective, const void *bytes,
                             bp_fabric_piece piece)
{
    const bp_fabric_transfer *t = &collective->transfer;
    const uint64_t seed = collective->number * 4 + (uint64_t)t->call + ((uint64_t)t->group << 56);
    return bp_digest_of((const char *)bytes + piece.first, (size_t)piece.bytes, seed);
}

static checked_collective *collective_of(checked_rank *rank, bool used, uint32_t request)
{
    for (uint32_t i = 0; i < BP_CHECKED_COLLECTIVES_MAX; i++) {
        checked_collective *collective = &rank->collectives[i];
        if (collective->used == used && (!used || collective->transfer.request == request)) {
            return collective;
        }
    }
    return NULL;
}

static bp_status checked_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    checked_rank *rank = context;
    checked_collective *collective = collective_of(rank, false, 0);
    if (collective == NULL || transfer->group >= BP_CHECKED_GROUPS_MAX) {
        return bp_error_set(error, BP_ERR_USAGE, where, "a rank began a call that it may not begin",
                            NULL);
    }
    const uint32_t members = checked_members(rank, transfer->group);
    collective->transfer = *transfer;
    collective->number = rank->calls[transfer->group]++;
    bp_fabric_transfer data = *transfer, digests = *transfer;
    data.request = 2 * transfer->request;
    digests.request = data.request + 1;
    digests.bytes = sizeof(uint64_t);
    digests.pieces = NULL;
    digests.from = collective->mine;
    digests.to = collective->theirs;
    const uint32_t pieces = transfer->call == BP_FABRIC_EXCHANGE ? members : 1;
    for (uint32_t i = 0; i < pieces; i++) {
        collective->mine[i] =
            piece_digest(collective, transfer->from, bp_fabric_piece_for(transfer, i));
    }
    BP_TRY(rank->inner->begin(rank->context, &data, error));
    BP_TRY(rank->inner->begin(rank->context, &digests, error));
    collective->used = true;
    return BP_OK;
}

static bp_status refuse_piece(uint32_t member, bp_error *error)
{
    char name[32];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "from member ");
    bp_text_u64(&out, member);
    const bp_status written = bp_text_flush(&out);
    return bp_error_set(error, BP_ERR_FABRIC, where,
                        "a message is not what was sent: it was lost, came twice, or was changed",
                        written == BP_OK ? name : NULL);
}

static bp_status checked_wait(void *context, uint32_t request, bp_error *error)
{
    checked_rank *rank = context;
    checked_collective *collective = collective_of(rank, true, request);
    if (collective == NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where, "a rank waits for no call of its", NULL);
    }
    const bp_fabric_transfer *t = &collective->transfer;
    collective->used = false;
    BP_TRY(rank->inner->wait(rank->context, 2 * request, error));
    BP_TRY(rank->inner->wait(rank->context, 2 * request + 1, error));
    const uint32_t members = checked_members(rank, t->group);
    const uint32_t pieces = t->call == BP_FABRIC_BROADCAST ? 1 : members;
    for (uint32_t i = 0; i < pieces; i++) {
        if (piece_digest(collective, t->to, bp_fabric_piece_of(t, i)) != collective->theirs[i]) {
            return refuse_piece(t->call == BP_FABRIC_BROADCAST ? t->root : i, error);
        }
    }
    return BP_OK;
}

static bp_status checked_check(void *context, bp_error *error)
{
    const checked_rank *rank = context;
    return rank->inner->check(rank->context, error);
}

static void checked_abandon(void *context, const bp_error *cause)
{
    const checked_rank *rank = context;
    rank->inner->abandon(rank->context, cause);
}

static void checked_close(void *context)
{
    (void)context; /* the one below is its owner's */
}

const bp_fabric bp_fabric_checked = {.name = "checked",
                                     .context_bytes = sizeof(checked_rank),
                                     .collectives = BP_CHECKED_COLLECTIVES_MAX / 2,
                                     .open = checked_open,
                                     .agree = checked_agree,
                                     .rank = checked_number,
                                     .size = checked_size,
                                     .members = checked_members,
                                     .begin = checked_begin,
                                     .wait = checked_wait,
                                     .check = checked_check,
                                     .abandon = checked_abandon,
                                     .close = checked_close};
