#include "options.h"

#include "output.h"

#include "tapedeck/deck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

bool whole_number(const char *text, int64_t *number) {
    char *end;
    *number = strtoll(text, &end, 10);
    return end != text && !*end && *number >= 1;
}

bool plain_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number) && *number != 0;
}

bool layout_word(const char *text, td_layout *layout) {
    bool first = !strcmp(text, "channels_first");
    *layout = first ? TD_LAYOUT_CHANNELS_FIRST : TD_LAYOUT_CHANNELS_LAST;
    return first || !strcmp(text, "channels_last");
}

bool header_word(const char *text, td_header *header) {
    bool yes = !strcmp(text, "true") || !strcmp(text, "yes");
    *header = yes ? TD_HEADER_YES : TD_HEADER_NO;
    return yes || !strcmp(text, "false") || !strcmp(text, "no");
}

int check_free(const char *path, bool replace) {
    return replace || td_output_is_free(path)
               ? EXIT_GOOD
               : fail(EXIT_BAD,
                      "%s is there already, and not what this command writes; --force replaces it",
                      path);
}

int check_folder(const command *cmd, const char *path) {
    return path && !strcmp(path, "-")
               ? misuse(cmd, "--to -: this writes a folder, which does not go to standard output")
               : EXIT_GOOD;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    return a && b && stat(a, &first) == 0 && stat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

int check_not_read(const char *path, const char *const *read, size_t count, bool force) {
    for (size_t i = 0; i < count && !force; i++) {
        if (is_same_file(path, read[i])) {
            return fail(EXIT_BAD, "%s is what is read here; --force replaces it", path);
        }
    }
    return EXIT_GOOD;
}

static const option *find_option(const option *options, size_t count, const char *name,
                                 size_t length) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == length && !strncmp(options[i].name, name, length)) {
            return &options[i];
        }
    }
    return NULL;
}

/* Short forms that every command with such an option has; each means the first of its long forms that the command has. */
static const struct {
    char letter;
    const char *name;
} letters[] = {{'o', "to"}, {'o', "out"}, {'q', "quiet"}, {'j', "jobs"}};

/* The option of "-o", whose name may be that letter. */
static const option *find_letter(const option *options, size_t count, char letter) {
    const option *found = find_option(options, count, &letter, 1);
    for (size_t i = 0; !found && i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].letter == letter) {
            found = find_option(options, count, letters[i].name, strlen(letters[i].name));
        }
    }
    return found;
}

/* Options that users may expect, and the key that an experiment file has for each. */
static const char *const settings[][2] = {
    {"epochs", "train.epochs"},
    {"steps", "train.steps"},
    {"batch", "data.batch"},
    {"batch-size", "data.batch"},
    {"batch_size", "data.batch"},
    {"loss", "train.loss"},
    {"seed", "seed"},
    {"optimizer", "train.optimizer"},
    {"threads", "threads"},
    {"name", "name"},
    {"validation", "data.validation"},
};

/* The key that an unknown option is in commands that have --set; else NULL. */
static const char *setting_of(const option *options, size_t count, const char *word) {
    for (size_t i = 0;
         find_option(options, count, "set", 3) && i < sizeof settings / sizeof *settings; i++) {
        if (!strcmp(settings[i][0], word)) {
            return settings[i][1];
        }
    }
    return NULL;
}

/* value: what stands behind it, or NULL. */
static void report_unknown_option(const command *cmd, const option *options, size_t count,
                                  const char *argument, size_t length, const char *value) {
    const char *names[MAX_VALUES];
    char word[128] = ""; /* longer than any option */
    for (size_t i = 0; i < count && i < MAX_VALUES; i++) {
        names[i] = options[i].name;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)length, argument + 2);
    if (!length) { /* -x: the words below begin with two dashes */
        misuse(cmd, "no option '%s'", argument);
        return;
    }
    const char *key = setting_of(options, count, word);
    if (key) {
        misuse(cmd, "no option '%s'; the experiment file has it: --set %s=%s", argument, key,
               value ? value : "VALUE");
        return;
    }
    const char *meant = td_nearest_word(word, names, count < MAX_VALUES ? count : MAX_VALUES);
    misuse(cmd, "no option '%s'%s%s%s", argument, meant ? "; did you mean '--" : "",
           meant ? meant : "", meant ? "'?" : "");
}

static bool store_option_value(const command *cmd, const option *taken, const char *value) {
    if (taken->text && *taken->text) {
        misuse(cmd, "--%s is given twice: %s and %s", taken->name, *taken->text, value);
        return false;
    }
    if (taken->text) {
        *taken->text = value;
        return true;
    }
    if (*taken->list_count == MAX_VALUES) {
        misuse(cmd, "--%s: at most %d times", taken->name, MAX_VALUES);
        return false;
    }
    taken->list[(*taken->list_count)++] = value;
    return true;
}

static option_visitor *visitor_of_tables;

void visit_options(option_visitor *visitor) {
    visitor_of_tables = visitor;
}

/* ---- What every command has ------------------------------------------------------------------ */

/* Of one command; it has those that its own table has no option of the same name for. */
typedef struct shared {
    const char *to;
    bool force, quiet;
} shared;

