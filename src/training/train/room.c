/* Room on the disk for the model, the last checkpoint and the note that the run ended, reserved before anything is recorded: a
 * recording that fills the disk does not cost the training its result. */
#include "train/trainer.h"

#include "base/file.h"
#include "base/memory.h"
#include "experiment/notes.h"
#include "model/architecture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MODEL "model.safetensors"
#define CHECKPOINT "last" /* until its step is known */
#define INDEX "run.db"

typedef struct sizes {
    int64_t model, checkpoint; /* bytes, a little more than the files will have */
} sizes;

/* For the note in run.db of how the run ended. */
enum { INDEX_ROOM = 65536 };

/* What a header says of a tensor beside its name, and what it has beside tensors and texts. */
enum { TENSOR_TEXT = 160, HEAD = 8192 };

static void add_tensor(int64_t *bytes, const td_tensor *tensor, size_t name) {
    *bytes += td_tensor_count(tensor) * (int64_t)td_dtype_size(td_tensor_dtype(tensor)) +
              (int64_t)name + TENSOR_TEXT;
}

static bool estimate(const td_trainer *trainer, sizes *size) {
    char *architecture = td__architecture_write(trainer->model);
    char *notes = td__notes_write(trainer->experiment, trainer->feed.info, trainer->heads,
                                  trainer->head_count);
    bool good = architecture && notes;
    /* quotes in a text are escaped */
    int64_t head = good ? HEAD + 2 * (int64_t)(strlen(architecture) + strlen(notes)) : 0;
    *size = (sizes){head, head};
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        int copies = trainer->stopping.weights ? 2 : 1; /* and the best so far */
        add_tensor(&size->model, parameter->tensor, strlen(parameter->name));
        for (int k = 0; k < copies; k++) {
            add_tensor(&size->checkpoint, parameter->tensor, strlen(parameter->name));
        }
    }
    const td_optimizer *optimizer = trainer->learner.optimizer;
    for (size_t i = 0; i < td_optimizer_state_count(optimizer); i++) {
        const td_tensor *moment = td_optimizer_state(optimizer, i);
        add_tensor(&size->checkpoint, moment, strlen(td_tensor_name(moment)));
    }
    size->checkpoint +=
        (int64_t)(td__measure_size(&trainer->measures, &trainer->measures.epoch) * sizeof(double));
    td__free(notes);
    td__free(architecture);
    return good;
}

td_status td__room_reserve(td_trainer *trainer, td_error *error) {
    sizes size;
    td_error reason = {0};
    if (!estimate(trainer, &size)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_status status = td__file_reserve(trainer->recording.opened, MODEL, size.model, &reason);
    if (status) {
        return td_error_set(error, status,
                            "%s; the model will take %lld KiB: free some, or train into another "
                            "folder with --out",
                            reason.text, (long long)(size.model + 1023) / 1024);
    }
    (void)!td__file_reserve(trainer->recording.opened, INDEX, INDEX_ROOM, NULL);
    int checkpoints = td__folder_create(trainer->recording.opened, "checkpoints", NULL);
    if (checkpoints >= 0) { /* without room of its own it is tried all the same when it is due */
        (void)!td__file_reserve(checkpoints, CHECKPOINT, size.checkpoint, NULL);
        close(checkpoints);
    }
    return TD_OK;
}

bool td__room_use(int checkpoints, const char *checkpoint) {
    return td__file_reserved_for(checkpoints, CHECKPOINT, checkpoint);
}

void td__room_recycle(int checkpoints, const char *checkpoint) {
    (void)td__file_recycle(checkpoints, checkpoint, CHECKPOINT);
}

void td__room_release(const td_trainer *trainer) {
    int checkpoints = td__folder_create(trainer->recording.opened, "checkpoints", NULL);
    if (checkpoints >= 0) {
        td__file_unreserve(checkpoints, CHECKPOINT);
        close(checkpoints);
    }
    td__file_unreserve(trainer->recording.opened, MODEL);
}

void td__room_release_index(const td__recording *recording) {
    td__file_unreserve(recording->opened, INDEX);
}
