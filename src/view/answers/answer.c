#include "answers/answer.h"

#include "answers/page.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How a path is asked for. Only a page of this viewer can POST. */
typedef enum method {
    GETS,
    POSTS,
    WRITES /* a POST that writes into runs: only with --write */
} method;

/* One row per request of the page. */
static const struct route {
    const char *path;
    bool about_run; /* parameter "run" is its id */
    td__route_function *answer;
    method method;
} routes[] = {
    {"/api/runs", false, td__route_runs, GETS},
    {"/api/run", true, td__route_run, GETS},
    {"/api/series", true, td__route_series, GETS},
    {"/api/heat", true, td__route_heat, GETS},
    {"/api/ranks", true, td__route_ranks, GETS},
    {"/api/steps", true, td__route_steps, GETS},
    {"/api/histograms", true, td__route_histograms, GETS},
    {"/api/stats", true, td__route_stats, GETS},
    {"/api/tensor", true, td__route_tensor, GETS},
    {"/api/units", true, td__route_units, GETS},
    {"/api/image", true, td__route_image, GETS},
    {"/api/sound", true, td__route_sound, GETS},
    {"/api/texts", true, td__route_texts, GETS},
    {"/api/examples", true, td__route_examples, GETS},
    {"/api/batch", true, td__route_batch, GETS},
    {"/api/files", true, td__route_files, GETS},
    {"/api/compare", true, td__route_compare, GETS},
    {"/api/settings", false, td__route_settings, GETS},
    {"/api/projection", true, td__route_projection, GETS},
    {"/api/note", true, td__route_note, WRITES},
    {"/api/tracks", true, td__route_tracks, WRITES},
    {"/api/start", true, td__route_start, POSTS},
    {"/api/work", true, td__route_work, GETS},
};

/* ---- Parameters ----------------------------------------------------------------------------- */

static int digit(char c) {
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

/* Decodes %XX and + in place. A decoded zero byte ends the text. */
static void decode(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '%' && digit(from[1]) >= 0 && digit(from[2]) >= 0) {
            *to++ = (char)(digit(from[1]) << 4 | digit(from[2]));
            from += 2;
        } else {
            *to++ = (char)(*from == '+' ? ' ' : *from);
        }
    }
    *to = 0;
}

/* Splits "a=1&b=2" in place; parameters beyond TD__MAX_PARAMETERS are ignored. */
static void parse_query(td__call *call, char *query) {
    char *rest = query;
    while (rest && *rest && call->parameter_count < TD__MAX_PARAMETERS) {
        char *name = strsep(&rest, "&"), *value = strchr(name, '=');
        if (value) {
            *value++ = 0;
        } else {
            value = name + strlen(name);
        }
        decode(name);
        decode(value);
        call->names[call->parameter_count] = name;
        call->values[call->parameter_count++] = value;
    }
}

const char *td__call_text(const td__call *call, const char *name) {
    for (size_t i = 0; i < call->parameter_count; i++) {
        if (strcmp(call->names[i], name) == 0) {
            return call->values[i];
        }
    }
    return "";
}

int64_t td__call_number(const td__call *call, const char *name, int64_t min, int64_t max,
                        int64_t fallback) {
    const char *text = td__call_text(call, name);
    char *end;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end) {
        return fallback;
    }
    return number < min ? min : number > max ? max : number;
}

const td_run_signal *td__call_signal(const td__call *call, td_error *error) {
    const td_run_signal *signal =
        td__cached_run_signal(call->run, td__call_number(call, "signal", 0, INT64_MAX, 0));
    if (!signal) {
        td_error_set(error, TD_NOT_FOUND, "the run has no such signal");
    }
    return signal;
}

/* ---- The latest record ---------------------------------------------------------------------- */

typedef struct latest {
    td__call *call;
    const char *name;
    td_record_function *each;
    void *user;
    bool found;
} latest;

static td_status keep_latest(void *user, const td_record *record, td_error *error) {
    latest *l = user;
    if (strcmp(record->signal, l->name) != 0) {
        return TD_OK;
    }
    l->found = true;
    l->call->out->size = 0; /* in place of the one before */
    return l->each(l->user, record, error);
}

td_status td__call_latest(td__call *call, const td_run_signal *signal, td_form form,
                          td_record_function *each, void *user, td_error *error) {
    int64_t step = td__call_number(call, "step", INT64_MIN, INT64_MAX, INT64_MAX);
    if (!call->run->info.events) {
        return td_run_at(call->run->run, signal, form, step, each, user, error);
    }
    latest l = {call, signal->name, each, user, false};
    bool plain = !strpbrk(signal->name, "*?[],\\"); /* no glob that means something else */
    td_run_query query = {.size = sizeof query,
                          .what = plain ? signal->name : NULL,
                          .forms = form,
                          .first_step = signal->first_step,
                          .last_step = step};
    td_status status = td_run_read(call->run->run, &query, keep_latest, &l, error);
    return status || l.found ? status : td_error_set(error, TD_NOT_FOUND, "nothing was recorded");
}

