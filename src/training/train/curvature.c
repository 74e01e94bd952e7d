/* hessian.max_eigenvalue and hessian.update_curvature of a training step: how sharply the loss of its batch bends.
 *
 * A product of the Hessian with a unit vector v is a central difference of gradients, (g(w + h v) - g(w - h v)) / 2 h, with
 * h = 1e-3 max(1, |w|). Its error is about u |g| / h from rounding (u = 6e-8) and h^2 / 6 times the third derivative: for
 * smooth networks 1e-3 of the eigenvalue and less. Each gradient is that of the step, with the same dropout.
 *
 * It is computed when the step is over. Weights, moving averages and the tape's random numbers are afterwards what they
 * were, bit for bit. Only steps that record one of the two pay: two forward and backward passes a product. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/random.h"
#include "tensor/sums.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { MAX_PRODUCTS = 50, MAX_EIGENVALUE = 0, UPDATE_CURVATURE = 1, WORDS = 2 };

#define STEP 1e-3
#define TOLERANCE 1e-2 /* of what is left, as a share of the eigenvalue */

static const char *const words[WORDS] = {".max_eigenvalue", ".update_curvature"};

bool td__curvature_signals_list(td_trainer *trainer) {
    bool good = true;
    trainer->curvature.entry = trainer->signals.count;
    for (uint8_t i = 0; good && i < WORDS; i++) {
        td__signal_entry entry = {
            .kind = TD_SIGNAL_DERIVED, .subject = TD__OF_MODEL, .which = i, .elements = 0};
        good = td__pass_signals_add(&trainer->signals, "", "hessian", words[i], entry);
    }
    return good;
}

static const td__signal_entry *entry_of(const td_trainer *trainer, size_t word) {
    return &trainer->signals.entries[trainer->curvature.entry + word];
}

static bool wants(const td_trainer *trainer, size_t word) {
    return trainer->pass.signals &&
           td__pass_signals_want(&trainer->signals, entry_of(trainer, word));
}

static int64_t count_weights(const td_trainer *trainer) {
    int64_t count = 0;
    for (size_t i = 0; i < trainer->learner.weight_count; i++) {
        count += trainer->learner.weights[i]->count;
    }
    return count;
}

static void gather(td_tensor *const *tensors, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) {
        memcpy(to, tensors[i]->data, (size_t)tensors[i]->count * sizeof *to);
        to += tensors[i]->count;
    }
}

void td__curvature_begin(td_trainer *trainer) {
    td__curvature *c = &trainer->curvature;
    c->has_before = false;
    if (!wants(trainer, UPDATE_CURVATURE) || trainer->shards.count > 1) {
        return;
    }
    size_t size = (size_t)count_weights(trainer) + 1;
    c->before = c->before ? c->before : td__calloc(size, sizeof *c->before);
    c->has_before = c->before != NULL;
    if (c->has_before) {
        gather(trainer->learner.weights, trainer->learner.weight_count, c->before);
    }
}

