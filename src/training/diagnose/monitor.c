/* Rules that look on while a network trains.
 *
 * The loss is looked at in every step: a few comparisons. The outputs of layers and the gradients are
 * looked at in few steps, so few that it costs less than BUDGET of the time: per unit it is counted how
 * often it was active, and how often its activation was flat. A window of such looks is judged and
 * forgotten. What is found is a symptom, said once; `tapedeck diagnose` finds its cause. */
#include "diagnose/diagnosis.h"

#include "base/clock.h"
#include "base/memory.h"
#include "nn/kind.h"
#include "tapedeck/deck.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUDGET 0.005 /* of the time */
#define DEAD 0.9     /* of a layer's units; half of them may well be spare */
#define FLAT 0.6     /* of a layer's outputs */
#define RISEN 3.0    /* times the least smoothed loss */
#define SMOOTH 0.1   /* weight of a new loss */

enum {
    WINDOW = 8,
    MOST_UNITS = 4096,
    MOST_ROWS = 256,
    MOST_FOUND = 32,
    PATIENCE = 50,
    LEAST_EVERY = 16,
    FIRST_EVERY = 3
};

typedef enum activity { PLAIN, RECTIFIED, SQUASHED_SIGMOID, SQUASHED_TANH } activity;

typedef struct unit_counts {
    activity kind;
    int64_t units;
    uint32_t *active; /* of each unit: outputs that were not 0, in this window */
    int64_t outputs, flat;
    int64_t dead_at_first; /* of the first window; -1: none judged yet */
    bool said_dead, said_flat;
} unit_counts;

struct td_monitor {
    td_train_observer observer;
    bool on, stop_on_divergence;
    void (*report)(void *user, const char *text);
    void *user;
    td_deck *deck; /* of the step that is looked at; may be NULL */
    unit_counts *layers;
    size_t layer_count;
    uint8_t *silent; /* by gradient: how many looks in a row it was 0 */
    size_t gradient_count;
    bool judged;                   /* a window was */
    int64_t looks;                 /* in this window */
    int64_t next_look;             /* step */
    double step_ticks, last_ticks; /* smoothed time of a step; when the last one ended */
    double loss, least, first;     /* smoothed */
    int64_t least_step, risen_since;
    bool said_divergence;
    td_diagnosis_finding found[MOST_FOUND];
    td_evidence evidence[MOST_FOUND];
    char texts[MOST_FOUND][200];
    char names[MOST_FOUND][128];
    const char *symptoms[MOST_FOUND];
    size_t found_count;
    char why[220];
};

/* ---- Saying it ------------------------------------------------------------------------------ */

static void say(td_monitor *m, const char *word, const char *layer, int64_t step,
                const char *format, ...) TD_PRINTF(5, 6);

static void say(td_monitor *m, const char *word, const char *layer, int64_t step,
                const char *format, ...) {
    if (m->found_count == MOST_FOUND) {
        return;
    }
    size_t i = m->found_count++;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(m->texts[i], sizeof m->texts[i], format, arguments);
    va_end(arguments);
    (void)snprintf(m->names[i], sizeof m->names[i], "%s", layer ? layer : "");
    m->symptoms[i] = word;
    m->evidence[i] = (td_evidence){m->texts[i], NULL, step, NAN};
    m->found[i] = (td_diagnosis_finding){.rule = word,
                                         .cause = word,
                                         .text = word,
                                         .layer = layer ? m->names[i] : NULL,
                                         .unit = -1,
                                         .since_step = step,
                                         .confidence = TD_MAYBE,
                                         .symptoms = &m->symptoms[i],
                                         .symptom_count = 1,
                                         .evidence = &m->evidence[i],
                                         .evidence_count = 1,
                                         .remedy = "tapedeck diagnose says why"};
    if (m->deck) {
        (void)td_deck_raise(m->deck, word, m->texts[i]); /* what fails there, the deck reports */
    }
    if (m->report) {
        char line[300];
        (void)snprintf(line, sizeof line, "step %lld: %s: %s", (long long)step, word, m->texts[i]);
        m->report(m->user, line);
    }
}

/* ---- Units ---------------------------------------------------------------------------------- */

static activity activity_of(const td_layer_info *layer) {
    switch (td__layer_activation(layer)) {
    case TD_RELU:
        return RECTIFIED;
    case TD_SIGMOID:
        return SQUASHED_SIGMOID;
    case TD_TANH:
        return SQUASHED_TANH;
    default:
        return PLAIN;
    }
}

