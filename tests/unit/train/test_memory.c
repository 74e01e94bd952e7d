/* A whole training in which one allocation fails, each in turn: it ends with a model, or with a
 * sentence; nothing leaks, and a run that could begin can be gone on with. */
#include "test.h"

#include "base/memory.h"
#include "tapedeck/train.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] =
    "name: run\n"
    "threads: 1\n"
    "data: {generate: {two_moons: {examples: 24}}, validation: 0.25, batch: 6}\n"
    "model: [{dense: {name: hidden, units: 3, activation: tanh}}, {dense: {name: logits, units: "
    "2}}]\n"
    "train:\n"
    "  loss: sparse_categorical_crossentropy\n"
    "  from_logits: true\n"
    "  epochs: 2\n"
    "  checkpoint: {every: 2 steps, keep: 1}\n"
    "record:\n"
    "  - {what: [loss, val_loss], to: [csv, tensorboard]}\n"
    "  - {what: \"*\", form: [stats, histogram], to: [tensorboard, sqlite]}\n"
    "  - {what: hidden.error, form: rows, to: [csv]}\n"
    "  - {what: hidden.output, form: tensor, when: loss > 0, history: 2, to: [npy]}\n"
    "  - {what: hidden.kernel, form: image, to: [png]}\n";

static char folder[64], path[96];

static int remove_entry(const char *name, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(name);
}

static void remove_folder(const char *name) {
    (void)nftw(name, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_scratch(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/tapedeck-memory-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/e.yaml", folder);
    FILE *file = fopen(path, "w");
    return !file || fputs(text, file) == EOF || fclose(file);
}

static int remove_scratch(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

/* What training says with allocation n failing (0: none); *made gets how many there were. */
static td_status train(uint64_t n, uint64_t *made, td_error *error) {
    char out[96], run[128];
    snprintf(out, sizeof out, "%s/runs", folder);
    snprintf(run, sizeof run, "%s/run/model.safetensors", out);
    uint64_t before = td__allocation_count();
    td__allocation_fail_at(n);
    *error = (td_error){0};
    td_experiment *experiment = td_experiment_read(path, NULL, error);
    td_trainer *trainer =
        experiment
            ? td_trainer_create(
                  experiment, &(td_trainer_options){.size = sizeof(td_trainer_options), .out = out},
                  error)
            : NULL;
    td_status status = trainer ? td_trainer_run(trainer, error) : error->status;
    td__allocation_fail_at(0);
    if (!status && access(run, R_OK) != 0) {
        fail_msg("allocation %llu: trained, and there is no model", (unsigned long long)n);
    }
    td_trainer_destroy(trainer);
    td_experiment_destroy(experiment);
    *made = td__allocation_count() - before;
    remove_folder(out);
    return status;
}

static void every_allocation_of_a_training_may_fail(void **state) {
    (void)state;
    td_error error;
    uint64_t total, made;
    assert_ok(train(0, &total, &error), error);
    assert_true(total > 500);
    uint64_t step = total / 300 + 1;
    for (uint64_t n = 1; n <= total; n += step) {
        td_status status = train(n, &made, &error);
        if (status && !error.text[0]) {
            fail_msg("allocation %llu: status %d without an error", (unsigned long long)n, status);
        }
        if (status && status != TD_MEMORY && status != TD_INCOMPLETE) {
            fail_msg("allocation %llu: %s (%d)", (unsigned long long)n, error.text, status);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_training_may_fail)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
