/* Tracks: checked and copied when they are added, and which of them a step concerns. */
#include "deck/deck.h"

#include "base/memory.h"
#include "base/options.h"
#include "deck/glob.h"
#include "deck/route.h"
#include "deck/track_text.h"

#include <string.h>

/* ---- Schedule ------------------------------------------------------------------------------- */

static bool in_window(const td__track *track, int64_t step) {
    return !track->off && (!track->start || step >= track->start) &&
           (!track->end || step <= track->end);
}

static bool step_is_due(const td__track *track, int64_t step) {
    if (!in_window(track, step)) {
        return false;
    }
    for (size_t i = 0; i < track->at_count; i++) {
        if (track->at[i] == step) {
            return true;
        }
    }
    return track->every > 0 && (step - track->start) % track->every == 0;
}

static bool epoch_is_due(const td__track *track, int64_t epoch, int64_t step) {
    return track->every_epochs > 0 && epoch % track->every_epochs == 0 && in_window(track, step);
}

bool td__track_scheduled(const td__track *track, int64_t epoch, int64_t step, bool epoch_end) {
    (void)step;
    return track->due_step || (epoch_end && epoch_is_due(track, epoch, step));
}

void td__tracks_open_step(td_deck *deck) {
    td__tracks due = {0}, sure = {0}, values_due = {0}, values_sure = {0};
    for (int32_t i = 0; i < deck->track_count; i++) {
        td__track *track = deck->tracks[i];
        track->due_step = step_is_due(track, deck->step);
        track->due_epoch =
            deck->announced && deck->epoch_end && epoch_is_due(track, deck->epoch, deck->step);
        track->due_maybe =
            !deck->announced && track->every_epochs > 0 && in_window(track, deck->step);
        td__tracks_put(
            due, i, !track->metrics && (track->due_step || track->due_epoch || track->due_maybe));
        td__tracks_put(values_due, i, track->due_step);
        td__tracks_put(values_sure, i, track->due_step && !track->condition);
        td__tracks_put(sure, i,
                       !track->metrics && (track->due_step || track->due_epoch) &&
                           !track->condition && !track->sample);
    }
    if (td__tracks_any(due) && td__overhead_skips(deck)) {
        memset(due, 0, sizeof due);
    }
    bool same = deck->due_version > 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        same = same && deck->tensors_sure[w] == sure[w] && deck->values_due[w] == values_due[w] &&
               deck->values_sure[w] == values_sure[w] &&
               atomic_load_explicit(&deck->due[w], memory_order_relaxed) == due[w];
        atomic_store_explicit(&deck->due[w], due[w], memory_order_relaxed);
        deck->tensors_sure[w] = sure[w];
        deck->values_due[w] = values_due[w];
        deck->values_sure[w] = values_sure[w];
    }
    deck->due_version += !same;
}

bool td_deck_due(td_deck *deck, int64_t step) {
    if (!deck) {
        return false;
    }
    td__deck_lock(deck);
    bool open = step == deck->step, due = false;
    for (int w = 0; w < TD__TRACK_WORDS && open; w++) { /* more is known of the open step */
        due = due || atomic_load_explicit(&deck->due[w], memory_order_relaxed);
    }
    for (int32_t i = 0; i < deck->track_count && !due && !open; i++) {
        const td__track *track = deck->tracks[i];
        due = !track->metrics &&
              (step_is_due(track, step) || (track->every_epochs > 0 && in_window(track, step)));
    }
    td__deck_unlock(deck);
    return due;
}

/* ---- Adding one ----------------------------------------------------------------------------- */

void td__track_destroy(td__track *track) {
    if (track) {
        td__free(track->patterns);
        td__free(track->at);
        td__free(track->text);
        td__condition_destroy(track->condition);
        td__free(track);
    }
}

td_status td__track_check(const td_track *given, td_error *error) {
    static const struct {
        const char *name;
        size_t offset;
    } counts[] = {
        {"every", offsetof(td_track, every)},   {"every_epochs", offsetof(td_track, every_epochs)},
        {"start", offsetof(td_track, start)},   {"end", offsetof(td_track, end)},
        {"sample", offsetof(td_track, sample)}, {"history", offsetof(td_track, history)},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t value;
        memcpy(&value, (const char *)given + counts[i].offset, sizeof value);
        if (value < 0) {
            return td_error_set(error, TD_INVALID, "track: .%s is %lld, which is less than 0",
                                counts[i].name, (long long)value);
        }
    }
    if (given->end && given->end < given->start) {
        return td_error_set(error, TD_INVALID, "track: .end (%lld) is before .start (%lld)",
                            (long long)given->end, (long long)given->start);
    }
    if (given->history && !given->when) {
        return td_error_set(error, TD_INVALID,
                            "track: .history is the time before a condition holds; give .when too");
    }
    if (given->metrics && given->when) {
        return td_error_set(error, TD_INVALID, "track: .metrics goes without .when");
    }
    uint32_t known = 0;
#define ADD_FORM(name, text, bit) known |= TD_##name;
    TD_FORM_LIST(ADD_FORM)
#undef ADD_FORM
    if (given->form & ~known) {
        return td_error_set(error, TD_INVALID, "track: .form has bits that are no form");
    }
    return TD_OK;
}

