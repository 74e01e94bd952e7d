/* Columns that become several inputs: of a category COLUMN an input COLUMN=TEXT for each of its texts, of a text
 * COLUMN[0], COLUMN[1], …, of a date COLUMN.year, COLUMN.month, …. A survey finds how many; afterwards the names of the inputs say all of it. */
#include "base/memory.h"
#include "data/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = TD__NAME_LENGTH_MAXIMUM + 1 };

/* The columns of options that become several inputs, of each kind; what stands behind their names. */
size_t td__csv_expansion_count(const td_data_options *options) {
    return options->categories.count + options->text.count + options->dates.count;
}

td__csv_expansion td__csv_expansion_at(const td_data_options *options, size_t i) {
    size_t categories = options->categories.count;
    if (i < categories) {
        return (td__csv_expansion){TD__CSV_CATEGORY, (int32_t)i, options->categories.items[i], '='};
    }
    i -= categories;
    if (i >= options->text.count) {
        i -= options->text.count;
        return (td__csv_expansion){TD__CSV_DATE, (int32_t)i, options->dates.items[i].column, '.'};
    }
    return (td__csv_expansion){TD__CSV_TEXT, (int32_t)i, options->text.items[i].column, '['};
}

/* Whether an input's name can end so: a file may have columns `when` and `when.spent`. */
static bool is_made_of(td__csv_use use, const char *rest) {
    size_t digits = strspn(rest, "0123456789");
    return use == TD__CSV_CATEGORY ||
           (use == TD__CSV_DATE ? td__date_part(rest) >= 0
                                : digits > 0 && strcmp(rest + digits, "]") == 0);
}

