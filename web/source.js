// Where data comes from: the server while it is there, or what a report holds. Everything longer than a table
// comes as typed arrays.

const embedded = document.getElementById("report");
const report = embedded ? JSON.parse(embedded.textContent) : null;

export const isReport = report !== null;
// What a report opens with: "page/run?key=value".
export const openingView = report?.view ? report.view.replace(/^#?\/?/, "") : "";
export const leftOut = report ? report.leftOut : 0;

export class Missing extends Error {}

// ---- Bytes -----------------------------------------------------------------------------------------------

async function unpack(base64) {
    const text = atob(base64),
        data = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) {
        data[i] = text.charCodeAt(i);
    }
    const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
}

// A report has one answer for each signal, for the whole run; records of single steps are kept for a few.
async function fromReport(target) {
    const [path, query] = target.split("?"),
        asked = new URLSearchParams(query);
    const wanted = Number(asked.get("step") ?? Infinity);
    for (const name of ["from", "to", "points", "columns", "most", "bins", "step"]) {
        asked.delete(name);
    }
    const rest = asked.toString().replaceAll("%2C", ","),
        key = path + (rest ? "?" + rest : "");
    if (report.answers[key]) {
        return unpack(report.answers[key]);
    }
    const steps = Object.keys(report.answers)
        .filter((name) => name.startsWith(key + "&step="))
        .map((name) => [Number(name.slice(key.length + 6)), name])
        .sort((a, b) => a[0] - b[0]);
    const found = steps.filter(([step]) => step <= wanted).pop() || steps[0];
    if (found) {
        return unpack(report.answers[found[1]]);
    }
    throw new Missing("The report does not hold this; `tapedeck view` has all of it.");
}

async function fromServer(target, signal) {
    for (let attempt = 0; ; attempt++) {
        const response = await fetch(target, { signal });
        if (response.status === 204) {
            throw new Missing("Nothing was recorded of it at or before this step.");
        }
        if (response.ok) {
            return response.arrayBuffer();
        }
        let text = "";
        try {
            text = (await response.json()).error;
        } catch {
            text =
                response.status === 403
                    ? "this page's token is of another viewer: open the address it printed"
                    : response.statusText;
        }
        if (response.status !== 503 || attempt > 120) {
            throw new Error(text);
        }
        await new Promise((resolve) => setTimeout(resolve, Math.min(250 * (attempt + 1), 2000)));
    }
}

export function address(path, parameters) {
    const query = Object.entries(parameters || {})
        .filter(([, value]) => value !== undefined && value !== null)
        .map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%3A", ":")}`)
        .join("&");
    return `/api/${path}${query ? "?" + query : ""}`;
}

function get(path, parameters, signal) {
    const target = address(path, parameters);
    return isReport ? fromReport(target) : fromServer(target, signal);
}

async function json(path, parameters) {
    return JSON.parse(new TextDecoder().decode(await get(path, parameters)));
}

// A head of JSON, and doubles.
async function binary(path, parameters) {
    const buffer = await get(path, parameters);
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    return { head, data: new Float64Array(buffer, 4 + length) };
}

// ---- What can be asked -----------------------------------------------------------------------------------

export function fetchRuns() {
    return json("runs");
}

// { runs: { run id: { "train.epochs": "3", … } } }; of a report with very many runs, none.
export async function fetchSettings() {
    try {
        return await json("settings");
    } catch (error) {
        if (isReport && error instanceof Missing) {
            return { runs: {} };
        }
        throw error;
    }
}

// Keeps tags, notes, a star or the archive's mark in the run; the viewer needs --write.
export async function saveRemark(run, key, text) {
    await post("note", { run, key, value: text });
}

// wish: { add: track } or { remove: track }; the viewer needs --write. { step: after which it counts }.
export function changeTracks(run, wish) {
    return post("tracks", { run, ...wish });
}

async function post(path, parameters) {
    const response = await fetch(address(path, parameters), { method: "POST" }),
        said = await response.text();
    if (!response.ok) {
        throw new Error(said.startsWith("{") ? JSON.parse(said).error : said);
    }
    return JSON.parse(said);
}

// Lets the viewer execute steps of a run again: replay, origin or diff, as the program does with --json. Throws what the
// program reported.
export async function execute(run, what, parameters) {
    const { job } = await post("start", { run, do: what, ...parameters });
    for (let pause = 60; ; pause = Math.min(2 * pause, 1000)) {
        await new Promise((resolve) => setTimeout(resolve, pause));
        const found = await json("work", { run, job });
        if (!found.running && !found.output) {
            throw new Error(found.error || "it ended without a result");
        }
        if (!found.running) {
            return found.output;
        }
    }
}

export async function fetchRun(run) {
    return json("run", { run });
}

export async function fetchFiles(run) {
    return json("files", { run });
}

export async function fetchSteps(run) {
    const { head, data } = await binary("steps", { run, points: isReport ? undefined : 512 });
    const step = data.subarray(0, head.count);
    return {
        step,
        epoch: fractionalEpochs(step, data.subarray(head.count, 2 * head.count)),
        time: data.subarray(2 * head.count),
    };
}

