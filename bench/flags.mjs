// The command-line flags of a benchmark.

import { parseArgs } from 'node:util';

// `defaults` has a value for each flag: a boolean for a switch, otherwise the default value. `fail`
// prints an error and the usage, and exits. --smoke implies --quick.
export function readFlags(usage, defaults) {
  const fail = (message) => {
    process.stderr.write(`${usage.split(':')[0]}: ${message}\n${usage}`);
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
    fail(error.message);
  }
  if (given.help) {
    process.stdout.write(usage);
    process.exit(0);
  }
  if (given.smoke) given.quick = true;
  return { options: { ...defaults, ...given }, fail };
}
