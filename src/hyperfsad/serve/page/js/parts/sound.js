// Two sounds that differ in pitch and in number: a high one for good, three low ones for anomalous.

import { wishes } from "../state.js";

const TONES = { good: [[880, 0, 0.12]], anomalous: [[220, 0, 0.18], [220, 0.25, 0.18], [220, 0.5, 0.3]], unjudged: [[440, 0, 0.3]] };
let audio = null;

export function sound(verdict) {
  if (!wishes.sound) return;
  audio ??= new AudioContext();
  for (const [pitch, begin, length] of TONES[verdict]) {
    const tone = new OscillatorNode(audio, { frequency: pitch, type: "square" });
    const volume = new GainNode(audio, { gain: 0.12 });
    tone.connect(volume).connect(audio.destination);
    tone.start(audio.currentTime + begin);
    tone.stop(audio.currentTime + begin + length);
  }
}
