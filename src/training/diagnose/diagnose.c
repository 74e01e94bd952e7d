/* A diagnosis: the case is gathered, rules look at it, the judge decides. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"
#include "diagnose/probe.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/words.h"
#include "deck/glob.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_STEPS = 20000, MOST_NOTES = 1024 };
#define VANISHED 1e-3 /* of a signal's size, from one end of the network to the other */

const char *td_confidence_name(td_confidence confidence) {
    static const char *const names[] = {"maybe", "likely", "sure"};
    return (size_t)confidence < sizeof names / sizeof *names ? names[confidence] : names[0];
}

void td__note(td_diagnosis *diagnosis, const char *text) {
    if (td__grow(&diagnosis->notes, &diagnosis->note_capacity, diagnosis->note_count + 1,
                 MOST_NOTES, sizeof *diagnosis->notes)) {
        diagnosis->notes[diagnosis->note_count++] = text;
    }
}

/* ---- The case ------------------------------------------------------------------------------- */

static td_status gather(td__case *c, td_error *error) {
    td_status status = td__facts_gather(&c->facts, c->trainer, c->history != NULL, error);
    if (!status) {
        status = td__layers_gather(&c->layers, c->trainer, error);
    }
    if (!status) {
        status = td__layers_look(&c->layers, c->trainer, false, error);
    }
    c->known = !status;
    return status;
}

/* Every run of an experiment has its file among its notes. */
static void see_experiment(void *user, const char *key, const char *value) {
    (void)value;
    *(bool *)user |= strcmp(key, "yaml") == 0;
}

/* The experiment of a run, if it can be had; otherwise why not is noted. A run that another program
 * recorded has none. */
static void open_experiment(td__case *c) {
    td_error reason = {0};
    bool expected = false;
    (void)td_run_notes(c->history->run, "experiment", see_experiment, &expected, NULL);
    if (!expected && access(c->path, F_OK) != 0) {
        c->path = NULL;
        return;
    }
    td__trial_options options = {.path = c->path};
    c->trainer = td__trial_open(&options, &c->experiment, &reason);
    if (!c->trainer || gather(c, &reason)) {
        td__note(c->diagnosis, td__say(c, "the run cannot be repeated: %s", reason.text));
    }
}

static td_status look_after(void *user, td_trainer *trainer, td_error *error) {
    return td__layers_look(user, trainer, true, error);
}

static void repeat(td__case *c, double seconds) {
    td_error reason = {0};
    int64_t seen = c->history->last_step, planned = c->trainer->feed.steps;
    int64_t steps = seen > 0 && seen < planned ? seen : planned; /* it may have recorded nothing */
    c->steps = steps < MOST_STEPS ? steps : MOST_STEPS;
    td__trial_options options = {.path = c->path,
                                 .steps = c->steps,
                                 .seconds = seconds,
                                 .task = &c->facts.task,
                                 .visit = look_after,
                                 .user = &c->layers};
    if (c->steps < 1 || td__trial_run(&options, &c->baseline, &reason)) {
        td__note(c->diagnosis, td__say(c, "the run cannot be repeated: %s", reason.text));
        return;
    }
    c->repeated = true;
    if (c->baseline.complete) {
        c->whole = c->steps == steps;
    } else if (c->baseline.origin.cause) { /* a trial may get farther than the run did */
        c->steps = c->trainer->feed.steps < MOST_STEPS ? c->trainer->feed.steps : MOST_STEPS;
    } else {
        c->steps = c->baseline.steps;
    }
}

static void release(td__case *c) {
    td__facts_release(&c->facts);
    td__layers_release(&c->layers);
    if (!c->lent) {
        td_trainer_destroy(c->trainer);
        td_experiment_destroy(c->experiment);
    }
    td__loop_release(c);
    td__history_close(c->history);
    td__free(c);
}

/* ---- Rules ---------------------------------------------------------------------------------- */

/* Whether a name is one of the globs, separated by commas. */
static bool is_among(const char *globs, const char *name) {
    return td_run_matches(globs, name);
}

bool td__rule_is_wanted(const td__rule *rule, const char *only, const char *ignore) {
    return (!only || is_among(only, rule->info.name)) &&
           (!ignore || !is_among(ignore, rule->info.name));
}

/* Every glob must mean a rule: one that means none would check nothing, or ignore nothing. */
static td_status check_globs(const char *option, const char *globs, td_error *error) {
    size_t count = 0, rules = 0;
    const char *names[256];
    for (; rules < sizeof names / sizeof *names && td__rules[rules]; rules++) {
        names[rules] = td__rules[rules]->info.name;
    }
    char **patterns = globs ? td__glob_split(globs, &count) : NULL;
    td_status status = globs && !patterns ? td_error_set(error, TD_MEMORY, "out of memory") : TD_OK;
    for (size_t i = 0; !status && i < count; i++) {
        bool meant = false;
        for (size_t k = 0; k < rules && !meant; k++) {
            meant = td__glob_match(patterns[i], names[k]);
        }
        if (!meant) {
            char hint[TD__HINT_ROOM];
            status = td_error_set(error, TD_INVALID, "--%s: there is no rule '%s'%s", option,
                                  patterns[i], td__word_meant(hint, patterns[i], names, rules));
        }
    }
    td__free(patterns);
    return status;
}

