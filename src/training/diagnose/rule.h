/* Rules, and what they read and write.
 *
 * A symptom's rule reads the history of the run and says where and since when the symptom is there.
 * A cause's rule says why it could be the cause, what would change it, and what that change is as an
 * edit of the experiment. judge.c tries the edits out and decides. Each rule is a file in rules/ and
 * a row of the table in rules.c. */
#ifndef TAPEDECK_DIAGNOSE_RULE_H
#define TAPEDECK_DIAGNOSE_RULE_H

#include "diagnose/facts.h"
#include "diagnose/history.h"
#include "diagnose/layers.h"
#include "diagnose/trial.h"
#include "tapedeck/diagnose.h"

/* The words of a symptom, in the order of their bits. */
#define TD__SYMPTOM_LIST(X)                                                                        \
    X(VANISHING_GRADIENT, "vanishing_gradient")                                                    \
    X(EXPLODING_GRADIENT, "exploding_gradient")                                                    \
    X(ZERO_GRADIENT, "zero_gradient")                                                              \
    X(DEAD_RELU, "dead_relu")                                                                      \
    X(SATURATED_UNITS, "saturated_units")                                                          \
    X(CONSTANT_OUTPUT, "constant_output")                                                          \
    X(UNCHANGED_WEIGHTS, "unchanged_weights")                                                      \
    X(PLATEAU, "plateau")                                                                          \
    X(SLOW_CONVERGENCE, "slow_convergence")                                                        \
    X(DIVERGENCE, "divergence")                                                                    \
    X(OSCILLATION, "oscillation")                                                                  \
    X(OVERFIT_GAP, "overfit_gap")                                                                  \
    X(NAN_LOSS, "nan_loss")                                                                        \
    X(INF_LOSS, "inf_loss")                                                                        \
    X(SYMMETRIC_UNITS, "symmetric_units")                                                          \
    X(MAJORITY_CLASS, "majority_class")                                                            \
    X(VALIDATION_BELOW_TRAINING, "validation_below_training")                                      \
    X(EARLY_END, "early_end")                                                                      \
    X(SHRINKING_WEIGHTS, "shrinking_weights")                                                      \
    X(HUGE_LOSS, "huge_loss")                                                                      \
    X(HUGE_ACTIVATIONS, "huge_activations")                                                        \
    X(LOSS_FLOOR, "loss_floor")                                                                    \
    X(ATTENTION_COLLAPSE, "attention_collapse")                                                    \
    X(ATTENTION_LOGITS, "attention_logits")

enum td__symptom_index {
#define TD__SYMPTOM_INDEX(name, word) TD__INDEX_##name,
    TD__SYMPTOM_LIST(TD__SYMPTOM_INDEX)
#undef TD__SYMPTOM_INDEX
        TD__SYMPTOM_COUNT
};
#define TD__SYMPTOM_BIT(name, word) TD__##name = 1 << TD__INDEX_##name,
enum td__symptom_bit { TD__SYMPTOM_LIST(TD__SYMPTOM_BIT) };
#undef TD__SYMPTOM_BIT

/* How much a suspicion says by itself. */
typedef enum td__strength {
    TD__TUNING,        /* a number that might be better: only a large gain speaks for it */
    TD__STRUCTURE,     /* known to do harm, often harmless: a trial decides */
    TD__CONTRADICTION, /* cannot be meant: layers, loss and labels do not go together */
    TD__FACT,          /* seen: NaN in the data */
} td__strength;

