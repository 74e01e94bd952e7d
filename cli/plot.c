#include "plot.h"

#include "guard.h"
#include "reading.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 10, MAX_WIDTH = 512, LEVELS = 8 };

static const int line_colours[] = {39, 208, 41, 199, 226, 141, 51, 203};
enum { LINE_COLOURS = sizeof line_colours / sizeof *line_colours };
/* From small to large: blue, cyan, green, yellow, red of the 256 colours. */
static const int heat_colours[LEVELS] = {27, 33, 37, 41, 148, 220, 208, 196};
static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

static int clamp_int(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

/* ---- Ranges --------------------------------------------------------------------------------- */

typedef struct extent {
    int64_t first, last; /* steps */
    double low, high;    /* values, on the axis's scale */
    bool any;
} extent;

static double on_axis(double value, bool logarithmic) {
    return !logarithmic ? value : value > 0 ? log10(value) : NAN;
}

static void extend_extent(extent *e, double value) {
    if (isfinite(value)) {
        e->low = e->any ? fmin(e->low, value) : value;
        e->high = e->any ? fmax(e->high, value) : value;
        e->any = true;
    }
}

static extent find_extent(const series *all, size_t count, bool logarithmic) {
    extent e = {.first = INT64_MAX, .last = INT64_MIN};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < all[i].count; k++) {
            const td_point *p = &all[i].points[k];
            e.first = p->step < e.first ? p->step : e.first;
            e.last = p->step > e.last ? p->step : e.last;
            extend_extent(&e, on_axis(p->low, logarithmic));
            extend_extent(&e, on_axis(p->high, logarithmic));
        }
    }
    return e;
}

static int scale_to_cell(double value, double low, double high, int size) {
    double share = high > low ? (value - low) / (high - low) : 0.5;
    return clamp_int((int)floor(share * (size - 1) + 0.5), 0, size - 1);
}

