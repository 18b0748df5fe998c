/* SPDX-License-Identifier: MIT */
/* The plans of all ranks, in words and numbers. */
#include "tools/bedplate/planning/shard_plan_text.h"

#include <stdio.h>

#include "tools/bedplate/pages/bars.h"
#include "tools/bedplate/planning/shard_choice_text.h"
#include "tools/bedplate/ranks/ranks.h"

/* The ranks of the smallest and of the largest arena. */
static void find_extremes(const shard_plan *plan, uint64_t *least, uint64_t *most)
{
    *least = *most = plan->rank[0].arena_bytes;
    for (uint32_t i = 1; i < plan->ranks; i++) {
        const uint64_t bytes = plan->rank[i].arena_bytes;
        *least = bytes < *least ? bytes : *least;
        *most = bytes > *most ? bytes : *most;
    }
}

/* The arenas of ranks that are threads of one process; 0: each has its process. */
static uint64_t shard_plan_process(const session *s, const shard_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; ranks_in_process(s->set) > 1 && i < plan->ranks; i++) {
        bytes += plan->rank[i].arena_bytes;
    }
    return bytes;
}

static void json_ranges(output *out, const session *s, uint32_t rank)
{
    const bp_builder *builder = &s->plan.builder;
    json_list(out, "ranges");
    for (uint32_t i = 0; i < builder->shards.tensors; i++) {
        const uint64_t count = builder->parameters[i].count;
        const bp_share share = bp_shards_share(&builder->shards, i, count, rank);
        const bool owned = builder->parameters[i].trainable && share.count > 0;
        if (owned) {
            json_item(out);
            json_text(out, "tensor", bp_build_name(builder, i));
            json_count(out, "first", share.first);
            json_count(out, "count", share.count);
            json_close(out);
        }
    }
    json_list_end(out);
}

static void json_link(output *out, const char *key, const bp_wire_link *link)
{
    json_open(out, key);
    json_count(out, "peers", link->peers);
    json_count(out, "sent_bytes", (uint64_t)link->bytes);
    json_real(out, "bandwidth", link->bandwidth, 9);
    json_real(out, "latency", link->latency, 9);
    json_close(out);
}

void shard_plan_json(output *out, const session *s, const shard_plan *plan)
{
    uint64_t least, most;
    if (plan->ranks == 0) {
        return;
    }
    find_extremes(plan, &least, &most);
    json_count(out, "ranks", plan->ranks);
    json_text(out, "shard", bp_sharing_name(s->spec.sharing));
    json_count(out, "shard_ahead", s->spec.gather_ahead);
    shard_choice_json(out, &s->sharing);
    json_count(out, "smallest_arena_bytes", least);
    json_count(out, "largest_arena_bytes", most);
    const uint64_t process = shard_plan_process(s, plan);
    if (process > 0) {
        json_count(out, "process_arena_bytes", process);
    }
    json_list(out, "per_rank");
    for (uint32_t i = 0; i < plan->ranks; i++) {
        json_item(out);
        json_count(out, "rank", i);
        json_count(out, "arena_bytes", plan->rank[i].arena_bytes);
        json_count(out, "owned_bytes", plan->rank[i].owned_bytes);
        json_count(out, "sent_bytes", (uint64_t)plan->rank[i].sent_bytes);
        json_open(out, "classes");
        for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
            json_count(out, bp_class_name((bp_class)c), plan->rank[i].class_most[c]);
        }
        json_close(out);
        json_ranges(out, s, i);
        json_close(out);
    }
    json_list_end(out);
    json_open(out, "wire_per_step");
    json_count(
        out, "sent_bytes",
        (uint64_t)(plan->wire.link[BP_WIRE_INSIDE].bytes + plan->wire.link[BP_WIRE_BETWEEN].bytes));
    json_count(out, "calls", plan->wire.calls);
    json_link(out, "inside_host", &plan->wire.link[BP_WIRE_INSIDE]);
    json_link(out, "between_hosts", &plan->wire.link[BP_WIRE_BETWEEN]);
    json_real(out, "exchange_seconds", plan->wire.exchange, 9);
    json_real(out, "computing_seconds", plan->wire.computing, 9);
    json_close(out);
}

static void shard_plan_put_row(bp_text *text, uint32_t rank, const bp_share_rank *row)
{
    static const bp_class shown[] = {BP_CLASS_WEIGHTS, BP_CLASS_MASTER, BP_CLASS_OPTIMIZER,
                                     BP_CLASS_GRADIENTS};
    const uint64_t numbers[] = {row->arena_bytes, row->class_most[shown[0]],
                                row->class_most[shown[1]], row->class_most[shown[2]],
                                row->class_most[shown[3]]};
    char grouped[32];
    bp_text number;
    bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
    bp_text_u64(&number, rank);
    bp_status ok = bp_text_flush(&number);
    bp_text_padded(text, grouped, 6, BP_TEXT_LEFT);
    for (int i = 0; i < 5; i++) {
        bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
        bp_text_grouped(&number, numbers[i]);
        ok = ok == BP_OK ? bp_text_flush(&number) : ok;
        bp_text_padded(text, grouped, 18, BP_TEXT_RIGHT);
    }
    bp_text_char(text, '\n');
}

