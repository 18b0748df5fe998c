/* SPDX-License-Identifier: MIT */
/* Schedules: every policy's sequence is legal, complete and as long as promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/schedule.h"
#include "tests/fixtures/share.h"

#define STAGES_MAX  20
#define ACTIONS_MAX 1024

/* Plays a schedule and checks that each action finds what it reads: the boundary, the tape, the
 * gradient of the boundary behind it. */
static void play(const bp_action *actions, uint32_t count, uint32_t stages,
                 const uint32_t *variants)
{
    bool boundary[STAGES_MAX + 1] = {true};
    bool tape[STAGES_MAX] = {false};
    uint32_t next_backward = stages;
    for (uint32_t i = 0; i < count; i++) {
        const bp_action *a = &actions[i];
        assert_true(boundary[a->stage]);
        if (a->kind == BP_ACTION_FORWARD) {
            assert_true(a->stage + 1 < stages);
            assert_true(a->variant < variants[a->stage]);
            boundary[a->stage + 1] = true;
            tape[a->stage] = a->variant + 1 < variants[a->stage];
        } else {
            assert_int_equal(a->stage, next_backward - 1);
            assert_true(tape[a->stage] || a->variant + 1 == variants[a->stage]);
            next_backward = a->stage;
        }
    }
    assert_int_equal(next_backward, 0);
}

static void check_policy(bp_policy policy, uint32_t stages)
{
    bp_action actions[ACTIONS_MAX];
    uint32_t variants[STAGES_MAX];
    uint32_t count = 0;
    for (uint32_t s = 0; s < stages; s++) {
        variants[s] = s == 0 || s + 1 == stages ? 1 : 9;
    }
    uint32_t most = bp_schedule_count(&policy, stages);
    assert_true(most <= ACTIONS_MAX);
    assert_int_equal(bp_schedule_generate(&policy, stages, 0, variants, actions, most, &count),
                     BP_OK);
    assert_true(count <= most);
    play(actions, count, stages, variants);
    assert_int_equal(bp_schedule_generate(&policy, stages, 0, variants, actions, count - 1, &count),
                     BP_ERR_FIT);
}

/* verifies compile-2.20c3 */
static void test_every_policy_is_legal(void **state)
{
    (void)state;
    for (uint32_t stages = 1; stages <= STAGES_MAX; stages++) {
        check_policy((bp_policy){.kind = BP_POLICY_NONE, .every = 0}, stages);
        check_policy((bp_policy){.kind = BP_POLICY_FULL, .every = 0}, stages);
        check_policy((bp_policy){.kind = BP_POLICY_MEMORY_POOR, .every = 0}, stages);
        check_policy((bp_policy){.kind = BP_POLICY_SQRT}, stages);
        for (uint32_t mask = 0; mask <= BP_RECOMPUTE_ALL; mask++) {
            check_policy((bp_policy){.kind = BP_POLICY_SELECTIVE, .recompute = mask}, stages);
        }
        const uint32_t list[] = {0, stages / 3, stages / 2};
        check_policy((bp_policy){.kind = BP_POLICY_LIST, .list = list, .list_count = 3}, stages);
        for (uint32_t every = 1; every <= stages + 1; every++) {
            check_policy((bp_policy){.kind = BP_POLICY_EVERY, .every = every}, stages);
        }
    }
}

/* Of a chain whose first stages are frozen. */
static uint32_t slots_above(bp_policy policy, uint32_t stages, uint32_t first)
{
    bp_action actions[ACTIONS_MAX];
    uint32_t variants[STAGES_MAX];
    uint32_t count = 0;
    uint32_t checkpoints = 0;
    for (uint32_t s = 0; s < stages; s++) {
        variants[s] = 2;
    }
    assert_int_equal(
        bp_schedule_generate(&policy, stages, first, variants, actions, ACTIONS_MAX, &count),
        BP_OK);
    assert_true(count <= bp_schedule_count(&policy, stages));
    for (uint32_t i = 0; i < count; i++) {
        checkpoints += actions[i].checkpoint ? 1 : 0;
    }
    return checkpoints;
}