static bool open_layers(td_monitor *m, const td_model *model) {
    m->layer_count = td_model_layer_count(model);
    m->layers = td__calloc(m->layer_count + 1, sizeof *m->layers);
    for (size_t i = 0; m->layers && i < m->layer_count; i++) {
        const td_layer_info *info = td_model_layer(model, i);
        bool last = i + 1 == m->layer_count; /* what is flat there is an answer */
        int64_t units = info->output.rank ? info->output.dims[info->output.rank - 1] : 0;
        unit_counts *layer = &m->layers[i];
        layer->kind = last || units < 2 || units > MOST_UNITS ? PLAIN : activity_of(info);
        layer->units = units;
        layer->dead_at_first = -1;
        layer->active =
            layer->kind == RECTIFIED ? td__calloc((size_t)units, sizeof *layer->active) : NULL;
        layer->kind = layer->kind == RECTIFIED && !layer->active ? PLAIN : layer->kind;
    }
    return m->layers;
}

static void count_active(unit_counts *layer, const float *values, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < layer->units; u++) {
            layer->active[u] += values[r * layer->units + u] != 0;
        }
    }
}

static void count_flat(unit_counts *layer, const float *values, int64_t rows) {
    float low = layer->kind == SQUASHED_TANH ? -0.99F : 0.01F;
    for (int64_t i = 0; i < rows * layer->units; i++) {
        layer->flat += values[i] < low || values[i] > 0.99F;
    }
}

static void look_at_units(td_monitor *m, const td_model *model) {
    for (size_t i = 0; i < m->layer_count; i++) {
        unit_counts *layer = &m->layers[i];
        const td_tensor *output = layer->kind == PLAIN ? NULL : td_model_output_at(model, i);
        if (!output || output->dtype != TD_FLOAT32 || output->count % layer->units != 0) {
            continue;
        }
        int64_t rows = output->count / layer->units;
        rows = rows < MOST_ROWS ? rows : MOST_ROWS;
        layer->outputs += rows * layer->units;
        if (layer->kind == RECTIFIED) {
            count_active(layer, td__floats(output), rows);
        } else {
            count_flat(layer, td__floats(output), rows);
        }
    }
}

static void judge_dead(td_monitor *m, unit_counts *layer, const char *name, int64_t step) {
    int64_t dead = 0;
    for (int64_t u = 0; u < layer->units; u++) {
        dead += layer->active[u] == 0;
    }
    bool first = layer->dead_at_first < 0;
    layer->dead_at_first = first ? dead : layer->dead_at_first;
    bool grown = dead > 2 * layer->dead_at_first || (first && dead == layer->units);
    if (!layer->said_dead && (double)dead > DEAD * (double)layer->units && grown) {
        layer->said_dead = true;
        say(m, "dead_relu", name, step, "%.100s: %lld of %lld units are never active", name,
            (long long)dead, (long long)layer->units);
    }
    memset(layer->active, 0, (size_t)layer->units * sizeof *layer->active);
}

static void judge_window(td_monitor *m, const td_model *model, int64_t step) {
    for (size_t i = 0; i < m->layer_count; i++) {
        unit_counts *layer = &m->layers[i];
        const char *name = td_model_layer(model, i)->name;
        if (layer->outputs == 0) {
            continue;
        }
        double flat = (double)layer->flat / (double)layer->outputs;
        if (layer->kind == RECTIFIED) {
            judge_dead(m, layer, name, step);
        } else if (!layer->said_flat && flat > FLAT) {
            layer->said_flat = true;
            say(m, "saturated_units", name, step, "%.100s: %.0f %% of its outputs are saturated",
                name, 100 * flat);
        }
        layer->outputs = layer->flat = 0;
    }
    m->looks = 0;
    m->judged = true;
}

/* ---- Gradients ------------------------------------------------------------------------------ */

