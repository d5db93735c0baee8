// A live figure reports its height, so that it needs no scroll bar of its own.
window.addEventListener("message", function (event) {
  var height = event.data && event.data.liveFigureHeight;
  if (!Number.isFinite(height)) return;
  document.querySelectorAll("iframe.live-figure").forEach(function (frame) {
    if (frame.contentWindow === event.source) frame.style.height = Math.min(Math.max(height, 80), 2000) + "px";
  });
});
