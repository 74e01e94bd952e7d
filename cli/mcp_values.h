/* What the tools share: values as JSON, arguments, runs by their names. */
#ifndef TAPEDECK_CLI_MCP_VALUES_H
#define TAPEDECK_CLI_MCP_VALUES_H

#include "mcp.h"

#include "tapedeck/run.h"

enum { MCP_MAX_PATH = 4096, MCP_MAX_LISTED = 200, MCP_MAX_TEXT = 2000 };

/* JSON has neither NaN nor infinity. */
json_t *mcp_number(double value);
/* Text of others: valid, nothing hidden, and not longer than MCP_MAX_TEXT bytes. */
json_t *mcp_words(const char *text);
const char *mcp_text(const json_t *arguments, const char *name, const char *fallback);
int64_t mcp_integer(const json_t *arguments, const char *name, int64_t fallback);
void mcp_put(json_t *object, const char *key, json_t *value);
void mcp_put_problems(json_t *object, const char *const *texts, size_t count);
/* A run's name is its place below the folder; a folder that is a run itself is ".". */
const char *mcp_place(const char *folder, const char *path);
/* The folder of the run of that name: nothing outside of the server's folder is looked at. */
bool mcp_find_run(const char *folder, const char *name, char path[MCP_MAX_PATH], td_error *error);
/* Open, with its event files read; NULL with an error. */
td_run *mcp_open_run(const char *folder, const char *name, td_error *error);
void mcp_put_info(json_t *object, const td_run_info *info);

/* What the tool series answers, of a run that is open. */
json_t *mcp_series_of(td_run *run, const json_t *arguments, td_error *error);

/* The tools' answers, as mcp_tool has them: mcp_runs.c, mcp_numbers.c, mcp_verdicts.c, mcp_replay.c. */
typedef json_t *mcp_answer(const char *folder, const json_t *arguments, td_error *error);
mcp_answer mcp_list_runs, mcp_describe_run, mcp_query, mcp_series, mcp_layers, mcp_compare_runs,
    mcp_diagnose_run, mcp_assert_run, mcp_origin, mcp_replay;

#endif
