/* tapedeck tracks: what a run records, and other tracks for one that is being written. */
#include "json.h"
#include "options.h"
#include "reading.h"

#include <stdlib.h>
#include <string.h>

static const double MAX_WAIT = 60; /* seconds for a step to end */

typedef struct listing {
    bool known;
    bool any, json;
} listing;

/* {"tracks": ["…", …]} */
static void print_json_lines(const char *lines) {
    char *copy = strdup(lines), *rest = NULL;
    const char *before = "";
    (void)fputs("{\"tracks\": [", stdout);
    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        (void)fputs(before, stdout);
        print_json_text(line);
        before = ", ";
    }
    (void)fputs("]}\n", stdout);
    free(copy);
}

static void print_tracks(void *user, const char *key, const char *value) {
    listing *l = user;
    if (strcmp(key, "deck.tracks") == 0) {
        l->known = true;
        l->any = *value != 0;
        if (l->json) {
            print_json_lines(value);
        } else {
            (void)printf("%s%s", value, l->any ? "\n" : "");
        }
    }
}

static int list_tracks(const char *path, bool json) {
    td_run *run = open_run(path);
    td_error error = {0};
    listing l = {.json = json};
    if (!run) {
        return EXIT_BAD;
    }
    td_status status = td_run_notes(run, "run", print_tracks, &l, &error);
    td_run_close(run);
    if (status) {
        return fail(status_of(status), "%s", error.text);
    }
    if (!l.known) {
        return fail(EXIT_BAD, "%s does not have its tracks: another program or version wrote it",
                    path);
    }
    if (!l.any) {
        note("this run has no tracks");
    }
    return EXIT_GOOD;
}

static int run_tracks(int count, char **arguments) {
    const char *add[MAX_VALUES], *remove[MAX_VALUES];
    size_t add_count = 0, remove_count = 0;
    bool json = false;
    const option options[] = {
        {.name = "add", .list = add, .list_count = &add_count},
        {.name = "remove", .list = remove, .list_count = &remove_count},
        {.name = "json", .flag = &json},
    };
    if (!parse_options(&command_tracks, options, 3, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1) {
        return misuse(&command_tracks, "expected one RUN");
    }
    if (add_count + remove_count == 0) {
        return list_tracks(arguments[0], json);
    }
    td_error error = {0};
    int64_t step = 0;
    td_status status = td_run_change_tracks(arguments[0], add, add_count, remove, remove_count,
                                            MAX_WAIT, &step, &error);
    if (status) {
        return fail(status_of(status), "%s", error.text);
    }
    (void)printf(json ? "{\"step\": %lld}\n" : "changed after step %lld\n", (long long)step);
    return EXIT_GOOD;
}

const command command_tracks = {
    .name = "tracks",
    .summary = "list what a run records, and change it while it trains",
    .help =
        "tapedeck tracks RUN [--add TRACK]… [--remove TRACK]…\n"
        "\n"
        "Lists the tracks of a run, a line each. With --add and --remove it changes those of a "
        "run that\n"
        "is being written, by `tapedeck train`, Python or any program with a deck, and waits "
        "until that\n"
        "is done: at the end of a step. The run's table `event` keeps each change with its step.\n"
        "\n"
        "A TRACK is a list of names and globs and then words as in an experiment file:\n"
        "\n"
        "  WHAT [every N | every N epochs | at N,N] [start N] [end N] [sample N] [history N]\n"
        "       [form FORMS] [to SINKS] [when CONDITION]\n"
        "\n"
        "  --add TRACK      records this, too\n"
        "  --remove TRACK   no longer records this: a line of the list\n"
        "  --json           the tracks, or the step after which they changed, as JSON\n"
        "\n"
        "Examples\n"
        "  tapedeck tracks runs/demo\n"
        "  tapedeck tracks runs/demo --add 'conv*.error every 10 form stats,histogram'\n"
        "  tapedeck tracks runs/demo --add '*.gradient form tensor to npy when loss > 1'\n"
        "  tapedeck tracks runs/demo --remove 'conv*.error every 10 form stats,histogram'\n",
    .run = run_tracks};
