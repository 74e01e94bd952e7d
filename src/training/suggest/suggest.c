/* From guesses to an experiment file: YAML that trains as it is, with what was guessed as comments. */
#include "suggest/suggest.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "pass/objective.h"

#include "tapedeck/model.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct td_suggestion {
    char *name, *text;
    td__names guesses;
};

bool td__guess_note(td__guess *guess, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return td__names_add(guess->sentences, text) >= 0;
}

td_status td__guess_enough(const td__guess *guess, td_error *error) {
    return guess->rows >= 10
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%s has %lld examples, too few to learn from",
                              guess->options->data, (long long)guess->rows);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void td__write_word(FILE *out, const char *text) {
    static const char *const keywords[] = {"true", "false", "yes", "no",  "on", "off",
                                           "null", "y",     "n",   "nan", "inf"};
    bool plain = isalpha((unsigned char)text[0]) || text[0] == '_' || text[0] == '/';
    for (const char *c = text; *c; c++) {
        plain = plain && (isalnum((unsigned char)*c) || strchr("_-./", *c));
    }
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        plain = plain && strcasecmp(text, keywords[i]) != 0;
    }
    size_t length = strlen(text);
    char *quoted = plain ? NULL : td__calloc(TD__JSON_STRING_SIZE(length), 1);
    if (quoted) {
        (void)fwrite(quoted, 1, td__json_string(quoted, text), out);
    } else {
        (void)fputs(text, out); /* without memory, the stream fails too */
    }
    td__free(quoted);
}

static void write_columns(FILE *out, const td__guess *guess, td__role role, const char *key) {
    const char *before = "";
    for (int64_t i = 0; i < guess->profile.column_count; i++) {
        if (guess->roles[i] == (int)role) {
            (void)fprintf(out, *before ? "%s" : "  %s: [", *before ? before : key);
            td__write_word(out, guess->profile.columns[i].name);
            before = ", ";
        }
    }
    (void)fputs(*before ? "]\n" : "", out);
}

static void write_column(FILE *out, const td__guess *guess, td__role role, const char *key) {
    for (int64_t i = 0; i < guess->profile.column_count; i++) {
        if (guess->roles[i] == (int)role) {
            (void)fprintf(out, "  %s: ", key);
            td__write_word(out, guess->profile.columns[i].name);
            (void)fputs("\n", out);
        }
    }
}

/* An input for each column of text, and one for all other columns. */
static void write_pieces(FILE *out, const td__guess *guess) {
    int64_t text = 0;
    const char *before = "";
    (void)fputs("  inputs: {", out);
    for (int64_t i = 0; i < guess->profile.column_count; i++) {
        if (guess->roles[i] == TD__ROLE_TEXT) {
            (void)fprintf(out, "%swords%lld: ", before, (long long)++text);
            td__write_word(out, guess->profile.columns[i].name);
            before = ", ";
        }
    }
    for (int64_t i = 0; i < guess->profile.column_count && guess->inputs; i++) {
        if (guess->roles[i] == TD__ROLE_INPUT || guess->roles[i] == TD__ROLE_CATEGORY ||
            guess->roles[i] == TD__ROLE_DATE) {
            (void)fputs(*before == ';' ? ", " : *before ? ", numbers: [" : "numbers: [", out);
            td__write_word(out, guess->profile.columns[i].name);
            before = ";";
        }
    }
    (void)fputs(*before == ';' ? "]}\n" : "}\n", out);
}

static void write_label(FILE *out, const td__guess *guess) {
    for (int64_t i = 0; i < guess->profile.column_count; i++) {
        if (guess->roles[i] == TD__ROLE_LABEL) {
            (void)fputs("  label: ", out);
            td__write_word(out, guess->profile.columns[i].name);
            (void)fputs("\n", out);
        }
    }
    const char *labels = guess->options->labels ? guess->options->labels : guess->labels;
    if (labels) {
        (void)fputs("  labels: ", out);
        td__write_word(out, labels);
        (void)fputs("\n", out);
    }
    if (guess->profile.columns && guess->profile.has_header) {
        (void)fputs("  header: true\n", out);
    }
    if (!guess->classes && !guess->unlabelled && !guess->options->model) {
        (void)fputs(
            "  label_kind: values\n"
            "  standardize_labels: true     # predictions are in the data's own unit again\n",
            out);
    }
}

static int64_t batch_size(const td__guess *guess) {
    return guess->rows < 5000 ? 32 : guess->rows < 100000 ? 64 : 256;
}

