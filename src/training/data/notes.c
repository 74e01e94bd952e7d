#include "data/notes.h"

#include "base/memory.h"
#include "data/table.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 24 };

static const char *const missing[] = {
    [TD_MISSING_REFUSED] = NULL,
    [TD_MISSING_MEAN] = "mean",
    [TD_MISSING_DROP] = "drop",
    [TD_MISSING_VALUE] = "value",
};
enum { MISSING = sizeof missing / sizeof *missing };

static const char *const orders[] = {"auto", "day_first", "month_first"}; /* td_date_order */
enum { ORDERS = sizeof orders / sizeof *orders };
static const char *const tokens[] = {"words", "characters", "bytes"}; /* td_tokens */
static const char *const lowers[] = {"unicode", "ascii", "none"};     /* td_lower */
enum { TOKENS = sizeof tokens / sizeof *tokens, LOWERS = sizeof lowers / sizeof *lowers };

/* ---- Writing --------------------------------------------------------------------------------- */

static bool put_texts(json_t *object, const char *key, td_names names) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < names.count; i++) {
        good = json_array_append_new(list, json_string(names.items[i])) == 0;
    }
    if (!good || names.count == 0) {
        json_decref(list);
        return good;
    }
    return json_object_set_new(object, key, list) == 0;
}

static bool put_text(json_t *object, const char *key, const char *text) {
    return !text || json_object_set_new(object, key, json_string(text)) == 0;
}

static bool put_floats(json_t *object, const char *key, const float *values, int64_t count) {
    json_t *list = values ? json_array() : NULL;
    bool good = list || !values;
    for (int64_t i = 0; values && good && i < count; i++) {
        good = json_array_append_new(list, json_real((double)values[i])) == 0;
    }
    if (!good || !values) {
        json_decref(list);
        return good;
    }
    return json_object_set_new(object, key, list) == 0;
}

/* New data has no use for weights and groups. */
static bool put_ignored(json_t *object, const td_data_options *options) {
    const char *const more[] = {options->weight, options->groups};
    bool good = put_texts(object, "ignore", options->ignore);
    for (size_t i = 0; good && i < sizeof more / sizeof *more; i++) {
        json_t *list = json_object_get(object, "ignore");
        if (more[i] && !list) {
            list = json_array();
            good = list && json_object_set_new(object, "ignore", list) == 0;
        }
        good = good && (!more[i] || json_array_append_new(list, json_string(more[i])) == 0);
    }
    return good;
}

/* What had a file of its own is looked for by its name in new data, an .npz. */
static bool put_pieces(json_t *object, const char *key, const td_pieces *pieces) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < pieces->count; i++) {
        const td_piece *piece = &pieces->items[i];
        json_t *one = json_object();
        good = put_text(one, "name", piece->name) &&
               put_texts(one, "from", piece->path ? (td_names){&piece->name, 1} : piece->from) &&
               json_array_append_new(list, one) == 0;
    }
    if (!good || pieces->count == 0) {
        json_decref(list);
        return good;
    }
    return json_object_set_new(object, key, list) == 0;
}

/* [length, horizon, stride] */
static bool put_window(json_t *object, const td_window *window) {
    return !window->length || json_object_set_new(object, "window",
                                                  json_pack("[I, I, I]", (json_int_t)window->length,
                                                            (json_int_t)window->horizon,
                                                            (json_int_t)window->stride)) == 0;
}

/* [height, width, 1 where they are cropped] */
static bool put_resize(json_t *object, const td_resize *resize) {
    return !resize->height ||
           json_object_set_new(object, "resize",
                               json_pack("[I, I, i]", (json_int_t)resize->height,
                                         (json_int_t)resize->width, (int)resize->crop)) == 0;
}

/* [{"column": "review", "tokens": "words", "lower": "unicode", "punctuation": false, "length": 40, "words": […]}] */
static bool put_columns_of_text(json_t *object, const td_texts *texts) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < texts->count; i++) {
        const td_text *text = &texts->items[i];
        json_t *one = json_pack("{s:s, s:s, s:s, s:b, s:I}", "column", text->column, "tokens",
                                tokens[text->tokens], "lower", lowers[text->lower], "punctuation",
                                (int)text->punctuation, "length", (json_int_t)text->length);
        good = one && put_texts(one, "words", text->words) && json_array_append(list, one) == 0;
        json_decref(one);
    }
    if (!good || texts->count == 0) {
        json_decref(list);
        return good;
    }
    return json_object_set_new(object, "text", list) == 0;
}

