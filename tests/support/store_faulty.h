/* SPDX-License-Identifier: MIT */
/* A bp_store that passes calls on to another one and fails the n-th of a kind. */
#ifndef BP_TESTS_SUPPORT_STORE_FAULTY_H
#define BP_TESTS_SUPPORT_STORE_FAULTY_H

#include "core/file/store.h"

typedef enum fault_kind {
    FAULT_OPEN_READ,
    FAULT_OPEN_WRITE,
    FAULT_FILE_SIZE,
    FAULT_READ_AT,
    FAULT_WRITE_AT, /* half of the bytes are written before it fails */
    FAULT_SYNC,
    FAULT_CLOSE, /* the inner file is closed all the same */
    FAULT_RENAME,
    FAULT_REMOVE,
    FAULT_MAKE_DIRECTORY,
    FAULT_REMOVE_DIRECTORY,
    FAULT_SYNC_DIRECTORY,
    FAULT_LIST,
    FAULT_FREE_BYTES,
    FAULT_EXISTS,
    FAULT_KINDS,
    FAULT_ANY /* of every kind, counted together */
} fault_kind;

typedef struct faulty_store {
    bp_store store;
    bp_store *inner;
    fault_kind kind;
    size_t at; /* the n-th call of that kind fails, from 1; 0: none */
    bool for_ever;
    size_t calls[FAULT_KINDS];
    size_t all; /* calls of every kind */
    size_t failures;
} faulty_store;

/* Passes everything on until kind, at and for_ever are set. */
void faulty_store_init(faulty_store *faulty, bp_store *inner);

/* From now on the at-th call of the kind fails, and with for_ever all later ones. Counts anew. */
void faulty_store_arm(faulty_store *faulty, fault_kind kind, size_t at, bool for_ever);

#endif
