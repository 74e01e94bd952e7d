/* /api/tracks: other tracks for a run that is being written. */
#include "answers/answer.h"

/* A step may take long; the page can ask again. */
static const double MAX_WAIT = 5;

/* run=…&add=TRACK or &remove=TRACK: {"step": after which the change counts}. */
td_status td__route_tracks(td__call *call, td_error *error) {
    const char *add = td__call_text(call, "add"), *remove = td__call_text(call, "remove");
    int64_t step = 0;
    if (!*add && !*remove) {
        return td_error_set(error, TD_INVALID, "expected a track to add or to remove");
    }
    td_status status = td_run_change_tracks(call->run->folder, &add, *add != 0, &remove,
                                            *remove != 0, MAX_WAIT, &step, error);
    status = status ? status : td__cached_run_read(call->run, error);
    td__put_format(call->out, "{\"step\":%lld}", (long long)step);
    return status;
}
