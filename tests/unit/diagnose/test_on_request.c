/* Rules that read signals which a track has to ask for: attention's entropy and scores, shares of gradients that a format loses, the
 * loss of each row, ranks of representations, second moments. Each with a case and a healthy one near it, made up record by record. */
#include "folder.h"

#include "diagnose/diagnosis.h"
#include "store/writer.h"

#include <sys/stat.h>

enum { RECORDS = 40, ROWS = 16 };

/* A run that is being made; a signal has the number it was first recorded with. */
typedef struct made {
    td__writer writer;
    char path[128];
} made;

static void begin(made *m, const char *name) {
    td_error error = {0};
    td__store *store;
    snprintf(m->path, sizeof m->path, "%s/%s", folder, name);
    assert_int_equal(mkdir(m->path, 0777), 0);
    assert_ok(td__store_create(m->path, &store, &error), error);
    assert_ok(td__writer_init(&m->writer, store, 0, &error), error);
}

static void put(made *m, td_record record, td_signal_kind kind, const char *layer) {
    td_error error = {0};
    td_signal_info info = {.size = sizeof info, .kind = kind, .layer = layer, .parameter = ""};
    record.info = &info;
    record.epoch = 1;
    record.wall_time = 1.7e9 + (double)record.step;
    assert_ok(td__writer_record(&m->writer, &record, &error), error);
}

static void put_loss(made *m, int step) {
    put(m,
        (td_record){.signal = "loss", .form = TD_SCALAR, .value = exp(-step / 10.0), .step = step},
        TD_SIGNAL_METRIC, "");
}

static void put_stats(made *m, int32_t index, const char *signal, int step, double mean,
                      double most) {
    td_stats stats = {.count = 8, .mean = mean, .max = most, .norm = mean};
    put(m,
        (td_record){.signal = signal,
                    .signal_index = index,
                    .form = TD_STATS,
                    .stats = &stats,
                    .step = step},
        TD_SIGNAL_DERIVED, "attention");
}

static td_diagnosis *end(made *m, const char *loop, const char *only) {
    td_error error = {0};
    if (loop) {
        assert_ok(td__writer_note(&m->writer, "loop", loop, &error), error);
    }
    assert_ok(td__writer_note(&m->writer, "state", "finished", &error), error);
    assert_ok(td__batch_sync(&m->writer.batch, &error), error);
    td__writer_release(&m->writer);
    td_diagnose_options options = {.size = sizeof options, .only = only, .no_trial = true};
    td_diagnosis *diagnosis = td_diagnose(m->path, &options, &error);
    if (!diagnosis) {
        fail_msg("%s", error.text);
    }
    return diagnosis;
}

/* The finding of that cause, or NULL. */
static const td_diagnosis_finding *finding(const td_diagnosis *diagnosis, const char *cause) {
    for (size_t i = 0; i < td_diagnosis_finding_count(diagnosis); i++) {
        if (!strcmp(td_diagnosis_finding_at(diagnosis, i)->cause, cause)) {
            return td_diagnosis_finding_at(diagnosis, i);
        }
    }
    return NULL;
}

/* An attention whose entropy goes from 2 to a value, and its largest score from 1 to another. */
static td_diagnosis *attention(const char *name, double entropy, double score) {
    made m = {0};
    begin(&m, name);
    for (int step = 1; step <= RECORDS; step++) {
        double share = fmin(1, step / 20.0);
        put_loss(&m, step);
        put_stats(&m, 1, "attention.entropy", step, 2 + share * (entropy - 2), 2);
        put_stats(&m, 2, "attention.max_logit", step, 0, 1 + share * (score - 1));
    }
    return end(&m, NULL, NULL);
}

