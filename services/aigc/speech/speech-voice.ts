/** A voice that a provider offers. */
export interface Voice {
  /** Name to ask for it. */
  name: string;
  /** Language as a BCP 47 tag: cmn, en-us, ... */
  language: string;
  about: string;
}

export interface SpeechRequest {
  text: string;
  /** Name of a voice of this provider. */
  voice: string;
  /** 1 is the voice's usual speed, 2 twice as fast. */
  speed: number;
  /** -1 low to 1 high; 0 is the voice's usual pitch. */
  pitch: number;
}

export interface Speech {
  /** WAV, 16 bit PCM. */
  wav: Buffer;
  durationMs: number;
}

/**
 * Port of everything that can speak: a program on this machine here, cloud voices beside it. An adapter
 * checks nothing of the text but what it needs to be safe; limits are the caller's.
 * Errors: VOICE_MISSING where it cannot speak at all, UNAVAILABLE where it failed this time.
 */
export interface SpeechVoice {
  readonly provider: string;
  /** All voices; the list may come from a cache. */
  voices(): Promise<readonly Voice[]>;
  /** The voice for a text whose caller names none. */
  defaultVoice(text: string): string;
  speak(request: SpeechRequest, signal: AbortSignal): Promise<Speech>;
}
