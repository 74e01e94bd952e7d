/* A step that is executed twice, and compared: finds what is not deterministic, and hardware that computes wrongly.
 *
 *     td__verify_begin(&verify, tape, false)      the first time …
 *     td__verify_begin(&verify, tape, true)       … and the second: verify.differs names the first operation
 *     td__verify_end(&verify, tape)
 */
#ifndef TAPEDECK_TRAIN_VERIFY_H
#define TAPEDECK_TRAIN_VERIFY_H

#include "tape/tape.h"

enum { TD__VERIFY_TEXT = 512 };

typedef struct td__verify {
    td__tape_watch watch;
    struct td__verify_print *prints; /* fingerprints, in the order of execution */
    size_t count, capacity, at;
    bool second, incomplete;
    char differs[TD__VERIFY_TEXT]; /* the first operation that made something else; "": none */
    int64_t steps, differing;      /* that were executed twice, and those of them that differ */
} td__verify;

/* Whatever the tape computes from now on is taken, or compared; gradients included. */
void td__verify_begin(td__verify *verify, td_tape *tape, bool second);
/* The same of a parameter after its update. */
void td__verify_parameter(td__verify *verify, size_t index, const td_tensor *tensor,
                          const char *optimizer);
void td__verify_end(td__verify *verify, td_tape *tape);
void td__verify_release(td__verify *verify);

#endif
