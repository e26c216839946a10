// Charts of a trend as SVG: how far parts reach in every hour or day, and how many were anomalous.

import { h, svg } from "../dom.js";
import { currentLanguage, percent, reached, t } from "../i18n.js";

const LEFT = 64, TOP = 16;
const MARGIN = 142; // for the threshold's name
const NARROW = 736;
const CROWD = 3;
const HOURS = [1, 2, 3, 6, 12, 24];
const DAYS = [1, 2, 5, 7, 14, 30, 61, 91];
const LOW = 0, QUARTER = 1, MIDDLE = 2, UPPER = 3, HIGH = 4;

// Round steps of an axis, at most `most` of them.
function ticks(high, most) {
  const raw = high / most;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((value) => value >= raw);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, place) => place * step);
}

export class Axes {
  constructor(trend, height) {
    // a phone gets a drawing of its own, so that texts stay readable
    this.narrow = innerWidth < NARROW;
    this.width = this.narrow ? 460 : 1000;
    this.right = this.width - (this.narrow ? 14 : MARGIN);
    this.height = height;
    this.bottom = height - 34;
    this.length = trend.step === "hour" ? 3600e3 : 24 * 3600e3;
    const floor = (time) => time - (time % this.length);
    this.since = floor(Date.parse(trend.since));
    this.until = floor(Date.parse(trend.until) - 1) + this.length;
    this.step = trend.step;
  }

  across(time) {
    return LEFT + ((time - this.since) / (this.until - this.since)) * (this.right - LEFT);
  }

  // The span of a period, with a little air.
  bar(point) {
    const start = this.across(Date.parse(point.time)), end = this.across(Date.parse(point.time) + this.length);
    const air = Math.min(2, (end - start) * 0.12);
    return { x: start + air, width: end - start - 2 * air, middle: (start + end) / 2 };
  }

  up(value, high) {
    return this.bottom - (Math.min(value, high) / high) * (this.bottom - TOP);
  }

  drawn(high, words) {
    const shown = [];
    for (const value of ticks(high, 6)) {
      const y = this.up(value, high);
      shown.push(svg("line", { class: "grid", x1: LEFT, x2: this.right, y1: y, y2: y }),
        svg("text", { x: LEFT - 10, y: y + 5, "text-anchor": "end" }, words(value)));
    }
    for (const time of this.times()) {
      const x = this.across(time);
      shown.push(svg("line", { class: "grid", x1: x, x2: x, y1: this.bottom, y2: this.bottom + 6 }),
        svg("text", { x, y: this.bottom + 24, "text-anchor": "middle" }, this.label(time)));
    }
    return shown;
  }

  // Round times, as many as have room; those at the edges would be cut off.
  times() {
    const count = (this.until - this.since) / this.length;
    const sizes = this.step === "hour" ? HOURS : DAYS;
    const every = sizes.find((size) => count / size <= (this.narrow ? 4 : 9)) ?? Math.ceil(count / 8);
    const round = (time, place) => (this.step === "hour" && every <= 24 ? new Date(time).getHours() % every === 0 : place % every === 0);
    return Array.from({ length: count }, (_, place) => this.since + place * this.length)
      .filter((time, place) => round(time, place) && this.across(time) > LEFT + 12 && this.across(time) < this.right - 12);
  }

  label(time) {
    const at = new Date(time);
    const options = this.step === "day" ? { day: "numeric", month: "short", timeZone: "UTC" }
      : at.getHours() === 0 ? { weekday: "short", day: "numeric" } : { hour: "numeric", minute: "2-digit" };
    return new Intl.DateTimeFormat(currentLanguage(), options).format(at);
  }

  figure(name, words, caption, ...content) {
    return h("figure", { class: `chart ${name}` },
      svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img", "aria-label": words }, content),
      h("figcaption", { class: "pale" }, caption));
  }
}

const path = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Periods that follow each other are joined, others are not: nothing is drawn where nothing was seen.
function runs(points, length) {
  const found = [];
  for (const point of points) {
    const last = found.at(-1)?.at(-1);
    if (last && Date.parse(point.time) - Date.parse(last.time) === length) found.at(-1).push(point);
    else found.push([point]);
  }
  return found;
}

