/* Pyramids against the values themselves: whatever is asked for, nothing is lost and no spike is
 * hidden; and the shortest way from a request to an answer. */
#include "test.h"

#include "answers/answer.h"
#include "answers/pyramid.h"

#include <math.h>

enum { COUNT = 70001, MOST = 512 };

static td_run_value values[COUNT];
static td__pyramid pyramid;

static uint32_t next_random(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static int setup(void **state) {
    (void)state;
    int64_t step = -1000;
    pyramid = (td__pyramid){0};
    for (size_t i = 0; i < COUNT; i++) {
        step += 1 + next_random() % 3;
        double value = (double)next_random() / 1e3 - 5000;
        bool bad = next_random() % 1000 == 0;
        values[i] = (td_run_value){step, bad ? (double)NAN : value, bad};
        assert_true(td__pyramid_add(&pyramid, &values[i]));
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    td__pyramid_release(&pyramid);
    return 0;
}

/* What the buckets say of all the values that they cover. */
static void check(const td__bucket *buckets, size_t count, int64_t first, int64_t last) {
    int64_t before = INT64_MIN;
    for (size_t b = 0; b < count; b++) {
        double least = INFINITY, greatest = -INFINITY, sum = 0;
        uint32_t rows = 0, nonfinite = 0;
        for (size_t i = 0; i < COUNT; i++) {
            if (values[i].step >= buckets[b].first && values[i].step <= buckets[b].last) {
                rows++;
                nonfinite += values[i].nonfinite > 0;
                least = fmin(least, values[i].value);
                greatest = fmax(greatest, values[i].value);
                sum += isnan(values[i].value) ? 0 : values[i].value;
            }
        }
        assert_int_equal(buckets[b].rows, rows);
        assert_int_equal(buckets[b].nonfinite, nonfinite);
        assert_true(buckets[b].min == least && buckets[b].max == greatest);
        assert_true(fabs(buckets[b].sum - sum) <= 1e-6 * fabs(sum) + 1e-3);
        assert_true(buckets[b].first > before);
        before = buckets[b].last;
    }
    assert_true(count == 0 || (buckets[0].last >= first && buckets[count - 1].first <= last));
}

static void every_zoom_keeps_least_and_greatest(void **state) {
    (void)state;
    td__bucket buckets[MOST];
    size_t count = td__pyramid_query(&pyramid, INT64_MIN, INT64_MAX, buckets, 40);
    assert_int_equal(count, 40);
    check(buckets, count, INT64_MIN, INT64_MAX);
    uint64_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        rows += buckets[i].rows;
    }
    assert_int_equal(rows, COUNT);
    for (int n = 0; n < 12; n++) {
        size_t a = next_random() % COUNT, b = next_random() % COUNT;
        int64_t first = values[a < b ? a : b].step, last = values[a < b ? b : a].step;
        count = td__pyramid_query(&pyramid, first, last, buckets, 20);
        assert_in_range(count, 1, 20);
        check(buckets, count, first, last);
        assert_true(buckets[0].first <= first && buckets[count - 1].last >= last);
        assert_true(td__pyramid_rows(&pyramid, first, last) + 1 >
                    (uint64_t)(b > a ? b - a : a - b));
    }
}

static void ranges_without_values_are_empty(void **state) {
    (void)state;
    td__bucket buckets[MOST];
    td__pyramid none = {0};
    assert_int_equal(td__pyramid_query(&none, 0, 100, buckets, MOST), 0);
    assert_int_equal(td__pyramid_query(&pyramid, INT64_MAX - 5, INT64_MAX, buckets, MOST), 0);
    assert_int_equal(td__pyramid_query(&pyramid, INT64_MIN, -2000, buckets, MOST), 0);
    assert_int_equal(td__pyramid_query(&pyramid, 50, -50, buckets, MOST), 0);
}

static void extremes_know_their_steps(void **state) {
    (void)state;
    double least = INFINITY;
    int64_t at = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (values[i].value < least) {
            least = values[i].value;
            at = values[i].step;
        }
    }
    assert_true(pyramid.extremes.least == least);
    assert_int_equal(pyramid.extremes.least_step, at);
    assert_int_equal(pyramid.extremes.last_step, values[COUNT - 1].step);
    assert_int_equal(pyramid.count, COUNT);
}

static void answers_need_a_host_and_a_token(void **state) {
    (void)state;
    td__server_context context = {.token = "0123456789", .port = 80};
    static const struct {
        const char *host, *origin, *cookie, *target;
        int status;
    } cases[] = {{"127.0.0.1:80", NULL, "tapedeck-80=0123456789", "/app.css", 200},
                 {"127.0.0.1:80", NULL, "tapedeck-80=012345678", "/app.css", 403},
                 {"127.0.0.1:80", NULL, NULL, "/?token=0123456789", 200},
                 {"127.0.0.1:80", NULL, NULL, "/?token=%30123456789", 200},
                 {"127.0.0.1:81", NULL, NULL, "/?token=0123456789", 403},
                 {NULL, NULL, NULL, "/?token=0123456789", 400},
                 {"127.0.0.1:80", "http://a:80", NULL, "/?token=0123456789", 403},
                 {"127.0.0.1:80", NULL, NULL, "/x?token=0123456789", 404}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td__http_request request = {"GET",           cases[i].target, cases[i].host,
                                    cases[i].origin, cases[i].cookie, false};
        td__response response = {0};
        td__answer(&context, &request, &response);
        assert_int_equal(response.status, cases[i].status);
        td__output_release(&response.body);
    }
}

static void json_is_valid_whatever_the_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text, *json;
    } cases[] = {{"a\"b\\\n<", "\"a\\u0022b\\u005c\\u000a\\u003c\""},
                 {"é€𝄞", "\"é€𝄞\""},
                 {"\xff\xc0\x80\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\""},
                 {"\xe2\x82", "\"\\ufffd\\ufffd\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td__output out = {0};
        td__put_json(&out, cases[i].text);
        td__put(&out, "", 1);
        assert_string_equal((char *)out.data, cases[i].json);
        td__output_release(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_zoom_keeps_least_and_greatest),
        cmocka_unit_test(ranges_without_values_are_empty),
        cmocka_unit_test(extremes_know_their_steps),
        cmocka_unit_test(answers_need_a_host_and_a_token),
        cmocka_unit_test(json_is_valid_whatever_the_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
