/* The table of layers, as Keras prints it. */
#include "nn/model.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define COLUMNS 4
#define CELL 512

typedef struct table {
    FILE *stream;
    int columns;
    int width[COLUMNS]; /* of the text, without the space on either side */
} table;

/* One horizontal line: corner, dash, crossing, dash, …, corner. */
static void print_rule(const table *t, const char *left, const char *dash, const char *cross,
                       const char *right) {
    for (int c = 0; c < t->columns; c++) {
        (void)fputs(c ? cross : left, t->stream);
        for (int i = 0; i < t->width[c] + 2; i++) {
            (void)fputs(dash, t->stream);
        }
    }
    (void)fprintf(t->stream, "%s\n", right);
}

static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Characters of UTF-8, each a column. */
static int columns_of(const char *text) {
    int columns = 0;
    for (; *text; text++) {
        columns += begins_character(*text);
    }
    return columns;
}

/* The beginning of a text that is too long, in whole characters, and "..". */
static void cut_cell(char cell[CELL], int width) {
    if (columns_of(cell) <= width) {
        return;
    }
    int kept = 0;
    for (int columns = 0; columns < width - 2 || !begins_character(cell[kept]); kept++) {
        columns += begins_character(cell[kept]);
    }
    (void)snprintf(cell + kept, (size_t)(CELL - kept), "..");
}

static void print_row(const table *t, const char *bar, char cells[COLUMNS][CELL]) {
    for (int c = 0; c < t->columns; c++) {
        bool right = c == 2; /* numbers */
        cut_cell(cells[c], t->width[c]);
        int blanks = t->width[c] - columns_of(cells[c]);
        (void)fprintf(t->stream, "%s %*s%s%*s ", bar, right ? blanks : 0, "", cells[c],
                      right ? 0 : blanks, "");
    }
    (void)fprintf(t->stream, "%s\n", bar);
}

/* 1234567 as "1,234,567" */
static void thousands(int64_t number, char text[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = 0;
}

static void print_total(FILE *stream, const char *what, int64_t count) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double size = (double)count * sizeof(float);
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < TD__COUNT(units)) {
        size /= 1024;
        unit++;
    }
    char text[32];
    thousands(count, text);
    (void)fprintf(stream, " %s params: %s (%.2f %s)\n", what, text, size, units[unit]);
}

/* "(None, 26, 26, 32)" */
static void batch_shape(const td_shape *shape, char text[CELL]) {
    size_t used = (size_t)snprintf(text, CELL, "(None");
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            used += (size_t)snprintf(text + used, CELL - used, ", None");
        } else {
            used += (size_t)snprintf(text + used, CELL - used, ", %" PRId64, shape->dims[i]);
        }
    }
    (void)snprintf(text + used, CELL - used, shape->rank ? ")" : ",)");
}

static void cells_of(const td_model *model, const td__layer *layer, char cells[COLUMNS][CELL]) {
    (void)snprintf(cells[0], CELL, "%s (%s)", layer->info.name, layer->info.type);
    batch_shape(&layer->info.output, cells[1]);
    thousands(layer->info.parameter_elements, cells[2]);
    size_t used = 0;
    for (size_t i = 0; i < layer->info.input_count && used < CELL; i++) {
        int32_t from = layer->inputs[i];
        used += (size_t)snprintf(cells[3] + used, CELL - used, "%s%s", i ? ", " : "",
                                 from < 0 ? "input" : model->layers[from]->info.name);
    }
}

/* Whether every layer reads just the one above. */
static bool is_stack(const td_model *model) {
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        if (layer->info.input_count != 1 || layer->inputs[0] != (int32_t)i - 1) {
            return false;
        }
    }
    return true;
}

static void widen(table *t, char cells[COLUMNS][CELL]) {
    for (int c = 0; c < t->columns; c++) {
        int length = columns_of(cells[c]);
        t->width[c] = length > t->width[c] ? length : t->width[c];
    }
}

static int width_of(const table *t) {
    int width = 1;
    for (int c = 0; c < t->columns; c++) {
        width += t->width[c] + 3;
    }
    return width;
}

/* Takes from the widest column, but not from the numbers, until all fit or none can give. */
static void narrow(table *t, int columns) {
    enum { MIN_WIDTH = 8, NUMBERS = 2 };
    for (;;) {
        int widest = 0;
        for (int c = 1; c < t->columns; c++) {
            widest = c != NUMBERS && t->width[c] > t->width[widest] ? c : widest;
        }
        int excess = width_of(t) - columns;
        if (excess <= 0 || t->width[widest] <= MIN_WIDTH) {
            return;
        }
        t->width[widest]--;
    }
}

/* As wide as Keras makes it; where that is too much, as wide as it must be. */
static table lay_out(const td_model *model, FILE *stream, int columns, char heads[COLUMNS][CELL]) {
    table roomy = {stream, is_stack(model) ? 3 : COLUMNS, {31, 22, 13, 20}};
    table tight = {stream, roomy.columns, {0}};
    widen(&tight, heads);
    for (size_t i = 0; i < model->layer_count; i++) {
        char cells[COLUMNS][CELL];
        cells_of(model, model->layers[i], cells);
        widen(&roomy, cells);
        widen(&tight, cells);
    }
    if (width_of(&roomy) <= columns) {
        return roomy;
    }
    narrow(&tight, columns);
    return tight;
}

td_status td_model_summary(const td_model *model, FILE *stream) {
    return td_model_summary_within(model, stream, INT_MAX);
}

td_status td_model_summary_within(const td_model *model, FILE *stream, int columns) {
    char heads[COLUMNS][CELL] = {"Layer (type)", "Output Shape", "Param #", "Connected to"};
    char cells[COLUMNS][CELL];
    table t = lay_out(model, stream, columns, heads);
    (void)fprintf(stream, "Model: \"%s\"\n", model->name);
    print_rule(&t, "┏", "━", "┳", "┓");
    print_row(&t, "┃", heads);
    print_rule(&t, "┡", "━", "╇", "┩");
    int64_t total = 0, trained = 0;
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        cells_of(model, layer, cells);
        if (i) {
            print_rule(&t, "├", "─", "┼", "┤");
        }
        print_row(&t, "│", cells);
        for (size_t k = 0; k < layer->info.parameter_count; k++) {
            const td__parameter_plan *plan = &layer->parameters[k];
            total += plan->count;
            trained += layer->info.frozen || plan->moving_average ? 0 : plan->count;
        }
    }
    print_rule(&t, "└", "─", "┴", "┘");
    print_total(stream, "Total", total);
    print_total(stream, "Trainable", trained);
    print_total(stream, "Non-trainable", total - trained);
    return ferror(stream) ? TD_IO : TD_OK;
}
