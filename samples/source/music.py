"""Writes the sample music as MIDI: 16 bars in G, 96 beats a minute, made to loop.

    pip install mido; python music.py loop.mid
    fluidsynth -ni -F loop.wav -r 48000 -g 0.7 FluidR3_GM.sf2 loop.mid
"""
import random
import sys

from mido import Message, MetaMessage, MidiFile, MidiTrack, bpm2tempo

random.seed(3)
BEAT = 480
chords = [(43, (59, 62, 67, 71)), (40, (59, 64, 67, 71)), (36, (60, 64, 67, 74)), (38, (57, 62, 66, 69))]
tune = [(71, 1.5), (74, 0.5), (79, 1), (78, 1), (76, 2), (74, 1), (71, 1), (72, 1.5), (74, 0.5), (76, 1), (72, 1), (69, 3), (0, 1)]
notes = []  # (beat, length, channel, note, velocity)
for bar in range(16):
    root, chord = chords[bar % 4]
    at = bar * 4
    notes.append((at, 1.9, 1, root, 64))
    notes.append((at + 2, 1.9, 1, root + (7 if bar % 2 else 0), 56))
    for note in chord:
        notes.append((at, 4, 2, note - 12 if note > 70 else note, 38))
    for step, pick in enumerate((0, 2, 1, 3, 2, 1, 3, 2)):
        notes.append((at + step / 2, 0.6, 0, chord[pick], random.randint(50, 64)))
    if bar >= 4:
        for step in range(4):
            notes.append((at + step, 0.1, 9, 36 if step % 2 == 0 else 37, 52 if step % 2 == 0 else 40))
        for step in range(8):
            notes.append((at + step / 2 + 0.02 * (step % 2), 0.1, 9, 42, random.randint(22, 34)))
for start in (16, 32, 48):
    beat = start
    for note, length in tune:
        if note:
            notes.append((beat, length * 0.95, 3, note + (12 if start == 48 and note < 74 else 0), 60))
        beat += length
track = MidiTrack([MetaMessage("set_tempo", tempo=bpm2tempo(96), time=0)])
for channel, program in ((0, 24), (1, 32), (2, 89), (3, 11)):
    track.append(Message("program_change", channel=channel, program=program, time=0))
events = []
for beat, length, channel, note, velocity in notes:
    events.append((round(beat * BEAT), 1, Message("note_on", channel=channel, note=note, velocity=velocity)))
    events.append((round((beat + length) * BEAT), 0, Message("note_off", channel=channel, note=note, velocity=0)))
now = 0
for tick, _, message in sorted(events, key=lambda event: event[:2]):
    track.append(message.copy(time=tick - now))
    now = tick
song = MidiFile(ticks_per_beat=BEAT)
song.tracks.append(track)
song.save(sys.argv[1])
