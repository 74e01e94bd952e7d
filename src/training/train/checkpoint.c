/* Checkpoints: everything a run needs to go on, in RUN/checkpoints/step-000000120.safetensors.
 *
 *     LAYER.PARAMETER          the parameters, so that a checkpoint is a model too
 *     optimizer/NAME           the optimizer's state
 *     training/counters        int64: see COUNTERS
 *     training/state           float64: see get_state
 *     training/means           float64: of each td__mean_at, value and examples
 *     training/recording       uint8: what conditions remember, see deck/state.c; only where there are any
 *     training/files           uint8: how far the run's files reach, see sink/extents.h; likewise
 *     training/best/PARAMETER  with early stopping that restores the best
 *
 * What was recorded up to the step is on disk before its checkpoint appears, so that a resumed run
 * misses nothing.
 */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "deck/state.h"
#include "experiment/notes.h"
#include "model/architecture.h"
#include "model/load.h"
#include "model/safetensors.h"
#include "sink/extents.h"
#include "store/store.h"
#include "tensor/element.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNTERS = 4, OPTIMIZER_STEPS = 3, MOST_STATE = 1 << 24 };

static void get_counters(const td_trainer *trainer, int64_t counters[COUNTERS]) {
    const td__progress *at = &trainer->at;
    const int64_t values[COUNTERS] = {at->step, at->epoch, at->batch,
                                      (int64_t)td_optimizer_steps(trainer->learner.optimizer)};
    memcpy(counters, values, sizeof values);
}

static void set_counters(td_trainer *trainer, const int64_t counters[COUNTERS]) {
    trainer->at.step = counters[0];
    trainer->at.epoch = counters[1];
    trainer->at.batch = counters[2];
    td_optimizer_set_steps(trainer->learner.optimizer, (uint64_t)counters[OPTIMIZER_STEPS]);
}

/* training/state: what early stopping waits for, the best model's value, what a plateau is measured by
 * where one is, what progress showed last, then what the epoch under way has summed up. */
enum { BEST = 5 };

/* Of what comes before the measure. */
static size_t head_size(const td_trainer *trainer) {
    size_t plateau = trainer->plateau.best.monitor ? TD__PLATEAU_STATE : 0;
    return BEST + plateau + trainer->told_count;
}

static size_t state_size(const td_trainer *trainer) {
    return head_size(trainer) + td__measure_size(&trainer->measures, &trainer->measures.epoch);
}

static void get_state(const td_trainer *trainer, double *state) {
    const td__stopping *stopping = &trainer->stopping;
    *state++ = stopping->best.value;
    *state++ = (double)stopping->best.epoch;
    *state++ = (double)stopping->waited;
    *state++ = trainer->keep.value;
    *state++ = (double)trainer->keep.epoch;
    if (trainer->plateau.best.monitor) {
        td__plateau_save(&trainer->plateau, state);
        state += TD__PLATEAU_STATE;
    }
    for (size_t i = 0; i < trainer->told_count; i++) {
        *state++ = trainer->progress_values[i].value;
    }
    td__measure_save(&trainer->measures, &trainer->measures.epoch, state);
}

