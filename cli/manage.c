/* tapedeck tag, note, rename, rm: what people say of runs, what they are called, and which stay. */
#include "facts.h"
#include "json.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Tags and notes ------------------------------------------------------------------------- */

typedef struct wanted_note {
    const char *key;
    char *value;
} wanted_note;

static void keep_note(void *user, const char *key, const char *value) {
    wanted_note *wanted = user;
    if (strcmp(key, wanted->key) == 0) {
        free(wanted->value);
        wanted->value = copy_text(value);
    }
}

/* The caller's; NULL when the run cannot be read or is not Tapedeck's, after printing why. "": no such note. */
static char *read_note(const char *path, const char *key, char folder[4096]) {
    td_run *run = open_run(path);
    td_run_info info = {.size = sizeof info};
    td_error error = {0};
    wanted_note wanted = {key, copy_text("")};
    if (run) {
        td_run_about(run, &info);
        (void)snprintf(folder, 4096, "%s", info.folder);
        if (info.events) {
            (void)fail(EXIT_BAD, "%s was not written by Tapedeck and has no place for this",
                       info.folder);
        } else if (td_run_notes(run, "run", keep_note, &wanted, &error)) {
            (void)fail(EXIT_BAD, "%s", error.text);
        }
    }
    if (!run || info.events || error.status) {
        free(wanted.value);
        wanted.value = NULL;
    }
    td_run_close(run);
    return wanted.value;
}

