/* The beginning of a CSV file: is there a header, and what are the columns called. */
#include "base/memory.h"
#include "data/csv.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256 }; /* longer names are cut */

/* The cells of one record: their texts, and whether each is a number. */
typedef struct fields {
    char **texts;
    bool *numbers;
    size_t count, text_capacity, number_capacity;
} fields;

static void release_fields(fields *f) {
    for (size_t i = 0; i < f->count; i++) {
        td__free(f->texts[i]);
    }
    td__free(f->texts);
    td__free(f->numbers);
    *f = (fields){0};
}

static td__csv_outcome add_field(td__csv *csv, fields *f, const td__csv_cell *cell) {
    char text[NAME_SIZE];
    float value;
    td__csv_name(cell, text, sizeof text);
    if (f->count >= TD__CSV_COLUMN_MAXIMUM) {
        return td__csv_fail(csv, TD_RANGE, "%s line %lld: more than %d columns", csv->path,
                            (long long)csv->line, TD__CSV_COLUMN_MAXIMUM);
    }
    if (!td__grow(&f->texts, &f->text_capacity, f->count + 1, TD__CSV_COLUMN_MAXIMUM,
                  sizeof *f->texts) ||
        !td__grow(&f->numbers, &f->number_capacity, f->count + 1, TD__CSV_COLUMN_MAXIMUM,
                  sizeof *f->numbers) ||
        !(f->texts[f->count] = td__strdup(text))) {
        return td__csv_fail(csv, TD_MEMORY, "%s: no memory", csv->path);
    }
    /* Commas in a number are refused, not taken for text. */
    f->numbers[f->count++] =
        td__csv_is_number(cell, &value) || td__csv_find_comma(text) != TD__COMMA_NONE;
    return TD__CSV_RECORD;
}

/* The record at from; behind receives where the next one begins. */
static td__csv_outcome read_fields(td__csv *csv, char *from, fields *f, char **behind) {
    td__csv_cell cell = {.behind = from - 1};
    do {
        td__csv_outcome outcome = td__csv_scan(csv, cell.behind + 1, &cell);
        if (outcome == TD__CSV_RECORD) {
            outcome = add_field(csv, f, &cell);
        }
        if (outcome != TD__CSV_RECORD) {
            return outcome;
        }
    } while (*cell.behind == csv->separator);
    *behind = td__csv_behind_line(csv, cell.behind);
    return TD__CSV_RECORD;
}

static bool is_text(const fields *f, size_t i) {
    return !f->numbers[i] && !td__csv_is_missing(f->texts[i]);
}

static bool has_cell(const fields *f, const char *text) {
    for (size_t i = 0; i < f->count; i++) {
        if (!strcmp(f->texts[i], text)) {
            return true;
        }
    }
    return false;
}

/* Whether a cell of the line is named where columns are. A number, or `last`, may be the place of a
 * column in a file without a header. */
static bool names_cell(const td_names *names, const fields *line) {
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        bool place = !strcmp(name, "last") || !name[strspn(name, "0123456789")];
        if (!place && has_cell(line, name)) {
            return true;
        }
    }
    return false;
}

static bool names_expansion(const td_data_options *options, const fields *line) {
    bool named = false;
    for (size_t i = 0; !named && i < td__csv_expansion_count(options); i++) {
        const char *column = td__csv_expansion_at(options, i).column;
        named = names_cell(&(td_names){&column, 1}, line);
    }
    return named;
}

/* Whether the line has all names that inputs are known by. */
static bool has_inputs(const td__csv *csv, const fields *line) {
    bool all = csv->inputs.count > 0 && !csv->surveyed;
    for (size_t i = 0; all && i < csv->inputs.count; i++) {
        all = has_cell(line, td__csv_base(csv->options, csv->inputs.items[i]));
    }
    return all;
}

