/* The pages of `tapedeck show`: pictures in a terminal, tables of numbers elsewhere. */
#include "show.h"

#include "json.h"
#include "reading.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_ROWS = 20, HEAT_ROWS = 40, SLICES = 200 };

void print_heading(const page *p, const char *text) {
    terminal_paint(p->canvas.colour, "1");
    (void)fputs(text, stdout);
    terminal_paint(p->canvas.colour, "0");
    putchar('\n');
}

static const char *run_name(const td_run *run) {
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    return info.name;
}

/* What was recorded and is not there. */
static void print_losses(const td_run_info *info) {
    if (info->dropped) {
        printf("%lld record%s dropped: could not be written, or not fast enough\n",
               (long long)info->dropped, info->dropped == 1 ? " was" : "s were");
    }
    if (info->degraded) {
        printf("%lld record%s written in a smaller form: there was no room for more\n",
               (long long)info->degraded, info->degraded == 1 ? " was" : "s were");
    }
}

static void print_head(const page *p, const td_run *run) {
    td_run_info info = {.size = sizeof info};
    char when[32], bytes[32];
    td_run_about(run, &info);
    print_heading(p, info.name);
    printf("%s, started %s, epoch %lld, step %lld, %s\n",
           info.events ? info.format : td_run_state_name(info.state),
           format_when(when, info.started), (long long)info.last_epoch, (long long)info.last_step,
           terminal_bytes(bytes, (double)info.bytes));
    print_losses(&info);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static void print_points(const series *lines, size_t count) {
    printf("%s\tstep\tvalue\tlow\thigh\n", count > 1 ? "run" : "signal");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < lines[i].count; k++) {
            char value[32], low[32], high[32];
            const td_point *at = &lines[i].points[k];
            printf("%s\t%lld\t%s", lines[i].name, (long long)at->step,
                   format_number(value, at->value));
            if (at->low < at->high) {
                printf("\t%s\t%s", format_number(low, at->low), format_number(high, at->high));
            }
            putchar('\n');
        }
    }
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Chooses up to `max` of the steps at which any of the signals was recorded; returns how many. */
static size_t choose_steps(const series *rows, size_t count, int64_t *chosen, size_t max) {
    size_t all = 0, different = 0;
    for (size_t i = 0; i < count; i++) {
        all += rows[i].count;
    }
    int64_t *steps = calloc(all + 1, sizeof *steps);
    for (size_t i = 0, used = 0; steps && i < count; i++) {
        for (size_t k = 0; k < rows[i].count; k++) {
            steps[used++] = rows[i].points[k].step;
        }
    }
    if (steps && all) {
        qsort(steps, all, sizeof *steps, by_number);
    }
    for (size_t i = 0; steps && i < all; i++) {
        if (different == 0 || steps[different - 1] != steps[i]) {
            steps[different++] = steps[i];
        }
    }
    size_t taken = different < max ? different : max;
    for (size_t i = 0; i < taken; i++) {
        chosen[i] = steps[taken > 1 ? i * (different - 1) / (taken - 1) : 0];
    }
    free(steps);
    return taken;
}

/* A row for each signal, a column for each of a few recorded steps. */
static void print_grid(const page *p, const series *rows, size_t count, const char *statistic) {
    enum { COLUMNS = 8 };
    int64_t steps[COLUMNS];
    size_t columns = choose_steps(rows, count, steps, COLUMNS);
    (void)fputs("signal", stdout);
    for (size_t i = 0; i < columns; i++) {
        printf("\t%lld", (long long)steps[i]);
    }
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_find(p->runs[0], rows[i].name);
        (void)fputs(rows[i].name, stdout);
        for (size_t k = 0; k < columns; k++) {
            char number[32];
            td_run_value value;
            bool there =
                td_run_values(p->runs[0], signal, statistic, steps[k], steps[k], &value, 1) > 0;
            printf("\t%s", there ? format_number(number, value.value) : "-");
        }
        putchar('\n');
    }
}

