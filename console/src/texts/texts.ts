/** Which language, and the texts of its sections that are loaded. */
import { use } from 'react';
import * as en from './en/index.ts';
import type { LanguageTexts, Section, Texts } from './en/index.ts';

export const languages = { en: 'English', zh: '中文' } as const;
export type Language = keyof typeof languages;

const STORED = 'berth.language';
const isLanguage = (text: string | null): text is Language => text !== null && text in languages;

/** What the person chose, else the browser's, else English. */
export function chosenLanguage(): Language {
  const stored = localStorage.getItem(STORED);
  if (isLanguage(stored)) return stored;
  return navigator.languages.some((tag) => tag.startsWith('zh')) && !navigator.language.startsWith('en') ? 'zh' : 'en';
}

export const chooseLanguage = (language: Language): void => localStorage.setItem(STORED, language);

interface Loaded {
  texts: Texts;
  /** Ends when the texts of these sections can be read at once. */
  load(names: readonly Section[]): Promise<unknown>;
}

/** The first reading of a section in a component suspends the component until it is loaded. */
function loadedBy({ shared, sections }: LanguageTexts): Loaded {
  const loading = new Map<Section, Promise<unknown>>();
  const texts: Record<string, unknown> = { ...shared };
  const load = (name: Section): Promise<unknown> => {
    const known = loading.get(name);
    if (known !== undefined) return known;
    const promise = sections[name]().then(
      (text) => Object.defineProperty(texts, name, { value: text }),
      (error: unknown) => {
        loading.delete(name);
        throw error;
      },
    );
    loading.set(name, promise);
    return promise;
  };
  // Object.keys forgets the names of its argument.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  for (const name of Object.keys(sections) as Section[]) {
    Object.defineProperty(texts, name, {
      configurable: true,
      get: () => (use(load(name)), texts[name]),
    });
  }
  // Every section is a member by now.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { texts: texts as unknown as Texts, load: (names) => Promise.all(names.map(load)) };
}

const english = Promise.resolve(loadedBy(en));
let chinese: Promise<Loaded> | undefined;

export function loadedIn(language: Language): Promise<Loaded> {
  if (language === 'en') return english;
  return (chinese ??= import('./zh/index.ts').then(({ zh }) => loadedBy(zh)));
}

/** For the loader of a route: its page finds its texts with its code. */
export const textsOf =
  (...names: Section[]) =>
  async (): Promise<void> => {
    const { load } = await loadedIn(chosenLanguage());
    await load(names);
  };
