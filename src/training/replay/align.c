/* A longest common subsequence of the two lists of layers, by score: a layer of the same type with the same name
 * or the same settings is taken for the same one, best both. */
#include "replay/align.h"

#include "base/memory.h"

#include <string.h>

enum { MAX_CELLS = 1 << 24 };

static bool same_settings(const td_setting *a, size_t a_count, const td_setting *b, size_t b_count);

static bool same_text(const char *a, const char *b) {
    return (!a || !b) ? a == b : !strcmp(a, b);
}

static bool same_value(const td_value *a, const td_value *b) {
    if (a->kind != b->kind || a->count != b->count) {
        return false;
    }
    bool same = true;
    switch (a->kind) {
    case TD_VALUE_NUMBER:
        return a->number == b->number;
    case TD_VALUE_TEXT:
        return same_text(a->text, b->text);
    case TD_VALUE_BOOL:
        return a->boolean == b->boolean;
    case TD_VALUE_NUMBERS:
        for (size_t i = 0; same && i < a->count; i++) {
            same = a->numbers[i] == b->numbers[i];
        }
        return same;
    case TD_VALUE_TEXTS:
        for (size_t i = 0; same && i < a->count; i++) {
            same = same_text(a->texts[i], b->texts[i]);
        }
        return same;
    case TD_VALUE_CHOICE:
        return same_text(a->text, b->text) &&
               same_settings(a->settings, a->count, b->settings, b->count);
    }
    return false;
}

/* Its name and whom it reads are not what a layer is. */
static const td_setting *next_of(const td_setting *at, const td_setting *end) {
    while (at < end && (!strcmp(at->key, "name") || !strcmp(at->key, "from"))) {
        at++;
    }
    return at;
}

static bool same_settings(const td_setting *a, size_t a_count, const td_setting *b,
                          size_t b_count) {
    const td_setting *a_end = a + a_count, *b_end = b + b_count;
    for (;; a++, b++) {
        a = next_of(a, a_end);
        b = next_of(b, b_end);
        if (a == a_end || b == b_end) {
            return a == a_end && b == b_end;
        }
        if (strcmp(a->key, b->key) != 0 || !same_value(&a->value, &b->value)) {
            return false;
        }
    }
}

/* 0: they are not the same layer. */
static int32_t score(const td_layer_info *a, const td_layer_info *b) {
    if (a->kind != b->kind || !same_text(a->type, b->type)) {
        return 0;
    }
    int32_t name = !strcmp(a->name, b->name) ? 3 : 0;
    int32_t settings =
        same_settings(a->settings, a->setting_count, b->settings, b->setting_count) ? 2 : 0;
    return name + settings;
}

/* best[i][k]: of the layers from i and k on. */
static void follow_matches(const td_model *a, const td_model *b, const int32_t *best,
                           size_t columns, int32_t *b_of_a) {
    size_t i = 0, k = 0, a_count = td_model_layer_count(a), b_count = td_model_layer_count(b);
    while (i < a_count && k < b_count) {
        int32_t here = best[i * columns + k];
        int32_t both = score(td_model_layer(a, i), td_model_layer(b, k));
        if (both && here == both + best[(i + 1) * columns + k + 1]) {
            b_of_a[i++] = (int32_t)k++;
        } else if (here == best[(i + 1) * columns + k]) {
            i++;
        } else {
            k++;
        }
    }
}

bool td__layers_align(const td_model *a, const td_model *b, int32_t *b_of_a) {
    size_t rows = td_model_layer_count(a) + 1, columns = td_model_layer_count(b) + 1;
    for (size_t i = 0; i + 1 < rows; i++) {
        b_of_a[i] = (int32_t)td_model_find(b, td_model_layer(a, i)->name);
    }
    if (rows > MAX_CELLS / columns) { /* by name alone */
        return true;
    }
    int32_t *best = td__calloc(rows * columns, sizeof *best);
    if (!best) {
        return false;
    }
    for (size_t i = rows - 1; i-- > 0;) {
        for (size_t k = columns - 1; k-- > 0;) {
            int32_t both = score(td_model_layer(a, i), td_model_layer(b, k));
            int32_t skip_a = best[(i + 1) * columns + k], skip_b = best[i * columns + k + 1];
            int32_t take = both ? both + best[(i + 1) * columns + k + 1] : 0;
            int32_t skip = skip_a > skip_b ? skip_a : skip_b;
            best[i * columns + k] = take > skip ? take : skip;
        }
        b_of_a[i] = -1;
    }
    follow_matches(a, b, best, columns, b_of_a);
    td__free(best);
    return true;
}
