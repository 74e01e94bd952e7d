// What a run records, and other tracks for one that is being written.
import { el, replace, code } from "./dom.js";
import { whole } from "./format.js";
import { changeTracks } from "./source.js";

export function tracksSection(context) {
    const { run } = context,
        text = run.notes.run["deck.tracks"],
        tracks = (text || "").split("\n").filter((line) => line),
        running = run.state === "running",
        changes = running && context.list().writable,
        said = el("p", { class: "quiet", role: "status" });
    if (text === undefined) {
        return "";
    }
    const change = async (wish) => {
        replace(said, "waiting for the end of a step…");
        try {
            const { step } = await changeTracks(run.id, wish);
            replace(said, `Changed after step ${whole(step)}.`);
            context.again();
        } catch (error) {
            replace(said, el("span", { class: "bad" }, error.message));
        }
    };
    const adding = el("input", {
        type: "text",
        "aria-label": "a track to add",
        placeholder: "conv*.error every 10 form stats",
        onkeydown: (event) => event.key === "Enter" && add(),
    });
    const add = () => adding.value.trim() && change({ add: adding.value.trim() });
    return el(
        "section",
        { class: "tracks", "aria-label": "tracks" },
        el("h2", {}, "What is recorded"),
        tracks.length
            ? el(
                  "ul",
                  {},
                  tracks.map((track) =>
                      el(
                          "li",
                          {},
                          el("code", {}, track),
                          " ",
                          changes
                              ? el(
                                    "button",
                                    {
                                        type: "button",
                                        "aria-label": `remove ${track.slice(0, 60)}`,
                                        onclick: () => change({ remove: track }),
                                    },
                                    "remove",
                                )
                              : "",
                      ),
                  ),
              )
            : el("p", { class: "quiet" }, "No tracks."),
        changes
            ? el("div", { class: "controls" }, adding, el("button", { type: "button", onclick: add }, "add the track"))
            : "",
        changes ? said : "",
        running && !changes
            ? [
                  el("p", { class: "quiet" }, "This viewer only reads (--write changes that). From a terminal:"),
                  code(`tapedeck tracks ${run.folder} --add 'conv*.error every 10 form stats'`),
              ]
            : "",
    );
}
