/* Texts that were kept with a model: metadata_props of ModelProto, StringStringEntryProto. */
#include "onnx/onnx.h"

#include "base/memory.h"
#include "base/proto.h"

enum { METADATA_PROPS = 14, KEY = 1, VALUE = 2 };

static bool is_text(const td__proto_field *field, const char *text) {
    return field->data && field->size == strlen(text) && !memcmp(field->data, text, field->size);
}

static char *copy_of(const td__proto_field *field) {
    char *text = td__calloc(1, field->size + 1);
    if (text && field->size) {
        memcpy(text, field->data, field->size);
    }
    return text;
}

/* An entry whose key is asked for; of several the last counts. False when memory is exhausted. */
static bool take_entry(const td__proto_field *entry, size_t count, const char *const keys[],
                       char *texts[]) {
    td__proto message = td__proto_in(entry);
    td__proto_field key = {0}, value = {0};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.wire == TD__BYTES && field.number == KEY) {
            key = field;
        } else if (field.wire == TD__BYTES && field.number == VALUE) {
            value = field;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (value.data && is_text(&key, keys[i])) {
            td__free(texts[i]);
            texts[i] = copy_of(&value);
            return texts[i];
        }
    }
    return true;
}

td_status td__onnx_texts(const char *path, const void *bytes, size_t size, size_t count,
                         const char *const keys[], char *texts[], td_error *error) {
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    td__proto message = td__proto_of(bytes, size);
    bool whole = true;
    for (td__proto_field field; whole && td__proto_next(&message, &field);) {
        if (field.wire == TD__BYTES && field.number == METADATA_PROPS) {
            whole = take_entry(&field, count, keys, texts);
        }
    }
    for (size_t i = 0; i < count && !whole; i++) {
        td__free(texts[i]);
        texts[i] = NULL;
    }
    return whole ? TD_OK : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
}
