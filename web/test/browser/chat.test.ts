import assert from 'node:assert/strict';
import { answered, ask, composer, pageTest } from './browser';
import { says, type Script } from './mock';

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

pageTest('a question: thought shown live, folded when done, then the answer', {}, async ({ page, mock, shot }) => {
  let go = () => {};
  const gate = () => new Promise<void>((resolve) => (go = resolve));
  let stage = gate();
  mock.script = async (reply) => {
    reply.open();
    await stage;
    stage = gate();
    reply.thought('First I look at the **question**.');
    await stage;
    stage = gate();
    reply.text('The answer is $x^2$, so \\[\\boxed{42}\\]');
    await stage;
    reply.end('stop', 30, 10);
  };
  await page.getByText('What would you like to know?').waitFor();
  assert.equal(await page.locator('.model').textContent(), 'demo');
  await shot('welcome');
  await ask(page, 'What is it?\nTell me.');
  await page.getByText('Reading your question…').waitFor();
  go();
  await page.getByRole('button', { name: /^Thinking/ }).waitFor();
  await page.locator('.thought-text strong', { hasText: 'question' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /^Thinking/ }).getAttribute('aria-expanded'), 'true');
  assert.equal(await page.getByRole('status').first().textContent(), 'Thinking');
  go();
  const fold = page.getByRole('button', { name: /^Thought for/ });
  await fold.waitFor();
  assert.equal(await fold.getAttribute('aria-expanded'), 'false');
  assert.equal(await page.locator('.thought-text').count(), 0);
  go();
  await answered(page);
  assert.equal(await page.locator('.katex .fbox').count(), 1);
  assert.match((await page.locator('.took-line').textContent()) ?? '', /^30 tokens · .* tokens\/s/);
  await fold.click();
  await page.locator('.thought-text').getByText('First I look').waitFor();
  assert.equal(await page.title(), 'What is it? · Fathom');
  assert.deepEqual(mock.asked[0]?.messages, [{ role: 'user', content: 'What is it?\nTell me.' }]);
  assert.equal(mock.asked[0]?.temperature, 0.6);
  assert.equal(mock.asked[0]?.top_p, 0.95);
  assert.equal(mock.asked[0]?.stream, true);
  assert.equal(mock.asked[0]?.model, 'demo');
});

pageTest('Enter sends, Shift+Enter makes a line, and empty words are not sent', {}, async ({ page, mock }) => {
  await composer(page).press('Enter');
  await composer(page).fill('   ');
  await composer(page).press('Enter');
  assert.ok(await page.getByRole('button', { name: 'Send' }).isDisabled());
  await composer(page).fill('');
  await composer(page).pressSequentially('one');
  await composer(page).press('Shift+Enter');
  await composer(page).pressSequentially('two');
  await composer(page).press('Enter');
  await page.getByText('Hello.').waitFor();
  assert.deepEqual(mock.asked.map((asked) => asked.messages), [[{ role: 'user', content: 'one\ntwo' }]]);
  assert.equal(await composer(page).inputValue(), '');
});

const endless: Script = async (reply) => {
  for (let i = 0; !reply.gone && i < 2000; ++i) {
    reply.text(`word${i} `);
    await pause(5);
  }
};

pageTest('stop by button and by Esc ends the request and keeps what came', {}, async ({ page, mock }) => {
  let gone = 0;
  mock.script = async (reply, asked) => {
    await endless(reply, asked);
    if (reply.gone) ++gone;
  };
  await ask(page, 'go on for ever');
  await page.getByText('word3 ').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped.', { exact: true }).waitFor();
  await answered(page);
  await page.getByText('word3 ').waitFor();
  await ask(page, 'again');
  await page.locator('.answer').nth(1).getByText('word3 ').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('Stopped.', { exact: true }).nth(1).waitFor();
  for (let i = 0; i < 100 && gone < 2; ++i) await pause(20);
  assert.equal(gone, 2, 'the server saw both connections end');
  // What was said so far is part of the next question.
  assert.match(mock.asked[1]?.messages[1]?.content ?? '', /^word0 word1 /);
});

pageTest('answer again makes a version beside the first, and both can be read', {}, async ({ page, mock }) => {
  mock.script = says('', 'First answer.');
  await ask(page, 'Say something');
  await page.getByText('First answer.').waitFor();
  mock.script = says('', 'Second answer.');
  await page.getByRole('button', { name: 'Answer again' }).click();
  await page.getByText('Second answer.').waitFor();
  assert.equal(await page.getByText('First answer.').count(), 0);
  await page.getByLabel('Version 2 of 2').waitFor();
  await page.getByRole('button', { name: 'Version before' }).click();
  await page.getByText('First answer.').waitFor();
  assert.deepEqual(mock.asked[1]?.messages, [{ role: 'user', content: 'Say something' }]);
});

