/* Requests for other tracks, to the process that writes a run: see deck/request.h. */
#include "deck/condition.h"
#include "deck/request.h"
#include "deck/route.h"
#include "deck/track_text.h"
#include "run/ranks.h"
#include "run/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MICROSECONDS = 100000 };

/* One change that is asked for. */
typedef struct wish {
    bool remove;
    char *text; /* of the track, as the deck prints it; owned */
    bool answered;
} wish;

typedef struct request {
    td_run *run;
    wish *wishes;
    size_t count;
    int64_t seen;   /* events of the kind that were there before it */
    int64_t at;     /* of those, while they are read */
    int64_t step;   /* of the last answer */
    td_error first; /* what was refused */
} request;

/* ---- What is asked for ---------------------------------------------------------------------- */

/* What the deck would find wrong, apart from what only it knows. */
static td_status check_track(const td_track *track, td_error *error) {
    bool chosen[TD__SINKS] = {false};
    td_error reason = {0};
    td_status status = td__track_check(track, error);
    if (!status) {
        status = td__route(td_sinks(), track->form, track->to, chosen, &reason);
    }
    if (*reason.text) {
        return td_error_set(error, TD_INVALID, "track: %s", reason.text);
    }
    if (!status && track->when) {
        td__condition *condition = td__condition_parse(track->when, error);
        status = condition ? TD_OK : TD_INVALID;
        td__condition_destroy(condition);
    }
    return status;
}

static td_status read_wishes(request *r, const char *const *texts, size_t count, bool remove,
                             td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        td__track_text parsed;
        status = td__track_parse(texts[i], &parsed, error);
        status = status || remove ? status : check_track(&parsed.track, error);
        if (!status) {
            char *text = td__track_print(&parsed.track);
            r->wishes[r->count++] = (wish){.remove = remove, .text = text};
            status = text ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
        }
        td__track_text_release(&parsed);
    }
    return status;
}

/* ---- Whom it is asked of -------------------------------------------------------------------- */

static td_status check_running(const request *r, td_run_info *info, td_error *error) {
    *info = (td_run_info){.size = sizeof *info};
    td_run_about(r->run, info);
    if (info->state != TD_RUN_RUNNING) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s is %s: only of a run that is being written can tracks be added or "
                            "removed",
                            info->folder, td_run_state_name(info->state));
    }
    return TD_OK;
}

static td_status open_folder(request *r, const char *path, int *folder, td_error *error) {
    td_run_info info;
    if (td__url_is(path)) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: name the run's folder on the machine that trains", path);
    }
    r->run = td_run_open(path, error);
    if (!r->run) {
        return TD_NOT_FOUND;
    }
    td_status status = check_running(r, &info, error);
    const char *where = td__ranks_are_in(info.folder) ? path : info.folder;
    if (!status && td__ranks_are_in(where)) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s is written by several processes: name the folder of one of "
                              "them, %s/rank-00000",
                              where, where);
    }
    *folder = status ? -1 : td__folder_open(where, error);
    return status ? status : *folder < 0 ? TD_IO : TD_OK;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static bool answers(const char *text, const char *word, const char *track) {
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && strcmp(text + length, track) == 0;
}

/* The reason; NULL: it was not refused. */
static const char *reason_of(const char *text, const char *track) {
    size_t head = strlen(TD__ANSWER_REFUSED), length = strlen(track);
    bool refused = strncmp(text, TD__ANSWER_REFUSED, head) == 0 &&
                   strncmp(text + head, track, length) == 0 && text[head + length] == ':';
    return refused ? text + head + length + 2 : NULL;
}

static td_status count_event(void *user, const td_event *event, td_error *error) {
    (void)error;
    request *r = user;
    r->seen += event->kind == TD_EVENT_TRACKS;
    return TD_OK;
}

static td_status take_event(void *user, const td_event *event, td_error *error) {
    (void)error;
    request *r = user;
    if (event->kind != TD_EVENT_TRACKS || r->at++ < r->seen) {
        return TD_OK;
    }
    for (size_t i = 0; i < r->count; i++) {
        wish *w = &r->wishes[i];
        const char *reason = reason_of(event->text, w->text);
        const char *word = w->remove ? TD__ANSWER_REMOVED : TD__ANSWER_ADDED;
        if (w->answered || (!reason && !answers(event->text, word, w->text))) {
            continue;
        }
        w->answered = true;
        r->step = event->step;
        if (reason && !r->first.status) {
            (void)td_error_set(&r->first, TD_INVALID, "%s: %s", w->text, reason);
        }
        break;
    }
    return TD_OK;
}

