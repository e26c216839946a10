// The station's API, as docs/station.md describes it.

import { isEngineer, who } from "./state.js";

const ROOT = "api/v1";
export const SIGNED_OUT = "signed-out";
export const SIGNED_IN = "signed-in";
export const AWAY = "away";
export const BACK = "back"; // the station can inspect

export class ApiError extends Error {
  constructor(status, detail, retryAfter, { code = "", facts = {} } = {}) {
    super(detail);
    Object.assign(this, { status, code, facts });
    this.retryAfter = retryAfter;
  }
}

// Asks; the answer is JSON, or nothing. `form` is a FormData, `json` anything.
export async function ask(method, path, { json, form, signal, headers: more = {} } = {}) {
  const headers = { "X-Requested-With": "page", ...more };
  if (path !== "session" && !isEngineer()) headers["X-Role"] = "inspect"; // the operator view has no more rights than operators
  if (json !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${ROOT}/${path}`, {
      method, headers, signal, body: form ?? (json === undefined ? undefined : JSON.stringify(json)),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    dispatchEvent(new Event(AWAY));
    throw new ApiError(0, "", null);
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "login") dispatchEvent(new Event(SIGNED_OUT));
  const after = Number(answer.headers.get("retry-after"));
  throw new ApiError(answer.status, found.detail ?? answer.statusText, after || null, found);
}

export function address(path) {
  return `${ROOT}/${path}`;
}

function form(fields, files, name = "images") {
  const made = new FormData();
  for (const [key, value] of Object.entries(fields)) made.append(key, value);
  for (const file of files) made.append(name, file, file.name ?? "camera.jpg");
  return made;
}

export const loadSession = async () => Object.assign(who, await ask("GET", "session"));
export const logIn = (sent) => ask("POST", "login", { json: sent });
export const logOut = () => ask("POST", "logout");

// Of a station that is not ready the answer is 503, with the same fields.
export async function readiness() {
  try {
    const answer = await fetch(`${ROOT}/ready`);
    return await answer.json();
  } catch {
    return null;
  }
}

export const products = (signal) => ask("GET", "products", { signal });
export const product = (id, signal) => ask("GET", `products/${id}`, { signal });
export const createProduct = (name, files, more = {}) => ask("POST", "products", { form: form({ name, ...more }, files) });
export const uploadProduct = (name, file) => ask("POST", "products/upload", { form: form({ name }, [file], "detector") });
export const extendProduct = (id, files, more = {}) => ask("POST", `products/${id}/images`, { form: form(more, files) });
export const calibrateProduct = (id, files, more = {}) => ask("POST", `products/${id}/calibration`, { form: form(more, files) });
export const renameProduct = (id, name) => ask("PATCH", `products/${id}`, { json: { name } });
export const adaptAutomatically = (id, on) => ask("PATCH", `products/${id}`, { json: { adapt_automatically: on } });
export const proposal = (id, signal) => ask("GET", `products/${id}/proposal`, { signal });
export const propose = (id) => ask("POST", `products/${id}/proposal`);
export const adapt = (id, latest) => ask("POST", `products/${id}/adapt`, { json: { latest } });
export const tryOut = (id, wanted) => ask("POST", `products/${id}/trial`, { json: wanted });
export const configure = (id, settings) => ask("POST", `products/${id}/settings`, { json: settings });
export const deleteProduct = (id) => ask("DELETE", `products/${id}`);
export const source = (id, signal) => ask("GET", `products/${id}/source`, { signal });
export const setSource = (id, wanted) => ask("PUT", `products/${id}/source`, { json: wanted });
export const removeSource = (id) => ask("DELETE", `products/${id}/source`);
export const evaluateProduct = (id) => ask("POST", `products/${id}/evaluation`);
export const goodParts = (id, signal) => ask("GET", `products/${id}/images`, { signal });
export const removePart = (id, part) => ask("DELETE", `products/${id}/images/${part}`);
export const versions = (id, signal) => ask("GET", `products/${id}/versions`, { signal });
export const restore = (id, revision) => ask("POST", `products/${id}/versions/${revision}/restore`);
export const levels = (id, signal) => ask("GET", `products/${id}/levels`, { signal });
export const coverage = (id, signal) => ask("GET", `products/${id}/coverage`, { signal });

export const users = (signal) => ask("GET", "users", { signal });
export const addUser = (json) => ask("POST", "users", { json });
export const changeUser = (id, json) => ask("PATCH", `users/${id}`, { json });
export const removeUser = (id) => ask("DELETE", `users/${id}`);
export const auditLog = (before, signal) => ask("GET", `audit${before ? `?before=${before}` : ""}`, { signal });
export const connections = (signal) => ask("GET", "connections", { signal });
export const testConnection = (name) => ask("POST", `connections/${name}/test`);

export const inspection = (id, signal) => ask("GET", `inspections/${id}`, { signal });
export const label = (id, kind, more = {}) => ask("PUT", `inspections/${id}/label`, { json: { kind, ...more } });
export const undoLabel = (id) => ask("DELETE", `inspections/${id}/label`);

export const inspect = (id, file, key, fields = {}) =>
  ask("POST", `products/${id}/inspections`, { form: form(Object.keys(fields).length ? { fields: JSON.stringify(fields) } : {}, [file]), headers: { "Idempotency-Key": key } });

// A full line is no failure: the station says when to come back. `waiting` hears of it.
export async function patient(work, { waiting = () => {} } = {}) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error.status !== 503 || error.retryAfter === null) throw error;
      waiting(error.retryAfter);
      await new Promise((resolve) => setTimeout(resolve, 1000 * error.retryAfter));
    }
  }
}
