/* A sink on a folder of its own, and records for it. */
#ifndef TAPEDECK_TESTS_SINK_FIXTURE_H
#define TAPEDECK_TESTS_SINK_FIXTURE_H

#include "test.h"

#include "sink/classes.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    const td_sink_class *class;
    td_sink *sink;
    char folder[64];
    td_error error;
    td_place place;
} fixture;

static inline void fixture_open(fixture *f, const td_sink_class *class, FILE *stream) {
    *f = (fixture){.class = class, .folder = "/tmp/tapedeck-sink-XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    td_sink_options options = {
        .size = sizeof options, .folder = f->folder, .run = "demo", .stream = stream};
    assert_ok(class->open(&options, &f->sink, &f->error), f->error);
}

static inline void fixture_reopen(fixture *f, int64_t resume) {
    td_sink_options options = {
        .size = sizeof options, .folder = f->folder, .run = "demo", .resume = resume};
    assert_ok(f->class->open(&options, &f->sink, &f->error), f->error);
}

static inline void fixture_close(fixture *f) {
    assert_ok(f->class->close(f->sink, &f->error), f->error);
    f->sink = NULL;
}

static inline void fixture_remove(fixture *f) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    assert_int_equal(system(command), 0);
}

static inline td_status fixture_write(fixture *f, td_record record) {
    f->place = (td_place){0};
    record.place = &f->place;
    return f->class->write(f->sink, &record, &f->error);
}

static inline void fixture_scalar(fixture *f, const char *signal, int32_t index, int64_t step,
                                  double value) {
    assert_ok(fixture_write(f, (td_record){.signal = signal,
                                           .signal_index = index,
                                           .form = TD_SCALAR,
                                           .epoch = 1,
                                           .step = step,
                                           .value = value}),
              f->error);
}

static inline void fixture_view(fixture *f, const char *signal, int32_t index, td_form form,
                                int64_t step, td_view view, const int64_t *samples) {
    assert_ok(fixture_write(f, (td_record){.signal = signal,
                                           .signal_index = index,
                                           .form = form,
                                           .epoch = 1,
                                           .step = step,
                                           .view = &view,
                                           .samples = samples}),
              f->error);
}

static inline void fixture_end_step(fixture *f, int64_t step) {
    assert_ok(f->class->end_step(f->sink, 1, step, &f->error), f->error);
}

/* The file's bytes, with a zero behind them; static. */
static inline const char *fixture_read(const fixture *f, const char *name) {
    static char text[1 << 20];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("there is no %s", path);
        return NULL;
    }
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static inline bool fixture_has(const fixture *f, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    return access(path, F_OK) == 0;
}

/* Runs Python (Debian's, which has numpy, pandas) in the folder; the code must not raise. */
static inline void fixture_python(const fixture *f, const char *code) {
    char path[128];
    snprintf(path, sizeof path, "%s/.check.py", f->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "import os, sys\nos.chdir(%c%s%c)\n%s\n", '"', f->folder, '"', code);
    fclose(file);
    char command[256];
    snprintf(command, sizeof command, "env -u LD_PRELOAD /usr/bin/python3 %s", path);
    assert_int_equal(system(command), 0);
    unlink(path);
}

#endif
