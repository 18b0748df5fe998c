/* SPDX-License-Identifier: MIT */
/* The planner's static orders. */
#include "arena/plan_work.h"

typedef struct order_context {
    const plan_item *item;
    const uint64_t *floor;
    const uint64_t *head;
    const uint64_t *peak; /* per item: largest section total over its life */
    plan_rule rule;
} order_context;

typedef enum order_key { KEY_PEAK, KEY_WIDTH, KEY_AREA, KEY_SIZE, KEY_HEAD } order_key;

static const order_key order_keys[PLAN_RULE_COUNT][3] = {
    [PLAN_TWA] = {KEY_PEAK, KEY_WIDTH, KEY_AREA}, [PLAN_TAW] = {KEY_PEAK, KEY_AREA, KEY_WIDTH},
    [PLAN_WAT] = {KEY_WIDTH, KEY_AREA, KEY_PEAK}, [PLAN_SIZE] = {KEY_SIZE, KEY_WIDTH, KEY_PEAK},
    [PLAN_AREA] = {KEY_AREA, KEY_SIZE, KEY_PEAK}, [PLAN_HEAD] = {KEY_HEAD, KEY_PEAK, KEY_WIDTH},
};

static uint64_t order_value(const order_context *context, order_key key, uint32_t index)
{
    const plan_item *item = &context->item[index];
    switch (key) {
    case KEY_PEAK:
        return context->peak[index];
    case KEY_WIDTH:
        return item->width;
    case KEY_AREA:
        return bp_size_mul(item->size, item->width);
    case KEY_HEAD:
        return ((uint64_t)1 << 63) + context->head[index] - context->floor[index];
    default:
        return item->size;
    }
}

static bool order_before(const void *opaque, uint32_t a, uint32_t b)
{
    const order_context *context = opaque;
    for (int i = 0; i < 3; i++) {
        order_key key = order_keys[context->rule][i];
        uint64_t value_a = order_value(context, key, a);
        uint64_t value_b = order_value(context, key, b);
        if (value_a != value_b) {
            return value_a > value_b;
        }
    }
    return a < b;
}

void plan_peaks(plan_work *work, const uint64_t *total, const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = list == NULL ? i : list[i];
        uint64_t peak = 0;
        for (uint32_t s = work->item[index].first; s < work->item[index].last; s++) {
            peak = total[s] > peak ? total[s] : peak;
        }
        work->key[index] = peak;
    }
}

void plan_order(plan_work *work, plan_rule rule, uint32_t count)
{
    order_context context = {.item = work->item,
                             .floor = work->floor,
                             .head = work->head,
                             .peak = work->key,
                             .rule = rule};
    bp_sort(work->order, work->spare, count, order_before, &context);
}
