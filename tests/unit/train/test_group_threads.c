/* Trainers of a group, each in a thread of one process: what they share with their group's threads and with the lanes of
 * layers that compute over all shards is shown to the thread sanitizer, and the model is that of one trainer. */
#include "network.h"

#include "folder.h"

#include "tapedeck/train.h"

static const char text[] =
    "name: run\n"
    "seed: 3\n"
    "threads: 1\n"
    "data: {train: rows.csv, label: kind, memory: 100, batch: 16, validation: 0.25, standardize: "
    "true}\n"
    "model:\n"
    "  - dense: {name: hidden, units: 6}\n"
    "  - batch_normalization: {name: norm, sync: true}\n"
    "  - dropout: {name: drop, rate: 0.2}\n"
    "  - batch_normalization: {name: again, sync: true}\n"
    "  - dense: {name: logits, units: 3}\n"
    "train:\n"
    "  loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"
    "  metrics: [accuracy]\n"
    "  shards: 8\n"
    "  epochs: 2\n"
    "record:\n"
    "  - {what: \"*\", every: 3 steps, form: stats, to: [csv]}\n"
    "  - {what: hidden.output, when: loss > 0, history: 1, to: [npy]}\n";

static bool write_text(const char *name, const char *content) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    return file && fputs(content, file) >= 0 && fclose(file) == 0;
}

static bool write_rows(void) {
    static char rows[8192] = "a,b,kind\n";
    for (int i = 0; i < 120; i++) {
        size_t length = strlen(rows);
        (void)snprintf(rows + length, sizeof rows - length, "%d.%d,%d,%s\n", i % 7, i % 5,
                       i * i % 11,
                       i < 60  ? i % 2 ? "eel" : "fox"
                       : i % 3 ? "cat"
                               : "eel");
    }
    return write_text("rows.csv", rows);
}

static td_status train(td_group *group, const char *out, td_error *error) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/e.yaml", folder);
    td_experiment *experiment = td_experiment_read(path, NULL, error);
    const td_trainer_options options = {
        .size = sizeof options, .out = out, .group = group, .read_first = true};
    td_trainer *trainer = experiment ? td_trainer_create(experiment, &options, error) : NULL;
    td_status status = trainer ? td_trainer_run(trainer, error) : error->status;
    if (status && group) {
        td_group_fail(group, error->text);
    }
    td_trainer_destroy(trainer);
    td_experiment_destroy(experiment);
    return status;
}

static void *train_member(void *user) {
    member *m = user;
    td_error error = {0};
    m->group = join(m, 60);
    m->good = m->group && train(m->group, m->text, &error) == TD_OK;
    if (!m->good) {
        (void)fprintf(stderr, "rank %d: %s\n", m->rank, error.text);
    }
    td_group_close(m->group);
    return NULL;
}

/* Both files are the same bytes. */
static bool are_equal(const char *out, const char *other, const char *name) {
    char command[400];
    (void)snprintf(command, sizeof command, "cmp '%s/run/%s' '%s/run/%s'", out, name, other, name);
    return system(command) == 0;
}

static void trainers_of_a_group_share_the_work_of_one(void **state) {
    (void)state;
    char alone[128], caches[128];
    td_error error = {0};
    (void)snprintf(alone, sizeof alone, "%s/alone", folder);
    (void)snprintf(caches, sizeof caches, "%s/cache", folder);
    assert_true(write_text("e.yaml", text) && write_rows());
    assert_int_equal(setenv("TAPEDECK_CACHE", caches, 1), 0);
    assert_ok(train(NULL, alone, &error), error);
    for (int size = 2; size <= 4; size *= 2) {
        network net;
        member members[MOST] = {0};
        char outs[MOST][128], command[200];
        (void)snprintf(command, sizeof command, "rm -rf '%s'", caches);
        assert_int_equal(system(command), 0);
        for (int i = 0; i < size; i++) {
            (void)snprintf(outs[i], sizeof outs[i], "%s/of-%d-rank-%d", folder, size, i);
            members[i].text = outs[i];
        }
        run_members(members, &net, size, train_member);
        for (int i = 0; i < size; i++) {
            assert_true(members[i].good);
        }
        assert_true(are_equal(alone, outs[0], "model.safetensors"));
        assert_true(are_equal(alone, outs[0], "stats.csv"));
        assert_true(are_equal(alone, outs[0], "hidden.output.npy"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_of_a_group_share_the_work_of_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
