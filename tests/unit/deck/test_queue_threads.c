/* What happens when the writer cannot keep up, when sinks fail, when memory runs out, and when
 * several threads record at once. */
#include "memory_sink.h"

#include "base/memory.h"

/* The queue: so large that the last room in it is enough for statistics, not for a histogram. */
enum { ELEMENTS = 4096, QUEUE = 260 * 1024 + 850 };

static float tensor[ELEMENTS];

typedef struct producer {
    td_deck *deck;
    int64_t steps;
    bool metrics; /* else a second tensor in place of the scalar: those may be dropped */
    atomic_bool finished;
} producer;

static void *produce(void *argument) {
    producer *p = argument;
    for (int64_t step = 1; step <= p->steps; step++) {
        if (p->metrics) {
            td_deck_scalar(p->deck, "loss", (double)step);
        } else {
            td_deck_record(p->deck, "v", floats(tensor, ELEMENTS));
        }
        td_deck_record(p->deck, "w", floats(tensor, ELEMENTS));
        td_deck_step(p->deck, 1, step);
    }
    atomic_store(&p->finished, true);
    return NULL;
}

/* Runs a producer against a stalled sink for some milliseconds at most, then lets the sink go.
 * Returns whether the producer got through while the sink stood still. */
static bool race(td_deck *deck, int64_t steps, bool metrics, int patience) {
    for (int i = 0; i < ELEMENTS; i++) {
        tensor[i] = (float)(i % 100) - 50;
    }
    atomic_store(&mem.stalled, true);
    producer p = {.deck = deck, .steps = steps, .metrics = metrics};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &p), 0);
    for (int i = 0; i < patience && !atomic_load(&p.finished); i++) {
        usleep(1000);
        assert_true(counters_of(deck).queue_bytes <= QUEUE);
    }
    bool through = atomic_load(&p.finished);
    atomic_store(&mem.stalled, false);
    pthread_join(thread, NULL);
    td_error error = {0};
    assert_ok(td_deck_flush(deck, &error), error);
    td_deck_counters counters = counters_of(deck);
    assert_true(counters.queue_bytes_peak <= QUEUE);
    assert_int_equal(counters.queue_bytes, 0);
    assert_int_equal(counters.pending, 0);
    assert_int_equal(counters.submitted, 2 * steps);
    assert_int_equal(counters.written, mem.count);
    return through;
}

static td_deck *open_small(td_policy policy) {
    td_deck *deck = open_deck((td_deck_options){.policy = policy, .queue_bytes = QUEUE});
    assert_int_equal(td_deck_track(deck, .what = "*", .form = TD_TENSOR), TD_OK);
    return deck;
}

static void block_makes_the_producer_wait_and_loses_nothing(void **state) {
    (void)state;
    td_deck *deck = open_small(TD_POLICY_BLOCK);
    assert_false(race(deck, 500, true, 200));
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.dropped, 0);
    assert_int_equal(counters.written, 1000);
    assert_true(counters.wait_seconds > 0.1);
    close_deck(deck);
    for (int64_t i = 0; i < mem.count; i++) {
        assert_int_equal(mem.records[i].step, i / 2 + 1);
    }
}

static void drop_never_waits_and_counts_what_it_drops(void **state) {
    (void)state;
    td_deck *deck = open_small(TD_POLICY_DROP);
    assert_true(race(deck, 5000, false, 60000));
    td_deck_counters counters = counters_of(deck);
    assert_true(counters.dropped > 4000);
    assert_true(counters.wait_seconds == 0);
    assert_int_equal(counters.failed, 0);
    close_deck(deck);
    assert_non_null(strstr(mem.events, "drop@"));
}

