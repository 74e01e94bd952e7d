/* Every optimizer against its equations in double, over 1 000 steps, with the default and with extreme
 * hyper-parameters. */
#include "test.h"

#include "tapedeck/nn.h"

enum { COUNT = 67, STEPS = 1000 };

/* One parameter and its states, in double. */
typedef struct element {
    double w, a, b, c;
} element;

typedef void rule(const td_optimizer_options *o, double g, int t, element *e);

static double averaged(double keep, double before, double now) {
    return keep * before + (1 - keep) * now;
}

static void sgd(const td_optimizer_options *o, double g, int t, element *e) {
    (void)t;
    e->a = o->momentum * e->a - o->learning_rate.value * g;
    e->w += o->nesterov ? o->momentum * e->a - o->learning_rate.value * g : e->a;
}

static void adam(const td_optimizer_options *o, double g, int t, element *e) {
    e->a = averaged(o->beta_1.value, e->a, g);
    e->b = averaged(o->beta_2.value, e->b, g * g);
    e->c = fmax(e->c, e->b);
    double rate =
        o->learning_rate.value * sqrt(1 - pow(o->beta_2.value, t)) / (1 - pow(o->beta_1.value, t));
    e->w -= rate * e->a / (sqrt(o->amsgrad ? e->c : e->b) + o->epsilon.value);
}

static void rmsprop(const td_optimizer_options *o, double g, int t, element *e) {
    (void)t;
    e->a = averaged(o->rho.value, e->a, g * g);
    e->c = averaged(o->rho.value, e->c, g);
    double square = e->a - (o->centered ? e->c * e->c : 0);
    e->b = o->momentum * e->b + o->learning_rate.value * g / sqrt(square + o->epsilon.value);
    e->w -= e->b;
}

static void adagrad(const td_optimizer_options *o, double g, int t, element *e) {
    e->a += g * g + (t == 1 ? o->initial_accumulator.value : 0);
    e->w -= o->learning_rate.value * g / sqrt(e->a + o->epsilon.value);
}

static void adadelta(const td_optimizer_options *o, double g, int t, element *e) {
    (void)t;
    e->a = averaged(o->rho.value, e->a, g * g);
    double d = g * sqrt(e->b + o->epsilon.value) / sqrt(e->a + o->epsilon.value);
    e->b = averaged(o->rho.value, e->b, d * d);
    e->w -= o->learning_rate.value * d;
}

static void adamax(const td_optimizer_options *o, double g, int t, element *e) {
    e->a = averaged(o->beta_1.value, e->a, g);
    e->b = fmax(o->beta_2.value * e->b, fabs(g));
    e->w -=
        o->learning_rate.value / (1 - pow(o->beta_1.value, t)) * e->a / (e->b + o->epsilon.value);
}

static void nadam(const td_optimizer_options *o, double g, int t, element *e) {
    double now = o->beta_1.value * (1 - 0.5 * pow(0.96, t));
    double next = o->beta_1.value * (1 - 0.5 * pow(0.96, t + 1));
    e->c = (t == 1 ? 1 : e->c) * now;
    e->a = averaged(o->beta_1.value, e->a, g);
    e->b = averaged(o->beta_2.value, e->b, g * g);
    double moment = next * e->a / (1 - e->c * next) + (1 - now) * g / (1 - e->c);
    e->w -= o->learning_rate.value * moment /
            (sqrt(e->b / (1 - pow(o->beta_2.value, t))) + o->epsilon.value);
}

static void lion(const td_optimizer_options *o, double g, int t, element *e) {
    (void)t;
    double d = averaged(o->beta_1.value, e->a, g);
    e->w -= o->learning_rate.value * (d > 0 ? 1 : d < 0 ? -1 : 0);
    e->a = averaged(o->beta_2.value, e->a, g);
}

