/* Comparison, diagnosis, assertions. */
#include "mcp_values.h"

#include "tapedeck/diagnose.h"
#include "tapedeck/replay.h"

#include <string.h>

/* ---- compare_runs --------------------------------------------------------------------------- */

static json_t *comparison_answer(const td_comparison *found) {
    enum { SHOWN = 100 };
    json_t *differences = json_array(), *parted = json_array();
    for (size_t i = 0; i < found->difference_count && i < SHOWN; i++) {
        (void)json_array_append_new(
            differences, json_pack("{s:s, s:o}", "only_in", found->differences[i].run ? "b" : "a",
                                   "text", mcp_words(found->differences[i].text)));
    }
    for (size_t i = 0; i < found->parting_count && i < SHOWN; i++) {
        const td_parting *p = &found->partings[i];
        (void)json_array_append_new(parted, json_pack("{s:o, s:s, s:I, s:o, s:o}", "signal",
                                                      mcp_words(p->signal), "by", p->by, "step",
                                                      (json_int_t)p->step, "a", mcp_number(p->a),
                                                      "b", mcp_number(p->b)));
    }
    return json_pack("{s:I, s:I, s:o, s:I, s:o}", "signals_compared", (json_int_t)found->compared,
                     "signals_parted", (json_int_t)found->parting_count, "parted", parted,
                     "settings_that_differ", (json_int_t)found->difference_count, "settings",
                     differences);
}

json_t *mcp_compare_runs(const char *folder, const json_t *arguments, td_error *error) {
    td_run *a = mcp_open_run(folder, mcp_text(arguments, "a", ""), error);
    td_run *b = a ? mcp_open_run(folder, mcp_text(arguments, "b", ""), error) : NULL;
    td_compare_options options = {.size = sizeof options,
                                  .what = mcp_text(arguments, "signals", NULL),
                                  .tolerance =
                                      json_number_value(json_object_get(arguments, "tolerance"))};
    td_comparison *found = b ? td_run_compare(a, b, &options, error) : NULL;
    json_t *made = found ? comparison_answer(found) : NULL;
    td_comparison_destroy(found);
    td_run_close(a);
    td_run_close(b);
    return made;
}

/* ---- diagnose_run, assert_run --------------------------------------------------------------- */

static json_t *finding_answer(const td_diagnosis_finding *f) {
    enum { SHOWN = 10 };
    json_t *evidence = json_array(), *edits = json_array();
    for (size_t i = 0; i < f->evidence_count && i < SHOWN; i++) {
        (void)json_array_append_new(evidence, mcp_words(f->evidence[i].text));
    }
    for (size_t i = 0; i < f->edit_count && i < SHOWN; i++) {
        (void)json_array_append_new(edits, mcp_words(f->edits[i]));
    }
    json_t *made =
        json_pack("{s:o, s:o, s:o, s:I, s:s, s:o, s:o, s:o}", "cause", mcp_words(f->cause), "text",
                  mcp_words(f->text), "layer", mcp_words(f->layer), "since_step",
                  (json_int_t)f->since_step, "confidence", td_confidence_name(f->confidence),
                  "evidence", evidence, "remedy", mcp_words(f->remedy), "edits", edits);
    if (f->origin) {
        mcp_put(made, "origin",
                json_pack("{s:o, s:o, s:o, s:I, s:I}", "cause", mcp_words(f->origin->cause),
                          "layer", mcp_words(f->origin->layer), "parameter",
                          mcp_words(f->origin->parameter), "row", (json_int_t)f->origin->row,
                          "step", (json_int_t)f->origin->step));
    }
    return made;
}

