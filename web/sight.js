// When charts draw what follows the pointer and the scrubber: once a frame, and only while they are in sight. Sizes are kept
// until they change: asking the page for one after something was written makes the browser lay the whole page out again.

const watched = new Map(); // element: Sight

const eye = new IntersectionObserver(
    (entries) => entries.forEach((entry) => watched.get(entry.target)?.see(entry.isIntersecting)),
    { rootMargin: "200px" },
);
const ruler = new ResizeObserver((entries) =>
    entries.forEach((entry) => watched.get(entry.target)?.measure(entry.contentRect)),
);

// Paper has everything in sight.
addEventListener("beforeprint", () => watched.forEach((sight) => sight.options.moved()));

export class Sight {
    // options: { moved(): the step or the pointer has another place, resized(): the element has another size }
    constructor(element, time, options) {
        this.element = element;
        this.options = options;
        this.visible = true; // until it is known
        this.late = false;
        this.frame = 0;
        this.size = null;
        watched.set(element, this);
        eye.observe(element);
        ruler.observe(element);
        this.stop = time.on((kind) => (kind === "hover" || kind === "step" ? this.soon() : undefined));
    }

    get width() {
        return this.size ? this.size.width : this.element.clientWidth;
    }

    get height() {
        return this.size ? this.size.height : this.element.clientHeight;
    }

    soon() {
        if (!this.visible) {
            this.late = true;
        } else if (!this.frame) {
            this.frame = requestAnimationFrame(() => {
                this.frame = 0;
                this.options.moved();
            });
        }
    }

    see(visible) {
        this.visible = visible;
        if (visible && this.late) {
            this.late = false;
            this.soon();
        }
    }

    measure(box) {
        this.size = { width: Math.round(box.width), height: Math.round(box.height) };
        this.options.resized();
    }

    remove() {
        this.stop();
        cancelAnimationFrame(this.frame);
        eye.unobserve(this.element);
        ruler.unobserve(this.element);
        watched.delete(this.element);
    }
}
