/* The writer thread: takes entries off the queue and hands them to the sinks.
 *
 * It is never signalled for a small record (waking a sleeping thread costs the waker more than
 * the record does): it polls every few milliseconds, and is woken when much waits to be written,
 * for a large tensor to summarize, when a thread waits for room, and for a flush. */
#include "deck/deck.h"

#include "base/clock.h"
#include "base/memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double SHORTEST_NAP = 0.01, LONGEST_NAP = 0.05; /* seconds */
static const double HAND_OVER = 0.5; /* how long a sink may hold a closed step in memory */
static const double IDLE_FLUSH = 1.0;
static const double REQUEST_LOOK = 1.0;                      /* between two looks for a request */
static const double FIRST_PAUSE = 0.1, LONGEST_PAUSE = 10.0; /* of a sink that failed */

/* ---- Sinks ---------------------------------------------------------------------------------- */

static void sink_failed(td_deck *deck, td__outlet *outlet, const td_error *error) {
    outlet->pause = outlet->pause > 0 ? 2 * outlet->pause : FIRST_PAUSE;
    outlet->pause = outlet->pause < LONGEST_PAUSE ? outlet->pause : LONGEST_PAUSE;
    outlet->retry_at = td__seconds() + outlet->pause;
    td__deck_lock(deck);
    (void)td__deck_fail(deck, error->status, "%s: %s", outlet->class->name, error->text);
    if (deck->sink_status == TD_OK) {
        deck->sink_status = error->status;
    }
    if (!outlet->reported) {
        outlet->reported = true;
        td__deck_event(deck, TD_EVENT_SINK_ERROR, NULL, 1, "%s: %s", outlet->class->name,
                       error->text);
    }
    td__deck_unlock(deck);
}

typedef enum operation { EXPECT, WRITE, END_STEP, EVENT, NOTE, FLUSH, CLOSE } operation;

typedef struct place {
    int64_t epoch, step;
    bool history;
} place;

/* subject: the operation's own, a td_record, place, td__message or nothing. */
static td_status call_once(const td__outlet *outlet, operation what, const void *subject,
                           td_error *error) {
    const td_sink_class *class = outlet->class;
    const td__message *message = subject;
    const place *at = subject;
    switch (what) {
    case EXPECT:
        return class->expect(outlet->live, message->text, message->expect, error);
    case WRITE:
        return class->write(outlet->live, subject, error);
    case END_STEP:
        return class->end_step ? class->end_step(outlet->live, at->epoch, at->step, error) : TD_OK;
    case EVENT:
        return class->event ? class->event(outlet->live, &message->event, error) : TD_OK;
    case NOTE:
        return class->note ? class->note(outlet->live, message->text,
                                         message->text + strlen(message->text) + 1, error)
                           : TD_OK;
    case FLUSH:
        return class->flush(outlet->live, error);
    case CLOSE:
        break;
    }
    return class->close(outlet->live, error);
}

/* Calls the sink until it succeeds or fails for good; a failure is reported. */
static td_status call_sink(td_deck *deck, td__outlet *outlet, operation what, const void *subject) {
    enum { MAX_TRIES = 4 };
    td_error error; /* a kilobyte: not to be cleared for every record */
    error.status = TD_OK;
    error.text[0] = 0;
    td_status status = call_once(outlet, what, subject, &error);
    for (int tries = 1;
         (status == TD_INTERRUPTED || status == TD_BUSY) && what != CLOSE && tries < MAX_TRIES;
         tries++) {
        usleep(1000u << tries);
        status = call_once(outlet, what, subject, &error);
    }
    if (status == TD_OK) {
        outlet->retry_at = outlet->pause = 0;
        return status;
    }
    if (error.text[0] == 0) {
        td_error_set(&error, status, "%s", td_status_text(status));
    }
    error.status = status;
    sink_failed(deck, outlet, &error);
    return status;
}

