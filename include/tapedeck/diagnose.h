/* Diagnosis: what is wrong with a training, where, since when, and what to do about it.
 *
 *     td_diagnosis *d = td_diagnose("runs/digits", NULL, &error);
 *     for (size_t i = 0; i < td_diagnosis_finding_count(d); i++) {
 *         puts(td_diagnosis_finding_at(d, i)->text);
 *     }
 *     td_diagnosis_destroy(d);
 *
 * Rules look for symptoms (a layer whose gradient vanishes, a loss that stands still) and for causes
 * that explain them (a learning rate that is too high, inputs that are not scaled). A run that an
 * experiment made can be repeated bit for bit: so a cause is tried out, in memory, and what does not
 * help is not reported. Words for causes and symptoms, and every rule, are in docs/diagnose.md.
 */
#ifndef TAPEDECK_DIAGNOSE_H
#define TAPEDECK_DIAGNOSE_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_confidence {
    TD_CONFIDENCE_MAYBE,
    TD_CONFIDENCE_LIKELY,
    TD_CONFIDENCE_SURE,
    /* Short names. */
    TD_MAYBE = TD_CONFIDENCE_MAYBE,
    TD_LIKELY = TD_CONFIDENCE_LIKELY,
    TD_SURE = TD_CONFIDENCE_SURE
} td_confidence;
/* "maybe", "likely", "sure"; never NULL. */
TD_API const char *td_confidence_name(td_confidence confidence);

/* One link of the chain that a finding rests on. */
typedef struct td_evidence {
    const char *text;   /* "loss rose from 2.3 to 41 in 9 steps" */
    const char *signal; /* what it was read from; NULL: the experiment or the data */
    int64_t step;       /* 0: none in particular */
    double value;       /* NaN: none */
} td_evidence;

/* Where the first number that is not finite came from. */
typedef struct td_finding_origin {
    const char *cause;     /* "input", "label", "parameter", "layer", "loss" or "update" */
    const char *layer;     /* NULL: none */
    const char *parameter; /* NULL: none */
    int64_t row;           /* of the data; -1: none */
    int64_t step;
} td_finding_origin;

/* What a trial of the remedy came to. Scores are shares of what there is to learn: accuracy above
 * that of the most common class, or R2. */
typedef struct td_finding_trial {
    int64_t steps;
    double score_before, score_after;
    double loss_before, loss_after; /* NaN where the remedy changes what the loss means */
} td_finding_trial;

/* A signal over the whole run, for a small plot: means of equal parts of its records. */
typedef struct td_finding_plot {
    const char *signal;
    const char *statistic; /* "norm"; NULL: the number itself */
    int64_t first_step, last_step;
    const double *values; /* NaN: a part without a finite one */
    size_t count;
} td_finding_plot;

/* One cause. Texts live as long as the diagnosis. */
typedef struct td_diagnosis_finding {
    const char *rule;
    const char *cause; /* a word of docs/diagnose.md */
    const char *text;  /* "learning rate too high" */
    const char *layer; /* NULL: none in particular */
    int64_t unit;      /* the first that it is about, of the layer's; -1: none in particular */
    int64_t since_step;
    td_confidence confidence;
    const char *const *symptoms; /* words of docs/diagnose.md */
    size_t symptom_count;
    const td_evidence *evidence;
    size_t evidence_count;
    const char *remedy;       /* what to change, as the experiment file has it where it can */
    const char *const *edits; /* the same for td_experiment_options.set; may be none */
    size_t edit_count;
    const td_finding_origin *origin; /* NULL: nothing that is not finite */
    const td_finding_trial *trial;   /* NULL: not tried */
    const td_finding_plot *plot;     /* NULL: nothing was recorded that shows it */
} td_diagnosis_finding;

typedef struct td_diagnosis td_diagnosis;

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_diagnose_options {
    size_t size;               /* sizeof(td_diagnose_options) */
    const char *only, *ignore; /* names and globs of rules, separated by commas */
    bool no_trial;             /* nothing is run */
    double seconds;            /* most that trials may take together; 0: 60 */
    bool (*progress)(void *user, const char *text); /* reports each trial; false stops them */
    void *user;
    const char *const *baseline; /* runs that went well: what differs from them is reported */
    size_t baseline_count;
} td_diagnose_options;

/* Of a run's folder, or a folder of event files. options may be NULL. NULL on failure. */
TD_API td_diagnosis *td_diagnose(const char *run, const td_diagnose_options *options,
                                 td_error *error);
/* Of an experiment that has not run: what can be known from the file, the data and one pass through
 * the untrained model. set: as in td_experiment_options. */
