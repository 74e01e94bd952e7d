/* tapedeck train: an experiment file, from start to end. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "report.h"
#include "terminal.h"

#include "tapedeck/diagnose.h"
#include "tapedeck/group.h"
#include "tapedeck/replay.h"
#include "tapedeck/train.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck train EXPERIMENT.yaml [OPTION…]\n"
    "\n"
    "Trains the model that the experiment file describes and records what the file asks for, into "
    "a\n"
    "new folder runs/NAME (NAME-2, NAME-3, … when that is taken).\n"
    "\n"
    "  --set KEY=VALUE   change the file before it is checked: --set train.epochs=3,\n"
    "                    --set data.batch=64, --set model.0.conv2d.filters=16; null removes\n"
    "                    a section or its key: --set data.augment=null; may be repeated\n"
    "  --to DIR, -o DIR, --out DIR\n"
    "                    create the run in DIR instead of runs\n"
    "  --resume RUN      go on with a run from its last checkpoint, bit for bit; its files "
    "continue.\n"
    "                    Without EXPERIMENT.yaml, with the run's own\n"
    "  --from RUN@STEP   branch: a new run beside RUN that goes on after that step, with RUN's\n"
    "                    experiment and what --set changes; it stores its parent and the step\n"
    "  --dry-run         check everything, show the model and what would be recorded, write "
    "nothing\n"
    "  --quiet           say nothing but errors\n"
    "  --json            a JSON object a line: for each epoch, and at the end\n"
    "\n"
    "Ctrl-C finishes the step, writes everything and a checkpoint, and exits with 130; a second "
    "one\n"
    "ends at once. SIGTERM and SIGHUP do the same. No error of recording stops training: with the "
    "model\n"
    "saved and something not recorded, the exit status is 3.\n"
    "\n"
    "Examples\n"
    "  tapedeck train examples/demo/demo.yaml\n"
    "  tapedeck train digits.yaml --set train.epochs=2 --set 'train.optimizer={sgd: {}}' --out "
    "/tmp\n"
    "  tapedeck train digits.yaml --dry-run\n"
    "  tapedeck train --resume runs/digits --set train.epochs=20\n"
    "  tapedeck train --from runs/digits@1000 --set train.optimizer.adam.learning_rate=1e-4\n"
    "\n"
    "A small experiment file\n"
    "  data: {train: digits.csv, label: label, validation: 0.2}\n"
    "  model:\n"
    "    - dense: {name: hidden, units: 64, activation: relu}\n"
    "    - dense: {name: logits, units: 10}\n"
    "  train: {loss: sparse_categorical_crossentropy, from_logits: true, metrics: [accuracy], "
    "epochs: 5}\n"
    "  record:\n"
    "    - what: [loss, accuracy, val_loss, val_accuracy]\n"
    "      every: 1 epoch\n"
    "      to: [csv, print]\n"
    "    - {what: \"*.error\", every: 10 steps, form: stats, to: [csv]}\n"
    "\n"
    "All keys: docs/experiment.md\n";

/* The trainer that a signal stops. Set before the handler is, and only then read by it. */
static td_trainer *running;

static void handle_interrupt(int number) {
    td_trainer_stop(running);
    signal(number, SIG_DFL);
}

/* The processes that mpirun or srun started; NULL: this one alone. */
static td_group *group;

static bool is_first(void) {
    return !group || td_group_rank(group) == 0;
}

typedef struct settings {
    const char *set[MAX_VALUES];
    size_t set_count;
    const char *out, *resume;
    char from[4200]; /* the run to branch off from; "": none */
    int64_t from_step;
    bool dry_run, quiet, json;
} settings;

/* ---- Folds ----------------------------------------------------------------------------------- */

/* What the last epochs of the folds came to; variance by Welford's update. */
enum { MAX_FOLD_VALUES = 64 };
static struct {
    bool on;
    size_t count;
    struct {
        char name[128];
        int64_t folds;
        double mean, squares;
    } values[MAX_FOLD_VALUES];
} folds;

static void take_fold(td_trainer *trainer) {
    const td_train_value *values;
    size_t count = folds.on ? td_trainer_values(trainer, &values) : 0;
    for (size_t i = 0; i < count && i < MAX_FOLD_VALUES; i++) {
        double difference = values[i].value - folds.values[i].mean;
        (void)snprintf(folds.values[i].name, sizeof folds.values[i].name, "%s", values[i].name);
        folds.values[i].mean += difference / (double)++folds.values[i].folds;
        folds.values[i].squares += difference * (values[i].value - folds.values[i].mean);
        folds.count = i + 1 > folds.count ? i + 1 : folds.count;
    }
}

