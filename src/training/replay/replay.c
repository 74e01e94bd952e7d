/* Steps executed again and recorded: in a folder of their own, or added to the run. */
#include "replay/player.h"

#include "base/memory.h"
#include "base/options.h"
#include "deck/deck.h"
#include "deck/folder.h"
#include "run/replayed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAMES = 256, WINDOW = 0, UNTIL = 1 }; /* tracks */

typedef struct replay {
    const td_replay_options *options;
    int64_t first, last;
    td__player player;
    td__track_spec tracks[2];
    size_t track_count;
    char *names; /* copies that the tracks point into */
    const char *what[MAX_NAMES], *to[MAX_NAMES], *loss[1];
    char folder[TD_REPLAY_PATH]; /* that is written to */
} replay;

/* ---- Tracks ---------------------------------------------------------------------------------- */

/* Splits a list at its commas, in place; a backslash takes the next character as it is. */
static size_t split_items(char *text, const char **items) {
    size_t count = 0;
    while (text && *text && count < MAX_NAMES) {
        items[count++] = text;
        while (*text && *text != ',') {
            text += text[0] == '\\' && text[1] ? 2 : 1;
        }
        if (*text) {
            *text++ = 0;
        }
    }
    return count;
}

static td_status make_tracks(replay *r, td_error *error) {
    const td_replay_options *options = r->options;
    const char *what = options->what ? options->what : "", *to = options->to ? options->to : "";
    size_t size = strlen(what) + 1;
    r->names = td__calloc(size + strlen(to) + 1, 1);
    if (!r->names) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    memcpy(r->names, what, size);
    memcpy(r->names + size, to, strlen(to) + 1);
    td__track_spec *track = &r->tracks[WINDOW];
    *track = (td__track_spec){.every = {.steps = 1},
                              .start = r->first,
                              .end = r->last,
                              .when = options->when,
                              .history = options->history,
                              .form = options->form};
    track->what = (td_names){r->what, split_items(r->names, r->what)};
    track->to = (td_names){r->to, split_items(r->names + size, r->to)};
    r->track_count = track->what.count ? 1 : 0;
    if (options->until) { /* ends the replay when it records something */
        r->loss[0] = "loss";
        if (!r->track_count) {
            return td_error_set(error, TD_INVALID, "until: nothing is to be recorded");
        }
        r->tracks[r->track_count++] = (td__track_spec){.every = {.steps = 1},
                                                       .start = r->first,
                                                       .end = r->last,
                                                       .when = options->until,
                                                       .form = TD_SCALAR,
                                                       .what = {r->loss, 1}};
    }
    return TD_OK;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static td_status check_window(replay *r, td_error *error) {
    const td_replay_options *options = r->options;
    r->first = options->first;
    r->last = options->last ? options->last : options->first;
    if (r->first < 1 || r->last < r->first) {
        return td_error_set(error, TD_INVALID,
                            "steps %lld to %lld: expected 1 or more, and ascending",
                            (long long)r->first, (long long)r->last);
    }
    if (r->first <= r->player.parent_step) {
        return td_error_set(error, TD_INVALID,
                            "%s branches off after step %lld: replay earlier ones of %s",
                            r->player.folder, (long long)r->player.parent_step, r->player.parent);
    }
    if (r->last > r->player.last_step) {
        return td_error_set(error, TD_INVALID, "%s has %lld steps, and not %lld", r->player.folder,
                            (long long)r->player.last_step, (long long)r->last);
    }
    return TD_OK;
}

static td_status check_place(replay *r, td_error *error) {
    struct stat about;
    const char *out = r->options->out;
    if (!r->options->what) {
        return TD_OK;
    }
    if (out && stat(out, &about) == 0) {
        return td_error_set(error, TD_EXISTS, "%s is there already: give a folder that is not",
                            out);
    }
    if (!out && r->player.state == TD_RUN_RUNNING) {
        return td_error_set(
            error, TD_BUSY,
            "%s is being written: its records are read only; give a folder for those "
            "of the replay",
            r->player.folder);
    }
    if (!out && access(r->player.folder, W_OK) != 0) {
        return td_error_set(error, TD_IO,
                            "%s cannot be written to: give a folder for the records of the replay",
                            r->player.folder);
    }
    return TD_OK;
}

static td_status announce(replay *r, td_error *error) {
    const td_plan_entry *entries;
    td_replay_plan plan = {.checkpoint = r->player.began,
                           .first = r->first,
                           .last = r->last,
                           .steps = r->last - r->player.began};
    size_t count = td_trainer_plan(r->player.trainer, &entries);
    for (size_t i = 0; i < count; i++) {
        plan.bytes += entries[i].bytes;
    }
    plan.seconds = r->player.step_seconds * (double)plan.steps;
    bool go = !r->options->plan || r->options->plan(r->options->user, &plan);
    return go ? TD_OK : td_error_set(error, TD_INTERRUPTED, "the replay was not wanted");
}

/* ---- Executing ------------------------------------------------------------------------------- */

/* RUN/replayed/FIRST-LAST, or FIRST-LAST-2 … when that is taken. */
static td_status choose_folder(replay *r, td_error *error) {
    if (r->options->out) {
        (void)snprintf(r->folder, sizeof r->folder, "%s", r->options->out);
        return TD_OK;
    }
    struct stat about;
    for (int n = 1; n < 10000; n++) {
        char number[16] = "";
        if (n > 1) {
            (void)snprintf(number, sizeof number, "-%d", n);
        }
        int length = snprintf(r->folder, sizeof r->folder, "%s/replayed/%lld-%lld%s",
                              r->player.folder, (long long)r->first, (long long)r->last, number);
        if (length < 0 || (size_t)length >= sizeof r->folder) {
            return td_error_set(error, TD_RANGE, "%s: the path is too long", r->player.folder);
        }
        if (stat(r->folder, &about) != 0) {
            return TD_OK;
        }
    }
    return td_error_set(error, TD_EXISTS, "%s/replayed has too many folders", r->player.folder);
}

static td_status execute(replay *r, td_error *error) {
    td__player *player = &r->player;
    if (!r->options->until) {
        return td__player_advance(player, r->last, error);
    }
    td_status status = td__player_advance(player, r->first - 1, error);
    for (int64_t step = r->first; !status && step <= r->last; step++) {
        status = td__player_advance(player, step, error);
        if (td__deck_recorded(player->trainer->recording.deck, UNTIL)) {
            break;
        }
    }
    return status;
}

static td_status close_deck(replay *r, td_status status, td_replay_result *result,
                            td_error *error) {
    td__recording *recording = &r->player.trainer->recording;
    td_deck_counters counters = {.size = sizeof counters};
    td_error reason = {0};
    if (!recording->deck) {
        return status;
    }
    td_status closing = td_deck_close_with(recording->deck, &counters, &reason);
    recording->deck = NULL;
    result->records = counters.written;
    return status ? status : closing ? td_error_set(error, closing, "%s", reason.text) : TD_OK;
}

/* Whether all that was compared is as it was. */
static bool is_same(const td__player *player) {
    return !player->differs_at;
}

static td_status add_to_run(replay *r, td_replay_result *result, td_error *error) {
    int64_t added = 0;
    td_status status = td__run_add_replayed(
        r->player.folder, r->folder + strlen(r->player.folder) + 1, &added, &result->kept, error);
    result->records = added;
    return status;
}

static td_status run_replay(replay *r, td_replay_result *result, td_error *error) {
    td__player *player = &r->player;
    bool records = r->track_count > 0;
    char note[TD_REPLAY_PATH + 80];
    player->tracks = r->tracks;
    player->track_count = r->track_count;
    td_status status = td__player_start(player, r->first - 1, error);
    status = status ? status : announce(r, error);
    if (!status && records) {
        (void)snprintf(note, sizeof note, "%s, steps %lld to %lld", player->folder,
                       (long long)r->first, (long long)r->last);
        status = choose_folder(r, error);
        status =
            status ? status : td__recording_open_replay(player->trainer, r->folder, note, error);
    }
    if (status) {
        return status;
    }
    if (records) {
        (void)snprintf(result->out, sizeof result->out, "%s", r->folder);
    }
    status = close_deck(r, execute(r, error), result, error);
    result->checkpoint = player->began;
    result->last = td__player_step(player);
    result->compared = player->compared;
    result->identical_to = player->identical_to;
    result->differs_at = player->differs_at;
    if (player->differs_at) {
        (void)snprintf(result->signal, sizeof result->signal, "%s", player->signal);
        td__player_reason(player, result->reason);
    }
    if (!status && records && !r->options->out && is_same(player)) {
        status = add_to_run(r, result, error);
    }
    return status;
}

td_status td_replay_run(const char *run, const td_replay_options *options, td_replay_result *result,
                        td_error *error) {
    td_replay_options given;
    td_replay_result found = {.size = sizeof found};
    replay *r = td__calloc(1, sizeof *r);
    if (!r) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    r->options = td__options(&given, sizeof given, options);
    td_error reason = {0};
    td_status status = td__player_open(&r->player, run, &reason);
    status = status ? status : check_window(r, &reason);
    status = status ? status : check_place(r, &reason);
    status = status ? status : make_tracks(r, &reason);
    status = status ? status : run_replay(r, &found, &reason);
    td__player_close(&r->player);
    td__free(r->names);
    td__free(r);
    if (!status) {
        td__options_give(result, &found, sizeof found);
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
