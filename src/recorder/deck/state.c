/* What conditions remember, saved with a checkpoint and restored when the run goes on: the latest values
 * of the signals they read, the windows of mean() and delta(), and the history of their tracks.
 *
 * One function passes each part in both directions, so that what is written is what is read:
 *
 *     version, fingerprint of the tracks
 *     signals: their names, latest values and statistics
 *     snapshots of all histories, each once
 *     tracks: state of the condition, what was lost, which of the snapshots it keeps
 *
 * Little-endian. What is read is not trusted: everything is checked against the bytes that there are and
 * the limits of the deck before it is used. All with the deck's lock held. */
#include "deck/state.h"

#include "base/little.h"
#include "base/memory.h"
#include "deck/deck.h"
#include "tensor/hash.h"

#include <string.h>

enum { VERSION = 1, MAX_NAME = 1 << 16 };

typedef struct stream {
    uint8_t *bytes; /* when writing: owned, grows */
    size_t size, capacity;
    size_t at; /* of the reader */
    bool reading;
    bool failed; /* memory, or what is read makes no sense */
} stream;

/* ---- Numbers and texts ---------------------------------------------------------------------- */

static size_t bytes_left(const stream *s) {
    return s->size - s->at;
}

/* Elements of `size` bytes, `bytes` in all. Zeros when there is nothing to read. */
static void pass_elements(stream *s, void *data, size_t bytes, size_t size) {
    if (s->reading) {
        s->failed = s->failed || bytes > bytes_left(s);
        if (s->failed) {
            memset(data, 0, bytes);
            return;
        }
        td__little_copy(data, s->bytes + s->at, bytes, size);
        s->at += bytes;
        return;
    }
    s->failed =
        s->failed || !td__grow(&s->bytes, &s->capacity, s->size + bytes, (size_t)1 << 40, 1);
    if (!s->failed) {
        td__little_copy(s->bytes + s->size, data, bytes, size);
        s->size += bytes;
    }
}

static void pass64(void *context, void *value) {
    pass_elements(context, value, 8, 8);
}

static void pass32(stream *s, void *value) {
    pass_elements(s, value, 4, 4);
}

static void pass_bool(stream *s, bool *value) {
    uint32_t number = *value;
    pass32(s, &number);
    *value = number != 0;
}

/* A count of items of at least `size` bytes each, so that it cannot be more than there are. */
static void pass_count(stream *s, int64_t *count, size_t size) {
    pass64(s, count);
    if (s->reading && (*count < 0 || (uint64_t)*count > bytes_left(s) / size)) {
        s->failed = true;
        *count = 0;
    }
}

/* The name of a signal; when reading the signal is found, or made, with the lock free meanwhile. */
static void pass_signal(stream *s, td_deck *deck, td_signal **signal) {
    int64_t length = s->reading ? 0 : (int64_t)strlen((*signal)->name);
    pass_count(s, &length, 1);
    if (!s->reading) {
        pass_elements(s, (*signal)->name, (size_t)length, 1);
        return;
    }
    char *name = length <= MAX_NAME ? td__calloc((size_t)length + 1, 1) : NULL;
    if (name) {
        pass_elements(s, name, (size_t)length, 1);
    }
    td__deck_unlock(deck);
    *signal = name && !s->failed ? td_deck_signal(deck, name) : NULL;
    td__deck_lock(deck);
    s->failed = s->failed || !*signal;
    td__free(name);
}

static void pass_stats(stream *s, td_stats *stats) {
    void *const numbers[] = {
        &stats->count, &stats->zeros, &stats->nan, &stats->inf, &stats->first_nonfinite,
        &stats->mean,  &stats->std,   &stats->min, &stats->max, &stats->norm};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        pass64(s, numbers[i]);
    }
}

/* ---- Signals -------------------------------------------------------------------------------- */

/* Restored values are those of a step before the open one. */
static void restore_value(td_signal *signal, uint64_t serial, double value) {
    if (signal->value_serial) {
        return;
    }
    td__signal_found_to_be(signal, TD_SIGNAL_METRIC);
    atomic_store_explicit(&signal->scalar, true, memory_order_relaxed);
    signal->value = value;
    signal->value_serial = serial;
    signal->value_epoch = -1;
}

