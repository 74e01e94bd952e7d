#include "run/event_parts.h"

#include "base/proto.h"

#include <stdio.h>
#include <string.h>

/* ---- Sounds --------------------------------------------------------------------------------- */

static uint32_t load16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

bool td__sound_read(const uint8_t *data, size_t size, td__sound *sound) {
    enum { HEAD = 12, CHUNK = 8, FORMAT = 16, PCM = 1, BITS = 16 };
    td__sound made = {0};
    if (size < HEAD || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WAVE", 4) != 0) {
        return false;
    }
    for (size_t at = HEAD; size - at >= CHUNK;) {
        const uint8_t *chunk = data + at + CHUNK;
        size_t length = td__load32(data + at + 4), left = size - at - CHUNK;
        length = length < left ? length : left;
        if (memcmp(data + at, "fmt ", 4) == 0 && length >= FORMAT) {
            bool is_pcm = load16(chunk) == PCM && load16(chunk + 14) == BITS;
            made.channels = is_pcm ? load16(chunk + 2) : 0;
            made.rate = td__load32(chunk + 4);
        } else if (memcmp(data + at, "data", 4) == 0 && made.channels > 0 && !made.samples) {
            made.samples = chunk;
            made.frames = (int64_t)(length / 2) / made.channels;
        }
        at += CHUNK + (length + length % 2 < left ? length + length % 2 : left);
    }
    *sound = made;
    return made.frames > 0;
}

/* ---- Settings ------------------------------------------------------------------------------- */

/* Field numbers of tensorboard/plugins/hparams/plugin_data.proto and google/protobuf/struct.proto. */
enum {
    DATA_SESSION_START = 3,
    SESSION_HPARAMS = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NUMBER = 2,
    VALUE_STRING = 3,
    VALUE_BOOL = 4,
    MAX_TEXT = 512
};

/* A setting's value as text. */
static void format_setting(const td__proto_field *value, char text[MAX_TEXT]) {
    td__proto proto = td__proto_in(value);
    td__proto_field field;
    text[0] = 0;
    while (td__proto_next(&proto, &field)) {
        if (field.number == VALUE_NUMBER && field.wire == TD__FIXED64) {
            (void)snprintf(text, MAX_TEXT, "%.15g", td__double_of(field.bits));
        } else if (field.number == VALUE_STRING && field.wire == TD__BYTES) {
            (void)snprintf(text, MAX_TEXT, "%.*s",
                           (int)(field.size < MAX_TEXT ? field.size : MAX_TEXT),
                           (const char *)field.data);
        } else if (field.number == VALUE_BOOL && field.wire == TD__VARINT) {
            (void)snprintf(text, MAX_TEXT, "%s", field.bits ? "true" : "false");
        }
    }
}

/* The field of that number of a message, which is empty when there is none. */
static td__proto_field find_part(td__proto message, uint32_t number) {
    td__proto_field field, found = {0};
    while (td__proto_next(&message, &field)) {
        found = field.number == number && field.wire == TD__BYTES ? field : found;
    }
    return found;
}

td_status td__hparams_read(const uint8_t *data, size_t size,
                           td_status (*note)(void *user, const char *key, const char *text,
                                             td_error *error),
                           void *user, td_error *error) {
    td__proto_field session = find_part(td__proto_of(data, size), DATA_SESSION_START), entry;
    td__proto settings = td__proto_in(&session);
    td_status status = TD_OK;
    while (!status && td__proto_next(&settings, &entry)) {
        if (entry.number != SESSION_HPARAMS || entry.wire != TD__BYTES) {
            continue;
        }
        td__proto_field key = find_part(td__proto_in(&entry), ENTRY_KEY),
                        value = find_part(td__proto_in(&entry), ENTRY_VALUE);
        char name[MAX_TEXT], text[MAX_TEXT];
        (void)snprintf(name, sizeof name, "experiment.%.*s",
                       (int)(key.size < MAX_TEXT ? key.size : MAX_TEXT),
                       key.data ? (const char *)key.data : "");
        format_setting(&value, text);
        status = note(user, name, text, error);
    }
    return status;
}