static td_status check_names(const char *only, const char *ignore, td_error *error) {
    td_status status = check_globs("only", only, error);
    return status ? status : check_globs("ignore", ignore, error);
}

/* That nothing was looked at is not the same as that nothing was found. */
static td_status check_count(const td__case *c, td_error *error) {
    return c->diagnosis->rule_count + c->diagnosis->skipped_count
               ? TD_OK
               : td_error_set(error, TD_INVALID,
                              c->history ? "no rule is left to look at the run"
                                         : "no rule is left to look at an experiment before it "
                                           "trains; others look at a run: tapedeck diagnose RUN");
}

static void apply_rules(td__case *c, const char *only, const char *ignore) {
    for (size_t i = 0; td__rules[i]; i++) {
        const td__rule *rule = td__rules[i];
        bool wanted = rule->info.symptom || td__rule_is_wanted(rule, only, ignore);
        bool several = c->trainer && c->trainer->head_count > 1;
        bool heads = several && rule->each_head;
        if (wanted && (c->history || !rule->after) && (heads || !(rule->one_output && several))) {
            bool counts = td__rule_is_wanted(rule, only, ignore), able = td__rule_can_look(c, rule);
            c->rule = rule;
            if (heads) {
                td__look_at_heads(c, rule);
            } else if ((rule->each_head || rule->each_loop_head) && td__loop_has(c, "heads")) {
                td__look_at_loop_heads(c, rule);
            } else {
                rule->find(c);
            }
            c->diagnosis->rule_count += counts && able;
            c->diagnosis->skipped_count += counts && !able && !td__rule_is_on_request(rule);
        }
    }
}

/* ---- The whole ------------------------------------------------------------------------------ */

static td__case *start(td_diagnosis *diagnosis) {
    td__case *c = diagnosis ? td__calloc(1, sizeof *c) : NULL;
    if (c) {
        c->diagnosis = diagnosis;
    }
    return c;
}

static td_status diagnose(td__case *c, const char *run, const td_diagnose_options *options,
                          td_error *error) {
    td_status named = check_names(options->only, options->ignore, error);
    if (named) {
        return named;
    }
    c->history = td__history_open(run, error);
    if (!c->history) {
        return error && error->status ? error->status : TD_IO;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(c->history->run, &info);
    char files[PATH_MAX];
    bool here = td_run_files(c->history->run, files, sizeof files, NULL) == TD_OK;
    c->folder = td__keep(c, here ? files : info.folder);
    c->path = td__say(c, "%s/experiment.yaml", c->folder);
    td__loop_read(c);
    if (!info.events) {
        open_experiment(c);
    }
    double seconds = options->seconds > 0 ? options->seconds : 60;
    if (c->known && !options->no_trial) {
        repeat(c, seconds / 4);
    }
    c->available = td__needs_available(c);
    apply_rules(c, options->only, options->ignore);
    td__note_skipped(c, options->only, options->ignore);
    td_status status = check_count(c, error);
    status = status ? status : td__judge(c, options, error);
    if (!status && options->baseline_count) {
        status = td__compare_with(c, options->baseline, options->baseline_count, error);
    }
    return status ? status : td__report(c, error);
}

/* The diagnosis; NULL after an error. c may be NULL. */
static td_diagnosis *finish(td_diagnosis *diagnosis, td__case *c, td_status status) {
    if (c) {
        release(c);
    }
    if (status) {
        td_diagnosis_destroy(diagnosis);
        return NULL;
    }
    return diagnosis;
}

td_diagnosis *td_diagnose(const char *run, const td_diagnose_options *options, td_error *error) {
    td_diagnose_options settled;
    (void)td__options(&settled, sizeof settled, options);
    td_diagnosis *diagnosis = td__calloc(1, sizeof *diagnosis);
    td__case *c = start(diagnosis);
    td_status status =
        c ? diagnose(c, run, &settled, error) : td_error_set(error, TD_MEMORY, "out of memory");
    return finish(diagnosis, c, status);
}

/* ---- Before training ------------------------------------------------------------------------ */

/* Nothing has run: what cannot be meant is reported, and the rest as what may do harm. */
static void judge_unrun(td__case *c) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        s->accepted = s->strength >= TD__STRUCTURE;
        s->confidence = s->strength >= TD__CONTRADICTION ? TD_SURE : TD_MAYBE;
        s->weight = (double)s->strength + s->severity / 2;
    }
}

