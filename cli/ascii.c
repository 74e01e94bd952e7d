#include "ascii.h"

#include <string.h>

/* Characters of three bytes, and as many or fewer of ASCII. */
static const struct {
    char drawn[4], ascii[4];
} forms[] = {
    {"▁", "."}, {"▂", ":"},  {"▃", "-"},   {"▄", "="}, {"▅", "+"}, {"▆", "*"}, {"▇", "%"},
    {"█", "#"}, {"▏", "-"},  {"▎", "-"},   {"▍", "-"}, {"▌", "-"}, {"▋", "-"}, {"▊", "-"},
    {"▉", "-"}, {"░", "."},  {"▒", ":"},   {"▓", "*"}, {"│", "|"}, {"┃", "|"}, {"┤", "+"},
    {"├", "+"}, {"┼", "+"},  {"┳", "+"},   {"┏", "+"}, {"┓", "+"}, {"┡", "+"}, {"╇", "+"},
    {"┩", "+"}, {"└", "+"},  {"┴", "+"},   {"┘", "+"}, {"─", "-"}, {"━", "="}, {"–", "-"},
    {"—", "-"}, {"→", "->"}, {"…", "..."}, {"’", "'"},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Of a cell of braille dots: above, below, or both. "" when it is none. */
static const char *dots_form(const unsigned char *at) {
    enum { UPPER = 0x1b, LOWER = 0xe4 };
    if (at[0] != 0xe2 || at[1] < 0xa0 || at[1] > 0xa3) {
        return "";
    }
    unsigned bits = (at[1] & 3u) << 6 | (at[2] & 0x3fu);
    return bits & UPPER ? bits & LOWER ? ":" : "'" : bits ? "." : " ";
}

static const char *form_of(const char *at) {
    for (int i = 0; i < FORMS; i++) {
        if (!memcmp(at, forms[i].drawn, 3)) {
            return forms[i].ascii;
        }
    }
    return dots_form((const unsigned char *)at);
}

size_t ascii_form(char *text, size_t length) {
    size_t made = 0;
    for (size_t i = 0; i < length;) {
        const char *form =
            (unsigned char)text[i] == 0xe2 && length - i >= 3 ? form_of(text + i) : "";
        if (!*form) {
            text[made++] = text[i++];
            continue;
        }
        size_t size = strlen(form);
        memcpy(text + made, form, size);
        made += size;
        i += 3;
    }
    return made;
}