/* [{"column": "when", "parts": ["year", …], "order": "auto", "since": 1704067200}] */
static bool put_dates(json_t *object, const td_dates *dates) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; good && i < dates->count; i++) {
        const td_date *date = &dates->items[i];
        json_t *one = json_pack("{s:s, s:s, s:I}", "column", date->column, "order",
                                orders[date->order], "since", (json_int_t)date->since);
        good = one && put_texts(one, "parts", date->parts) && json_array_append(list, one) == 0;
        json_decref(one);
    }
    if (!good || dates->count == 0) {
        json_decref(list);
        return good;
    }
    return json_object_set_new(object, "dates", list) == 0;
}

bool td__data_notes_write(json_t *object, const td_data_options *options,
                          const td_data_info *info) {
    td_names classes = {info->class_names, info->class_names ? (size_t)info->classes : 0};
    json_t *scale = json_real(options->scale != 0 ? options->scale : 1);
    return json_object_set_new(object, "scale", scale) == 0 &&
           put_window(object, &options->window) && put_resize(object, &options->resize) &&
           put_texts(object, "inputs", info->inputs) &&
           put_texts(object, "label", options->label) &&
           put_texts(object, "label_names", info->label_names) && put_ignored(object, options) &&
           put_texts(object, "classes", classes) &&
           put_texts(object, "categories", options->categories) &&
           put_columns_of_text(object, &info->text) && put_dates(object, &info->dates) &&
           put_text(object, "missing", missing[options->missing]) &&
           put_floats(object, "fill", info->fill, info->fill_count) &&
           put_text(object, "images", options->images) && put_text(object, "x", options->x) &&
           put_text(object, "y", options->y) &&
           put_floats(object, "mean", info->mean, info->normal_count) &&
           put_floats(object, "deviation", info->deviation, info->normal_count) &&
           put_floats(object, "label_mean", info->label_mean, info->label_normal_count) &&
           put_floats(object, "label_deviation", info->label_deviation, info->label_normal_count) &&
           put_pieces(object, "input_pieces", &options->input_pieces) &&
           put_pieces(object, "label_pieces", &options->label_pieces);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    size_t offset;
} lists[] = {
    {"inputs", offsetof(td__data_notes, inputs)},
    {"label", offsetof(td__data_notes, label)},
    {"label_names", offsetof(td__data_notes, label_names)},
    {"ignore", offsetof(td__data_notes, ignore)},
    {"classes", offsetof(td__data_notes, classes)},
    {"categories", offsetof(td__data_notes, categories)},
};
enum { LISTS = sizeof lists / sizeof *lists };

static size_t list_size(const json_t *list) {
    return json_is_array(list) ? json_array_size(list) : 0;
}

static bool read_texts(const json_t *list, td_names *names, const char ***next) {
    *names = (td_names){*next, list_size(list)};
    for (size_t i = 0; i < names->count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) {
            return false;
        }
        *(*next)++ = text;
    }
    return true;
}

static bool read_floats(const json_t *list, float **values) {
    *values = td__calloc(list_size(list) + 1, sizeof **values);
    for (size_t i = 0; *values && i < list_size(list); i++) {
        if (!json_is_number(json_array_get(list, i))) {
            return false;
        }
        (*values)[i] = (float)json_number_value(json_array_get(list, i));
    }
    return *values;
}

/* Two lists of one length. */
static bool read_scale(const json_t *object, const char *mean_key, const char *deviation_key,
                       float **mean, float **deviation, int64_t *count) {
    const json_t *means = json_object_get(object, mean_key);
    const json_t *deviations = json_object_get(object, deviation_key);
    *count = (int64_t)list_size(means);
    if (list_size(means) != list_size(deviations) || list_size(means) >= MAX_ITEMS) {
        return false;
    }
    return *count == 0 || (read_floats(means, mean) && read_floats(deviations, deviation));
}

static bool read_missing(td__data_notes *notes, const json_t *object) {
    const char *word = json_string_value(json_object_get(object, "missing"));
    const json_t *values = json_object_get(object, "fill");
    int kind = 0;
    while (word && ++kind < MISSING && strcmp(word, missing[kind]) != 0) {
    }
    if (kind == MISSING || list_size(values) >= MAX_ITEMS) {
        return false;
    }
    notes->missing = (td_missing)kind;
    notes->fill_count = (int64_t)list_size(values);
    return notes->fill_count == 0 || read_floats(values, &notes->fill);
}

static bool read_window(td__data_notes *notes, const json_t *list) {
    int64_t *const numbers[] = {&notes->window.length, &notes->window.horizon,
                                &notes->window.stride};
    for (size_t i = 0; list && i < 3; i++) {
        *numbers[i] = json_integer_value(json_array_get(list, i));
    }
    return !list || (list_size(list) == 3 && notes->window.length > 0);
}