/* What rules read. A rule can look when one of its needs is there. */
enum td__need {
    TD__NEEDS_OUTPUTS = 1 << 0, /* statistics of signals of that kind */
    TD__NEEDS_ERRORS = 1 << 1,
    TD__NEEDS_GRADIENTS = 1 << 2,
    TD__NEEDS_PARAMETERS = 1 << 3,
    TD__NEEDS_LOSS = 1 << 4, /* the metric loss */
    TD__NEEDS_VALIDATION_LOSS = 1 << 5,
    TD__NEEDS_LOOP = 1 << 6,       /* facts about the training loop, or a loop of our own */
    TD__NEEDS_EXPERIMENT = 1 << 7, /* the experiment, its data and its untrained model */
    TD__NEEDS_REPEAT = 1 << 8,     /* … and the run repeated */
    TD__NEEDS_HEAD = 1 << 9,       /* how a loop's loss is computed from its model */
    /* Signals that a run has only where a track asks for them: rules that need nothing else count as checks
     * only where they are there. */
    TD__NEEDS_ENTROPY = 1 << 10,   /* statistics of ATTENTION.entropy */
    TD__NEEDS_LOGITS = 1 << 11,    /* … of ATTENTION.max_logit */
    TD__NEEDS_PRECISION = 1 << 12, /* PARAMETER.gradient.float16_underflow and its like */
    TD__NEEDS_ROWS = 1 << 13,      /* loss.rows, example by example */
    TD__NEEDS_RANKS = 1 << 14,     /* LAYER.output.effective_rank */
    TD__NEEDS_MOMENTS = 1 << 15,   /* statistics of PARAMETER.moment2 */
    TD__NEEDS_FAILURE = 1 << 16,   /* the error that ended the program: no run needs to have one */
    TD__NEEDS_ON_REQUEST = TD__NEEDS_ENTROPY | TD__NEEDS_LOGITS | TD__NEEDS_PRECISION |
                           TD__NEEDS_ROWS | TD__NEEDS_RANKS | TD__NEEDS_MOMENTS,
};

typedef struct td__rule td__rule;

/* Instead of a layer's number: the model's input. */
#define TD__INPUT_LAYER (-2)

enum { TD__MOST_EDITS = 48, TD__MOST_EVIDENCE = 8 };

/* Something a rule suspects. */
typedef struct td__suspicion {
    const td__rule *rule;
    td__strength strength;
    ptrdiff_t layer;   /* -1: none in particular; TD__INPUT_LAYER */
    const char *where; /* the layer's name, of a model that only the run knows; NULL: none */
    int64_t unit;      /* the first of them; -1: none in particular */
    int64_t since;
    td_evidence evidence[TD__MOST_EVIDENCE];
    size_t evidence_count;
    const char *remedy;
    const char *edits[TD__MOST_EDITS];
    size_t edit_count;
    bool standardize_labels; /* the trial's own edits, for which an experiment has no key */
    bool redraw;             /* forget the weights that training started from */
    bool on_validation;      /* train on the validation part */
    double more;             /* times as many steps; 0: as many */
    const td__origin *origin;
    bool doubtful;   /* likely at most, although it was seen */
    double severity; /* how far beyond its threshold, 0 to 1; breaks ties */
    /* Filled in by the judge. */
    bool tried;
    td__trial trial;
    double gain; /* share of what was missing that the trial won */
    bool accepted;
    td_confidence confidence;
    double weight; /* among the accepted of one confidence */
} td__suspicion;

/* A symptom that was found. */
typedef struct td__symptom {
    enum td__symptom_index index;
    const char *layer; /* NULL: all, or none in particular */
    int64_t unit;      /* the first of them; -1: none in particular */
    int64_t since;
    td_evidence evidence;
} td__symptom;

enum { TD__MOST_SYMPTOMS = 64, TD__MOST_SUSPICIONS = 64 };

