/* Opening a data set: options checked, files read, parts split, labels and inputs prepared. */
#include "data/dataset.h"
#include "base/memory.h"
#include "base/options.h"
#include "data/augment.h"
#include "data/csv.h"
#include "zip/zip.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { PEEK = 512 };

#define MEMORY_DEFAULT ((int64_t)4 << 30)

static bool is_npy(const uint8_t *b, size_t size) {
    return size >= 6 && memcmp(b, "\x93NUMPY", 6) == 0;
}

static bool is_npz(const uint8_t *b, size_t size) {
    return td__is_zip(b, size);
}

static bool is_idx(const uint8_t *b, size_t size) {
    return size >= 4 && b[0] == 0 && b[1] == 0 && b[2] >= 8 && b[2] <= 14 && b[3] > 0;
}

/* Two bytes a character: with a byte order mark, or Latin letters with a 0 beside each. */
static bool is_utf16(const uint8_t *b, size_t size) {
    bool marked = size >= 2 && ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF));
    return marked ||
           (size >= 4 && ((b[0] && !b[1] && b[2] && !b[3]) || (!b[0] && b[1] && !b[2] && b[3])));
}

static bool is_text(const uint8_t *b, size_t size) {
    return !memchr(b, 0, size) && !is_utf16(b, size);
}

static const struct {
    bool (*is)(const uint8_t *beginning, size_t size);
    td__reader *read;
} formats[] = {{is_npy, td__npy_read},
               {is_npz, td__npz_read},
               {is_idx, td__idx_read},
               {is_text, td__csv_read}};

/* By the beginning of a file. */
static td_status recognise(td__input *input, const char *path, td__reader **reader,
                           td_error *error) {
    uint8_t beginning[PEEK];
    size_t size = 0;
    td_status status = td__input_read(input, beginning, sizeof beginning, &size, error);
    for (size_t i = 0; !status && i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].is(beginning, size)) {
            *reader = formats[i].read;
            return td__input_rewind(input, error);
        }
    }
    if (!status && is_utf16(beginning, size)) {
        return td_error_set(error, TD_FORMAT,
                            "%s: text in UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8", path);
    }
    return status ? status
                  : td_error_set(error, TD_FORMAT,
                                 "%s: neither CSV, NPY, NPZ, IDX nor a folder of images", path);
}

td_status td__reader_open(const char *path, td__reader **reader, td__input **input,
                          td_error *error) {
    struct stat file;
    *input = NULL;
    if (stat(path, &file) == 0 && S_ISDIR(file.st_mode)) {
        *reader = td__images_read;
        return TD_OK;
    }
    td_status status = td__input_open(input, path, error);
    status = status ? status : recognise(*input, path, reader, error);
    if (status) {
        td__input_close(*input);
        *input = NULL;
    }
    return status;
}

td_status td__reader_choose(const char *path, td__reader **reader, td_error *error) {
    td__input *input = NULL;
    td_status status = td__reader_open(path, reader, &input, error);
    td__input_close(input);
    return status;
}

/* An option for one array, or one label, is not applied by guess where there are several. */
static td_status check_pieces(const td_data_options *o, td_error *error) {
    const char *beside = NULL;
    if (o->input_pieces.count) {
        beside = o->generate.name ? "generate"
                 : o->input.rank  ? "input"
                 : o->layout      ? "layout"
                                  : NULL;
    }
    if (!beside && o->label_pieces.count) {
        beside = o->generate.name                                  ? "generate"
                 : o->standardize_labels                           ? "standardize_labels"
                 : o->balanced || o->weighted_classes.count        ? "class_weight"
                 : o->label_kind && o->label_kind != TD_LABEL_NONE ? "label_kind"
                 : o->label.count                                  ? "label"
                                                                   : NULL;
    }
    return beside ? td_error_set(error, TD_INVALID,
                                 "`%s` is for examples of one %s; these have several, each by its "
                                 "name",
                                 beside, o->input_pieces.count ? "input" : "label")
                  : TD_OK;
}

