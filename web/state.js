// The page's state is its address: #/page/run?key=value. A link shows what its sender saw.
import { openingView } from "./source.js";

const listeners = new Set();

// { page, run, values: Map }
function read() {
    const [path, query] = (location.hash.replace(/^#\/?/, "") || openingView).split("?");
    const [page, run] = path.split("/").map(decodeURIComponent);
    return { page: page || "runs", run: run || "", values: new URLSearchParams(query || "") };
}

export const state = read();

function address(page, run, values) {
    const query = values.toString();
    return `#/${encodeURIComponent(page)}${run ? "/" + encodeURIComponent(run) : ""}${query ? "?" + query : ""}`;
}

function tell(kind) {
    for (const listener of [...listeners]) {
        listener(kind);
    }
}

// Another page; what is given replaces what was there.
export function go(page, run, values) {
    location.hash = link(page, run, values);
}

// Keeps time and zoom, which every page of a run shares.
export function link(page, run, values) {
    const kept = new URLSearchParams();
    for (const key of ["step", "from", "to", "x"]) {
        if (state.values.has(key) && run === state.run) {
            kept.set(key, state.values.get(key));
        }
    }
    for (const [key, value] of Object.entries(values || {})) {
        if (value !== undefined && value !== null && value !== "") {
            kept.set(key, value);
        }
    }
    return address(page, run, kept);
}

export function value(key, otherwise) {
    return state.values.has(key) ? state.values.get(key) : otherwise;
}

export function number(key, otherwise) {
    const text = state.values.get(key);
    return text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : otherwise;
}

let pending = 0;

// Changes a part of the state; the page stays. The address follows a moment later: scrubbing is fast.
export function set(values, silent) {
    for (const [key, entry] of Object.entries(values)) {
        if (entry === undefined || entry === null || entry === "") {
            state.values.delete(key);
        } else {
            state.values.set(key, String(entry));
        }
    }
    clearTimeout(pending);
    pending = setTimeout(() => {
        const now = read(); // a link that was followed meanwhile wins
        if (now.page === state.page && now.run === state.run) {
            history.replaceState(null, "", address(state.page, state.run, state.values));
        }
    }, 120);
    if (!silent) {
        tell("values");
    }
}

export function onstate(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

addEventListener("hashchange", () => {
    clearTimeout(pending);
    Object.assign(state, read());
    tell("page");
});

// The token has done its work once the cookie is there; it need not stay in the address bar.
if (location.search.includes("token=")) {
    history.replaceState(null, "", location.pathname + location.hash);
}
