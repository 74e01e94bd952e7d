#include "base/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td__reasons_add(td__reasons *reasons, td_status status, const char *format, ...) {
    size_t length = strlen(reasons->text), room = sizeof reasons->text - length;
    if (reasons->count++ == 0) {
        reasons->first = status;
    }
    int separator = snprintf(reasons->text + length, room, "%s", length ? "; " : "");
    if ((size_t)separator >= room) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reasons->text + length + separator, room - (size_t)separator, format,
                    arguments);
    va_end(arguments);
}

td_status td__reasons_report(const td__reasons *reasons, const char *path, td_error *error) {
    bool cut = strlen(reasons->text) + 1 == sizeof reasons->text;
    const char *end = cut ? " …" : "";
    if (reasons->count <= 1) {
        return reasons->count
                   ? td_error_set(error, reasons->first, "%s: %s%s", path, reasons->text, end)
                   : TD_OK;
    }
    return td_error_set(error, reasons->first, "%s: %zu problems: %s%s", path, reasons->count,
                        reasons->text, end);
}
