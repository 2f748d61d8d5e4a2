// A small plot over time: a line, the area under it, and a reading where the pointer is.
import { element, svg } from "./dom.js";

const width = 280;
const height = 64;

export class Plot {
    // format: number -> words. top: the scale's fixed end, or null to follow the data (never below `least`).
    constructor({ label, help, format, top = null, least = 1, length = 60, hold = false }) {
        this.format = format;
        this.top = top;
        this.least = least;
        this.length = length;
        this.hold = hold;
        this.values = [];
        this.area = svg("path", { class: "plot-area" });
        this.line = svg("path", { class: "plot-line" });
        this.reading = element("span", { class: "plot-value" }, "–");
        this.scale = element("span", { class: "plot-scale" });
        this.picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
            svg("path", { class: "plot-grid", d: `M0 .5H${width}M0 ${height / 2}H${width}M0 ${height - 0.5}H${width}` }), this.area, this.line);
        // Outside of the stretched picture, so that it stays round.
        this.dot = element("span", { class: "plot-dot", hidden: true });
        this.canvas = element("div", { class: "plot-canvas" }, this.picture, this.scale, this.dot);
        this.canvas.addEventListener("pointermove", (event) => this.point(event));
        this.canvas.addEventListener("pointerleave", () => this.point(null));
        this.node = element("section", { class: "plot", "aria-label": label },
            element("div", { class: "plot-top" }, element("h3", { title: help }, label), this.reading), this.canvas);
    }

    // null: nothing is known for this moment: a gap in the line, or what was known last where that still holds.
    push(value) {
        if (value === null && this.hold) value = this.values.at(-1) ?? null;
        this.values.push(value);
        if (this.values.length > this.length) this.values.shift();
        this.draw();
    }

    draw() {
        const known = this.values.filter((value) => value !== null);
        const top = this.top ?? niceTop(Math.max(this.least, ...known));
        const offset = this.length - this.values.length;
        const x = (index) => ((offset + index) / (this.length - 1)) * width;
        const y = (value) => height - 1 - (Math.min(value, top) / top) * (height - 4);
        let line = "";
        let area = "";
        let start = -1;
        this.values.forEach((value, index) => {
            if (value === null) return;
            const begins = index === 0 || this.values[index - 1] === null;
            if (begins) start = index;
            line += `${begins ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
            const ends = index === this.values.length - 1 || this.values[index + 1] === null;
            if (begins) area += `M${x(index).toFixed(1)} ${height}`;
            area += `L${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
            if (ends) area += `L${x(index).toFixed(1)} ${height}L${x(start).toFixed(1)} ${height}Z`;
        });
        this.line.setAttribute("d", line);
        this.area.setAttribute("d", area);
        this.scale.textContent = this.format(top);
        this.drawn = { x, y };
        this.show(this.pointed ?? this.values.length - 1);
    }

    show(index) {
        const value = this.values[index] ?? null;
        this.reading.textContent = value === null ? "–" : this.format(value);
        this.dot.hidden = value === null;
        if (value === null) return;
        this.dot.style.left = `${(this.drawn.x(index) / width) * 100}%`;
        this.dot.style.top = `${(this.drawn.y(value) / height) * 100}%`;
    }

    point(event) {
        if (this.values.length === 0) return;
        if (!event) {
            this.pointed = null;
        } else {
            const box = this.canvas.getBoundingClientRect();
            const index = Math.round(((event.clientX - box.left) / box.width) * (this.length - 1)) - (this.length - this.values.length);
            this.pointed = Math.max(0, Math.min(this.values.length - 1, index));
        }
        this.show(this.pointed ?? this.values.length - 1);
    }
}

// The next of 1, 2, 5 times a power of ten: the scale does not tremble with every value.
function niceTop(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value * 0.999);
}
