/* SPDX-License-Identifier: MIT */
/* Memory against depth: plans of 4 to 256 layers under each checkpoint policy, the exponents fitted
 * to them, and a figure. Prints a Markdown table; with a file name writes the figure there as SVG.
 *
 *     build/release/tools/bench/depth [FILE.svg] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/host/host.h"
#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tools/bench/bench_plan.h"

#define DEPTHS 7 /* 4, 8, .. 256 */

typedef struct series {
    const char *name;
    const char *colour;
    bp_policy policy;
    uint32_t deepest;
    double bytes[DEPTHS];
    int points;
    double exponent;
    int label_shift; /* down, where two labels would meet */
} series;

static bp_spec spec_of(uint32_t layers, bp_policy policy)
{
    const bp_transformer sizes = {.width = 128,
                                  .layers = layers,
                                  .heads = 4,
                                  .norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    bp_spec spec = {
        .model = &bp_model_gpt2,
        .config = {.vocabulary = 256, .positions = 128},
        .optimizer = &bp_optimizer_adamw,
        .optimizer_options = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .device = &bp_device_host,
        .device_options = {.threads = 2},
        .batch = 32,
        .sequence = 128,
        .accumulation = 1,
        .loss_rows = 256,
        .policy = policy};
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    return spec;
}

/* Most bytes of checkpoint, tape and workspace together; 0 when the plan fails. */
static double activations(uint32_t layers, bp_policy policy)
{
    static bp_plan plan;
    const bp_spec spec = spec_of(layers, policy);
    void *memory = NULL;
    bool planned = bench_plan(&plan, &spec, &memory);
    free(memory);
    return planned ? (double)plan.report.activations_most : 0.0;
}

/* Least squares of log bytes over log layers. */
static double fit_exponent(const series *s)
{
    double x = 0.0;
    double y = 0.0;
    double xx = 0.0;
    double xy = 0.0;
    for (int i = 0; i < s->points; i++) {
        double u = log(4.0 * (double)(1 << i));
        double v = log(s->bytes[i]);
        x += u;
        y += v;
        xx += u * u;
        xy += u * v;
    }
    double n = s->points;
    return (n * xy - x * y) / (n * xx - x * x);
}

static void print_table(const series *all, int count)
{
    printf("| policy |");
    for (int i = 0; i < DEPTHS; i++) {
        printf(" %d |", 4 << i);
    }
    printf(" exponent |\n|---|");
    for (int i = 0; i <= DEPTHS; i++) {
        printf("---|");
    }
    for (int s = 0; s < count; s++) {
        printf("\n| %s |", all[s].name);
        for (int i = 0; i < DEPTHS; i++) {
            if (i < all[s].points) {
                printf(" %.1f |", all[s].bytes[i] / 1e6);
            } else {
                printf(" |");
            }
        }
        printf(" %.3f |", all[s].exponent);
    }
    printf("\n");
}

#define LEFT   70
#define BOTTOM 330
#define WIDE   80  /* per doubling of depth */
#define HIGH   100 /* per factor of ten in bytes */

static double place_y(double bytes)
{
    return BOTTOM - HIGH * (log10(bytes) - 7.0);
}

static void draw(FILE *out, const series *all, int count)
{
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 380\" "
                 "font-family=\"sans-serif\" font-size=\"13\">\n"
                 "<rect width=\"720\" height=\"380\" fill=\"#fff\"/>\n");
    for (int decade = 0; decade < 4; decade++) {
        int y = BOTTOM - HIGH * decade;
        static const char *const names[] = {"10 MB", "100 MB", "1 GB", "10 GB"};
        fprintf(out,
                "<path d=\"M%d %dH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%d\" "
                "text-anchor=\"end\">%s</text>\n",
                LEFT, y, LEFT + WIDE * (DEPTHS - 1), LEFT - 8, y + 4, names[decade]);
    }
    for (int i = 0; i < DEPTHS; i++) {
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", LEFT + WIDE * i,
                BOTTOM + 20, 4 << i);
    }
    fprintf(out, "<text x=\"%d\" y=\"370\" text-anchor=\"middle\">layers</text>\n",
            LEFT + WIDE * (DEPTHS - 1) / 2);
    for (int s = 0; s < count; s++) {
        fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", all[s].colour);
        for (int i = 0; i < all[s].points; i++) {
            fprintf(out, "%c%d %.1f", i == 0 ? 'M' : 'L', LEFT + WIDE * i,
                    place_y(all[s].bytes[i]));
        }
        int last = all[s].points - 1;
        fprintf(out, "\"/><text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s %.2f</text>\n",
                LEFT + WIDE * last + 8, place_y(all[s].bytes[last]) + 4 + all[s].label_shift,
                all[s].colour, all[s].name, all[s].exponent);
    }
    fprintf(out, "</svg>\n");
}

int main(int argc, char **argv)
{
    series all[] = {
        {.name = "none", .colour = "#b33", .policy = {.kind = BP_POLICY_NONE}, .deepest = 256},
        {.name = "full",
         .colour = "#b80",
         .policy = {.kind = BP_POLICY_FULL},
         .deepest = 256,
         .label_shift = 14},
        {.name = "sqrt", .colour = "#27a", .policy = {.kind = BP_POLICY_SQRT}, .deepest = 256},
        {.name = "memory-poor",
         .colour = "#283",
         .policy = {.kind = BP_POLICY_MEMORY_POOR},
         .deepest = 64},
    };
    const int count = (int)(sizeof all / sizeof all[0]);
    for (int s = 0; s < count; s++) {
        for (uint32_t layers = 4; layers <= all[s].deepest; layers *= 2) {
            all[s].bytes[all[s].points++] = activations(layers, all[s].policy);
        }
        all[s].exponent = fit_exponent(&all[s]);
    }
    print_table(all, count);
    FILE *out = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (argc > 1 && out == NULL) {
        fprintf(stderr, "depth: %s cannot be written\n", argv[1]);
        return 6;
    }
    if (out != NULL) {
        draw(out, all, count);
        fclose(out);
    }
    return 0;
}
