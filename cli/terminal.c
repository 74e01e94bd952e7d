#include "terminal.h"

#include "guard.h"
#include "options.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { MIN_WIDTH = 20, MAX_WIDTH = 10000 };

/* Guards the bottom line: whether it is shown, and everything written while it may be. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool shown;

static bool is_dumb(void) {
    const char *term = getenv("TERM");
    return !term || !*term || !strcmp(term, "dumb");
}

void terminal_paint(bool colour, const char *sequence) {
    if (colour) {
        guard_escape(stdout, "\x1b[%sm", sequence);
    }
}

void terminal_paint_number(bool colour, int number) {
    if (colour) {
        guard_escape(stdout, "\x1b[38;5;%dm", number);
    }
}

bool terminal_has_colour(FILE *stream) {
    const char *no_colour = getenv("NO_COLOR");
    return isatty(stream == stdout ? STDOUT_FILENO : STDERR_FILENO) && !(no_colour && *no_colour) &&
           !is_dumb();
}

bool terminal_has_utf8(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *locale = getenv(variables[i]);
        if (locale && *locale) {
            return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
        }
    }
    return true;
}

/* The value of COLUMNS; 0 when it is not a usable number. */
static int columns_wanted(void) {
    const char *text = getenv("COLUMNS");
    int64_t columns;
    return text && whole_number(text, &columns) && columns >= MIN_WIDTH && columns <= MAX_WIDTH
               ? (int)columns
               : 0;
}

int terminal_width(void) {
    struct winsize size;
    if (columns_wanted()) {
        return columns_wanted();
    }
    for (int file = 1; file <= 2; file++) {
        if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col >= MIN_WIDTH) {
            return size.ws_col;
        }
    }
    return 80;
}

int terminal_room(void) {
    return columns_wanted() || isatty(STDOUT_FILENO) ? terminal_width() : INT_MAX;
}

bool terminal_is_live(void) {
    return isatty(STDERR_FILENO) && !is_dumb();
}

static void take_away(void) {
    if (shown) {
        guard_escape(stderr, "\r\x1b[K");
        (void)fflush(stderr);
        shown = false;
    }
}

void terminal_show(const char *text) {
    pthread_mutex_lock(&lock);
    guard_escape(stderr, "\r");
    (void)fputs(text, stderr);
    guard_escape(stderr, "\x1b[K");
    (void)fflush(stderr);
    shown = true;
    pthread_mutex_unlock(&lock);
}

void terminal_clear(void) {
    pthread_mutex_lock(&lock);
    take_away();
    pthread_mutex_unlock(&lock);
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t size) {
    (void)cookie;
    pthread_mutex_lock(&lock);
    take_away();
    size_t written = fwrite(bytes, 1, size, stdout);
    bool good = fflush(stdout) == 0;
    pthread_mutex_unlock(&lock);
    return good ? (ssize_t)written : 0;
}

FILE *terminal_stream(void) {
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = stream_write});
    if (stream) {
        (void)setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    }
    return stream;
}

const char *terminal_bar(char *out, double share) {
    enum { CELLS = 24, PARTS = 8, ROOM = 128 };
    static const char *const parts[PARTS] = {"░", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int full = (int)(fmin(fmax(share, 0), 1) * CELLS * PARTS);
    size_t length = 0;
    for (int i = 0; i < CELLS; i++, full -= PARTS) {
        const char *cell = full >= PARTS ? "█" : full > 0 ? parts[full] : parts[0];
        length += (size_t)snprintf(out + length, ROOM - length, "%s", cell);
    }
    return out;
}

static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

int terminal_columns(const char *text) {
    int columns = 0;
    for (; *text; text++) {
        columns += begins_character(*text);
    }
    return columns;
}

void terminal_print_padded(const char *text, int width) {
    int columns = terminal_columns(text);
    printf("%s%*s", text, columns < width ? width - columns : 0, "");
}

void terminal_print_name(const char *name, int width) {
    if (terminal_columns(name) <= width) {
        terminal_print_padded(name, width);
        return;
    }
    int kept = 0;
    for (int columns = 0; columns < width - 2 || !begins_character(name[kept]); kept++) {
        columns += begins_character(name[kept]);
    }
    printf("%.*s..", kept, name);
}

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const char *terminal_time(char *out, double seconds) {
    if (!(seconds >= 0) || seconds > 1e9) {
        return strcpy(out, "?");
    }
    long long whole = (long long)floor(seconds + 0.5);
    if (seconds < 60) {
        (void)snprintf(out, 32, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
    } else if (whole < 3600) {
        (void)snprintf(out, 32, "%lld:%02lld", whole / 60, whole % 60);
    } else {
        (void)snprintf(out, 32, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    }
    return out;
}

const char *terminal_bytes(char *out, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) {
        bytes /= 1024;
    }
    (void)snprintf(out, 32, bytes < 10 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

const char *shell_word(char *out, const char *text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=:,@%";
    if (*text && strspn(text, plain) == strlen(text)) {
        return strcpy(out, text);
    }
    char *end = out;
    *end++ = '\'';
    for (; *text; text++) {
        end = stpcpy(end, *text == '\'' ? "'\\''" : (char[]){*text, 0});
    }
    (void)stpcpy(end, "'");
    return out;
}
