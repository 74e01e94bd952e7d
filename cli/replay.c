/* tapedeck replay: steps of a recorded training, executed again and recorded as one wishes one had. */
#include "json.h"
#include "options.h"
#include "terminal.h"

#include "tapedeck/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck replay RUN --steps A..B [--record 'GLOB,…'] [OPTION…]\n"
    "\n"
    "Executes steps of a run of `tapedeck train` again, from the nearest checkpoint and on the "
    "same\n"
    "batches, and records what was not recorded the first time. On the way every loss, and every\n"
    "fingerprint of a batch or of the parameters, is compared with what the flight recorder kept.\n"
    "Runs that crashed, were interrupted or still go on work too.\n"
    "\n"
    "  --steps A..B      the steps to record; one number: just that step\n"
    "  --record GLOBS    signals, separated by commas: 'conv2.*,loss'; without it, steps are only\n"
    "                    compared\n"
    "  --form FORMS      tensor, stats, histogram, hash, … separated by commas; default: each\n"
    "                    file's own\n"
    "  --to SINKS        csv, npy, tensorboard, png, sqlite; default as in tracks\n"
    "  --to DIR, -o DIR, --out DIR\n"
    "                    write a run of its own into DIR, which must be new. Without it the "
    "records\n"
    "                    are added to RUN, marked in its table `replayed`; what is there stays\n"
    "  --when EXPR       only steps in which this holds: 'loss > 3'\n"
    "  --history N       with --when: also the N steps before\n"
    "  --until EXPR      end with the first step in which this holds\n"
    "  --dry-run         only print what it would cost\n"
    "  --json            the result as a JSON object\n"
    "  --quiet           say nothing but errors\n"
    "\n"
    "Exit status 0 when all steps that were compared are the same as the first time, 1 when one "
    "is\n"
    "not: its records are not added to RUN then.\n"
    "\n"
    "Examples\n"
    "  tapedeck replay runs/demo --steps 1200..1250 --record 'conv2.*' --form tensor --to npy\n"
    "  tapedeck replay runs/demo --steps 1..500 --record '*.gradient' --form stats --when 'loss > "
    "3'\n"
    "  tapedeck replay runs/demo --steps 1..540\n";

typedef struct settings {
    const char *steps, *record, *form, *to, *out, *when, *until, *history, *words[MAX_VALUES];
    size_t word_count;
    bool json, quiet, dry_run;
} settings;

/* "A..B", "A-B" or "A". */
static bool parse_steps(const char *text, int64_t *first, int64_t *last) {
    char copy[64];
    size_t length = strcspn(text, ".-");
    if (length >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    const char *rest = text + length;
    bool range = *rest;
    rest += !strncmp(rest, "..", 2) ? 2 : *rest == '-' ? 1 : 0;
    return whole_number(copy, first) &&
           (range ? whole_number(rest, last) && *last >= *first : (*last = *first, true));
}

/* Forms, separated by commas; 0 when one is none. */
static uint32_t parse_forms(const char *text) {
    uint32_t forms = 0;
    for (size_t length; *text; text += length + (text[length] == ',')) {
        char word[32];
        length = strcspn(text, ",");
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), text);
        uint32_t form = td_form_find(word);
        if (!form) {
            return 0;
        }
        forms |= form;
    }
    return forms;
}

static void print_json_plan(const td_replay_plan *plan) {
    printf("{\"checkpoint\":%lld,\"first\":%lld,\"last\":%lld,\"steps\":%lld,\"seconds\":",
           (long long)plan->checkpoint, (long long)plan->first, (long long)plan->last,
           (long long)plan->steps);
    print_json_number(plan->seconds);
    printf(",\"bytes\":%lld}\n", (long long)plan->bytes);
}

/* Also whether the replay goes on. */
static bool print_plan(void *user, const td_replay_plan *plan) {
    const settings *s = user;
    char from[64] = "the beginning", seconds[64] = "", bytes[64] = "";
    if (s->json && s->dry_run) {
        print_json_plan(plan);
    }
    if (s->quiet || s->json) {
        return !s->dry_run;
    }
    if (plan->checkpoint) {
        (void)snprintf(from, sizeof from, "the checkpoint of step %lld",
                       (long long)plan->checkpoint);
    }
    if (!isnan(plan->seconds)) {
        (void)snprintf(seconds, sizeof seconds, ", about %.2g s", plan->seconds);
    }
    if (plan->bytes) {
        (void)snprintf(bytes, sizeof bytes, ", at most %.3g MB", (double)plan->bytes / 1e6);
    }
    printf("from %s: %lld step%s%s%s\n", from, (long long)plan->steps, plural(plan->steps), seconds,
           bytes);
    (void)fflush(stdout);
    return !s->dry_run;
}

