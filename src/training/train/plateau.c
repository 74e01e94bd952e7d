#include "train/plateau.h"

#include <math.h>

void td__plateau_init(td__plateau *plateau, const td__train_spec *train, double rate) {
    const td__plateau_spec *spec = &train->plateau;
    *plateau = (td__plateau){
        .best = td__best_of(train, spec->monitor, spec->mode, spec->min_delta),
        .patience = spec->patience,
        .cooldown = spec->cooldown,
        .factor = spec->factor,
        .min_rate = spec->min_rate,
        .rate = rate,
        .initial = rate,
    };
}

bool td__plateau_take(td__plateau *plateau, double value, int64_t epoch) {
    if (!plateau->best.monitor) {
        return false;
    }
    if (plateau->cooling > 0) {
        plateau->cooling--;
        plateau->waited = 0;
    }
    if (td__best_take(&plateau->best, value, epoch)) {
        plateau->waited = 0;
        return false;
    }
    if (plateau->cooling > 0 || ++plateau->waited < plateau->patience ||
        plateau->rate <= plateau->min_rate) {
        return false;
    }
    plateau->rate = fmax(plateau->rate * plateau->factor, plateau->min_rate);
    plateau->cooling = plateau->cooldown;
    plateau->waited = 0;
    return true;
}

void td__plateau_save(const td__plateau *plateau, double state[TD__PLATEAU_STATE]) {
    state[0] = plateau->best.value;
    state[1] = (double)plateau->best.epoch;
    state[2] = (double)plateau->waited;
    state[3] = (double)plateau->cooling;
    state[4] = plateau->rate;
}

bool td__plateau_restore(td__plateau *plateau, const double state[TD__PLATEAU_STATE]) {
    for (int i = 1; i < TD__PLATEAU_STATE; i++) {
        if (!(state[i] >= 0 && state[i] < 1e15)) {
            return false;
        }
    }
    plateau->best.value = state[0];
    plateau->best.epoch = (int64_t)state[1];
    plateau->waited = (int64_t)state[2];
    plateau->cooling = (int64_t)state[3];
    plateau->rate = state[4];
    return true;
}
