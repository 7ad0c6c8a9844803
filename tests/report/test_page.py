"""The report in a real Chromium, opened from disk: what a person sees and does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

from gatcluster.model.inference import attention_maps
from gatcluster.prepare import read_like
from gatcluster.report.circular_map import circular_map
from gatcluster.runs.curation import read_curation
from gatcluster.runs.export import export_run
from gatcluster.runs.folder import load_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

K, N = 3, 90


class Opened(NamedTuple):
    page: Page
    errors: list[str]  # of the console and of scripts
    requests: list[str]


Opener = Callable[..., Opened]


@pytest.fixture
def opener(browser) -> Iterator[Opener]:
    """Opens the report of a run in a new window; at the end, nothing may have gone wrong or out."""
    contexts, all_opened = [], []

    def open_report(run: Path, part: str = "", **options: object) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        page.set_default_timeout(15_000)
        opened = Opened(page, [], [])
        page.on("console", lambda line: opened.errors.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        contexts.append(context)
        all_opened.append(opened)
        page.goto(f"{(run / 'report' / 'index.html').as_uri()}{part}")
        page.wait_for_selector("html[data-ready]")
        return opened

    yield open_report
    for context in contexts:
        context.close()
    for opened in all_opened:
        assert opened.errors == []
        assert [url for url in opened.requests if not url.startswith("file:///")] == []


def run_values(run: Path) -> tuple[list[str], np.ndarray]:
    return load_run(run).clusters()[0], load_run(run).label_features()


def test_every_cluster_has_a_card_with_its_size_and_its_surest_images(opener, fitted):
    page = opener(fitted.run).page
    _, features = run_values(fitted.run)
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    assert page.locator(".card").count() == K
    for cluster in range(K):
        card = page.locator(f".card[data-cluster='{cluster}']")
        members = np.flatnonzero(clusters == cluster)
        assert f"{len(members)} image" in card.inner_text()
        if not len(members):
            continue
        shown = [int(tile.get_attribute("data-image")) for tile in card.locator(".strip").first.locator("canvas").all()]
        surest = members[np.argsort(-confidence[members], kind="stable")][: len(shown)]
        assert shown == surest.tolist()
        assert len(shown) == min(10, len(members))
        first = card.locator("canvas").first
        assert first.get_attribute("role") == "img"
        page.wait_for_selector(f".card canvas[data-image='{shown[0]}'][data-painted]")


def test_the_head_tells_what_was_clustered_how_and_what_to_be_wary_of(opener, fitted):
    page = opener(fitted.run).page
    head = page.locator("#head").inner_text()
    metrics = load_run(fitted.run).metrics()
    assert page.locator("#title").inner_text() == "<i>photos"
    assert page.title() == "<i>photos · gatcluster"
    assert f"{N} images in {K} clusters" in head
    for name, value in [("Recipe", "fast"), ("Seed", "0"), ("Epochs", "4"), ("ARI", f"{metrics['ari']:.3f}")]:
        assert f"{name}\n{value}" in head
    assert f"NMI, geometric mean\n{metrics['nmi_geometric']:.3f}" in head
    assert "1 file could not be read and was left out" in head
    page.click("text=Files left out")
    assert "broken <b>.png" in page.locator("#warnings details").inner_text()


def test_a_tile_shows_its_own_image(opener, fitted):
    """Thumbnails are cut from the right place of the right sheet."""
    page = opener(fitted.run).page
    names, _ = run_values(fitted.run)
    image = int(page.locator(".card canvas").first.get_attribute("data-image"))
    page.wait_for_selector(f"canvas[data-image='{image}'][data-painted]")
    png = page.locator(f"canvas[data-image='{image}']").first.screenshot()
    shown = np.asarray(Image.open(BytesIO(png)).convert("L"), dtype=float)
    images = read_like(fitted.photos, load_run(fitted.run).settings().images)
    assert list(images.names) == names
    side = shown.shape[0]
    own = {}
    for other in (image, (image + 1) % N, (image + 2) % N):
        pixels = Image.fromarray(images.pixels[other]).convert("L")
        scale = side / max(pixels.size)
        small = pixels.resize((round(pixels.width * scale), round(pixels.height * scale)), Image.Resampling.BICUBIC)
        left = (side - small.width) // 2
        part = shown[4 : small.height - 4, left + 4 : left + small.width - 4]
        expected = np.asarray(small, dtype=float)[4:-4, 4:-4][: part.shape[0], : part.shape[1]]
        own[other] = np.corrcoef(part.ravel(), expected.ravel())[0, 1]
    assert max(own, key=own.get) == image
    assert own[image] > 0.95


def test_a_cluster_opens_by_click_and_by_key_and_lists_all_its_images(opener, fitted):
    page = opener(fitted.run).page
    _, features = run_values(fitted.run)
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    cluster = int(np.bincount(clusters, minlength=K).argmax())
    members = np.flatnonzero(clusters == cluster)
    page.focus(f".card[data-cluster='{cluster}']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#view-list:not([hidden]) .thumb")
    assert page.url.endswith(f"#cluster/{cluster}")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector(f".thumb[data-at='{len(members) - 1}']")
    shown = {int(t.get_attribute("data-at")): int(t.get_attribute("data-image")) for t in page.locator(".thumb").all()}
    sure = members[np.argsort(-confidence[members], kind="stable")]
    assert all(sure[at] == image for at, image in shown.items())
    page.keyboard.press("Escape")
    page.wait_for_selector("#view-clusters:not([hidden])")
    page.click(f".card[data-cluster='{cluster}'] .card-facts")
    page.wait_for_selector("#view-list:not([hidden]) .thumb")
    page.select_option("#list-tools select >> nth=0", "least")
    assert int(page.locator(".thumb[data-at='0']").get_attribute("data-image")) == sure[-1]


def test_arrows_move_between_images_enter_opens_one_and_escape_closes_it(opener, fitted):
    page = opener(fitted.run).page
    _, features = run_values(fitted.run)
    cluster = int(np.bincount(features.argmax(axis=1), minlength=K).argmax())
    page.evaluate(f"location.hash = '#cluster/{cluster}'")
    page.wait_for_selector(".thumb[data-at='1']")
    page.focus(".thumb[data-at='0']")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.at") == "1"
    second = page.evaluate("document.activeElement.dataset.image")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.locator("#picture-tile").get_attribute("data-image") == second
    page.keyboard.press("ArrowLeft")
    assert page.locator("#picture-tile").get_attribute("data-image") != second
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.wait_for_selector(".thumb[data-at='2']:focus")  # focus follows to where the reader went
    assert page.locator("#picture").is_hidden()


def open_image(page: Page, index: int) -> None:
    page.evaluate("index => gatcluster.openPicture(index, [index], 0)", index)
    page.wait_for_selector("dialog[open]")
    page.wait_for_selector(f"#picture-tile[data-image='{index}']")


def test_an_open_image_shows_its_path_its_label_features_and_its_nearest(opener, fitted):
    page = opener(fitted.run).page
    names, features = run_values(fitted.run)
    index = 40
    open_image(page, index)
    assert page.locator("#picture-name").inner_text() == names[index]
    shown = [float(text) for text in page.locator(".bar-number").all_inner_texts()]
    assert_allclose(shown, np.sort(features[index])[::-1], atol=6e-4)
    near = [int(tile.get_attribute("data-image")) for tile in page.locator("#picture-near canvas").all()]
    distances = np.linalg.norm(features - features[index], axis=1)
    distances[index] = np.inf
    assert_allclose(distances[near], np.sort(distances)[: len(near)], atol=1e-4)
    assert len(near) == 12
    label = page.locator("#picture-cluster").inner_text()
    assert f"label {Path(names[index]).parent.name}" in label


def test_attention_is_the_networks_own_map_in_its_place(opener, fitted):
    page = opener(fitted.run).page
    index = 40
    open_image(page, index)
    assert page.locator("#picture-attention").is_hidden()
    page.check("#attention-on")
    assert page.locator("#picture-attention").is_visible()
    before = page.eval_on_selector("#picture-attention", "canvas => canvas.toDataURL()")
    page.evaluate("""() => {
        const slider = document.getElementById("attention-strength");
        slider.value = 20;
        slider.dispatchEvent(new Event("input"));
    }""")
    assert page.eval_on_selector("#picture-attention", "canvas => canvas.toDataURL()") != before
    page.uncheck("#attention-on")
    assert page.locator("#picture-attention").is_hidden()
    run = load_run(fitted.run)
    images = read_like(fitted.photos, run.settings().images)
    expected = attention_maps(run.network(), images, run.settings())[index]  # (H, W)
    # At the middles of the feature map's positions, the page's map has the network's own values.
    found = page.evaluate(
        """([index, pixels]) => {
        const own = [0, 1, 2].map((part) => gatcluster.run.attention[3 * index + part] / 65535);
        const map = gatcluster.attentionMap(own, pixels);
        const { attention, height, width } = gatcluster.run.summary;
        const at = ({ first, step }, place, side) => Math.floor(((first + step * place) / side) * pixels);
        return Array.from({ length: attention.rows.length }, (_, row) =>
            Array.from({ length: attention.columns.length }, (_, column) =>
                map[at(attention.rows, row, height) * pixels + at(attention.columns, column, width)]));
    }""",
        [index, 1200],
    )
    assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("height", [420, 900])
def test_the_attention_lies_over_the_whole_image_however_low_the_window(opener, fitted, height):
    page = opener(fitted.run, viewport={"width": 1280, "height": height}).page
    open_image(page, 40)
    page.check("#attention-on")
    boxes = [page.locator(part).bounding_box() for part in ("#picture-frame", "#picture-tile", "#picture-attention")]
    rows, columns = load_run(fitted.run).settings().images.size
    for box in boxes:
        assert box == pytest.approx(boxes[0], abs=1)
        assert box["width"] / box["height"] == pytest.approx(columns / rows, rel=0.02)
        assert box["height"] < 0.7 * height


def test_the_map_places_every_image_by_the_papers_formula(opener, fitted):
    page = opener(fitted.run, "#map").page
    _, features = run_values(fitted.run)
    page.wait_for_selector("#map-canvas[data-points]")
    page.uncheck("#map-spread")
    place = circular_map(features)
    canvas = page.locator("#map-canvas").bounding_box()
    radius = min(canvas["width"], canvas["height"]) / 2 / 1.17 - 26
    image = int(features.max(axis=1).argmin())
    page.mouse.move(canvas["x"] + 5, canvas["y"] + 5)
    assert page.locator("#map-tip").is_hidden()
    x, y = place[image].tolist()
    page.mouse.move(canvas["x"] + canvas["width"] / 2 + radius * x, canvas["y"] + canvas["height"] / 2 - radius * y)
    tip = page.locator("#map-tip")
    tip.wait_for()
    shown = int(tip.get_attribute("data-image"))
    assert np.linalg.norm(place[shown] - place[image]) * radius < 2  # the same place, perhaps another image
    assert f"Cluster {features[shown].argmax()}" in tip.inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("dialog[open]")
    assert page.locator("#picture-tile").get_attribute("data-image") == str(shown)


def test_the_map_zooms_moves_and_selects(opener, fitted):
    page = opener(fitted.run, "#map").page
    page.wait_for_selector("#map-canvas[data-points]")
    canvas = page.locator("#map-canvas")
    first = canvas.screenshot()
    page.focus("#map-canvas")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(100)
    assert canvas.screenshot() != first
    page.click("#map-reset")
    box = canvas.bounding_box()
    left, top = box["x"] + 14, box["y"] + 14
    right, bottom = left + box["width"] - 28, top + box["height"] - 28
    page.keyboard.down("Shift")
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in [(right, top), (right, bottom), (left, bottom)]:
        page.mouse.move(x, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert f"{N} images selected" in page.locator("#map-selection-title").inner_text()
    page.click("#map-selection-clear")
    assert page.locator("#map-selection").is_hidden()


def test_the_stage_slider_shows_the_training_from_its_first_moment(opener, fitted):
    page = opener(fitted.run, "#map").page
    snapshots = load_run(fitted.run).snapshots()
    page.wait_for_selector("#map-stage-name:has-text('finished')")
    last = page.locator("#map-canvas").screenshot()
    assert page.get_attribute("#map-stage", "max") == str(len(snapshots.stages) - 1)
    page.focus("#map-stage")
    page.keyboard.press("Home")
    assert f"0% of the training: {len(snapshots.images)} images" in page.locator("#map-stage-name").inner_text()
    page.wait_for_timeout(100)
    assert page.locator("#map-canvas").screenshot() != last
    page.click("#map-play")
    page.wait_for_selector("#map-stage-name:has-text('finished')", timeout=60_000)


def test_the_map_can_be_coloured_by_label_once_evaluated(opener, fitted):
    page = opener(fitted.run, "#map").page
    page.wait_for_selector("#map-colour option[value=label]", state="attached")
    page.select_option("#map-colour", "label")
    assert page.locator("#map-legend li").all_inner_texts() == [
        "<b>slanting",
        "<script>window.ran = 1<",
        "lying",
        "standing",
    ]


def test_the_training_is_charted(opener, fitted):
    page = opener(fitted.run, "#training").page
    page.wait_for_selector("#charts svg path")
    titles = page.locator("#charts h3").all_inner_texts()
    assert titles[:4] == ["Cluster sizes", "Mean confidence", "Entropy of the clusters", "Assignments that changed"]
    losses = {name for record in load_run(fitted.run).history() for name in record.losses}
    assert {title.removeprefix("Loss: ") for title in titles[4:]} == losses
    assert page.locator("#charts .chart").first.locator("path.area").count() == K


def test_the_confusion_table_counts_and_its_cells_open(opener, fitted):
    page = opener(fitted.run, "#labels").page
    names, features = run_values(fitted.run)
    clusters = features.argmax(axis=1)
    page.wait_for_selector(".confusion td.match")
    matched = sum(int(text) for text in page.locator(".confusion td.match").all_inner_texts())
    assert matched / N == pytest.approx(load_run(fitted.run).metrics()["accuracy"])
    cell = page.locator(".confusion td a").first
    cluster, label = map(int, re.findall(r"\d+", cell.get_attribute("href")))
    wanted = sorted({Path(name).parent.name for name in names})[label]
    expected = {i for i in range(N) if clusters[i] == cluster and Path(names[i]).parent.name == wanted}
    cell.click()
    page.wait_for_selector("#view-list:not([hidden]) .thumb")
    assert {int(thumb.get_attribute("data-image")) for thumb in page.locator(".thumb").all()} == expected


def test_names_are_text_and_nothing_in_them_runs(opener, fitted):
    page = opener(fitted.run).page
    names, _ = run_values(fitted.run)
    for index, name in enumerate(names):
        if name.isascii() and name.removesuffix(".png")[-2:].isdigit():
            continue
        open_image(page, index)
        shown = page.locator("#picture-name").evaluate("element => element.textContent")
        assert shown == name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        assert page.locator("#picture-name *").count() == 0
        page.keyboard.press("Escape")
    page.evaluate("""() => {
        gatcluster.curation.rename(0, "<img src=x onerror=window.ran=1>");
        location.hash = "#map";
    }""")
    page.wait_for_selector("#map-legend >> text=<img src=x")
    assert page.evaluate("window.ran") is None


def test_a_policy_forbids_remote_and_inline_scripts(opener, fitted):
    opened = opener(fitted.run)
    page = opened.page
    policy = page.get_attribute("meta[http-equiv='Content-Security-Policy']", "content")
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["script-src"] == parts["style-src"] == parts["img-src"] == "'self'"
    failures = []
    page.on("requestfailed", lambda request: failures.append(request.failure))
    page.evaluate("""() => {
        for (const [kind, value] of [["text", "window.ran = 1"], ["src", "https://example.org/x.js"]]) {
            const script = document.createElement("script");
            script[kind] = value;
            document.head.append(script);
        }
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert failures == ["csp"]  # no name was looked up, nothing was sent
    assert len(opened.errors) >= 2  # the browser says that it refused both
    assert all("Content Security Policy" in error for error in opened.errors)
    opened.errors.clear()
    opened.requests.clear()  # the refused one is in the list


def test_what_the_reader_decides_is_kept_and_can_be_taken_along(opener, fitted, tmp_path):
    page = opener(fitted.run).page
    names, _ = run_values(fitted.run)
    odd = next(i for i, name in enumerate(names) if "onerror" in name)
    unspeakable = next(i for i, name in enumerate(names) if "\udce9" in name)
    page.fill(".card[data-cluster='1'] input.name", "  cats <3  ")
    page.press(".card[data-cluster='1'] input.name", "Enter")
    open_image(page, odd)
    page.click("#picture-wrong")
    page.keyboard.press("Escape")
    open_image(page, unspeakable)
    assert page.locator("#picture-wrong").is_disabled()
    page.keyboard.press("Escape")
    page.click(".tabs a[href='#curation']")
    page.select_option("#merge-one", "0")
    page.select_option("#merge-other", "2")
    page.click("#merge-add")
    page.reload()  # the browser remembers
    page.wait_for_selector("#curation-count:not([hidden])")
    assert page.locator("#curation-count").inner_text() == "3"
    with page.expect_download() as download:
        page.click("#curation-download")
    assert download.value.suggested_filename == "curation.json"
    download.value.save_as(tmp_path / "curation.json")
    assert json.loads((tmp_path / "curation.json").read_text(encoding="utf-8")) == {
        "format": "gatcluster-curation",
        "version": 1,
        "names": {"1": "cats <3"},
        "merge": [[0, 2]],
        "wrong": [names[odd]],
    }
    # And `gatcluster export --curation` applies it.
    curation = read_curation(tmp_path / "curation.json", K, names)
    done = export_run(load_run(fitted.run), "csv", tmp_path / "clusters.csv", curation)
    assert (done.left_out_wrong, done.n_images) == (1, N - 1)
    assert [group.clusters for group in done.groups] == [[0, 2], [1]]
    assert done.groups[1].name == "cats <3"


def test_a_curation_can_be_opened_and_one_of_another_run_is_refused(opener, fitted, tmp_path):
    page = opener(fitted.run, "#curation").page
    names, _ = run_values(fitted.run)
    good = {
        "format": "gatcluster-curation",
        "version": 1,
        "names": {"2": "dogs"},
        "merge": [[0, 1]],
        "wrong": [names[7]],
    }
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps({**good, "names": {"7": "no such cluster"}}))
    page.set_input_files("#curation-file", tmp_path / "good.json")
    page.wait_for_selector("#curation-count:has-text('3')")
    assert page.evaluate("gatcluster.curation.asJson()") == good
    page.set_input_files("#curation-file", tmp_path / "bad.json")
    page.wait_for_selector("#curation-error:has-text('another run')")
    assert page.evaluate("gatcluster.curation.asJson()") == good


