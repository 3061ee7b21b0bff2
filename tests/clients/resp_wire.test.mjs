// The Redis protocol byte by byte: invalid input and large input.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { kRootKey, startServer } from './server.mjs';
import { command, RespError, Wire } from './wire.mjs';

const kMonth = 2_592_000; // s
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

const throttle = (key, quantity = 1) =>
  command('CL.THROTTLE', key, 19_999, 20_000, kMonth, quantity);

// Runs `body` with a connection and closes it.
async function connected(body) {
  const wire = await Wire.open(server.respPort);
  try {
    return await body(wire);
  } finally {
    wire.close();
  }
}

// One request on its own connection.
const sendAlone = (...words) =>
  connected(async (wire) => {
    await wire.send(command(...words));
    return wire.reply();
  });

test('a request split at every byte gets the same response', async () => {
  const request = throttle('split', 0);
  await connected(async (wire) => {
    await wire.send(request);
    const whole = await wire.reply();
    assert.deepEqual(whole.slice(0, 4), [0, 20_000, 20_000, -1]);
    for (let at = 1; at < request.length; ++at) {
      await wire.send(request.subarray(0, at));
      await wire.send(request.subarray(at));
      assert.deepEqual(await wire.reply(), whole, `split at ${at}`);
    }
  });
});

test('a request in single bytes gets the same reply', async () => {
  await connected(async (wire) => {
    await wire.sendSlowly(Buffer.concat([throttle('bytes'), command('ECHO', 'after')]));
    assert.equal((await wire.reply())[2], 19_999);
    assert.equal(await wire.reply(), 'after');
  });
});

test('10,000 requests on one connection are answered in order', async () => {
  await connected(async (wire) => {
    const requests = Array(10_000).fill(throttle('order'));
    const sent = wire.send(Buffer.concat(requests));
    const replies = await wire.replies(requests.length);
    await sent;
    assert.deepEqual(
      replies.map((reply) => reply[2]),
      Array.from({ length: 10_000 }, (_, i) => 19_999 - i),
    );
  });
});

test('requests of every kind are answered in the order sent', async () => {
  await connected(async (wire) => {
    const round = [
      throttle('mix'),
      command('ECHO', 'x'),
      throttle('mix'),
      command('NOPE'),
      command('PING'),
      command('CL.THROTTLE', 'mix', 'bad', 1, 1),
      throttle('mix'),
      Buffer.from('PING\r\n'),
      command('WEIR.MULTI', 'ITEM', 'mix', 'm', 100_000, kMonth * 1000),
    ];
    await wire.send(Buffer.concat(Array(100).fill(round).flat()));
    for (let i = 0; i < 100; ++i) {
      const [a, echo, b, nope, pong, bad, c, inline, multi] = await wire.replies(round.length);
      assert.deepEqual(
        [a[2], b[2], c[2]],
        [0, 1, 2].map((j) => 19_999 - 3 * i - j),
      );
      assert.deepEqual([echo, pong, inline], ['x', 'PONG', 'PONG']);
      assert.match(nope.message, /unknown command 'NOPE'/);
      assert.match(bad.message, /max_burst is 'bad'/);
      assert.equal(multi[1], 1);
    }
  });
});

test('replies wait for a client that does not read', async () => {
  await connected(async (wire) => {
    const text = 'x'.repeat(16_000);
    wire.socket.pause();
    const count = 1000; // 16 MB: more than the system holds for a connection
    const sent = wire.send(Buffer.concat(Array(count).fill(command('ECHO', text))));
    assert.equal(await sendAlone('ECHO', 'others are served'), 'others are served');
    wire.socket.resume();
    for (let i = 0; i < count; ++i) assert.equal((await wire.reply()).length, text.length);
    await sent;
  });
});

test('inline commands are words on a line, quoted or not', async () => {
  await connected(async (wire) => {
    const lines =
      `PING\r\nping\n  ECHO   hello \r\n\r\nECHO "two words"\r\nECHO 'one"'\r\n` +
      `CL.THROTTLE inline 4 10 ${kMonth}\r\n`;
    await wire.send(lines);
    assert.deepEqual(await wire.replies(5), ['PONG', 'PONG', 'hello', 'two words', 'one"']);
    assert.deepEqual((await wire.reply()).slice(0, 3), [0, 5, 4]);
  });
});

test('an empty array is skipped', async () => {
  await connected(async (wire) => {
    await wire.send('*0\r\n\r\n*0\r\nPING\r\n');
    assert.equal(await wire.reply(), 'PONG');
  });
});

test('keys are bytes: zeros, line ends and more than ASCII', async () => {
  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  assert.equal((await sendAlone('CL.THROTTLE', every, 9, 10, kMonth))[2], 9);
  assert.equal((await sendAlone('CL.THROTTLE', every, 9, 10, kMonth))[2], 8);
  const other = Buffer.from(every);
  other[255] = 0;
  assert.equal((await sendAlone('CL.THROTTLE', other, 9, 10, kMonth))[2], 9);
  assert.deepEqual(Buffer.from(await sendAlone('ECHO', every), 'latin1'), every);
});

test('a key may have 65,536 bytes, and each key has its own count', async () => {
  for (const size of [512, 513, 65_535, 65_536]) {
    assert.equal((await sendAlone('CL.THROTTLE', 'k'.repeat(size), 9, 10, kMonth))[2], 9, size);
  }
  assert.equal((await sendAlone('CL.THROTTLE', 'k'.repeat(65_536), 9, 10, kMonth))[2], 8);
});

