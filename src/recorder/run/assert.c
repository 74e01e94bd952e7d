/* A condition judged on a whole run: its steps are gone through as a deck would, and the condition is
 * asked at the end. */
#include "base/memory.h"
#include "deck/condition.h"
#include "run/run.h"

#include <string.h>

typedef struct judging {
    td__condition *condition;
    td_signal *signals; /* one for each of the run's */
    bool *computed;     /* those whose statistics are computed from their tensors */
    size_t count;
    td__moment now;
    bool any;
} judging;

/* The mistakes of a condition begin with where a track has it. */
static td_status condition_error(const td_error *mistake, td_error *error) {
    static const char key[] = "when: ";
    size_t skip = strncmp(mistake->text, key, sizeof key - 1) == 0 ? sizeof key - 1 : 0;
    return td_error_set(error, mistake->status, "%s", mistake->text + skip);
}

static td_status meet_signals(judging *j, const td_run *run, td_error *error) {
    j->signals = td__calloc(run->signal_count + 1, sizeof *j->signals);
    j->computed = td__calloc(run->signal_count + 1, sizeof *j->computed);
    td__expected *expected = td__calloc(2 * run->signal_count + 1, sizeof *expected);
    bool good = j->signals && j->computed && expected;
    size_t count = 0;
    for (size_t i = 0; good && i < run->signal_count; i++) {
        const td_run_signal *signal = &run->signals[i];
        bool uses = false, stats = false;
        j->signals[i].name = (char *)(uintptr_t)signal->name;
        j->computed[i] = !(signal->forms & TD_STATS) && signal->forms & TD_TENSOR;
        if (signal->forms & TD_SCALAR) {
            expected[count++] = (td__expected){.name = signal->name};
        }
        if (signal->forms & (TD_STATS | TD_TENSOR)) {
            expected[count++] = (td__expected){.name = signal->name, .tensor = true};
        }
        good = td__condition_meet(j->condition, &j->signals[i], &uses, &stats);
        atomic_init(&j->signals[i].used, uses);
    }
    td_error mistake = {0};
    const char *idle = NULL;
    td_status status = good ? td__condition_check(j->condition, expected, count, &idle, &mistake)
                            : td_error_set(error, TD_MEMORY, "out of memory for a condition");
    if (good && status) {
        condition_error(&mistake, error);
    } else if (!status && idle) {
        status = td_error_set(error, TD_NOT_FOUND,
                              "%s matches no signal that %s recorded as numbers or statistics",
                              idle, run->name);
    }
    td__free(expected);
    return status;
}

static td_status take_record(void *user, const td_record *record, td_error *error) {
    judging *j = user;
    if (!j->any || record->step != j->now.step) {
        if (j->any) {
            td__condition_update(j->condition, &j->now);
        }
        j->any = true;
        j->now.serial++;
        j->now.step = record->step;
    }
    j->now.epoch = record->epoch > j->now.epoch ? record->epoch : j->now.epoch;
    td_signal *signal = &j->signals[record->signal_index];
    if (!atomic_load_explicit(&signal->used, memory_order_relaxed)) {
        return TD_OK;
    }
    if (record->form == TD_SCALAR) {
        signal->value = record->value;
        signal->value_serial = j->now.serial;
    } else if (record->form == TD_STATS) {
        signal->stats = *record->stats;
        signal->stats_serial = j->now.serial;
    } else if (record->form == TD_TENSOR && j->computed[record->signal_index]) {
        signal->stats_serial = j->now.serial;
        return td_stats_of(record->view, &signal->stats, error);
    }
    return TD_OK;
}

typedef struct handing {
    td_term_function *each;
    void *user;
    td_status status;
} handing;

static void hand_on(void *user, const td__term *term) {
    handing *h = user;
    char *text = td__calloc(term->length + 1, 1);
    if (!text) {
        h->status = TD_MEMORY;
        return;
    }
    memcpy(text, term->text, term->length);
    h->each(h->user, &(td_term){.text = text, .holds = term->holds, .values = term->values});
    td__free(text);
}

td_status td_run_assert(td_run *run, const char *expression, bool *holds, td_term_function *each,
                        void *user, td_error *error) {
    td_error mistake = {0};
    judging j = {.condition = td__condition_parse(expression, &mistake)};
    if (!j.condition) {
        return condition_error(&mistake, error);
    }
    td__condition_keep_totals(j.condition);
    td_status status = meet_signals(&j, run, error);
    bool tensors = false;
    for (size_t i = 0; !status && i < run->signal_count; i++) {
        tensors = tensors ||
                  (j.computed[i] && atomic_load_explicit(&j.signals[i].used, memory_order_relaxed));
    }
    td_run_query query = {.size = sizeof query,
                          .forms = TD_SCALAR | TD_STATS | (tensors ? TD_TENSOR : 0)};
    status = status ? status : td_run_read(run, &query, take_record, &j, error);
    if (!status) {
        handing h = {.each = each, .user = user};
        if (j.any) {
            td__condition_update(j.condition, &j.now);
        }
        j.now.step = j.now.step > run->info.last_step ? j.now.step : run->info.last_step;
        j.now.epoch = j.now.epoch > run->info.last_epoch ? j.now.epoch : run->info.last_epoch;
        *holds = td__condition_holds(j.condition, &j.now);
        if (each) {
            td__condition_terms(j.condition, &j.now, hand_on, &h);
        }
        status = h.status ? td_error_set(error, h.status, "out of memory for a condition") : TD_OK;
    }
    td__condition_destroy(j.condition);
    td__free(j.signals);
    td__free(j.computed);
    return status;
}
