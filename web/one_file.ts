// Makes the build one self-contained page, and the policy that goes with exactly this page.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

const sha256 = (text: string) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

/** What the server sends as Content-Security-Policy: nothing runs or is styled but what was built. */
export function contentPolicy(script: string, style: string): string {
  return [
    "default-src 'none'",
    `script-src ${sha256(script)}`,
    `style-src ${sha256(style)}`,
    'font-src data:',
    'img-src data: blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

// KaTeX names three files for each font; every browser that runs the page reads the first.
export function onlyWoff2(): Plugin {
  return {
    name: 'only-woff2',
    enforce: 'pre',
    transform(code, id) {
      if (!/katex[^/]*\.css$/.test(id)) return null;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\(["'](?:woff|truetype)["']\)/g, '');
    },
  };
}

// What is bundled into the page goes with its licence, as the licences ask.
function notices(packages: string[]): string {
  const texts = packages.map((name) => {
    const folder = join('node_modules', name);
    const file = readdirSync(folder).find((entry) => /^license/i.test(entry));
    if (!file) throw new Error(`${folder} has no licence`);
    return `${name}\n\n${readFileSync(join(folder, file), 'utf8').trim()}`;
  });
  // Two dashes may not stand in a comment.
  return `<!--\nThis page contains:\n\n${texts.join('\n\n\n').replace(/--+/g, '')}\n-->\n`;
}

export function oneFile(packages: string[]): Plugin {
  return {
    name: 'one-file',
    apply: 'build',
    enforce: 'post',
    generateBundle(_options, bundle) {
      let script = '';
      let style = '';
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === 'chunk') {
          if (script) this.error(`a second script: ${name}`);
          script = file.code;
        } else if (name.endsWith('.css')) {
          style += String(file.source);
        } else if (!name.endsWith('.html')) {
          this.error(`not inlined: ${name}`);
        } else {
          continue;
        }
        delete bundle[name];
      }
      const page = bundle['index.html'];
      if (!page || page.type !== 'asset') return this.error('no index.html');
      // The end of the element is the only thing that a script's text may not hold.
      script = script.trim().replace(/<\/script/gi, '<\\/script');
      style = style.trim();
      let html = String(page.source)
        .replace(/<script type="module"[^>]*src=[^>]*><\/script>\s*/, '')
        .replace(/<link rel="stylesheet"[^>]*>\s*/, '');
      // Functions: `$&` in what is put in must stay what it is.
      html = html
        .replace('</head>', () => `<style>${style}</style>\n</head>`)
        .replace('</body>', () => `<script type="module">${script}</script>\n</body>`);
      page.source = html.replace(/>\s+</g, (gap) => (gap.includes('\n') ? '>\n<' : gap)) + notices(packages);
      if (/\s(?:src|href)="(?!data:)/.test(html.replace(script, ''))) this.error('the page names another file');
      this.emitFile({ type: 'asset', fileName: 'csp.txt', source: contentPolicy(script, style) });
    },
  };
}