static void pass_values(stream *s, td_deck *deck, td_signal *signal, uint64_t serial) {
    bool has_value = false, has_stats = false;
    double value = 0;
    td_stats stats = {0};
    if (!s->reading) {
        has_value = signal->value_serial != 0;
        has_stats = signal->stats_serial != 0;
        value = signal->value;
        stats = signal->stats;
    }
    pass_signal(s, deck, &signal);
    pass_bool(s, &has_value);
    pass_bool(s, &has_stats);
    pass64(s, &value);
    pass_stats(s, &stats);
    if (!s->reading || s->failed) {
        return;
    }
    if (has_value) {
        restore_value(signal, serial, value);
    }
    if (has_stats) {
        signal->stats = stats;
        signal->stats_serial = serial;
    }
}

static bool is_remembered(const td_signal *signal) {
    return atomic_load_explicit(&signal->used, memory_order_relaxed) &&
           (signal->value_serial || signal->stats_serial);
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

/* A tensor's type, shape and, with `elements`, memory: taken of the pool when reading. */
static void pass_view(stream *s, td_deck *deck, td_view *view, bool elements, size_t *taken) {
    uint32_t dtype = (uint32_t)view->dtype;
    int64_t count = 0;
    pass32(s, &dtype);
    pass32(s, &view->shape.rank);
    s->failed = s->failed || dtype >= TD_DTYPE_COUNT || (uint32_t)view->shape.rank > TD_MAX_RANK;
    for (int32_t i = 0; !s->failed && i < view->shape.rank; i++) {
        pass64(s, &view->shape.dims[i]);
    }
    view->dtype = s->failed ? TD_FLOAT32 : (td_dtype)dtype;
    if (s->failed || td_shape_check(&view->shape, view->dtype, &count, NULL)) {
        s->failed = true;
        return;
    }
    size_t size = td_dtype_size(view->dtype), bytes = elements ? (size_t)count * size : 0;
    if (s->reading && bytes) {
        s->failed = bytes > bytes_left(s);
        view->data = s->failed ? NULL : td__deck_pool_take(&deck->recycler.pool, bytes);
        s->failed = !view->data;
        *taken = s->failed ? 0 : bytes;
    }
    if (!s->failed && bytes) {
        pass_elements(s, (void *)(uintptr_t)view->data, bytes, size);
    }
}

static void pass_bins(stream *s, td_deck *deck, td__snapshot *snapshot) {
    td_histogram *histogram = &snapshot->histogram;
    int64_t count = histogram->bin_count;
    pass_count(s, &count, 12);
    if (s->reading) {
        size_t size = (size_t)(count ? count : 1) * sizeof(td_bin);
        s->failed = s->failed || count > TD_HISTOGRAM_BINS;
        histogram->bins = s->failed ? NULL : td__deck_pool_take(&deck->recycler.pool, size);
        s->failed = !histogram->bins;
        snapshot->bins_size = s->failed ? 0 : size;
        histogram->bin_count = (int32_t)count;
    }
    td_bin *bins = (td_bin *)(uintptr_t)histogram->bins; /* its own, pooled */
    for (int64_t i = 0; i < count && !s->failed; i++) {
        pass32(s, &bins[i].index);
        pass64(s, &bins[i].count);
        s->failed = s->failed || (uint32_t)bins[i].index >= TD_HISTOGRAM_BINS || bins[i].count < 1;
    }
}

static void pass_text(stream *s, td_deck *deck, td__snapshot *snapshot) {
    int64_t length = (int64_t)snapshot->text_length;
    pass_count(s, &length, 1);
    if (s->reading && !s->failed) {
        snapshot->text = td__deck_pool_take(&deck->recycler.pool, (size_t)length + 1);
        s->failed = !snapshot->text;
        snapshot->text_size = s->failed ? 0 : (size_t)length + 1;
        snapshot->text_length = (size_t)length;
    }
    if (!s->failed) {
        pass_elements(s, snapshot->text, (size_t)length, 1);
        snapshot->text[length] = 0;
    }
}

/* A batch that is read: rows and labels in memory of their own. */
static td__deck_batch *read_batch(stream *s, td_deck *deck) {
    td_view labels = {0};
    int64_t count = 0;
    bool labelled = false;
    size_t taken = 0;
    pass_count(s, &count, 8);
    size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *rows = s->failed ? NULL : td__calloc((size_t)count + 1, sizeof *rows);
    if (rows) {
        pass_elements(s, rows, bytes, 8);
    }
    pass_bool(s, &labelled);
    if (labelled && !s->failed) {
        pass_view(s, deck, &labels, true, &taken);
        s->failed = s->failed || labels.shape.rank < 1 || labels.shape.dims[0] != count;
    }
    td__deck_batch *batch = s->failed || !rows ? NULL
                                               : td__deck_batch_create(&deck->recycler, rows, count,
                                                                       labelled ? &labels : NULL);
    s->failed = s->failed || !batch;
    if (taken) {
        td__deck_pool_give(&deck->recycler.pool, (void *)(uintptr_t)labels.data, taken);
    }
    td__free(rows);
    return batch;
}

static void write_batch(stream *s, td__deck_batch *batch) {
    bool labelled = batch->labels.data != NULL;
    pass64(s, &batch->count);
    pass_elements(s, batch->rows, (size_t)batch->count * sizeof(int64_t), 8);
    pass_bool(s, &labelled);
    if (labelled) {
        pass_view(s, NULL, &batch->labels, true, NULL);
    }
}

/* The signals of a step share its batch: `before` is that of the snapshot before this one. */
static void pass_batch(stream *s, td_deck *deck, td__snapshot *snapshot, td__deck_batch *before) {
    enum { NONE, SAME, OTHER };
    uint32_t which = !snapshot->batch ? NONE : snapshot->batch == before ? SAME : OTHER;
    pass32(s, &which);
    if (!s->reading) {
        if (which == OTHER) {
            write_batch(s, snapshot->batch);
        }
        return;
    }
    if (which == SAME && before) {
        snapshot->batch = before;
        before->references++;
    } else if (which == OTHER) {
        snapshot->batch = read_batch(s, deck);
    }
    const td_shape *shape = &snapshot->view.shape;
    s->failed = s->failed || which > OTHER || (which != NONE && !snapshot->batch) ||
                (snapshot->batch && (shape->rank < 1 || shape->dims[0] != snapshot->batch->count));
}

/* Forms that what was recorded so can be written in. */
static uint32_t possible_forms(uint32_t kind) {
    return kind == TD_SCALAR   ? TD_SCALAR
           : kind == TD_TEXT   ? TD_TEXT
           : kind == TD_TENSOR ? TD__DATA_FORMS | TD_STATS | TD_HISTOGRAM | TD_HASH | TD_SCALAR
                               : 0;
}

static void pass_snapshot(stream *s, td_deck *deck, td__snapshot *snapshot,
                          td__deck_batch *before) {
    pass64(s, &snapshot->epoch);
    pass64(s, &snapshot->step);
    pass64(s, &snapshot->wall_time);
    pass32(s, &snapshot->kind);
    pass32(s, &snapshot->has);
    pass32(s, &snapshot->wanted);
    pass_bool(s, &snapshot->single);
    pass_elements(s, snapshot->sent, sizeof snapshot->sent, sizeof *snapshot->sent);
    pass64(s, &snapshot->value);
    pass64(s, &snapshot->hash);
    pass_stats(s, &snapshot->stats);
    uint32_t possible = possible_forms(snapshot->kind);
    s->failed = s->failed || !possible || (snapshot->has & ~possible) ||
                (snapshot->wanted & ~possible) || snapshot->epoch < 0 || snapshot->step < 1;
    if (!s->failed && snapshot->kind == TD_TENSOR) {
        pass_view(s, deck, &snapshot->view, snapshot->has & TD__DATA_FORMS, &snapshot->data_size);
    }
    if (!s->failed && (snapshot->has & TD_HISTOGRAM)) {
        pass_bins(s, deck, snapshot);
    }
    if (!s->failed && snapshot->kind == TD_TEXT) {
        pass_text(s, deck, snapshot);
    }
    if (!s->failed) {
        pass_batch(s, deck, snapshot, before);
    }
}

/* ---- Saving --------------------------------------------------------------------------------- */

/* Another one when the state is not of these tracks: they may have been changed before resuming. */
static uint64_t tracks_fingerprint(const td_deck *deck) {
    uint64_t hash = VERSION;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        const char *name = deck->outlets[i].class->name;
        hash = td__xxh64(name, strlen(name), hash);
    }
    for (int32_t i = 0; i < deck->track_count; i++) {
        const td__track *track = deck->tracks[i];
        const char *when = track->condition ? td__condition_text(track->condition) : "";
        const int64_t numbers[] = {track->every, track->every_epochs, track->start,
                                   track->end,   track->sample,       track->history};
        hash = td__xxh64(when, strlen(when), hash);
        hash = td__xxh64(numbers, sizeof numbers, hash);
        hash = td__xxh64(track->at, track->at_count * sizeof *track->at, hash);
        hash = td__xxh64(&track->form, sizeof track->form, hash);
        hash = td__xxh64(track->forms, sizeof track->forms, hash);
        for (size_t k = 0; k < track->pattern_count; k++) {
            hash = td__xxh64(track->patterns[k], strlen(track->patterns[k]), hash);
        }
    }
    return hash;
}

