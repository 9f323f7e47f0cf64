import { defineConfig } from 'vite';
import manifest from './package.json';
import { oneFile, onlyWoff2 } from './one_file.ts';

// Where the build goes is said on the command line (--outDir): tools/build-web.
export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  plugins: [onlyWoff2(), oneFile(Object.keys(manifest.dependencies))],
  build: {
    target: 'es2021',
    assetsInlineLimit: 1 << 30, // fonts become data URIs
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    emptyOutDir: true,
  },
  // For work on the page: `npm run dev` beside a `fathom serve`.
  server: { proxy: { '/v1': 'http://127.0.0.1:8080', '/metrics': 'http://127.0.0.1:8080' } },
});
