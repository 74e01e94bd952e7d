// When the panels of a page load what they show.

// Calls draw a moment after the scrubber has come to rest.
export function lazily(time, draw) {
    let waiting = 0;
    return time.on((kind) => {
        if (kind === "step") {
            clearTimeout(waiting);
            waiting = setTimeout(() => draw().catch(() => {}), 90);
        }
    });
}

// Loads panels when they come into sight, and those in sight again when the range has changed.
export function whenVisible(panels, fail) {
    const known = new Map(panels.map((panel) => [panel.element, { panel, stale: true, visible: false }]));
    const load = (entry) => {
        entry.stale = false;
        return entry.panel.load().catch(fail);
    };
    const observer = new IntersectionObserver(
        (entries) => {
            for (const { target, isIntersecting } of entries) {
                const entry = known.get(target);
                entry.visible = isIntersecting;
                if (isIntersecting && entry.stale) {
                    load(entry);
                }
            }
        },
        { rootMargin: "300px" },
    );
    known.forEach((entry, element) => observer.observe(element));
    return {
        close: () => observer.disconnect(),
        load: () =>
            known.forEach((entry) => {
                entry.stale = true;
                if (entry.visible) {
                    load(entry);
                }
            }),
    };
}