/* Numbers the snapshots of all histories from 1; returns how many there are. */
static int64_t number_snapshots(td_deck *deck) {
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < deck->track_count; i++) {
            for (td__kept *kept = deck->tracks[i]->kept_first; kept; kept = kept->next) {
                if (pass == 0) {
                    kept->snapshot->number = 0;
                } else if (!kept->snapshot->number) {
                    kept->snapshot->number = ++count;
                }
            }
        }
    }
    return count;
}

static void write_snapshots(stream *s, td_deck *deck) {
    int64_t count = number_snapshots(deck), written = 0;
    td__deck_batch *before = NULL;
    pass64(s, &count);
    for (int32_t i = 0; i < deck->track_count; i++) {
        for (td__kept *kept = deck->tracks[i]->kept_first; kept; kept = kept->next) {
            td__snapshot *snapshot = kept->snapshot;
            if (snapshot->number == written + 1) {
                pass_signal(s, deck, &snapshot->signal);
                pass_snapshot(s, deck, snapshot, before);
                before = snapshot->batch;
                written++;
            }
        }
    }
}

static void write_track(stream *s, td__track *track) {
    if (track->condition) {
        td__condition_pass_state(track->condition, pass64, s);
    }
    int64_t count = 0;
    for (td__kept *kept = track->kept_first; kept; kept = kept->next) {
        count++;
    }
    pass_bool(s, &track->lost);
    pass64(s, &track->lost_step);
    pass64(s, &count);
    for (td__kept *kept = track->kept_first; kept; kept = kept->next) {
        pass64(s, &kept->snapshot->number);
    }
}

