/* tapedeck diagnose: what is wrong with a run, since when, and what to do. */
#include "findings.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "tapedeck diagnose RUN… [OPTION…]\n"
    "\n"
    "Says what is wrong with a run, most important first: the cause, since when, the evidence, and "
    "what\n"
    "to change. What is suspected is tried out in memory, on the run's own experiment; what does "
    "not\n"
    "help is not reported.\n"
    "\n"
    "  --no-trial        only look at what was recorded; run nothing\n"
    "  --seconds N       most that trials may take (60)\n"
    "  --only RULES      only these rules: names and globs, separated by commas\n"
    "  --ignore RULES    all but these\n"
    "  --explain RULE    what a rule reads, computes and advises; without RUN\n"
    "  --fix             write experiment.fixed.yaml into the run's folder\n"
    "  --no-keep         do not write the findings into the run's run.db\n"
    "  --rank N          what one process of a training of several recorded\n"
    "  --baseline RUNS   also what is not as in these runs, which went well: folders and globs,\n"
    "                    separated by commas; the run itself is left out\n"
    "  --json            for programs\n"
    "\n"
    "Exit status 0 when nothing is wrong, 1 when something is.\n"
    "\n"
    "Examples\n"
    "  tapedeck diagnose runs/digits\n"
    "  tapedeck diagnose runs/digits --only 'learning_rate*,dead_relu' --json\n"
    "  tapedeck diagnose runs/today --baseline 'runs/good-*'\n"
    "  tapedeck diagnose --explain dead_relu\n";

static int explain_rule(const char *name) {
    for (size_t i = 0; td_diagnose_rule(i); i++) {
        const td_rule_info *rule = td_diagnose_rule(i);
        if (strcmp(rule->name, name) == 0) {
            printf("%s: %s\n\n  reads      %s\n  computes   %s\n  says so    %s\n", rule->name,
                   rule->meaning, rule->reads, rule->statistic, rule->threshold);
            if (rule->remedy && *rule->remedy) {
                printf("  advises    %s\n", rule->remedy);
            }
            return EXIT_GOOD;
        }
    }
    const char *names[256];
    size_t count = 0;
    while (count < 256 && td_diagnose_rule(count)) {
        names[count] = td_diagnose_rule(count)->name;
        count++;
    }
    const char *meant = td_nearest_word(name, names, count);
    return misuse(&command_diagnose, "no rule '%s'%s%s%s", name, meant ? "; did you mean '" : "",
                  meant ? meant : "", meant ? "'?" : "");
}

enum { MOST_BASELINES = 256 };

typedef struct settings {
    bool json, no_trial, fix, no_keep;
    const char *only, *ignore, *explain, *seconds, *baseline;
    glob_t good; /* what baseline means */
} settings;

static bool show_progress(void *user, const char *text) {
    (void)user;
    char line[128];
    (void)snprintf(line, sizeof line, "trying: %s", text);
    terminal_show(line);
    return true;
}

/* The run itself may be among its baseline's names. */
static bool is_same_folder(const char *a, const char *b) {
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* Every folder that --baseline matches, once; false, with the reason printed, when a part of it matches none. */
static bool expand_baseline(const char *names, glob_t *found) {
    bool good = true;
    for (const char *at = names; good && *at;) {
        size_t length = strcspn(at, ",");
        char *one = strndup(at, length);
        good = one && !glob(one, at == names ? 0 : GLOB_APPEND, NULL, found);
        if (!good) {
            (void)misuse(&command_diagnose, "--baseline: there is no '%s'", one ? one : "");
        }
        free(one);
        at += length + (at[length] == ',');
    }
    return good;
}

static int diagnose_run(const char *run, const settings *s, bool several) {
    td_error error = {0};
    double seconds = 0;
    if (s->seconds && !(plain_number(s->seconds, &seconds) && seconds > 0)) {
        return misuse(&command_diagnose, "--seconds: expected a number above 0, not '%s'",
                      s->seconds);
    }
    bool live = terminal_is_live() && !s->json;
    td_diagnose_options how = {.size = sizeof how,
                               .only = s->only,
                               .ignore = s->ignore,
                               .no_trial = s->no_trial,
                               .seconds = seconds,
                               .progress = live ? show_progress : NULL};
    const char *baseline[MOST_BASELINES];
    for (size_t i = 0; i < s->good.gl_pathc; i++) {
        if (is_same_folder(run, s->good.gl_pathv[i])) {
            continue;
        }
        if (how.baseline_count == MOST_BASELINES) {
            return misuse(&command_diagnose, "--baseline: more than %d runs", MOST_BASELINES);
        }
        baseline[how.baseline_count++] = s->good.gl_pathv[i];
    }
    how.baseline = baseline;
    if (s->baseline && !how.baseline_count) {
        return misuse(&command_diagnose, "--baseline: there is no other run than %s itself", run);
    }
    td_diagnosis *diagnosis = td_diagnose(run, &how, &error);
    if (live) {
        terminal_clear();
    }
    if (!diagnosis) {
        return fail(EXIT_USAGE, "%s", error.text);
    }
    if (s->json) {
        print_json_diagnosis(diagnosis);
    } else {
        if (several) {
            printf("%s\n", run);
        }
        print_diagnosis(diagnosis, terminal_has_colour(stdout));
    }
    int status = count_certain(diagnosis) ? EXIT_BAD : EXIT_GOOD;
    if (!s->no_keep && td_diagnosis_keep(diagnosis, run, &error) && error.status != TD_NOT_FOUND &&
        error.status != TD_UNSUPPORTED) { /* of a database */
        note(error.text);
    }
    if (s->fix && td_diagnosis_fix(diagnosis, &error)) {
        status = fail(EXIT_USAGE, "%s", error.text);
    }
    td_diagnosis_destroy(diagnosis);
    return status;
}

static int run_diagnose(int count, char **arguments) {
    settings s = {0};
    const char *rank = NULL;
    const option options[] = {
        {.name = "json", .flag = &s.json},         {.name = "no-trial", .flag = &s.no_trial},
        {.name = "fix", .flag = &s.fix},           {.name = "only", .text = &s.only},
        {.name = "ignore", .text = &s.ignore},     {.name = "explain", .text = &s.explain},
        {.name = "seconds", .text = &s.seconds},   {.name = "no-keep", .flag = &s.no_keep},
        {.name = "baseline", .text = &s.baseline}, {.name = "rank", .text = &rank},
    };
    if (!parse_options(&command_diagnose, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (s.explain) {
        return explain_rule(s.explain);
    }
    if (count < 1) {
        return misuse(&command_diagnose, "expected a run");
    }
    if (!choose_rank(&command_diagnose, rank, count, (const char **)arguments)) {
        return EXIT_USAGE;
    }
    if (s.baseline && !expand_baseline(s.baseline, &s.good)) {
        return EXIT_USAGE;
    }
    int worst = EXIT_GOOD;
    for (int i = 0; i < count; i++) {
        int status = diagnose_run(arguments[i], &s, count > 1);
        worst = status > worst ? status : worst;
    }
    if (s.baseline) {
        globfree(&s.good);
    }
    return worst;
}

const command command_diagnose = {
    .name = "diagnose",
    .summary = "what is wrong with a run, since when, and what to do",
    .help = help,
    .run = run_diagnose,
};
