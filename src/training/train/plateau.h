/* The learning rate is lowered when a value does not get better, as Keras's ReduceLROnPlateau does. */
#ifndef TAPEDECK_TRAIN_PLATEAU_H
#define TAPEDECK_TRAIN_PLATEAU_H

#include "train/stopping.h"

typedef struct td__plateau {
    td__best best;             /* monitor NULL: there is none */
    int64_t patience, waited;  /* epochs */
    int64_t cooldown, cooling; /* epochs after a reduction in which none are counted */
    double factor, min_rate;
    double rate;    /* in effect */
    double initial; /* of the experiment */
} td__plateau;

void td__plateau_init(td__plateau *plateau, const td__train_spec *train, double rate);
/* Takes the epoch's value; whether the rate is another now. NaN is no better. */
bool td__plateau_take(td__plateau *plateau, double value, int64_t epoch);

/* For a checkpoint. */
enum { TD__PLATEAU_STATE = 5 };
void td__plateau_save(const td__plateau *plateau, double state[TD__PLATEAU_STATE]);
/* False when the numbers make no sense. */
bool td__plateau_restore(td__plateau *plateau, const double state[TD__PLATEAU_STATE]);

#endif
