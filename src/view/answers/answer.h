/* What the viewer says to a request: who may ask, where a path leads, what is in an answer. Knows
 * nothing of connections. */
#ifndef TAPEDECK_VIEW_ANSWER_H
#define TAPEDECK_VIEW_ANSWER_H

#include "answers/http.h"
#include "answers/shelf.h"

enum { TD__TOKEN_SIZE = 41, TD__MOST_PARAMETERS = 16 };

typedef struct td__desk {
    td__shelf *shelf;
    char token[TD__TOKEN_SIZE];
    char host[256]; /* as --host has it; "": loopback only */
    int port;
} td__desk;

/* Never fails: what goes wrong is in the response. */
void td__answer(const td__desk *desk, const td__http_request *request, td__response *response);

/* ---- For those that answer ------------------------------------------------------------------ */

/* A request on its way through a route. */
typedef struct td__call {
    td__shelf *shelf;
    td__shelf_run *run; /* taken; NULL for routes that are about none */
    char *names[TD__MOST_PARAMETERS], *values[TD__MOST_PARAMETERS];
    size_t parameter_count;
    td__output *out;
    const char *type; /* of the content; JSON unless it is set */
} td__call;

typedef td_status td__route_function(td__call *call, td_error *error);
td__route_function td__route_runs, td__route_run, td__route_series, td__route_heat, td__route_steps,
    td__route_histograms, td__route_stats, td__route_tensor, td__route_units, td__route_image,
    td__route_texts, td__route_examples, td__route_batch, td__route_files, td__route_compare;

/* "" when it was not given. */
const char *td__call_text(const td__call *call, const char *name);
/* `otherwise` when it was not given or is no number; within least … most. */
int64_t td__call_number(const td__call *call, const char *name, int64_t least, int64_t most,
                        int64_t otherwise);
/* The signal that parameter "signal" has the id of; NULL, and the error, when there is none. */
const td_run_signal *td__call_signal(const td__call *call, td_error *error);
/* The statistic of parameter "stat", NULL for scalars; TD_INVALID when there is none such. */
td_status td__call_statistic(const td__call *call, const char **statistic, td_error *error);

/* A binary answer: head is JSON, which this releases; doubles follow. */
void td__call_binary(td__call *call, td__output *head);

/* The answer to a path, as a browser that may ask gets it: for reports. */
td_status td__answer_route(td__shelf *shelf, const char *target, td__output *out, td_error *error);

#endif
