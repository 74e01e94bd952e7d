/* Checkpoints: everything a run needs to go on, in RUN/checkpoints/step-000000120.safetensors.
 *
 *     LAYER.PARAMETER          the parameters, so that a checkpoint is a model too
 *     optimizer/NAME           the optimizer's state
 *     training/counters        int64: see COUNTERS
 *     training/sums            float64: see save_sums
 *     training/best/PARAMETER  with early stopping that restores the best
 *
 * What was recorded up to the step is on disk before its checkpoint appears, so that a resumed run
 * misses nothing.
 */
#include "train/trainer.h"

#include "base/file.h"
#include "base/memory.h"
#include "experiment/notes.h"
#include "model/architecture.h"
#include "model/safetensors.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNTERS = 6, OPTIMIZER_STEPS = 3 };

static void get_counters(const td_trainer *trainer, int64_t counters[COUNTERS]) {
    const int64_t values[COUNTERS] = {
        trainer->step,       trainer->epoch,
        trainer->batch,      (int64_t)td_optimizer_steps(trainer->optimizer),
        trainer->best_epoch, trainer->waited,
    };
    memcpy(counters, values, sizeof values);
}

static void set_counters(td_trainer *trainer, const int64_t counters[COUNTERS]) {
    trainer->step = counters[0];
    trainer->epoch = counters[1];
    trainer->batch = counters[2];
    td_optimizer_set_steps(trainer->optimizer, (uint64_t)counters[OPTIMIZER_STEPS]);
    trainer->best_epoch = counters[4];
    trainer->waited = counters[5];
}

/* best, examples, the sums of loss and metrics, what progress told last. */
static size_t sum_count(const td_trainer *trainer) {
    return 2 + trainer->metric_count + 1 + trainer->told_count;
}

static void save_sums(const td_trainer *trainer, double *sums) {
    *sums++ = trainer->best;
    *sums++ = trainer->sums.examples;
    for (size_t i = 0; i <= trainer->metric_count; i++) {
        *sums++ = trainer->sums.sums[i];
    }
    for (size_t i = 0; i < trainer->told_count; i++) {
        *sums++ = trainer->told[i].value;
    }
}

static void restore_sums(td_trainer *trainer, const double *sums) {
    trainer->best = *sums++;
    trainer->sums.examples = *sums++;
    for (size_t i = 0; i <= trainer->metric_count; i++) {
        trainer->sums.sums[i] = *sums++;
    }
    for (size_t i = 0; i < trainer->told_count; i++) {
        trainer->told[i].value = *sums++;
    }
}

/* ---- Saving -----------------------------------------------------------------------------------
 */

/* The list of what a checkpoint holds, and the names made for it. */
typedef struct parts {
    td__named_view *tensors;
    size_t count;
    char **names; /* owned */
    size_t name_count;
} parts;

static void release(parts *p) {
    for (size_t i = 0; i < p->name_count; i++) {
        td__free(p->names[i]);
    }
    td__free(p->names);
    td__free(p->tensors);
}

