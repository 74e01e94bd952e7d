/* Findings, of suspicions that were accepted. */
#include "diagnose/diagnosis.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const symptom_words[] = {
#define WORD(name, word) word,
    TD__SYMPTOM_LIST(WORD)
#undef WORD
};

/* Zeroed memory that the diagnosis owns; NULL when it is exhausted. */
static void *block(td_diagnosis *diagnosis, size_t count, size_t size) {
    void *made = td__calloc(count + 1, size);
    if (!made || !td__grow(&diagnosis->blocks, &diagnosis->block_capacity,
                           diagnosis->block_count + 1, 1u << 16, sizeof *diagnosis->blocks)) {
        td__free(made);
        return NULL;
    }
    diagnosis->blocks[diagnosis->block_count++] = made;
    return made;
}

static const char *layer_name(const td__case *c, ptrdiff_t layer) {
    return layer == TD__INPUT_LAYER ? "input" : layer >= 0 ? c->layers.items[layer].name : NULL;
}

static bool fill_evidence(td__case *c, const td__suspicion *s, td_diagnosis_finding *finding) {
    td_evidence *evidence =
        block(c->diagnosis, s->evidence_count + c->symptom_count, sizeof *evidence);
    const char **words = block(c->diagnosis, c->symptom_count, sizeof *words);
    if (!evidence || !words) {
        return false;
    }
    finding->evidence = evidence;
    finding->symptoms = words;
    for (size_t i = 0; i < s->evidence_count; i++) {
        evidence[finding->evidence_count++] = s->evidence[i];
    }
    /* A symptom without a cause has all others as its evidence. */
    uint32_t seen = 0, explains = s->rule->info.symptom ? UINT32_MAX : s->rule->explains;
    for (size_t i = 0; i < c->symptom_count; i++) {
        const td__symptom *symptom = &c->symptoms[i];
        uint32_t bit = 1U << symptom->index;
        if (!(explains & bit)) {
            continue;
        }
        if (!(seen & bit)) {
            words[finding->symptom_count++] = symptom_words[symptom->index];
            evidence[finding->evidence_count++] = symptom->evidence;
            bool here =
                finding->layer && symptom->layer && strcmp(symptom->layer, finding->layer) == 0;
            finding->unit = finding->unit < 0 && here ? symptom->unit : finding->unit;
            finding->since_step =
                finding->symptom_count == 1 && s->since <= 1 ? symptom->since : finding->since_step;
        }
        seen |= bit;
    }
    return true;
}

static bool fill_origin(td__case *c, const td__suspicion *s, td_diagnosis_finding *finding) {
    if (!s->origin) {
        return true;
    }
    td_finding_origin *origin = block(c->diagnosis, 1, sizeof *origin);
    if (!origin) {
        return false;
    }
    const td_model *model = c->trainer ? c->trainer->model : NULL; /* of a loop there is none */
    ptrdiff_t layer = s->origin->layer;
    if (layer < 0 && c->layers.count > 0 && /* of a loop they are not known */
        (!strcmp(s->origin->cause, "loss") || !strcmp(s->origin->cause, "update"))) {
        layer = c->layers.last; /* whose output the loss could not take */
    }
    *origin = (td_finding_origin){
        .cause = s->origin->cause,
        .layer = s->origin->where ? s->origin->where : layer_name(c, layer),
        .parameter = model && s->origin->parameter >= 0
                         ? td_model_parameter_at(model, (size_t)s->origin->parameter)->parameter
                         : NULL,
        .row = s->origin->row,
        .step = s->origin->step};
    origin->layer = origin->layer ? td__keep(c, origin->layer) : NULL;
    origin->parameter = origin->parameter ? td__keep(c, origin->parameter) : NULL;
    finding->origin = origin;
    return true;
}

static bool fill_trial(td__case *c, const td__suspicion *s, td_diagnosis_finding *finding) {
    if (!s->tried) {
        return true;
    }
    td_finding_trial *trial = block(c->diagnosis, 1, sizeof *trial);
    if (!trial) {
        return false;
    }
    bool same_loss = !s->standardize_labels;
    for (size_t i = 0; i < s->edit_count; i++) {
        same_loss &= strncmp(s->edits[i], "train.loss", 10) != 0 &&
                     strncmp(s->edits[i], "train.from_logits", 17) != 0;
    }
    const td__trial *before = &c->baseline;
    *trial = (td_finding_trial){
        .steps = s->trial.steps,
        .score_before = before->score,
        .score_after = s->trial.score,
        .loss_before = same_loss && before->points ? before->curve[before->points - 1].loss : NAN,
        .loss_after =
            same_loss && s->trial.points ? s->trial.curve[s->trial.points - 1].loss : NAN};
    finding->trial = trial;
    return true;
}

/* ---- Plots ---------------------------------------------------------------------------------- */