static void metrics_are_never_dropped(void **state) {
    (void)state;
    const td_policy policies[] = {TD_POLICY_DROP, TD_POLICY_DEGRADE};
    for (size_t i = 0; i < 2; i++) {
        td_deck *deck = open_small(policies[i]);
        mem.count = 0;
        (void)race(deck, 8000, true, 200);
        assert_true(counters_of(deck).dropped > 0);
        close_deck(deck);
        int64_t step = 0;
        for (int64_t k = 0; k < mem.count; k++) {
            if (!strcmp(mem.records[k].signal, "loss")) {
                step++;
                assert_int_equal(mem.records[k].step, step);
            }
        }
        assert_int_equal(step, 8000);
    }
}

static void degrade_writes_histograms_then_statistics_for_tensors(void **state) {
    (void)state;
    td_deck *deck = open_small(TD_POLICY_DEGRADE);
    assert_true(race(deck, 50, true, 60000)); /* scalars: no more than the room kept for them */
    td_deck_counters counters = counters_of(deck);
    assert_true(counters.degraded > 0);
    close_deck(deck);
    int64_t tensors = 0, histograms = 0, statistics = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        tensors += s->form == TD_TENSOR;
        histograms += s->form == TD_HISTOGRAM;
        statistics += s->form == TD_STATS;
        if (s->form & (TD_HISTOGRAM | TD_STATS)) {
            assert_int_equal(s->degraded_from, TD_TENSOR);
            assert_int_equal(s->stats.count, ELEMENTS);
        }
        if (s->form == TD_HISTOGRAM) {
            assert_int_equal(s->bins_total, ELEMENTS);
        }
    }
    assert_true(tensors > 0 && histograms > 0 && statistics > 0);
    assert_int_equal(histograms + statistics, counters.degraded);
    assert_non_null(strstr(mem.events, "degrade@"));
}

static void a_step_larger_than_the_queue_is_written_as_it_goes(void **state) {
    (void)state;
    td_deck *deck = open_small(TD_POLICY_BLOCK);
    char name[16];
    for (int64_t step = 1; step <= 3; step++) {
        for (int i = 0; i < 100; i++) {
            (void)snprintf(name, sizeof name, "layer%d", i);
            assert_int_equal(td_deck_record(deck, name, floats(tensor, ELEMENTS)), TD_OK);
        }
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    close_deck(deck);
    assert_int_equal(mem.count, 300);
    assert_int_equal(mem.step_count, 3);
}

static void a_tensor_larger_than_the_queue_is_written_before_the_call_returns(void **state) {
    (void)state;
    td_deck *deck = open_small(TD_POLICY_BLOCK);
    enum { HUGE = QUEUE };
    float *huge = calloc(HUGE, sizeof *huge);
    for (int64_t step = 1; step <= 5; step++) {
        huge[0] = (float)step;
        assert_int_equal(td_deck_record(deck, "w", floats(huge, HUGE)), TD_OK);
        huge[0] = -1;
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    assert_true(counters_of(deck).queue_bytes_peak <= QUEUE);
    close_deck(deck);
    free(huge);
    assert_int_equal(mem.count, 5);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(mem.records[i].step, i + 1);
        assert_true(mem.records[i].value == (double)(i + 1));
        assert_int_equal(mem.records[i].rows, HUGE);
    }
}

static void a_steady_state_allocates_nothing(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .form = TD_TENSOR | TD_STATS | TD_HISTOGRAM), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .when = "loss < 0", .history = 3), TD_OK);
    int64_t rows[4] = {1, 2, 3, 4};
    uint64_t before = 0;
    /* Twenty steps wait at first: more than will ever wait again, however slow the writer is. */
    atomic_store(&mem.stalled, true);
    for (int64_t step = 1; step <= 400; step++) {
        if (step == 20) {
            atomic_store(&mem.stalled, false);
        } else if (step == 200) {
            before = td__allocation_count();
        }
        assert_int_equal(td_deck_batch(deck, rows, 4), TD_OK);
        assert_int_equal(td_deck_scalar(deck, "loss", 1), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", floats(tensor, ELEMENTS)), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
        if (step % 10 == 0 && step >= 20) {
            td_error error = {0};
            assert_ok(td_deck_flush(deck, &error), error);
        }
    }
    assert_int_equal(td__allocation_count(), before);
    close_deck(deck);
}

