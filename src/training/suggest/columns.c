/* Guesses what each column of a CSV file is for: label, input, category, or nothing. */
#include "base/memory.h"
#include "data/date.h"
#include "suggest/suggest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    CLASSES_MAX = 100,      /* different whole numbers that may be classes */
    CATEGORY_TEXTS = 100,   /* different texts of a column that becomes inputs */
    CATEGORY_INPUTS = 2000, /* inputs that categories become, all together */
    CATEGORY_MIXED = 20,    /* the same of a column that is mostly numbers */
    FEW_ROWS = 20,          /* below, a column that counts may be anything */
};

/* ---- Kinds of columns ------------------------------------------------------------------------ */

static int64_t filled(const td__profile *profile, const td__column_profile *column) {
    return profile->rows - column->missing;
}

static bool is_text(const td__profile *profile, const td__column_profile *column) {
    return column->numbers < filled(profile, column);
}

static bool is_constant(const td__column_profile *column) {
    return !column->many && column->values.count <= 1;
}

static bool is_word_of(const char *name, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!strcasecmp(name, words[i])) {
            return true;
        }
    }
    return false;
}
#define IS_WORD_OF(name, words) is_word_of(name, words, sizeof(words) / sizeof *(words))

static bool has_id_name(const char *name) {
    static const char *const words[] = {"", "id", "index", "uuid", "key", "row", "no", "nr"};
    size_t length = strlen(name);
    bool ends =
        length > 3 && (!strcasecmp(name + length - 3, "_id") || !strcmp(name + length - 2, "Id"));
    return IS_WORD_OF(name, words) || ends || !strncasecmp(name, "unnamed:", 8);
}

/* Numbers with decimal commas, or commas between thousands: the other cells are numbers. */
static bool has_commas(const td__profile *profile, const td__column_profile *column) {
    return column->commas && column->commas + column->numbers == filled(profile, column);
}

/* Whole numbers that count the rows, or differ in every row under a name such as `id`. */
static bool is_id(const td__profile *profile, const td__column_profile *column) {
    bool counts = column->counted == profile->rows - 1 && profile->rows >= FEW_ROWS;
    bool differs = column->many || (int64_t)column->values.count == filled(profile, column);
    bool whole = column->whole == filled(profile, column);
    return (whole && counts) || (differs && has_id_name(column->name) && profile->has_header);
}

/* Text of which most rows have their own: a name, an address, a remark. */
static bool is_free_text(const td__profile *profile, const td__column_profile *column) {
    int64_t different = (int64_t)column->values.count;
    return column->many || (different > FEW_ROWS && different * 2 > filled(profile, column));
}

/* How many classes the column has as a label; 0: it holds values. */
static int64_t count_classes(const td__profile *profile, const td__column_profile *column) {
    int64_t different = (int64_t)column->values.count, rows = filled(profile, column);
    if (is_text(profile, column)) {
        return is_free_text(profile, column) || different < 2 ? 0 : different;
    }
    bool whole = column->whole == rows && column->min >= 0 && !column->many;
    bool few = different >= 2 && different <= CLASSES_MAX && different * 10 <= rows;
    bool dense = column->max < 2 * (double)different + 2;
    return whole && few && dense ? (int64_t)column->max + 1 : 0;
}

static bool can_be_label(const td__profile *profile, const td__column_profile *column) {
    bool mixed = is_text(profile, column) && column->numbers;
    return !is_constant(column) && !is_id(profile, column) && !mixed && !column->cut &&
           (!is_text(profile, column) || count_classes(profile, column));
}

/* ---- The label ------------------------------------------------------------------------------- */

static int64_t find_by_name(const td__profile *profile) {
    static const char *const words[] = {"label",  "labels",  "target",   "class",   "y",
                                        "output", "outcome", "response", "category"};
    for (int64_t i = 0; profile->has_header && i < profile->column_count; i++) {
        if (IS_WORD_OF(profile->columns[i].name, words) &&
            can_be_label(profile, &profile->columns[i])) {
            return i;
        }
    }
    return -1;
}