static rule *const rules[TD_OPTIMIZER_KIND_COUNT] = {
    [TD_SGD] = sgd,         [TD_ADAM] = adam,       [TD_ADAMW] = adam,
    [TD_RMSPROP] = rmsprop, [TD_ADAGRAD] = adagrad, [TD_ADADELTA] = adadelta,
    [TD_ADAMAX] = adamax,   [TD_NADAM] = nadam,     [TD_LION] = lion,
};

/* Gradients of many sizes, with some noise and never in balance. */
static float gradient(int i, int t) {
    double size = pow(10, i % 7 - 4);
    return (float)(size * (0.6 + sin(0.7 * t + i) + 0.3 * cos(2.9 * t * (i + 1))));
}

/* How far the parameters are from where they ought to be, as a share of the longest way of one. */
static double distance(const float *w, const element *e) {
    double furthest = 0, way = 0;
    for (int i = 0; i < COUNT; i++) {
        double apart = fabs((double)w[i] - e[i].w);
        furthest = isnan(apart) ? INFINITY : fmax(furthest, apart);
        way = fmax(way, fabs(e[i].w - 0.01 * i));
    }
    return furthest / way;
}

static double run(const td_optimizer_options *given) {
    td_error error = {0};
    td_tensor *w = td_tensor_create("w", TD_FLOAT32, TD_SHAPE(COUNT), &error);
    td_tensor *g = td_tensor_create("g", TD_FLOAT32, TD_SHAPE(COUNT), &error);
    float *values = td_tensor_data(w), *gradients = td_tensor_data(g);
    element exact[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(0.01 * i);
        exact[i] = (element){.w = (double)values[i]};
    }
    td_optimizer *optimizer = td_optimizer_create(given, 1, &w, &error);
    if (!optimizer) {
        fail_msg("%s", error.text);
    }
    const td_optimizer_options *o = td_optimizer_settled(optimizer);
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < COUNT; i++) {
            gradients[i] = gradient(i, t);
            exact[i].w -= o->learning_rate.value * o->weight_decay.value * exact[i].w;
            rules[o->kind](o, (double)gradients[i], t, &exact[i]);
            exact[i].w = (double)(float)exact[i].w; /* parameters are float32 */
        }
        assert_ok(td_optimizer_step(optimizer, &g, &error), error);
    }
    double result = distance(values, exact);
    td_optimizer_destroy(optimizer);
    td_tensor_destroy(w);
    td_tensor_destroy(g);
    return result;
}