// The limit is at 1.
export function spread(trend) {
  const axes = new Axes(trend, 380);
  const points = trend.points.filter((point) => point.level);
  const known = trend.calibration;
  const most = (place) => Math.max(1, ...points.map((point) => point.level[place]), ...(known ?? []));
  // a few parts that reach very far must not flatten all others: their strokes end at the top
  const high = 1.12 * Math.min(most(HIGH), CROWD * most(UPPER));
  const y = (value) => axes.up(value, high);
  const content = [];
  if (known) {
    content.push(svg("rect", { class: "known", x: LEFT, width: axes.right - LEFT, y: y(known[HIGH]), height: y(known[LOW]) - y(known[HIGH]) }),
      svg("line", { class: "known-middle", x1: LEFT, x2: axes.right, y1: y(known[MIDDLE]), y2: y(known[MIDDLE]) }));
  }
  content.push(...axes.drawn(high, reached));
  for (const point of points) {
    const { x, width, middle } = axes.bar(point);
    const values = point.level;
    const thick = Math.min(width, 26), left = middle - thick / 2;
    content.push(svg("g", { class: "box" }, svg("title", {}, words(trend, point)),
      svg("rect", { class: "hit", x, width, y: TOP, height: axes.bottom - TOP }),
      svg("line", { class: "whisker", x1: middle, x2: middle, y1: y(values[LOW]), y2: y(values[HIGH]) }),
      svg("rect", { class: "quarters", x: left, width: thick, y: y(values[UPPER]), height: Math.max(1, y(values[QUARTER]) - y(values[UPPER])) })));
  }
  for (const run of runs(points, axes.length)) {
    content.push(svg("path", { class: "middle", d: path(run.map((point) => [axes.bar(point).middle, y(point.level[MIDDLE])])) }));
    for (const point of run) content.push(svg("circle", { class: "middle-mark", cx: axes.bar(point).middle, cy: y(point.level[MIDDLE]), r: points.length > 120 ? 1.5 : 4 }));
  }
  content.push(svg("line", { class: "limit", x1: LEFT, x2: axes.right, y1: y(1), y2: y(1) }),
    svg("text", axes.narrow ? { class: "limit-text", x: axes.right, y: y(1) - 8, "text-anchor": "end" }
      : { class: "limit-text", x: axes.right + 8, y: y(1) + 5 }, t("score.limit")));
  const caption = t("trend.caption");
  return axes.figure("spread", t("trend.spreadwords", { count: points.length }), known ? `${caption} ${t("trend.captionknown")}` : caption, content);
}

function words(trend, point) {
  const [low, , middle, , high] = point.level;
  return `${label(trend, point)}: ${t("trend.point", { low: reached(low), middle: reached(middle), high: reached(high), count: point.count })}`;
}

export function label(trend, point) {
  const options = trend.step === "day" ? { dateStyle: "medium", timeZone: "UTC" } : { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(currentLanguage(), options).format(new Date(point.time));
}

// The share of anomalous parts, with how many there were.
export function shares(trend) {
  const axes = new Axes(trend, 240);
  const points = trend.points.filter((point) => point.share !== null);
  const high = Math.min(1, 1.15 * Math.max(0.05, ...points.map((point) => point.share)));
  const content = axes.drawn(high, percent);
  for (const point of points) {
    const { x, width } = axes.bar(point);
    const y = Math.min(axes.up(point.share, high), axes.bottom - 1.5);
    const told = `${label(trend, point)}: ${t("trend.share", { share: percent(point.share), bad: point.anomalous, count: point.count })}`;
    content.push(svg("g", {}, svg("title", {}, told), svg("rect", { class: "hit", x, width, y: TOP, height: axes.bottom - TOP }),
      svg("rect", { class: "share", x, width, y, height: axes.bottom - y })));
  }
  return axes.figure("shares", t("trend.sharewords"), t("trend.sharecaption"), content);
}