/* The last column, unless only the first one has classes, as some public files have it. */
static int64_t find_by_place(const td__profile *profile, const char **why) {
    int64_t last = profile->column_count - 1;
    while (last > 0 && !can_be_label(profile, &profile->columns[last])) {
        last--;
    }
    const td__column_profile *first = &profile->columns[0];
    bool last_is_class = count_classes(profile, &profile->columns[last]) > 0;
    if (!last_is_class && can_be_label(profile, first) && count_classes(profile, first)) {
        *why = "the first column, which holds classes";
        return 0;
    }
    *why = last == profile->column_count - 1 ? "the last column"
                                             : "the last column that can be predicted";
    return can_be_label(profile, &profile->columns[last]) ? last : -1;
}

static td_status choose_label(td__guess *guess, int64_t *label, const char **why, td_error *error) {
    const td__profile *profile = &guess->profile;
    const char *path = guess->options->data, *asked = guess->options->label;
    const char **names = td__calloc((size_t)profile->column_count, sizeof *names);
    if (!names) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", path);
    }
    for (int64_t i = 0; i < profile->column_count; i++) {
        names[i] = profile->columns[i].name;
    }
    td_status status = TD_OK;
    if (asked) {
        status = td__column_find(profile->has_header ? names : NULL, profile->column_count, asked,
                                 path, label, error);
        *why = "as asked for";
    } else {
        *label = find_by_name(profile);
        *why = "by its name";
        *label = *label < 0 ? find_by_place(profile, why) : *label;
    }
    td__free(names);
    if (!status && *label < 0) {
        status = td_error_set(error, TD_INVALID,
                              "%s: no column can be predicted; name one with --label", path);
    }
    return status;
}

