/* The networks of the benchmarks, ready to train; see peers/engine.py. For programs that include it
 * once. */
#ifndef TAPEDECK_BENCH_NETWORKS_H
#define TAPEDECK_BENCH_NETWORKS_H

#include "worker.h"

static void small_dense(td_model *m, int64_t hidden, int64_t out) {
    td_add_dense(m, .units = hidden, .activation = TD_RELU);
    td_add_dense(m, .units = out);
}

static void build_m1(td_model *m) {
    small_dense(m, 10, 5);
}
static void build_m2(td_model *m) {
    small_dense(m, 64, 1);
}

static void build_m3(td_model *m) {
    td_add_conv2d(m, .filters = 32, .kernel = {3}, .activation = TD_RELU);
    td_add_max_pool2d(m);
    td_add_conv2d(m, .filters = 64, .kernel = {3}, .activation = TD_RELU);
    td_add_max_pool2d(m);
    td_add_flatten(m);
    td_add_dense(m, .units = 128, .activation = TD_RELU);
    td_add_dense(m, .units = 10);
}

static void build_m4(td_model *m) {
    td_add_dense(m, .units = 512, .activation = TD_RELU);
    td_add_dense(m, .units = 512, .activation = TD_RELU);
    td_add_dense(m, .units = 10);
}

static void transformer_block(td_model *m, const char *from, const char *middle, const char *to) {
    td_add_layer_normalization(m, .from = {from});
    td_add_multi_head_attention(m, .heads = 4, .key_dim = 32);
    char attention[64];
    snprintf(attention, sizeof attention, "%s",
             td_model_layer(m, td_model_layer_count(m) - 1)->name);
    td_add_add(m, .name = middle, .from = {from, attention});
    td_add_layer_normalization(m);
    td_add_dense(m, .units = 512, .activation = TD_RELU);
    td_add_dense(m, .units = 128);
    char feed_forward[64];
    snprintf(feed_forward, sizeof feed_forward, "%s",
             td_model_layer(m, td_model_layer_count(m) - 1)->name);
    td_add_add(m, .name = to, .from = {middle, feed_forward});
}

static void build_m5a(td_model *m) {
    transformer_block(m, "input", "middle1", "block1");
    transformer_block(m, "block1", "middle2", "block2");
}

static void residual_block(td_model *m, int64_t channels, const char *from, const char *to) {
    td_add_conv2d(m, .from = {from}, .filters = channels, .kernel = {3}, .padding = TD_PADDING_SAME,
                  .activation = TD_RELU);
    td_add_conv2d(m, .filters = channels, .kernel = {3}, .padding = TD_PADDING_SAME);
    char body[64], sum[64];
    snprintf(body, sizeof body, "%s", td_model_layer(m, td_model_layer_count(m) - 1)->name);
    snprintf(sum, sizeof sum, "%s_sum", to);
    td_add_add(m, .name = sum, .from = {from, body});
    td_add_activation(m, .name = to, .function = TD_RELU);
}

static void build_m5b(td_model *m) {
    td_add_conv2d(m, .name = "first", .filters = 32, .kernel = {3}, .padding = TD_PADDING_SAME,
                  .activation = TD_RELU);
    residual_block(m, 32, "first", "block1");
    residual_block(m, 32, "block1", "block2");
    td_add_conv2d(m, .name = "down", .filters = 64, .kernel = {3}, .stride = {2},
                  .padding = TD_PADDING_SAME, .activation = TD_RELU);
    residual_block(m, 64, "down", "block3");
    residual_block(m, 64, "block3", "block4");
    td_add_global_average_pool2d(m);
    td_add_dense(m, .units = 10);
}

static void last_name(const td_model *m, char name[64]) {
    snprintf(name, 64, "%s", td_model_layer(m, td_model_layer_count(m) - 1)->name);
}

static void convolve(td_model *m, int64_t filters, int64_t size, int64_t stride, int64_t groups,
                     td_activation activation) {
    td_add_conv2d(m, .filters = filters, .kernel = {size}, .stride = {stride}, .groups = groups,
                  .padding = TD_PADDING_SAME, .activation = activation);
}

static void build_mobile(td_model *m) {
    static const int64_t blocks[][3] = {
        {32, 64, 1}, {64, 128, 2}, {128, 128, 1}, {128, 256, 2}, {256, 256, 1}};
    convolve(m, 32, 3, 1, 1, TD_RELU);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        convolve(m, blocks[i][0], 3, blocks[i][2], blocks[i][0], TD_RELU);
        convolve(m, blocks[i][1], 1, 1, 1, TD_RELU);
    }
    td_add_global_average_pool2d(m);
    td_add_dense(m, .units = 10);
}

static void build_grouped(td_model *m) {
    convolve(m, 64, 3, 1, 1, TD_RELU);
    for (int i = 0; i < 2; i++) {
        char from[64], body[64];
        last_name(m, from);
        convolve(m, 128, 1, 1, 1, TD_RELU);
        convolve(m, 128, 3, 1, 32, TD_RELU);
        convolve(m, 64, 1, 1, 1, TD_LINEAR);
        last_name(m, body);
        td_add_add(m, .from = {from, body});
        td_add_activation(m, .function = TD_RELU);
    }
    td_add_global_average_pool2d(m);
    td_add_dense(m, .units = 10);
}

