/* Runs the table of operations: every case of every cases_*.c, in every mode. */
#include "gradient/op_table.h"

/* OP_GROUPS(X) names the groups, X(elementwise) …: made by the build from the files' names. */
#include "op_groups.h"

#define DECLARE(name) extern const op_group cases_##name;
OP_GROUPS(DECLARE)
#undef DECLARE

static const op_group *const groups[] = {
#define ADDRESS(name) &cases_##name,
    OP_GROUPS(ADDRESS)
#undef ADDRESS
};

static void values(void **state) {
    op_test_values(*state);
}
static void gradients(void **state) {
    op_test_gradients(*state);
}
static void bits(void **state) {
    op_test_bits(*state);
}
static void memory(void **state) {
    op_test_memory(*state);
}
static void mistake(void **state) {
    op_test_mistake(*state);
}

static const struct {
    const char *name;
    CMUnitTestFunction run;
} modes[] = {{"values", values}, {"gradients", gradients}, {"bits", bits}, {"memory", memory}};
enum { MODES = sizeof modes / sizeof modes[0], NAME_SIZE = 128 };

static struct CMUnitTest named_test(char *name, const char *what, const char *mode,
                                    CMUnitTestFunction run, const void *state) {
    snprintf(name, NAME_SIZE, "%s: %s", what, mode);
    return (struct CMUnitTest){.name = name, .test_func = run, .initial_state = (void *)state};
}

static void print_speed(const char *part) {
    printf("%-56s %8s %19s %19s\n", "", "", "1 thread", "2 threads");
    printf("%-56s %8s %9s %9s %9s %9s\n", "nanoseconds an element", "elements", "forward", "step",
           "forward", "step");
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (size_t i = 0; i < groups[g]->case_count; i++) {
            if (strstr(groups[g]->cases[i].name, part)) {
                op_print_speed(&groups[g]->cases[i]);
            }
        }
    }
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "--speed") == 0) {
        print_speed(count > 2 ? arguments[2] : "");
        return 0;
    }
    size_t most = 0;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        most += groups[g]->case_count * MODES + groups[g]->mistake_count;
    }
    struct CMUnitTest *tests = calloc(most, sizeof *tests);
    char(*names)[NAME_SIZE] = calloc(most, sizeof *names);
    if (!tests || !names) {
        return 1;
    }
    size_t used = 0;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        const op_group *group = groups[g];
        for (size_t i = 0; i < group->case_count * MODES; i++, used++) {
            const op_case *c = &group->cases[i / MODES];
            tests[used] =
                named_test(names[used], c->name, modes[i % MODES].name, modes[i % MODES].run, c);
        }
        for (size_t i = 0; i < group->mistake_count; i++, used++) {
            const op_mistake *m = &group->mistakes[i];
            tests[used] = named_test(names[used], m->name, "mistake", mistake, m);
        }
    }
    int failed = _cmocka_run_group_tests("operations", tests, used, NULL, NULL);
    free(tests);
    free(names);
    return failed;
}
