/* The sections of an experiment file, a file each: what reads a node into the struct at member. */
#ifndef TAPEDECK_EXPERIMENT_SECTIONS_H
#define TAPEDECK_EXPERIMENT_SECTIONS_H

#include "base/memory.h"
#include "experiment/experiment.h"

td__key_reader td__read_data;     /* a td_data_options */
td__key_reader td__read_model;    /* a td_experiment */
td__key_reader td__read_train;    /* a td__train_spec */
td__key_reader td__read_record;   /* a td_experiment */
td__key_reader td__read_alerts;   /* a td_experiment */
td__key_reader td__read_interval; /* a td__interval: "50 steps", "1 epoch", "50" */

#endif