ptrdiff_t td__csv_expansion_of(const td_data_options *options, const char *input,
                               const char **rest) {
    for (size_t i = 0; i < td__csv_expansion_count(options); i++) {
        td__csv_expansion one = td__csv_expansion_at(options, i);
        size_t length = strlen(one.column);
        if (strncmp(input, one.column, length) == 0 && input[length] == one.mark &&
            is_made_of(one.use, input + length + 1)) {
            *rest = input + length + 1;
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

bool td__csv_take_input(td__csv *csv, size_t i, const char *rest, bool first) {
    td__csv_expansion one = td__csv_expansion_at(csv->options, i);
    if (one.use == TD__CSV_CATEGORY) {
        td__names *texts = &csv->categories[one.index];
        size_t before = texts->count;
        return td__names_add(texts, rest) == (int64_t)before && first == (before == 0);
    }
    if (one.use == TD__CSV_DATE) {
        td__date_column *date = &csv->dates[one.index];
        int part = td__date_part(rest);
        if (part < 0 || first != (date->part_count == 0) ||
            date->part_count == TD__DATE_PARTS_MAXIMUM) {
            return false;
        }
        date->parts[date->part_count++] = part;
        return true;
    }
    int64_t *length = &csv->texts[one.index].how.length;
    char expected[24];
    *length = first ? 0 : *length;
    (void)snprintf(expected, sizeof expected, "%lld]", (long long)*length);
    return strcmp(rest, expected) == 0 && (*length)++ < TD__TEXT_LENGTH_MAXIMUM;
}

/* Keeps its own copy of what the options say: rows are parsed when these may be gone. */
bool td__csv_make_expansions(td__csv *csv) {
    const td_texts *texts = &csv->options->text;
    csv->categories = td__calloc(csv->options->categories.count + 1, sizeof *csv->categories);
    csv->texts = td__calloc(texts->count + 1, sizeof *csv->texts);
    for (size_t i = 0; csv->texts && i < texts->count; i++) {
        csv->texts[i].how = texts->items[i];
        csv->texts[i].words = csv->words && csv->words[i].count ? &csv->words[i] : NULL;
        csv->text_count++;
    }
    const td_dates *dates = &csv->options->dates;
    csv->dates = td__calloc(dates->count + 1, sizeof *csv->dates);
    for (size_t i = 0; csv->dates && i < dates->count; i++) {
        td__date_column *date = &csv->dates[i];
        date->how = csv->known_dates ? csv->known_dates[i] : dates->items[i];
        date->earliest[0] = date->earliest[1] = INFINITY;
        csv->date_count++;
    }
    return csv->categories && csv->texts && csv->dates;
}

void td__csv_release_expansions(td__csv *csv) {
    for (size_t i = 0; csv->categories && i < csv->options->categories.count; i++) {
        td__names_release(&csv->categories[i]);
    }
    for (size_t i = 0; i < csv->text_count; i++) {
        td__text_release(&csv->texts[i]);
    }
    td__free(csv->categories);
    td__free(csv->texts);
    td__free(csv->dates);
}

/* ---- A survey -------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds an input for each text of a category, in alphabetical order. */
static bool name_category(td__names *inputs, const char *column, td__names *texts) {
    char name[2 * NAME_SIZE];
    if (texts->count) {
        qsort(texts->items, texts->count, sizeof *texts->items, by_text);
    }
    bool room = true;
    for (size_t i = 0; room && i < texts->count; i++) {
        snprintf(name, sizeof name, "%s=%s", column, texts->items[i]);
        room = td__names_add(inputs, name) == (int64_t)inputs->count - 1;
    }
    return room;
}

/* How many ids a text gets: as many as were asked for, or as the longest has. */
static int64_t choose_length(const td__text_column *text) {
    int64_t longest = text->longest ? text->longest : 1;
    return text->how.length                    ? text->how.length
           : longest < TD__TEXT_LENGTH_GUESSED ? longest
                                               : TD__TEXT_LENGTH_GUESSED;
}

static bool name_text(td__names *inputs, const char *column, const td__text_column *text) {
    char name[NAME_SIZE + 24];
    bool room = true;
    int64_t length = choose_length(text);
    for (int64_t i = 0; room && i < length; i++) {
        snprintf(name, sizeof name, "%s[%lld]", column, (long long)i);
        room = td__names_add(inputs, name) == (int64_t)inputs->count - 1;
    }
    return room;
}

static bool name_date(td__names *inputs, const td_date *how, bool has_times) {
    char name[NAME_SIZE + 32];
    bool room = true;
    for (size_t i = 0; room && i < how->parts.count; i++) {
        snprintf(name, sizeof name, "%s.%s", how->column, how->parts.items[i]);
        room = td__names_add(inputs, name) == (int64_t)inputs->count - 1;
    }
    for (int i = 0; room && !how->parts.count && td__date_part_name(i); i++) {
        snprintf(name, sizeof name, "%s.%s", how->column, td__date_part_name(i));
        room = !td__date_part_is_default(i, has_times) ||
               td__names_add(inputs, name) == (int64_t)inputs->count - 1;
    }
    return room;
}

/* A name that occurs again becomes NAME.1, NAME.2, …, as pandas has it. */
bool td__csv_add_unique(td__names *names, const char *name) {
    char text[NAME_SIZE + 24];
    snprintf(text, sizeof text, "%s", name);
    for (int again = 1; td__names_find(names, text) >= 0; again++) {
        snprintf(text, sizeof text, "%s.%d", name, again);
    }
    return td__names_add(names, text) >= 0;
}

static bool name_column(td__csv *csv, int64_t column, const char *name, td__names *inputs) {
    const td__csv_column *c = &csv->columns[column];
    return c->use == TD__CSV_SKIPPED    ? td__csv_add_unique(inputs, name)
           : c->use == TD__CSV_CATEGORY ? name_category(inputs, name, &csv->categories[c->category])
           : c->use == TD__CSV_TEXT     ? name_text(inputs, name, &csv->texts[c->category])
           : c->use == TD__CSV_DATE     ? name_date(inputs, &csv->options->dates.items[c->category],
                                                    csv->dates[c->category].has_times)
                                        : true;
}

/* The vocabularies that are not given. */
static td_status settle_texts(td__csv *csv, td__names *words, td_error *error) {
    for (size_t i = 0; i < csv->text_count; i++) {
        td__text_column *text = &csv->texts[i];
        if (text->words || text->how.tokens == TD_TOKENS_BYTES) {
            words[i] = (td__names){0};
            continue;
        }
        if (!td__text_settle(text, &words[i])) {
            return td_error_set(error, TD_MEMORY, "%s: no memory for a vocabulary", csv->path);
        }
        if (!words[i].count) {
            return td_error_set(error, TD_FORMAT,
                                "%s, column '%.60s': no token is in its vocabulary: its %lld texts "
                                "have %lld tokens, %zu different ones (see min_count)",
                                csv->path, csv->options->text.items[i].column,
                                (long long)text->texts, (long long)text->tokens, text->found.count);
        }
    }
    return TD_OK;
}

/* What was left open of the columns of dates. */
static td_status settle_dates(const td__csv *csv, td_date *dates, td_error *error) {
    for (size_t i = 0; i < csv->date_count; i++) {
        const td__date_column *c = &csv->dates[i];
        const char *name = csv->options->dates.items[i].column;
        td_date *known = &dates[i];
        *known = c->how;
        if (known->order == TD_DATE_ORDER_AUTO && c->is_open) {
            if (c->first_above == c->second_above) {
                return td_error_set(
                    error, TD_FORMAT,
                    c->first_above
                        ? "%s, column '%.60s': some dates have the day first, others "
                          "the month; write them as 2024-05-31"
                        : "%s, column '%.60s': do its dates have the day first (31/5/2024) or "
                          "the month (5/31/2024)? none shows it; `order: day_first` or "
                          "`order: month_first` decides",
                    csv->path, name);
            }
            known->order = c->first_above ? TD_DATE_DAY_FIRST : TD_DATE_MONTH_FIRST;
        }
        double earliest = c->earliest[known->order == TD_DATE_MONTH_FIRST];
        if (!known->has_since) {
            known->has_since = true;
            known->since = isfinite(earliest) ? (int64_t)floor(earliest / 86400) * 86400 : 0;
        }
    }
    return TD_OK;
}

td_status td__csv_survey(const td__csv *like, bool together, td__names *inputs, td__names *words,
                         td_date *dates) {
    td__csv csv = *like;
    td__csv_part part = {0};
    td_error *error = like->error;
    csv.survey = true;
    td_status status =
        together ? td__csv_parse_part(&csv, NULL, &part, error) : td__csv_start(&csv);
    status = status || together ? status : td__csv_parse(&csv, NULL);
    for (int64_t i = 0; !status && i < csv.column_count; i++) {
        char number[NAME_SIZE];
        const char *name = td__csv_column_name(&csv, i, number), *rest;
        ptrdiff_t clash = csv.columns[i].use == TD__CSV_SKIPPED
                              ? td__csv_expansion_of(csv.options, name, &rest)
                              : -1;
        if (clash >= 0 &&
            td__csv_expansion_at(csv.options, (size_t)clash).use != TD__CSV_CATEGORY) {
            status = td_error_set(error, TD_FORMAT,
                                  "%s: column '%.60s' is called as an input that column '%.60s' "
                                  "becomes; rename it, or list it in `ignore`",
                                  csv.path, name,
                                  td__csv_expansion_at(csv.options, (size_t)clash).column);
        } else if (!name_column(&csv, i, name, inputs)) {
            status = td_error_set(error, TD_RANGE,
                                  "%s: no memory, more than %d inputs, or two of one name with "
                                  "those of '%s'",
                                  csv.path, TD__NAMES_MAXIMUM, name);
        }
    }
    status = status ? status : settle_texts(&csv, words, error);
    status = status ? status : settle_dates(&csv, dates, error);
    td__csv_release(&csv);
    return status;
}

/* ---- Chosen columns -------------------------------------------------------------------------- */

const char *td__csv_base(const td_data_options *options, const char *input) {
    const char *rest;
    ptrdiff_t i = td__csv_expansion_of(options, input, &rest);
    return i < 0 ? input : td__csv_expansion_at(options, (size_t)i).column;
}

bool td__csv_expand(const td_data_options *options, const td__names *found, const char *column,
                    td__names *inputs) {
    bool room = true, any = false;
    for (size_t i = 0; room && i < found->count; i++) {
        if (strcmp(td__csv_base(options, found->items[i]), column) == 0) {
            room = td__names_add(inputs, found->items[i]) >= 0;
            any = true;
        }
    }
    return room && (any || td__names_add(inputs, column) >= 0); /* reported as missing later */
}

/* ---- Remarks --------------------------------------------------------------------------------- */

td_status td__csv_remark_cells(td__csv *csv) {
    for (size_t i = 0; i < csv->date_count; i++) {
        const td__date_column *date = &csv->dates[i];
        char text[500];
        (void)snprintf(
            text, sizeof text,
            "%.300s, column '%.60s': %lld of %lld dates have no time zone; they are taken as "
            "UTC, as the others are",
            csv->path, csv->options->dates.items[i].column, (long long)date->plain,
            (long long)(date->plain + date->zoned));
        if (date->zoned && date->plain && td__names_add(&csv->remarks, text) < 0) {
            return csv->status = td_error_set(csv->error, TD_MEMORY, "%s: no memory", csv->path);
        }
    }
    for (size_t i = 0; i < csv->text_count; i++) {
        char text[1024];
        if (td__text_remark(&csv->texts[i], csv->path, csv->options->text.items[i].column, text,
                            sizeof text) &&
            td__names_add(&csv->remarks, text) < 0) {
            return csv->status = td_error_set(csv->error, TD_MEMORY, "%s: no memory", csv->path);
        }
    }
    return TD_OK;
}