static void a_failing_sink_stops_nothing_and_is_told_of_once(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "loss"), TD_OK);
    atomic_store(&mem.fail, TD_IO);
    for (int64_t step = 1; step <= 50; step++) {
        assert_int_equal(td_deck_scalar(deck, "loss", 1), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    td_error error = {0};
    assert_int_equal(td_deck_flush(deck, &error), TD_IO);
    assert_string_equal(error.text, "memory: told to fail");
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.failed, 50);
    assert_int_equal(counters.dropped, 50);
    assert_true(atomic_load(&mem.writes) < 10); /* a sink that fails is left alone for a while */
    atomic_store(&mem.fail, TD_OK);
    assert_ok(td_deck_flush(deck, &error), error);
    assert_int_equal(td_deck_scalar(deck, "loss", 1), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 51), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 1); /* works again */
    const char *event = strstr(mem.events, "sink error@");
    assert_non_null(event);
    assert_null(strstr(event + 1, "sink error@"));
}

static void a_busy_sink_is_tried_again(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "loss"), TD_OK);
    atomic_store(&mem.fail, TD_BUSY);
    assert_int_equal(td_deck_scalar(deck, "loss", 1), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    while (atomic_load(&mem.writes) == 0) {
        usleep(100);
    }
    atomic_store(&mem.fail, TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 1);
    assert_true(atomic_load(&mem.writes) > 1);
}

static void training_stops_on_an_error_only_when_asked_to(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){.stop_on_error = true});
    assert_int_equal(td_deck_track(deck, .what = "loss"), TD_OK);
    atomic_store(&mem.fail, TD_IO);
    td_status status = TD_OK;
    for (int64_t step = 1; step <= 5000 && status == TD_OK; step++) {
        td_deck_scalar(deck, "loss", 1);
        status = td_deck_step(deck, 1, step);
        usleep(100);
    }
    assert_int_equal(status, TD_IO);
    td_error error = {0};
    assert_int_equal(td_deck_close(deck, &error), TD_IO);
}

static void an_overhead_budget_is_kept_by_recording_less(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){.overhead = 0.02, .policy = TD_POLICY_DROP});
    assert_int_equal(td_deck_track(deck, .what = "*", .form = TD_TENSOR), TD_OK);
    enum { LARGE = 1 << 18 };
    float *w = calloc(LARGE, sizeof *w);
    td_deck_counters middle = {0};
    for (int64_t step = 1; step <= 600; step++) {
        usleep(100); /* the work of the step; a copy of w takes about as long */
        if (td_deck_wants(deck, "w")) {
            td_deck_record(deck, "w", floats(w, LARGE));
        }
        td_deck_scalar(deck, "loss", 1);
        td_deck_step(deck, 1, step);
        if (step == 300) {
            middle = counters_of(deck);
        }
    }
    td_deck_counters end = counters_of(deck);
    double late_time = end.step_seconds - middle.step_seconds;
    close_deck(deck);
    free(w);
    assert_non_null(strstr(mem.events, "overhead@"));
    assert_non_null(strstr(mem.events, "tensors are recorded as histograms"));
    int64_t losses = 0, late_tensors = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        losses += mem.records[i].form == TD_SCALAR;
        late_tensors += mem.records[i].form == TD_TENSOR && mem.records[i].step > 300;
    }
    /* A copy is a half of a step, the budget a fiftieth; unless a busy machine makes steps so slow
     * that the copies are within it. */
    assert_true(late_tensors < 100 || late_time > 300 * 0.002);
    assert_int_equal(losses, 600); /* scalars are never left out */
}

typedef struct part_recorder {
    td_signal *signal;
    td_summary summary;
    atomic_bool finished;
} part_recorder;

static void *record_part(void *argument) {
    part_recorder *p = argument;
    (void)td_signal_record_summary(p->signal, &p->summary);
    atomic_store(&p->finished, true);
    return NULL;
}

/* The part of one thread needs a larger histogram than the full queue has room for; another thread's part has the
 * value that a condition is about. */