static void print_folds(int64_t count, report_style style) {
    if (style == REPORT_NONE) {
        return;
    }
    (void)fputs(style == REPORT_JSON ? "{\"event\": \"folds\"" : "", stdout);
    printf(style == REPORT_JSON ? ", \"folds\": %lld"
                                : "\nMean and standard deviation over %lld folds\n",
           (long long)count);
    for (size_t i = 0; i < folds.count; i++) {
        double n = (double)folds.values[i].folds;
        double deviation = n > 1 ? sqrt(folds.values[i].squares / (n - 1)) : 0;
        if (style == REPORT_JSON) {
            (void)fputs(", ", stdout);
            print_json_text(folds.values[i].name);
            (void)fputs(": {\"mean\": ", stdout);
            print_json_number(folds.values[i].mean);
            (void)fputs(", \"std\": ", stdout);
            print_json_number(deviation);
            (void)fputs("}", stdout);
        } else {
            printf("  %-16s %.6g ± %.2g\n", folds.values[i].name, folds.values[i].mean, deviation);
        }
    }
    (void)fputs(style == REPORT_JSON ? "}\n" : "", stdout);
}

static void print_problem(void *user, const char *text) {
    (void)user;
    (void)fprintf(stderr, "%s\n", text);
}

static report_style style_of(const settings *s) {
    return s->json              ? REPORT_JSON
           : s->quiet           ? REPORT_NONE
           : terminal_is_live() ? REPORT_BAR
                                : REPORT_LINES;
}

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOPPING = sizeof stopping / sizeof *stopping };

/* What stops training finishes the step first. A pipe or file that takes no more is an error of the
 * call that writes, not the end. */
