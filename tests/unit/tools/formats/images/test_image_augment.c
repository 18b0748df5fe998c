/* SPDX-License-Identifier: MIT */
/* Crops and flips at random: where images are cut, how parts are made large, how often they are
 * turned, and what it hangs on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/base/random.h"
#include "tools/formats/images/image_augment.h"

enum { HEIGHT = 4, WIDTH = 5, CHANNELS = 2, NUMBERS = HEIGHT * WIDTH * CHANNELS, SAMPLES = 4000 };

static int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void make_image(int32_t image[NUMBERS])
{
    for (int i = 0; i < NUMBERS; i++) {
        image[i] = bits_of((float)((i / CHANNELS) * (i / CHANNELS)) + (float)(i % CHANNELS) * 1000);
    }
}

static bp_image_augment make(uint32_t padding, double scale, double flip)
{
    bp_image_augment a = {.size = {HEIGHT, WIDTH, CHANNELS},
                          .padding = padding,
                          .scale = scale,
                          .flip = flip,
                          .black = {-7.0f, -9.0f}};
    bp_image_augment_begin(&a);
    return a;
}

/* Whether `to` is the image moved by (down, right), turned or not. */
static bool is_moved(const int32_t *image, const int32_t *to, int down, int right, bool turned)
{
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            const int at = turned ? WIDTH - 1 - x : x, from_y = y + down, from_x = at + right;
            const bool inside = from_y >= 0 && from_y < HEIGHT && from_x >= 0 && from_x < WIDTH;
            for (int c = 0; c < CHANNELS; c++) {
                const int32_t right_bits = inside ? image[(from_y * WIDTH + from_x) * CHANNELS + c]
                                                  : bits_of(c == 0 ? -7.0f : -9.0f);
                if (to[(y * WIDTH + x) * CHANNELS + c] != right_bits) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Each of the 2 x 25 outcomes comes about as often as the others. */
/* verifies formats-53.d3f0 */
static void test_crop(void **state)
{
    int32_t image[NUMBERS], to[NUMBERS];
    uint32_t counts[2][5][5] = {{{0}}};
    bp_image_augment a = make(2, 0.0, 0.5);
    (void)state;
    make_image(image);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t found = 0;
        a.feed.row(&a.feed, 11, i / 100, i % 100, image, to);
        for (int turned = 0; turned < 2; turned++) {
            for (int k = 0; k < 25; k++) {
                if (is_moved(image, to, k / 5 - 2, k % 5 - 2, turned != 0)) {
                    counts[turned][k / 5][k % 5]++;
                    found++;
                }
            }
        }
        assert_int_equal(found, 1);
    }
    for (int k = 0; k < 50; k++) { /* 80 are expected, with a deviation of 9 */
        assert_in_range(counts[k / 25][k / 5 % 5][k % 5], 35, 125);
    }
}

/* verifies formats-53.d3f0 */
static void test_flip(void **state)
{
    int32_t image[NUMBERS], to[NUMBERS];
    uint32_t turned = 0;
    bp_image_augment a = make(0, 0.0, 0.25);
    (void)state;
    make_image(image);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        a.feed.row(&a.feed, 11, 3, i, image, to);
        const bool is = is_moved(image, to, 0, 0, true);
        assert_true(is || is_moved(image, to, 0, 0, false));
        turned += is ? 1 : 0;
    }
    assert_in_range(turned, SAMPLES / 4 - 110, SAMPLES / 4 + 110);
    a.flip = 1.0;
    a.feed.row(&a.feed, 11, 3, 0, image, to);
    assert_true(is_moved(image, to, 0, 0, true));
    a.flip = 0.0;
    a.feed.row(&a.feed, 11, 3, 0, image, to);
    assert_true(is_moved(image, to, 0, 0, false));
}

/* (seed, step, sample), and nothing else. */
/* verifies formats-53.d3f0 */
static void test_names(void **state)
{
    int32_t image[NUMBERS], first[NUMBERS], again[NUMBERS];
    uint32_t same[3] = {0};
    bp_image_augment a = make(2, 0.0, 0.5);
    (void)state;
    make_image(image);
    for (uint32_t i = 0; i < 200; i++) {
        a.feed.row(&a.feed, 5, i, 1, image, first);
        a.feed.row(&a.feed, 5, i, 1, image, again);
        assert_memory_equal(first, again, sizeof first);
        const uint64_t others[3][3] = {{6, i, 1}, {5, i + 1, 1}, {5, i, 2}};
        for (int k = 0; k < 3; k++) {
            a.feed.row(&a.feed, others[k][0], others[k][1], (uint32_t)others[k][2], image, again);
            same[k] += memcmp(first, again, sizeof first) == 0 ? 1 : 0;
        }
    }
    for (int k = 0; k < 3; k++) {
        assert_in_range(same[k], 0, 20); /* one in 50 by chance */
    }
}

