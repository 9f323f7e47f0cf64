import { type Conversation, checkedConversation, pathOf } from './conversation';

const format = 'fathom-conversations';

export function exportJson(conversations: Conversation[]): string {
  return JSON.stringify({ format, version: 1, conversations }, null, 2) + '\n';
}

/** The conversations of an export; an error in words where it is none. */
export function importJson(text: string): Conversation[] {
  let value: { format?: unknown; conversations?: unknown };
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    throw new Error('This file is no JSON.');
  }
  if (value?.format !== format || !Array.isArray(value.conversations)) {
    throw new Error('This file is no export of conversations.');
  }
  return value.conversations.map((entry, i) => {
    const conversation = checkedConversation(entry);
    if (!conversation) throw new Error(`Conversation ${i + 1} of the file is damaged.`);
    return conversation;
  });
}

const quoted = (text: string) => text.replace(/^/gm, '> ');

/** The branch that is shown, for people to read. */
export function exportMarkdown(conversation: Conversation): string {
  const parts = [`# ${conversation.title || 'Conversation'}`];
  if (conversation.system) parts.push(`**System**\n\n${conversation.system}`);
  for (const message of pathOf(conversation)) {
    if (message.role === 'user') {
      parts.push(`## You\n\n${message.content}`);
      continue;
    }
    parts.push(`## ${message.model ?? 'Answer'}`);
    if (message.reasoning.trim()) parts.push(`<details><summary>Thought</summary>\n\n${quoted(message.reasoning.trim())}\n\n</details>`);
    if (message.content) parts.push(message.content);
  }
  return parts.join('\n\n') + '\n';
}

export function fileName(title: string, extension: string): string {
  const plain = title.normalize('NFC').replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '').slice(0, 48);
  return `${plain || 'conversation'}.${extension}`;
}
