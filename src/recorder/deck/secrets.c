/* Passwords and keys in texts that a run keeps, recognised by the name before them: each character of the value becomes
 * a '*'. What has no such name is not recognised. */
#include "deck/environment.h"

#include "base/memory.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_in_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* The last part of a name, as in hf_token, authToken, TOKEN; not as in tokenizer, token_count, maxtoken. */
static bool ends_in_token(const char *name, size_t length) {
    static const char word[] = "token";
    enum { SIZE = sizeof word - 1 };
    if (length < SIZE || strncasecmp(name + length - SIZE, word, SIZE) != 0) {
        return false;
    }
    const char *at = name + length - SIZE;
    return length == SIZE || !isalpha((unsigned char)at[-1]) ||
           (islower((unsigned char)at[-1]) && isupper((unsigned char)at[0]));
}

static bool names_secret(const char *name, size_t length) {
    static const char *const words[] = {"password",   "passwd", "passphrase", "secret",
                                        "credential", "apikey", "accesskey",  "privatekey"};
    char plain[128];
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < sizeof plain; i++) {
        if (isalnum((unsigned char)name[i])) {
            plain[used++] = (char)tolower((unsigned char)name[i]);
        }
    }
    plain[used] = 0;
    for (size_t i = 0; i < TD__COUNT(words); i++) {
        if (strstr(plain, words[i])) {
            return true;
        }
    }
    return ends_in_token(name, length);
}

static void hide(char *value, size_t length) {
    memset(value, '*', length);
}

/* scheme://user:PASSWORD@host */
static void hide_in_addresses(char *text) {
    for (char *at = text; (at = strstr(at, "://"));) {
        at += 3;
        size_t length = strcspn(at, " \t\r\n/'\"<>");
        char *colon = memchr(at, ':', length), *end = memrchr(at, '@', length);
        if (colon && end && colon < end) {
            hide(colon + 1, (size_t)(end - colon) - 1);
        }
    }
}

/* The value of a name: quoted, or a word of at least 8 letters and digits that ends its line. */
static void hide_value(char *text) {
    enum { SHORTEST = 8 };
    text += *text == '\'' || *text == '"';
    text += strspn(text, " \t");
    if (*text != '=' && *text != ':') {
        return;
    }
    text += 1 + strspn(text + 1, " \t");
    if (*text == '\'' || *text == '"') {
        const char ends[] = {*text, '\n', 0};
        hide(text + 1, strcspn(text + 1, ends));
        return;
    }
    size_t length = strcspn(text, " \t\r\n");
    size_t left = strspn(text + length, " \t\r");
    bool is_word = strpbrk(text, "0123456789") && strpbrk(text, "0123456789") < text + length;
    for (size_t i = 0; i < length && is_word; i++) {
        is_word = is_in_name(text[i]) || strchr("+/=", text[i]);
    }
    if (is_word && length >= SHORTEST && (!text[length + left] || text[length + left] == '\n')) {
        hide(text, length);
    }
}

void td__hide_in_text(char *text) {
    hide_in_addresses(text);
    for (char *at = text; *at;) {
        size_t length = 0;
        while (is_in_name(at[length])) {
            length++;
        }
        if (length && names_secret(at, length)) {
            hide_value(at + length);
        }
        at += length ? length : 1;
    }
}

void td__hide_in_words(char *words, size_t length) {
    bool next = false; /* the word before was the name of an option */
    for (size_t at = 0; at < length; at += strlen(words + at) + 1) {
        char *word = words + at, *equals = strchr(word, '=');
        size_t name = 0;
        while (is_in_name(word[name])) {
            name++;
        }
        bool is_secret = name && names_secret(word, name);
        if (next && word[0] != '-') {
            hide(word, strlen(word));
        } else if (is_secret && equals == word + name) {
            hide(equals + 1, strlen(equals + 1));
        } else {
            td__hide_in_text(word);
        }
        next = is_secret && word[0] == '-' && !word[name];
    }
}