void td__curvature_release(td__curvature *c) {
    td__free(c->before);
    *c = (td__curvature){0};
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Vectors of as many elements as there are weights. */
typedef struct probe {
    td_trainer *trainer;
    const td_batch *batch;
    int64_t count;
    float *weights; /* as they are */
    float *vector, *product, *gradient;
    float *others; /* parameters that are not trained, as they are */
    size_t others_count;
    double step;
    int products;
} probe;

static void move_weights(const probe *p, double by) {
    const float *w = p->weights, *v = p->vector;
    for (size_t i = 0; i < p->trainer->learner.weight_count; i++) {
        const td_tensor *tensor = p->trainer->learner.weights[i];
        float *to = td__floats(tensor);
        for (int64_t k = 0; k < tensor->count; k++) {
            to[k] = (float)((double)w[k] + by * (double)v[k]);
        }
        w += tensor->count;
        v += tensor->count;
    }
}

/* To the bit, which adding 0 would not be: of -0 and of weights that are not finite. */
static void restore_weights(const probe *p) {
    const float *from = p->weights;
    for (size_t i = 0; i < p->trainer->learner.weight_count; i++) {
        const td_tensor *tensor = p->trainer->learner.weights[i];
        memcpy(td__floats(tensor), from, (size_t)tensor->count * sizeof *from);
        from += tensor->count;
    }
}

/* Averages of batch normalization, which a forward pass moves. */
static size_t copy_others(const probe *p, bool back) {
    size_t at = 0;
    for (size_t i = 0; i < p->trainer->parameter_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(p->trainer->model, i)->tensor;
        size_t count = (size_t)tensor->count;
        if (p->trainer->learner.weight_of[i] >= 0 || tensor->dtype != TD_FLOAT32) {
            continue;
        }
        if (p->others) {
            memcpy(back ? td__floats(tensor) : p->others + at,
                   back ? p->others + at : td__floats(tensor), count * sizeof(float));
        }
        at += count;
    }
    return at;
}

static td_status take_gradient(probe *p, td_error *error) {
    td_trainer *trainer = p->trainer;
    td__pass *pass = &trainer->pass;
    size_t count = trainer->learner.weight_count;
    td_tape_seed(pass->tape, trainer->experiment->seed, (uint64_t)trainer->at.step + 1);
    td_tape_set_training(pass->tape, true);
    td_status status = td__pass_forward(pass, p->batch, error);
    status = status ? status
                    : td__pass_backward(pass, count, count, trainer->learner.targets,
                                        trainer->learner.gradients, NULL, error);
    if (!status) {
        gather(trainer->learner.gradients, count, p->gradient);
    }
    td__pass_end(pass);
    (void)copy_others(p, true);
    return status;
}

/* product = H vector, of a vector of length 1 */
static td_status multiply(probe *p, td_error *error) {
    p->products++;
    move_weights(p, p->step);
    td_status status = take_gradient(p, error);
    memcpy(p->product, p->gradient, (size_t)p->count * sizeof *p->product);
    move_weights(p, -p->step);
    status = status ? status : take_gradient(p, error);
    for (int64_t i = 0; i < p->count; i++) {
        p->product[i] = (float)(((double)p->product[i] - (double)p->gradient[i]) / (2 * p->step));
    }
    return status;
}

/* False: it has no direction. */
static bool normalize(probe *p) {
    double length = sqrt(td__dot(p->count, p->vector, p->vector));
    for (int64_t i = 0; length > 0 && i < p->count; i++) {
        p->vector[i] = (float)((double)p->vector[i] / length);
    }
    return length > 0 && isfinite(length);
}

/* ---- What is computed ------------------------------------------------------------------------ */

/* The eigenvalue of greatest magnitude of H - shift; *left bounds how far an eigenvalue is from it. */
static td_status iterate(probe *p, double shift, double *value, double *left, td_error *error) {
    td__random random;
    td__random_seed(&random, 0, 0);
    for (int64_t i = 0; i < p->count; i++) {
        p->vector[i] = (float)td__random_normal(&random);
    }
    td_status status = TD_OK;
    *value = 0;
    *left = 0;
    for (int k = 0; !status && k < MAX_PRODUCTS && normalize(p); k++) {
        status = multiply(p, error);
        for (int64_t i = 0; i < p->count; i++) {
            p->product[i] -= (float)(shift * (double)p->vector[i]);
        }
        double square = td__dot(p->count, p->product, p->product);
        *value = td__dot(p->count, p->vector, p->product);
        *left = sqrt(fmax(0, square - *value * *value));
        if (!isfinite(*value) || *left <= TOLERANCE * fabs(*value)) {
            break;
        }
        memcpy(p->vector, p->product, (size_t)p->count * sizeof *p->vector);
    }
    return status;
}

/* Where the eigenvalue of greatest magnitude is negative, H shifted by it has the largest as its greatest. */
static td_status record_eigenvalue(probe *p, td_error *error) {
    double value, left, shift = 0;
    td_status status = iterate(p, 0, &value, &left, error);
    if (!status && value < 0) {
        shift = value;
        status = iterate(p, shift, &value, &left, error);
    }
    value += shift;
    if (status || !isfinite(value)) {
        return status;
    }
    (void)td_signal_scalar(entry_of(p->trainer, MAX_EIGENVALUE)->signal, value);
    if (left > TOLERANCE * fabs(value) && !p->trainer->curvature.noted) {
        char text[160];
        p->trainer->curvature.noted = true;
        (void)snprintf(text, sizeof text,
                       "hessian.max_eigenvalue of step %lld is within %.3g, after %d products",
                       (long long)p->trainer->at.step + 1, left, p->products);
        (void)td_deck_note(p->trainer->recording.deck, "hessian", text);
    }
    return TD_OK;
}

static td_status record_along_update(probe *p, td_error *error) {
    for (int64_t i = 0; i < p->count; i++) {
        p->vector[i] = p->weights[i] - p->trainer->curvature.before[i];
    }
    if (!normalize(p)) {
        return TD_OK;
    }
    td_status status = multiply(p, error);
    double value = td__dot(p->count, p->vector, p->product);
    if (!status && isfinite(value)) {
        (void)td_signal_scalar(entry_of(p->trainer, UPDATE_CURVATURE)->signal, value);
    }
    return status;
}

static td_status compute_all(probe *p, td_error *error) {
    td_trainer *trainer = p->trainer;
    td__pass_signals *signals = trainer->pass.signals;
    gather(trainer->learner.weights, trainer->learner.weight_count, p->weights);
    (void)copy_others(p, false);
    p->step = STEP * fmax(1, sqrt(td__dot(p->count, p->weights, p->weights)));
    trainer->pass.signals = NULL;
    bool eigenvalue = td__pass_signals_want(&trainer->signals, entry_of(trainer, MAX_EIGENVALUE));
    td_status status = trainer->curvature.has_before ? record_along_update(p, error) : TD_OK;
    status = status || !eigenvalue ? status : record_eigenvalue(p, error);
    restore_weights(p);
    trainer->pass.signals = signals;
    return status;
}

void td__curvature_record(td_trainer *trainer, const td_batch *batch) {
    if (!wants(trainer, MAX_EIGENVALUE) && !wants(trainer, UPDATE_CURVATURE)) {
        return;
    }
    td_error error = {0};
    td_status status = TD_OK;
    probe p = {.trainer = trainer, .batch = batch, .count = count_weights(trainer)};
    if (trainer->shards.count > 1) {
        status = td_error_set(&error, TD_INVALID,
                              "hessian.* is not recorded where a batch is cut into parts");
    } else {
        size_t count = (size_t)p.count + 1;
        p.others_count = copy_others(&p, false);
        float *room = td__calloc(4 * count + p.others_count, sizeof *room);
        if (room) {
            p.weights = room;
            p.vector = room + count;
            p.product = room + 2 * count;
            p.gradient = room + 3 * count;
            p.others = room + 4 * count;
            status = compute_all(&p, &error);
        } else {
            status = td_error_set(&error, TD_MEMORY, "out of memory for hessian.*");
        }
        td__free(room);
    }
    if (status) {
        td__trainer_unrecorded(trainer, &error);
    }
}
