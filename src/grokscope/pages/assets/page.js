(() => { // the bundle before us has names of its own at the top level
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts");
  const themes = read("themes");
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const AXIS = 60; // pixels beside a plot, for its axis

  function draw() {
    const mode = night.matches ? "dark" : "light";
    const padding = { left: 0, top: 2, right: 6, bottom: 6 };
    for (const place of document.querySelectorAll("[data-chart]")) {
      const chart = charts[place.dataset.chart];
      chart.params.find((param) => param.name === "room").value = place.clientWidth - AXIS;
      vegaEmbed(place, chart, {
        actions: false,
        renderer: "svg",
        config: { ...themes[mode], background: "transparent", padding },
        tooltip: { theme: mode },
      });
    }
  }

  let width = window.innerWidth;
  let waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // phones resize when their bars slide away
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 150);
  });
  night.addEventListener("change", draw);
  draw();
})();
