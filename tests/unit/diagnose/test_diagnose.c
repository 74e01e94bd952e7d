/* Series that rules read, the table of rules, and diagnoses of runs that are made up record by record. */
#include "folder.h"

#include "diagnose/diagnosis.h"
#include "store/writer.h"

#include <sys/stat.h>

static const char *scratch(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

/* A run with a loss, and perhaps a validation loss, of these values at steps 1, 2, …. */
static void make_run(const char *name, size_t count, const double *loss, const double *validation,
                     const char *loop) {
    td_error error = {0};
    td__store *store;
    td__writer writer;
    assert_int_equal(mkdir(scratch(name), 0777), 0);
    assert_ok(td__store_create(scratch(name), &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    for (size_t i = 0; i < count; i++) {
        td_record record = {.signal = "loss",
                            .form = TD_SCALAR,
                            .value = loss[i],
                            .step = (int64_t)i + 1,
                            .epoch = 1,
                            .wall_time = 1.7e9 + (double)i};
        assert_ok(td__writer_record(&writer, &record, &error), error);
        if (validation) {
            record.signal = "val_loss";
            record.signal_index = 1;
            record.value = validation[i];
            assert_ok(td__writer_record(&writer, &record, &error), error);
        }
    }
    if (loop) {
        assert_ok(td__writer_note(&writer, "loop", loop, &error), error);
    }
    assert_ok(td__writer_note(&writer, "state", "finished", &error), error);
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
}

static td_diagnosis *diagnose(const char *name, const char *only) {
    td_error error = {0};
    td_diagnose_options options = {.size = sizeof options, .only = only, .no_trial = true};
    td_diagnosis *diagnosis = td_diagnose(scratch(name), &options, &error);
    if (!diagnosis) {
        fail_msg("%s", error.text);
    }
    return diagnosis;
}

static bool has_finding(const td_diagnosis *diagnosis, const char *cause) {
    size_t count = td_diagnosis_finding_count(diagnosis);
    for (size_t i = 0; i < count; i++) {
        const td_diagnosis_finding *finding = td_diagnosis_finding_at(diagnosis, i);
        if (!strcmp(finding->cause, cause)) {
            return true;
        }
    }
    return false;
}

static bool has_note(const td_diagnosis *diagnosis, const char *text) {
    const char *const *notes;
    size_t count = td_diagnosis_notes(diagnosis, &notes);
    for (size_t i = 0; i < count; i++) {
        if (strstr(notes[i], text)) {
            return true;
        }
    }
    return false;
}

static void a_series_is_read_over_its_finite_points(void **state) {
    (void)state;
    td_point points[5] = {0};
    const double values[5] = {(double)NAN, 4, 2, 8, (double)INFINITY};
    for (size_t i = 0; i < 5; i++) {
        points[i].step = (int64_t)i + 1;
        points[i].value = points[i].low = points[i].high = values[i];
    }
    td__series series = {.count = 5, .points = points}, none = {0};
    int64_t step = 0;
    assert_true(td__series_first(&series) == 4 && td__series_last(&series) == 8);
    assert_true(td__series_least(&series, &step) == 2 && step == 3);
    assert_true(td__series_most(&series, &step) == 8 && step == 4);
    assert_close(td__series_mean(&series, 0, 1), 14.0 / 3, 1e-12, 0);
    assert_close(td__series_mean(&series, 0.4, 0.6), 2, 1e-12, 0);
    assert_true(isnan(td__series_mean(&series, 0, 0.1)) && isnan(td__series_mean(&none, 0, 1)));
    assert_true(isnan(td__series_first(&none)) && isnan(td__series_least(&none, NULL)));
}

static void every_rule_has_a_name_of_its_own_and_says_what_it_reads(void **state) {
    (void)state;
    size_t count = 0;
    for (const td_rule_info *rule; (rule = td_diagnose_rule(count)); count++) {
        assert_true(rule->name[0] && rule->meaning[0] && rule->reads[0] && rule->threshold[0]);
        assert_true(rule->symptom || rule->remedy[0]);
        for (size_t i = 0; i < count; i++) {
            assert_string_not_equal(rule->name, td_diagnose_rule(i)->name);
        }
    }
    assert_true(count > 40);
    assert_null(td_diagnose_rule(count + 1000));
    assert_null(td__rule_of("no_such_cause"));
}

static void rules_are_chosen_by_names_and_globs(void **state) {
    (void)state;
    const td__rule *rule = td__rule_of("overfitting");
    assert_non_null(rule);
    assert_true(td__rule_is_wanted(rule, NULL, NULL));
    assert_true(td__rule_is_wanted(rule, "dead_relu,over*", NULL));
    assert_false(td__rule_is_wanted(rule, "dead_relu", NULL));
    assert_false(td__rule_is_wanted(rule, NULL, "overfitting"));
    assert_false(td__rule_is_wanted(rule, "over*", "*fitting"));
}

static void severity_is_0_at_the_threshold_and_1_at_ten_times_as_much(void **state) {
    (void)state;
    assert_close(td__severity(5, 5), 0, 0, 1e-12);
    assert_close(td__severity(50, 5), 1, 1e-12, 0);
    assert_true(td__severity(20, 5) > 0 && td__severity(20, 5) < 1);
}

static void a_healthy_loss_has_no_findings(void **state) {
    (void)state;
    double loss[200], validation[200];
    for (int i = 0; i < 200; i++) {
        loss[i] = exp(-i / 20.0) + 0.01;
        validation[i] = loss[i] * 1.1;
    }
    make_run("healthy", 200, loss, validation, NULL);
    td_diagnosis *diagnosis = diagnose("healthy", NULL);
    assert_int_equal(td_diagnosis_finding_count(diagnosis), 0);
    assert_true(td_diagnosis_rule_count(diagnosis) > 0);
    assert_true(td_diagnosis_skipped_count(diagnosis) > 0); /* no gradients were recorded */
    td_error error = {0};
    assert_int_equal(td_diagnosis_fix(diagnosis, &error), TD_STATE);
    td_diagnosis_destroy(diagnosis);
}

static void a_validation_loss_that_rises_is_overfitting(void **state) {
    (void)state;
    double loss[100], validation[100];
    for (int i = 0; i < 100; i++) {
        loss[i] = 2 * exp(-i / 15.0) + 0.001;
        validation[i] = i < 30 ? 2 - i * 0.05 : 0.55 + (i - 30) * 0.03;
    }
    make_run("overfit", 100, loss, validation, NULL);
    td_diagnosis *diagnosis = diagnose("overfit", NULL);
    assert_true(has_finding(diagnosis, "overfitting"));
    td_diagnosis_destroy(diagnosis);
    diagnosis = diagnose("overfit", "dead_relu");
    assert_false(has_finding(diagnosis, "overfitting"));
    td_diagnosis_destroy(diagnosis);
}

static void facts_of_the_loop_that_cannot_be_read_are_noted(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"updates\": ", "[1, 2]", "{\"a\": 1, \"a\": 2}"};
    const double loss[] = {1, 0.9, 0.8};
    for (size_t i = 0; i < 3; i++) {
        char name[] = "broken-0";
        name[7] = (char)('0' + i);
        make_run(name, 3, loss, NULL, texts[i]);
        td_diagnosis *diagnosis = diagnose(name, NULL);
        assert_true(has_note(diagnosis, "the facts about the training loop cannot be read"));
        td_diagnosis_destroy(diagnosis);
    }
}

static void facts_of_another_kind_than_expected_are_no_facts(void **state) {
    (void)state;
    const double loss[] = {1, 0.9, 0.8};
    make_run("odd", 3, loss, NULL,
             "{\"updates\": \"many\", \"clipping\": 7, \"evaluation_mode\": [], \"unchanged\": "
             "{\"names\": {\"x\": 1}, \"count\": -1e300}, \"repeated_batch\": null}");
    td_diagnosis *diagnosis = diagnose("odd", NULL);
    assert_false(has_finding(diagnosis, "parameter_unchanged"));
    td_diagnosis_destroy(diagnosis);
}

static void what_is_no_run_and_no_experiment_is_refused_by_name(void **state) {
    (void)state;
    td_error error = {0};
    assert_null(td_diagnose(scratch("no-such-run"), NULL, &error));
    assert_non_null(strstr(error.text, "no-such-run"));
    FILE *file = fopen(scratch("broken.yaml"), "w");
    assert_non_null(file);
    assert_true(fputs("model: [dense: {units: [[[[\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_null(td_check(scratch("broken.yaml"), NULL, &error));
    assert_non_null(strstr(error.text, "broken.yaml"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_series_is_read_over_its_finite_points),
        cmocka_unit_test(every_rule_has_a_name_of_its_own_and_says_what_it_reads),
        cmocka_unit_test(rules_are_chosen_by_names_and_globs),
        cmocka_unit_test(severity_is_0_at_the_threshold_and_1_at_ten_times_as_much),
        cmocka_unit_test(a_healthy_loss_has_no_findings),
        cmocka_unit_test(a_validation_loss_that_rises_is_overfitting),
        cmocka_unit_test(facts_of_the_loop_that_cannot_be_read_are_noted),
        cmocka_unit_test(facts_of_another_kind_than_expected_are_no_facts),
        cmocka_unit_test(what_is_no_run_and_no_experiment_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
