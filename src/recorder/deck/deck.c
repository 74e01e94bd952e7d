/* Opening, flushing and closing a deck; its errors, events and counters. */
#include "deck/deck.h"
#include "deck/summary.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/network.h"
#include "base/number.h"
#include "base/options.h"
#include "base/thread.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)

static const double DEFAULT_SYSTEM_SECONDS = 5;

/* ---- Names ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t form;
} forms[] = {
#define FORM(name, text, bit) {text, TD_##name},
    TD_FORM_LIST(FORM)
#undef FORM
};

const char *td_form_name(uint32_t form) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].form == form) {
            return forms[i].name;
        }
    }
    return NULL;
}

uint32_t td_form_find(const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            return forms[i].form;
        }
    }
    return 0;
}

const char *td_event_name(td_event_kind kind) {
    static const char *const names[] = {
#define EVENT(name, text) text,
        TD_EVENT_LIST(EVENT)
#undef EVENT
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

/* ---- Lock ----------------------------------------------------------------------------------- */

void td__deck_lock(td_deck *deck) {
    pthread_mutex_lock(&deck->lock);
}

void td__deck_enter(td_deck *deck) {
    td__deck_lock(deck);
    td__scalars_take(deck);
}

void td__deck_unlock(td_deck *deck) {
    td__snapshot *borrowed = deck->recycler.borrowed;
    deck->recycler.borrowed = NULL;
    pthread_mutex_unlock(&deck->lock);
    if (borrowed) {
        td__borrowed_notify(borrowed);
        pthread_mutex_lock(&deck->lock);
        td__borrowed_recycle(&deck->recycler, borrowed);
        pthread_mutex_unlock(&deck->lock);
    }
}

/* ---- Errors and messages -------------------------------------------------------------------- */

td_status td__deck_fail(td_deck *deck, td_status status, const char *format, ...) {
    if (deck->error.status == TD_OK) {
        char text[TD_ERROR_TEXT_SIZE];
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        td_error_set(&deck->error, status, "%s", text);
    }
    return status;
}

td_status td__deck_refuse(td_deck *deck, const char *what) {
    if (deck) {
        td__deck_lock(deck);
        (void)td__deck_fail(deck, TD_INVALID, "%s is NULL", what);
        td__deck_unlock(deck);
    }
    return TD_INVALID;
}

bool td__deck_message(td_deck *deck, td__message *message, const char *first, const char *second,
                      bool wait) {
    size_t first_size = strlen(first) + 1, size = first_size + strlen(second) + 1;
    size_t bytes = sizeof *message + td__deck_pool_size(size);
    if (!td__queue_acquire(deck, bytes, wait)) {
        td__entry_release(&deck->recycler, &message->entry);
        return false;
    }
    message->text = td__deck_pool_take(&deck->recycler.pool, size);
    if (!message->text) {
        td__queue_give_back(deck, bytes);
        td__entry_release(&deck->recycler, &message->entry);
        return false;
    }
    message->entry.bytes = bytes;
    message->text_size = size;
    memcpy(message->text, first, first_size);
    memcpy(message->text + first_size, second, size - first_size);
    td__queue_push(deck, &message->entry);
    return true;
}

void td__deck_event(td_deck *deck, td_event_kind kind, const td_signal *signal, int64_t count,
                    const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE + 64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    td__message *message = td__message_create(&deck->recycler, TD__ENTRY_EVENT);
    if (!message) {
        return; /* an event describes the run; losing it loses no record */
    }
    message->event = (td_event){.kind = kind,
                                .epoch = deck->closing_epoch,
                                .step = deck->closing_step,
                                .wall_time = td__wall_time(),
                                .count = count};
    (void)td__deck_message(deck, message, signal ? signal->name : "", text, false);
}

