/* tapedeck sweep: one experiment with many settings, several trials at a time.
 *
 * Each task is trained by a process of its own, so that one that runs out of memory ends alone. This process trains
 * nothing and has no threads. What it decides follows from the sweep's folder (sweep.h), which is locked as long as
 * one of them lives. */
#include "facts.h"
#include "json.h"
#include "options.h"
#include "terminal.h"

#include "tapedeck/sweep.h"
#include "tapedeck/view.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "tapedeck sweep EXPERIMENT.yaml --set KEY=A,B,C… [OPTION…]\n"
    "tapedeck sweep EXPERIMENT.yaml --random KEY=log(A,B)… -n N [OPTION…]\n"
    "tapedeck sweep --resume FOLDER\n"
    "\n"
    "Trains an experiment with many settings, as many at a time as there are cores, into a new "
    "folder\n"
    "runs/NAME-sweep: a run for each trial, table.csv with the best first, and report.html, which\n"
    "shows all trials over their settings.\n"
    "\n"
    "  --set KEY=A,B,C   every combination of such lists is a trial; KEY=A is set in all of them\n"
    "  --random KEY=log(A,B)\n"
    "                    drawn between A and B: log(A,B) with even logarithms, uniform(A,B),\n"
    "                    int(A,B) whole numbers. Draws follow from the experiment's seed. Each is\n"
    "                    trained with every combination of --set\n"
    "  -n N              how often to draw\n"
    "  --halving         stop bad trials early (successive halving): all begin with few epochs, "
    "one in\n"
    "                    three goes on to three times as many, and so on to the experiment's\n"
    "  --factor F        F instead of three\n"
    "  --metric NAME     what decides: its best epoch (val_loss; without a validation part loss)\n"
    "  --jobs N, -j N    trials at a time (as many as cores, with one thread each)\n"
    "  --to DIR, -o DIR, --out DIR\n"
    "                    create the sweep's folder in DIR instead of runs\n"
    "  --resume FOLDER   go on with a sweep that was stopped or killed; its trials go on from "
    "their\n"
    "                    last checkpoints, and come to the same bits\n"
    "  --quiet, -q       print nothing but errors\n"
    "  --json            a JSON object a line: for each trial that ends, and at the end\n"
    "\n"
    "Exit status: 0 also where trials diverged, which is a result; 1 where one could not be "
    "trained.\n"
    "\n"
    "Examples\n"
    "  tapedeck sweep digits.yaml --set train.optimizer.adam.learning_rate=0.001,0.01,0.1\n"
    "  tapedeck sweep digits.yaml --set data.batch=16,64 --set seed=1,2,3\n"
    "  tapedeck sweep digits.yaml --random 'train.optimizer.adam.learning_rate=log(1e-4,1e-1)' \\\n"
    "      -n 30 --halving\n"
    "  tapedeck sweep --resume runs/digits-sweep\n"
    "\n"
    "More: docs/training.md\n";

enum { MAX_JOBS = 256, MAX_RUNGS = 64, MAX_FOLDER = 4200 };

typedef struct request {
    td_sweep_options sweep;
    const char *set[MAX_VALUES], *random[MAX_VALUES];
    const char *resume;
    int64_t jobs; /* 0: as many as fit */
    bool quiet, json;
} request;

/* ---- Processes ------------------------------------------------------------------------------ */

/* What trains now; pid 0: free. The handler sends them SIGTERM, with which they finish their step. */
static struct {
    volatile pid_t pid;
    size_t trial;
} children[MAX_JOBS];
static volatile sig_atomic_t is_stopping;
static td_sweep *trained; /* in a child */

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOPPING = sizeof stopping / sizeof *stopping };

static void stop_children(int number) {
    (void)number;
    is_stopping = 1;
    for (int i = 0; i < MAX_JOBS; i++) {
        if (children[i].pid > 0) {
            kill(children[i].pid, SIGTERM);
        }
    }
}

static void stop_training(int number) {
    (void)number;
    td_sweep_stop(trained);
}