bool td__call_next_id(const char **list, int64_t *id) {
    char *end;
    *id = strtoll(*list, &end, 10);
    bool found = end > *list;
    *list = found && *end == ',' ? end + 1 : "";
    return found;
}

td_status td__call_statistic(const td__call *call, const char **statistic, td_error *error) {
    const char *name = td__call_text(call, "stat");
    *statistic = *name ? td__statistic(name) : NULL;
    if (*name && !*statistic) {
        return td_error_set(error, TD_INVALID, "there is no such statistic");
    }
    return TD_OK;
}

void td__call_binary(td__call *call, td__output *head) {
    while (head->size % 8 != 4 && !head->failed) {
        td__put_text(head, " ");
    }
    uint8_t length[4];
    for (int i = 0; i < 4; i++) {
        length[i] = (uint8_t)(head->size >> 8 * i);
    }
    td__put(call->out, length, sizeof length);
    td__put(call->out, head->data, head->size);
    call->out->failed |= head->failed;
    call->type = "application/octet-stream";
    td__output_release(head);
}

/* ---- Who may ask ---------------------------------------------------------------------------- */

/* The comparison takes the same time wherever the texts differ. */
static bool is_token(const td__server_context *context, const char *text, size_t length) {
    size_t wanted = strlen(context->token);
    unsigned char differ = (unsigned char)(length != wanted);
    for (size_t i = 0; i < wanted; i++) {
        differ |= (unsigned char)(context->token[i] ^ (i < length ? text[i] : 0));
    }
    return !differ;
}

static void cookie_name(const td__server_context *context, char name[32]) {
    (void)snprintf(name, 32, "tapedeck-%d", context->port);
}

static bool has_cookie(const td__server_context *context, const char *cookies) {
    char name[32];
    cookie_name(context, name);
    for (const char *at = cookies; at && *at;) {
        at += strspn(at, "; ");
        size_t length = strcspn(at, ";"), named = strlen(name);
        if (length > named && strncmp(at, name, named) == 0 && at[named] == '=' &&
            is_token(context, at + named + 1, length - named - 1)) {
            return true;
        }
        at += length;
    }
    return false;
}

/* Returns true for an IPv4 address or an IPv6 one in brackets. A host name is refused: somebody else
 * could make theirs resolve to this machine. */
static bool is_address(const char *text, size_t length) {
    bool six = length > 2 && text[0] == '[' && text[length - 1] == ']';
    size_t dots = 0;
    for (size_t i = six; i < length - six; i++) {
        dots += text[i] == '.';
        if (!(six ? isxdigit((unsigned char)text[i]) || text[i] == ':' || text[i] == '.'
                  : isdigit((unsigned char)text[i]) || text[i] == '.')) {
            return false;
        }
    }
    return six || dots == 3;
}

static bool is_name(const char *text, size_t length, const char *name) {
    return strlen(name) == length && strncasecmp(text, name, length) == 0;
}

/* "127.0.0.1:6464", as Host and the end of Origin have it. */
static bool is_host(const td__server_context *context, const char *text) {
    char port[16];
    (void)snprintf(port, sizeof port, ":%d", context->port);
    size_t length = strlen(text), ending = strlen(port);
    if (length <= ending || strcmp(text + length - ending, port) != 0) {
        return false;
    }
    length -= ending;
    if (is_name(text, length, "127.0.0.1") || is_name(text, length, "localhost") ||
        is_name(text, length, "[::1]")) {
        return true;
    }
    char own[256] = "";
    (void)gethostname(own, sizeof own - 1);
    return *context->host && (is_name(text, length, context->host) || is_name(text, length, own) ||
                              is_address(text, length));
}

static bool is_origin(const td__server_context *context, const char *origin) {
    return strncmp(origin, "http://", 7) == 0 && is_host(context, origin + 7);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void respond_text(td__response *response, int status, const char *text) {
    td__output_release(&response->body);
    response->status = status;
    response->type = "text/plain; charset=utf-8";
    td__put_text(&response->body, text);
}

/* Responds with an error as JSON: {"error": "…"}. */
static void respond_error(td__response *response, td_status status, const td_error *error) {
    static const struct {
        td_status status;
        int code;
    } codes[] = {{TD_NOT_FOUND, 404}, {TD_BUSY, 503},   {TD_INVALID, 400},
                 {TD_RANGE, 400},     {TD_MEMORY, 500}, {TD_UNSUPPORTED, 400}};
    td__output_release(&response->body);
    response->status = 500;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        response->status = codes[i].status == status ? codes[i].code : response->status;
    }
    response->type = "application/json";
    td__put_text(&response->body, "{\"error\":");
    td__put_json(&response->body, *error->text ? error->text : td_status_text(status));
    td__put_text(&response->body, "}");
}

