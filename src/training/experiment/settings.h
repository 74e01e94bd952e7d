/* Between YAML and nn's settings: a layer, an optimizer, a schedule is a name with keys and values
 * whose meaning nn knows. */
#ifndef TAPEDECK_EXPERIMENT_SETTINGS_H
#define TAPEDECK_EXPERIMENT_SETTINGS_H

#include "experiment/experiment.h"

/* Reads a choice (NAME or {NAME: {KEY: VALUE}}); noun is for messages: "a layer". False, with the
 * problem reported, when node is none. */
bool td__choice_read(td__checker *checker, td__yaml_node *node, const char *noun,
                     td__choice *choice);

/* Reports nn's error with the choice, at the line of the key that the text names, if one. */
void td__choice_problem(td__checker *checker, const td__choice *choice, const td_error *error);

#endif