static td_status check_texts(const td_data_options *o, td_error *error) {
    if (o->text.count > TD__TEXTS_MAXIMUM) {
        return td_error_set(error, TD_RANGE, "%zu columns of text; at most %d are read",
                            o->text.count, TD__TEXTS_MAXIMUM);
    }
    if (o->text.count && o->window.length) {
        return td_error_set(error, TD_INVALID, "`window` is for rows of numbers, not for `text`");
    }
    for (size_t i = 0; i < o->text.count; i++) {
        const td_text *text = &o->text.items[i];
        bool bytes = text->tokens == TD_TOKENS_BYTES;
        if (!text->column || text->length < 0 || text->length > TD__TEXT_LENGTH_MAXIMUM ||
            text->min_count < 0 || text->vocabulary < 0 ||
            (text->vocabulary && text->vocabulary <= TD__TEXT_FIRST) ||
            text->vocabulary > TD__TEXT_WORDS_MAXIMUM ||
            (bytes && (text->vocabulary || text->min_count))) {
            return td_error_set(
                error, TD_RANGE,
                "`text` needs columns; a length is from 1 to %d, a vocabulary from %d "
                "to %d ids (0 is padding, 1 an unknown token); of bytes there are 258",
                TD__TEXT_LENGTH_MAXIMUM, TD__TEXT_FIRST + 1, TD__TEXT_WORDS_MAXIMUM);
        }
    }
    return TD_OK;
}

static td_status check_dates(const td_data_options *o, td_error *error) {
    if (o->dates.count > TD__DATES_MAXIMUM) {
        return td_error_set(error, TD_RANGE, "%zu columns of dates; at most %d are read",
                            o->dates.count, TD__DATES_MAXIMUM);
    }
    for (size_t i = 0; i < o->dates.count; i++) {
        const td_date *date = &o->dates.items[i];
        for (size_t k = 0; k < date->parts.count; k++) {
            if (td__date_part(date->parts.items[k]) < 0) {
                return td_error_set(error, TD_INVALID,
                                    "'%.60s' is no part of a date; parts are year, month, day, "
                                    "weekday, day_of_year, hour, minute, second, days, and "
                                    "month_sin, month_cos, …",
                                    date->parts.items[k]);
            }
        }
    }
    return TD_OK;
}

/* An example that is an image has no other inputs. */
static td_status check_images(const td_data_options *o, td_error *error) {
    const char *beside = !o->images                                       ? NULL
                         : o->text.count                                  ? "text"
                         : o->dates.count                                 ? "dates"
                         : o->categories.count                            ? "categories"
                         : o->input_pieces.count || o->label_pieces.count ? "inputs"
                         : o->window.length                               ? "window"
                                                                          : NULL;
    return beside
               ? td_error_set(error, TD_INVALID,
                              "`images` makes an example of each image: there is no `%s` beside it",
                              beside)
               : TD_OK;
}

static td_status check_options(const td_data_options *o, td_error *error) {
    bool source = o->train || o->input_pieces.count;
    if (source == (o->generate.name != NULL)) {
        return td_error_set(error, TD_INVALID, "a data set needs one of `train` and `generate`");
    }
    td_status status = check_pieces(o, error);
    if (status) {
        return status;
    }
    if (!(o->validation_share >= 0 && o->validation_share < 1)) {
        return td_error_set(error, TD_RANGE,
                            "a validation share of %g; a number from 0 to 1 is expected",
                            o->validation_share);
    }
    enum { MOST_FOLDS = 1000 };
    if (o->folds && (o->folds < 2 || o->folds > MOST_FOLDS || o->fold < 0 || o->fold > o->folds ||
                     o->validation_share > 0 || o->validation || o->window.length)) {
        return td_error_set(error, TD_RANGE,
                            "`folds` are from 2 to %d, `fold` is one of them from 1, and there is "
                            "neither a share, a validation file nor `window` beside them",
                            MOST_FOLDS);
    }
    bool own = o->validation || o->validation_input_pieces.count;
    if (own && (o->validation_share > 0 || o->generate.name)) {
        return td_error_set(error, TD_INVALID,
                            "`validation` is either a file, beside a `train` file, or a share");
    }
    if ((o->validation_labels || o->validation_label_pieces.count) && !own) {
        return td_error_set(error, TD_INVALID, "`validation_labels` needs a `validation` file");
    }
    bool scaled = o->scale != 0 && o->scale != 1;
    if (!isfinite((float)o->scale) || (scaled && (o->standardize || o->mean))) {
        return td_error_set(error, TD_INVALID,
                            "`scale` must be a finite number, and not be there with "
                            "`standardize`");
    }
    enum { LONGEST = 1 << 24 };
    if (o->window.length < 0 || o->window.horizon < 0 || o->window.stride < 0 ||
        o->window.length > LONGEST || o->window.horizon > LONGEST || o->window.stride > LONGEST ||
        (!o->window.length && (o->window.horizon || o->window.stride))) {
        return td_error_set(error, TD_RANGE,
                            "`window` needs a length from 1 to %d; horizon and stride are not "
                            "negative",
                            LONGEST);
    }
    if (o->groups && ((o->validation_share == 0 && !o->folds) || o->window.length)) {
        return td_error_set(error, TD_INVALID,
                            "`groups` stay together where a validation part is drawn: it needs "
                            "`validation`, a share or folds, and no `window`");
    }
    enum { LARGEST_IMAGE = 32768 };
    if (o->resize.height < 0 || o->resize.width < 0 || o->resize.height > LARGEST_IMAGE ||
        o->resize.width > LARGEST_IMAGE || !o->resize.height != !o->resize.width ||
        (o->resize.crop && !o->resize.height)) {
        return td_error_set(error, TD_RANGE, "`resize` needs a height and a width from 1 to %d",
                            LARGEST_IMAGE);
    }
    td_status columns = check_texts(o, error);
    columns = columns ? columns : check_dates(o, error);
    columns = columns ? columns : check_images(o, error);
    if (columns) {
        return columns;
    }
    if (o->batch < 0 || o->memory < 0 || o->memory > INT64_MAX / 4) {
        return td_error_set(error, TD_RANGE, "`batch` and `memory` must be positive");
    }
    return TD_OK;
}

