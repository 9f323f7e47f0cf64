// Writes the built page as C++: node embed.mjs PAGE_FOLDER OUT.cpp
// What the functions mean stands in src/server/web_page.h.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// Octal escapes end by themselves after three digits; escaped question marks make no trigraphs.
/** Bytes as string literals, one for each line. */
function literals(bytes) {
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
  if (line) lines.push(`    "${line}"`);
  return lines.join('\n');
}

function source(page, policy) {
  return `// Made by web/embed.mjs.
#include "server/web_page.h"

namespace fathom::server {
namespace {

constexpr char kPage[] =
${literals(page)};
constexpr char kPolicy[] =
${literals(policy)};

}  // namespace

std::optional<std::string_view> web_page() { return std::string_view(kPage, sizeof(kPage) - 1); }
std::string_view web_page_policy() { return kPolicy; }
std::string_view web_page_absence() { return ""; }

}  // namespace fathom::server
`;
}

const [, , folder, out] = process.argv;
writeFileSync(out, source(readFileSync(join(folder, 'index.html')), readFileSync(join(folder, 'csp.txt'))));
