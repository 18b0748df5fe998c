/* SPDX-License-Identifier: MIT */
/* Limits of control groups, read from trees of files that are made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tools/bedplate/app/group_memory.c"

static char root[] = "/tmp/bedplate-groups-XXXXXX";

/* Writes a file of the tree, and makes the folders on its way. */
static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = strchr(whole + sizeof root, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(whole, 0700); /* or it is there */
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t left(const char *groups, uint64_t enough)
{
    char list[512];
    put("list", groups);
    snprintf(list, sizeof list, "%s/list", root);
    return group_memory_available(list, root, enough);
}

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/bedplate-groups-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : 1;
}

static int end(void **state)
{
    char command[512];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

/* verifies ranks-17.c932 */
static void the_second_version(void **state)
{
    (void)state;
    const char *const group = "0::/jobs/one\n";
    assert_int_equal(left(group, 0), UINT64_MAX); /* nothing is there */
    put("jobs/one/memory.max", "max\n");
    put("jobs/one/memory.current", "500\n");
    assert_int_equal(left(group, 0), UINT64_MAX);
    put("jobs/memory.max", "10000\n"); /* a group around it has a limit */
    put("jobs/memory.current", "4000\n");
    put("jobs/memory.stat", "anon 900\ninactive_file 100\nactive_file 50\nshmem 7\n");
    assert_int_equal(left(group, 0), 6000);
    assert_int_equal(left(group, 6000), 6000);
    assert_int_equal(left(group, 6001), 6150); /* pages of files go */
    put("jobs/one/memory.max", "700\n");
    assert_int_equal(left(group, 0), 200); /* of two limits the nearer one */
    put("jobs/one/memory.current", "800\n");
    assert_int_equal(left(group, 0), 0);
    put("jobs/one/memory.stat", "inactive_file 5000\n"); /* more than is used at all */
    assert_int_equal(left(group, 1), 700);
    put("memory.max", "90\n"); /* a container sees its own part of the tree alone */
    put("memory.current", "30\n");
    assert_int_equal(left("0::/elsewhere\n", 0), 60);
    assert_int_equal(left("0::/\n", 0), 60);
}

/* verifies ranks-17.c932 */
static void the_first_version(void **state)
{
    (void)state;
    put("memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/a/memory.usage_in_bytes", "1000\n");
    assert_int_equal(left("4:cpu,memory:/a\n", 0), UINT64_MAX);
    put("memory/a/memory.limit_in_bytes", "3000\n");
    put("memory/a/memory.stat", "inactive_file 700\ntotal_inactive_file 20\ntotal_active_file 3\n");
    assert_int_equal(left("9:name=systemd:/\n4:memory:/a\n0::/\n", 0), 2000);
    assert_int_equal(left("4:cpu,memory,pids:/a\n", 2001), 2023);
    assert_int_equal(left("4:memory_other,cpu:/a\n", 0), UINT64_MAX);
    assert_int_equal(left("no group\n4:memory\n", 0), UINT64_MAX);
    assert_int_equal(group_memory_available("/no/such/list", root, 0), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_second_version, begin, end),
        cmocka_unit_test_setup_teardown(the_first_version, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