// How many epochs have passed at each step: 1 at the last step of the first one. All 0 where they are not known.
function fractionalEpochs(step, epoch) {
    const made = new Float64Array(step.length);
    let start = Math.min(1, step[0]),
        length = 0;
    for (let i = 0, next; i < step.length; i = next) {
        next = i + 1;
        while (next < step.length && epoch[next] === epoch[i]) {
            next++;
        }
        // The last epoch may still go on: it is as long as the one before, at least.
        const last = step[next - 1];
        length = next < step.length ? last - start + 1 : Math.max(last - start + 1, length);
        for (let k = i; k < next && epoch[i] > 0; k++) {
            made[k] = epoch[i] - 1 + (step[k] - start + 1) / length;
        }
        start = last + 1;
    }
    return made;
}

function cut(data, start, count) {
    const part = (k) => data.subarray(start + k * count, start + (k + 1) * count);
    return { count, first: part(0), last: part(1), mean: part(2), min: part(3), max: part(4), bad: part(5) };
}

const gathering = new Map();

// Requests that are made in one moment and differ in one item only become one: ask(items) gives a result for each.
function together(key, item, ask) {
    return new Promise((resolve, reject) => {
        if (!gathering.has(key)) {
            const entries = [];
            gathering.set(key, entries);
            queueMicrotask(async () => {
                gathering.delete(key);
                try {
                    const results = await ask(entries.map((entry) => entry.item));
                    entries.forEach((entry, i) => entry.resolve(results[i]));
                } catch (error) {
                    entries.forEach((entry) => entry.reject(error));
                }
            });
        }
        gathering.get(key).push({ item, resolve, reject });
    });
}

function pieces(list, size) {
    return Array.from({ length: Math.ceil(list.length / size) }, (unused, i) => list.slice(i * size, (i + 1) * size));
}

// Lines of several signals: { first, last, mean, min, max, bad, values } each, in the order of signals.
export async function fetchSeries(run, signals, stat, from, to, points) {
    const ask = async (ids, size) =>
        (await Promise.all(pieces(ids, size).map((part) => fetchPart(run, part, stat, from, to, points)))).flat();
    if (isReport) {
        return ask(signals, 1);
    }
    points = Math.ceil((points || 1024) / 256) * 256;
    return together(`series ${run} ${stat} ${from} ${to} ${points}`, signals, async (lists) => {
        const all = await ask(lists.flat(), 64);
        return lists.map((list) => all.splice(0, list.length));
    });
}

async function fetchPart(run, signals, stat, from, to, points) {
    let answer;
    try {
        answer = await binary("series", { run, signals: signals.join(","), stat: stat || "", from, to, points });
    } catch (error) {
        if (isReport && error instanceof Missing) {
            return signals.map(() => ({ ...cut(new Float64Array(0), 0, 0), values: 0 }));
        }
        throw error;
    }
    let at = 0;
    return answer.head.series.map((part) => {
        const made = cut(answer.data, at, part.count);
        at += 6 * part.count;
        return { ...made, values: part.values };
    });
}

// Rows of a heat map: { values, bad, from, to, before } each, one number a column. bad counts records that were
// not finite, -1 where nothing was recorded; from and to are the first and last step that the value is of. before
// is the last record before the first column: { value, bad, from, to }.
// A signal (id 0: the time of a step) over time, a row for each rank; bad: where its first value is that is not finite.
export async function fetchRanks(run, signal, stat, from, to, columns) {
    const { head, data } = await binary("ranks", { run, signal, stat: stat || "", from, to, columns });
    const width = head.columns + 1,
        rows = head.ranks.map((rank, i) => {
            const part = (k) => data.slice((4 * i + k) * width, (4 * i + k + 1) * width);
            return { ...heatRow(part(0), part(1), part(2), part(3)), rank };
        });
    return { rows, bad: head.bad, whole: head.whole };
}

export async function fetchHeat(run, signals, stat, from, to, columns) {
    if (isReport) {
        return (await fetchSeries(run, signals, stat)).map((series) => heatOf(series, from, to, columns));
    }
    const { head, data } = await binary("heat", {
        run,
        signals: signals.join(","),
        stat: stat || "",
        from,
        to,
        columns,
    });
    const rows = [];
    for (let i = 0; i < head.rows; i++) {
        const width = head.columns + 1,
            part = (k) => data.slice((4 * i + k) * width, (4 * i + k + 1) * width);
        rows.push(heatRow(part(0), part(1), part(2), part(3)));
    }
    return rows;
}

// From arrays whose first element is of before the window.
function heatRow(values, bad, from, to) {
    return {
        values: values.subarray(1),
        bad: bad.subarray(1),
        from: from.subarray(1),
        to: to.subarray(1),
        before: { value: values[0], bad: bad[0], from: from[0], to: to[0] },
    };
}