/* Parts lie inside, have about the area that was asked for and sides from 3:4 to 4:3. */
/* verifies formats-53.d3f0 */
static void test_parts(void **state)
{
    uint32_t part[4], corners = 0;
    double areas = 0.0;
    bp_image_augment a = make(0, 0.1, 0.0);
    (void)state;
    a.size[0] = 60;
    a.size[1] = 80;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        bp_image_augment_part(&a, bp_augment_key(3), 9, i, part);
        assert_true(part[2] >= 1 && part[3] >= 1 && part[0] + part[2] <= 60 &&
                    part[1] + part[3] <= 80);
        const double area = (double)part[2] * part[3] / 4800.0;
        const double ratio = (double)part[3] / part[2];
        assert_true(area > 0.09 && area <= 1.0 && ratio > 0.72 && ratio < 1.39);
        corners += part[0] == 0 || part[1] == 0 ? 1 : 0;
        areas += area;
    }
    assert_true(areas / (double)SAMPLES > 0.4 &&
                areas / (double)SAMPLES < 0.55); /* large ones fit less often */
    assert_in_range(corners, 50, SAMPLES / 2);
}

/* What never fits: the largest part in the middle. */
/* verifies formats-53.d3f0 */
static void test_middle(void **state)
{
    static const uint32_t rows[3][6] = {
        {4, 20, 0, 7, 4, 5}, {20, 4, 7, 0, 5, 4}, {1, 1, 0, 0, 1, 1}};
    bp_image_augment a = make(0, 1.0, 0.0);
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t part[4];
        a.size[0] = rows[i][0];
        a.size[1] = rows[i][1];
        bp_image_augment_part(&a, 1, 2, 3, part);
        assert_memory_equal(part, &rows[i][2], sizeof part);
    }
}

/* torch.nn.functional.interpolate(mode="bilinear") of a 2 x 3 part of a square function to 4 x 5:
 * found among samples, all of whose parts are compared with the formula. */
/* verifies formats-53.d3f0 */
static void test_enlarge(void **state)
{
    static const double right[HEIGHT * WIDTH] = {
        49.0,   55.0,   64.0,   74.2,   81.0,   72.75, 79.75, 90.25, 101.95, 109.75,
        120.25, 129.25, 142.75, 157.45, 167.25, 144.0, 154.0, 169.0, 185.2,  196.0};
    int32_t image[NUMBERS], to[NUMBERS];
    uint32_t found = 0;
    bp_image_augment a = make(0, 0.1, 0.0);
    (void)state;
    make_image(image);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t part[4];
        bp_image_augment_part(&a, bp_augment_key(11), 0, i, part);
        if (part[0] == 1 && part[1] == 2 && part[2] == 2 && part[3] == 3) {
            a.feed.row(&a.feed, 11, 0, i, image, to);
            for (int k = 0; k < NUMBERS; k++) {
                const double expected = right[k / CHANNELS] + 1000.0 * (k % CHANNELS);
                assert_true(fabs((double)float_of(to[k]) - expected) < 1e-3);
            }
            found++;
        }
    }
    assert_true(found > 0);
}

/* Of an image of one place a part may round to no row or no column: then another one is drawn, and
 * at last the whole is taken. */
/* verifies formats-53.d3f0 */
static void test_parts_of_one_place(void **state)
{
    (void)state;
    bp_image_augment a = make(0, 0.01, 0.0);
    a.size[0] = a.size[1] = 1;
    for (uint32_t i = 0; i < 2000; i++) {
        static const uint32_t whole[4] = {0, 0, 1, 1};
        uint32_t part[4];
        bp_image_augment_part(&a, 1, 2, i, part);
        assert_memory_equal(part, whole, sizeof part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crop),
                                       cmocka_unit_test(test_flip),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_middle),
                                       cmocka_unit_test(test_enlarge),
                                       cmocka_unit_test(test_parts_of_one_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
