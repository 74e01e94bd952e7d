/* Which file a record's lines go into; see csv_tables.h. */
#include "sink/csv_tables.h"

#include "base/memory.h"
#include "deck/reach.h"
#include "sink/text.h"

#include <stdio.h>
#include <string.h>

/* SIGNAL.csv is kept for this form. */
typedef struct claim {
    struct claim *next;
    td_form form;
    char signal[];
} claim;

td__csv_table **td__csv_tables_of(td__csv_tables *tables, const td_record *record,
                                  td_error *error) {
    if (!td__signals_reach(&tables->signals, &tables->signal_count, record->signal_index,
                           sizeof *tables->signals)) {
        td_error_set(error, TD_MEMORY, "csv: out of memory");
        return NULL;
    }
    return &tables->signals[record->signal_index];
}

static const claim *find_claim(const td__csv_tables *tables, const char *signal) {
    const claim *found = tables->claims;
    while (found && strcmp(found->signal, signal) != 0) {
        found = found->next;
    }
    return found;
}

/* SIGNAL.csv where that is free, then SIGNAL@FORM.csv; for rows SIGNAL@WIDTH.csv and, when only
 * the labels differ, SIGNAL@WIDTH-LABELS.csv; for wider batches SIGNAL@batch-WIDTH.csv. False when
 * there is no further name to try. */
static bool table_name(char *out, size_t size, const char *signal, const td__csv_table *wanted,
                       int attempt) {
    char name[TD__SIGNAL_FILE_SIZE], word[48] = "";
    bool rows = wanted->form == TD_ROWS, batch = wanted->form == TD_BATCH;
    bool predictions = wanted->labels >= 0 && strcmp(signal, "prediction") == 0;
    if (attempt == 0 && wanted->form == TD_HISTOGRAM) {
        return table_name(out, size, signal, wanted, 1); /* always beside another form */
    }
    if (attempt == 1 && rows) {
        snprintf(word, sizeof word, "@%lld", (long long)wanted->columns);
    } else if (attempt == 1) {
        snprintf(word, sizeof word, "@%s", td_form_name(wanted->form));
    } else if (attempt == 2 && batch) {
        snprintf(word, sizeof word, "@batch-%lld", (long long)wanted->columns);
    } else if (attempt == 2) {
        snprintf(word, sizeof word, "@%lld-%lld", (long long)wanted->columns,
                 (long long)wanted->labels);
    }
    snprintf(out, size, "%s%s.csv", predictions ? "predictions" : td__signal_file(name, signal),
             word);
    return attempt < (wanted->labels >= 0 || batch ? 3 : 2);
}

td_status td__csv_table_add(td__csv_tables *tables, const td_record *record, td__csv_table **signal,
                            const td__csv_table *wanted, const char *header, size_t size,
                            td__csv_table **found, td_error *error) {
    char name[TD__SIGNAL_FILE_SIZE + 52];
    td__csv_table *added = td__calloc(1, sizeof *added);
    if (!added) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    *added = *wanted;
    const claim *claimed = find_claim(tables, record->signal);
    td_status status = TD_EXISTS;
    for (int attempt = claimed && claimed->form != wanted->form;
         status == TD_EXISTS && table_name(name, sizeof name, record->signal, wanted, attempt);
         attempt++) {
        status =
            td__append_open(tables->set, name, TD__APPEND_LINES, header, size, &added->file, error);
    }
    if (status) {
        td__free(added);
        return status;
    }
    added->next = *signal;
    *signal = added;
    *found = added;
    return TD_OK;
}

td__csv_table *td__csv_table_find(td__csv_table *list, const td__csv_table *wanted) {
    while (list && (list->form != wanted->form || list->columns != wanted->columns ||
                    list->labels != wanted->labels)) {
        list = list->next;
    }
    return list;
}

bool td__csv_is_claimed(const td__csv_tables *tables, const char *signal) {
    return find_claim(tables, signal) != NULL;
}

td_status td__csv_claim(td__csv_tables *tables, const char *signal, uint32_t forms,
                        td_error *error) {
    static const td_form kept_for[] = {TD_ROWS, TD_BATCH, TD_LONG, TD_UNITS, TD_STATS};
    size_t i = 0, length = strlen(signal) + 1;
    while (i < sizeof kept_for / sizeof *kept_for && !(forms & kept_for[i])) {
        i++;
    }
    if (i == sizeof kept_for / sizeof *kept_for || find_claim(tables, signal)) {
        return TD_OK;
    }
    claim *made = td__calloc(1, sizeof *made + length);
    if (!made) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    made->form = kept_for[i];
    memcpy(made->signal, signal, length);
    made->next = tables->claims;
    tables->claims = made;
    return TD_OK;
}

void td__csv_tables_release(td__csv_tables *tables) {
    for (size_t i = 0; i < tables->signal_count; i++) {
        for (td__csv_table *next, *t = tables->signals[i]; t; t = next) {
            next = t->next;
            td__free(t);
        }
    }
    for (claim *next, *c = tables->claims; c; c = next) {
        next = c->next;
        td__free(c);
    }
    td__free(tables->signals);
}
