/* Pictures: images/SIGNAL/step-000120.png, each published whole. A second picture of the same step
 * (from a trigger's history) replaces the first, which shows the same tensor. */
#include "base/file.h"
#include "base/memory.h"
#include "sink/classes.h"
#include "sink/picture.h"
#include "sink/resume.h"
#include "sink/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_sink {
    int folder;
    int images; /* -1 until the first picture */
    bool dirty; /* pictures since the last flush */
};

/* The pictures' folder of one signal; -1 on failure. */
static int signal_folder(td_sink *sink, const char *name, td_error *error) {
    if (sink->images < 0) {
        sink->images = td__folder_create(sink->folder, "images", error);
    }
    return sink->images < 0 ? -1 : td__folder_create(sink->images, name, error);
}

static td_status png_write_record(td_sink *sink, const td_record *record, td_error *error) {
    char name[TD__SIGNAL_FILE_SIZE], file[32];
    td__signal_file(name, record->signal);
    snprintf(file, sizeof file, "step-%06lld.png", (long long)record->step);
    td__picture picture;
    td_status status = td__picture_of(record, &picture, error);
    if (status) {
        return status;
    }
    int folder = signal_folder(sink, name, error);
    status = folder < 0 ? TD_IO
                        : td__file_publish(folder, file, picture.png, picture.size, false, error);
    if (folder >= 0) {
        close(folder);
    }
    td__free(picture.png);
    sink->dirty |= !status;
    if (!status && record->place) {
        snprintf(record->place->file, sizeof record->place->file, "images/%s/%s", name, file);
        record->place->record = 0;
    }
    return status;
}

static td_status png_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "png: out of memory");
    }
    *opened = (td_sink){.folder = td__folder_open(options->folder, error), .images = -1};
    if (opened->folder < 0) {
        td__free(opened);
        return TD_IO;
    }
    td_status status =
        options->resume ? td__resume_png(opened->folder, options->resume, error) : TD_OK;
    if (status) {
        close(opened->folder);
        td__free(opened);
        return status;
    }
    *sink = opened;
    return TD_OK;
}

/* Pictures are many and small: one call for all of them and their folders. */
static td_status png_flush(td_sink *sink, td_error *error) {
    sink->dirty = sink->dirty && !td__sync(syncfs, sink->folder);
    return sink->dirty ? td__file_error(error, "images", "sync") : TD_OK;
}

static td_status png_close(td_sink *sink, td_error *error) {
    td_status status = png_flush(sink, error);
    if (sink->images >= 0) {
        close(sink->images);
    }
    close(sink->folder);
    td__free(sink);
    return status;
}

static int64_t png_estimate(td_form form, int64_t rows, int64_t elements) {
    (void)rows;
    (void)form;
    return elements;
}

const td_sink_class td__sink_png = {
    .size = sizeof(td_sink_class),
    .name = "png",
    .forms = TD_IMAGE,
    .default_forms = TD_IMAGE,
    .open = png_open,
    .write = png_write_record,
    .flush = png_flush,
    .close = png_close,
    .files = "images/SIGNAL/step-….png",
    .estimate = png_estimate,
};
