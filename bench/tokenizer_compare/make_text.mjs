// Writes a megabyte of mixed text: prose, source code, numbers and a dozen scripts. The same seed
// gives the same bytes, so that two tokenizers can be timed on one file.
//   node make_text.mjs VOCABULARY/tokenizer.json OUT.txt [BYTES] [SEED]
import { readFileSync, writeFileSync } from 'node:fs'

const [vocabularyFile, outFile, bytesText = '1000000', seedText = '1'] = process.argv.slice(2)
if (!outFile) {
  console.error('usage: node make_text.mjs VOCABULARY/tokenizer.json OUT.txt [BYTES] [SEED]')
  process.exit(2)
}

let state = Number(seedText) >>> 0
function random() {
  state = (state + 0x9e3779b9) >>> 0
  let z = state
  z = Math.imul(z ^ (z >>> 16), 0x85ebca6b) >>> 0
  z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35) >>> 0
  return ((z ^ (z >>> 16)) >>> 0) / 2 ** 32
}
const below = (n) => Math.floor(random() * n)

// Byte-level alphabet: printable Latin-1 stands for itself, the rest for U+0100 and up.
const byteOf = new Map()
for (let byte = 0, next = 256; byte < 256; ++byte) {
  const itself = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
  byteOf.set(String.fromCharCode(itself ? byte : next++), byte)
}
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const words = []
const vocabulary = JSON.parse(readFileSync(vocabularyFile, 'utf8')).model.vocab
for (const [token, id] of Object.entries(vocabulary).sort((a, b) => a[1] - b[1])) {
  if (id < 256) continue
  try {
    words.push(strict.decode(Uint8Array.from([...token], (c) => byteOf.get(c))))
  } catch {
    // Part of a character: no text of its own.
  }
}
// Low ids are frequent tokens: a power law over ids resembles running text.
const word = () => words[Math.floor(words.length * random() ** 4)]
const rare = () => words[below(words.length)]

const name = () => word().replace(/[^A-Za-z]/g, '') || 'x'
const makers = [
  () => Array.from({ length: 12 + below(40) }, word).join('') + '. ',
  () => Array.from({ length: 8 + below(20) }, () => ' ' + name()).join('') + ".\n",
  () => Array.from({ length: 4 + below(12) }, rare).join('') + '\n\n',
  () => `  for (int ${name()} = ${below(10)}; ${name()} < ${below(5000)}; ++${name()}) {\n` +
        `    ${name()}[${name()}] += ${random()} * ${name()}(${name()}, "${word()}");\n  }\n`,
  () => Array.from({ length: 2 + below(8) }, () => below(10 ** (1 + below(9)))).join(', ') + '\n',
  () => `{"${name()}": ${below(1000)}, "${name()}": [${random()}, null], "it's": "${word()}"}\r\n`,
]
const encoder = new TextEncoder()
const parts = []
for (let size = 0; size < Number(bytesText); ) {
  const part = makers[below(makers.length)]()
  parts.push(part)
  size += encoder.encode(part).length
}
writeFileSync(outFile, parts.join(''))
