/** A person at the console, whose clicks and keystrokes are counted. */
import type { Locator, Page } from 'playwright-core';

export class Person {
  readonly page: Page;
  #clicks = 0;
  #keys = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async click(target: Locator): Promise<void> {
    this.#clicks += 1;
    await target.click();
  }

  async type(target: Locator, text: string): Promise<void> {
    this.#keys += text.length;
    await target.fill(text);
  }

  async press(key: string): Promise<void> {
    this.#keys += 1;
    await this.page.keyboard.press(key);
  }

  button = (name: string | RegExp): Locator => this.page.getByRole('button', { name });
  link = (name: string | RegExp): Locator => this.page.getByRole('link', { name });

  get clicks(): number {
    return this.#clicks;
  }

  get keys(): number {
    return this.#keys;
  }

  /** A line of the report. */
  spent(task: string): string {
    return `${task}: ${this.#clicks} clicks, ${this.#keys} keystrokes`;
  }
}