static void write_data(FILE *out, const td__guess *guess) {
    (void)fputs("data:\n  train: ", out);
    td__write_word(out, guess->options->data);
    (void)fprintf(out, "      # %lld examples\n", (long long)guess->rows);
    write_label(out, guess);
    write_columns(out, guess, TD__ROLE_CATEGORY, "categories");
    write_columns(out, guess, TD__ROLE_IGNORED, "ignore");
    write_columns(out, guess, TD__ROLE_TEXT, "text");
    write_columns(out, guess, TD__ROLE_DATE, "dates");
    write_column(out, guess, TD__ROLE_GROUP, "groups");
    write_column(out, guess, TD__ROLE_IMAGE, "images");
    if (guess->pictures) {
        (void)fprintf(out, "  resize: [%lld, %lld]\n  input: [%lld, %lld, 3]\n",
                      (long long)guess->input.dims[0], (long long)guess->input.dims[1],
                      (long long)guess->input.dims[0], (long long)guess->input.dims[1]);
    }
    if (td__guess_is_mixed(guess)) {
        write_pieces(out, guess);
    }
    if (guess->missing) {
        (void)fprintf(out, "  missing: %s\n", guess->missing);
    }
    if (guess->reshaped && !guess->options->model) {
        (void)fprintf(out, "  input: [%lld, %lld, 1]\n", (long long)guess->input.dims[0],
                      (long long)guess->input.dims[1]);
    }
    if (guess->options->model) {
        (void)fputs("  # scale and standardize: as the model was trained; see `tapedeck inspect`\n",
                    out);
    } else if (guess->scale == 0) {
        (void)fputs(!guess->texts
                        ? "  standardize: true            # each input: mean 0, variance 1\n"
                    : guess->inputs
                        ? "  standardize: true            # of numbers; ids stay what they are\n"
                        : "",
                    out);
    } else if (guess->scale != 1) {
        (void)fprintf(out, "  scale: %.9g\n", guess->scale);
    }
    (void)fprintf(out,
                  "  validation: %s              # kept apart to judge the model\n"
                  "  batch: %lld\n\n",
                  td__guess_is_small(guess) ? "0.1" : "0.2", (long long)batch_size(guess));
}

static void write_model(FILE *out, const td__guess *guess) {
    if (guess->options->model) {
        (void)fputs("model:\n  file: ", out);
        td__write_word(out, guess->options->model);
        (void)fputs("\n  # frozen: [\"conv*\"]           # layers that stay as they are\n\n", out);
        return;
    }
    (void)fputs("model:\n", out);
    td__write_layers(out, guess);
    (void)fputs("\n", out);
}

static void write_train(FILE *out, const td__guess *guess) {
    const char *metric = guess->classes ? "accuracy" : "mae";
    (void)fputs("train:\n", out);
    if (guess->classes) {
        (void)fprintf(out, "  loss: %s\n  from_logits: %s\n",
                      guess->binary ? "binary_crossentropy" : "sparse_categorical_crossentropy",
                      guess->probabilities ? "false" : "true");
    } else {
        (void)fprintf(out, "  loss: mse\n%s", guess->unlabelled ? "  target: input\n" : "");
    }
    (void)fprintf(out,
                  "  optimizer: {adam: {learning_rate: %s}}\n"
                  "  metrics: [%s]\n"
                  "  epochs: %d\n"
                  "  early_stopping: {monitor: val_loss, patience: 10, restore_best: true}\n\n",
                  guess->options->model ? "0.0001" : "0.001", metric,
                  guess->rows < 5000     ? 200
                  : guess->rows < 100000 ? 60
                                         : 20);
}

static void write_record(FILE *out, const td__guess *guess) {
    const char *metric = guess->classes ? "accuracy" : "mae";
    (void)fprintf(
        out,
        "record:\n"
        "  - what: [loss, val_loss, %s, val_%s]\n"
        "    every: 1 epoch\n"
        "    to: [csv, tensorboard]\n"
        "  - what: [\"*.output\", \"*.error\", \"*.gradient\"]     # what happens inside\n"
        "    every: 10 steps\n"
        "    form: [stats, histogram]\n"
        "    to: [sqlite]\n",
        metric, metric);
    if (!guess->unlabelled) {
        (void)fputs(
            "  - what: prediction                             # some of the validation part\n"
            "    every: 10 epochs\n"
            "    sample: 20\n"
            "    form: rows\n"
            "    to: [csv]\n",
            out);
    }
}

