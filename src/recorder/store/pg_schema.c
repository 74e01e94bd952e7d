/* PostgreSQL's tables, in the schema `tapedeck`; docs/team.md explains them.
 *
 * Every table but `version` begins with the number of its run, which is also what it is partitioned by: the rows of a run are
 * in one partition of each table. */
#include "store/postgresql.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

const td__pg_series td__pg_all_series[TD__PG_SERIES] = {
    {TD__SCALARS, TD__SCALAR_ROW, "scalar_chunk", "scalar", 1, {"value"}, "d"},
    {TD__STATISTICS,
     TD__STATS_ROW,
     "stats_chunk",
     "stats",
     10,
     {"counts", "mean", "std", "min", "max", "norm", "zeros", "nan", "inf", "first_nonfinite"},
     "idddddiiii"},
    {TD__HISTOGRAMS, TD__HISTOGRAM_ROW, "histogram_chunk", "histogram_packed", 1, {"bins"}, "b"},
    {TD__HASHES, TD__HASH_ROW, "hash_chunk", "hash", 1, {"hash"}, "t"},
    {TD__TEXTS, TD__TEXT_ROW, "text_chunk", "text", 1, {"text"}, "t"},
    {TD__EXAMPLES,
     TD__EXAMPLE_ROW,
     "example_chunk",
     "example",
     3,
     {"sample", "label", "value"},
     "itt"},
    {TD__STEPS, TD__STEP_ROW, "step_chunk", "step", 2, {"epoch", "wall_time"}, "id"},
};

const td__pg_series *td__pg_series_of(td__source source) {
    for (size_t i = 0; i < TD__PG_SERIES; i++) {
        if (td__pg_all_series[i].source == source) {
            return &td__pg_all_series[i];
        }
    }
    return NULL;
}

const td__pg_table td__pg_tables[TD__PG_TABLES] = {
    {TD__SIGNALS, TD__SIGNAL_ROW, "signal",
     "id, name, raw, kind, layer, parameter, \"position\", batched, better, units, rank, layout, "
     "sequence, placement",
     "itbtttoittitot", NULL, "id", false},
    {TD__RUN_NOTES, TD__RUN_ROW, "note", "key, value", "tt", "run", "key COLLATE \"C\"", false},
    {TD__ENVIRONMENT, TD__ENVIRONMENT_ROW, "note", "key, value", "tt", "environment",
     "key COLLATE \"C\"", false},
    {TD__EXPERIMENT, TD__EXPERIMENT_ROW, "note", "key, value", "tt", "experiment",
     "key COLLATE \"C\"", false},
    {TD__ALL_SUMMARIES, TD__SUMMARY_ROW, "summary",
     "signal, last_step, last, least_step, least, greatest_step, greatest", "iididid", NULL,
     "signal", false},
    {TD__TENSOR_SERIES, TD__TENSOR_SERIES_ROW, "tensor_series",
     "signal, step, last, every, form, dtype, shape, file, record", "iiiitttti", NULL,
     "signal, step, form COLLATE \"C\", file COLLATE \"C\", record", false},
    {TD__REPLAYED_ROWS, TD__REPLAYED_ROW, "replayed", "signal, step, form", "iit", NULL,
     "signal, step, form COLLATE \"C\"", false},
    {TD__EVENTS, TD__EVENT_ROW, "event", "kind, epoch, step, wall_time, count, signal, text",
     "tiiditt", NULL, "id", true},
    {TD__FINDINGS, TD__FINDING_ROW, "finding",
     "cause, layer, unit, since_step, confidence, severity, symptoms, evidence, remedy, origin",
     "ttoitttttt", NULL, "id", true},
};

/* ---- Making them ---------------------------------------------------------------------------- */

#define OF_RUN "run bigint NOT NULL REFERENCES tapedeck.run ON DELETE CASCADE"
#define OF_SIGNAL                                                                                  \
    "signal bigint NOT NULL, FOREIGN KEY (run, signal) REFERENCES tapedeck.signal ON DELETE "      \
    "CASCADE"
#define PARTITIONED " PARTITION BY HASH (run);"
#define CHUNK                                                                                      \
    "\"first\" bigint NOT NULL, \"last\" bigint NOT NULL, every bigint NOT NULL,"                  \
    " count integer NOT NULL, digest bigint NOT NULL, step bigint[]"
#define SERIES(name, columns)                                                                      \
    "CREATE TABLE tapedeck." name "_chunk(run bigint NOT NULL, " CHUNK ", " columns ", " OF_SIGNAL \
    ", PRIMARY KEY(run, signal, \"first\"))" PARTITIONED
