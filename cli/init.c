/* tapedeck init: a first experiment for data that nobody has described yet. */
#include "json.h"
#include "options.h"
#include "output.h"
#include "terminal.h"

#include "tapedeck/suggest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "tapedeck init DATA [--label COLUMN] [--to FILE]\n"
    "tapedeck init MODEL DATA\n"
    "tapedeck init\n"
    "\n"
    "Reads the data, guesses what can be learned from it, and writes an experiment file that\n"
    "trains as it is: label, categories, text, dates, paths of images, what rows belong to,\n"
    "columns to ignore, missing values, loss, a model of a sensible size, and what to record.\n"
    "What was guessed is printed and stands in the file.\n"
    "DATA is a CSV, NPY, NPZ or IDX file, or a folder of images with one sub-folder a class. With\n"
    "MODEL (.keras, .h5, .onnx, .safetensors, a run) that model is trained further. Without\n"
    "arguments it asks.\n"
    "\n"
    "  --label COLUMN    CSV: the column to predict\n"
    "  --labels FILE     NPY, IDX: the file of labels\n"
    "  --to FILE         the experiment file (NAME.yaml, after the data); - is standard output\n"
    "  --force           replace a file that is there already\n"
    "  --quiet           print nothing\n"
    "  --json            print what was guessed, and where the file is, as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck init iris.csv && tapedeck train iris.yaml\n"
    "  tapedeck init houses.csv --label price --to houses/first.yaml\n"
    "  tapedeck init reviews.csv --to - | grep text\n"
    "  tapedeck init photos/\n"
    "  tapedeck init model.keras new-digits.csv\n"
    "\n"
    "More: docs/training.md\n";

enum { PATH = 4200 };

typedef struct request {
    td_suggest_options suggest;
    const char *to;
    bool force, quiet, json;
} request;

/* The path as an experiment file in another folder has to name it; freed by the caller. */
static char *path_from(const char *path, bool elsewhere) {
    return path ? elsewhere ? realpath(path, NULL) : strdup(path) : NULL;
}

static void print_guesses(const td_suggestion *suggestion) {
    td_names guesses = td_suggestion_guesses(suggestion);
    printf("Guessed:\n");
    for (size_t i = 0; i < guesses.count; i++) {
        printf("  ");
        terminal_print_name(guesses.items[i], terminal_columns(guesses.items[i]));
        printf("\n");
    }
}

static void print_json(const td_suggestion *suggestion, const char *to) {
    td_names guesses = td_suggestion_guesses(suggestion);
    (void)fputs("{\"out\": ", stdout);
    print_json_text(to);
    (void)fputs(", \"guesses\": [", stdout);
    for (size_t i = 0; i < guesses.count; i++) {
        (void)fputs(i ? ", " : "", stdout);
        print_json_text(guesses.items[i]);
    }
    (void)fputs("]}\n", stdout);
}

static int save(const td_suggestion *suggestion, const request *asked) {
    char path[PATH];
    const char *to = asked->to;
    if (!to) {
        (void)snprintf(path, sizeof path, "%s.yaml", td_suggestion_name(suggestion));
        to = path;
    }
    const char *text = td_suggestion_text(suggestion);
    if (check_free(to, asked->force) || output_write(to, text, strlen(text))) {
        return EXIT_BAD;
    }
    if (asked->json) {
        print_json(suggestion, to);
    } else if (!asked->quiet && strcmp(to, "-") != 0) {
        char quoted[SHELL_WORD_SIZE(PATH)];
        print_guesses(suggestion);
        (void)shell_word(quoted, to);
        printf("\nWrote %s. Look it over, then:\n  tapedeck check %s\n  tapedeck train %s\n", to,
               quoted, quoted);
    }
    return EXIT_GOOD;
}

static int suggest(request *asked) {
    const char *slash = asked->to ? strrchr(asked->to, '/') : NULL;
    bool elsewhere = slash != NULL;
    char *data = path_from(asked->suggest.data, elsewhere);
    char *model = path_from(asked->suggest.model, elsewhere);
    char *labels = path_from(asked->suggest.labels, elsewhere);
    int status = EXIT_GOOD;
    if (!data || !model != !asked->suggest.model || !labels != !asked->suggest.labels) {
        const char *missing = !data                            ? asked->suggest.data
                              : !model && asked->suggest.model ? asked->suggest.model
                                                               : asked->suggest.labels;
        status = fail(EXIT_BAD, "%s: %s", missing, strerror(errno));
    } else {
        td_suggest_options options = asked->suggest;
        options.data = data;
        options.model = model;
        options.labels = labels;
        td_error error = {0};
        td_suggestion *suggestion = td_suggest(&options, &error);
        status = suggestion ? save(suggestion, asked) : fail(EXIT_BAD, "%s", error.text);
        td_suggestion_destroy(suggestion);
    }
    free(data);
    free(model);
    free(labels);
    return status;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A line that the user types, without its end; false when there is none. */
static bool ask(const char *question, char *answer, size_t size) {
    printf("%s", question);
    (void)fflush(stdout);
    if (!fgets(answer, (int)size, stdin)) {
        return false;
    }
    answer[strcspn(answer, "\r\n")] = 0;
    return true;
}

static int ask_all(request *asked) {
    char data[PATH], label[256], to[PATH];
    if (!ask("Data (a CSV, NPY, NPZ or IDX file, or a folder of images): ", data, sizeof data) ||
        !*data) {
        return fail(EXIT_USAGE, "no data was named");
    }
    if (!ask("Column to predict (CSV only; empty: guess it): ", label, sizeof label) ||
        !ask("Experiment file to write (empty: named after the data): ", to, sizeof to)) {
        return fail(EXIT_USAGE, "the answers ended early; nothing was written");
    }
    asked->suggest.data = data;
    asked->suggest.label = *label ? label : NULL;
    asked->to = *to ? to : NULL;
    return suggest(asked);
}

static bool is_model(const char *path) {
    static const char *const endings[] = {".keras",       ".h5",     ".onnx",
                                          ".safetensors", ".tflite", ".pt2"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        if (!strcmp(dot, endings[i])) {
            return true;
        }
    }
    char index[PATH];
    (void)snprintf(index, sizeof index, "%s/run.db", path);
    return access(index, F_OK) == 0;
}

static int run_init(int count, char **arguments) {
    request asked = {.suggest.size = sizeof asked.suggest};
    const option options[] = {
        {.name = "label", .text = &asked.suggest.label},
        {.name = "labels", .text = &asked.suggest.labels},
        {.name = "to", .text = &asked.to},
        {.name = "force", .flag = &asked.force},
        {.name = "quiet", .flag = &asked.quiet},
        {.name = "json", .flag = &asked.json},
    };
    if (!parse_options(&command_init, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (asked.json && (count == 0 || (asked.to && !strcmp(asked.to, "-")))) {
        return misuse(&command_init, "--json needs standard output for itself: name DATA, and no "
                                     "--to -");
    }
    if (count == 0) {
        return ask_all(&asked);
    }
    if (count < 1 || count > 2) {
        return misuse(&command_init, "expected DATA, or MODEL and DATA");
    }
    if (count == 1 && is_model(arguments[0])) {
        return misuse(&command_init, "%s is a model; name the data to train it on too: MODEL DATA",
                      arguments[0]);
    }
    asked.suggest.model = count == 2 ? arguments[0] : NULL;
    asked.suggest.data = arguments[count - 1];
    return suggest(&asked);
}

const command command_init = {
    .name = "init",
    .summary = "write a first experiment file for data, with everything guessed and explained",
    .help = help,
    .run = run_init,
};
