// Programs with one known use of locks in each mode. The second argument is how long to run, seconds.
const { Worker, isMainThread, workerData } = require("worker_threads");
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const [mode, seconds] = [process.argv[2], Number(process.argv[3])];

if (!isMainThread) {
  const word = new Int32Array(workerData.memory);
  const end = Date.now() + 1000 * workerData.seconds;
  while (Date.now() < end) {
    while (Atomics.compareExchange(word, 0, 0, 1) !== 0) Atomics.wait(word, 0, 1);
    const until = Date.now() + 2;
    while (Date.now() < until);
    Atomics.store(word, 0, 0);
    Atomics.notify(word, 0, 1);
  }
} else if (mode === "atomics") {
  const memory = new SharedArrayBuffer(4);
  for (let i = 0; i < 4; i++) new Worker(__filename, { workerData: { memory, seconds } });
} else {
  const end = Date.now() + 1000 * seconds;
  const derive = () => crypto.pbkdf2("x", "y", 20000, 32, "sha256", () => Date.now() < end && derive());
  const read = () => fs.readFile(__filename, () => Date.now() < end && read());
  const tick = () => Date.now() < end && setTimeout(tick, 5);
  if (mode === "pool") for (let i = 0; i < 8; i++) derive();
  if (mode === "pool") for (let i = 0; i < 8; i++) read();
  if (mode === "idle") tick();
  if (mode === "server") {
    const server = http.createServer((_, answer) => answer.end()).listen(0, "127.0.0.1");
    setTimeout(() => server.close(), 1000 * seconds);
  }
}