json_t *mcp_diagnose_run(const char *folder, const json_t *arguments, td_error *error) {
    char path[MCP_MAX_PATH];
    td_diagnose_options options = {.size = sizeof options, .no_trial = true};
    td_diagnosis *diagnosis = mcp_find_run(folder, mcp_text(arguments, "run", ""), path, error)
                                  ? td_diagnose(path, &options, error)
                                  : NULL;
    if (!diagnosis) {
        return NULL;
    }
    json_t *findings = json_array(), *notes = json_array();
    size_t count = td_diagnosis_finding_count(diagnosis);
    for (size_t i = 0; i < count && i < 20; i++) {
        (void)json_array_append_new(findings,
                                    finding_answer(td_diagnosis_finding_at(diagnosis, i)));
    }
    const char *const *texts;
    size_t noted = td_diagnosis_notes(diagnosis, &texts);
    for (size_t i = 0; i < noted && i < 20; i++) {
        (void)json_array_append_new(notes, mcp_words(texts[i]));
    }
    json_t *made = json_pack("{s:o, s:I, s:I, s:I, s:o}", "findings", findings, "finding_count",
                             (json_int_t)count, "rules",
                             (json_int_t)td_diagnosis_rule_count(diagnosis), "rules_skipped",
                             (json_int_t)td_diagnosis_skipped_count(diagnosis), "notes", notes);
    td_diagnosis_destroy(diagnosis);
    return made;
}

static void add_term(void *user, const td_term *term) {
    (void)json_array_append_new(user,
                                json_pack("{s:o, s:b, s:o}", "text", mcp_words(term->text), "holds",
                                          term->holds, "values", mcp_words(term->values)));
}

json_t *mcp_assert_run(const char *folder, const json_t *arguments, td_error *error) {
    td_run *run = mcp_open_run(folder, mcp_text(arguments, "run", ""), error);
    json_t *terms = json_array();
    bool holds = false;
    td_status status = run ? td_run_assert(run, mcp_text(arguments, "expression", ""), &holds,
                                           add_term, terms, error)
                           : TD_NOT_FOUND;
    td_run_close(run);
    if (status) {
        json_decref(terms);
        return NULL;
    }
    return json_pack("{s:b, s:o}", "holds", holds, "terms", terms);
}

/* ---- origin --------------------------------------------------------------------------------- */

static json_t *operation_answer(const td_operation *o) {
    if (!o) {
        return json_null();
    }
    json_t *object = json_object(), *operands = json_array();
    mcp_put(object, "step", json_integer(o->step));
    mcp_put(object, "phase", mcp_words(o->phase));
    mcp_put(object, "layer", mcp_words(o->layer));
    mcp_put(object, "kind", mcp_words(o->kind));
    mcp_put(object, "tensor", mcp_words(o->tensor));
    mcp_put(object, "element", json_integer(o->element));
    for (size_t i = 0; i < o->operand_count && i < MCP_MAX_LISTED; i++) {
        json_t *operand = json_object();
        mcp_put(operand, "name", mcp_words(o->operands[i].name));
        mcp_put(operand, "min", mcp_number(o->operands[i].stats.min));
        mcp_put(operand, "max", mcp_number(o->operands[i].stats.max));
        (void)json_array_append_new(operands, operand);
    }
    mcp_put(object, "operands", operands);
    return object;
}

json_t *mcp_origin(const char *folder, const json_t *arguments, td_error *error) {
    char path[MCP_MAX_PATH];
    if (!mcp_find_run(folder, mcp_text(arguments, "run", ""), path, error)) {
        return NULL;
    }
    td_origin_options how = {.size = sizeof how, .what = mcp_text(arguments, "what", NULL)};
    td_origin *found = td_origin_find(path, &how, error);
    if (!found) {
        return NULL;
    }
    json_t *answer = json_object(), *rows = json_array();
    mcp_put(answer, "text", mcp_words(found->text));
    mcp_put(answer, "what", mcp_words(found->what));
    mcp_put(answer, "step", json_integer(found->step));
    mcp_put(answer, "operation", operation_answer(found->operation));
    for (size_t i = 0; i < found->row_count; i++) {
        json_t *row = json_object();
        mcp_put(row, "row", json_integer(found->rows[i].row));
        mcp_put(row, "place", mcp_words(found->rows[i].place));
        mcp_put(row, "loss", mcp_number(found->rows[i].loss));
        (void)json_array_append_new(rows, row);
    }
    mcp_put(answer, "rows", rows);
    mcp_put(answer, "differs_at", json_integer(found->differs_at));
    mcp_put(answer, "reason", mcp_words(found->reason));
    td_origin_destroy(found);
    return answer;
}
