/* SPDX-License-Identifier: MIT */
/* Rotary positions: the table of their cosines and sines, and turning heads by it; heads regrouped.
 */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"

#define TURN 0x1.921fb54442d18p+2 /* 2 pi */

/* What the frequencies depend on. */
typedef struct rotary_shape {
    uint64_t width;
    double theta;
    double factor;
    double low;
    double high;
    double original;
} rotary_shape;

/* Frequency i as kernels.def says, in float. */
BP_DEVICE float frequency(const rotary_shape *s, uint64_t i)
{
    float power = (float)bp_pow(s->theta, 2.0 * (double)i / (double)s->width);
    float f = 1.0f / power;
    if (s->factor <= 0.0) {
        return f;
    }
    double wavelength = TURN / (double)f;
    if (wavelength > s->original / s->low) {
        return (float)((double)f / s->factor);
    }
    if (wavelength < s->original / s->high) {
        return f;
    }
    double smooth = (s->original / wavelength - s->low) / (s->high - s->low);
    return (float)((1.0 - smooth) * (double)f / s->factor + smooth * (double)f);
}

/* A thread has one angle of one row. */
BP_KERNEL bp_rotary_table(float *table, const bp_step_block *step, uint64_t rows, uint64_t width,
                          uint32_t decode, double theta, double factor, double low, double high,
                          double original)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x, half = width / 2;
    if (i >= rows * half) {
        return;
    }
    const rotary_shape shape = {width, theta, factor, low, high, original};
    uint64_t row = i / half, column = i % half;
    uint64_t position = row + (decode != 0 ? step->position : 0);
    float angle = (float)position * frequency(&shape, column);
    double sine, cosine;
    bp_sin_cos((double)angle, &sine, &cosine);
    table[row * width + column] = (float)cosine;
    table[row * width + half + column] = (float)sine;
}

/* The same for frequencies that are given, some columns of the table. */
BP_KERNEL bp_rotary_angles(float *cosines, float *sines, const bp_step_block *step, uint64_t rows,
                           uint64_t width, uint32_t count, uint32_t decode, float magnitude,
                           float f0, float f1, float f2, float f3, float f4, float f5, float f6,
                           float f7)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * count) {
        return;
    }
    uint64_t row = i / count, n = i % count;
    float low = n < 2 ? (n == 0 ? f0 : f1) : n == 2 ? f2 : f3;
    float high = n < 6 ? (n == 4 ? f4 : f5) : n == 6 ? f6 : f7;
    uint64_t position = row + (decode != 0 ? step->position : 0);
    float angle = (float)position * (n < 4 ? low : high);
    double sine, cosine;
    bp_sin_cos((double)angle, &sine, &cosine);
    cosines[row * width + n] = (float)cosine * magnitude;
    sines[row * width + n] = (float)sine * magnitude;
}

/* A thread turns one pair of one head of one row, elements that are `half` apart or, with
 * `neighbours`, side by side; sign -1 turns back. */
BP_KERNEL bp_rotary(void *x, const float *table, uint64_t rows, uint64_t sequence, uint64_t heads,
                    uint64_t width, uint64_t pitch, float sign, uint32_t form, uint64_t apart,
                    const int32_t *extents, int64_t original, uint32_t neighbours)
{
    uint64_t half = width / 2, i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * heads * half) {
        return;
    }
    uint64_t pair = i % half, head = i / half % heads, row = i / half / heads;
    uint64_t place = row % sequence;
    if (extents != nullptr && extents[row] > original) {
        place += sequence;
    }
    const float *angles = table + place * width + pair;
    uint64_t first = row * pitch + head * apart + pair, other = first + half;
    if (neighbours != 0) {
        first += pair;
        other = first + 1;
    }
    float a = bp_get(x, first, form), b = bp_get(x, other, form);
    float cosine = angles[0], sine = angles[half] * sign;
    bp_put(x, first, form, fmaf(a, cosine, -(b * sine)));
    bp_put(x, other, form, fmaf(b, cosine, a * sine));
}

/* A thread has one element: of row r, part k, group g what lies there in group g, part k. */
BP_KERNEL bp_regroup(void *y, const void *x, uint64_t rows, uint64_t groups, uint64_t parts,
                     uint64_t width, uint32_t form)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * groups * parts * width) {
        return;
    }
    uint64_t column = i % width, group = i / width % groups, part = i / width / groups % parts;
    uint64_t row = i / width / groups / parts;
    bp_put(y, i, form, bp_get(x, ((row * groups + group) * parts + part) * width + column, form));
}
