/** Texts in the language of the person: chosen, else the browser's, else English. */
import { createContext, use, useCallback, useEffect, useMemo, useState, type ReactNode } from 'react';
import { en, type Texts } from './en/index.ts';

export const languages = { en: 'English', zh: '中文' } as const;
export type Language = keyof typeof languages;

const STORED = 'berth.language';
const isLanguage = (text: string | null): text is Language => text !== null && text in languages;

function firstLanguage(): Language {
  const stored = localStorage.getItem(STORED);
  if (isLanguage(stored)) return stored;
  return navigator.languages.some((tag) => tag.startsWith('zh')) && !navigator.language.startsWith('en') ? 'zh' : 'en';
}

interface Spoken {
  language: Language;
  texts: Texts;
  setLanguage(language: Language): void;
}

const SpokenContext = createContext<Spoken>({ language: 'en', texts: en, setLanguage: () => {} });

export function TextsProvider({ children }: { children: ReactNode }) {
  const [language, choose] = useState(firstLanguage);
  const [loaded, setLoaded] = useState<{ language: Language; texts: Texts }>();
  useEffect(() => {
    let isCurrent = true;
    document.documentElement.lang = language;
    const loading = language === 'en' ? Promise.resolve(en) : import('./zh/index.ts').then(({ zh }) => zh);
    void loading.then((texts) => isCurrent && setLoaded({ language, texts }));
    return () => {
      isCurrent = false;
    };
  }, [language]);
  const setLanguage = useCallback((chosen: Language) => {
    localStorage.setItem(STORED, chosen);
    choose(chosen);
  }, []);
  const spoken = useMemo(() => loaded && { ...loaded, setLanguage }, [loaded, setLanguage]);
  return spoken === undefined ? null : <SpokenContext value={spoken}>{children}</SpokenContext>;
}

export const useSpoken = (): Spoken => use(SpokenContext);
export const useTexts = (): Texts => use(SpokenContext).texts;
