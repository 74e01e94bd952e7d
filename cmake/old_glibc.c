/* A wheel is built for glibc 2.31, by a GCC whose static C++ library was made for a newer one and refers to two
 * names that 2.31 lacks. They stand here, whatever the headers' version is: a cross compiler has its own headers. Both
 * are hidden, so on a newer system glibc keeps its own. */
#include <stdint.h>
#include <sys/random.h>

/* False is always right: there may be other threads. */
extern char __libc_single_threaded; // NOLINT(bugprone-reserved-identifier)
char __libc_single_threaded = 0;    // NOLINT(bugprone-reserved-identifier)

/* For std::random_device, which Tapedeck does not use. */
uint32_t arc4random(void);
uint32_t arc4random(void) {
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
    }
    return value;
}