void td__deck_report_losses(td_deck *deck, bool closing) {
    /* What a sink still holds when everything else is written, it could not write. */
    int64_t held = closing ? deck->counters.pending : 0;
    int64_t dropped = deck->counters.dropped + held - deck->dropped_reported;
    int64_t degraded = deck->counters.degraded - deck->degraded_reported;
    if (!dropped && !degraded) {
        return;
    }
    double now = td__seconds();
    if (!closing && now - deck->reported_at < 1) {
        return;
    }
    deck->reported_at = now;
    deck->dropped_reported += dropped;
    deck->degraded_reported += degraded;
    if (dropped) {
        td__deck_event(deck, TD_EVENT_DROP, NULL, dropped, "records dropped: %lld",
                       (long long)dropped);
    }
    if (degraded) {
        td__deck_event(deck, TD_EVENT_DEGRADE, NULL, degraded,
                       "records written in a smaller form: %lld", (long long)degraded);
    }
}

td_status td__deck_note(td_deck *deck, const char *key, const char *value) {
    td__message *message = td__message_create(&deck->recycler, TD__ENTRY_NOTE);
    if (!message || !td__deck_message(deck, message, key, value, true)) {
        return td__deck_fail(deck, TD_MEMORY, "no room for the note %s", key);
    }
    return TD_OK;
}

td_status td_deck_note(td_deck *deck, const char *key, const char *value) {
    if (!deck || !key || !value) {
        return td__deck_refuse(deck, key ? "the value of a note" : "the key of a note");
    }
    td__deck_lock(deck);
    td_status status = td__deck_note(deck, key, value);
    if (strcmp(key, "state") == 0) {
        (void)snprintf(deck->state, sizeof deck->state, "%s", value);
    }
    td__deck_unlock(deck);
    return status;
}

/* ---- Counters ------------------------------------------------------------------------------- */

double td__deck_seconds(const td_deck *deck, uint64_t ticks) {
    uint64_t life = td__ticks() - deck->opened_ticks;
    return life ? (double)ticks / (double)life * (td__seconds() - deck->opened_seconds) : 0;
}

static td_deck_counters current_counters(const td_deck *deck) {
    td_deck_counters now = deck->counters;
    now.size = sizeof now;
    now.queue_bytes = (int64_t)deck->queue_used;
    now.history_held = (int64_t)deck->history_used;
    now.cost_seconds = td__deck_seconds(deck, deck->cost);
    now.wait_seconds = td__deck_seconds(deck, deck->waited);
    now.writer_seconds = td__deck_seconds(deck, deck->writer_cost);
    now.step_seconds = td__deck_seconds(deck, deck->step_ticks - deck->first_step_ticks);
    return now;
}

static void give_counters(td_deck_counters now, td_deck_counters *counters) {
    td__options_give(counters, &now, sizeof now);
}

void td_deck_count(td_deck *deck, td_deck_counters *counters) {
    td_deck_counters now = {.size = sizeof now};
    if (deck) {
        td__deck_lock(deck);
        now = current_counters(deck);
        td__deck_unlock(deck);
    }
    if (counters) {
        give_counters(now, counters);
    }
}

/* The deck's own cost is part of the run. */
static void note_counters(td_deck *deck) {
    td_deck_counters now = current_counters(deck);
    const struct {
        const char *key;
        double value;
    } facts[] = {
        {"deck.cost_seconds", now.cost_seconds},
        {"deck.wait_seconds", now.wait_seconds},
        {"deck.step_seconds", now.step_seconds},
        {"deck.writer_seconds", now.writer_seconds},
        {"deck.steps", (double)now.steps},
        {"deck.submitted", (double)now.submitted},
        {"deck.dropped", (double)(now.dropped + now.pending)}, /* a sink holds them: lost */
        {"deck.degraded", (double)now.degraded},
        {"deck.triggers", (double)now.triggers},
        {"deck.history_lost", (double)now.history_lost},
        {"deck.queue_bytes_peak", (double)now.queue_bytes_peak},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        char text[TD__NUMBER_ROOM];
        text[td__format_double(text, facts[i].value)] = 0;
        (void)td__deck_note(deck, facts[i].key, text);
    }
}

bool td__deck_recorded(td_deck *deck, int32_t track) {
    td__deck_enter(deck);
    bool recorded = td__tracks_has(deck->recorded, track);
    td__deck_unlock(deck);
    return recorded;
}