static bool is_answered(const request *r) {
    bool answered = true;
    for (size_t i = 0; i < r->count; i++) {
        answered = answered && r->wishes[i].answered;
    }
    return answered;
}

static td_status await_answer(request *r, double until, td_error *error) {
    td_run_info info;
    for (;;) {
        td_status running = check_running(r, &info, error); /* before its last events are read */
        r->at = 0;
        td_status status = td_run_events(r->run, take_event, r, error);
        if (status || is_answered(r)) {
            return status;
        }
        if (running) {
            return running;
        }
        if (td__seconds() > until) {
            return td_error_set(error, TD_BUSY,
                                "%s has not closed a step since: it makes the change when it does",
                                info.folder);
        }
        usleep(LOOK_MICROSECONDS);
        status = td_run_refresh(r->run, error);
        if (status) {
            return status;
        }
    }
}

/* ---- The file ------------------------------------------------------------------------------- */

static td_status write_lines(const request *r, char **text, size_t *size, td_error *error) {
    size_t room = 1;
    for (size_t i = 0; i < r->count; i++) {
        room += strlen(TD__REQUEST_REMOVE) + strlen(r->wishes[i].text) + 1;
    }
    if (room > TD__REQUEST_SIZE) {
        return td_error_set(error, TD_RANGE, "these are too many tracks for one request");
    }
    *text = td__calloc(room, 1);
    for (size_t i = 0; *text && i < r->count; i++) {
        *size += (size_t)snprintf(*text + *size, room - *size, "%s%s\n",
                                  r->wishes[i].remove ? TD__REQUEST_REMOVE : TD__REQUEST_ADD,
                                  r->wishes[i].text);
    }
    return *text ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* Another request may have to be answered first. */
static td_status publish_when_free(request *r, int folder, const char *draft, double until,
                                   td_error *error) {
    td_status status = TD_OK;
    for (;;) {
        r->seen = 0;
        status = td_run_refresh(r->run, error);
        status = status ? status : td_run_events(r->run, count_event, r, error);
        if (status || linkat(folder, draft, folder, TD__REQUEST, 0) == 0) {
            return status;
        }
        td_run_info info;
        int cause = errno;
        status = check_running(r, &info, error);
        if (!status && cause != EEXIST) {
            status = td_error_set(error, TD_IO, "%s/" TD__REQUEST " cannot be created: %s",
                                  info.folder, strerror(cause));
        } else if (!status && td__seconds() > until) {
            status = td_error_set(error, TD_BUSY,
                                  "%s has another request, and has not closed a step since",
                                  info.folder);
        }
        if (status) {
            return status;
        }
        usleep(LOOK_MICROSECONDS);
    }
}

static td_status send_request(request *r, int folder, double until, td_error *error) {
    char *text = NULL, draft[64];
    size_t size = 0;
    (void)snprintf(draft, sizeof draft, "." TD__REQUEST ".%ld", (long)getpid());
    td_status status = write_lines(r, &text, &size, error);
    status = status ? status : td__file_publish(folder, draft, text, size, false, error);
    td__free(text);
    if (status) {
        return status;
    }
    status = publish_when_free(r, folder, draft, until, error);
    (void)unlinkat(folder, draft, 0);
    return status;
}

td_status td_run_change_tracks(const char *path, const char *const *add, size_t add_count,
                               const char *const *remove, size_t remove_count, double seconds,
                               int64_t *step, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    int folder = -1;
    request r = {.wishes = td__calloc(add_count + remove_count + 1, sizeof *r.wishes)};
    td_status status = r.wishes ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    status = status ? status : read_wishes(&r, remove, remove_count, true, error);
    status = status ? status : read_wishes(&r, add, add_count, false, error);
    status = status ? status : open_folder(&r, path, &folder, error);
    if (!status && r.count > 0) {
        double until = td__seconds() + seconds;
        status = send_request(&r, folder, until, error);
        status = status ? status : await_answer(&r, until, error);
        status = status || !r.first.status ? status
                                           : td_error_set(error, TD_INVALID, "%s", r.first.text);
    }
    if (!status && step) {
        *step = r.step;
    }
    if (folder >= 0) {
        close(folder);
    }
    for (size_t i = 0; i < r.count; i++) {
        td__free(r.wishes[i].text);
    }
    td__free(r.wishes);
    td_run_close(r.run);
    return status;
}