static bool read_resize(td__data_notes *notes, const json_t *list) {
    td_resize *resize = &notes->resize;
    if (!list) {
        return true;
    }
    resize->height = json_integer_value(json_array_get(list, 0));
    resize->width = json_integer_value(json_array_get(list, 1));
    resize->crop = json_integer_value(json_array_get(list, 2)) != 0;
    return list_size(list) == 3 && resize->height > 0 && resize->width > 0;
}

/* The place of a word in a list; count when it is not there. */
static int find_word(const json_t *word, const char *const *list, int count) {
    const char *text = json_string_value(word);
    int i = text ? 0 : count;
    while (i < count && strcmp(text, list[i]) != 0) {
        i++;
    }
    return i;
}

static bool read_columns_of_text(td__data_notes *notes, const json_t *object, const char ***next) {
    const json_t *list = json_object_get(object, "text");
    bool good = list_size(list) <= TD__TEXTS_MAXIMUM;
    notes->texts_of = td__calloc(TD__TEXTS_MAXIMUM, sizeof *notes->texts_of);
    good = good && notes->texts_of;
    for (size_t i = 0; good && i < list_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        td_text *text = &notes->texts_of[i];
        text->column = json_string_value(json_object_get(one, "column"));
        text->length = json_integer_value(json_object_get(one, "length"));
        text->punctuation = json_is_true(json_object_get(one, "punctuation"));
        int kind = find_word(json_object_get(one, "tokens"), tokens, TOKENS);
        int lower = find_word(json_object_get(one, "lower"), lowers, LOWERS);
        text->tokens = (td_tokens)kind;
        text->lower = (td_lower)lower;
        good = text->column && kind < TOKENS && lower < LOWERS &&
               read_texts(json_object_get(one, "words"), &text->words, next) &&
               (text->words.count || text->tokens == TD_TOKENS_BYTES);
    }
    notes->text = (td_texts){notes->texts_of, good ? list_size(list) : 0};
    return good;
}

static bool read_dates(td__data_notes *notes, const json_t *object, const char ***next) {
    const json_t *list = json_object_get(object, "dates");
    bool good = list_size(list) <= TD__DATES_MAXIMUM;
    notes->dates_of = td__calloc(TD__DATES_MAXIMUM, sizeof *notes->dates_of);
    good = good && notes->dates_of;
    for (size_t i = 0; good && i < list_size(list); i++) {
        const json_t *one = json_array_get(list, i), *since = json_object_get(one, "since");
        td_date *date = &notes->dates_of[i];
        int order = find_word(json_object_get(one, "order"), orders, ORDERS);
        date->column = json_string_value(json_object_get(one, "column"));
        date->order = (td_date_order)order;
        date->has_since = true;
        date->since = json_integer_value(since);
        good = date->column && order < ORDERS && json_is_integer(since) &&
               read_texts(json_object_get(one, "parts"), &date->parts, next);
    }
    notes->dates = (td_dates){notes->dates_of, good ? list_size(list) : 0};
    return good;
}

static const char *const piece_lists[] = {"input_pieces", "label_pieces"};

/* How many texts, and pieces, the lists of pieces have. */
static size_t count_pieces(const json_t *object, size_t *pieces) {
    size_t texts = 0;
    for (int k = 0; k < 2; k++) {
        const json_t *list = json_object_get(object, piece_lists[k]);
        *pieces += list_size(list);
        for (size_t i = 0; i < list_size(list); i++) {
            texts += list_size(json_object_get(json_array_get(list, i), "from"));
        }
    }
    return texts;
}

static bool read_pieces(td__data_notes *notes, const json_t *object, const char ***next) {
    td_pieces *const to[] = {&notes->input_pieces, &notes->label_pieces};
    td_piece *piece = notes->pieces;
    bool good = piece != NULL;
    for (int k = 0; k < 2; k++) {
        const json_t *list = json_object_get(object, piece_lists[k]);
        *to[k] = (td_pieces){piece, list_size(list)};
        for (size_t i = 0; good && i < list_size(list); i++, piece++) {
            const json_t *one = json_array_get(list, i);
            piece->name = json_string_value(json_object_get(one, "name"));
            good = piece->name && read_texts(json_object_get(one, "from"), &piece->from, next);
        }
    }
    return good;
}

