// Reads the last 50 lines of a file of JSON from its end, as a careful
// program in this language does, and prints the nanoseconds that one took.
const fs = require("fs");
const [name, count] = process.argv.slice(-2);

function tail(name, n) {
  const fd = fs.openSync(name, "r");
  try {
    let at = fs.fstatSync(fd).size;
    let kept = Buffer.alloc(0);
    let lines = 0;
    while (at > 0 && lines <= n) {
      const size = Math.min(16384, at);
      const chunk = Buffer.allocUnsafe(size);
      at -= size;
      fs.readSync(fd, chunk, 0, size, at);
      for (let i = chunk.indexOf(10); i >= 0; i = chunk.indexOf(10, i + 1)) lines++;
      kept = kept.length ? Buffer.concat([chunk, kept]) : chunk;
    }
    return kept.toString("utf8").trimEnd().split("\n").slice(-n).map((line) => JSON.parse(line));
  } finally {
    fs.closeSync(fd);
  }
}

const n = Number(count);
for (let i = 0; i < 300; i++) tail(name, 50);
const begin = process.hrtime.bigint();
for (let i = 0; i < n; i++) {
  if (tail(name, 50).length !== 50) throw new Error("not 50 entries");
}
console.log(Number(process.hrtime.bigint() - begin) / n);