static td_shape without_ones(const td_shape *shape) {
    td_shape kept = {0};
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] != 1) {
            kept.dims[kept.rank++] = shape->dims[i];
        }
    }
    return kept;
}

/* Whether b is a with its first dimension moved to the end. */
static bool has_first_last(const td_shape *a, const td_shape *b) {
    bool moved = a->rank == b->rank && a->rank > 1 && a->dims[0] == b->dims[b->rank - 1];
    for (int32_t i = 1; moved && i < a->rank; i++) {
        moved = a->dims[i] == b->dims[i - 1];
    }
    return moved;
}

/* Whether an example of the file is the input as it lies there. */
static td_status check_as_is(const td_shape *found, const td_shape *wanted, const char *path,
                             td_error *error) {
    td_shape a = without_ones(found), b = without_ones(wanted);
    if (a.rank <= 1 || b.rank <= 1 || td_shape_equal(&a, &b)) {
        return TD_OK;
    }
    char has[TD_SHAPE_TEXT_SIZE], takes[TD_SHAPE_TEXT_SIZE];
    return td_error_set(error, TD_BAD_SHAPE, "an example in %s is %s, but the model takes %s%s",
                        path, td_shape_text(found, has), td_shape_text(wanted, takes),
                        has_first_last(found, wanted) ? ": its channels come first "
                                                        "(layout: channels_first)"
                                                      : "");
}

/* The shape of one example: as asked for, if it has as many elements as the file's. */
static td_status choose_input(td_dataset *dataset, const td_data_options *options,
                              td_error *error) {
    const td__array *input = &dataset->tables[0].input;
    const char *path = options->train           ? options->train
                       : options->generate.name ? options->generate.name
                                                : "the inputs";
    char wanted[TD_SHAPE_TEXT_SIZE], found[TD_SHAPE_TEXT_SIZE];
    int64_t count = 0;
    dataset->info.input = options->input.rank ? options->input : input->shape;
    td_status status = td_shape_check(&dataset->info.input, TD_FLOAT32, &count, error);
    if (status) {
        return status;
    }
    td_shape_text(&dataset->info.input, wanted);
    if (count != input->count || dataset->info.input.rank >= TD_MAX_RANK) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "`input` %s has %lld elements, but an example in %s has %lld, %s",
                            wanted, (long long)count, path, (long long)input->count,
                            td_shape_text(&input->shape, found));
    }
    const td_resize *resize = &options->resize;
    if (resize->height &&
        (dataset->info.input.rank != 3 || dataset->info.input.dims[0] != resize->height ||
         dataset->info.input.dims[1] != resize->width)) {
        return td_error_set(
            error, TD_BAD_SHAPE,
            "`resize` scales the images of a folder to [%lld, %lld]; an example in %s is %s",
            (long long)resize->height, (long long)resize->width, path, wanted);
    }
    if (options->input_as_is && options->input.rank) {
        status = check_as_is(&input->shape, &dataset->info.input, path, error);
        if (status) {
            return status;
        }
    }
    if (dataset->table_count == 2 && dataset->tables[1].input.count != count) {
        return td_error_set(
            error, TD_BAD_SHAPE, "an example in %s has %lld elements, but one in %s has %lld", path,
            (long long)count, options->validation ? options->validation : "the validation part",
            (long long)dataset->tables[1].input.count);
    }
    return TD_OK;
}

