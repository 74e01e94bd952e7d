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

const char *td__say(td__case *of, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return keep(of->diagnosis, text);
}

const char *td__keep(td__case *of, const char *text) {
    return keep(of->diagnosis, text);
}

void td__found(td__case *of, const char *layer, int64_t since, const char *signal, double value,
               const char *text) {
    if (of->symptom_count < TD__MOST_SYMPTOMS) {
        of->symptoms[of->symptom_count++] =
            (td__symptom){of->rule->symptom,
                          layer,
                          -1,
                          since,
                          {text, signal ? td__keep(of, signal) : NULL, since, value}};
    }
}

void td__found_unit(td__case *of, int64_t unit) {
    if (of->symptom_count > 0) {
        of->symptoms[of->symptom_count - 1].unit = unit;
    }
}

const td__symptom *td__has(const td__case *of, enum td__symptom_index index) {
    for (size_t i = 0; i < of->symptom_count; i++) {
        if (of->symptoms[i].index == index) {
            return &of->symptoms[i];
        }
    }
    return NULL;
}

bool td__has_any(const td__case *of, uint32_t symptoms) {
    for (size_t i = 0; i < of->symptom_count; i++) {
        if (symptoms & (1U << of->symptoms[i].index)) {
            return true;
        }
    }
    return false;
}

td__suspicion *td__suspect(td__case *of, td__strength strength, ptrdiff_t layer,
                           const char *remedy) {
    if (of->suspicion_count == TD__MOST_SUSPICIONS) {
        return NULL;
    }
    td__suspicion *suspicion = &of->suspicions[of->suspicion_count++];
    *suspicion = (td__suspicion){.rule = of->rule,
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

void td__edit_layer(td__case *of, td__suspicion *suspicion, ptrdiff_t layer, const char *key,
                    const char *value) {
    if (of->experiment->layer_count) { /* a model from a file has no layers to edit */
        td__edit(suspicion, td__say(of, "model.%td.%s.%s=%s", layer,
                                    td_layer_kind_name(
                                        td_model_layer(of->trainer->model, (size_t)layer)->kind),
                                    key, value));
    }
}

double td__rate_of(const td__case *of) {
    return of->trainer ? td_optimizer_settled(of->trainer->learner.optimizer)->learning_rate.value
                       : NAN;
}

double td__score_of(const td__case *of) {
    return of->repeated ? of->baseline.score : NAN;
}

td__origin *td__origin_new(td__case *of) {
    if (of->origin_count == sizeof of->origins / sizeof *of->origins) {
        return NULL;
    }
    td__origin *origin = &of->origins[of->origin_count++];
    *origin = (td__origin){.layer = -1, .parameter = -1, .row = -1};
    return origin;
}

double td__severity(double value, double threshold) {
    double decades = log10(value / threshold);
    return isnan(decades) ? 0 : fmin(fmax(decades, 0), 1);
}
