/* The experiment with what was found put right. */
#include "diagnose/diagnosis.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <unistd.h>

#define NAME "experiment.fixed.yaml"

/* Takes the line of a key at the top level out of a document as td__experiment_write makes it. */
static void drop_line(char *text, size_t *size, const char *key) {
    size_t length = strlen(key);
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (!strncmp(line, key, length) && line[length] == ':') {
            size_t gone = end ? (size_t)(end - line) + 1 : strlen(line);
            memmove(line, line + gone, strlen(line + gone) + 1);
            *size -= gone;
            return;
        }
        line = end ? end + 1 : NULL;
    }
}

td_status td_diagnosis_fix(const td_diagnosis *diagnosis, td_error *error) {
    if (!diagnosis->fix_path) {
        return td_error_set(error, TD_STATE,
                            diagnosis->finding_count
                                ? "what was found cannot be put right in the experiment file"
                                : "nothing was found that could be put right");
    }
    td_experiment_options options = {
        .size = sizeof options, .set = diagnosis->fix, .set_count = diagnosis->fix_count};
    td_experiment *experiment = td_experiment_read(diagnosis->fix_path, &options, error);
    if (!experiment) {
        return error && error->status ? error->status : TD_INVALID;
    }
    size_t size = 0;
    char *text = td__experiment_write(experiment, &size);
    int folder = td__folder_open(*experiment->folder ? experiment->folder : ".", error);
    td_status status = text ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status && diagnosis->fix_redraw) {
        drop_line(text, &size, "weights");
    }
    if (!status) {
        status = folder < 0 ? TD_IO : td__file_publish(folder, NAME, text, size, false, error);
    }
    if (folder >= 0) {
        close(folder);
    }
    td__free(text);
    td_experiment_destroy(experiment);
    return status;
}