#define STEPS_OF "coalesce(c.step, ARRAY(SELECT generate_series(c.\"first\", c.\"last\", c.every)))"
#define VIEW(name, table, columns, arrays)                                                         \
    "CREATE VIEW tapedeck." name " AS SELECT c.run, c.signal, u.* FROM tapedeck." table            \
    " c CROSS JOIN LATERAL unnest(" STEPS_OF ", " arrays ") AS u(step, " columns ");"
#define EDGE(k)                                                                                    \
    "(CASE WHEN " k " < 8 THEN 2 * " k " ELSE 8 + " k " % 8 END)::float8 * power(2::float8, " k    \
    " / 8 - 130)"

static const char make_runs[] =
    "CREATE SCHEMA tapedeck;"
    "CREATE TABLE tapedeck.version(number integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT "
    "now());"
    "CREATE TABLE tapedeck.name(name text PRIMARY KEY, launch text NOT NULL);"
    "CREATE TABLE tapedeck.run(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " uuid text NOT NULL UNIQUE, name text NOT NULL REFERENCES tapedeck.name,"
    " part text NOT NULL DEFAULT '', owner text NOT NULL DEFAULT session_user,"
    " created timestamptz NOT NULL DEFAULT now(), changed timestamptz NOT NULL DEFAULT now(),"
    " writer text, seen timestamptz, host text, folder text, bytes bigint NOT NULL DEFAULT 0,"
    " schema integer NOT NULL, UNIQUE(name, part));"
    "CREATE TABLE tapedeck.signal(" OF_RUN ", id bigint, name text NOT NULL, raw bytea, kind text,"
    " layer text, parameter text, \"position\" bigint, batched bigint, better text, units text,"
    " rank bigint, layout text, sequence bigint, placement text, PRIMARY KEY(run, id))" PARTITIONED
    "CREATE INDEX signal_name ON tapedeck.signal(run, name);"
    "CREATE TABLE tapedeck.note(" OF_RUN ", kind text, key text, value text,"
    " PRIMARY KEY(run, kind, key))" PARTITIONED
    "CREATE TABLE tapedeck.summary(run bigint NOT NULL, last_step bigint, last float8,"
    " least_step bigint, least float8, greatest_step bigint, greatest float8, " OF_SIGNAL
    ", PRIMARY KEY(run, signal))" PARTITIONED "CREATE TABLE tapedeck.tensor_series(run bigint NOT "
    "NULL, step bigint, last bigint, every bigint,"
    " form text, dtype text, shape text, file text, record bigint, " OF_SIGNAL
    ", PRIMARY KEY(run, signal, step, form, file, record))" PARTITIONED
    "CREATE TABLE tapedeck.replayed(run bigint NOT NULL, step bigint, form text, " OF_SIGNAL
    ", PRIMARY KEY(run, signal, step, form))" PARTITIONED "CREATE TABLE tapedeck.event(" OF_RUN
    ", id bigint, kind text, epoch bigint, step bigint,"
    " wall_time float8, count bigint, signal text, text text, PRIMARY KEY(run, id))" PARTITIONED
    "CREATE TABLE tapedeck.finding(" OF_RUN ", id bigint, cause text, layer text, unit bigint,"
    " since_step bigint, confidence text, severity text, symptoms text, evidence text, remedy text,"
    " origin text, PRIMARY KEY(run, id))" PARTITIONED "CREATE TABLE tapedeck.state(" OF_RUN
    ", kind text, digest bigint NOT NULL,"
    " PRIMARY KEY(run, kind))" PARTITIONED;

static const char make_series[] =
    SERIES("scalar", "min float8, max float8, mean float8, value float8[] NOT NULL") SERIES(
        "stats", "counts bigint[] NOT NULL, mean float8[] NOT NULL, std float8[] NOT NULL,"
                 " min float8[] NOT NULL, max float8[] NOT NULL, norm float8[] NOT NULL,"
                 " zeros bigint[] NOT NULL, nan bigint[] NOT NULL, inf bigint[] NOT NULL,"
                 " first_nonfinite bigint[] NOT NULL") SERIES("histogram", "bins bytea[] NOT NULL")
        SERIES("hash", "hash text[] NOT NULL") SERIES("text", "text text[] NOT NULL")
            SERIES("example", "sample bigint[] NOT NULL, label text[] NOT NULL, value text[] NOT "
                              "NULL") "CREATE TABLE tapedeck.step_chunk(" OF_RUN
                                      ", signal bigint NOT NULL, " CHUNK ","
                                      " epoch bigint[] NOT NULL, wall_time float8[] NOT NULL, "
                                      "PRIMARY KEY(run, signal, \"first\"))" PARTITIONED;