/* What is worth knowing of the data and is no fault by itself. */
static void note_data(td__case *c) {
    const td__facts *facts = &c->facts;
    td_names remarks = c->trainer->feed.info->remarks;
    for (size_t i = 0; i < remarks.count; i++) {
        td__note(c->diagnosis, td__keep(c, remarks.items[i]));
    }
    if (facts->constant_columns && facts->table) {
        td__note(c->diagnosis,
                 td__say(c, "%lld of %lld input columns never change",
                         (long long)facts->constant_columns, (long long)facts->width));
    }
    if (facts->duplicates) {
        td__note(c->diagnosis,
                 td__say(c, "%lld of the validation examples looked at are training examples too",
                         (long long)facts->duplicates));
    }
    if (c->trainer->feed.info->batch > facts->rows) {
        td__note(c->diagnosis,
                 td__say(c, "a batch is %lld examples, and there are %lld",
                         (long long)c->trainer->feed.info->batch, (long long)facts->rows));
    }
}

/* How the untrained network passes signals on: where variance is lost or made. */
static void note_flow(td__case *c) {
    const td__layers *layers = &c->layers;
    if (layers->first < 0 || layers->first == layers->last) {
        return;
    }
    const td__layer_facts *first = &layers->items[layers->first];
    const td__layer_facts *last = &layers->items[layers->last];
    double back = last->start.error > 0 ? first->start.error / last->start.error : 1;
    double forward =
        first->start.deviation > 0 ? last->start.deviation / first->start.deviation : 1;
    if (back < VANISHED || back > 1 / VANISHED || forward < VANISHED || forward > 1 / VANISHED) {
        td__note(
            c->diagnosis,
            td__say(c,
                    "before training, outputs have deviation %.2g at %s and %.2g at %s; errors "
                    "%.2g and %.2g",
                    first->start.deviation, first->name, last->start.deviation, last->name,
                    first->start.error, last->start.error));
    }
}

static td_status check(td__case *c, const char *experiment, const td_check_options *options,
                       td_error *error) {
    td_status named = check_names(options->only, options->ignore, error);
    if (named) {
        return named;
    }
    c->path = td__keep(c, experiment);
    td__trial_options opening = {.path = c->path,
                                 .set = options->set,
                                 .set_count = options->set_count,
                                 .problem = options->problem,
                                 .user = options->user,
                                 .while_reading = options->while_reading};
    c->lent = options->trainer != NULL;
    if (c->lent) {
        c->trainer = options->trainer;
        c->experiment = c->trainer->experiment;
    } else {
        c->trainer = td__trial_open(&opening, &c->experiment, error);
    }
    td_status status = c->trainer ? gather(c, error) : TD_INVALID;
    if (status) {
        return status;
    }
    c->available = td__needs_available(c);
    apply_rules(c, options->only, options->ignore);
    status = check_count(c, error);
    if (status) {
        return status;
    }
    judge_unrun(c);
    note_data(c);
    note_flow(c);
    status = options->probe ? td__probe(c, options, error) : TD_OK;
    return status ? status : td__report(c, error);
}

td_diagnosis *td_check(const char *experiment, const td_check_options *options, td_error *error) {
    td_check_options settled;
    (void)td__options(&settled, sizeof settled, options);
    td_diagnosis *diagnosis = td__calloc(1, sizeof *diagnosis);
    td__case *c = start(diagnosis);
    td_status status =
        c ? check(c, experiment, &settled, error) : td_error_set(error, TD_MEMORY, "out of memory");
    return finish(diagnosis, c, status);
}

void td_diagnosis_destroy(td_diagnosis *diagnosis) {
    if (!diagnosis) {
        return;
    }
    for (size_t i = 0; i < diagnosis->text_count; i++) {
        td__free(diagnosis->texts[i]);
    }
    for (size_t i = 0; i < diagnosis->block_count; i++) {
        td__free(diagnosis->blocks[i]);
    }
    td__free(diagnosis->texts);
    td__free(diagnosis->blocks);
    td__free(diagnosis->notes);
    td__free(diagnosis->unusual);
    td__free(diagnosis->findings);
    td__free(diagnosis);
}

size_t td_diagnosis_finding_count(const td_diagnosis *diagnosis) {
    return diagnosis->finding_count;
}

const td_diagnosis_finding *td_diagnosis_finding_at(const td_diagnosis *diagnosis, size_t index) {
    return index < diagnosis->finding_count ? &diagnosis->findings[index] : NULL;
}

size_t td_diagnosis_rule_count(const td_diagnosis *diagnosis) {
    return diagnosis->rule_count;
}

size_t td_diagnosis_skipped_count(const td_diagnosis *diagnosis) {
    return diagnosis->skipped_count;
}

size_t td_diagnosis_notes(const td_diagnosis *diagnosis, const char *const **texts) {
    *texts = (const char *const *)diagnosis->notes;
    return diagnosis->note_count;
}
