/* SPDX-License-Identifier: MIT */
/* A step of many ranks, simulated: the ops of its program as it is planned for so many ranks, with
 * the costs that the plan counts, and every message of every call over links of a latency and a
 * bandwidth each. A rank sends one message after the other, beginning with its successor, and
 * receives one after the other; ranks of a host share one link to the others.
 *
 *     build/release/tools/bench/exchange [KEY=VALUE..]
 *         preset=gpt2 batch=1 sequence=256 micros=1 (micro-batches of one rank) ranks=2 host=0
 *         (ranks of a host; 0: all) latency=5e-5,5e-5 bandwidth=1e9,1e9 (inside a host, between
 *         hosts: seconds, bytes per second) computing=0 (seconds of a step of one rank alone; 0: as
 *         counted) shared=0 (part of the moving that is taken from computing: 0.99 where the thread
 *         that moves has no processor of its own) levels=1 (2: sums are made inside a host first)
 *         shard=none (optimizer, gradients, parameters)
 *
 * Prints one JSON object: alone (computing of one rank without others), computing (with the sums of
 * pieces), exchange (while calls are under way), step, efficiency (alone over step), and what a
 * rank sends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ir/cost.h"
#include "device/host/host.h"
#include "optim/rules.h"
#include "tools/bench/bench_plan.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"

#define RANKS_MOST 1024

typedef struct network {
    uint32_t ranks, host;
    double latency[2], bandwidth[2];                /* inside a host, between hosts */
    double sends[RANKS_MOST], receives[RANKS_MOST]; /* when a rank's own link is free again */
    double leaves[RANKS_MOST], arrives[RANKS_MOST]; /* and a host's */
} network;

typedef struct simulated {
    double computing, exchange, step;
    double sent[2];
    double fabric_free; /* when the calls so far have ended */
    double ends[64];    /* by request */
} simulated;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* What a call moves: each rank's own piece to all others (a gather), or theirs to it. */
typedef struct message {
    double bytes;                  /* of a piece, where they are alike */
    const bp_fabric_piece *pieces; /* else, by rank */
    bool exchanged;
} message;

static double message_bytes(const message *of, uint32_t from, uint32_t to)
{
    return of->pieces == NULL ? of->bytes : (double)of->pieces[of->exchanged ? to : from].bytes;
}

/* When a call ends that begins at `now`, in which each of `count` ranks, `stride` apart, sends
 * every other one a piece; groups of them that do not meet do it at once. Links are free when what
 * came before has gone. */
static double all_to_all(network *net, uint32_t count, uint32_t stride, const message *of,
                         double now)
{
    double end = now;
    for (uint32_t r = 0; r < net->ranks; r++) {
        net->sends[r] = later(net->sends[r], now);
        net->receives[r] = later(net->receives[r], now);
        net->leaves[r] = later(net->leaves[r], now);
        net->arrives[r] = later(net->arrives[r], now);
    }
    for (uint32_t k = 1; k < count; k++) {
        for (uint32_t r = 0; r < net->ranks; r++) {
            const uint32_t member = r / stride % count;
            const uint32_t to = r - member * stride + (member + k) % count * stride;
            const uint32_t a = r / net->host, b = to / net->host;
            const int link = a != b;
            double *out = link ? &net->leaves[a] : &net->sends[r];
            double *in = link ? &net->arrives[b] : &net->receives[to];
            const double took = message_bytes(of, r, to) / net->bandwidth[link];
            const double began = *out;
            *out = began + took;
            *in = later(began + net->latency[link], *in) + took;
            end = later(end, *in);
        }
    }
    return end;
}

static void note_sent(simulated *s, const network *net, uint32_t count, uint32_t stride,
                      double piece)
{
    const uint32_t inside = stride == 1 ? (count < net->host ? count : net->host) - 1 : 0;
    s->sent[0] += inside * piece;
    s->sent[1] += (count - 1 - inside) * piece;
}