static void print_time_axis(int64_t first, int64_t last, int columns) {
    char left[32], right[32];
    int used = snprintf(left, sizeof left, "%lld", (long long)first);
    int length = snprintf(right, sizeof right, "step %lld", (long long)last);
    int gap = columns - used - length;
    printf("%*s  %s%*s%s\n", LABEL, "", left, gap > 1 ? gap : 1, "", right);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Dots of a cell, as braille numbers them: two columns of four. */
static const uint8_t dots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

typedef struct board {
    int columns, rows; /* cells */
    uint8_t *bits;
    uint8_t *owner; /* whose line was last in the cell */
} board;

static void set_dot(board *b, int x, int y, size_t line) {
    size_t cell = (size_t)(y / 4) * (size_t)b->columns + (size_t)(x / 2);
    b->bits[cell] |= dots[y % 4][x % 2];
    b->owner[cell] = (uint8_t)(line % LINE_COLOURS);
}

/* A vertical stroke; y counts from the bottom. */
static void draw_stroke(board *b, int x, int from, int to, size_t line) {
    int low = from < to ? from : to, high = from < to ? to : from;
    for (int y = low; y <= high; y++) {
        set_dot(b, x, 4 * b->rows - 1 - y, line);
    }
}

static void draw_line(board *b, const series *s, const extent *e, bool logarithmic, size_t line) {
    int wide = 2 * b->columns, high = 4 * b->rows, last_x = -1, last_y = 0;
    for (size_t i = 0; i < s->count; i++) {
        const td_point *p = &s->points[i];
        double low = on_axis(p->low, logarithmic), top = on_axis(p->high, logarithmic);
        double value = on_axis(p->value, logarithmic);
        if (!isfinite(low) || !isfinite(top) || !isfinite(value)) {
            last_x = -1; /* a gap */
            continue;
        }
        int x = scale_to_cell((double)p->step, (double)e->first, (double)e->last, wide);
        draw_stroke(b, x, scale_to_cell(low, e->low, e->high, high),
                    scale_to_cell(top, e->low, e->high, high), line);
        int y = scale_to_cell(value, e->low, e->high, high);
        for (int step = last_x + 1; last_x >= 0 && step < x; step++) {
            int at = last_y + (y - last_y) * (step - last_x) / (x - last_x);
            draw_stroke(b, step, at, at, line);
        }
        last_x = x;
        last_y = y;
    }
}

static void print_cell(uint8_t bits) {
    if (!bits) {
        putchar(' ');
        return;
    }
    unsigned code = 0x2800u + bits;
    putchar((int)(0xE0 | code >> 12));
    putchar((int)(0x80 | (code >> 6 & 0x3F)));
    putchar((int)(0x80 | (code & 0x3F)));
}

static void print_board(const board *b, const extent *e, const canvas *c) {
    for (int y = 0; y < b->rows; y++) {
        char label[32] = "";
        if (y == 0 || y == b->rows - 1 || (b->rows >= 7 && y == b->rows / 2)) {
            double share = 1 - (double)y / (b->rows > 1 ? b->rows - 1 : 1);
            double value = e->low + share * (e->high - e->low);
            format_number(label, c->logarithmic ? pow(10, value) : value);
        }
        printf("%*s %s", LABEL, label, *label ? "┤" : "│");
        int owner = -1;
        for (int x = 0; x < b->columns; x++) {
            size_t cell = (size_t)y * (size_t)b->columns + (size_t)x;
            if (c->colour && b->bits[cell] && b->owner[cell] != owner) {
                owner = b->owner[cell];
                terminal_paint_number(true, line_colours[owner]);
            }
            print_cell(b->bits[cell]);
        }
        terminal_paint(owner >= 0, "0");
        putchar('\n');
    }
}

static void print_legend(const series *lines, size_t count, bool colour) {
    for (size_t i = 0; count > 1 && i < count; i++) {
        char last[32] = "-";
        if (lines[i].count) {
            format_number(last, lines[i].points[lines[i].count - 1].value);
        }
        printf("%*s  ", LABEL, "");
        if (colour) {
            terminal_paint_number(true, line_colours[i % LINE_COLOURS]);
            (void)fputs("━━", stdout);
            terminal_paint(true, "0");
            putchar(' ');
        }
        printf("%s  %s\n", lines[i].name, last);
    }
}

void plot_lines(const series *lines, size_t count, const canvas *c) {
    extent e = find_extent(lines, count, c->logarithmic);
    if (!e.any) {
        printf("%*s  no finite values\n", LABEL, "");
        return;
    }
    board b = {.columns = clamp_int(c->width - LABEL - 2, 10, MAX_WIDTH),
               .rows = clamp_int(c->height, 2, 100)};
    b.bits = calloc((size_t)b.columns * (size_t)b.rows, 1);
    b.owner = calloc((size_t)b.columns * (size_t)b.rows, 1);
    if (b.bits && b.owner) {
        for (size_t i = 0; i < count; i++) {
            draw_line(&b, &lines[i], &e, c->logarithmic, i);
        }
        print_board(&b, &e, c);
        print_time_axis(e.first, e.last, b.columns);
        print_legend(lines, count, c->colour);
    }
    free(b.bits);
    free(b.owner);
}

/* ---- Heat maps ------------------------------------------------------------------------------ */

static bool all_positive(const series *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < rows[i].count; k++) {
            if (rows[i].points[k].low < 0) {
                return false;
            }
        }
    }
    return true;
}

static void print_heat_row(const series *s, const extent *e, int columns, const canvas *c,
                           bool logarithmic) {
    int last = 0; /* a column without a record shows the one before it */
    size_t next = 0;
    for (int x = 0; x < columns; x++) {
        for (; next < s->count && scale_to_cell((double)s->points[next].step, (double)e->first,
                                                (double)e->last, columns) <= x;
             next++) {
            double value = s->points[next].value, at = on_axis(value, logarithmic);
            last = value == 0 && logarithmic ? 0
                   : isfinite(at)            ? 1 + scale_to_cell(at, e->low, e->high, LEVELS)
                                             : LEVELS;
        }
        terminal_paint_number(c->colour && last, last ? heat_colours[last - 1] : 0);
        (void)fputs(blocks[last], stdout);
    }
    terminal_paint(c->colour, "0");
}

