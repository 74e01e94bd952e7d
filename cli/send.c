/* tapedeck report: runs as one file to send. */
#include "json.h"
#include "options.h"
#include "output.h"
#include "tapedeck/view.h"

#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "tapedeck report RUN… -o FILE.html [--view VIEW] [--force]\n"
    "\n"
    "Writes the pages of `tapedeck view` with what they show of these runs as one file: it needs "
    "no\n"
    "network, and opens from a mail or a folder. Lines are in it with as many points as a screen "
    "has,\n"
    "least and greatest kept; of tensors and pictures, what a few megabytes hold.\n"
    "\n"
    "  --to FILE, -o FILE    where to write it (default report.html); - is standard output\n"
    "  --view VIEW           what it opens with: PAGE?KEY=VALUE&…, or what stands after # in "
    "the viewer's\n"
    "                        address\n"
    "  --force               replace a file that is there already and is no report\n"
    "  --json                print what was written as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck report runs/demo -o demo.html\n"
    "  tapedeck report runs/demo --view 'layer?layer=conv2&step=40' -o demo.html\n"
    "  tapedeck report runs/demo runs/demo-2 -o both.html\n";

/* Whether a file is a report, which begins as the page does. */
static bool is_report(const char *path) {
    char text[512] = "";
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    }
    return got && !strncmp(text, "<!doctype html>", 15) && strstr(text, "<title>tapedeck");
}

static int run_send(int count, char **arguments) {
    const char *to = NULL, *view = NULL;
    bool force = false, json = false;
    const option table[] = {{.name = "to", .text = &to},
                            {.name = "view", .text = &view},
                            {.name = "force", .flag = &force},
                            {.name = "json", .flag = &json}};
    if (!parse_options(&command_report, table, sizeof table / sizeof *table, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count == 0) {
        return misuse(&command_report, "expected RUN");
    }
    bool piped = to && output_is_stdout(to);
    if (piped && json) {
        return misuse(&command_report, "--to - and --json both print to standard output");
    }
    const char *path = output_place(to ? to : "report.html", ".html");
    if (!path || check_free(path, force || is_report(path))) {
        return EXIT_BAD;
    }
    td_error error = {0};
    td_status status = td_report_view((const char *const *)(uintptr_t)arguments, (size_t)count,
                                      path, view, &error);
    if (status) {
        return output_pass(path, fail(status_of(status), "%s", error.text));
    }
    struct stat about;
    int64_t size = stat(path, &about) == 0 ? about.st_size : 0;
    if (json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(path);
        printf(", \"bytes\": %lld}\n", (long long)size);
    } else if (!piped) {
        printf("%s, %.1f MiB\n", path, (double)size / (1 << 20));
    }
    return output_pass(path, EXIT_GOOD);
}

const command command_report = {
    .name = "report",
    .summary = "the pages of `view` as one file to send",
    .help = help,
    .run = run_send,
};