static void a_part_without_room_does_not_undo_another_threads_part(void **state) {
    (void)state;
    static float first[64], wide[ELEMENTS];
    static td_bin wide_bins[TD_HISTOGRAM_BINS], high_bins[TD_HISTOGRAM_BINS];
    float high = 1e6F;
    for (int i = 0; i < ELEMENTS; i++) {
        wide[i] = ldexpf(i % 2 ? 1.0F : -1.0F, -i / 32) * (1 + (float)(i % 32) / 32);
    }
    td_deck *deck = open_deck((td_deck_options){.queue_bytes = QUEUE});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_STATS | TD_HISTOGRAM), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "v", .form = TD_TENSOR), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "high", .when = "w.max > 1000"), TD_OK);
    td_signal *signal = td_deck_signal(deck, "w");
    atomic_store(&mem.stalled, true);
    assert_int_equal(td_signal_record(signal, floats(first, 64)), TD_OK);
    assert_int_equal(td_deck_scalar(deck, "high", 1), TD_OK);
    while (counters_of(deck).queue_bytes + 6144 < QUEUE) { /* each of them takes 5 KiB and some */
        assert_int_equal(td_deck_record(deck, "v", floats(tensor, 1100)), TD_OK);
    }
    part_recorder p = {.signal = signal, .summary = {.size = sizeof p.summary, .more = true}};
    td_summary part = p.summary;
    td_view view = floats(wide, ELEMENTS);
    p.summary.shape = view.shape;
    assert_int_equal(
        td_histogram_of(&view, &p.summary.stats, wide_bins, &p.summary.histogram, NULL), TD_OK);
    view = floats(&high, 1);
    part.shape = view.shape;
    assert_int_equal(td_histogram_of(&view, &part.stats, high_bins, &part.histogram, NULL), TD_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, record_part, &p), 0);
    for (int i = 0; i < 200 && !atomic_load(&p.finished); i++) {
        usleep(1000);
    }
    assert_int_equal(td_signal_record_summary(signal, &part), TD_OK);
    atomic_store(&mem.stalled, false);
    pthread_join(thread, NULL);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    int64_t fired = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        fired += !strcmp(mem.records[i].signal, "high");
    }
    assert_int_equal(fired, 1);
    assert_non_null(strstr(mem.notes, "not_recorded.w"));
}

/* One short run in which the n-th allocation fails. Returns whether it was reached. */
static bool run_with_failure(uint64_t n) {
    static const td_sink_class *const sinks[] = {&memory_class, NULL};
    memset(&mem, 0, sizeof mem);
    td_error error = {0};
    uint64_t before = td__allocation_count();
    td__allocation_fail_at(n);
    td_deck *deck = td__deck_open(run_folder(), NULL, sinks, &error);
    if (deck) {
        td_deck_track(deck, .what = "w,*.error", .form = TD_TENSOR | TD_HISTOGRAM);
        td_deck_track(deck, .what = "w", .sample = 2, .form = TD_ROWS);
        td_deck_track(deck, .what = "loss", .when = "mean(loss, 3) > 0 and nan(*) == 0",
                      .history = 2);
        td_deck_note(deck, "key", "value");
        int64_t rows[4] = {1, 2, 3, 4};
        for (int64_t step = 1; step <= 4; step++) {
            td_deck_batch(deck, rows, 4);
            td_deck_scalar(deck, "loss", (double)step - 3);
            td_deck_text(deck, "w", "text");
            td_deck_record(deck, "w", floats(tensor, 4));
            td_deck_record(deck, "a.error", floats(tensor, ELEMENTS));
            td_deck_step(deck, 1, step);
        }
        td_deck_counters counters = counters_of(deck);
        assert_true(counters.pending >= 0);
        td_status status = td_deck_close(deck, &error);
        assert_true(status == TD_OK || status == TD_MEMORY);
    } else {
        assert_int_equal(error.status, TD_MEMORY);
    }
    td__allocation_fail_at(0);
    return td__allocation_count() - before >= n;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    uint64_t n = 1;
    while (run_with_failure(n)) {
        n++;
    }
    assert_true(n > 30);
}

