// The page of the real program, with the demo model: FATHOM names it.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { answered, ask, shots, withPage } from './browser';

const program = process.env.FATHOM;

/** Starts a server on a free port; its address. */
async function serve(words: string[]): Promise<{ url: string; stop: () => Promise<void> }> {
  const server: ChildProcess = spawn(program as string, ['serve', '--json', '--port', '0', '--threads', '2', ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => server.on('close', () => resolve()));
  let errors = '';
  server.stderr?.on('data', (part) => (errors += String(part)));
  const url = await new Promise<string>((resolve, reject) => {
    let said = '';
    server.stdout?.on('data', (part) => {
      said += String(part);
      const end = said.indexOf('\n');
      if (end >= 0) resolve(`${(JSON.parse(said.slice(0, end)) as { url: string }).url}/`);
    });
    void ended.then(() => reject(new Error(`the server ended: ${errors}`)));
  });
  return {
    url,
    stop: async () => {
      server.kill('SIGTERM');
      await ended;
    },
  };
}

function serveTest(name: string, words: string[], work: (url: string) => Promise<void>): void {
  test(name, { skip: program ? false : 'FATHOM names no program', timeout: 120_000 }, async () => {
    const server = await serve(words);
    try {
      await work(server.url);
    } finally {
      await server.stop();
    }
  });
}

serveTest('fathom serve: a sum, its thought and what it took', [], async (url) => {
  const answer = await fetch(url);
  assert.match(answer.headers.get('content-security-policy') ?? '', /script-src 'sha256-[^;]*; style-src 'sha256-/);
  await withPage(url, {}, async (page) => {
    // The same answer each time.
    await page.evaluate(() => localStorage.setItem('fathom.settings', '{"temperature":0,"top_p":1}'));
    await page.reload();
    await page.locator('.model', { hasText: 'demo' }).waitFor();
    await ask(page, 'What is 47+85?');
    await answered(page);
    await page.getByRole('button', { name: /^Thought for/ }).waitFor();
    await page.locator('.answer .prose').getByText('132').first().waitFor();
    // The demo model may be too quick for a rate.
    const took = page.locator('.took-line');
    assert.match((await took.textContent()) ?? '', /^\d+ tokens · .* · compute \d+ %$/);
    await took.click();
    await page.getByText('Question and history').waitFor();
    await page.screenshot({ path: join(shots, 'serve.png') });
    await ask(page, 'What is 12+30?');
    await page.locator('.answer').nth(1).locator('.prose').getByText('42').first().waitFor();
    await answered(page);
    await page.getByRole('button', { name: 'Answer again' }).last().click();
    await page.getByLabel('Version 2 of 2').waitFor();
    await answered(page);
    await page.reload();
    await page.getByLabel('Version 2 of 2').waitFor();
  });
});

serveTest('fathom serve: a thought that was cut is continued to the same answer', [], async (url) => {
  await withPage(url, {}, async (page) => {
    await page.evaluate(() => localStorage.setItem('fathom.settings', '{"temperature":0,"top_p":1,"max_tokens":9}'));
    await page.reload();
    await ask(page, 'What is 47+85?');
    await page.getByText('The answer reached its longest length.').waitFor();
    await page.getByRole('button', { name: 'Thought, not finished' }).waitFor();
    await page.getByRole('button', { name: 'Settings', exact: true }).click();
    await page.getByLabel('Longest answer').fill('');
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('.answer .prose').getByText('132').first().waitFor();
    await page.getByRole('button', { name: /^Thought for/ }).waitFor();
  });
});

serveTest('fathom serve: a key, and a conversation that is too long', ['--api-key', 'secret', '--ctx', '64'], async (url) => {
  await withPage(url, {}, async (page, expectConsole) => {
    expectConsole(/Failed to load resource/);
    const dialog = page.getByRole('dialog', { name: 'This server asks for a key' });
    await dialog.getByLabel('API key').fill('secret');
    await dialog.getByRole('button', { name: 'Use this key' }).click();
    await page.locator('.model', { hasText: 'demo' }).waitFor();
    await ask(page, 'one two three four five six seven eight nine ten '.repeat(20));
    await page.getByText('The conversation is longer than the model’s context').waitFor();
  });
});
