/* What rules read, what of it a run has, and what to record so that the others can look too. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <stdio.h>
#include <string.h>

enum {
    TENSORS = TD__NEEDS_OUTPUTS | TD__NEEDS_ERRORS | TD__NEEDS_GRADIENTS | TD__NEEDS_PARAMETERS
};

/* Kinds of signals of which statistics are read. */
typedef struct tensors {
    uint32_t need;
    td_signal_kind kind;
    const char *word, *glob, *native; /* native: where it has another name in runs of `train` */
} tensors;
static const tensors kinds[] = {
    {TD__NEEDS_OUTPUTS, TD_SIGNAL_OUTPUT, "outputs", "*.output", "*.output"},
    {TD__NEEDS_ERRORS, TD_SIGNAL_ERROR, "errors", "*.error", "*.error"},
    {TD__NEEDS_GRADIENTS, TD_SIGNAL_GRADIENT, "gradients", "*.gradient", "*.gradient"},
    {TD__NEEDS_PARAMETERS, TD_SIGNAL_PARAMETER, "weights", "*.weight", "*.kernel"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool has_statistics(td__case *c, td_signal_kind kind) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, kind, &at));) {
        if (td__series_of(c->history, signal->name, "norm")->count) {
            return true;
        }
    }
    return false;
}

/* Whether one of the derived signals with that word has this statistic; NULL: numbers. */
static bool has_derived(td__case *c, const char *word, const char *statistic) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_derived(c->history, word, &at));) {
        if (td__series_of(c->history, signal->name, statistic)->count) {
            return true;
        }
    }
    return false;
}

static bool has_rows(td__case *c) {
    const td_run_signal *rows = td_run_signal_find(c->history->run, "loss.rows");
    return rows && rows->forms & TD_ROWS;
}

static uint32_t on_request(td__case *c) {
    uint32_t available = has_derived(c, "entropy", "mean") ? TD__NEEDS_ENTROPY : 0;
    available |= has_derived(c, "max_logit", "mean") ? TD__NEEDS_LOGITS : 0;
    available |= has_derived(c, "effective_rank", NULL) ? TD__NEEDS_RANKS : 0;
    available |= has_derived(c, "moment2", "max") ? TD__NEEDS_MOMENTS : 0;
    available |= td__precision_recorded(c) ? TD__NEEDS_PRECISION : 0;
    return available | (has_rows(c) ? TD__NEEDS_ROWS : 0);
}

uint32_t td__needs_available(td__case *c) {
    /* Our own training loop is none of those that can be wrong. */
    uint32_t available = c->known ? TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP | TD__NEEDS_HEAD : 0;
    available |= c->repeated ? TD__NEEDS_REPEAT : 0;
    available |= c->loop ? TD__NEEDS_LOOP : 0;
    available |= td__loop_has(c, "head") || td__loop_has(c, "heads") ? TD__NEEDS_HEAD : 0;
    available |= td__loop_failed(c, "") ? TD__NEEDS_FAILURE : 0;
    if (!c->history) {
        return available;
    }
    for (size_t i = 0; i < KINDS; i++) {
        available |= has_statistics(c, kinds[i].kind) ? kinds[i].need : 0;
    }
    available |= td__loss_of(c->history)->count ? TD__NEEDS_LOSS : 0;
    available |= td__validation_loss_of(c->history)->count ? TD__NEEDS_VALIDATION_LOSS : 0;
    return available | on_request(c);
}

bool td__rule_is_on_request(const td__rule *rule) {
    return !(rule->needs & ~(uint32_t)TD__NEEDS_ON_REQUEST);
}

/* Whether each of the symptoms could be seen. */
static bool can_see(const td__case *c, uint32_t symptoms) {
    for (size_t i = 0; td__rules[i]; i++) {
        const td__rule *rule = td__rules[i];
        if (rule->info.symptom && symptoms & (1U << rule->symptom) &&
            !(rule->needs & c->available)) {
            return false;
        }
    }
    return true;
}

bool td__rule_can_look(const td__case *c, const td__rule *rule) {
    if (rule->needs & c->available) {
        return true;
    }
    uint32_t symptoms;
    for (size_t at = 0; !rule->info.symptom && !c->repeated &&
                        (symptoms = td__link_symptoms(rule->info.name, &at));) {
        if (can_see(c, symptoms)) {
            return true;
        }
    }
    return false;
}

/* ---- What is missing ------------------------------------------------------------------------ */