static bool is_named(const td__csv *csv, const fields *line) {
    const td_data_options *o = csv->options;
    td_names weight = {&o->weight, o->weight != NULL};
    td_names groups = {&o->groups, o->groups != NULL}, images = {&o->images, o->images != NULL};
    return names_cell(&o->label, line) || names_cell(&csv->named_labels, line) ||
           names_cell(&o->ignore, line) || names_expansion(o, line) || names_cell(&weight, line) ||
           names_cell(&groups, line) || names_cell(&images, line) || has_inputs(csv, line);
}

/* Whether the numbers of the first line are 0, 1, 2, … (or 1, 2, 3, …) above numbers: what pandas
 * writes for columns without names, or a first example. */
static bool counts_columns(const fields *first, const fields *second) {
    int64_t start = 0, count = 0;
    for (size_t i = 0; i < first->count && first->count == second->count; i++) {
        char *end;
        if (!first->numbers[i]) {
            continue;
        }
        int64_t value = strtoll(first->texts[i], &end, 10);
        start = count == 0 ? value : start;
        bool next = !*end && value == start + count && !td__csv_is_padded(first->texts[i]);
        if (!next || !second->numbers[i]) {
            return false;
        }
        count++;
    }
    return (start == 0 && count >= 2) || (start == 1 && count >= 3);
}

/* A header names columns: somewhere it has text where the row below has a number, or, without any
 * number of its own, where a value is missing below. A first line of numbers is data, and so is one
 * with text only where the second line has text too. */
static bool is_header(const fields *first, const fields *second) {
    bool text = false, number = false, over_number = false, over_missing = false;
    for (size_t i = 0; i < first->count; i++) {
        bool below = i < second->count, named = is_text(first, i);
        text = text || named;
        number = number || first->numbers[i];
        over_number = over_number || (named && below && second->numbers[i]);
        over_missing = over_missing || (named && below && td__csv_is_missing(second->texts[i]));
    }
    return second->count == 0 ? text : over_number || (over_missing && !number);
}

static int64_t line_ends(const char *from, const char *end) {
    int64_t count = 0;
    for (; from < end; from++) {
        count += *from == '\n';
    }
    return count;
}

/* Both first records, the second of which may be missing. Leaves csv->line at the record it was
 * reading, for messages; start receives the first record's. */
static td__csv_outcome read_beginning(td__csv *csv, fields *first, fields *second, char **behind,
                                      int64_t *start) {
    td__csv_outcome outcome = td__csv_skip_empty(csv, &csv->next, &csv->line);
    *start = csv->line;
    if (outcome == TD__CSV_RECORD) {
        outcome = read_fields(csv, csv->next, first, behind);
    }
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    char *second_start = *behind, *unused;
    csv->line += line_ends(csv->next, *behind);
    outcome = td__csv_skip_empty(csv, &second_start, &csv->line);
    if (outcome == TD__CSV_RECORD) {
        outcome = read_fields(csv, second_start, second, &unused);
    }
    return outcome == TD__CSV_END ? TD__CSV_RECORD : outcome;
}

/* ---- Separator ------------------------------------------------------------------------------- */

/* How likely it is that a record was split where it should be: the share of numbers, with a decimal
 * comma too where commas do not separate. Below 0 when it was not split, or not as the other. */
static double likelihood(const fields *f, const fields *other) {
    size_t numbers = 0;
    for (size_t i = 0; i < f->count; i++) {
        numbers += f->numbers[i];
    }
    bool split = f->count > 1 && (other->count == 0 || other->count == f->count);
    return split ? (double)numbers / (double)f->count : -1;
}

static void set_separator(td__csv *csv, char separator) {
    csv->separator = separator;
    csv->blank = separator == '\t' ? ' ' : '\t';
}

/* The separator that gives both first records equally many cells, and most numbers among them; a
 * comma when nothing speaks against it. Reads both records. */