static td_status compose(td_suggestion *suggestion, const td__guess *guess, td_error *error) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        (void)fputs("# A first experiment, guessed from the data:\n", out);
        for (size_t i = 0; i < guess->sentences->count; i++) {
            (void)fputs("#   ", out);
            td__print_visible(out, guess->sentences->items[i], strlen(guess->sentences->items[i]));
            (void)fputs("\n", out);
        }
        (void)fputs("# docs/experiment.md has every key.\nname: ", out);
        td__write_word(out, suggestion->name);
        (void)fputs(
            "\nseed: 1                        # the same file gives the same bits again\n\n", out);
        write_data(out, guess);
        write_model(out, guess);
        write_train(out, guess);
        write_record(out, guess);
    }
    bool good = out && !ferror(out);
    good = (!out || fclose(out) == 0) && good;
    suggestion->text = good ? td__strdup(text) : NULL;
    free(text);
    return suggestion->text ? TD_OK : td_error_set(error, TD_MEMORY, "no memory");
}

/* ---- Guessing -------------------------------------------------------------------------------- */

/* "data/iris.csv.gz" is iris. */
static char *name_of(const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    char *name = td__calloc(end - start + 1, 1);
    for (size_t i = start; name && i <= end; i++) {
        char c = path[i];
        bool ends = i == end || (c == '.' && i > start);
        name[i - start] = (char)(ends ? 0 : isalnum((unsigned char)c) || strchr("_-", c) ? c : '_');
        if (ends) {
            break;
        }
    }
    return name;
}

/* What a given model puts out decides the loss: probabilities or plain numbers. */
static td_status use_model(td__guess *guess, td_error *error) {
    const td_inspection *inspection = td_model_inspect(guess->options->model, error);
    if (!inspection) {
        return error->status;
    }
    int64_t outputs = 1;
    for (int i = 0; i < inspection->output.rank; i++) {
        outputs *= inspection->output.dims[i];
    }
    td_status status = TD_OK;
    guess->binary = guess->classes == 2 && outputs == 1;
    if (!guess->binary && outputs < (guess->classes ? guess->classes : guess->values)) {
        status = td_error_set(error, TD_INVALID,
                              "%s puts out %lld numbers, and the labels of %s need %lld",
                              guess->options->model, (long long)outputs, guess->options->data,
                              (long long)(guess->classes ? guess->classes : guess->values));
    }
    const char *ending = td__output_activation(inspection->model, 0);
    const char *wanted = guess->binary ? "sigmoid" : "softmax";
    guess->probabilities = ending && !strcmp(ending, wanted);
    td_inspection_destroy(inspection);
    return status;
}

static td_status guess_data(td__guess *guess, td_error *error) {
    td__reader *reader = NULL;
    td__input *input = NULL;
    td_status status = td__reader_open(guess->options->data, &reader, &input, error);
    if (!status) {
        status = reader == td__csv_read ? td__guess_columns(guess, input, error)
                                        : td__guess_arrays(guess, error);
    }
    td__input_close(input);
    if (!status && guess->options->label && reader != td__csv_read) {
        status = td_error_set(error, TD_INVALID, "%s is no CSV file: it has no column '%s'",
                              guess->options->data, guess->options->label);
    }
    return status;
}

td_suggestion *td_suggest(const td_suggest_options *given, td_error *error) {
    td_error unused = {0};
    error = error ? error : &unused;
    td_suggest_options all;
    const td_suggest_options *options = td__options(&all, sizeof all, given);
    if (!options->data) {
        (void)td_error_set(error, TD_INVALID, "no data to suggest an experiment for");
        return NULL;
    }
    td_suggestion *suggestion = td__calloc(1, sizeof *suggestion);
    if (!suggestion || !(suggestion->name = name_of(options->data))) {
        td__free(suggestion);
        (void)td_error_set(error, TD_MEMORY, "no memory");
        return NULL;
    }
    td__guess guess = {.options = options, .sentences = &suggestion->guesses};
    td_status status = guess_data(&guess, error);
    status = status || !options->model ? status : use_model(&guess, error);
    status = status ? status : compose(suggestion, &guess, error);
    td__profile_release(&guess.profile);
    td__free(guess.roles);
    td__free(guess.labels);
    if (status) {
        td_suggestion_destroy(suggestion);
        return NULL;
    }
    return suggestion;
}

void td_suggestion_destroy(td_suggestion *suggestion) {
    if (suggestion) {
        td__free(suggestion->name);
        td__free(suggestion->text);
        td__names_release(&suggestion->guesses);
        td__free(suggestion);
    }
}

const char *td_suggestion_name(const td_suggestion *suggestion) {
    return suggestion->name;
}

const char *td_suggestion_text(const td_suggestion *suggestion) {
    return suggestion->text;
}

td_names td_suggestion_guesses(const td_suggestion *suggestion) {
    return (td_names){(const char *const *)suggestion->guesses.items, suggestion->guesses.count};
}