static size_t add_shared(const command *cmd, option *all, size_t count, shared *s) {
    bool writes = !(cmd->lacks & LACKS_TO) && !find_option(all, count, "to", 2);
    if (writes) {
        all[count++] = (option){.name = "to",
                                .text = &s->to,
                                .help = "  --to FILE, -o FILE  write what is printed to FILE; - is "
                                        "standard output\n"};
        all[count++] = (option){.name = "force",
                                .flag = &s->force,
                                .help = "  --force             with --to: replace a file that is "
                                        "there already\n"};
    }
    if (!(cmd->lacks & LACKS_QUIET) && !find_option(all, count, "quiet", 5)) {
        all[count++] = (option){.name = "quiet",
                                .flag = &s->quiet,
                                .help = "  --quiet, -q         print errors only, and what --json, "
                                        "--csv or --to asks for\n"};
    }
    return count;
}

/* Whether --json, --csv or a file that is standard output asks for data, which --quiet does not take away. */
static bool wants_data(const option *all, size_t count) {
    static const char *const names[] = {"json", "csv", "markdown", "to", "junit"};
    bool wanted = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const option *found = find_option(all, count, names[i], strlen(names[i]));
        size_t listed = found && found->list ? *found->list_count : 0;
        wanted = wanted || (found && found->flag && *found->flag) ||
                 (found && found->text && *found->text && output_is_stdout(*found->text));
        for (size_t k = 0; k < listed; k++) {
            wanted = wanted || output_is_stdout(found->list[k]);
        }
    }
    return wanted;
}

static bool begin_output(const option *all, size_t count, const shared *s) {
    if (s->quiet) {
        output_silence(!s->to && !wants_data(all, count));
    }
    return !s->to || output_redirect(s->to, s->force);
}

static void (*printing)(const char *text); /* for the visitor, which gets only the tables */

static void print_shared(const command *cmd, const option *options, size_t count) {
    const char *before = "\n";
    (void)cmd;
    for (size_t i = 0; i < count; i++) {
        if (options[i].help) {
            printing(before);
            printing(options[i].help);
            before = "";
        }
    }
}

void print_command_help(const command *cmd, void (*print)(const char *text)) {
    static const char *const next[] = {"\nExit status", "\nExamples", "\nMore:"};
    size_t length = strlen(cmd->help);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        const char *at = strstr(cmd->help, next[i]);
        length = at && (size_t)(at - cmd->help) < length ? (size_t)(at - cmd->help) : length;
    }
    char *before = strndup(cmd->help, length);
    print(before ? before : "");
    free(before);
    option_visitor *outer = visitor_of_tables;
    printing = print;
    visit_options(print_shared);
    (void)cmd->run(0, NULL);
    visit_options(outer);
    print(cmd->help + length);
}

bool parse_options(const command *cmd, const option *own, size_t own_count, int *count,
                   char **arguments) {
    option options[MAX_OPTIONS];
    shared shared_options = {0};
    for (size_t i = 0; i < own_count; i++) {
        options[i] = own[i];
    }
    size_t option_count = add_shared(cmd, options, own_count, &shared_options);
    if (visitor_of_tables) {
        visitor_of_tables(cmd, options, option_count);
        return false;
    }
    int operands = 0;
    bool only_operands = false;
    for (int i = 0; i < *count; i++) {
        char *argument = arguments[i];
        if (only_operands || argument[0] != '-' || !argument[1]) {
            arguments[operands++] = argument;
            continue;
        }
        if (!strcmp(argument, "--")) {
            only_operands = true;
            continue;
        }
        const char *equals = strchr(argument, '=');
        size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
        const option *taken = argument[1] == '-' && length > 2
                                  ? find_option(options, option_count, argument + 2, length - 2)
                              : argument[1] != '-' && length == 2
                                  ? find_letter(options, option_count, argument[1])
                                  : NULL;
        if (!taken) {
            const char *next =
                i + 1 < *count && arguments[i + 1][0] != '-' ? arguments[i + 1] : NULL;
            report_unknown_option(cmd, options, option_count, argument, length > 2 ? length - 2 : 0,
                                  equals ? equals + 1 : next);
            return false;
        }
        if (taken->flag && equals) {
            misuse(cmd, "--%s takes no value", taken->name);
            return false;
        }
        if (taken->flag) {
            *taken->flag = true;
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < *count ? arguments[++i] : NULL;
        if (!value) {
            misuse(cmd, "--%s needs a value", taken->name);
            return false;
        }
        if (!store_option_value(cmd, taken, value)) {
            return false;
        }
    }
    *count = operands;
    return begin_output(options, option_count, &shared_options);
}

bool are_sinks(const char *text) {
    for (const char *at = text; *at;) {
        char word[64];
        size_t length = strcspn(at, ", ");
        (void)snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (length == 0 || !td_sink_find(word)) {
            return false;
        }
        at += length;
        at += strspn(at, ", ");
    }
    return *text;
}

/* "NAME=FILE"; a name may have '=' in it, a file's name after the last may not. */
static bool split_pair(char *text, td_named_file *pair) {
    char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
        return false;
    }
    *equals = 0;
    *pair = (td_named_file){text, equals + 1};
    return true;
}

int split_pairs(const command *cmd, const char *key, size_t count, const char **texts,
                td_named_file *pairs) {
    for (size_t i = 0; i < count; i++) {
        if (!split_pair((char *)(uintptr_t)texts[i], &pairs[i])) {
            return misuse(cmd, "--%s %s: expected NAME=FILE", key, texts[i]);
        }
    }
    return EXIT_GOOD;
}