static void write_state(stream *s, td_deck *deck) {
    uint64_t version = VERSION, tracks = tracks_fingerprint(deck);
    int64_t signals = 0;
    pass64(s, &version);
    pass64(s, &tracks);
    for (size_t i = 0; i < deck->signal_count; i++) {
        signals += is_remembered(deck->signals[i]);
    }
    pass64(s, &signals);
    for (size_t i = 0; i < deck->signal_count; i++) {
        if (is_remembered(deck->signals[i])) {
            pass_values(s, deck, deck->signals[i], 0);
        }
    }
    write_snapshots(s, deck);
    for (int32_t i = 0; i < deck->track_count; i++) {
        write_track(s, deck->tracks[i]);
    }
}

static bool has_conditions(const td_deck *deck) {
    bool any = false;
    for (int32_t i = 0; i < deck->track_count; i++) {
        any = any || deck->tracks[i]->condition;
    }
    return any;
}

td_status td__deck_save_state(td_deck *deck, uint8_t **bytes, size_t *size, td_error *error) {
    stream s = {0};
    td__deck_enter(deck);
    if (has_conditions(deck)) {
        write_state(&s, deck);
    }
    td__deck_unlock(deck);
    if (s.failed) {
        td__free(s.bytes);
        return td_error_set(error, TD_MEMORY, "out of memory for what conditions remember");
    }
    *bytes = s.bytes;
    *size = s.size;
    return TD_OK;
}

/* ---- Restoring ------------------------------------------------------------------------------ */