/* One signal, of every run that has it. */
static void show_lines(const page *p, const char *signal, const char *statistic) {
    series lines[MAX_RUNS];
    bool sampled = false;
    size_t max = p->plain ? TABLE_ROWS : 2 * (size_t)p->canvas.width;
    char title[512];
    (void)snprintf(title, sizeof title, "%.400s%s%.80s", signal, statistic ? "." : "",
                   statistic ? statistic : "");
    for (size_t i = 0; i < p->run_count; i++) {
        lines[i] = load_series(p->runs[i], signal, statistic, p, max);
        sampled |= lines[i].sampled;
        lines[i].name = p->run_count > 1 ? run_name(p->runs[i]) : title;
    }
    if (p->plain) {
        print_points(lines, p->run_count);
    } else {
        print_heading(p, title);
        plot_lines(lines, p->run_count, &p->canvas);
        if (sampled) {
            printf("(a sample of the steps)\n");
        }
    }
    for (size_t i = 0; i < p->run_count; i++) {
        free(lines[i].points);
    }
}

/* ---- Heat maps ------------------------------------------------------------------------------ */

static size_t count_matching(const page *p, const char *globs, uint32_t forms) {
    size_t count = td_run_signal_count(p->runs[0]), found = 0;
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(p->runs[0], i);
        found += signal->forms & forms && td_run_matches(globs, signal->name);
    }
    return found;
}

static void show_heat(const page *p, const char *globs, const char *statistic) {
    size_t count = td_run_signal_count(p->runs[0]), used = 0;
    size_t all = count_matching(p, globs, TD_STATS);
    size_t max = all < HEAT_ROWS ? all : HEAT_ROWS;
    series *rows = calloc(max + 1, sizeof *rows);
    for (size_t i = 0; rows && i < count && used < max; i++) {
        const td_run_signal *signal = td_run_signal_at(p->runs[0], i);
        if (signal->forms & TD_STATS && td_run_matches(globs, signal->name)) {
            rows[used++] = load_series(p->runs[0], signal->name, statistic, p,
                                       p->plain ? TABLE_ROWS : (size_t)p->canvas.width);
        }
    }
    char title[600];
    (void)snprintf(title, sizeof title, "%s of %.500s", statistic, globs ? globs : "*");
    print_heading(p, title);
    if (p->plain) {
        print_grid(p, rows, used, statistic);
    } else {
        plot_heat(rows, used, &p->canvas);
    }
    if (all > used) {
        printf("(%zu more signals)\n", all - used);
    }
    for (size_t i = 0; i < used; i++) {
        free(rows[i].points);
    }
    free(rows);
}

/* ---- Distributions -------------------------------------------------------------------------- */

typedef struct gathering {
    slice slices[SLICES];
    size_t count;
} gathering;

static td_status keep_histogram(void *user, const td_record *record, td_error *error) {
    gathering *g = user;
    int32_t count = record->histogram->bin_count;
    td_range *ranges = malloc(((size_t)count + 1) * sizeof *ranges);
    if (!ranges) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < count; i++) {
        ranges[i] = td_histogram_range(record->histogram, i);
    }
    g->slices[g->count++] = (slice){record->step, {.bin_count = count, .ranges = ranges}};
    return TD_OK;
}

static void print_quantiles(const char *signal, const gathering *g) {
    static const double shares[] = {0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
    printf("signal\tstep\tmin\t5%%\t25%%\t50%%\t75%%\t95%%\tmax\n");
    for (size_t i = 0; i < g->count; i++) {
        printf("%s\t%lld", signal, (long long)g->slices[i].step);
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
            char number[32];
            printf("\t%s", format_number(
                               number, td_histogram_quantile(&g->slices[i].histogram, shares[k])));
        }
        putchar('\n');
    }
}

