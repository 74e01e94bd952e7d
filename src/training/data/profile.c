/* Reads every cell of a CSV file and counts what each column holds. */
#include "data/profile.h"
#include "base/memory.h"
#include "data/csv.h"
#include "data/date.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Different texts that are kept of all columns together, so that wide files take bounded memory. */
#define ALL_VALUES ((size_t)1 << 20)

static void add_date(td__column_profile *column, const char *text) {
    td__date date;
    if (td__date_read(&date, text)) {
        column->dates++;
        column->dates_open = column->dates_open || date.open;
        column->day_above = column->day_above || (date.open && date.day > 12);
        column->month_above = column->month_above || (date.open && date.month > 12);
    }
}

static bool is_image_name(const char *text) {
    static const char *const endings[] = {".png",  ".jpg", ".jpeg", ".bmp",
                                          ".webp", ".tif", ".tiff"};
    const char *dot = strrchr(text, '.');
    bool is = false;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        is = is || strcasecmp(dot, endings[i]) == 0;
    }
    return is;
}

static int64_t count_words(const char *text) {
    int64_t count = 0;
    for (const char *c = text; *c; c += *c != 0) {
        c += strspn(c, " \t\r\n");
        count += *c != 0;
        c += strcspn(c, " \t\r\n");
    }
    return count;
}

static bool add_value(td__column_profile *column, const char *text, size_t *kept) {
    if (column->many || td__names_find(&column->values, text) >= 0) {
        return true;
    }
    column->many = column->values.count >= TD__PROFILE_VALUES || *kept >= ALL_VALUES;
    *kept += !column->many;
    return column->many || td__names_add(&column->values, text) >= 0;
}

static bool add_cell(td__column_profile *column, const td__csv_cell *cell, size_t *kept) {
    char text[TD__NAME_LENGTH_MAXIMUM + 1];
    float value;
    column->cut = !td__csv_name(cell, text, sizeof text) || column->cut;
    if (td__csv_is_missing(text)) {
        column->missing++;
        return true;
    }
    if (td__csv_is_number(cell, &value) && isfinite(value)) {
        bool first = column->numbers++ == 0;
        column->whole += value == floorf(value);
        column->counted += !first && value == column->last + 1;
        column->min = first || value < column->min ? value : column->min;
        column->max = first || value > column->max ? value : column->max;
        column->last = value;
    } else {
        add_date(column, text);
        column->words += count_words(text);
        column->images += is_image_name(text);
        column->commas += td__csv_find_comma(text) != TD__COMMA_NONE;
        if (!column->text && !(column->text = td__strdup(text))) {
            return false;
        }
    }
    if (!column->first && !(column->first = td__strdup(text))) {
        return false;
    }
    return add_value(column, text, kept);
}

/* The record at csv->next; RECORD, or why not. Cells are counted once the record is whole. */
static td__csv_outcome read_record(td__csv *csv, td__profile *profile, size_t *kept) {
    td__csv_cell cell = {.behind = csv->next - 1};
    for (int pass = 0; pass < 2; pass++) {
        int64_t column = 0;
        cell.behind = csv->next - 1;
        do {
            td__csv_outcome outcome = td__csv_scan(csv, cell.behind + 1, &cell);
            if (outcome != TD__CSV_RECORD) {
                return outcome;
            }
            if (pass && !add_cell(&profile->columns[column], &cell, kept)) {
                return td__csv_fail(csv, TD_MEMORY, "%s: no memory", csv->path);
            }
            column++;
        } while (*cell.behind == csv->separator && column < csv->column_count);
        if (column != csv->column_count || *cell.behind == csv->separator) {
            return td__csv_fail(csv, TD_FORMAT,
                                "%s line %lld (row %lld): not the %lld fields that the first line "
                                "has",
                                csv->path, (long long)csv->line, (long long)profile->rows + 1,
                                (long long)csv->column_count);
        }
    }
    char *behind = td__csv_behind_line(csv, cell.behind);
    for (const char *c = csv->next; c < behind; c++) {
        csv->line += *c == '\n';
    }
    csv->next = behind;
    profile->rows++;
    return TD__CSV_RECORD;
}

static td_status read_profile_rows(td__csv *csv, td__profile *profile) {
    size_t kept = 0;
    for (;;) {
        td__csv_outcome outcome = td__csv_skip_empty(csv, &csv->next, &csv->line);
        outcome = outcome == TD__CSV_RECORD ? read_record(csv, profile, &kept) : outcome;
        outcome = outcome == TD__CSV_INCOMPLETE ? td__csv_fill(csv) : outcome;
        if (outcome != TD__CSV_RECORD) {
            return outcome == TD__CSV_END ? TD_OK : csv->status;
        }
    }
}

static td_status name_columns(const td__csv *csv, td__profile *profile, td_error *error) {
    profile->has_header = csv->names != NULL;
    profile->column_count = csv->column_count;
    profile->columns = td__calloc((size_t)csv->column_count, sizeof *profile->columns);
    bool good = profile->columns != NULL;
    for (int64_t i = 0; good && i < csv->column_count; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%lld", (long long)i);
        profile->columns[i].name = td__strdup(csv->names ? csv->names[i] : number);
        good = profile->columns[i].name != NULL;
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "%s: no memory", csv->path);
}

static td_status read_profile(td__profile *profile, td__input *input, const char *label,
                              td_header header, td_error *error) {
    const td_data_options *options =
        TD_DATA(.header = header, .label = {&label, label != NULL && header != TD_HEADER_NO});
    td__csv csv = {.options = options, .input = input, .error = error, .survey = true};
    td_status status = td__csv_start(&csv);
    status = status ? status : name_columns(&csv, profile, error);
    status = status ? status : read_profile_rows(&csv, profile);
    if (!status && !profile->rows) {
        status = td_error_set(error, TD_FORMAT, "%s has a header and no rows", csv.path);
    }
    td__csv_release(&csv);
    return status;
}

/* Whether the names of a profile read with a header are that: texts that their columns, each of
 * which repeats its own, do not have. */
static bool has_names(const td__profile *profile) {
    bool repeats = false;
    for (int64_t i = 0; i < profile->column_count; i++) {
        const td__column_profile *column = &profile->columns[i];
        bool number = column->name[0] && !column->name[strspn(column->name, "0123456789.+-eE")];
        if (number || td__names_find(&column->values, column->name) >= 0) {
            return false;
        }
        repeats = repeats || (!column->many && (int64_t)column->values.count * 2 <= profile->rows);
    }
    return repeats;
}

td_status td__profile_csv(td__profile *profile, td__input *input, const char *label,
                          td_error *error) {
    td_status status = read_profile(profile, input, label, TD_HEADER_AUTO, error);
    if (status || profile->has_header || profile->rows < 2) {
        return status;
    }
    td__profile named = {0};
    status = td__input_rewind(input, error);
    status = status ? status : read_profile(&named, input, label, TD_HEADER_YES, error);
    bool better = !status && has_names(&named);
    td__profile_release(better ? profile : &named);
    *profile = better ? named : *profile;
    return status;
}

void td__profile_release(td__profile *profile) {
    for (int64_t i = 0; profile->columns && i < profile->column_count; i++) {
        td__free(profile->columns[i].name);
        td__free(profile->columns[i].first);
        td__free(profile->columns[i].text);
        td__names_release(&profile->columns[i].values);
    }
    td__free(profile->columns);
    *profile = (td__profile){0};
}
