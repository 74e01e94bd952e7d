/* auc: the area under the ROC curve or the curve of precision over recall, as Keras reckons it.
 *
 * Predictions in [0, 1] fall into buckets between evenly spaced thresholds, (t[i], t[i + 1]], the first
 * with 0. Positives at threshold i are those in the buckets from i on. Several outputs count as that many
 * predictions.
 */
#include "nn/layer.h"
#include "nn/metric.h"

#include <math.h>

static const char *const curve_names[] = {"ROC", "PR"};
static const char *const summation_names[] = {"interpolation", "minoring", "majoring"};
static const td__words curve_words = {"curve", curve_names, 2, NULL, NULL};
static const td__words summation_words = {"summation_method", summation_names, 3, NULL, NULL};

static const td__field fields[] = {
    TD__METRIC_NAME,
    TD__FIELD_CALLED(INTEGER, td_metric_options, thresholds, "num_thresholds", .by_default = 200,
                     .minimum = 2),
    TD__WORD(td_metric_options, curve, curve_words, TD_CURVE_ROC),
    TD__FIELD_CALLED(WORD, td_metric_options, summation, "summation_method",
                     .words = &summation_words),
};

/* True labels by bucket, then false ones. */
static size_t sums(const td_metric_options *options, int64_t width) {
    (void)width;
    return 2 * (size_t)options->thresholds;
}

static void update(td_metric *metric, const td__metric_batch *b) {
    int64_t buckets = metric->options.thresholds;
    for (int64_t r = 0; r < b->rows; r++) {
        const double *row = td__metric_row(metric, b, r);
        for (int64_t i = 0; i < b->width; i++) {
            /* In float32, so that a prediction on a threshold falls as it does in Keras. */
            float p = fminf(fmaxf((float)row[i], 0), 1);
            int64_t bucket = (int64_t)ceilf(p * (float)(buckets - 1)) - 1;
            bucket = bucket < 0 ? 0 : bucket;
            metric->sums[(td__metric_is_true(b, r, i) ? 0 : buckets) + bucket]++;
        }
    }
    metric->count += b->rows;
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Positives at a threshold, true and false, and all there are. */
typedef struct point {
    double hit, wrong, all_true, all_false;
} point;

/* Between two thresholds hits vary in a straight line with predictions (Davis & Goadrich 2006). */
static double interpolated(point low, point high) {
    double hits = low.hit - high.hit;
    double from = high.hit + high.wrong, to = low.hit + low.wrong;
    double slope = ratio(hits, to - from), intercept = high.hit - slope * from;
    double growth = to > 0 && from > 0 ? log(to / from) : 0;
    return ratio(slope * (hits + intercept * growth), high.all_true);
}

static double strip(const td_metric_options *options, point low, point high) {
    bool roc = options->curve == TD_CURVE_ROC;
    double recall_low = ratio(low.hit, low.all_true), recall_high = ratio(high.hit, high.all_true);
    double width = roc ? ratio(low.wrong, low.all_false) - ratio(high.wrong, high.all_false)
                       : recall_low - recall_high;
    double a = roc ? recall_low : ratio(low.hit, low.hit + low.wrong);
    double b = roc ? recall_high : ratio(high.hit, high.hit + high.wrong);
    double height = options->summation == TD_SUMMATION_INTERPOLATION ? (a + b) / 2
                    : options->summation == TD_SUMMATION_MINORING    ? fmin(a, b)
                                                                     : fmax(a, b);
    return width * height;
}

static void values(const td_metric *metric, double *value) {
    const td_metric_options *options = &metric->options;
    int64_t buckets = options->thresholds;
    point high = {0};
    for (int64_t i = 0; i < buckets; i++) {
        high.all_true += metric->sums[i];
        high.all_false += metric->sums[buckets + i];
    }
    bool straight =
        options->curve == TD_CURVE_PR && options->summation == TD_SUMMATION_INTERPOLATION;
    double area = 0;
    high.hit = metric->sums[buckets - 1]; /* none: no prediction is above 1 */
    high.wrong = metric->sums[2 * buckets - 1];
    for (int64_t i = buckets - 2; i >= 0; i--) {
        point low = high;
        low.hit += metric->sums[i];
        low.wrong += metric->sums[buckets + i];
        area += straight ? interpolated(low, high) : strip(options, low, high);
        high = low;
    }
    *value = area;
}

const td__metric_rule td__auc_rule = TD__METRIC_OF(fields, update, sums, values);