static void show_distribution(const page *p, const td_run_signal *signal) {
    static gathering g;
    g.count = 0;
    td_error error = {0};
    if (td_run_histograms(p->runs[0], signal, p->first, p->last, p->plain ? TABLE_ROWS : SLICES,
                          keep_histogram, &g, &error)) {
        (void)fail(EXIT_BAD, "%s", error.text);
    }
    if (p->plain) {
        print_quantiles(signal->name, &g);
    } else if (g.count) {
        char title[512];
        (void)snprintf(title, sizeof title, "%.400s, its distribution", signal->name);
        print_heading(p, title);
        plot_distribution(g.slices, g.count, &p->canvas);
    }
    for (size_t i = 0; i < g.count; i++) {
        free((td_range *)(uintptr_t)g.slices[i].histogram.ranges);
    }
}

/* ---- Tensors and texts ---------------------------------------------------------------------- */

static td_status print_tensor(void *user, const td_record *record, td_error *error) {
    const page *p = user;
    char title[512];
    (void)snprintf(title, sizeof title, "%.400s at step %lld", record->signal,
                   (long long)record->step);
    print_heading(p, title);
    if (p->picture) {
        plot_tensor(record->view, &p->canvas);
        return TD_OK;
    }
    td_tensor *tensor = td_tensor_from(record->signal, record->view->dtype, record->view->shape,
                                       record->view->data, error);
    td_status status = tensor ? td_tensor_print(tensor, stdout) : TD_MEMORY;
    td_tensor_destroy(tensor);
    return status;
}

static td_status print_text(void *user, const td_record *record, td_error *error) {
    (void)user, (void)error;
    printf("%s at step %lld: %s\n", record->signal, (long long)record->step, record->text);
    return TD_OK;
}

