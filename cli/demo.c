/* tapedeck demo: a first run without a clone, a download or a line of code. */
#include "demo.h"
#include "command.h"
#include "options.h"
#include "output.h"
#include "terminal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "tapedeck demo [FOLDER | --to FOLDER]\n"
    "\n"
    "Trains a small network on 1797 handwritten digits, which takes a few seconds, and shows what\n"
    "happened inside it. The experiment (demo.yaml) and its data (digits.csv.gz) come with the\n"
    "program. They are written into FOLDER (default tapedeck-demo), and the run into FOLDER/runs.\n"
    "A file that is there already is kept: change demo.yaml and call it again.\n"
    "\n"
    "  --to FOLDER, -o FOLDER   the same as FOLDER\n"
    "  --quiet, -q              print nothing but errors\n"
    "  --json                   what `tapedeck train --json` prints\n"
    "\n"
    "Examples\n"
    "  tapedeck demo\n"
    "  tapedeck demo /tmp/demo\n"
    "  tapedeck view tapedeck-demo/runs\n";

enum { PATH = 4200 };

static bool join_path(char *out, const char *folder, const char *name) {
    int length = snprintf(out, PATH, "%s/%s", folder, name);
    return length > 0 && length < PATH;
}

static int write_file(const char *folder, const demo_file *file) {
    char path[PATH];
    if (!join_path(path, folder, file->name)) {
        return fail(EXIT_USAGE, "%s: the name is too long", folder);
    }
    return access(path, F_OK) == 0 ? EXIT_GOOD : output_write(path, file->bytes, file->size);
}

static int train_demo(const char *folder, bool quiet, bool json) {
    char experiment[PATH], runs[PATH];
    if (!join_path(experiment, folder, demo_files[0].name) || !join_path(runs, folder, "runs")) {
        return fail(EXIT_USAGE, "%s: the name is too long", folder);
    }
    char out[] = "--out", end[] = "--", silent[] = "--quiet", data[] = "--json";
    char *words[6] = {out, runs}; /* and those that were given */
    int count = 2;
    if (quiet) {
        words[count++] = silent;
    }
    if (json) {
        words[count++] = data;
    }
    words[count++] = end;
    words[count++] = experiment;
    int status = command_train.run(count, words);
    if (!status && !quiet && !json) {
        char quoted[SHELL_WORD_SIZE(PATH)];
        printf("\nLook at it in a browser:  tapedeck view %s\n", shell_word(quoted, runs));
    }
    return status;
}

static int run_demo(int count, char **arguments) {
    const char *to = NULL;
    bool quiet = false, json = false;
    const option options[] = {{.name = "to", .text = &to},
                              {.name = "quiet", .flag = &quiet},
                              {.name = "json", .flag = &json}};
    if (!parse_options(&command_demo, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count + (to != NULL) > 1) {
        return misuse(&command_demo, "expected one folder at most");
    }
    if (check_folder(&command_demo, to)) {
        return EXIT_USAGE;
    }
    const char *folder = to ? to : count ? arguments[0] : "tapedeck-demo";
    if (mkdir(folder, 0777) && errno != EEXIST) {
        return fail(EXIT_BAD, "%s: %s", folder, strerror(errno));
    }
    int status = EXIT_GOOD;
    for (int i = 0; i < DEMO_FILES && !status; i++) {
        status = write_file(folder, &demo_files[i]);
    }
    return status ? status : train_demo(folder, quiet, json);
}

const command command_demo = {
    .name = "demo",
    .summary = "train a small network on handwritten digits and show what happened inside it",
    .help = help,
    .run = run_demo,
};
