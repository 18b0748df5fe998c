/* SPDX-License-Identifier: MIT */
/* Event files byte for byte as TensorBoard's own code writes them
 * (tools/golden/formats/event_files.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <stdlib.h>

#include "tools/bedplate/record/event_file.c"

#define WALL 1700000000.25

static event_file file;

typedef struct fixture {
    char directory[64];
} fixture;

static int set_up(void **state)
{
    static fixture d;
    snprintf(d.directory, sizeof d.directory, "/tmp/bp_events_XXXXXX");
    *state = &d;
    return mkdtemp(d.directory) != NULL ? 0 : -1;
}

static size_t found(const fixture *d, glob_t *names)
{
    char pattern[96];
    snprintf(pattern, sizeof pattern, "%s/*tfevents*", d->directory);
    return glob(pattern, 0, NULL, names) == 0 ? names->gl_pathc : 0;
}

static int tear_down(void **state)
{
    const fixture *d = *state;
    glob_t names;
    const size_t count = found(d, &names);
    for (size_t i = 0; i < count; i++) {
        unlink(names.gl_pathv[i]);
    }
    globfree(&names);
    return rmdir(d->directory);
}

static size_t read_all(const char *path, unsigned char *to, size_t room)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    const size_t count = fread(to, 1, room, in);
    fclose(in);
    return count;
}

/* verifies alone-11.7557 */
static void checksums_are_castagnoli(void **state)
{
    (void)state;
    const unsigned char zeros[32] = {0};
    const unsigned char length[8] = {24};
    const unsigned char data[] = "\x1a\x11"
                                 "CRC test, one two";
    assert_int_equal(event_crc(zeros, sizeof zeros), 0x8a9136aau);
    assert_int_equal(event_checksum(length, sizeof length), 0x224b7fa3u);
    assert_int_equal(event_checksum(data, sizeof data - 1), 0x5794d08au);
}

/* verifies alone-11.7557 */
static void as_tensorboard_writes(void **state)
{
    const fixture *d = *state;
    static unsigned char right[8192], wrote[8192];
    char text[512] = "";
    for (int i = 0; i < 40; i++) {
        strcat(text, "a **plan**\n");
    }
    file.wall = WALL;
    assert_true(event_file_open(&file, d->directory, 8));
    event_scalar(&file, 8, "train/loss", 3.25);
    event_scalar(&file, 9, "train/loss", strtod("nan", NULL));
    event_scalar(&file, 70000000000u, "eval/loss", 1e-9);
    event_text(&file, 8, "plan", text);
    event_hparams_begin(&file);
    event_hparam_flag(&file, "bf16", true);
    event_hparam_number(&file, "learning-rate", 5e-05);
    event_hparam_text(&file, "optim", "adamw");
    event_hparams_end(&file);
    event_hparams_status(&file, 12, 1);
    event_file_close(&file);
    assert_int_equal(file.errors, 0);
    glob_t names;
    assert_int_equal(found(d, &names), 1);
    const size_t count = read_all("tests/golden/tensorboard/events.bin", right, sizeof right);
    assert_int_equal(read_all(names.gl_pathv[0], wrote, sizeof wrote), count);
    assert_memory_equal(wrote, right, count);
    globfree(&names);
}

/* Readers take files in the order of names: a clock that went back must not change it. */
/* verifies alone-16.8ead */
static void names_sort_whatever_the_clock(void **state)
{
    const fixture *d = *state;
    file.wall = WALL;
    assert_true(event_file_open(&file, d->directory, 1));
    file.wall = WALL - 5e6;
    event_file_reopen(&file);
    event_file_close(&file);
    file.wall = 1;
    assert_true(event_file_open(&file, d->directory, 5));
    event_file_close(&file);
    glob_t names;
    assert_int_equal(found(d, &names), 3);
    assert_non_null(strstr(names.gl_pathv[0], "tfevents.1700000000."));
    assert_non_null(strstr(names.gl_pathv[1], "tfevents.1700000001."));
    assert_non_null(strstr(names.gl_pathv[2], "tfevents.1700000002."));
    globfree(&names);
}

/* verifies alone-16.8ead */
static void failures_are_counted(void **state)
{
    const fixture *d = *state;
    static char large[EVENT_BYTES];
    memset(large, 'x', sizeof large - 1);
    file.wall = WALL;
    assert_false(event_file_open(&file, "/nowhere/at/all", 0));
    event_scalar(&file, 1, "a", 1);
    assert_int_equal(file.errors, 2);
    assert_true(event_file_open(&file, d->directory, 0));
    event_text(&file, 1, "a", large);
    assert_int_equal(file.errors, 1);
    /* The medium is full: half a record may be there, so nothing follows it. */
    event_file_close(&file);
    file.fd = open("/dev/full", O_WRONLY);
    assert_true(file.fd >= 0);
    event_scalar(&file, 1, "a", 1);
    assert_int_equal(file.errors, 2);
    assert_int_equal(file.fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnoli),
        cmocka_unit_test_setup_teardown(as_tensorboard_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_sort_whatever_the_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_counted, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