static void handle_signals(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    for (int i = 0; i < STOPPING; i++) {
        sigaction(stopping[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static void block_signals(sigset_t *before) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < STOPPING; i++) {
        sigaddset(&set, stopping[i]);
    }
    sigprocmask(SIG_BLOCK, &set, before);
}

/* A child that has nobody left to report to finishes its step, writes a checkpoint and ends. */
static void end_with(pid_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        (void)raise(SIGTERM);
    }
}

static int train_task(td_sweep *sweep, const td_sweep_task *task) {
    td_error error = {0};
    td_sweep_trial trial;
    td_status status = td_sweep_train(sweep, task, &error);
    if (status && status != TD_INTERRUPTED && td_sweep_trial_at(sweep, task->trial, &trial)) {
        (void)fail(EXIT_BAD, "%s: %s", trial.name, error.text);
    }
    return status == TD_INCOMPLETE ? EXIT_INCOMPLETE : status_of(status);
}

/* Starts a child that is in the table; false, with errno, when there can be none. */
static bool start_task(td_sweep *sweep, const td_sweep_task *task) {
    int slot = 0;
    while (children[slot].pid) {
        slot++;
    }
    sigset_t before;
    pid_t parent = getpid();
    (void)fflush(stdout);
    block_signals(&before);
    pid_t pid = fork();
    if (pid == 0) {
        trained = sweep;
        handle_signals(stop_training);
        end_with(parent);
        sigprocmask(SIG_SETMASK, &before, NULL);
        int status = train_task(sweep, task);
        (void)fflush(stdout);
        _exit(status);
    }
    int reason = errno;
    if (pid > 0) {
        children[slot].trial = task->trial;
        children[slot].pid = pid;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return pid > 0;
}

/* Waits until a child ends. Its place in the table; -1: there is none. *status is that of waitpid. */
static int await_task(int *status) {
    pid_t pid;
    do {
        pid = waitpid(-1, status, 0);
    } while (pid < 0 && errno == EINTR);
    for (int i = 0; pid > 0 && i < MAX_JOBS; i++) {
        if (children[i].pid == pid) {
            children[i].pid = 0;
            return i;
        }
    }
    return -1;
}

/* What only the data say, found out by a process that ends: it starts threads, and a process that forks has none. */
static int find_facts(const td_sweep *sweep, td_sweep_facts *found) {
    struct {
        td_sweep_facts found;
        td_error error;
    } answer = {0};
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return fail(EXIT_BAD, "cannot start a process: %s", strerror(errno));
    }
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        (void)!td_sweep_look(sweep, &answer.found, &answer.error);
        ssize_t sent = write(ends[1], &answer, sizeof answer);
        _exit(sent == (ssize_t)sizeof answer ? EXIT_GOOD : EXIT_BAD);
    }
    close(ends[1]);
    ssize_t got = 0, part = 1;
    while (pid > 0 && part > 0 && got < (ssize_t)sizeof answer) {
        part = read(ends[0], (char *)&answer + got, sizeof answer - (size_t)got);
        got += part > 0 ? part : 0;
    }
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (got != (ssize_t)sizeof answer) {
        return WIFSIGNALED(status)
                   ? fail(EXIT_BAD, "the process that opened the data was ended by signal %d",
                          WTERMSIG(status))
                   : fail(EXIT_BAD, "cannot start a process: %s", strerror(errno));
    }
    *found = answer.found;
    return answer.error.status ? fail(EXIT_USAGE, "%s", answer.error.text) : EXIT_GOOD;
}

static int64_t cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int64_t choose_jobs(const td_sweep *sweep, const request *asked) {
    int64_t threads = td_sweep_known(sweep)->threads, jobs = cores() / (threads > 0 ? threads : 1);
    jobs = asked->jobs ? asked->jobs : jobs;
    return jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
}

/* ---- What is printed ------------------------------------------------------------------------- */

static void print_settings(const td_sweep *sweep, const td_sweep_trial *trial, bool json) {
    const char *const *keys;
    size_t count = td_sweep_keys(sweep, &keys);
    for (size_t i = 0; i < count; i++) {
        if (json) {
            (void)fputs(i ? ", " : "", stdout);
            print_json_text(keys[i]);
            (void)fputs(": ", stdout);
            if (is_json_word(trial->values[i])) {
                (void)fputs(trial->values[i], stdout);
            } else {
                print_json_text(trial->values[i]);
            }
        } else {
            printf("  %s=%s", keys[i], trial->values[i]);
        }
    }
}

static void print_json_trial(const td_sweep *sweep, const td_sweep_trial *trial) {
    printf("\"trial\": \"%s\", \"state\": \"%s\", \"epochs\": %lld, \"best\": ", trial->name,
           trial->state, (long long)trial->epochs);
    print_json_number(trial->best);
    printf(", \"best_epoch\": %lld, \"settings\": {", (long long)trial->best_epoch);
    print_settings(sweep, trial, true);
    (void)fputs("}", stdout);
}