/* Eight parts of each; PostgreSQL finds a run's by itself. */
#define PARTITIONS(tables)                                                                         \
    "DO $$ DECLARE t text; i integer; BEGIN FOREACH t IN ARRAY ARRAY[" tables                      \
    "] LOOP FOR i IN 0..7 LOOP EXECUTE format('CREATE TABLE tapedeck.%I PARTITION OF"              \
    " tapedeck.%I FOR VALUES WITH (MODULUS 8, REMAINDER %s)', t || '_' || i, t, i);"               \
    " END LOOP; END LOOP; END $$;"
static const char make_partitions[] =
    PARTITIONS("'signal', 'note', 'summary', 'tensor_series', 'replayed', 'event', 'finding',"
               " 'state', 'scalar_chunk', 'stats_chunk', 'histogram_chunk', 'hash_chunk',"
               " 'text_chunk', 'example_chunk', 'step_chunk'");

/* Files beside run.db, in pieces of 1 MiB; floating point numbers are not worth compressing. */
static const char make_files[] =
    "CREATE TABLE tapedeck.file_piece(" OF_RUN ", path text, number bigint,"
    " digest bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY(run, path, number))" PARTITIONED
    "ALTER TABLE tapedeck.file_piece ALTER COLUMN data SET STORAGE EXTERNAL;" PARTITIONS(
        "'file_piece'");

static const char make_views[] = VIEW("scalar", "scalar_chunk", "value", "c.value") VIEW(
    "stats", "stats_chunk", "count, mean, std, min, max, norm, zeros, nan, inf, first_nonfinite",
    "c.counts, c.mean, c.std, c.min, c.max, c.norm, c.zeros, c.nan, c.inf, "
    "c.first_nonfinite") VIEW("histogram_packed", "histogram_chunk", "bins", "c.bins")
    VIEW("hash", "hash_chunk", "hash", "c.hash") VIEW("text", "text_chunk", "text", "c.text") VIEW(
        "example", "example_chunk", "sample, label, value",
        "c.sample, c.label, c.value") "CREATE VIEW tapedeck.step AS SELECT c.run, u.* FROM "
                                      "tapedeck.step_chunk c CROSS JOIN LATERAL"
                                      " unnest(" STEPS_OF
                                      ", c.epoch, c.wall_time) AS u(step, epoch, wall_time);"
                                      "CREATE VIEW tapedeck.tensor AS SELECT t.run, t.signal, "
                                      "s.step, t.form, t.dtype, t.shape, t.file,"
                                      " CASE t.every WHEN 0 THEN t.record ELSE t.record + (s.step "
                                      "- t.step) / t.every END AS record"
                                      " FROM tapedeck.tensor_series t JOIN tapedeck.step s ON "
                                      "s.run = t.run"
                                      " AND s.step BETWEEN t.step AND t.last AND (t.every = 0 OR "
                                      "(s.step - t.step) % t.every = 0);"
                                      "CREATE VIEW tapedeck.metric AS SELECT r.name AS run, g.name "
                                      "AS signal, v.step, v.value, r.part,"
                                      " r.owner FROM tapedeck.scalar v JOIN tapedeck.run r ON r.id "
                                      "= v.run"
                                      " JOIN tapedeck.signal g ON g.run = v.run AND g.id = "
                                      "v.signal;"
                                      /* docs/run-db.md has the format of packed histograms. */
                                      "CREATE FUNCTION tapedeck.unpack(bins bytea) RETURNS "
                                      "TABLE(\"left\" float8, \"right\" float8,"
                                      " count bigint) LANGUAGE plpgsql IMMUTABLE STRICT AS $$ "
                                      "DECLARE byte integer; shift integer := 0;"
                                      " number bigint := 0; bin bigint := -1; counting boolean := "
                                      "false; low bigint; high bigint;"
                                      " side float8; BEGIN"
                                      " IF get_byte(bins, 0) <> 1 THEN RETURN QUERY SELECT "
                                      "(e->>0)::float8, (e->>1)::float8,"
                                      " (e->>2)::bigint FROM "
                                      "jsonb_array_elements(convert_from(bins, 'UTF8')::jsonb) e; "
                                      "RETURN; END IF;"
                                      " FOR at IN 1..length(bins) - 1 LOOP byte := get_byte(bins, "
                                      "at);"
                                      " number := number | ((byte & 127)::bigint << shift); shift "
                                      ":= shift + 7;"
                                      " CONTINUE WHEN byte >= 128;"
                                      " IF counting THEN low := abs(bin - 2048);"
                                      " high := CASE WHEN bin < 2048 THEN 2047 - bin ELSE bin - "
                                      "2047 END;"
                                      " side := CASE WHEN bin < 2048 THEN -1 ELSE 1 END;"
                                      " \"left\" := side * " EDGE("low") " + 0; \"right\" := side "
                                                                         "* " EDGE(
                                                                             "high") " + 0;"
                                                                                     " count := "
                                                                                     "number; "
                                                                                     "RETURN NEXT; "
                                                                                     "ELSE bin := "
                                                                                     "bin + 1 + "
                                                                                     "number; END "
                                                                                     "IF;"
                                                                                     " counting := "
                                                                                     "NOT "
                                                                                     "counting; "
                                                                                     "number := 0; "
                                                                                     "shift := 0; "
                                                                                     "END LOOP; "
                                                                                     "END $$;"
                                                                                     "CREATE VIEW "
                                                                                     "tapedeck."
                                                                                     "histogram AS "
                                                                                     "SELECT "
                                                                                     "h.run, "
                                                                                     "h.signal, "
                                                                                     "h.step, b.* "
                                                                                     "FROM"
                                                                                     " tapedeck."
                                                                                     "histogram_"
                                                                                     "packed h "
                                                                                     "CROSS JOIN "
                                                                                     "LATERAL "
                                                                                     "tapedeck."
                                                                                     "unpack(h."
                                                                                     "bins) b;";

