/* Running an ONNX graph on a tape, once: what tests and models are made of. */
#ifndef TAPEDECK_GRAPH_RUN_H
#define TAPEDECK_GRAPH_RUN_H

#include "graph/operator.h"

/* A graph that can be run: every operator is known. TD_UNSUPPORTED lists all that are not, by
 * operator, with how often and the first node's name. The graph stays the caller's and must outlive
 * it. NULL on failure. */
td__graph_run *td__graph_run_create(const td__graph *graph, td_error *error);
/* Accepts NULL. */
void td__graph_run_destroy(td__graph_run *run);

/* Gives a value (by number) from the next beginning on, every time: a parameter of a model. */
void td__graph_run_preset(td__graph_run *run, int32_t value, td__graph_value what);
/* The graph is a trainable model's from now on. */
void td__graph_run_set_model(td__graph_run *run);
/* How nodes run where the tape runs layers together. Borrowed. */
void td__graph_run_set_plan(td__graph_run *run, const td__graph_plan *plan);
/* From now on until it is taken back (NULL), only shapes and types of float values are asked for.
 * zeros: so many bytes of them, which can be read. */
void td__graph_run_set_probing(td__graph_run *run, void *zeros, size_t bytes);
/* The batch that the file says (-1: any) and the one that is given. */
void td__graph_run_set_batch(td__graph_run *run, int64_t declared, int64_t batch);
/* How much may be done inside of its nodes' graphs between two beginnings, in elements read: hours,
 * or, while a file is opened, a moment. */
#define TD__GRAPH_WORK ((int64_t)1 << 42)
#define TD__GRAPH_WORK_BEFORE ((int64_t)1 << 30)
void td__graph_run_set_work(td__graph_run *run, int64_t elements);
/* Forgets the values of the last time and gives input number i (of the graph's) its value. */
void td__graph_run_begin(td__graph_run *run);
void td__graph_run_set(td__graph_run *run, size_t input, td__graph_type type, td_tensor *tensor);
void td__graph_run_set_value(td__graph_run *run, size_t input, td__graph_value value);
/* Runs nodes [first, end); the tape's error on failure. */
TD_NODISCARD bool td__graph_run_nodes(td__graph_run *run, td_tape *tape, size_t first, size_t end);
/* A value in ONNX's layout; NULL when memory is short (the tape's error). */
td_tensor *td__graph_run_plain(td__graph_run *run, td_tape *tape, int32_t value);
/* The same with the channels last; of float values of rank 3 and up. */
td_tensor *td__graph_run_last(td__graph_run *run, td_tape *tape, int32_t value);
/* A value by number, as the nodes that have run left it; plain NULL in both forms: not made. */
td__graph_value *td__graph_run_value(td__graph_run *run, int32_t value);

#endif
