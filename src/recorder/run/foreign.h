/* Runs that other programs recorded, read into a store of the run's own: a format has a row in the table of
 * foreign.c and a file that reads it. What is damaged or has no counterpart here is a problem of the run; the rest is
 * read. */
#ifndef TAPEDECK_RUN_FOREIGN_H
#define TAPEDECK_RUN_FOREIGN_H

#include "run/run.h"
#include "store/tags.h"
#include "store/writer.h"

/* Where what is read goes. */
typedef struct td__intake {
    td__writer *writer;
    td__problems *problems;
    td__tags tags;
} td__intake;

struct td__foreign {
    const char *name; /* as td_run_info.format has it */
    const char *what; /* for people */
    const char *
        mark; /* how a file is called, or ends, in the folder of such a run; NULL: runs have none */
    /* Whether path, a folder or a file, is such a run. */
    bool (*is_run)(const char *path);
    td_status (*read)(td__intake *intake, const char *path, td_error *error);
    /* NULL, or hands on each run that a file of a folder holds, as a path below it. */
    td_status (*find)(const char *file, td_folder_function *each, void *user, td_error *error);
};

extern const td__foreign td__foreign_wandb, td__foreign_mlflow, td__foreign_trackio,
    td__foreign_csv;

/* What reads the path; NULL: nothing does. */
const td__foreign *td__foreign_of(const char *path);
/* Whether a folder with a file of this name may be such a run. */
bool td__foreign_marks(const char *name);
/* Hands on the runs that a file of a folder holds. */
td_status td__foreign_find(const char *file, td_folder_function *each, void *user, td_error *error);
/* All of path, into a store that is the caller's. */
td_status td__foreign_import(const td__foreign *foreign, const char *path, td__problems *problems,
                             td__store **store, td_error *error);

/* ---- What readers use ----------------------------------------------------------------------- */

/* When and at which step something was logged. */
typedef struct td__moment_of {
    int64_t step;
    double wall_time; /* 0: not known */
    int64_t epoch;
} td__moment_of;

/* system.NAME is the machine's load; what others are, their name says. */
td_status td__intake_number(td__intake *intake, const char *name, const td__moment_of *at,
                            double value, td_error *error);
td_status td__intake_text(td__intake *intake, const char *name, const td__moment_of *at,
                          const char *text, td_error *error);
/* A logged value as JSON: numbers, truth values, NaN, Infinity and "NaN", "Infinity", "-Infinity" are numbers, text is
 * text, a member of an object is NAME.MEMBER, an object of _type histogram is one. Nothing else is taken. */
td_status td__intake_json(td__intake *intake, const char *name, const td__moment_of *at,
                          const char *json, size_t length, td_error *error);
/* A fact about the run; a setting is experiment.KEY. */
td_status td__intake_note(td__intake *intake, const char *key, const char *value, td_error *error);
/* Settings as JSON: members of objects are experiment.KEY.MEMBER. key "": the whole. */
td_status td__intake_settings(td__intake *intake, const char *key, const char *json, size_t length,
                              td_error *error);
/* What a YAML file says: KEY.MEMBER and its text. */
td_status td__foreign_yaml(const char *path, td_note_function *each, void *user, td_error *error);

/* "2026-11-18T18:05:57.238319+00:00" as seconds since 1970; 0: it is no time. */
double td__foreign_time(const char *text);
/* A small file as text, from td__calloc, of at most limit bytes; NULL with an error. */
char *td__foreign_load(const char *path, size_t limit, size_t *length, td_error *error);
/* "started": a time as the run's notes have it. */
td_status td__intake_started(td__intake *intake, double seconds, td_error *error);

#endif