static void print_trial(const td_sweep *sweep, size_t index, const request *asked) {
    td_sweep_trial trial;
    if (asked->quiet || !td_sweep_trial_at(sweep, index, &trial)) {
        return;
    }
    if (asked->json) {
        (void)fputs("{\"event\": \"trial\", ", stdout);
        print_json_trial(sweep, &trial);
        (void)fputs("}\n", stdout);
    } else {
        printf("%s  epoch %lld  %s %.6g", trial.name, (long long)trial.epochs,
               td_sweep_known(sweep)->metric, trial.best);
        print_settings(sweep, &trial, false);
        printf("%s\n", !strcmp(trial.state, "diverged") ? "  diverged" : "");
    }
    (void)fflush(stdout);
}

static void print_plan(const td_sweep *sweep, const request *asked, int64_t jobs) {
    int64_t epochs[MAX_RUNGS], trials[MAX_RUNGS];
    size_t count = td_sweep_rungs(sweep, epochs, trials, MAX_RUNGS);
    if (asked->quiet || asked->json) {
        return;
    }
    size_t all = td_sweep_trial_count(sweep);
    printf("%s: %zu trial%s, %lld at a time, judged by %s\n", td_sweep_folder(sweep), all,
           plural((int64_t)all), (long long)jobs, td_sweep_known(sweep)->metric);
    for (size_t i = 0; count > 1 && i < count; i++) {
        printf("  %lld trial%s to epoch %lld\n", (long long)trials[i], plural(trials[i]),
               (long long)epochs[i]);
    }
    (void)fflush(stdout);
}

static void add_number(facts *row, const char *key, double value, const char *format) {
    char text[64];
    (void)snprintf(text, sizeof text, format, value);
    facts_add(row, key, text);
}

static void print_table(const td_sweep *sweep, const size_t *order) {
    const char *const *keys, *columns[MAX_VALUES + 6] = {"trial"},
                                                   *metric = td_sweep_known(sweep)->metric;
    size_t count = td_sweep_trial_count(sweep), key_count = td_sweep_keys(sweep, &keys), n = 1;
    facts *rows = calloc(count, sizeof *rows);
    if (!rows) {
        return;
    }
    columns[n++] = metric;
    columns[n++] = "epochs";
    columns[n++] = "best epoch";
    columns[n++] = "state";
    for (size_t i = 0; i < key_count && i < MAX_VALUES; i++) {
        columns[n++] = keys[i];
    }
    for (size_t i = 0; i < count; i++) {
        td_sweep_trial trial;
        (void)td_sweep_trial_at(sweep, order[i], &trial);
        facts_add(&rows[i], "trial", trial.name);
        if (!isnan(trial.best)) {
            add_number(&rows[i], metric, trial.best, "%.6g");
            add_number(&rows[i], "best epoch", (double)trial.best_epoch, "%.0f");
        }
        add_number(&rows[i], "epochs", (double)trial.epochs, "%.0f");
        facts_add(&rows[i], "state", trial.state);
        for (size_t k = 0; k < key_count; k++) {
            facts_add(&rows[i], keys[k], trial.values[k]);
        }
    }
    (void)putchar('\n');
    print_columns(rows, count, columns, n);
    for (size_t i = 0; i < count; i++) {
        facts_release(&rows[i]);
    }
    free(rows);
}

static void print_json_end(const td_sweep *sweep, const size_t *order, const char *report) {
    (void)fputs("{\"event\": \"end\", \"sweep\": ", stdout);
    print_json_text(td_sweep_folder(sweep));
    (void)fputs(", \"report\": ", stdout);
    if (report) {
        print_json_text(report);
    } else {
        (void)fputs("null", stdout);
    }
    (void)fputs(", \"metric\": ", stdout);
    print_json_text(td_sweep_known(sweep)->metric);
    (void)fputs(", \"trials\": [", stdout);
    for (size_t i = 0; i < td_sweep_trial_count(sweep); i++) {
        td_sweep_trial trial;
        (void)td_sweep_trial_at(sweep, order[i], &trial);
        (void)fputs(i ? ", {" : "{", stdout);
        print_json_trial(sweep, &trial);
        (void)fputs("}", stdout);
    }
    (void)fputs("]}\n", stdout);
}

