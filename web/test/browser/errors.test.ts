import assert from 'node:assert/strict';
import { answered, ask, composer, pageTest } from './browser';
import { says } from './mock';

// Chromium itself writes a line for every answer that is an error.
const failed = /Failed to load resource|net::ERR_/;

pageTest('no server: said at once, and again when it is back', {}, async ({ page, mock, expectConsole, shot }) => {
  expectConsole(failed);
  await page.locator('.model', { hasText: 'demo' }).waitFor();
  const { port } = mock;
  await mock.stop();
  await ask(page, 'Is anybody there?');
  await page.locator('.failure').getByText('The server does not answer').waitFor();
  await page.locator('.banner').getByText('The server does not answer').waitFor();
  await shot('gone');
  const { Mock } = await import('./mock');
  const second = new Mock();
  second.script = says('', 'Yes.');
  await second.start(port);
  try {
    await page.locator('.banner').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Yes.').waitFor();
    // The answer that never came left no version behind.
    assert.equal(await page.locator('.branches').count(), 0);
  } finally {
    await second.stop();
    await mock.start(0);
  }
});

pageTest('a full queue: counts down, then asks again', {}, async ({ page, mock, expectConsole, shot }) => {
  expectConsole(failed);
  mock.script = (reply) => reply.error(429, 'queue_full', 'The queue is full: 64 requests wait.', { 'retry-after': '2' });
  await ask(page, 'Now?');
  const button = page.getByRole('button', { name: /^Try again/ });
  await button.waitFor();
  assert.ok(await button.isDisabled());
  assert.match((await button.textContent()) ?? '', /^Try again in [12] s$/);
  await page.getByText('The queue is full: 64 requests wait.').waitFor();
  await shot('busy');
  mock.script = says('', 'Now.');
  await page.getByRole('button', { name: 'Try again', exact: true }).click();
  await page.getByText('Now.', { exact: true }).waitFor();
});

pageTest('a conversation that is too long', {}, async ({ page, mock, expectConsole }) => {
  expectConsole(failed);
  mock.script = (reply) => reply.error(400, 'context_length_exceeded', 'This model takes 4096 tokens; the messages have 5000.');
  await ask(page, 'Long');
  await page.getByText('This model takes 4096 tokens; the messages have 5000.').waitFor();
  await page.locator('.failure').getByRole('button', { name: 'New chat' }).click();
  await page.getByText('What would you like to know?').waitFor();
});

pageTest('a connection that ends in mid-answer is continued', {}, async ({ page, mock, expectConsole, shot }) => {
  expectConsole(failed);
  mock.script = async (reply) => {
    reply.thought('Counting.');
    reply.text('One, two, ');
    await new Promise((resolve) => setTimeout(resolve, 200));
    reply.cut();
  };
  await ask(page, 'Count');
  await page.getByText('The connection ended in the middle of the answer').waitFor();
  await page.getByText('One, two,').waitFor();
  await shot('cut');
  mock.script = (reply) => {
    reply.text('three.');
    reply.end();
  };
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('One, two, three.').waitFor();
  await answered(page);
  assert.equal(await page.locator('.failure').count(), 0);
  assert.equal(mock.asked[1]?.continue_final_message, true);
});

pageTest('a thought that was cut goes on as a thought', {}, async ({ page, mock, expectConsole }) => {
  expectConsole(failed);
  mock.script = (reply) => {
    reply.thought('Let me see');
    reply.end('length');
  };
  await ask(page, 'Think');
  await page.getByText('The answer reached its longest length.').waitFor();
  mock.script = says(': yes.', 'Done.');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('Done.', { exact: true }).waitFor();
  await answered(page);
  await page.getByRole('button', { name: /^Thought for/ }).click();
  await page.getByText('Let me see: yes.').waitFor();
  assert.deepEqual(mock.asked[1]?.messages[1], { role: 'assistant', content: '', reasoning_content: 'Let me see' });
});

pageTest('an error inside the stream', {}, async ({ page, mock }) => {
  mock.script = (reply) => {
    reply.text('So ');
    reply.raw('data: {"error":{"message":"A shard could not be read: model-00007.safetensors","type":"server_error","code":null}}\n\n');
    reply.response.end();
  };
  await ask(page, 'Read');
  await page.getByText('A shard could not be read: model-00007.safetensors').waitFor();
  await page.getByText('So', { exact: true }).waitFor();
});

