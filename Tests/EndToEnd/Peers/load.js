// load.js URL CLIENTS SECONDS: that many clients, one connection each, mix reads with writes until the time is over.
// Prints the answers by status, and what failed, as JSON.
const http = require('http');

const [url, clients, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const until = Date.now() + seconds * 1000;
const statuses = {};
const failures = [];
let serial = 0;

function request(agent, client, turn) {
  return new Promise((resolve) => {
    const isWrite = turn % 5 === 4;
    const body = isWrite ? Buffer.alloc(2000, 'x') : null;
    const id = `${client}-${serial++}`;
    const headers = { 'X-Request-Id': id };
    if (isWrite) Object.assign(headers, { 'Idempotency-Key': id, 'Content-Length': body.length });
    const sent = http.request(
      url + (isWrite ? '/echo' : '/me'), { agent, method: isWrite ? 'POST' : 'GET', headers, timeout: 30000 },
      (answer) => {
        let length = 0;
        answer.on('data', (piece) => { length += piece.length; });
        answer.on('end', () => {
          if (!answer.complete || length === 0) failures.push('incomplete');
          statuses[answer.statusCode] = (statuses[answer.statusCode] || 0) + 1;
          resolve();
        });
        answer.on('error', (error) => { failures.push(String(error)); resolve(); });
      });
    sent.on('timeout', () => sent.destroy(new Error('timeout')));
    sent.on('error', (error) => { failures.push(String(error)); resolve(); });
    sent.end(body);
  });
}

async function run(client) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  for (let turn = 0; Date.now() < until; turn++) await request(agent, client, turn);
  agent.destroy();
}

Promise.all(Array.from({ length: clients }, (_, client) => run(client))).then(() => {
  console.log(JSON.stringify({ statuses, failures: failures.slice(0, 20) }));
});