static bool is_paused(const td__outlet *outlet) {
    return outlet->retry_at > 0 && td__seconds() < outlet->retry_at;
}

static td_record record_of(const td__ticket *ticket, td_form form) {
    const td__snapshot *s = ticket->snapshot;
    bool data = s->kind == TD_TENSOR && (form & TD__DATA_FORMS) != 0;
    bool picture = s->kind == TD_IMAGE;
    td_record record = {
        .signal = s->signal->name,
        .signal_index = s->signal->index,
        .form = form,
        .epoch = s->epoch,
        .step = s->step,
        .wall_time = s->wall_time,
        .history = ticket->history,
        .degraded_from = (td_form)(ticket->replaced & form ? s->wanted : 0),
        .view = data ? &s->view : NULL,
        .value = s->value,
        .stats = form & (TD_STATS | TD_HISTOGRAM) ? &s->stats : NULL,
        .histogram = form == TD_HISTOGRAM ? &s->histogram : NULL,
        .hash = s->hash,
        .text = form == TD_TEXT ? s->text : NULL,
        .text_length = form == TD_TEXT ? s->text_length : 0,
        .png = picture ? s->text : NULL,
        .png_size = picture ? s->text_length : 0,
        .info = td_signal_about(s->signal),
    };
    if (data && s->batch) {
        record.samples = s->batch->rows;
        record.labels = s->batch->labels.data ? &s->batch->labels : NULL;
    }
    return record;
}

/* Writes one record to one sink; false when that failed. */
static bool write_one(td_deck *deck, td__outlet *outlet, const td_record *record) {
    if (is_paused(outlet) || call_sink(deck, outlet, WRITE, record) != TD_OK) {
        return false;
    }
    outlet->in_step = outlet->dirty = true;
    return true;
}

/* Where the tensor and its picture went: sinks that index the run come last in the table. */
typedef struct places {
    td_place tensor, image;
} places;

static void clear_places(places *where) {
    where->tensor.file[0] = where->image.file[0] = 0;
    where->tensor.record = where->image.record = 0;
}

static td_place *place_of_form(places *where, td_form form) {
    return form == TD_TENSOR ? &where->tensor : form == TD_IMAGE ? &where->image : NULL;
}

/* All that write return how many records a sink could not write. */
static int64_t write_snapshot(td_deck *deck, const td__ticket *ticket) {
    places where;
    clear_places(&where);
    int64_t failed = 0;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        for (uint32_t rest = ticket->forms[i]; rest; rest &= rest - 1) {
            td_record record = record_of(ticket, (td_form)(rest & (0 - rest)));
            record.place = place_of_form(&where, record.form);
            failed += !write_one(deck, &deck->outlets[i], &record);
        }
    }
    return failed;
}

static int64_t write_tensor_item(td_deck *deck, const td__packed *packed,
                                 const td__tensor_item *tensor, td_record *record) {
    td_view view = {.dtype = tensor->dtype, .shape.rank = tensor->rank};
    memcpy(view.shape.dims, tensor->dims, (size_t)tensor->rank * sizeof(int64_t));
    view.data = tensor->dims + tensor->rank;
    record->view = &view;
    record->samples = tensor->batched ? packed->batch->rows : NULL;
    record->labels = tensor->batched && packed->batch->labels.data ? &packed->batch->labels : NULL;
    places where;
    clear_places(&where);
    int64_t failed = 0;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        for (uint32_t rest = tensor->item.set->forms[i]; rest; rest &= rest - 1) {
            record->form = (td_form)(rest & (0 - rest));
            record->place = place_of_form(&where, record->form);
            failed += !write_one(deck, &deck->outlets[i], record);
        }
    }
    return failed;
}

