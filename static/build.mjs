// Builds static/dist from static/src and PatternFly: one stylesheet with only what the pages use,
// its fonts, one script, the script that sets the theme before the first paint, both for the admin
// pages, and the icons.
import { copyFile, mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";
import postcss from "postcss";
import { PurgeCSS } from "purgecss";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "static/src");
const served = join(root, "static/dist");
// Built apart and then moved: a running server never sees half of it.
const dist = join(root, "node_modules/.olmweb-dist");
const patternfly = join(root, "node_modules/@patternfly/patternfly");
const GZIP_LIMIT = 60_000;

// Where class names are mentioned. A class of PatternFly that none of these names literally is
// dropped; our own (olm-) stay, because some are put together from a state.
const content = [
  "templates/**/*.{html,svg}",
  "catalogs/**/*.py",
  "installs/**/*.py",
  "olmweb/**/*.py",
  "static/src/*.js",
].map((pattern) => join(root, pattern));

/** Keeps three upright variable fonts of PatternFly's; the rest is never asked for. */
const onlyOurFonts = (css) =>
  css.walkAtRules("font-face", (rule) => {
    const file = /RedHat(Text|Display|Mono)VF\.woff2/.test(rule.toString());
    if (!file) rule.remove();
  });

/** PatternFly's other themes (felt, glass, high contrast) are not offered. */
const onlyOurThemes = (css) =>
  css.walkRules(/theme-(felt|glass|high-contrast)/, (rule) => {
    rule.selectors = rule.selectors.filter((one) => !/theme-(felt|glass|high-contrast)/.test(one));
    if (!rule.selector) rule.remove();
  });

/** Without JavaScript nothing sets the dark class: the same rules under the reader's preference. */
const darkByPreference = (css) =>
  css.walkRules(/:where\(\.pf-v6-theme-dark\)/, (rule) => {
    if (rule.parent.type === "atrule" && rule.parent.name === "media") return;
    const selector = rule.selector.replaceAll(
      /(:root)?:where\(\.pf-v6-theme-dark\)/g,
      (_, root) => (root ? ":root:where(:not(.olm-theme-set))" : ":where(:root:not(.olm-theme-set))"),
    );
    const query = postcss.atRule({ name: "media", params: "(prefers-color-scheme: dark)" });
    query.append(rule.clone({ selector }));
    rule.after(query);
  });

/** Only style sheets name PatternFly's variables: short names save a tenth of all styles and scripts. */
function shortVariables(css) {
  const names = new Map();
  return css.replaceAll(/--pf-[\w-]+/g, (name) => {
    if (!names.has(name)) names.set(name, `--pf${names.size}`);
    return names.get(name);
  });
}

async function stylesheet() {
  const sheets = await Promise.all(
    [
      join(patternfly, "patternfly.css"),
      join(patternfly, "patternfly-addons.css"),
      join(source, "app.css"),
      join(source, "catalogs.css"),
      join(source, "package.css"),
      join(source, "changes.css"),
    ].map((file) => readFile(file, "utf8")),
  );
  const css = postcss.parse(sheets.join("\n"));
  onlyOurFonts(css);
  onlyOurThemes(css);
  const [purged] = await new PurgeCSS().purge({
    content,
    css: [{ raw: css.toString() }],
    defaultExtractor: (text) => text.match(/[A-Za-z0-9_-]+/g) ?? [],
    variables: true,
    keyframes: true,
    safelist: { greedy: [/theme-dark/], standard: [/^olm-/, "html", "body", "svg"] },
  });
  const used = postcss.parse(purged.css);
  darkByPreference(used);
  await writeStyles("olmweb.css", shortVariables(used.toString()));
  // Of the admin pages, beside Django's own style sheets.
  await writeStyles("admin.css", await readFile(join(source, "admin.css"), "utf8"));
}

async function writeStyles(file, contents) {
  // Beside the package, so that its relative addresses of fonts resolve.
  const result = await esbuild.build({
    stdin: { contents, loader: "css", resolveDir: patternfly },
    bundle: true,
    minify: true,
    outfile: join(dist, file),
    assetNames: "fonts/[name]-[hash]",
    loader: { ".woff2": "file", ".svg": "dataurl", ".png": "empty", ".jpg": "empty" },
    logLevel: "warning",
  });
  if (result.errors.length) process.exit(1);
}

async function scripts() {
  await esbuild.build({
    entryPoints: {
      olmweb: join(source, "app.js"),
      theme: join(source, "theme.js"),
      admin: join(source, "admin.js"),
    },
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2021",
    outdir: dist,
    logLevel: "warning",
  });
}

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
await Promise.all([stylesheet(), scripts()]);
for (const file of ["icons.svg", "favicon.svg"]) {
  await copyFile(join(source, file), join(dist, file));
}
for (const file of ["olmweb.css", "olmweb.js"]) {
  const size = gzipSync(await readFile(join(dist, file))).length;
  console.log(`static/dist/${file}: ${(size / 1000).toFixed(1)} kB gzip`);
  if (file === "olmweb.css" && size > GZIP_LIMIT) {
    console.error(`olmweb.css is over ${GZIP_LIMIT} bytes gzip`);
    process.exit(1);
  }
}
await rm(served, { recursive: true, force: true });
await rename(dist, served);
