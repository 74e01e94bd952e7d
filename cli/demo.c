/* tapedeck demo: a first run without a clone, a download or a line of code. */
#include "demo.h"
#include "command.h"
#include "options.h"
#include "terminal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "tapedeck demo [FOLDER]\n"
    "\n"
    "Trains a small network on 1797 handwritten digits, which takes a few seconds, and shows what\n"
    "happened inside it. The experiment (demo.yaml) and its data (digits.csv.gz) come with the\n"
    "program. They are written into FOLDER (default tapedeck-demo), and the run into FOLDER/runs.\n"
    "A file that is there already is kept: change demo.yaml and call it again.\n"
    "\n"
    "Examples\n"
    "  tapedeck demo\n"
    "  tapedeck demo /tmp/demo\n"
    "  tapedeck view tapedeck-demo/runs\n";

enum { PATH = 4200 };

static bool join_path(char *out, const char *folder, const char *name, const char *end) {
    int length = snprintf(out, PATH, "%s/%s%s", folder, name, end);
    return length > 0 && length < PATH;
}

/* Writes a file under another name first, so that one that is there is whole. */
static int write_file(const char *folder, const demo_file *file) {
    char path[PATH], unfinished[PATH];
    if (!join_path(path, folder, file->name, "") ||
        !join_path(unfinished, folder, file->name, ".part")) {
        return fail(EXIT_USAGE, "%s: the name is too long", folder);
    }
    if (access(path, F_OK) == 0) {
        return EXIT_GOOD;
    }
    FILE *stream = fopen(unfinished, "wb");
    bool good = stream && fwrite(file->bytes, 1, file->size, stream) == file->size;
    good = (!stream || fclose(stream) == 0) && good;
    if (good && rename(unfinished, path) == 0) {
        return EXIT_GOOD;
    }
    int status = fail(EXIT_BAD, "%s: %s", path, strerror(errno));
    (void)unlink(unfinished);
    return status;
}

static int train_demo(const char *folder) {
    char experiment[PATH], runs[PATH];
    if (!join_path(experiment, folder, demo_files[0].name, "") ||
        !join_path(runs, folder, "runs", "")) {
        return fail(EXIT_USAGE, "%s: the name is too long", folder);
    }
    char out[] = "--out", end[] = "--";
    int status = command_train.run(4, (char *[]){out, runs, end, experiment});
    if (!status) {
        char quoted[SHELL_WORD_SIZE(PATH)];
        printf("\nLook at it in a browser:  tapedeck view %s\n", shell_word(quoted, runs));
    }
    return status;
}

static int run_demo(int count, char **arguments) {
    if (!parse_options(&command_demo, NULL, 0, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count > 1) {
        return misuse(&command_demo, "expected one folder at most");
    }
    const char *folder = count ? arguments[0] : "tapedeck-demo";
    if (mkdir(folder, 0777) && errno != EEXIST) {
        return fail(EXIT_BAD, "%s: %s", folder, strerror(errno));
    }
    int status = EXIT_GOOD;
    for (int i = 0; i < DEMO_FILES && !status; i++) {
        status = write_file(folder, &demo_files[i]);
    }
    return status ? status : train_demo(folder);
}

const command command_demo = {
    .name = "demo",
    .summary = "train a small network on handwritten digits and show what happened inside it",
    .help = help,
    .run = run_demo,
};