typedef struct td_check_options {
    size_t size; /* sizeof(td_check_options) */
    const char *const *set;
    size_t set_count;
    const char *only, *ignore;
    void (*problem)(void *user, const char *text); /* reports what is wrong with the file itself */
    void *user;
    bool probe; /* also a range test of the learning rate: a short training in memory */
    /* Of large data only what is looked at is read: training will read it all. */
    bool while_reading;
    /* The experiment's own, before it trains, which then goes as if nobody had looked: no file is read
     * again. NULL: one is made from the file. */
    struct td_trainer *trainer;
} td_check_options;
TD_API td_diagnosis *td_check(const char *experiment, const td_check_options *options,
                              td_error *error);
/* ---- While training ------------------------------------------------------------------------- */

struct td_experiment;
struct td_train_observer;

/* Looks on while an experiment trains: the loss at every step, the units of its layers and its
 * gradients at a few, as often as costs less than a hundredth of a step's time. */
typedef struct td_monitor td_monitor;

/* report is called once for each thing that is found, with a sentence; may be NULL. A monitor that
 * does nothing where the experiment says `diagnose: false`. NULL when memory is exhausted. */
TD_API td_monitor *td_monitor_create(const struct td_experiment *experiment,
                                     void (*report)(void *user, const char *text), void *user);
/* Accepts NULL; after the trainer. */
TD_API void td_monitor_destroy(td_monitor *monitor);
/* For td_trainer_options.observer; lives as long as the monitor. */
TD_API const struct td_train_observer *td_monitor_observer(td_monitor *monitor);
/* Whether the experiment wants it to look at all. */
TD_API bool td_monitor_is_on(const td_monitor *monitor);
/* How many things were found. */
TD_API size_t td_monitor_count(const td_monitor *monitor);
/* Keeps what was found in the run's table `finding`. Nothing when that is nothing. */
TD_API TD_NODISCARD td_status td_monitor_keep(const td_monitor *monitor, const char *run,
                                              td_error *error);

/* ---- What was found ------------------------------------------------------------------------- */

/* Keeps the findings in the run's table `finding`, in place of those before. */
TD_API TD_NODISCARD td_status td_diagnosis_keep(const td_diagnosis *diagnosis, const char *run,
                                                td_error *error);
/* Accepts NULL; all that it gave is gone. */
TD_API void td_diagnosis_destroy(td_diagnosis *diagnosis);

TD_API size_t td_diagnosis_finding_count(const td_diagnosis *diagnosis);
/* The most important finding is the first one. NULL when index is not below the count. A finding is
 * owned by the diagnosis. */
TD_API const td_diagnosis_finding *td_diagnosis_finding_at(const td_diagnosis *diagnosis,
                                                           size_t index);
/* Something that is not as in the runs that went well. */
typedef struct td_unusual {
    const char *text;        /* a sentence */
    const char *signal;      /* NULL: a setting of the experiment */
    const char *statistic;   /* "norm"; NULL: the number itself */
    int64_t step;            /* the first where it is so; 0: none in particular */
    double value, low, high; /* here, and the least and greatest of the others; NaN: none */
    double size; /* how far outside, in widths of what is usual; infinite: what always held */
} td_unusual;
/* Only with a baseline; settings first, then what held in all of those runs and does not hold
 * here, then numbers, those that are farthest off first. */
TD_API size_t
td_diagnosis_baseline_count(const td_diagnosis *diagnosis); /* runs it was compared with */
TD_API size_t td_diagnosis_unusual_count(const td_diagnosis *diagnosis);
/* NULL when index is not below the count. Owned by the diagnosis. */
TD_API const td_unusual *td_diagnosis_unusual_at(const td_diagnosis *diagnosis, size_t index);
/* Rules that ran. */
TD_API size_t td_diagnosis_rule_count(const td_diagnosis *diagnosis);
/* Rules that could not run because the run does not have what they read; notes say what that is. */
TD_API size_t td_diagnosis_skipped_count(const td_diagnosis *diagnosis);
/* What could not be done, a sentence each. */
TD_API size_t td_diagnosis_notes(const td_diagnosis *diagnosis, const char *const **texts);

/* Writes experiment.fixed.yaml beside the experiment: with the edits of the findings that are more
 * than a maybe; of those that are a matter of tuning, the first. TD_STATE when there is nothing that
 * an edit puts right. */
TD_API TD_NODISCARD td_status td_diagnosis_fix(const td_diagnosis *diagnosis, td_error *error);

/* What a rule is. */
typedef struct td_rule_info {
    const char *name;      /* "dead_relu" */
    bool symptom;          /* it sees a symptom; otherwise it knows a cause */
    const char *meaning;   /* a sentence */
    const char *reads;     /* signals, experiment keys */
    const char *statistic; /* what it computes */
    const char *threshold; /* and from where on it speaks, with the reason */
    const char *remedy;    /* "": none, of a symptom */
} td_rule_info;
/* NULL beyond the last. */
TD_API const td_rule_info *td_diagnose_rule(size_t index);

#ifdef __cplusplus
}
#endif
#endif