pageTest('an earlier question can be edited, which opens a branch', {}, async ({ page, mock }) => {
  mock.script = (reply, asked) => says('', `You said: ${asked.messages[asked.messages.length - 1]?.content}`)(reply, asked);
  await ask(page, 'one');
  await page.getByText('You said: one').waitFor();
  await ask(page, 'two');
  await page.getByText('You said: two').waitFor();
  await page.locator('.question').first().hover();
  await page.getByRole('button', { name: 'Edit question' }).first().click();
  const editor = page.getByLabel('Edit your question');
  await editor.fill('uno');
  await editor.press('Enter');
  await page.getByText('You said: uno').waitFor();
  await answered(page);
  assert.equal(await page.getByText('You said: two').count(), 0);
  assert.deepEqual(mock.asked[2]?.messages, [{ role: 'user', content: 'uno' }]);
  await page.locator('.question').hover();
  await page.getByRole('button', { name: 'Version before' }).click();
  await page.getByText('You said: two').waitFor();
  // Arrow up in the empty field edits the last question; Esc leaves it as it was.
  await composer(page).press('ArrowUp');
  await page.getByLabel('Edit your question').press('Escape');
  await page.getByText('You said: two').waitFor();
  assert.equal(mock.asked.length, 3);
});

pageTest('conversations stay after a reload, and can be renamed, saved and deleted', {}, async ({ page, mock, shot }) => {
  mock.script = says('a thought', 'Blue.');
  await ask(page, 'Which colour has the sky?');
  await page.getByText('Blue.').waitFor();
  await answered(page);
  await page.keyboard.press('Control+k');
  await page.getByText('What would you like to know?').waitFor();
  mock.script = says('', 'Green.');
  await ask(page, 'And grass?');
  await page.getByText('Green.').waitFor();
  await answered(page);
  await page.reload();
  await page.getByText('Green.').waitFor();
  const list = page.getByRole('navigation', { name: 'Conversations' });
  await list.getByRole('button', { name: 'Which colour has the sky?', exact: true }).click();
  await page.getByText('Blue.').waitFor();
  await page.keyboard.press('Alt+ArrowUp');
  await page.getByText('Green.').waitFor();

  await list.getByRole('button', { name: 'More for Which colour has the sky?' }).click();
  await shot('menu');
  const saved = page.waitForEvent('download');
  await list.getByRole('button', { name: 'Save as Markdown' }).click();
  const file = await saved;
  assert.equal(file.suggestedFilename(), 'Which-colour-has-the-sky.md');
  let text = '';
  for await (const part of await file.createReadStream()) text += String(part);
  assert.match(text, /^# Which colour has the sky\?\n\n## You\n\nWhich colour has the sky\?\n\n## demo\n/);

  await list.getByRole('button', { name: 'More for Which colour has the sky?' }).click();
  await list.getByRole('button', { name: 'Rename' }).click();
  await page.getByLabel('New name').fill('Sky');
  await page.getByLabel('New name').press('Enter');
  await list.getByRole('button', { name: 'Sky', exact: true }).waitFor();

  await list.getByRole('button', { name: 'More for And grass?' }).click();
  await list.getByRole('button', { name: 'Delete' }).click();
  await list.getByRole('button', { name: 'Delete for good?' }).click();
  await page.getByText('What would you like to know?').waitFor();
  await page.reload();
  await list.getByRole('button', { name: 'Sky', exact: true }).waitFor();
  assert.equal(await list.getByRole('button', { name: 'And grass?', exact: true }).count(), 0);
});

pageTest('everything can be saved as JSON and added again', {}, async ({ page, mock }) => {
  mock.script = says('', 'Kept.');
  await ask(page, 'Keep this');
  await page.getByText('Kept.').waitFor();
  await answered(page);
  await page.getByRole('button', { name: 'Settings' }).click();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save all as JSON' }).click();
  const path = await (await saved).path();
  await page.getByLabel('A file of conversations').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{"no":1}') });
  await page.getByText('This file is no export of conversations.').waitFor();
  await page.getByLabel('A file of conversations').setInputFiles(path);
  await page.getByText('One conversation added.').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('button', { name: 'Keep this', exact: true }).count(), 2);
});

pageTest('an answer goes on while another conversation is read', {}, async ({ page, mock }) => {
  let go = () => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  mock.script = async (reply) => {
    reply.text('Begin ');
    await held;
    reply.text('and end.');
    reply.end();
  };
  await ask(page, 'slow one');
  await page.getByText('Begin').waitFor();
  await page.keyboard.press('Control+k');
  mock.script = says('', 'Quick.');
  await ask(page, 'quick one');
  await page.getByText('Quick.').waitFor();
  go();
  await page.getByRole('button', { name: 'slow one', exact: false }).first().click();
  await page.getByText('Begin and end.').waitFor();
});

pageTest('a page that is closed in mid-answer keeps what came, to be continued', {}, async ({ page, mock, expectConsole }) => {
  expectConsole(/ERR_|Failed to load/);
  mock.script = async (reply) => {
    reply.thought('hm');
    reply.text('Half of ');
    await new Promise((resolve) => reply.response.on('close', resolve));
  };
  await ask(page, 'tell');
  await page.getByText('Half of').waitFor();
  await page.waitForTimeout(2300); // kept every two seconds
  await page.reload();
  await page.getByText('Half of').waitFor();
  await page.getByText('The answer was cut.').waitFor();
  mock.script = (reply) => {
    reply.text('it.');
    reply.end();
  };
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('Half of it.').waitFor();
  await answered(page);
  const last = mock.asked[1];
  assert.equal(last?.continue_final_message, true);
  assert.deepEqual(last?.messages[1], { role: 'assistant', content: 'Half of ', reasoning_content: 'hm' });
});
