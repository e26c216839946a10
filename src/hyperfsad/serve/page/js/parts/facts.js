// What was measured: how far the part reaches, and the regions.

import { h, svg } from "../dom.js";
import { currentLanguage, number, reached, t } from "../i18n.js";

const KINDS = { unexpected: "region.unexpected", missing: "region.missing" };

// Without a level there is no limit yet, or one of 0.
function words(found) {
  return found.level === null ? t("score.alone", { score: number(found.score, 3) }) : t("score.words", { reach: reached(found.level) });
}

// How far an image reaches, with the limit at 1; good parts lie left of it.
export function gauge(found) {
  if (found.level === null) return h("p", {}, words(found));
  const high = Math.max(2, 1.15 * found.level);
  const place = (value) => `${(100 * value) / high}%`;
  const drawn = svg("svg", { class: `gauge ${found.verdict}`, role: "img", "aria-label": words(found), height: "3.2rem", width: "100%" },
    svg("rect", { class: "gauge-good", x: 0, y: "1.5rem", width: place(1), height: "1rem" }),
    svg("rect", { class: "gauge-bad", x: place(1), y: "1.5rem", width: place(high - 1), height: "1rem" }),
    svg("line", { class: "gauge-threshold", x1: place(1), x2: place(1), y1: "1.15rem", y2: "2.85rem" }),
    svg("text", { x: place(1), y: ".9rem", "text-anchor": "middle" }, t("score.limit")),
    svg("circle", { class: "gauge-mark", cx: place(found.level), cy: "2rem", r: ".55rem" }));
  return h("div", { class: "reach" }, drawn, h("p", { class: "number" }, words(found)));
}

// `chosen(place)` is called where somebody points at a region, `asked(region)` where they want to know why.
export function regions(found, { chosen, asked }) {
  if (!found.regions.length) return h("p", { class: "pale" }, t(found.anomalous ? "region.ring" : "region.none"));
  return h("ol", { class: "regions" }, found.regions.map((region, place) => {
    const kind = KINDS[region.kind];
    const words = t("region.words", { kind: kind ? t(kind) : region.kind, reach: reached(region.score / found.map_threshold) });
    return h("li", {}, h("button", {
      type: "button",
      onclick: () => asked(region),
      onmouseenter: () => chosen(place),
      onmouseleave: () => chosen(null),
      onfocus: () => chosen(place),
      onblur: () => chosen(null),
    }, h("b", { class: "number" }, String(place + 1)), words));
  }));
}

const BRANCHES = { map: "branch.map", cls: "branch.cls", missing: "branch.missing" };

// The figures behind the level; for engineers also what the score is made of.
export function details(found, whole) {
  const figure = (value) => (value === null ? "–" : number(value, 4));
  const rows = [[t("score.title"), figure(found.score)], [t("score.threshold"), figure(found.threshold)],
    [t("detail.peak"), figure(found.map_peak)], [t("detail.mapthreshold"), figure(found.map_threshold)]];
  if (whole) rows.push(...Object.entries(found.branches).map(([name, value]) => [name in BRANCHES ? t(BRANCHES[name]) : name, figure(value)]));
  if (currentLanguage() === "en") rows.push([t("detail.from"), found.threshold_from ?? "–"]); // the station's own words
  rows.push([t("detail.revision"), number(found.revision)], [t("detail.size"), found.size.join(" × ")]);
  return h("details", { class: "more" }, h("summary", {}, t("detail.title")),
    found.p_value !== null && h("p", { class: "pale number" }, t("score.pvalue", { value: number(found.p_value, 3) })),
    h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))));
}
