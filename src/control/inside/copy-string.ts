/** A string cut from another, such as a header, holds on to the whole of that; the copy holds on to itself. For text of one byte a character. */
export const copyString = (text: string): string => Buffer.from(text, 'latin1').toString('latin1');
