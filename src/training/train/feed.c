/* The data of an experiment, and how long training lasts. */
#include "train/trainer.h"

#include "base/memory.h"
#include "data/dataset.h"
#include "data/text.h"
#include "group/group.h"
#include "nn/model.h"

#include <string.h>

static bool same_names(td_names a, td_names b) {
    bool same = a.count == b.count;
    for (size_t i = 0; same && i < a.count; i++) {
        same = !strcmp(a.items[i], b.items[i]);
    }
    return same;
}

/* A model's file that has the channels first takes data that has, too. */
static void match_layout(const td_model *model, td_data_options *options) {
    options->takes = td_model_input_shape(model);
    if (td__model_facts_of(model)->input_first && options->layout == TD_LAYOUT_AS_IS) {
        options->layout = TD_LAYOUT_FIRST_IF_FITS;
    }
}

/* Columns and classes are what they were when the model was trained, whatever their order now. */
static void match_model(const td_trainer *trainer, td_data_options *options) {
    const td__data_notes *notes = &trainer->notes.data;
    options->inputs = options->input_pieces.count ? (td_names){0} : notes->inputs;
    options->classes = notes->classes;
    if (trainer->resume && same_names(options->label, notes->label)) {
        options->label_names = notes->label_names;
    }
    if (trainer->model && options->input.rank == 0 && options->input_pieces.count == 0) {
        options->input = td__known_input(trainer->model);
        options->input_as_is = true;
        match_layout(trainer->model, options);
    }
}

/* Whether a loss of values can use the numbers of classes: those of two, as 0 and 1. */
static bool takes_class_numbers(td_loss loss) {
    return loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_BINARY_FOCAL_CROSSENTROPY ||
           loss == TD_LOSS_HINGE || loss == TD_LOSS_SQUARED_HINGE;
}

/* A regression over the alphabetical numbers of texts learns nothing that is asked for. */
static td_status refuse_texts(const td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td_data_info *info = trainer->feed.info;
    const td__yaml_node *train = td__yaml_get(td__yaml_root(experiment->yaml), "train");
    return td__experiment_problem(
        experiment, td__yaml_get(train, "loss"), TD_INVALID, error,
        "train.loss: %s compares numbers, and the labels are texts: %lld %s ('%.60s', …). "
        "For classes, take sparse_categorical_crossentropy and a unit for each in the last layer; "
        "data.label_kind: values numbers the texts in alphabetical order",
        td_loss_name(experiment->train.objective.loss), (long long)info->classes,
        info->classes == 1 ? "class" : "classes", info->class_names[0]);
}

/* Labels as the loss can be compared with them. */
static td_status fit_labels(td_trainer *trainer, td_error *error) {
    const td__objective *objective = &trainer->experiment->train.objective;
    td_label_kind kind = trainer->feed.info->label_kind;
    if (objective->target == TD__TARGET_INPUT || trainer->feed.info->label_piece_count) {
        return TD_OK;
    }
    if (kind == TD_LABEL_NONE) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "data: no labels, and so no loss; name the column in "
                                      "data.label, or give train.target: input");
    }
    if (trainer->experiment->data.label_kind == TD_LABEL_AUTO) {
        td_status status =
            td__labels_as(trainer->feed.data, td__labels_for(objective->loss, kind), error);
        if (status) {
            return status;
        }
        kind = trainer->feed.info->label_kind;
        if (kind == TD_LABEL_VALUES && trainer->feed.info->class_names &&
            !takes_class_numbers(objective->loss)) {
            return refuse_texts(trainer, error);
        }
    }
    if (objective->loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && kind != TD_LABEL_CLASS) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "train.loss: sparse_categorical_crossentropy needs class "
                                      "numbers, and the labels are other numbers");
    }
    return TD_OK;
}

/* steps and epochs bound each other. */
static void settle_length(td__feed *feed, const td__train_spec *train) {
    feed->batches = td_batches_count(feed->training);
    int64_t steps = train->steps;
    if (train->epochs) {
        int64_t all;
        bool fits = td__multiply(train->epochs, feed->batches, &all);
        steps = fits && (!steps || all < steps) ? all : steps;
    }
    feed->steps = steps;
    feed->epochs = (steps + feed->batches - 1) / feed->batches;
}

static td_status make_batches(td__feed *feed, td_error *error) {
    feed->training = td_batches_create(feed->data, TD_TRAINING, 0, error);
    if (feed->training && feed->info->validation > 0) {
        feed->validation = td_batches_create(feed->data, TD_VALIDATION, 0, error);
    }
    return feed->training && (feed->validation || feed->info->validation == 0) ? TD_OK : TD_MEMORY;
}

