/* What each column of a CSV file is for: label, input, category, nothing.
 *
 * Inputs have names when the file has a header. Where names are wanted (a model's, or those of the
 * training file) they decide which column is which input; the order of the columns does not. A
 * category COLUMN is an input COLUMN=TEXT for each of its texts, one after the other; so a list of
 * inputs and the names of the categories say all that is known of them. Columns of text are alike. */
#include "base/memory.h"
#include "data/csv.h"

#include <stdio.h>
#include <stdlib.h>
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

const char *td__csv_column_name(const td__csv *csv, int64_t column, char *text) {
    if (csv->names) {
        return csv->names[column];
    }
    snprintf(text, NAME_SIZE, "%lld", (long long)column);
    return text;
}

static td_status use_column(td__csv *csv, const char *name, td__csv_use use, int64_t *found) {
    int64_t column = 0;
    char text[NAME_SIZE];
    csv->status = td__column_find((const char *const *)csv->names, csv->column_count, name,
                                  csv->path, &column, csv->error);
    if (csv->status) {
        return csv->status;
    }
    td__csv_column *c = &csv->columns[column];
    *found = column;
    if (c->use != TD__CSV_NUMBER) {
        return csv->status =
                   td_error_set(csv->error, TD_INVALID,
                                "%s: column '%s' is named twice in `label`, `ignore`, "
                                "`weight`, `groups`, `images`, `categories`, `text` and `dates`",
                                csv->path, td__csv_column_name(csv, column, text));
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
    int64_t unused;
    for (size_t i = 0; i < ignore->count; i++) {
        if ((csv->inputs.count == 0 || has_column(csv, ignore->items[i])) &&
            use_column(csv, ignore->items[i], TD__CSV_IGNORED, &unused)) {
            return csv->status;
        }
    }
    return TD_OK;
}

static td_status use_labels(td__csv *csv) {
    bool named = csv->names && csv->named_labels.count > 0;
    int64_t unused;
    const td_names *label = named ? &csv->named_labels : &csv->options->label;
    for (size_t i = 0; i < label->count; i++) {
        if (use_column(csv, label->items[i], TD__CSV_LABEL, &unused)) {
            return csv->status;
        }
    }
    return TD_OK;
}

static td_status use_other_columns(td__csv *csv) {
    int64_t unused;
    csv->weighted = csv->options->weight != NULL;
    csv->grouped = csv->options->groups != NULL;
    if (csv->weighted && use_column(csv, csv->options->weight, TD__CSV_WEIGHT, &unused)) {
        return csv->status;
    }
    if (csv->options->images && use_column(csv, csv->options->images, TD__CSV_PATH, &unused)) {
        return csv->status;
    }
    csv->counts_cells =
        csv->options->images || csv->options->text.count || csv->options->dates.count;
    return csv->grouped ? use_column(csv, csv->options->groups, TD__CSV_GROUP, &unused) : TD_OK;
}

/* Found by name only in a survey; afterwards the wanted inputs say which columns they are. */
static td_status use_expansions(td__csv *csv) {
    if (!td__csv_make_expansions(csv)) {
        return no_memory(csv);
    }
    for (size_t i = 0; csv->survey && i < td__csv_expansion_count(csv->options); i++) {
        td__csv_expansion one = td__csv_expansion_at(csv->options, i);
        int64_t column = 0;
        if (use_column(csv, one.column, one.use, &column)) {
            return csv->status;
        }
        csv->columns[column].category = one.index;
    }
    return TD_OK;
}

static bool is_input(const td__csv_column *column) {
    return column->use == TD__CSV_NUMBER && column->slot < 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The names of the columns that are inputs, in the file's order; none when there are too many. */
static td_status name_columns(td__csv *csv, td__names *names) {
    size_t bytes = 0, count = 0;
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        count += is_input(&csv->columns[i]);
        bytes += strlen(csv->names[i]);
    }
    if (count > TD__NAMES_MAXIMUM || bytes > NAMES_TEXT_MAXIMUM) {
        return TD_OK;
    }
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        if (is_input(&csv->columns[i]) && !td__csv_add_unique(names, csv->names[i])) {
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

static void list_item(list *l, const char *text) {
    if (l->count++ < LISTED && l->length < sizeof l->text) {
        int wrote = snprintf(l->text + l->length, sizeof l->text - l->length, "%s%s",
                             l->count > 1 ? "; " : "", text);
        l->length += wrote > 0 ? (size_t)wrote : 0;
    }
}

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
                near = td_nearest_word(wanted->items[i], (const char *const *)found->items,
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
               csv->error, TD_FORMAT, "%s: its columns are not the inputs%s: %s%s%s%s%s%s",
               csv->path, csv->chosen ? " that are asked for" : " of training",
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

/* ---- Wanted inputs --------------------------------------------------------------------------- */

/* The columns that a list of inputs comes from. */
typedef struct wanted_columns {
    td__names names;
    int32_t *first;     /* each column's first input */
    int32_t *expansion; /* what it becomes (td__csv_expansion_at), or -1 */
} wanted_columns;

static td_status bad_inputs(td__csv *csv, const char *input) {
    return csv->status = td_error_set(csv->error, TD_INVALID,
                                      "%s: the input '%.100s' is given twice, or not beside the "
                                      "others of its column",
                                      csv->path, input);
}

/* Takes the list apart: what belongs to a column that becomes several inputs says how many. */
static td_status read_wanted(td__csv *csv, wanted_columns *wanted) {
    size_t count = csv->inputs.count;
    ptrdiff_t before = -1;
    wanted->first = td__calloc(count + 1, sizeof *wanted->first);
    wanted->expansion = td__calloc(count + 1, sizeof *wanted->expansion);
    if (!wanted->first || !wanted->expansion) {
        return no_memory(csv);
    }
    for (size_t i = 0; i < count; i++) {
        const char *input = csv->inputs.items[i], *rest = NULL;
        ptrdiff_t expansion = td__csv_expansion_of(csv->options, input, &rest);
        bool new = expansion < 0 || expansion != before;
        size_t columns = wanted->names.count;
        if (expansion >= 0 && !td__csv_take_input(csv, (size_t)expansion, rest, new)) {
            return bad_inputs(csv, input);
        }
        const char *name = td__csv_base(csv->options, input);
        if (new &&td__names_add(&wanted->names, name) != (int64_t)columns) {
            return bad_inputs(csv, input);
        }
        if (new) {
            wanted->first[columns] = (int32_t)i;
            wanted->expansion[columns] = (int32_t)expansion;
        }
        before = expansion;
    }
    return TD_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void take_in_order(td__csv *csv) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (is_input(c)) {
            c->slot = (int32_t)csv->input_count++;
        }
    }
}

/* Gives the columns that are inputs the places of the wanted ones; order[i] is the wanted column
 * that the i-th of them is, NULL: they come in order. */
static void take_wanted(td__csv *csv, const wanted_columns *wanted, const int32_t *order) {
    size_t next = 0;
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (is_input(c)) {
            size_t k = order ? (size_t)order[next] : next;
            c->slot = wanted->first[k];
            if (wanted->expansion[k] >= 0) {
                td__csv_expansion one =
                    td__csv_expansion_at(csv->options, (size_t)wanted->expansion[k]);
                c->use = one.use;
                c->category = one.index;
            }
            next++;
        }
    }
    csv->input_count = (int64_t)csv->inputs.count;
}

static td_status take_by_name(td__csv *csv, const wanted_columns *wanted, const td__names *found) {
    list names = {0};
    bool moved = false, all = wanted->names.count == found->count;
    int32_t *order = td__calloc(found->count + 1, sizeof *order);
    if (!order) {
        return no_memory(csv);
    }
    for (size_t i = 0; all && i < found->count; i++) {
        order[i] = (int32_t)td__names_find(&wanted->names, found->items[i]);
        all = order[i] >= 0;
        moved = moved || order[i] != (int32_t)i;
    }
    if (all) {
        take_wanted(csv, wanted, order);
    }
    td__free(order);
    if (!all) {
        return other_names(csv, &wanted->names, found);
    }
    return moved && !csv->chosen
               ? remark(csv,
                        ": its columns are in another order than in training; they were "
                        "taken by their names: ",
                        list_all(&names, &wanted->names))
               : TD_OK;
}

/* One of the two has no names: the order must do. */
static td_status take_by_place(td__csv *csv, const wanted_columns *wanted) {
    list names = {0};
    size_t count = 0;
    for (int64_t i = 0; i < csv->column_count; i++) {
        count += is_input(&csv->columns[i]);
    }
    if (count != wanted->names.count) {
        return csv->status = td_error_set(
                   csv->error, TD_BAD_SHAPE,
                   "%s: it has no header, and %zu columns for the %zu inputs of training: %s",
                   csv->path, count, wanted->names.count, list_all(&names, &wanted->names));
    }
    take_wanted(csv, wanted, NULL);
    return csv->surveyed ? TD_OK
                         : remark(csv, ": it has no header; its columns were taken in this order: ",
                                  list_all(&names, &wanted->names));
}

static td_status assign_wanted(td__csv *csv, const td__names *found) {
    wanted_columns wanted = {0};
    if (!read_wanted(csv, &wanted)) {
        (void)(found->count ? take_by_name(csv, &wanted, found) : take_by_place(csv, &wanted));
    }
    for (size_t i = 0; !csv->status && i < csv->inputs.count; i++) {
        if (td__names_add(&csv->input_names, csv->inputs.items[i]) < 0) {
            no_memory(csv);
        }
    }
    td__names_release(&wanted.names);
    td__free(wanted.first);
    td__free(wanted.expansion);
    return csv->status;
}

/* Of columns that were chosen by name the others are left out. */
static td_status leave_others(td__csv *csv) {
    if (csv->chosen && !csv->names) {
        return csv->status = td_error_set(csv->error, TD_INVALID,
                                          "%s: inputs are columns by their names, and the file has "
                                          "no header",
                                          csv->path);
    }
    for (int64_t i = 0; csv->chosen && i < csv->column_count; i++) {
        bool wanted = false;
        for (size_t k = 0; k < csv->inputs.count; k++) {
            const char *base = td__csv_base(csv->options, csv->inputs.items[k]);
            wanted = wanted || !strcmp(base, csv->names[i]);
        }
        if (!wanted && is_input(&csv->columns[i])) {
            csv->columns[i].use = TD__CSV_IGNORED;
        }
    }
    return TD_OK;
}

/* Where the example is an image, other columns are not read. */
static td_status leave_numbers(td__csv *csv) {
    char name[NAME_SIZE];
    list columns = {0};
    for (int64_t i = 0; i < csv->column_count; i++) {
        if (is_input(&csv->columns[i])) {
            csv->columns[i].use = TD__CSV_IGNORED;
            list_name(&columns, td__csv_column_name(csv, i, name), NULL);
        }
    }
    return columns.count
               ? remark(csv,
                        ": examples are images; these columns are not read: ", list_end(&columns))
               : TD_OK;
}

static td_status assign_inputs(td__csv *csv) {
    td__names found = {0};
    if (csv->options->images) {
        return leave_numbers(csv);
    }
    if (!leave_others(csv) && !name_columns(csv, &found)) {
        if (csv->inputs.count) {
            assign_wanted(csv, &found);
        } else {
            take_in_order(csv);
            csv->input_names = found;
            return csv->status;
        }
    }
    td__names_release(&found);
    return csv->status;
}

/* Text where numbers should be, all of it at once as far as the first row shows it. */
static td_status check_text(td__csv *csv, char *const *texts, const bool *numbers, size_t count) {
    list columns = {0};
    char name[NAME_SIZE];
    for (int64_t i = 0; i < csv->column_count && (size_t)i < count; i++) {
        const td__csv_column *c = &csv->columns[i];
        bool input = c->use == TD__CSV_NUMBER && c->slot < csv->input_count;
        if (input && !numbers[i] && !td__csv_is_missing(texts[i])) {
            list_name(&columns, td__csv_column_name(csv, i, name), NULL);
        }
    }
    return columns.count == 0
               ? TD_OK
               : (csv->status = td_error_set(
                      csv->error, TD_FORMAT,
                      "%s line %lld: text among the inputs, in %s; `categories` makes an input of "
                      "each of its texts, `ignore` leaves a column out, `label` makes it the label",
                      csv->path, (long long)csv->line, list_end(&columns)));
}

/* What a single label is, by its first value: text, or a number that may be a class. */
static td__csv_use label_use(td__csv *csv, const char *text, bool number) {
    td_label_kind kind = csv->options->label_kind;
    if (kind == TD_LABEL_VALUES || kind == TD_LABEL_NONE) {
        return number || !*text ? TD__CSV_NUMBER : TD__CSV_CLASS;
    }
    csv->text_labels = csv->text_labels || td__csv_is_padded(text);
    return csv->text_labels || (!number && *text) ? TD__CSV_CLASS : TD__CSV_CLASS_NUMBER;
}

/* Labels stand behind the inputs; a single one may be text. */
static void assign_labels(td__csv *csv, char *const *texts, const bool *numbers, size_t count) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (c->use == TD__CSV_LABEL) {
            bool there = (size_t)i < count;
            c->slot += (int32_t)csv->input_count;
            c->use = csv->label_count > 1
                         ? TD__CSV_NUMBER
                         : label_use(csv, there ? texts[i] : "", there && numbers[i]);
        } else if (c->use == TD__CSV_WEIGHT) {
            c->slot = (int32_t)(csv->input_count + csv->label_count);
            c->use = TD__CSV_NUMBER;
        } else if (c->use == TD__CSV_GROUP) {
            c->slot = (int32_t)(csv->input_count + csv->label_count + csv->weighted);
        }
    }
}