/* All that is known of a training. What is not known is zero, -1 or NULL. */
typedef struct td__case {
    td_diagnosis *diagnosis; /* texts live in it */
    const td__rule *rule;    /* that is looking */
    const char *folder;      /* of the run; NULL: it has not run */
    const char *path;        /* of the experiment; NULL: there is none */
    td_experiment *experiment;
    td_trainer *trainer; /* untrained; NULL: the experiment cannot be repeated */
    bool lent;           /* it and its experiment are the caller's */
    bool known;          /* facts and layers are there */
    td__facts facts;
    td__layers layers;
    td__history *history; /* NULL: it has not run */
    struct json_t *loop;  /* what the program that trained did; NULL: not known */
    const char *failure;  /* the error that ended the program; "" */
    int64_t ranks;        /* replicas of which this is the first; 0: none */
    bool repeated;        /* baseline is there, and the layers' end */
    bool whole;           /* … and it is the whole run, not only its beginning */
    uint32_t available;   /* td__need bits: what rules can read */
    td__trial baseline;
    int64_t steps; /* of every trial */
    td__symptom symptoms[TD__MOST_SYMPTOMS];
    size_t symptom_count;
    td__suspicion suspicions[TD__MOST_SUSPICIONS];
    size_t suspicion_count;
    td__origin origins[4]; /* that rules made */
    size_t origin_count;
} td__case;

struct td__rule {
    td_rule_info info;
    const char *title;              /* of a cause: "learning rate too high" */
    uint32_t explains;              /* of a cause: symptoms it can bring about */
    enum td__symptom_index symptom; /* of a symptom */
    uint32_t needs;                 /* td__need bits: it can look when one of them is there */
    void (*find)(td__case *c);      /* calls td__found or td__suspect */
    bool after;                     /* needs a training; a check before it does not run it */
    bool is_rate;                   /* tries other learning rates */
    bool sets_rate;                 /* its change also sets the rate, which may be all that wins */
    bool one_output;     /* takes labels and loss for those of the model's only output … */
    bool each_head;      /* … and can be asked about each of several */
    bool each_loop_head; /* the same, of a loop alone */
    bool all_loop_heads; /* … and what it finds counts when it finds it for all */
};

/* Every rule, causes in the order in which one brings about the other; ends with NULL. */
extern const td__rule *const td__rules[];
/* The rule of a cause; NULL: there is none. */
const td__rule *td__rule_of(const char *cause);

/* A text that lives as long as the diagnosis; "" when memory is exhausted. */
const char *td__say(td__case *c, const char *format, ...) TD_PRINTF(2, 3);

const char *td__keep(td__case *c, const char *text);

/* Says that the symptom of the rule that is looking is there. layer and signal may be NULL; layer
 * lives as long as the case, signal is copied. */
void td__found(td__case *c, const char *layer, int64_t since, const char *signal, double value,
               const char *text);
/* The first unit that has the symptom found last. */
void td__found_unit(td__case *c, int64_t unit);
/* NULL: it is not. */
const td__symptom *td__has(const td__case *c, enum td__symptom_index index);
/* Whether one of these symptoms (bits) is there. */
bool td__has_any(const td__case *c, uint32_t symptoms);

/* Of the rule that is looking; NULL when there are too many. */
td__suspicion *td__suspect(td__case *c, td__strength strength, ptrdiff_t layer, const char *remedy);
/* Evidence that is not in the history: signal may be NULL. suspicion may be NULL. */
void td__because(td__suspicion *suspicion, const char *signal, int64_t step, double value,
                 const char *text);
void td__edit(td__suspicion *suspicion, const char *text);
/* 0 at the threshold, 1 at ten times as much. */
double td__severity(double value, double threshold);
/* The edit that sets a key of a layer: "model.3.dense.activation=relu". */
void td__edit_layer(td__case *c, td__suspicion *suspicion, ptrdiff_t layer, const char *key,
                    const char *value);

/* What facts.unrelated says. */
const char *td__unrelated_text(td__case *c);

/* An origin that lives as long as the case; NULL when memory is exhausted. */
td__origin *td__origin_new(td__case *c);

/* The optimizer's learning rate as the experiment has it. */
double td__rate_of(const td__case *c);
/* Score at the end of the run: of its repetition. NaN: not known. */
double td__score_of(const td__case *c);

#endif
