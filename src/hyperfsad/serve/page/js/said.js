// What the page has to say: a line at the bottom, which screen readers hear too.

import { h, replace } from "./dom.js";
import { ApiError, BACK } from "./api.js";
import { currentLanguage, t } from "./i18n.js";

const LONG = 8000;
const STATUS = {
  0: "error.away", 401: "error.signin", 403: "error.role", 404: "error.missing", 409: "error.conflict",
  410: "error.gone", 413: "error.large", 422: "error.unusable", 429: "error.often", 503: "error.busy", 507: "error.full",
};
// What people meet; the rest is told by its status, with the station's own English sentence.
const REFUSED = {
  "queue-full": "refused.queue_full", "memory-busy": "refused.memory_busy",
  "admin-required": "refused.admin_required", "teaching-needs-admin": "refused.teaching_needs_admin",
  "forgetting-needs-admin": "refused.forgetting_needs_admin", "product-name-taken": "refused.product_name_taken",
  "product-name-invalid": "refused.product_name_invalid", "product-changed": "refused.product_changed",
  "product-deleted": "refused.product_deleted", "images-known": "refused.images_known",
  "label-known": "refused.label_known", "label-missing": "refused.label_missing",
  "labels-contradict": "refused.labels_contradict", "labels-missing": "refused.labels_missing",
  "original-gone": "refused.original_gone", "settings-need-pictures": "refused.settings_need_pictures",
  "defect-name": "refused.defect_name", "roi-too-small": "refused.roi_too_small",
  "roi-encloses-nothing": "refused.roi_encloses_nothing", "tiles-with-roi": "refused.tiles_with_roi",
  "tiles-with-rotations": "refused.tiles_with_rotations", "forget-all": "refused.forget_all",
  "adapting-too-early": "refused.adapting_too_early", "image-pixels": "refused.image_pixels",
  "upload-slow": "refused.upload_slow", "upload-bytes": "refused.upload_bytes", "disk-full": "refused.disk_full",
  "disk-nearly-full": "refused.disk_nearly_full", "database-away": "refused.database_away",
  "learning-elsewhere": "refused.learning_elsewhere", "station-stopping": "refused.station_stopping",
  "version-unknown": "refused.version_unknown",
};
let timer = 0;
let away = false; // whether what stands there says that the station is away

export function sentence(error) {
  if (!(error instanceof ApiError)) return String(error.message ?? error);
  if (error.code in REFUSED) return t(REFUSED[error.code], error.facts);
  const own = t(STATUS[error.status] ?? "error.other");
  if (!error.message) return own;
  return currentLanguage() === "en" ? error.message : `${own} (${error.message})`;
}

export function tell(error) {
  if (error.name === "AbortError") return;
  say(sentence(error), { bad: true });
  away = error.status === 0;
}

// Several sentences, one below the other; they stay until somebody closes them.
export function sayAll(sentences, bad) {
  say(sentences.map((one) => h("span", { class: "line" }, one)), { bad, stays: true });
}

// `actions` are buttons that belong to it, such as undo.
export function say(text, { bad = false, actions = [], stays = false } = {}) {
  const place = document.getElementById("said");
  clearTimeout(timer);
  away = false;
  const close = h("button", { type: "button", class: "quiet", "aria-label": t("close"), onclick: hush }, "×");
  replace(place, h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text), actions, close));
  if (!stays) timer = setTimeout(hush, bad ? 2 * LONG : LONG);
}

// What was said of a station that was away is over when it is back.
addEventListener(BACK, () => { if (away) hush(); });

export function hush() {
  clearTimeout(timer);
  replace(document.getElementById("said"));
}
