/* Losses of classification, put together from operations with gradients.
 *
 * scores: (n, c, d1, …), classes: (n, d1, …), weight: (c,). The loss of one place is
 * -weight[class] score[class], and 0 where the class is the one to ignore; the mean is over the
 * weights.
 */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/pick.h"

#include <string.h>

/* Where the score of each place's class is, and the class's number for its weight; -1: ignored. */
typedef struct class_places {
    td_shape shape; /* of the classes */
    int64_t *scores, *weights;
} class_places;

static bool classes_fit(const td_tensor *scores, const td_tensor *classes) {
    const td_shape *a = &scores->shape, *b = &classes->shape;
    bool same = a->rank >= 2 && b->rank == a->rank - 1 && a->dims[0] == b->dims[0];
    for (int32_t i = 2; i < a->rank && same; i++) {
        same = a->dims[i] == b->dims[i - 1];
    }
    return same;
}

static bool find_places(td__graph_call *call, const td_tensor *scores, const td_tensor *classes,
                        class_places *places) {
    if (!td__graph_is_integer(classes) || !classes_fit(scores, classes)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its classes do not fit its scores");
    }
    places->shape = classes->shape;
    size_t bytes = (size_t)classes->count * sizeof(int64_t);
    places->scores = td__scratch(call->tape, bytes);
    places->weights = td__scratch(call->tape, bytes);
    if (!places->scores || !places->weights) {
        return false;
    }
    const td__graph_attribute *ignored = td__graph_attribute_of(call->node, "ignore_index");
    int64_t count = scores->shape.dims[1];
    int64_t inner = td__elements_from(&scores->shape, 2);
    for (int64_t i = 0; i < classes->count; i++) {
        int64_t class = td__graph_integer(classes, i);
        bool skipped = ignored && ignored->integer == class;
        if (!skipped && (class < 0 || class >= count)) {
            return td__graph_fail(call, TD_RANGE, "class %lld of %lld", (long long)class,
                                  (long long)count);
        }
        places->scores[i] = skipped ? -1 : (i / inner * count + class) * inner + i % inner;
        places->weights[i] = skipped ? -1 : class;
    }
    return true;
}

/* The weights of all places: 1 without weights, 0 where ignored. */
static td_tensor *weights_of(td__graph_call *call, size_t input, int64_t classes,
                             const class_places *places) {
    td_tensor *weight = td__graph_plain(call, input);
    if (!td__graph_input(call, input)) {
        weight = td__graph_filled(call->tape, TD_SHAPE(classes), 1);
    } else if (weight && (weight->dtype != TD_FLOAT32 || weight->count != classes)) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "there must be one weight for each class");
        return NULL;
    }
    return weight ? td__pick(call->tape, weight, places->shape, places->weights) : NULL;
}

static td_tensor *loss_of(td__graph_call *call, td_tensor *scores) {
    td_tape *tape = call->tape;
    const td_tensor *classes = td__graph_plain(call, 1);
    const char *reduction = td__graph_text(call->node, "reduction", "mean");
    class_places places = {0};
    if (!scores || !classes || !find_places(call, scores, classes, &places)) {
        return NULL;
    }
    td_tensor *weights = weights_of(call, 2, scores->shape.dims[1], &places);
    td_tensor *chosen = td__pick(tape, scores, places.shape, places.scores);
    td_tensor *losses = td_affine(tape, td_multiply(tape, chosen, weights), -1, 0);
    if (!strcmp(reduction, "none")) {
        return losses;
    }
    td_tensor *sum = td_sum(tape, losses, NULL);
    if (!strcmp(reduction, "sum")) {
        return sum;
    }
    return td_divide(tape, sum, td_sum(tape, weights, NULL));
}

static bool is_float(td__graph_call *call) {
    return td__graph_is_float(call, 0) ||
           td__graph_fail(call, TD_UNSUPPORTED, "not of type %s",
                          td__graph_type_name(td__graph_input(call, 0)->type));
}

static bool negative_log_likelihood(td__graph_call *call) {
    return is_float(call) && td__graph_output(call, 0, td__graph_input(call, 0)->type,
                                              loss_of(call, td__graph_plain(call, 0)));
}

static bool softmax_cross_entropy(td__graph_call *call) {
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *x = is_float(call) ? td__graph_plain(call, 0) : NULL;
    td_tensor *scores = x ? td_log_softmax(call->tape, x, 1) : NULL;
    return td__graph_output(call, 0, type, loss_of(call, scores)) &&
           td__graph_output(call, 1, type, scores);
}

const td__graph_operator td__graph_losses[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood, 2, 3, 1, 12, 0, NULL},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy, 2, 3, 2, 12, 0, NULL},
    {0},
};
