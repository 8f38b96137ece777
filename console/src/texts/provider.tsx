/** Texts in the language of the person. */
import { createContext, startTransition, use, useCallback, useEffect, useMemo, useState, type ReactNode } from 'react';
import type { Texts } from './en/index.ts';
import { chooseLanguage, chosenLanguage, loadedIn, type Language } from './texts.ts';

interface Spoken {
  language: Language;
  texts: Texts;
  setLanguage(language: Language): void;
}

const SpokenContext = createContext<Spoken | undefined>(undefined);

export function TextsProvider({ children }: { children: ReactNode }) {
  const [language, choose] = useState(chosenLanguage);
  const { texts } = use(loadedIn(language));
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const setLanguage = useCallback((chosen: Language) => {
    chooseLanguage(chosen);
    startTransition(() => choose(chosen));
  }, []);
  const spoken = useMemo(() => ({ language, texts, setLanguage }), [language, texts, setLanguage]);
  return <SpokenContext value={spoken}>{children}</SpokenContext>;
}

export function useSpoken(): Spoken {
  const spoken = use(SpokenContext);
  if (spoken === undefined) throw new Error('no TextsProvider is above the component');
  return spoken;
}

export const useTexts = (): Texts => useSpoken().texts;