/* One class with more than three times the examples of another can hide it. */
static td_status use_label(td__guess *guess, int64_t column, const char *why, td_error *error) {
    td__profile *profile = &guess->profile;
    const td__column_profile *label = &profile->columns[column];
    const char *path = guess->options->data;
    if (label->cut) {
        return td_error_set(error, TD_INVALID,
                            "%s: column '%s' has text of more than 255 bytes, which is no class",
                            path, label->name);
    }
    if (has_commas(profile, label)) {
        return td_error_set(error, TD_INVALID,
                            "%s: column '%s' has numbers with commas, such as '%s'; write them "
                            "with a point, as in 1234.5",
                            path, label->name, label->text);
    }
    if (profile->column_count < 2) {
        return td_error_set(error, TD_INVALID,
                            "%s has one column: there is nothing to predict it from", path);
    }
    if (is_constant(label)) {
        return td_error_set(error, TD_INVALID,
                            "%s: column '%s' has the same value in every row: there is nothing to "
                            "learn",
                            path, label->name);
    }
    guess->roles[column] = TD__ROLE_LABEL;
    guess->classes = count_classes(profile, label);
    guess->values = 1;
    if (!guess->classes && is_text(profile, label)) {
        return td_error_set(error, TD_INVALID,
                            "%s: column '%s' is text that differs from row to row, which cannot be "
                            "predicted; name another column with --label",
                            path, label->name);
    }
    guess->missing = label->missing ? "drop" : NULL;
    bool good = guess->classes ? td__guess_note(guess, "label '%s' (%s): %lld classes", label->name,
                                                why, (long long)guess->classes)
                               : td__guess_note(guess, "label '%s' (%s): a number from %g to %g",
                                                label->name, why, label->min, label->max);
    if (good && guess->classes && !is_text(profile, label) && label->min > 0) {
        good =
            td__guess_note(guess,
                           "class numbers begin at %g: the model has a unit for each number from "
                           "0, the first %g of them unused",
                           label->min, label->min);
    }
    if (good && label->missing) {
        good =
            td__guess_note(guess, "%lld rows have no label: rows with missing values are dropped",
                           (long long)label->missing);
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "%s: no memory", path);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* Sentences: most rows have their own, of several words. */
static bool is_sentences(const td__profile *profile, const td__column_profile *column) {
    enum { WORDS = 3 };
    return is_text(profile, column) && is_free_text(profile, column) && !column->numbers &&
           column->words >= WORDS * filled(profile, column);
}

static bool is_dates(const td__profile *profile, const td__column_profile *column) {
    return column->dates && column->dates == filled(profile, column);
}

/* Whose rows they are: names or numbers that are there several times, under a name such as patient_id. */
static bool is_group(const td__profile *profile, const td__column_profile *column) {
    static const char *const words[] = {"patient", "subject",  "participant", "person",
                                        "user",    "customer", "client",      "speaker",
                                        "author",  "session",  "household",   "group"};
    int64_t different = (int64_t)column->values.count, rows = filled(profile, column);
    bool repeats = !column->many && different >= 5 && different * 2 <= rows;
    bool whole = column->whole == rows || (is_text(profile, column) && !column->cut);
    return repeats && whole && !column->missing && profile->has_header &&
           !is_dates(profile, column) &&
           (has_id_name(column->name) || IS_WORD_OF(column->name, words));
}

/* Paths of images, of which the first is there. */
static bool is_images(const td__guess *guess, const td__column_profile *column) {
    const char *data = guess->options->data, *slash = strrchr(data, '/');
    char path[8192];
    if (!column->first || column->images != guess->profile.rows) {
        return false;
    }
    int folder = *column->first == '/' || !slash ? 0 : (int)(slash - data + 1);
    (void)snprintf(path, sizeof path, "%.*s%s", folder, data, column->first);
    return access(path, R_OK) == 0;
}

/* Why a column is no input; NULL: it is one. *example: its text that shows it, or NULL. */
static const char *why_ignored(const td__profile *profile, const td__column_profile *column,
                               const char **example) {
    *example = NULL;
    if (is_constant(column)) {
        return "has one value in all rows";
    }
    if (is_id(profile, column)) {
        return "numbers or names the rows";
    }
    if (column->missing * 2 > profile->rows) {
        return "is missing in more than half of the rows";
    }
    if (!is_text(profile, column)) {
        return NULL;
    }
    if (has_commas(profile, column)) {
        *example = column->text;
        return "has numbers with commas, which are written with a point, as in 1234.5";
    }
    if (column->numbers * 2 > filled(profile, column) && column->values.count > CATEGORY_MIXED) {
        *example = column->text;
        return "has numbers, and cells that are not finite float32 numbers";
    }
    if (column->cut) {
        return "has text of more than 255 bytes, which is no category";
    }
    if (is_free_text(profile, column) || column->values.count > CATEGORY_TEXTS) {
        return "is text with too many different values to be categories";
    }
    return NULL;
}

/* A column with a use of its own; *used: it has one. False when memory is exhausted. */
static bool use_specially(td__guess *guess, int64_t i, bool *used) {
    const td__column_profile *column = &guess->profile.columns[i];
    bool known = !guess->options->model; /* a given model takes what it takes */
    *used = true;
    if (known && is_dates(&guess->profile, column)) {
        if (column->dates_open && column->day_above == column->month_above) {
            guess->roles[i] = TD__ROLE_IGNORED;
            return td__guess_note(
                guess,
                "ignored '%s': its dates do not show whether the day or the month "
                "comes first; `dates: {%s: {order: day_first}}` reads them",
                column->name, column->name);
        }
        guess->roles[i] = TD__ROLE_DATE;
        guess->missing = column->missing && !guess->missing ? "mean" : guess->missing;
        guess->inputs++;
        return td__guess_note(guess, "'%s' holds dates: year, month, weekday, … become inputs",
                              column->name);
    }
    if (known && is_sentences(&guess->profile, column) && guess->texts < TD__TEXTS_MAXIMUM) {
        guess->roles[i] = TD__ROLE_TEXT;
        guess->texts++;
        return td__guess_note(guess, "'%s' is text, of %.3g words a row: its words become ids",
                              column->name,
                              (double)column->words / (double)filled(&guess->profile, column));
    }
    if (is_group(&guess->profile, column) && !guess->grouped) {
        guess->roles[i] = TD__ROLE_GROUP;
        guess->grouped = true;
        return td__guess_note(guess,
                              "'%s' names what rows belong to, %zu of them: rows of one stay "
                              "together in the training or the validation part",
                              column->name, column->values.count);
    }
    *used = false;
    return true;
}

static bool use_input(td__guess *guess, int64_t i) {
    const td__column_profile *column = &guess->profile.columns[i];
    bool used;
    if (!use_specially(guess, i, &used) || used) {
        return used;
    }
    const char *example, *reason = why_ignored(&guess->profile, column, &example);
    int64_t more = (int64_t)column->values.count;
    bool text = is_text(&guess->profile, column);
    if (!reason && text && guess->inputs + more > CATEGORY_INPUTS) {
        reason = "is text, and there are categories enough";
    }
    if (reason) {
        guess->roles[i] = TD__ROLE_IGNORED;
        return td__guess_note(guess, "ignored '%s': it %s%s%s%s", column->name, reason,
                              example ? " ('" : "", example ? example : "", example ? "')" : "");
    }
    if (column->missing && !guess->missing) {
        guess->missing = "mean";
    }
    guess->inputs += text ? more : 1;
    guess->roles[i] = text ? TD__ROLE_CATEGORY : TD__ROLE_INPUT;
    return !text || td__guess_note(guess, "'%s' is a category: an input for each of its %lld texts",
                                   column->name, (long long)more);
}

/* Whether all inputs are whole numbers from 0 to at most 255 and as many as a square image has. */
static int64_t find_side(const td__guess *guess, double *max) {
    int64_t side = (int64_t)(sqrt((double)guess->inputs) + 0.5), zeros = 0;
    bool pixels = side >= 8 && side * side == guess->inputs && !guess->missing;
    *max = 0;
    for (int64_t i = 0; pixels && i < guess->profile.column_count; i++) {
        const td__column_profile *column = &guess->profile.columns[i];
        if (guess->roles[i] == TD__ROLE_LABEL) {
            continue;
        }
        pixels = guess->roles[i] == TD__ROLE_INPUT && column->whole == guess->profile.rows &&
                 column->min >= 0 && column->max <= 255;
        *max = column->max > *max ? column->max : *max;
        zeros += column->min == 0;
    }
    return pixels && zeros * 2 > guess->inputs ? side : 0;
}

static bool guess_shape(td__guess *guess) {
    double max;
    int64_t side = find_side(guess, &max);
    guess->input = side ? TD_SHAPE(side, side, 1) : TD_SHAPE(guess->inputs);
    guess->reshaped = side > 0;
    if (!side) {
        return true;
    }
    guess->scale = max > 16 ? 1.0 / 255 : max > 1 ? 1.0 / 16 : 1;
    return td__guess_note(guess, "%lld inputs from 0 to %g are the pixels of an image, %lld x %lld",
                          (long long)guess->inputs, max, (long long)side, (long long)side);
}

/* A constant column among pixels is a border that is always dark: an input like the others. */
static bool keep_pixels(td__guess *guess) {
    const td__profile *profile = &guess->profile;
    for (int64_t i = 0; i < profile->column_count; i++) {
        const td__column_profile *column = &profile->columns[i];
        bool label = guess->roles[i] == TD__ROLE_LABEL;
        bool pixel = column->whole == profile->rows && column->min >= 0 && column->max <= 255;
        if (!label && (!pixel || column->missing)) {
            return false;
        }
        guess->inputs += !label;
    }
    double max;
    bool square = find_side(guess, &max) > 0;
    guess->inputs = square ? guess->inputs : 0;
    return square;
}

static td_status check_names(const td__guess *guess, td_error *error) {
    const td__profile *profile = &guess->profile;
    td__names seen = {0};
    td_status status = TD_OK;
    bool few = profile->column_count <= TD__NAMES_MAXIMUM;
    for (int64_t i = 0; !status && few && i < profile->column_count; i++) {
        const char *name = profile->columns[i].name;
        if (td__names_find(&seen, name) >= 0) {
            status = td_error_set(error, TD_INVALID,
                                  "%s: two columns are called '%s'; give each a name of its own",
                                  guess->options->data, name);
        } else if (td__names_add(&seen, name) < 0) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory", guess->options->data);
        }
    }
    td__names_release(&seen);
    return status;
}

