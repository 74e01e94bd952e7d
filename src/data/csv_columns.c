/* What each column of a CSV file is for: label, input, nothing.
 *
 * Inputs have names when the file has a header. Where names are wanted (a model's, or those of the
 * training file) they decide which column is which input; the order of the columns does not. */
#include "base/memory.h"
#include "base/words.h"
#include "data/csv.h"

#include <stdio.h>
#include <string.h>

enum {
    NAME_SIZE = TD__NAME_LENGTH_MAXIMUM + 1,
    NAMES_TEXT_MAXIMUM = 1 << 22, /* bytes of all names; with more, inputs have none */
    LISTED = 6,                   /* names in a message */
    LIST_SIZE = 400,
};

static td_status no_memory(td__csv *csv) {
    return csv->status = td_error_set(csv->error, TD_MEMORY, "%s: no memory", csv->path);
}

/* How a message names a column. */
static const char *column_name(const td__csv *csv, int64_t column, char text[NAME_SIZE]) {
    if (csv->names) {
        return csv->names[column];
    }
    snprintf(text, NAME_SIZE, "%lld", (long long)column);
    return text;
}

static td_status use_column(td__csv *csv, const char *name, td__csv_use use) {
    int64_t column = 0;
    char text[NAME_SIZE];
    csv->status = td__column_find((const char *const *)csv->names, csv->column_count, name,
                                  csv->path, &column, csv->error);
    if (csv->status) {
        return csv->status;
    }
    td__csv_column *c = &csv->columns[column];
    if (c->use != TD__CSV_NUMBER) {
        return csv->status = td_error_set(csv->error, TD_INVALID,
                                          "%s: column '%s' is named twice in `label` and `ignore`",
                                          csv->path, column_name(csv, column, text));
    }
    c->use = use;
    c->slot = use == TD__CSV_LABEL ? (int32_t)csv->label_count++ : 0;
    if (use == TD__CSV_LABEL && csv->names &&
        td__names_add(&csv->label_names, csv->names[column]) < 0) {
        return no_memory(csv);
    }
    return TD_OK;
}

static bool has_column(const td__csv *csv, const char *name) {
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        if (strcmp(csv->names[i], name) == 0) {
            return true;
        }
    }
    return !csv->names;
}

/* Where inputs are taken by name, a column that would be ignored need not be there. */
static td_status use_ignored(td__csv *csv) {
    const td_names *ignore = &csv->options->ignore;
    for (size_t i = 0; i < ignore->count; i++) {
        if ((csv->inputs.count == 0 || has_column(csv, ignore->items[i])) &&
            use_column(csv, ignore->items[i], TD__CSV_IGNORED)) {
            return csv->status;
        }
    }
    return TD_OK;
}

static td_status use_labels(td__csv *csv) {
    bool named = csv->names && csv->named_labels.count > 0;
    const td_names *label = named ? &csv->named_labels : &csv->options->label;
    for (size_t i = 0; i < label->count; i++) {
        if (use_column(csv, label->items[i], TD__CSV_LABEL)) {
            return csv->status;
        }
    }
    return TD_OK;
}

static bool is_input(const td__csv_column *column) {
    return column->use == TD__CSV_NUMBER && column->slot < 0;
}

/* ---- Names ------------------------------------------------------------------------------------
 */

/* A name that occurs again becomes NAME.1, NAME.2, …, as pandas has it. */
static bool add_unique(td__names *names, const char *name) {
    char text[NAME_SIZE + 24];
    snprintf(text, sizeof text, "%s", name);
    for (int again = 1; td__names_find(names, text) >= 0; again++) {
        snprintf(text, sizeof text, "%s.%d", name, again);
    }
    return td__names_add(names, text) >= 0;
}

/* The names of the columns that are inputs, in the file's order; none when there are too many. */
static td_status name_inputs(td__csv *csv, td__names *names) {
    size_t bytes = 0, count = 0;
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        count += is_input(&csv->columns[i]);
        bytes += strlen(csv->names[i]);
    }
    if (count > TD__NAMES_MAXIMUM || bytes > NAMES_TEXT_MAXIMUM) {
        return TD_OK;
    }
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        if (is_input(&csv->columns[i]) && !add_unique(names, csv->names[i])) {
            return no_memory(csv);
        }
    }
    return TD_OK;
}

/* A growing list in a message: 'a', 'b' (did you mean 'c'?), … and 3 more. */
typedef struct list {
    char text[LIST_SIZE];
    size_t length, count;
} list;

static void list_name(list *l, const char *name, const char *meant) {
    if (l->count++ < LISTED && l->length < sizeof l->text) {
        int wrote = snprintf(l->text + l->length, sizeof l->text - l->length, "%s'%.60s'%s%.60s%s",
                             l->count > 1 ? ", " : "", name, meant ? " (did you mean '" : "",
                             meant ? meant : "", meant ? "'?)" : "");
        l->length += wrote > 0 ? (size_t)wrote : 0;
    }
}

static const char *list_end(list *l) {
    if (l->count > LISTED && l->length < sizeof l->text) {
        snprintf(l->text + l->length, sizeof l->text - l->length, " and %zu more",
                 l->count - LISTED);
    }
    return l->text;
}