static bool add_prefixed(parts *p, const char *prefix, const char *name, td_view view) {
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

static bool gather(const td_trainer *trainer, const int64_t *counters, const double *sums,
                   parts *p) {
    size_t states = td_optimizer_state_count(trainer->optimizer);
    size_t most = 2 * trainer->parameter_count + states + 2;
    p->tensors = td__calloc(most, sizeof *p->tensors);
    p->names = td__calloc(most, sizeof *p->names);
    bool good = p->tensors && p->names;
    for (size_t i = 0; good && i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        td_view view = td_view_of(parameter->tensor);
        p->tensors[p->count++] = (td__named_view){.name = parameter->name, .view = view};
        if (trainer->best_weights) {
            view.data = trainer->best_weights[i];
            good = add_prefixed(p, "training/best/", parameter->name, view);
        }
    }
    for (size_t i = 0; good && i < states; i++) {
        const td_tensor *state = td_optimizer_state(trainer->optimizer, i);
        good = add_prefixed(p, "optimizer/", td_tensor_name(state), td_view_of(state));
    }
    return good &&
           add_prefixed(p, "training/", "counters",
                        (td_view){TD_INT64, TD_SHAPE(COUNTERS), counters, NULL, NULL}) &&
           add_prefixed(
               p, "training/", "sums",
               (td_view){TD_FLOAT64, TD_SHAPE((int64_t)sum_count(trainer)), sums, NULL, NULL});
}

static td_status write_parts(td_trainer *trainer, const char *path, td_error *error) {
    int64_t counters[COUNTERS];
    double *sums = td__calloc(sum_count(trainer), sizeof *sums);
    char *architecture = td__architecture_write(trainer->model);
    char *notes = td__notes_write(trainer->experiment, trainer->info);
    parts p = {0};
    td_status status = TD_MEMORY;
    get_counters(trainer, counters);
    if (sums && architecture && notes) {
        save_sums(trainer, sums);
        const td__text_pair texts[] = {{TD__NOTE_MODEL, architecture}, {TD_NOTE_DATA, notes}};
        status = gather(trainer, counters, sums, &p)
                     ? td__safetensors_write(path, p.count, p.tensors, 2, texts, error)
                     : TD_MEMORY;
    }
    if (status == TD_MEMORY) {
        td_error_set(error, status, "%s: out of memory", path);
    }
    release(&p);
    td__free(notes);
    td__free(architecture);
    td__free(sums);
    return status;
}

static bool is_checkpoint(const char *name) {
    size_t length = strlen(name);
    return length > 17 && !strncmp(name, "step-", 5) && !strcmp(name + length - 12, ".safetensors");
}

/* Removes the oldest until `keep` are left. Names sort by step. */
static void prune(const char *folder, int64_t keep) {
    for (;;) {
        char oldest[256] = "";
        int64_t count = 0;
        DIR *listing = opendir(folder);
        for (struct dirent *entry; listing && (entry = readdir(listing));) {
            if (is_checkpoint(entry->d_name)) {
                count++;
                if (!*oldest || strcmp(entry->d_name, oldest) < 0) {
                    (void)snprintf(oldest, sizeof oldest, "%s", entry->d_name);
                }
            }
        }
        if (listing) {
            closedir(listing);
        }
        char path[5000];
        if (count <= keep ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, oldest) >= sizeof path ||
            unlink(path) != 0) {
            return;
        }
    }
}

/* A link in its place is refused: what it leads to is not the run's. */
static bool make_folder(const char *run, td_error *error) {
    int folder = td__folder_open(run, error);
    int made = folder < 0 ? -1 : td__folder_create(folder, "checkpoints", error);
    if (made >= 0) {
        close(made);
    }
    if (folder >= 0) {
        close(folder);
    }
    return made >= 0;
}

static td_status write_checkpoint(td_trainer *trainer, td_error *error) {
    char folder[4200], path[4300];
    if ((size_t)snprintf(folder, sizeof folder, "%s/checkpoints", trainer->folder) >=
        sizeof folder) {
        return td_error_set(error, TD_RANGE, "%s: the path is too long", trainer->folder);
    }
    if (!make_folder(trainer->folder, error)) {
        return TD_IO;
    }
    (void)snprintf(path, sizeof path, "%s/step-%09lld.safetensors", folder,
                   (long long)trainer->step);
    td_status status = write_parts(trainer, path, error);
    int64_t keep = trainer->experiment->train.checkpoint_keep;
    if (!status) {
        prune(folder, keep ? keep : 1);
    }
    return status;
}

void td__checkpoint_save(td_trainer *trainer) {
    td_error error = {0};
    if (td_deck_flush(trainer->deck, &error)) {
        td__trainer_unrecorded(trainer, &error);
    }
    error = (td_error){0};
    if (write_checkpoint(trainer, &error)) {
        td__trainer_unrecorded(trainer, &error);
    }
}

static td_status publish(td_trainer *trainer, const char *path, const char *notes,
                         td_error *error) {
    const td_model_note note = {TD_NOTE_DATA, notes};
    return td_model_save(trainer->model, path, 1, &note, error);
}

