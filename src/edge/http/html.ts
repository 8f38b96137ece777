export const HTML_TYPE = 'text/html; charset=utf-8';

export const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