/* A survey looks at categories alone. */
static void skip_others(td__csv *csv) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        if (c->use == TD__CSV_NUMBER) {
            c->use = TD__CSV_SKIPPED;
        } else if (c->use == TD__CSV_LABEL || c->use == TD__CSV_WEIGHT || c->use == TD__CSV_GROUP) {
            c->use = TD__CSV_IGNORED;
        }
        c->slot = 0;
    }
}

td_status td__csv_assign(td__csv *csv, char *const *texts, const bool *numbers, size_t count) {
    csv->columns = td__calloc((size_t)csv->column_count, sizeof *csv->columns);
    if (!csv->columns) {
        return no_memory(csv);
    }
    for (int64_t i = 0; i < csv->column_count; i++) {
        csv->columns[i].slot = -1;
    }
    if (use_ignored(csv) || use_labels(csv) || use_other_columns(csv) || use_expansions(csv)) {
        return csv->status;
    }
    if (csv->survey) {
        skip_others(csv);
    } else if (assign_inputs(csv)) {
        return csv->status;
    } else if (csv->input_count == 0 && !csv->options->images) {
        return csv->status = td_error_set(csv->error, TD_INVALID,
                                          "%s: all %lld columns are labels or ignored; no input is "
                                          "left",
                                          csv->path, (long long)csv->column_count);
    }
    csv->values =
        td__calloc((size_t)(csv->input_count + csv->label_count) + 3, sizeof *csv->values);
    if (!csv->values) {
        return no_memory(csv);
    }
    assign_labels(csv, texts, numbers, count);
    return csv->survey ? TD_OK : check_text(csv, texts, numbers, count);
}