static int write_note(const char *folder, const char *key, const char *value) {
    td_error error = {0};
    td_status status = td_run_write_note(folder, key, value, &error);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

/* Where a tag stands among others, separated by commas; NULL: it does not. */
static char *find_tag(char *tags, const char *tag) {
    size_t length = strlen(tag);
    for (char *at = tags; (at = strstr(at, tag)); at++) {
        if ((at == tags || at[-1] == ',') && (!at[length] || at[length] == ',')) {
            return at;
        }
    }
    return NULL;
}

static void remove_tag(char *tags, const char *tag) {
    char *at = find_tag(tags, tag);
    if (at) {
        char *end = at + strlen(tag);
        end += *end == ',';
        memmove(at, end, strlen(end) + 1);
        size_t left = strlen(tags);
        if (left && tags[left - 1] == ',') { /* it was the last one */
            tags[left - 1] = 0;
        }
    }
}

enum { MAX_TAGS = 4096, TAGS_ROOM = MAX_TAGS + 300 };

/* all: the tags that there are, and then those that are left. */
static int change_tags(const char *folder, char all[TAGS_ROOM], int count, char **changes,
                       bool removing) {
    for (int i = 0; i < count; i++) {
        if (!*changes[i] || strchr(changes[i], ',') || strlen(changes[i]) > 255) {
            return fail(EXIT_USAGE,
                        "tag: '%.40s' cannot be a tag: a tag has 1 to 255 bytes and no comma",
                        changes[i]);
        }
        if (removing && !find_tag(all, changes[i])) {
            return fail(EXIT_BAD, "%s has no tag '%s'", folder, changes[i]);
        }
        if (removing) {
            remove_tag(all, changes[i]);
        } else if (!find_tag(all, changes[i])) {
            size_t used = strlen(all);
            (void)snprintf(all + used, TAGS_ROOM - used, "%s%s", used ? "," : "", changes[i]);
        }
        if (strlen(all) > MAX_TAGS) {
            return fail(EXIT_BAD, "%s: more than %d bytes of tags", folder, (int)MAX_TAGS);
        }
    }
    return write_note(folder, "tags", all);
}

/* {"run": "runs/demo", "tags": ["baseline"]} */
static void print_tags(const char *folder, char *tags, bool json) {
    const char *before = "";
    if (json) {
        (void)fputs("{\"run\": ", stdout);
        print_json_text(folder);
        (void)fputs(", \"tags\": [", stdout);
    }
    for (char *tag = strtok(tags, ","); tag; tag = strtok(NULL, ",")) {
        if (json) {
            (void)fputs(before, stdout);
            print_json_text(tag);
            before = ", ";
        } else {
            (void)puts(tag);
        }
    }
    (void)fputs(json ? "]}\n" : "", stdout);
}

static int run_tag(int count, char **arguments) {
    bool removing = false, json = false;
    const option options[] = {{.name = "remove", .flag = &removing},
                              {.name = "json", .flag = &json}};
    if (!parse_options(&command_tag, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count < 1 || (removing && count < 2)) {
        return misuse(&command_tag, "expected a RUN%s", removing ? " and the TAGs to remove" : "");
    }
    char folder[4096], all[TAGS_ROOM], *tags = read_note(arguments[0], "tags", folder);
    (void)snprintf(all, sizeof all, "%s", tags ? tags : "");
    int status = !tags       ? EXIT_BAD
                 : count > 1 ? change_tags(folder, all, count - 1, arguments + 1, removing)
                             : EXIT_GOOD;
    if (!status && (json || count == 1)) {
        print_tags(folder, all, json);
    }
    free(tags);
    return status;
}

/* {"run": "runs/demo", "note": "…"} */
static void print_note(const char *folder, const char *text, bool json) {
    if (json) {
        (void)fputs("{\"run\": ", stdout);
        print_json_text(folder);
        (void)fputs(", \"note\": ", stdout);
        print_json_text(text);
        (void)puts("}");
    } else if (*text) {
        (void)puts(text);
    }
}

static int run_note(int count, char **arguments) {
    bool json = false;
    const option options[] = {{.name = "json", .flag = &json}};
    if (!parse_options(&command_note, options, 1, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count < 1 || count > 2) {
        return misuse(&command_note, "expected a RUN, and the text of the note in quotes");
    }
    char folder[4096], *text = read_note(arguments[0], "notes", folder);
    int status = !text        ? EXIT_BAD
                 : count == 2 ? write_note(folder, "notes", arguments[1])
                              : EXIT_GOOD;
    if (!status && (json || count == 1)) {
        print_note(folder, count == 2 ? arguments[1] : text, json);
    }
    free(text);
    return status;
}

/* ---- Names and removal ---------------------------------------------------------------------- */

static int run_rename(int count, char **arguments) {
    bool json = false;
    const option options[] = {{.name = "json", .flag = &json}};
    if (!parse_options(&command_rename, options, 1, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count != 2) {
        return misuse(&command_rename, "expected a RUN and its new NAME");
    }
    td_error error = {0};
    td_status status = td_run_rename(arguments[0], arguments[1], &error);
    if (status) {
        return status == TD_INVALID ? misuse(&command_rename, "%s", error.text)
                                    : fail(status_of(status), "%s", error.text);
    }
    if (json) {
        (void)fputs("{\"run\": ", stdout);
        print_json_text(arguments[0]);
        (void)fputs(", \"name\": ", stdout);
        print_json_text(arguments[1]);
        (void)puts("}");
    }
    return EXIT_GOOD;
}

/* What would go, a line each: the whole list before anything does. */
static bool print_doomed(int count, char **runs) {
    bool good = true;
    for (int i = 0; i < count; i++) {
        td_run *run = open_run(runs[i]);
        td_run_info info = {.size = sizeof info};
        char bytes[32];
        if (run) {
            td_run_about(run, &info);
            (void)fprintf(stderr, "  %s  %s, %lld step%s, %s\n", info.folder,
                          td_run_state_name(info.state), (long long)info.last_step,
                          plural(info.last_step), terminal_bytes(bytes, (double)info.bytes));
        }
        good = good && run;
        td_run_close(run);
    }
    return good;
}

static bool is_agreed(int count) {
    char answer[16];
    (void)fprintf(stderr, "Remove %s for good? [y/N] ", count > 1 ? "these runs" : "this run");
    return fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
}

static int run_rm(int count, char **arguments) {
    bool agreed = false, json = false;
    const option options[] = {{.name = "yes", .flag = &agreed},
                              {.name = "y", .flag = &agreed},
                              {.name = "json", .flag = &json}};
    if (!parse_options(&command_rm, options, 3, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count < 1) {
        return misuse(&command_rm, "expected a RUN");
    }
    if (!agreed && !isatty(STDIN_FILENO)) {
        return misuse(&command_rm, "there is nobody to ask: say --yes");
    }
    if (!agreed && !print_doomed(count, arguments)) {
        return EXIT_BAD;
    }
    if (!agreed && !is_agreed(count)) {
        return fail(EXIT_BAD, "nothing was removed");
    }
    int result = EXIT_GOOD;
    const char *before = "";
    (void)fputs(json ? "{\"removed\": [" : "", stdout);
    for (int i = 0; i < count; i++) {
        td_error error = {0};
        td_status status = td_run_remove(arguments[i], &error);
        result = status ? fail(status_of(status), "%s", error.text) : result;
        if (json && !status) {
            (void)fputs(before, stdout);
            print_json_text(arguments[i]);
            before = ", ";
        }
    }
    (void)fputs(json ? "]}\n" : "", stdout);
    return result;
}

const command command_tag = {
    .name = "tag",
    .summary = "add tags to a run, remove them, or print them",
    .help =
        "tapedeck tag RUN [TAG…] [--remove]\n"
        "\n"
        "Adds tags to a run, also while it trains; without a TAG it prints those that the run has. "
        "The\n"
        "page and `tapedeck runs` show them.\n"
        "\n"
        "  --remove   removes these tags instead\n"
        "  --json     the tags that the run then has, as JSON\n"
        "\n"
        "Examples\n"
        "  tapedeck tag runs/demo baseline paper\n"
        "  tapedeck tag runs/demo paper --remove\n"
        "  tapedeck runs --filter tags=baseline\n",
    .run = run_tag};

const command command_note = {
    .name = "note",
    .summary = "write a note about a run, or print it",
    .help =
        "tapedeck note RUN [TEXT]\n"
        "\n"
        "Keeps TEXT with the run in place of the note before, also while it trains; without TEXT "
        "it\n"
        "prints the note. '' removes it.\n"
        "\n"
        "  --json   the note that the run then has, as JSON\n"
        "\n"
        "Examples\n"
        "  tapedeck note runs/demo 'the learning rate of the paper'\n"
        "  tapedeck note runs/demo\n",
    .run = run_note};

const command command_rename = {
    .name = "rename",
    .summary = "give a run another name",
    .help = "tapedeck rename RUN NAME\n"
            "\n"
            "Renames the run's folder beside the old one. A run is never replaced, and one that is "
            "training\n"
            "is not renamed. Branches of it that stand beside it follow.\n"
            "\n"
            "  --json   the run and its new name, as JSON\n"
            "\n"
            "Examples\n"
            "  tapedeck rename runs/demo-2 small-batches\n",
    .run = run_rename,
    .lacks = LACKS_TO};

const command command_rm = {
    .name = "rm",
    .summary = "remove runs, after asking",
    .help =
        "tapedeck rm RUN… [--yes]\n"
        "\n"
        "Shows the runs, asks, and removes their folders with all that is in them. A run that is\n"
        "training, a single rank, and what another program wrote are refused.\n"
        "\n"
        "  --yes, -y   do not ask\n"
        "  --json      which were removed, as JSON\n"
        "\n"
        "Examples\n"
        "  tapedeck rm runs/demo-2 runs/demo-3\n",
    .run = run_rm,
    .lacks = LACKS_TO};
