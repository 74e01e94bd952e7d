/* What a saved model says of the data it was trained on (data/notes.h) and of its loss, as JSON:
 * enough to prepare new examples the same way, and to measure them by the same measure. {…, "loss":
 * "mse", "target": "label", "outputs": [{"loss": …}, …]} */
#ifndef TAPEDECK_EXPERIMENT_NOTES_H
#define TAPEDECK_EXPERIMENT_NOTES_H

#include "data/notes.h"
#include "experiment/experiment.h"

#define TD__NOTE_MODEL "tapedeck.model"

typedef struct td__notes {
    td__data_notes data;
    bool has_loss;
    td__objective objective;
    td__objective objectives[TD_MAX_OUTPUTS]; /* of several outputs, in the model's order */
    double weights[TD_MAX_OUTPUTS];           /* of their losses */
    size_t objective_count;                   /* 0: just one */
    struct json_t *json;                      /* owns the texts */
} td__notes;

/* heads: of outputs that have losses of their own. From td__calloc; NULL when memory is exhausted. */
char *td__notes_write(const td_experiment *experiment, const td_data_info *info,
                      const td__head *heads, size_t head_count);
/* TD_FORMAT when text is not such a note. */
TD_NODISCARD td_status td__notes_read(td__notes *notes, const char *text, const char *origin,
                                      td_error *error);
void td__notes_release(td__notes *notes);

#endif
