/* tapedeck show: runs in the terminal. */
#include "show.h"

#include "guard.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "tapedeck show RUN… [SIGNAL…] [OPTION…]\n"
    "\n"
    "Shows what a run recorded: without SIGNAL its metrics, the norms of its layer errors and its\n"
    "signals; with SIGNAL (a name or a glob, 'hidden.*') metrics as lines, several runs over each\n"
    "other; statistics as heat maps; histograms as distributions over time; tensors as numbers or\n"
    "pictures. RUN is a run's folder, or one with TensorBoard event files. Runs that are being\n"
    "written, have crashed or are damaged are shown as far as they go.\n"
    "\n"
    "  --stat NAME     a statistic of tensors: norm, mean, std, min, max, zeros, nan, inf, count\n"
    "  --step N        the tensor, or the rows, recorded last at or before step N\n"
    "  --steps A..B    only these steps (A.. and ..B too)\n"
    "  --picture       tensors as pictures\n"
    "  --log           a logarithmic axis for lines\n"
    "  --height N      rows of a picture (default 10)\n"
    "  --rank N        what one process of a training of several recorded\n"
    "  --spread        the mean of all ranks, with the lowest and the highest one\n"
    "  --follow        draw again while the run is written, until it ends\n"
    "  --json          everything as JSON\n"
    "\n"
    "Without a terminal, tables of numbers are printed instead of pictures.\n"
    "\n"
    "Examples\n"
    "  tapedeck show runs/demo\n"
    "  tapedeck show runs/demo runs/demo-2 loss --log\n"
    "  tapedeck show runs/demo '*.error' --stat norm\n"
    "  tapedeck show runs/demo conv1.output --step 100 --picture\n"
    "  tapedeck show runs/demo loss.rows --step 120     which rows caused a spike of the loss\n";

typedef struct settings {
    page page;
    char what[4096];
    bool follow, json;
    const char *rank;
} settings;

static bool is_path(const char *text) {
    struct stat about;
    return stat(text, &about) == 0;
}

/* Operands that exist as files are runs, all others signals. */
static bool sort_operands(settings *s, int count, char **arguments, const char **paths) {
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        bool run = i == 0 || is_path(arguments[i]);
        if (run && s->page.run_count == MAX_RUNS) {
            misuse(&command_show, "at most %d runs", MAX_RUNS);
            return false;
        }
        if (run) {
            paths[s->page.run_count++] = arguments[i];
            continue;
        }
        int length =
            snprintf(s->what + used, sizeof s->what - used, "%s%s", used ? "," : "", arguments[i]);
        if (length < 0 || (size_t)length >= sizeof s->what - used) {
            misuse(&command_show, "too many signals");
            return false;
        }
        used += (size_t)length;
        s->page.what = s->what;
    }
    return true;
}