/* ---- Flush and close ------------------------------------------------------------------------ */

static td_status flush_queue(td_deck *deck, td_error *error) {
    td__flush waiting = {.entry.kind = TD__ENTRY_FLUSH};
    td__queue_push(deck, &waiting.entry);
    deck->flushers++;
    while (!waiting.done) {
        td__queue_wake(deck);
        pthread_cond_wait(&deck->room, &deck->lock);
    }
    deck->flushers--;
    if (waiting.error.status != TD_OK && error) {
        *error = waiting.error;
    }
    return waiting.error.status;
}

td_status td_deck_flush(td_deck *deck, td_error *error) {
    if (!deck) {
        return td_error_set(error, TD_INVALID, "flush: the deck is NULL");
    }
    td__deck_lock(deck);
    td_status status = flush_queue(deck, error);
    td__deck_unlock(deck);
    return status;
}

static void release_deck(td_deck *deck) {
    for (int32_t i = 0; i < deck->track_count; i++) {
        td__history_clear(deck, deck->tracks[i]);
        td__track_destroy(deck->tracks[i]);
    }
    td__deck_batch_unref(&deck->recycler, deck->batch);
    td__deck_lock(deck);
    for (td__entry *entry = deck->first, *next; entry; entry = next) {
        next = entry->next; /* events of a sink that failed when it was closed */
        td__entry_release(&deck->recycler, entry);
    }
    td__deck_unlock(deck); /* notifies the owners of memory that history held */
    td__recycler_release(&deck->recycler);
    td__signals_release(deck);
    td__requests_release(deck);
    td__alerts_release(&deck->alerts);
    pthread_cond_destroy(&deck->work);
    pthread_cond_destroy(&deck->room);
    pthread_mutex_destroy(&deck->lock);
    td__heartbeat_stop(deck->heartbeat, *deck->state ? deck->state : "failed");
    if (deck->folder_lock >= 0) {
        close(deck->folder_lock);
    }
    td__free(deck->folder);
    td__free(deck->store);
    td__free(deck);
}

enum { TIME_TEXT = 32 };

