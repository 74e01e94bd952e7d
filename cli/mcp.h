/* The tools of `tapedeck mcp`: what an agent may ask of runs. All of them only read. */
#ifndef TAPEDECK_CLI_MCP_H
#define TAPEDECK_CLI_MCP_H

#include "tapedeck/base.h"

#include <jansson.h>

/* An answer in JSON takes at most this many bytes; what would be larger is an error that says so. */
enum { MCP_MAX_ANSWER = 64 << 10 };

typedef struct mcp_tool {
    const char *name;
    const char *title;
    const char *description;
    const char *properties; /* of its arguments: the members of a JSON Schema's "properties" */
    const char *required;   /* a JSON list of names */
    /* What it answers about the runs below folder: an object, which the caller owns; NULL with an error.
     * The arguments fit the properties' types, and the required ones are there. */
    json_t *(*answer)(const char *folder, const json_t *arguments, td_error *error);
} mcp_tool;

extern const mcp_tool mcp_tools[];
extern const size_t mcp_tool_count;

/* The properties as JSON Schema; the caller owns it. NULL when memory is exhausted. */
json_t *mcp_tool_schema(const mcp_tool *tool);
/* Checks the arguments against the schema: their types, and that none is unknown or missing. False
 * with an error. */
bool mcp_tool_check(const mcp_tool *tool, const json_t *arguments, td_error *error);

#endif
