/* /api/ranks: a signal over time, rank by rank. */
#include "answers/answer.h"
#include "answers/heat.h"
#include "base/memory.h"

#include <math.h>

enum { MAX_RANKS = 1024, MAX_VALUES = 4000000, AT_ONCE = 4096 };

void td__put_ranks(td__output *out, td_run *run) {
    const td_run_rank *rank;
    td__put_text(out, ",\"ranks\":[");
    for (size_t i = 0; (rank = td_run_rank_at(run, i)); i++) {
        td__put_format(out,
                       "%s{\"rank\":%lld,\"attempt\":%lld,\"node\":%lld,\"lastStep\":%lld,"
                       "\"state\":\"%s\",\"mesh\":",
                       i ? "," : "", (long long)rank->rank, (long long)rank->attempt,
                       (long long)rank->node, (long long)rank->last_step,
                       td_run_state_name(rank->state));
        td__put_json(out, rank->mesh);
        td__put_text(out, "}");
    }
    td__put_text(out, "]");
}

/* Each rank once, though it may have made several attempts. */
static size_t list_ranks(td_run *run, int64_t ranks[MAX_RANKS]) {
    size_t count = 0;
    const td_run_rank *rank;
    for (size_t i = 0; (rank = td_run_rank_at(run, i)) && count < MAX_RANKS; i++) {
        size_t k = 0;
        while (k < count && ranks[k] != rank->rank) {
            k++;
        }
        ranks[k] = rank->rank;
        count += k == count;
    }
    return count;
}

/* What is read of a rank, and what was seen of it. */
typedef struct rank_row {
    td__heat_row heat;
    const td_run_signal
        *signal; /* NULL: seconds between the ends of two recorded steps, per step */
    const char *statistic;
    int64_t allowed;    /* values that may still be read */
    int64_t bad_step;   /* the first one that is not finite; INT64_MAX: none */
    td_run_value *read; /* AT_ONCE of them */
} rank_row;

static void add_value(rank_row *r, const td_run_value *value) {
    td__bucket bucket = td__bucket_of(value);
    td__heat_add(&r->heat, &bucket);
    if (value->nonfinite && value->step < r->bad_step) {
        r->bad_step = value->step;
    }
}

/* False when there were more values than are allowed. */
static bool read_rank(td_run *run, int64_t rank, rank_row *r) {
    td_run_value before = {.value = NAN};
    size_t count;
    td__heat_clear(&r->heat);
    r->bad_step = INT64_MAX;
    for (int64_t at = r->heat.first; at <= r->heat.last; at = before.step + 1) {
        size_t room = (size_t)(r->allowed < AT_ONCE ? r->allowed : AT_ONCE);
        count =
            td_run_rank_values(run, rank, r->signal, r->statistic, at, r->heat.last, r->read, room);
        r->allowed -= (int64_t)count;
        for (size_t i = 0; i < count; i++) {
            td_run_value value = r->read[i];
            if (!r->signal) {
                double steps = (double)value.step - (double)before.step;
                value.value = (value.value - before.value) / steps;
                value.nonfinite = 0;
            }
            if (!isnan(value.value) || r->signal) {
                add_value(r, &value);
            }
            before = r->read[i];
        }
        if (count < room) {
            return true;
        }
        if (r->allowed == 0) {
            return false;
        }
    }
    return true;
}

/* signal=N (0: the time of a step), stat, from, to, columns: for each rank the four arrays of a row of the map. The head
 * has the ranks, where the first value that is not finite is, and whether values were left out. */
td_status td__route_ranks(td__call *call, td_error *error) {
    td_run *run = call->run->run;
    int64_t ranks[MAX_RANKS];
    rank_row r = {.allowed = MAX_VALUES};
    td__heat_row *heat = &r.heat;
    heat->columns = (size_t)td__call_number(call, "columns", 1, TD__MAX_HEAT_COLUMNS, 256);
    heat->first = td__call_number(call, "from", INT64_MIN / 2, INT64_MAX / 2, 0);
    heat->last = td__call_number(call, "to", heat->first, INT64_MAX / 2, heat->first);
    td_status status = TD_OK;
    if (td__call_number(call, "signal", 0, INT64_MAX, 0) > 0) {
        r.signal = td__call_signal(call, error);
        status = r.signal ? td__call_statistic(call, &r.statistic, error) : TD_NOT_FOUND;
    }
    if (status) {
        return status;
    }
    r.read = td__calloc(AT_ONCE, sizeof *r.read);
    if (!r.read || !td__heat_create(heat)) {
        td__free(r.read);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__output head = {0}, arrays = {0};
    size_t count = list_ranks(run, ranks);
    int64_t bad_step = INT64_MAX, bad_rank = -1;
    bool whole = true;
    td__put_format(&head, "{\"columns\":%zu,\"ranks\":[", heat->columns);
    for (size_t i = 0; i < count; i++) {
        whole = read_rank(run, ranks[i], &r) && whole;
        if (r.bad_step < bad_step) {
            bad_step = r.bad_step;
            bad_rank = ranks[i];
        }
        td__put_format(&head, "%s%lld", i ? "," : "", (long long)ranks[i]);
        td__heat_put(heat, &arrays);
    }
    td__put_format(&head, "],\"whole\":%s", whole ? "true" : "false");
    if (bad_rank >= 0) {
        td__put_format(&head, ",\"bad\":{\"rank\":%lld,\"step\":%lld}", (long long)bad_rank,
                       (long long)bad_step);
    }
    td__put_text(&head, "}");
    td__call_binary(call, &head);
    td__put(call->out, arrays.data, arrays.size);
    call->out->failed |= arrays.failed;
    td__output_release(&arrays);
    td__free(heat->values);
    td__free(r.read);
    return TD_OK;
}
