#include "deck/request.h"

#include "base/file.h"
#include "base/memory.h"
#include "deck/deck.h"
#include "deck/track_text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct td__change {
    td__change *next;
    char *text;       /* of the track */
    td__track *track; /* to be added; NULL: the one of this text is to be removed */
    bool chosen[TD__SINKS];
};

static void destroy_change(td__change *change) {
    td__track_destroy(change->track);
    td__free(change->text);
    td__free(change);
}

/* ---- Answers; the lock is held -------------------------------------------------------------- */

static void refuse(td_deck *deck, const char *text, const char *reason) {
    td__deck_event(deck, TD_EVENT_TRACKS, NULL, 0, TD__ANSWER_REFUSED "%.*s: %s", TD__TRACK_TEXT,
                   text, reason);
}

static void answer(td_deck *deck, const char *word, const char *text) {
    td__deck_event(deck, TD_EVENT_TRACKS, NULL, 1, "%s%s", word, text);
}

/* ---- The end of a step ---------------------------------------------------------------------- */

/* -1: none. */
static int32_t find_track(const td_deck *deck, const char *text, bool on) {
    int32_t found = -1;
    for (int32_t i = 0; i < deck->track_count && found < 0; i++) {
        const td__track *track = deck->tracks[i];
        found = track->text && track->off != on && strcmp(track->text, text) == 0 ? i : -1;
    }
    return found;
}

static void remove_track(td_deck *deck, const char *text) {
    int32_t index = find_track(deck, text, true);
    if (index < 0) {
        refuse(deck, text, "there is no such track");
        return;
    }
    td__track_switch(deck, index, false);
    answer(deck, TD__ANSWER_REMOVED, text);
}

static void add_track(td_deck *deck, td__change *change) {
    int32_t off = find_track(deck, change->text, false);
    if (find_track(deck, change->text, true) >= 0) {
        refuse(deck, change->text, "there is such a track");
    } else if (off >= 0) {
        td__track_switch(deck, off, true);
        answer(deck, TD__ANSWER_ADDED, change->text);
    } else if (deck->track_count == TD__TRACKS) {
        refuse(deck, change->text, "the run has had as many tracks as a deck can have");
    } else {
        td__track *track = change->track;
        change->track = NULL;                                 /* the deck's */
        (void)td__track_install(deck, track, change->chosen); /* a failure is kept by the deck */
        answer(deck, TD__ANSWER_ADDED, change->text);
    }
}

void td__requests_apply(td_deck *deck) {
    td__change *next = deck->changes;
    deck->changes = NULL;
    for (td__change *change = next; change; change = next) {
        next = change->next;
        if (change->track) {
            add_track(deck, change);
        } else {
            remove_track(deck, change->text);
        }
        destroy_change(change);
    }
    char *list = td__tracks_list(deck);
    if (list) { /* with the answers: who reads these reads the list, too */
        deck->tracks_listed = deck->tracks_version;
        (void)td__deck_note(deck, TD__NOTE_TRACKS, list);
    }
    td__free(list);
}

/* ---- The writer thread ---------------------------------------------------------------------- */

/* The request's text; NULL when there is none, or it cannot be used: *reason, or "". */
static char *read_request(int folder, const char **reason) {
    struct stat about;
    *reason = "";
    int file = td__file_open(folder, TD__REQUEST, O_RDONLY | O_NOFOLLOW);
    if (file < 0) {
        *reason = errno == ENOENT ? "" : "the request cannot be read";
        return NULL;
    }
    bool fits = fstat(file, &about) == 0 && about.st_size <= TD__REQUEST_SIZE;
    char *text = fits ? td__calloc((size_t)about.st_size + 1, 1) : NULL;
    if (!text || !td__read_all(file, text, (size_t)about.st_size, 0)) {
        *reason = fits ? "the request cannot be read" : "the request is too large";
        td__free(text);
        text = NULL;
    }
    close(file);
    return text;
}

