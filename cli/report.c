#include "report.h"

#include "json.h"
#include "options.h"
#include "terminal.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool is_share(const char *name) {
    return strstr(name, "accuracy") != NULL;
}

/* "97.22 %" for an accuracy, "0.0834" otherwise; out has 32 bytes. */
static const char *value_text(char *out, const td_train_value *value) {
    if (isnan(value->value)) {
        return strcpy(out, "-");
    }
    if (is_share(value->name)) {
        (void)snprintf(out, 32, "%.2f %%", 100 * value->value);
    } else {
        (void)snprintf(out, 32, "%.4g", value->value);
    }
    return out;
}

static void print_json_values(const td_train_value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        (void)fputs(i ? ", " : "", stdout);
        print_json_text(values[i].name);
        (void)fputs(": ", stdout);
        print_json_number(values[i].value);
    }
}

/* ---- While it trains ------------------------------------------------------------------------- */

/* A line of what fits into the terminal's width. */
typedef struct bar_line {
    char text[600];
    size_t length;
    int left; /* columns */
} bar_line;

/* Adds a part with that many columns unless it is too long. */
static void add_part(bar_line *line, const char *part, int columns) {
    if (columns < line->left && line->length + strlen(part) < sizeof line->text) {
        line->length += (size_t)snprintf(line->text + line->length,
                                         sizeof line->text - line->length, "%s", part);
        line->left -= columns;
    }
}

static void show_bar(const td_train_progress *p) {
    enum { CELLS = 24 };
    char part[200], number[32];
    bar_line line = {.left = terminal_width()};
    int columns =
        snprintf(part, sizeof part, "epoch %lld/%lld ", (long long)p->epoch, (long long)p->epochs);
    add_part(&line, part, columns);
    add_part(&line, terminal_bar(part, (double)p->batch / (double)p->batches), CELLS);
    columns =
        snprintf(part, sizeof part, " step %lld/%lld", (long long)p->step, (long long)p->steps);
    add_part(&line, part, columns);
    columns = snprintf(part, sizeof part, "  %s left", terminal_time(number, p->seconds_left));
    add_part(&line, part, columns);
    for (size_t i = 0; i < p->value_count && strncmp(p->values[i].name, "val_", 4) != 0; i++) {
        columns = snprintf(part, sizeof part, "  %s %s", p->values[i].name,
                           value_text(number, &p->values[i]));
        add_part(&line, part, columns);
    }
    columns = snprintf(part, sizeof part, "  %.0f examples/s", p->examples_per_second);
    add_part(&line, part, columns);
    columns = snprintf(part, sizeof part, "  rate %.3g", p->learning_rate);
    add_part(&line, part, columns);
    terminal_show(line.text);
}

static void print_epoch(const td_train_progress *p) {
    char number[32], time[32];
    int digits = snprintf(NULL, 0, "%lld", (long long)p->epochs);
    printf("epoch %*lld/%lld", digits, (long long)p->epoch, (long long)p->epochs);
    for (size_t i = 0; i < p->value_count; i++) {
        printf("  %s %s", p->values[i].name, value_text(number, &p->values[i]));
    }
    printf("  (%lld step%s, %s)\n", (long long)p->step, plural(p->step),
           terminal_time(time, p->epoch_seconds));
    (void)fflush(stdout);
}

static void print_json_epoch(const td_train_progress *p) {
    printf("{\"event\": \"epoch\", \"epoch\": %lld, \"epochs\": %lld, \"step\": %lld, \"steps\": "
           "%lld, ",
           (long long)p->epoch, (long long)p->epochs, (long long)p->step, (long long)p->steps);
    print_json_values(p->values, p->value_count);
    (void)fputs(", \"learning_rate\": ", stdout);
    print_json_number(p->learning_rate);
    (void)fputs(", \"seconds\": ", stdout);
    print_json_number(p->seconds);
    (void)fputs("}\n", stdout);
    (void)fflush(stdout);
}