static void build_adding(td_model *m) {
    td_add_lstm(m, .units = 64);
    td_add_dense(m, .units = 1);
}

static void build_text(td_model *m) {
    td_add_embedding(m, .vocabulary = 5000, .width = 64);
    td_add_gru(m, .units = 64);
    td_add_dense(m, .units = 2);
}

static void normalized(td_model *m, const char *from, int64_t filters, int64_t size, int64_t stride,
                       bool relu) {
    td_add_conv2d(m, .from = {from}, .filters = filters, .kernel = {size}, .stride = {stride},
                  .padding = TD_PADDING_SAME, .no_bias = true);
    td_add_batch_normalization(m);
    if (relu) {
        td_add_activation(m, .function = TD_RELU);
    }
}

static void build_resnet(td_model *m) {
    normalized(m, "input", 64, 3, 1, true);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < 2; i++) {
            int64_t filters = 64LL << stage, stride = stage > 0 && i == 0 ? 2 : 1;
            char from[64], middle[64], body[64], shortcut[64];
            last_name(m, from);
            normalized(m, from, filters, 3, stride, true);
            last_name(m, middle);
            normalized(m, middle, filters, 3, 1, false);
            last_name(m, body);
            snprintf(shortcut, sizeof shortcut, "%s", from);
            if (stride == 2) {
                normalized(m, from, filters, 1, 2, false);
                last_name(m, shortcut);
            }
            td_add_add(m, .from = {body, shortcut});
            td_add_activation(m, .function = TD_RELU);
        }
    }
    td_add_global_average_pool2d(m);
    td_add_dense(m, .units = 10);
}

static const struct network {
    const char *name;
    void (*build)(td_model *model);
    int64_t batch;
    td_shape input;
    int64_t classes;    /* 0: mean squared error against random targets */
    int64_t vocabulary; /* inputs are whole numbers below it; 0: they are normal */
} networks[] = {
    {"M1", build_m1, 32, {1, {5}}, 0, 0},
    {"M2", build_m2, 10, {1, {10}}, 0, 0},
    {"M3", build_m3, 64, {3, {28, 28, 1}}, 10, 0},
    {"M4", build_m4, 128, {1, {784}}, 10, 0},
    {"M5a", build_m5a, 32, {2, {64, 128}}, 0, 0},
    {"M5b", build_m5b, 32, {3, {32, 32, 3}}, 10, 0},
    {"mobile", build_mobile, 32, {3, {32, 32, 3}}, 10, 0},
    {"grouped", build_grouped, 32, {3, {32, 32, 3}}, 10, 0},
    {"adding", build_adding, 64, {2, {50, 2}}, 0, 0},
    {"text", build_text, 32, {1, {100}}, 2, 5000},
    {"resnet18", build_resnet, 16, {3, {32, 32, 3}}, 10, 0},
};

static void fill_classes(td_tensor *tensor, int64_t classes) {
    int64_t *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = i * 7 % classes;
    }
}

static void start(worker *w, const struct network *network) {
    w->model = td_model_create(network->name, network->input);
    network->build(w->model);
    w->tape = td_tape_create(NULL, &w->error);
    if (!w->tape || td_model_build(w->model, 7, &w->error)) {
        fail("model", &w->error);
    }
    td_tape_set_training(w->tape, true);
    w->count = td_model_trainable(w->model, &w->weights);
    w->gradients = calloc(w->count, sizeof *w->gradients);
    w->optimizer =
        td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), w->count, w->weights, &w->error);
    td_shape input = with_batch(network->batch, network->input);
    w->inputs = td_tensor_create("input", TD_FLOAT32, input, &w->error);
    w->classes = network->classes > 0;
    const td_layer_info *last = td_model_layer(w->model, td_model_layer_count(w->model) - 1);
    td_shape target =
        w->classes ? TD_SHAPE(network->batch) : with_batch(network->batch, last->output);
    w->targets = td_tensor_create("target", w->classes ? TD_INT64 : TD_FLOAT32, target, &w->error);
    if (!w->gradients || !w->optimizer || !w->inputs || !w->targets) {
        fail("start", &w->error);
    }
    fill_normal(w->inputs, 1);
    float *values = td_tensor_data(w->inputs);
    for (int64_t i = 0; network->vocabulary && i < td_tensor_count(w->inputs); i++) {
        values[i] = (float)(i * 7919 % network->vocabulary);
    }
    if (w->classes) {
        fill_classes(w->targets, network->classes);
    } else {
        fill_normal(w->targets, 2);
    }
}

/* The network of that name, or NULL. */
static const struct network *find_network(const char *name) {
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        if (strcmp(name, networks[i].name) == 0) {
            return &networks[i];
        }
    }
    return NULL;
}

#endif
