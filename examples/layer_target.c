/* A layer's own loss: the mean squared error of its output against a target given for that layer,
 * and the error it means for the layer, over a few training steps, as CSV.
 *
 * The layer's loss is measured beside the network's and trains nothing: gradients are asked for
 * where they are wanted, and the optimizer gets those of the network's loss only.
 */
#include "tapedeck/nn.h"

#include <math.h>

#define BATCH 8
#define MOST 16

typedef struct experiment {
    td_model *model;
    td_optimizer *optimizer;
    td_tape *tape;
    td_tensor *x, *y, *target; /* target: what layer1 should put out */
} experiment;

static td_tensor *wave(const char *name, int64_t width, double speed, td_error *error) {
    td_tensor *tensor = td_tensor_create(name, TD_FLOAT32, TD_SHAPE(BATCH, width), error);
    for (int64_t i = 0; tensor && i < BATCH * width; i++) {
        ((float *)td_tensor_data(tensor))[i] = (float)fabs(sin(speed * (double)i));
    }
    return tensor;
}

static td_status step(experiment *e, int number, td_error *error) {
    td_tensor *const *weights, *gradients[MOST], *layer_error;
    size_t count = td_model_trainable(e->model, &weights);
    td_tensor *loss = td_mse(e->tape, td_model_forward(e->model, e->tape, e->x), e->y, NULL);
    td_tensor *layer1 = td_model_output(e->model, "layer1");
    td_tensor *layer_loss = td_mse(e->tape, layer1, e->target, NULL);
    td_status status = td_tape_gradient(e->tape, layer_loss, 1, &layer1, &layer_error, error);
    status = status ? status : td_tape_gradient(e->tape, loss, count, weights, gradients, error);
    status = status ? status : td_optimizer_step(e->optimizer, gradients, error);
    if (!status) {
        const float *first = td_tensor_data(layer_error);
        printf("%d,%.6f,%.6f,%.6f,%.6f\n", number, (double)td_tensor_scalar(loss),
               (double)td_tensor_scalar(layer_loss), (double)first[0], (double)first[1]);
    }
    td_tape_reset(e->tape);
    return status;
}

int main(void) {
    td_error error = {0};
    td_tensor *const *weights;
    experiment e = {.model = td_model_create("two layers", TD_SHAPE(5)),
                    .tape = td_tape_create(NULL, &error),
                    .x = wave("x", 5, 0.7, &error),
                    .y = wave("y", 5, 0.3, &error),
                    .target = wave("target", 10, 1.1, &error)};
    td_add_dense(e.model, .name = "layer1", .units = 10, .activation = TD_RELU);
    td_add_dense(e.model, .name = "layer2", .units = 5);
    if (!error.status && !td_model_build(e.model, 2, &error)) {
        size_t count = td_model_trainable(e.model, &weights);
        e.optimizer = td_optimizer_create(
            TD_OPTIMIZER(.kind = TD_ADAM, .learning_rate = TD_SET(0.01)), count, weights, &error);
    }
    printf("step,loss,layer1_mse,error_0,error_1\n");
    for (int i = 1; i <= 10 && e.optimizer && !step(&e, i, &error); i++) {
    }
    fputs(error.text, stderr);
    td_optimizer_destroy(e.optimizer);
    td_tape_destroy(e.tape);
    td_tensor_destroy(e.x);
    td_tensor_destroy(e.y);
    td_tensor_destroy(e.target);
    td_model_destroy(e.model);
    return error.status != TD_OK;
}
