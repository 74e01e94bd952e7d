/* The sections of an experiment file: what they mean, and how what means nothing is reported. */
#include "test.h"

#include "experiment/experiment.h"

#include <unistd.h>

#define DATA "data: {generate: two_moons}\n"
#define MODEL "model: [dense: {units: 2}]\n"
#define TRAIN "train: {loss: mse, epochs: 1}\n"

static char file[] = "/tmp/tapedeck-sections-XXXXXX";

static int set_up(void **state) {
    (void)state;
    int descriptor = mkstemp(file);
    return descriptor < 0 || close(descriptor);
}

static int tear_down(void **state) {
    (void)state;
    return unlink(file);
}

static void collect(void *user, const char *text) {
    char *all = user;
    (void)strncat(all, text + strlen(file), 4000 - strlen(all));
    (void)strncat(all, "\n", 4000 - strlen(all));
}

/* problems: ":LINE: TEXT\n" of each. */
static td_experiment *read_text(const char *text, char problems[4001], td_error *error) {
    *problems = 0;
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0 && !fclose(out));
    return td_experiment_read(file,
                              &(td_experiment_options){.size = sizeof(td_experiment_options),
                                                       .problem = collect,
                                                       .user = problems},
                              error);
}

static td_experiment *read_good(const char *text) {
    char problems[4001];
    td_error error = {0};
    td_experiment *experiment = read_text(text, problems, &error);
    if (!experiment) {
        fail_msg("%s%s", problems, error.text);
    }
    return experiment;
}

static void what_is_not_said_has_defaults(void **state) {
    (void)state;
    td_experiment *e = read_good(DATA MODEL TRAIN);
    assert_true(e->data.batch == 32 && !e->data.in_order && e->data.scale == 1);
    assert_true(e->seed == 0 && e->queue == 256 << 20 && e->history == 64 << 20);
    assert_true(e->diagnose && e->stop_on_nan && !e->stop_on_divergence);
    assert_string_equal(e->train.optimizer.name, "adam");
    assert_true(e->train.checkpoint_sparing && e->train.checkpoint_keep == 2);
    assert_null(e->train.stop_monitor);
    td_experiment_destroy(e);
}

static void every_key_reaches_its_member(void **state) {
    (void)state;
    td_experiment *e = read_good(
        "name: 2024\nseed: 9007199254740993\nthreads: 2\noverhead: 5%\npolicy: degrade\n"
        "queue: 32 MiB\ndiagnose: off\nstop_on: [divergence]\n"
        "data: {generate: {blobs: {classes: 3}}, validation: 0.25, shuffle: no, batch: 8,\n"
        "  scale: -0.5, label: [a, 7], layout: channels_first, label_kind: one_hot,\n"
        "  class_weight: {a: 2, b: 0}, missing: 4, separator: tab, header: yes, memory: 1 GB}\n"
        "model:\n  - dense: {units: 4, activation: relu}\n  - add: {from: [dense, input]}\n"
        "train:\n  loss: {huber: {delta: 2}}\n  target: input\n  steps: 7\n  clip_norm: 1\n"
        "  learning_rate_schedule: {cosine: {warmup: 3}}\n  metrics: mae\n"
        "  checkpoint: {every: 3 epochs, keep: 1, best: val_loss}\n"
        "  early_stopping: {mode: max, patience: 2, restore_best: true}\n"
        "record:\n  - {what: 'loss, *.error', every: 2 epochs, when: loss > 1, history: 3}\n"
        "  - {what: [accuracy], at: [1, 10], form: [scalar], to: csv}\n");
    assert_string_equal(e->name, "2024");
    assert_true(e->seed == UINT64_C(9007199254740993) && e->threads == 2);
    assert_true(e->overhead == 0.05 && e->policy == 2 && e->queue == 32 << 20 && !e->diagnose);
    assert_true(!e->stop_on_nan && e->stop_on_divergence);
    assert_true(e->data.validation_share == 0.25 && e->data.in_order && e->data.batch == 8);
    assert_true(e->data.scale == -0.5 && e->data.label.count == 2);
    assert_string_equal(e->data.label.items[1], "7");
    assert_int_equal(e->data.layout, 2);
    assert_int_equal(e->data.label_kind, 3);
    assert_true(e->data.weighted_classes.count == 2 && e->data.class_weights[0] == 2);
    assert_true(e->data.missing == TD_MISSING_VALUE && e->data.missing_value == 4);
    assert_true(e->data.separator == '\t' && e->data.header == TD_HEADER_YES);
    assert_true(e->data.memory == 1000000000);
    assert_true(e->layer_count == 2 && e->train.steps == 7 && e->train.clip_norm == 1);
    assert_true(e->train.objective.loss == TD_LOSS_HUBER);
    assert_true(e->train.objective.options.delta.value == 2);
    assert_string_equal(e->train.schedule.name, "cosine");
    assert_true(e->train.checkpoint_every.epochs == 3 && !e->train.checkpoint_sparing);
    assert_true(e->train.stop_mode == TD__MODE_MAX && e->train.stop_restore_best);
    assert_string_equal(e->train.stop_monitor, "val_loss");
    assert_true(e->track_count == 2 && e->tracks[0].what.count == 2);
    assert_string_equal(e->tracks[0].what.items[1], "*.error");
    assert_true(e->tracks[0].every.epochs == 2 && e->tracks[1].at.count == 2);
    td_experiment_destroy(e);
}

