/* Text: normalised, counted, compared. What is made lives in the tape's memory. */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/broadcast.h"

#include <stdlib.h>
#include <string.h>

/* The texts of an attribute; 0 when it has none. */
static size_t texts_of(td__graph_call *call, const char *name, const char *const **texts) {
    const td__graph_attribute *found = td__graph_attribute_of(call->node, name);
    bool are = found && found->kind == TD__GRAPH_ATTRIBUTE_TEXTS;
    *texts = are ? found->texts : NULL;
    return are ? found->count : 0;
}

/* --- StringNormalizer --------------------------------------------------------------------- */

typedef enum letter_case { AS_IT_IS, LOWER, UPPER } letter_case;

static char turned(char c, letter_case to) {
    bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    return to == UPPER && lower   ? (char)(c - 'a' + 'A')
           : to == LOWER && upper ? (char)(c - 'A' + 'a')
                                  : c;
}

/* NULL (and the tape's error) also for letters whose case is not known here. */
static const char *in_case(td__graph_call *call, const char *text, letter_case to) {
    if (to == AS_IT_IS) {
        return text;
    }
    size_t size = strlen(text) + 1;
    char *copy = td__scratch(call->tape, size);
    for (size_t i = 0; copy && i < size; i++) {
        if ((unsigned char)text[i] >= 0x80) {
            (void)td__graph_fail(call, TD_UNSUPPORTED, "the case of letters beyond ASCII");
            return NULL;
        }
        copy[i] = turned(text[i], to);
    }
    return copy;
}

