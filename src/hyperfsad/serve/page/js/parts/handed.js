// Files that one view hands to the next.

let files = [];

export function hand(found) {
  files = found;
}

export function handed() {
  return files.splice(0);
}