static td_status set_state(td_trainer *trainer, const double *state, size_t size, td_error *error) {
    td__stopping *stopping = &trainer->stopping;
    if (size < head_size(trainer)) {
        return td_error_set(error, TD_FORMAT, "too few numbers");
    }
    for (size_t i = 1; i < BEST; i++) {
        if (i != 3 && !(state[i] >= 0 && state[i] < 1e15)) {
            return td_error_set(error, TD_FORMAT, "an epoch of %g", state[i]);
        }
    }
    size -= head_size(trainer);
    stopping->best.value = *state++;
    stopping->best.epoch = (int64_t)*state++;
    stopping->waited = (int64_t)*state++;
    trainer->keep.value = *state++;
    trainer->keep.epoch = (int64_t)*state++;
    if (trainer->plateau.best.monitor) {
        if (!td__plateau_restore(&trainer->plateau, state) ||
            td_optimizer_set_learning_rate(trainer->learner.optimizer, trainer->plateau.rate,
                                           NULL)) {
            return td_error_set(error, TD_FORMAT, "what it says of a plateau makes no sense");
        }
        state += TD__PLATEAU_STATE;
    }
    for (size_t i = 0; i < trainer->told_count; i++) {
        trainer->progress_values[i].value = *state++;
    }
    return td__measure_restore(&trainer->measures, &trainer->measures.epoch, state, size, error);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

void td__parts_release(td__parts *p) {
    for (size_t i = 0; i < p->name_count; i++) {
        td__free(p->names[i]);
    }
    td__free(p->names);
    td__free(p->tensors);
    td__free(p->counters);
    td__free(p->state);
    td__free(p->means);
    *p = (td__parts){0};
}

static bool add_prefixed(td__parts *p, const char *prefix, const char *name, td_view view) {
    size_t room = strlen(prefix) + strlen(name) + 1;
    char *full = td__calloc(room, 1);
    if (!full) {
        return false;
    }
    (void)snprintf(full, room, "%s%s", prefix, name);
    p->names[p->name_count++] = full;
    p->tensors[p->count++] = (td__named_view){.name = full, .view = view};
    return true;
}

/* Of numbers over the epoch under way. */
static size_t mean_count(td_trainer *trainer) {
    size_t count = 0;
    while (td__mean_at(trainer, count)) {
        count++;
    }
    return count;
}

static void get_means(td_trainer *trainer, double *means) {
    for (size_t i = 0; td__mean_at(trainer, i); i++) {
        *means++ = td__mean_at(trainer, i)->value;
        *means++ = td__mean_at(trainer, i)->examples;
    }
}

static td_view bytes_view(const void *bytes, size_t size) {
    return (td_view){TD_UINT8, TD_SHAPE((int64_t)size), bytes, NULL, NULL};
}

static bool gather_tensors(td_trainer *trainer, td__parts *p) {
    size_t states = td_optimizer_state_count(trainer->learner.optimizer);
    bool good = true;
    for (size_t i = 0; good && i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        td_view view = td_view_of(parameter->tensor);
        p->tensors[p->count++] = (td__named_view){.name = parameter->name, .view = view};
        if (trainer->stopping.weights) {
            view.data = trainer->stopping.weights[i];
            good = add_prefixed(p, "training/best/", parameter->name, view);
        }
    }
    for (size_t i = 0; good && i < states; i++) {
        const td_tensor *moment = td_optimizer_state(trainer->learner.optimizer, i);
        good = add_prefixed(p, "optimizer/", td_tensor_name(moment), td_view_of(moment));
    }
    return good;
}

static bool gather_numbers(td_trainer *trainer, td__parts *p) {
    get_counters(trainer, p->counters);
    get_state(trainer, p->state);
    get_means(trainer, p->means);
    td_shape means = TD_SHAPE(2 * (int64_t)mean_count(trainer));
    td_shape state = TD_SHAPE((int64_t)state_size(trainer));
    return add_prefixed(p, "training/", "means",
                        (td_view){TD_FLOAT64, means, p->means, NULL, NULL}) &&
           add_prefixed(p, "training/", "counters",
                        (td_view){TD_INT64, TD_SHAPE(COUNTERS), p->counters, NULL, NULL}) &&
           add_prefixed(p, "training/", "state",
                        (td_view){TD_FLOAT64, state, p->state, NULL, NULL});
}

td_status td__parts_gather(td_trainer *trainer, const td__remembered *remembered, td__parts *p,
                           td_error *error) {
    size_t states = td_optimizer_state_count(trainer->learner.optimizer);
    size_t max_tensors = 2 * trainer->parameter_count + states + 5;
    *p = (td__parts){.tensors = td__calloc(max_tensors, sizeof *p->tensors),
                     .names = td__calloc(max_tensors, sizeof *p->names),
                     .counters = td__calloc(COUNTERS, sizeof *p->counters),
                     .state = td__calloc(state_size(trainer), sizeof *p->state),
                     .means = td__calloc(mean_count(trainer), 2 * sizeof *p->means)};
    bool good =
        p->tensors && p->names && p->counters && p->state && p->means && gather_tensors(trainer, p);
    if (good && remembered && remembered->state) {
        good = add_prefixed(p, "training/", "recording",
                            bytes_view(remembered->state, remembered->state_size)) &&
               add_prefixed(p, "training/", "files",
                            bytes_view(remembered->files, remembered->files_size));
    }
    return good && gather_numbers(trainer, p) ? TD_OK
                                              : td_error_set(error, TD_MEMORY, "out of memory");
}

/* Nothing where no track has a condition: then every record is of its step, and is cut off by that. */
static td_status remember(const td__recording *recording, td__remembered *remembered,
                          td_error *error) {
    td_status status =
        td__deck_save_state(recording->deck, &remembered->state, &remembered->state_size, error);
    if (!status && remembered->state) {
        status =
            td__extents_list(recording->opened, &remembered->files, &remembered->files_size, error);
    }
    return status;
}

void td__remembered_release(td__remembered *remembered) {
    td__free(remembered->state);
    td__free(remembered->files);
    *remembered = (td__remembered){0};
}

static td_status write_parts(td_trainer *trainer, const char *path, td_error *error) {
    char *architecture = td__architecture_write(trainer->model);
    char *notes = td__notes_write(trainer->experiment, trainer->feed.info, trainer->heads,
                                  trainer->head_count);
    td__parts p = {0};
    td__remembered remembered = {0};
    td_status status = TD_MEMORY;
    if (architecture && notes && !remember(&trainer->recording, &remembered, error)) {
        const td__text_pair texts[] = {{TD__NOTE_MODEL, architecture}, {TD_NOTE_DATA, notes}};
        status = td__parts_gather(trainer, &remembered, &p, error);
        status = status ? status : td__safetensors_write(path, p.count, p.tensors, 2, texts, error);
    }
    if (status == TD_MEMORY) {
        td_error_set(error, status, "%s: out of memory", path);
    }
    td__parts_release(&p);
    td__free(notes);
    td__free(architecture);
    td__remembered_release(&remembered);
    return status;
}

/* The checkpoints in an opened folder: their number, and the name of the oldest. Names sort by step. */
static int64_t count_checkpoints(int folder, char oldest[256]) {
    int64_t count = 0;
    DIR *listing = td__folder_list(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (td__is_checkpoint(entry->d_name)) {
            if (count++ == 0 || strcmp(entry->d_name, oldest) < 0) {
                (void)snprintf(oldest, 256, "%s", entry->d_name);
            }
        }
    }
    if (listing) {
        closedir(listing);
    }
    return count;
}

/* Removes the oldest until `keep` are left; to the ring, where that is wanted and has room. */
static void prune(td_trainer *trainer, int checkpoints, int64_t keep, bool to_ring) {
    char oldest[256];
    while (count_checkpoints(checkpoints, oldest) > keep) {
        if (!(to_ring && td__ring_take(trainer, checkpoints, oldest)) &&
            unlinkat(checkpoints, oldest, 0) != 0) {
            td_error error = {0};
            td__file_error(&error, oldest, "remove");
            td__trainer_unrecorded(trainer, &error);
            return;
        }
    }
}

static td_status write_checkpoint(td_trainer *trainer, bool last, td_error *error) {
    char name[64], path[4300], oldest[256];
    int64_t keep = trainer->experiment->train.checkpoint_keep;
    (void)snprintf(name, sizeof name, "step-%09lld.safetensors", (long long)trainer->at.step);
    if ((size_t)snprintf(path, sizeof path, "%s/checkpoints/%s", trainer->recording.place, name) >=
        sizeof path) {
        return td_error_set(error, TD_RANGE, "%s: the path is too long", trainer->recording.folder);
    }
    /* A link in its place is refused: what it leads to is not the run's. */
    int checkpoints = td__folder_create(trainer->recording.opened, "checkpoints", error);
    if (checkpoints < 0) {
        return TD_IO;
    }
    td_status status = write_parts(trainer, path, error);
    bool older = count_checkpoints(checkpoints, oldest) > 0;
    if (status) {
        td__ring_empty(trainer); /* its room serves this one */
        status = write_parts(trainer, path, error);
    }
    /* Once more, with the room that was reserved for the last one; an older one makes room for that. */
    if (status && (last || older) && td__room_use(checkpoints, name)) {
        status = write_parts(trainer, path, error);
        if (!status && older && !last) {
            td__room_recycle(checkpoints, oldest);
        }
    }
    if (!status) {
        prune(trainer, checkpoints, keep ? keep : 1, true);
    }
    close(checkpoints);
    return status;
}

void td__branch_keep(td_trainer *trainer) {
    char path[4300];
    td_error error = {0};
    int folder = td__folder_create(trainer->recording.opened, "branch", &error);
    int length = snprintf(path, sizeof path, "%s/branch/step-%09lld.safetensors",
                          trainer->recording.place, (long long)trainer->at.step);
    bool good = folder >= 0 && length > 0 && (size_t)length < sizeof path &&
                !write_parts(trainer, path, &error);
    if (folder >= 0) {
        close(folder);
    }
    if (!good) {
        td__trainer_unrecorded(trainer, &error);
    }
}

bool td__checkpoint_is_cheap(double spent, double cost, double elapsed) {
    return spent + cost <= 0.01 * elapsed;
}

void td__checkpoint_save(td_trainer *trainer, bool last) {
    double began = td__seconds();
    td_error error = {0};
    td__flight_flush(trainer);
    if (td_deck_flush(trainer->recording.deck, &error)) {
        td__trainer_unrecorded(trainer, &error);
    }
    error = (td_error){0};
    if (write_checkpoint(trainer, last, &error)) {
        td__trainer_unrecorded(trainer, &error);
    }
    trainer->at.saved = td__seconds() - began;
    trainer->at.saving += trainer->at.saved;
    trainer->at.saved_at = began;
}

static td_status publish_checkpoint(td_trainer *trainer, const char *path, const char *notes,
                                    td_error *error) {
    const td_model_note note = {TD_NOTE_DATA, notes};
    return td_model_save(trainer->model, path, 1, &note, error);
}

void td__model_keep_best(td_trainer *trainer) {
    char path[4300];
    td_error error = {0};
    char *notes = td__notes_write(trainer->experiment, trainer->feed.info, trainer->heads,
                                  trainer->head_count);
    (void)snprintf(path, sizeof path, "%s/best.safetensors", trainer->recording.place);
    td_status status = notes ? publish_checkpoint(trainer, path, notes, &error)
                             : td_error_set(&error, TD_MEMORY, "%s: out of memory", path);
    if (status) {
        td__trainer_unrecorded(trainer, &error);
    }
    td__free(notes);
}

td_status td__model_publish(td_trainer *trainer, td_error *error) {
    char path[4300];
    char *notes = td__notes_write(trainer->experiment, trainer->feed.info, trainer->heads,
                                  trainer->head_count);
    if (!notes || (size_t)snprintf(path, sizeof path, "%s/model.safetensors",
                                   trainer->recording.place) >= sizeof path) {
        td__free(notes);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_error first = {0};
    td_status status = publish_checkpoint(trainer, path, notes, &first);
    if (status) { /* once more, with the room that older checkpoints took */
        td__ring_empty(trainer);
        int checkpoints = td__folder_create(trainer->recording.opened, "checkpoints", NULL);
        if (checkpoints >= 0) {
            prune(trainer, checkpoints, 1, false);
            close(checkpoints);
        }
        status = publish_checkpoint(trainer, path, notes, error);
    }
    td__free(notes);
    return status;
}

/* ---- Resuming -------------------------------------------------------------------------------- */

static td_status find_last(const char *run, char *path, size_t size, td_error *error) {
    if (td__last_checkpoint(run, path, size)) {
        return TD_OK;
    }
    return td_error_set(error, TD_NOT_FOUND,
                        "%s: no checkpoint to resume from; expected a run's folder with "
                        "checkpoints/step-….safetensors",
                        run);
}

static const td__named_view *find_part(const td__parts_source *source, const char *prefix,
                                       const char *name) {
    char full[1200];
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    return source->find(source->context, full);
}

static void done_with(const td__parts_source *source, const td__named_view *part) {
    if (source->read) {
        source->read(source->context, part);
    }
}

static td_status read_tensor(const td__parts_source *source, const char *prefix, const char *name,
                             td_view into, td_error *error) {
    const td__named_view *found = find_part(source, prefix, name);
    if (!found || found->view.dtype != into.dtype ||
        !td_shape_equal(&found->view.shape, &into.shape)) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%s: %s%s is missing or has another shape; the experiment is not the "
                            "one that the run was started with",
                            source->path, prefix, name);
    }
    int64_t count = td__elements_from(&into.shape, 0);
    memcpy((void *)(uintptr_t)into.data, found->view.data,
           (size_t)count * td_dtype_size(into.dtype));
    done_with(source, found);
    return TD_OK;
}

