// How far good parts reach, with the limit at 1.

import { h, svg } from "../dom.js";
import { reached, t } from "../i18n.js";

const WIDTH = 420, HEIGHT = 150, LEFT = 14, RIGHT = 406, BOTTOM = 118, TOP = 30, BARS = 24;

export function histogram(levels, label) {
  const high = Math.max(1.5, Math.ceil(4 * 1.05 * Math.max(...levels)) / 4);
  const across = (value) => LEFT + (value / high) * (RIGHT - LEFT);
  // no bar crosses the threshold
  const below = Math.max(1, Math.round(BARS / high));
  const edges = Array.from({ length: below }, (_, place) => place / below);
  const above = BARS - below;
  edges.push(...Array.from({ length: above + 1 }, (_, place) => 1 + ((high - 1) * place) / above));
  const counts = edges.slice(1).map((to, place) =>
    levels.filter((value) => value <= to && (value > edges[place] || (place === 0 && value === 0))).length);
  const most = Math.max(...counts);
  const bars = counts.map((count, place) => count > 0 && svg("rect", {
    class: edges[place] >= 1 ? "above" : "below",
    x: across(edges[place]) + 0.5, width: across(edges[place + 1]) - across(edges[place]) - 1,
    y: BOTTOM - (count / most) * (BOTTOM - TOP), height: (count / most) * (BOTTOM - TOP),
  })).filter(Boolean);
  const words = t("histogram.words", { count: levels.length, low: reached(Math.min(...levels)), high: reached(Math.max(...levels)) });
  const text = (x, anchor, content, y = BOTTOM + 18) => svg("text", { x, y, "text-anchor": anchor }, content);
  return h("figure", { class: "histogram" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words }, bars,
      svg("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }),
      svg("line", { class: "threshold", x1: across(1), x2: across(1), y1: TOP - 8, y2: BOTTOM }),
      text(across(1), "middle", t("score.limit"), TOP - 14),
      text(LEFT, "start", reached(0)), text(across(1), "middle", reached(1)), text(RIGHT, "end", reached(high))),
    h("figcaption", { class: "pale" }, label));
}
