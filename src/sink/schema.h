/* run.db's tables; docs/run-db.md explains them. */
#ifndef TAPEDECK_SINK_SCHEMA_H
#define TAPEDECK_SINK_SCHEMA_H

#define TD__SCHEMA_VERSION "1"

static const char *const td__schema =
    "CREATE TABLE run(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE environment(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE experiment(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE signal(id INTEGER PRIMARY KEY, name TEXT NOT NULL, raw BLOB);"
    "CREATE TABLE step(step INTEGER PRIMARY KEY, epoch INTEGER, wall_time REAL);"
    "CREATE TABLE scalar(signal INTEGER, step INTEGER, value REAL,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE stats(signal INTEGER, step INTEGER, count INTEGER, mean REAL, std REAL, min REAL,"
    " max REAL, norm REAL, zeros INTEGER, nan INTEGER, inf INTEGER, first_nonfinite INTEGER,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE histogram(signal INTEGER, step INTEGER, bins TEXT,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE tensor_series(signal INTEGER, step INTEGER, last INTEGER, every INTEGER,"
    " form TEXT, dtype TEXT, shape TEXT, file TEXT, record INTEGER,"
    " PRIMARY KEY(signal, step, form, file, record)) WITHOUT ROWID;"
    "CREATE VIEW tensor AS SELECT signal, step.step AS step, form, dtype, shape, file,"
    " CASE every WHEN 0 THEN record ELSE record + (step.step - tensor_series.step) / every END"
    " AS record FROM tensor_series JOIN step ON step.step BETWEEN tensor_series.step AND last"
    " AND (every = 0 OR (step.step - tensor_series.step) % every = 0);"
    "CREATE TABLE example(signal INTEGER, step INTEGER, sample INTEGER, label NUMERIC, value TEXT,"
    " PRIMARY KEY(signal, step, sample)) WITHOUT ROWID;"
    "CREATE TABLE hash(signal INTEGER, step INTEGER, hash TEXT,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE text(signal INTEGER, step INTEGER, text TEXT);"
    "CREATE TABLE event(id INTEGER PRIMARY KEY, kind TEXT, epoch INTEGER, step INTEGER,"
    " wall_time REAL, count INTEGER, signal TEXT, text TEXT);"
    "CREATE TABLE finding(id INTEGER PRIMARY KEY, rule TEXT, severity TEXT, signal TEXT,"
    " first_step INTEGER, last_step INTEGER, text TEXT, evidence TEXT, advice TEXT);"
    "PRAGMA user_version=" TD__SCHEMA_VERSION ";";

/* Tables that lose their rows of later steps when a run goes on after a step. */
static const char *const td__schema_steps[] = {
    "step", "scalar", "stats", "histogram", "tensor_series", "example", "hash", "text", "event"};

#endif
