/** Throws before its first test. */
throw new Error('this file does not load');