enum { THREADS = 4, EACH = 1500 };

typedef struct recorder {
    td_deck *deck;
    int number;
    atomic_int *running;
} recorder;

static void *record_much(void *argument) {
    recorder *r = argument;
    char name[16];
    float x[64];
    (void)snprintf(name, sizeof name, "t%d", r->number);
    for (int i = 0; i < EACH; i++) {
        for (int k = 0; k < 64; k++) {
            x[k] = (float)i;
        }
        td_deck_scalar(r->deck, "shared", i);
        td_deck_scalar(r->deck, name, i);
        td_deck_wants(r->deck, "w");
        td_deck_record(r->deck, "w", floats(x, 64));
    }
    atomic_fetch_sub(r->running, 1);
    return NULL;
}

static void several_threads_record_into_one_deck(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){.queue_bytes = QUEUE});
    assert_int_equal(td_deck_track(deck, .what = "t*, shared"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .every = 3, .form = TD_TENSOR | TD_STATS),
                     TD_OK);
    assert_int_equal(
        td_deck_track(deck, .what = "w", .when = "shared > 1e9 or nan(*)", .history = 2), TD_OK);
    pthread_t threads[THREADS];
    recorder recorders[THREADS];
    atomic_int running = THREADS;
    for (int i = 0; i < THREADS; i++) {
        recorders[i] = (recorder){deck, i, &running};
        assert_int_equal(pthread_create(&threads[i], NULL, record_much, &recorders[i]), 0);
    }
    int64_t step = 1;
    for (; atomic_load(&running) > 0; step++) {
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
        if (step % 50 == 0) {
            td_error error = {0};
            assert_ok(td_deck_flush(deck, &error), error);
            counters_of(deck);
        }
        usleep(50);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    td_error error = {0};
    assert_ok(td_deck_flush(deck, &error), error);
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.dropped, 0);
    close_deck(deck);
    int64_t next[THREADS] = {0}, shared = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        shared += strcmp(s->signal, "shared") == 0;
        if (s->signal[0] == 't') {
            int which = s->signal[1] - '0';
            assert_true(s->value == (double)next[which]); /* each thread's own order is kept */
            next[which]++;
        }
        if (s->form == TD_TENSOR) {
            assert_true(s->value == s->second);
        }
    }
    if (mem.count < MOST_SEEN) {
        assert_int_equal(shared, THREADS * EACH);
        assert_int_equal(next[0], EACH);
    }
}

/* Two threads take turns, and with them the steps they close: numbers come out in the order in which they were
 * recorded, in their steps, although one of the two records without the lock and both wait for room. */
enum { TURNS = 60, IN_A_TURN = 150, TURNS_IN_A_STEP = 3 };

typedef struct partner {
    td_deck *deck;
    td_signal *number;
    int which;
    atomic_int *turn;
} partner;

static void *take_turns(void *argument) {
    const partner *p = argument;
    for (int turn = p->which; turn < TURNS; turn += 2) {
        while (atomic_load(p->turn) != turn) {
            usleep(20);
        }
        for (int i = 0; i < IN_A_TURN; i++) {
            td_signal_scalar(p->number, turn * IN_A_TURN + i);
            if (i % 50 == 49) {
                td_deck_record(p->deck, "w", floats(tensor, 8));
            }
        }
        if (turn % TURNS_IN_A_STEP == TURNS_IN_A_STEP - 1) {
            td_deck_step(p->deck, 1, 1 + turn / TURNS_IN_A_STEP);
        }
        atomic_store(p->turn, turn + 1);
    }
    return NULL;
}

