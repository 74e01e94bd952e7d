/* One row of a step from those of all ranks: merged as the signal's placement says, or their spread. */
#include "run/ranks_store.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* ---- Rows that are merged ------------------------------------------------------------------- */

bool td__ranks_is_merged(td__source kind) {
    return kind == TD__SCALARS || kind == TD__STATISTICS || kind == TD__HISTOGRAMS ||
           kind == TD__HASHES || kind == TD__STEPS;
}

void td__rank_set_integer(td__rank_cell *c, int64_t value) {
    *c = (td__rank_cell){.integer = value, .real = (double)value, .text = ""};
}

static void set_real(td__rank_cell *c, double value) {
    *c = (td__rank_cell){.real = value, .text = isnan(value) ? NULL : ""};
}

/* The column of a row of TD__STATISTICS; 0: there is none of that name. */
static int column_of(const char *name) {
    static const char *const names[] = {"count", "mean",  "std", "min", "max",
                                        "norm",  "zeros", "nan", "inf"};
    for (int i = 0; name && i < 9; i++) {
        if (strcmp(names[i], name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static void put_stats(td__ranks_rows *r, const td_stats *s) {
    td__rank_cell *c = r->cells;
    const double reals[] = {s->mean, s->std, s->min, s->max, s->norm};
    td__rank_set_integer(&c[1], s->count);
    for (int i = 0; i < 5; i++) {
        set_real(&c[2 + i], reals[i]);
    }
    td__rank_set_integer(&c[7], s->zeros);
    td__rank_set_integer(&c[8], s->nan);
    td__rank_set_integer(&c[9], s->inf);
    td__rank_set_integer(&c[10], s->first_nonfinite);
    int column = column_of(r->query.column);
    if (column) {
        c[1] = c[column];
        td__rank_set_integer(&c[2], s->nan + s->inf);
    }
}

/* Whether the part is the first of its group on this row. */
static bool takes_part(td__ranks_rows *r, size_t part) {
    uint32_t *taken = &r->taken[r->signal ? r->signal->groups[part] : 0];
    bool first = *taken != r->serial;
    *taken = r->serial;
    return first;
}

static bool add_bins(td__ranks_rows *r, td__rows *row, td_histogram *all, size_t count) {
    size_t size = 0;
    td_histogram more = {0}, both;
    const char *packed = td__rows_text(row, 1, &size);
    if (!packed || !td__bins_unpack(&r->bins[count > 0], packed, size, &more) || more.ranges) {
        return false;
    }
    if (count == 0) {
        *all = more;
        return true;
    }
    td_bin **into = &r->merged[count % 2];
    *into = *into ? *into : td__calloc(TD_HISTOGRAM_BINS, sizeof **into);
    if (!*into) {
        return false;
    }
    td_histogram_merge(all, &more, *into, &both);
    *all = both;
    return true;
}

static bool put_bins(td__ranks_rows *r, const td_histogram *all) {
    if (!td__grow(&r->text, &r->text_capacity, td__bins_room(all) + 1, (size_t)1 << 30, 1)) {
        return false;
    }
    size_t size = td__bins_pack(all, r->text);
    r->text[size] = 0;
    r->cells[1] = (td__rank_cell){.text = r->text, .length = size};
    return true;
}

/* The least, mean and greatest over all ranks, replicas too, and whose they are. */
static void put_spread(td__ranks_rows *r, int64_t step) {
    bool stats = r->query.source == TD__STATISTICS;
    int column = stats ? column_of(r->query.column) : 1;
    double min = NAN, max = NAN, mean = NAN;
    int64_t ranks = 0, finite = 0, min_rank = -1, max_rank = -1, broken_rank = -1;
    for (size_t i = 0; i < r->store->count && column; i++) {
        if (!r->live[i] || r->steps[i] != step) {
            continue;
        }
        int64_t rank = r->store->sources[i].rank;
        double value = td__rows_real(r->parts[i], column);
        bool broken = stats ? td__rows_integer(r->parts[i], 8) + td__rows_integer(r->parts[i], 9)
                            : !isfinite(value);
        broken_rank = broken && broken_rank < 0 ? rank : broken_rank;
        ranks++;
        if (isnan(value)) {
            continue;
        }
        mean = finite++ ? mean + (value - mean) / (double)finite : value;
        min_rank = value < min || min_rank < 0 ? rank : min_rank;
        max_rank = value > max || max_rank < 0 ? rank : max_rank;
        min = fmin(min, value);
        max = fmax(max, value);
    }
    set_real(&r->cells[TD__SPREAD_MIN], min);
    set_real(&r->cells[TD__SPREAD_MEAN], mean);
    set_real(&r->cells[TD__SPREAD_MAX], max);
    td__rank_set_integer(&r->cells[TD__SPREAD_RANKS], ranks);
    td__rank_set_integer(&r->cells[TD__SPREAD_MIN_RANK], min_rank);
    td__rank_set_integer(&r->cells[TD__SPREAD_MAX_RANK], max_rank);
    td__rank_set_integer(&r->cells[TD__SPREAD_BROKEN_RANK], broken_rank);
}

int td__ranks_merge_step(td__ranks_rows *r, int64_t step, td_error *error) {
    td__source kind = r->query.source;
    td_stats stats = {0};
    td_histogram bins = {0};
    double mean = 0;
    size_t count = 0;
    bool good = true;
    r->serial++;
    td__rank_set_integer(&r->cells[0], step);
    if (r->query.spread) {
        put_spread(r, step);
        return 1;
    }
    for (size_t i = 0; i < r->store->count && good; i++) {
        if (!r->live[i] || r->steps[i] != step) {
            continue;
        }
        td__rows *row = r->parts[i];
        if (kind == TD__STEPS) { /* a step ends when its last rank has ended it */
            double when = td__rows_real(row, 2);
            td__rank_set_integer(&r->cells[1],
                                 count ? r->cells[1].integer : td__rows_integer(row, 1));
            set_real(&r->cells[2], count && r->cells[2].real > when ? r->cells[2].real : when);
        } else if (!takes_part(r, i)) {
            continue;
        } else if (kind == TD__SCALARS) {
            double value = td__rows_real(row, 1); /* the mean of equal values is that value */
            mean = count ? mean + (value - mean) / (double)(count + 1) : value;
            set_real(&r->cells[1], mean);
        } else if (kind == TD__STATISTICS) {
            td_stats more = td__rows_stats(row);
            if (count) {
                td_stats_merge(&stats, &more);
            } else {
                stats = more;
            }
            put_stats(r, &stats);
        } else if (kind == TD__HISTOGRAMS) {
            good = add_bins(r, row, &bins, count);
        } else if (count == 0) {
            r->cells[1].text = td__rows_text(row, 1, &r->cells[1].length);
        }
        count++;
    }
    good = good && (kind != TD__HISTOGRAMS || put_bins(r, &bins));
    if (!good) {
        td_error_set(error, TD_FORMAT, "%s, step %lld: a histogram is damaged, or memory is short",
                     r->signal ? r->signal->name : "", (long long)step);
    }
    return good ? 1 : -1;
}