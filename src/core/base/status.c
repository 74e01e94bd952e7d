/* Status texts and error messages. */
#include "tapedeck/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *td_status_text(td_status status) {
    static const char *const texts[] = {
#define STATUS_TEXT(name, text) [TD_##name] = text,
        TD_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    size_t index = (size_t)status;
    return index < sizeof texts / sizeof texts[0] ? texts[index] : "unknown status";
}

td_status td_error_set(td_error *error, td_status status, const char *format, ...) {
    if (!error) {
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    static const char ellipsis[] = "…";
    if (length < 0) {
        snprintf(error->text, sizeof error->text, "%s", td_status_text(status));
    } else if ((size_t)length >= sizeof error->text) {
        size_t end = sizeof error->text - sizeof ellipsis;
        while (end > 0 && ((unsigned char)error->text[end] & 0xC0) == 0x80) {
            end--; /* do not cut inside a UTF-8 sequence */
        }
        memcpy(error->text + end, ellipsis, sizeof ellipsis);
    }
    error->status = status;
    return status;
}

const char *td_version(void) {
    return TD_VERSION_STRING;
}
