#include "json.h"

#include "terminal.h"

#include <math.h>
#include <string.h>

/* A sound character of several bytes, in ASCII. */
static void print_escaped(const char *text, size_t size) {
    unsigned code = (unsigned char)*text & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    if (code >= 0x10000) {
        printf("\\u%04x", 0xd800 + ((code - 0x10000) >> 10));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    printf("\\u%04x", code);
}

/* A character of several bytes: as it is, escaped where it would be hidden or there is no UTF-8,
 * U+FFFD where it is none. How many bytes it has. */
static size_t print_wide(const char *text) {
    char out[TD_VISIBLE_SIZE(4)];
    unsigned char first = (unsigned char)*text;
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    size_t length = strnlen(text, size);
    td_visible(out, text, length, false);
    bool good = length == size && out[0] != '\\';
    bool hidden = length == size && out[0] == '\\' && out[1] == 'u';
    if (good && !terminal_has_utf8()) {
        print_escaped(text, size);
    } else {
        (void)fputs(good || hidden ? out : "\\ufffd", stdout);
    }
    return good || hidden ? size : 1;
}

void print_json_text(const char *text) {
    (void)fputc('"', stdout);
    while (*text) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= 0x80) {
            text += print_wide(text);
            continue;
        }
        if (byte < 0x20 || byte == 0x7f) {
            printf("\\u%04x", byte);
        } else {
            printf(byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
        }
        text++;
    }
    (void)fputc('"', stdout);
}

void print_json_number(double number) {
    if (isfinite(number)) {
        printf("%.17g", number);
    } else {
        (void)fputs("null", stdout);
    }
}

static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

bool is_json_word(const char *text) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    text += *text == '-';
    size_t count = count_digits(text);
    if (count == 0 || (count > 1 && *text == '0')) {
        return false;
    }
    text += count;
    if (*text == '.') {
        count = count_digits(text + 1);
        text += 1 + count;
    }
    if (count && (*text == 'e' || *text == 'E')) {
        text++;
        text += *text == '+' || *text == '-';
        count = count_digits(text);
        text += count;
    }
    return count > 0 && *text == 0;
}

void print_json_stats(const td_shape *shape, const td_stats *stats) {
    (void)fputs("\"shape\": [", stdout);
    for (int32_t i = 0; i < shape->rank; i++) {
        printf("%s%lld", i ? ", " : "", (long long)shape->dims[i]);
    }
    printf("], \"count\": %lld", (long long)stats->count);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"mean", stats->mean},
                   {"std", stats->std},
                   {"min", stats->min},
                   {"max", stats->max},
                   {"norm", stats->norm}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        printf(", \"%s\": ", numbers[i].name);
        print_json_number(numbers[i].value);
    }
    printf(", \"zeros\": %lld, \"nan\": %lld, \"inf\": %lld", (long long)stats->zeros,
           (long long)stats->nan, (long long)stats->inf);
}

void print_csv_field(const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        (void)fputs(text, stdout);
        return;
    }
    (void)fputc('"', stdout);
    for (; *text; text++) {
        (void)fputs(*text == '"' ? "\"" : "", stdout);
        (void)fputc(*text, stdout);
    }
    (void)fputc('"', stdout);
}