static void threads_that_take_turns_record_in_that_order(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){.queue_bytes = TD__SMALLEST_QUEUE});
    assert_int_equal(td_deck_track(deck, .what = "*", .form = TD_TENSOR), TD_OK);
    td_signal *number = td_deck_signal(deck, "number");
    atomic_int turn = 0;
    pthread_t threads[2];
    partner partners[2];
    for (int i = 0; i < 2; i++) {
        partners[i] = (partner){deck, number, i, &turn};
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &partners[i]), 0);
    }
    for (int i = 0; i < 40; i++) { /* the queue fills up, again and again */
        atomic_store(&mem.stalled, i % 2 == 0);
        usleep(2000);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    close_deck(deck);
    int64_t numbers = 0, tensors = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        if (s->form == TD_SCALAR) {
            assert_true(s->value == (double)numbers);
            assert_int_equal(s->step, 1 + numbers / (IN_A_TURN * TURNS_IN_A_STEP));
            numbers++;
        } else {
            assert_int_equal(numbers, ++tensors * 50); /* between the same two scalars */
        }
    }
    assert_int_equal(numbers, TURNS * IN_A_TURN);
    assert_int_equal(tensors, numbers / 50);
}

/* The writer reads a tensor while the step goes on, and its owner uses the memory again as soon as it is told. */
enum { OWNED = 4 };

typedef struct owned {
    float data[ELEMENTS];
    atomic_bool lent;
} owned;

static void take_back(void *owner) {
    atomic_store(&((owned *)owner)->lent, false);
}

static void a_tensor_with_an_owner_is_summed_up_while_the_step_goes_on(void **state) {
    (void)state;
    enum { STEPS = 300 };
    static owned tensors[OWNED];
    td_deck *deck = open_deck((td_deck_options){.queue_bytes = QUEUE});
    deck->core_to_spare = true; /* whatever the machine has */
    assert_int_equal(td_deck_track(deck, .form = TD_STATS | TD_HISTOGRAM | TD_HASH), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w1", .every = 7, .form = TD_TENSOR), TD_OK);
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int i = 0; i < OWNED; i++) {
            owned *own = &tensors[i];
            for (int wait = 0; atomic_load(&own->lent); wait++) {
                assert_true(wait < 60000);
                usleep(1000);
            }
            for (int k = 0; k < ELEMENTS; k++) {
                own->data[k] = (float)(step * OWNED + i);
            }
            atomic_store(&own->lent, true);
            td_view view = floats(own->data, ELEMENTS);
            view.release = take_back;
            view.owner = own;
            char name[] = {'w', (char)('0' + i), 0};
            assert_int_equal(td_deck_record(deck, name, view), TD_OK);
        }
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    close_deck(deck);
    assert_int_equal(mem.count, STEPS * OWNED * 3 + STEPS / 7);
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        double expected = (double)(s->step * OWNED + s->signal[1] - '0');
        if (s->form == TD_TENSOR) {
            assert_true(s->value == expected);
        } else if (s->form != TD_HASH) {
            assert_true(s->stats.min == expected && s->stats.max == expected);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(block_makes_the_producer_wait_and_loses_nothing),
        TEST(drop_never_waits_and_counts_what_it_drops),
        TEST(metrics_are_never_dropped),
        TEST(degrade_writes_histograms_then_statistics_for_tensors),
        TEST(a_step_larger_than_the_queue_is_written_as_it_goes),
        TEST(a_tensor_larger_than_the_queue_is_written_before_the_call_returns),
        TEST(a_steady_state_allocates_nothing),
        TEST(a_failing_sink_stops_nothing_and_is_told_of_once),
        TEST(a_busy_sink_is_tried_again),
        TEST(training_stops_on_an_error_only_when_asked_to),
        TEST(an_overhead_budget_is_kept_by_recording_less),
        TEST(every_allocation_may_fail),
        TEST(a_part_without_room_does_not_undo_another_threads_part),
        TEST(several_threads_record_into_one_deck),
        TEST(threads_that_take_turns_record_in_that_order),
        TEST(a_tensor_with_an_owner_is_summed_up_while_the_step_goes_on),
    };
    if (getenv("TD_TEST")) { /* just one, for tools that are slow */
        cmocka_set_test_filter(getenv("TD_TEST"));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
