/** Limits of storyboards and speech, once. Times in milliseconds unless the name says otherwise. */
export const aigcLimits = {
  dubbing: {
    linesMax: 200,
    /** Characters of one line; about four minutes of Chinese. */
    lineCharactersMax: 1_000,
    charactersMax: 20_000,
    speedMin: 0.5,
    speedMax: 2,
    /** Speech processes at a time on one node. */
    processes: 2,
    lineMs: 30_000,
    batchMs: 170_000,
  },
  storyboard: {
    scriptCharactersMax: 10_000,
    ideaCharactersMax: 500,
    materialsMax: 100,
    scenesMax: 60,
    sceneMsMin: 1_200,
    sceneMsMax: 20_000,
    durationSecondsMin: 3,
    durationSecondsMax: 600,
  },
} as const;