static void print_result(const td_replay_result *result) {
    if (result->differs_at) {
        printf("step %lld differs: %s%s%s\n", (long long)result->differs_at, result->signal,
               *result->reason ? "; " : "", result->reason);
        if (result->identical_to) {
            printf("identical up to step %lld\n", (long long)result->identical_to);
        }
    } else if (result->compared) {
        printf("identical up to step %lld (%lld step%s compared)\n",
               (long long)result->identical_to, (long long)result->compared,
               plural(result->compared));
    } else {
        printf("nothing to compare with: the run has no flight record of these steps\n");
    }
    if (*result->out) {
        printf("%lld record%s in %s", (long long)result->records, plural(result->records),
               result->out);
        if (result->kept) {
            printf("; %lld were there already, and stay", (long long)result->kept);
        }
        putchar('\n');
    }
}

static void print_json_result(const td_replay_result *result) {
    printf("{\"checkpoint\":%lld,\"last\":%lld,\"compared\":%lld,\"identical_to\":%lld,"
           "\"differs_at\":%lld,\"signal\":",
           (long long)result->checkpoint, (long long)result->last, (long long)result->compared,
           (long long)result->identical_to, (long long)result->differs_at);
    print_json_text(result->signal);
    (void)fputs(",\"reason\":", stdout);
    print_json_text(result->reason);
    printf(",\"records\":%lld,\"kept\":%lld,\"out\":", (long long)result->records,
           (long long)result->kept);
    print_json_text(result->out);
    (void)fputs("}\n", stdout);
}

static int run_replay(int count, char **arguments) {
    settings s = {0};
    const option options[] = {
        {.name = "steps", .text = &s.steps},
        {.name = "record", .text = &s.record},
        {.name = "form", .text = &s.form},
        {.name = "to", .list = s.words, .list_count = &s.word_count},
        {.name = "out", .text = &s.out},
        {.name = "when", .text = &s.when},
        {.name = "until", .text = &s.until},
        {.name = "history", .text = &s.history},
        {.name = "json", .flag = &s.json},
        {.name = "quiet", .flag = &s.quiet},
        {.name = "dry-run", .flag = &s.dry_run},
    };
    if (!parse_options(&command_replay, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < s.word_count; i++) {
        bool sinks = are_sinks(s.words[i]);
        const char **taken = sinks ? &s.to : &s.out;
        if (*taken) {
            return misuse(&command_replay, "--to: two %s, %s and %s%s",
                          sinks ? "lists of sinks" : "folders", *taken, s.words[i],
                          sinks ? "; sinks go in one list" : "");
        }
        *taken = s.words[i];
    }
    if (check_folder(&command_replay, s.out)) {
        return EXIT_USAGE;
    }
    td_replay_options how = {.size = sizeof how,
                             .what = s.record,
                             .to = s.to,
                             .out = s.out,
                             .when = s.when,
                             .until = s.until,
                             .plan = print_plan,
                             .user = &s};
    if (count != 1) {
        return misuse(&command_replay, "expected one run");
    }
    if (!s.steps || !parse_steps(s.steps, &how.first, &how.last)) {
        return misuse(&command_replay, "--steps: expected A..B, two steps from 1 on");
    }
    if (s.form && !(how.form = parse_forms(s.form))) {
        return misuse(&command_replay, "--form: '%s' is no form", s.form);
    }
    if (s.history && (!whole_number(s.history, &how.history) || !s.when)) {
        return misuse(&command_replay, "--history: expected a number of steps, and --when");
    }
    if (!s.record && (s.form || s.to || s.out || s.when || s.until)) {
        return misuse(&command_replay, "--record says which signals to record");
    }
    td_replay_result result = {.size = sizeof result};
    td_error error = {0};
    td_status status = td_replay_run(arguments[0], &how, &result, &error);
    if (status == TD_INTERRUPTED && s.dry_run) {
        return EXIT_GOOD;
    }
    if (status) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    if (s.json) {
        print_json_result(&result);
    } else if (!s.quiet) {
        print_result(&result);
    }
    return result.differs_at ? EXIT_BAD : EXIT_GOOD;
}

const command command_replay = {
    .name = "replay",
    .summary = "execute steps of a run again, compare them, and record what was not recorded",
    .help = help,
    .run = run_replay,
};