static td_status copy_track(const td_track *given, td__track **made, td_error *error) {
    td__track *track = td__calloc(1, sizeof *track);
    if (!track) {
        return td_error_set(error, TD_MEMORY, "out of memory for a track");
    }
    *made = track;
    bool by_itself = !given->every_epochs && !given->at.count;
    track->every = given->every ? given->every : by_itself;
    track->every_epochs = given->every_epochs;
    track->start = given->start;
    track->end = given->end;
    track->sample = given->sample;
    track->history = given->history;
    track->metrics = given->metrics;
    track->form = given->form;
    track->patterns = td__glob_split(given->what ? given->what : "*", &track->pattern_count);
    track->at = td__calloc(given->at.count, sizeof *track->at);
    track->text = td__track_print(given);
    if (!track->patterns || !track->at || !track->text) {
        return td_error_set(error, TD_MEMORY, "out of memory for a track");
    }
    if (given->at.count) {
        memcpy(track->at, given->at.steps, given->at.count * sizeof *track->at);
        track->at_count = given->at.count;
    }
    if (track->pattern_count == 0) {
        return td_error_set(error, TD_INVALID, "track: .what names no signal");
    }
    if (given->when) {
        td_error local = {0};
        track->condition = td__condition_parse(given->when, &local);
        return track->condition ? TD_OK : td_error_set(error, local.status, "%s", local.text);
    }
    return TD_OK;
}

/* ---- Sinks ---------------------------------------------------------------------------------- */

/* Chooses the outlets that the track goes to. */
static td_status choose_outlets(const td_deck *deck, const td_track *given, bool chosen[TD__SINKS],
                                td_error *error) {
    const td_sink_class *classes[TD__SINKS + 1] = {NULL};
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        classes[i] = deck->outlets[i].class;
    }
    td_error reason = {0};
    td_status status = td__route(classes, given->form, given->to, chosen, &reason);
    return status ? td_error_set(error, status, "track: %s", reason.text) : TD_OK;
}

static td_status open_outlets(td_deck *deck, const bool chosen[TD__SINKS], td_error *error) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        if (chosen[i]) {
            td_status status = td__outlet_open(deck, i, error);
            if (status != TD_OK) {
                return status;
            }
        }
    }
    return TD_OK;
}

static void set_forms(const td_deck *deck, td__track *track, const bool chosen[TD__SINKS]) {
    uint32_t values = TD_SCALAR | TD_TEXT | TD_IMAGE, all = 0;
    if (track->metrics && track->form) {
        values &= track->form;
    }
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        all |= chosen[i] ? td__route_forms(deck->outlets[i].class, track->form) : 0;
    }
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        const td_sink_class *class = deck->outlets[i].class;
        uint32_t always = deck->outlets[i].sink && deck->index ? class->always & class->forms : 0;
        uint32_t forms = chosen[i] ? td__route_forms(class, track->form) : 0;
        track->forms[i] = (uint16_t)(forms | (all & always));
        track->value_forms[i] = (uint16_t)((chosen[i] ? class->forms : always) & values);
        track->scalar_sinks |= track->value_forms[i] & TD_SCALAR ? (uint32_t)1 << i : 0;
    }
}

/* Announces the signals that the track names to the sinks. */
static td_status announce_signals(td_deck *deck, const td__track *track,
                                  const bool chosen[TD__SINKS]) {
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        const td_sink_class *class = deck->outlets[i].class;
        uint32_t forms = track->form ? track->form & class->forms
                                     : (class->default_forms | TD_SCALAR | TD_TEXT) & class->forms;
        for (size_t k = 0; k < track->pattern_count && chosen[i] && class->expect; k++) {
            if (td__glob_is_pattern(track->patterns[k])) {
                continue;
            }
            char *name = td__strdup(track->patterns[k]);
            td__message *message =
                name ? td__message_create(&deck->recycler, TD__ENTRY_EXPECT) : NULL;
            bool sent = false;
            if (message) {
                td__glob_unescape(name);
                message->sink = i;
                message->expect = forms;
                sent = td__deck_message(deck, message, name, "", true);
            }
            td__free(name);
            if (!sent) {
                return td__deck_fail(deck, TD_MEMORY, "out of memory for a track");
            }
        }
    }
    return TD_OK;
}

