/* tapedeck pull: a run of a database, into a folder. */
#include "json.h"
#include "options.h"
#include "tapedeck/run.h"

static const char help[] =
    "tapedeck pull URL#RUN [FOLDER | --to FOLDER]\n"
    "\n"
    "Copies a run of a team's database into FOLDER (default: RUN here), which must be new, for all "
    "that\n"
    "needs a folder. Tensors and other files are not in the database: they are where the run was\n"
    "written.\n"
    "\n"
    "  --to FOLDER, -o FOLDER   the same as FOLDER\n"
    "  --json                   print what was written as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck runs postgresql://db.example.org/runs\n"
    "  tapedeck pull postgresql://db.example.org/runs#demo\n";

static int run_pull(int count, char **arguments) {
    const char *to = NULL;
    bool json = false;
    const option options[] = {{.name = "to", .text = &to}, {.name = "json", .flag = &json}};
    if (!parse_options(&command_pull, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count < 1 || count + (to != NULL) > 2) {
        return misuse(&command_pull, "expected URL#RUN and FOLDER");
    }
    if (check_folder(&command_pull, to)) {
        return EXIT_USAGE;
    }
    static td_exported done;
    td_error error = {0};
    done.size = sizeof done;
    td_status status = td_run_pull(arguments[0], count > 1 ? arguments[1] : to, &done, &error);
    if (status) {
        return status == TD_INVALID ? misuse(&command_pull, "%s", error.text)
                                    : fail(status_of(status), "%s", error.text);
    }
    if (json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(done.out);
        (void)puts("}");
    } else {
        printf("%s\n", done.out);
    }
    return EXIT_GOOD;
}

const command command_pull = {
    .name = "pull",
    .summary = "a run of a team's database, into a folder",
    .help = help,
    .run = run_pull,
};