void plot_heat(const series *rows, size_t count, const canvas *c) {
    bool logarithmic = all_positive(rows, count);
    extent e = find_extent(rows, count, logarithmic);
    int name_width = 4;
    for (size_t i = 0; i < count; i++) {
        int length = terminal_columns(rows[i].name);
        name_width = length > name_width ? length : name_width;
    }
    name_width = clamp_int(name_width, 4, 32);
    int columns = clamp_int(c->width - name_width - 27, 10, MAX_WIDTH);
    for (size_t i = 0; i < count; i++) {
        char first[32], last[32];
        if (rows[i].count == 0) {
            continue;
        }
        terminal_print_name(rows[i].name, name_width);
        putchar(' ');
        print_heat_row(&rows[i], &e, columns, c, logarithmic);
        printf("  %s → %s\n", format_number(first, rows[i].points[0].value),
               format_number(last, rows[i].points[rows[i].count - 1].value));
    }
    if (e.any) {
        char low[32], high[32];
        printf("%*s steps %lld to %lld, from %s (▁) to %s (█)%s\n", name_width, "",
               (long long)e.first, (long long)e.last,
               format_number(low, logarithmic ? pow(10, e.low) : e.low),
               format_number(high, logarithmic ? pow(10, e.high) : e.high),
               logarithmic ? ", logarithmic" : "");
    }
}

/* ---- Distributions -------------------------------------------------------------------------- */

static double slice_total(const slice *s) {
    double sum = 0;
    for (int32_t i = 0; i < s->histogram.bin_count; i++) {
        sum += s->histogram.ranges[i].count;
    }
    return sum;
}

/* How much of the histogram lies between two values. */
static double mass_between(const slice *s, double low, double high) {
    double mass = 0;
    for (int32_t i = 0; i < s->histogram.bin_count; i++) {
        const td_range *r = &s->histogram.ranges[i];
        double width = r->right - r->left;
        double from = fmax(low, r->left), to = fmin(high, r->right);
        if (width <= 0) {
            mass += r->left >= low && r->left < high ? r->count : 0;
        } else if (to > from) {
            mass += r->count * (to - from) / width;
        }
    }
    return mass;
}

void plot_distribution(const slice *slices, size_t count, const canvas *c) {
    static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
    static const int greys[] = {0, 238, 243, 249, 255};
    extent e = {0};
    for (size_t i = 0; i < count; i++) {
        extend_extent(&e, td_histogram_quantile(&slices[i].histogram, 0.005));
        extend_extent(&e, td_histogram_quantile(&slices[i].histogram, 0.995));
    }
    if (!e.any) {
        printf("%*s  no finite values\n", LABEL, "");
        return;
    }
    int wide = clamp_int(c->width - LABEL - 2, 10, MAX_WIDTH), rows = clamp_int(c->height, 2, 100);
    double low = e.low, span = e.high > e.low ? e.high - e.low : 1;
    for (int y = 0; y < rows; y++) {
        char label[32] = "";
        double top = low + span * (rows - y) / rows, bottom = low + span * (rows - y - 1) / rows;
        if (y == 0 || y == rows - 1 || y == rows / 2) {
            format_number(label, y == 0 ? top : y == rows - 1 ? bottom : (top + bottom) / 2);
        }
        printf("%*s %s", LABEL, label, *label ? "┤" : "│");
        for (int x = 0; x < wide; x++) {
            const slice *col = &slices[(size_t)x * count / (size_t)wide];
            double all = slice_total(col), mass = mass_between(col, bottom, top);
            int shade = mass > 0 && all > 0 ? clamp_int(1 + (int)(mass / all * rows), 1, 4) : 0;
            terminal_paint_number(c->colour && shade, greys[shade]);
            (void)fputs(c->colour && shade ? "█" : shades[shade], stdout);
        }
        terminal_paint(c->colour, "0");
        putchar('\n');
    }
    print_time_axis(slices[0].step, slices[count - 1].step, wide);
}

/* ---- Tensors -------------------------------------------------------------------------------- */

/* Pictures of height x width, one after another; an element further on is stride further on. */
typedef struct gallery {
    int64_t pictures, height, width, channels;
} gallery;

