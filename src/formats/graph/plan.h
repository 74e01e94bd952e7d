/* Which nodes of a model's graph run as one when nobody looks at what is between them, and when a value
 * has been read for the last time.
 *
 * A step is a node with what follows it: a product, its bias, a sum and an activation. Nodes that run
 * with one before them are inside it. The plan only holds where the tape says so (tape->together).
 */
#ifndef TAPEDECK_GRAPH_PLAN_H
#define TAPEDECK_GRAPH_PLAN_H

#include "graph/graph.h"
#include "tapedeck/ops.h"

typedef struct td__graph_step {
    bool inside;              /* done with a node before it */
    bool ends;                /* something below is done with it */
    int32_t output;           /* value that is made instead of the node's first */
    int32_t bias;             /* value that is added to the columns of a product; -1: none */
    int32_t onto;             /* value that is added, read for the last time; -1: none */
    td_activation activation; /* then; TD_LINEAR: none */
    td_number alpha;
    size_t dead, dead_count; /* values that nobody reads after this node: part of the plan's list */
} td__graph_step;

typedef struct td__graph_plan {
    td__graph_step *steps; /* of each node */
    int32_t *dead;         /* values */
} td__graph_plan;

struct td__graph_source;
/* Makes the plan of a source whose facts are known. */
TD_NODISCARD td_status td__graph_plan_make(const struct td__graph_source *source,
                                           td__graph_plan *plan, td_error *error);
void td__graph_plan_release(td__graph_plan *plan);

#endif
