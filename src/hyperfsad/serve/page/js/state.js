// Who is signed in, and what this browser remembers of its user's wishes.

export const ADMIN = "admin";
export const ROLES = { inspect: "role.inspect", admin: "role.admin" };
export const who = { role: "", user: "", open: false, users: false };

const KEY = "hyperfsad";
const usual = { language: null, theme: "auto", sound: false, view: "engineer", product: null, overlay: 70, source: "drop", every: 0, camera: null };
export const wishes = { ...usual };

export function loadWishes() {
  try {
    Object.assign(wishes, JSON.parse(localStorage.getItem(KEY) ?? "{}"));
  } catch {
    // a browser that keeps nothing still works
  }
}

export function wish(changes) {
  Object.assign(wishes, changes);
  try {
    localStorage.setItem(KEY, JSON.stringify(wishes));
  } catch {
    // as above
  }
}

// Only who may change products sees more than inspecting, and only if wanted.
export function isEngineer() {
  return who.role === ADMIN && wishes.view === "engineer";
}
