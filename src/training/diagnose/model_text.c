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

/* ---- Layers --------------------------------------------------------------------------------- */

/* What readers of each layer find instead of it; NULL: the layer itself. */
typedef struct rewrite {
    td__case *c;
    text text;
    const char **instead;
} rewrite;

static void start(rewrite *r, td__case *c) {
    *r = (rewrite){.c = c, .instead = td__calloc(c->layers.count + 1, sizeof *r->instead)};
    r->text.bad = !r->instead;
    put(&r->text, "model=[");
}

static const char *finish(rewrite *r) {
    put(&r->text, "]");
    const char *kept = r->text.bad ? NULL : td__keep(r->c, r->text.data);
    td__free(r->text.data);
    td__free((void *)r->instead);
    return kept;
}

static const char *instead_of(const rewrite *r, const char *name) {
    for (size_t i = 0; i < r->c->layers.count; i++) {
        if (!strcmp(r->c->layers.items[i].name, name)) {
            return r->instead[i] ? r->instead[i] : name;
        }
    }
    return name;
}

static void put_sources(rewrite *r, const td_value *value) {
    bool several = value->kind == TD_VALUE_TEXTS;
    put(&r->text, "[");
    for (size_t i = 0; i < (several ? value->count : 1); i++) {
        put(&r->text, i ? ", " : "");
        put_quoted(&r->text, instead_of(r, several ? value->texts[i] : value->text));
    }
    put(&r->text, "]");
}

/* Without a key, when that is not NULL. */
static void put_layer(rewrite *r, size_t index, const char *without) {
    const td_layer_info *layer = td_model_layer(r->c->trainer->model, index);
    text *t = &r->text;
    put(t, "%s{%s: {", t->size > strlen("model=[") ? ", " : "", td_layer_kind_name(layer->kind));
    t->bad |= strchr(layer->name, '@') != NULL; /* a layer used again has no options of its own */
    bool first = true;
    for (size_t i = 0; i < layer->setting_count; i++) {
        const td_setting *setting = &layer->settings[i];
        if (without && !strcmp(setting->key, without)) {
            continue;
        }
        put(t, "%s%s: ", first ? "" : ", ", setting->key);
        if (!strcmp(setting->key, "from")) {
            put_sources(r, &setting->value);
        } else {
            put_value(t, &setting->value);
        }
        first = false;
    }
    put(t, "}}");
}

static bool is_hidden(const td__case *c, size_t index) {
    const td__layer_facts *layer = &c->layers.items[index];
    bool weights = layer->kind->role == TD__ROLE_LINEAR || layer->kind->role == TD__ROLE_RECURRENT;
    return layer->learns && weights && !layer->last;
}

static bool reads_the_one_above(const td__case *c, size_t index) {
    const td_layer_info *layer = td_model_layer(c->trainer->model, index);
    return index > 0 && layer->input_count == 1 && layer->inputs[0] == (int32_t)index - 1;
}

/* Whether signals get past a layer without going through its weights, or are brought back to size in it. */
static bool is_break(const td__case *c, size_t index) {
    td__layer_role role = c->layers.items[index].kind->role;
    return role == TD__ROLE_MERGE || role == TD__ROLE_ATTENTION || role == TD__ROLE_NORMALIZATION ||
           (role != TD__ROLE_JOIN && index > 0 && !reads_the_one_above(c, index));
}

td__chain td__longest_chain(const td__case *c) {
    td__chain longest = {.first = -1}, chain = longest;
    for (size_t i = 0; i < c->layers.count; i++) {
        if (is_break(c, i)) {
            chain = (td__chain){.first = -1};
        }
        const td__layer_facts *layer = &c->layers.items[i];
        if (is_hidden(c, i) || (layer->learns && layer->last)) {
            chain.first = chain.first < 0 ? (ptrdiff_t)i : chain.first;
            chain.last = (ptrdiff_t)i;
            chain.count++;
            longest = chain.count > longest.count ? chain : longest;
        }
    }
    return longest;
}

/* ---- Other models --------------------------------------------------------------------------- */

const char *td__model_normalized(td__case *c, td__chain chain) {
    rewrite r;
    start(&r, c);
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *facts = &c->layers.items[i];
        bool among = (ptrdiff_t)i >= chain.first && (ptrdiff_t)i <= chain.last;
        bool hidden = among && is_hidden(c, i) && !facts->recurrent;
        bool own = hidden && facts->activation != TD_LINEAR;
        put_layer(&r, i, own ? "activation" : NULL);
        if (hidden && r.instead) {
            r.instead[i] = td__say(c, "%s_%s", facts->name, own ? "activated" : "normalized");
            put(&r.text, ", {batch_normalization: {name: %s_normalized}}", facts->name);
        }
        if (own) {
            put(&r.text, ", {activation: {name: %s_activated, function: %s}}", facts->name,
                td_activation_name(facts->activation));
        }
    }
    return finish(&r);
}

const char *td__model_shallow(td__case *c, td__chain chain) {
    rewrite r;
    start(&r, c);
    size_t hidden = 0;
    bool removing = false, removed = false;
    for (size_t i = 0; r.instead && i < c->layers.count; i++) {
        td__layer_role role = c->layers.items[i].kind->role;
        bool among = (ptrdiff_t)i > chain.first && (ptrdiff_t)i <= chain.last;
        bool alone = among && reads_the_one_above(c, i);
        hidden += (ptrdiff_t)i >= chain.first && (ptrdiff_t)i <= chain.last && is_hidden(c, i);
        if (is_hidden(c, i) || role == TD__ROLE_SHAPE || role == TD__ROLE_POOL) {
            removing = alone && is_hidden(c, i) && hidden > 2;
        }
        bool with = removing && alone && !c->layers.items[i].last &&
                    (is_hidden(c, i) || role == TD__ROLE_ACTIVATION || role == TD__ROLE_DROPOUT ||
                     role == TD__ROLE_NORMALIZATION);
        removing &= with;
        if (with) {
            r.instead[i] = r.instead[i - 1] ? r.instead[i - 1] : c->layers.items[i - 1].name;
        } else {
            put_layer(&r, i, NULL);
        }
        removed |= with;
    }
    r.text.bad |= !removed;
    return finish(&r);
}