td_status td__track_install(td_deck *deck, td__track *track, const bool chosen[TD__SINKS]) {
    set_forms(deck, track, chosen);
    td_status status = announce_signals(deck, track, chosen);
    int32_t index = deck->track_count;
    deck->tracks[index] = track;
    deck->track_count++;
    td__tracks_put(deck->by_steps, index, track->every > 0 || track->at_count > 0);
    deck->due_version++;
    deck->tracks_version++;
    atomic_store_explicit(&deck->words, (deck->track_count + 63) / 64, memory_order_relaxed);
    for (size_t i = 0; i < deck->signal_count; i++) {
        td_status met = td__signal_meet(deck->signals[i], index);
        status = status == TD_OK ? met : status;
    }
    if (deck->fresh) {
        td__tracks_open_step(deck);
    }
    return status;
}

td_status td__track_alert(td_deck *deck, const char *when, td__alert *alert, td_error *error) {
    static const bool nowhere[TD__SINKS] = {false};
    td_error reason = {0};
    if (deck->track_count == TD__TRACKS) {
        return td_error_set(error, TD_RANGE, "alert: a deck has at most %d tracks and alerts",
                            TD__TRACKS);
    }
    td__track *track = td__calloc(1, sizeof *track);
    if (!track) {
        return td_error_set(error, TD_MEMORY, "out of memory for an alert");
    }
    track->every = 1;
    track->alert = alert;
    track->condition = td__condition_parse(when, &reason);
    if (!track->condition) {
        td__track_destroy(track);
        return td_error_set(error, reason.status, "alert: %s", reason.text);
    }
    td_status status = td__track_install(deck, track, nowhere);
    if (status) { /* it stays, and raises nothing */
        track->alert = NULL;
        return td_error_set(error, status, "%s", deck->error.text);
    }
    return TD_OK;
}

void td__track_switch(td_deck *deck, int32_t index, bool on) {
    td__track *track = deck->tracks[index];
    track->off = !on;
    if (!on) {
        td__history_clear(deck, track);
    }
    td__tracks_put(deck->by_steps, index, on && (track->every > 0 || track->at_count > 0));
    deck->due_version++;
    deck->tracks_version++;
    if (deck->fresh) {
        td__tracks_open_step(deck);
    }
}

td_status td__track_prepare(td_deck *deck, const td_track *given, td__track **made,
                            bool chosen[TD__SINKS], td_error *error) {
    td__track *track = NULL;
    td_status status = td__track_check(given, error);
    status = status == TD_OK ? copy_track(given, &track, error) : status;
    status = status == TD_OK ? choose_outlets(deck, given, chosen, error) : status;
    status = status == TD_OK ? open_outlets(deck, chosen, error) : status;
    if (status != TD_OK) {
        td__track_destroy(track);
        return status;
    }
    *made = track;
    return TD_OK;
}

td_status td_deck_track_with(td_deck *deck, const td_track *given, td_error *error) {
    if (!deck || !given) {
        (void)td_error_set(error, TD_INVALID, "track: the %s is NULL", deck ? "track" : "deck");
        return td__deck_refuse(deck, "a track");
    }
    td_error local = {0};
    td_track full;
    td__track *track = NULL;
    bool chosen[TD__SINKS] = {false};
    (void)td__options(&full, sizeof full, given);
    td__deck_enter(deck);
    td_status status = TD_OK;
    if (given->size < offsetof(td_track, what)) {
        status = td_error_set(&local, TD_INVALID, "track: .size is not set");
    } else if (deck->track_count == TD__TRACKS) {
        status = td_error_set(&local, TD_RANGE, "track: a deck has at most %d", TD__TRACKS);
    }
    status = status == TD_OK ? td__track_prepare(deck, &full, &track, chosen, &local) : status;
    if (status == TD_OK) {
        status = td__track_install(deck, track, chosen); /* from here on it is the deck's */
        local = deck->error;
    } else {
        (void)td__deck_fail(deck, status, "%s", local.text);
    }
    td__deck_unlock(deck);
    if (status != TD_OK && error) {
        *error = local;
    }
    return status;
}
