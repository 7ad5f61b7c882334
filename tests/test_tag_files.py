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

    def test_documents_comments_and_other_columns_are_left_out(self, export, tmp_path):
        lines = "# text = w1 zu\n1-2\tw1zu\tO\n1\tw1\tO\n2\tzu\tO\n\n-DOCSTART-\tO\n\n1\tw2\tO"
        source = write(tmp_path / "in" / "file.tsv", ("\ufeff" + lines).encode())
        run(export, tmp_path / "out", "--token-column", 1, source)
        written = columns.read_columns(tmp_path / "out" / "file.tsv")
        expected = [["w1", "zu"], ["w2"]]
        assert written == [(tokens, exports.Counting.alone(tokens)) for tokens in expected]

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
        assert list((tmp_path / "out").iterdir()) == []

    def test_the_column_of_the_token_reaches_the_workers(self, on_ray, export, tmp_path):
        source = write(tmp_path / "in" / "file.tsv", b"1\tw1\n2\tzu\n\n1\tw2\n" * 40)
        run(export, tmp_path / "alone", source, "--token-column", 1)
        on_ray(export, source, "--output", tmp_path / "out", "--token-column", 1)
        together = (tmp_path / "out" / "file.tsv").read_bytes()
        assert together == (tmp_path / "alone" / "file.tsv").read_bytes()


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"a\n\nb\n\xe3o\tX\n", r"file.tsv:4: not UTF-8 \(byte 0xe3 at position 0\)"),
            (b"a\tX\n\tX\n", "file.tsv:2: the token is empty"),
            (
                b"-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n",
                "file.tsv:3: 1 column separated by tabs: 'EU NNP B-NP B-ORG'. Separated by spaces "
                "there would be 4: put tabs in their place, as with .* Plain text, a sentence per "
                "line, is for tag_files.py --plain",
            ),
            (b"EU,NNP,B-ORG\n", "file.tsv:1: .* Separated by ',' there would be 3: put tabs"),
            (b"EU\tB-ORG\rrejects\tO\r", "file.tsv:1: holds a carriage return"),
            (b"1\tAus\tO\n2\tBonn\tB-LOC\n", "file.tsv:1: the first column counts the tokens"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line_and_leaves_no_file(
        self, export, tmp_path, content, message
    ):
        source = write(tmp_path / "in" / "file.tsv", content)
        with pytest.raises(SystemExit, match=f"tag_files: .*{message}"):
            run(export, tmp_path / "out", source)
        assert list((tmp_path / "out").iterdir()) == []

    def test_what_was_whole_before_the_bad_file_stays(self, export, tmp_path):
        good = write(tmp_path / "in" / "good.tsv", as_columns(sentences(3)))
        bad = write(tmp_path / "in" / "bad.tsv", as_columns(sentences(3)) + b"\n\tX\n")
        with pytest.raises(SystemExit, match=r"bad\.tsv:\d+: the token is empty"):
            run(export, tmp_path / "out", good, bad)
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.tsv"]

    def test_an_interrupt_leaves_no_file(self, export, tmp_path):
        def interrupted(**reading):
            yield [b"a"], [b"O"]
            raise KeyboardInterrupt

        tagger = tag_files.Tagger(export)
        tagger.tag = lambda sentences: interrupted()
        with pytest.raises(KeyboardInterrupt):
            tag_files.tag_file(tagger, tmp_path / "in.tsv", tmp_path / "out.tsv")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("line", ["EU\tB-ORG", "-DOCSTART- -X- O O"])
    def test_a_column_file_is_not_taken_for_plain_text(self, export, tmp_path, line):
        source = write(tmp_path / "in" / "file.tsv", f"a b\n{line}\n".encode())
        with pytest.raises(SystemExit, match=r"file\.tsv:2: a line of a column file, where plain"):
            run(export, tmp_path / "out", source, "--plain")

    def test_the_line_is_that_of_the_file_in_a_piece_of_it_too(self, tmp_path):
        source = write(tmp_path / "file.tsv", b"a\n\nb\n\n\xe3o\n")
        with pytest.raises(columns.ColumnFileError, match=r"file\.tsv:5: not UTF-8"):
            list(tag_files.read_sentences(source, start=3))

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
        with pytest.raises(ValueError, match=r"takes x \(float32\) and gives y; needed is one"):
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
