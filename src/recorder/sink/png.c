/* Pictures: images/SIGNAL/step-000120.png, each published whole. A second picture of the same step
 * (from a trigger's history) replaces the first, which shows the same tensor.
 *
 * A network file system counts its users' files and is slow at creating them: there the pictures of a signal are in one
 * growing archive, images/SIGNAL.tar, whose last picture of a step counts. A picture is found by the block that it begins
 * at. */
#include "base/file.h"
#include "base/memory.h"
#include "base/network.h"
#include "base/tar.h"
#include "deck/reach.h"
#include "sink/append.h"
#include "sink/classes.h"
#include "sink/picture.h"
#include "sink/resume.h"
#include "sink/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_sink {
    td_sink_options options;
    int folder;
    int images; /* -1 until the first picture */
    bool dirty; /* pictures in files of their own since the last flush */
    bool packs; /* archives */
    td__append_set set;
    bool has_set;
    td__append **archives; /* by signal index; NULL until its first picture */
    size_t count;
};

static int images_folder(td_sink *sink, td_error *error) {
    if (sink->images < 0) {
        sink->images = td__folder_create(sink->folder, "images", error);
    }
    return sink->images;
}

static td_status publish_file(td_sink *sink, const char *signal, const char *name,
                              const td__picture *picture, td_error *error) {
    int images = images_folder(sink, error);
    int folder = images < 0 ? -1 : td__folder_create(images, signal, error);
    if (folder < 0) {
        return TD_IO;
    }
    td_status status = td__file_publish(folder, name, picture->png, picture->size, false, error);
    close(folder);
    sink->dirty |= !status;
    return status;
}

/* ---- Archives ------------------------------------------------------------------------------- */

static td_status open_set(td_sink *sink, td_error *error) {
    if (sink->has_set) {
        return TD_OK;
    }
    int images = images_folder(sink, error), folder = images < 0 ? -1 : dup(images);
    if (images < 0) {
        return TD_IO;
    }
    td_status status = folder < 0 ? td__file_error(error, "images", "open")
                                  : td__append_set_open_in(&sink->set, folder, &sink->options,
                                                           sink->options.resume != 0, error);
    sink->has_set = !status;
    return status;
}

static void put_member(char *room, const char *name, const td__picture *picture) {
    memset(room, 0, (size_t)td__tar_space((int64_t)picture->size));
    td__tar_header(room, name, (int64_t)picture->size);
    memcpy(room + TD__TAR_BLOCK, picture->png, picture->size);
}

/* Published with its first picture: programs refuse an archive without any. */
static td_status create_archive(td_sink *sink, const char *file, const char *comment,
                                const char *name, const td__picture *picture, td__append **archive,
                                td_error *error) {
    size_t size = TD__TAR_COMMENT + (size_t)td__tar_space((int64_t)picture->size);
    char *bytes = td__calloc(size, 1);
    if (!bytes) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for a picture", file);
    }
    memcpy(bytes, comment, TD__TAR_COMMENT);
    put_member(bytes + TD__TAR_COMMENT, name, picture);
    td_status status =
        td__append_create(&sink->set, file, TD__APPEND_FRAMED, bytes, size, archive, error);
    td__free(bytes);
    return status;
}

static td_status extend_archive(td__append *archive, const char *name, const td__picture *picture,
                                td_error *error) {
    size_t space = (size_t)td__tar_space((int64_t)picture->size);
    td__append_begin(archive);
    char *room = td__append_room(archive, space);
    if (!room) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for a picture", archive->name);
    }
    put_member(room, name, picture);
    td__append_advance(archive, space);
    return td__append_end(archive, 1, error);
}

/* block: where the picture begins in its archive. */
static td_status put_in_archive(td_sink *sink, const td_record *record, const char *signal,
                                const char *name, const td__picture *picture, int64_t *block,
                                td_error *error) {
    char file[TD__SIGNAL_FILE_SIZE + 4], comment[TD__TAR_COMMENT];
    td_status status = open_set(sink, error);
    if (!status && !td__signals_reach(&sink->archives, &sink->count, record->signal_index,
                                      sizeof(td__append *))) {
        status = td_error_set(error, TD_MEMORY, "png: out of memory");
    }
    if (status) {
        return status;
    }
    td__append **archive = &sink->archives[record->signal_index];
    (void)snprintf(file, sizeof file, "%s.tar", signal);
    td__tar_comment(comment, record->signal);
    *block = TD__TAR_COMMENT / TD__TAR_BLOCK;
    status = *archive            ? TD_OK
             : sink->set.resumed ? td__append_adopt(&sink->set, file, TD__APPEND_FRAMED, comment,
                                                    sizeof comment, archive, error)
                                 : TD_NOT_FOUND;
    if (status) {
        return status == TD_NOT_FOUND
                   ? create_archive(sink, file, comment, name, picture, archive, error)
                   : status;
    }
    *block = ((*archive)->end + (int64_t)(*archive)->used) / TD__TAR_BLOCK;
    return extend_archive(*archive, name, picture, error);
}

static td_status write_picture(td_sink *sink, const td_record *record, const td__picture *picture,
                               td_error *error) {
    char signal[TD__SIGNAL_FILE_SIZE], name[32];
    int64_t block = 0;
    td__signal_file(signal, record->signal);
    (void)snprintf(name, sizeof name, "step-%06lld.png", (long long)record->step);
    td_status status = sink->packs
                           ? put_in_archive(sink, record, signal, name, picture, &block, error)
                           : publish_file(sink, signal, name, picture, error);
    if (!status && record->place) {
        (void)snprintf(record->place->file, sizeof record->place->file, "images/%s%s%s", signal,
                       sink->packs ? ".tar" : "/", sink->packs ? "" : name);
        record->place->record = block;
    }
    return status;
}

/* ---- The sink ------------------------------------------------------------------------------- */

static td_status png_write_record(td_sink *sink, const td_record *record, td_error *error) {
    td__picture picture;
    td_status status = td__picture_of(record, &picture, error);
    if (status) {
        return status;
    }
    status = write_picture(sink, record, &picture, error);
    td__free(picture.png);
    return status;
}

static td_status png_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "png: out of memory");
    }
    *opened = (td_sink){
        .options = *options, .folder = td__folder_open(options->folder, error), .images = -1};
    if (opened->folder < 0) {
        td__free(opened);
        return TD_IO;
    }
    opened->packs = td__folder_is_network(opened->folder);
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

static td_status png_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    return sink->has_set ? td__append_set_tick(&sink->set, error) : TD_OK;
}

/* Pictures are many and small: one call for all of them and their folders. */
static td_status png_flush(td_sink *sink, td_error *error) {
    td_status status = sink->has_set ? td__append_set_sync(&sink->set, error) : TD_OK;
    sink->dirty = sink->dirty && !td__sync(syncfs, sink->folder);
    return sink->dirty ? td__file_error(error, "images", "sync") : status;
}

static td_status png_close(td_sink *sink, td_error *error) {
    td_status status = png_flush(sink, error);
    td_status closed =
        sink->has_set ? td__append_set_close(&sink->set, status ? NULL : error) : TD_OK;
    if (sink->images >= 0) {
        close(sink->images);
    }
    close(sink->folder);
    td__free(sink->archives);
    td__free(sink);
    return status ? status : closed;
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
    .end_step = png_end_step,
    .flush = png_flush,
    .close = png_close,
    .files = "images/SIGNAL/step-….png, images/SIGNAL.tar",
    .estimate = png_estimate,
};
