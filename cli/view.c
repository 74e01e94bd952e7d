/* tapedeck view: runs in a browser. */
#include "tapedeck/view.h"
#include "json.h"
#include "options.h"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "tapedeck view [FOLDER | URL] [--port N] [--host H] [--no-open] [--write] [--token-file "
    "FILE]\n"
    "\n"
    "Shows the runs at and below FOLDER (default runs), and anybody's TensorBoard event files, in "
    "a\n"
    "browser, live while they train. Prints the page's address, opens it, and serves until "
    "Ctrl-C.\n"
    "\n"
    "With the URL of a team's database (postgresql://…, or --store URL), the runs in it.\n"
    "\n"
    "The page is for you alone: it is at 127.0.0.1, and answers only with the token that its "
    "address\n"
    "has. Nothing is written without --write.\n"
    "\n"
    "  --port N     listen at this port; 0: any free one (default 6464, or any that is free when "
    "that\n"
    "               is taken)\n"
    "  --host H     listen at this address, for others too: 0.0.0.0 is everywhere. The token is "
    "sent\n"
    "               as it is: prefer `ssh -L 6464:127.0.0.1:6464 MACHINE`\n"
    "  --no-open    do not open a browser\n"
    "  --token-file FILE   keep the token in this file, which only you can read: addresses stay "
    "valid\n"
    "               when the viewer is started again\n"
    "  --write      tags, notes, stars, the archive and records of steps that are executed again,\n"
    "               which the page then offers, are kept in the runs\n"
    "  --json       print the address as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck view\n"
    "  tapedeck view runs/demo --port 7000 --no-open\n"
    "  tapedeck view ~/tensorboard-logs\n";

extern char **environ;

/* Writes a page that leads to url, which only this user can read: everybody on the machine can read a
 * program's arguments, and url has the token. Sets path; false when that is not possible. */
static bool write_redirect(const char *url, char *path, size_t size) {
    const char *folder = getenv("XDG_RUNTIME_DIR");
    folder = folder && *folder ? folder : getenv("TMPDIR");
    int length =
        snprintf(path, size, "%s/tapedeck-XXXXXX.html", folder && *folder ? folder : "/tmp");
    int file = length > 0 && (size_t)length < size ? mkstemps(path, 5) : -1;
    if (file < 0) {
        return false;
    }
    bool written =
        dprintf(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", url) >
        0;
    return close(file) == 0 && written;
}

/* In the background; whether it worked is for the person to see. path: the page that it opens, to be removed
 * in the end; "" when there is none. */
static void open_browser(const char *url, char *path, size_t size) {
    bool screen = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
    posix_spawn_file_actions_t silent;
    pid_t child;
    *path = 0;
    if (!screen || posix_spawn_file_actions_init(&silent) != 0) {
        return;
    }
    if (!write_redirect(url, path, size)) {
        posix_spawn_file_actions_destroy(&silent);
        return;
    }
    const char *arguments[] = {"xdg-open", path, NULL};
    (void)posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", 1, 0);
    (void)posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", 1, 0);
    (void)posix_spawnp(&child, arguments[0], &silent, NULL, (char *const *)(uintptr_t)arguments,
                       environ);
    posix_spawn_file_actions_destroy(&silent);
}

static int serve_folder(const char *folder, const td_viewer_options *options, bool open,
                        bool json) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    /* Before the viewer's threads are there: they inherit it. */
    if (sigprocmask(SIG_BLOCK, &ends, NULL) != 0) {
        return fail(EXIT_BAD, "cannot wait for Ctrl-C");
    }
    td_error error = {0};
    td_viewer *viewer = td_viewer_open(folder, options, &error);
    if (!viewer) {
        return fail(status_of(error.status), "%s", error.text);
    }
    if (json) {
        (void)fputs("{\"url\": ", stdout);
        print_json_text(td_viewer_url(viewer));
        (void)puts("}");
    } else {
        printf("%s\n", td_viewer_url(viewer));
    }
    bool printed = fflush(stdout) == 0;
    char redirect[4096] = "";
    if (open && printed) {
        open_browser(td_viewer_url(viewer), redirect, sizeof redirect);
    }
    int ending = 0;
    if (printed) {
        (void)sigwait(&ends, &ending);
    }
    td_viewer_close(viewer);
    if (*redirect) {
        (void)unlink(redirect);
    }
    return printed ? EXIT_GOOD : EXIT_BAD;
}

static int run_view(int count, char **arguments) {
    const char *port = NULL, *store = NULL;
    td_viewer_options options = {.size = sizeof options};
    bool no_open = false, json = false;
    const option table[] = {{.name = "port", .text = &port},
                            {.name = "store", .text = &store},
                            {.name = "host", .text = &options.host},
                            {.name = "no-open", .flag = &no_open},
                            {.name = "write", .flag = &options.write},
                            {.name = "json", .flag = &json},
                            {.name = "token-file", .text = &options.token_file}};
    if (!parse_options(&command_view, table, sizeof table / sizeof *table, &count, arguments)) {
        return EXIT_USAGE;
    }
    int64_t number = 0;
    if (count + (store != NULL) > 1) {
        return misuse(&command_view, "expected one FOLDER");
    }
    bool any_port = port && strcmp(port, "0") == 0;
    if (port && !any_port && (!whole_number(port, &number) || number > 65535)) {
        return misuse(&command_view, "--port is a number from 0 to 65535");
    }
    options.port = any_port ? TD_ANY_PORT : (int)number;
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) { /* it executes steps for the pages */
        program[length] = 0;
        options.program = program;
    }
    return serve_folder(store ? store : count ? arguments[0] : "runs", &options, !no_open, json);
}

const command command_view = {
    .name = "view",
    .summary = "look at runs in a browser, live",
    .help = help,
    .run = run_view,
    .lacks = LACKS_TO, /* it prints an address, and serves */
};
