/** A test file that throws before it has a test. */
throw new Error('this file does not load');
