/* Streams of random numbers that the data module draws from one seed; each use has its own. */
#ifndef TAPEDECK_DATA_STREAMS_H
#define TAPEDECK_DATA_STREAMS_H

#define TD__STREAM_GENERATE 0x6461746100000001u
#define TD__STREAM_SPLIT 0x6461746100000002u
/* Plus the epoch. */
#define TD__STREAM_SHUFFLE 0x6461746200000000u
/* Plus the row. */
#define TD__STREAM_AUGMENT 0x6461746300000000u

#endif