static td_names names_of(const td__names *names) {
    return (td_names){(const char *const *)names->items, names->count};
}

static td_status read_table(td__table *table, const td__request *request, td_error *error) {
    td__reader *reader = td__generate;
    if (request->input_pieces.count || request->label_pieces.count) {
        return td__pieces_read(table, request, error);
    }
    td__request opened = *request;
    td_status status =
        request->path ? td__reader_open(request->path, &reader, &opened.input, error) : TD_OK;
    if (!status && request->more.count && reader != td__csv_read) {
        status =
            td_error_set(error, TD_INVALID, "%s: several files are one data set where they are CSV",
                         request->path);
    }
    bool made = !request->inputs.count;
    const char *columns = request->options->groups               ? "groups"
                          : request->options->text.count && made ? "text"
                          : request->options->dates.count && made
                              ? "dates"
                              : NULL; /* with known inputs, these may be there as ids */
    if (!status && columns && reader != td__csv_read) {
        status = td_error_set(error, TD_INVALID, "%s: `%s` names columns of a CSV file",
                              request->path ? request->path : "the data", columns);
    }
    status = status ? status : reader(table, &opened, error);
    if (!status && opened.input) {
        td__table_keep_file(table, opened.input);
    }
    td__input_close(opened.input);
    return status;
}

/* Whether some class has leading zeros: then all of them are texts. */
static bool has_padded(td_names classes) {
    bool padded = false;
    for (size_t i = 0; i < classes.count && !padded; i++) {
        padded = td__csv_is_padded(classes.items[i]);
    }
    return padded;
}

static td_status read_tables(td_dataset *dataset, const td_data_options *options, td_error *error) {
    td__table *first = &dataset->tables[0];
    const td__request training = {.path = options->train,
                                  .more = options->more,
                                  .labels = options->labels,
                                  .options = options,
                                  .inputs = options->inputs,
                                  .label_names = options->label_names,
                                  .text_labels = has_padded(options->classes),
                                  .input_pieces = options->input_pieces,
                                  .label_pieces = options->label_pieces};
    dataset->table_count = 1;
    td_status status = read_table(first, &training, error);
    if (!status && (options->validation || options->validation_input_pieces.count)) {
        td_pieces inputs = options->validation_input_pieces,
                  labels = options->validation_label_pieces;
        const td__request validation = {
            .path = options->validation,
            .labels = options->validation_labels,
            .options = options,
            .inputs = names_of(&first->input_names),
            .label_names = names_of(&first->label_names),
            .text_labels = has_padded(names_of(&first->classes)),
            .first = first,
            .input_pieces = inputs.count ? inputs : options->input_pieces,
            .label_pieces = labels.count ? labels : options->label_pieces};
        dataset->table_count = 2;
        status = read_table(&dataset->tables[1], &validation, error);
    }
    return status;
}

/* How texts became ids, with what was found out: new data can be read with it. */
static td_status report_texts(td_dataset *dataset, const td_data_options *options,
                              td_error *error) {
    const td__table *table = &dataset->tables[0];
    size_t count = options->text.count;
    dataset->texts = td__calloc(count + 1, sizeof *dataset->texts);
    bool room = dataset->texts != NULL;
    for (size_t i = 0; room && i < count; i++) {
        td_text *text = &dataset->texts[i];
        *text = options->text.items[i];
        text->column = td__strdup(text->column);
        text->words = names_of(&table->words[i]);
        text->length = 0;
        room = text->column != NULL;
        for (size_t k = 0; room && k < table->input_names.count; k++) {
            text->length +=
                !strcmp(td__csv_base(options, table->input_names.items[k]), text->column);
        }
    }
    dataset->info.text = (td_texts){dataset->texts, room ? count : 0};
    return room ? TD_OK : td_error_set(error, TD_MEMORY, "no memory for columns of text");
}

