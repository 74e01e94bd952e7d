#include "store/schema.h"

#include <stdio.h>
#include <string.h>

#define TENSOR_VIEW                                                                                \
    "VIEW tensor AS SELECT signal, step.step AS step, form, dtype, shape, file,"                   \
    " CASE every WHEN 0 THEN record ELSE record + (step.step - tensor_series.step) / every END"    \
    " AS record FROM tensor_series JOIN step ON step.step BETWEEN tensor_series.step AND last"     \
    " AND (every = 0 OR (step.step - tensor_series.step) % every = 0)"
/* A histogram's bytes (bins.h) as [[left,right,count],…], one byte after the other. The edge of a bin
 * of magnitude k is a float's upper twelve bits, as a number: (8 + k % 8) * 2^(k / 8) / 2^130, and
 * below the least power 2 k / 2^130. */
#define BYTE(at)                                                                                   \
    "instr('123456789ABCDEF', substr(hex(substr(bins, " at ", 1)), 1, 1)) * 16"                    \
    " + instr('123456789ABCDEF', substr(hex(substr(bins, " at ", 1)), 2, 1))"
#define EDGE(k)                                                                                    \
    "side * CASE WHEN " k " < 8 THEN 2 * " k " ELSE 8 + " k " % 8 END * 1.0 * (1 << " k " / 40)"   \
    " * (1 << (" k " / 8 + 1) / 5) * (1 << (" k " / 8 + 2) / 5) * (1 << (" k " / 8 + 3) / 5)"      \
    " * (1 << (" k " / 8 + 4) / 5) / 1361129467683753853853498429727072845824.0 + 0.0"
#define NUMBER "(value | (byte << shift))"
/* clang-format off */
#define HISTOGRAM_PARTS                                                                            \
    "part(at, byte, value, shift, counting, bin, count) AS ("                                      \
    "SELECT 2, " BYTE("2") ", 0, 0, 0, -1, NULL UNION ALL SELECT at + 1, " BYTE("at + 1") ","      \
    " CASE WHEN byte < 128 THEN 0 ELSE value | ((byte & 127) << shift) END,"                       \
    " CASE WHEN byte < 128 THEN 0 ELSE shift + 7 END,"                                             \
    " CASE WHEN byte < 128 THEN 1 - counting ELSE counting END,"                                   \
    " CASE WHEN byte < 128 AND NOT counting THEN bin + 1 + " NUMBER " ELSE bin END,"               \
    " CASE WHEN byte < 128 AND counting THEN " NUMBER " END"                                       \
    " FROM part WHERE at <= length(bins))"
#define HISTOGRAM_VIEW                                                                             \
    "VIEW histogram AS SELECT signal, step, CASE typeof(bins) WHEN 'text' THEN bins ELSE ("        \
    "WITH RECURSIVE " HISTOGRAM_PARTS                                                              \
    " SELECT json_group_array(json_array(" EDGE("low") ", " EDGE("high") ", count)) FROM ("        \
    "SELECT count, CASE WHEN bin < 2048 THEN -1 ELSE 1 END AS side, abs(bin - 2048) AS low,"       \
    " CASE WHEN bin < 2048 THEN 2047 - bin ELSE bin - 2047 END AS high"                            \
    " FROM part WHERE count IS NOT NULL)) END AS bins FROM histogram_packed"
/* clang-format on */
#define SUMMARY_TABLE                                                                              \
    "CREATE TABLE summary(signal INTEGER PRIMARY KEY, last_step INTEGER, last REAL,"               \
    " least_step INTEGER, least REAL, greatest_step INTEGER, greatest REAL);"
#define FINDING_TABLE                                                                              \
    "CREATE TABLE finding(id INTEGER PRIMARY KEY, cause TEXT, layer TEXT, unit INTEGER,"           \
    " since_step INTEGER, confidence TEXT, severity TEXT, symptoms TEXT, evidence TEXT,"           \
    " remedy TEXT, origin TEXT);"
#define REPLAYED_TABLE                                                                             \
    "CREATE TABLE replayed(signal INTEGER, step INTEGER, form TEXT,"                               \
    " PRIMARY KEY(signal, step, form)) WITHOUT ROWID;"
#define SIGNAL_INDEX "CREATE INDEX signal_name ON signal(name);"

const char *const td__schema_tensor = "CREATE TEMP " TENSOR_VIEW;

