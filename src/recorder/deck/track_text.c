#include "deck/track_text.h"

#include "base/memory.h"
#include "deck/glob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading -------------------------------------------------------------------------------- */

/* What is still to be read: parts are ended by a 0 in place. */
typedef struct reader {
    char *at;
    td__track_text *parsed;
    td_error *error;
} reader;

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static void skip_blanks(reader *r) {
    while (is_blank(*r->at)) {
        r->at++;
    }
}

/* Ends the part that begins at `first` here. */
static char *end_part(reader *r, char *first) {
    if (*r->at) {
        *r->at++ = 0;
    }
    skip_blanks(r);
    return first;
}

/* "" at the end of the text. */
static char *take_word(reader *r) {
    char *first = r->at;
    while (*r->at && !is_blank(*r->at)) {
        r->at++;
    }
    return end_part(r, first);
}

/* Names and globs: to the first blank that neither a \ nor a comma precedes. */
static char *take_what(reader *r) {
    char *first = r->at;
    for (bool comma = false; *r->at && (comma || !is_blank(*r->at)); r->at++) {
        comma = *r->at == ',' || (comma && is_blank(*r->at));
        r->at += *r->at == '\\' && r->at[1];
    }
    return end_part(r, first);
}

static td_status read_number(reader *r, const char *key, const char *text, int64_t *number) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < 1) {
        return td_error_set(r->error, TD_INVALID,
                            "track: %s: expected a whole number of at least 1, not '%.60s'", key,
                            text);
    }
    *number = value;
    return TD_OK;
}

static td_status read_every(reader *r, const char *key, char *value) {
    td_track *track = &r->parsed->track;
    bool epochs = strncmp(r->at, "epoch", 5) == 0;
    if (epochs || strncmp(r->at, "step", 4) == 0) {
        const char *unit = take_word(r);
        const char *more = unit + (epochs ? 5 : 4);
        if (*more && strcmp(more, "s") != 0) {
            return td_error_set(r->error, TD_INVALID, "track: every: expected epochs, not '%.60s'",
                                unit);
        }
    }
    int64_t *number = epochs ? &track->every_epochs : &track->every;
    if (*number) {
        return td_error_set(r->error, TD_INVALID, "track: every is given twice");
    }
    return read_number(r, key, value, number);
}

static td_status read_at(reader *r, const char *key, char *value) {
    td__track_text *parsed = r->parsed;
    size_t count = 1;
    for (const char *c = value; *c; c++) {
        count += *c == ',';
    }
    parsed->steps = td__calloc(count, sizeof *parsed->steps);
    if (!parsed->steps) {
        return td_error_set(r->error, TD_MEMORY, "out of memory for a track");
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < count && status == TD_OK; i++) {
        char *comma = strchr(value, ',');
        if (comma) {
            *comma = 0;
        }
        status = read_number(r, key, value, &parsed->steps[i]);
        value = comma ? comma + 1 : value;
    }
    parsed->track.at = (td_steps){parsed->steps, count};
    return status;
}

static td_status read_form(reader *r, const char *key, char *value) {
    static const char *const names[] = {
#define FORM_WORD(name, text, bit) text,
        TD_FORM_LIST(FORM_WORD)
#undef FORM_WORD
    };
    for (char *word = value, *comma; word; word = comma ? comma + 1 : NULL) {
        comma = strchr(word, ',');
        if (comma) {
            *comma = 0;
        }
        uint32_t form = td_form_find(word);
        if (!form) {
            const char *near = td_nearest_word(word, names, TD__COUNT(names));
            return td_error_set(r->error, TD_INVALID, "track: %s: there is no form '%.60s'%s%s%s",
                                key, word, near ? "; did you mean " : "", near ? near : "",
                                near ? "?" : "");
        }
        r->parsed->track.form |= form;
    }
    return TD_OK;
}

#define NUMBER(member) #member, offsetof(td_track, member), NULL, true
static const struct key {
    const char *name;
    size_t offset; /* of a number, or of the text `to` */
    td_status (*read)(reader *r, const char *key, char *value);
    bool number;
} keys[] = {
    {"every", 0, read_every, false},
    {"at", 0, read_at, false},
    {NUMBER(start)},
    {NUMBER(end)},
    {NUMBER(sample)},
    {NUMBER(history)},
    {"form", 0, read_form, false},
    {"to", offsetof(td_track, to), NULL, false},
    {"metrics", 0, NULL, false},
    {"when", 0, NULL, false},
};
enum { KEYS = TD__COUNT(keys), EVERY = 0, METRICS = KEYS - 2, WHEN = KEYS - 1 };

