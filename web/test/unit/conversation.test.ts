import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  changed, checkedConversation, childrenOf, choose, type Conversation, type Message, newConversation, newId, pathOf, titleFrom, withMessage, without,
} from '../../src/state/conversation';
import { exportJson, exportMarkdown, fileName, importJson } from '../../src/state/export';
import { chatRequest } from '../../src/state/request';
import { recommended } from '../../src/state/settings';

let clock = 1000;
const message = (id: string, parent: string, role: Message['role'], content: string, more: Partial<Message> = {}): Message => ({
  id, parent, role, content, reasoning: '', status: 'done', created: ++clock, ...more,
});

function sample(): Conversation {
  let conversation: Conversation = { ...newConversation(1), id: 'c', title: 'Sums' };
  conversation = withMessage(conversation, message('u1', '', 'user', 'What is 2+2?'));
  conversation = withMessage(conversation, message('a1', 'u1', 'assistant', '4', { reasoning: 'two and two', model: 'demo' }));
  conversation = withMessage(conversation, message('u2', 'a1', 'user', 'And 3+3?'));
  conversation = withMessage(conversation, message('a2', 'u2', 'assistant', '6'));
  return conversation;
}
const ids = (conversation: Conversation) => pathOf(conversation).map((entry) => entry.id);

test('an edit opens a branch, and both can be shown', () => {
  let conversation = withMessage(sample(), message('u1b', '', 'user', 'What is 5+5?'));
  assert.deepEqual(ids(conversation), ['u1b']);
  assert.deepEqual(childrenOf(conversation, '').map((entry) => entry.id), ['u1', 'u1b']);
  conversation = choose(conversation, conversation.messages.u1 as Message);
  assert.deepEqual(ids(conversation), ['u1', 'a1', 'u2', 'a2']);
});

test('removing takes what follows and falls back to what is left', () => {
  const branched = withMessage(sample(), message('a1b', 'u1', 'assistant', 'four'));
  assert.deepEqual(ids(without(branched, 'a1b')), ['u1', 'a1', 'u2', 'a2']);
  assert.deepEqual(Object.keys(without(branched, 'a1').messages), ['u1', 'a1b']);
});

test('a change makes new objects and leaves the old ones', () => {
  const before = sample();
  const after = changed(before, 'a2', { content: '7' });
  assert.equal(before.messages.a2?.content, '6');
  assert.equal(after.messages.a2?.content, '7');
  assert.equal(after.messages.a1, before.messages.a1);
  assert.equal(changed(before, 'nobody', { content: 'x' }), before);
});

test('what is stored is checked; an answer that was being written is cut', () => {
  const stored = JSON.parse(JSON.stringify(changed(sample(), 'a2', { status: 'streaming' }))) as Conversation;
  assert.equal(checkedConversation(stored)?.messages.a2?.status, 'cut');
  const bad: unknown[] = [null, 3, {}, { id: 'x' }, { id: 'x', messages: { a: { id: 'a', parent: '', role: 'system', content: '', reasoning: '' } } }, { id: 'x', messages: { a: null } }];
  for (const value of bad) assert.equal(checkedConversation(value), undefined, JSON.stringify(value));
});

test('a ring of parents ends', () => {
  const ring = { ...sample(), messages: { x: message('x', 'y', 'user', ''), y: message('y', 'x', 'user', ''), z: message('z', '', 'user', 'hi') } };
  assert.deepEqual(ids(ring), ['z']);
});

test('titles and file names', () => {
  assert.equal(titleFrom('  What is\t this?\nmore'), 'What is this?');
  assert.equal(titleFrom('word '.repeat(30)), 'word word word word word word word word word…');
  assert.equal(fileName('Größe: 世界/../x', 'md'), 'Größe-世界-x.md');
  assert.equal(fileName('///', 'json'), 'conversation.json');
  assert.equal(new Set(Array.from({ length: 1000 }, newId)).size, 1000);
});

test('export and import are inverse', () => {
  const conversations = [sample(), { ...sample(), id: 'd' }];
  assert.deepEqual(importJson(exportJson(conversations)), conversations);
  assert.throws(() => importJson('{'), /no JSON/);
  assert.throws(() => importJson('{"a":1}'), /no export/);
  assert.throws(() => importJson('{"format":"fathom-conversations","conversations":[{"id":1}]}'), /Conversation 1/);
});

test('Markdown holds the branch that is shown', () => {
  const text = exportMarkdown({ ...sample(), system: 'Be brief.' });
  assert.equal(
    text,
    '# Sums\n\n**System**\n\nBe brief.\n\n## You\n\nWhat is 2+2?\n\n## demo\n\n<details><summary>Thought</summary>\n\n> two and two\n\n</details>\n\n4\n\n' +
      '## You\n\nAnd 3+3?\n\n## Answer\n\n6\n',
  );
});

const asking = (conversation: Conversation) => ({ model: 'm', system: conversation.system, path: pathOf(conversation), settings: recommended });

test('a request holds no earlier thoughts, and a system prompt only where there is one', () => {
  const request = chatRequest(asking(sample()));
  assert.deepEqual(request.messages, [
    { role: 'user', content: 'What is 2+2?' },
    { role: 'assistant', content: '4' },
    { role: 'user', content: 'And 3+3?' },
    { role: 'assistant', content: '6' },
  ]);
  assert.equal(request.temperature, 0.6);
  assert.equal(request.top_p, 0.95);
  assert.deepEqual(Object.keys(request).sort(), ['messages', 'model', 'temperature', 'top_p']);
  const spoken = chatRequest({ ...asking(sample()), system: 'Be brief.' });
  assert.deepEqual(spoken.messages[0], { role: 'system', content: 'Be brief.' });
});

test('answers that never came are not sent', () => {
  const failed = changed(sample(), 'a2', { content: '', status: 'failed' });
  assert.deepEqual(chatRequest(asking(failed)).messages.map((entry) => entry.role), ['user', 'assistant', 'user']);
});