/* As much of the history's limit as it takes; without, the tracks that keep it have lost it. */
static void account_history(td_deck *deck, td__snapshot *snapshot) {
    const size_t blocks[] = {snapshot->data_size, snapshot->bins_size, snapshot->text_size};
    snapshot->bytes = sizeof *snapshot;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        snapshot->bytes += blocks[i] ? td__deck_pool_size(blocks[i]) : 0;
    }
    if (td__history_acquire(deck, snapshot->bytes)) {
        snapshot->history_bytes = snapshot->bytes;
        snapshot->holds = 1;
    }
}

static td__snapshot *read_snapshot(stream *s, td_deck *deck, td__deck_batch *before) {
    td_signal *signal = NULL;
    pass_signal(s, deck, &signal);
    td__snapshot *snapshot =
        s->failed ? NULL : td__snapshot_create(&deck->recycler, signal, TD_SCALAR);
    if (!snapshot) {
        s->failed = true;
        return NULL;
    }
    pass_snapshot(s, deck, snapshot, before);
    if (!s->failed) {
        account_history(deck, snapshot);
    }
    return snapshot;
}

static void read_track(stream *s, td_deck *deck, int32_t index, td__snapshot **snapshots,
                       int64_t count) {
    td__track *track = deck->tracks[index];
    td__tracks only = {0};
    int64_t kept = 0, number = 0;
    td__tracks_put(only, index, true);
    if (track->condition) {
        s->failed = !td__condition_pass_state(track->condition, pass64, s) || s->failed;
    }
    pass_bool(s, &track->lost);
    pass64(s, &track->lost_step);
    pass_count(s, &kept, 8);
    for (int64_t i = 0; i < kept && !s->failed; i++) {
        pass64(s, &number);
        s->failed = s->failed || number < 1 || number > count || !track->history;
        td__snapshot *snapshot = s->failed ? NULL : snapshots[number - 1];
        if (snapshot && snapshot->holds) {
            (void)td__history_keep(deck, track, snapshot); /* a failure is counted as lost */
        } else if (snapshot) {
            td__history_lost(deck, only, snapshot->step);
        }
    }
}

static void read_snapshots(stream *s, td_deck *deck, td__snapshot **snapshots, int64_t count) {
    for (int64_t i = 0; i < count && !s->failed; i++) {
        snapshots[i] = read_snapshot(s, deck, i ? snapshots[i - 1]->batch : NULL);
    }
    for (int32_t i = 0; i < deck->track_count && !s->failed; i++) {
        read_track(s, deck, i, snapshots, count);
    }
    for (int64_t i = 0; i < count && snapshots[i]; i++) { /* the tracks hold them now */
        if (snapshots[i]->holds) {
            td__history_release(deck, snapshots[i]);
        }
        td__snapshot_unref(&deck->recycler, snapshots[i]);
    }
}

static void read_state(stream *s, td_deck *deck) {
    enum { SMALLEST_SIGNAL = 104, SMALLEST_SNAPSHOT = 150 };
    uint64_t serial = deck->serial++; /* no step of this session */
    int64_t signals = 0, count = 0;
    pass_count(s, &signals, SMALLEST_SIGNAL);
    for (int64_t i = 0; i < signals && !s->failed; i++) {
        pass_values(s, deck, NULL, serial);
    }
    pass_count(s, &count, SMALLEST_SNAPSHOT);
    td__snapshot **snapshots = td__calloc((size_t)count + 1, sizeof *snapshots);
    s->failed = s->failed || !snapshots;
    if (!s->failed) {
        read_snapshots(s, deck, snapshots, count);
    }
    s->failed = s->failed || bytes_left(s) > 0;
    td__free(snapshots);
}

td_status td__deck_restore_state(td_deck *deck, const uint8_t *bytes, size_t size,
                                 td_error *error) {
    stream s = {.bytes = (uint8_t *)(uintptr_t)bytes, .size = size, .reading = true};
    uint64_t version = 0, tracks = 0;
    pass64(&s, &version);
    pass64(&s, &tracks);
    td__deck_enter(deck);
    bool other = version != VERSION || tracks != tracks_fingerprint(deck);
    if (!s.failed && !other) {
        read_state(&s, deck);
    }
    td__deck_unlock(deck);
    if (!s.failed && other) {
        return td_error_set(error, TD_NOT_FOUND, "it is of other tracks");
    }
    return s.failed ? td_error_set(error, TD_FORMAT, "what it says of conditions makes no sense")
                    : TD_OK;
}
