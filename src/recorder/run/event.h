/* Events of TensorBoard's files, decoded into records: `simple_value`, `histo`, `image` and `audio` of
 * the old style, tensors of the plugins scalars, histograms, images, audio and text of the new one,
 * and other tensors of numbers as they are. Facts about the run are notes: experiment.NAME are the
 * settings of the plugin hparams; tensorboard.TAG is "audio RATE" of a sound, whose tensor is frames x
 * channels, and "pr_curves" of such curves; "statistics" says that they are estimated. */
#ifndef TAPEDECK_RUN_EVENT_H
#define TAPEDECK_RUN_EVENT_H

#include "store/problems.h"
#include "store/tags.h"
#include "tapedeck/run.h"

/* Set the members that are marked; all others are zero at first. One decoder reads all files: a tag's
 * plugin stands only with its first value. */
typedef struct td__decoder {
    td_record_function *each; /* set; its error ends the reading and is returned */
    bool (*wants)(void *user, const char *name); /* set, or NULL: all; asked once a tag */
    td_status (*note)(void *user, const char *key, const char *text,
                      td_error *error); /* set, or NULL */
    void *user;                         /* set */
    int64_t first_step, last_step;      /* set: other steps are left out */
    td__problems *problems;             /* set */
    td__tags tags;
    td_range *ranges;
    size_t range_capacity;
    uint8_t *bytes;
    size_t bytes_capacity;
    int64_t records; /* handed on */
} td__decoder;

/* One event. TD_FORMAT when the bytes are none; otherwise memory's or each's error. */
td_status td__decode_event(td__decoder *decoder, const uint8_t *data, size_t size, td_error *error);
void td__decoder_release(td__decoder *decoder);

#endif
