// What was dropped: files, and the pictures of folders in the order of their names.

function files(entry) {
  return new Promise((done, failed) => entry.file(done, failed));
}

async function entries(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return found.sort((one, other) => (one.name < other.name ? -1 : 1));
    found.push(...some);
  }
}

// A folder also holds what is no picture, and nobody meant that.
async function inFolder(folder) {
  const found = [];
  for (const entry of await entries(folder)) {
    if (entry.name.startsWith(".")) continue;
    if (entry.isDirectory) found.push(...await inFolder(entry));
    else {
      const file = await files(entry);
      if (file.type.startsWith("image/")) found.push(file);
    }
  }
  return found;
}

// Entries are asked for at once: the browser forgets them when the event is over.
export async function dropped(transfer) {
  const all = [...transfer.items].map((item) => item.webkitGetAsEntry?.());
  if (!all.some((entry) => entry?.isDirectory)) return [...transfer.files];
  const found = [];
  for (const entry of all.filter(Boolean)) {
    if (entry.isDirectory) found.push(...await inFolder(entry));
    else found.push(await files(entry));
  }
  return found;
}
