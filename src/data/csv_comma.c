/* Numbers with commas in them, which are refused with what they are. */
#include "base/parse.h"
#include "data/csv.h"

#include <stdio.h>
#include <string.h>

static bool has_decimal_comma(const char *text) {
    const char *comma = strchr(text, ',');
    char point[64];
    float value;
    if (!comma || strlen(text) >= sizeof point) {
        return false;
    }
    snprintf(point, sizeof point, "%s", text);
    point[comma - text] = '.';
    const char *end = td__parse_float32(point, &value);
    return end && *end == 0;
}

/* One to three digits, then groups of three behind commas, then perhaps a fraction. */
static bool has_thousands(const char *text) {
    static const char digits[] = "0123456789";
    const char *p = text + (*text == '-' || *text == '+');
    size_t first = strspn(p, digits), groups = 0;
    for (p += first; *p == ',' && strspn(p + 1, digits) == 3; p += 4) {
        groups++;
    }
    p += *p == '.' ? 1 + strspn(p + 1, digits) : 0;
    return first >= 1 && first <= 3 && groups > 0 && !*p;
}

td__csv_comma td__csv_find_comma(const char *text) {
    bool decimal = has_decimal_comma(text), thousands = has_thousands(text);
    return decimal && thousands ? TD__COMMA_EITHER
           : decimal            ? TD__COMMA_DECIMAL
           : thousands          ? TD__COMMA_THOUSANDS
                                : TD__COMMA_NONE;
}