static bool read_options(settings *s, int count, char **arguments, const char **paths) {
    const char *step = NULL, *steps = NULL, *height = NULL;
    page *p = &s->page;
    const option options[] = {
        {.name = "stat", .text = &p->statistic},
        {.name = "step", .text = &step},
        {.name = "steps", .text = &steps},
        {.name = "picture", .flag = &p->picture},
        {.name = "log", .flag = &p->canvas.logarithmic},
        {.name = "height", .text = &height},
        {.name = "rank", .text = &s->rank},
        {.name = "spread", .flag = &p->spread},
        {.name = "follow", .flag = &s->follow},
        {.name = "json", .flag = &s->json},
    };
    if (!parse_options(&command_show, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return false;
    }
    if (count == 0) {
        misuse(&command_show, "expected RUN");
        return false;
    }
    p->first = INT64_MIN;
    p->last = p->at = INT64_MAX;
    int64_t same;
    if ((steps && !parse_steps(steps, &p->first, &p->last)) ||
        (step && (!parse_steps(step, &p->at, &same) || p->at != same))) {
        misuse(&command_show, "steps are numbers: --step 100, --steps 10..20");
        return false;
    }
    p->has_at = step != NULL;
    p->canvas.height = height ? atoi(height) : 10;
    if (p->canvas.height < 2) {
        misuse(&command_show, "--height is at least 2");
        return false;
    }
    p->canvas.width = terminal_width();
    p->canvas.colour = terminal_has_colour(stdout);
    p->plain = !isatty(STDOUT_FILENO);
    return sort_operands(s, count, arguments, paths);
}

/* Several steps are taken together where there are more than max: the last one's mean, the lowest and the highest. */
static size_t load_spread(td_run *run, const td_run_signal *signal, const char *statistic,
                          const page *p, td_point *points, size_t max) {
    enum { AT_ONCE = 512 };
    td_spread spread[AT_ONCE];
    int64_t first = p->first > signal->first_step ? p->first : signal->first_step;
    int64_t last = p->last < signal->last_step ? p->last : signal->last_step;
    double width = ((double)last - (double)first + 1) / (double)max;
    width = width > 1 ? width : 1;
    size_t used = 0, count;
    double end = 0; /* of the last point's steps */
    for (int64_t at = first; at <= last; at = spread[count - 1].step + 1) {
        count = td_run_spread(run, signal, statistic, at, last, spread, AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            const td_spread *s = &spread[i];
            bool fresh = used == 0 || ((double)s->step >= end && used < max);
            if (fresh) {
                points[used++] = (td_point){.low = s->min, .high = s->max};
                end =
                    (double)first + width * (floor(((double)s->step - (double)first) / width) + 1);
            }
            td_point *point = &points[used - 1];
            *point = (td_point){.step = s->step,
                                .value = s->mean,
                                .low = fmin(point->low, s->min),
                                .high = fmax(point->high, s->max)};
        }
        if (count == 0 || spread[count - 1].step == INT64_MAX) {
            break;
        }
    }
    return used;
}

series load_series(td_run *run, const char *signal, const char *statistic, const page *p,
                   size_t max) {
    series made = {.name = signal, .points = calloc(max, sizeof(td_point))};
    const td_run_signal *found = td_run_signal_find(run, signal);
    if (found && made.points && p->spread) {
        made.count = load_spread(run, found, statistic, p, made.points, max);
    } else if (found && made.points) {
        made.count = td_run_points(run, found, statistic, p->first, p->last, made.points, max,
                                   &made.sampled);
    }
    return made;
}

/* Whether a signal of any of the runs has this name, or is of this glob. */
static bool is_there(const page *p, const char *name) {
    for (size_t r = 0; r < p->run_count; r++) {
        size_t count = td_run_signal_count(p->runs[r]);
        for (size_t i = 0; i < count; i++) {
            const td_run_signal *signal = td_run_signal_at(p->runs[r], i);
            if (td_run_matches(name, signal->name)) {
                return true;
            }
        }
    }
    return false;
}

static int no_signal(const page *p, const char *name) {
    size_t count = td_run_signal_count(p->runs[0]);
    const char **names = calloc(count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(p->runs[0], i);
        names[i] = signal->name;
    }
    const char *meant = names ? td_nearest_word(name, names, count) : NULL;
    free(names);
    return meant
               ? fail(EXIT_BAD, "no signal '%s' in this run; did you mean '%s'?", name, meant)
               : fail(EXIT_BAD, "no signal '%s' in this run; `tapedeck show RUN` lists them", name);
}

/* Names each of the names and globs asked for that nothing was shown of. */
static int report_missing(const page *p) {
    char *names = strdup(p->what), *rest = NULL;
    int status = names ? EXIT_GOOD : fail(EXIT_BAD, "out of memory");
    for (char *name = names ? strtok_r(names, ",", &rest) : NULL; name;
         name = strtok_r(NULL, ",", &rest)) {
        name += strspn(name, " ");
        status = is_there(p, name) ? status : no_signal(p, name);
    }
    free(names);
    return status;
}

static int draw_page(const settings *s, size_t *reported) {
    bool any = true;
    if (s->json) {
        any = show_json(&s->page);
    } else if (!s->page.what) {
        show_overview(&s->page);
    } else {
        any = show_signals(&s->page);
    }
    (void)fflush(stdout);
    int status = s->page.what ? report_missing(&s->page) : EXIT_GOOD;
    if (!any && !status && s->page.what) {
        status = no_signal(&s->page, s->page.what);
    }
    for (size_t i = 0; i < s->page.run_count; i++) {
        report_problems(s->page.runs[i], &reported[i]);
    }
    return status;
}

static bool is_running(const td_run *run) {
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    return info.state == TD_RUN_RUNNING;
}

/* Draws until the first run ends; once at least. */
static int follow_runs(const settings *s, size_t *reported) {
    int status;
    for (;;) {
        bool running = is_running(s->page.runs[0]);
        if (!s->page.plain && !s->json) {
            guard_escape(stdout, "\x1b[H\x1b[2J");
        }
        status = draw_page(s, reported);
        if (!running || status) {
            return status;
        }
        usleep(500000);
        td_error error = {0};
        for (size_t i = 0; i < s->page.run_count; i++) {
            if (td_run_refresh(s->page.runs[i], &error)) {
                return fail(EXIT_BAD, "%s", error.text);
            }
        }
    }
}

static int run_show(int count, char **arguments) {
    settings s = {0};
    const char *paths[MAX_RUNS];
    size_t reported[MAX_RUNS] = {0};
    if (!read_options(&s, count, arguments, paths)) {
        return EXIT_USAGE;
    }
    if (!choose_rank(&command_show, s.rank, (int)s.page.run_count, paths)) {
        return EXIT_BAD;
    }
    int status = EXIT_GOOD;
    size_t opened = 0;
    for (; opened < s.page.run_count && !status; opened++) {
        s.page.runs[opened] = open_run(paths[opened]);
        status = s.page.runs[opened] ? EXIT_GOOD : EXIT_BAD;
        if (!status && s.page.spread && td_run_rank_count(s.page.runs[opened]) == 0) {
            status = fail(EXIT_BAD, "%s: --spread is of runs that several processes wrote",
                          paths[opened]);
        }
    }
    if (!status) {
        status = s.follow ? follow_runs(&s, reported) : draw_page(&s, reported);
    }
    for (size_t i = 0; i < opened; i++) {
        td_run_close(s.page.runs[i]);
    }
    return status;
}

const command command_show = {
    .name = "show",
    .summary = "tables and plots of a run in the terminal",
    .help = help,
    .run = run_show,
};