static td_status prepare_change(td_deck *deck, const char *line, td__change *change,
                                td_error *error) {
    bool remove = strncmp(line, TD__REQUEST_REMOVE, strlen(TD__REQUEST_REMOVE)) == 0;
    const char *word = remove ? TD__REQUEST_REMOVE : TD__REQUEST_ADD;
    if (strncmp(line, word, strlen(word)) != 0) {
        return td_error_set(error, TD_INVALID, "expected add or remove");
    }
    td__track_text parsed;
    td_status status = td__track_parse(line + strlen(word), &parsed, error);
    change->text = status ? NULL : td__track_print(&parsed.track);
    if (!status && !change->text) {
        status = td_error_set(error, TD_MEMORY, "out of memory for a track");
    }
    if (!status && !remove) {
        td__deck_lock(deck);
        status = td__track_prepare(deck, &parsed.track, &change->track, change->chosen, error);
        td__deck_unlock(deck);
    }
    td__track_text_release(&parsed);
    return status;
}

/* Adds the change to the list that ends at *last, or refuses it. */
static td__change **read_change(td_deck *deck, const char *line, td__change **last) {
    td_error error = {0};
    td__change *change = td__calloc(1, sizeof *change);
    if (change && prepare_change(deck, line, change, &error) == TD_OK) {
        *last = change;
        return &change->next;
    }
    td__deck_lock(deck);
    refuse(deck, change && change->text ? change->text : line,
           change ? error.text : "out of memory");
    td__deck_unlock(deck);
    if (change) {
        destroy_change(change);
    }
    return last;
}

void td__requests_look(td_deck *deck) {
    td__deck_lock(deck);
    bool waits = deck->changes != NULL;
    td__deck_unlock(deck);
    if (waits || deck->folder_lock < 0) {
        return;
    }
    if (deck->request_read && !td__requests_forget(deck)) {
        return; /* it was answered, and is not to be answered again */
    }
    const char *reason = "";
    char *text = read_request(deck->folder_lock, &reason);
    deck->request_read = text || *reason;
    td__change *first = NULL, **last = &first;
    for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) {
            *end = 0;
        }
        last = read_change(deck, line, last);
    }
    td__free(text);
    td__deck_lock(deck);
    deck->changes = first;
    if (*reason) {
        refuse(deck, TD__REQUEST, reason);
    }
    td__deck_unlock(deck);
}

bool td__requests_forget(const td_deck *deck) {
    return deck->folder_lock < 0 || unlinkat(deck->folder_lock, TD__REQUEST, 0) == 0 ||
           errno == ENOENT;
}

void td__requests_release(td_deck *deck) {
    for (td__change *change = deck->changes, *next; change; change = next) {
        next = change->next;
        destroy_change(change);
    }
    deck->changes = NULL;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

char *td__tracks_list(const td_deck *deck) {
    size_t room = 1, used = 0;
    for (int32_t i = 0; i < deck->track_count; i++) {
        room += deck->tracks[i]->text ? strlen(deck->tracks[i]->text) + 1 : 0;
    }
    char *list = td__calloc(room, 1);
    for (int32_t i = 0; list && i < deck->track_count; i++) {
        const td__track *track = deck->tracks[i];
        if (track->text && !track->off) {
            size_t length = strlen(track->text);
            memcpy(list + used, track->text, length);
            list[used + length] = '\n';
            used += length + 1;
        }
    }
    if (used) {
        list[used - 1] = 0;
    }
    return list;
}

void td_deck_tracks(td_deck *deck, td_track_function *each, void *user) {
    char *list = NULL;
    if (deck) {
        td__deck_lock(deck);
        list = td__tracks_list(deck);
        td__deck_unlock(deck);
    }
    for (char *line = list, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) {
            *end = 0;
        }
        each(user, line);
    }
    td__free(list);
}
