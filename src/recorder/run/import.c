/* Runs of event files: read as they are for td_run_read, or into a store of the run's own, so that
 * everything else works on them too. Foreign ones are always read into a store. */
#include "run/events.h"
#include "run/foreign.h"
#include "run/projector.h"
#include "run/run.h"
#include "store/writer.h"

/* ---- As they are ---------------------------------------------------------------------------- */

typedef struct wish {
    const td_run_query *query;
    td_record_function *each;
    void *user;
} wish;

static bool is_wanted(void *user, const char *name) {
    const wish *w = user;
    return td_run_matches(w->query->what, name);
}

static td_status pass_on(void *user, const td_record *record, td_error *error) {
    const wish *w = user;
    return record->form & w->query->forms ? w->each(w->user, record, error) : TD_OK;
}

/* All event files of the run, and the embeddings beside them; releases the decoder. */
static td_status decode_files(td_run *run, td__decoder *decoder, td_error *error) {
    td_status status = TD_OK;
    decoder->problems = &run->problems;
    for (size_t i = 0; i < run->event_file_count && !status; i++) {
        status = td__events_read_file(decoder, run->event_files[i], error);
    }
    status = status ? status : td__projector_read(run->folder, decoder, error);
    td__decoder_release(decoder);
    return status;
}

td_status td__run_read_events(td_run *run, const td_run_query *query, td_record_function *each,
                              void *user, td_error *error) {
    wish w = {query, each, user};
    td__decoder decoder = {.each = pass_on,
                           .wants = is_wanted,
                           .user = &w,
                           .first_step = query->first_step,
                           .last_step = query->last_step};
    return decode_files(run, &decoder, error);
}

/* ---- Into a store --------------------------------------------------------------------------- */

static td_status import_record(void *user, const td_record *record, td_error *error) {
    return td__writer_record(user, record, error);
}

static td_status import_note(void *user, const char *key, const char *text, td_error *error) {
    return td__writer_note(user, key, text, error);
}

td_status td__run_import(td_run *run, td_error *error) {
    td__problems_release(&run->problems);
    td__store_close(run->store);
    run->store = NULL;
    if (run->foreign) {
        return td__foreign_import(run->foreign, run->folder, &run->problems, &run->store, error);
    }
    td__store *store = NULL;
    td_status status = td__store_temporary(&store, error);
    if (status) {
        return status;
    }
    td__writer writer;
    status = td__writer_init(&writer, store, 0, error);
    td__decoder decoder = {.each = import_record,
                           .note = import_note,
                           .user = &writer,
                           .first_step = INT64_MIN,
                           .last_step = INT64_MAX};
    status = status ? status : decode_files(run, &decoder, error);
    status = status ? status : td__batch_commit(&writer.batch, error);
    if (!status) {
        run->store = store;
        writer.batch.store = NULL; /* outlives its writer */
    }
    td__writer_release(&writer);
    return status;
}