static const struct {
    const char *name;
    double limit; /* larger where float32 itself loses a state's last digit, or all of a decay */
    td_optimizer_options options;
} cases[] = {
    {"sgd", 2e-6, {.kind = TD_SGD}},
    {"sgd, momentum 0.9", 2e-6, {.kind = TD_SGD, .momentum = 0.9}},
    {"sgd, momentum 0.999", 2e-6, {.kind = TD_SGD, .momentum = 0.999}},
    {"sgd, momentum 0.99999, nesterov",
     2e-6,
     {.kind = TD_SGD, .momentum = 0.99999, .nesterov = true}},
    {"sgd, little decay",
     1e-5,
     {.kind = TD_SGD, .learning_rate = TD_SET(1e-3), .weight_decay = TD_SET(1e-3)}},
    {"adam", 2e-6, {.kind = TD_ADAM}},
    {"adam, amsgrad", 2e-6, {.kind = TD_ADAM, .amsgrad = true}},
    {"adam, beta_1 0", 2e-6, {.kind = TD_ADAM, .beta_1 = TD_SET(0)}},
    {"adam, beta_1 0.99999", 2e-6, {.kind = TD_ADAM, .beta_1 = TD_SET(0.99999)}},
    {"adam, beta_2 0", 2e-6, {.kind = TD_ADAM, .beta_2 = TD_SET(0)}},
    {"adam, beta_2 0.99999", 2e-6, {.kind = TD_ADAM, .beta_2 = TD_SET(0.99999)}},
    {"adam, beta_2 0.99999999", 2e-6, {.kind = TD_ADAM, .beta_2 = TD_SET(0.99999999)}},
    {"adam, epsilon 1e-30", 2e-6, {.kind = TD_ADAM, .epsilon = TD_SET(1e-30)}},
    {"adam, epsilon 10", 2e-6, {.kind = TD_ADAM, .epsilon = TD_SET(10)}},
    {"adamw", 2e-6, {.kind = TD_ADAMW}},
    {"adamw, rate 1e-5",
     1e-5,
     {.kind = TD_ADAMW, .learning_rate = TD_SET(1e-5), .weight_decay = TD_SET(0.01)}},
    {"adamw, decay 10", 2e-6, {.kind = TD_ADAMW, .weight_decay = TD_SET(10)}},
    {"rmsprop", 2e-6, {.kind = TD_RMSPROP}},
    {"rmsprop, rho 0", 2e-6, {.kind = TD_RMSPROP, .rho = TD_SET(0)}},
    {"rmsprop, rho 0.99999", 2e-6, {.kind = TD_RMSPROP, .rho = TD_SET(0.99999)}},
    {"rmsprop, rho 0.99999999",
     2e-6,
     {.kind = TD_RMSPROP, .rho = TD_SET(0.99999999), .epsilon = TD_SET(1e-30)}},
    {"rmsprop, momentum 0.9999", 2e-6, {.kind = TD_RMSPROP, .momentum = 0.9999}},
    {"rmsprop, centered", 2e-6, {.kind = TD_RMSPROP, .rho = TD_SET(0.999), .centered = true}},
    {"adagrad", 2e-6, {.kind = TD_ADAGRAD}},
    {"adagrad, from 0",
     2e-6,
     {.kind = TD_ADAGRAD, .initial_accumulator = TD_SET(0), .epsilon = TD_SET(1e-30)}},
    {"adadelta", 2e-6, {.kind = TD_ADADELTA, .learning_rate = TD_SET(1)}},
    {"adadelta, rho 0.99999",
     2e-6,
     {.kind = TD_ADADELTA, .learning_rate = TD_SET(1), .rho = TD_SET(0.99999)}},
    {"adamax", 2e-6, {.kind = TD_ADAMAX}},
    {"adamax, beta_1 0.99999", 2e-6, {.kind = TD_ADAMAX, .beta_1 = TD_SET(0.99999)}},
    {"adamax, beta_2 0.99999", 1e-5, {.kind = TD_ADAMAX, .beta_2 = TD_SET(0.99999)}},
    {"nadam", 2e-6, {.kind = TD_NADAM}},
    {"nadam, beta_1 0", 2e-6, {.kind = TD_NADAM, .beta_1 = TD_SET(0)}},
    {"nadam, beta_2 0.99999", 2e-6, {.kind = TD_NADAM, .beta_2 = TD_SET(0.99999)}},
    {"nadam, beta_2 0.99999999", 2e-6, {.kind = TD_NADAM, .beta_2 = TD_SET(0.99999999)}},
    {"lion", 2e-6, {.kind = TD_LION}},
    {"lion, beta_2 0.99999",
     2e-6,
     {.kind = TD_LION, .beta_1 = TD_SET(0.9), .beta_2 = TD_SET(0.99999)}},
};

static void a_thousand_steps_are_those_of_the_equations(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td_optimizer_options options = cases[i].options;
        options.size = sizeof options;
        double apart = run(&options);
        if (!(apart < cases[i].limit)) {
            print_error("%s: %g away from the exact steps\n", cases[i].name, apart);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void an_epsilon_that_float32_lacks_is_refused(void **state) {
    (void)state;
    td_error error = {0};
    assert_null(td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM, .epsilon = TD_SET(1e-50)), 0,
                                    NULL, &error));
    assert_string_equal(error.text, "optimizer adam: epsilon is 1e-50, parameters are float32: use "
                                    "1.17549e-38 or more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_steps_are_those_of_the_equations),
        cmocka_unit_test(an_epsilon_that_float32_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
