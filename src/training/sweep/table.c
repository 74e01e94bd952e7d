/* table.csv: all trials, the best first. */
#include "base/folder.h"
#include "base/memory.h"
#include "base/number.h"
#include "sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In quotes where RFC 4180 asks for them. */
static void put_field(FILE *out, const char *text) {
    bool quote = text[strcspn(text, ",\"\r\n")];
    (void)fputs(quote ? "\"" : "", out);
    for (const char *c = text; *c; c++) {
        (void)fputs(*c == '"' ? "\"\"" : (char[]){*c, 0}, out);
    }
    (void)fputs(quote ? "\"" : "", out);
}

static void put_trial(FILE *out, const td_sweep *sweep, size_t rank, size_t index) {
    td_sweep_trial trial;
    char number[TD__NUMBER_ROOM] = "";
    if (!td_sweep_trial_at(sweep, index, &trial)) {
        return;
    }
    (void)fprintf(out, "%zu,%s", rank, trial.name);
    for (size_t i = 0; i < sweep->key_count; i++) {
        (void)fputc(',', out);
        put_field(out, trial.values[i]);
    }
    if (!isnan(trial.best)) {
        number[td__format_value(number, trial.best)] = 0;
    }
    (void)fprintf(out, ",%lld,", (long long)trial.epochs);
    if (trial.best_epoch) {
        (void)fprintf(out, "%lld", (long long)trial.best_epoch);
    }
    (void)fprintf(out, ",%s,%s\n", number, trial.state);
}

typedef struct text {
    char *bytes;
    size_t size;
} text;

static td_status write_text(void *context, int file, td_error *error) {
    const text *t = context;
    return td__write_all(file, t->bytes, t->size, 0) ? TD_OK
                                                     : td_error_set(error, TD_IO, "a write failed");
}

td_status td_sweep_write_table(const td_sweep *sweep, td_error *error) {
    text t = {0};
    char path[TD__SWEEP_PATH + 16];
    size_t *order = td__calloc(sweep->trial_count, sizeof *order);
    FILE *out = open_memstream(&t.bytes, &t.size);
    bool good = order && out;
    if (good) {
        td_sweep_rank(sweep, order);
        (void)fputs("rank,trial", out);
        for (size_t i = 0; i < sweep->key_count; i++) {
            (void)fputc(',', out);
            put_field(out, sweep->keys[i]);
        }
        (void)fputs(",epochs,best_epoch,", out);
        put_field(out, sweep->facts.metric);
        (void)fputs(",state\n", out);
        for (size_t i = 0; i < sweep->trial_count; i++) {
            put_trial(out, sweep, i + 1, order[i]);
        }
    }
    good = (!out || fclose(out) == 0) && good;
    (void)snprintf(path, sizeof path, "%s/table.csv", sweep->folder);
    td_status status = good ? td__draft_write(path, false, write_text, &t, error)
                            : td_error_set(error, TD_MEMORY, "out of memory");
    free(t.bytes);
    td__free(order);
    return status;
}
