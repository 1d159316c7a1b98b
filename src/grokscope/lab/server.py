"""What can be asked of the lab: a route per question. Nothing here trains, and nothing is read but
the store, the tables of papers and the page's own files, which are listed by name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.lab import autopsy, forms, scrubbing, watching
from grokscope.lab.catalogue import Catalogue, label_arms
from grokscope.lab.guard import TOO_LARGE, Guard, TooLarge, refuse
from grokscope.lab.orders import Orders
from grokscope.parts import trusting
from grokscope.spec import Spec
from grokscope.store import Moment, Run, Store, as_trained, describe
from grokscope.store.feed import changed_at
from grokscope.store.files import finite

PATIENCE = 0.4  # seconds until a list is shown that is not whole
LOOK_SECONDS = 0.2  # between two looks at the store, while somebody watches
TROUBLE_SECONDS = 1.0  # to the next look after one that has failed
FRESH_SECONDS = 15.0  # a run that was written to so recently is under way, whoever trains it
STOPPING_SECONDS = 2.0  # in which a run that was stopped may still write
MOST_STREAMS = 24
MOST_DRAWN = 60  # runs of one figure
BYTES = "application/octet-stream"
KINDS_OF_FILE = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
}
log = logging.getLogger(__name__)
HEX = re.compile(r"[0-9a-f]{16}")


class Lab:
    """The state of a server: a store, its list of runs, and who is listening."""

    def __init__(
        self, store: Store, results: Path = Path("results"), allowed: Sequence[Path] = ()
    ) -> None:
        self.store, self.results = store, results
        self.allowed = [Path(path).expanduser().resolve() for path in allowed]
        self.catalogue, self.orders = Catalogue(store), Orders(store)
        self._seen = Moment()
        self.listeners: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self.stopped: dict[str, float] = {}  # when runs were stopped from here
        self._looking, self._starting = threading.Lock(), threading.Lock()
        self._reader: threading.Thread | None = None
        self._untold: set[str] = set()  # runs that have changed, for the next news
        self.form = forms.describe_form()  # once: it reads source files

    def look(self) -> None:
        """Renew the list. Whoever looks, every listener hears of what has changed."""
        with self._looking:
            changes = self.store.changes(self._seen)
            if changes:
                self.catalogue.renew(changes.changed, changes.gone)
            self._seen = changes.until  # what could not be renewed is looked at again
            self._untold |= changes.changed | changes.gone

    def look_for(self, seconds: float) -> bool:
        """The same, but thousands that are read for the first time are not waited for. Is it
        done?"""

        def read() -> None:
            try:
                self.look()
            except Exception:  # as when we keep looking
                log.exception("a look at the store failed")

        with self._starting:
            reader = self._reader
            if reader is None or not reader.is_alive():
                reader = self._reader = threading.Thread(target=read, daemon=True)
                reader.start()
        reader.join(seconds)
        return not reader.is_alive()

    async def keep_looking(self) -> None:
        """Tell all listeners of every change. Nobody listening, nobody looking."""
        busy: dict[str, str] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.listeners:
                continue
            try:
                await asyncio.to_thread(self.look)
                now = await asyncio.to_thread(self.orders.under_way)
            except Exception:  # the next look may go well; without this the page would fall silent
                log.exception("a look at the store failed")
                await asyncio.sleep(TROUBLE_SECONDS)
                continue
            names, self._untold = self._untold, set()
            names |= set(now) ^ set(busy)  # started or stopped
            busy = now
            if names:
                for queue in self.listeners:
                    queue.put_nowait({"changed": sorted(names)})

    def state_of(self, run: str, busy: Mapping[str, str]) -> str:
        """Of a run without an outcome. One that nobody here trains may be trained elsewhere."""
        written = changed_at(self.store.root / run)
        fresh = time.time() - written < FRESH_SECONDS and written > self.stopped.get(run, 0)
        return "running" if run in busy or fresh else "stopped"

    def hang_up(self) -> None:
        """End every stream, so that the server can close."""
        for queue in self.listeners:
            queue.put_nowait(None)

    def run(self, name: str) -> Run:
        if not HEX.fullmatch(name):
            raise StoreError("A run is named by 16 hexadecimal digits.")
        run = watching.Watched(self.store.get(name).path)
        run.about  # noqa: B018  # whatever lies in a store, it is answered with a sentence
        return run

    # Reading

    def runs(self, request: Request) -> Response:
        whole = self.look_for(PATIENCE)
        lines = self.catalogue.lines(request.query_params.get("where", ""))
        if only := request.query_params.get("only", ""):
            lines = self.catalogue.find(only.split(","))
        labels, busy = label_arms(lines), self.orders.under_way()
        listed = []
        for line in lines:
            item = line.to_json(labels[line.arm])
            if line.status == "partial":
                item["status"] = self.state_of(line.run, busy)
            listed.append(item)
        listed.sort(key=lambda item: -item["changed"])
        errors = self.orders.errors()
        return answer({"runs": listed, "busy": sorted(busy), "errors": errors, "whole": whole})

    def detail(self, request: Request) -> Response:
        run = self.run(request.path_params["run"])
        about = watching.describe_run(run)
        busy = self.orders.under_way()
        if about["status"] == "partial":
            about["status"] = self.state_of(run.id, busy)
        self.look_for(PATIENCE)
        about["ours"] = run.id in busy
        about["arm"] = [line.run for line in self.catalogue.arm_of(run.id)]
        return answer(about)

    def autopsy(self, request: Request) -> Response:
        run = self.run(request.path_params["run"])
        self.look()
        arm = [self.run(line.run) for line in self.catalogue.arm_of(run.id)]
        twin = autopsy.find_twin(run, arm)
        if twin is None:
            raise SpecError("No other seed of this arm has grokked, so there is no twin.")
        return answer(autopsy.examine(run, twin))

    def rows(self, request: Request) -> Response:
        begin = request.query_params.get("from", "0")
        if not re.fullmatch(r"\d{1,9}", begin):
            given = f"from is {begin[:20]!r}"
            raise SpecError(f"{given}; it must be a whole number below 1,000,000,000.")
        data = watching.pack_rows(self.run(request.path_params["run"]), int(begin))
        return Response(data, media_type=BYTES)

    def snapshot(self, request: Request) -> Response:
        run = self.run(request.path_params["run"])
        forms.check_parts(run.spec, self.allowed, self.store)
        epoch = request.path_params["epoch"]
        if not re.fullmatch(r"final|\d{1,9}", epoch):
            raise SpecError("Weights are asked for by their epoch, or as final.")
        asked = request.query_params.get("examples", "")
        if not re.fullmatch(r"(\d{1,9}(,\d{1,9}){0,63})?", asked):
            raise SpecError("Examples are at most 64 numbers, joined by commas.")
        chosen = [int(part) for part in asked.split(",") if part]
        when = None if epoch == "final" else int(epoch)
        with trusting(), as_trained(run):  # its parts were named with --allow
            return answer(scrubbing.look(run, when, self.store, chosen))

    def about(self, request: Request) -> Response:
        measures = {"plots": watching.describe_plots(), "others": watching.describe_others()}
        return answer({**measures, "form": self.form, "store": str(self.store.root)})

    def figure(self, request: Request) -> Response:
        from grokscope.draw.charts import CHARTS
        from grokscope.pages.files import SUFFIXES, save_chart
        from grokscope.pages.reading import group_runs

        kind, suffix = request.path_params["kind"], f".{request.path_params['suffix']}"
        names = request.query_params.get("runs", "").split(",")
        if kind not in CHARTS or suffix not in SUFFIXES or len(names) > MOST_DRAWN:
            raise SpecError(
                f"A figure is one of {', '.join(CHARTS)}, as {', '.join(SUFFIXES)}, of at most "
                f"{MOST_DRAWN} runs."
            )
        chart = CHARTS[kind](group_runs([self.run(name) for name in names]))
        with tempfile.TemporaryDirectory() as folder:
            data = save_chart(chart, Path(folder) / f"figure{suffix}").read_bytes()
        headers = {"Content-Disposition": f'attachment; filename="{kind}{suffix}"'}
        return Response(data, media_type=KINDS_OF_FILE.get(suffix, BYTES), headers=headers)

    def papers(self, request: Request) -> Response:
        from grokscope.lab import verdicts  # SciPy takes a second to come, and few ask for it

        return answer(verdicts.list_papers())

    def paper(self, request: Request) -> Response:
        from grokscope.lab import verdicts

        name = request.path_params["name"]
        return answer(verdicts.describe_paper(name, self.results, self.store))

    def paper_figure(self, request: Request) -> Response:
        from grokscope.lab import verdicts

        name, study, scale = (request.path_params[part] for part in ("name", "study", "scale"))
        data = verdicts.draw_study(name, study, scale, self.results)
        return Response(data, media_type=KINDS_OF_FILE[".svg"])

    async def stream(self, request: Request) -> Response:
        """Server-sent events: the names of runs that have changed, as soon as they have."""
        if len(self.listeners) >= MOST_STREAMS:
            return refuse(503, f"{MOST_STREAMS} pages are open already; close some.")
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.listeners.add(queue)

        async def tell() -> AsyncIterator[str]:
            try:
                yield "retry: 500\n\n"
                while True:
                    try:
                        change = await asyncio.wait_for(queue.get(), timeout=15)
                        if change is None:
                            return
                        yield f"data: {json.dumps(change)}\n\n"
                    except TimeoutError:
                        yield ": still here\n\n"
            finally:
                self.listeners.discard(queue)

        return StreamingResponse(tell(), media_type="text/event-stream")

    # Ordering

    async def check(self, request: Request) -> Response:
        return answer(await asyncio.to_thread(self._plan, await self._wished(request)))

    async def _wished(self, request: Request) -> list[Spec]:
        wish = forms.Wish.read(await _body(request))
        return await asyncio.to_thread(forms.make_specs, wish, self.allowed, self.store)

    def _plan(self, specs: Sequence[Spec]) -> dict[str, Any]:
        from grokscope.engine.planning import choose_processes, estimate_seconds

        busy, runs, left = self.orders.under_way(), [], []
        for spec in specs:
            run = self.store.find(spec)
            kept: str = run.status if run.path.exists() else "to train"
            kept = "stopped" if kept == "partial" else kept  # as the list says
            state = "under way" if run.id in busy else kept
            runs.append({"run": run.id, "label": describe(spec), "state": state})
            left += [spec] if not run.ended and run.id not in busy else []
        seconds = sum(map(estimate_seconds, left)) / max(1, choose_processes(left))
        return {"runs": runs, "left": len(left), "seconds": round(seconds, 3)}

    async def start(self, request: Request) -> Response:
        return await self._place(await self._wished(request))

    async def resume(self, request: Request) -> Response:
        run = self.run(str((await _body(request)).get("run", "")))
        forms.check_parts(run.spec, self.allowed, self.store)
        return await self._place([run.spec])

    async def _place(self, specs: Sequence[Spec]) -> Response:
        order = await asyncio.to_thread(self.orders.place, specs)
        return answer({"order": order, "runs": [spec.id for spec in specs]})

    async def stop(self, request: Request) -> Response:
        run = self.run(str((await _body(request)).get("run", "")))
        await asyncio.to_thread(self.orders.stop, run.id)
        self.stopped[run.id] = time.time() + STOPPING_SECONDS
        return answer({"run": run.id})


async def _body(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise SpecError("The request is not JSON.") from error
    if not isinstance(data, dict):
        raise SpecError("The request must be a JSON object.")
    return data


def answer(value: Any) -> Response:
    """As JSON, which has no NaN: it becomes null."""
    try:
        return JSONResponse(value)
    except ValueError:
        return JSONResponse(finite(value))


@contextlib.asynccontextmanager
async def _looking(app: Starlette) -> AsyncIterator[None]:
    app.state.lab.look_for(0)  # the browser needs a moment to open
    task = asyncio.create_task(app.state.lab.keep_looking())
    try:
        yield
    finally:
        task.cancel()


def static_files() -> dict[str, tuple[bytes, str]]:
    """Every file of the page by its name: nothing else can be asked for."""
    found = {}
    for folder in ("", "vendor"):
        place = resources.files("grokscope.lab") / "static" / folder
        for file in place.iterdir():
            suffix = Path(file.name).suffix
            if suffix in KINDS_OF_FILE:
                name = f"{folder}/{file.name}".lstrip("/")
                found[name] = (file.read_bytes(), KINDS_OF_FILE[suffix])
    return found


def make_app(lab: Lab) -> Starlette:
    files = static_files()

    def static(request: Request) -> Response:
        name = request.path_params.get("name", "lab.html")
        if name not in files:
            raise HTTPException(404)
        data, kind = files[name]
        return Response(data, media_type=kind)

    routes = [
        Route("/", static),
        Route("/static/{name:path}", static),
        Route("/api/about", lab.about),
        Route("/api/runs", lab.runs),
        Route("/api/run/{run}", lab.detail),
        Route("/api/autopsy/{run}", lab.autopsy),
        Route("/api/rows/{run}", lab.rows),
        Route("/api/snapshot/{run}/{epoch}", lab.snapshot),
        Route("/api/figure/{kind}.{suffix}", lab.figure),
        Route("/api/papers", lab.papers),
        Route("/api/papers/{name}", lab.paper),
        Route("/api/papers/{name}/{study}-{scale}.svg", lab.paper_figure),
        Route("/api/stream", lab.stream),
        Route("/api/check", lab.check, methods=["POST"]),
        Route("/api/start", lab.start, methods=["POST"]),
        Route("/api/resume", lab.resume, methods=["POST"]),
        Route("/api/stop", lab.stop, methods=["POST"]),
        Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg")),
    ]
    handlers: dict[Any, Any] = {
        GrokscopeError: lambda request, error: refuse(422, str(error)),
        StoreError: lambda request, error: refuse(404, str(error)),
        HTTPException: lambda request, error: refuse(error.status_code, "There is nothing here."),
        TooLarge: lambda request, error: refuse(413, TOO_LARGE),
        ClientDisconnect: lambda request, error: refuse(400, "The request broke off."),
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=_looking)
    app.state.lab = lab
    return app


def free_port(wanted: int) -> int:
    """The port that was asked for if it is free, else any."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]
    raise StoreError("No port of this machine is free.")


class Server(uvicorn.Server):
    @property
    def guard(self) -> Guard:
        return self.config.app  # type: ignore[return-value]

    async def shutdown(self, sockets: Any = None) -> None:
        self.guard.app.state.lab.hang_up()  # type: ignore[attr-defined]
        # An answer that nobody waits for any more is no error to tell of.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def make_server(lab: Lab, port: int) -> tuple[Server, str]:
    """A server on this machine, and the link that opens it."""
    port = free_port(port)
    guard = Guard(make_app(lab), port)
    config = uvicorn.Config(
        guard,
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,  # the first address has the token in it
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    return Server(config), f"http://127.0.0.1:{port}/?token={guard.token}"


def serve(lab: Lab, port: int, show: bool = True) -> None:
    """Listen until interrupted; runs go on."""
    server, address = make_server(lab, port)
    print(f"The lab: {address}\nCtrl-C closes the page's server; runs go on.", flush=True)
    if show:
        once = f"{address.partition('=')[0]}={server.guard.invite()}"
        threading.Timer(0.5, webbrowser.open, [once]).start()
    server.run()