static void show_record(const page *p, const td_run_signal *signal, td_form form,
                        td_record_function *print) {
    td_error error = {0};
    page copy = *p;
    if (td_run_at(p->runs[0], signal, form, p->at, print, &copy, &error) && error.text[0]) {
        (void)fail(EXIT_BAD, "%s", error.text);
    }
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static void show_signal(const page *p, const td_run_signal *signal) {
    if (p->statistic) {
        show_lines(p, signal->name, p->statistic);
        return;
    }
    bool tensor = (signal->forms & TD_TENSOR) != 0;
    if (tensor && (p->has_at || p->picture)) {
        show_record(p, signal, TD_TENSOR, print_tensor);
        return;
    }
    if (signal->forms & TD_SCALAR) {
        show_lines(p, signal->name, NULL);
    }
    if (signal->forms & TD_HISTOGRAM) {
        show_distribution(p, signal);
    }
    if (signal->forms & TD_STATS) {
        show_lines(p, signal->name, "norm");
    }
    if (tensor) {
        show_record(p, signal, TD_TENSOR, print_tensor);
    }
    if (signal->forms & TD_TEXT) {
        show_record(p, signal, TD_TEXT, print_text);
    }
    if (signal->forms & TD_ROWS) {
        show_rows(p, signal);
    }
    if (signal->forms & TD_IMAGE) {
        printf("%s has pictures: `tapedeck export RUN --to png --what '%s'`\n", signal->name,
               signal->name);
    }
}

bool show_signals(const page *p) {
    size_t count = td_run_signal_count(p->runs[0]), shown = 0;
    if (p->statistic && count_matching(p, p->what, TD_STATS) > 1) {
        show_heat(p, p->what, p->statistic);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(p->runs[0], i);
        if (!td_run_matches(p->what, signal->name)) {
            continue;
        }
        if (shown++ == HEAT_ROWS) {
            printf("(more signals match; name fewer)\n");
            break;
        }
        show_signal(p, signal);
    }
    return shown > 0;
}

static void print_forms(uint32_t forms) {
    const char *comma = "";
    for (uint32_t bit = 1; bit && bit <= forms; bit <<= 1) {
        if (forms & bit && td_form_name(bit)) {
            printf("%s%s", comma, td_form_name(bit));
            comma = ",";
        }
    }
}

static void list_signals(const page *p) {
    size_t count = td_run_signal_count(p->runs[0]);
    size_t max = p->plain ? count : HEAT_ROWS;
    print_heading(p, "signals");
    for (size_t i = 0; i < count && i < max; i++) {
        const td_run_signal *signal = td_run_signal_at(p->runs[0], i);
        terminal_print_padded(signal->name, 28);
        printf(" steps %lld..%lld  ", (long long)signal->first_step, (long long)signal->last_step);
        print_forms(signal->forms);
        putchar('\n');
    }
    if (count > max) {
        printf("(%zu more; name some: `tapedeck show RUN 'conv*'`)\n", count - max);
    }
}

void show_overview(const page *p) {
    enum { PLOTS = 2, PLOT_HEIGHT = 6 };
    size_t indices[PLOTS];
    for (size_t i = 0; i < p->run_count; i++) {
        print_head(p, p->runs[i]);
    }
    size_t count = td_run_main_metrics(p->runs[0], indices, PLOTS);
    page small = *p;
    small.canvas.height = PLOT_HEIGHT;
    for (size_t i = 0; i < count; i++) {
        putchar('\n');
        show_lines(&small, td_run_signal_at(p->runs[0], indices[i])->name, NULL);
    }
    if (count_matching(p, "*.error", TD_STATS)) {
        putchar('\n');
        show_heat(p, "*.error", "norm");
    }
    putchar('\n');
    list_signals(p);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_points(td_run *run, const td_run_signal *signal, const page *p) {
    const char *statistic = p->statistic ? p->statistic : NULL;
    if (!statistic && !(signal->forms & TD_SCALAR)) {
        statistic = "norm";
    }
    (void)fputs(",\"points\":[", stdout);
    static td_run_value values[4096];
    const size_t max = sizeof values / sizeof *values;
    size_t count = max;
    for (int64_t from = p->first, any = 0; count == max;) {
        count = td_run_values(run, signal, statistic, from, p->last, values, max);
        for (size_t i = 0; i < count; i++, any = 1) {
            printf("%s[%lld,", any ? "," : "", (long long)values[i].step);
            print_json_number(values[i].value);
            putchar(']');
        }
        if (count == max && values[max - 1].step == INT64_MAX) {
            break;
        }
        from = count ? values[count - 1].step + (count == max) : from;
    }
    putchar(']');
}

static void json_signal(td_run *run, const td_run_signal *signal, const page *p, bool first) {
    (void)fputs(first ? "\n  {\"name\":" : ",\n  {\"name\":", stdout);
    print_json_text(signal->name);
    (void)fputs(",\"forms\":\"", stdout);
    print_forms(signal->forms);
    printf("\",\"first_step\":%lld,\"last_step\":%lld", (long long)signal->first_step,
           (long long)signal->last_step);
    if (p->what && signal->forms & (TD_SCALAR | TD_STATS)) {
        json_points(run, signal, p);
    }
    putchar('}');
}

bool show_json(const page *p) {
    bool any = false;
    for (size_t i = 0; i < p->run_count; i++) {
        td_run_info info = {.size = sizeof info};
        td_run_about(p->runs[i], &info);
        (void)fputs("{\"name\":", stdout);
        print_json_text(info.name);
        printf(",\"state\":\"%s\",\"epoch\":%lld,\"step\":%lld,\"bytes\":%lld,\"dropped\":%lld,"
               "\"signals\":[",
               info.events ? info.format : td_run_state_name(info.state),
               (long long)info.last_epoch, (long long)info.last_step, (long long)info.bytes,
               (long long)info.dropped);
        size_t count = td_run_signal_count(p->runs[i]);
        bool first = true;
        for (size_t k = 0; k < count; k++) {
            const td_run_signal *signal = td_run_signal_at(p->runs[i], k);
            if (td_run_matches(p->what, signal->name)) {
                json_signal(p->runs[i], signal, p, first);
                first = false;
                any = true;
            }
        }
        (void)fputs("]}\n", stdout);
    }
    return any;
}
