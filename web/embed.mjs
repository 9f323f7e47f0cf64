// Writes the built page as C++: node embed.mjs PAGE_FOLDER OUT.cpp, or node embed.mjs - OUT.cpp REASON.
// What the functions mean stands in src/server/web_page.h.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// Octal escapes end by themselves after three digits; escaped question marks make no trigraphs.
/** Bytes as string literals, one for each line. */
export function literals(bytes) {
  const lines = [];
  let line = '';
  for (const byte of bytes) {
    if (byte === 0x22 || byte === 0x5c || byte === 0x3f) line += '\\' + String.fromCharCode(byte);
    else if (byte >= 0x20 && byte < 0x7f) line += String.fromCharCode(byte);
    else line += '\\' + byte.toString(8).padStart(3, '0');
    if (line.length >= 4000) {
      lines.push(`    "${line}"`);
      line = '';
    }
  }
  if (line || lines.length === 0) lines.push(`    "${line}"`);
  return lines.join('\n');
}

export function source(page, policy, absence) {
  const held = page
    ? `constexpr char kPage[] =\n${literals(page)};\n`
    : '';
  return `// Made by web/embed.mjs.
#include "server/web_page.h"

namespace fathom::server {
${held}
std::optional<std::string_view> web_page() { return ${page ? 'std::string_view(kPage, sizeof(kPage) - 1)' : 'std::nullopt'}; }

std::string_view web_page_policy() {
  return
${literals(Buffer.from(policy))};
}

std::string_view web_page_absence() {
  return
${literals(Buffer.from(absence))};
}

}  // namespace fathom::server
`;
}

if (process.argv[1]?.endsWith('embed.mjs')) {
  const [, , folder, out, reason] = process.argv;
  const text =
    folder === '-'
      ? source(null, '', reason)
      : source(readFileSync(join(folder, 'index.html')), readFileSync(join(folder, 'csp.txt'), 'utf8'), '');
  writeFileSync(out, text);
}
