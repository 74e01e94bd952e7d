/* The values of the row that a cursor of SQL over runs is at. */
#include "run/sql.h"

#include "base/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_text(td_cell *cell, const char *text) {
    if (text) {
        *cell = (td_cell){.kind = TD_CELL_TEXT, .text = text, .length = strlen(text)};
    }
}

static void set_integer(td_cell *cell, int64_t value) {
    *cell = (td_cell){.kind = TD_CELL_INTEGER, .integer = value};
}

static void set_real(td_cell *cell, double value) {
    if (!isnan(value)) {
        *cell = (td_cell){.kind = TD_CELL_REAL, .real = value};
    }
}

/* Times that are not known are NULL. */
static void set_time(td_cell *cell, double seconds) {
    set_real(cell, seconds > 0 ? seconds : NAN);
}

static void set_info(const td__sql_cursor *c, int at, td_cell *cell) {
    const td_run_info *info = &c->at->info;
    if (at == INFO_FOLDER) {
        set_text(cell, c->at->folder);
    } else if (at == INFO_ERROR) {
        set_text(cell, c->at->error);
    } else if (c->at->error) {
        return;
    } else if (at == INFO_STATE) {
        set_text(cell, info->events ? info->format : td_run_state_name(info->state));
    } else if (at == INFO_STARTED || at == INFO_LAST_RECORD) {
        set_time(cell, at == INFO_STARTED ? info->started : info->last_record);
    } else {
        const int64_t numbers[] = {[INFO_STEP] = info->last_step,
                                   [INFO_EPOCH] = info->last_epoch,
                                   [INFO_BYTES] = info->bytes,
                                   [INFO_DROPPED] = info->dropped,
                                   [INFO_DEGRADED] = info->degraded};
        set_integer(cell, numbers[at]);
    }
}

/* "scalar", "stats histogram": valid until the next call of a thread. */
static const char *forms_text(uint32_t forms) {
    static _Thread_local char text[128];
    text[0] = 0;
    for (int bit = 0; bit < 32; bit++) {
        const char *name = forms & 1U << bit ? td_form_name(1U << bit) : NULL;
        size_t used = strlen(text);
        if (name) {
            (void)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", name);
        }
    }
    return text;
}

static void set_signal(const td__sql_cursor *c, int at, td_cell *cell) {
    static const char *const betters[] = {
        [TD_BETTER_SMALLER] = "smaller", [TD_BETTER_LARGER] = "larger"};
    const td_run_signal *signal = &c->at->run->signals[c->signal_now];
    switch (at) {
    case SIGNAL_NAME:
        set_text(cell, signal->name);
        break;
    case SIGNAL_KIND:
        set_text(cell, td_signal_kind_name(signal->info->kind));
        break;
    case SIGNAL_LAYER:
        set_text(cell, *signal->info->layer ? signal->info->layer : NULL);
        break;
    case SIGNAL_PARAMETER:
        set_text(cell, *signal->info->parameter ? signal->info->parameter : NULL);
        break;
    case SIGNAL_BETTER:
        set_text(cell, signal->info->better ? betters[signal->info->better] : NULL);
        break;
    case SIGNAL_FORMS:
        set_text(cell, forms_text(signal->forms));
        break;
    case SIGNAL_POSITION:
        if (signal->info->order > 0) {
            set_integer(cell, signal->info->order);
        }
        break;
    default:
        set_integer(cell, at == SIGNAL_RANK    ? signal->info->rank
                          : at == SIGNAL_FIRST ? signal->first_step
                                               : signal->last_step);
        break;
    }
}

static void set_rank(const td__sql_cursor *c, int at, td_cell *cell) {
    const td_run_rank *rank = td_run_rank_at(c->at->run, c->signal_now);
    const int64_t numbers[] = {rank->rank, rank->attempt, rank->node, rank->local_rank,
                               rank->last_step};
    if (at <= RANK_STEP) {
        set_integer(cell, numbers[at]);
    } else {
        set_text(cell, at == RANK_STATE  ? td_run_state_name(rank->state)
                       : at == RANK_MESH ? rank->mesh
                                         : rank->folder);
    }
}

/* A number where the text is one from its first byte to its last. */
static void set_either(td_cell *cell, const char *text) {
    double value;
    const char *end = text ? td__parse_float64(text, &value) : NULL;
    if (!end || *end || !isfinite(value)) {
        set_text(cell, text);
    } else if (strpbrk(text, ".eE") || fabs(value) > 9e15) {
        set_real(cell, value);
    } else {
        set_integer(cell, (int64_t)value);
    }
}

static void set_bin(const td__sql_cursor *c, int at, td_cell *cell) {
    td_range range = td_histogram_range(&c->histogram, c->bin);
    set_real(cell, at == 0 ? range.left : at == 1 ? range.right : range.count);
}

void td__sql_cell(void *user, int column, td_cell *cell) {
    const td__sql_cursor *c = user;
    const place *from = &c->view->places[column];
    switch (from->origin) {
    case FROM_RUN:
        set_text(cell, c->at->label);
        break;
    case FROM_INFO:
        set_info(c, from->at, cell);
        break;
    case FROM_SIGNAL:
        set_signal(c, from->at, cell);
        break;
    case FROM_RANK:
        set_rank(c, from->at, cell);
        break;
    case FROM_INTEGER:
        if (!isnan(td__rows_real(c->rows, from->at))) {
            set_integer(cell, td__rows_integer(c->rows, from->at));
        }
        break;
    case FROM_REAL:
        set_real(cell, td__rows_real(c->rows, from->at));
        break;
    case FROM_TEXT:
        set_text(cell, td__rows_text(c->rows, from->at, NULL));
        break;
    case FROM_EITHER:
        set_either(cell, td__rows_text(c->rows, from->at, NULL));
        break;
    case FROM_BIN:
        set_bin(c, from->at, cell);
        break;
    }
}