static bool are_equal(const char *a, const char *b, bool case_sensitive) {
    while (*a && *b && (*a == *b || (!case_sensitive && turned(*a, LOWER) == turned(*b, LOWER)))) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* Takes the stop words out and puts the rest into one case. */
static bool string_normalizer(td__graph_call *call) {
    const char *action = td__graph_text(call->node, "case_change_action", "NONE");
    letter_case to = !strcmp(action, "UPPER") ? UPPER : !strcmp(action, "LOWER") ? LOWER : AS_IT_IS;
    bool sensitive = td__graph_int(call->node, "is_case_sensitive", 0) != 0;
    const char *const *stop;
    size_t stops = texts_of(call, "stopwords", &stop);
    td_tensor *x = td__graph_plain(call, 0);
    if (!x || td__graph_input(call, 0)->type != TD__GRAPH_STRING || x->shape.rank < 1 ||
        x->shape.rank > 2 || (x->shape.rank == 2 && x->shape.dims[0] != 1)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input must be one row of text");
    }
    const char **kept = td__scratch(call->tape, ((size_t)x->count + 1) * sizeof *kept);
    int64_t count = 0;
    for (int64_t i = 0; kept && i < x->count; i++) {
        const char *text = td__graph_text_at(x, i);
        bool stopped = false;
        for (size_t k = 0; k < stops && !stopped; k++) {
            stopped = are_equal(text, stop[k], sensitive);
        }
        if (!stopped && !(kept[count++] = in_case(call, text, to))) {
            return false;
        }
    }
    if (kept && count == 0) {
        kept[count++] = "";
    }
    td_shape shape = x->shape;
    shape.dims[shape.rank - 1] = count;
    td_tensor *y = kept ? td__output(call->tape, TD_INT64, &shape) : NULL;
    for (int64_t i = 0; y && i < count; i++) {
        td__graph_put_text(y, i, kept[i]);
    }
    return td__graph_output(call, 0, TD__GRAPH_STRING, y);
}

/* --- StringConcat, StringSplit ------------------------------------------------------------ */

static bool string_concat(td__graph_call *call) {
    td_tensor *x[2];
    td__broadcast_rows rows;
    if (!td__graph_plains(call, 2, true, x) || td__graph_input(call, 0)->type != TD__GRAPH_STRING ||
        !td__broadcast_rows_init(call->tape, call->node->op_type, 2, x, &rows)) {
        return td__graph_fail(call, TD_DTYPE, "its inputs must be text");
    }
    td_tensor *y = td__output(call->tape, TD_INT64, &rows.shape);
    while (y && td__broadcast_next_row(&rows)) {
        for (int64_t i = 0; i < rows.width; i++) {
            const char *a = td__graph_text_at(x[0], rows.at[0] + i * rows.step[0]);
            const char *b = td__graph_text_at(x[1], rows.at[1] + i * rows.step[1]);
            size_t length = strlen(a), more = strlen(b) + 1;
            char *both = td__scratch(call->tape, length + more);
            if (!both) {
                return false;
            }
            memcpy(both, a, length);
            memcpy(both + length, b, more);
            td__graph_put_text(y, rows.y + i, both);
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_STRING, y);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next part of *text, and moves it behind; false when there is none. Without a delimiter parts
 * are what is between spaces. */
static bool next_part(const char **text, const char *delimiter, bool rest, const char **part,
                      size_t *length) {
    const char *at = *text;
    while (at && !*delimiter && is_space(*at)) {
        at++;
    }
    if (!at || (!*delimiter && !*at)) {
        return false;
    }
    const char *end = at, *next = NULL;
    if (rest) {
        end = at + strlen(at);
        while (!*delimiter && end > at && is_space(end[-1])) {
            end--;
        }
    } else if (*delimiter) {
        const char *found = strstr(at, delimiter);
        end = found ? found : at + strlen(at);
        next = found ? found + strlen(delimiter) : NULL;
    } else {
        while (*end && !is_space(*end)) {
            end++;
        }
        next = end;
    }
    *part = at;
    *length = (size_t)(end - at);
    *text = next;
    return true;
}

static int64_t count_parts(const char *text, const char *delimiter, int64_t max) {
    const char *part;
    size_t length;
    int64_t count = 0;
    while (next_part(&text, delimiter, count + 1 == max, &part, &length)) {
        count++;
    }
    return count;
}

/* Text into parts along a new last axis, filled up with empty ones; and how many there are. */
static bool string_split(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    const char *delimiter = td__graph_text(call->node, "delimiter", "");
    int64_t max = td__graph_int(call->node, "maxsplit", INT64_MAX), width = 0;
    max = max < INT64_MAX && max >= 0 ? max + 1 : INT64_MAX;
    if (!x || td__graph_input(call, 0)->type != TD__GRAPH_STRING || x->shape.rank == TD_MAX_RANK) {
        return td__graph_fail(call, TD_DTYPE, "its input must be text");
    }
    td_tensor *counts = td__output(call->tape, TD_INT64, &x->shape);
    for (int64_t i = 0; counts && i < x->count; i++) {
        int64_t count = count_parts(td__graph_text_at(x, i), delimiter, max);
        ((int64_t *)counts->data)[i] = count;
        width = count > width ? count : width;
    }
    td_shape shape = x->shape;
    shape.dims[shape.rank++] = width;
    td_tensor *y = counts ? td__output(call->tape, TD_INT64, &shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        const char *text = td__graph_text_at(x, i), *part;
        size_t length;
        for (int64_t k = 0; k < width; k++) {
            char *copy = NULL;
            if (k < ((int64_t *)counts->data)[i] &&
                next_part(&text, delimiter, k + 1 == max, &part, &length)) {
                if (!(copy = td__scratch(call->tape, length + 1))) {
                    return false;
                }
                memcpy(copy, part, length);
                copy[length] = 0;
            }
            td__graph_put_text(y, i * width + k, copy);
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_STRING, y) &&
           (!td__graph_wants(call, 1) || td__graph_output(call, 1, TD__GRAPH_INT64, counts));
}

/* --- TfIdfVectorizer ---------------------------------------------------------------------- */

/* A sequence of `length` elements, and which column counts it. */
typedef struct gram {
    const int64_t *elements;
    int64_t length, column;
} gram;

typedef struct grams {
    gram *all; /* sorted */
    size_t count;
    const char **words; /* of text: sorted; an element is a place among them */
    size_t word_count;
    int64_t min, max, skips; /* elements, and how many may be left out between two */
    int64_t columns;
} grams;

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int by_elements(const void *left, const void *right) {
    const gram *a = left, *b = right;
    int order = (a->length > b->length) - (a->length < b->length);
    for (int64_t i = 0; i < a->length && !order; i++) {
        order = (a->elements[i] > b->elements[i]) - (a->elements[i] < b->elements[i]);
    }
    return order;
}

/* The first place among equal words; -1 when it is none of them. */
static int64_t index_of_gram(const grams *g, const char *word) {
    size_t low = 0, high = g->word_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(g->words[middle], word) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < g->word_count && !strcmp(g->words[low], word) ? (int64_t)low : -1;
}

/* The pool as numbers: its own, or where its words are. */
static const int64_t *pool_of(td__graph_call *call, grams *g, size_t *count) {
    const int64_t *numbers;
    const char *const *texts;
    size_t words = texts_of(call, "pool_strings", &texts);
    if (!words) {
        *count = td__graph_ints(call->node, "pool_int64s", &numbers);
        return numbers;
    }
    int64_t *places = td__scratch(call->tape, words * sizeof *places);
    g->words = td__scratch(call->tape, words * sizeof *g->words);
    if (!places || !g->words) {
        return NULL;
    }
    memcpy(g->words, texts, words * sizeof *texts);
    qsort(g->words, words, sizeof *g->words, by_text);
    g->word_count = words;
    for (size_t i = 0; i < words; i++) {
        places[i] = index_of_gram(g, texts[i]);
    }
    *count = words;
    return places;
}

/* ngram_counts[n - 1] is where those of n elements begin in the pool. */
static bool grams_of(td__graph_call *call, grams *g) {
    const int64_t *begins, *columns;
    size_t kinds = td__graph_ints(call->node, "ngram_counts", &begins), size;
    size_t indices = td__graph_ints(call->node, "ngram_indexes", &columns);
    g->min = td__graph_int(call->node, "min_gram_length", 1);
    g->max = td__graph_int(call->node, "max_gram_length", 1);
    g->skips = td__graph_int(call->node, "max_skip_count", 0);
    const int64_t *pool = pool_of(call, g, &size);
    g->all = pool ? td__scratch(call->tape, (size + 1) * sizeof *g->all) : NULL;
    if (!g->all) {
        return false;
    }
    bool sound = g->min >= 1 && g->max >= g->min && g->skips >= 0 && kinds > 0;
    int64_t end = 0;
    for (size_t k = 0; sound && k < kinds; k++) {
        int64_t length = (int64_t)k + 1;
        int64_t at = begins[k];
        end = k + 1 < kinds ? begins[k + 1] : (int64_t)size;
        sound = at >= 0 && at <= end && end <= (int64_t)size && (end - at) % length == 0;
        for (; sound && at < end; at += length) {
            sound = g->count < indices && columns[g->count] >= 0 && columns[g->count] < INT32_MAX;
            if (sound) {
                int64_t column = columns[g->count];
                g->all[g->count++] = (gram){pool + at, length, column};
                g->columns = column >= g->columns ? column + 1 : g->columns;
            }
        }
    }
    if (!sound || g->count != indices) {
        return td__graph_fail(call, TD_FORMAT, "its pool and its counts do not fit");
    }
    qsort(g->all, g->count, sizeof *g->all, by_elements);
    return true;
}

/* Counts every gram of a row, whole (skip 1) and with elements left out; single ones once. */
static void count_row(const grams *g, const int64_t *row, int64_t width, int64_t *taken,
                      float *counts) {
    for (int64_t skip = 1; skip <= g->skips + 1 && skip <= width; skip++) {
        for (int64_t n = g->min; n <= g->max && (n - 1) * skip < width; n++) {
            for (int64_t at = 0; (skip == 1 || n > 1) && at + (n - 1) * skip < width; at++) {
                for (int64_t i = 0; i < n; i++) {
                    taken[i] = row[at + i * skip];
                }
                gram wanted = {.elements = taken, .length = n};
                const gram *found = bsearch(&wanted, g->all, g->count, sizeof *g->all, by_elements);
                if (found) {
                    counts[found->column]++;
                }
            }
        }
    }
}

static void weigh(td__graph_call *call, const grams *g, float *counts) {
    const char *mode = td__graph_text(call->node, "mode", "TF");
    const td__graph_attribute *weights = td__graph_attribute_of(call->node, "weights");
    const int64_t *columns;
    size_t count = td__graph_ints(call->node, "ngram_indexes", &columns);
    bool known = weights && weights->kind == TD__GRAPH_ATTRIBUTE_FLOATS && weights->count == count;
    for (int64_t c = 0; strcmp(mode, "IDF") == 0 && c < g->columns; c++) {
        counts[c] = counts[c] > 0;
    }
    for (size_t i = 0; known && strcmp(mode, "TF") != 0 && i < count; i++) {
        counts[columns[i]] *= weights->numbers[i];
    }
}

static bool tf_idf_vectorizer(td__graph_call *call) {
    grams g = {0};
    td_tensor *x = td__graph_plain(call, 0);
    if (!x || x->dtype != TD_INT64 || x->shape.rank < 1 || x->shape.rank > 2 ||
        !grams_of(call, &g)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input must be rows of integers or text");
    }
    bool text = td__graph_input(call, 0)->type == TD__GRAPH_STRING;
    if (text != (g.words != NULL)) {
        return td__graph_fail(call, TD_DTYPE, "its input is not of its pool's type");
    }
    int64_t width = x->shape.dims[x->shape.rank - 1], rows = width ? x->count / width : 0;
    td_shape shape = x->shape;
    shape.dims[shape.rank - 1] = g.columns;
    rows = shape.rank == 2 ? shape.dims[0] : 1;
    td_tensor *y = td__graph_filled(call->tape, shape, 0);
    int64_t *row = td__scratch(call->tape, ((size_t)width + 1) * sizeof *row);
    int64_t *taken = td__scratch(call->tape, ((size_t)width + 1) * sizeof *taken);
    for (int64_t r = 0; y && row && taken && r < rows; r++) {
        for (int64_t i = 0; i < width; i++) {
            row[i] = text ? index_of_gram(&g, td__graph_text_at(x, r * width + i))
                          : td__graph_integer(x, r * width + i);
        }
        count_row(&g, row, width, taken, td__floats(y) + r * g.columns);
        weigh(call, &g, td__floats(y) + r * g.columns);
    }
    return row && taken && td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

const td__graph_operator td__graph_strings[] = {
    {"StringConcat", string_concat, 2, 2, 1, 20, 0, NULL},
    {"StringNormalizer", string_normalizer, 1, 1, 1, 10, 0, NULL},
    {"StringSplit", string_split, 1, 1, 2, 20, 0, NULL},
    {"TfIdfVectorizer", tf_idf_vectorizer, 1, 1, 1, 9, 0, NULL},
    {0},
};
