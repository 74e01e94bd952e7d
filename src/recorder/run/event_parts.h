/* What a value of an event file has in a format of its own: sounds, and settings. */
#ifndef TAPEDECK_RUN_EVENT_PARTS_H
#define TAPEDECK_RUN_EVENT_PARTS_H

#include "tapedeck/base.h"

/* A WAV file of 16-bit samples, where it lies: samples are little-endian, frames x channels. */
typedef struct td__sound {
    const uint8_t *samples;
    int64_t frames, channels;
    uint32_t rate; /* frames a second */
} td__sound;

/* False when it is none. */
bool td__sound_read(const uint8_t *data, size_t size, td__sound *sound);

/* The settings that a run of TensorBoard's plugin hparams began with, as notes experiment.NAME. */
TD_NODISCARD td_status td__hparams_read(const uint8_t *data, size_t size,
                                        td_status (*note)(void *user, const char *key,
                                                          const char *text, td_error *error),
                                        void *user, td_error *error);

#endif