static void catch_signals(td_trainer *trainer) {
    running = trainer;
    struct sigaction action = {.sa_handler = handle_interrupt}, before;
    for (int i = 0; i < STOPPING; i++) {
        sigaction(stopping[i], &action, &before);
        if (stopping[i] == SIGHUP && before.sa_handler == SIG_IGN) {
            signal(SIGHUP, SIG_IGN); /* nohup */
        }
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

enum { COMMAND = SHELL_WORD_SIZE(4200) + 100 };

/* What can be called next, with the run's folder as a shell takes it. */
static void suggest_command(char *out, size_t size, const char *before, const char *folder) {
    char *quoted = malloc(SHELL_WORD_SIZE(strlen(folder)));
    (void)snprintf(out, size, "%s %s", before, quoted ? shell_word(quoted, folder) : folder);
    free(quoted);
}

static int run_training(td_trainer *trainer, report_style style) {
    td_error error = {0};
    catch_signals(trainer);
    double began = seconds_now();
    td_status status = td_trainer_run(trainer, &error);
    terminal_clear();
    for (int i = 0; i < STOPPING; i++) {
        signal(stopping[i], SIG_DFL);
    }
    if (!is_first()) {
        return status == TD_OK            ? EXIT_GOOD
               : status == TD_INTERRUPTED ? EXIT_STOPPED
               : status == TD_INCOMPLETE  ? EXIT_INCOMPLETE
                                          : EXIT_BAD;
    }
    if (group && td_group_status(group, NULL) && td_trainer_steps(trainer) > 0) {
        char hint[COMMAND];
        suggest_command(hint, sizeof hint, "tapedeck train --resume", td_trainer_folder(trainer));
        return fail(EXIT_BAD, "%s; go on with: %s", error.text, hint);
    }
    if (status == TD_INTERRUPTED) {
        char hint[COMMAND];
        suggest_command(hint, sizeof hint, "tapedeck train --resume", td_trainer_folder(trainer));
        return fail(EXIT_STOPPED, "%s; go on with: %s", error.text, hint);
    }
    if (status && status != TD_INCOMPLETE) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    take_fold(trainer);
    report_end(trainer, style, seconds_now() - began);
    if (status) {
        return fail(EXIT_INCOMPLETE, "trained, the model is in %s, but %s",
                    td_trainer_folder(trainer), error.text);
    }
    return fflush(stdout) == 0 && !ferror(stdout)
               ? EXIT_GOOD
               : fail(EXIT_INCOMPLETE,
                      "trained, the model is in %s, but standard output took no "
                      "more",
                      td_trainer_folder(trainer));
}

/* Rules that find what the trainer remarks on too. One of the two is reported: the rule's finding, and
 * not the remark with this text in it; or, with NULL, the remark, which names the line of the data. */
static const struct {
    const char *rule, *remark;
} twins[] = {
    {"missing_output_activation", "from_logits: true"},
    {"redundant_softmax", "from_logits: true"},
    {"labels_out_of_range", NULL},
    {"nonfinite_label", NULL},
};
enum { TWINS = sizeof twins / sizeof *twins };
static bool found_by_rule[TWINS];

/* Whether a finding is left to the trainer; otherwise its remark is left out. */
static bool is_remarked(const char *rule) {
    for (size_t i = 0; i < TWINS; i++) {
        if (!strcmp(twins[i].rule, rule)) {
            found_by_rule[i] = twins[i].remark != NULL;
            return !twins[i].remark;
        }
    }
    return false;
}

static bool is_found_by_rule(const char *remark) {
    bool found = false;
    for (size_t i = 0; i < TWINS && !found; i++) {
        found = found_by_rule[i] && strstr(remark, twins[i].remark);
    }
    return found;
}

/* What is remarked on while the trainer is made waits for what rules find, which stands before it. */
static struct {
    bool on;
    char **texts;
    size_t count;
} held;

static bool hold(const char *text) {
    char **texts = held.on ? realloc(held.texts, (held.count + 1) * sizeof *texts) : NULL;
    held.texts = texts ? texts : held.texts;
    char *copy = texts ? strdup(text) : NULL;
    if (copy) {
        held.texts[held.count++] = copy;
    }
    return copy;
}

static void print_remark(void *user, const char *text) {
    (void)user;
    if (hold(text) || is_found_by_rule(text)) {
        return;
    }
    terminal_clear();
    note(text);
}

static void print_held(void) {
    held.on = false;
    for (size_t i = 0; i < held.count; i++) {
        print_remark(NULL, held.texts[i]);
        free(held.texts[i]);
    }
    free(held.texts);
    held.texts = NULL;
    held.count = 0;
}

/* Stores the findings of the rules in the run and prints where the reasons are. */
static void store_findings(const td_monitor *monitor, const char *folder, bool quiet) {
    td_error error = {0};
    if (!folder || td_monitor_count(monitor) == 0) {
        return;
    }
    if (td_monitor_keep(monitor, folder, &error)) {
        note(error.text);
    }
    if (!quiet) {
        char hint[COMMAND];
        suggest_command(hint, sizeof hint,
                        "something looks wrong; for its cause: tapedeck diagnose", folder);
        note(hint);
    }
}

/* Reports errors that make training impossible before it starts, one per line; warnings are left out. */
static void check_first(const char *path, td_trainer *trainer) {
    td_check_options how = {.size = sizeof how, .trainer = trainer};
    td_diagnosis *diagnosis = td_check(path, &how, NULL);
    size_t count = diagnosis ? td_diagnosis_finding_count(diagnosis) : 0;
    for (size_t i = 0; i < count; i++) {
        const td_diagnosis_finding *finding = td_diagnosis_finding_at(diagnosis, i);
        if (finding->confidence == TD_SURE && !is_remarked(finding->rule)) {
            char line[600];
            (void)snprintf(line, sizeof line, "%s%s%s%s%s \u2192 %s", finding->text,
                           finding->layer ? " in layer " : "", finding->layer ? finding->layer : "",
                           finding->evidence_count ? ": " : "",
                           finding->evidence_count ? finding->evidence[0].text : "",
                           finding->remedy);
            note(line);
        }
    }
    td_diagnosis_destroy(diagnosis);
}

static int run_experiment(td_experiment *experiment, const char *path, const settings *given) {
    settings first = *given, *s = &first;
    s->quiet |= !is_first();
    s->json &= is_first();
    report_style style = style_of(s);
    td_monitor *monitor = td_monitor_create(experiment, s->quiet ? NULL : print_remark, NULL);
    if (!monitor) {
        return fail(EXIT_BAD, "out of memory");
    }
    held.on = td_monitor_is_on(monitor) && !s->quiet && !s->resume && !s->dry_run;
    FILE *stream = style == REPORT_BAR ? terminal_stream() : NULL;
    td_trainer_options options = {.size = sizeof options,
                                  .out = s->out,
                                  .resume = s->resume,
                                  .stream = s->json ? stderr : stream,
                                  .progress = report_progress,
                                  .user = &style,
                                  .remark = s->quiet ? NULL : print_remark,
                                  .observer = is_first() ? td_monitor_observer(monitor) : NULL,
                                  .read_first = s->dry_run,
                                  .group = group};
    td_error error = {0};
    td_trainer *trainer =
        *s->from ? td_replay_branch(s->from, s->from_step, experiment, &options, &error)
                 : td_trainer_create(experiment, &options, &error);
    if (trainer && held.on) {
        check_first(path, trainer);
    }
    print_held();
    int status = EXIT_GOOD;
    if (!trainer) {
        status = is_first() ? fail(EXIT_USAGE, "%s", error.text) : EXIT_USAGE;
        if (group) {
            td_group_fail(group, error.text);
        }
    } else if (s->dry_run) {
        if (is_first()) {
            report_plan(trainer, s->json);
        }
    } else {
        status = run_training(trainer, style);
        store_findings(monitor, is_first() ? td_trainer_folder(trainer) : NULL, s->quiet);
    }
    td_trainer_destroy(trainer);
    td_monitor_destroy(monitor);
    if (stream) {
        (void)fclose(stream);
    }
    return status;
}

/* "RUN@STEP". */
static bool parse_from(const char *text, settings *s) {
    const char *at = strrchr(text, '@');
    if (!at || at == text || (size_t)(at - text) >= sizeof s->from) {
        return false;
    }
    (void)snprintf(s->from, sizeof s->from, "%.*s", (int)(at - text), text);
    return whole_number(at + 1, &s->from_step) && s->from_step > 0;
}

static int read_and_run(const char *path, const settings *s);

/* A run for each fold, NAME-fold-1, …, and what they have in common. */
static int run_folds(const char *path, const char *name, int64_t count, const settings *given) {
    if (group || *given->from || given->set_count + 2 > MAX_VALUES) {
        return fail(EXIT_USAGE, "%s",
                    group          ? "folds are trained by one process; with several: --set "
                                     "data.validation.fold=N"
                    : *given->from ? "--from goes on with one fold: --set data.validation.fold=N"
                                   : "too many --set");
    }
    int status = EXIT_GOOD;
    folds.on = true;
    for (int64_t i = 1; i <= count && (status == EXIT_GOOD || status == EXIT_INCOMPLETE); i++) {
        settings one = *given;
        char fold[64], run[256];
        (void)snprintf(fold, sizeof fold, "data.validation.fold=%lld", (long long)i);
        (void)snprintf(run, sizeof run, "name=\"%.200s-fold-%lld\"", name, (long long)i);
        one.set[one.set_count++] = fold;
        one.set[one.set_count++] = run;
        if (style_of(given) != REPORT_NONE && style_of(given) != REPORT_JSON) {
            printf("%sFold %lld of %lld\n", i > 1 ? "\n" : "", (long long)i, (long long)count);
        }
        int ended = read_and_run(path, &one);
        status = ended ? ended : status;
    }
    if (status == EXIT_GOOD || status == EXIT_INCOMPLETE) {
        print_folds(count, style_of(given));
    }
    return status;
}

static int read_and_run(const char *path, const settings *s) {
    td_experiment_options reading = {.size = sizeof reading,
                                     .set = s->set,
                                     .set_count = s->set_count,
                                     .problem = is_first() ? print_problem : NULL};
    td_error error = {0};
    td_experiment *experiment = td_experiment_read(path, &reading, &error);
    if (!experiment) {
        if (group) {
            td_group_fail(group, error.text);
        }
        return EXIT_USAGE;
    }
    int64_t count = s->dry_run ? 0 : td_experiment_folds(experiment);
    int status = count ? run_folds(path, td_experiment_name(experiment), count, s)
                       : run_experiment(experiment, path, s);
    td_experiment_destroy(experiment);
    return status;
}

static int run_train(int count, char **arguments) {
    settings s = {0};
    const char *from = NULL;
    const option options[] = {
        {.name = "set", .list = s.set, .list_count = &s.set_count},
        {.name = "out", .text = &s.out},
        {.name = "to", .text = &s.out},
        {.name = "resume", .text = &s.resume},
        {.name = "from", .text = &from},
        {.name = "dry-run", .flag = &s.dry_run},
        {.name = "quiet", .flag = &s.quiet},
        {.name = "json", .flag = &s.json},
    };
    if (!parse_options(&command_train, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    char own[4200] = "";
    if (check_folder(&command_train, s.out)) {
        return EXIT_USAGE;
    }
    if (from && (s.resume || !parse_from(from, &s))) {
        return misuse(&command_train, s.resume ? "--resume and --from exclude each other"
                                               : "--from: expected RUN@STEP, a step from 1 on");
    }
    if (count == 0 && s.resume) {
        (void)snprintf(own, sizeof own, "%s/experiment.yaml", s.resume);
    } else if (count == 0 && from) {
        td_replay_experiment(s.from, s.from_step, own);
    } else if (count != 1) {
        return misuse(&command_train, "expected one experiment file");
    }
    td_error error = {0};
    group = td_group_is_launched() ? td_group_open(NULL, &error) : NULL;
    if (error.status) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    int status = read_and_run(*own ? own : arguments[0], &s);
    td_group_close(group);
    return status;
}

const command command_train = {
    .name = "train",
    .summary = "train the model of an experiment file, and record what it asks for",
    .help = help,
    .run = run_train,
};
