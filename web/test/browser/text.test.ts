// How an answer is drawn: Markdown, code, formulas; on paper, in the dark and on a phone.
import assert from 'node:assert/strict';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { answered, ask, pageTest } from './browser';
import { says } from './mock';

const thought = Array.from(
  { length: 12 },
  (_, i) => `Step ${i + 1}: the sum of the first ${i + 1} odd numbers is $${i + 1}^2 = ${(i + 1) ** 2}$, as it should be.`,
).join('\n\n');

const rich = `The sum of the first $n$ odd numbers is a **square**. Write it as

\\[\\sum_{k=1}^{n} (2k-1) = 2\\cdot\\frac{n(n+1)}{2} - n = n^2\\]

### Why it holds

1. Each odd number is an *L-shaped* border of dots.
2. The border with $2k-1$ dots turns a square of side $k-1$ into one of side $k$:
   - top row: $k$ dots
   - right column: $k-1$ dots

| $n$ | odd numbers | sum |
|----:|:------------|----:|
| 1 | 1 | 1 |
| 2 | 1 + 3 | 4 |
| 3 | 1 + 3 + 5 | 9 |

In code, with \`range\`:

\`\`\`python
def odd_sum(n: int) -> int:
    """The sum of the first n odd numbers."""
    return sum(2 * k + 1 for k in range(n))  # n squared

assert odd_sum(12) == 144
\`\`\`

> A proof without words is still a proof.

So for $n = 12$ the answer is

$$\\boxed{144}$$`;

async function showRich(page: Page): Promise<void> {
  await ask(page, 'Explain why the sum of the first n odd numbers is n², and give it for n = 12.');
  await page.locator('.fbox').waitFor();
  await answered(page);
}

const noSidewaysScroll = (page: Page) =>
  page.evaluate(() => {
    const widest = Math.max(document.documentElement.scrollWidth, document.querySelector('.thread')?.scrollWidth ?? 0);
    return widest <= innerWidth;
  });

// WCAG's contrast of all small text with what is behind it, the least and where.
const leastContrast = (page: Page) =>
  page.evaluate(() => {
    const parse = (colour: string) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const over = (top: number[], under: number[]) => {
      const alpha = top[3] ?? 1;
      return [0, 1, 2].map((i) => (top[i] ?? 0) * alpha + (under[i] ?? 0) * (1 - alpha));
    };
    const light = (colour: number[]) => {
      const [r = 0, g = 0, b = 0] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element: Element | null): number[] => {
      if (!element) return [255, 255, 255];
      const colour = parse(getComputedStyle(element).backgroundColor.replace(/color\(srgb ([\d. ]+)\/?.*/, 'rgba(0,0,0,0)'));
      return (colour[3] ?? 1) >= 1 ? colour : over(colour, behind(element.parentElement));
    };
    let worst = { ratio: 99, text: '' };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      const text = node.textContent?.trim() ?? '';
      if (!element || !text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      if (element.closest('script, style, noscript, :disabled, .katex')) continue;
      const under = behind(element);
      const [a, b] = [light(over(parse(getComputedStyle(element).color), under)), light(under)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < worst.ratio) worst = { ratio, text };
    }
    return worst;
  });

const looks: [string, BrowserContextOptions][] = [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { colorScheme: 'light', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }],
];
for (const [look, options] of looks) {
  pageTest(`a rich answer can be read: ${look}`, options, async ({ page, mock, shot }) => {
    mock.script = says(thought, rich);
    await showRich(page);
    assert.equal(await page.locator('.answer .prose ol > li').count(), 2);
    assert.equal(await page.locator('.answer table tbody tr').count(), 3);
    assert.equal(await page.locator('.answer .katex-display').count(), 2);
    assert.equal(await page.locator('.formula-bad').count(), 0);
    assert.ok((await page.locator('.code .hl-keyword').count()) > 3);
    await shot(`rich-${look}-end`);
    await page.locator('.thread').evaluate((element) => element.scrollTo(0, 0));
    await shot(`rich-${look}`);
    await page.getByRole('button', { name: /^Thought for/ }).click();
    await page.getByText('Step 3:').waitFor();
    await shot(`thought-${look}`);
    const torn = await page.locator('.glued').evaluateAll((all) =>
      all.filter((one) => {
        const boxes = [...one.getClientRects()];
        return Math.max(...boxes.map((box) => box.top)) >= Math.min(...boxes.map((box) => box.bottom));
      }).length,
    );
    assert.equal(torn, 0, 'punctuation stays with its formula');
    assert.ok(await noSidewaysScroll(page), 'nothing is wider than the window');
    const { ratio, text } = await leastContrast(page);
    assert.ok(ratio >= 4.5, `contrast ${ratio.toFixed(2)} of "${text}"`);
  });
}

pageTest('code is copied as it is', { permissions: ['clipboard-read', 'clipboard-write'] }, async ({ page, mock }) => {
  const code = 'if (a < b && c > d) {\n\treturn "<b>";\n}';
  mock.script = says('', `Here:\n\n\`\`\`cpp\n${code}\n\`\`\``);
  await ask(page, 'Code, please');
  await answered(page);
  assert.equal(await page.locator('.code code').textContent(), code);
  await page.getByRole('button', { name: 'Copy code' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), code);
});