static td_status read_state(td_trainer *trainer, const td__parts_source *source, td_error *error) {
    const td__named_view *found = find_part(source, "", "training/state");
    bool good = found && found->view.dtype == TD_FLOAT64 && found->view.shape.rank == 1 &&
                found->view.shape.dims[0] < MOST_STATE;
    size_t size = good ? (size_t)found->view.shape.dims[0] : 0;
    double *state = td__calloc(size + 1, sizeof *state);
    td_error reason = {0};
    if (!state) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (good) {
        memcpy(state, found->view.data, size * sizeof *state);
    }
    td_status status = good ? set_state(trainer, state, size, &reason)
                            : td_error_set(&reason, TD_FORMAT, "missing");
    td__free(state);
    return status ? td_error_set(error, status, "%s: training/state: %s", source->path, reason.text)
                  : TD_OK;
}

/* A checkpoint of an earlier version, or of other tracks, has none: they begin anew. */
static td_status read_means(td_trainer *trainer, const td__parts_source *source, td_error *error) {
    const td__named_view *found = find_part(source, "", "training/means");
    size_t count = mean_count(trainer);
    if (!found || found->view.dtype != TD_FLOAT64 ||
        !td_shape_equal(&found->view.shape, &TD_SHAPE(2 * (int64_t)count))) {
        return TD_OK;
    }
    for (size_t i = 0; i < count; i++) {
        td__mean mean;
        memcpy(&mean, (const char *)found->view.data + i * sizeof mean, sizeof mean);
        if (!(mean.examples >= 0 && mean.examples < 1e15)) {
            return td_error_set(error, TD_FORMAT, "%s: training/means: a mean over %g examples",
                                source->path, mean.examples);
        }
        *td__mean_at(trainer, i) = mean;
    }
    return TD_OK;
}