static uint32_t slots(bp_policy policy, uint32_t stages)
{
    return slots_above(policy, stages, 0);
}

/* verifies compile-2.20c3 */
static void test_checkpoint_slots(void **state)
{
    (void)state;
    assert_int_equal(slots((bp_policy){.kind = BP_POLICY_NONE, .every = 0}, 14), 0);
    assert_int_equal(slots((bp_policy){.kind = BP_POLICY_MEMORY_POOR, .every = 0}, 14), 0);
    assert_int_equal(slots((bp_policy){.kind = BP_POLICY_FULL, .every = 0}, 14), 13);
    assert_int_equal(slots((bp_policy){.kind = BP_POLICY_EVERY, .every = 4}, 14), 3);
    assert_int_equal(slots((bp_policy){.kind = BP_POLICY_SQRT}, 17), 4);
    /* Above frozen stages the first input is kept, but by the policy that keeps nothing. */
    for (uint32_t first = 1; first < 14; first++) {
        assert_int_equal(slots_above((bp_policy){.kind = BP_POLICY_MEMORY_POOR}, 14, first), 0);
        assert_int_equal(slots_above((bp_policy){.kind = BP_POLICY_NONE}, 14, first), 1);
    }
}

/* Forward keeps what goes into the stages that are listed, and no other; the stages of the whole
 * chain are meant, also where the first ones are frozen. */
/* verifies compile-2.20c3 */
static void test_a_list_keeps_its_stages(void **state)
{
    (void)state;
    const uint32_t list[] = {5, 9};
    const bp_policy policy = {.kind = BP_POLICY_LIST, .list = list, .list_count = 2};
    uint32_t variants[14];
    for (uint32_t s = 0; s < 14; s++) {
        variants[s] = 2;
    }
    for (uint32_t first = 0; first < 4; first++) {
        bp_action actions[ACTIONS_MAX];
        uint32_t count = 0;
        uint32_t kept = 0;
        assert_int_equal(
            bp_schedule_generate(&policy, 14, first, variants, actions, ACTIONS_MAX, &count),
            BP_OK);
        for (uint32_t i = 0; i < count; i++) {
            if (actions[i].checkpoint && actions[i].stage >= first) {
                assert_int_equal(actions[i].stage + 1, list[kept++]);
            }
        }
        assert_int_equal(kept, 2);
    }
}

/* verifies compile-2.20c3 */
static void test_nonsense_is_refused(void **state)
{
    (void)state;
    uint32_t variants[1] = {1};
    bp_action action;
    uint32_t count = 7;
    const bp_policy zero = {.kind = BP_POLICY_EVERY, .every = 0};
    const bp_policy none = {.kind = BP_POLICY_NONE, .every = 0};
    assert_int_equal(bp_schedule_count(&zero, 4), 0);
    assert_int_equal(bp_schedule_count(&none, 0), 0);
    assert_int_equal(bp_schedule_generate(&zero, 1, 0, variants, &action, 1, &count), BP_ERR_USAGE);
    assert_int_equal(bp_schedule_generate(&none, 0, 0, variants, &action, 1, &count), BP_ERR_USAGE);
    const uint32_t missing[] = {1};
    const bp_policy list = {.kind = BP_POLICY_LIST, .list = missing, .list_count = 1};
    assert_int_equal(bp_schedule_generate(&list, 1, 0, variants, &action, 1, &count), BP_ERR_USAGE);
    assert_int_equal(count, 7);
    const bp_policy poor = {.kind = BP_POLICY_MEMORY_POOR, .every = 0};
    /* It counts to 5e9 for this: 9 s. */
    assert_true(!long_form() || bp_schedule_count(&poor, 100000) == UINT32_MAX);
}

/* verifies compile-2.20c3 */
static void test_names(void **state)
{
    (void)state;
    assert_string_equal(bp_policy_name(BP_POLICY_MEMORY_POOR), "memory-poor");
    assert_string_equal(bp_policy_name(BP_POLICY_EVERY), "every");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_is_legal),
        cmocka_unit_test(test_checkpoint_slots),
        cmocka_unit_test(test_a_list_keeps_its_stages),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