enum { PARTS = 48, LEAST_POINTS = 8 };

/* What shows it best: the first signal that the evidence names, else the loss. */
static const td__series *shown(td__case *c, const td_diagnosis_finding *finding,
                               td_finding_plot *plot) {
    for (size_t i = 0; i < finding->evidence_count; i++) {
        const char *signal = finding->evidence[i].signal;
        const td_run_signal *found = signal ? td_run_signal_find(c->history->run, signal) : NULL;
        if (!found) {
            continue;
        }
        plot->signal = signal;
        plot->statistic = found->forms & TD_SCALAR ? NULL : "norm";
        const td__series *series = td__series_of(c->history, signal, plot->statistic);
        if (series->count >= LEAST_POINTS) {
            return series;
        }
    }
    const td__series *loss = td__loss_of(c->history);
    plot->signal = "loss";
    plot->statistic = NULL;
    return loss;
}

static bool fill_plot(td__case *c, td_diagnosis_finding *finding) {
    td_finding_plot made = {0};
    const td__series *series = c->history ? shown(c, finding, &made) : NULL;
    if (!series || series->count < LEAST_POINTS) {
        return true;
    }
    made.count = series->count < PARTS ? series->count : PARTS;
    made.first_step = series->points[0].step;
    made.last_step = series->points[series->count - 1].step;
    double *values = block(c->diagnosis, made.count, sizeof *values);
    td_finding_plot *plot = block(c->diagnosis, 1, sizeof *plot);
    if (!values || !plot) {
        return false;
    }
    for (size_t i = 0; i < made.count; i++) {
        values[i] = td__series_mean(series, (double)i / (double)made.count,
                                    (double)(i + 1) / (double)made.count);
    }
    made.values = values;
    *plot = made;
    finding->plot = plot;
    return true;
}

static bool fill(td__case *c, const td__suspicion *s, td_diagnosis_finding *finding) {
    const char **edits = block(c->diagnosis, s->edit_count, sizeof *edits);
    const char *layer = s->where ? s->where : layer_name(c, s->layer);
    if (!edits) {
        return false;
    }
    memcpy(edits, s->edits, s->edit_count * sizeof *edits);
    *finding =
        (td_diagnosis_finding){.rule = s->rule->info.name,
                               .cause = s->rule->info.name,
                               .text = s->rule->title ? s->rule->title : s->rule->info.meaning,
                               .layer = layer ? td__keep(c, layer) : NULL,
                               .unit = s->unit,
                               .since_step = s->since,
                               .confidence = s->confidence,
                               .remedy = s->remedy,
                               .edits = edits,
                               .edit_count = s->edit_count};
    return fill_evidence(c, s, finding) && fill_origin(c, s, finding) &&
           fill_trial(c, s, finding) && fill_plot(c, finding);
}

static int by_weight(const void *a, const void *b) {
    const td__suspicion *x = *(const td__suspicion *const *)a,
                        *y = *(const td__suspicion *const *)b;
    if (x->confidence != y->confidence) {
        return x->confidence > y->confidence ? -1 : 1;
    }
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x < y ? -1 : x > y; /* in the order of the table */
}

/* Edits for experiment.fixed.yaml. */
static void collect_fix(td__case *c, const td__suspicion *const *accepted, size_t count) {
    td_diagnosis *diagnosis = c->diagnosis;
    const size_t most = sizeof diagnosis->fix / sizeof *diagnosis->fix;
    bool tuned = false;
    for (size_t i = 0; i < count; i++) {
        const td__suspicion *s = accepted[i];
        bool tuning = s->strength == TD__TUNING;
        if (s->confidence == TD_MAYBE || (tuning && (tuned || diagnosis->fix_count))) {
            continue;
        }
        tuned |= tuning;
        diagnosis->fix_redraw |= s->redraw && c->experiment->weights;
        for (size_t k = 0; k < s->edit_count && diagnosis->fix_count < most; k++) {
            diagnosis->fix[diagnosis->fix_count++] = s->edits[k];
        }
    }
    diagnosis->fix_path = diagnosis->fix_count || diagnosis->fix_redraw ? c->path : NULL;
}

td_status td__report(td__case *c, td_error *error) {
    const td__suspicion *accepted[TD__MOST_SUSPICIONS] = {0};
    size_t count = 0;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        if (c->suspicions[i].accepted) {
            accepted[count++] = &c->suspicions[i];
        }
    }
    qsort(accepted, count, sizeof *accepted, by_weight);
    td_diagnosis *diagnosis = c->diagnosis;
    collect_fix(c, accepted, count);
    diagnosis->findings = td__calloc(count + 1, sizeof *diagnosis->findings);
    bool good = diagnosis->findings;
    for (size_t i = 0; good && i < count; i++) {
        good = fill(c, accepted[i], &diagnosis->findings[diagnosis->finding_count++]);
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}