/* The bytes of that name, to be freed; *bytes stays NULL where the file, of an earlier version, has none. */
static td_status read_bytes(const td__parts_source *source, const char *name, void *bytes,
                            size_t *size, td_error *error) {
    const td__named_view *found = find_part(source, "", name);
    if (!found || found->view.dtype != TD_UINT8 || found->view.shape.rank != 1) {
        return TD_OK;
    }
    size_t count = (size_t)found->view.shape.dims[0];
    char *copy = td__calloc(count + 1, 1);
    if (!copy) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    memcpy(copy, found->view.data, count);
    memcpy(bytes, &copy, sizeof copy);
    *size = count;
    done_with(source, found);
    return TD_OK;
}

/* Kept until the deck is open. */
static td_status read_remembered(td_trainer *trainer, const td__parts_source *source,
                                 td_error *error) {
    td__remembered *into = &trainer->recording.remembered;
    td__remembered_release(into);
    td_status status =
        read_bytes(source, "training/recording", &into->state, &into->state_size, error);
    return status ? status
                  : read_bytes(source, "training/files", &into->files, &into->files_size, error);
}

/* What the optimizer remembers; of a branch with another optimizer, which has other tensors, nothing. */
static td_status read_optimizer(td_trainer *trainer, const td__parts_source *source, bool *is_new,
                                td_error *error) {
    const td_optimizer *optimizer = trainer->learner.optimizer;
    td_status status = TD_OK;
    size_t count = td_optimizer_state_count(optimizer), missing = 0;
    for (size_t i = 0; source->past && i < count; i++) {
        missing +=
            !find_part(source, "optimizer/", td_tensor_name(td_optimizer_state(optimizer, i)));
    }
    if (missing) {
        td__trainer_remark(trainer, NULL,
                           "%s has no state of this optimizer: it begins without any, and a "
                           "learning rate schedule begins anew",
                           source->path);
        *is_new = true;
        return TD_OK;
    }
    for (size_t i = 0; !status && i < count; i++) {
        const td_tensor *moment = td_optimizer_state(optimizer, i);
        status =
            read_tensor(source, "optimizer/", td_tensor_name(moment), td_view_of(moment), error);
    }
    return status;
}

