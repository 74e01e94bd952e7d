/* C++: a network learns to distinguish two classes of points, and its layers' errors are recorded.
 *
 * The headers are C's; std::unique_ptr destroys what was created. Options are written where they
 * are used, in the order of their fields; or, in strictly standard C++17, filled in one by one, as
 * `learning` below is.
 *
 *     classify [FOLDER]        default: runs/classify
 */
#include <cstdio>
#include <memory>
#include <vector>

#include "tapedeck/deck.h"
#include "tapedeck/nn.h"

template <auto destroy> struct with {
    template <class type> void operator()(type *object) const { destroy(object); }
};
template <class type, auto destroy> using owned = std::unique_ptr<type, with<destroy>>;
using tensor = owned<td_tensor, td_tensor_destroy>;

constexpr int64_t batch = 32;

static float noise() {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
}

static void draw(float *points, int32_t *classes) {
    for (int64_t i = 0; i < batch; i++) {
        points[2 * i] = noise();
        points[2 * i + 1] = noise();
        classes[i] = points[2 * i] * points[2 * i + 1] > 0; /* no line parts them */
    }
}

int main(int argc, char **argv) {
    td_error error = {};
    owned<td_model, td_model_destroy> model(td_model_create("quadrants", TD_SHAPE(2)));
    td_add_dense(model.get(), .name = "hidden", .units = 16, .activation = TD_TANH);
    td_add_dense(model.get(), .name = "logits", .units = 2);
    owned<td_tape, td_tape_destroy> tape(td_tape_create(nullptr, &error));
    td_deck *deck = td_deck_open(argc > 1 ? argv[1] : "runs/classify", &error);
    std::vector<float> points(2 * batch);
    std::vector<int32_t> classes(batch);
    if (!tape || !deck || td_model_build(model.get(), 1, &error)) {
        std::fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    td_deck_track(deck, .what = "loss", .to = "csv");
    td_deck_track(deck, .what = "hidden.error", .every = 50, .form = TD_STATS, .to = "csv");

    td_tensor *const *weights;
    size_t count = td_model_trainable(model.get(), &weights);
    auto learning = td_options<td_optimizer_options>();
    learning.kind = TD_ADAM;
    learning.learning_rate = TD_SET(0.02);
    owned<td_optimizer, td_optimizer_destroy> optimizer(
        td_optimizer_create(&learning, count, weights, &error));
    float first = 0, last = 0;
    for (int64_t step = 1; step <= 300 && error.status == TD_OK; step++) {
        draw(points.data(), classes.data());
        tensor x(td_tensor_from("x", TD_FLOAT32, TD_SHAPE(batch, 2), points.data(), &error));
        tensor y(td_tensor_from("y", TD_INT32, TD_SHAPE(batch), classes.data(), &error));
        td_tensor *logits = td_model_forward(model.get(), tape.get(), x.get());
        td_tensor *loss =
            td_sparse_categorical_crossentropy(tape.get(), logits, y.get(), TD_FROM_LOGITS);
        std::vector<td_tensor *> wanted(weights, weights + count), gradients(count + 1);
        wanted.push_back(td_model_output(model.get(), "hidden")); /* its gradient is its error */
        if (!td_tape_gradient(tape.get(), loss, wanted.size(), wanted.data(), gradients.data(),
                              &error) &&
            !td_optimizer_step(optimizer.get(), gradients.data(), &error)) {
            last = td_tensor_scalar(loss);
            first = step == 1 ? last : first;
            td_deck_scalar(deck, "loss", static_cast<double>(last));
            td_deck_record(deck, "hidden.error", td_view_of(gradients.back()));
            td_deck_step(deck, 1, step);
        }
        td_tape_reset(tape.get());
    }
    std::printf("loss %.3f -> %.3f, recorded into %s\n", static_cast<double>(first),
                static_cast<double>(last), td_deck_folder(deck));
    td_error closing = {};
    td_deck_close(deck, &closing);
    std::fputs(error.status ? error.text : closing.text, stderr);
    return error.status || closing.status || !(last < first / 2);
}
