#ifndef TAPEDECK_DIAGNOSE_DIAGNOSIS_H
#define TAPEDECK_DIAGNOSE_DIAGNOSIS_H

#include "diagnose/rule.h"

struct td_diagnosis {
    char **texts; /* all that findings point to */
    size_t text_count, text_capacity;
    td_diagnosis_finding *findings;
    size_t finding_count;
    void **blocks; /* arrays of findings */
    size_t block_count, block_capacity;
    const char **notes;
    size_t note_count, note_capacity;
    size_t rule_count, skipped_count; /* rules that looked, that could not */
    td_unusual *unusual;              /* not as in the runs that went well */
    size_t unusual_count, unusual_capacity, baseline_count;
    const char *fix_path; /* of the experiment; NULL: nothing to put right */
    const char *fix[8 * TD__MOST_EDITS];
    size_t fix_count;
    bool fix_redraw; /* the weights it started from are to go */
};

/* What is not as in runs that went well; texts live as long as the diagnosis. */
TD_NODISCARD td_status td__compare_with(td__case *c, const char *const *runs, size_t count,
                                        td_error *error);
/* Tries what rules suspect, and decides. */
TD_NODISCARD td_status td__judge(td__case *c, const td_diagnose_options *options, td_error *error);
/* Accepts what the symptoms alone point to; only pairs with one of the symptoms of `among`. */
void td__link(td__case *c, uint32_t among, const char *only, const char *ignore);
/* Accepts what is certainly wrong and has no cause yet: a loss that is not finite or never falls, a
 * run that stopped. */
void td__accept_symptoms(td__case *c, const char *only, const char *ignore);
/* The symptoms that must be there for td__link to accept a cause; another set for each call, from
 * *at = 0 on; 0: no more. */
uint32_t td__link_symptoms(const char *cause, size_t *at);
/* What rules can read of the case. */
uint32_t td__needs_available(td__case *c);
/* Whether the rule, or td__link in its place, has what it reads. */
bool td__rule_can_look(const td__case *c, const td__rule *rule);
/* Whether it reads nothing but signals that a track has to ask for. */
bool td__rule_is_on_request(const td__rule *rule);
/* Whether there is what the rule precision_lost reads. */
bool td__precision_recorded(td__case *c);
/* Notes which rules could not look, what they lack, and how to record it. */
void td__note_skipped(td__case *c, const char *only, const char *ignore);
/* Whether the rule is among the names and globs that are asked for. */
bool td__rule_is_wanted(const td__rule *rule, const char *only, const char *ignore);
/* What was accepted, as findings, most important first. */
TD_NODISCARD td_status td__report(td__case *c, td_error *error);
/* Puts findings into the table of a run. */
TD_NODISCARD td_status td__findings_keep(const td_diagnosis_finding *findings, size_t count,
                                         const char *run, td_error *error);
/* Something that could not be done. */
void td__note(td_diagnosis *diagnosis, const char *text);

/* Calls the rule for each of several outputs. */
void td__look_at_heads(td__case *c, const td__rule *rule);
/* The same, of the outputs of a loop. */
void td__look_at_loop_heads(td__case *c, const td__rule *rule);

#endif