/* When one call of all ranks ends. On two levels an exchange adds up what the ranks of a host have,
 * before every rank sends a host's sums on; an all-gather goes the other way; pieces are alike. */
static double call_ends(network *net, simulated *s, uint32_t levels, const message *of, double now)
{
    const uint32_t hosts = net->ranks / net->host;
    if (levels < 2 || hosts == 1 || net->host == 1) {
        note_sent(s, net, net->ranks, 1, of->bytes);
        return all_to_all(net, net->ranks, 1, of, now);
    }
    const message sums = {.bytes = hosts * of->bytes}, rest = {.bytes = of->bytes};
    note_sent(s, net, net->host, 1, sums.bytes);
    note_sent(s, net, hosts, net->host, rest.bytes);
    now = all_to_all(net, net->host, 1, &sums, now);
    return all_to_all(net, hosts, net->host, &rest, now);
}

/* Computing goes on at a part of its pace while calls are under way. */
static double compute(const simulated *s, double now, double seconds, double shared)
{
    const double busy = later(s->fabric_free - now, 0.0);
    const double done = busy * (1.0 - shared);
    return done >= seconds ? now + seconds / (1.0 - shared) : now + busy + (seconds - done);
}

typedef struct request {
    uint32_t levels;
    double computing, shared;
    double alone; /* counted seconds of one rank's step without others */
} request;

static double simulate_call(const bp_graph *graph, const bp_op *op, network *net,
                            const request *want, simulated *s, double now)
{
    const bp_gather_pieces_begin_scalars *of = (const void *)(graph->scalars + op->scalar);
    const bool differ = bp_fabric_has_pieces(op->kernel);
    const message m = {.bytes = differ ? (double)of->whole / net->ranks : (double)of->bytes,
                       .pieces = differ ? bp_fabric_pieces_of(of) : NULL,
                       .exchanged = op->kernel == BP_KERNEL_exchange_pieces_begin};
    return call_ends(net, s, want->levels, &m, now);
}