static void attention_that_collapses_and_scores_that_grow_are_the_learning_rate(void **state) {
    (void)state;
    td_diagnosis *diagnosis = attention("collapsed", 0.01, 5000);
    const td_diagnosis_finding *found = finding(diagnosis, "learning_rate_too_high");
    assert_non_null(found);
    assert_int_equal(found->confidence, TD_LIKELY);
    assert_int_equal(found->symptom_count, 2);
    assert_string_equal(found->symptoms[0], "attention_collapse");
    assert_string_equal(found->symptoms[1], "attention_logits");
    assert_string_equal(found->evidence[0].signal, "attention.entropy");
    assert_int_equal(found->evidence[0].step, 20);
    td_diagnosis_destroy(diagnosis);

    diagnosis = attention("grown", 0.5, 5000); /* scores alone: a remark */
    found = finding(diagnosis, "learning_rate_too_high");
    assert_non_null(found);
    assert_int_equal(found->confidence, TD_MAYBE);
    td_diagnosis_destroy(diagnosis);
}

static void sharp_attention_of_a_network_that_learns_is_healthy(void **state) {
    (void)state;
    td_diagnosis *diagnosis =
        attention("sharp", 0.01, 60); /* it copies: one token is what it needs */
    assert_int_equal(td_diagnosis_finding_count(diagnosis), 0);
    td_diagnosis_destroy(diagnosis);
    diagnosis = attention("wide", 1.2, 900);
    assert_int_equal(td_diagnosis_finding_count(diagnosis), 0);
    td_diagnosis_destroy(diagnosis);
}

/* Three gradients of which the first `losing` lose a share of their values. */
static td_diagnosis *precision(const char *name, const char *word, int losing, double share,
                               const char *loop) {
    made m = {0};
    begin(&m, name);
    for (int step = 1; step <= RECORDS; step++) {
        put_loss(&m, step);
        for (int i = 0; i < 3; i++) {
            char signal[64];
            snprintf(signal, sizeof signal, "layer%d.weight.gradient.%s", i, word);
            put(&m,
                (td_record){.signal = signal,
                            .signal_index = i + 1,
                            .form = TD_SCALAR,
                            .value = i < losing ? share : 0.02,
                            .step = step},
                TD_SIGNAL_DERIVED, "layer");
        }
    }
    return end(&m, loop, "precision_lost");
}