/* ---- After reading --------------------------------------------------------------------------- */

td_status td__csv_check_missing(td__csv *csv) {
    td_missing missing = csv->options->missing;
    list columns = {0};
    int64_t total = 0;
    bool inputs = false;
    for (int64_t i = 0; csv->any_missing && i < csv->column_count; i++) {
        const td__csv_column *c = &csv->columns[i];
        bool label = c->slot >= csv->input_count;
        bool allowed = missing == TD_MISSING_DROP || (missing != TD_MISSING_REFUSED && !label);
        if (c->missing && !allowed) {
            char name[NAME_SIZE], text[NAME_SIZE + 64];
            snprintf(text, sizeof text, "%.60s: %lld, the first in line %lld",
                     td__csv_column_name(csv, i, name), (long long)c->missing,
                     (long long)c->missing_line);
            list_item(&columns, text);
            total += c->missing;
            inputs = inputs || !label;
        }
    }
    if (total == 0) {
        return csv->status;
    }
    return csv->status = td_error_set(
               csv->error, TD_FORMAT, "%s: %lld value%s missing (%s); %s", csv->path,
               (long long)total, total == 1 ? " is" : "s are", list_end(&columns),
               inputs ? "`missing: mean`, `drop` or a number fills them or leaves their rows out, "
                        "`ignore` leaves the column out"
                      : "labels are not filled in; `missing: drop` leaves such rows out");
}
