// Headless Chromium, and what every test of the page asks of it: no error in the console, nothing
// refused by the policy, no request to anyone but the server of the page.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { Mock } from './mock';

const executable = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));
export const shots = join(import.meta.web, '../build/web/shots');
mkdirSync(shots, { recursive: true });

let browser: Promise<Browser> | undefined;
after(async () => {
  await (await browser)?.close();
});
const chromiumOnce = () =>
  (browser ??= chromium.launch({ executablePath: executable, args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'] }));

export interface Bench {
  page: Page;
  mock: Mock;
  shot(name: string): Promise<void>;
  /** Errors that the test brings about on purpose: the console lines that match are left out. */
  expectConsole(pattern: RegExp): void;
}

type Options = BrowserContextOptions & { open?: boolean };

/** A test with a page of its own, and a mock server that it was loaded from. */
export function pageTest(name: string, options: Options, work: (bench: Bench) => Promise<void>): void {
  test(name, { skip: executable ? false : 'Chromium is not installed', timeout: 120_000 }, async () => {
    const mock = new Mock();
    await mock.start();
    try {
      await withPage(mock.url, options, (page, expectConsole) =>
        work({ page, mock, expectConsole, shot: async (file) => void (await page.screenshot({ path: join(shots, `${file}.png`) })) }),
      );
    } finally {
      await mock.stop();
    }
  });
}

export async function withPage(
  url: string,
  { open = true, ...options }: Options,
  work: (page: Page, expectConsole: (pattern: RegExp) => void) => Promise<void>,
): Promise<void> {
  const context = await (await chromiumOnce()).newContext({ viewport: { width: 1200, height: 800 }, locale: 'en-US', ...options });
  context.setDefaultTimeout(30_000);
  const wrong: string[] = [];
  const expected: RegExp[] = [];
  const origin = new URL(url).origin;
  try {
    context.on('request', (request) => {
      const address = request.url();
      if (!address.startsWith(`${origin}/`) && !/^(?:data|blob|file):/.test(address)) wrong.push(`asked ${address}`);
    });
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') wrong.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => wrong.push(`thrown: ${error.stack ?? error.message}`));
    if (open) await page.goto(url);
    await work(page, (pattern) => expected.push(pattern));
    const unexpected = wrong.filter((line) => !expected.some((pattern) => pattern.test(line)));
    assert.deepEqual(unexpected, []);
  } finally {
    await context.close();
  }
}

export const composer = (page: Page) => page.getByLabel('Your question', { exact: true }).and(page.locator('textarea'));

export async function ask(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

/** Until the last answer is complete. */
export async function answered(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Send' }).waitFor();
}
