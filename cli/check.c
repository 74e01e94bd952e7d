/* tapedeck check: what can be known of an experiment before it trains. */
#include "findings.h"
#include "options.h"
#include "terminal.h"

static const char help[] =
    "tapedeck check EXPERIMENT.yaml [OPTION…]\n"
    "\n"
    "Says what can be known before training: from the file, from the data, and from one pass "
    "forward\n"
    "and back through the untrained model. What cannot work is marked \u2717, what often does harm "
    "?.\n"
    "\n"
    "  --set KEY=VALUE   change the file first, as in `tapedeck train`\n"
    "  --probe           also try out learning rates, from 1e-6 to 10 in 120 steps (a range test)\n"
    "  --only RULES      only these rules: names and globs, separated by commas\n"
    "  --ignore RULES    all but these\n"
    "  --json            for programs\n"
    "\n"
    "Exit status 0 when nothing is wrong, 1 when something is, 2 when the file is.\n"
    "\n"
    "Examples\n"
    "  tapedeck check digits.yaml\n"
    "  tapedeck check digits.yaml --set data.standardize=true\n";

static void print_problem(void *user, const char *text) {
    (void)user;
    (void)fprintf(stderr, "%s\n", text);
}

static int run_check(int count, char **arguments) {
    bool json = false, probe = false;
    const char *only = NULL, *ignore = NULL, *set[MAX_VALUES];
    size_t set_count = 0;
    const option options[] = {
        {.name = "json", .flag = &json},
        {.name = "probe", .flag = &probe},
        {.name = "only", .text = &only},
        {.name = "ignore", .text = &ignore},
        {.name = "set", .list = set, .list_count = &set_count},
    };
    if (!parse_options(&command_check, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1) {
        return misuse(&command_check, "expected one experiment file");
    }
    td_error error = {0};
    td_check_options how = {.size = sizeof how,
                            .set = set,
                            .set_count = set_count,
                            .only = only,
                            .ignore = ignore,
                            .problem = print_problem,
                            .probe = probe};
    td_diagnosis *diagnosis = td_check(arguments[0], &how, &error);
    if (!diagnosis) {
        return fail(EXIT_USAGE, "%s", error.text);
    }
    if (json) {
        print_json_diagnosis(diagnosis);
    } else {
        print_diagnosis(diagnosis, terminal_has_colour(stdout));
    }
    int status = count_certain(diagnosis) ? EXIT_BAD : EXIT_GOOD;
    td_diagnosis_destroy(diagnosis);
    return status;
}

const command command_check = {
    .name = "check",
    .summary = "what can be known of an experiment before it trains",
    .help = help,
    .run = run_check,
};
