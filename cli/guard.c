#include "guard.h"

#include "ascii.h"
#include "terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* A stream in front of another. Guarded by the front stream's lock. */
typedef struct guard {
    FILE *front, *behind;
    bool own;     /* what comes is the program's own */
    char rest[4]; /* of a character that is not all there yet */
    size_t rested;
} guard;

static guard out, errors;
static bool ascii;

/* How many bytes at the end may be the beginning of a character. */
static size_t unfinished_bytes(const char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = (unsigned char)text[size - back];
        if (byte >= 0xc0) {
            size_t needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
            return needed > back ? back : 0;
        }
        if (byte < 0x80) {
            return 0;
        }
    }
    return 0;
}

static bool write_visible(guard *g, const char *text, size_t size) {
    char *visible = malloc(TD_VISIBLE_SIZE(size));
    size_t length = visible ? td_visible(visible, text, size, true) : 0;
    length = visible && ascii ? ascii_form(visible, length) : length;
    bool good = visible && fwrite(visible, 1, length, g->behind) == length;
    free(visible);
    return good;
}

static ssize_t guard_write(void *cookie, const char *bytes, size_t size) {
    guard *g = cookie;
    if (g->own) {
        return fwrite(bytes, 1, size, g->behind) == size ? (ssize_t)size : 0;
    }
    char *text = malloc(g->rested + size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, g->rest, g->rested);
    memcpy(text + g->rested, bytes, size);
    size_t all = g->rested + size, rest = unfinished_bytes(text, all);
    bool good = write_visible(g, text, all - rest);
    memcpy(g->rest, text + all - rest, rest);
    g->rested = rest;
    free(text);
    return good && fflush(g->behind) == 0 ? (ssize_t)size : 0;
}

static FILE *put_in_front(guard *g, FILE *behind, int file) {
    *g = (guard){.behind = behind};
    g->front = fopencookie(g, "w", (cookie_io_functions_t){.write = guard_write});
    if (g->front) {
        bool lines = file == STDERR_FILENO || isatty(file);
        (void)setvbuf(g->front, NULL, lines ? _IOLBF : _IOFBF, 1 << 16);
    }
    return g->front;
}

bool guard_streams(void) {
    FILE *first = put_in_front(&out, stdout, STDOUT_FILENO);
    FILE *second = first ? put_in_front(&errors, stderr, STDERR_FILENO) : NULL;
    if (!second) {
        return false;
    }
    ascii = !terminal_has_utf8();
    stdout = first;
    stderr = second;
    return true;
}

void guard_escape(FILE *stream, const char *format, ...) {
    guard *g = stream == out.front ? &out : &errors;
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    flockfile(stream);
    (void)fflush(stream);
    g->own = true;
    (void)fputs(text, stream);
    (void)fflush(stream);
    g->own = false;
    funlockfile(stream);
}

bool guard_flush(void) {
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    if (out.rested) {
        good &= write_visible(&out, out.rest, out.rested);
        out.rested = 0;
    }
    return fflush(out.behind) == 0 && !ferror(out.behind) && good;
}