static void gradients_that_a_format_loses_are_remarked(void **state) {
    (void)state;
    const struct {
        const char *name, *word;
        int losing;
        double share;
        const char *loop;
        bool found;
    } cases[] = {
        {"lost", "float16_underflow", 2, 0.7, NULL, true},
        {"lost-8", "float8_e4m3_underflow", 3, 0.9, NULL, true},
        {"one", "float16_underflow", 1, 1, NULL, false}, /* a gradient that is 0 but for noise */
        {"little", "float16_underflow", 3, 0.4, NULL, false},
        {"scaled", "float16_underflow", 3, 0.7,
         "{\"updates\": 40, \"scaler\": {\"calls\": 40, \"skipped\": 0}}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td_diagnosis *diagnosis =
            precision(cases[i].name, cases[i].word, cases[i].losing, cases[i].share, cases[i].loop);
        const td_diagnosis_finding *found = finding(diagnosis, "precision_lost");
        assert_int_equal(found != NULL, cases[i].found);
        assert_true(!found || (found->confidence == TD_MAYBE &&
                               strstr(found->evidence[0].signal, cases[i].word)));
        assert_int_equal(td_diagnosis_rule_count(diagnosis), 1);
        td_diagnosis_destroy(diagnosis);
    }
}

/* Every fourth step row 7 is in the batch, with a loss of `large`; all others fall from 1. */
static td_diagnosis *rows(const char *name, float large, bool another) {
    made m = {0};
    begin(&m, name);
    for (int step = 1; step <= RECORDS; step++) {
        float losses[ROWS];
        int64_t samples[ROWS];
        for (int i = 0; i < ROWS; i++) {
            samples[i] = 100 + (step % 4) * ROWS + i;
            losses[i] = (float)exp(-step / 10.0);
        }
        if (step % 4 == 0) {
            samples[5] = another ? 1000 + step : 7;
            losses[5] = large;
        }
        td_view view = {.data = losses, .dtype = TD_FLOAT32, .shape = {.rank = 1, .dims = {ROWS}}};
        put_loss(&m, step);
        put(&m,
            (td_record){.signal = "loss.rows",
                        .signal_index = 1,
                        .form = TD_ROWS,
                        .view = &view,
                        .samples = samples,
                        .step = step},
            TD_SIGNAL_DERIVED, "");
    }
    return end(&m, NULL, "bad_row");
}

static void a_row_that_dominates_its_batch_again_and_again_is_named(void **state) {
    (void)state;
    td_diagnosis *diagnosis = rows("outlier", 300, false);
    const td_diagnosis_finding *found = finding(diagnosis, "bad_row");
    assert_non_null(found);
    assert_true(found->evidence[0].value == 7 && found->since_step == 4);
    assert_non_null(strstr(found->evidence[0].text, "row 8 has more than half"));
    td_diagnosis_destroy(diagnosis);

    diagnosis = rows("hard", 5, false); /* not learnt, and no more than hard */
    assert_null(finding(diagnosis, "bad_row"));
    td_diagnosis_destroy(diagnosis);
    diagnosis = rows("in-turns", 300, true); /* another row each time: heavy tails */
    assert_null(finding(diagnosis, "bad_row"));
    td_diagnosis_destroy(diagnosis);
}

/* A layer whose rank goes from one value to another, and a loss that does. */
static td_diagnosis *ranks(const char *name, double from, double to, double loss) {
    made m = {0};
    begin(&m, name);
    for (int step = 1; step <= RECORDS; step++) {
        double share = fmin(1, step / 20.0);
        put(&m,
            (td_record){
                .signal = "loss", .form = TD_SCALAR, .value = 2 + share * (loss - 2), .step = step},
            TD_SIGNAL_METRIC, "");
        put(&m,
            (td_record){.signal = "block.output.effective_rank",
                        .signal_index = 1,
                        .form = TD_SCALAR,
                        .value = from + share * (to - from),
                        .step = step},
            TD_SIGNAL_DERIVED, "block");
    }
    return end(&m, NULL, "rank_collapse");
}

static void representations_that_become_alike_are_remarked(void **state) {
    (void)state;
    const struct {
        const char *name;
        double from, to, loss;
        bool found;
    } cases[] = {
        {"alike", 12, 1.1, 2.1, true},
        {"two-classes", 12, 1.1, 0.1, false}, /* one direction tells them apart */
        {"narrow", 2, 1, 2, false},           /* a layer of two units */
        {"fewer", 12, 3, 2, false},
        {"from-the-start", 1.2, 1.1, 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td_diagnosis *diagnosis = ranks(cases[i].name, cases[i].from, cases[i].to, cases[i].loss);
        const td_diagnosis_finding *found = finding(diagnosis, "rank_collapse");
        assert_int_equal(found != NULL, cases[i].found);
        assert_true(!found || (found->confidence == TD_MAYBE && found->since_step == 17 &&
                               !strcmp(found->layer, "block")));
        assert_int_equal(td_diagnosis_rule_count(diagnosis), 1);
        td_diagnosis_destroy(diagnosis);
    }
}

/* A parameter's statistics in a record: `zeros` of 8. */
static void put_parameter(made *m, int32_t index, const char *signal, td_signal_kind kind, int step,
                          double max, int zeros) {
    td_stats stats = {.count = 8, .max = max, .norm = max, .zeros = zeros};
    put(m,
        (td_record){.signal = signal,
                    .signal_index = index,
                    .form = TD_STATS,
                    .stats = &stats,
                    .step = step},
        kind, "hidden");
}

typedef struct moments {
    const char *name;
    double from,
        to; /* the largest of the second moment of hidden.kernel, falling evenly in its logarithm */
    int zeros;       /* of its values */
    double others;   /* those of two others */
    double gradient; /* of hidden.kernel; 0: none */
    bool still;      /* the second moment has one value once it has fallen */
    bool found;
    td_confidence confidence;
    const char *words;
} moments;

static td_diagnosis *second_moments(const moments *z) {
    made m = {0};
    begin(&m, z->name);
    for (int step = 1; step <= RECORDS; step++) {
        double share = fmin(1, step / 20.0);
        double own = z->from * pow(z->to / z->from, share);
        own *= z->still ? 1 : 1 + 0.1 * (step % 5);
        put_loss(&m, step);
        put_parameter(&m, 1, "hidden.kernel.moment2", TD_SIGNAL_DERIVED, step, own, z->zeros);
        put_parameter(&m, 2, "hidden.kernel.gradient", TD_SIGNAL_GRADIENT, step,
                      z->gradient * (1 + step % 3), z->gradient == 0 ? 8 : 0);
        for (int i = 0; i < 2; i++) {
            put_parameter(&m, 3 + i, i ? "out.bias.moment2" : "out.kernel.moment2",
                          TD_SIGNAL_DERIVED, step, z->others * (1 + 0.1 * (step % 5)), 0);
        }
    }
    return end(&m, NULL, "moment2_lost");
}

static void second_moments_that_are_zero_or_stale_are_remarked(void **state) {
    (void)state;
    const moments cases[] = {
        {"decayed", 1e-4, 1e-18, 0, 1e-5, 0, false, true, TD_MAYBE, "falls from"},
        {"all-decayed", 1e-4, 1e-18, 0, 1e-18, 0, false, false, 0,
         NULL}, /* a training that has ended */
        {"never-any", 1e-17, 1e-18, 0, 1e-5, 0, false, false, 0,
         NULL}, /* the bias of attention's keys */
        {"small", 1e-4, 1e-9, 0, 1e-5, 1e-4, false, false, 0, NULL},
        {"underflow", 1e-7, 1e-7 / 3, 6, 1e-5, 1e-3, false, true, TD_LIKELY, "75 %"},
        {"sparse", 1e-7, 1e-7 / 3, 6, 1e-5, 0, false, false, 0,
         NULL}, /* rows that no example has */
        {"stale", 1e-4, 1e-5, 0, 1e-5, 1e-3, true, true, TD_LIKELY, "since step 20"},
        {"frozen", 1e-4, 1e-5, 0, 1e-5, 0, true, false, 0, NULL}, /* no gradient, no step */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        moments z = cases[i];
        td_diagnosis *diagnosis = second_moments(&z);
        const td_diagnosis_finding *found = finding(diagnosis, "moment2_lost");
        if ((found != NULL) != z.found) {
            fail_msg("%s: %s", z.name, found ? found->evidence[0].text : "nothing");
        }
        assert_true(!found || (found->confidence == z.confidence &&
                               strstr(found->evidence[0].text, z.words)));
        td_diagnosis_destroy(diagnosis);
    }
}

static void what_no_track_asked_for_is_no_check(void **state) {
    (void)state;
    made m = {0};
    begin(&m, "plain");
    for (int step = 1; step <= RECORDS; step++) {
        put_loss(&m, step);
    }
    td_diagnosis *diagnosis =
        end(&m, NULL, "bad_row,moment2_lost,rank_collapse,precision_lost,attention_*,divergence");
    assert_int_equal(td_diagnosis_rule_count(diagnosis), 1);
    assert_int_equal(td_diagnosis_skipped_count(diagnosis), 0);
    td_diagnosis_destroy(diagnosis);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_that_collapses_and_scores_that_grow_are_the_learning_rate),
        cmocka_unit_test(sharp_attention_of_a_network_that_learns_is_healthy),
        cmocka_unit_test(gradients_that_a_format_loses_are_remarked),
        cmocka_unit_test(a_row_that_dominates_its_batch_again_and_again_is_named),
        cmocka_unit_test(representations_that_become_alike_are_remarked),
        cmocka_unit_test(second_moments_that_are_zero_or_stale_are_remarked),
        cmocka_unit_test(what_no_track_asked_for_is_no_check),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
