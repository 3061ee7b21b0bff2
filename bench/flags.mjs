// The flags of a benchmark.

import { parseArgs } from 'node:util';

// `defaults` has a value for each flag: true or false for a switch, else what stands if no word is
// given. `complain` says what is wrong with one, and ends.
export function readFlags(usage, defaults) {
  const complain = (what) => {
    process.stderr.write(`${usage.split(':')[0]}: ${what}\n${usage}`);
    process.exit(2);
  };
  const options = { help: { type: 'boolean', short: 'h' } };
  for (const [flag, value] of Object.entries(defaults)) {
    options[flag] = { type: typeof value === 'boolean' ? 'boolean' : 'string' };
  }
  let given = {};
  try {
    given = parseArgs({ options }).values;
  } catch (error) {
    complain(error.message);
  }
  if (given.help) {
    process.stdout.write(usage);
    process.exit(0);
  }
  return { options: { ...defaults, ...given }, complain };
}
