/* What every cmocka test includes, in the order cmocka wants. */
#ifndef TAPEDECK_TESTS_TEST_H
#define TAPEDECK_TESTS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Fails unless status is TD_OK, and shows the error's text. */
#define assert_ok(call, error)                                                                     \
    do {                                                                                           \
        td_status assert_ok_status = (call);                                                       \
        if (assert_ok_status != TD_OK) {                                                           \
            fail_msg("%s: %s", #call, (error).text);                                               \
        }                                                                                          \
    } while (0)

/* |a - b| <= absolute + relative * |b| */
#define assert_close(a, b, relative, absolute)                                                     \
    do {                                                                                           \
        double close_a = (double)(a), close_b = (double)(b);                                       \
        if (!(fabs(close_a - close_b) <= (absolute) + (relative)*fabs(close_b))) {                 \
            fail_msg("%s is %.9g, expected %.9g", #a, close_a, close_b);                           \
        }                                                                                          \
    } while (0)

#endif