static int64_t write_scalar_item(td_deck *deck, const td__item *item, td_record *record) {
    record->form = TD_SCALAR;
    record->value = item->value;
    int64_t failed = 0;
    for (uint32_t rest = item->sinks; rest; rest &= rest - 1) {
        failed += !write_one(deck, &deck->outlets[__builtin_ctz(rest)], record);
    }
    return failed;
}

static int64_t write_packed(td_deck *deck, const td__packed *packed) {
    int64_t failed = 0;
    const td__item *item;
    for (size_t at = 0; at < packed->used; at += item->bytes) {
        item = (const td__item *)(packed->items + at);
        td_record record = {.signal = item->signal->name,
                            .signal_index = item->signal->index,
                            .epoch = packed->epoch,
                            .step = packed->step,
                            .wall_time = packed->wall_time,
                            .info = td_signal_about(item->signal)};
        failed += item->sinks
                      ? write_scalar_item(deck, item, &record)
                      : write_tensor_item(deck, packed, (const td__tensor_item *)item, &record);
    }
    return failed;
}

static void end_step(td_deck *deck, const place *at) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->in_step && !is_paused(outlet)) {
            (void)call_sink(deck, outlet, END_STEP, at);
        }
        outlet->in_step = false;
    }
}

/* texts: the key and its value, one behind the other. */
static void note_texts(td_deck *deck, char *texts) {
    td__message message = {.entry.kind = TD__ENTRY_NOTE, .text = texts};
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->live && outlet->class->note && !is_paused(outlet)) {
            (void)call_sink(deck, outlet, NOTE, &message);
            outlet->dirty = true;
        }
    }
}

static void note_number(td_deck *deck, const char *key, int64_t value) {
    char text[64];
    int length = snprintf(text, sizeof text / 2, "%s", key);
    (void)snprintf(text + length + 1, sizeof text / 2, "%lld", (long long)value);
    note_texts(deck, text);
}

/* Notes the step that was closed last, whether or not something of it was recorded. */
static void note_reached(td_deck *deck, const place *reached, place *noted) {
    if (reached->step != noted->step || reached->epoch != noted->epoch) {
        note_number(deck, TD__NOTE_STEP, reached->step);
        note_number(deck, TD__NOTE_EPOCH, reached->epoch);
        *noted = *reached;
    }
}

/* Notes which tracks there are, when others are than those that the note has. */
static void note_tracks(td_deck *deck) {
    static const char key[] = TD__NOTE_TRACKS;
    td__deck_lock(deck);
    bool same = deck->tracks_listed == deck->tracks_version;
    char *list = same ? NULL : td__tracks_list(deck);
    deck->tracks_listed = list ? deck->tracks_version : deck->tracks_listed;
    td__deck_unlock(deck);
    size_t length = list ? strlen(list) : 0;
    char *texts = list ? td__calloc(sizeof key + length + 1, 1) : NULL;
    if (texts) {
        memcpy(texts, key, sizeof key);
        memcpy(texts + sizeof key, list, length);
        note_texts(deck, texts);
    }
    td__free(texts);
    td__free(list);
}

/* Asks the sinks for what they hold of closed steps, also those that got nothing of the last ones: the end
 * of a step is what makes a sink hand over what has waited for a moment. */
static void hand_over(td_deck *deck, const place *at) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->dirty && !outlet->in_step && !is_paused(outlet)) {
            (void)call_sink(deck, outlet, END_STEP, at);
        }
    }
}

static void flush_sinks(td_deck *deck) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->dirty) {
            outlet->dirty = call_sink(deck, outlet, FLUSH, NULL) != TD_OK;
        }
    }
}

static void deliver_message(td_deck *deck, td__message *message) {
    message->event.signal = *message->text ? message->text : NULL;
    message->event.text = message->text + strlen(message->text) + 1;
    if (message->entry.kind == TD__ENTRY_ALERT) {
        td__alert_deliver(deck, message->sink, &message->event);
        return;
    }
    bool event = message->entry.kind == TD__ENTRY_EVENT;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        bool listens = event ? outlet->class->event != NULL : outlet->class->note != NULL;
        /* Also to a sink that rests after a failure: it is rare, and would be lost otherwise. */
        if (outlet->live && listens) {
            (void)call_sink(deck, outlet, event ? EVENT : NOTE, message);
            outlet->dirty = true;
        }
    }
}

