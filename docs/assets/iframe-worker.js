// Browsers start no worker for a page that was opened from a folder. There, a hidden frame does the
// work of the search, so that nothing has to be fetched from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.document.open();
      inside.document.write(
        `<script>postMessage = answer; importScripts = () => {};</script><script src="${url}"></script>`,
      );
      inside.document.close();
      this.ready = new Promise((resolve) => inside.addEventListener("load", resolve));
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
