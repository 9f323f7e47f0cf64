// Sampling, with the values that DeepSeek-R1's card recommends as defaults.
export interface Settings {
  temperature: number;
  top_p: number;
  top_k?: number;
  min_p?: number;
  repetition_penalty?: number;
  max_tokens?: number;
  reasoning_budget?: number;
  seed?: number;
}

export const recommended: Settings = { temperature: 0.6, top_p: 0.95 };

export interface Field {
  name: keyof Settings;
  label: string;
  hint: string;
  min: number;
  max: number;
  step: number; // 1: whole numbers only
  more?: boolean; // shown only when asked for
}

export const fields: Field[] = [
  { name: 'temperature', label: 'Temperature', hint: 'How freely words are chosen. R1: 0.5 to 0.7; 0 always takes the likeliest.', min: 0, max: 2, step: 0.05 },
  { name: 'top_p', label: 'Top p', hint: 'Only the likeliest words that together reach this probability.', min: 0.01, max: 1, step: 0.01 },
  { name: 'max_tokens', label: 'Longest answer', hint: 'Tokens of thought and answer together. Empty: as long as the context allows.', min: 1, max: 1_000_000, step: 1 },
  { name: 'reasoning_budget', label: 'Longest thought', hint: 'Tokens after which the thought is closed. Empty: no limit.', min: 0, max: 1_000_000, step: 1 },
  { name: 'seed', label: 'Seed', hint: 'The same seed gives the same answer. Empty: a new one each time.', min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 },
  { name: 'top_k', label: 'Top k', hint: 'Only this many of the likeliest words. Empty: all.', min: 1, max: 1_000_000, step: 1, more: true },
  { name: 'min_p', label: 'Min p', hint: 'Only words at least this likely beside the likeliest. Empty: all.', min: 0, max: 1, step: 0.01, more: true },
  { name: 'repetition_penalty', label: 'Repetition penalty', hint: 'Above 1 makes repeating less likely. Empty: none.', min: 0.1, max: 2, step: 0.05, more: true },
];

/** What a field's text means: a number, nothing, or an error in words. */
export function parseField(field: Field, text: string): { value?: number; error?: string } {
  const trimmed = text.trim().replace(',', '.');
  const needed = field.name in recommended;
  if (!trimmed) return needed ? { value: recommended[field.name] } : {};
  const value = Number(trimmed);
  if (!Number.isFinite(value)) return { error: 'Not a number.' };
  if (field.step === 1 && !Number.isInteger(value)) return { error: 'A whole number, please.' };
  if (value < field.min || value > field.max) return { error: `From ${field.min} to ${field.max}.` };
  return { value };
}

export function checkedSettings(value: unknown): Settings {
  const settings: Settings = { ...recommended };
  if (typeof value !== 'object' || value === null) return settings;
  for (const field of fields) {
    const stored = (value as Record<string, unknown>)[field.name];
    if (typeof stored !== 'number') continue;
    const parsed = parseField(field, String(stored));
    if (parsed.value !== undefined) settings[field.name] = parsed.value;
  }
  return settings;
}

export function isRecommended(settings: Settings): boolean {
  return fields.every((field) => settings[field.name] === recommended[field.name]);
}