/* "2026-11-16T06:44:38Z" */
static void format_time(char text[TIME_TEXT]) {
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    (void)strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* A run whose state stays `running` while its folder is not locked has crashed. */
static void note_end(td_deck *deck) {
    char ended[TIME_TEXT];
    format_time(ended);
    (void)td__deck_note(deck, "ended", ended);
    const struct {
        const char *key;
        int64_t value;
    } reached[] = {{TD__NOTE_STEP, deck->closing_step}, {TD__NOTE_EPOCH, deck->closing_epoch}};
    for (size_t i = 0; i < sizeof reached / sizeof *reached && deck->closing_step > 0; i++) {
        char text[TD__NUMBER_ROOM];
        text[td__format_int(text, reached[i].value)] = 0;
        (void)td__deck_note(deck, reached[i].key, text);
    }
    if (!*deck->state) {
        (void)snprintf(deck->state, sizeof deck->state, "finished");
        (void)td__deck_note(deck, "state", deck->state);
    }
}

static void stop_writer(td_deck *deck) {
    td__deck_lock(deck);
    deck->stopping = true;
    td__queue_wake(deck);
    td__deck_unlock(deck);
    pthread_join(deck->writer, NULL);
}

td_status td_deck_close(td_deck *deck, td_error *error) {
    return td_deck_close_with(deck, NULL, error);
}

td_status td_deck_close_with(td_deck *deck, td_deck_counters *counters, td_error *error) {
    if (!deck) {
        return TD_OK;
    }
    td__deck_enter(deck);
    bool open_step = deck->staged_first || deck->packed_first;
    int64_t epoch = deck->epoch, step = deck->step;
    td__deck_unlock(deck);
    if (open_step) {
        (void)td_deck_step(deck, epoch, step);
    }
    td_error first = {0}, second = {0};
    td__deck_lock(deck);
    td_status status =
        flush_queue(deck, &first); /* after this, losses are known and can be reported */
    td__deck_report_losses(deck, true);
    note_counters(deck);
    note_end(deck);
    td_status closed = flush_queue(deck, &second);
    td__deck_unlock(deck);
    stop_writer(deck);
    if (status == TD_OK && (closed != TD_OK || deck->error.status != TD_OK)) {
        first = closed != TD_OK ? second : deck->error; /* the last: of closing the sinks */
        status = first.status;
    }
    if (status != TD_OK && error) {
        *error = first;
    }
    if (counters) {
        give_counters(current_counters(deck), counters);
    }
    release_deck(deck);
    return status;
}

/* ---- Open ----------------------------------------------------------------------------------- */

/* Reports a problem that does not stop the sink. */
static void report_sink_problem(void *listener, const td_error *problem) {
    td__outlet *outlet = listener;
    td_deck *deck = outlet->deck;
    td__deck_lock(deck);
    (void)td__deck_fail(deck, problem->status, "%s: %s", outlet->class->name, problem->text);
    td__deck_event(deck, TD_EVENT_SINK_ERROR, NULL, 1, "%s: %s", outlet->class->name,
                   problem->text);
    td__deck_unlock(deck);
}

td_status td__outlet_open(td_deck *deck, int32_t index, td_error *error) {
    td__outlet *outlet = &deck->outlets[index];
    deck->flushers++;
    while (outlet->opening) {
        pthread_cond_wait(&deck->room, &deck->lock);
    }
    deck->flushers--;
    if (outlet->sink) {
        return TD_OK;
    }
    outlet->opening = true;
    td__deck_unlock(deck);
    const char *slash = strrchr(deck->folder, '/');
    char *now = td__folder_whereabouts(deck->folder_lock); /* it may have been renamed */
    td_sink_options options = {
        .size = sizeof options,
        .folder = now ? now : deck->folder,
        .run = slash ? slash + 1 : deck->folder,
        .stream = deck->stream,
        .user = outlet->class->user,
        .resume = deck->resume,
        .report = report_sink_problem,
        .listener = outlet,
        .held = &outlet->held,
        .store = deck->store,
    };
    td_sink *sink = NULL;
    td_error local = {0};
    sigset_t before;
    td__block_file_signals(
        &before); /* the writer thread, which calls all else, has its signals blocked */
    td_status status = outlet->class->open(&options, &sink, &local);
    td__unblock_file_signals(&before);
    td__free(now);
    td__deck_lock(deck);
    outlet->opening = false;
    outlet->sink = status == TD_OK ? sink : NULL;
    pthread_cond_broadcast(&deck->room);
    if (status == TD_OK) {
        return TD_OK;
    }
    return td_error_set(error, status, "%s: %s", outlet->class->name,
                        local.text[0] ? local.text : td_status_text(status));
}

static td_status list_sinks(td_deck *deck, const td_sink_class *const *sinks, td_error *error) {
    for (; sinks && *sinks; sinks++) {
        if (deck->outlet_count == TD__SINKS) {
            return td_error_set(error, TD_RANGE, "a deck has at most %d sinks", TD__SINKS);
        }
        deck->outlets[deck->outlet_count].deck = deck;
        deck->outlets[deck->outlet_count++].class = *sinks;
    }
    return TD_OK;
}

/* The writer holds the lock for a microsecond or two. A waiting thread spins before it sleeps, because
 * sleeping takes many times as long. */
static bool init_mutex(pthread_mutex_t *mutex) {
    pthread_mutexattr_t adaptive;
    if (pthread_mutexattr_init(&adaptive) != 0) {
        return false;
    }
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
    (void)pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    bool ready = pthread_mutex_init(mutex, &adaptive) == 0;
    pthread_mutexattr_destroy(&adaptive);
    return ready;
}

static bool init_locks(td_deck *deck) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) {
        return false;
    }
    bool ready = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                 pthread_cond_init(&deck->work, &monotonic) == 0 &&
                 pthread_cond_init(&deck->room, &monotonic) == 0 && init_mutex(&deck->lock);
    pthread_condattr_destroy(&monotonic);
    return ready;
}