/* ---- Entries -------------------------------------------------------------------------------- */

/* What has been done with entries since the lock was last held. */
typedef struct done {
    td__entry *first, *last;
    int32_t count;
    size_t bytes;
    int64_t written, failed;
    uint64_t ticks;
} done;

/* Ends the step before when this is another. */
static void move_to(td_deck *deck, place *at, place now) {
    if (now.epoch != at->epoch || now.step != at->step || now.history != at->history) {
        end_step(deck, at);
        *at = now;
    }
}

/* Returns how many records failed. */
static int64_t process_entry(td_deck *deck, td__entry *entry, place *at) {
    int64_t failed = 0;
    switch (entry->kind) {
    case TD__ENTRY_RECORD: {
        const td__ticket *ticket = (const td__ticket *)entry;
        const td__snapshot *snapshot = ticket->snapshot;
        move_to(deck, at, (place){snapshot->epoch, snapshot->step, ticket->history});
        failed = write_snapshot(deck, ticket);
        break;
    }
    case TD__ENTRY_SUM_UP:
        td__snapshot_sum_up(((td__summing *)entry)->snapshot);
        break;
    case TD__ENTRY_PACKED: {
        const td__packed *packed = (const td__packed *)entry;
        move_to(deck, at, (place){packed->epoch, packed->step, false});
        failed = write_packed(deck, packed);
        break;
    }
    case TD__ENTRY_EXPECT: {
        td__message *message = (td__message *)entry;
        (void)call_sink(deck, &deck->outlets[message->sink], EXPECT, message);
        break;
    }
    case TD__ENTRY_EVENT:
    case TD__ENTRY_NOTE:
    case TD__ENTRY_ALERT:
        deliver_message(deck, (td__message *)entry);
        break;
    case TD__ENTRY_FLUSH:
        end_step(deck, at);
        for (int32_t i = 0; i < deck->outlet_count; i++) {
            deck->outlets[i].retry_at = 0; /* somebody asks: try now */
        }
        flush_sinks(deck);
        break;
    }
    if (entry->ends_step) {
        end_step(deck, at);
    }
    return failed;
}

/* The waiting thread learns of the first error since the last flush. */
static void complete_flush(td_deck *deck, td__flush *waiting) {
    waiting->error = deck->error;
    waiting->done = true;
    deck->error = (td_error){0};
    deck->sink_status = TD_OK;
}

/* Records that sinks hold are pending still, until they are in a file; lock held. */
static void count_held(td_deck *deck) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        int64_t more = outlet->held - outlet->held_counted;
        outlet->held_counted = outlet->held;
        deck->counters.pending += more;
        deck->counters.written -= more;
    }
}

/* What they hold when they have been closed is lost. */
static void count_lost(td_deck *deck) {
    td__deck_lock(deck);
    count_held(deck);
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        deck->counters.pending -= deck->outlets[i].held;
        deck->counters.dropped += deck->outlets[i].held;
        deck->counters.failed += deck->outlets[i].held;
    }
    td__deck_unlock(deck);
}

static void finish_entries(td_deck *deck, done *so_far) {
    td__deck_lock(deck);
    for (td__entry *entry = so_far->first, *next; entry; entry = next) {
        next = entry->next;
        deck->queue_used -= entry->bytes;
        if (entry->kind == TD__ENTRY_RECORD) {
            ((td__ticket *)entry)->snapshot->delivered = true;
        } else if (entry->kind == TD__ENTRY_FLUSH) {
            complete_flush(deck, (td__flush *)entry);
        }
        td__entry_release(&deck->recycler, entry);
    }
    deck->writer_cost += so_far->ticks;
    deck->counters.pending -= so_far->written + so_far->failed;
    deck->counters.written += so_far->written;
    deck->counters.dropped += so_far->failed;
    deck->counters.failed += so_far->failed;
    count_held(deck);
    if (deck->waiters || deck->flushers) {
        pthread_cond_broadcast(&deck->room);
    }
    td__deck_unlock(deck);
    *so_far = (done){0};
}

