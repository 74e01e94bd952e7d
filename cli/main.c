/* tapedeck: the command line of the library. Uses nothing but the public headers. */
#include "command.h"
#include "guard.h"
#include "manual.h"
#include "options.h"
#include "output.h"

#include "tapedeck/catalog.h"

#include <stdarg.h>
#include <string.h>

/* In the order of --help, which has a heading before the first command of each group. */
static const command *const commands[] = {
    &command_demo,     &command_init,     &command_check,     &command_train,   &command_sweep,
    &command_tracks,   &command_replay,   &command_runs,      &command_show,    &command_view,
    &command_diagnose, &command_compare,  &command_diff,      &command_origin,  &command_report,
    &command_tag,      &command_note,     &command_rename,    &command_rm,      &command_export,
    &command_push,     &command_pull,     &command_sql,       &command_assert,  &command_mcp,
    &command_predict,  &command_evaluate, &command_gradients, &command_inspect, &command_weights,
    &command_list,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct group {
    const command *first;
    const char *heading;
} groups[] = {
    {&command_demo, "Train"},
    {&command_runs, "Look at runs"},
    {&command_tag, "Keep runs in order"},
    {&command_export, "Take runs elsewhere"},
    {&command_predict, "Use saved models"},
    {&command_list, "Look up"},
};

static const char head[] = "tapedeck shows what happens inside a neural network while it trains.\n"
                           "\n"
                           "  tapedeck COMMAND [OPTION…] [ARGUMENT…]\n"
                           "\n";
static const char tail[] =
    "\n"
    "  tapedeck COMMAND --help    all about a command, with examples\n"
    "  tapedeck COMMAND --json    for programs; --to FILE, -o FILE: into a file; --quiet, -q\n"
    "  tapedeck --version, -V\n"
    "\n"
    "A first run:  tapedeck demo\n"
    "Exit status:  0 good; 1 something failed; 2 wrong usage or experiment file; 3 trained, and "
    "the\n"
    "              model is there, but not everything could be recorded; 130 stopped by Ctrl-C,\n"
    "              with everything recorded and a checkpoint to resume from.\n"
    "NO_COLOR is honoured.\n";

static void print_error_line(const char *format, va_list arguments) {
    (void)fflush(stdout);
    (void)fputs("tapedeck: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
}

static bool failed;

int fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_error_line(format, arguments);
    va_end(arguments);
    failed |= status != EXIT_GOOD;
    return status;
}

bool has_failed(void) {
    return failed;
}

void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_error_line(format, arguments);
    va_end(arguments);
}

void note(const char *text) {
    if (!output_is_silent()) {
        complain("note: %s", text);
    }
}

int misuse(const command *cmd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_error_line(format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "See `tapedeck %s%s--help`.\n", cmd ? cmd->name : "", cmd ? " " : "");
    failed = true;
    return EXIT_USAGE;
}

int status_of(td_status status) {
    return status == TD_OK ? EXIT_GOOD : status == TD_INTERRUPTED ? EXIT_STOPPED : EXIT_BAD;
}

static void print_help(FILE *stream) {
    (void)fputs(head, stream);
    const struct group *next = groups;
    for (int i = 0; i < COMMANDS; i++) {
        if (commands[i] == next->first) {
            (void)fprintf(stream, "%s%s\n", i ? "\n" : "", next->heading);
            next += next + 1 < groups + sizeof groups / sizeof *groups;
        }
        (void)fprintf(stream, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    }
    (void)fputs(tail, stream);
}

static bool has_word(int count, char **arguments, const char *word, const char *letter) {
    for (int i = 0; i < count && strcmp(arguments[i], "--") != 0; i++) {
        if (!strcmp(arguments[i], word) || !strcmp(arguments[i], letter)) {
            return true;
        }
    }
    return false;
}

static int unknown_command(const char *name) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    const char *meant = td_nearest_word(name, names, COMMANDS);
    return misuse(NULL, "no command '%s'%s%s%s", name, meant ? "; did you mean '" : "",
                  meant ? meant : "", meant ? "'?" : "");
}

/* Whether a list is called `name`: `tapedeck layers` is short for `tapedeck list layers`. */
static bool is_list(const char *name) {
    for (int i = 0; i < TD_CATALOG_COUNT; i++) {
        if (!strcmp(td_catalog_name((td_catalog)i), name)) {
            return true;
        }
    }
    return false;
}

static int run_completion(const char *shell) {
    return shell && print_completion(shell, commands, COMMANDS)
               ? EXIT_GOOD
               : misuse(NULL, "--completion: expected bash, zsh or fish");
}

static int print_version(void) {
    printf("tapedeck %s\n", td_version());
    return EXIT_GOOD;
}

static void print_text(const char *text) {
    (void)fputs(text, stdout);
}

static int run_command(int count, char **arguments) {
    const char *name = arguments[1];
    if (!strcmp(name, "help") && count > 2) {
        return run_command(3, (char *[]){arguments[0], arguments[2], (char[]){"--help"}});
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return EXIT_GOOD;
    }
    if (!strcmp(name, "--man")) {
        print_man(commands, COMMANDS);
        return EXIT_GOOD;
    }
    if (!strcmp(name, "--completion")) {
        return run_completion(count > 2 ? arguments[2] : NULL);
    }
    if (has_word(1, arguments + 1, "--version", "-V")) {
        return print_version();
    }
    int first = is_list(name) ? 1 : 2; /* of the command's own arguments */
    name = first == 1 ? command_list.name : name;
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) != 0) {
            continue;
        }
        if (has_word(count - first, arguments + first, "--help", "-h")) {
            print_command_help(commands[i], print_text);
            return EXIT_GOOD;
        }
        if (has_word(count - first, arguments + first, "--version", "-V")) {
            return print_version();
        }
        return commands[i]->run(count - first, arguments + first);
    }
    return unknown_command(name);
}

int main(int count, char **arguments) {
    if (!guard_streams()) {
        return EXIT_BAD;
    }
    for (int i = 1; i < count; i++) { /* everybody can read a program's arguments */
        (void)td_url_hide_password(arguments[i]);
    }
    if (count < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    int status = run_command(count, arguments);
    if (!guard_flush() && !status) {
        status = fail(EXIT_BAD, "cannot write to stdout");
    }
    return output_finish(status);
}