static td_status run_route(const struct route *route, td__call *call, td_error *error) {
    if (route->about_run) {
        call->run = td__cached_run_acquire(call->cache, td__call_text(call, "run"), error);
        if (!call->run) {
            return error->status;
        }
    }
    call->type = "application/json";
    td_status status = route->answer(call, error);
    if (call->run) {
        td__cached_run_release(call->run);
    }
    if (!status && call->out->failed) {
        status = td_error_set(error, TD_RANGE, "the answer is too large");
    }
    return status;
}

/* Splits `target` in place. Returns NULL when no route has that path. */
static const struct route *find_route(char *target, td__call *call) {
    char *question = strchr(target, '?');
    if (question) {
        *question = 0;
        parse_query(call, question + 1);
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(routes[i].path, target) == 0) {
            return &routes[i];
        }
    }
    return NULL;
}

td_status td__answer_route(td__run_cache *cache, const char *target, td__output *out,
                           td_error *error) {
    char *copy = td__strdup(target);
    td__call call = {.cache = cache, .out = out};
    const struct route *route = copy ? find_route(copy, &call) : NULL;
    td_status status = route ? run_route(route, &call, error)
                             : td_error_set(error, TD_NOT_FOUND, "nothing is at %s", target);
    td__free(copy);
    return status;
}

static void serve_file(const td__server_context *context, const td__page_file *file,
                       const td__http_request *request, bool by_token, td__response *response) {
    char name[32];
    cookie_name(context, name);
    response->status = 200;
    response->type = file->type;
    response->gzip = request->gzip;
    if (request->gzip) {
        td__put(&response->body, file->data, file->size);
    } else if (!td__page_text(file, &response->body)) {
        respond_text(response, 500, "out of memory\n");
    }
    if (by_token) {
        (void)snprintf(response->cookie, sizeof response->cookie,
                       "%s=%s; Path=/; HttpOnly; SameSite=Strict", name, context->token);
    }
}

/* Compresses a long answer; a picture is compressed already. */
static void compress(const td__http_request *request, td__response *response) {
    enum { WORTH_IT = 4096 };
    td__output packed = {0};
    if (request->gzip && response->body.size >= WORTH_IT &&
        strcmp(response->type, "image/png") != 0 && td__output_gzip(&response->body, 1, &packed)) {
        td__output_release(&response->body);
        response->body = packed;
        response->gzip = true;
    } else {
        td__output_release(&packed);
    }
}

static void answer_allowed(td__server_context *context, const td__http_request *request,
                           char *target, td__response *response) {
    td__call call = {.cache = context->cache,
                     .writable = context->writable,
                     .work = &context->work,
                     .out = &response->body};
    const struct route *route = find_route(target, &call);
    bool posts = strcmp(request->method, "POST") == 0;
    const char *token = td__call_text(&call, "token");
    bool by_token = is_token(context, token, strlen(token));
    if (!by_token && !has_cookie(context, request->cookie)) {
        respond_text(response, 403,
                     "403: open the address that `tapedeck view` printed, token and all\n");
        return;
    }
    response->allowed = true;
    const td__page_file *file = td__page_find(target);
    if (posts != (route && route->method != GETS)) {
        respond_text(response, 405, "405: this address takes another method\n");
    } else if (route && route->method == WRITES && !context->writable) {
        respond_text(response, 405, "405: the viewer only shows\n");
    } else if (file) {
        serve_file(context, file, request, by_token, response);
    } else if (strcmp(target, "/api/follow") == 0) {
        response->status = 200;
        response->type = "text/event-stream";
        response->follow = true;
    } else if (route) {
        td_error error = {0};
        td_status status = run_route(route, &call, &error);
        response->status = 200;
        response->type = call.type;
        if (status == TD_NOT_FOUND && call.run) {
            respond_text(response, 204, ""); /* the run has no such record: nothing is wrong */
        } else if (status) {
            respond_error(response, status, &error);
        } else {
            compress(request, response);
        }
    } else {
        respond_text(response, 404, "404: nothing is here\n");
    }
}

void td__answer(td__server_context *context, const td__http_request *request,
                td__response *response) {
    /* Only a page can POST, and only with its own origin: a link or a form of another site cannot. */
    bool posts = strcmp(request->method, "POST") == 0 && request->origin;
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0 && !posts) {
        respond_text(response, 405, "405: the viewer only shows\n");
        return;
    }
    if (!request->host) {
        respond_text(response, 400, "400: a request names one Host\n");
        return;
    }
    if (!is_host(context, request->host) ||
        (request->origin && !is_origin(context, request->origin))) {
        respond_text(response, 403, "403: this address is not the viewer's\n");
        return;
    }
    char *target = td__strdup(request->target);
    if (!target) {
        respond_text(response, 500, "out of memory\n");
        return;
    }
    answer_allowed(context, request, target, response);
    td__free(target);
}
