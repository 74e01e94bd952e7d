/* What is found out by looking at all of the data: by rank 0 of a group, which notifies the other processes. */
#include "data/dataset.h"
#include "tapedeck/group.h"

#include <stdio.h>
#include <string.h>

bool td__measures_here(const td_data_options *options) {
    return !options->group || td_group_rank(options->group) == 0;
}

td_status td__share_status(td_group *group, td_status status, td_error *error) {
    struct {
        int32_t status;
        char text[TD_ERROR_TEXT_SIZE];
    } first;
    if (!group || td_group_size(group) == 1) {
        return status;
    }
    memset(&first, 0, sizeof first);
    first.status = (int32_t)status;
    (void)snprintf(first.text, sizeof first.text, "%s", status && error ? error->text : "");
    td_status lost = td_group_broadcast(group, &first, sizeof first, 0, error);
    return lost           ? lost
           : first.status ? td_error_set(error, (td_status)first.status, "%s", first.text)
                          : TD_OK;
}

td_status td__share_measured(const td_data_options *options, td_status status, void *values,
                             size_t size, td_error *error) {
    status = td__share_status(options->group, status, error);
    return status || !options->group ? status
                                     : td_group_broadcast(options->group, values, size, 0, error);
}