static bool is_zero(const td_tensor *tensor) {
    const float *values = td__floats(tensor);
    for (int64_t i = 0; i < tensor->count; i++) {
        if (values[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The first number of a gradient that is not 0 ends the look: next to nothing, as a rule. */
static void look_at_gradients(td_monitor *m, const td_train_step *step) {
    if (!m->silent && step->gradient_count) {
        m->silent = td__calloc(step->gradient_count, 1);
        m->gradient_count = m->silent ? step->gradient_count : 0;
    }
    td_tensor *const *weights;
    size_t count = td_model_trainable(step->model, &weights), zeros = 0;
    const char *first = NULL;
    for (size_t i = 0; i < m->gradient_count && i < count; i++) {
        const td_tensor *gradient = step->gradients[i];
        if (!gradient || gradient->dtype != TD_FLOAT32 || m->silent[i] > WINDOW) {
            continue;
        }
        m->silent[i] = is_zero(gradient) ? (uint8_t)(m->silent[i] + 1) : 0;
        if (m->silent[i] == WINDOW) {
            m->silent[i]++; /* said */
            first = first ? first : weights[i]->name;
            zeros++;
        }
    }
    if (zeros) {
        say(m, "zero_gradient", NULL, step->step, "the gradient of %.100s%s is 0", first,
            zeros > 1 ? " and others" : "");
    }
}

/* ---- The loss ------------------------------------------------------------------------------- */

static const char *judge_loss(td_monitor *m, const td_train_step *step) {
    if (!isfinite(step->loss)) {
        say(m, isnan(step->loss) ? "nan_loss" : "inf_loss", NULL, step->step, "the loss is %s",
            isnan(step->loss) ? "NaN" : "infinite");
        return NULL;
    }
    bool first = isnan(m->loss);
    m->loss = first ? step->loss : m->loss + SMOOTH * (step->loss - m->loss);
    if (first || m->loss < m->least) {
        m->least = m->loss;
        m->least_step = step->step;
    }
    m->first = first ? step->loss : m->first;
    bool risen = m->loss > RISEN * m->least && m->loss > m->first && m->loss > 0;
    m->risen_since = !risen ? 0 : m->risen_since ? m->risen_since : step->step;
    if (!risen || step->step - m->risen_since < PATIENCE || m->said_divergence) {
        return NULL;
    }
    m->said_divergence = true;
    say(m, "divergence", NULL, m->least_step, "the loss has risen from %.3g (step %lld) to %.3g",
        m->least, (long long)m->least_step, m->loss);
    (void)snprintf(m->why, sizeof m->why,
                   "the loss has risen from %.3g (step %lld) to %.3g, and stop_on has divergence",
                   m->least, (long long)m->least_step, m->loss);
    return m->stop_on_divergence ? m->why : NULL;
}

/* ---- A step --------------------------------------------------------------------------------- */

static const char *see(void *user, const td_train_step *step) {
    td_monitor *m = user;
    if (!m->on) {
        return NULL;
    }
    m->deck = step->deck;
    const char *stop = judge_loss(m, step);
    double began = (double)td__ticks();
    if (m->last_ticks > 0) {
        double took = began - m->last_ticks;
        m->step_ticks = m->step_ticks > 0 ? 0.9 * m->step_ticks + 0.1 * took : took;
    }
    if (step->step >= m->next_look && step->gradients) {
        if (!m->layers && !open_layers(m, step->model)) {
            m->on = false;
            return stop;
        }
        look_at_units(m, step->model);
        look_at_gradients(m, step);
        if (++m->looks == WINDOW) {
            judge_window(m, step->model, step->step);
        }
        double cost = (double)td__ticks() - began;
        double every = m->step_ticks > 0 ? cost / (BUDGET * m->step_ticks) : 0;
        every = fmin(fmax(every, m->judged ? LEAST_EVERY : FIRST_EVERY), 1e6);
        m->next_look = step->step + (int64_t)every;
    }
    m->last_ticks = (double)td__ticks();
    return stop;
}

/* ---- The object ----------------------------------------------------------------------------- */

td_monitor *td_monitor_create(const td_experiment *experiment,
                              void (*report)(void *user, const char *text), void *user) {
    td_monitor *m = td__calloc(1, sizeof *m);
    if (m) {
        m->observer = (td_train_observer){.size = sizeof m->observer, .user = m, .step = see};
        m->on = experiment->diagnose || experiment->stop_on_divergence;
        m->stop_on_divergence = experiment->stop_on_divergence;
        m->report = report;
        m->user = user;
        m->loss = NAN;
    }
    return m;
}

void td_monitor_destroy(td_monitor *monitor) {
    if (!monitor) {
        return;
    }
    for (size_t i = 0; monitor->layers && i < monitor->layer_count; i++) {
        td__free(monitor->layers[i].active);
    }
    td__free(monitor->layers);
    td__free(monitor->silent);
    td__free(monitor);
}

const td_train_observer *td_monitor_observer(td_monitor *monitor) {
    return &monitor->observer;
}

bool td_monitor_is_on(const td_monitor *monitor) {
    return monitor->on;
}

size_t td_monitor_count(const td_monitor *monitor) {
    return monitor->found_count;
}

td_status td_monitor_keep(const td_monitor *monitor, const char *run, td_error *error) {
    return monitor->found_count
               ? td__findings_keep(monitor->found, monitor->found_count, run, error)
               : TD_OK;
}
