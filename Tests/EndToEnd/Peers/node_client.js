// node_client.js PROXY TARGET GATEWAY SECONDS: asks for the target in absolute form through the proxy, and through the
// gateway with fetch, until the time is over. Prints the statuses as JSON.
const http = require('http');

const [proxy, target, gateway, seconds] = process.argv.slice(2);
const until = Date.now() + Number(seconds) * 1000;
const statuses = {};
const count = (status) => { statuses[status] = (statuses[status] || 0) + 1; };
const { hostname, port } = new URL(proxy);
const agent = new http.Agent({ keepAlive: true });

function throughProxy() {
  return new Promise((resolve, reject) => {
    http.get({ hostname, port, agent, path: target, headers: { Host: new URL(target).host } }, (answer) => {
      answer.resume();
      answer.on('end', () => { count(answer.statusCode); resolve(); });
    }).on('error', reject);
  });
}

(async () => {
  while (Date.now() < until) {
    await throughProxy();
    const answer = await fetch(gateway);
    await answer.text();
    count(answer.status);
  }
  agent.destroy();
  console.log(JSON.stringify(statuses));
})();