static td_status find_key(const reader *r, const char *word, size_t *found) {
    const char *names[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
        if (strcmp(names[i], word) == 0) {
            *found = i;
            return TD_OK;
        }
    }
    const char *near = td_nearest_word(word, names, KEYS);
    return td_error_set(
        r->error, TD_INVALID,
        "track: there is no word '%.60s'%s%s%s (there are: every at start end sample "
        "history form to metrics when)",
        word, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static td_status read_key(reader *r, size_t index) {
    td_track *track = &r->parsed->track;
    const struct key *key = &keys[index];
    if (index == METRICS) {
        track->metrics = true;
        return TD_OK;
    }
    if (index == WHEN) {
        track->when = r->at;
        r->at += strlen(r->at);
        return *track->when ? TD_OK : td_error_set(r->error, TD_INVALID, "track: when: of what?");
    }
    char *value = take_word(r);
    if (!*value) {
        return td_error_set(r->error, TD_INVALID, "track: %s: a value is missing", key->name);
    }
    if (key->read) {
        return key->read(r, key->name, value);
    }
    if (key->number) {
        int64_t number = 0;
        td_status status = read_number(r, key->name, value, &number);
        memcpy((char *)track + key->offset, &number, sizeof number);
        return status;
    }
    track->to = value;
    return TD_OK;
}

td_status td__track_parse(const char *text, td__track_text *parsed, td_error *error) {
    *parsed = (td__track_text){.track.size = sizeof parsed->track};
    if (strlen(text) > TD__TRACK_TEXT) {
        return td_error_set(error, TD_RANGE, "track: a text of more than %d bytes: use globs",
                            TD__TRACK_TEXT);
    }
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' && *c != '\t') {
            return td_error_set(error, TD_INVALID,
                                "track: byte %zu is a control character; ? stands for any",
                                (size_t)(c - text) + 1);
        }
    }
    parsed->words = td__strdup(text);
    if (!parsed->words) {
        return td_error_set(error, TD_MEMORY, "out of memory for a track");
    }
    reader r = {.at = parsed->words, .parsed = parsed, .error = error};
    skip_blanks(&r);
    parsed->track.what = take_what(&r);
    td_status status =
        *parsed->track.what ? TD_OK : td_error_set(error, TD_INVALID, "track: no signal is named");
    bool given[KEYS] = {false};
    while (status == TD_OK && *r.at) {
        size_t index = 0;
        status = find_key(&r, take_word(&r), &index);
        if (status == TD_OK && given[index] && index != EVERY) {
            status = td_error_set(error, TD_INVALID, "track: %s is given twice", keys[index].name);
        }
        given[index] = true;
        status = status == TD_OK ? read_key(&r, index) : status;
    }
    return status;
}

void td__track_text_release(td__track_text *parsed) {
    td__free(parsed->words);
    td__free(parsed->steps);
    *parsed = (td__track_text){0};
}

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct writer {
    char *text; /* large enough: see td__track_print */
    size_t used;
} writer;

static void put_text(writer *w, const char *text) {
    size_t length = strlen(text);
    memcpy(w->text + w->used, text, length + 1);
    w->used += length;
}

/* A pattern without control characters, which ? stands for, and with a \ before blanks. */
static void put_pattern(writer *w, const char *pattern) {
    for (const char *c = pattern; *c; c++) {
        if (*c == '\\' && c[1]) {
            w->text[w->used++] = *c++;
        } else if (is_blank(*c)) {
            w->text[w->used++] = '\\';
        }
        w->text[w->used++] = (unsigned char)*c < ' ' && *c != '\t' ? '?' : *c;
    }
    w->text[w->used] = 0;
}

static void put_number(writer *w, const char *before, int64_t number, const char *after) {
    w->used += (size_t)sprintf(w->text + w->used, "%s%lld%s", before, (long long)number, after);
}

static void put_schedule(writer *w, const td_track *track) {
    bool by_itself = !track->every_epochs && !track->at.count;
    if (track->every > by_itself) {
        put_number(w, " every ", track->every, "");
    }
    if (track->every_epochs > 0) {
        put_number(w, " every ", track->every_epochs, " epochs");
    }
    for (size_t i = 0; i < track->at.count; i++) {
        put_number(w, i ? "," : " at ", track->at.steps[i], "");
    }
    for (size_t i = 0; i < KEYS; i++) {
        int64_t number = 0;
        if (keys[i].number) {
            memcpy(&number, (const char *)track + keys[i].offset, sizeof number);
        }
        if (number > 0) {
            put_text(w, " ");
            put_text(w, keys[i].name);
            put_number(w, " ", number, "");
        }
    }
}

static void put_forms(writer *w, uint32_t forms) {
    for (const char *before = " form "; forms; forms &= forms - 1, before = ",") {
        const char *name = td_form_name(forms & (0 - forms));
        put_text(w, before);
        put_text(w, name ? name : "?");
    }
}

static void put_sinks(writer *w, const char *to) {
    put_text(w, " to ");
    for (; *to; to++) {
        if (!is_blank(*to)) {
            w->text[w->used++] = *to;
        }
    }
    w->text[w->used] = 0;
}

/* On one line. */
static void put_condition(writer *w, const char *when) {
    put_text(w, " when ");
    for (; *when; when++) {
        w->text[w->used++] = (unsigned char)*when < ' ' ? ' ' : *when;
    }
    w->text[w->used] = 0;
}

char *td__track_print(const td_track *track) {
    enum { NUMBER_ROOM = 24, WORDS_ROOM = 600 };
    const char *what = track->what ? track->what : "*";
    size_t count = 0;
    char **patterns = td__glob_split(what, &count);
    size_t room = 2 * strlen(what) + NUMBER_ROOM * track->at.count + WORDS_ROOM +
                  (track->to ? strlen(track->to) : 0) + (track->when ? strlen(track->when) : 0);
    writer w = {.text = patterns ? td__calloc(room, 1) : NULL};
    for (size_t i = 0; w.text && i < count; i++) {
        put_text(&w, i ? "," : "");
        put_pattern(&w, patterns[i]);
    }
    td__free(patterns);
    if (!w.text) {
        return NULL;
    }
    put_schedule(&w, track);
    put_forms(&w, track->form);
    if (track->to) {
        put_sinks(&w, track->to);
    }
    if (track->metrics) {
        put_text(&w, " metrics");
    }
    if (track->when) {
        put_condition(&w, track->when);
    }
    return w.text;
}