static void set_options(td_deck *deck, const td_deck_options *options) {
    deck->policy = options->policy;
    deck->queue_limit = (size_t)(options->queue_bytes > 0 ? options->queue_bytes : 256 * MIB);
    deck->history_limit = (size_t)(options->history_bytes > 0 ? options->history_bytes : 64 * MIB);
    deck->recycler.pool.limit = deck->queue_limit + deck->history_limit;
    deck->overhead_limit = options->overhead;
    deck->seed = options->seed;
    deck->stop_on_error = options->stop_on_error;
    deck->index = !options->no_index;
    deck->stream = options->stream;
    deck->resume = options->resume;
    int64_t busy = options->busy_cores > 0 ? options->busy_cores : 1;
    deck->core_to_spare = sysconf(_SC_NPROCESSORS_ONLN) > busy;
    deck->run_parts = options->run_parts;
    deck->parts = !options->run_parts ? 1 : busy < TD__MAX_PARTS ? (int32_t)busy : TD__MAX_PARTS;
    deck->serial = 1;
    deck->epoch = 1;
    deck->step = (options->resume > 0 ? options->resume : 0) + 1;
    deck->fresh = true;
    deck->opened_ticks = deck->step_ticks = deck->first_step_ticks = td__ticks();
    deck->opened_seconds = td__seconds();
}

static td_status check_options(const td_deck_options *options, td_error *error) {
    if (options->queue_bytes < 0 || options->history_bytes < 0 || options->resume < -1) {
        return td_error_set(error, TD_INVALID,
                            "deck: queue, history and resume cannot be negative");
    }
    if (options->queue_bytes > 0 && options->queue_bytes < (int64_t)TD__SMALLEST_QUEUE) {
        return td_error_set(error, TD_INVALID, "deck: a queue holds at least %d bytes, not %lld",
                            TD__SMALLEST_QUEUE, (long long)options->queue_bytes);
    }
    if (options->diff_bytes < 0 || options->diff_bytes > 64 * MIB ||
        isnan(options->system_seconds)) {
        return td_error_set(error, TD_INVALID,
                            "deck: a diff has at most 64 MiB, and system_seconds is a number");
    }
    if ((uint32_t)options->policy > TD_POLICY_DEGRADE || !(options->overhead >= 0)) {
        return td_error_set(error, TD_INVALID, "deck: policy or overhead is not valid");
    }
    const td_rank *rank = options->rank;
    if (rank && (rank->rank < 0 || rank->attempt < 0 || rank->world > TD__MAX_RANKS ||
                 (rank->world > 1 && (rank->rank >= rank->world || options->resume)))) {
        return td_error_set(
            error, TD_INVALID,
            "deck: rank %lld of %lld is none, or resumes a run: a process that starts "
            "again is another attempt",
            (long long)rank->rank, (long long)rank->world);
    }
    return td__cpu_check(error);
}

static void note_fact(void *user, const char *key, const char *value) {
    const td_deck *deck = user;
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        const td__outlet *outlet = &deck->outlets[i];
        if (outlet->sink && outlet->class->note) {
            (void)outlet->class->note(outlet->sink, key, value, NULL);
        }
    }
}

/* Before the writer thread starts, no other thread calls sinks. A failure shows at the next call. */
static void note_start(td_deck *deck, bool environment) {
    if (environment) {
        td__environment_facts(note_fact, deck);
    }
    char started[TIME_TEXT];
    format_time(started);
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        td__outlet *outlet = &deck->outlets[i];
        if (outlet->sink && outlet->class->note) {
            if (!deck->resume) {
                (void)outlet->class->note(outlet->sink, "started", started, NULL);
            }
            (void)outlet->class->note(outlet->sink, "state", "running", NULL);
            (void)outlet->class->note(outlet->sink, "environment.kernels",
                                      td__cpu_name(td__cpu_chosen()), NULL);
            outlet->dirty = true;
        }
    }
}