/* What the model's file wants and the data has not is a problem of both. */
static td_status cannot_open(const td_trainer *trainer, const td_data_options *options,
                             const td_error *reason, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td__yaml_node *model = td__yaml_get(td__yaml_root(experiment->yaml), "model");
    if (reason->status == TD_BAD_SHAPE && options->input_as_is) {
        char shape[TD_SHAPE_TEXT_SIZE];
        return td__experiment_problem(experiment, td__yaml_get(model, "file"), TD_BAD_SHAPE, error,
                                      "model.file: it reads examples of shape %s, and data has "
                                      "others: %s; see data.input",
                                      td_shape_text(&options->input, shape), reason->text);
    }
    return td__experiment_problem(experiment, NULL, reason->status, error, "data: %s",
                                  reason->text);
}

td_status td__feed_status(const td_batches *batches, td_error *error) {
    td_error reason = {0};
    td_status status = td_batches_status(batches, &reason);
    return status ? td_error_set(error, status, "data: %s", reason.text) : TD_OK;
}

/* Whether opening it decodes pictures, and keeps what comes of that in the cache. */
static bool is_decoded(const char *path) {
    td__reader *reader = NULL;
    return path && !td__reader_choose(path, &reader, NULL) && reader == td__images_read;
}

/* Processes parse CSV files together. Of several processes on a machine one decodes a folder of pictures; the others
 * find that in the cache. NULL, and the reason: the data cannot be read. */
static td_dataset *open_data(const td_trainer *trainer, td_data_options *options,
                             td_error *reason) {
    td_group *group = trainer->options.group;
    if (!group || td_group_size(group) == 1) {
        return td_dataset_open(options, reason);
    }
    options->group = group;
    options->while_reading = false;
    if (!is_decoded(options->train)) {
        return td_dataset_open(options, reason);
    }
    bool first = td__group_is_first_here(group);
    td_dataset *data = first ? td_dataset_open(options, reason) : NULL;
    td_error lost = {0};
    if (td_group_barrier(group, &lost)) {
        td_dataset_close(data);
        td_error_set(reason, lost.status, "%s", lost.text);
        return NULL;
    }
    return first ? data : td_dataset_open(options, reason);
}

static bool are_same_names(td_names a, td_names b) {
    bool same = a.count == b.count;
    for (size_t i = 0; same && i < a.count; i++) {
        same = strcmp(a.items[i], b.items[i]) == 0;
    }
    return same;
}

/* What texts and dates become is settled where training goes on from a model file: other wishes cannot be honoured. */
static td_status check_settled(const td_trainer *trainer, const td_data_options *options,
                               td_error *error) {
    const char *file = trainer->experiment->model_file;
    const td_dates *settled = &trainer->notes.data.dates;
    for (size_t i = 0; file && i < options->text.count; i++) {
        const td_text *text = &options->text.items[i];
        int64_t ids = (int64_t)text->words.count + TD__TEXT_FIRST;
        bool few = text->vocabulary && ids > text->vocabulary;
        if (text->words.count && (few || text->min_count)) {
            return td_error_set(error, TD_INVALID,
                                "data: text: %s: the vocabulary is that of %s, with %lld ids; "
                                "leave `%s` out",
                                text->column, file, (long long)ids,
                                few ? "vocabulary" : "min_count");
        }
    }
    for (size_t i = 0; file && i < options->dates.count; i++) {
        const td_date *date = &options->dates.items[i];
        for (size_t k = 0; k < settled->count; k++) {
            if (!strcmp(settled->items[k].column, date->column) &&
                !are_same_names(settled->items[k].parts, date->parts)) {
                return td_error_set(error, TD_INVALID,
                                    "data: dates: %s: its parts are those of %s, %zu of them; "
                                    "leave `parts` out",
                                    date->column, file, settled->items[k].parts.count);
            }
        }
    }
    return TD_OK;
}

td_status td__trainer_open_data(td_trainer *trainer, td_error *error) {
    td__feed *feed = &trainer->feed;
    td_data_options options = trainer->experiment->data;
    td_error reason = {0};
    match_model(trainer, &options);
    if (!td__data_notes_match(&trainer->notes.data, &options)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_status status = check_settled(trainer, &options, error);
    options.while_reading = !trainer->options.read_first;
    status = status ? status : td__trainer_order_inputs(trainer, &options, error);
    if (status) {
        return status;
    }
    trainer->experiment->data.input_pieces = options.input_pieces; /* as notes are to have them */
    feed->data = open_data(trainer, &options, &reason);
    if (!feed->data) {
        return cannot_open(trainer, &options, &reason, error);
    }
    feed->info = td_dataset_info(feed->data);
    if (feed->info->training == 0) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "data: no examples to train on");
    }
    status = fit_labels(trainer, error);
    status = status ? status : make_batches(feed, error);
    if (!status) {
        settle_length(feed, &trainer->experiment->train);
    }
    return status;
}

void td__feed_release(td__feed *feed) {
    td_batches_destroy(feed->training);
    td_batches_destroy(feed->validation);
    td_dataset_close(feed->data);
    *feed = (td__feed){0};
}
