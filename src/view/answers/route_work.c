/* /api/start, /api/work: steps that are executed again because a page asks for them. */
#include "answers/answer.h"
#include "answers/work.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ARGUMENTS = 24, MAX_TEXT = 4096 };

/* The command line that is being made. */
typedef struct command {
    const char *arguments[MAX_ARGUMENTS + 1];
    size_t count;
    bool writes;      /* into the run */
    const char *rest; /* after the run; NULL: nothing */
    char steps[64], out[MAX_TEXT], other[MAX_TEXT];
} command;

static void add(command *c, const char *argument) {
    if (c->count < MAX_ARGUMENTS) {
        c->arguments[c->count++] = argument;
    }
}

/* --NAME VALUE, where the page gave one. */
static void add_option(command *c, const td__call *call, const char *name, const char *option) {
    const char *value = td__call_text(call, name);
    if (*value) {
        add(c, option);
        add(c, value);
    }
}

/* Without --write nothing is written: the page may ask what a replay would cost. Records of a run that is
 * being written go to a run of their own beside it. */
static td_status add_replay(command *c, const td__call *call, td_error *error) {
    bool dry = *td__call_text(call, "dry") != 0;
    int64_t first = td__call_number(call, "first", 1, INT64_MAX, 1),
            last = td__call_number(call, "last", first, INT64_MAX, first);
    if (!dry && !call->writable) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "it writes into the run, and this viewer only reads: start it with "
                            "--write");
    }
    (void)snprintf(c->steps, sizeof c->steps, "%lld..%lld", (long long)first, (long long)last);
    add(c, "replay");
    add(c, "--steps");
    add(c, c->steps);
    add_option(c, call, "record", "--record");
    add_option(c, call, "form", "--form");
    add_option(c, call, "to", "--to");
    c->writes = !dry;
    if (dry) {
        add(c, "--dry-run");
    } else if (call->run->info.state == TD_RUN_RUNNING) {
        (void)snprintf(c->out, sizeof c->out, "%s-replay-%lld-%lld", call->run->folder,
                       (long long)first, (long long)last);
        add(c, "--out");
        add(c, c->out);
    }
    return TD_OK;
}

static td_status add_origin(command *c, const td__call *call, td_error *error) {
    (void)error;
    const char *when = td__call_text(call, "when");
    add(c, "origin");
    add_option(c, call, "what", "--what");
    c->rest = *when ? when : NULL;
    return TD_OK;
}

static td_status add_diff(command *c, const td__call *call, td_error *error) {
    td__cached_run *other =
        td__cached_run_acquire(call->cache, td__call_text(call, "other"), error);
    if (!other) {
        return error->status;
    }
    (void)snprintf(c->other, sizeof c->other, "%s", other->folder);
    td__cached_run_release(other);
    add(c, "diff");
    c->rest = c->other;
    return TD_OK;
}

static const struct {
    const char *name;
    td_status (*add)(command *c, const td__call *call, td_error *error);
} works[] = {{"replay", add_replay}, {"origin", add_origin}, {"diff", add_diff}};

/* run=…&do=replay|origin|diff&…: {"job": its id}. */
td_status td__route_start(td__call *call, td_error *error) {
    command c = {.arguments = {"tapedeck"}, .count = 1};
    const char *name = td__call_text(call, "do");
    td_status status = td_error_set(error, TD_INVALID, "expected replay, origin or diff");
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        if (strcmp(works[i].name, name) == 0) {
            status = works[i].add(&c, call, error);
        }
    }
    if (status) {
        return status;
    }
    add(&c, "--json");
    add(&c, "--"); /* no name of a run and no condition is an option */
    add(&c, call->run->folder);
    if (c.rest) {
        add(&c, c.rest);
    }
    int64_t id = 0;
    status = td__work_start(call->work, c.arguments, c.writes, &id, error);
    if (!status) {
        td__put_format(call->out, "{\"job\":%lld}", (long long)id);
    }
    return status;
}

/* run=…&job=…: what became of it. */
td_status td__route_work(td__call *call, td_error *error) {
    bool written = false;
    td_status status = td__work_put(call->work, td__call_number(call, "job", 0, INT64_MAX, 0),
                                    call->out, &written, error);
    return !status && written ? td__cached_run_read_again(call->run, error) : status;
}