static void write_all(td_deck *deck, td__entry *entries, place *at) {
    enum { MAX_ENTRIES = 64 };
    uint64_t start = td__ticks();
    done so_far = {0};
    while (entries) {
        td__entry *entry = entries;
        entries = entry->next;
        entry->next = NULL;
        int64_t failed = process_entry(deck, entry, at);
        so_far.failed += failed;
        so_far.written += entry->deliveries - failed;
        if (so_far.last) {
            so_far.last->next = entry;
        } else {
            so_far.first = entry;
        }
        so_far.last = entry;
        so_far.bytes += entry->bytes;
        /* Room is released often enough for waiting threads, but not for every entry. */
        if (++so_far.count >= MAX_ENTRIES || so_far.bytes >= deck->queue_limit / 8 ||
            entry->kind == TD__ENTRY_FLUSH || entry->bytes == 0 || !entries) {
            uint64_t now = td__ticks();
            so_far.ticks = now - start;
            start = now;
            finish_entries(deck, &so_far);
        }
    }
}

/* ---- The machine ---------------------------------------------------------------------------- */

/* Writes a sample to the sinks that index the run: it is of no step's own, and no track asks for it. */
static void write_system_value(td_deck *deck, const td__system_value *value, const place *at,
                               done *so_far) {
    td_signal_info info = {.size = sizeof info, .kind = TD_SIGNAL_SYSTEM};
    td_signal *signal = td_deck_signal_with(deck, value->name, &info);
    if (!signal) {
        return;
    }
    td_record record = {.signal = signal->name,
                        .signal_index = signal->index,
                        .form = TD_SCALAR,
                        .epoch = at->epoch,
                        .step = at->step,
                        .wall_time = td__wall_time(),
                        .value = value->value,
                        .info = td_signal_about(signal)};
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->live && outlet->class->always & TD_SCALAR) {
            bool written = write_one(deck, outlet, &record);
            so_far->written += written;
            so_far->failed += !written;
        }
    }
}

static void sample_system(td_deck *deck, const place *at) {
    uint64_t start = td__ticks();
    td__system_value values[TD__SYSTEM_VALUES];
    size_t count = td__system_read(&deck->system, values);
    done so_far = {0};
    for (size_t i = 0; i < count; i++) {
        write_system_value(deck, &values[i], at, &so_far);
    }
    td__deck_lock(deck);
    deck->counters.submitted += so_far.written + so_far.failed;
    deck->counters.pending += so_far.written + so_far.failed;
    td__deck_unlock(deck);
    so_far.ticks = td__ticks() - start;
    finish_entries(deck, &so_far);
}

/* Notes the diff once it is complete: its text, or how much there was when it was given up. */
static void note_diff(td_deck *deck) {
    static const char key[] = "environment.git.diff";
    if (!td__git_diff_poll(&deck->diff)) {
        return;
    }
    static const char more[] = "\n(cut here: there is more)\n";
    char *texts = td__calloc(1, sizeof key + deck->diff.length + sizeof more);
    if (texts) {
        td__hide_in_text(deck->diff.text);
        memcpy(texts, key, sizeof key);
        memcpy(texts + sizeof key, deck->diff.text, deck->diff.length);
        if (!deck->diff.complete) {
            memcpy(texts + sizeof key + deck->diff.length, more, sizeof more);
        }
        note_texts(deck, texts);
        td__free(texts);
    }
    td__git_diff_release(&deck->diff);
}

