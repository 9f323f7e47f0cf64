export type ErrorKind =
  | 'gone' // no server answers
  | 'cut' // the connection ended in mid-answer
  | 'key' // 401: a key is asked for
  | 'busy' // 429: the queue is full
  | 'loading' // 503: the model is being loaded, or the server is going down
  | 'context' // the conversation is longer than the context
  | 'request' // another 4xx
  | 'server'; // another 5xx, or an error inside the stream

export class ApiError extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly retryAfter?: number, // seconds
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

interface ErrorBody {
  message: string;
  code: string;
}

export function errorBody(value: unknown): ErrorBody | undefined {
  const error = (value as { error?: unknown } | null)?.error;
  if (typeof error === 'string') return { message: error, code: '' };
  if (typeof error !== 'object' || error === null) return undefined;
  const { message, code, type } = error as Record<string, unknown>;
  return {
    message: typeof message === 'string' ? message : 'The server reports an error.',
    code: typeof code === 'string' ? code : typeof type === 'string' ? type : '',
  };
}

/** Seconds from a Retry-After header: a number of them, or a date. */
export function retryAfter(header: string | null, now: number): number | undefined {
  if (header === null || header.trim() === '') return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000));
}

export async function errorOf(response: Response): Promise<ApiError> {
  let body: ErrorBody | undefined;
  try {
    body = errorBody(await response.json());
  } catch {
    // Not the server's own words: something between it and us, perhaps.
  }
  const message = body?.message ?? `The server answered ${response.status} ${response.statusText}`.trim();
  const wait = retryAfter(response.headers.get('retry-after'), Date.now());
  if (response.status === 401) return new ApiError('key', message);
  if (response.status === 429) return new ApiError('busy', message, wait);
  if (response.status === 503) return new ApiError('loading', message, wait);
  if (body?.code === 'context_length_exceeded' || response.status === 413) return new ApiError('context', message);
  return new ApiError(response.status < 500 ? 'request' : 'server', message);
}