static void print_end(const td_sweep *sweep, const size_t *order, const char *report) {
    char quoted[SHELL_WORD_SIZE(MAX_FOLDER)];
    td_sweep_trial best;
    print_table(sweep, order);
    (void)td_sweep_trial_at(sweep, order[0], &best);
    if (!isnan(best.best)) {
        printf("\nBest: %s, in %s\n", best.name, best.folder);
    }
    printf("%s/table.csv has this table%s%s%s\n", td_sweep_folder(sweep), report ? ", " : ".",
           report ? report : "", report ? " shows it." : "");
    printf("  tapedeck runs %s --columns name,differing,*.best\n",
           shell_word(quoted, td_sweep_folder(sweep)));
}

/* All runs as one page, the best first; NULL when there is none, which is reported. */
static const char *write_report(const td_sweep *sweep, const size_t *order, char path[MAX_FOLDER]) {
    size_t count = td_sweep_trial_count(sweep), runs = 0;
    const char **folders = calloc(count, sizeof *folders);
    td_sweep_trial trial;
    td_error error = {0};
    for (size_t i = 0; folders && i < count; i++) {
        if (td_sweep_trial_at(sweep, order[i], &trial) && access(trial.folder, F_OK) == 0) {
            folders[runs++] = trial.folder;
        }
    }
    int length = snprintf(path, MAX_FOLDER, "%s/report.html", td_sweep_folder(sweep));
    td_status status = folders && length < MAX_FOLDER && runs
                           ? td_report(folders, runs, path, &error)
                           : td_error_set(&error, TD_MEMORY, "no page: no run to show");
    free((void *)folders);
    if (status) {
        note(error.text);
    }
    return status && status != TD_INCOMPLETE ? NULL : path;
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

/* What became of a child; the worst status of all is *worst. */
static void take_ended(td_sweep *sweep, const request *asked, int slot, int status, int *worst) {
    size_t index = children[slot].trial;
    td_sweep_trial trial;
    td_error error = {0};
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BAD;
    bool failed = code != EXIT_GOOD && code != EXIT_INCOMPLETE && code != EXIT_STOPPED;
    if (td_sweep_ended(sweep, index, failed, &error)) {
        failed = true;
        (void)fail(EXIT_BAD, "%s", error.text);
    }
    if (WIFSIGNALED(status) && td_sweep_trial_at(sweep, index, &trial)) {
        (void)fail(EXIT_BAD, "%s: its process was ended by signal %d", trial.name,
                   WTERMSIG(status));
    }
    if (code == EXIT_STOPPED) {
        is_stopping = 1; /* somebody stopped the child alone */
        return;
    }
    *worst = failed ? EXIT_BAD : *worst == EXIT_GOOD ? code : *worst;
    if (!failed) {
        print_trial(sweep, index, asked);
    }
}

static int train_all(td_sweep *sweep, const request *asked, int64_t jobs) {
    int64_t busy = 0;
    int worst = EXIT_GOOD;
    td_sweep_answer answer = TD_SWEEP_TRAIN;
    while (answer != TD_SWEEP_DONE || busy) {
        td_sweep_task task;
        while (!is_stopping && busy < jobs &&
               (answer = td_sweep_next(sweep, &task)) == TD_SWEEP_TRAIN) {
            if (!start_task(sweep, &task)) {
                worst = fail(EXIT_BAD, "cannot start a process: %s", strerror(errno));
                (void)!td_sweep_ended(sweep, task.trial, true, NULL);
                continue;
            }
            busy++;
        }
        if (!busy) {
            break;
        }
        int status, slot = await_task(&status);
        busy -= slot >= 0;
        if (slot >= 0) {
            take_ended(sweep, asked, slot, status, &worst);
        }
    }
    return is_stopping && answer != TD_SWEEP_DONE ? EXIT_STOPPED : worst;
}

static int finish(td_sweep *sweep, const request *asked, int worst) {
    td_error error = {0};
    char path[MAX_FOLDER];
    size_t *order = calloc(td_sweep_trial_count(sweep), sizeof *order);
    if (!order) {
        return fail(EXIT_BAD, "out of memory");
    }
    td_sweep_rank(sweep, order);
    if (td_sweep_write_table(sweep, &error)) {
        worst = fail(EXIT_BAD, "%s", error.text);
    }
    const char *report = write_report(sweep, order, path);
    if (asked->json) {
        print_json_end(sweep, order, report);
    } else if (!asked->quiet) {
        print_end(sweep, order, report);
    }
    free(order);
    return worst;
}

static int run_all(td_sweep *sweep, const request *asked) {
    int64_t jobs = choose_jobs(sweep, asked);
    print_plan(sweep, asked, jobs);
    handle_signals(stop_children);
    int status = train_all(sweep, asked, jobs);
    if (status == EXIT_STOPPED) {
        char quoted[SHELL_WORD_SIZE(MAX_FOLDER)];
        return fail(EXIT_STOPPED, "stopped; go on with: tapedeck sweep --resume %s",
                    shell_word(quoted, td_sweep_folder(sweep)));
    }
    return finish(sweep, asked, status);
}

static td_sweep *begin(const char *experiment, const request *asked, int *status) {
    td_error error = {0};
    td_sweep_facts found;
    td_sweep *sweep = td_sweep_create(experiment, &asked->sweep, &error);
    *status = sweep ? find_facts(sweep, &found) : fail(EXIT_USAGE, "%s", error.text);
    if (!*status && td_sweep_begin(sweep, &found, &error)) {
        *status = fail(error.status == TD_INVALID ? EXIT_USAGE : EXIT_BAD, "%s", error.text);
    }
    return sweep;
}

static int read_numbers(request *asked, const char *draws, const char *factor, const char *jobs) {
    const struct {
        const char *name, *text;
        int64_t *number;
    } all[] = {{"-n", draws, &asked->sweep.draws},
               {"--factor", factor, &asked->sweep.factor},
               {"--jobs", jobs, &asked->jobs}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].text && !whole_number(all[i].text, all[i].number)) {
            return misuse(&command_sweep, "%s: expected a whole number of at least 1, not '%s'",
                          all[i].name, all[i].text);
        }
    }
    return EXIT_GOOD;
}

