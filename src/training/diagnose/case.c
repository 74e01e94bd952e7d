/* What rules say, kept. */
#include "diagnose/diagnosis.h"
#include "diagnose/rule.h"

#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXTS = 1 << 16 };

static const char *keep(td_diagnosis *diagnosis, const char *text) {
    char *copy = td__strdup(text);
    if (!copy || !td__grow(&diagnosis->texts, &diagnosis->text_capacity, diagnosis->text_count + 1,
                           MOST_TEXTS, sizeof *diagnosis->texts)) {
        td__free(copy);
        return "";
    }
    diagnosis->texts[diagnosis->text_count++] = copy;
    return copy;
}

const char *td__say(td__case *c, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return keep(c->diagnosis, text);
}

const char *td__keep(td__case *c, const char *text) {
    return keep(c->diagnosis, text);
}

void td__found(td__case *c, const char *layer, int64_t since, const char *signal, double value,
               const char *text) {
    if (c->symptom_count < TD__MOST_SYMPTOMS) {
        c->symptoms[c->symptom_count++] =
            (td__symptom){c->rule->symptom,
                          layer,
                          -1,
                          since,
                          {text, signal ? td__keep(c, signal) : NULL, since, value}};
    }
}

void td__found_unit(td__case *c, int64_t unit) {
    if (c->symptom_count > 0) {
        c->symptoms[c->symptom_count - 1].unit = unit;
    }
}

const td__symptom *td__has(const td__case *c, enum td__symptom_index index) {
    for (size_t i = 0; i < c->symptom_count; i++) {
        if (c->symptoms[i].index == index) {
            return &c->symptoms[i];
        }
    }
    return NULL;
}

bool td__has_any(const td__case *c, uint32_t symptoms) {
    for (size_t i = 0; i < c->symptom_count; i++) {
        if (symptoms & (1U << c->symptoms[i].index)) {
            return true;
        }
    }
    return false;
}

td__suspicion *td__suspect(td__case *c, td__strength strength, ptrdiff_t layer,
                           const char *remedy) {
    if (c->suspicion_count == TD__MOST_SUSPICIONS) {
        return NULL;
    }
    td__suspicion *suspicion = &c->suspicions[c->suspicion_count++];
    *suspicion = (td__suspicion){.rule = c->rule,
                                 .strength = strength,
                                 .layer = layer,
                                 .unit = -1,
                                 .since = 1,
                                 .remedy = remedy};
    return suspicion;
}

void td__because(td__suspicion *suspicion, const char *signal, int64_t step, double value,
                 const char *text) {
    if (suspicion && suspicion->evidence_count < TD__MOST_EVIDENCE) {
        suspicion->evidence[suspicion->evidence_count++] = (td_evidence){text, signal, step, value};
    }
}

void td__edit(td__suspicion *suspicion, const char *text) {
    if (suspicion && suspicion->edit_count < TD__MOST_EDITS) {
        suspicion->edits[suspicion->edit_count++] = text;
    }
}

void td__edit_layer(td__case *c, td__suspicion *suspicion, ptrdiff_t layer, const char *key,
                    const char *value) {
    if (c->experiment->layer_count) { /* a model from a file has no layers to edit */
        td__edit(suspicion,
                 td__say(c, "model.%td.%s.%s=%s", layer,
                         td_layer_kind_name(td_model_layer(c->trainer->model, (size_t)layer)->kind),
                         key, value));
    }
}

double td__rate_of(const td__case *c) {
    return c->trainer ? td_optimizer_settled(c->trainer->learner.optimizer)->learning_rate.value
                      : NAN;
}

double td__score_of(const td__case *c) {
    return c->repeated ? c->baseline.score : NAN;
}

td__origin *td__origin_new(td__case *c) {
    if (c->origin_count == sizeof c->origins / sizeof *c->origins) {
        return NULL;
    }
    td__origin *origin = &c->origins[c->origin_count++];
    *origin = (td__origin){.layer = -1, .parameter = -1, .row = -1};
    return origin;
}

double td__severity(double value, double threshold) {
    double decades = log10(value / threshold);
    return isnan(decades) ? 0 : fmin(fmax(decades, 0), 1);
}