td_status td__model_publish(td_trainer *trainer, td_error *error) {
    char path[4300], checkpoints[4300];
    const char *folder = trainer->folder;
    char *notes = td__notes_write(trainer->experiment, trainer->info);
    if (!notes ||
        (size_t)snprintf(path, sizeof path, "%s/model.safetensors", folder) >= sizeof path) {
        td__free(notes);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_error first = {0};
    td_status status = publish(trainer, path, notes, &first);
    if (status) { /* once more, with the room that older checkpoints took */
        (void)snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
        prune(checkpoints, 1);
        status = publish(trainer, path, notes, error);
    }
    td__free(notes);
    return status;
}

/* ---- Resuming ---------------------------------------------------------------------------------
 */

static td_status find_last(const char *run, char *path, size_t size, td_error *error) {
    char folder[4200], last[256] = "";
    (void)snprintf(folder, sizeof folder, "%s/checkpoints", run);
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (is_checkpoint(entry->d_name) && strcmp(entry->d_name, last) > 0) {
            (void)snprintf(last, sizeof last, "%s", entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
    if (!*last || (size_t)snprintf(path, size, "%s/%s", folder, last) >= size) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s: no checkpoint to resume from; expected a run's folder with "
                            "checkpoints/step-….safetensors",
                            run);
    }
    return TD_OK;
}

static td_status read_tensor(const td__safetensors *file, const char *prefix, const char *name,
                             td_view into, const char *path, td_error *error) {
    char full[1200];
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    const td__named_view *found = td__safetensors_find(file, full);
    if (!found || found->view.dtype != into.dtype ||
        !td_shape_equal(&found->view.shape, &into.shape)) {
        return td_error_set(error, TD_SHAPE,
                            "%s: %s is missing or has another shape; the experiment is not the one "
                            "that the run was started with",
                            path, full);
    }
    int64_t count = 1;
    for (int32_t i = 0; i < into.shape.rank; i++) {
        count *= into.shape.dims[i];
    }
    memcpy((void *)(uintptr_t)into.data, found->view.data,
           (size_t)count * td_dtype_size(into.dtype));
    return TD_OK;
}

static td_status read_parts(td_trainer *trainer, const td__safetensors *file, const char *path,
                            td_error *error) {
    int64_t counters[COUNTERS] = {0};
    double *sums = td__calloc(sum_count(trainer), sizeof *sums);
    td_status status = sums ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        td_view view = td_view_of(parameter->tensor);
        status = read_tensor(file, "", parameter->name, view, path, error);
        if (!status && trainer->best_weights) {
            view.data = trainer->best_weights[i];
            status = read_tensor(file, "training/best/", parameter->name, view, path, error);
        }
    }
    for (size_t i = 0; !status && i < td_optimizer_state_count(trainer->optimizer); i++) {
        const td_tensor *state = td_optimizer_state(trainer->optimizer, i);
        status =
            read_tensor(file, "optimizer/", td_tensor_name(state), td_view_of(state), path, error);
    }
    if (!status) {
        status =
            read_tensor(file, "training/", "counters",
                        (td_view){TD_INT64, TD_SHAPE(COUNTERS), counters, NULL, NULL}, path, error);
    }
    if (!status) {
        status = read_tensor(
            file, "training/", "sums",
            (td_view){TD_FLOAT64, TD_SHAPE((int64_t)sum_count(trainer)), sums, NULL, NULL}, path,
            error);
    }
    if (!status) {
        set_counters(trainer, counters);
        restore_sums(trainer, sums);
    }
    td__free(sums);
    return status;
}

/* A run may have ended after its last checkpoint and before its model was written: then the model
 * is what is left to do. */
static td_status check_left(const td_trainer *trainer, td_error *error) {
    char path[5000];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", trainer->resume);
    bool has_model = access(path, F_OK) == 0;
    if (has_model && trainer->stopped_early) {
        return td_error_set(error, TD_STATE,
                            "%s: %s; for more, --set train.early_stopping.patience=N",
                            trainer->resume, trainer->stopped_early);
    }
    if (has_model && trainer->step >= trainer->steps) {
        return td_error_set(error, TD_STATE,
                            "%s: all %lld steps are done; for more, --set train.epochs=N",
                            trainer->resume, (long long)trainer->steps);
    }
    return TD_OK;
}

td_status td__checkpoint_resume(td_trainer *trainer, td_error *error) {
    char path[5000];
    td_status status = find_last(trainer->resume, path, sizeof path, error);
    td__safetensors *file = status ? NULL : td__safetensors_open(path, error);
    if (!file) {
        return status ? status : TD_FORMAT;
    }
    status = read_parts(trainer, file, path, error);
    td__safetensors_close(file);
    if (!status && (trainer->step < 1 || trainer->epoch < 0 || trainer->batch < 0 ||
                    trainer->batch >= trainer->batches)) {
        status =
            td_error_set(error, TD_FORMAT, "%s: its counters make no sense with this data", path);
    }
    if (!status) {
        td__stop_when_patience_ends(trainer);
        status = check_left(trainer, error);
    }
    return status;
}
