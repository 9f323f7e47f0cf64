// Bundles the tests (TypeScript) for node's own runner and runs them: node test/run.mjs unit|browser [FILE...]
// Prints the runner's report, as TAP where it goes to a file. What is built lands in build/web/test.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const [kind, ...only] = process.argv.slice(2);
const out = join(here, '../../build/web/test', kind);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const files = readdirSync(join(here, kind)).filter(
  (file) => file.endsWith('.test.ts') && (only.length === 0 || only.some((name) => file.includes(name))),
);
await build({
  entryPoints: files.map((file) => join(here, kind, file)),
  outdir: out,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node18',
  sourcemap: 'inline',
  logLevel: 'warning',
  plugins: [
    {
      // Drives a browser through files of its own, and is not beside the bundles.
      name: 'playwright',
      setup: (build) =>
        build.onResolve({ filter: /^playwright-core$/ }, () => ({ path: join(here, '../node_modules/playwright-core/index.mjs'), external: true })),
    },
  ],
  // Node 18 has no crypto without an import.
  banner: { js: "import { webcrypto as ownCrypto } from 'node:crypto'; globalThis.crypto ??= ownCrypto;" },
  // Where web/ is, for bundles that lie elsewhere.
  define: { 'import.meta.web': JSON.stringify(join(here, '..')) },
});
const run = spawnSync(
  process.execPath,
  ['--enable-source-maps', '--test', '--test-concurrency=2', ...(process.stdout.isTTY ? [] : ['--test-reporter=tap']), ...files.map((file) => join(out, basename(file, '.ts') + '.mjs'))],
  { stdio: 'inherit' },
);
process.exit(run.status ?? 1);
