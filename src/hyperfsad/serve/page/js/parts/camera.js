// The camera of this device, in the page. Browsers give it to secure pages only: localhost or TLS.

import { action, h, replace } from "../dom.js";
import { number, t } from "../i18n.js";
import { tell } from "../said.js";
import { wish, wishes } from "../state.js";
import { phoneCamera } from "./drop.js";

const QUALITY = 0.95;
const STEPS = [0, 1, 2, 5, 10, 30, 60];

export class Camera {
  // `take` gets one picture at a time; `every` (seconds, 0: by hand) is asked for where it is given. What the camera
  // sees stands above its buttons, or wherever `preview(video)` puts it; null: it is off.
  constructor({ take, every = null, onEvery = () => {}, preview = null }) {
    this.take = take;
    this.preview = preview;
    this.every = every;
    this.onEvery = onEvery;
    this.stream = null;
    this.busy = false;
    this.count = 0;
    this.node = h("div", { class: "camera" });
    this.draw();
  }

  get running() {
    return this.stream !== null;
  }

  draw() {
    if (!navigator.mediaDevices?.getUserMedia) {
      replace(this.node, h("p", {}, t("camera.insecure")), phoneCamera((files) => this.take(files[0])));
      return;
    }
    if (!this.running) {
      replace(this.node, action(t("camera.start"), () => this.start(), tell, { class: "main" }));
      return;
    }
    this.video = h("video", { autoplay: true, playsinline: true, "aria-label": t("camera.picture") });
    this.video.muted = true;
    this.video.srcObject = this.stream;
    const shot = action([t("camera.take"), " ", h("kbd", {}, t("key.space"))], () => this.shoot(), tell, { class: "main" });
    const steps = STEPS.map((seconds) =>
      h("option", { value: seconds }, seconds ? t("camera.seconds", { count: seconds }) : t("camera.byhand")));
    const rhythm = h("select", { "aria-label": t("camera.every"), onchange: () => this.setEvery(Number(rhythm.value)) }, steps);
    rhythm.value = String(this.every ?? 0);
    this.sizes = h("span", { class: "pale number" });
    this.video.addEventListener("loadedmetadata", () => {
      this.sizes.textContent = t("camera.size", { width: number(this.video.videoWidth), height: number(this.video.videoHeight) });
    });
    const which = h("select", { "aria-label": t("camera.which"), hidden: true, onchange: () => this.change(which.value) });
    this.list(which);
    this.preview?.(this.video);
    replace(this.node, this.preview ? null : this.video,
      h("div", { class: "row" }, shot, this.every !== null && rhythm, which,
        h("button", { type: "button", onclick: () => this.stop() }, t("camera.stop")), this.sizes));
    if (this.every !== null) this.setEvery(this.every);
  }

  // Where there are several cameras, one is chosen.
  async list(which) {
    const devices = await navigator.mediaDevices.enumerateDevices();
    const cameras = devices.filter((device) => device.kind === "videoinput");
    replace(which, cameras.map((device, place) => h("option", { value: device.deviceId }, device.label || number(place + 1))));
    which.value = this.stream?.getVideoTracks()[0]?.getSettings().deviceId ?? "";
    which.hidden = cameras.length < 2;
  }

  async change(device) {
    wish({ camera: device });
    this.stop();
    await this.start().catch(tell);
  }

  async start() {
    const size = { width: { ideal: 3840 }, height: { ideal: 2160 } };
    const wanted = wishes.camera ? { deviceId: { ideal: wishes.camera } } : { facingMode: "environment" };
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: false, video: { ...wanted, ...size } }).catch((error) => {
      throw new Error(t("camera.refused", { reason: error.message || error.name }));
    });
    this.draw();
  }

  stop() {
    clearInterval(this.timer);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.preview?.(null);
    this.draw();
  }

  setEvery(seconds) {
    clearInterval(this.timer);
    this.every = seconds;
    this.onEvery(seconds);
    if (seconds) this.timer = setInterval(() => this.shoot().catch(tell), 1000 * seconds);
  }

  // One picture at a time: a station that is slower than the rhythm leaves pictures out.
  async shoot() {
    if (!this.running || this.busy || !this.video.videoWidth) return;
    this.busy = true;
    try {
      const canvas = h("canvas", { width: this.video.videoWidth, height: this.video.videoHeight });
      canvas.getContext("2d").drawImage(this.video, 0, 0);
      const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", QUALITY));
      this.count += 1;
      const name = `camera ${new Date().toISOString().slice(0, 19).replaceAll(":", "-")} ${this.count}.jpg`;
      await this.take(new File([blob], name, { type: "image/jpeg" }));
    } finally {
      this.busy = false;
    }
  }
}
