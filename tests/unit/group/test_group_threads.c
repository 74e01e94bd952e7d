#include "network.h"

/* Element i of rank r: sums of these depend on their order. */
static float value_of(int rank, size_t i) {
    return (float)(rank + 1) * 1e7f / (float)(i % 97 + 1) - 3.3e6f * (float)(rank % 3);
}

/* ((0 + 1) + (2 + 3)) + …, of ranks from `first` on. */
static float tree(int first, int width, int size, size_t i) {
    if (width == 1) {
        return value_of(first, i);
    }
    float left = tree(first, width / 2, size, i);
    return first + width / 2 < size ? left + tree(first + width / 2, width / 2, size, i) : left;
}

static void *add_all(void *user) {
    member *m = user;
    m->group = join(m, 30);
    int size = td_group_size(m->group);
    m->good = td_group_rank(m->group) == m->rank &&
              !strcmp(td_group_host(m->group, size - 1),
                      size > 2 ? size > 4 ? size > 6 ? "host3" : "host2" : "host1" : "host0");
    for (size_t i = 0; i < m->count; i++) {
        m->values[i] = value_of(m->rank, i);
    }
    size_t half = m->count / 2;
    td_group_request *a = td_group_add_start(m->group, m->values, half, NULL);
    td_group_request *b = td_group_add_start(m->group, m->values + half, m->count - half, NULL);
    m->good = !td_group_wait(m->group, a, NULL) && !td_group_wait(m->group, b, NULL) && m->good;

    double number = m->rank;
    m->good = !td__group_add_doubles(m->group, &number, 1, NULL) && m->good;
    m->good = number == (double)size * (size - 1) / 2 && m->good;
    int mine = 10 * m->rank, all[MOST], given = mine;
    m->good = !td_group_gather(m->group, &mine, sizeof mine, all, NULL) && m->good;
    for (int i = 0; i < size; i++) {
        m->good = all[i] == 10 * i && m->good;
    }
    m->good = !td_group_broadcast(m->group, &given, sizeof given, size - 1, NULL) && m->good;
    m->good = given == 10 * (size - 1) && m->good;
    m->good = !td_group_status(m->group, NULL) && m->good;
    td_group_close(m->group);
    return NULL;
}

static void sums_are_taken_in_a_fixed_tree(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    static const size_t counts[] = {1, 7, 20011};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t c = 0; c < 3; c++) {
            network net;
            member members[MOST] = {0};
            for (int i = 0; i < sizes[k]; i++) {
                members[i].count = counts[c];
                members[i].values = calloc(counts[c], sizeof(float));
            }
            run_members(members, &net, sizes[k], add_all);
            for (int i = 0; i < sizes[k]; i++) {
                assert_true(members[i].good);
                for (size_t at = 0; at < counts[c]; at++) {
                    float expected = tree(0, MOST, sizes[k], at);
                    assert_memory_equal(&members[i].values[at], &expected, sizeof expected);
                }
                free(members[i].values);
            }
        }
    }
}

static void *lose_one(void *user) {
    member *m = user;
    td_error error = {0};
    double number = 1;
    m->group = join(m, 0.7);
    m->good = m->group != NULL;
    if (m->rank == 2) {
        m->silent = true;
    } else {
        m->good = td__group_add_doubles(m->group, &number, 1, &error) == TD_IO && m->good;
        m->good = strstr(error.text, "rank 2 on host1 is lost") && m->good;
        m->good = td_group_status(m->group, NULL) == TD_IO && m->good;
        m->good = td_group_barrier(m->group, NULL) == TD_IO && m->good;
    }
    td_group_close(m->group);
    return NULL;
}

static void a_silent_process_is_named_to_all(void **state) {
    (void)state;
    network net;
    member members[MOST] = {0};
    run_members(members, &net, 4, lose_one);
    for (int i = 0; i < 4; i++) {
        assert_true(members[i].good);
    }
}

static void *fail_one(void *user) {
    member *m = user;
    td_error error = {0};
    double number = 1;
    m->group = join(m, 30);
    if (m->rank == 1) {
        td_group_fail(m->group, "the disk is full");
    } else {
        m->good = td__group_add_doubles(m->group, &number, 1, &error) == TD_IO &&
                  strstr(error.text, "rank 1 on host0 ended: the disk is full");
    }
    td_group_close(m->group);
    return NULL;
}

static void a_failure_is_reported_to_all(void **state) {
    (void)state;
    network net;
    member members[MOST] = {0};
    run_members(members, &net, 4, fail_one);
    assert_true(members[0].good && members[2].good && members[3].good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_taken_in_a_fixed_tree),
        cmocka_unit_test(a_silent_process_is_named_to_all),
        cmocka_unit_test(a_failure_is_reported_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
