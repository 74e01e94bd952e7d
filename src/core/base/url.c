#include "base/url.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

bool td__url_is(const char *text) {
    return strncmp(text, "postgresql://", 13) == 0 || strncmp(text, "postgres://", 11) == 0;
}

const char *td__place_name(const char *place) {
    const char *mark = td__url_is(place) ? strchr(place, '#') : strrchr(place, '/');
    return mark && mark[1] ? mark + 1 : place;
}

/* ---- Passwords that were taken out ---------------------------------------------------------- */

typedef struct secret {
    struct secret *before;
    char *url, *password;
} secret;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static secret *secrets; /* under lock */

static bool keep_password(const char *url, const char *password) {
    pthread_mutex_lock(&lock);
    secret *found = secrets;
    while (found && strcmp(found->url, url) != 0) {
        found = found->before;
    }
    bool new = !found;
    found = new ? td__calloc(1, sizeof *found) : found;
    char *copy = td__strdup(password), *name = new ? td__strdup(url) : NULL;
    bool good = found && copy && (!new || name);
    if (good) {
        td__free(found->password);
        found->password = copy;
    }
    if (good && new) {
        found->url = name;
        found->before = secrets;
        secrets = found;
    } else if (!good) {
        td__free(copy);
        td__free(name);
        td__free(new ? found : NULL);
    }
    pthread_mutex_unlock(&lock);
    return good;
}

bool td__url_password(const char *url, char password[TD__URL_ROOM]) {
    pthread_mutex_lock(&lock);
    const secret *found = secrets;
    while (found && strcmp(found->url, url) != 0) {
        found = found->before;
    }
    (void)snprintf(password, TD__URL_ROOM, "%s", found ? found->password : "");
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* ---- Taking one out ------------------------------------------------------------------------- */

static int digit_of(char c) {
    const char *all = "0123456789abcdefABCDEF", *at = c ? strchr(all, c) : NULL;
    return !at ? -1 : at - all < 16 ? (int)(at - all) : (int)(at - all) - 6;
}

/* Percent signs with two digits become the byte they mean. */
static void decode(char *text) {
    char *out = text;
    for (; *text; text++) {
        int high = *text == '%' ? digit_of(text[1]) : -1;
        int low = high >= 0 ? digit_of(text[2]) : -1;
        *out++ = low >= 0 ? (char)(high * 16 + low) : *text;
        text += low >= 0 ? 2 : 0;
    }
    *out = 0;
}

/* Cuts `length` characters out. */
static void cut_text(char *at, size_t length) {
    memmove(at, at + length, strlen(at + length) + 1);
}

/* USER:PASSWORD@ in front of the host. A '/', '?' or '#' in a password that is not written as % and digits looks like
 * the end of the host: then an '@' follows where a port was expected. */
static bool take_from_user(char *url, char *password) {
    char *start = strstr(url, "://") + 3;
    size_t length = strcspn(start, "/?#");
    char *at = memchr(start, '@', length);
    char *colon = memchr(start, ':', length);
    if (!at) {
        size_t digits = colon ? strspn(colon + 1, "0123456789,:[]abcdefABCDEF.") : 0;
        bool port = !colon || *start == '[' || colon + 1 + digits >= start + length;
        return port || !strchr(start + length, '@');
    }
    if (colon && colon < at) {
        (void)snprintf(password, TD__URL_ROOM, "%.*s", (int)(at - colon - 1), colon + 1);
        decode(password);
        cut_text(colon, (size_t)(at - colon));
    }
    return true;
}

/* Takes ?NAME=VALUE out, where name is NAME=; the value of the last one is in value. */
static bool take_option(char *url, const char *option, char value[TD__URL_ROOM]) {
    char *query = strchr(url, '?');
    size_t name = strlen(option);
    bool found = false;
    for (char *at = query ? query + 1 : ""; *at;) {
        size_t length = strcspn(at, "&");
        if (strncmp(at, option, name) == 0) {
            (void)snprintf(value, TD__URL_ROOM, "%.*s", (int)(length - name), at + name);
            decode(value);
            found = true;
            cut_text(at, length + (at[length] == '&'));
        } else {
            at += length + (at[length] == '&');
        }
    }
    size_t length = strlen(url);
    if (found && (url[length - 1] == '?' || url[length - 1] == '&')) {
        url[length - 1] = 0;
    }
    return found;
}

td_status td__url_tensors(const char *url, char plain[TD__URL_ROOM], bool *tensors,
                          td_error *error) {
    char value[TD__URL_ROOM] = "";
    (void)snprintf(plain, TD__URL_ROOM, "%s", url);
    *tensors = take_option(plain, "tensors=", value);
    return !*tensors || strcmp(value, "database") == 0
               ? TD_OK
               : td_error_set(error, TD_INVALID,
                              "%s: tensors=database is all that can be asked for; without it they "
                              "stay in the run's folder",
                              url);
}

td_status td__url_take(const char *text, char url[TD__URL_ROOM], char run[TD__URL_ROOM],
                       td_error *error) {
    char password[TD__URL_ROOM] = "";
    if (strlen(text) >= TD__URL_ROOM) {
        return td_error_set(error, TD_INVALID, "the URL of a database is too long");
    }
    (void)snprintf(url, TD__URL_ROOM, "%s", text);
    bool good = take_from_user(url, password);
    char *hash = strchr(url, '#');
    if (run) {
        (void)snprintf(run, TD__URL_ROOM, "%s", hash ? hash + 1 : "");
        decode(run);
    }
    url[strcspn(url, "#")] = 0;
    if (!good) {
        *url = 0;
        return td_error_set(error, TD_INVALID,
                            "a password in a URL has its signs / ? # @ and %% written as %%2F, "
                            "%%3F, %%23, %%40 and %%25");
    }
    char unused[TD__URL_ROOM];
    (void)take_option(url, "password=", password);
    (void)take_option(url, "sslpassword=", unused);
    return !*password || keep_password(url, password)
               ? TD_OK
               : td_error_set(error, TD_MEMORY, "out of memory for a URL");
}

bool td_url_hide_password(char *text) {
    char url[TD__URL_ROOM], run[TD__URL_ROOM];
    char *start = strstr(text, "postgres://");
    start = start ? start : strstr(text, "postgresql://");
    if (!start) {
        return false;
    }
    size_t length = strlen(start);
    const char *hash = strchr(start, '#');
    char *name = hash ? td__strdup(hash) : NULL;
    bool invalid = td__url_take(start, url, run, NULL) != TD_OK;
    /* What cannot be parsed is hidden as a whole. */
    (void)snprintf(start, length + 1, "%s%s", invalid ? "postgres://" : url,
                   !invalid && name ? name : "");
    bool changed = strlen(start) != length;
    memset(start + strlen(start), 0, length - strlen(start));
    td__free(name);
    return changed;
}
