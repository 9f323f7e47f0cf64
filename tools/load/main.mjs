// The phases in order, a report, and the verdict.
import { alone, batch, crowd, kills, noise } from './phases.mjs';
import { chats } from './requests.mjs';
import { start } from './server.mjs';
import { essence, stream } from './client.mjs';

const options = { clients: 64, seconds: 60, kills: 16, malformed: 10000, sequences: 16 };
for (let i = 2; i < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '');
  const value = process.argv[i + 1];
  if (value === undefined || !(name in options || name === 'program' || name === 'model')) {
    console.error(`load-test: unknown or without a value: ${process.argv[i]}`);
    process.exit(2);
  }
  options[name] = name in options && name !== 'program' && name !== 'model' ? Number(value) : value;
}

// Memory may move by this much: threads and buffers come and go.
const kMemorySlack = 8 << 20;
const kMostMicroseconds = 50;

const problems = [];
const expect = (condition, words) => condition || problems.push(words);

const server = await start(options.program, [
  'serve', '--model', options.model, '--port', '0', '--json', '--threads', '1', '--max-sequences',
  `${options.sequences}`, '--queue', '1000']);
const requests = chats(48);
const expected = await alone(server, requests);
const report = { options };

report.crowd = await crowd(server, requests, expected, options);
const { crowd: c } = report;
expect(c.wrong === 0, `${c.wrong} answers differ from those given alone`);
expect(c.lost === 0, `${c.lost} answers were lost`);
expect(c.memory_late - c.memory_early < kMemorySlack, 'memory has grown under load');
report.batch_microseconds_per_token = batch(options.program, options.model, requests, { ...options, count: 2400 });
// What the model's thread takes beyond the same tokens without a server; not less than nothing, where
// a batch happens to be the slower one.
report.server_microseconds_per_token =
  c.microseconds_per_token_of_connections +
  Math.max(0, c.microseconds_per_token_of_owner - report.batch_microseconds_per_token);
expect(report.server_microseconds_per_token < kMostMicroseconds, 'the server takes too long for a token');

report.kills = await kills(server, requests[0], options.kills);
expect(report.kills.idle, 'work went on for clients that were killed');
report.noise = await noise(server, options.malformed);
expect(!report.noise.statuses['500'], 'malformed requests met an error of the server');
expect(report.noise.memory_after - report.noise.memory_before < kMemorySlack, 'malformed requests have cost memory');
expect(essence(await stream(server.port, undefined, requests[1])) === expected[1], 'it serves no longer');

server.terminate();
expect((await server.ended) === 0, 'a termination did not end it with 0');
report.problems = problems;
console.log(JSON.stringify(report, null, 1));
process.exit(problems.length > 0 ? 1 : 0);
