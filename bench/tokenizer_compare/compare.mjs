// Times `fathom tokenize` and the Rust package `tokenizers` on one file, turn by turn, one thread
// each, and compares the ids. README.md beside this file says how to run it.
//   node compare.mjs FATHOM VOCABULARY TEXT.txt
// Fathom is timed from outside, over a pipe: its time includes reading the text as JSON and writing
// the ids as JSON, the package's only encode().
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [fathom, folder, textFile] = process.argv.slice(2)
if (!textFile) {
  console.error('usage: node compare.mjs FATHOM VOCABULARY TEXT.txt')
  process.exit(2)
}
process.env.RAYON_NUM_THREADS = '1'
process.env.TOKENIZERS_PARALLELISM = 'false'
// Resolved from the current folder, so that the package can be installed in any scratch folder.
const { Tokenizer } = createRequire(process.cwd() + '/')('tokenizers')

const bytes = readFileSync(textFile)
const text = bytes.toString('utf8')
const megabytes = bytes.length / 1e6

const child = spawn(fathom, ['tokenize', '--model', folder, '--jsonl'], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
async function askFathom(what) {
  child.stdin.write(JSON.stringify(what) + '\n')
  const { value, done } = await lines.next()
  if (done) throw new Error('fathom ended early')
  return JSON.parse(value)
}

const rust = Tokenizer.fromFile(`${folder}/tokenizer.json`)
const askRust = async (what) => await rust.encode(what, null, { addSpecialTokens: false })

async function timed(ask, what) {
  const began = performance.now()
  const answer = await ask(what)
  return [(performance.now() - began) / 1e3, answer]
}

// Both have loaded once they have answered.
await askFathom('x')
await askRust('x')
const seconds = { fathom: [], rust: [] }
let ids
let encoding
for (let turn = 0; turn < 7; ++turn) {
  let took
  ;[took, ids] = await timed(askFathom, text)
  seconds.fathom.push(took)
  ;[took, encoding] = await timed(askRust, text)
  seconds.rust.push(took)
}
child.stdin.end()

const expected = encoding.getIds()
const same = ids.length === expected.length && ids.every((id, i) => id === expected[i])
const rate = (list) => (megabytes / Math.min(...list)).toFixed(2)
console.log(`${textFile}: ${megabytes.toFixed(2)} MB, ${ids.length} ids, ${same ? 'the same' : 'DIFFERENT'}`)
console.log(`fathom (with JSON in and out): ${rate(seconds.fathom)} MB/s`)
console.log(`tokenizers (Rust):             ${rate(seconds.rust)} MB/s`)
process.exit(same ? 0 : 1)
