#include "store/changes.h"

#include "base/memory.h"
#include "store/schema.h"

#include <string.h>

enum { MAX_SIGNALS = 1 << 24 };

void td__changes_init(td__changes *changes) {
    *changes = (td__changes){.all = true};
    pthread_mutex_init(&changes->lock, NULL);
}

void td__changes_release(td__changes *changes) {
    for (int i = 0; i < TD__TABLES; i++) {
        td__free(changes->steps[i]);
    }
    pthread_mutex_destroy(&changes->lock);
}

/* Tables whose rows are by signal and step, and that of steps alone. */
static bool has_steps(td__store_table table) {
    return (table >= TD__STEP_ROW && table <= TD__HISTOGRAM_ROW && table != TD__SUMMARY_ROW) ||
           table == TD__EXAMPLE_ROW || table == TD__HASH_ROW || table == TD__TEXT_ROW;
}

static void note_step(td__changes *changes, td__store_table table, int64_t signal, int64_t step) {
    size_t before = changes->counts[table];
    changes->tables[table] = true;
    if (signal < 0 || signal >= MAX_SIGNALS ||
        !td__grow(&changes->steps[table], &changes->capacities[table], (size_t)signal + 1,
                  MAX_SIGNALS, sizeof **changes->steps)) {
        changes->all = true;
        return;
    }
    for (size_t i = before; i <= (size_t)signal; i++) {
        changes->steps[table][i] = TD__NO_STEP;
    }
    changes->counts[table] = before > (size_t)signal ? before : (size_t)signal + 1;
    int64_t *at = &changes->steps[table][signal];
    *at = step < *at ? step : *at;
}

/* Where the values of a row end. */
static const uint8_t *skip_values(const uint8_t *at, const char *types) {
    for (; *types; types++) {
        int64_t length;
        if (*types == 'n') {
            continue;
        }
        memcpy(&length, at, sizeof length);
        at += sizeof length;
        at += (*types == 't' || *types == 'b') && length > 0 ? length : 0;
    }
    return at;
}

void td__changes_note(td__changes *changes, const uint8_t *rows, size_t size) {
    pthread_mutex_lock(&changes->lock);
    for (const uint8_t *at = rows; at < rows + size;) {
        int number = *at++;
        if (number >= TD__TABLES) { /* emptied */
            changes->tables[number - TD__TABLES] = true;
            changes->all |= has_steps((td__store_table)(number - TD__TABLES));
            continue;
        }
        td__store_table table = (td__store_table)number;
        int64_t values[2];
        if (has_steps(table)) {
            memcpy(values, at, sizeof values);
            bool steps = table == TD__STEP_ROW;
            note_step(changes, table, steps ? 0 : values[0], values[steps ? 0 : 1]);
        }
        changes->tables[table] = true;
        at = skip_values(at, td__tables[table].types);
        changes->rows++;
    }
    pthread_mutex_unlock(&changes->lock);
}

void td__changes_take(td__changes *changes, td__changes *taken) {
    pthread_mutex_lock(&changes->lock);
    taken->all = changes->all;
    taken->rows = changes->rows;
    memcpy(taken->tables, changes->tables, sizeof taken->tables);
    memcpy(taken->steps, changes->steps, sizeof taken->steps);
    memcpy(taken->counts, changes->counts, sizeof taken->counts);
    memcpy(taken->capacities, changes->capacities, sizeof taken->capacities);
    changes->all = false;
    memset(changes->tables, 0, sizeof changes->tables);
    memset(changes->steps, 0, sizeof changes->steps);
    memset(changes->counts, 0, sizeof changes->counts);
    memset(changes->capacities, 0, sizeof changes->capacities);
    pthread_mutex_unlock(&changes->lock);
}

void td__changes_return(td__changes *changes, td__changes *taken) {
    pthread_mutex_lock(&changes->lock);
    changes->all |= taken->all;
    for (int i = 0; i < TD__TABLES; i++) {
        changes->tables[i] |= taken->tables[i];
        for (size_t k = 0; k < taken->counts[i]; k++) {
            if (taken->steps[i][k] != TD__NO_STEP) {
                note_step(changes, (td__store_table)i, (int64_t)k, taken->steps[i][k]);
            }
        }
    }
    pthread_mutex_unlock(&changes->lock);
}

bool td__changes_any(td__changes *changes) {
    pthread_mutex_lock(&changes->lock);
    bool any = changes->all;
    for (int i = 0; i < TD__TABLES; i++) {
        any |= changes->tables[i];
    }
    pthread_mutex_unlock(&changes->lock);
    return any;
}