@pytest.mark.parametrize("part", ["", "#cluster/0", "#map", "#training", "#labels", "#curation"])
def test_a_phone_in_dark_mode_needs_no_sideways_scrolling(opener, fitted, part):
    page = opener(fitted.run, part, viewport={"width": 390, "height": 844}, color_scheme="dark").page
    page.wait_for_timeout(150)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    )
    assert max(red, green, blue) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_on_what_it_stands_on(opener, fitted, scheme):
    page = opener(fitted.run, color_scheme=scheme).page
    colours = page.evaluate("""() => {
        const names = ["page", "surface", "sunken", "warn", "ink", "ink-2", "ink-3", "accent", "on-accent", "bad"];
        return Object.fromEntries(names.map((name) => [name, gatcluster.styleColour(name)]));
    }""")
    for ink in ("ink", "ink-2", "ink-3", "accent", "bad"):
        for paper in ("page", "surface"):
            assert contrast(colours[ink], colours[paper]) >= 4.5
    assert contrast(colours["ink"], colours["warn"]) >= 4.5
    assert contrast(colours["ink"], colours["sunken"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    for cluster in range(12):
        colour = page.evaluate(
            "c => { gatcluster.run.summary.n_clusters = 12; return gatcluster.clusterColour(c); }", cluster
        )
        assert contrast(colour, colours["surface"]) >= 3


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as the WCAG define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("k", [2, 12, 13, 40, 100])
def test_colours_of_any_number_of_clusters_differ(opener, fitted, k):
    page = opener(fitted.run).page
    colours = page.evaluate(
        """k => {
        gatcluster.run.summary.n_clusters = k;
        return Array.from({ length: k }, (_, c) => gatcluster.clusterColour(c));
    }""",
        k,
    )
    assert len(set(colours)) == k
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)