/* ---- Versions ------------------------------------------------------------------------------- */

/* From version i to i + 1. */
static const char *const migrations[TD__PG_VERSION][4] = {
    {make_runs, make_series, make_partitions, make_views},
    {make_files},
};

/* The version that is there; 0: none. */
static td_status read_version(td__pg *pg, int64_t *version, td_error *error) {
    td__pg_answer answer = {0};
    *version = 0;
    td_status status = td__pg_run(
        pg, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'tapedeck')", 0,
        NULL, td__pg_keep, &answer, error);
    td__pg_cell there = td__pg_cell_of(&answer, 0, 0);
    if (!status && td__pg_integer(&there)) {
        td__pg_forget(&answer);
        status = td__pg_run(pg, "SELECT max(number)::bigint FROM tapedeck.version", 0, NULL,
                            td__pg_keep, &answer, error);
        td__pg_cell number = td__pg_cell_of(&answer, 0, 0);
        *version = status ? 0 : td__pg_integer(&number);
    }
    td__pg_answer_release(&answer);
    return status;
}

static td_status too_new(const td__pg *pg, int64_t version, td_error *error) {
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: its tables are of version %lld; this program knows version %d",
                        pg->url, (long long)version, TD__PG_VERSION);
}

td_status td__pg_check(td__pg *pg, td_error *error) {
    int64_t version;
    td_status status = read_version(pg, &version, error);
    if (!status && version == 0) {
        return td_error_set(
            error, TD_NOT_FOUND,
            "%s has no runs of tapedeck: the first `tapedeck push` makes its tables", pg->url);
    }
    return status || version <= TD__PG_VERSION ? status : too_new(pg, version, error);
}

td_status td__pg_migrate(td__pg *pg, td_error *error) {
    int64_t version;
    td_status status = read_version(pg, &version, error);
    if (status || version == TD__PG_VERSION) {
        return status;
    }
    if (version > TD__PG_VERSION) {
        return too_new(pg, version, error);
    }
    /* One at a time; who waited finds it done. */
    status = td__pg_script(pg, "BEGIN; SELECT pg_advisory_xact_lock(8387230143)", error);
    status = status ? status : read_version(pg, &version, error);
    for (; !status && version < TD__PG_VERSION; version++) {
        char number[TD__PG_NUMBER];
        for (size_t i = 0; i < TD__COUNT(migrations[version]) && !status; i++) {
            status =
                migrations[version][i] ? td__pg_script(pg, migrations[version][i], error) : TD_OK;
        }
        const char *const values[] = {td__pg_number(number, version + 1)};
        status = status ? status
                        : td__pg_run(pg, "INSERT INTO tapedeck.version VALUES($1::text::integer)",
                                     1, values, NULL, NULL, error);
    }
    if (status) {
        (void)!td__pg_script(pg, "ROLLBACK", NULL);
        return status;
    }
    return td__pg_script(pg, "COMMIT", error);
}