void report_progress(void *user, const td_train_progress *progress) {
    report_style style = *(const report_style *)user;
    if (style == REPORT_BAR && !progress->epoch_end) {
        show_bar(progress);
    } else if (style == REPORT_JSON && progress->epoch_end) {
        print_json_epoch(progress);
    } else if (style != REPORT_NONE && progress->epoch_end) {
        terminal_clear();
        print_epoch(progress);
    }
}

/* ---- At the end ------------------------------------------------------------------------------ */

/* What lies in a run's folder, by the ends of names; the first that fits. Families are shown as one
 * line each. */
typedef struct family {
    const char *end;     /* of the name */
    const char *what;    /* NULL: goes with another file */
    const char *pattern; /* how a family is shown; NULL: the file's own name */
    int count;
    double bytes;
    char example[80];
} family;

static bool fits_family(const char *name, const family *f) {
    size_t length = strlen(name), end = strlen(f->end);
    return f->end[0] == '.' || f->end[0] == '@'
               ? length >= end && !strcmp(name + length - end, f->end)
               : !strncmp(name, f->end, end);
}

static double file_size(const char *folder, const char *name) {
    struct stat about;
    char path[4500];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) ? (double)about.st_size : 0;
}

/* Whether there is something for TensorBoard. */
static bool print_files(const char *folder) {
    family families[] = {
        {.end = "metrics.csv", .what = "metrics, a row for each record"},
        {.end = "predictions.csv", .what = "labels and outputs"},
        {.end = "stats.csv", .what = "statistics of all signals"},
        {.end = "events.out.tfevents",
         .what = "for TensorBoard",
         .pattern = "events.out.tfevents.…"},
        {.end = "run.db", .what = "all of it, as SQLite"},
        {.end = "run.db-"},
        {.end = "experiment.yaml", .what = "what ran, defaults filled in"},
        {.end = "model.safetensors", .what = "the trained model"},
        {.end = "best.safetensors", .what = "the model of the best epoch"},
        {.end = "initial.safetensors", .what = "the model as training began"},
        {.end = "checkpoints", .what = "to resume from"},
        {.end = "images", .what = "pictures of tensors"},
        {.end = ".steps.npy"},
        {.end = ".samples.npy"},
        {.end = "@histogram.csv", .what = "histograms", .pattern = "SIGNAL@histogram.csv"},
        {.end = ".csv", .what = "tables of signals", .pattern = "SIGNAL.csv"},
        {.end = ".npy", .what = "arrays [records, …]", .pattern = "SIGNAL.npy"},
    };
    enum { FAMILIES = sizeof families / sizeof *families };
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        family *f = families;
        while (f < families + FAMILIES && !fits_family(entry->d_name, f)) {
            f++;
        }
        if (f < families + FAMILIES) {
            f->count++;
            f->bytes += file_size(folder, entry->d_name);
            (void)snprintf(f->example, sizeof f->example, "%.79s", entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
    printf("In %s\n", folder);
    for (const family *f = families; f < families + FAMILIES; f++) {
        char size[32] = "";
        if (!f->count || !f->what) {
            continue;
        }
        const char *name = f->pattern && f->count > 1 ? f->pattern : f->example;
        printf("  %-24s %9s  %s",
               f->pattern && f->end[0] != '.' && f->end[0] != '@' ? f->pattern : name,
               f->bytes > 0 ? terminal_bytes(size, f->bytes) : "", f->what);
        if (f->count > 1) {
            printf(": %d files, such as %s", f->count, f->example);
        }
        (void)fputc('\n', stdout);
    }
    for (const family *f = families; f < families + FAMILIES; f++) {
        if (f->count && !strcmp(f->end, "events.out.tfevents")) {
            return true;
        }
    }
    return false;
}

static void print_page(td_trainer *trainer, double seconds) {
    const td_train_value *values;
    const td_norm_history *norms;
    size_t count = td_trainer_values(trainer, &values);
    size_t norm_count = td_trainer_error_norms(trainer, &norms);
    const char *folder = td_trainer_folder(trainer);
    char number[32], time[32];
    bool colour = terminal_has_colour(stdout);
    putchar('\n');
    terminal_paint(colour, "1");
    int64_t steps = td_trainer_steps(trainer);
    printf("%lld step%s in %s", (long long)steps, plural(steps), terminal_time(time, seconds));
    terminal_paint(colour, "0");
    putchar('\n');
    if (td_trainer_stopped_early(trainer)) {
        printf("Stopped early: %s.\n", td_trainer_stopped_early(trainer));
    }
    for (size_t i = 0; i < count; i++) {
        printf("  %-16s ", values[i].name);
        terminal_paint(colour, "1");
        (void)fputs(value_text(number, &values[i]), stdout);
        terminal_paint(colour, "0");
        putchar('\n');
    }
    if (norm_count) {
        (void)fputc('\n', stdout);
        print_heat_map(norms, norm_count, terminal_width(), colour);
    }
    (void)fputc('\n', stdout);
    bool events = print_files(folder);
    const char *program = program_invocation_name; /* as it was called: it may not be on the path */
    enum { LONGEST = 4200 };
    char quoted[SHELL_WORD_SIZE(LONGEST)], called[SHELL_WORD_SIZE(LONGEST)];
    if (strlen(folder) > LONGEST || strlen(program) > LONGEST) {
        return;
    }
    shell_word(quoted, folder);
    shell_word(called, program);
    printf("\nNext\n"
           "  %s show %s\n"
           "  %s weights %s --to weights.csv\n",
           called, quoted, called, quoted);
    if (events) {
        printf("  tensorboard --logdir %s\n", quoted);
    }
}

void report_end(td_trainer *trainer, report_style style, double seconds) {
    const td_train_value *values;
    size_t count = td_trainer_values(trainer, &values);
    if (style == REPORT_JSON) {
        printf("{\"event\": \"end\", \"run\": ");
        print_json_text(td_trainer_folder(trainer));
        printf(", \"steps\": %lld, \"seconds\": ", (long long)td_trainer_steps(trainer));
        print_json_number(seconds);
        (void)fputs(", ", stdout);
        print_json_values(values, count);
        (void)fputs("}\n", stdout);
    } else if (style != REPORT_NONE) {
        print_page(trainer, seconds);
    }
}

/* ---- A dry run ------------------------------------------------------------------------------- */

static void print_json_plan(const td_plan_entry *plan, size_t count) {
    int64_t bytes = 0;
    (void)fputs("{\"event\": \"plan\", \"tracks\": [", stdout);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(i ? ", {\"what\": " : "{\"what\": ", stdout);
        print_json_text(plan[i].what);
        printf(", \"signals\": %lld, \"records\": %lld, \"bytes\": %lld}",
               (long long)plan[i].signals, (long long)plan[i].records, (long long)plan[i].bytes);
        bytes += plan[i].bytes;
    }
    printf("], \"bytes\": %lld}\n", (long long)bytes);
}

void report_plan(td_trainer *trainer, bool json) {
    const td_plan_entry *plan;
    size_t count = td_trainer_plan(trainer, &plan);
    char size[32];
    int64_t bytes = 0;
    if (json) {
        print_json_plan(plan, count);
        return;
    }
    (void)td_model_summary_within(td_trainer_model(trainer), stdout, terminal_room());
    (void)fputs(count ? "\nRecording\n" : "\nNothing is recorded: there is no `record:` section.\n",
                stdout);
    for (size_t i = 0; i < count; i++) {
        printf("  %s\n    %lld signal%s, %s, as %s, to %s: %lld record%s, about %s\n", plan[i].what,
               (long long)plan[i].signals, plural(plan[i].signals), plan[i].schedule, plan[i].forms,
               plan[i].sinks, (long long)plan[i].records, plural(plan[i].records),
               terminal_bytes(size, (double)plan[i].bytes));
        bytes += plan[i].bytes;
    }
    if (count) {
        printf("  In all about %s on disk.\n", terminal_bytes(size, (double)bytes));
    }
}