static td_status read_parameters(td_trainer *trainer, const td__parts_source *source,
                                 td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        td_view view = td_view_of(parameter->tensor);
        status = read_tensor(source, "", parameter->name, view, error);
        if (!status && trainer->stopping.weights) {
            view.data = trainer->stopping.weights[i];
            bool found = find_part(source, "training/best/", parameter->name);
            status = source->past && !found
                         ? read_tensor(source, "", parameter->name, view, error)
                         : read_tensor(source, "training/best/", parameter->name, view, error);
        }
    }
    return status;
}

/* Whether training/state has the same numbers in the same places, and they are of the same use. */
static bool has_same_state(const td_trainer *trainer, const td_trainer *past) {
    bool same =
        trainer->told_count == past->told_count && state_size(trainer) == state_size(past) &&
        trainer->feed.batches == past->feed.batches &&
        !trainer->plateau.best.monitor == !past->plateau.best.monitor &&
        (!trainer->plateau.best.monitor || !(trainer->plateau.initial < past->plateau.initial ||
                                             trainer->plateau.initial > past->plateau.initial));
    for (size_t i = 0; same && i < trainer->told_count; i++) {
        same = !strcmp(trainer->progress_values[i].name, past->progress_values[i].name);
    }
    return same;
}

/* A branch with other metrics, another plateau or other batches: its epoch's means, early stopping and
 * plateau begin anew; with other batches also the epoch. */
