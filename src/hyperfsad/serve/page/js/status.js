// Whether the station can inspect now; a full disk or a missing encoder stands on every view.

import { h, replace } from "./dom.js";
import { AWAY, BACK, readiness } from "./api.js";
import { currentLanguage, t } from "./i18n.js";

const SLOW = 15000;
const FAST = 2000;
let shown = "";
let timer = 0;

function words(found) {
  if (found === null) return ["bad", t("status.away")];
  if (found.ready) return found.retention ? null : ["wait", t("status.clock")];
  const more = currentLanguage() === "en" || !found.problem ? "" : ` (${found.problem})`;
  if (!found.disk) return ["bad", t("status.full") + more];
  if (!found.database) return ["bad", t("status.database")];
  if (found.problem && !found.problem.includes("being loaded")) return ["bad", `${t("status.encoder")} ${found.problem}`];
  return ["wait", t("status.loading")];
}

export async function checkStatus() {
  const found = words(await readiness());
  const text = found === null ? "" : found[1];
  if (text !== shown) {
    shown = text;
    const place = document.getElementById("notice");
    replace(place, found && h("p", { class: `notice ${found[0]}` }, text));
  }
  return found === null;
}

export async function watchStatus() {
  clearTimeout(timer);
  const fine = await checkStatus();
  if (fine) dispatchEvent(new Event(BACK));
  clearTimeout(timer); // of one that began meanwhile
  timer = setTimeout(watchStatus, fine ? SLOW : FAST);
}

addEventListener(AWAY, watchStatus);