pageTest('a server that asks for a key', {}, async ({ page, mock, expectConsole, shot }) => {
  expectConsole(failed);
  await page.locator('.model', { hasText: 'demo' }).waitFor();
  mock.key = 'secret';
  mock.script = says('', 'Welcome.');
  await ask(page, 'Hello?');
  const dialog = page.getByRole('dialog', { name: 'This server asks for a key' });
  await dialog.waitFor();
  await shot('key');
  await dialog.getByLabel('API key').fill('wrong');
  await dialog.getByRole('button', { name: 'Use this key' }).click();
  await dialog.getByText('The server does not take this key.').waitFor();
  await dialog.getByLabel('API key').fill('secret');
  await dialog.getByRole('button', { name: 'Use this key' }).click();
  await page.getByText('Welcome.').waitFor();
  assert.equal(mock.headers.at(-1)?.authorization, 'Bearer secret');
  await page.reload();
  await page.locator('.model', { hasText: 'demo' }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('fathom.key')), null, 'kept for this window only');
});

pageTest('a model that is still being loaded', { open: false }, async ({ page, mock, expectConsole }) => {
  expectConsole(failed);
  mock.models = 503;
  await page.goto(mock.url);
  await page.getByText('The model is being loaded…').waitFor();
  mock.models = [{ id: 'late-model' }];
  await page.locator('.model', { hasText: 'late-model' }).waitFor();
  await page.getByText('The model is being loaded…').waitFor({ state: 'detached' });
});

pageTest('waiting in the queue, then reading', {}, async ({ page, mock, shot }) => {
  let go = () => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  mock.metrics = 'vllm:num_requests_running{model_name="demo"} 8\nvllm:num_requests_waiting{model_name="demo"} 3\n';
  mock.script = async (reply) => {
    reply.open();
    reply.raw(': keep-alive\n\n');
    await held;
    reply.raw(': keep-alive\n\n');
    reply.text('At last.');
    reply.end();
  };
  await ask(page, 'Busy?');
  await page.getByText('Waiting for a place (3 requests in the queue)').waitFor();
  mock.metrics = 'vllm:num_requests_running{model_name="demo"} 8\nvllm:num_requests_waiting{model_name="demo"} 0\n';
  await page.getByText('Reading your question…').waitFor();
  await shot('reading');
  go();
  await page.getByText('At last.').waitFor();
});

pageTest('a server without metrics', {}, async ({ page, mock, expectConsole }) => {
  expectConsole(/404/);
  mock.metrics = '';
  await ask(page, 'Hi');
  await page.getByText('Hello.').waitFor();
  await answered(page);
  await ask(page, 'Hi');
  await page.getByText('Hello.').nth(1).waitFor();
});

pageTest('where the time went', {}, async ({ page, mock, shot }) => {
  const work = (disk: number, passes: number) =>
    `fathom:disk_wait_seconds_total{m="x"} ${disk}\nfathom:compute_seconds_total{m="x",part="attention"} 1\nfathom:compute_seconds_total{m="x",part="experts"} ${passes - 1}\n`;
  mock.metrics = work(0, 2);
  mock.script = async (reply) => {
    reply.text('Slow.');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    mock.metrics = work(0.6, 2.8);
    reply.end();
  };
  await ask(page, 'How slow?');
  const took = page.getByRole('button', { name: /disk \d+ % · compute \d+ %/ });
  await took.click();
  await page.getByText(/Waiting for the disk \d+ %/).waitFor();
  await shot('took');
});

pageTest('a browser whose storage is full says so and goes on', {}, async ({ page, mock }) => {
  await page.evaluate(() => {
    IDBObjectStore.prototype.put = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
  });
  mock.script = says('', 'Still here.');
  await ask(page, 'Store this');
  await page.getByText('Still here.').waitFor();
  await page.getByText('The browser has no room left for conversations.').waitFor();
  await page.getByRole('button', { name: 'Dismiss' }).click();
  assert.equal(await composer(page).isEditable(), true);
});

pageTest('a browser without storage says that nothing is kept', { open: false }, async ({ page, mock }) => {
  await page.addInitScript(() => {
    Object.defineProperty(globalThis, 'indexedDB', { get: () => undefined });
  });
  await page.goto(mock.url);
  await page.getByText('This browser keeps nothing for this page').waitFor();
  await ask(page, 'Hi');
  await page.getByText('Hello.').waitFor();
});