static void begin_state_anew(td_trainer *trainer, const td_trainer *past) {
    td__measure_reset(&trainer->measures, &trainer->measures.epoch);
    bool rebatched = trainer->feed.batches != past->feed.batches;
    if (rebatched) {
        trainer->at.batch = 0;
    }
    td__trainer_remark(trainer, NULL,
                       "the branch has other %s: means of the epoch, early stopping and "
                       "reduce_on_plateau begin anew%s",
                       rebatched ? "batches" : "metrics or another plateau",
                       rebatched ? ", and so does the epoch" : "");
}

td_status td__parts_read(td_trainer *trainer, const td__parts_source *source, td_error *error) {
    int64_t counters[COUNTERS] = {0};
    bool is_new = false;
    td_status status = read_parameters(trainer, source, error);
    status = status ? status : read_optimizer(trainer, source, &is_new, error);
    if (!status) {
        status = read_tensor(source, "training/", "counters",
                             (td_view){TD_INT64, TD_SHAPE(COUNTERS), counters, NULL, NULL}, error);
    }
    if (status) {
        return status;
    }
    if (is_new) {
        counters[OPTIMIZER_STEPS] = 0;
    }
    set_counters(trainer, counters);
    if (source->past && !has_same_state(trainer, source->past)) {
        begin_state_anew(trainer, source->past);
        return TD_OK;
    }
    status = read_state(trainer, source, error);
    status = status ? status : read_means(trainer, source, error);
    return status || source->past ? status : read_remembered(trainer, source, error);
}

