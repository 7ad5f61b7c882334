"""The examples: column files, the corpus, the report, and a short training run end to end."""

import io
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
from collections import defaultdict

import keras
import numpy as np
import pytest
import tensorflow as tf

import columns
import corpus
import demo
import exports
import hmm_as_crf
import keras_crf
import predicting
import report
import tag
import text_layers
import toys
import train_tagger
from keras_crf.tags import DecodedEntity

ROOT = pathlib.Path(__file__).parents[1]
TAGS = {
    "BIO": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "BIOES": ["O", *(f"{prefix}-{type_}" for prefix in "BIES" for type_ in "XY")],
    "IOB1": ["O", "B", "I"],  # without types
}


def write(tmp_path, content):
    path = tmp_path / "file.tsv"
    path.write_bytes(content)
    return path


class TestColumns:
    def test_reads_tokens_with_spaces_and_a_last_line_without_newline(self, tmp_path):
        path = write(tmp_path, "São Paulo\tX\tB-LOC\r\n\r\n\r\nyes\tY\tO".encode())
        assert columns.read_columns(path) == [(["São Paulo"], ["B-LOC"]), (["yes"], ["O"])]
        assert columns.read_columns(path, column=1) == [(["São Paulo"], ["X"]), (["yes"], ["Y"])]

    @pytest.mark.parametrize(
        "content",
        [
            "\ufeffa\tO\nb\tB-X\n\nc\tO\n",
            "a\tO\nb\tB-X\n\n\ufeffc\tO\n",  # two files, joined
            " a \tO\nb\tB-X \n\nc\tO\u00a0\n",
            "a\tO\r\nb\tB-X\r\r\n\r\nc\tO",
            "a\tO\nb\tB-X\n \t \nc\tO\n",
            "-DOCSTART- -X- O O\n\na\tO\nb\tB-X\n-DOCSTART-\tO\nc\tO\n",
            "# text = a b\n#\thttp://x.org\t1\na\tO\nb\tB-X\n\n# c\nc\tO\n",
        ],
        ids=["mark", "marks", "blanks", "CRLF", "blank lines", "DOCSTART", "comments"],
    )
    def test_what_is_not_of_token_or_tag_is_left_out(self, tmp_path, content):
        path = write(tmp_path, content.encode())
        assert columns.read_columns(path) == [(["a", "b"], ["O", "B-X"]), (["c"], ["O"])]

    def test_a_number_sign_may_be_a_token(self, tmp_path):
        path = write(tmp_path, b"#\tB-X\n1\tI-X\n\n#new\tO\n")
        assert columns.read_columns(path) == [(["#", "1"], ["B-X", "I-X"]), (["#new"], ["O"])]

    def test_conll_u(self, tmp_path):
        lines = [
            "# sent_id = 1",
            "# text = Vámonos ya",
            "1-2\tVámonos\t_\t_",
            "1\tVamos\tir\tVERB",
            "2\tnos\tnosotros\tPRON",
            "2.1\t_\t_\t_",
            "3\tya\tya\tADV",
        ]
        path = write(tmp_path, "\n".join(lines).encode())
        expected = [(["Vamos", "nos", "ya"], ["VERB", "PRON", "ADV"])]
        assert columns.read_columns(path, 3, token_column=1) == expected
        assert columns.read_columns(path, -1, token_column=-3) == expected

    def test_germeval(self, tmp_path):
        text = "#\thttp://x.org [2009-10-17]\n1\tAus\tO\tO\n2\tBonn\tB-LOC\tO\n\n1\tSo\tO\tO\n"
        path = write(tmp_path, text.encode())
        expected = [(["Aus", "Bonn"], ["O", "B-LOC"]), (["So"], ["O"])]
        assert columns.read_columns(path, 2, token_column=1) == expected
        message = (
            r"file.tsv:2: the first column counts the tokens of the sentence, from 1 on: "
            r"'1.tAus.tO.tO'. Name the token's column, counted from 0, as with --token-column 1; "
            r"with --token-column 0 these numbers are the tokens"
        )
        with pytest.raises(columns.ColumnFileError, match=message):
            columns.read_columns(path)
        assert columns.read_columns(path, 2, token_column=0)[0] == (["1", "2"], ["O", "B-LOC"])

    @pytest.mark.parametrize("range_", ["2009-10", "1.5"])
    def test_what_only_looks_like_a_range_of_conll_u_is_kept(self, tmp_path, range_):
        path = write(tmp_path, f"{range_}\ta\tO\n{range_}\tb\tO\n".encode())
        assert columns.read_columns(path, token_column=1) == [(["a", "b"], ["O", "O"])]

    @pytest.mark.parametrize(
        ("content", "column", "message"),
        [
            (b"a\tO\nb O\n", -1, "file.tsv:2: expected at least 2 columns .*got 1: 'b O'"),
            (b"a\tO\n\nb\tO\n", 2, "file.tsv:1: expected at least 3 columns .*column 2, got 2"),
            (b"a\tO\nb\t\n", -1, "file.tsv:2: the tag is empty"),
            (b"a\tO\n\tO\n", -1, "file.tsv:2: the token is empty"),
            (b"a\tO\n \tO\n", -1, "file.tsv:2: the token is empty"),
            (
                b"a\tO\n\xe3o\tO\n",
                -1,
                "file.tsv:2: not UTF-8 .byte 0xe3 at position 0.: convert the file",
            ),
            ("a\tO\n".encode("utf-16"), -1, "file.tsv:1: not UTF-8 .byte 0xff at position 0"),
            ("a\tO\n".encode("utf-16-le"), -1, "file.tsv:1: holds a zero byte: .*UTF-16"),
            (
                b"a\tO\n\nb\tO\rc\tO\r",
                -1,
                "file.tsv:3: holds a carriage return, the line end of old Macs: put line feeds",
            ),
            (
                b"-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n",
                -1,
                "file.tsv:3: expected at least 2 columns separated by tabs, the tag in column -1, "
                "got 1: 'EU NNP B-NP B-ORG'. Separated by spaces there would be 4: put tabs in "
                "their place, as with tr -s ' '",
            ),
            (b"EU,NNP,B-ORG\n", -1, "Separated by ',' there would be 3: put tabs"),
            (b"EU\tNNP B-ORG\n", -1, "file.tsv:1: the tag 'NNP B-ORG' holds a blank: columns"),
            (b"a\tO\nb\tX\tO\n", -1, "file.tsv:2: 3 columns, where the first line .* has 2"),
            (b"a\tO\n# b\n", -1, "file.tsv:2: expected at least 2 columns"),
            (b"a\tO\n", 0, "file.tsv:1: token and tag are both in column 0 of 2: 'a.tO'"),
            (b"a\tO\n", -2, "file.tsv:1: token and tag are both in column -2 of 2"),
            (b"\n\n", -1, "file.tsv:1: no sentences"),
            (b"-DOCSTART-\tO\n# text\n", -1, "file.tsv:1: no sentences"),
            (b"", -1, "file.tsv:1: no sentences"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line(self, tmp_path, content, column, message):
        with pytest.raises(columns.ColumnFileError, match=message):
            columns.read_columns(write(tmp_path, content), column)

    def test_written_sentences_are_read_back(self, tmp_path):
        sentences = [(["a b", "c"], ["B-X", "I-X"]), (["d"], ["O"])]
        columns.write_columns(tmp_path / "file.tsv", sentences)
        assert columns.read_columns(tmp_path / "file.tsv") == sentences


@pytest.fixture(scope="module")
def requests():
    return corpus.generate_corpus()


class TestCorpus:
    def test_the_seed_decides(self):
        sizes = {"train": 50, "dev": 20}
        assert corpus.generate_corpus(sizes, 1) == corpus.generate_corpus(sizes, 1)
        assert corpus.generate_corpus(sizes, 1) != corpus.generate_corpus(sizes, 2)

    def test_sizes_and_no_request_twice(self, requests):
        assert {part: len(sentences) for part, sentences in requests.items()} == corpus.SIZES
        texts = [" ".join(tokens).lower() for part in requests.values() for tokens, _ in part]
        assert len(texts) == len(set(texts))

    def test_tags_are_legal(self, requests):
        all_tags = (tags for part in requests.values() for _, tags in part)
        assert report.count_illegal(all_tags, "BIO") == 0

    @pytest.mark.parametrize(
        ("word", "tags"),
        [
            ("may", {"O", "B-PERSON", "B-DATE"}),
            ("march", {"O", "I-PERSON", "B-DATE"}),
            ("paris", {"B-ORIGIN", "B-DESTINATION", "B-PERSON", "I-PERSON", "B-ITEM"}),
            ("to", {"O", "I-TIME"}),
            ("and", {"O", "I-ITEM", "I-SHOP"}),
            ("new", {"O", "B-ORIGIN", "B-DESTINATION"}),
            ("7", {"B-COUNT", "B-TIME", "I-TIME", "I-DATE", "B-PRICE"}),
        ],
    )
    def test_words_are_ambiguous(self, requests, word, tags):
        seen = defaultdict(set)
        for tokens, sentence_tags in requests["train"]:
            for token, name in zip(tokens, sentence_tags, strict=True):
                seen[token.lower()].add(name)
        assert tags <= seen[word]

    def test_the_test_part_has_names_of_its_own(self, requests):
        known, new = (
            {token.lower() for tokens, _ in requests[part] for token in tokens}
            for part in ("train", "test")
        )
        assert len(new - known) > 30

    def test_the_script_writes_column_files(self, tmp_path, requests, capsys):
        corpus.main([str(tmp_path)])
        assert columns.read_columns(tmp_path / "dev.tsv") == requests["dev"]
        assert "train.tsv: 3000 requests" in capsys.readouterr().out


class TestReport:
    def test_illegal_sequences_are_counted_by_the_scheme(self):
        sentences = [["O", "I-X"], ["I-X", "I-X"], ["O", "B-X"], []]
        assert report.count_illegal(sentences, "BIO") == 2
        assert report.count_illegal(sentences, "IOB1") == 1

    @pytest.mark.parametrize("scheme", TAGS)
    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_what_seqeval_prints(self, scheme, seed):
        seqeval = pytest.importorskip("seqeval.metrics")
        chooser = random.Random(seed)
        gold, predicted = (
            [chooser.choices(TAGS[scheme], k=1 + length % 7) for length in range(30)]
            for _ in range(2)
        )
        predicted[::2] = gold[::2]
        expected = seqeval.classification_report(gold, predicted, zero_division=0)
        assert report.entity_report(gold, predicted, scheme) == expected
        f1 = report.entity_f1(gold, predicted, scheme)
        assert f1 == pytest.approx(seqeval.f1_score(gold, predicted))

    def test_tags_of_no_scheme_are_scored_one_by_one(self):
        gold, predicted = [["DET", "NOUN"], ["VERB", "NOUN"]], [["DET", "NOUN"], ["NOUN", "NOUN"]]
        scores = report.entity_scores(gold, predicted, None)
        assert scores["NOUN"] == (2 / 3, 1, 0.8, 2)
        assert scores["micro avg"] == (0.75, 0.75, 0.75, 4)
        assert report.count_illegal(gold, None) == 0
        assert report.broken_report("dev", list(zip(gold, gold, strict=True)), None) == ""

    @pytest.mark.parametrize(
        ("sentences", "scheme", "line"),
        [
            (
                [["O"], ["B-X", "O", "I-X", "I-Y"], ["O", "I-X"]],
                "IOB2",
                "3 broken tags in 2 of 3 sentences under IOB2; "
                "the first: sentence 2, token 3, I-X after O",
            ),
            (
                [["I-X"]],
                "BIO",
                "1 broken tag in 1 of 1 sentences under BIO; "
                "the first: sentence 1, token 1, I-X at the start",
            ),
            (
                [["S-X"], ["O", "B-X"]],
                "BIOES",
                "1 broken tag in 1 of 2 sentences under BIOES; "
                "the first: sentence 2, token 2, B-X at the end",
            ),
        ],
    )
    def test_broken_tags_are_counted_and_the_first_is_named(self, sentences, scheme, line):
        with_tokens = [(["word"] * len(tags), tags) for tags in sentences]
        assert report.broken_report("dev", with_tokens, scheme) == f"dev: {line}"

    def test_nothing_is_said_of_tags_that_keep_the_scheme(self):
        assert report.broken_report("dev", [(["a", "b"], ["B-X", "I-X"])], "IOB2") == ""

    def test_a_sentence_is_shown_with_the_probability_of_each_entity_and_what_is_wrong(self):
        tokens, gold = ["Ada", "Lovelace", "saw", "Rome"], ["B-PER", "I-PER", "O", "O"]
        entities = [DecodedEntity("PER", 0, 2, 0.984), DecodedEntity("PLACE", 3, 4, 0.4)]
        assert report.sentence_report(tokens, entities, gold, "BIO").splitlines() == [
            "Ada Lovelace saw Rome",
            "  0.98  PER    Ada Lovelace",
            "  0.40  PLACE  Rome  wrong",
        ]

    def test_long_sentences_and_entities_are_cut(self):
        entities = [DecodedEntity("X", 0, 90, 1.0)]
        shown = report.sentence_report(["word"] * 100, entities, ["O"] * 100, "BIO").splitlines()
        assert [len(line) <= 96 and "word ..." in line for line in shown] == [True, True]

    def test_without_entities_all_is_zero(self):
        assert report.entity_f1([["O"]], [["O"]], "BIO") == 0
        assert "micro avg       0.00" in report.entity_report([["O"]], [["O"]], "BIO")


class TestTextLayers:
    def test_words_are_normalized(self):
        words = text_layers.NormalizeWords()(tf.constant([["ÓRGÃO", "7:30", ""]]))
        assert [word.decode() for word in words[0].numpy()] == ["órgão", "0:00", ""]

    def test_characters_are_cut_and_padded(self):
        ids = text_layers.CharacterIds(max_characters=2)(tf.constant([["abc", "é", ""]]))
        np.testing.assert_array_equal(ids, [[[98, 99], [234, 0], [0, 0]]])

    def test_empty_words_are_masked(self):
        ids = text_layers.CharacterIds()(tf.constant([["a", ""]]))
        features = text_layers.CharacterFeatures(3)(ids)
        assert features.shape == (1, 2, 3)
        np.testing.assert_array_equal(features._keras_mask, [[True, False]])


SMALL = {"epochs": 2, "word_size": 8, "character_filters": 8, "lstm_units": 8}


@pytest.fixture(scope="module")
def small_corpus(requests):
    """Full batches of one padded length, so that little is traced; the first sentence is broken."""
    sizes = {"train": 64, "dev": 16}
    small = {
        part: [sentence for sentence in requests[part] if 8 < len(sentence[0]) <= 16][:size]
        for part, size in sizes.items()
    }
    tokens, tags = small["train"][0]
    small["train"][0] = tokens, [tag.replace("B-", "I-") for tag in tags]
    return small


@pytest.fixture(scope="module")
def tagger(small_corpus):
    settings = train_tagger.Settings(**SMALL, constrain=True)
    return train_tagger.train_tagger(**small_corpus, settings=settings, verbose=0)


@toys.masks_pass_concatenate
class TestTraining:
    def test_batches_hold_every_sentence_once(self, requests):
        train = requests["train"][:100]
        tag_names = train_tagger.collect_tag_names(train)
        settings = train_tagger.Settings(batch_size=5)
        batches = list(train_tagger.training_batches(train, tag_names, settings))
        assert len(batches) == len(train_tagger.training_batches(train, tag_names, settings))
        assert {words.shape[1] for words, _ in batches} <= {8, 16, 32}
        rows = []
        for words, tags in batches:
            for row, ids in zip(words.numpy(), tags.numpy(), strict=True):
                tokens = [word.decode() for word in row if word]
                rows.append((tokens, [tag_names[i] for i in ids[: len(tokens)]]))
        assert sorted(rows) == sorted(train)

    def test_predictions_keep_order_and_lengths(self, tagger):
        model, tag_names = tagger
        lists = [["book", "a", "flight"], ["hi"], ["to"] * 40, ["from", "Rome"]]
        together = train_tagger.predict_tags(model, lists, tag_names)
        assert [len(tags) for tags in together] == [3, 1, 40, 2]
        alone = [train_tagger.predict_tags(model, [tokens], tag_names)[0] for tokens in lists]
        assert together == alone

    def test_entities_stand_at_their_sentences_and_do_not_depend_on_the_batch(self, tagger):
        model, tag_names = tagger
        lists = [["book", "a", "flight", "to", "Rome"], ["from", "Rome"]]
        together = predicting.predict_entities(model, lists, tag_names, "BIO")
        assert any(together)
        tags = predicting.predict_tags(model, lists, tag_names)
        assert [[entity[:3] for entity in found] for found in together] == [
            keras_crf.tags.tags_to_spans(sentence, "BIO") for sentence in tags
        ]
        alone = predicting.predict_entities(model, lists, tag_names, "BIO", batch_size=1)
        pairs = zip(itertools.chain(*together), itertools.chain(*alone), strict=True)
        for entity, same in pairs:
            assert entity.probability == pytest.approx(same.probability, abs=1e-5)

    def test_the_least_certain_sentences_are_those_with_the_least_probable_entity(self):
        def sentence(*probabilities):
            return [DecodedEntity("X", 0, 1, probability) for probability in probabilities]

        entities = [sentence(0.9), [], sentence(0.99, 0.3), sentence(0.5), sentence(1.0)]
        assert predicting.least_certain(entities) == [2, 3, 0]
        assert predicting.least_certain(entities, count=9) == [2, 3, 0, 4]
        assert predicting.least_certain([[], []]) == []

    def test_a_softmax_head_trains_too(self, small_corpus, capsys):
        settings = train_tagger.Settings(**SMALL, softmax=True)
        tagger = train_tagger.train_tagger(**small_corpus, settings=settings, verbose=0)
        f1, illegal = train_tagger.evaluate_tagger(*tagger, small_corpus["dev"], "dev", "BIO")
        assert 0 <= f1 <= 1
        assert f"illegal tag sequences: {illegal} of 16 under BIO" in capsys.readouterr().out

    def test_dev_entity_f1_is_logged(self, tagger, small_corpus):
        model, tag_names = tagger
        callback = train_tagger.EntityF1(small_corpus["dev"], tag_names, "BIO")
        callback.set_model(model)
        logs = {}
        callback.on_epoch_end(0, logs)
        assert 0 <= logs["val_entity_f1"] <= 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--train", "a.tsv"], "--train needs --dev"),
            (["--dev", "a.tsv"], "--dev and --test need --train"),
            (["--scheme", "BIO"], "--scheme is that of the column files, and needs --train"),
            (["--token-column", "1"], "--token-column needs --column: the last column need not be"),
            (["--constrain", "--softmax"], "--constrain is for the CRF: a softmax chooses each"),
            (["--softmax", "--save", "a.keras"], "--softmax is for comparison"),
            (["--save", "a.h5"], "--save must end in .keras, got a.h5"),
            (["--max-sentences", "0"], "--max-sentences must be at least 1, got 0"),
        ],
    )
    def test_wrong_options_are_refused(self, arguments, message, capsys):
        with pytest.raises(SystemExit):
            train_tagger.parse_options(arguments)
        assert message in capsys.readouterr().err

    def test_the_columns_of_token_and_tag_are_options(self, tmp_path):
        path = str(write(tmp_path, b"1\ta\tB-X\t_\n2\tb\tO\t_\n"))
        files = ["--train", path, "--dev", path]
        options = train_tagger.parse_options([*files, "--column", "2", "--token-column", "1"])
        assert train_tagger.load_corpus(options)["dev"] == [(["a", "b"], ["B-X", "O"])]
        with pytest.raises(SystemExit, match=r"train_tagger: .*file\.tsv:1: the first column"):
            train_tagger.main(files)

    def test_a_bad_file_ends_the_script_with_its_line(self, tmp_path):
        path = str(write(tmp_path, b"a\tO\nb\n"))
        with pytest.raises(SystemExit, match=r"train_tagger: .*file\.tsv:2: expected"):
            train_tagger.main(["--train", path, "--dev", path])

    @pytest.mark.parametrize(
        ("scheme", "message"),
        [
            ("BIOES-ish", "train_tagger: scheme must be one of IOB2, .* got 'BIOES-ish'"),
            ("IOE2", "train_tagger: names that are not of IOE2: .'B-X'."),
        ],
    )
    def test_a_scheme_that_is_not_of_the_files_ends_the_script(self, tmp_path, scheme, message):
        path = str(write(tmp_path, b"a\tB-X\nb\tO\n"))
        with pytest.raises(SystemExit, match=message):
            train_tagger.main(["--train", path, "--dev", path, "--scheme", scheme])

    @pytest.mark.parametrize(
        ("tags", "given", "scheme"),
        [
            (["O", "B-X", "I-X"], [], "IOB2"),
            (["O", "I-X"], [], "IOB1"),
            (["O", "S-X"], [], "IOBES"),
            (["O", "I-X"], ["--scheme", "IOB2"], "IOB2"),
        ],
    )
    def test_the_tags_tell_their_scheme_unless_it_is_named(self, tags, given, scheme):
        options = train_tagger.parse_options(["--train", "a", "--dev", "b", *given])
        corpus = {"train": [(["word"], [tags[0]])], "dev": [(["word"] * len(tags), tags)]}
        assert train_tagger.choose_scheme(options, corpus) == scheme

    def test_tags_of_no_scheme_are_told_of(self, capsys):
        options = train_tagger.parse_options(["--train", "a", "--dev", "b"])
        assert train_tagger.choose_scheme(options, {"train": [(["word"], ["NOUN"])]}) is None
        assert "the tags fit no scheme (--scheme BIO says why not)" in capsys.readouterr().out

    def test_broken_tags_are_reported_for_the_parts_that_have_any(self, capsys):
        whole, broken = [(["a", "b"], ["B-X", "I-X"])], [(["a", "b"], ["O", "I-X"])]
        corpus = {"train": broken, "dev": whole, "test": broken}
        train_tagger.check_tags(corpus, train_tagger.Settings())
        parts = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
        assert parts == ["train", "test"]

    def test_options_override_the_quick_settings(self):
        options = train_tagger.parse_options(["--quick", "--epochs", "1", "--softmax"])
        settings = train_tagger.choose_settings(options)
        assert (settings.epochs, settings.softmax) == (1, True)
        assert settings.lstm_units == train_tagger.QUICK["lstm_units"]


@toys.masks_pass_concatenate
class TestConstrained:
    @pytest.mark.parametrize("constrain", [False, True])
    def test_even_untrained_all_that_it_tags_is_legal(self, small_corpus, constrain):
        settings = train_tagger.Settings(**SMALL, constrain=constrain)
        tag_names = train_tagger.collect_tag_names(small_corpus["train"])
        model = train_tagger.build_tagger(["to"], tag_names, settings)
        token_lists = [tokens for tokens, _ in small_corpus["dev"]]
        predicted = train_tagger.predict_tags(model, token_lists, tag_names)
        assert (report.count_illegal(predicted, "BIO") == 0) == constrain

    @pytest.mark.parametrize(
        ("tags", "constrain", "chosen"),
        [
            (["O", "I-X"], True, "allow"),
            (["B-X", "I-X"], True, "raise"),
            (["O", "I-X"], False, "raise"),
        ],
    )
    def test_broken_tags_to_learn_from_are_allowed_and_told_of(
        self, tags, constrain, chosen, capsys
    ):
        settings = train_tagger.Settings(constrain=constrain)
        sentences = [(["a", "b"], ["O", "O"]), (["a", "b"], tags)]
        assert train_tagger.choose_illegal_gold(sentences, settings) == chosen
        told = 'training: broken tags are taken for unknown (illegal_gold="allow")\n'
        assert capsys.readouterr().out == (told if chosen == "allow" else "")

    @pytest.mark.parametrize(
        ("content", "scheme", "message"),
        [
            (b"a\tNOUN\n", [], "train_tagger: no scheme fits all tag names"),
            (b"a\tI-X\n", ["--scheme", "BIO"], "no legal sequence of BIO .* holds .'I-X'."),
        ],
    )
    def test_tags_that_cannot_be_constrained_end_the_script(
        self, tmp_path, content, scheme, message
    ):
        path = str(write(tmp_path, content))
        with pytest.raises(SystemExit, match=message):
            train_tagger.main(["--train", path, "--dev", path, "--constrain", *scheme])

    def test_broken_tags_were_allowed_in_training(self, tagger):
        head = tagger[0].get_layer("tags")
        assert (head.scheme, head.illegal_gold) == ("BIO", "allow")

    def test_the_script_tells_of_broken_tags_legal_predictions_and_probabilities(
        self, tagger, small_corpus, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.setattr(train_tagger, "train_tagger", lambda *parts_and_settings: tagger)
        files = []
        for part, sentences in small_corpus.items():
            columns.write_columns(tmp_path / part, sentences)
            files += [f"--{part}", str(tmp_path / part)]
        train_tagger.main([*files, "--constrain"])
        first, *others = capsys.readouterr().out.splitlines()
        assert re.match(
            r"train: \d broken tags? in 1 of 64 sentences under IOB2; the first: ", first
        )
        assert "illegal tag sequences: 0 of 16 under IOB2" in others
        shown = others[others.index("dev: the sentences with the least certain entities") + 1 :]
        assert any(re.match(r"  [01]\.\d\d  [A-Z]+ +\w", line) for line in shown)

    def test_the_demo_compares_a_softmax_with_a_crf_that_knows_the_rules(
        self, tagger, small_corpus, tmp_path, monkeypatch, capsys
    ):
        trained = []

        def stand_in(train, dev, settings):
            trained.append((settings.softmax, settings.constrain))
            return tagger

        parts = {**small_corpus, "test": small_corpus["dev"]}
        monkeypatch.setattr(train_tagger, "generate_corpus", lambda: parts)
        monkeypatch.setattr(train_tagger, "train_tagger", stand_in)
        monkeypatch.setattr(keras_crf, "export_tagger", lambda *model, **names: None)
        monkeypatch.setattr(subprocess, "run", lambda *command, **options: None)
        demo.main(["--directory", str(tmp_path)])
        assert trained == [(True, False), (False, True)]
        printed = capsys.readouterr().out
        assert re.search(r"^CRF with rules  +[01]\.\d{4}  0 of 16$", printed, re.MULTILINE)
        assert "By construction, the CRF cannot break the rules of BIO." in printed


TOKENS = ["a", "flight", "from", "Rome", "to", "new", "york"]


def standard_input(content):
    return io.TextIOWrapper(io.BytesIO(content))


def tagger_of(dtype="string", **options):
    """An untrained model with a `CRFLayer` of these options at its end, or another layer."""
    words = keras.Input((None,), dtype=dtype, name="words")
    lookup = keras.layers.StringLookup(vocabulary=["a"], mask_token="")
    ids = lookup(words) if dtype == "string" else words
    features = keras.layers.Embedding(3, 2, mask_zero=True)(ids)
    head = keras_crf.CRFLayer(2, **options) if options else keras.layers.Dense(2, name="scores")
    return keras.Model(words, head(features))


class TestTaggingOfBadInput:
    @pytest.fixture(scope="class")
    def stand_in(self, tmp_path_factory):
        directory = str(tmp_path_factory.mktemp("stand_in") / "1")
        exports.Counting().export(directory)
        return directory

    def test_nothing_there(self, tmp_path):
        with pytest.raises(SystemExit, match="tag: no saved model and no export at nowhere"):
            tag.main(["nowhere", "hi"])
        with pytest.raises(SystemExit, match=r"tag: no export at .*: it holds no saved_model\.pb"):
            tag.main([str(tmp_path), "hi"])

    @pytest.mark.parametrize("name", ["read.me", "text.keras", "text.h5", "1/saved_model.pb"])
    @pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04hello", b"\x89HDF\r\n"])
    def test_a_file_that_is_no_model(self, tmp_path, name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        given = path.parent if "/" in name else path
        wrong = "the export at .*1 is broken: " if "/" in name else f".*{name} is no saved model: "
        with pytest.raises(SystemExit, match=f"tag: {wrong}"):
            tag.main([str(given), "hi"])

    @pytest.mark.parametrize(
        ("dtype", "options", "problem"),
        [
            ("int32", {"tag_names": ["O", "X"]}, r"its inputs are \['int32'\], and not one of str"),
            (
                "string",
                {"tag_names": None},
                "its layer 'crf_layer.*' has no tag_names, as CRFLayer",
            ),
            ("string", {}, "its last layer 'scores' is no CRFLayer.output_mode=.one_hot"),
            ("string", {"output_mode": "potentials"}, ".* is no CRFLayer.output_mode=.one_hot"),
        ],
    )
    def test_a_model_that_is_no_tagger_of_words(self, tmp_path, dtype, options, problem):
        path = str(tmp_path / "model.keras")
        tagger_of(dtype, **options).save(path)
        with pytest.raises(SystemExit, match=f"tag: the model at .* cannot tag words: {problem}"):
            tag.main([path, "hi"])

    def test_an_export_without_tag_names(self, tmp_path):
        stand_in = exports.Counting()
        specs = stand_in.tags.input_signature
        ids = tf.function(lambda words, lengths: {"tag_ids": lengths}, input_signature=specs)
        tf.saved_model.save(stand_in, str(tmp_path), signatures=ids)
        message = (
            r"tag: the export at .* takes lengths \(int32\), words \(string\) and gives tag_ids; "
            "needed is one that takes words .* and gives tags; tags come with export_tagger.model, "
            "directory, tag_names=...."
        )
        with pytest.raises(SystemExit, match=message):
            tag.main([str(tmp_path), "hi"])

    def test_a_saved_model_without_signatures(self, tmp_path):
        tf.saved_model.save(tf.Module(), str(tmp_path))
        with pytest.raises(SystemExit, match=r"has the signatures \[\]; needed is serving_default"):
            tag.main([str(tmp_path), "hi"])

    def test_bytes_that_are_not_utf_8(self, stand_in, monkeypatch, capsys):
        monkeypatch.setattr(sys, "stdin", standard_input("\ufeffa bc\n".encode() + b"\xe3o\n"))
        with pytest.raises(
            SystemExit, match=r"tag: standard input:2: not UTF-8 \(byte 0xe3 at position 0\)"
        ):
            tag.main([stand_in])
        assert capsys.readouterr().out == "a\t1\nbc\t3\n\n"
        with pytest.raises(SystemExit, match="tag: the text:1: not UTF-8"):
            tag.main([stand_in, "hi", os.fsdecode(b"\xe3o")])

    @pytest.mark.parametrize("line", [b"EU\tNNP\tB-ORG", b"rejects\tO ", b"-DOCSTART- -X- O O"])
    def test_a_column_file_is_not_taken_for_text(self, stand_in, monkeypatch, line):
        monkeypatch.setattr(sys, "stdin", standard_input(b"a\n" + line + b"\n"))
        with pytest.raises(SystemExit, match="tag: standard input:2: a line of a column file, wh"):
            tag.main([stand_in])


@toys.masks_pass_concatenate
class TestTagging:
    @pytest.fixture(scope="class")
    def saved(self, tagger, tmp_path_factory):
        path = tmp_path_factory.mktemp("saved") / "tagger.keras"
        tagger[0].save(path)
        return path

    @pytest.fixture(scope="class")
    def exported(self, tagger, tmp_path_factory):
        directory = tmp_path_factory.mktemp("exported") / "1"
        keras_crf.export_tagger(tagger[0], str(directory))
        return directory

    def test_a_saved_model_tags_as_before(self, tagger, saved, capsys):
        expected = train_tagger.predict_tags(tagger[0], [TOKENS], tagger[1])[0]
        tag.main([str(saved), *TOKENS])
        rows = [line.split("\t") for line in capsys.readouterr().out.strip().splitlines()]
        assert rows == [list(row) for row in zip(TOKENS, expected, strict=True)]

    @pytest.mark.slow
    def test_an_export_tags_the_same(self, saved, exported, monkeypatch, capsys):
        monkeypatch.setattr(sys, "stdin", standard_input(b"a flight\n\nto Rome\n"))
        tag.main([str(exported)])
        blocks = capsys.readouterr().out.strip().split("\n\n")
        model_tag = tag.load_tagger(saved)
        for block, tokens in zip(blocks, (["a", "flight"], ["to", "Rome"]), strict=True):
            rows = [line.split("\t") for line in block.splitlines()]
            assert [tuple(row[:2]) for row in rows] == model_tag(tokens)
            assert all(0 <= float(row[2]) <= 1 for row in rows)

    @pytest.mark.slow
    def test_the_export_runs_without_the_library(self, exported):
        command = [sys.executable, ROOT / "savedmodel_demo" / "run.py", exported]
        run = subprocess.run([*command, "to Rome"], capture_output=True, text=True, check=True)
        assert "Rome" in run.stdout
        assert "log-probability of these tags: -" in run.stdout

    @pytest.mark.slow
    def test_training_goes_on_after_loading(self, saved, small_corpus, tagger):
        model = keras.models.load_model(saved)
        batches = train_tagger.training_batches(
            small_corpus["train"], tagger[1], train_tagger.Settings()
        )
        first, *_ = model.evaluate(batches, verbose=0)
        model.fit(batches, epochs=3, shuffle=False, verbose=0)
        assert model.evaluate(batches, verbose=0)[0] < first


def test_the_hidden_markov_model_as_a_crf(capsys):
    hmm_as_crf.main()
    printed = capsys.readouterr().out
    for line in (
        "P(red, white, red) = 0.130218",
        "best: boxes 3 3 3, P(boxes, colours) = 0.0147",
        "exp(log_partition) = 0.130218",
        "argmax = boxes 3 3 3, exp(score) = 0.0147",
        "KL divergence 0.0000",
        "-2 0 2 4 6 8 10 degrees: cold cold cold cold cold hot hot",
    ):
        assert line in printed
