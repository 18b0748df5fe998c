/* SPDX-License-Identifier: MIT */
/* Names and places of the tensors that one parameter is kept in. */
#include "tools/formats/hf/tensor_pieces.h"

#include <string.h>

#include "tools/formats/hf/tensor_match.h"

bool bp_tensor_pieces_of(bp_tensor_pieces *pieces, const bp_tensor_rule *rule, const char *ours,
                         uint32_t rank, const uint64_t *shape)
{
    const char *theirs = rule->theirs;
    *pieces = (bp_tensor_pieces){.rule = rule, .ours = ours, .sides = 1};
    for (; *theirs != '\0'; theirs++) {
        pieces->sides += *theirs == '|' ? 1 : 0;
        pieces->single = pieces->single || *theirs == '@';
    }
    pieces->turns = rule->form == BP_LAYOUT_TURNS;
    pieces->rank = rank;
    pieces->experts = shape[0];
    if (pieces->turns) {
        const uint64_t both = rank == 3 ? shape[2] : shape[1];
        pieces->rows = both / pieces->sides;
        pieces->width = rank == 3 ? shape[1] : 1;
        return (rank == 2 || rank == 3) && !pieces->single && both % pieces->sides == 0;
    }
    if (rank != 3 || shape[1] % pieces->sides != 0) {
        return false;
    }
    pieces->rows = shape[1] / pieces->sides;
    pieces->width = shape[2];
    return true;
}

uint64_t bp_tensor_pieces_count(const bp_tensor_pieces *pieces)
{
    return pieces->sides * (pieces->single ? pieces->experts : 1);
}

/* The digits of a number. */
static size_t put_digits(uint64_t number, char digits[20])
{
    size_t count = 0;
    char turned[20];
    do {
        turned[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    for (size_t i = 0; i < count; i++) {
        digits[i] = turned[count - 1 - i];
    }
    return count;
}

bool bp_tensor_pieces_name(const bp_tensor_pieces *pieces, uint64_t index,
                           char theirs[BP_TENSOR_NAME_MAX])
{
    char pattern[BP_TENSOR_NAME_MAX], name[BP_TENSOR_NAME_MAX], digits[20];
    const size_t count = put_digits(index / pieces->sides, digits);
    const char *from = pieces->rule->theirs;
    size_t used = 0;
    for (uint64_t side = index % pieces->sides; side > 0; side--) {
        from = strchr(from, '|') + 1;
    }
    const size_t end = strcspn(from, "|");
    if (end >= sizeof pattern) {
        return false;
    }
    memcpy(pattern, from, end);
    pattern[end] = '\0';
    if (!bp_name_rewrite(pieces->rule->ours, pattern, pieces->ours, name, sizeof name)) {
        return false;
    }
    for (from = name; *from != '\0'; from++) {
        const size_t length = *from == '@' ? count : 1;
        if (used + length >= BP_TENSOR_NAME_MAX) {
            return false;
        }
        memcpy(theirs + used, *from == '@' ? digits : from, length);
        used += length;
    }
    theirs[used] = '\0';
    return true;
}

uint32_t bp_tensor_pieces_shape(const bp_tensor_pieces *pieces, uint64_t shape[3])
{
    uint32_t rank = 0;
    if (!pieces->single) {
        shape[rank++] = pieces->experts;
    }
    shape[rank++] = pieces->rows;
    if (pieces->rank == 3) {
        shape[rank++] = pieces->width;
    }
    return rank;
}

bp_tensor_place bp_tensor_pieces_place(const bp_tensor_pieces *pieces, uint64_t element)
{
    const uint64_t piece = pieces->rows * pieces->width;
    if (pieces->turns) {
        const uint64_t both = pieces->sides * pieces->rows, row = element / both % pieces->width;
        const uint64_t first = element / (pieces->sides * piece) * piece;
        const uint64_t column = element % both / pieces->sides;
        return (bp_tensor_place){element % pieces->sides, first + column * pieces->width + row, 1};
    }
    const uint64_t number = element / piece, at = element % piece;
    const uint64_t expert = number / pieces->sides, side = number % pieces->sides;
    return pieces->single ? (bp_tensor_place){number, at, piece - at}
                          : (bp_tensor_place){side, expert * piece + at, piece - at};
}

uint64_t bp_tensor_pieces_element(const bp_tensor_pieces *pieces, uint64_t index, uint64_t first,
                                  uint64_t *run)
{
    const uint64_t piece = pieces->rows * pieces->width, at = first % piece;
    if (pieces->turns) {
        const uint64_t column = at / pieces->width, row = at % pieces->width;
        *run = 1;
        return ((first - at) + row * pieces->rows + column) * pieces->sides + index;
    }
    const uint64_t number = pieces->single ? index : first / piece * pieces->sides + index;
    *run = piece - at;
    return number * piece + at;
}