static td_status report_dates(td_dataset *dataset, const td_data_options *options,
                              td_error *error) {
    const td__names *inputs = &dataset->tables[0].input_names;
    td_date *found = dataset->dates;
    const char **parts = td__calloc(inputs->count + 1, sizeof *parts);
    dataset->date_parts = parts;
    bool room = parts != NULL;
    for (size_t i = 0; i < options->dates.count; i++) {
        found[i] = options->dates.items[i];
    }
    td__table_dates(&dataset->tables[0], found);
    for (size_t i = 0; room && i < options->dates.count; i++) {
        const char *column = found[i].column, *rest = NULL;
        found[i].parts = (td_names){parts, 0};
        for (size_t k = 0; k < inputs->count; k++) {
            if (td__csv_expansion_of(options, inputs->items[k], &rest) >= 0 &&
                !strcmp(td__csv_base(options, inputs->items[k]), column)) {
                *parts++ = rest;
                found[i].parts.count++;
            }
        }
        found[i].column = td__strdup(column);
        room = found[i].column != NULL;
        dataset->info.dates = (td_dates){found, i + room};
    }
    return room ? TD_OK : td_error_set(error, TD_MEMORY, "no memory for columns of dates");
}

static td_status report_names(td_dataset *dataset, td_error *error) {
    td_data_info *info = &dataset->info;
    for (int t = 0; t < dataset->table_count; t++) {
        const td__names *remarks = &dataset->tables[t].remarks;
        for (size_t i = 0; i < remarks->count; i++) {
            if (td__names_add(&dataset->remarks, remarks->items[i]) < 0) {
                return td_error_set(error, TD_MEMORY, "no memory for a remark");
            }
        }
    }
    info->inputs = names_of(&dataset->tables[0].input_names);
    info->label_names = names_of(&dataset->tables[0].label_names);
    info->remarks = names_of(&dataset->remarks);
    info->input_pieces = dataset->tables[0].input_pieces.items;
    info->input_piece_count = dataset->tables[0].input_pieces.count;
    info->label_pieces = dataset->tables[0].label_pieces.items;
    info->label_piece_count = dataset->tables[0].label_pieces.count;
    return TD_OK;
}

/* Messages name the file that has the labels, or the inputs, that they are about. */
static td_status keep_paths(td_dataset *dataset, const td_data_options *options, td_error *error) {
    const td_pieces *pieces = &options->label_pieces, *others = &options->validation_label_pieces;
    const char *const paths[2] = {options->labels  ? options->labels
                                  : options->train ? options->train
                                  : pieces->count  ? pieces->items[0].path
                                                   : NULL,
                                  options->validation_labels ? options->validation_labels
                                  : options->validation      ? options->validation
                                  : others->count            ? others->items[0].path
                                                             : NULL};
    const char *const inputs[2] = {options->train, options->validation};
    for (int t = 0; t < 2; t++) {
        dataset->paths[t] = paths[t] ? td__strdup(paths[t]) : NULL;
        dataset->input_paths[t] = inputs[t] ? td__strdup(inputs[t]) : NULL;
        if ((paths[t] && !dataset->paths[t]) || (inputs[t] && !dataset->input_paths[t])) {
            return td_error_set(error, TD_MEMORY, "no memory for a file's name");
        }
    }
    return TD_OK;
}

static td_status prepare_tables(td_dataset *dataset, const td_data_options *options,
                                td_error *error) {
    td_status status = keep_paths(dataset, options, error);
    if (!status) {
        status = read_tables(dataset, options, error);
    }
    if (!status) {
        status = td__window_prepare(dataset, options, error);
    }
    if (!status) {
        status = td__layout_prepare(dataset, options, error);
    }
    if (!status) {
        status = choose_input(dataset, options, error);
    }
    if (!status) {
        status = td__missing_drop(dataset, options, error);
    }
    if (!status) {
        status = td__split(dataset, options, error);
    }
    if (!status) {
        status = td__labels_prepare(dataset, options, error);
    }
    if (!status) {
        status = td__label_scale_prepare(dataset, options, error);
    }
    if (!status) {
        status = td__weights_prepare(dataset, options, error);
    }
    if (!status) {
        status = td__missing_fill(dataset, options, error);
    }
    if (!status) {
        status = td__normalize_prepare(dataset, options, error);
    }
    if (!status) {
        status =
            td__augment_check(&options->augment, &dataset->info.input, &dataset->info.label, error);
    }
    if (!status) {
        status = report_names(dataset, error);
    }
    if (!status) {
        status = report_texts(dataset, options, error);
    }
    if (!status) {
        status = report_dates(dataset, options, error);
    }
    dataset->info.training = dataset->parts[TD_TRAINING].count;
    dataset->info.validation = dataset->parts[TD_VALIDATION].count;
    return status;
}

