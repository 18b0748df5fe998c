/* SPDX-License-Identifier: MIT */
/* Sums in levels. */
#include "core/ops/cascade.h"

#include <string.h>

/* The least power of two that is not below n, a number of rows, as an exponent. */
static uint32_t cascade_log2(uint64_t n)
{
    uint32_t power = 0;
    while ((uint64_t)1 << power < n) {
        power++;
    }
    return power;
}

static uint64_t cascade_rows(const bp_cascade *c)
{
    return c->count / BP_CASCADE_ROW;
}

void bp_cascade_begin(bp_cascade *c, uint64_t count)
{
    memset(c, 0, sizeof *c);
    c->count = count;
    uint32_t power = cascade_log2(cascade_rows(c)) / BP_CASCADE_LEVELS;
    c->power = power > 4 ? power : 4;
}

/* A step of rows is complete: its sums go up, and on from every level that is full. */
static void cascade_carry(bp_cascade *c, uint64_t rows)
{
    const uint64_t mask = ((uint64_t)1 << c->power) - 1;
    for (uint32_t level = 1; level < BP_CASCADE_LEVELS; level++) {
        for (uint32_t i = 0; i < BP_CASCADE_ROW; i++) {
            c->sums[level][i] += c->sums[level - 1][i];
            c->sums[level - 1][i] = 0.0f;
        }
        if ((rows & mask << (level * c->power)) != 0) {
            return;
        }
    }
}

void bp_cascade_add(bp_cascade *c, float value)
{
    const uint64_t at = c->taken++;
    const uint64_t row = at / BP_CASCADE_ROW;
    if (row >= cascade_rows(c)) {
        c->rest[at % BP_CASCADE_ROW] = value;
        return;
    }
    c->sums[0][at % BP_CASCADE_ROW] += value;
    const uint64_t rows = row + 1;
    if (at % BP_CASCADE_ROW == BP_CASCADE_ROW - 1 && rows % ((uint64_t)1 << c->power) == 0) {
        cascade_carry(c, rows);
    }
}

/* Fewer than a vector: four sums of single numbers. */
static float cascade_few(const float *values, uint32_t count)
{
    float sum = count > 0 ? values[0] : 0.0f;
    for (uint32_t i = count < 4 ? 1 : 4; i < count; i++) {
        sum += values[i];
    }
    for (uint32_t i = 1; i < 4 && count >= 4; i++) {
        sum += values[i];
    }
    return sum;
}

static float cascade_sum(const bp_cascade *c)
{
    float row[BP_CASCADE_ROW];
    const uint32_t rest = (uint32_t)(c->count % BP_CASCADE_ROW);
    const uint32_t vectors = rest / BP_CASCADE_LANES * BP_CASCADE_LANES;
    float sum = 0.0f;
    if (c->count < BP_CASCADE_LANES) {
        return cascade_few(c->rest, rest);
    }
    for (uint32_t i = 0; i < BP_CASCADE_ROW; i++) {
        row[i] = c->sums[0][i];
        for (uint32_t level = 1; level < BP_CASCADE_LEVELS; level++) {
            row[i] += c->sums[level][i];
        }
    }
    for (uint32_t i = 0; i < vectors; i++) {
        row[i % BP_CASCADE_LANES] += c->rest[i];
    }
    for (uint32_t i = BP_CASCADE_LANES; i < BP_CASCADE_ROW; i++) {
        row[i % BP_CASCADE_LANES] += row[i];
    }
    for (uint32_t i = vectors; i < rest; i++) {
        sum += c->rest[i];
    }
    for (uint32_t i = 0; i < BP_CASCADE_LANES; i++) {
        sum += row[i];
    }
    return sum;
}

float bp_cascade_mean(const bp_cascade *c)
{
    return cascade_sum(c) / (float)c->count;
}