bool td__data_notes_read(td__data_notes *notes, const json_t *object) {
    *notes = (td__data_notes){0};
    size_t pieces = 0, count = count_pieces(object, &pieces);
    for (int k = 0; k < LISTS; k++) {
        count += list_size(json_object_get(object, lists[k].key));
    }
    const struct { const char *list, *texts; } inner[] = {{"text", "words"}, {"dates", "parts"}};
    for (size_t k = 0; k < sizeof inner / sizeof *inner; k++) {
        const json_t *columns = json_object_get(object, inner[k].list);
        for (size_t i = 0; i < list_size(columns); i++) {
            count += list_size(json_object_get(json_array_get(columns, i), inner[k].texts));
        }
    }
    notes->texts = count < MAX_ITEMS ? td__calloc(count + 1, sizeof *notes->texts) : NULL;
    notes->pieces = pieces < MAX_ITEMS ? td__calloc(pieces + 1, sizeof *notes->pieces) : NULL;
    const char **next = notes->texts;
    bool good = json_is_object(object) && next;
    for (int k = 0; good && k < LISTS; k++) {
        td_names *names = (td_names *)((char *)notes + lists[k].offset);
        good = read_texts(json_object_get(object, lists[k].key), names, &next);
    }
    good = good &&
           read_scale(object, "mean", "deviation", &notes->mean, &notes->deviation,
                      &notes->normal_count) &&
           read_scale(object, "label_mean", "label_deviation", &notes->label_mean,
                      &notes->label_deviation, &notes->label_normal_count);
    good = good && read_window(notes, json_object_get(object, "window")) &&
           read_resize(notes, json_object_get(object, "resize")) && read_missing(notes, object) &&
           read_pieces(notes, object, &next) && read_columns_of_text(notes, object, &next) &&
           read_dates(notes, object, &next);
    notes->scale = json_number_value(json_object_get(object, "scale"));
    notes->images = json_string_value(json_object_get(object, "images"));
    notes->x = json_string_value(json_object_get(object, "x"));
    notes->y = json_string_value(json_object_get(object, "y"));
    return good;
}

void td__data_notes_release(td__data_notes *notes) {
    td__free(notes->texts);
    td__free(notes->pieces);
    td__free(notes->texts_of);
    td__free(notes->matched);
    td__free(notes->dates_of);
    td__free(notes->matched_dates);
    td__free(notes->mean);
    td__free(notes->deviation);
    td__free(notes->fill);
    td__free(notes->label_mean);
    td__free(notes->label_deviation);
    *notes = (td__data_notes){0};
}

bool td__data_notes_match(td__data_notes *notes, td_data_options *options) {
    td_text *matched = td__calloc(options->text.count + 1, sizeof *matched);
    for (size_t i = 0; matched && i < options->text.count; i++) {
        matched[i] = options->text.items[i];
        for (size_t k = 0; k < notes->text.count; k++) {
            const td_text *before = &notes->text.items[k];
            if (!strcmp(before->column, matched[i].column) && before->tokens == matched[i].tokens) {
                matched[i].words = before->words;
                matched[i].length = matched[i].length ? matched[i].length : before->length;
            }
        }
    }
    td__free(notes->matched);
    notes->matched = matched;
    options->text.items = matched;
    td_date *dates = td__calloc(options->dates.count + 1, sizeof *dates);
    for (size_t i = 0; dates && i < options->dates.count; i++) {
        dates[i] = options->dates.items[i];
        for (size_t k = 0; k < notes->dates.count; k++) {
            const td_date *before = &notes->dates.items[k];
            if (!strcmp(before->column, dates[i].column)) {
                dates[i].order =
                    dates[i].order == TD_DATE_ORDER_AUTO ? before->order : dates[i].order;
                dates[i].since = dates[i].has_since ? dates[i].since : before->since;
                dates[i].has_since = true;
                dates[i].parts = dates[i].parts.count ? dates[i].parts : before->parts;
            }
        }
    }
    td__free(notes->matched_dates);
    notes->matched_dates = dates;
    options->dates.items = dates;
    return matched && dates;
}

void td__data_notes_apply(const td__data_notes *notes, td_data_options *options) {
    options->inputs = notes->inputs;
    options->label = notes->label;
    options->label_names = notes->label_names;
    options->ignore = notes->ignore;
    options->classes = notes->classes;
    options->categories = notes->categories;
    options->text = notes->text;
    options->dates = notes->dates;
    options->missing = notes->missing;
    options->fill = notes->fill;
    options->fill_count = notes->fill_count;
    options->images = notes->images;
    options->x = notes->x;
    options->y = notes->y;
    options->scale = notes->scale;
    options->mean = notes->mean;
    options->deviation = notes->deviation;
    options->normal_count = notes->normal_count;
    options->label_mean = notes->label_mean;
    options->label_deviation = notes->label_deviation;
    options->label_normal_count = notes->label_normal_count;
    options->window = notes->window;
    options->resize = notes->resize;
    options->input_pieces = notes->input_pieces;
    options->label_pieces = notes->label_pieces;
}