static gallery gallery_layout(const td_shape *shape) {
    gallery g = {1, 1, 1, 1};
    int32_t rank = shape->rank;
    bool images = rank >= 3;
    g.channels = images ? shape->dims[rank - 1] : 1;
    g.width = rank >= 1 ? shape->dims[rank - 1 - images] : 1;
    g.height = rank >= 2 ? shape->dims[rank - 2 - images] : 1;
    for (int32_t i = 0; i < rank - 2 - images; i++) {
        g.pictures *= shape->dims[i];
    }
    return g;
}

/* Pixel x, y of picture number n, whose channels are pictures of their own. */
static double pixel_value(const td_view *view, const gallery *g, int64_t n, int64_t y, int64_t x) {
    int64_t picture = n / g->channels, channel = n % g->channels;
    return td_view_element(view,
                           ((picture * g->height + y) * g->width + x) * g->channels + channel);
}

/* Blue through grey to red around 0; black to white without negative values. */
static void shade_of(double value, const extent *e, int rgb[3]) {
    if (!isfinite(value)) {
        rgb[0] = rgb[2] = 0;
        rgb[1] = 200;
        return;
    }
    if (e->low >= 0) {
        int grey = (int)(255 * (e->high > 0 ? value / e->high : 0));
        rgb[0] = rgb[1] = rgb[2] = grey;
        return;
    }
    double share = value / fmax(-e->low, e->high);
    int rest = (int)(235 * (1 - fabs(share)));
    rgb[0] = share > 0 ? 235 : rest;
    rgb[1] = rest;
    rgb[2] = share > 0 ? rest : 235;
}

/* Two rows of pixels in one of characters: upper halves in the foreground; their mean where there are
 * no colours or no halves. */
static void print_pixels(double upper, double lower, bool has_lower, const extent *e,
                         const canvas *c) {
    static const char ramp[] = " .:-=+*#%@";
    if (c->colour && terminal_has_utf8()) {
        int a[3], b[3] = {0};
        shade_of(upper, e, a);
        shade_of(has_lower ? lower : 0, e, b);
        guard_escape(stdout, "\x1b[38;2;%d;%d;%dm", a[0], a[1], a[2]);
        if (has_lower) {
            guard_escape(stdout, "\x1b[48;2;%d;%d;%dm", b[0], b[1], b[2]);
        }
        (void)fputs("▀", stdout);
        return;
    }
    double mean = has_lower ? (upper + lower) / 2 : upper;
    putchar(isfinite(mean) ? ramp[scale_to_cell(mean, e->low < 0 ? e->low : 0, e->high, 10)] : '?');
}

void plot_tensor(const td_view *view, const canvas *c) {
    gallery g = gallery_layout(&view->shape);
    int64_t all = g.pictures * g.channels, count = g.pictures * g.height * g.width * g.channels;
    extent e = {0};
    for (int64_t i = 0; i < count; i++) {
        extend_extent(&e, td_view_element(view, i));
    }
    if (!e.any || c->width < 3) {
        printf("no finite values\n");
        return;
    }
    int64_t wide = g.width < c->width - 1 ? g.width : c->width - 1;
    int64_t across = c->width / (wide + 1), max = across * 4;
    int64_t shown = all < max ? all : max;
    for (int64_t row = 0; row < shown; row += across) {
        for (int64_t y = 0; y < g.height; y += 2) {
            for (int64_t n = row; n < row + across && n < shown; n++) {
                for (int64_t x = 0; x < wide; x++) {
                    bool lower = y + 1 < g.height;
                    print_pixels(pixel_value(view, &g, n, y, x),
                                 lower ? pixel_value(view, &g, n, y + 1, x) : 0, lower, &e, c);
                }
                terminal_paint(c->colour, "0");
                putchar(' ');
            }
            putchar('\n');
        }
        putchar('\n');
    }
    if (shown < all || wide < g.width) {
        printf("%lld of %lld pictures of %lld x %lld shown%s\n", (long long)shown, (long long)all,
               (long long)g.height, (long long)g.width, wide < g.width ? ", cut at the right" : "");
    }
}
