// Counts as bars: upright ones over time, lying ones for a Pareto chart.

import { h, svg } from "../dom.js";
import { number, percent } from "../i18n.js";

const HEIGHT = 200, FOOT = 26, HEAD = 22;

// Each: { label, count, anomalous, told }. The lower, striking part of a bar is what was anomalous.
export function columns(points, words, caption) {
  const width = innerWidth < 736 ? 460 : 1000;
  const high = Math.max(1, ...points.map((one) => one.count));
  const room = width / Math.max(points.length, 4), thick = Math.min(70, room * 0.7);
  const tall = (count) => (count / high) * (HEIGHT - FOOT - HEAD);
  const content = points.map((one, place) => {
    const middle = (place + 0.5) * room, x = middle - thick / 2, foot = HEIGHT - FOOT;
    return svg("g", {}, svg("title", {}, one.told),
      svg("rect", { class: "quarters", x, width: thick, y: foot - tall(one.count), height: tall(one.count) }),
      svg("rect", { class: "share", x, width: thick, y: foot - tall(one.anomalous), height: tall(one.anomalous) }),
      svg("text", { x: middle, y: foot - tall(one.count) - 6, "text-anchor": "middle" }, number(one.count)),
      svg("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, one.label));
  });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${words}: ${points.map((one) => one.told).join("; ")}` }, content),
    h("figcaption", { class: "pale" }, caption));
}

// Each: { name, count, share }, the most frequent first; with the share of all so far.
export function pareto(rows, heads) {
  let sum = 0;
  const most = rows[0].share;
  return h("table", { class: "pareto" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)), h("td", { class: "bar" }))),
    h("tbody", {}, rows.map((one) => {
      sum += one.share;
      return h("tr", {}, h("th", { scope: "row" }, one.name), h("td", {}, number(one.count)), h("td", {}, percent(Math.min(1, sum))),
        h("td", { class: "bar" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
          svg("rect", { class: "share", width: (100 * one.share) / most, height: 10 }))));
    })));
}
