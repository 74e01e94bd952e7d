/* Headers of version 1 and of version 2, which has signatures and checksums. */
#include "hdf5/message.h"

static bool fail_messages(td__h5_messages *walk, const char *what, td_error *error) {
    walk->status = td__h5_damaged(walk->file, what, error);
    return false;
}

static bool start_version1(td__h5_messages *walk, td__h5_cursor head, td_error *error) {
    td__h5_skip(&head, 8); /* version, number of messages, references */
    uint64_t size = td__h5_number(&head, 4);
    td__h5_skip(&head, 4);
    walk->block = td__h5_sub(&head, size);
    return !head.bad && td__h5_spend(&walk->budget, size)
               ? true
               : fail_messages(walk, "an object header", error);
}

static bool start_version2(td__h5_messages *walk, td__h5_cursor head, td_error *error) {
    const uint8_t *start = head.at;
    td__h5_expect(&head, "OHDR");
    unsigned version = td__h5_byte(&head), flags = td__h5_byte(&head);
    walk->version2 = true;
    walk->ordered = flags & 4;
    td__h5_skip(&head, flags & 0x20 ? 16 : 0); /* times */
    td__h5_skip(&head, flags & 0x10 ? 4 : 0);  /* when attributes become dense */
    uint64_t size = td__h5_number(&head, 1u << (flags & 3));
    walk->block = td__h5_sub(&head, size);
    size_t whole = (size_t)(head.at - start);
    td__h5_skip(&head, 4);
    if (head.bad || version != 2 || !td__h5_spend(&walk->budget, whole)) {
        return fail_messages(walk, "an object header", error);
    }
    return td__h5_is_sound(start, whole)
               ? true
               : fail_messages(walk, "an object header's checksum", error);
}

void td__h5_messages_start(td__h5_messages *walk, const td__hdf5 *file, td__hdf5_object object,
                           td_error *error) {
    walk->file = file;
    walk->status = TD_OK;
    walk->version2 = walk->ordered = false;
    walk->pending_count = 0;
    walk->budget = file->size;
    td__h5_cursor head = td__h5_from(file, object);
    bool good = td__h5_left(&head) > 0 && *head.at == 1 ? start_version1(walk, head, error)
                                                        : start_version2(walk, head, error);
    if (!good) {
        walk->block = td__h5_at(file, 0, 0);
    }
}

/* Makes the last block that a continuation described the current one. */
static bool continue_block(td__h5_messages *walk, td_error *error) {
    walk->pending_count--;
    uint64_t address = walk->pending[walk->pending_count].address;
    uint64_t size = walk->pending[walk->pending_count].size;
    td__h5_cursor block = td__h5_at(walk->file, address, size);
    if (block.bad || !td__h5_spend(&walk->budget, size)) {
        return fail_messages(walk, "a continued object header", error);
    }
    if (walk->version2) {
        const uint8_t *start = block.at;
        td__h5_expect(&block, "OCHK");
        if (block.bad || td__h5_left(&block) < 4 || !td__h5_is_sound(start, (size_t)size - 4)) {
            return fail_messages(walk, "a continued object header", error);
        }
        block.end -= 4;
    }
    walk->block = block;
    return true;
}

static bool read_message(td__h5_messages *walk, td__h5_message *message, td_error *error) {
    td__h5_cursor *block = &walk->block;
    message->type = (unsigned)td__h5_number(block, walk->version2 ? 1 : 2);
    uint64_t size = td__h5_number(block, 2);
    message->shared = td__h5_byte(block) & 2;
    td__h5_skip(block, walk->version2 ? (walk->ordered ? 2 : 0) : 3);
    message->body = td__h5_sub(block, size);
    return block->bad ? fail_messages(walk, "a header message", error) : true;
}

static bool remember_block(td__h5_messages *walk, td__h5_cursor body, td_error *error) {
    uint64_t address = td__h5_offset(&body), size = td__h5_length(&body);
    if (body.bad) {
        return fail_messages(walk, "a continued object header", error);
    }
    if (walk->pending_count == TD__H5_PENDING) {
        walk->status =
            td__h5_unsupported(walk->file, "an object header in more than 64 pieces", error);
        return false;
    }
    walk->pending[walk->pending_count].address = address;
    walk->pending[walk->pending_count++].size = size;
    return true;
}

bool td__h5_messages_next(td__h5_messages *walk, td__h5_message *message, td_error *error) {
    size_t min = walk->version2 ? (walk->ordered ? 6 : 4) : 8;
    while (!walk->status) {
        if (td__h5_left(&walk->block) < min) { /* what is left, if anything, is a gap */
            if (walk->pending_count == 0 || !continue_block(walk, error)) {
                return false;
            }
        } else if (!read_message(walk, message, error)) {
            return false;
        } else if (message->type != TD__H5_CONTINUATION) {
            return true;
        } else if (!remember_block(walk, message->body, error)) {
            return false;
        }
    }
    return false;
}
