// Something to draw on: a canvas on the screen, or an SVG picture to keep. Charts draw with these few words
// and do not know which it is.

export class Screen {
    constructor(canvas) {
        this.canvas = canvas;
        this.context = canvas.getContext("2d");
    }

    // In CSS pixels; clears.
    begin(width, height) {
        const ratio = Math.min(devicePixelRatio || 1, 3);
        const w = Math.max(1, Math.round(width * ratio)),
            h = Math.max(1, Math.round(height * ratio));
        if (this.canvas.width !== w || this.canvas.height !== h) {
            this.canvas.width = w;
            this.canvas.height = h;
            this.canvas.style.width = `${width}px`;
            this.canvas.style.height = `${height}px`;
        }
        this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.context.clearRect(0, 0, width, height);
    }

    clip(x, y, width, height) {
        this.context.save();
        this.context.beginPath();
        this.context.rect(x, y, width, height);
        this.context.clip();
    }

    unclip() {
        this.context.restore();
    }

    rect(x, y, width, height, fill, alpha) {
        this.context.globalAlpha = alpha ?? 1;
        this.context.fillStyle = fill;
        this.context.fillRect(x, y, width, height);
        this.context.globalAlpha = 1;
    }

    // points: x, y, x, y, …; a NaN begins anew.
    trace(points) {
        this.context.beginPath();
        let down = false;
        for (let i = 0; i < points.length; i += 2) {
            if (Number.isNaN(points[i + 1])) {
                down = false;
            } else if (down) {
                this.context.lineTo(points[i], points[i + 1]);
            } else {
                this.context.moveTo(points[i], points[i + 1]);
                down = true;
            }
        }
    }

    line(points, stroke, width, dash, alpha) {
        this.trace(points);
        this.context.globalAlpha = alpha ?? 1;
        this.context.strokeStyle = stroke;
        this.context.lineWidth = width || 1;
        this.context.lineJoin = "round";
        this.context.setLineDash(dash || []);
        this.context.stroke();
        this.context.globalAlpha = 1;
    }

    area(points, fill, alpha) {
        this.trace(points);
        this.context.globalAlpha = alpha ?? 1;
        this.context.fillStyle = fill;
        this.context.fill();
        this.context.globalAlpha = 1;
    }

    text(x, y, text, fill, align, size, weight) {
        this.context.font = `${weight || 400} ${size || 12}px system-ui, sans-serif`;
        this.context.fillStyle = fill;
        this.context.textAlign = align || "left";
        this.context.textBaseline = "middle";
        this.context.fillText(text, x, y);
    }

    // pixels: ImageData, drawn with hard edges.
    image(pixels, x, y, width, height) {
        const canvas = document.createElement("canvas");
        canvas.width = pixels.width;
        canvas.height = pixels.height;
        canvas.getContext("2d").putImageData(pixels, 0, 0);
        this.context.imageSmoothingEnabled = false;
        this.context.drawImage(canvas, x, y, width, height);
    }
}

export class Picture {
    begin(width, height) {
        this.width = width;
        this.height = height;
        this.parts = [];
        this.clips = 0;
    }

    add(text) {
        this.parts.push(text);
    }

    clip(x, y, width, height) {
        this.clips++;
        this.add(
            `<clipPath id="c${this.clips}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath><g clip-path="url(#c${this.clips})">`,
        );
    }

    unclip() {
        this.add("</g>");
    }

    rect(x, y, width, height, fill, alpha) {
        this.add(
            `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${fill}" opacity="${alpha ?? 1}"/>`,
        );
    }

    trace(points) {
        let down = false,
            made = "";
        for (let i = 0; i < points.length; i += 2) {
            if (Number.isNaN(points[i + 1])) {
                down = false;
            } else {
                made += `${down ? "L" : "M"}${points[i].toFixed(2)} ${points[i + 1].toFixed(2)}`;
                down = true;
            }
        }
        return made;
    }

    line(points, stroke, width, dash, alpha) {
        this.add(
            `<path d="${this.trace(points)}" fill="none" stroke="${stroke}" stroke-width="${width || 1}" stroke-dasharray="${(dash || []).join(" ")}" opacity="${alpha ?? 1}"/>`,
        );
    }

    area(points, fill, alpha) {
        this.add(`<path d="${this.trace(points)}Z" fill="${fill}" opacity="${alpha ?? 1}"/>`);
    }

    text(x, y, text, fill, align, size, weight) {
        const anchor = { left: "start", right: "end", center: "middle" }[align || "left"];
        const plain = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
        this.add(
            `<text x="${x}" y="${y}" fill="${fill}" text-anchor="${anchor}" dominant-baseline="middle" font-size="${size || 12}" font-weight="${weight || 400}">${plain}</text>`,
        );
    }

    image(pixels, x, y, width, height) {
        const canvas = document.createElement("canvas");
        canvas.width = pixels.width;
        canvas.height = pixels.height;
        canvas.getContext("2d").putImageData(pixels, 0, 0);
        this.add(
            `<image x="${x}" y="${y}" width="${width}" height="${height}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${canvas.toDataURL()}"/>`,
        );
    }

    // background: the page's, so that light text stays readable.
    text_of(background) {
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="${background}"/>${this.parts.join("")}</svg>`;
    }
}
