/* The sections of an experiment file, a file each: what reads a node into the struct at member. */
#ifndef TAPEDECK_EXPERIMENT_SECTIONS_H
#define TAPEDECK_EXPERIMENT_SECTIONS_H

#include "base/memory.h"
#include "experiment/experiment.h"

#define TD__MANY 1e15 /* an upper bound that means: none */

void td__read_data(td__checker *checker, td__yaml_node *node, void *member);   /* td_experiment */
void td__read_model(td__checker *checker, td__yaml_node *node, void *member);  /* td_experiment */
void td__read_train(td__checker *checker, td__yaml_node *node, void *member);  /* td__train_spec */
void td__read_record(td__checker *checker, td__yaml_node *node, void *member); /* td_experiment */
/* "50 steps", "1 epoch", "50": a td__interval. */
void td__read_interval(td__checker *checker, td__yaml_node *node, void *member);

#endif
