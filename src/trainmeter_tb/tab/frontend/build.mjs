// Bundles the tab into ../static: one script, one style sheet, and the licence of what is bundled.
import { copyFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const at = (path) => fileURLToPath(new URL(path, here));
const out = process.argv[2] ?? at("../static");

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: at("."),
  entryPoints: { index: "src/main.ts" },
  outdir: out,
  bundle: true,
  format: "esm",
  target: "es2020",
  minify: true,
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
});
copyFileSync(at("node_modules/uplot/LICENSE"), `${out}/LICENSE.uPlot`);
