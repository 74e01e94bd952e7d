/* The tools: what they are called, what they take and what answers. Every list has a maximum; what was left out is
 * counted. */
#include "mcp_values.h"

#define RUN_PROPERTY "\"run\":{\"type\":\"string\",\"description\":\"a run as list_runs names it\"}"
#define STATISTICS "[\"count\",\"mean\",\"std\",\"min\",\"max\",\"norm\",\"zeros\",\"nan\",\"inf\"]"

const mcp_tool mcp_tools[] = {
    {"list_runs", "List runs",
     "The runs at and below the server's folder: state (running, finished, crashed, …), step, "
     "epoch, "
     "and the last and best values of their main metrics.",
     "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":200,\"description\":\"default "
     "50\"}",
     "[]", mcp_list_runs},
    {"describe_run", "Describe a run",
     "All about one run: its metrics (last, least, greatest), which signals of which layers were "
     "recorded and in which forms, its configuration, notes and environment, events, and the "
     "findings "
     "that were kept.",
     RUN_PROPERTY ",\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":300,\"description\":"
                  "\"of signals; default 100\"}",
     "[\"run\"]", mcp_describe_run},
    {"query", "Query runs in SQL",
     "One read-only SQL query (SQLite) over the runs. Tables, each with a column run: runs(folder, "
     "state, started, last_step, last_epoch, bytes, error), signals(signal, kind, layer, "
     "parameter, "
     "position, forms, first_step, last_step), scalars(signal, step, value), stats(signal, layer, "
     "kind, "
     "step, count, mean, std, min, max, norm, zeros, nan, inf), histograms(signal, step, low, "
     "high, "
     "count), steps(step, epoch, wall_time), findings(cause, layer, since_step, confidence, "
     "evidence, "
     "remedy), events(kind, step, wall_time, count, signal, text), config(key, value), notes(key, "
     "value), environment(key, value), tensors(signal, step, form, file, record), examples(signal, "
     "step, sample, label, value), texts(signal, step, text). more: true means that rows were cut "
     "off.",
     "\"sql\":{\"type\":\"string\"},\"runs\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
     "\"maxItems\":50,\"description\":\"only these runs; default all\"},\"limit\":{\"type\":"
     "\"integer\",\"minimum\":1,\"maximum\":1000,\"description\":\"of rows; default 100\"}",
     "[\"sql\"]", mcp_query},
    {"series", "Numbers over time",
     "Signals over the steps of a run: metrics as they are, tensors by one of their statistics. "
     "Where a "
     "point stands for several steps, low and high are the extremes in between. At most 20 "
     "signals.",
     RUN_PROPERTY
     ",\"signals\":{\"type\":\"string\",\"description\":\"names or globs, separated by commas: "
     "loss,val_* or *.gradient\"},\"statistic\":{\"type\":\"string\",\"enum\":" STATISTICS
     ",\"description\":\"of tensors; default "
     "norm\"},\"first\":{\"type\":\"integer\",\"description\":"
     "\"step\"},\"last\":{\"type\":\"integer\",\"description\":\"step\"},\"points\":{\"type\":"
     "\"integer\",\"minimum\":1,\"maximum\":1000,\"description\":\"of each signal; default 100\"}",
     "[\"run\",\"signals\"]", mcp_series},
    {"layers", "Layers x time",
     "One statistic of every layer (or parameter), in the order of the network, at equally spaced "
     "steps: shows where and when gradients vanish or explode, activations die or weights stop "
     "moving. "
     "A value is the last one recorded since the column before.",
     RUN_PROPERTY
     ",\"kind\":{\"type\":\"string\",\"enum\":[\"error\",\"gradient\",\"output\",\"preactivation\","
     "\"parameter\",\"update\"],\"description\":\"default gradient; error is the gradient at a "
     "layer's output\"},\"statistic\":{\"type\":\"string\",\"enum\":" STATISTICS
     ",\"description\":\"default "
     "norm\"},\"columns\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
     "100,\"description\":\"default 20\"}",
     "[\"run\"]", mcp_layers},
    {"compare_runs", "Compare two runs",
     "What differs in the settings of two runs, and for each signal that both recorded the first "
     "step "
     "at which they part.",
     "\"a\":{\"type\":\"string\",\"description\":\"a run as list_runs names it\"},\"b\":{\"type\":"
     "\"string\"},\"signals\":{\"type\":\"string\",\"description\":\"names or globs, separated by "
     "commas; default all\"},\"tolerance\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1,"
     "\"description\":\"share of the larger value that is forgiven; default 0\"}",
     "[\"a\",\"b\"]", mcp_compare_runs},
    {"diagnose_run", "Diagnose a run",
     "What is wrong with a run, most important first: cause, layer, since which step, confidence, "
     "evidence, what to change, and where the first NaN came from. Only what was recorded is "
     "looked "
     "at; `tapedeck diagnose` also tries remedies out.",
     RUN_PROPERTY, "[\"run\"]", mcp_diagnose_run},
    {"assert_run", "Check a condition on a run",
     "Whether an expression holds at the end of a run, term by term: val_accuracy > 0.97 and not "
     "nan(*) and max(*.gradient.norm) < 100. mean(x, n) and delta(x) are over the last values.",
     RUN_PROPERTY ",\"expression\":{\"type\":\"string\"}", "[\"run\",\"expression\"]",
     mcp_assert_run},
    {"origin", "Find where a NaN, infinity or spike came from",
     "Executes the steps before the first loss that is not finite again, from the checkpoint "
     "before it, and names the "
     "first operation whose output is not finite while its inputs were, its layer, and the "
     "examples. For runs of "
     "`tapedeck train`; the run is only read. May take as long as the training of these steps.",
     RUN_PROPERTY
     ",\"what\":{\"type\":\"string\",\"enum\":[\"nan\",\"inf\",\"spike\"],\"description\":"
     "\"default: the first loss that is NaN or infinite\"}",
     "[\"run\"]", mcp_origin},
    {"replay", "Execute steps again",
     "Executes steps of a run of `tapedeck train` again, from the nearest checkpoint, on the same "
     "batches and for at "
     "most a minute, and answers with signals that were not recorded the first time (a statistic "
     "of each, as series "
     "has them) and whether the steps were the same as then, bit for bit. The run is only read.",
     RUN_PROPERTY
     ",\"first\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000,\"description\":"
     "\"step\"},\"last\":{"
     "\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000,\"description\":\"step; default "
     "first\"},\"signals\":{\"type\":\"string\",\"description\":\"names or globs, separated by "
     "commas: conv2.*; "
     "without it steps are only compared\"},\"statistic\":{\"type\":\"string\",\"enum\":" STATISTICS
     ",\"description\":\"default norm\"}",
     "[\"run\",\"first\"]", mcp_replay},
};
const size_t mcp_tool_count = sizeof mcp_tools / sizeof *mcp_tools;