static void note_rank(td_deck *deck, const td_rank *rank) {
    const struct {
        const char *key;
        int64_t value;
    } facts[] = {{"rank", rank->rank},
                 {"world_size", rank->world},
                 {"local_rank", rank->local_rank},
                 {"node", rank->node},
                 {"attempt", rank->attempt > 0 ? rank->attempt : 1}};
    td__deck_lock(deck);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char text[TD__NUMBER_ROOM];
        text[td__format_int(text, facts[i].value)] = 0;
        (void)td__deck_note(deck, facts[i].key, text);
    }
    if (rank->mesh && *rank->mesh) {
        (void)td__deck_note(deck, "mesh", rank->mesh);
    }
    td__deck_unlock(deck);
}

static td_status start_deck(td_deck *deck, bool environment, td_error *error) {
    td__deck_lock(deck);
    td_status status = TD_OK;
    for (int32_t i = 0; i < deck->outlet_count && status == TD_OK; i++) {
        if (deck->outlets[i].class->always && deck->index) {
            status = td__outlet_open(deck, i, error);
        }
    }
    td__deck_unlock(deck);
    if (status == TD_OK) {
        note_start(deck, environment);
        if (td__thread_start(&deck->writer, td__writer_run, deck) != 0) {
            status = td_error_set(error, TD_MEMORY, "deck: the writer thread does not start");
        }
    }
    for (int32_t i = 0; i < deck->outlet_count && status != TD_OK; i++) {
        if (deck->outlets[i].sink) {
            (void)deck->outlets[i].class->close(deck->outlets[i].sink, NULL);
        }
    }
    return status;
}

static td_status take_folder(const char *folder, const td_deck_options *options, td_deck *deck,
                             td_error *error) {
    td_status status = options->rank && options->rank->world > 1
                           ? td__folder_claim_rank(folder, options->rank, &deck->folder, error)
                       : options->resume
                           ? td__folder_find(folder, &deck->folder, error)
                           : td__folder_claim(folder, options->exact_folder, &deck->folder, error);
    status = status ? status : td__folder_lock(deck->folder, &deck->folder_lock, error);
    if (status || deck->folder_lock < 0) {
        return status;
    }
    if (td__folder_is_network(deck->folder_lock)) {
        return td__heartbeat_start(deck->folder_lock, &deck->heartbeat, error);
    }
    if (options->resume) {
        td__heartbeat_remove(deck->folder_lock);
    }
    return TD_OK;
}

td_deck *td__deck_open(const char *folder, const td_deck_options *options,
                       const td_sink_class *const *sinks, td_error *error) {
    td_deck_options full;
    td_rank rank;
    (void)td__options(&full, sizeof full, options);
    (void)td__options(&rank, sizeof rank, full.rank);
    full.rank = &rank;
    if (check_options(&full, error) != TD_OK) {
        return NULL;
    }
    td_deck *deck = td__calloc(1, sizeof *deck);
    if (!deck || !init_locks(deck)) {
        td__free(deck);
        td_error_set(error, TD_MEMORY, "out of memory for a deck");
        return NULL;
    }
    deck->folder_lock = -1;
    set_options(deck, &full);
    if (full.store && !(deck->store = td__strdup(full.store))) {
        td_error_set(error, TD_MEMORY, "out of memory for a deck");
        release_deck(deck);
        return NULL;
    }
    if (list_sinks(deck, sinks, error) != TD_OK || list_sinks(deck, full.sinks, error) != TD_OK ||
        take_folder(folder ? folder : "", &full, deck, error) != TD_OK) {
        release_deck(deck);
        return NULL;
    }
    (void)td__requests_forget(deck);
    bool environment = td__environment_wanted();
    deck->system_seconds = !environment               ? -1
                           : full.system_seconds == 0 ? DEFAULT_SYSTEM_SECONDS
                                                      : full.system_seconds;
    deck->diff.limit = environment && full.diff_bytes > 0 ? (size_t)full.diff_bytes : 0;
    if (start_deck(deck, environment && !full.no_environment, error) != TD_OK) {
        if (!full.resume) {
            (void)td__folder_remove(deck->folder);
        }
        release_deck(deck);
        return NULL;
    }
    if (rank.world > 1) {
        note_rank(deck, &rank);
    }
    return deck;
}

const char *td_deck_folder(const td_deck *deck) {
    return deck ? deck->folder : NULL;
}
