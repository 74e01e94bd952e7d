/* tapedeck push: a run, to where another program keeps its own. */
#include "json.h"
#include "options.h"
#include "reading.h"

static const char help[] =
    "tapedeck push RUN… TARGET [OPTION…]\n"
    "\n"
    "Writes runs where another program looks for its own. RUN is whatever `tapedeck show` takes.\n"
    "\n"
    "  TARGET  mlflow:FOLDER         a new run of MLflow's file store (mlruns): metrics, settings, "
    "tags\n"
    "          wandb-offline:FOLDER  a new offline-run-… that `wandb sync` sends: metrics, texts,\n"
    "                                histograms, settings\n"
    "          tensorboard:FOLDER    an event file in FOLDER/NAME\n"
    "          postgresql://HOST/DB  a team's database; what it has already is not sent again\n"
    "\n"
    "  --to TARGET, -o TARGET   the same as TARGET\n"
    "  --what GLOBS    only these signals: 'loss,*.error'\n"
    "  --steps A..B    only these steps (A.. and ..B too)\n"
    "  --json          print what was written as JSON\n"
    "\n"
    "Records of forms that the target cannot hold are counted and left out. Nothing is "
    "overwritten,\n"
    "and no server of MLflow or wandb is written to: `mlflow server` and `wandb sync` take the "
    "folders.\n"
    "\n"
    "Examples\n"
    "  tapedeck push runs/demo mlflow:mlruns\n"
    "  tapedeck push runs/demo wandb-offline:wandb --what '*loss,*accuracy'\n"
    "  tapedeck push runs/* postgresql://db.example.org/runs\n";

static void report_problem(void *user, const char *text) {
    complain("%s", text);
    *(int *)user = EXIT_BAD;
}

static int push_one(const char *run, const char *target, const td_export_options *e, bool json) {
    static td_exported done;
    td_error error = {0};
    done = (td_exported){.size = sizeof done};
    td_status status = td_run_push(run, target, e, &done, &error);
    if (status) {
        return status == TD_INVALID ? misuse(&command_push, "%s", error.text)
                                    : fail(status_of(status), "%s", error.text);
    }
    if (json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(done.out);
        printf(", \"records\": %lld, \"left_out\": %lld}\n", (long long)done.written,
               (long long)done.left_out);
        return EXIT_GOOD;
    }
    printf("%s: %lld records", done.out, (long long)done.written);
    if (done.left_out) {
        printf("; of forms that it cannot hold, left out: %lld", (long long)done.left_out);
    }
    putchar('\n');
    return EXIT_GOOD;
}

static int run_push(int count, char **arguments) {
    const char *steps = NULL, *to = NULL;
    bool json = false;
    int outcome = EXIT_GOOD;
    td_export_options e = {.size = sizeof e, .problem = report_problem, .user = &outcome};
    const option options[] = {{.name = "to", .text = &to},
                              {.name = "what", .text = &e.what},
                              {.name = "steps", .text = &steps},
                              {.name = "json", .flag = &json}};
    if (!parse_options(&command_push, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (!to && count > 1) {
        to = arguments[--count];
    }
    if (!to || !count) {
        return misuse(&command_push, "expected RUN and TARGET");
    }
    if (steps && !parse_steps(steps, &e.first_step, &e.last_step)) {
        return misuse(&command_push, "--steps is A..B, A.., ..B or a number");
    }
    for (int i = 0; i < count; i++) {
        int status = push_one(arguments[i], to, &e, json);
        if (status == EXIT_USAGE) {
            return status;
        }
        outcome = status ? status : outcome;
    }
    return outcome;
}

const command command_push = {
    .name = "push",
    .summary = "runs to a team's database, MLflow, wandb or TensorBoard",
    .help = help,
    .run = run_push,
};
