// A client that reads streams.
import http from 'node:http';

/** Streams one chat: {status, text, reasoning, finish, usage, first, seconds}; `first` is the time to
 *  its first text. Rejects where the connection breaks. */
export function stream(port, agent, body) {
  const began = performance.now();
  const answer = { status: 0, text: '', reasoning: '', finish: null, done: false, usage: null, first: null };
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port, agent, method: 'POST', path: '/v1/chat/completions' },
      (response) => {
        answer.status = response.statusCode;
        let rest = '';
        response.setEncoding('utf8');
        response.on('data', (piece) => {
          rest += piece;
          const events = rest.split('\n\n');
          rest = events.pop();
          for (const event of events) take(event, answer, began);
        });
        response.on('end', () => {
          answer.seconds = (performance.now() - began) / 1000;
          resolve(answer);
        });
        response.on('error', reject);
      },
    );
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}

function take(event, answer, began) {
  if (event.startsWith(':')) return;
  if (event === 'data: [DONE]') {
    answer.done = true;
    return;
  }
  const chunk = JSON.parse(event.slice('data: '.length));
  if (chunk.error) throw new Error(chunk.error.message);
  if (chunk.usage) answer.usage = chunk.usage;
  const choice = chunk.choices[0];
  if (!choice) return;
  if (answer.first === null && (choice.delta.content || choice.delta.reasoning_content)) {
    answer.first = (performance.now() - began) / 1000;
  }
  answer.text += choice.delta.content ?? '';
  answer.reasoning += choice.delta.reasoning_content ?? '';
  answer.finish = choice.finish_reason ?? answer.finish;
}

/** What must be the same however busy the server is. */
export const essence = (answer) =>
  JSON.stringify([answer.status, answer.reasoning, answer.text, answer.finish, answer.done,
    answer.usage?.completion_tokens]);
