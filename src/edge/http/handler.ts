/**
 * Handlers by the name of their route: use cases of control where the wire has the same names,
 * otherwise functions with a conversion. Bytes are JSON of the store.
 */
import type { AnswerOf, BodyOf, JsonRouteName, OpenRouteName, OperationRouteName } from '../../contract/routes.ts';
import type { Caller, Idempotency, Pager, PasskeySite } from '../../control/index.ts';

/** Routes with handlers that read more of a request than the body. */
const requestRoutes = [
  'launch',
  'start',
  'startAnyInstance',
  'exec',
  'logout',
  'changePassword',
  'beginPasskey',
  'createPasskey',
] as const;
type RequestRouteName = (typeof requestRoutes)[number];
export const isOfRequest = (name: JsonRouteName): name is RequestRouteName => requestRoutes.some((of) => of === name);

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
  /** Throws `unsupported` where no passkey works. */
  passkeySite(): PasskeySite;
}

/** Stored JSON, with the operation of the request. */
export class StartedText {
  readonly bytes: Buffer;
  readonly operationId: string | undefined;

  constructor(text: string, operationId: string | undefined) {
    this.bytes = Buffer.from(text);
    this.operationId = operationId;
  }
}

/** A use case with a result unlike the wire's. */
export const presented =
  <Call extends unknown[], Result, Shown>(
    useCase: (...call: Call) => Promise<Result>,
    show: (result: Result) => Shown,
  ) =>
  async (...call: Call): Promise<Shown> =>
    show(await useCase(...call));

/** Whether a list has a filter; without one it is answered from the cache. */
export const isFilter = (filter: object): boolean => Object.values(filter).some((member) => member !== undefined);

/** `mount` repeats the pager of the request, and fills an empty answer. */
type Unpaged<Answer> = Answer extends { pager: unknown }
  ? Omit<Answer, 'pager'> & { totalEntries: number }
  : Answer extends Record<string, never>
    ? void
    : Answer;
/** `mount` names the operation in a header. */
type Result<Name extends JsonRouteName> = Name extends OperationRouteName
  ? (AnswerOf<Name> & { operationId?: string | undefined }) | StartedText
  : Unpaged<AnswerOf<Name>> | Buffer;

export interface Handlers {
  open: { [Name in OpenRouteName]: (input: HandlerInput<Name>) => Promise<Result<Name>> };
  ofRequest: { [Name in RequestRouteName]: (caller: Caller, input: HandlerInput<Name>) => Promise<Result<Name>> };
  closed: {
    [Name in Exclude<JsonRouteName, OpenRouteName | RequestRouteName>]: (
      caller: Caller,
      body: BodyOf<Name>,
      idempotency: Idempotency | null,
    ) => Promise<Result<Name>>;
  };
}

const hasTotal = (result: object): result is { totalEntries: number } => 'totalEntries' in result;
const hasPager = (body: unknown): body is { pager: Pager } =>
  typeof body === 'object' && body !== null && 'pager' in body;

/** The answer of a route, and the operation of the request. */
export function answered(
  { operation }: { operation: boolean },
  body: unknown,
  result: unknown,
): { answer: unknown; operationId?: unknown } {
  if (result instanceof StartedText) return { answer: result.bytes, operationId: result.operationId };
  if (Buffer.isBuffer(result)) return { answer: result };
  if (typeof result !== 'object' || result === null) return { answer: {} };
  if (operation && 'operationId' in result) {
    const { operationId, ...answer } = result;
    return { answer, operationId };
  }
  if (!hasTotal(result) || !hasPager(body)) return { answer: result };
  const { totalEntries, ...answer } = result;
  return { answer: { ...answer, pager: { ...body.pager, totalEntries } } };
}
