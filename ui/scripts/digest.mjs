// Writes dist/digest.txt: a hash of everything that the build reads. A Go test computes it again, and
// is red when the built files are stale.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ui = join(dirname(fileURLToPath(import.meta.url)), "..");
const parts = ["client/index.ts", "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"];
for (const folder of ["public", "scripts", "src"]) {
  for (const entry of readdirSync(join(ui, folder), { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) parts.push(join(entry.parentPath, entry.name).slice(ui.length + 1).replaceAll("\\", "/"));
  }
}
parts.push("../docs/reference/openapi.json");
parts.sort((a, b) => (a < b ? -1 : 1));
const all = createHash("sha256");
for (const name of parts) {
  const sum = createHash("sha256").update(readFileSync(join(ui, name))).digest("hex");
  all.update(`${sum}  ${name}\n`);
}
writeFileSync(join(ui, "../internal/ui/dist/digest.txt"), all.digest("hex") + "\n");