static int run_sweep(int count, char **arguments) {
    request asked = {
        .sweep.size = sizeof asked.sweep, .sweep.set = asked.set, .sweep.random = asked.random};
    const char *draws = NULL, *factor = NULL, *jobs = NULL;
    bool halving = false;
    const option options[] = {
        {.name = "set", .list = asked.set, .list_count = &asked.sweep.set_count},
        {.name = "random", .list = asked.random, .list_count = &asked.sweep.random_count},
        {.name = "n", .text = &draws},
        {.name = "halving", .flag = &halving},
        {.name = "factor", .text = &factor},
        {.name = "metric", .text = &asked.sweep.metric},
        {.name = "jobs", .text = &jobs},
        {.name = "out", .text = &asked.sweep.out},
        {.name = "to", .text = &asked.sweep.out},
        {.name = "resume", .text = &asked.resume},
        {.name = "quiet", .flag = &asked.quiet},
        {.name = "json", .flag = &asked.json},
    };
    if (!parse_options(&command_sweep, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    int status = check_folder(&command_sweep, asked.sweep.out);
    status = status ? status : read_numbers(&asked, draws, factor, jobs);
    if (status) {
        return status;
    }
    bool planned = asked.sweep.set_count || asked.sweep.random_count || draws || halving ||
                   factor || asked.sweep.metric || asked.sweep.out;
    if (asked.resume ? count || planned : count != 1) {
        return misuse(&command_sweep, "%s",
                      asked.resume
                          ? "--resume FOLDER goes with --jobs, --quiet and --json alone: the "
                            "sweep has its settings"
                          : "expected one experiment file");
    }
    if (factor && !halving) {
        return misuse(&command_sweep, "--factor goes with --halving");
    }
    enum { FACTOR = 3 };
    asked.sweep.factor = halving && !factor ? FACTOR : asked.sweep.factor;
    td_error error = {0};
    td_sweep *sweep =
        asked.resume ? td_sweep_open(asked.resume, &error) : begin(arguments[0], &asked, &status);
    status = asked.resume && !sweep ? fail(EXIT_USAGE, "%s", error.text) : status;
    status = status ? status : run_all(sweep, &asked);
    td_sweep_destroy(sweep);
    return status;
}

const command command_sweep = {
    .name = "sweep",
    .summary = "train with many settings, stop the bad ones early, and compare them",
    .help = help,
    .run = run_sweep,
};
