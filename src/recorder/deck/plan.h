/* What is to be kept of something recorded: worked out from the tracks that want it, and cut down
 * to the room there is. All with the deck's lock held. */
#ifndef TAPEDECK_DECK_PLAN_H
#define TAPEDECK_DECK_PLAN_H

#include "deck/deck.h"

/* What is to be kept of one tensor, or one value. */
typedef struct td__plan {
    td_signal *signal;
    uint32_t kind; /* TD_TENSOR, TD_SCALAR, TD_TEXT */
    bool single;
    int64_t count;
    size_t data_bytes; /* of the elements, or of the text */
    size_t bins_bytes; /* of the histogram; before the pass, the most it can be */
    bool takes_over;   /* the view's memory is kept, not copied */
    uint64_t serial;   /* the step it belongs to */
    int64_t epoch, step;

    td__tracks tracks; /* that want it, and got room */
    td__tracks sure;   /* those that will write it whatever happens; the others may, later */
    uint32_t forms;    /* all that they want */
    uint32_t wanted;   /* the form that did not fit, or 0 */
    bool summed_up;    /* the pass is done, without a copy */
    bool deferred;     /* the writer makes the pass */
    bool waited_for;   /* larger than the queue: written before the call returns */
    size_t bytes;      /* accounted for it, by the queue and by the history */

    const struct td__summary
        *given; /* the pass was made elsewhere, and the view has no data; or NULL */
} td__plan;

/* From the plan's tracks: which of them are sure, the forms they want (less what the overhead
 * budget forbids), and the step it belongs to. */
void td__plan_draw_up(const td_deck *deck, td__plan *plan);
bool td__plan_has_sure(const td__plan *plan);
/* The bytes that it takes. */
size_t td__plan_bytes(const td__plan *plan);
/* tensor -> histogram -> statistics; false at the end of the line. */
bool td__plan_reduce(td__plan *plan);
/* Makes a snapshot with the room and memory that the plan needs; may wait. NULL when no track wants it
 * any more, or there is no room; the records are then counted as dropped. */
td__snapshot *td__plan_admit(td_deck *deck, td__plan *plan);
/* Gives room back that a snapshot turned out not to need. */
void td__plan_shrink(td_deck *deck, td__snapshot *snapshot, size_t spare);
/* Stages it; or, when its step was closed meanwhile, sends on what is sure of it. */
void td__plan_stage(td_deck *deck, td__plan *plan, td__snapshot *snapshot);

/* ---- record.c ------------------------------------------------------------------------------- */

/* Records the view for the plan's tracks, and for conditions that read its statistics (probe). Called and returns with
 * the lock held. *view's release is cleared when the memory was taken. */
void td__record_planned(td_deck *deck, td__plan *plan, td_view *view, bool probe,
                        td__deck_batch *batch);
/* Bytes of a histogram of that many elements, or bins. */
size_t td__bins_size(int64_t count);

#endif
