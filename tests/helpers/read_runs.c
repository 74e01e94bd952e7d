/* Reads run folders one after the other, everything there is in each. A folder takes at most TIME
 * seconds of the processor. Prints the path of each before it is read; exits with 0 whatever they are. */
#include "tapedeck/run.h"

#include <stdio.h>
#include <sys/time.h>

enum { TIME = 30, POINTS = 50 };

static td_status take_record(void *user, const td_record *record, td_error *error) {
    (void)error;
    int64_t *records = user;
    *records += record->step != 0;
    return TD_OK;
}
static td_status take_event(void *user, const td_event *event, td_error *error) {
    (void)user, (void)event, (void)error;
    return TD_OK;
}
static td_status take_finding(void *user, const td_run_finding *finding, td_error *error) {
    (void)user, (void)finding, (void)error;
    return TD_OK;
}
static void take_note(void *user, const char *key, const char *value) {
    (void)user, (void)key, (void)value;
}

static void read_signals(td_run *run) {
    size_t count = td_run_signal_count(run);
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        td_point points[POINTS];
        td_run_value values[POINTS];
        td_extremes extremes;
        (void)td_run_points(run, signal, NULL, signal->first_step, signal->last_step, points,
                            POINTS, NULL);
        (void)td_run_points(run, signal, "norm", signal->first_step, signal->last_step, points,
                            POINTS, NULL);
        (void)td_run_values(run, signal, "mean", INT64_MIN, INT64_MAX, values, POINTS);
        (void)td_run_extremes(run, signal, &extremes);
    }
}

static td_status read_run(td_run *run, td_error *error) {
    int64_t records = 0;
    td_status status = td_run_refresh(run, error);
    if (status) {
        return status;
    }
    read_signals(run);
    td_status read = td_run_read(run, NULL, take_record, &records, error);
    status = td_run_events(run, take_event, NULL, error);
    status = td_run_findings(run, take_finding, NULL, status ? NULL : error);
    (void)td_run_notes(run, "experiment", take_note, NULL, NULL);
    td_comparison_destroy(td_run_compare(run, run, NULL, NULL));
    return read ? read : status;
}

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        puts(paths[i]);
        (void)fflush(stdout);
        (void)setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = TIME}}, NULL);
        td_error error = {0};
        td_run *run = td_run_open(paths[i], &error);
        td_status status = run ? read_run(run, &error) : error.status;
        if (status && !error.text[0]) {
            (void)fputs("refused without a reason\n", stderr);
            return 1;
        }
        td_run_close(run);
    }
    return 0;
}
