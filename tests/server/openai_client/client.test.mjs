// The official client against the program and its demo model.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Ajv from 'ajv';
import OpenAI from 'openai';
import { serve } from './serve.mjs';
import { checkTypes } from './types.mjs';

const ask = (content, more = {}) => ({
  model: 'demo',
  messages: [{ role: 'user', content }],
  temperature: 0,
  ...more,
});
const sum = ask('What is 47+85?');
const tools = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Adds two numbers.',
      parameters: {
        type: 'object',
        properties: { a: { type: 'integer' }, b: { type: 'integer' } },
        required: ['a', 'b'],
        additionalProperties: false,
      },
    },
  },
];

let server;
let client;
const samples = [];
before(async () => {
  server = await serve();
  client = server.client();
});
after(async () => {
  assert.equal(await server.stop(), 0);
});

test('models', async () => {
  const models = [];
  for await (const model of await client.models.list()) models.push(model);
  assert.deepEqual(models.map((model) => model.id), ['demo', 'deepseek-reasoner']);
  const one = await client.models.retrieve('deepseek-reasoner');
  samples.push(['OpenAI.Model', one]);
  await assert.rejects(client.models.retrieve('none'), OpenAI.NotFoundError);
});

test('a whole answer and a streamed one are the same', async () => {
  const whole = await client.chat.completions.create({ ...sum, logprobs: true, top_logprobs: 2 });
  samples.push(['OpenAI.ChatCompletion', whole]);
  const { message } = whole.choices[0];
  assert.match(message.content, /132/);
  assert.ok(message.reasoning_content.length > 0);
  assert.equal(whole.choices[0].logprobs.content.length, whole.usage.completion_tokens);

  let reasoning = '';
  let content = '';
  let usage;
  const stream = await client.chat.completions.create({
    ...sum,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    samples.push(['OpenAI.ChatCompletionChunk', chunk]);
    usage = chunk.usage ?? usage;
    const delta = chunk.choices[0]?.delta ?? {};
    if (delta.reasoning_content) assert.equal(content, '');
    reasoning += delta.reasoning_content ?? '';
    content += delta.content ?? '';
  }
  assert.equal(content, message.content);
  assert.equal(reasoning, message.reasoning_content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 0);

  const helped = await client.chat.completions.stream(sum).finalChatCompletion();
  assert.equal(helped.choices[0].message.content, message.content);
});

test('several choices, stops and limits', async () => {
  const several = await client.chat.completions.create({ ...sum, n: 3, temperature: 1, seed: 5 });
  assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1, 2]);
  const stopped = await client.chat.completions.create({ ...sum, stop: ['is'] });
  assert.ok(!stopped.choices[0].message.content.includes('is'));
  const short = await client.chat.completions.create({ ...sum, max_completion_tokens: 3 });
  assert.equal(short.choices[0].finish_reason, 'length');
  assert.equal(short.usage.completion_tokens, 3);
});

test('completions', async () => {
  const whole = await client.completions.create({
    model: 'demo', prompt: ['What is 47+85?', 'Hello'], max_tokens: 8, temperature: 0, logprobs: 1,
  });
  samples.push(['OpenAI.Completion', whole]);
  assert.equal(whole.choices.length, 2);
  let text = '';
  const stream = await client.completions.create({
    model: 'demo', prompt: 'What is 47+85?', max_tokens: 8, temperature: 0, echo: true, stream: true,
  });
  for await (const chunk of stream) text += chunk.choices[0].text;
  assert.equal(text, 'What is 47+85?' + whole.choices[0].text);
});

