/** A minimal terminal line discipline: echo, erase, newline, Ctrl-C, Ctrl-D. */
import { Writable } from 'node:stream';

const [CTRL_C, CTRL_D, ERASE] = ['\x03', '\x04', '\x7f'];

export function makeTerminal({
  echo,
  input,
  interrupt,
}: {
  echo: (text: string) => void;
  input: Writable;
  interrupt: () => void;
}): Writable {
  let line = '';
  const decoder = new TextDecoder();
  const handleKey = (key: string): void => {
    if (key === '\r' || key === '\n') {
      echo('\r\n');
      input.write(`${line}\n`);
      line = '';
    } else if (key === CTRL_C) {
      echo('^C\r\n');
      line = '';
      interrupt();
    } else if (key === CTRL_D) {
      if (line === '') input.end();
      else input.write(line);
      line = '';
    } else if (key === ERASE || key === '\b') {
      if (line !== '') echo('\b \b');
      line = [...line].slice(0, -1).join('');
    } else {
      echo(key);
      line += key;
    }
  };
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const key of decoder.decode(chunk, { stream: true })) if (!input.writableEnded) handleKey(key);
      if (input.writableNeedDrain) input.once('drain', () => done()).once('close', () => done());
      else done();
    },
  });
}
