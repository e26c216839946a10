// The report on a shift: it prints on a page.

import { h, replace } from "../dom.js";
import * as api from "../api.js";
import { currentLanguage, number, percent, t, when } from "../i18n.js";
import { addKeys } from "../keys.js";
import { show } from "../router.js";
import { say, tell } from "../said.js";
import { columns, pareto } from "../parts/bars.js";

const clock = (text, zone) => new Intl.DateTimeFormat(currentLanguage(), { timeStyle: "short", timeZone: zone ?? undefined }).format(new Date(text));
const day = (text, zone) => new Intl.DateTimeFormat(currentLanguage(), { dateStyle: "full", timeZone: zone ?? undefined }).format(new Date(text));
const short = (text, zone) => new Intl.DateTimeFormat(currentLanguage(), { weekday: "short", hour: "numeric", minute: "2-digit", timeZone: zone ?? undefined }).format(new Date(text));
const share = (value) => (value === null ? "–" : percent(value));

function duration(seconds) {
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? t("shift.minutes", { count: minutes }) : t("shift.hours", { hours: Math.floor(minutes / 60), minutes: String(minutes % 60).padStart(2, "0") });
}

function fact(name, value, more) {
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, h("strong", {}, value), more));
}

function told(one, label) {
  return `${label}: ${t("shift.told", { count: one.count, bad: one.anomalous })}`;
}

export function shiftColumns(report) {
  const points = report.shifts.map((one) => {
    const label = short(one.start, report.zone);
    return { ...one, label, told: `${told(one, label)}; ${t("shift.yield")} ${share(one.first_pass_yield)}` };
  });
  return columns(points, t("shift.before"), t("shift.caption"));
}

function sheet(report) {
  const { zone } = report;
  const stop = report.longest_stop;
  const hours = report.hours.map((one) => {
    const label = clock(one.time, zone);
    return { ...one, label, told: told(one, label) };
  });
  const defects = report.defects.map((one) => ({ ...one, name: one.name || t("shift.unnamed") }));
  const heads = ["shift.shift", "trend.count", "trend.bad", "shift.first", "shift.yield"];
  return [
    h("section", { class: "card" }, h("dl", { class: "facts" },
      fact(t("trend.count"), number(report.count), t("shift.verdicts", { good: report.good, anomalous: report.anomalous, unjudged: report.unjudged })),
      fact(t("shift.yield"), share(report.first_pass_yield), t("shift.passed", { passed: report.first_pass, parts: report.parts })),
      fact(t("shift.called"), `${number(report.called_bad)} / ${number(report.called_fine)}`, t("shift.calledtext")),
      fact(t("shift.stop"), stop ? duration(stop.seconds) : "–", stop && t("shift.stoptext", { start: clock(stop.start, zone), end: clock(stop.end, zone) })))),
    h("section", { class: "card" }, h("h2", {}, t("shift.defects")),
      defects.length ? pareto(defects, [t("shift.defect"), t("shift.number"), t("shift.sum")]) : h("p", {}, t("shift.nodefects"))),
    hours.length > 0 && h("section", { class: "card" }, h("h2", {}, t("shift.byhour")), columns(hours, t("shift.byhour"), t("shift.caption"))),
    h("section", { class: "card" }, h("h2", {}, t("shift.before")), shiftColumns(report),
      h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": t("shift.before") }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((key) => h("th", { scope: "col" }, t(key))))),
        h("tbody", {}, report.shifts.map((one) => h("tr", {}, h("th", { scope: "row" }, when(one.start)), h("td", {}, number(one.count)), h("td", {}, number(one.anomalous)),
          h("td", {}, number(one.parts)), h("td", {}, share(one.first_pass_yield)))))))),
  ];
}

// When shifts begin.
function planning(plan) {
  const starts = h("input", { value: plan.starts.join(", "), required: true, class: "grow" });
  const zone = h("input", { value: plan.zone ?? "", placeholder: t("shift.ownzone"), maxlength: 60 });
  const form = h("form", { class: "row" }, h("label", { class: "grow" }, t("shift.starts"), starts), h("label", {}, t("shift.zone"), zone), h("button", {}, t("users.save")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await api.ask("PUT", "shifts", { json: { starts: starts.value.split(/[\s,;]+/).filter(Boolean), zone: zone.value.trim() || null } });
      say(t("shift.saved"));
      show();
    } catch (error) {
      tell(error);
    }
  });
  return h("details", { class: "more no-print" }, h("summary", {}, t("shift.plan")), form);
}

export default {
  name: "shift",
  path: "/shift",
  nav: "nav.shift",
  engineer: true,
  async show(place, context) {
    const [products, plan] = await Promise.all([api.products(context.signal), api.ask("GET", "shifts", { signal: context.signal })]);
    const wanted = new URLSearchParams(context.query);
    const body = h("div", { class: "trends" });
    const select = h("select", { "aria-label": t("inspect.product"), class: "product-select" },
      h("option", { value: "" }, t("history.anyproduct")), products.map((one) => h("option", { value: one.id }, one.name)));
    select.value = wanted.get("product") ?? "";
    const csv = h("a", { class: "button", download: true }, t("history.csv"));
    const title = h("p", { class: "shift-title" });
    const newer = h("button", { type: "button" }, `${t("shift.next")} →`);
    const older = h("button", { type: "button" }, `← ${t("shift.previous")}`);
    const load = async () => {
      const query = wanted.size ? `?${wanted}` : "";
      const report = await api.ask("GET", `shift${query}`, { signal: context.signal });
      history.replaceState(null, "", `#/shift${query}`);
      csv.href = api.address(`exports/shift.csv${query}`);
      title.textContent = `${day(report.start, report.zone)}, ${clock(report.start, report.zone)} – ${clock(report.end, report.zone)}`
        + ` · ${report.product ?? t("history.anyproduct")}`;
      document.title = `${t("nav.shift")} ${title.textContent}`; // what a PDF is called
      newer.disabled = Date.parse(report.end) > Date.now();
      const move = (at) => { wanted.set("at", at); load().catch(tell); };
      newer.onclick = () => move(report.end);
      older.onclick = () => move(new Date(Date.parse(report.start) - 1).toISOString());
      replace(body, sheet(report));
    };
    select.addEventListener("change", () => {
      if (select.value) wanted.set("product", select.value);
      else wanted.delete("product");
      load().catch(tell);
    });
    addKeys({ key: "p", text: "key.print", run: () => print() },
      { key: "ArrowLeft", shown: "key.left", text: "shift.previous", run: () => older.click() },
      { key: "ArrowRight", shown: "key.right", text: "shift.next", run: () => newer.click() });
    replace(place, h("div", { class: "row inspect-head" }, h("h1", {}, t("nav.shift")), h("span", { class: "row no-print" }, select, older, newer, csv,
      h("button", { type: "button", onclick: () => print() }, t("sheet.print"), h("kbd", {}, "P")))), title, body, planning(plan));
    await load();
  },
};
