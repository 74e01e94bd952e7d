/* Optimizers as operators (ai.onnx.preview.training): new tensors and states from the old ones and
 * gradients. Inputs are (R, T, X…, G…, states…), outputs (X…, states…) in the same order. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <math.h>
#include <string.h>

enum { MAX_STATES = 2 };

/* One number, seen from all sides; settings come from the node. */
typedef struct update {
    double rate, x, g;
    double state[MAX_STATES];
    int64_t step;
} update;

typedef void updater(const td__graph_call *call, update *u);

static double setting(const td__graph_call *call, const char *name, float fallback) {
    return (double)td__graph_float(call->node, name, fallback);
}

static bool apply(td__graph_call *call, size_t states, updater *step) {
    size_t given = call->node->input_count, parts = 2 + states;
    size_t tensors = given > 2 ? (given - 2) / parts : 0;
    td_tensor *rate = td__graph_plain(call, 0), *count = td__graph_plain(call, 1);
    if (!rate || !count || rate->count != 1 || count->count != 1 || tensors == 0 ||
        given != 2 + parts * tensors || call->node->output_count > (1 + states) * tensors) {
        return td__graph_fail(call, TD_FORMAT, "%zu inputs", given);
    }
    for (size_t t = 0; t < tensors; t++) {
        td_tensor *in[2 + MAX_STATES], *out[1 + MAX_STATES];
        for (size_t k = 0; k < parts; k++) {
            in[k] = td__graph_as_float(call, 2 + k * tensors + t);
            if (!in[k] || !td_shape_equal(&in[k]->shape, &in[0]->shape)) {
                return td__graph_fail(call, TD_BAD_SHAPE, "tensor %zu has parts of several shapes",
                                      t);
            }
        }
        for (size_t k = 0; k < 1 + states; k++) {
            out[k] = td__output(call->tape, TD_FLOAT32, &in[0]->shape);
            if (!out[k]) {
                return false;
            }
        }
        for (int64_t i = 0; i < in[0]->count; i++) {
            update u = {.rate = td__graph_real(rate, 0),
                        .x = (double)td__floats(in[0])[i],
                        .g = (double)td__floats(in[1])[i],
                        .step = td__graph_integer(count, 0)};
            for (size_t k = 0; k < states; k++) {
                u.state[k] = (double)td__floats(in[2 + k])[i];
            }
            u.g += setting(call, "norm_coefficient", 0) * u.x;
            step(call, &u);
            td__floats(out[0])[i] = (float)u.x;
            for (size_t k = 0; k < states; k++) {
                td__floats(out[1 + k])[i] = (float)u.state[k];
            }
        }
        for (size_t k = 0; k < 1 + states; k++) {
            if (!td__graph_output(call, k * tensors + t, TD__GRAPH_FLOAT, out[k])) {
                return false;
            }
        }
    }
    return true;
}

static void adagrad_step(const td__graph_call *call, update *u) {
    double rate = u->rate / (1 + (double)u->step * setting(call, "decay_factor", 0));
    u->state[0] += u->g * u->g;
    u->x -= rate * u->g / (sqrt(u->state[0]) + setting(call, "epsilon", 1e-6f));
}

static void adam_step(const td__graph_call *call, update *u) {
    double alpha = setting(call, "alpha", 0.9f), beta = setting(call, "beta", 0.999f);
    double rate = u->rate;
    u->state[0] = alpha * u->state[0] + (1 - alpha) * u->g;
    u->state[1] = beta * u->state[1] + (1 - beta) * u->g * u->g;
    if (u->step > 0) {
        rate *= sqrt(1 - pow(beta, (double)u->step)) / (1 - pow(alpha, (double)u->step));
    }
    u->x -= rate * u->state[0] / (sqrt(u->state[1]) + setting(call, "epsilon", 1e-6f));
    u->x *= 1 - setting(call, "norm_coefficient_post", 0);
}

static void momentum_step(const td__graph_call *call, update *u) {
    double alpha = setting(call, "alpha", 0);
    double beta = u->step > 0 ? setting(call, "beta", 0) : 1;
    u->state[0] = alpha * u->state[0] + beta * u->g;
    bool nesterov = strcmp(td__graph_text(call->node, "mode", "standard"), "nesterov") == 0;
    u->x -= u->rate * (nesterov ? u->g + alpha * u->state[0] : u->state[0]);
}

static bool adagrad(td__graph_call *call) {
    return apply(call, 1, adagrad_step);
}

static bool adam(td__graph_call *call) {
    return apply(call, 2, adam_step);
}

static bool momentum(td__graph_call *call) {
    return apply(call, 1, momentum_step);
}

const td__graph_operator td__graph_training[] = {
    {"Adagrad", adagrad, 5, 255, 255, 0, 0, NULL},
    {"Adam", adam, 6, 255, 255, 0, 0, NULL},
    {"Momentum", momentum, 5, 255, 255, 0, 0, NULL},
    {0},
};