static void simulate(const bp_graph *graph, network *net, const request *want, simulated *s)
{
    const double counted = bp_cost_program(graph, BP_PROGRAM_STEP, &BP_RATES_DEFAULT);
    const double scale = want->computing > 0.0 ? want->computing / want->alone : 1.0;
    double now = 0.0;
    *s = (simulated){.computing = counted * scale};
    for (uint32_t i = 0; i < graph->program_count[BP_PROGRAM_STEP]; i++) {
        const bp_op *op = &graph->ops[graph->program_first[BP_PROGRAM_STEP] + i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        const bp_gather_pieces_begin_scalars *of = (const void *)(graph->scalars + op->scalar);
        if (info->engine != BP_ENGINE_FABRIC) {
            const bp_cost cost = bp_cost_op(graph, op);
            now = compute(s, now, bp_cost_seconds(cost, &BP_RATES_DEFAULT) * scale, want->shared);
        } else if (info->pending == BP_PENDING_BEGIN) {
            const double end = simulate_call(graph, op, net, want, s, now);
            s->exchange += later(end - later(s->fabric_free, now), 0.0);
            s->fabric_free = later(s->fabric_free, end);
            s->ends[(uint64_t)of->request % 64] = end;
        } else {
            now = later(now, s->ends[(uint64_t)of->request % 64]);
        }
    }
    s->step = later(now, s->fabric_free);
}

static void pair(int argc, char **argv, const char *key, const char *standard, double to[2])
{
    char *end = NULL;
    to[0] = strtod(word(argc, argv, key, standard), &end);
    to[1] = *end == ',' ? strtod(end + 1, NULL) : to[0];
}

static bp_sharing sharing(int argc, char **argv)
{
    const char *form = word(argc, argv, "shard", "none");
    bp_sharing found = BP_SHARING_NONE;
    while (found < BP_SHARINGS && strcmp(form, bp_sharing_name(found)) != 0) {
        found++;
    }
    return found;
}

static bp_spec spec_of(int argc, char **argv, const bp_preset *preset, uint32_t ranks)
{
    const bp_model_config config = bp_preset_config(preset);
    bp_spec spec = {.model = config.family->model,
                    .config = config,
                    .optimizer = &bp_optimizer_adamw,
                    .optimizer_options = {.learning_rate = 1e-4,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .max_grad_norm = 1.0},
                    .device = &bp_device_host,
                    .device_options = {.threads = 1, .variant = "avx512"},
                    .batch = number(argc, argv, "batch", "1"),
                    .sequence = number(argc, argv, "sequence", "256"),
                    .accumulation = ranks * number(argc, argv, "micros", "1"),
                    .virtual_ranks = ranks,
                    .ranks = ranks,
                    .gather_ahead = 1,
                    .sharing = ranks > 1 ? sharing(argc, argv) : BP_SHARING_NONE};
    bp_family_set_dropouts(&spec.config, 0.0);
    return spec;
}

static bool plan_it(bp_plan *plan, const bp_spec *spec, void **memory)
{
    if (bench_plan(plan, spec, memory)) {
        return true;
    }
    const bp_error *error = bp_plan_error(plan);
    fprintf(stderr, "exchange: %s %s\n", error->text, error->name);
    free(*memory);
    return false;
}

/* Counted seconds of the programs of a step. */
static double count_step(const bp_graph *graph, uint32_t micros)
{
    static const bp_program_kind once[] = {BP_PROGRAM_STEP, BP_PROGRAM_MICRO_FIRST,
                                           BP_PROGRAM_UPDATE};
    double seconds = 0.0;
    for (int i = 0; i < 3; i++) {
        seconds += bp_cost_program(graph, once[i], &BP_RATES_DEFAULT);
    }
    return seconds +
           (micros - 1) * bp_cost_program(graph, BP_PROGRAM_MICRO_NEXT, &BP_RATES_DEFAULT);
}

int main(int argc, char **argv)
{
    static bp_plan plan;
    static network net;
    const bp_preset *preset = bp_preset_find(word(argc, argv, "preset", "gpt2"));
    simulated s;
    net.ranks = number(argc, argv, "ranks", "2");
    net.host = number(argc, argv, "host", "0");
    net.host = net.host == 0 ? net.ranks : net.host;
    pair(argc, argv, "latency", "5e-5", net.latency);
    pair(argc, argv, "bandwidth", "1e9", net.bandwidth);
    request want = {.levels = number(argc, argv, "levels", "1"),
                    .computing = strtod(word(argc, argv, "computing", "0"), NULL),
                    .shared = strtod(word(argc, argv, "shared", "0"), NULL)};
    if (preset == NULL || sharing(argc, argv) == BP_SHARINGS || net.ranks < 2 ||
        net.ranks > RANKS_MOST || net.ranks % net.host != 0 ||
        !(want.shared >= 0.0 && want.shared < 1.0)) {
        fputs("exchange: no such preset or form, or numbers of ranks that do not go together\n",
              stderr);
        return 2;
    }
    const bp_spec one = spec_of(argc, argv, preset, 1),
                  spec = spec_of(argc, argv, preset, net.ranks);
    void *memory = NULL;
    if (!plan_it(&plan, &one, &memory)) {
        return 1;
    }
    want.alone = count_step(&plan.graph, one.accumulation);
    free(memory);
    memory = NULL;
    if (!plan_it(&plan, &spec, &memory)) {
        return 1;
    }
    simulate(&plan.graph, &net, &want, &s);
    const double alone = want.computing > 0.0 ? want.computing : want.alone;
    printf(
        "{\"ranks\": %u, \"alone\": %.6f, \"computing\": %.6f, \"exchange\": %.6f, \"step\": %.6f, "
        "\"efficiency\": %.4f, \"inside_bytes\": %.0f, \"between_bytes\": %.0f}\n",
        net.ranks, alone, s.computing, s.exchange, s.step, alone / s.step, s.sent[0], s.sent[1]);
    free(memory);
    return 0;
}