static void every_mistake_is_said_where_it_stands(void **state) {
    (void)state;
    static const struct {
        const char *text, *problem;
    } wrong[] = {
        {MODEL TRAIN, ":1: data: is missing"},
        {DATA MODEL "train: {loss: mse}\n", "train: epochs: N, or steps: N, is missing"},
        {DATA MODEL "train: 3\n", ":3: train: expected a map (KEY: VALUE), not '3'"},
        {DATA MODEL TRAIN "name: a/b\n", ":4: name: a run's folder gets this name"},
        {DATA MODEL TRAIN "name: [a]\n", ":4: name: a run's folder gets this name"},
        {DATA MODEL TRAIN "seed: -1\n", ":4: seed: must be a whole number of at least 0, not '-1'"},
        {DATA MODEL TRAIN "seed: [1]\n", ":4: seed: must be a whole number of at least 0"},
        {DATA MODEL TRAIN "threads: 5000\n", ":4: threads: is 5000, it must be 1024 or less"},
        {DATA MODEL TRAIN "threads: \"2\"\n",
         ":4: threads: must be a whole number from 1 to 1024, not '2'"},
        {DATA MODEL TRAIN "threads: {a: 1}\n",
         ":4: threads: expected a number, a word or a list, not a map"},
        {DATA MODEL TRAIN "threads: [[1]]\n",
         ":4: threads: expected a list of numbers or of names"},
        {DATA MODEL TRAIN "threads:\n", ":4: threads: expected a number, a word or a list, not "
                                        "nothing"},
        {DATA MODEL TRAIN "policy: blok\n", "there is no policy 'blok'; did you mean 'block'?"},
        {DATA MODEL TRAIN "queue: 1 KiB\n", ":4: queue: is 1024, it must be "},
        {DATA MODEL TRAIN "stop_on: [nan, inf]\n",
         "stop_on: there is no reason 'inf'; there are nan, divergence"},
        {DATA MODEL TRAIN "colour: red\n", ":4: there is no 'colour'; there are name, seed"},
        {DATA MODEL TRAIN "record: {what: loss}\n", ":4: record: expected a list of tracks"},
        {DATA MODEL TRAIN "record: [{every: 3}]\n", ":4: record[0].what: is missing"},
        {DATA MODEL TRAIN "record: [{what: ','}]\n", "record[0].what: ',' names no signal"},
        {DATA MODEL TRAIN "record: [{what: {a: b}}]\n",
         "record[0].what: must be a name or a list of names, not a map"},
        {DATA MODEL TRAIN "record: [{what: loss, at: 3}]\n",
         "record[0].at: expected a list of steps"},
        {DATA MODEL TRAIN "record: [{what: loss, at: [3], every: 2}]\n",
         "every and at exclude each other"},
        {DATA MODEL TRAIN "record: [{what: loss, history: 2}]\n", "needs a condition"},
        {DATA MODEL TRAIN "record: [{what: loss, every: 0}]\n",
         "record[0].every: expected 'N steps' or 'N epochs', not '0'"},
        {DATA MODEL TRAIN "record: [{what: loss, form: sclar}]\n",
         "record[0].form: there is no form 'sclar'; did you mean 'scalar'?"},
        {DATA MODEL TRAIN "record: [{what: loss, to: [csv, nyp]}]\n",
         "record[0].to: there is no sink 'nyp'; did you mean 'npy'?"},
        {"data: {}\n" MODEL TRAIN,
         ":1: data: train: FILE, inputs: {…}, or generate: {…}, is missing"},
        {"data: {generate: {two_moons: {examples: x}}}\n" MODEL TRAIN,
         "data.generate: examples: expected a number"},
        {"data: {generate: {two_mons: {noise: 1}}}\n" MODEL TRAIN, "two_moons"},
        {"data: {train: /nowhere.csv}\n" MODEL TRAIN,
         "data.train: no file '/nowhere.csv' that can be read"},
        {"data: {train: [[a]]}\n" MODEL TRAIN, "data.train: must be a file's name, not a list"},
        {"data: {generate: two_moons, validation: 1}\n" MODEL TRAIN,
         "data.validation: is 1, it must be 0.999 or less"},
        {"data: {generate: two_moons, header: 3}\n" MODEL TRAIN,
         "data.header: must be true or false, not 3"},
        {"data: {generate: two_moons, missing: x}\n" MODEL TRAIN, "data.missing: expected mean"},
        {"data: {generate: two_moons, separator: ab}\n" MODEL TRAIN, "data.separator: expected"},
        {"data: {generate: two_moons, class_weight: x}\n" MODEL TRAIN,
         "data.class_weight: expected balanced"},
        {"data: {generate: two_moons, class_weight: {a: -1}}\n" MODEL TRAIN,
         "data.class_weight: expected a number of at least 0"},
        {"data: {generate: two_moons, label: {x: a, z: b}}\n" MODEL TRAIN,
         "data.label: there is no 'z'"},
        {DATA "model: dense\n" TRAIN, ":2: model: expected a list of layers"},
        {DATA "model: []\n" TRAIN, "expected at least one layer"},
        {DATA "model: {frozen: [a]}\n" TRAIN, "model: expected a list of layers; {layers: […]"},
        {DATA "model: [dense: {units: 0}]\n" TRAIN, "'units' is 0, it must be 1 or more"},
        {DATA "model: [{a: {}, b: {}}]\n" TRAIN,
         "model[0]: expected a layer, NAME or {NAME: {…}}, not a map with several names"},
        {DATA "model: [dense: 3]\n" TRAIN, "model[0].dense: expected a map"},
        {DATA "model: [dense: {units: 2, trainable: false}]\n" TRAIN,
         "there is no 'trainable': it is the opposite of 'frozen'"},
        {DATA "model: [dense: {units: 2, kernel_regularizer: l2}]\n" TRAIN,
         "there is no 'kernel_regularizer': it is a number for 'kernel_l1', 'kernel_l2' or both"},
        {DATA "model: [zero_padding1d: {padding: 1}]\n" TRAIN,
         "there is no 'padding': it is 'before' and 'after'"},
        {DATA "model: [zero_padding2d: {padding: 1}]\n" TRAIN,
         "there is no 'padding': it is 'top', 'bottom', 'left' and 'right'"},
        {DATA "model: [cropping3d: {cropping: 1}]\n" TRAIN,
         "there is no 'cropping': it is 'front', 'back', 'top'"},
        {DATA "model: [InputLayer: {shape: 2}]\n" TRAIN,
         "there is no layer 'InputLayer': it is 'input'"},
        {DATA "model: [leaky_relu: {alpha: 0.1}]\n" TRAIN,
         "there is no layer 'leaky_relu': it is 'activation: {function: leaky_relu}'"},
        {DATA MODEL "train: {loss: mse, epochs: 1, optimizer: {adam: {global_clipnorm: 1}}}\n",
         "there is no 'global_clipnorm': it is 'clip_norm' of 'train'"},
        {DATA MODEL "train: {loss: mes, epochs: 1}\n",
         "train.loss: there is no loss 'mes'; did you mean 'mse'?"},
        {DATA MODEL "train:\n  loss:\n    mse:\n      delta: 2\n  epochs: 1\n",
         ":6: train.loss: mse: delta 2 is not possible"},
        {DATA MODEL "train: {loss: mse, epochs: 1, metrics: [acuracy]}\n",
         "train.metrics[0]: there is no metric 'acuracy'; did you mean 'accuracy'?"},
        {DATA MODEL "train: {loss: mse, epochs: 1, learning_rate_schedule: cosin}\n",
         "did you mean 'cosine'?"},
        {DATA MODEL "train: {loss: mse, epochs: 1, checkpoint: {every: soon}}\n",
         "train.checkpoint.every: expected 'N steps' or 'N epochs', not 'soon'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char problems[4001];
        td_error error = {0};
        td_experiment *experiment = read_text(wrong[i].text, problems, &error);
        if (experiment || !strstr(problems, wrong[i].problem)) {
            fail_msg("%s:\n%s does not have\n%s", wrong[i].text, problems, wrong[i].problem);
        }
    }
}

static void an_activation_is_spelt_as_in_keras_too(void **state) {
    (void)state;
    td_experiment_destroy(read_good(DATA "model: [activation: {activation: relu}]\n" TRAIN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_activation_is_spelt_as_in_keras_too),
        cmocka_unit_test(what_is_not_said_has_defaults),
        cmocka_unit_test(every_key_reaches_its_member),
        cmocka_unit_test(every_mistake_is_said_where_it_stands),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
