"""examples/tag_files.py: files of any size through an export."""

import random
import sys

import pytest
import tensorflow as tf

import columns
import exports
import tag_files
import toys

WORDS = [*exports.VOCABULARY, "unseen", "New York"]


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """The directory of a stand-in for an export."""
    directory = str(tmp_path_factory.mktemp("tagger") / "1")
    exports.Counting().export(directory)
    return directory


def sentences(number=60, longest=20, seed=3):
    """Of all lengths from 1 on, in no order."""
    chooser = random.Random(seed)
    return [chooser.choices(WORDS, k=chooser.randint(1, longest)) for _ in range(number)]


def as_columns(all_tokens, end="\n"):
    lines = ["".join(f"{token}\tX{end}" for token in tokens) + end for tokens in all_tokens]
    return "".join(lines).encode()


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def run(export, output, *arguments):
    tag_files.main([export, "--output", str(output), *map(str, arguments)])


class TestTagged:
    @pytest.fixture(autouse=True)
    def _small_batches(self, monkeypatch):
        """So that these files are many batches and windows."""
        monkeypatch.setattr(tag_files, "TOKENS_IN_BATCH", 50)
        monkeypatch.setattr(tag_files, "TOKENS_IN_WINDOW", 200)

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_each_sentence_is_written_in_its_place_with_the_tags_it_has_alone(
        self, export, tmp_path, end
    ):
        given = sentences()
        source = write(tmp_path / "in" / "file.tsv", as_columns(given, end))
        run(export, tmp_path / "out", source)
        written = columns.read_columns(tmp_path / "out" / "file.tsv")
        assert written == [(tokens, exports.Counting.alone(tokens)) for tokens in given]

    def test_of_plain_text_each_line_is_a_sentence(self, export, tmp_path, capsys):
        source = write(tmp_path / "in" / "file.txt", "Ort  zu\r\n\n \nsão w3 w4\nw1".encode())
        run(export, tmp_path / "out", "--plain", source)
        written = columns.read_columns(tmp_path / "out" / "file.txt")
        expected = [["Ort", "zu"], ["são", "w3", "w4"], ["w1"]]
        assert written == [(tokens, exports.Counting.alone(tokens)) for tokens in expected]
        assert "file.txt: 3 sentences" in capsys.readouterr().out

    def test_a_very_long_sentence_and_one_token_alone(self, export, tmp_path):
        given = [["zu"], sentences(1, 1)[0] * 5000, ["são"]]
        source = write(tmp_path / "in" / "file.tsv", as_columns(given).rstrip())
        run(export, tmp_path / "out", source)
        written = columns.read_columns(tmp_path / "out" / "file.tsv")
        assert written == [(tokens, exports.Counting.alone(tokens)) for tokens in given]

    def test_a_file_without_sentences_gives_one_without(self, export, tmp_path, capsys):
        paths = [write(tmp_path / "in" / f"{n}.tsv", b"\r\n" * n) for n in (0, 2)]
        run(export, tmp_path / "out", *paths)
        assert [(tmp_path / "out" / path.name).read_bytes() for path in paths] == [b"", b""]
        assert capsys.readouterr().out.count(": 0 sentences") == 2

    @pytest.mark.parametrize("size", [1, 30, 10_000])
    @pytest.mark.parametrize("plain", [True, False])
    def test_pieces_of_a_file_hold_its_sentences_whole(self, tmp_path, size, plain):
        given = [["w1"], *sentences()]
        content = as_columns(given, "\r\n")
        if plain:
            content = "\n".join("_".join(tokens) for tokens in given).encode()
        source = write(tmp_path / "file", content)
        pieces = tag_files.pieces(source, size, plain=plain)
        assert len(pieces) == {1: 61, 10_000: 1}.get(size, len(pieces))
        assert [
            sentence
            for start, stop in pieces
            for sentence in tag_files.read_sentences(source, plain=plain, start=start, stop=stop)
        ] == list(tag_files.read_sentences(source, plain=plain))


