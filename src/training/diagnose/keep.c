/* Findings in a run's table. */
#include "diagnose/diagnosis.h"

#include "base/memory.h"
#include "tapedeck/run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *text_or_null(const char *text) {
    return text ? json_string(text) : json_null();
}

static char *symptoms_json(const td_diagnosis_finding *finding) {
    json_t *list = json_array();
    for (size_t i = 0; i < finding->symptom_count; i++) {
        json_array_append_new(list, json_string(finding->symptoms[i]));
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static char *evidence_json(const td_diagnosis_finding *finding) {
    json_t *list = json_array();
    for (size_t i = 0; i < finding->evidence_count; i++) {
        const td_evidence *evidence = &finding->evidence[i];
        json_t *one = json_object();
        json_object_set_new(one, "text", text_or_null(evidence->text));
        json_object_set_new(one, "signal", text_or_null(evidence->signal));
        json_object_set_new(one, "step", json_integer(evidence->step));
        json_object_set_new(one, "value",
                            isfinite(evidence->value) ? json_real(evidence->value) : json_null());
        json_array_append_new(list, one);
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static char *origin_json(const td_finding_origin *origin) {
    if (!origin) {
        return NULL;
    }
    json_t *one = json_object();
    json_object_set_new(one, "cause", text_or_null(origin->cause));
    json_object_set_new(one, "layer", text_or_null(origin->layer));
    json_object_set_new(one, "row", origin->row >= 0 ? json_integer(origin->row) : json_null());
    char *text = json_dumps(one, JSON_COMPACT);
    json_decref(one);
    return text;
}

td_status td__findings_keep(const td_diagnosis_finding *findings, size_t count, const char *run,
                            td_error *error) {
    td_run_finding *rows = td__calloc(count + 1, sizeof *rows);
    char **texts = td__calloc(3 * count + 1, sizeof *texts);
    td_status status = rows && texts ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < count; i++) {
        const td_diagnosis_finding *f = &findings[i];
        texts[3 * i] = symptoms_json(f);
        texts[3 * i + 1] = evidence_json(f);
        texts[3 * i + 2] = origin_json(f->origin);
        rows[i] = (td_run_finding){.cause = f->cause,
                                   .layer = f->layer,
                                   .unit = f->unit,
                                   .since_step = f->since_step,
                                   .confidence = td_confidence_name(f->confidence),
                                   .severity = f->confidence == TD_SURE     ? "error"
                                               : f->confidence == TD_LIKELY ? "warning"
                                                                            : "note",
                                   .symptoms = texts[3 * i],
                                   .evidence = texts[3 * i + 1],
                                   .remedy = f->remedy,
                                   .origin = texts[3 * i + 2]};
    }
    status = status ? status : td_run_write_findings(run, rows, count, error);
    for (size_t i = 0; texts && i < 3 * count; i++) {
        free(texts[i]); // NOLINT: jansson's own
    }
    td__free(texts);
    td__free(rows);
    return status;
}

td_status td_diagnosis_keep(const td_diagnosis *diagnosis, const char *run, td_error *error) {
    char checks[64];
    (void)snprintf(checks, sizeof checks, "%zu of %zu", diagnosis->rule_count,
                   diagnosis->rule_count + diagnosis->skipped_count);
    td_status status = td__findings_keep(diagnosis->findings, diagnosis->finding_count, run, error);
    return status ? status : td_run_write_note(run, "diagnosed.checks", checks, error);
}