const char *const td__schema =
    "CREATE TABLE run(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE environment(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE experiment(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE signal(id INTEGER PRIMARY KEY, name TEXT NOT NULL, raw BLOB, kind TEXT,"
    " layer TEXT, parameter TEXT, position INTEGER, batched INTEGER, better TEXT, units TEXT,"
    " rank INTEGER, layout TEXT, sequence INTEGER, placement TEXT);" SIGNAL_INDEX
    "CREATE TABLE step(step INTEGER PRIMARY KEY, epoch INTEGER, wall_time REAL);"
    "CREATE TABLE scalar(signal INTEGER, step INTEGER, value REAL,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;" SUMMARY_TABLE
    "CREATE TABLE stats(signal INTEGER, step INTEGER, count INTEGER, mean REAL, std REAL, min REAL,"
    " max REAL, norm REAL, zeros INTEGER, nan INTEGER, inf INTEGER, first_nonfinite INTEGER,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE TABLE histogram_packed(signal INTEGER, step INTEGER, bins BLOB,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;"
    "CREATE " HISTOGRAM_VIEW ";"
    "CREATE TABLE tensor_series(signal INTEGER, step INTEGER, last INTEGER, every INTEGER,"
    " form TEXT, dtype TEXT, shape TEXT, file TEXT, record INTEGER,"
    " PRIMARY KEY(signal, step, form, file, record)) WITHOUT ROWID;"
    "CREATE " TENSOR_VIEW ";"
    "CREATE TABLE example(signal INTEGER, step INTEGER, sample INTEGER, label NUMERIC, value TEXT,"
    " PRIMARY KEY(signal, step, sample)) WITHOUT ROWID;"
    "CREATE TABLE hash(signal INTEGER, step INTEGER, hash TEXT,"
    " PRIMARY KEY(signal, step)) WITHOUT ROWID;" REPLAYED_TABLE
    "CREATE TABLE text(signal INTEGER, step INTEGER, text TEXT);"
    "CREATE INDEX text_signal ON text(signal, step);"
    "CREATE TABLE event(id INTEGER PRIMARY KEY, kind TEXT, epoch INTEGER, step INTEGER,"
    " wall_time REAL, count INTEGER, signal TEXT, text TEXT);" FINDING_TABLE
    "PRAGMA user_version=5;";

/* Names that a reader does not qualify are looked up among temporary ones first. */
const td__migration td__migrations[TD__SCHEMA_VERSION] = {
    [1] = {.write = "ALTER TABLE signal ADD COLUMN kind TEXT;"
                    "ALTER TABLE signal ADD COLUMN layer TEXT;"
                    "ALTER TABLE signal ADD COLUMN parameter TEXT;"
                    "ALTER TABLE signal ADD COLUMN position INTEGER;"
                    "ALTER TABLE signal ADD COLUMN batched INTEGER;"
                    "ALTER TABLE signal ADD COLUMN better TEXT;"
                    "ALTER TABLE signal ADD COLUMN units TEXT;"
                    "ALTER TABLE signal ADD COLUMN rank INTEGER;"
                    "DROP TABLE finding;" SIGNAL_INDEX SUMMARY_TABLE FINDING_TABLE
                    "CREATE INDEX text_signal ON text(signal, step);"
                    "PRAGMA user_version=2;",
           .read = "CREATE TEMP VIEW signal AS SELECT id, name, raw, NULL AS kind, NULL AS layer,"
                   " NULL AS parameter, NULL AS position, NULL AS batched, NULL AS better,"
                   " NULL AS units, NULL AS rank, NULL AS layout, NULL AS sequence,"
                   " NULL AS placement FROM main.signal;"
                   "CREATE TEMP TABLE summary(signal INTEGER PRIMARY KEY, last_step, last,"
                   " least_step, least, greatest_step, greatest);"
                   "CREATE TEMP TABLE finding(id INTEGER PRIMARY KEY, cause, layer, unit,"
                   " since_step, confidence, severity, symptoms, evidence, remedy, origin);"},
    [2] = {.write = "ALTER TABLE histogram RENAME TO histogram_packed;"
                    "CREATE " HISTOGRAM_VIEW ";"
                    "ALTER TABLE signal ADD COLUMN layout TEXT;"
                    "PRAGMA user_version=3;",
           .read = "CREATE TEMP VIEW histogram_packed AS SELECT * FROM main.histogram;"
                   "CREATE TEMP VIEW IF NOT EXISTS signal AS"
                   " SELECT *, NULL AS layout, NULL AS sequence, NULL AS placement"
                   " FROM main.signal;"},
    [3] = {.write = "ALTER TABLE signal ADD COLUMN sequence INTEGER;" REPLAYED_TABLE
                    "PRAGMA user_version=4;",
           .read = "CREATE TEMP VIEW IF NOT EXISTS signal AS"
                   " SELECT *, NULL AS sequence, NULL AS placement FROM main.signal;"},
    [4] = {.write = "ALTER TABLE signal ADD COLUMN placement TEXT;"
                    "PRAGMA user_version=5;",
           .read = "CREATE TEMP VIEW IF NOT EXISTS signal AS"
                   " SELECT *, NULL AS placement FROM main.signal;"},
};

const char *const td__schema_steps[] = {"step",          "scalar",  "stats", "histogram_packed",
                                        "tensor_series", "example", "hash",  "replayed",
                                        "text",          "event"};