/* Which names are wanted and not there, and which are there and not wanted. */
static td_status other_names(td__csv *csv, const td__names *wanted, const td__names *found) {
    list missing = {0}, unknown = {0};
    for (size_t i = 0; i < wanted->count; i++) {
        if (td__names_find(found, wanted->items[i]) < 0) {
            const char *near = NULL;
            if (missing.count < LISTED) {
                near = td__nearest_word(wanted->items[i], (const char *const *)found->items,
                                        found->count);
            }
            bool unused = near && td__names_find(wanted, near) < 0;
            list_name(&missing, wanted->items[i], unused ? near : NULL);
        }
    }
    for (size_t i = 0; i < found->count; i++) {
        if (td__names_find(wanted, found->items[i]) < 0) {
            list_name(&unknown, found->items[i], NULL);
        }
    }
    return csv->status = td_error_set(
               csv->error, TD_FORMAT,
               "%s: its columns are not the inputs of training: %s%s%s%s%s%s", csv->path,
               missing.count ? "missing " : "", list_end(&missing),
               missing.count && unknown.count ? "; " : "", unknown.count ? "unknown " : "",
               list_end(&unknown),
               unknown.count ? "; a label is named in `label`, what is to be left out in `ignore`"
                             : "");
}

static td_status remark(td__csv *csv, const char *text, const char *names) {
    char whole[TD_ERROR_TEXT_SIZE];
    snprintf(whole, sizeof whole, "%s%s%s", csv->path, text, names);
    return td__names_add(&csv->remarks, whole) < 0 ? no_memory(csv) : TD_OK;
}

static const char *list_all(list *l, const td__names *names) {
    for (size_t i = 0; i < names->count; i++) {
        list_name(l, names->items[i], NULL);
    }
    return list_end(l);
}

/* ---- Places -----------------------------------------------------------------------------------
 */

static void take_in_order(td__csv *csv) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (is_input(c)) {
            c->slot = (int32_t)csv->input_count++;
        }
    }
}

/* wanted has a place for each name that was found. */
static td_status take_by_name(td__csv *csv, const td__names *wanted, const td__names *found) {
    list order = {0};
    bool moved = false;
    size_t next = 0;
    bool all = wanted->count == found->count;
    for (size_t i = 0; all && i < found->count; i++) {
        all = td__names_find(wanted, found->items[i]) >= 0;
    }
    if (!all) {
        return other_names(csv, wanted, found);
    }
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (is_input(c)) {
            c->slot = (int32_t)td__names_find(wanted, found->items[next]);
            moved = moved || c->slot != (int32_t)next;
            next++;
        }
    }
    csv->input_count = (int64_t)next;
    return moved ? remark(csv,
                          ": its columns are in another order than in training; they were "
                          "taken by their names: ",
                          list_all(&order, wanted))
                 : TD_OK;
}

/* One of the two has no names: the order must do. */
static td_status take_by_place(td__csv *csv, const td__names *wanted) {
    list order = {0};
    take_in_order(csv);
    if (csv->input_count != (int64_t)wanted->count) {
        return csv->status = td_error_set(
                   csv->error, TD_SHAPE,
                   "%s: it has no header, and %lld columns for the %zu inputs of training: %s",
                   csv->path, (long long)csv->input_count, wanted->count, list_all(&order, wanted));
    }
    return remark(csv, ": it has no header; its columns were taken in this order: ",
                  list_all(&order, wanted));
}

static td_status assign_inputs(td__csv *csv) {
    td__names wanted = {0}, found = {0};
    bool twice = false;
    for (size_t i = 0; i < csv->inputs.count && !twice; i++) {
        int64_t number = td__names_add(&wanted, csv->inputs.items[i]);
        twice = number >= 0 && number < (int64_t)i;
        if (number < 0) {
            no_memory(csv);
        }
    }
    if (twice) {
        csv->status =
            td_error_set(csv->error, TD_INVALID, "%s: two inputs have one name", csv->path);
    }
    if (!csv->status && !name_inputs(csv, &found)) {
        if (wanted.count == 0) {
            take_in_order(csv);
        } else {
            (void)(found.count ? take_by_name(csv, &wanted, &found) : take_by_place(csv, &wanted));
        }
    }
    bool keep_wanted = wanted.count > 0;
    csv->input_names = keep_wanted ? wanted : found;
    td__names_release(keep_wanted ? &found : &wanted);
    return csv->status;
}

/* Labels stand behind the inputs; a single one may be text. */
static void assign_labels(td__csv *csv, char *const *texts, const bool *numbers, size_t count) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (c->use == TD__CSV_LABEL) {
            bool text = (size_t)i < count && !numbers[i] && texts[i][0];
            c->slot += (int32_t)csv->input_count;
            c->use = text && csv->label_count == 1 ? TD__CSV_CLASS : TD__CSV_NUMBER;
        }
    }
}

td_status td__csv_assign(td__csv *csv, char *const *texts, const bool *numbers, size_t count) {
    csv->columns = td__calloc((size_t)csv->column_count, sizeof *csv->columns);
    csv->values = td__calloc((size_t)csv->column_count, sizeof *csv->values);
    if (!csv->columns || !csv->values) {
        return no_memory(csv);
    }
    for (int64_t i = 0; i < csv->column_count; i++) {
        csv->columns[i].slot = -1;
    }
    if (use_ignored(csv) || use_labels(csv) || assign_inputs(csv)) {
        return csv->status;
    }
    if (csv->input_count == 0) {
        return csv->status = td_error_set(csv->error, TD_INVALID,
                                          "%s: all %lld columns are labels or ignored; no input is "
                                          "left",
                                          csv->path, (long long)csv->column_count);
    }
    assign_labels(csv, texts, numbers, count);
    return TD_OK;
}