pageTest('a model’s words never become HTML, scripts or requests', {}, async ({ page, mock }) => {
  mock.script = says(
    '<img src="/thought.png" onerror="alert(1)">',
    [
      '<script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">',
      '[run](javascript:window.harmed=1) [tab](java\tscript:alert(1)) [data](data:text/html,x) [good](https://example.com/a?b=1&c=2)',
      '![picture](https://example.com/pixel.png)',
      '<https://example.org/auto> and &lt;b&gt;',
      '$\\href{javascript:alert(1)}{x}$ and $\\includegraphics{https://example.com/p.png}$ and $\\unknown{$',
    ].join('\n\n'),
  );
  let dialogs = 0;
  page.on('dialog', (dialog) => {
    ++dialogs;
    void dialog.dismiss();
  });
  await ask(page, 'Be evil');
  await answered(page);
  await page.getByRole('button', { name: /^Thought for/ }).click();
  await page.getByText('onerror="alert(1)"').waitFor();
  await page.getByText('<script>window.harmed = 1</script>').waitFor();
  assert.equal(await page.locator('.answer img, .answer script, .answer iframe').count(), 0);
  const links = await page.locator('.answer a').evaluateAll((all) => all.map((a) => [a.getAttribute('href'), a.getAttribute('rel')]));
  const rel = 'noopener noreferrer nofollow';
  assert.deepEqual(links, [
    ['https://example.com/a?b=1&c=2', rel],
    ['https://example.com/pixel.png', rel],
    ['https://example.org/auto', rel],
  ]);
  await page.getByText('run', { exact: true }).click();
  assert.equal(await page.evaluate(() => 'harmed' in window), false);
  assert.equal(dialogs, 0);
});

pageTest('a long answer stays at its end while it grows, unless a person scrolls away', {}, async ({ page, mock }) => {
  let more = () => {};
  mock.script = async (reply) => {
    for (let part = 0; part < 3; ++part) {
      for (let i = 0; i < 40; ++i) reply.text(`Line ${part * 40 + i}.\n\n`);
      if (part < 2) await new Promise<void>((resolve) => (more = resolve));
    }
    reply.end();
  };
  const thread = page.locator('.thread');
  const gap = () => thread.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
  await ask(page, 'Lines');
  await page.getByText('Line 39.').waitFor();
  assert.ok((await gap()) < 5);
  await thread.hover();
  await page.mouse.wheel(0, -600);
  const down = page.getByRole('button', { name: 'To the end' });
  await down.waitFor();
  const top = await thread.evaluate((element) => element.scrollTop);
  more();
  await page.getByText('Line 79.').waitFor();
  assert.equal(await thread.evaluate((element) => element.scrollTop), top, 'what is read does not move');
  await down.click();
  assert.ok((await gap()) < 5);
  more();
  await page.getByText('Line 119.').waitFor();
  await answered(page);
  assert.ok((await gap()) < 5);
});

pageTest('the theme is chosen and kept', { colorScheme: 'light' }, async ({ page }) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const theme = (name: string) => page.locator(`html[data-theme=${name}]`).waitFor({ state: 'attached' });
  await theme('light');
  const light = await paper();
  await page.getByRole('radio', { name: 'Dark' }).click();
  await theme('dark');
  assert.notEqual(await paper(), light);
  await page.reload();
  await page.getByRole('radio', { name: 'Dark', checked: true }).waitFor();
  await theme('dark');
  await page.getByRole('radio', { name: 'As the system' }).click();
  await theme('light');
  assert.equal(await paper(), light);
  await page.emulateMedia({ colorScheme: 'dark' });
  await theme('dark');
});

pageTest('settings are checked, sent, kept and put back', {}, async ({ page, mock, shot }) => {
  await page.getByRole('button', { name: 'Settings' }).click();
  const dialog = page.getByRole('dialog', { name: 'Settings' });
  assert.equal(await dialog.getByLabel('Temperature').inputValue(), '0.6');
  assert.equal(await dialog.getByLabel('Top p').inputValue(), '0.95');
  await dialog.getByLabel('Temperature').fill('9');
  await dialog.getByText('From 0 to 2.').waitFor();
  await dialog.getByLabel('Temperature').fill('0,7');
  await dialog.getByLabel('Longest thought').fill('100');
  await shot('settings');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByText('Settings differ from the recommended ones').waitFor();
  await page.reload();
  await ask(page, 'Hi');
  await answered(page);
  assert.equal(mock.asked[0]?.temperature, 0.7);
  assert.equal(mock.asked[0]?.reasoning_budget, 100);
  assert.equal('seed' in (mock.asked[0] ?? {}), false);
  await page.getByRole('button', { name: 'Settings differ' }).click();
  await dialog.getByRole('button', { name: 'Reset to recommended' }).click();
  assert.equal(await dialog.getByLabel('Temperature').inputValue(), '0.6');
});

pageTest('on a phone: the list slides in, Enter makes a line', looks[2]?.[1] ?? {}, async ({ page, mock, shot }) => {
  mock.script = says('', 'Hello from here.');
  await page.getByLabel('Your question', { exact: true }).fill('Hi');
  await page.getByLabel('Your question', { exact: true }).press('Enter');
  assert.equal(mock.asked.length, 0);
  await page.getByRole('button', { name: 'Send' }).tap();
  await page.getByText('Hello from here.').waitFor();
  const list = page.getByRole('navigation', { name: 'Conversations' });
  assert.equal(await list.count(), 0);
  await page.getByRole('button', { name: 'Show conversations' }).tap();
  await list.waitFor();
  await shot('phone-list');
  await list.getByRole('button', { name: 'Close' }).tap();
  assert.equal(await list.count(), 0);
});