/* A column of paths makes an example of each image: other columns are not read. */
static bool use_images(td__guess *guess, int64_t column) {
    enum { SIDE = 64 };
    bool good = td__guess_note(guess,
                               "'%s' has paths of images: each is an example, scaled to %d x %d in "
                               "colour; other columns are not inputs",
                               guess->profile.columns[column].name, SIDE, SIDE);
    for (int64_t i = 0; good && i < guess->profile.column_count; i++) {
        const td__column_profile *c = &guess->profile.columns[i];
        bool group =
            guess->roles[i] != TD__ROLE_LABEL && !guess->grouped && is_group(&guess->profile, c);
        bool used = false;
        guess->roles[i] = guess->roles[i] == TD__ROLE_LABEL ? TD__ROLE_LABEL : TD__ROLE_IGNORED;
        good = !group || use_specially(guess, i, &used);
    }
    guess->roles[column] = TD__ROLE_IMAGE;
    guess->pictures = true;
    guess->scale = 1.0 / 255;
    guess->input = TD_SHAPE(SIDE, SIDE, 3);
    guess->inputs = SIDE * SIDE * 3;
    return good;
}

static int64_t find_images(const td__guess *guess) {
    for (int64_t i = 0; !guess->options->model && i < guess->profile.column_count; i++) {
        if (guess->roles[i] != TD__ROLE_LABEL && is_images(guess, &guess->profile.columns[i])) {
            return i;
        }
    }
    return -1;
}