const size_t td__schema_step_count = sizeof td__schema_steps / sizeof *td__schema_steps;

const td__table_facts td__tables[TD__TABLES] = {
#define FACTS(name, text, conflict, types) {text, conflict, types},
    TD__TABLE_LIST(FACTS)
#undef FACTS
};

/* ---- Selecting ------------------------------------------------------------------------------ */

static const struct {
    const char *table, *columns, *order;
} sources[TD__SOURCES] = {
    [TD__SCALARS] = {"scalar", "step, value", NULL},
    [TD__STATISTICS] = {"stats",
                        "step, count, mean, std, min, max, norm, zeros, nan, inf, first_nonfinite",
                        NULL},
    [TD__HISTOGRAMS] = {"histogram_packed", "step, bins", NULL},
    [TD__TENSORS] = {"tensor", "step, form, file, record", NULL},
    [TD__HASHES] = {"hash", "step, hash", NULL},
    [TD__TEXTS] = {"text", "step, text", NULL},
    [TD__EXAMPLES] = {"example", "step, sample, label, value", NULL},
    [TD__STEPS] = {"step", "step, epoch, wall_time", NULL},
    [TD__SUMMARIES] = {"summary", "last_step, last, least_step, least, greatest_step, greatest",
                       "WHERE signal=?1"},
    [TD__METRICS] = {"summary JOIN signal ON id = signal",
                     "name, kind, better, last_step, last, least_step, least, greatest_step, "
                     "greatest",
                     "ORDER BY id"},
    [TD__SIGNALS] =
        {"signal",
         "id, name, raw, kind, layer, parameter, position, batched, better, units, rank, layout, "
         "sequence, placement",
         "ORDER BY id"},
    [TD__EVENTS] = {"event", "kind, epoch, step, wall_time, count, signal, text", "ORDER BY id"},
    [TD__FINDINGS] = {"finding",
                      "cause, layer, unit, since_step, confidence, severity, symptoms, evidence, "
                      "remedy, origin",
                      "ORDER BY id"},
    [TD__RUN_NOTES] = {"run", "key, value", "ORDER BY key"},
    [TD__ENVIRONMENT] = {"environment", "key, value", "ORDER BY key"},
    [TD__EXPERIMENT] = {"experiment", "key, value", "ORDER BY key"},
    [TD__ALL_SUMMARIES] = {"summary",
                           "signal, last_step, last, least_step, least, greatest_step, greatest",
                           "ORDER BY signal"},
    [TD__TENSOR_SERIES] = {"tensor_series",
                           "signal, step, last, every, form, dtype, shape, file, record",
                           "ORDER BY signal, step, form, file, record"},
    [TD__REPLAYED_ROWS] = {"replayed", "signal, step, form", "ORDER BY signal, step, form"},
};

static bool is_statistic(const char *name) {
    static const char *const names[] = {"count", "mean",  "std", "min", "max",
                                        "norm",  "zeros", "nan", "inf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A signal's first and last row: look-ups, however many rows there are. */
static int select_ends(char *out, size_t size, td__source source) {
    bool series = source == TD__TENSORS;
    const char *table = series ? "tensor_series" : sources[source].table;
    return snprintf(out, size,
                    "SELECT (SELECT min(step) FROM %s WHERE signal=?1),"
                    " (SELECT max(%s) FROM %s WHERE signal=?1)%s",
                    table, series ? "last" : "step", table,
                    series ? ", EXISTS (SELECT 1 FROM tensor_series WHERE signal=?1"
                             " AND form='tensor'), EXISTS (SELECT 1 FROM tensor_series"
                             " WHERE signal=?1 AND form='image')"
                           : "");
}

bool td__schema_select(char *out, size_t size, const td__query *query) {
    if (query->column && !is_statistic(query->column)) {
        return false;
    }
    int length;
    if (query->ends) {
        length = select_ends(out, size, query->source);
    } else if (sources[query->source].order) {
        length = snprintf(out, size, "SELECT %s FROM %s %s", sources[query->source].columns,
                          sources[query->source].table, sources[query->source].order);
    } else {
        const char *form = !query->form                        ? ""
                           : strcmp(query->form, "image") == 0 ? "form='image' AND "
                                                               : "form='tensor' AND ";
        length = snprintf(out, size,
                          "SELECT %s%s%s FROM %s WHERE %s%sstep BETWEEN ?2 AND ?3"
                          " ORDER BY step%s LIMIT ?4",
                          query->column ? "step, " : "",
                          query->column ? query->column : sources[query->source].columns,
                          query->column ? ", nan + inf" : "", sources[query->source].table,
                          query->source == TD__STEPS ? "" : "signal=?1 AND ", form,
                          query->backwards                ? " DESC"
                          : query->source == TD__EXAMPLES ? ", sample"
                                                          : "");
    }
    return length > 0 && (size_t)length < size;
}