test('tools that need not be called', async () => {
  const answer = await client.chat.completions.create({ ...sum, tools, tool_choice: 'auto' });
  assert.ok(['stop', 'length', 'tool_calls'].includes(answer.choices[0].finish_reason));
  const none = await client.chat.completions.create({ ...sum, tools, tool_choice: 'none' });
  assert.match(none.choices[0].message.content, /132/);
  // The second round: a call and its result are part of the prompt.
  const second = await client.chat.completions.create({
    ...sum,
    tools,
    messages: [
      ...sum.messages,
      {
        role: 'assistant',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a":47,"b":85}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: '132' },
    ],
  });
  assert.ok(second.usage.prompt_tokens > answer.usage.prompt_tokens);
});

test('tools that must be called, and what comes of them', async () => {
  const small = [
    {
      type: 'function',
      function: {
        name: 'decide',
        parameters: {
          type: 'object',
          properties: { sure: { enum: ['yes', 'no'] }, times: { type: 'integer', minimum: 1, maximum: 9 } },
          required: ['sure', 'times'],
          additionalProperties: false,
        },
      },
    },
  ];
  const more = { tools: small, tool_choice: 'required', parallel_tool_calls: false };
  const first = await client.chat.completions.create({ ...sum, ...more });
  samples.push(['OpenAI.ChatCompletion', first]);
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  const [call] = first.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'decide');
  const valid = new Ajv().compile(small[0].function.parameters);
  assert.ok(valid(JSON.parse(call.function.arguments)), call.function.arguments);
  const streamed = await client.chat.completions.stream({ ...sum, ...more }).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const second = await client.chat.completions.create({
    ...sum,
    tools: small,
    messages: [...sum.messages, first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'yes' }],
  });
  assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
});

test('answers in a form', async () => {
  const schema = {
    $defs: { digit: { type: 'integer', minimum: 0, maximum: 9 } },
    type: 'object',
    properties: {
      kind: { enum: ['sum', 'product'] },
      digits: { type: 'array', items: { $ref: '#/$defs/digit' }, minItems: 1, maxItems: 3 },
      unit: { anyOf: [{ const: 'm' }, { type: 'null' }] },
    },
    required: ['kind', 'digits', 'unit'],
    additionalProperties: false,
  };
  const valid = new Ajv().compile(schema);
  for (let seed = 0; seed < 8; ++seed) {
    const answer = await client.chat.completions.create({
      ...sum,
      temperature: 1,
      seed,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema, strict: true } },
    });
    const { finish_reason: finish, message } = answer.choices[0];
    if (finish === 'length') continue; // the thought took all there was
    assert.equal(finish, 'stop');
    assert.ok(valid(JSON.parse(message.content)), message.content);
  }
});

test('errors are the classes that the client knows', async () => {
  const failing = (more) => client.chat.completions.create({ ...sum, ...more });
  await assert.rejects(failing({ model: 'none' }), OpenAI.NotFoundError);
  await assert.rejects(failing({ temperature: -1 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    assert.equal(error.type, 'invalid_request_error');
    return true;
  });
  await assert.rejects(failing({ messages: [{ role: 'user', content: 'x'.repeat(5000) }] }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, 'context_length_exceeded');
    return true;
  });
});

test('a client that leaves ends its work', async () => {
  const stream = await client.chat.completions.create({ ...sum, stream: true, ignore_eos: true, n: 16 });
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    break; // aborts the request
  }
  // The counts are published a few times a second.
  const aborted = () => server.metric('vllm:request_success_total{model_name="demo",finished_reason="abort"');
  for (let i = 0; i < 500 && !((await aborted()) > 0); i++) await new Promise((go) => setTimeout(go, 20));
  assert.ok((await aborted()) > 0);
  while ((await server.metric('vllm:num_requests_running')) > 0) await new Promise((go) => setTimeout(go, 20));
});

test('keys and full queues', async () => {
  const guarded = await serve('--api-key', 'right', '--max-sequences', '1', '--queue', '0');
  await assert.rejects(guarded.client().models.list(), OpenAI.AuthenticationError);
  const known = guarded.client({ apiKey: 'right' });
  const stream = await known.chat.completions.create({ ...sum, stream: true, ignore_eos: true, n: 16 });
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    await assert.rejects(known.chat.completions.create(sum), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.ok(Number(error.headers.get('retry-after')) >= 1);
      return true;
    });
    break;
  }
  assert.equal(await guarded.stop(), 0);
});

test('answers fit the types of the client', () => {
  assert.ok(samples.length > 10);
  checkTypes(samples);
});