@pytest.mark.slow
class TestOnRay:
    @pytest.fixture(scope="class")
    def on_ray(self):
        """The function that runs the script on two workers."""
        ray = pytest.importorskip("ray", reason='needs pip install "ray[data]"')
        import tag_files_on_ray

        environment = {"env_vars": {"PYTHONPATH": toys.PYTHON_PATH}}
        ray.init(num_cpus=2, include_dashboard=False, runtime_env=environment)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tag_files_on_ray, "PIECE", 300)
            yield lambda *arguments: tag_files_on_ray.main([str(value) for value in arguments])
        ray.shutdown()

    def test_two_workers_write_what_one_process_writes(self, on_ray, export, tmp_path, capsys):
        contents = as_columns(sentences()), as_columns(sentences(seed=4), "\r\n"), b""
        sources = [write(tmp_path / "in" / f"{n}.tsv", text) for n, text in enumerate(contents)]
        run(export, tmp_path / "alone", *sources)
        on_ray(export, *sources, "--output", tmp_path / "out", "--workers", 2)
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert names == [path.name for path in sources]
        for name in names:
            alone, together = (tmp_path / folder / name for folder in ("alone", "out"))
            assert together.read_bytes() == alone.read_bytes()
        assert capsys.readouterr().out.count("0.tsv: 60 sentences") == 2

    def test_a_bad_file_is_named_with_its_line(self, on_ray, export, tmp_path):
        source = write(tmp_path / "in" / "file.tsv", as_columns(sentences()) + b"\xe3o\n")
        line = as_columns(sentences()).count(b"\n") + 1
        with pytest.raises(SystemExit, match=f"tag_files_on_ray: .*file.tsv:{line}: not UTF-8"):
            on_ray(export, source, "--output", tmp_path / "out")
        assert not (tmp_path / "out" / "file.tsv").exists()


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"a\n\nb\n\xe3o\tX\n", r"file.tsv:4: not UTF-8 \(byte 0xe3 at position 0\)"),
            (b"a\tX\n\tX\n", "file.tsv:2: the token is empty"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line_and_not_written_as_whole(
        self, export, tmp_path, content, message
    ):
        source = write(tmp_path / "in" / "file.tsv", content)
        with pytest.raises(SystemExit, match=f"tag_files: .*{message}"):
            run(export, tmp_path / "out", source)
        assert not (tmp_path / "out" / "file.tsv").exists()

    def test_no_export_and_no_file_are_named(self, export, tmp_path):
        source = write(tmp_path / "file.tsv", b"a\n")
        with pytest.raises(
            SystemExit, match=r"tag_files: no export at .*absent: .*saved_model\.pb"
        ):
            tag_files.main([str(tmp_path / "absent"), str(source), "--output", str(tmp_path / "o")])
        with pytest.raises(SystemExit, match=r"tag_files: no file .*absent\.tsv"):
            run(export, tmp_path / "o", tmp_path / "absent.tsv")

    def test_an_export_of_other_inputs_is_refused(self, tmp_path):
        other = tf.Module()
        other.double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([])])
        tf.saved_model.save(other, str(tmp_path), signatures=other.double)
        with pytest.raises(ValueError, match=r"takes \['x'\] and gives \['y'\]; tag_files needs"):
            tag_files.Tagger(str(tmp_path))

    def test_no_file_is_written_over(self, export, tmp_path):
        one, other = (write(tmp_path / folder / "file.tsv", b"a\n") for folder in "ab")
        with pytest.raises(SystemExit, match=r"would both be written to .*file\.tsv"):
            run(export, tmp_path / "o", one, other)
        with pytest.raises(SystemExit, match=r"file\.tsv would be written over itself"):
            run(export, tmp_path / "a", one)
        assert one.read_bytes() == b"a\n"


class TestProgress:
    def test_a_bar_is_drawn_on_a_terminal(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        progress = tag_files.Progress(200)
        progress(100)
        progress(100)
        drawn = capsys.readouterr().err
        assert f"\r[{'=' * 20}{' ' * 20}]  50%" in drawn
        assert drawn.endswith(f"\r[{'=' * 40}] 100%\n")

    def test_nothing_is_drawn_elsewhere(self, capsys):
        tag_files.Progress(1)(1)
        assert capsys.readouterr().err == ""


PEAK = """
import resource, sys, tag_files
tag_files.main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(export, tmp_path):
    content = as_columns(sentences(20_000))
    peaks = []
    for times in (1, 20):
        source = write(tmp_path / f"{times}.tsv", content * times)
        arguments = [export, source, "--output", tmp_path / "out"]
        peaks.append(int(toys.run_python(PEAK, *arguments).split()[-1]))
        assert (tmp_path / "out" / source.name).stat().st_size > len(content) * times / 2
    assert peaks[1] < 1.1 * peaks[0], peaks