// The same from a line, as the server does it.
function heatOf(series, from, to, columns) {
    const made = () => new Float64Array(columns + 1).fill(NaN),
        [values, bad, first, last] = [made(), made().fill(-1), made(), made()];
    const column = (step) =>
        1 + Math.max(0, Math.min(columns - 1, Math.floor(((step - from) / (to - from + 1)) * columns)));
    for (let i = 0; i < series.count && series.first[i] <= to; i++) {
        const before = series.last[i] < from,
            extreme = Math.abs(series.min[i]) > Math.abs(series.max[i]) ? series.min[i] : series.max[i],
            value = Number.isNaN(extreme) ? series.mean[i] : extreme;
        for (let c = before ? 0 : column(series.first[i]); c <= (before ? 0 : column(series.last[i])); c++) {
            const fresh = before || bad[c] < 0;
            values[c] = fresh || !(Math.abs(value) <= Math.abs(values[c])) ? value : values[c];
            bad[c] = (fresh ? 0 : bad[c]) + series.bad[i];
            first[c] = fresh ? series.first[i] : first[c];
            last[c] = series.last[i];
        }
    }
    return heatRow(values, bad, first, last);
}

const names = ["norm", "mean", "std", "min", "max", "zeros", "nan", "inf", "count"];

// Statistics of signals at a step: by name.
export async function fetchStats(run, signals, step) {
    if (!isReport) {
        const made = [];
        for (let i = 0; i < signals.length; i += 64) {
            made.push(
                ...(
                    await json("stats", {
                        run,
                        signals: signals
                            .slice(i, i + 64)
                            .map((s) => s.id)
                            .join(","),
                        step,
                    })
                ).stats,
            );
        }
        return made;
    }
    const made = signals.map((signal) => ({ name: signal.name }));
    for (const stat of names) {
        const all = await fetchSeries(
            run,
            signals.map((signal) => signal.id),
            stat,
        );
        all.forEach((series, i) => {
            let at = 0;
            while (at + 1 < series.count && series.first[at + 1] <= step) {
                at++;
            }
            made[i][stat] = series.mean[at];
            made[i].step = series.last[at];
        });
    }
    return made.filter((row) => row.step !== undefined);
}

// [{ step, quantiles (0 5 25 50 75 95 100 %), bins: [left, right, count, …] }]
export async function fetchHistograms(run, signal, from, to, most, bins) {
    const parameters = { run, from, to, most, bins: bins ? 1 : 0 },
        ask = async (ids) => {
            const { head, data } = await binary("histograms", { ...parameters, signals: ids.join(",") }),
                position = { at: 0 };
            return head.signals.map((records) => cutHistograms(records, data, position));
        };
    const records = isReport
        ? await binary("histograms", { ...parameters, signal }).then(({ head, data }) =>
              cutHistograms(head.records, data, { at: 0 }),
          )
        : await together(`histograms ${Object.values(parameters)}`, signal, async (ids) =>
              (await Promise.all(pieces(ids, 64).map(ask))).flat(),
          );
    return records.filter(
        (record) => (from === undefined || record.step >= from) && (to === undefined || record.step <= to),
    );
}

// records: [step, number of bins] each; position.at moves on.
function cutHistograms(records, data, position) {
    return records.map(([step, count]) => {
        const at = position.at;
        position.at += 7 + 3 * count;
        return { step, quantiles: data.subarray(at, at + 7), bins: data.subarray(at + 7, at + 7 + 3 * count) };
    });
}

export async function fetchTensor(run, signal, step, at) {
    const { head, data } = await binary("tensor", { run, signal, step, at });
    return { ...head, values: data };
}

// The rows of a tensor in the plane of most variance: { step, rows, all, explained, labels, samples, places: [x, y, z] }.
export async function fetchProjection(run, signal, step) {
    const { head, data } = await binary("projection", { run, signal, step });
    return { ...head, places: [0, 1, 2].map((k) => data.subarray(k * head.rows, (k + 1) * head.rows)) };
}

export async function fetchUnits(run, signal) {
    const { head, data } = await binary("units", { run, signal });
    return { ...head, values: data };
}

export async function fetchImage(run, signal, step) {
    return createImageBitmap(new Blob([await get("image", { run, signal, step })], { type: "image/png" }));
}

// The last texts at or before a step, the latest first: [{ step, text }].
export async function fetchTexts(run, signal, step, most) {
    return (await json("texts", { run, signal, step, most })).texts;
}

// Values that are not finite come as null, as NaN has no place in JSON; a label of null is none.
export async function fetchExamples(run, signal, step) {
    const got = await json("examples", { run, signal, step });
    got.examples.forEach((example) => {
        example.values = example.values.map((v) => v ?? NaN);
    });
    return got;
}

export function fetchBatch(run, step) {
    return json("batch", { run, step });
}

// { compared, partings: [{ signal, by, step, a, b }], settings: [{ run, text }] }
export function fetchComparison(run, other) {
    return json("compare", { run, other });
}

// ---- News ------------------------------------------------------------------------------------------------

// onnews({ reset } | { listed, runs: [{ id, state, step, signals }] }), onstate("live" | "gone").
export function follow(onnews, onstate) {
    if (isReport) {
        return;
    }
    const events = new EventSource("/api/follow");
    events.onopen = () => onstate("live");
    events.onerror = () => onstate("gone");
    events.onmessage = (event) => onnews(JSON.parse(event.data));
}