static void put_link(bp_text *text, const char *name, const bp_wire_link *link)
{
    bp_text_string(text, name);
    bp_text_grouped(text, (uint64_t)link->bytes);
    bp_text_string(text, " bytes to ");
    bp_text_u64(text, link->peers);
    bp_text_string(text, " peers at ");
    bp_text_general(text, link->bandwidth, 4);
    bp_text_string(text, " bytes/s, ");
    bp_text_general(text, link->latency, 4);
    bp_text_string(text, " s\n");
}

static void put_map(bp_text *text, const session *s, uint32_t count)
{
    const bp_builder *builder = &s->plan.builder;
    bp_text_string(text, "\nelements of each rank\n");
    for (uint32_t i = 0; i < builder->shards.tensors; i++) {
        if (!builder->parameters[i].trainable) {
            continue;
        }
        bp_text_padded(text, bp_build_name(builder, i), 40, BP_TEXT_LEFT);
        for (uint32_t rank = 0; rank < count; rank++) {
            const bp_share share =
                bp_shards_share(&builder->shards, i, builder->parameters[i].count, rank);
            if (share.count > 0) {
                bp_text_char(text, ' ');
                bp_text_u64(text, rank);
                bp_text_char(text, ':');
                bp_text_u64(text, share.first);
                bp_text_char(text, '+');
                bp_text_u64(text, share.count);
            }
        }
        bp_text_char(text, '\n');
    }
}

void shard_plan_put(bp_text *text, const session *s, const shard_plan *plan, bool with_map)
{
    uint64_t least, most;
    if (plan->ranks == 0) {
        return;
    }
    find_extremes(plan, &least, &most);
    shard_choice_put(text, &s->sharing);
    bp_text_string(text, "\nrank               arena           weights            master         "
                         "optimizer         gradients\n");
    for (uint32_t i = 0; i < plan->ranks; i++) {
        shard_plan_put_row(text, i, &plan->rank[i]);
    }
    bp_text_string(text, "sharing     ");
    bp_text_string(text, bp_sharing_name(s->spec.sharing));
    if (s->spec.sharing == BP_SHARING_PARAMETERS) {
        bp_text_string(text, ", weights gathered ");
        bp_text_u64(text, s->spec.gather_ahead);
        bp_text_string(text, " ahead");
    }
    bp_text_string(text, "; the largest arena is ");
    bp_text_fixed(text, (double)most / (double)least, 4);
    bp_text_string(text, " of the smallest, ");
    bp_text_grouped(text, most - least);
    bp_text_string(text, " bytes more\n");
    const uint64_t process = shard_plan_process(s, plan);
    if (process > 0) {
        bp_text_string(text, "process     ");
        bp_text_grouped(text, process);
        bp_text_string(text, " bytes: the arenas of all its ranks (");
        bp_text_bytes_human(text, process);
        bp_text_string(text, ")\n");
    }
    bp_text_string(text, "wire        a rank sends in a step (the mean of all), in ");
    bp_text_u64(text, plan->wire.calls);
    bp_text_string(text, " calls:\n");
    put_link(text, "  inside    ", &plan->wire.link[BP_WIRE_INSIDE]);
    put_link(text, "  between   ", &plan->wire.link[BP_WIRE_BETWEEN]);
    bp_text_string(text, "exchange    ");
    bp_text_general(text, plan->wire.exchange, 4);
    bp_text_string(text, " s predicted, call after call; computing ");
    bp_text_general(text, plan->wire.computing, 4);
    bp_text_string(text, " s by counted costs\n");
    if (with_map) {
        put_map(text, s, plan->ranks);
    }
}

void shard_plan_page(bp_text *text, const session *s, const shard_plan *plan)
{
    uint64_t least, most;
    if (plan->ranks == 0) {
        return;
    }
    find_extremes(plan, &least, &most);
    const uint64_t process = shard_plan_process(s, plan);
    bp_text_string(text, "<h2>Arenas of the ranks</h2>\n<p class=\"sub\">");
    bp_text_u64(text, plan->ranks);
    if (process > 0) {
        bp_text_string(text, " ranks are threads of one process; their arenas take ");
        bp_text_grouped(text, process);
        bp_text_string(text, " bytes (");
        bp_text_bytes_human(text, process);
        bp_text_string(text, ") together");
    } else {
        bp_text_string(text, " ranks, each in its process");
    }
    bp_text_string(text, ". --shard ");
    bp_text_string(text, bp_sharing_name(s->spec.sharing));
    bp_text_string(text, "; a rank sends ");
    bp_text_grouped(text, (uint64_t)(plan->wire.link[BP_WIRE_INSIDE].bytes +
                                     plan->wire.link[BP_WIRE_BETWEEN].bytes));
    bp_text_string(text, " bytes in a step. The map is that of rank ");
    bp_text_u64(text, s->spec.rank);
    bp_text_string(text, ".</p>\n");
    bars_begin(text);
    for (uint32_t i = 0; i < plan->ranks; i++) {
        char name[32];
        const uint64_t bytes = plan->rank[i].arena_bytes;
        snprintf(name, sizeof name, "rank %u", i);
        const bar one = {name, bytes, NULL, bytes == most && most > least ? "largest" : NULL};
        bars_put(text, &one, most);
    }
    bars_end(text);
}
