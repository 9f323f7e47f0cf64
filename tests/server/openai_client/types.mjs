// Whether answers are what the client's TypeScript types promise.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// What this server tells beyond OpenAI's types.
const EXTRA = new Set(['reasoning_content', 'max_model_len', 'root']);

const plain = (value) =>
  JSON.stringify(value, (key, inner) => (EXTRA.has(key) ? undefined : inner), 1);

/** samples: [type, value] pairs. Throws with the compiler's words where one does not fit its type. */
export function checkTypes(samples) {
  const folder = mkdtempSync(join(process.cwd(), 'types-'));
  try {
    const lines = samples.map(([type, value], i) => `export const a${i} = ${plain(value)} satisfies ${type};`);
    writeFileSync(join(folder, 'answers.ts'), `import OpenAI from 'openai';\n${lines.join('\n')}\n`);
    execFileSync(
      process.execPath,
      ['node_modules/typescript/bin/tsc', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext',
        '--target', 'es2022', join(folder, 'answers.ts')],
      { encoding: 'utf8' },
    );
  } catch (error) {
    throw new Error(error.stdout || error.message);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