const kBroken = {
  'a bulk length beyond any argument': '*2\r\n$4\r\nECHO\r\n$1000000\r\n',
  'a bulk length of many digits': '*1\r\n$99999999999999999999\r\n',
  'a negative bulk length': '*2\r\n$4\r\nECHO\r\n$-1\r\n',
  'a bulk length that is no number': '*1\r\n$four\r\nPING\r\n',
  'a bulk length with a sign': '*1\r\n$+4\r\nPING\r\n',
  'an empty bulk length': '*1\r\n$\r\nPING\r\n',
  'a negative number of arguments': '*-1\r\n',
  'an empty number of arguments': '*\r\n',
  'a number of arguments that is none': '*two\r\n',
  'too many arguments': `*1201\r\n${'$1\r\na\r\n'.repeat(3)}`,
  'far too many arguments': '*2000000000\r\n',
  'no dollar before an argument': '*1\r\n+PING\r\n',
  'an argument longer than its length': '*1\r\n$4\r\nPINGS\r\n',
  'an argument that ends in LF alone': '*1\r\n$4\r\nPING\n\n',
  'a length that ends in LF alone': '*1\n$4\nPING\n',
  'a length that ends in CR alone': '*1\r$4\rPING\r',
  'a request too large in all': `*10\r\n${`$60000\r\n${'x'.repeat(60_000)}\r\n`.repeat(5)}`,
  'a line that never ends': 'x'.repeat(70_000),
  'quotes that do not close': 'ECHO "open\r\n',
};
for (const [what, bytes] of Object.entries(kBroken)) {
  test(`${what} gets one error line, and the connection closes`, async () => {
    await connected(async (wire) => {
      await wire.send(command('PING'));
      assert.equal(await wire.reply(), 'PONG');
      await wire.send(Buffer.concat([Buffer.from(bytes), command('PING'), command('PING')]));
      assert.match(await wire.rest(), /^-ERR Protocol error: [^\r\n]+\r\n$/);
    });
    assert.equal(await sendAlone('PING'), 'PONG', 'others are served');
  });
}

test('requests before a protocol error are answered', async () => {
  await connected(async (wire) => {
    await wire.send(Buffer.concat([throttle('before', 0), command('PING'), Buffer.from('*x\r\n')]));
    assert.equal((await wire.reply())[0], 0);
    assert.equal(await wire.reply(), 'PONG');
    assert.match(await wire.rest(), /^-ERR Protocol error/);
  });
});

test('a request cut off by the end of input gets no reply and consumes nothing', async () => {
  const request = throttle('cut');
  for (const at of [1, 5, 20, request.length - 1]) {
    await connected(async (wire) => {
      await wire.send(Buffer.concat([command('PING'), request.subarray(0, at)]));
      wire.finish();
      assert.equal(await wire.rest(), '+PONG\r\n');
    });
  }
  assert.equal((await sendAlone('CL.THROTTLE', 'cut', 19_999, 20_000, kMonth, 0))[2], 20_000);
});

test('a client that has shut down its write side is answered', async () => {
  await connected(async (wire) => {
    await wire.send(Buffer.concat(Array(1000).fill(command('PING'))));
    wire.finish();
    assert.equal(await wire.rest(), '+PONG\r\n'.repeat(1000));
  });
});

test('QUIT gets a reply, then the connection closes', async () => {
  await connected(async (wire) => {
    await wire.send(Buffer.concat([command('PING'), command('QUIT'), command('PING')]));
    assert.equal(await wire.rest(), '+PONG\r\n+OK\r\n');
  });
});

test('AUTH works on loopback, where it is optional', async () => {
  await connected(async (wire) => {
    await wire.send(command('AUTH', kRootKey));
    assert.equal(await wire.reply(), 'OK');
    await wire.send(command('AUTH', 'anyone', kRootKey));
    assert.equal(await wire.reply(), 'OK');
    await wire.send(command('AUTH', 'a_wrong_root_key_of_no_use'));
    assert.match((await wire.reply()).message, /^WRONGPASS/);
    await wire.send(command('AUTH'));
    assert.match((await wire.reply()).message, /^ERR wrong number of arguments for 'auth'/);
    await wire.send(throttle('auth', 0));
    assert.equal((await wire.reply())[0], 0, 'asking is free on loopback');
  });
});

test('HELLO sets the version, the key and the name, and RESET resets them', async () => {
  await connected(async (wire) => {
    const sendCommand = async (...words) => {
      await wire.send(command(...words));
      return wire.reply();
    };
    const hello = await sendCommand('HELLO', 3, 'AUTH', 'default', kRootKey, 'SETNAME', 'me');
    assert.deepEqual([hello.server, hello.proto], ['weir', 3]);
    assert.equal(await sendCommand('CLIENT', 'GETNAME'), 'me');
    assert.equal((await sendCommand('WEIR.PEEK', 'n', 'i', 5, 1000)).success, true);
    assert.match((await sendCommand('HELLO', 3, 'AUTH', 'default', 'wrong')).message, /^WRONGPASS/);
    assert.match((await sendCommand('HELLO', 3, 'NONSENSE')).message, /^ERR syntax error/);
    assert.equal(await sendCommand('RESET'), 'RESET');
    assert.ok(Array.isArray(await sendCommand('WEIR.PEEK', 'n', 'i', 5, 1000)));
    assert.equal(await sendCommand('CLIENT', 'GETNAME'), null);
  });
});

test('an error is one line for any input', async () => {
  const reply = await sendAlone('NO\r\n+OK\r\n', 'x');
  assert.ok(reply instanceof RespError);
  assert.match(reply.message, /^ERR unknown command 'NO {2}\+OK {2}'/);
});

test('100 connections at once are all served', async () => {
  const replies = await Promise.all(Array.from({ length: 100 }, (_, i) => sendAlone('ECHO', `c${i}`)));
  assert.deepEqual(
    replies,
    Array.from({ length: 100 }, (_, i) => `c${i}`),
  );
});
