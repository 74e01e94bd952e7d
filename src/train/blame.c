/* A loss that is not a number: where it came from. Looks, in this order, at the input, at each
 * layer's output and the parameters that made it, at the labels, and at the loss of each example. */
#include "train/trainer.h"

#include "data/dataset.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

enum { TEXT_SIZE = 700, PLACE_SIZE = 400 };

/* The pass whose loss it is, and the part that its batch is of. */
typedef struct suspect {
    const td_trainer *trainer;
    td__pass *pass;
    td_part part;
} suspect;

static bool has_nonfinite(const td_tensor *tensor, td_stats *stats) {
    td_view view = td_view_of(tensor);
    return tensor->dtype == TD_FLOAT32 && td_stats_of(&view, stats, NULL) == TD_OK &&
           stats->nan + stats->inf > 0;
}

/* The example that the tensor's first bad element belongs to. */
static int64_t bad_row(const suspect *s, const td_tensor *tensor, const td_stats *stats) {
    const td_batch *batch = s->pass->batch;
    int64_t each = tensor->count / batch->count;
    return batch->rows[stats->first_nonfinite / (each ? each : 1)];
}

/* Where its inputs are. */
static void find_row(const suspect *s, const td_tensor *tensor, const td_stats *stats,
                     char place[PLACE_SIZE]) {
    td_dataset_place(s->trainer->feed.data, s->part, bad_row(s, tensor, stats), place, PLACE_SIZE);
}

/* A parameter that is spoilt was so when training began, or since an update. */
static bool find_in_parameters(const td_trainer *trainer, const td_layer_info *layer,
                               td_stats *stats, char what[TEXT_SIZE]) {
    bool began = trainer->at.step == trainer->at.began_step;
    for (size_t k = 0; k < layer->parameter_count; k++) {
        const td_parameter_info *parameter =
            td_model_parameter_at(trainer->model, layer->first_parameter + k);
        if (!has_nonfinite(parameter->tensor, stats)) {
            continue;
        }
        if (began) {
            (void)snprintf(what, TEXT_SIZE,
                           "layer %.100s: its %.100s was not finite when training began",
                           layer->name, parameter->parameter);
        } else {
            (void)snprintf(what, TEXT_SIZE,
                           "layer %.100s, whose %.100s the update of step %lld had spoilt",
                           layer->name, parameter->parameter, (long long)trainer->at.step);
        }
        return true;
    }
    return false;
}

static bool find_in_layers(const suspect *s, td_stats *stats, char what[TEXT_SIZE]) {
    const td_trainer *trainer = s->trainer;
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_tensor *output = td_model_output_at(trainer->model, i);
        if (!output || !has_nonfinite(output, stats)) {
            continue;
        }
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        if (!find_in_parameters(trainer, layer, stats, what)) {
            char place[PLACE_SIZE];
            (void)has_nonfinite(output, stats);
            find_row(s, output, stats, place);
            (void)snprintf(what, TEXT_SIZE, "the output of layer %.200s for %.300s", layer->name,
                           place);
        }
        return true;
    }
    return false;
}

/* Everything is finite but the loss: of one example, or only of all together. */
static void find_in_loss(const suspect *s, td_stats *stats, char what[TEXT_SIZE]) {
    for (size_t i = 0; i < td__pass_outcome_count(s->pass); i++) {
        const td_tensor *losses;
        if (!td__pass_example_losses(s->pass, i, &losses, NULL) && has_nonfinite(losses, stats)) {
            char place[PLACE_SIZE];
            find_row(s, losses, stats, place);
            (void)snprintf(
                what, TEXT_SIZE,
                "the loss of %.300s: every layer's output is finite, and the loss cannot "
                "be taken of it",
                place);
            return;
        }
    }
    float loss = td_tensor_scalar(s->pass->loss);
    *stats = (td_stats){.count = 1, .nan = isnan(loss), .inf = isinf(loss)};
    (void)snprintf(what, TEXT_SIZE,
                   "the sum: every example's loss is finite, and their mean or the penalties "
                   "are too large");
}

static bool find_in_labels(const suspect *s, td_stats *stats, char what[TEXT_SIZE]) {
    for (size_t i = 0; i < td__pass_outcome_count(s->pass); i++) {
        const td_tensor *truth = s->pass->outcomes[i].truth;
        if (truth && has_nonfinite(truth, stats)) {
            char place[PLACE_SIZE];
            const td_dataset *data = s->trainer->feed.data;
            (void)td__place(data, data->parts[s->part].table, bad_row(s, truth, stats), place,
                            sizeof place);
            (void)snprintf(what, TEXT_SIZE, "the labels: %.300s", place);
            return true;
        }
    }
    return false;
}

td_status td__blame(const td_trainer *trainer, td__pass *pass, td_part part, const char *subject,
                    td_error *error) {
    td_stats stats;
    char what[TEXT_SIZE] = "", place[PLACE_SIZE];
    suspect s = {trainer, pass, part};
    float loss = td_tensor_scalar(pass->loss);
    if (has_nonfinite(pass->input, &stats)) {
        find_row(&s, pass->input, &stats, place);
        (void)snprintf(what, sizeof what, "the input: %.300s", place);
    } else if (!find_in_layers(&s, &stats, what) && !find_in_labels(&s, &stats, what)) {
        find_in_loss(&s, &stats, what);
    }
    return td_error_set(error, TD_RANGE,
                        "%s is %s; first seen in %s (%lld NaN and %lld infinite of %lld values)",
                        subject, isnan(loss) ? "NaN" : "infinite", what, (long long)stats.nan,
                        (long long)stats.inf, (long long)stats.count);
}
