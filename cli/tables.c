#include "tables.h"

#include "command.h"
#include "json.h"
#include "terminal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int width_of_names(const row *rows, size_t count, int max) {
    int width = terminal_columns("parameter");
    for (size_t i = 0; i < count; i++) {
        int length = terminal_columns(rows[i].name);
        width = length > width ? length : width;
    }
    return width < max ? width : max;
}

/* Which of its columns the table of parameters has room for. */
typedef struct columns {
    int name;
    bool types;     /* of elements: where there are several */
    bool counts;    /* count and zeros */
    int statistics; /* the first ones */
} columns;

enum { STATISTICS = 5, STATISTIC = 12, SHAPE = 20, TYPE = 9 };

static columns lay_out(const row *rows, size_t count, bool types) {
    enum { LONGEST = 60, SHORTEST = 12, COUNTS = 24 };
    int room = terminal_room();
    columns c = {width_of_names(rows, count, room == INT_MAX ? LONGEST : room), types, true,
                 STATISTICS};
    room -= room == INT_MAX || !types ? 0 : TYPE;
    if (c.name + SHAPE + COUNTS + STATISTICS * STATISTIC <= room) {
        return c;
    }
    int max = room - SHAPE - 2 * STATISTIC;
    c.counts = false;
    c.name = width_of_names(rows, count, max < SHORTEST ? SHORTEST : max);
    int fit = (room - c.name - SHAPE) / STATISTIC;
    c.statistics = fit < 0 ? 0 : fit < STATISTICS ? fit : STATISTICS;
    return c;
}

static void print_row(const columns *c, const row *r) {
    const double values[STATISTICS] = {r->stats.mean, r->stats.std, r->stats.min, r->stats.max,
                                       r->stats.norm};
    char shape[TD_SHAPE_TEXT_SIZE];
    if (c->counts) {
        terminal_print_padded(r->name, c->name);
    } else {
        terminal_print_name(r->name, c->name);
    }
    printf("  %-18s", td_shape_text(&r->shape, shape));
    if (c->types) {
        printf(" %-8s", td_dtype_name(r->dtype));
    }
    if (c->counts) {
        printf(" %12lld", (long long)r->stats.count);
    }
    for (int i = 0; i < c->statistics; i++) {
        printf(" %11.4g", values[i]);
    }
    if (c->counts) {
        printf(" %10lld", (long long)r->stats.zeros);
    }
    putchar('\n');
}

void print_rows(const char *what, const row *rows, size_t count, bool types) {
    static const char *const names[STATISTICS] = {"mean", "std", "min", "max", "norm"};
    columns c = lay_out(rows, count, types);
    printf("%-*s  %-18s", c.name, what, "shape");
    (void)fputs(c.types ? " type    " : "", stdout);
    (void)fputs(c.counts ? "        count" : "", stdout);
    for (int i = 0; i < c.statistics; i++) {
        printf(" %11s", names[i]);
    }
    (void)fputs(c.counts ? "      zeros\n" : "\n", stdout);
    for (size_t i = 0; i < count; i++) {
        print_row(&c, &rows[i]);
    }
    if (!c.counts) {
        printf("(a wider terminal, or --json, has all columns)\n");
    }
}

