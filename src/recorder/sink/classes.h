/* The built-in sinks. */
#ifndef TAPEDECK_SINK_CLASSES_H
#define TAPEDECK_SINK_CLASSES_H

#include "tapedeck/deck.h"

extern const td_sink_class td__sink_csv;
extern const td_sink_class td__sink_npy;
extern const td_sink_class td__sink_tensorboard;
extern const td_sink_class td__sink_sqlite;
extern const td_sink_class td__sink_png;
extern const td_sink_class td__sink_print;

#endif