/* A run that ends at once still gets its diff, if that takes no longer than this. */
static void await_diff(td_deck *deck) {
    enum { MAX_TURNS = 200, MICROSECONDS = 5000 };
    for (int i = 0; i < MAX_TURNS && deck->diff.process; i++) {
        note_diff(deck);
        if (deck->diff.process) {
            usleep(MICROSECONDS);
        }
    }
    td__git_diff_release(&deck->diff);
}

/* ---- Thread --------------------------------------------------------------------------------- */

/* Takes the whole queue; waits at most nap seconds for there to be one. *reached: the last closed step. */
static td__entry *take_entries(td_deck *deck, double nap, place *reached, bool *stop) {
    td__deck_lock(deck);
    if (!deck->first && !deck->stopping) {
        struct timespec until = td__deadline(nap);
        deck->writer_waits = true;
        pthread_cond_timedwait(&deck->work, &deck->lock, &until);
        deck->writer_waits = false;
    }
    td__entry *entries = deck->first;
    deck->first = deck->last = NULL;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        deck->outlets[i].live = deck->outlets[i].sink;
    }
    *reached = (place){.epoch = deck->closing_epoch, .step = deck->closing_step};
    *stop = deck->stopping && !entries;
    td__deck_unlock(deck);
    return entries;
}

/* A compute library that binds threads to cores (OMP_PROC_BIND) has bound this one too, by
 * inheritance, to the core that trains. */
static void allow_all_cores(void) {
    const char *bound = getenv("OMP_PROC_BIND");
    if (!bound || strcmp(bound, "false") == 0) {
        return;
    }
    cpu_set_t all;
    CPU_ZERO(&all);
    long cores = sysconf(_SC_NPROCESSORS_CONF);
    for (long i = 0; i < cores && i < CPU_SETSIZE; i++) {
        CPU_SET((size_t)i, &all);
    }
    (void)sched_setaffinity(0, sizeof all, &all); /* staying where it is is no error */
}

void *td__writer_run(void *argument) {
    td_deck *deck = argument;
    allow_all_cores();
    place at = {0}, reached = {0}, noted = {0};
    double nap = SHORTEST_NAP, busy = td__seconds(), handed_over = busy, sampled = busy,
           looked = busy;
    if (deck->system_seconds > 0) {
        td__system_init(&deck->system, "/proc", deck->folder_lock);
    }
    td__git_diff_start(&deck->diff, deck->diff.limit);
    for (bool stop = false; !stop;) {
        td__entry *entries = take_entries(deck, nap, &reached, &stop);
        if (entries) {
            write_all(deck, entries, &at);
        }
        double now = td__seconds();
        busy = entries ? now : busy;
        nap = entries ? SHORTEST_NAP : 2 * nap < LONGEST_NAP ? 2 * nap : LONGEST_NAP;
        if (!stop && now - handed_over >= HAND_OVER) {
            note_reached(deck, &reached, &noted);
            note_tracks(deck);
            hand_over(deck, &at);
            handed_over = now;
        }
        note_diff(deck);
        td__alert_look(deck);
        if (!stop && now - looked >= REQUEST_LOOK) {
            td__requests_look(deck);
            looked = now;
        }
        if (deck->system_seconds > 0 && now - sampled >= deck->system_seconds && reached.step > 0) {
            sample_system(deck, &reached);
            sampled = now;
        }
        if (!stop && now - busy > IDLE_FLUSH) {
            flush_sinks(deck);
            finish_entries(deck, &(done){0});
            busy = now;
        }
    }
    await_diff(deck);
    note_tracks(deck);
    (void)td__requests_forget(deck);
    td__alert_finish(deck);
    td__system_release(&deck->system);
    end_step(deck, &at);
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->live) {
            (void)call_sink(deck, outlet, CLOSE, NULL);
        }
    }
    count_lost(deck);
    return NULL;
}