static const td__named_view *find_in_file(const void *file, const char *name) {
    return td__safetensors_find(file, name);
}

static void let_go_in_file(const void *file, const td__named_view *part) {
    td__safetensors_unmap(file, part);
}

td_status td__checkpoint_read(td_trainer *trainer, const char *path, td_error *error) {
    td__safetensors *file = td__safetensors_open(path, error);
    if (!file) {
        return TD_FORMAT;
    }
    td__parts_source source = {
        .find = find_in_file, .read = let_go_in_file, .context = file, .path = path};
    td_status status = td__parts_read(trainer, &source, error);
    td__safetensors_close(file);
    const td__progress *at = &trainer->at;
    if (!status &&
        (at->step < 1 || at->epoch < 0 || at->batch < 0 || at->batch >= trainer->feed.batches)) {
        status =
            td_error_set(error, TD_FORMAT, "%s: its counters make no sense with this data", path);
    }
    if (!status) {
        td__stopping_decide(&trainer->stopping);
    }
    return status;
}

/* Whether run.db says that the run ended as it should; also where it says nothing. */
static bool is_finished(const char *run) {
    td__store *store = NULL;
    bool damaged, finished = true;
    if (td__store_read(run, false, &store, &damaged, NULL)) {
        return true;
    }
    td__rows *rows = store->class->select(store, &(td__query){.source = TD__RUN_NOTES}, NULL);
    if (rows) {
        td__rows_bind(rows, 0, 0, 0, -1);
    }
    while (rows && td__rows_next(rows, NULL) > 0) {
        const char *key = td__rows_text(rows, 0, NULL), *value = td__rows_text(rows, 1, NULL);
        if (key && value && !strcmp(key, "state")) {
            finished = !strcmp(value, "finished");
        }
    }
    td__rows_end(rows);
    td__store_close(store);
    return finished;
}

/* A run may have ended after its last checkpoint and before its model was written, or before it was
 * noted that it ended: then that is what is left to do. */
static td_status check_left(const td_trainer *trainer, td_error *error) {
    char path[5000];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", trainer->resume);
    bool is_done = access(path, F_OK) == 0 && is_finished(trainer->resume);
    if (is_done && trainer->stopping.stopped) {
        return td_error_set(error, TD_STATE,
                            "%s: %s; for more, --set train.early_stopping.patience=N",
                            trainer->resume, trainer->stopping.text);
    }
    if (is_done && trainer->at.step >= trainer->feed.steps) {
        return td_error_set(error, TD_STATE,
                            "%s: all %lld steps are done; for more, --set train.epochs=N",
                            trainer->resume, (long long)trainer->feed.steps);
    }
    return TD_OK;
}

td_status td__checkpoint_resume(td_trainer *trainer, td_error *error) {
    char path[5000];
    td_status status = find_last(trainer->resume, path, sizeof path, error);
    status = status ? status : td__checkpoint_read(trainer, path, error);
    return status ? status : check_left(trainer, error);
}
