#include "diagnose/model_text.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
    char *data;
    size_t size, capacity;
    bool bad;
} text;

static void put(text *t, const char *format, ...) {
    char some[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(some, sizeof some, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof some ||
        !td__grow(&t->data, &t->capacity, t->size + (size_t)length + 1, 1u << 20, 1)) {
        t->bad = true;
        return;
    }
    memcpy(t->data + t->size, some, (size_t)length + 1);
    t->size += (size_t)length;
}

static void put_quoted(text *t, const char *word) {
    put(t, "\"");
    for (; *word; word++) {
        put(t, *word == '"' || *word == '\\' ? "\\%c" : "%c", *word);
    }
    put(t, "\"");
}

static void put_value(text *t, const td_value *value) {
    bool list = value->kind == TD_VALUE_NUMBERS || value->kind == TD_VALUE_TEXTS;
    put(t, list ? "[" : "");
    for (size_t i = 0; list && i < value->count; i++) {
        put(t, i ? ", " : "");
        if (value->kind == TD_VALUE_NUMBERS) {
            put(t, "%.9g", value->numbers[i]);
        } else {
            put_quoted(t, value->texts[i]);
        }
    }
    put(t, list ? "]" : "");
    if (value->kind == TD_VALUE_NUMBER) {
        put(t, "%.9g", value->number);
    } else if (value->kind == TD_VALUE_BOOL) {
        put(t, value->boolean ? "true" : "false");
    } else if (value->kind == TD_VALUE_TEXT) {
        put_quoted(t, value->text);
    } else if (value->kind == TD_VALUE_CHOICE) {
        put(t, "{%s: {", value->text);
        for (size_t i = 0; i < value->count; i++) {
            put(t, "%s%s: ", i ? ", " : "", value->settings[i].key);
            put_value(t, &value->settings[i].value);
        }
        put(t, "}}");
    }
}

/* Without a key, when that is not NULL. */
static void put_layer(text *t, const td_layer_info *layer, const char *without) {
    put(t, "%s{%s: {", t->size > strlen("model=[") ? ", " : "", td_layer_kind_name(layer->kind));
    bool first = true;
    for (size_t i = 0; i < layer->setting_count; i++) {
        if (without && !strcmp(layer->settings[i].key, without)) {
            continue;
        }
        put(t, "%s%s: ", first ? "" : ", ", layer->settings[i].key);
        put_value(t, &layer->settings[i].value);
        first = false;
    }
    put(t, "}}");
}

static const char *finish(td__case *c, text *t) {
    put(t, "]");
    const char *kept = t->bad ? NULL : td__keep(c, t->data);
    td__free(t->data);
    return kept;
}

const char *td__model_normalized(td__case *c) {
    text t = {0};
    put(&t, "model=[");
    for (size_t i = 0; i < c->layers.count; i++) {
        const td_layer_info *layer = td_model_layer(c->trainer->model, i);
        const td__layer_facts *facts = &c->layers.items[i];
        bool hidden = facts->learns && !facts->recurrent && (ptrdiff_t)i != c->layers.last;
        bool own = hidden && facts->activation != TD_LINEAR;
        put_layer(&t, layer, own ? "activation" : NULL);
        if (hidden) {
            put(&t, ", {batch_normalization: {}}");
        }
        if (own) {
            put(&t, ", {activation: {function: %s}}", td_activation_name(facts->activation));
        }
    }
    return finish(c, &t);
}

const char *td__model_shallow(td__case *c) {
    text t = {0};
    size_t hidden = 0;
    bool stack = true;
    put(&t, "model=[");
    for (size_t i = 0; i < c->layers.count; i++) {
        const td_layer_info *layer = td_model_layer(c->trainer->model, i);
        const td__layer_facts *facts = &c->layers.items[i];
        bool inner = (ptrdiff_t)i < c->layers.last;
        td__layer_features features = facts->kind->features;
        td__layer_role role = facts->kind->role;
        stack &= !inner || features == TD__FEATURES_MIXED || features == TD__FEATURES_FLATTENED ||
                 role == TD__ROLE_DROPOUT || role == TD__ROLE_ACTIVATION;
        hidden += inner && facts->learns;
        if (!inner || hidden <= 2) {
            put_layer(&t, layer, NULL);
        }
    }
    t.bad |= !stack;
    return finish(c, &t);
}
