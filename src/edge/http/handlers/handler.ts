/**
 * Handlers turn a validated body into a control call, and the result into an object, or into bytes
 * where control stores the JSON.
 */
import type { AnswerOf, BodyOf, JsonRouteName, OpenRouteName, OperationRouteName } from '../../../contract/routes.ts';
import type { Caller, Idempotency } from '../../../control/index.ts';

export type ClosedRouteName = Exclude<JsonRouteName, OpenRouteName>;

export interface HandlerInput<Name extends JsonRouteName> {
  body: BodyOf<Name>;
  idempotency: Idempotency | null;
  /** Longest wait for capacity; null: no wait. */
  waitMs: number | null;
  quoteId: string | null;
  from: string;
  userAgent: string | undefined;
  clientGone: () => AbortSignal;
  setHeader(name: string, value: string): void;
}

/** Answer with the operation it started; `mount` names the operation in a header. */
export class Started<Answer> {
  readonly answer: Answer;
  readonly operationId: string | undefined;

  constructor(answer: Answer, operationId: string | undefined) {
    this.answer = answer;
    this.operationId = operationId;
  }
}

export const started = <Result extends { operationId?: string | undefined }>({ operationId, ...answer }: Result) =>
  new Started(answer, operationId);

/** Whether a list has a filter; without one it is answered from the cache. */
export const isFilter = (filter: object): boolean => Object.values(filter).some((member) => member !== undefined);

export const nothing = (): Record<string, never> => ({});

type Answer<Name extends JsonRouteName> = Name extends OperationRouteName
  ? Started<AnswerOf<Name> | Buffer>
  : AnswerOf<Name> | Buffer;
export type OpenHandlers = { [Name in OpenRouteName]: (input: HandlerInput<Name>) => Promise<Answer<Name>> };
export type ClosedHandlers = {
  [Name in ClosedRouteName]: (caller: Caller, input: HandlerInput<Name>) => Promise<Answer<Name>>;
};

export interface Handlers {
  open: OpenHandlers;
  closed: ClosedHandlers;
}
