/* A signal's distribution over time: a few of its histograms, however many there are. */
#include "run/run.h"

#include <math.h>

/* The part of the time whose last histogram is searched for. */
typedef struct part {
    int64_t from;
    td_record_function *each;
    void *user;
} part;

static td_status hand_on_if_in_it(void *user, const td_record *record, td_error *error) {
    const part *p = user;
    return record->step >= p->from ? p->each(p->user, record, error) : TD_OK;
}

td_status td_run_histograms(td_run *run, const td_run_signal *signal, int64_t first, int64_t last,
                            size_t parts, td_record_function *each, void *user, td_error *error) {
    first = first > signal->first_step ? first : signal->first_step;
    last = last < signal->last_step ? last : signal->last_step;
    td_status status = TD_OK;
    for (size_t i = 0; i < parts && first <= last && !status; i++) {
        part p = {.from = td__run_boundary(first, last, i, parts), .each = each, .user = user};
        int64_t to = i + 1 < parts ? td__run_boundary(first, last, i + 1, parts) - 1 : last;
        if (p.from > to) {
            continue;
        }
        status = td_run_at(run, signal, TD_HISTOGRAM, to, hand_on_if_in_it, &p, error);
        /* A damaged one is left out: the run's problems name it. */
        status = status == TD_NOT_FOUND || status == TD_FORMAT ? TD_OK : status;
    }
    return status;
}

/* The bin of our own histograms that holds 0 and the denormal numbers next to it: whoever asks for a
 * quantile in it wants to read 0. */
static bool is_zero_bin(const td_histogram *histogram, td_range range) {
    return !histogram->ranges && (range.left == 0 || range.right == 0);
}

double td_histogram_quantile(const td_histogram *histogram, double share) {
    double total = 0, below = 0, last = NAN;
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        total += td_histogram_range(histogram, i).count;
    }
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_range range = td_histogram_range(histogram, i);
        if (range.count <= 0) {
            continue;
        }
        if (below + range.count >= share * total) {
            if (is_zero_bin(histogram, range)) {
                return 0;
            }
            double along = (share * total - below) / range.count;
            return range.left + (range.right - range.left) * along;
        }
        below += range.count;
        last = range.right;
    }
    return last; /* NaN, or rounding left share * total above the sum */
}