/* Whether a column that becomes several inputs gives one of them that name: DATE.year, TEXT[0], CATEGORY=VALUE. */
static bool becomes(const td__guess *guess, int64_t i, const char *name) {
    const td__column_profile *column = &guess->profile.columns[i];
    size_t length = strlen(column->name), digits;
    const char *rest = name + length + 1;
    if (strncmp(name, column->name, length) != 0 || !name[length]) {
        return false;
    }
    switch (guess->roles[i]) {
    case TD__ROLE_DATE:
        return name[length] == '.' && td__date_part(rest) >= 0;
    case TD__ROLE_CATEGORY:
        return name[length] == '=' && td__names_find(&column->values, rest) >= 0;
    case TD__ROLE_TEXT:
        digits = strspn(rest, "0123456789");
        return name[length] == '[' && digits && strcmp(rest + digits, "]") == 0;
    default:
        return false;
    }
}

/* Two inputs of one name are refused: the file's own column is left out. */
static bool ignore_clashes(td__guess *guess) {
    bool good = true;
    for (int64_t i = 0; good && i < guess->profile.column_count; i++) {
        const char *name = guess->profile.columns[i].name;
        for (int64_t k = 0; guess->roles[i] == TD__ROLE_INPUT && k < guess->profile.column_count;
             k++) {
            if (becomes(guess, k, name)) {
                guess->roles[i] = TD__ROLE_IGNORED;
                guess->inputs--;
                good = td__guess_note(guess,
                                      "ignored '%s': '%s' becomes an input of that name; rename "
                                      "the column to use it",
                                      name, guess->profile.columns[k].name);
            }
        }
    }
    return good;
}

static bool use_inputs(td__guess *guess) {
    bool good = true;
    for (int64_t i = 0; good && i < guess->profile.column_count; i++) {
        good = guess->roles[i] == TD__ROLE_LABEL || use_input(guess, i);
    }
    good = good && ignore_clashes(guess);
    if (good && guess->missing && !strcmp(guess->missing, "mean")) {
        good = td__guess_note(guess, "missing values become the mean of their column");
    }
    return good;
}

td_status td__guess_columns(td__guess *guess, td__input *input, td_error *error) {
    td__profile *profile = &guess->profile;
    const char *why = NULL, *path = guess->options->data;
    int64_t label = -1;
    td_status status = td__profile_csv(profile, input, guess->options->label, error);
    status = status ? status : check_names(guess, error);
    if (status) {
        return status;
    }
    guess->rows = profile->rows;
    guess->roles = td__calloc((size_t)profile->column_count, sizeof *guess->roles);
    if (!guess->roles) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", path);
    }
    status = td__guess_enough(guess, error);
    status = status ? status : choose_label(guess, &label, &why, error);
    status = status ? status : use_label(guess, label, why, error);
    if (status) {
        return status;
    }
    int64_t images = find_images(guess);
    if (images >= 0 ? !use_images(guess, images)
                    : !((keep_pixels(guess) || use_inputs(guess)) && guess_shape(guess))) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", path);
    }
    if (guess->inputs || guess->texts) {
        return TD_OK;
    }
    const char *last =
        guess->sentences->count ? guess->sentences->items[guess->sentences->count - 1] : "";
    bool ignored = strncmp(last, "ignored", 7) == 0;
    return td_error_set(error, TD_INVALID,
                        "%s: no column is left as an input beside the label '%s'%s%s", path,
                        profile->columns[label].name, ignored ? ": " : "", ignored ? last : "");
}
