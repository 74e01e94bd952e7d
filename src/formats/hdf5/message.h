/* Object headers: everything that a group or a dataset is lies in the messages of its header. */
#ifndef TAPEDECK_HDF5_MESSAGE_H
#define TAPEDECK_HDF5_MESSAGE_H

#include "hdf5/file.h"

enum td__h5_message_type {
    TD__H5_SPACE = 0x01,
    TD__H5_LINK_INFO = 0x02,
    TD__H5_TYPE = 0x03,
    TD__H5_FILL = 0x05,
    TD__H5_LINK = 0x06,
    TD__H5_EXTERNAL = 0x07,
    TD__H5_LAYOUT = 0x08,
    TD__H5_FILTERS = 0x0b,
    TD__H5_ATTRIBUTE = 0x0c,
    TD__H5_CONTINUATION = 0x10,
    TD__H5_SYMBOLS = 0x11,
    TD__H5_ATTRIBUTE_INFO = 0x15,
};

typedef struct td__h5_message {
    unsigned type;
    bool shared; /* the body only says where the message is */
    td__h5_cursor body;
} td__h5_message;

enum { TD__H5_PENDING = 64 };

/* A walk over an object's messages; continuations are followed, never handed out. */
typedef struct td__h5_messages {
    const td__hdf5 *file;
    td_status status; /* why the walk ended: TD_OK at the end of the header */
    bool version2, ordered;
    td__h5_cursor block;
    struct {
        uint64_t address, size;
    } pending[TD__H5_PENDING]; /* blocks that are still to come */
    size_t pending_count;
    uint64_t budget;
} td__h5_messages;

void td__h5_messages_start(td__h5_messages *walk, const td__hdf5 *file, td__hdf5_object object,
                           td_error *error);
/* False at the end, and when something is wrong. */
bool td__h5_messages_next(td__h5_messages *walk, td__h5_message *message, td_error *error);

#endif
