// What is sent to the server for an answer.
import type { ChatMessage, ChatRequest } from '../api/client';
import type { Message } from './conversation';
import type { Settings } from './settings';

export interface Asking {
  model: string;
  system: string;
  /** From the first to the last message that the answer is to see. */
  path: Message[];
  settings: Settings;
  /** An answer that was cut, to be written on. */
  unfinished?: Message;
}

export function chatRequest({ model, system, path, settings, unfinished }: Asking): ChatRequest {
  const messages: ChatMessage[] = [];
  if (system.trim()) messages.push({ role: 'system', content: system });
  for (const message of path) {
    // Earlier thoughts are not fed back, and an answer that never came says nothing.
    if (message.role === 'user' || message.content) messages.push({ role: message.role, content: message.content });
  }
  const request: ChatRequest = { model, messages, ...settings };
  if (!unfinished) return request;
  // Without a word of the answer the thought is what is open, and goes on.
  const { content, reasoning } = unfinished;
  messages.push({ role: 'assistant', content, ...(reasoning ? { reasoning_content: reasoning } : {}) });
  return { ...request, continue_final_message: true };
}
