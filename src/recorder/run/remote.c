/* Runs of a database: which there are, and where their files are. */
#include "base/memory.h"
#include "base/url.h"
#include "run/run.h"
#include "store/send.h"

#include <stdio.h>
#include <string.h>

td_status td__remote_find(const char *url, td_folder_function *each, void *user, td_error *error) {
    td__listing *listing = NULL;
    td_status status = td__listing_open(url, false, &listing, error);
    size_t count = status ? 0 : td__listing_count(listing);
    for (size_t i = 0; i < count && !status; i++) {
        status = each(user, td__listing_place(listing, i), error);
    }
    td__listing_close(listing);
    return status;
}

void td__remote_free(char **parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        td__free(parts[i]);
    }
    td__free(parts);
}

td_status td__remote_parts(const char *place, char ***parts, size_t *count, td_error *error) {
    td__listing *listing = NULL;
    *parts = NULL;
    *count = 0;
    td_status status = td__listing_open(place, false, &listing, error);
    size_t found = status || !td__listing_count(listing) ? 0 : td__listing_part_count(listing, 0);
    char **made = found ? td__calloc(found, sizeof *made) : NULL;
    bool good = !found || made;
    for (size_t i = 0; i < found && good; i++) {
        made[i] = td__strdup(td__listing_part(listing, 0, i));
        good = made[i] != NULL;
    }
    td__listing_close(listing);
    if (!good) {
        td__remote_free(made, made ? found : 0);
        return td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
    }
    *parts = made;
    *count = status ? 0 : found;
    return status;
}

/* Whether a folder of this machine has the very run that the store has: a database may name any folder. */
static bool is_this_run(td_run *run, const char *folder) {
    char here[TD__RUN_ID], there[TD__RUN_ID];
    td__store *store = NULL;
    bool damaged, same = false;
    if (td__store_read(folder, td__run_state_of(folder, "") == TD_RUN_RUNNING, &store, &damaged,
                       NULL) == TD_OK) {
        same = td__sender_id(store, "", here, NULL) == TD_OK &&
               td__sender_id(run->store, "", there, NULL) == TD_OK && strcmp(here, there) == 0;
        td__store_close(store);
    }
    return same;
}

td_status td_run_files(td_run *run, char *out, size_t size, td_error *error) {
    if (!run->remote) {
        return (size_t)snprintf(out, size, "%s", run->folder) < size
                   ? TD_OK
                   : td_error_set(error, TD_NOT_FOUND, "%s: the name is too long", run->folder);
    }
    const td__remote *about = run->store ? run->store->remote : NULL;
    const char *folder = about ? about->folder : "";
    if (!run->here) {
        run->here = *folder == '/' && is_this_run(run, folder) ? 1 : -1;
    }
    return run->here > 0 && (size_t)snprintf(out, size, "%s", folder) < size
               ? TD_OK
               : td_error_set(error, TD_NOT_FOUND,
                              "the database has no tensors and files of this run: they are in its "
                              "folder%s%s on the machine that wrote it",
                              *folder ? " " : "", folder);
}
