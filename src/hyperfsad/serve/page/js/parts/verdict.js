// The verdict: a word, a shape and a colour, readable from three metres.

import { h, replace, svg } from "../dom.js";
import { reached, t } from "../i18n.js";

export const WORDS = { good: "verdict.good", anomalous: "verdict.anomalous", unjudged: "verdict.unjudged" };

const STROKES = { fill: "none", stroke: "currentColor", "stroke-linecap": "round", "stroke-linejoin": "round" };
const SHAPES = {
  good: () => [svg("circle", { ...STROKES, cx: 50, cy: 50, r: 43, "stroke-width": 9 }), svg("path", { ...STROKES, d: "M29 52 44 67 72 36", "stroke-width": 11 })],
  anomalous: () => [svg("path", { ...STROKES, d: "M50 8 95 90H5Z", "stroke-width": 9 }), svg("path", { ...STROKES, d: "M50 38v24M50 76v.5", "stroke-width": 11 })],
  unjudged: () => [svg("path", { ...STROKES, d: "M50 5 95 50 50 95 5 50Z", "stroke-width": 9 }), svg("path", { ...STROKES, d: "M32 50h36", "stroke-width": 10 })],
};

// What a defect is called; nothing where it has no name.
export function defectName(found) {
  return found.defect === "unknown" ? t("name.unknown") : found.defect;
}

export function shape(verdict) {
  return svg("svg", { class: `shape ${verdict}`, viewBox: "0 0 100 100", "aria-hidden": "true" }, SHAPES[verdict]());
}

// A small one for lists.
export function badge(verdict) {
  return h("span", { class: `badge ${verdict}` }, shape(verdict), t(WORDS[verdict]));
}

export class Verdict {
  constructor() {
    this.node = h("section", { class: "verdict none", "aria-live": "assertive", "aria-label": t("verdict.title") });
    this.waits();
  }

  fill(...content) {
    replace(this.node, h("div", { class: "verdict-inside" }, content));
  }

  waits(text = t("verdict.none")) {
    this.node.className = "verdict none";
    this.fill(h("p", { class: "verdict-note" }, text));
  }

  // Whether more is being looked at; a verdict that stands there stays until the next one comes.
  works(busy, name) {
    this.node.setAttribute("aria-busy", String(busy));
    if (!this.node.classList.contains("none")) return;
    if (busy) this.fill(h("p", { class: "verdict-note busy" }, t("verdict.working", { name })));
    else this.waits();
  }

  shows(found) {
    this.node.className = `verdict ${found.verdict}`;
    const defect = found.defect && h("strong", { class: "verdict-defect" }, defectName(found));
    const reason = found.foreign ? t("verdict.foreign") : found.verdict === "anomalous" && found.regions.length
      ? t("verdict.regions", { count: found.regions.length }) : null;
    const reach = found.level === null ? null : t("score.words", { reach: reached(found.level) });
    this.fill(shape(found.verdict), h("p", { class: "verdict-word" }, t(WORDS[found.verdict])),
      h("div", { class: "verdict-notes" }, h("p", { class: "verdict-reach" }, [defect, defect && reach && " · ", reach]), h("p", { class: "verdict-note" }, [found.name, reason].filter(Boolean).join(" · "))));
  }

  // What became of several parts: the worst of them counts.
  sums(batch) {
    const of = (verdict) => batch.filter((one) => one.verdict === verdict).length;
    const worst = of("anomalous") ? "anomalous" : of("unjudged") ? "unjudged" : "good";
    this.node.className = `verdict ${worst}`;
    this.fill(shape(worst), h("p", { class: "verdict-word" }, t(`sum.${worst}`, { count: of(worst) })),
      h("div", { class: "verdict-notes" }, h("p", { class: "verdict-reach" }, t("batch.of", { count: batch.length }))));
  }
}