static td__csv_outcome find_separator(td__csv *csv, fields *first, fields *second, char **behind,
                                      int64_t *start) {
    static const char candidates[] = {',', ';', '\t', '|'};
    char given = csv->options->separator, best = given ? given : ',';
    double max = -1;
    int64_t line = csv->line;
    for (size_t i = 0; !given && i < sizeof candidates; i++) {
        td_error *error = csv->error,
                 ignored; /* what one candidate makes of it is nobody's error */
        csv->error = &ignored;
        set_separator(csv, candidates[i]);
        td__csv_outcome outcome = read_beginning(csv, first, second, behind, start);
        csv->error = error;
        if (outcome == TD__CSV_INCOMPLETE || outcome == TD__CSV_END) {
            return outcome;
        }
        double likely = outcome == TD__CSV_RECORD ? likelihood(second->count ? second : first,
                                                               second->count ? first : second)
                                                  : -1;
        if (likely > max) {
            max = likely;
            best = candidates[i];
        }
        release_fields(first);
        release_fields(second);
        csv->line = line;
        csv->status = TD_OK;
    }
    set_separator(csv, best);
    return read_beginning(csv, first, second, behind, start);
}

/* ---- Header ---------------------------------------------------------------------------------- */

/* Decides on the header and takes it, so that next is the first row of data. */
static td_status take_header(td__csv *csv, fields *first, const fields *second, char *behind) {
    td_header wanted = csv->options->header;
    bool header = wanted == TD_HEADER_YES ||
                  (wanted == TD_HEADER_AUTO && (is_header(first, second) || is_named(csv, first)));
    bool known = wanted != TD_HEADER_AUTO || header || (csv->inputs.count && !csv->surveyed);
    if (!known && counts_columns(first, second)) {
        return csv->status = td_error_set(
                   csv->error, TD_INVALID,
                   "%s: is its first line (%s, %s%s) a header or the first example? `header: true` "
                   "or `header: false` decides",
                   csv->path, first->texts[0], first->texts[1], first->count > 2 ? ", …" : "");
    }
    csv->column_count = (int64_t)first->count;
    if (header) {
        csv->names = first->texts;
        first->texts = NULL;
        first->count = 0;
        csv->line += line_ends(csv->next, behind);
        csv->next = behind;
    }
    const fields *data = header ? second : first;
    return td__csv_assign(csv, data->texts, data->numbers, data->count);
}

td_status td__csv_start(td__csv *csv) {
    csv->path = td__input_title(csv->input);
    csv->line = 1;
    csv->capacity = csv->capacity ? csv->capacity : TD__CSV_BUFFER;
    fields first = {0}, second = {0};
    char *behind = NULL;
    int64_t start = 1;
    td__csv_outcome outcome = td__csv_fill(csv);
    if (outcome != TD__CSV_FAILED) {
        if (csv->end - csv->next >= 3 && memcmp(csv->next, "\xEF\xBB\xBF", 3) == 0) {
            csv->next += 3;
        }
        while ((outcome = find_separator(csv, &first, &second, &behind, &start)) ==
               TD__CSV_INCOMPLETE) {
            release_fields(&first);
            release_fields(&second);
            if (td__csv_fill(csv) == TD__CSV_FAILED) {
                outcome = TD__CSV_FAILED;
                break;
            }
            csv->line = start;
        }
    }
    if (outcome == TD__CSV_END) {
        csv->status = td_error_set(csv->error, TD_FORMAT, "%s is empty", csv->path);
    } else if (outcome == TD__CSV_RECORD) {
        csv->line = start;
        csv->status = take_header(csv, &first, &second, behind);
    }
    release_fields(&first);
    release_fields(&second);
    return csv->status;
}

void td__csv_release(td__csv *csv) {
    for (int64_t i = 0; csv->names && i < csv->column_count; i++) {
        td__free(csv->names[i]);
    }
    td__free(csv->names);
    td__free(csv->columns);
    td__free(csv->values);
    td__free(csv->buffer);
    td__names_release(&csv->classes);
    td__names_release(&csv->groups);
    for (size_t i = 0; i < csv->path_count; i++) {
        td__free(csv->paths[i]);
    }
    td__free(csv->paths);
    td__names_release(&csv->input_names);
    td__names_release(&csv->label_names);
    td__names_release(&csv->remarks);
    td__csv_release_expansions(csv);
    *csv = (td__csv){0};
}