/* The tensors as rows, for free(); NULL, with an error, on failure. */
static row *table_rows(const td_tensor_table *table, size_t count, td_error *error) {
    row *rows = calloc(count + 1, sizeof *rows);
    bool good = rows;
    for (size_t i = 0; i < count && good; i++) {
        td_view view = td_tensor_table_view(table, i);
        rows[i] = (row){td_tensor_table_name(table, i), view.shape, view.dtype, {0}};
        good = !td_stats_of(&view, &rows[i].stats, error);
    }
    if (!rows) {
        td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (!good) {
        free(rows);
        rows = NULL;
    }
    return rows;
}

static void print_json_table(const td_tensor_table_info *about, const row *rows) {
    (void)fputs("{\"file\": ", stdout);
    print_json_text(about->file);
    (void)fputs(", \"format\": ", stdout);
    print_json_text(about->format);
    printf(", \"bytes\": %lld, \"remark\": ", (long long)about->bytes);
    if (about->remark) {
        print_json_text(about->remark);
    } else {
        (void)fputs("null", stdout);
    }
    (void)fputs(", \"tensors\": [", stdout);
    for (size_t i = 0; i < about->count; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_text(rows[i].name);
        printf(", \"type\": \"%s\", ", td_dtype_name(rows[i].dtype));
        print_json_stats(&rows[i].shape, &rows[i].stats);
        (void)fputc('}', stdout);
    }
    (void)fputs("]}\n", stdout);
}

static void print_table(const td_tensor_table_info *about, const row *rows) {
    char size[32];
    int64_t elements = 0, odd = 0;
    for (size_t i = 0; i < about->count; i++) {
        elements += rows[i].stats.count;
        odd += rows[i].stats.nan + rows[i].stats.inf;
    }
    printf("%s: %s, %s\n", about->file, about->format, terminal_bytes(size, (double)about->bytes));
    printf("%zu tensor%s of %lld numbers in all%s%s\n\n", about->count,
           about->count == 1 ? "" : "s", (long long)elements, about->remark ? "; " : "",
           about->remark ? about->remark : "");
    print_rows("tensor", rows, about->count, true);
    if (odd) {
        printf("\nerror    %lld of the numbers are NaN or infinite\n", (long long)odd);
    }
}

int show_table(const char *path, bool raw, bool json) {
    td_error error = {0};
    td_tensor_table *table = td_tensor_table_open(path, raw, &error);
    td_tensor_table_info about = table ? td_tensor_table_about(table) : (td_tensor_table_info){0};
    row *rows = table ? table_rows(table, about.count, &error) : NULL;
    int status = EXIT_GOOD;
    if (rows && json) {
        print_json_table(&about, rows);
    } else if (rows) {
        print_table(&about, rows);
    }
    for (size_t i = 0; rows && i < about.count; i++) {
        status = rows[i].stats.nan || rows[i].stats.inf ? EXIT_BAD : status;
    }
    free(rows);
    td_tensor_table_close(table);
    return rows ? status : fail(EXIT_BAD, "%s", error.text);
}

/* ---- Two files ------------------------------------------------------------------------------- */

static void print_shapes(const td_tensor_difference *d, const char *const paths[2]) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (!d->a.data || !d->b.data) {
        printf("only in %s\n", paths[d->a.data ? 0 : 1]);
    } else {
        printf("shape %s, %s\n", td_shape_text(&d->a.shape, a), td_shape_text(&d->b.shape, b));
    }
}

static void print_differences(const td_tensor_difference *all, size_t count, size_t compared,
                              const char *const paths[2]) {
    int width = terminal_columns("tensor");
    for (size_t i = 0; i < count; i++) {
        int length = terminal_columns(all[i].name);
        width = length > width ? length : width;
    }
    printf("%zu of %zu tensor%s differ%s\n", count, compared, compared == 1 ? "" : "s",
           count == 1 ? "s" : "");
    if (count) {
        printf("\n%-*s  %12s  %12s  %12s\n", width, "tensor", "numbers", "largest", "relative");
    }
    for (size_t i = 0; i < count; i++) {
        terminal_print_padded(all[i].name, width);
        (void)fputs("  ", stdout);
        if (all[i].comparable) {
            printf("%12lld  %12.4g  %12.4g\n", (long long)all[i].count, all[i].largest,
                   all[i].relative);
        } else {
            print_shapes(&all[i], paths);
        }
    }
}

static void print_json_differences(const td_tensor_difference *all, size_t count, size_t compared,
                                   const char *const paths[2]) {
    (void)fputs("{\"files\": [", stdout);
    print_json_text(paths[0]);
    (void)fputs(", ", stdout);
    print_json_text(paths[1]);
    printf("], \"compared\": %zu, \"differences\": [", compared);
    for (size_t i = 0; i < count; i++) {
        const td_tensor_difference *d = &all[i];
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_text(d->name);
        printf(", \"only\": %s, \"comparable\": %s, \"count\": %lld, \"largest\": ",
               d->a.data && d->b.data ? "null"
               : d->a.data            ? "0"
                                      : "1",
               d->comparable ? "true" : "false", (long long)d->count);
        print_json_number(d->largest);
        (void)fputs(", \"relative\": ", stdout);
        print_json_number(d->relative);
        (void)fputc('}', stdout);
    }
    (void)fputs("]}\n", stdout);
}

/* How many names there are in the two together. */
static size_t names_in(const td_tensor_table *a, const td_tensor_difference *all, size_t count) {
    size_t names = td_tensor_table_about(a).count;
    for (size_t i = 0; i < count; i++) {
        names += !all[i].a.data;
    }
    return names;
}

int compare_tables(const char *const paths[2], bool raw, double tolerance, bool json) {
    td_error error = {0};
    td_tensor_table *a = td_tensor_table_open(paths[0], raw, &error);
    td_tensor_table *b = a ? td_tensor_table_open(paths[1], raw, &error) : NULL;
    td_tensor_difference *all = NULL;
    size_t count = b ? td_tensor_table_compare(a, b, tolerance, &all) : 0;
    int status = EXIT_BAD;
    if (!b) {
        (void)fail(EXIT_BAD, "%s", error.text);
    } else if (!all) {
        (void)fail(EXIT_BAD, "out of memory");
    } else {
        (json ? print_json_differences : print_differences)(all, count, names_in(a, all, count),
                                                            paths);
        status = count ? EXIT_BAD : EXIT_GOOD;
    }
    td_free_differences(all);
    td_tensor_table_close(a);
    td_tensor_table_close(b);
    return status;
}