/* "no outputs, errors were recorded", and in globs what to record: `*.output,*.error`, or with quotes between them
 * as an experiment wants it. */
static const char *missing_tensors(td__case *c, const char **globs) {
    const char *words = "";
    *globs = "";
    for (size_t i = 0; i < KINDS; i++) {
        if (!(c->available & kinds[i].need)) {
            words = td__say(c, "%s%s%s", words, *words ? ", " : "", kinds[i].word);
            *globs = td__say(c, "%s%s%s", *globs,
                             !**globs   ? ""
                             : c->known ? "\", \""
                                        : ",",
                             c->known ? kinds[i].native : kinds[i].glob);
        }
    }
    return c->available & TENSORS ? td__say(c, "no %s were recorded", words)
                                  : "no tensors were recorded";
}

static const char *tensors_note(td__case *c, size_t count, size_t all) {
    const char *globs, *what = missing_tensors(c, &globs);
    if (c->known) {
        return td__say(c,
                       "%s: %zu of %zu checks could not run; add to the experiment's record: "
                       "{what: [\"%s\"], every: 10 steps, form: stats}",
                       what, count, all, globs);
    }
    return td__say(c,
                   "%s: %zu of %zu checks could not run; record statistics of %s (in Python "
                   "tapedeck.watch does; or deck.track(\"%s\", every=100, form=\"stats\"))",
                   what, count, all, globs, globs);
}

static const char *loss_note(td__case *c, size_t count, size_t all) {
    return td__say(c,
                   "no metric named loss was recorded: %zu of %zu checks could not run; "
                   "deck.log(loss=…)",
                   count, all);
}

static const char *validation_note(td__case *c, size_t count, size_t all) {
    return td__say(c,
                   "no metric named val_loss was recorded: %zu of %zu checks could not run; "
                   "deck.log(val_loss=…)",
                   count, all);
}

static const char *loop_note(td__case *c, size_t count, size_t all) {
    return td__say(c,
                   "no facts about the training loop: %zu of %zu checks could not run; "
                   "tapedeck.watch(model, optimizer=…) gathers them",
                   count, all);
}

static const char *head_note(td__case *c, size_t count, size_t all) {
    return td__say(
        c,
        "no backward pass from a loss of torch.nn through a layer of the model was seen: "
        "%zu of %zu checks, of loss and last layer, could not run",
        count, all);
}

static const char *experiment_note(td__case *c, size_t count, size_t all) {
    return td__say(
        c,
        "no experiment file to look at and to repeat: %zu of %zu checks, of data, layers "
        "and settings, could not run; only runs of tapedeck train have one",
        count, all);
}

static const char *repeat_note(td__case *c, size_t count, size_t all) {
    return td__say(c, "the run was not repeated: %zu of %zu checks could not run", count, all);
}

void td__note_skipped(td__case *c, const char *only, const char *ignore) {
    /* A rule counts where the first of its needs stands. */
    const struct {
        uint32_t needs;
        const char *(*note)(td__case *c, size_t count, size_t all);
    } groups[] = {
        {TENSORS, tensors_note},
        {TD__NEEDS_LOSS, loss_note},
        {TD__NEEDS_VALIDATION_LOSS, validation_note},
        {c->loop ? TD__NEEDS_HEAD : 0, head_note},
        {TD__NEEDS_LOOP | TD__NEEDS_HEAD, loop_note},
        {TD__NEEDS_EXPERIMENT | (c->known ? 0 : TD__NEEDS_REPEAT), experiment_note},
        {TD__NEEDS_REPEAT, repeat_note},
    };
    enum { GROUPS = sizeof groups / sizeof *groups };
    size_t counts[GROUPS] = {0}, all = c->diagnosis->rule_count + c->diagnosis->skipped_count;
    bool several = c->trainer && c->trainer->head_count > 1;
    for (size_t i = 0; td__rules[i]; i++) {
        const td__rule *rule = td__rules[i];
        if (!td__rule_is_wanted(rule, only, ignore) || td__rule_can_look(c, rule) ||
            (rule->one_output && several) || td__rule_is_on_request(rule)) {
            continue;
        }
        size_t k = 0;
        while (k < GROUPS - 1 && !(groups[k].needs & rule->needs)) {
            k++;
        }
        counts[k]++;
    }
    for (size_t k = 0; k < GROUPS; k++) {
        if (counts[k]) {
            td__note(c->diagnosis, groups[k].note(c, counts[k], all));
        }
    }
}