td_dataset *td_dataset_open(const td_data_options *options, td_error *error) {
    td_data_options all;
    (void)td__options(&all, sizeof all, options);
    if (check_options(&all, error)) {
        return NULL;
    }
    size_t memory = all.memory ? (size_t)all.memory : td__memory_half();
    all.memory = all.memory ? all.memory : MEMORY_DEFAULT;
    all.batch = all.batch ? all.batch : 32;
    all.fold = all.fold ? all.fold : 1;
    all.while_reading &= !all.window.length; /* they are joined from all rows */
    td_dataset *dataset = td__calloc(1, sizeof *dataset);
    if (!dataset) {
        td_error_set(error, TD_MEMORY, "no memory for a data set");
        return NULL;
    }
    dataset->seed = all.seed;
    dataset->memory = memory;
    dataset->in_order = all.in_order;
    dataset->augment = all.augment;
    dataset->info.batch = all.batch;
    if (prepare_tables(dataset, &all, error)) {
        td_dataset_close(dataset);
        return NULL;
    }
    return dataset;
}

void td_dataset_close(td_dataset *dataset) {
    if (!dataset) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        td__table_release(&dataset->tables[i]);
        td__free(dataset->class_of[i]);
        td__free(dataset->paths[i]);
        td__free(dataset->input_paths[i]);
        td__free(dataset->kept[i]);
        td__free(dataset->parts[i].rows);
    }
    for (int64_t i = 0; dataset->class_names && i < dataset->info.classes; i++) {
        td__free(dataset->class_names[i]);
    }
    td__free(dataset->class_names);
    td__names_release(&dataset->remarks);
    for (size_t i = 0; i < dataset->info.text.count; i++) {
        td__free((char *)(uintptr_t)dataset->texts[i].column);
    }
    td__free(dataset->texts);
    for (size_t i = 0; i < dataset->info.dates.count; i++) {
        td__free((char *)(uintptr_t)dataset->dates[i].column);
    }
    td__free(dataset->date_parts);
    td__free(dataset->class_weight);
    td__free(dataset->label_mean);
    td__free(dataset->label_deviation);
    td__free(dataset->fill);
    td__free(dataset->mean);
    td__free(dataset->deviation);
    td__free(dataset);
}

int td__dataset_descriptor(const td_dataset *dataset, const char *path) {
    for (int t = 0; t < dataset->table_count; t++) {
        const td__table *table = &dataset->tables[t];
        for (size_t i = 0; i < table->read_count; i++) {
            if (!strcmp(table->read[i].path, path)) {
                return table->read[i].descriptor;
            }
        }
    }
    return -1;
}

const td_data_info *td_dataset_info(const td_dataset *dataset) {
    return &dataset->info;
}

int64_t td_dataset_rows(const td_dataset *dataset, td_part part, int64_t first, int64_t count,
                        int64_t *rows) {
    const td__part *p = &dataset->parts[part];
    int64_t written = 0;
    for (; written < count && first + written < p->count; written++) {
        rows[written] = td__part_row(p, first + written);
    }
    return written;
}

td_status td_dataset_read(const td_dataset *dataset, td_part part, const int64_t *rows,
                          int64_t count, float *input, void *label, td_error *error) {
    int table = dataset->parts[part].table;
    int64_t total = dataset->parts[part].count ? dataset->tables[table].rows : 0;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= total) {
            return td_error_set(error, TD_RANGE, "row %lld of a data set with %lld rows",
                                (long long)rows[i], (long long)total);
        }
    }
    td_status status = td__supply_need(dataset->tables[table].supply, rows, count, error);
    if (status) {
        return status;
    }
    int64_t width = dataset->tables[table].input.count;
    int64_t label_size =
        td__label_count(dataset) * (int64_t)td_dtype_size(td__label_dtype(dataset));
    for (int64_t i = 0; i < count; i++) {
        td__input_row(dataset, table, rows[i], input + i * width);
        if (label && dataset->info.label_kind != TD_LABEL_NONE) {
            td__label_read(dataset, table, rows[i], (char *)label + i * label_size);
        }
    }
    return TD_OK;
}
