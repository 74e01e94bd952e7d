/* Answers requests: checks access, finds the route of a path and writes the response. Connections
 * are handled elsewhere (http.h). */
#ifndef TAPEDECK_VIEW_ANSWER_H
#define TAPEDECK_VIEW_ANSWER_H

#include "answers/http.h"
#include "answers/run_cache.h"
#include "answers/token.h"
#include "answers/work.h"

enum { TD__MAX_PARAMETERS = 16 };

typedef struct td__server_context {
    td__run_cache *cache;
    char token[TD__TOKEN_SIZE];
    char host[256]; /* as --host has it; "": loopback only */
    int port;
    bool writable; /* notes may be written */
    td__work work;
} td__server_context;

/* Never fails: errors are written to the response. */
void td__answer(td__server_context *context, const td__http_request *request,
                td__response *response);

/* ---- For the routes ------------------------------------------------------------------ */

/* A request that a route answers. */
typedef struct td__call {
    td__run_cache *cache;
    bool writable;
    td__work *work;      /* NULL in reports */
    td__cached_run *run; /* acquired; NULL for routes without a run */
    char *names[TD__MAX_PARAMETERS], *values[TD__MAX_PARAMETERS];
    size_t parameter_count;
    td__output *out;
    const char *type; /* of the content; JSON unless it is set */
} td__call;

typedef td_status td__route_function(td__call *call, td_error *error);
td__route_function td__route_ranks;
/* ",\"ranks\":[…]" of what /api/run says: the processes that wrote the run. */
void td__put_ranks(td__output *out, td_run *run);
td__route_function td__route_runs, td__route_run, td__route_series, td__route_heat, td__route_steps,
    td__route_histograms, td__route_stats, td__route_tensor, td__route_units, td__route_image,
    td__route_texts, td__route_examples, td__route_batch, td__route_files, td__route_compare,
    td__route_settings, td__route_note, td__route_tracks, td__route_projection, td__route_sound,
    td__route_start, td__route_work;

/* "" when it was not given. */
const char *td__call_text(const td__call *call, const char *name);
/* The parameter, limited to min … max; `fallback` when it was not given or is not a number. */
int64_t td__call_number(const td__call *call, const char *name, int64_t min, int64_t max,
                        int64_t fallback);
/* The signal that parameter "signal" has the id of; NULL, and the error, when there is none. */
const td_run_signal *td__call_signal(const td__call *call, td_error *error);
/* Calls each with the last record at or before parameter "step". The tensors and pictures of event files are in no
 * other file: those files are read for them, and each is called for every step until then. */
td_status td__call_latest(td__call *call, const td_run_signal *signal, td_form form,
                          td_record_function *each, void *user, td_error *error);
/* The next number of a list "1,2,3", which is advanced; false at its end. */
bool td__call_next_id(const char **list, int64_t *id);
/* The statistic of parameter "stat", NULL for scalars; TD_INVALID when there is none such. */
td_status td__call_statistic(const td__call *call, const char **statistic, td_error *error);

/* A binary answer: head is JSON, which this releases; doubles follow. */
void td__call_binary(td__call *call, td__output *head);

/* Writes the response body for a path without checking access: for reports. */
td_status td__answer_route(td__run_cache *cache, const char *target, td__output *out,
                           td_error *error);

#endif
