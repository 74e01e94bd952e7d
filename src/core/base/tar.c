#include "base/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the fields of a header are, and how long. */
enum {
    MODE = 100,
    OWNER = 108,
    GROUP = 116,
    SIZE = 124,
    TIME = 136,
    SUM = 148,
    TYPE = 156,
    MAGIC = 257,
    SUM_WIDTH = 8,
    WIDE = 12
};
static const char magic[] = "ustar\00000"; /* and the version, which has no zero behind it */

/* The sum of all bytes, with blanks where the sum itself stands. */
static unsigned sum_of(const char block[TD__TAR_BLOCK]) {
    unsigned sum = 0;
    for (int i = 0; i < TD__TAR_BLOCK; i++) {
        bool own = i >= SUM && i < SUM + SUM_WIDTH;
        sum += own ? (unsigned)' ' : (unsigned char)block[i];
    }
    return sum;
}

static void format_header(char out[TD__TAR_BLOCK], char type, const char *name, int64_t size) {
    memset(out, 0, TD__TAR_BLOCK);
    (void)snprintf(out, TD__TAR_NAME, "%s", name);
    memcpy(out + MODE, "0000644", 8);
    memcpy(out + OWNER, "0000000", 8);
    memcpy(out + GROUP, "0000000", 8);
    (void)snprintf(out + SIZE, WIDE, "%011llo", (unsigned long long)size);
    memcpy(out + TIME, "00000000000", WIDE);
    out[TYPE] = type;
    memcpy(out + MAGIC, magic, 8);
    (void)snprintf(out + SUM, SUM_WIDTH, "%06o", sum_of(out));
    out[SUM + 7] = ' ';
}

void td__tar_header(char out[TD__TAR_BLOCK], const char *name, int64_t size) {
    format_header(out, '0', name, size);
}

void td__tar_comment(char out[TD__TAR_COMMENT], const char *text) {
    enum { WORD = 13, MAX_TEXT = 480 }; /* "NNN comment=…\n" says how long it is itself */
    memset(out, 0, TD__TAR_COMMENT);
    int length = (int)strnlen(text, MAX_TEXT), all = length + WORD;
    all -= all < 101; /* a length of two digits */
    format_header(out, 'g', "pax_global_header", all);
    (void)snprintf(out + TD__TAR_BLOCK, TD__TAR_BLOCK, "%d comment=%.*s\n", all, length, text);
}

bool td__tar_parse(const char block[TD__TAR_BLOCK], char name[TD__TAR_NAME], int64_t *size) {
    char digits[WIDE + 1] = "", sum[SUM_WIDTH + 1] = "";
    memcpy(digits, block + SIZE, WIDE);
    memcpy(sum, block + SUM, SUM_WIDTH);
    if (memcmp(block + MAGIC, magic, 8) != 0 || block[TYPE] != '0' || block[TD__TAR_NAME - 1] ||
        strtoul(sum, NULL, 8) != sum_of(block) || strspn(digits, "01234567") != WIDE - 1) {
        return false;
    }
    memcpy(name, block, TD__TAR_NAME);
    *size = strtoll(digits, NULL, 8);
    return true;
}

int64_t td__tar_space(int64_t size) {
    return TD__TAR_BLOCK + (size + TD__TAR_BLOCK - 1) / TD__TAR_BLOCK * TD__TAR_BLOCK;
}
